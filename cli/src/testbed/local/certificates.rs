//! The certificates of a federation on this machine: an authority for each domain, and an identity for each daemon and
//! for the operator who uses the federation.
//!
//! Every domain of the federation file has its own authority, as if it were another organisation; coordinators over
//! several domains are in the domain [`GRID`], and so is the operator. The certificates last for a day.
//!
//! Left out: certificates for longer than a demo (`coalloc certs`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use coalloc_common::{Identity, Role, TrustDomain};

use crate::kit::authority::folder::IdentityFolder;
use crate::kit::authority::{Authority, Validity};
use crate::kit::exit::Failure;

/// The domain of coordinators over several domains, and of the operator.
pub const GRID: &str = "grid";
/// The folder with the operator's identity, in the folder of the federation.
pub const OPERATOR: &str = "identities/operator";
/// How long the certificates last.
const LIFETIME: Duration = Duration::from_secs(24 * 3_600);

/// The authorities of a federation, and where their certificates go.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    now: SystemTime,
    authorities: BTreeMap<TrustDomain, Authority>,
}

impl Certificates {
    /// Makes an authority for each of the domains of a federation, by their names in the federation file, and for
    /// [`GRID`].
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn new<'a>(
        folder: &Path,
        domains: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Failure> {
        let (now, mut authorities) = (SystemTime::now(), BTreeMap::new());
        for domain in domains.into_iter().map(trust_domain).chain([trust_domain(GRID)]) {
            let domain = domain?;
            if let Entry::Vacant(place) = authorities.entry(domain) {
                let mut authority = Authority::create(place.key(), now)?;
                authority.save(&folder.join("authorities").join(place.key().as_str()), now)?;
                place.insert(authority);
            }
        }
        Ok(Self { folder: folder.to_owned(), now, authorities })
    }

    /// Issues an identity to a daemon, into the folder `identities/STEM`, which it returns relative to the folder of the
    /// federation. It believes all authorities of the federation.
    ///
    /// # Errors
    /// When a name cannot be part of an identity, or the files cannot be written.
    pub fn issue(&mut self, stem: &str, identity: &Identity) -> Result<PathBuf, Failure> {
        let missing = || Failure::internal(format!("{identity} has no authority"));
        let authority = self.authorities.get_mut(&identity.domain).ok_or_else(missing)?;
        let issued = authority.issue(identity, Validity::lasting(self.now, LIFETIME))?;
        authority
            .save(&self.folder.join("authorities").join(identity.domain.as_str()), self.now)?;
        let trusted: Vec<_> = self.authorities.values().map(Authority::trusted).collect();
        let relative = Path::new("identities").join(stem);
        IdentityFolder::at(&self.folder.join(&relative)).write(&issued, &trusted)?;
        Ok(relative)
    }
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
fn trust_domain(name: &str) -> Result<TrustDomain, Failure> {
    let plain = |c: char| {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '_' { c } else { '-' }
    };
    Ok(TrustDomain::parse("domain", &name.chars().map(plain).collect::<String>())?)
}
