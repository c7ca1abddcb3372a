//! Signed tips: what a daemon says, with its own key, of the end of its ledger. Whoever keeps them can show later that
//! the ledger was changed or cut after it was signed.
//!
//! The signature is over [`CONTEXT`] and the serialised statement, which travels as it was signed. So nobody has to
//! serialise it again to verify it, and two statements never have the same bytes. The key is that of the daemon's
//! certificate, which TLS uses, too. A signature of one is never valid for the other: what TLS 1.3 signs begins with 64
//! spaces (RFC 8446, 4.4.3), certificates and lists begin with the byte 0x30, and no other version of TLS is spoken.
//!
//! The statement names its signer. Otherwise somebody could make a key under which the signature of another daemon is
//! valid, and claim the tip as its own.
//!
//! A tip is verified at the time at which it was signed. A certificate that has ended since, or was revoked since, was
//! good then. Whoever has stolen a key can choose the time, however: tips count because an auditor receives and verifies
//! them while the certificate is in force.
//!
//! Left out: where tips are kept, and how they are compared with a ledger (`coalloc audit --evidence`). Source:
//! docs/adr/0042-identity.md.

pub mod service;

use coalloc_common::{Identity, InvalidField, Role, Time, limits};
use coalloc_ledger::tip::Tip;
use coalloc_proto::v1;
use prost::Message as _;
use rustls::SignatureScheme;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use crate::identity::Disbelief;
use crate::identity::certificate::CertificateOwner;
use crate::identity::trust::{Trust, Use, algorithms};

/// What is signed before the statement. Nothing else that a daemon signs begins so.
pub const CONTEXT: &[u8] = b"coalloc ledger tip, version 1\n";

/// The schemes by which a tip may be signed: those of TLS 1.3.
const SCHEMES: [SignatureScheme; 6] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
];

/// Why a tip cannot be signed, or a signed tip is not believed.
#[derive(Debug, thiserror::Error)]
pub enum TipError {
    /// A part of it is not what it may be.
    #[error("it is not a signed tip: {0}")]
    Malformed(#[from] InvalidField),
    /// Its signer's certificate was not valid when it was signed.
    #[error("its signer is not believed: {0}")]
    Disbelieved(#[from] Disbelief),
    /// The signature does not fit.
    #[error("its signature is not one of {signer}: the statement or the signature was changed")]
    Forged {
        /// Who is said to have signed it.
        signer: Identity,
    },
    /// The statement is about the ledger of somebody else than its signer.
    #[error("{signer} has signed it, but it speaks for {claimed}")]
    OtherSigner {
        /// Whose certificate it is.
        signer: Identity,
        /// For whom the statement speaks.
        claimed: String,
    },
    /// The key of the daemon cannot sign it.
    #[error("the key cannot sign it: {0}")]
    Unsignable(String),
}

/// What a daemon says of its ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TipStatement {
    /// The ledger's last durable record, and the id with which its chain begins.
    pub tip: Tip,
    /// The id by which others know the ledger.
    pub ledger_id: String,
    /// The kind of the daemon: `nrm`, `crm` or `grc`.
    pub kind: String,
    /// The name of the daemon.
    pub name: String,
    /// Who signs.
    pub identity: Identity,
    /// When it was signed, by the daemon's clock.
    pub signed: Time,
    /// The challenge of whoever has asked.
    pub challenge: Vec<u8>,
}

/// A signed tip that is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedTip {
    /// What was signed.
    pub statement: TipStatement,
    /// Who has signed it, as the certificate says.
    pub signer: CertificateOwner,
}

impl TipStatement {
    /// Signs the statement with the key of a certificate.
    ///
    /// # Errors
    /// [`TipError::Unsignable`] when no scheme of TLS 1.3 fits the key, or signing fails.
    pub fn sign(&self, certified: &CertifiedKey) -> Result<v1::SignedTip, TipError> {
        let statement = self.to_wire().encode_to_vec();
        let none = || TipError::Unsignable("no signature scheme of TLS 1.3 fits it".to_owned());
        let signer = certified.key.choose_scheme(&SCHEMES).ok_or_else(none)?;
        let signature = signer.sign(&signed_bytes(&statement));
        Ok(v1::SignedTip {
            statement,
            certificates: certified.cert.iter().map(|one| one.to_vec()).collect(),
            signature_scheme: u32::from(u16::from(signer.scheme())),
            signature: signature.map_err(|error| TipError::Unsignable(error.to_string()))?,
        })
    }

    fn to_wire(&self) -> v1::TipStatement {
        v1::TipStatement {
            chain_id: self.tip.ledger_id.clone(),
            ledger_id: self.ledger_id.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            identity: self.identity.to_string(),
            sequence: self.tip.sequence,
            hash: self.tip.hash.to_vec(),
            signed_us: self.signed.as_us(),
            challenge: self.challenge.clone(),
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, InvalidField> {
        let wire = v1::TipStatement::decode(bytes)
            .map_err(|error| InvalidField::new("statement", error, "a serialised TipStatement"))?;
        let digits = |text: &str| {
            text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        for (field, id) in
            [("statement.chain_id", &wire.chain_id), ("statement.ledger_id", &wire.ledger_id)]
        {
            if !digits(id) {
                let allowed = "32 of the characters 0-9 a-f";
                return Err(InvalidField::new(field, InvalidField::quoted(id), allowed));
            }
        }
        let hash = wire.hash.as_slice().try_into();
        let hash = hash.map_err(|_| too_long("statement.hash", wire.hash.len(), 32))?;
        if wire.signed_us < 0 {
            let allowed = "microseconds since 1970, not negative";
            return Err(InvalidField::new("statement.signed_us", wire.signed_us, allowed));
        }
        Ok(Self {
            tip: Tip { ledger_id: wire.chain_id, sequence: wire.sequence, hash },
            ledger_id: wire.ledger_id,
            identity: Identity::parse("statement.identity", &wire.identity)?,
            kind: wire.kind,
            name: wire.name,
            signed: Time::from_us(wire.signed_us),
            challenge: wire.challenge,
        })
    }

    /// Checks that the signer is the daemon whose ledger it is.
    fn check_signer(&self, signer: &Identity) -> Result<(), TipError> {
        let role = match self.kind.as_str() {
            "grc" => Some(Role::Coordinator),
            "nrm" | "crm" => Some(Role::ResourceManager),
            _ => None,
        };
        let claimed = if self.identity != *signer {
            self.identity.to_string()
        } else if role != Some(signer.role) || signer.name() != self.name {
            // Both texts are the signer's own.
            let (kind, name) = (InvalidField::quoted(&self.kind), InvalidField::quoted(&self.name));
            format!("{kind} {name}")
        } else {
            return Ok(());
        };
        Err(TipError::OtherSigner { signer: signer.clone(), claimed })
    }
}

/// Verifies a signed tip: the signature, the signer's certificate at the time of the tip, and that the signer is the
/// daemon whose ledger it is.
///
/// # Errors
/// [`TipError`] with the first thing that is wrong.
pub fn verify(tip: &v1::SignedTip, trust: &Trust) -> Result<VerifiedTip, TipError> {
    let chain = certificates(tip)?;
    let Some((certificate, issuers)) = chain.split_first() else {
        return Err(InvalidField::missing("certificates", "1 or more").into());
    };
    check_length("statement", &tip.statement, limits::TIP_STATEMENT_BYTES_MAX)?;
    check_length("signature", &tip.signature, limits::TIP_SIGNATURE_BYTES_MAX)?;
    let statement = TipStatement::parse(&tip.statement)?;
    // `parse` refuses negative times.
    let since = std::time::Duration::from_micros(statement.signed.as_us().unsigned_abs());
    let at = UnixTime::since_unix_epoch(since);
    let signer = trust.verify_past(certificate, issuers, Use::Server, at)?;
    let identity = &signer.identity;
    if !is_signed_by(tip, certificate)? {
        return Err(TipError::Forged { signer: identity.clone() });
    }
    statement.check_signer(identity)?;
    Ok(VerifiedTip { statement, signer })
}

/// The certificates of a signed tip, that of its signer first.
///
/// # Errors
/// [`InvalidField`] when there are too many, or one is too long.
pub fn certificates(tip: &v1::SignedTip) -> Result<Vec<CertificateDer<'_>>, InvalidField> {
    let (count, most) = (tip.certificates.len(), limits::TIP_CERTIFICATES_MAX);
    if count > most {
        return Err(InvalidField::new("certificates", count, format!("at most {most}")));
    }
    let one =
        |bytes: &'_ Vec<u8>| check_length("certificates", bytes, limits::TIP_CERTIFICATE_BYTES_MAX);
    tip.certificates.iter().try_for_each(one)?;
    Ok(tip.certificates.iter().map(|bytes| CertificateDer::from(bytes.as_slice())).collect())
}

fn is_signed_by(tip: &v1::SignedTip, certificate: &CertificateDer<'_>) -> Result<bool, TipError> {
    let scheme = u16::try_from(tip.signature_scheme).ok().map(SignatureScheme::from);
    let known = scheme.filter(|scheme| SCHEMES.contains(scheme));
    let mapping = algorithms().mapping;
    let algorithm = mapping.iter().find(|(scheme, _)| Some(*scheme) == known);
    // In TLS 1.3 a scheme is one algorithm: the first.
    let Some(algorithm) = algorithm.and_then(|(_, algorithms)| algorithms.first()) else {
        let allowed = "the number of a signature scheme of TLS 1.3 that is understood here";
        return Err(InvalidField::new("signature_scheme", tip.signature_scheme, allowed).into());
    };
    let parsed = EndEntityCert::try_from(certificate);
    let parsed = parsed.map_err(|error| Disbelief::NoIdentity(error.to_string()))?;
    let bytes = signed_bytes(&tip.statement);
    Ok(parsed.verify_signature(*algorithm, &bytes, &tip.signature).is_ok())
}

fn signed_bytes(statement: &[u8]) -> Vec<u8> {
    [CONTEXT, statement].concat()
}

fn check_length(field: &str, bytes: &[u8], most: usize) -> Result<(), InvalidField> {
    if bytes.len() <= most { Ok(()) } else { Err(too_long(field, bytes.len(), most)) }
}

fn too_long(field: &str, length: usize, most: usize) -> InvalidField {
    InvalidField::new(field, format!("{length} bytes"), format!("{most} bytes"))
}

#[cfg(test)]
mod tests;
