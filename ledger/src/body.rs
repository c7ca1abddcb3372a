//! What a ledger stores of one record: its bytes, the form of the bytes, and who caused it.
//!
//! Both the real ledger and the simulated one store bodies, and the chain covers them. A record is written
//! packed ([`crate::packed`]). The records of a ledger that format 1 began are JSON texts, which have their causer
//! inside, as the field `from`; they are read as they are, for as long as they are kept.
//!
//! Left out: where the bodies are kept, and the chain.

use coalloc_protocol::{CausedRecord, Causer, ProvenPeer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::packed::{self, PackedError};

/// A body on its way into a ledger, or a simulated disk's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedBody {
    /// The packed record.
    pub(crate) record: Vec<u8>,
    /// Its packed causer; `None` if the node itself caused it.
    pub(crate) causer: Option<Vec<u8>>,
}

impl OwnedBody {
    /// The body of a record.
    ///
    /// # Errors
    /// [`BodyError`] when the record has no packed form.
    pub fn new<R: Serialize>(caused: CausedRecord<'_, R>) -> Result<Self, BodyError> {
        let causer = match caused.by {
            Causer::Itself => None,
            Causer::Peer(peer) => Some(packed::pack(peer.as_ref())?),
        };
        Ok(Self { record: packed::pack(caused.record)?, causer })
    }

    /// The same, to be read.
    #[must_use]
    pub fn as_body(&self) -> Body<'_> {
        Body { record: StoredRecord::Packed(&self.record), causer: self.causer.as_deref() }
    }
}

/// A record as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Body<'a> {
    pub(crate) record: StoredRecord<'a>,
    /// The packed causer of a packed record; `None` if the node itself caused it.
    pub(crate) causer: Option<&'a [u8]>,
}

/// The bytes of a record, in one of two forms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StoredRecord<'a> {
    /// JSON, as format 1 wrote it.
    Json(&'a str),
    /// Packed CBOR.
    Packed(&'a [u8]),
}

/// Why a record is not understood.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// A record of format 1 is not the JSON of such a record.
    #[error("its JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A record is not the Packed CBOR of such a record.
    #[error("its packed form: {0}")]
    Packed(#[from] PackedError),
}

/// What a record of format 1 has beside the record.
#[derive(Deserialize)]
struct Provenance {
    #[serde(default)]
    from: Option<ProvenPeer>,
}

impl Body<'_> {
    /// The record.
    ///
    /// # Errors
    /// [`BodyError`] when it is no such record.
    pub fn record<R: DeserializeOwned>(self) -> Result<R, BodyError> {
        match self.record {
            StoredRecord::Json(text) => Ok(serde_json::from_str(text)?),
            StoredRecord::Packed(bytes) => Ok(packed::unpack(bytes)?),
        }
    }

    /// Who caused the record; `None` if the node itself did.
    ///
    /// # Errors
    /// [`BodyError`] when the causer cannot be read.
    pub fn causer(self) -> Result<Option<ProvenPeer>, BodyError> {
        match (self.record, self.causer) {
            (StoredRecord::Json(text), _) => Ok(serde_json::from_str::<Provenance>(text)?.from),
            (StoredRecord::Packed(_), causer) => Ok(causer.map(packed::unpack).transpose()?),
        }
    }

    /// The record as JSON for people and programs: its own fields, in the order in which they were written, and
    /// `from` with its causer, unless that is the node itself.
    ///
    /// # Errors
    /// [`BodyError`] when it cannot be read.
    pub fn to_json(self) -> Result<String, BodyError> {
        let mut json = match self.record {
            StoredRecord::Json(text) => return Ok(text.to_owned()),
            StoredRecord::Packed(bytes) => packed::to_json(bytes)?,
        };
        if let Some(causer) = self.causer
            && json.pop() == Some('}')
        {
            let comma = if json.ends_with('{') { "" } else { "," };
            json.push_str(&format!("{comma}\"from\":{}}}", packed::to_json(causer)?));
        }
        Ok(json)
    }

    /// The bytes of the record.
    pub(crate) const fn bytes(&self) -> &[u8] {
        match self.record {
            StoredRecord::Json(text) => text.as_bytes(),
            StoredRecord::Packed(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "record", rename_all = "snake_case")]
    enum Sample {
        Made { at: i64 },
    }

    fn alice() -> ProvenPeer {
        ProvenPeer {
            peer: "spiffe://grid/coalloc/user/alice".to_owned(),
            issuer: Some("CN=grid".to_owned()),
            subject: Some("00ff".to_owned()),
        }
    }

    #[test]
    fn a_body_is_read_back_and_shown_as_format_1_wrote_it() {
        let record = Sample::Made { at: 7 };
        let own = OwnedBody::new(CausedRecord::from(&record)).unwrap();
        let by = Causer::peer(alice());
        let caused = OwnedBody::new(CausedRecord { record: &record, by: &by }).unwrap();
        let from = r#""from":{"peer":"spiffe://grid/coalloc/user/alice","issuer":"CN=grid","subject":"00ff"}"#;
        let texts = [
            r#"{"record":"made","at":7}"#.to_owned(),
            format!(r#"{{"record":"made","at":7,{from}}}"#),
        ];
        for ((body, text), causer) in [own, caused].iter().zip(&texts).zip([None, Some(alice())]) {
            let format_1 = Body { record: StoredRecord::Json(text), causer: None };
            for body in [body.as_body(), format_1] {
                assert_eq!(body.record::<Sample>().unwrap(), record);
                assert_eq!(body.causer().unwrap(), causer);
                assert_eq!(&body.to_json().unwrap(), text);
            }
        }
    }
}
