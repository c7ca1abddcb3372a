//! The identities of daemons in containers: which there are, and making and renewing their certificates in a folder.
//!
//! Left out: who may read the files, and taking them to the daemons.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use coalloc_common::Identity;
use coalloc_net::identity::store::IdentityStore;
use serde::{Deserialize, Serialize};

use crate::kit::authority::folder::IdentityFolder;
use crate::kit::authority::host::HostName;
use crate::kit::authority::time_of;
use crate::kit::certificates::{Certificates, IDENTITIES};
use crate::kit::exit::Failure;

/// An identity of a testbed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::testbed) struct PlannedIdentity {
    /// The identity, `spiffe://...`.
    pub(in crate::testbed) identity: String,
    /// The host names in its certificate.
    pub(in crate::testbed) hosts: Vec<String>,
}

/// Makes all certificates of a folder anew unless each of them is as planned, whole, and has a third of its life left at
/// `now`. New ones last for `lifetime`. Authorities that are there stay. Returns whether certificates were made.
///
/// # Errors
/// When an identity or a host name is wrong, or files cannot be read or written.
pub(in crate::testbed) fn renew(
    folder: &Path,
    planned: &BTreeMap<String, PlannedIdentity>,
    lifetime: Duration,
    now: SystemTime,
) -> Result<bool, Failure> {
    let mut wanted = Vec::new();
    for (stem, one) in planned {
        let identity = Identity::parse(&format!("{stem}.identity"), &one.identity)?;
        let hosts = HostName::parse_all(&format!("{stem}.hosts"), &one.hosts)?;
        wanted.push((stem, identity, hosts));
    }
    let lasts = |(stem, identity, hosts): &(&String, Identity, Vec<HostName>)| {
        let path = folder.join(IDENTITIES).join(stem);
        // The whole folder is read as a daemon reads it: a key that is missing is no identity.
        let is_whole = IdentityStore::open(&path).is_ok();
        is_whole
            && IdentityFolder::at(&path).owner().is_ok_and(|(owner, facts)| {
                let (life, left) =
                    (facts.not_after.since(facts.not_before), facts.not_after.since(time_of(now)));
                owner == *identity && facts.hosts == *hosts && left.saturating_mul(3) > life
            })
    };
    if wanted.iter().all(lasts) {
        return Ok(false);
    }
    let domains = wanted.iter().map(|(_, identity, _)| identity.domain.clone());
    let mut certificates = Certificates::new(folder, domains, lifetime)?;
    for (stem, identity, hosts) in &wanted {
        certificates.issue(stem, identity, hosts)?;
    }
    Ok(true)
}
