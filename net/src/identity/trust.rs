//! Which certification authorities are believed, each for its own domain only.
//!
//! A certificate is verified against the authorities of the domain that its identity names, and against no others.
//! What an authority has revoked is looked up in its domain's lists, for every certificate of the chain; while a domain
//! has a list, a certificate whose issuer has none is not believed.
//!
//! Left out: fetching lists and authorities from elsewhere (they come as files).

use std::collections::BTreeMap;
use std::path::Path;

use coalloc_common::{TrustDomain, limits};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, TrustAnchor, UnixTime};
use webpki::{CertRevocationList, EndEntityCert, KeyUsage, OwnedCertRevocationList};

use super::certificate::CertificateOwner;
use super::{Disbelief, IdentityError};

/// How the name of a file with authorities ends, after the name of their domain.
const AUTHORITIES: &str = ".pem";
/// How the name of a file with lists of what was revoked ends.
const REVOCATIONS: &str = ".crl.pem";

/// What a certificate is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// By whoever connects.
    Client,
    /// By whoever is connected to.
    Server,
}

/// Everybody who is believed; see the module's text.
#[derive(Debug, Default)]
pub struct Trust {
    domains: BTreeMap<TrustDomain, TrustedDomain>,
}

#[derive(Debug, Default)]
struct TrustedDomain {
    authorities: Vec<TrustAnchor<'static>>,
    revocations: Vec<CertRevocationList<'static>>,
}

impl Trust {
    /// Reads a folder with a file `DOMAIN.pem`, and perhaps a file `DOMAIN.crl.pem`, for each domain.
    ///
    /// # Errors
    /// When a file cannot be read or has anything in it that is not what it should be. Nothing is skipped, because an
    /// authority that is missing turns away a whole domain, and a list that is missing lets in who was revoked.
    pub fn read(folder: &Path) -> Result<Self, IdentityError> {
        let unreadable = |source| IdentityError::Read { path: folder.to_owned(), source };
        let mut trust = Self::default();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                return Err(IdentityError::content(&path, "the name of the file is not readable"));
            };
            // Editors and secret mounts keep files of their own beside these.
            if name.starts_with('.') {
                continue;
            }
            if let Some(domain) = name.strip_suffix(REVOCATIONS) {
                trust.of(domain, &path)?.revocations = revocations(&path)?;
            } else if let Some(domain) = name.strip_suffix(AUTHORITIES) {
                trust.of(domain, &path)?.authorities = authorities(&path)?;
            } else {
                let problem = "neither DOMAIN.pem (authorities) nor DOMAIN.crl.pem (what they have \
                               revoked)";
                return Err(IdentityError::content(&path, problem));
            }
        }
        for (domain, trusted) in &trust.domains {
            if trusted.authorities.is_empty() {
                let path = folder.join(format!("{domain}{REVOCATIONS}"));
                let problem = format!("there is no {domain}{AUTHORITIES} beside this list");
                return Err(IdentityError::content(&path, problem));
            }
        }
        Ok(trust)
    }

    fn of(&mut self, domain: &str, path: &Path) -> Result<&mut TrustedDomain, IdentityError> {
        let domain = TrustDomain::parse("the name of the file", domain)
            .map_err(|error| IdentityError::content(path, error.to_string()))?;
        if self.domains.len() >= limits::TRUST_DOMAINS_MAX && !self.domains.contains_key(&domain) {
            let problem =
                format!("one domain too many; at most {} are allowed", limits::TRUST_DOMAINS_MAX);
            return Err(IdentityError::content(path, problem));
        }
        Ok(self.domains.entry(domain).or_default())
    }

    /// The domains that are believed.
    pub fn domains(&self) -> impl Iterator<Item = &TrustDomain> {
        self.domains.keys()
    }

    /// Who the owner of a certificate is, if the authorities of the owner's domain vouch for it now.
    ///
    /// # Errors
    /// [`Disbelief`].
    pub fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        used: Use,
        now: UnixTime,
    ) -> Result<CertificateOwner, Disbelief> {
        let owner = CertificateOwner::read(certificate)?;
        let domain = &owner.identity.domain;
        let trusted = self.domains.get(domain);
        let trusted = trusted.ok_or_else(|| Disbelief::UnknownDomain(domain.clone()))?;
        trusted
            .verify(certificate, intermediates, used, now)
            .map_err(|reason| Disbelief::Invalid { identity: owner.identity.clone(), reason })?;
        Ok(owner)
    }

    /// Who the owner of a certificate is, if the authorities of the owner's domain vouched for it at a time in the past.
    /// A certificate that was revoked later was good then.
    ///
    /// # Errors
    /// [`Disbelief`].
    pub fn verify_past(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        used: Use,
        at: UnixTime,
    ) -> Result<CertificateOwner, Disbelief> {
        let strict = self.verify(certificate, intermediates, used, at);
        let Err(Disbelief::Invalid { identity, reason: webpki::Error::CertRevoked }) = strict
        else {
            return strict;
        };
        let owner = CertificateOwner::read(certificate)?;
        let chain = std::iter::once(certificate).chain(intermediates);
        // `verify` has found the domain.
        let without_lists = self.domains.get(&identity.domain).map(|trusted| {
            if trusted.were_revoked(chain, at)? {
                return Err(webpki::Error::CertRevoked);
            }
            trusted.verify_with(&[], certificate, intermediates, used, at)
        });
        match without_lists {
            Some(Ok(())) => Ok(owner),
            Some(Err(reason)) => Err(Disbelief::Invalid { identity, reason }),
            None => Err(Disbelief::UnknownDomain(identity.domain)),
        }
    }
}

impl TrustedDomain {
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        used: Use,
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let lists: Vec<&CertRevocationList<'_>> = self.revocations.iter().collect();
        self.verify_with(&lists, certificate, intermediates, used, now)
    }

    /// Whether a list says of any of these certificates that it was revoked at a time or before.
    fn were_revoked<'a>(
        &self,
        chain: impl Iterator<Item = &'a CertificateDer<'a>>,
        at: UnixTime,
    ) -> Result<bool, webpki::Error> {
        for certificate in chain {
            let parsed = EndEntityCert::try_from(certificate)?;
            for list in self.revocations.iter().filter(|list| list.issuer() == parsed.issuer()) {
                let revoked = list.find_serial(parsed.serial())?;
                if revoked.is_some_and(|revoked| revoked.revocation_date.as_secs() <= at.as_secs())
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn verify_with(
        &self,
        lists: &[&CertRevocationList<'_>],
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        used: Use,
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let parsed = EndEntityCert::try_from(certificate)?;
        // Without a list nothing is revoked. With one, the defaults are the strict ones: the whole chain, and a
        // certificate of which no list tells is refused.
        let revocation = webpki::RevocationOptionsBuilder::new(lists).ok().map(|it| it.build());
        let usage = match used {
            Use::Client => KeyUsage::client_auth(),
            Use::Server => KeyUsage::server_auth(),
        };
        let algorithms = algorithms().all;
        parsed
            .verify_for_usage(
                algorithms,
                &self.authorities,
                intermediates,
                now,
                usage,
                revocation,
                None,
            )
            .map(drop)
    }
}

/// The signatures that are understood.
pub(crate) fn algorithms() -> WebPkiSupportedAlgorithms {
    rustls::crypto::ring::default_provider().signature_verification_algorithms
}

fn authorities(path: &Path) -> Result<Vec<TrustAnchor<'static>>, IdentityError> {
    let bad = |error: &dyn std::fmt::Display| IdentityError::content(path, error.to_string());
    let mut anchors = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&read(path)?) {
        let certificate = certificate.map_err(|error| bad(&error))?;
        let anchor = webpki::anchor_from_trusted_cert(&certificate);
        anchors.push(anchor.map_err(|error| bad(&error))?.to_owned());
    }
    if anchors.is_empty() {
        return Err(bad(&"there is no certificate in it"));
    }
    Ok(anchors)
}

fn revocations(path: &Path) -> Result<Vec<CertRevocationList<'static>>, IdentityError> {
    let bad = |error: &dyn std::fmt::Display| IdentityError::content(path, error.to_string());
    let mut lists = Vec::new();
    for list in CertificateRevocationListDer::pem_slice_iter(&read(path)?) {
        let list = list.map_err(|error| bad(&error))?;
        let list = OwnedCertRevocationList::from_der(&list).map_err(|error| bad(&error))?;
        lists.push(list.into());
    }
    if lists.is_empty() {
        return Err(bad(&"there is no list of revoked certificates in it"));
    }
    Ok(lists)
}

/// Reads a file of an identity's folder.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, IdentityError> {
    let unreadable = |source| IdentityError::Read { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > limits::IDENTITY_FILE_BYTES_MAX {
        let most = limits::IDENTITY_FILE_BYTES_MAX;
        return Err(IdentityError::content(
            path,
            format!("{length} bytes; at most {most} are read"),
        ));
    }
    std::fs::read(path).map_err(unreadable)
}
