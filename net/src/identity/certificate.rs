//! What a certificate says of its owner.
//!
//! A certificate has exactly one URI among its alternative names, which is the owner's identity. A certificate with two
//! URIs is refused, and not read as the first of the two: whoever checks the other one would see somebody else.
//!
//! Left out: whether the certificate is valid ([`super::trust`]).

use std::fmt;

use coalloc_common::{Identity, Time};
use coalloc_ledger::tip::hex;
use coalloc_protocol::{Causer, ProvenPeer};
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::Disbelief;

/// What is known of the owner of a certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateOwner {
    /// Who the owner is.
    pub identity: Identity,
    /// The name of the authority that issued the certificate, with everything escaped that is not plain text.
    pub issuer: String,
    /// SHA-256 of the whole certificate.
    pub digest: [u8; 32],
    /// From when on it is valid.
    pub not_before: Time,
    /// Until when it is valid.
    pub not_after: Time,
}

impl CertificateOwner {
    /// Reads a certificate.
    ///
    /// # Errors
    /// [`Disbelief::NoIdentity`] when it cannot be read or does not state exactly one identity.
    pub fn read(certificate: &CertificateDer<'_>) -> Result<Self, Disbelief> {
        let bad = |text: String| Disbelief::NoIdentity(text);
        let (rest, parsed) = X509Certificate::from_der(certificate)
            .map_err(|error| bad(format!("it cannot be read: {error}")))?;
        if !rest.is_empty() {
            return Err(bad("something follows the certificate".to_owned()));
        }
        let names = parsed
            .subject_alternative_name()
            .map_err(|error| bad(format!("its alternative names cannot be read: {error}")))?;
        let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let uris: Vec<&str> = names
            .iter()
            .filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None })
            .collect();
        let [uri] = uris[..] else {
            return Err(bad(format!("it has {} URIs among its names instead of one", uris.len())));
        };
        let identity = Identity::parse("its URI", uri).map_err(|error| bad(error.to_string()))?;
        let validity = parsed.validity();
        let at = |time: x509_parser::time::ASN1Time| {
            Time::from_us(time.timestamp().saturating_mul(1_000_000))
        };
        Ok(Self {
            identity,
            issuer: parsed.issuer().to_string().escape_debug().to_string(),
            digest: Sha256::digest(certificate).into(),
            not_before: at(validity.not_before),
            not_after: at(validity.not_after),
        })
    }
}

impl CertificateOwner {
    /// The owner, as the causer of what follows from its messages.
    #[must_use]
    pub fn causer(&self) -> Causer {
        Causer::peer(ProvenPeer {
            peer: self.identity.to_string(),
            issuer: Some(self.issuer.clone()),
            subject: Some(hex(&self.digest)),
        })
    }
}

impl fmt::Debug for CertificateOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} until {}", self.identity, self.not_after)
    }
}
