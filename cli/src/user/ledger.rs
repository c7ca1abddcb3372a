//! `coalloc ledger`: checks a ledger, prints its records, makes backups, and lets a node continue from one.
//!
//! The commands read the file itself, whether its node runs or not; no daemon is asked. Only
//! `restore`, `accept-restored`, `share` and `unshare` change anything.

mod backup;
mod dump;
mod line;
mod share;
mod verify;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use coalloc_ledger::shared::SharedLogError;
use coalloc_ledger::{LedgerError, chain_text};

use crate::kit::exit::{Answer, Exit, Failure};

/// Look into a node's ledger: is it sound, and what did the node do?
///
/// Works while the node runs, after a crash, and on a copy. Only restore, accept-restored, share and unshare change anything.
#[derive(Debug, Clone, Args)]
pub struct LedgerArgs {
    #[command(subcommand)]
    command: LedgerCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum LedgerCommand {
    Verify(VerifyArgs),
    Dump(DumpArgs),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    AcceptRestored(AcceptArgs),
    Share(ShareArgs),
    Unshare(UnshareArgs),
}

/// Check every record of a ledger against the hash chain, and the file's own structure
///
/// Exit code 0 when it is sound, 1 when it is damaged or older than it was, 2 when it is not a ledger.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  coalloc ledger verify /var/lib/coalloc/north.ledger\n  \
                        coalloc ledger verify --json backup/north.ledger | jq .records")]
pub struct VerifyArgs {
    /// The ledger's file, as `daemon.ledger` in the node's configuration names it
    file: PathBuf,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Print a ledger's records: time, kind, transaction, and who caused it
///
/// The records are checked as they are read. Exit code 1 when one is damaged; the records before it are
/// printed.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  coalloc ledger dump north.ledger --from 100 --limit 20\n  \
                        coalloc ledger dump north.ledger --txn grc-1a2b3c4d-7/1\n  \
                        coalloc ledger dump grc.ledger --reservation grc-1a2b3c4d-7 --json | jq .record")]
pub struct DumpArgs {
    /// The ledger's file
    file: PathBuf,
    /// Begin with this sequence number
    #[arg(long, value_name = "N", default_value_t = 1)]
    from: u64,
    /// Print at most this many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Only records about this transaction
    #[arg(long, value_name = "ID")]
    txn: Option<String>,
    /// Only records about this reservation and its transactions
    #[arg(long, value_name = "ID")]
    reservation: Option<String>,
    /// Print one JSON object per line: sequence, hash, record as it was written
    #[arg(long)]
    json: bool,
}

/// Copy a ledger, also while its node runs
///
/// The copy is one file with everything that is durable now. Every record of it is checked before it gets its
/// name. An existing file is never overwritten.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  coalloc ledger backup /var/lib/coalloc/north.ledger --to \
                        /backup/north-$(date +%F).ledger")]
pub struct BackupArgs {
    /// The ledger's file
    file: PathBuf,
    /// The new file with the copy
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Print what was copied as JSON
    #[arg(long)]
    json: bool,
}

/// Put a backup back, and let its node continue from it
///
/// The node must be stopped. What was at the place is moved to FILE.replaced. Unless the backup has every record
/// that was ever written at this place, the node has another identity from now on, so that no number is given
/// twice. What was reserved since the backup is forgotten here: compare with the other side afterwards (the
/// guide, "Ledgers").
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  coalloc ledger restore /backup/north-2027-01-31.ledger --to \
                        /var/lib/coalloc/north.ledger")]
pub struct RestoreArgs {
    /// The backup
    backup: PathBuf,
    /// The ledger's place, as `daemon.ledger` in the node's configuration names it
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Print what was restored as JSON
    #[arg(long)]
    json: bool,
}

/// Let a node continue from a ledger that is older than its last one
///
/// After a backup was restored, a node refuses to start: it lacks what it has recorded since, and other
/// nodes know it. This command confirms that this is intended. The node must be stopped. What was reserved
/// since the backup is forgotten here: compare with the other side afterwards (the guide, "Ledgers").
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  coalloc ledger accept-restored /var/lib/coalloc/north.ledger")]
pub struct AcceptArgs {
    /// The ledger's file
    file: PathBuf,
}

/// Share a node's ledger in etcd: once, before its processes start
///
/// If the node has no ledger yet, a new one is made in etcd. Otherwise the node must be stopped: the log in etcd goes on after
/// the ledger's last record, and the file is the copy of this process from then on. Further processes begin with copies of it
/// (`coalloc ledger backup`, and the guide, "High availability").
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  coalloc ledger share --config grc.json")]
pub struct ShareArgs {
    /// The node's configuration, with `daemon.shared_ledger`
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// End the sharing of a ledger: one copy becomes the node's ledger again
///
/// All processes must be stopped, and the copy must have every record that is in etcd. What is in etcd is removed.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  coalloc ledger unshare --config grc.json")]
pub struct UnshareArgs {
    /// The configuration of the process whose copy it is
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Runs `coalloc ledger`.
///
/// # Errors
/// When the file is not a ledger, is damaged, or cannot be read.
pub fn run(args: &LedgerArgs) -> Result<Answer, Failure> {
    match &args.command {
        LedgerCommand::Verify(args) => verify::run(args),
        LedgerCommand::Dump(args) => dump::run(args),
        LedgerCommand::Backup(args) => backup::back_up(args),
        LedgerCommand::Restore(args) => backup::restore(args),
        LedgerCommand::AcceptRestored(args) => verify::accept(args),
        LedgerCommand::Share(args) => share::share(args),
        LedgerCommand::Unshare(args) => share::unshare(args),
    }
}

/// What is wrong, with the exit code for this kind of error.
pub(crate) fn failure(error: &LedgerError) -> Failure {
    let exit = match error {
        LedgerError::ChainBroken { .. }
        | LedgerError::Damaged { .. }
        | LedgerError::PageDamaged { .. }
        | LedgerError::WalDamaged { .. }
        | LedgerError::Undecodable { .. }
        | LedgerError::DoesNotFit { .. }
        | LedgerError::SnapshotDamaged { .. }
        | LedgerError::SnapshotDoesNotFit { .. }
        | LedgerError::Archived { .. }
        | LedgerError::Restored { .. }
        | LedgerError::Gone { .. } => Exit::Failed,
        LedgerError::Locked { .. }
        | LedgerError::NotRestored { .. }
        | LedgerError::Occupied { .. } => Exit::Refused,
        LedgerError::Shared(SharedLogError::Occupied { .. } | SharedLogError::NotAtEnd { .. })
        | LedgerError::IsCopy { .. } => Exit::Refused,
        LedgerError::Shared(SharedLogError::Damaged { .. } | SharedLogError::Trimmed { .. }) => {
            Exit::Failed
        }
        LedgerError::Shared(_) => Exit::CallFailed,
        LedgerError::NewerFormat { .. }
        | LedgerError::OtherLog { .. }
        | LedgerError::ForeignNode { .. }
        | LedgerError::NotALedger { .. }
        | LedgerError::BadIdentity { .. }
        | LedgerError::Io { .. } => Exit::BadInput,
        LedgerError::Unencodable { .. }
        | LedgerError::Failed { .. }
        | LedgerError::Sqlite { .. } => Exit::Failed,
    };
    Failure::new(exit, chain_text(error))
}
