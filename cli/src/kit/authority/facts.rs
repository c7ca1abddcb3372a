//! What is in PEM files: certificates, lists of revoked certificates and keys, of Coalloc or of others.
//!
//! All text out of a certificate is escaped, because whoever made it could write anything into it.
//!
//! Left out: whether a daemon would believe a certificate. That is decided by its own trust, at its own time
//! (`coalloc_net::identity`).

use std::path::Path;

use coalloc_common::{Identity, Time};
use rcgen::{KeyPair, PublicKeyData as _};
use x509_parser::error::X509Error;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::{ASN1Time, CertificateRevocationList, X509Certificate};
use x509_parser::x509::X509Name;
use x509_parser::{parse_x509_certificate, parse_x509_crl};

use super::error::AuthorityError;
use super::files;
use super::host::HostName;
use super::record::serial_text;

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Whose certificate it is, or why it states no identity.
    pub identity: Result<Identity, String>,
    /// The host names in it.
    pub hosts: Vec<HostName>,
    /// True for the certificate of an authority.
    pub authority: bool,
    /// The owner's name, escaped. The certificates of Coalloc's identities have none.
    pub subject: String,
    /// The name of the authority that issued it, escaped.
    pub issuer: String,
    /// Its serial number: hexadecimal digits in lower case.
    pub serial: String,
    /// From when on it is valid.
    pub not_before: Time,
    /// Until when it is valid.
    pub not_after: Time,
    der: Vec<u8>,
}

impl CertificateFacts {
    fn read(der: &[u8]) -> Result<Self, String> {
        let certificate = certificate(der)?;
        Ok(Self {
            identity: identity(&certificate),
            hosts: hosts(&certificate),
            authority: certificate.is_ca(),
            subject: name(certificate.subject()),
            issuer: name(certificate.issuer()),
            serial: serial_text(certificate.raw_serial()),
            not_before: time(certificate.validity().not_before),
            not_after: time(certificate.validity().not_after),
            der: der.to_owned(),
        })
    }

    /// Whether this authority has signed a certificate; `None` when the kind of signature is unknown here.
    #[must_use]
    pub fn has_signed(&self, other: &Self) -> Option<bool> {
        let (own, other) = (certificate(&self.der).ok()?, certificate(&other.der).ok()?);
        if own.subject() != other.issuer() {
            return Some(false);
        }
        judged(other.verify_signature(Some(own.public_key())))
    }

    /// Whether this authority has signed a list; `None` when the kind of signature is unknown here.
    #[must_use]
    pub fn has_signed_list(&self, other: &ListFacts) -> Option<bool> {
        let (own, other) = (certificate(&self.der).ok()?, list(&other.der).ok()?);
        if own.subject() != other.issuer() {
            return Some(false);
        }
        judged(other.verify_signature(own.public_key()))
    }

    /// The identifier of the owner's key that issued certificates and lists refer to.
    pub(super) fn key_identifier(&self) -> Option<Vec<u8>> {
        let certificate = certificate(&self.der).ok()?;
        certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_owned()),
            _ => None,
        })
    }

    /// Whether a key belongs to the certificate.
    ///
    /// # Errors
    /// When the key cannot be read.
    pub fn has_key(&self, key_pem: &str) -> Result<bool, String> {
        let key = KeyPair::from_pem(key_pem).map_err(|error| error.to_string())?;
        let certificate = certificate(&self.der)?;
        Ok(*key.der_bytes() == *certificate.public_key().subject_public_key.data)
    }
}

/// What a list of revoked certificates says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFacts {
    /// The name of the authority that issued it, escaped.
    pub issuer: String,
    /// Its number, if it fits 64 bits: a later list has a greater one.
    pub number: Option<u64>,
    /// When the next list is due.
    pub next_update: Option<Time>,
    /// The serial numbers of the revoked certificates, and when they were revoked.
    pub revoked: Vec<(String, Time)>,
    der: Vec<u8>,
}

impl ListFacts {
    fn read(der: &[u8]) -> Result<Self, String> {
        let list = list(der)?;
        let revoked = list.iter_revoked_certificates();
        Ok(Self {
            issuer: name(list.issuer()),
            number: list.crl_number().and_then(|number| u64::try_from(number).ok()),
            next_update: list.next_update().map(time),
            revoked: revoked
                .map(|one| (serial_text(one.raw_serial()), time(one.revocation_date)))
                .collect(),
            der: der.to_owned(),
        })
    }

    /// When a certificate was revoked, if it is in the list.
    #[must_use]
    pub fn revoked_at(&self, serial: &str) -> Option<Time> {
        self.revoked.iter().find(|(one, _)| one == serial).map(|(_, at)| *at)
    }
}

/// What is in a PEM file, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PemFacts {
    /// The certificates.
    pub certificates: Vec<CertificateFacts>,
    /// The lists of revoked certificates.
    pub lists: Vec<ListFacts>,
    /// How many keys there are.
    pub keys: usize,
}

impl PemFacts {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or anything in it is not what its label says.
    pub fn read(path: &Path) -> Result<Self, AuthorityError> {
        Self::of(&files::read(path)?).map_err(|problem| AuthorityError::content(path, problem))
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// When anything in it is not what its label says.
    pub fn of(bytes: &[u8]) -> Result<Self, String> {
        let mut facts = Self::default();
        for block in Pem::iter_from_buffer(bytes) {
            let block = block.map_err(|error| format!("it is not PEM: {error}"))?;
            match block.label.as_str() {
                "CERTIFICATE" => facts.certificates.push(CertificateFacts::read(&block.contents)?),
                "X509 CRL" => facts.lists.push(ListFacts::read(&block.contents)?),
                label if label.ends_with("PRIVATE KEY") => facts.keys += 1,
                label => {
                    let label = label.escape_debug();
                    return Err(format!("a block {label} is neither certificate, list nor key"));
                }
            }
        }
        Ok(facts)
    }

    /// The first certificate, which is the owner's.
    ///
    /// # Errors
    /// When there is none; `path` is the file that was read.
    pub fn first(&self, path: &Path) -> Result<&CertificateFacts, AuthorityError> {
        let none = || AuthorityError::content(path, "there is no certificate in it");
        self.certificates.first().ok_or_else(none)
    }
}

fn certificate(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match parse_x509_certificate(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err("something follows the certificate".to_owned()),
        Err(error) => Err(format!("the certificate cannot be read: {error}")),
    }
}

fn list(der: &[u8]) -> Result<CertificateRevocationList<'_>, String> {
    match parse_x509_crl(der) {
        Ok(([], list)) => Ok(list),
        Ok(_) => Err("something follows the list of revoked certificates".to_owned()),
        Err(error) => Err(format!("the list of revoked certificates cannot be read: {error}")),
    }
}

/// The only URI among the alternative names.
fn identity(certificate: &X509Certificate<'_>) -> Result<Identity, String> {
    let names = certificate
        .subject_alternative_name()
        .map_err(|error| format!("its alternative names cannot be read: {error}"))?;
    let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
    let uri = |name: &GeneralName<'_>| match name {
        GeneralName::URI(uri) => Some((*uri).to_owned()),
        _ => None,
    };
    let uris: Vec<String> = names.iter().filter_map(uri).collect();
    let [uri] = &uris[..] else {
        return Err(format!("it has {} URIs among its names instead of one", uris.len()));
    };
    Identity::parse("its URI", uri).map_err(|error| error.to_string())
}

/// The host names in a certificate; those that cannot be read are left out.
fn hosts(certificate: &X509Certificate<'_>) -> Vec<HostName> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let host = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => HostName::parse("host", name).ok(),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => Some(HostName::Ip(<[u8; 4]>::try_from(*bytes).ok()?.into())),
            16 => Some(HostName::Ip(<[u8; 16]>::try_from(*bytes).ok()?.into())),
            _ => None,
        },
        _ => None,
    };
    names.value.general_names.iter().filter_map(host).collect()
}

fn judged(verified: Result<(), X509Error>) -> Option<bool> {
    match verified {
        Ok(()) => Some(true),
        Err(X509Error::SignatureUnsupportedAlgorithm) => None,
        Err(_) => Some(false),
    }
}

fn name(name: &X509Name<'_>) -> String {
    name.to_string().escape_debug().to_string()
}

fn time(time: ASN1Time) -> Time {
    Time::from_us(time.timestamp().saturating_mul(1_000_000))
}
