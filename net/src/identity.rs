//! Who is at the other end of a connection, proven by certificates over TLS 1.3.
//!
//! * [`certificate`]: what a certificate says of its owner. Exactly one identity, or it is refused.
//! * [`trust`]: which certification authorities are believed. An authority speaks for its own domain only.
//! * [`store`]: the folder with a daemon's certificate, key and trust, read again whenever its files change.
//! * [`server`] and [`client`]: the two ends of a TLS connection. [`settings`]: what a configuration says of all this.
//!
//! rustls does the cryptography. The verifiers are our own, because the usual ones compare host names and know only one
//! set of authorities: with two authorities in one set, each could vouch for the names of the other's domain.
//!
//! Left out: what an identity may do ([`crate::authorization`]), and how certificates are made (`coalloc certs`).
//! Source: docs/adr/0042-identity.md; SPIFFE X509-SVID.

pub mod certificate;
pub mod client;
pub mod server;
pub mod settings;
pub mod store;
pub mod trust;

use std::path::{Path, PathBuf};

use coalloc_common::{Identity, TrustDomain};

/// Why a certificate is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disbelief {
    /// It cannot be read, or does not state exactly one identity.
    #[error("the certificate states no usable identity: {0}")]
    NoIdentity(String),
    /// No authority of its domain is believed.
    #[error("no certification authority of the domain {0} is believed here")]
    UnknownDomain(TrustDomain),
    /// The authorities of its domain do not vouch for it.
    #[error("the certificate of {identity} is not valid: {}", words(reason))]
    Invalid {
        /// The identity that it claims.
        identity: Identity,
        /// What is wrong with it.
        reason: webpki::Error,
    },
    /// It is valid, but somebody else was expected.
    #[error("{found} answers where {expected} was expected")]
    Unexpected {
        /// Who was expected, for people.
        expected: String,
        /// Who answers.
        found: Identity,
    },
}

/// What is wrong with a certificate, for people. The library has only the names of its variants.
fn words(reason: &webpki::Error) -> String {
    let words = match reason {
        webpki::Error::CertExpired { .. } => "it has ended",
        webpki::Error::CertNotValidYet { .. } => "it is not valid yet",
        webpki::Error::CertRevoked => "it was revoked",
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            "no authority that is believed for its domain has issued it"
        }
        webpki::Error::UnknownRevocationStatus => "no list says whether its issuer has revoked it",
        _ => return reason.to_string(),
    };
    words.to_owned()
}

/// Why the folder of an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file or folder cannot be read.
    #[error("{path} cannot be read: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file does not have what it should have.
    #[error("{path}: {problem}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl IdentityError {
    fn content(path: &Path, problem: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), problem: problem.into() }
    }
}

#[cfg(test)]
pub(crate) mod tests;
