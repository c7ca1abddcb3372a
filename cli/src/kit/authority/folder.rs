//! The folder of an identity: what a daemon or a user points at.
//!
//! `certificate.pem` and `key.pem` are the identity's own, and `trust/DOMAIN.pem` and `trust/DOMAIN.crl.pem` are the
//! authorities that it believes and what they have revoked. A daemon watches its folder, so every file is replaced at
//! once. Certificate and key are two files, which a reader may see mismatched between two renames; the key goes first,
//! and all that takes time is done before.
//!
//! Left out: reading the folder as a daemon does (`coalloc_net::identity`).

use std::path::{Path, PathBuf};

use coalloc_common::{Identity, TrustDomain};

use super::error::AuthorityError;
use super::facts::{CertificateFacts, PemFacts};
use super::files::{self, Draft, Readers};
use super::{CERTIFICATE as AUTHORITY_CERTIFICATE, Issued, LIST as AUTHORITY_LIST, check_domain};

/// The file with the certificate.
pub const CERTIFICATE: &str = "certificate.pem";
/// The file with the certificate's key.
pub const KEY: &str = "key.pem";
/// The folder with the authorities that are believed.
pub const TRUST: &str = "trust";

/// A domain that is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedDomain {
    /// The domain.
    pub domain: TrustDomain,
    /// The certificates of its authorities.
    pub authorities_pem: String,
    /// What they have revoked. None: no list is known.
    pub list_pem: Option<String>,
}

impl TrustedDomain {
    /// Reads the authorities of a domain from a file or from an authority's folder. The list of what they have revoked
    /// is taken along: it lies beside a file `NAME.pem` as `NAME.crl.pem`.
    ///
    /// # Errors
    /// When a file cannot be read, has something else in it, or the list is not of one of these authorities.
    pub fn read(domain: &TrustDomain, path: &Path) -> Result<Self, AuthorityError> {
        check_domain(domain)?;
        let (authorities, list) = if path.is_dir() {
            (path.join(AUTHORITY_CERTIFICATE), path.join(AUTHORITY_LIST))
        } else {
            (path.to_owned(), path.with_extension("crl.pem"))
        };
        let facts = PemFacts::read(&authorities)?;
        facts.first(&authorities)?;
        if facts.keys > 0 || !facts.lists.is_empty() {
            let problem = "it has more in it than certificates of authorities";
            return Err(AuthorityError::content(&authorities, problem));
        }
        if facts.certificates.iter().any(|certificate| !certificate.authority) {
            let problem = "it has a certificate in it that is not of an authority";
            return Err(AuthorityError::content(&authorities, problem));
        }
        let list_pem = if list.exists() {
            let lists = PemFacts::read(&list)?.lists;
            let foreign = |one| {
                let signed = |by: &CertificateFacts| by.has_signed_list(one) != Some(false);
                !facts.certificates.iter().any(signed)
            };
            if lists.is_empty() || lists.iter().any(foreign) {
                let problem =
                    format!("it is no list of the authorities in {}", authorities.display());
                return Err(AuthorityError::content(&list, problem));
            }
            Some(files::read_text(&list)?)
        } else {
            None
        };
        let authorities_pem = files::read_text(&authorities)?;
        Ok(Self { domain: domain.clone(), authorities_pem, list_pem })
    }
}

/// The folder of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFolder {
    path: PathBuf,
}

impl IdentityFolder {
    /// The folder at a path, whether it is there or not.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that no identity is there yet.
    ///
    /// # Errors
    /// [`AuthorityError::Exists`].
    pub fn check_new(&self) -> Result<(), AuthorityError> {
        for name in [CERTIFICATE, KEY] {
            let path = self.path.join(name);
            // A link that leads nowhere is something, too.
            if path.symlink_metadata().is_ok() {
                let instead = "renew it with `coalloc certs renew`, or name another folder";
                return Err(AuthorityError::Exists { path, instead });
            }
        }
        Ok(())
    }

    /// Whose folder it is, and its certificate.
    ///
    /// # Errors
    /// When its certificate cannot be read, or states no identity.
    pub fn owner(&self) -> Result<(Identity, CertificateFacts), AuthorityError> {
        let path = self.path.join(CERTIFICATE);
        let facts = PemFacts::read(&path)?;
        let certificate = facts.first(&path)?.clone();
        let identity = certificate.identity.clone();
        let identity = identity.map_err(|problem| AuthorityError::content(&path, problem))?;
        Ok((identity, certificate))
    }

    /// Writes a certificate with its key, and the domains that are believed. What else is believed in the folder stays.
    ///
    /// # Errors
    /// When a file cannot be written. Then some files may be new; the same call puts it right.
    pub fn write(&self, issued: &Issued, trust: &[TrustedDomain]) -> Result<(), AuthorityError> {
        self.write_trust(trust)?;
        let draft =
            |name, text, readers| Draft::write(&self.path, self.path.join(name), text, readers);
        let key = draft(KEY, &issued.key_pem, Readers::Owner)?;
        let certificate = draft(CERTIFICATE, &issued.certificate_pem, Readers::All)?;
        key.place()?;
        certificate.place()?;
        files::sync(&self.path)
    }

    /// Writes domains that are believed; those that are not named stay as they are.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_trust(&self, trust: &[TrustedDomain]) -> Result<(), AuthorityError> {
        let folder = self.path.join(TRUST);
        files::make_folder(&folder)?;
        for one in trust {
            // Drafts stay out of the folder of trust, in which a daemon reads every file.
            let draft = |ending, text| {
                let path = folder.join(format!("{}{ending}", one.domain));
                Draft::write(&self.path, path, text, Readers::All)
            };
            let authorities = draft(".pem", &one.authorities_pem)?;
            let list = one.list_pem.as_ref().map(|list| draft(".crl.pem", list)).transpose()?;
            // A list without its authorities would be refused by a daemon.
            authorities.place()?;
            if let Some(list) = list {
                list.place()?;
            }
        }
        files::sync(&folder)
    }
}
