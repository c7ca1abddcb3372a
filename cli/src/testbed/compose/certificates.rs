//! `coalloc compose certificates`: makes the identities of a testbed of containers, and renews them.
//!
//! The file `identities.json` of the testbed says which identity each folder in `identities/` holds. `deploy/compose/up`
//! runs this command in a container before anything else, as root, so that each key belongs to the user of the daemons.
//!
//! Left out: telling daemons of new files; they notice by themselves.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use rustix::fs::{AtFlags, CWD, Gid, Uid, chownat};

use crate::kit::certificates::OPERATOR;
use crate::kit::exit::{Answer, Failure};
use crate::testbed::containers::identities::{self, PlannedIdentity};

/// The file that lists the identities.
pub(super) const IDENTITIES: &str = "identities.json";
/// How long the certificates last.
const LIFETIME: Duration = Duration::from_secs(30 * 86_400);

/// Make the certificates of a testbed, or renew those that end soon
///
/// Nothing is done while every certificate has a third of its 30 days left. `deploy/compose/up` runs this.
#[derive(Debug, Clone, Args)]
pub(super) struct CertificatesArgs {
    /// The testbed's folder, as `coalloc compose` has written it
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The user to whom the folders of daemons' identities belong afterwards; all else belongs to the owner of DIR
    #[arg(long, value_name = "UID")]
    owner: Option<u32>,
}

/// Runs `coalloc compose certificates`.
///
/// # Errors
/// When the folder is no testbed, or its files cannot be written.
pub(super) fn run(args: &CertificatesArgs) -> Result<Answer, Failure> {
    run_at(args, SystemTime::now())
}

fn run_at(args: &CertificatesArgs, now: SystemTime) -> Result<Answer, Failure> {
    let path = args.folder.join(IDENTITIES);
    let bad = |error: &dyn std::fmt::Display| {
        Failure::bad_input(format!("{}: {error}; `coalloc compose` writes it", path.display()))
    };
    let text = std::fs::read_to_string(&path).map_err(|error| bad(&error))?;
    let planned: BTreeMap<String, PlannedIdentity> =
        serde_json::from_str(&text).map_err(|error| bad(&error))?;
    for stem in planned.keys() {
        if stem.is_empty() || stem.contains('/') || stem.starts_with('.') {
            return Err(bad(&format!("{stem:?} cannot be the name of a folder")));
        }
    }
    let count = planned.len();
    let made = identities::renew(&args.folder, &planned, LIFETIME, now)?;
    if let Some(owner) = args.owner {
        // Also of what lasts: an earlier run may have been interrupted before this, or made without an owner.
        hand_over(&args.folder, owner).map_err(|error| {
            Failure::internal(format!("{}: changing owners: {error}", args.folder.display()))
        })?;
    }
    Ok(Answer::done(match made {
        true => format!("{count} certificates made; they last 30 days\n"),
        false => format!("the certificates of {count} identities last\n"),
    }))
}

/// Gives daemons' identities to the user `owner`, and the operator's and the authorities to the owner of the folder.
fn hand_over(folder: &Path, owner: u32) -> std::io::Result<()> {
    let own = std::fs::metadata(folder)?;
    let (authorities, identities) = (folder.join("authorities"), folder.join("identities"));
    for top in [&authorities, &identities] {
        match top.symlink_metadata() {
            Ok(it) if it.is_dir() => give(top, own.uid(), own.gid())?,
            Ok(_) => {
                return Err(std::io::Error::other(format!("{} is no folder", top.display())));
            }
            // While all certificates last, the authorities may be kept elsewhere.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && *top == authorities => {}
            Err(error) => return Err(error),
        }
    }
    let operator = folder.join(OPERATOR);
    for entry in std::fs::read_dir(&identities)? {
        let path = entry?.path();
        if path != operator {
            give(&path, owner, owner)?;
        }
    }
    Ok(())
}

/// Changes the owner of a folder or file, and of everything in it. This runs as root, so links are not followed: they
/// could lead to files outside of the testbed.
fn give(path: &Path, uid: u32, gid: u32) -> std::io::Result<()> {
    let (uid_then, gid_then) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    chownat(CWD, path, uid_then, gid_then, AtFlags::SYMLINK_NOFOLLOW)?;
    if path.symlink_metadata()?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), uid, gid)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
