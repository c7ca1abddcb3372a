//! `coalloc audit --evidence`: gathers signed tips of ledgers, and verifies them against the ledgers.
//!
//! A ledger's hash chain shows that a record was changed, but not that somebody wrote a new chain, or cut the end off
//! together with the tip beside it. A tip that the daemon has signed, and that is kept elsewhere, shows both.
//!
//! * [`folder`]: the auditor's folder with the tips, one file for each ledger.
//! * [`gathering`]: fetches the signed tips of all daemons, once or at intervals.
//! * [`collection`]: what the tips of one folder say together; two of them may contradict each other.
//! * [`comparison`]: the tips against a ledger. [`report`]: the result, for people and programs.
//!
//! The signature, the signer, and the signer's certificate at the time of the tip are verified by
//! [`coalloc_net::tips`], before a tip is stored and whenever it is read.
//!
//! Left out: the protection of the folder itself. Whoever can write to it can remove evidence. So it belongs on a machine
//! of the auditor's.

pub mod collection;
pub mod comparison;
pub mod folder;
pub mod gathering;
pub mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use coalloc_net::identity::store::TRUST;
use coalloc_net::identity::trust::Trust;

use self::comparison::LedgerComparison;
use self::folder::EvidenceFolder;
use self::report::EvidenceReport;
use super::AuditArgs;
use crate::kit::exit::{Answer, Failure};
use crate::testbed::local::layout;

/// Runs `coalloc audit --evidence`: gathers tips, or verifies those that are stored.
///
/// # Errors
/// When there is no identity, the folder cannot be used, or a ledger cannot be read.
pub(super) async fn run(args: &AuditArgs, folder: &Path) -> Result<Answer, Failure> {
    if args.offline || !args.ledger.is_empty() {
        return verify(args, folder);
    }
    let places = args.places()?;
    let Some(identity) = places.dialer.identity() else { return Err(no_identity()) };
    let folder = EvidenceFolder::open(folder)?;
    let stored = folder.read(&identity.current().trust)?;
    let every = args.every.map(|length| length.0.to_std());
    gathering::gather(&places, &folder, stored, every, args.json).await
}

/// Verifies the stored tips against each other and against ledgers; no daemon is asked.
fn verify(args: &AuditArgs, path: &Path) -> Result<Answer, Failure> {
    // Only the trust is read: the auditor's own certificate may have ended.
    let trust = identity_folder(args).ok_or_else(no_identity)?.join(TRUST);
    let trust =
        Trust::read(&trust).map_err(|error| Failure::bad_input(format!("--identity: {error}")))?;
    let collection = EvidenceFolder::of(path).read(&trust)?;
    let compare = |ledger: &PathBuf| LedgerComparison::new(&collection, ledger);
    let comparisons = args.ledger.iter().map(compare).collect::<Result<Vec<_>, _>>()?;
    let report = EvidenceReport::new(path, &collection, comparisons);
    let text = if args.json { report.json()? } else { report.text() };
    Ok(Answer { text, exit: report.exit() })
}

fn identity_folder(args: &AuditArgs) -> Option<PathBuf> {
    let of_folder = args.dir.as_ref().map(|folder| folder.join(layout::OPERATOR));
    args.identity.identity.clone().or(of_folder).or_else(|| args.identity.folder())
}

fn no_identity() -> Failure {
    Failure::bad_input(
        "--evidence needs --identity DIR (or COALLOC_IDENTITY): daemons sign for operators and auditors only, and \
         signatures are verified by the authorities in its folder trust/",
    )
}

/// Waits until the next round is due, or a signal comes; false when it is a signal.
async fn is_due(timer: &mut tokio::time::Interval) -> bool {
    tokio::select! {
        _ = timer.tick() => true,
        () = coalloc_net::server::stop_signal() => false,
    }
}

/// Begins a round at once and then at every interval. A round that takes longer delays those after it.
fn timer(every: Duration) -> tokio::time::Interval {
    let mut timer = tokio::time::interval(every);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    timer
}

#[cfg(test)]
mod tests;
