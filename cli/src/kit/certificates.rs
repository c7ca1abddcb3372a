//! The certificates of a federation whose files are in one folder: an authority for each domain, and identities for its
//! daemons and for those who use it.
//!
//! Every domain of the federation has its own authority, as if it were another organisation; coordinators over
//! several domains are in the domain [`GRID`], and so is the operator. The authorities are in the folder [`AUTHORITIES`] of
//! the federation, and the identities in the folder [`IDENTITIES`].
//!
//! Left out: certificates of other identities, and folders elsewhere (`coalloc certs`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use coalloc_common::{Identity, Role, TrustDomain};

use crate::kit::authority::folder::IdentityFolder;
use crate::kit::authority::host::HostName;
use crate::kit::authority::{self, Authority, Validity};
use crate::kit::exit::Failure;

/// The folder with a folder for each domain's authority.
pub const AUTHORITIES: &str = "authorities";
/// The folder with a folder for each identity.
pub const IDENTITIES: &str = "identities";
/// The domain of coordinators over several domains, and of the operator.
pub const GRID: &str = "grid";
/// The folder with the operator's identity, in the folder of the federation.
pub const OPERATOR: &str = "identities/operator";

/// The authorities of a federation, and where their certificates go.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    now: SystemTime,
    lifetime: Duration,
    authorities: BTreeMap<TrustDomain, Authority>,
}

impl Certificates {
    /// Makes an authority for each domain, unless it is there. The certificates that it issues last for `lifetime`.
    ///
    /// # Errors
    /// When the files cannot be read or written.
    pub fn new(
        folder: &Path,
        domains: impl IntoIterator<Item = TrustDomain>,
        lifetime: Duration,
    ) -> Result<Self, Failure> {
        let (now, mut authorities) = (SystemTime::now(), BTreeMap::new());
        for domain in domains {
            let Entry::Vacant(place) = authorities.entry(domain) else { continue };
            let at = folder.join(AUTHORITIES).join(place.key().as_str());
            let made = if at.join(authority::CERTIFICATE).exists() {
                Authority::load(&at)?
            } else {
                let mut made = Authority::create(place.key(), now)?;
                made.save(&at, now)?;
                made
            };
            place.insert(made);
        }
        Ok(Self { folder: folder.to_owned(), now, lifetime, authorities })
    }

    /// Issues an identity into the folder `identities/STEM`, which it returns relative to the folder of the federation.
    /// It believes all authorities of the federation.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn issue(
        &mut self,
        stem: &str,
        identity: &Identity,
        hosts: &[HostName],
    ) -> Result<PathBuf, Failure> {
        let missing = || Failure::internal(format!("{identity} has no authority"));
        let authority = self.authorities.get_mut(&identity.domain).ok_or_else(missing)?;
        let validity = Validity::lasting(self.now, self.lifetime);
        authority.forget_ended(self.now);
        let issued = authority.issue_with_hosts(identity, hosts, validity)?;
        authority.save(&self.folder.join(AUTHORITIES).join(identity.domain.as_str()), self.now)?;
        let trusted: Vec<_> = self.authorities.values().map(Authority::trusted).collect();
        let relative = Path::new(IDENTITIES).join(stem);
        IdentityFolder::at(&self.folder.join(&relative)).write(&issued, &trusted)?;
        Ok(relative)
    }
}

/// The names under which daemons of a federation are reached from the machine that it runs on.
///
/// # Errors
/// None; they are fixed.
pub fn local_hosts() -> Result<Vec<HostName>, Failure> {
    let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    Ok(HostName::parse_all("hosts", &hosts)?)
}

/// The identity of a coordinator or a resource manager in a domain of the federation file.
///
/// # Errors
/// When the name cannot be part of an identity.
pub fn identity(domain: &str, role: Role, name: &str) -> Result<Identity, Failure> {
    Ok(Identity::new("name", trust_domain(domain)?, role, name)?)
}

/// The identity of the operator.
///
/// # Errors
/// None; its parts are fixed.
pub fn operator() -> Result<Identity, Failure> {
    identity(GRID, Role::Operator, "operator")
}

/// A domain of the federation file in the form that the name of a trust domain has.
///
/// # Errors
/// When the name begins with a character that a trust domain cannot begin with.
pub fn trust_domain(name: &str) -> Result<TrustDomain, Failure> {
    let plain = |c: char| {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '_' { c } else { '-' }
    };
    Ok(TrustDomain::parse("domain", &name.chars().map(plain).collect::<String>())?)
}
