//! What can be wrong with a ledger; each error has what a person needs to act on it.
//!
//! The text of an error names the file, the record and what to do. Its cause (an I/O error, an
//! error of SQLite) is its `source` and is not repeated in the text; [`chain_text`] joins the two
//! for a log line. Left out: answers to clients. A node whose ledger fails ends, so clients never
//! get these errors.

use std::path::{Path, PathBuf};

use coalloc_protocol::ReplayError;

use crate::body::BodyError;
use crate::identity::{Identity, PROGRAM};
use crate::shared::SharedLogError;

/// Why a ledger could not be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another process has the ledger open.
    #[error(
        "{} is in use by another process ({}); stop that process first. The lock is {}: it is \
         freed when that process ends; deleting the file does not help",
        path.display(),
        holder.map_or_else(|| "its process id is not known".to_owned(), |pid| format!("pid {pid}")),
        lock.display()
    )]
    Locked {
        /// The ledger.
        path: PathBuf,
        /// The lock file beside the ledger.
        lock: PathBuf,
        /// The process id in the lock file, if it could be read.
        holder: Option<u32>,
    },
    /// A later release wrote the ledger. The file was not modified.
    #[error(
        "{} has format {found}, written by {by}, but this program ({PROGRAM}) reads only formats up to {newest}; the file was \
         not changed. Start the release that wrote it",
        path.display()
    )]
    NewerFormat {
        /// The ledger.
        path: PathBuf,
        /// The format version of the ledger.
        found: i64,
        /// The program that wrote it, as far as the ledger says.
        by: String,
        /// The newest format that this binary reads.
        newest: i64,
    },
    /// The ledger belongs to another node. The file was not modified.
    #[error(
        "{} is the ledger of {found}, but this node is {expected}; the file was not changed. \
         Correct the path or the name in this node's configuration",
        path.display()
    )]
    ForeignNode {
        /// The ledger.
        path: PathBuf,
        /// The node that the ledger belongs to.
        found: Identity,
        /// The node that tried to open it.
        expected: Identity,
    },
    /// The file is not a ledger. It was not modified.
    #[error(
        "{} is not a ledger of Coalloc: {why}; the file was not changed. Correct the path, or \
         restore the ledger from a backup",
        path.display()
    )]
    NotALedger {
        /// The file.
        path: PathBuf,
        /// How that was noticed.
        why: String,
    },
    /// A record was changed, removed or moved after it was written (I15).
    #[error(
        "{} is damaged at record {sequence}: {why}. Records before it are sound. Keep a copy of \
         the file, check the disk, and restore the ledger from a backup or move this node to a new \
         ledger; records must not be edited by hand",
        path.display()
    )]
    ChainBroken {
        /// The ledger.
        path: PathBuf,
        /// The sequence number of the first record that differs from what was written.
        sequence: u64,
        /// What was expected, and what was found.
        why: String,
    },
    /// The end of the write-ahead log is damaged beyond one unfinished transaction (I15).
    #[error(
        "{} is damaged: {why}. Opening it would drop transactions that were acknowledged. Keep a \
         copy of it and of the ledger beside it, check the disk, and restore the ledger from a \
         backup; deleting this file accepts the loss",
        wal.display()
    )]
    WalDamaged {
        /// The write-ahead log beside the ledger.
        wal: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// SQLite reports that the file is damaged (I15).
    #[error(
        "{} is damaged: {at} cannot be read. Keep a copy of the file, check the disk, and restore the ledger \
         from a backup; `coalloc ledger verify` says which records are sound",
        path.display()
    )]
    Damaged {
        /// The ledger.
        path: PathBuf,
        /// The part that cannot be read, for example "its meta data".
        at: String,
        /// The error from SQLite.
        source: rusqlite::Error,
    },
    /// All records are sound, but SQLite's own structure is not.
    #[error(
        "{} is damaged: {why}. Keep a copy of the file, check the disk, and restore the ledger from a backup",
        path.display()
    )]
    PageDamaged {
        /// The ledger.
        path: PathBuf,
        /// The message from SQLite.
        why: String,
    },
    /// A file is where a copy of a ledger should go. Nothing was changed.
    #[error("{} exists; nothing was changed. Name another file, or move it away", path.display())]
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// Accepting a restored ledger was requested, but the ledger is not an older one.
    #[error(
        "{} is the ledger that was last used here, not an older one; nothing was changed. Start \
         the node",
        path.display()
    )]
    NotRestored {
        /// The ledger.
        path: PathBuf,
    },
    /// The ledger ends before a record that the tip remembers (F11), or is another ledger. It was
    /// not modified.
    #[error(
        "{} is not the ledger that was last used here: {why} ({}). The file was not changed. Put \
         the newer file back. If it was replaced on purpose, run `coalloc ledger accept-restored \
         {}` to continue from it: this node then forgets what was reserved since, which other \
         nodes still know; see the guide, \"Ledgers\"",
        path.display(), tip.display(), path.display()
    )]
    Restored {
        /// The ledger.
        path: PathBuf,
        /// The tip file beside the ledger.
        tip: PathBuf,
        /// What the tip remembers, and what was found instead.
        why: String,
    },
    /// There is no ledger, although the tip shows that there was one.
    #[error(
        "{} is missing, but {} shows that it had at least {records} records. Put it back, or \
         restore it from a backup. To start with an empty ledger, delete {} as well: this node \
         then forgets what was reserved, which other nodes still know",
        path.display(), tip.display(), tip.display()
    )]
    Gone {
        /// The ledger.
        path: PathBuf,
        /// The tip file beside the ledger.
        tip: PathBuf,
        /// The least number of records that the ledger had.
        records: u64,
    },
    /// A record is as it was written, but this binary cannot read it.
    #[error(
        "record {sequence} of {} is intact, but this binary cannot read it: another release wrote \
         it. Start that release",
        path.display()
    )]
    Undecodable {
        /// The ledger.
        path: PathBuf,
        /// The sequence number of the record.
        sequence: u64,
        /// What is wrong with it.
        source: BodyError,
    },
    /// A record is intact and readable, but cannot have happened after those before it.
    #[error(
        "record {sequence} of {} cannot follow those before it. Another release wrote it, or this \
         is a defect of Coalloc: keep a copy of the file and report it",
        path.display()
    )]
    DoesNotFit {
        /// The ledger.
        path: PathBuf,
        /// The sequence number of the record.
        sequence: u64,
        /// The error from the state machine.
        source: ReplayError,
    },
    /// The parts of the snapshot are not those that were written.
    #[error(
        "the snapshot in {} at record {record} is damaged: its parts do not match their digest. Restore \
         a backup",
        path.display()
    )]
    SnapshotDamaged {
        /// The ledger.
        path: PathBuf,
        /// The record that the snapshot stands for.
        record: u64,
    },
    /// The snapshot is as it was written, but this binary cannot read it.
    #[error(
        "the snapshot in {} at record {record} is intact, but this binary cannot go on from it. \
         Another release wrote it, or this is a defect of Coalloc: keep a copy of the file and \
         report it ({why})",
        path.display()
    )]
    SnapshotDoesNotFit {
        /// The ledger.
        path: PathBuf,
        /// The record that the snapshot stands for.
        record: u64,
        /// Which part, and what is wrong with it.
        why: String,
    },
    /// The records that somebody wants to read were archived.
    #[error(
        "records up to {archived} are no longer in {}, but in its archives",
        path.display()
    )]
    Archived {
        /// The ledger.
        path: PathBuf,
        /// The last record that is not in the file.
        archived: u64,
    },
    /// A record cannot be packed. Nothing was written.
    #[error(
        "record {sequence} of {} cannot be packed; this is a defect of Coalloc",
        path.display()
    )]
    Unencodable {
        /// The ledger.
        path: PathBuf,
        /// The sequence number of the record.
        sequence: u64,
        /// What is wrong with it.
        source: BodyError,
    },
    /// The name, kind or id for a new ledger is not valid.
    #[error("a ledger cannot be made with {what} `{found}`: expected {expected}")]
    BadIdentity {
        /// Which of the three: `name`, `kind` or `id`.
        what: &'static str,
        /// The value that was given.
        found: String,
        /// What would be valid.
        expected: &'static str,
    },
    /// An append was tried after one that failed. What is on the disk is unknown until the ledger
    /// is reopened.
    #[error(
        "an earlier write to {} failed; nothing more is written until the ledger is reopened",
        path.display()
    )]
    Failed {
        /// The ledger.
        path: PathBuf,
    },
    /// The file is a copy of a log, and cannot be used alone. It was not modified.
    #[error(
        "{} is a copy of the ledger that is shared at {prefix}; other processes may have decided more. Configure `shared_ledger`, or \
         end the sharing with `coalloc ledger unshare`",
        path.display()
    )]
    IsCopy {
        /// The file.
        path: PathBuf,
        /// The log.
        prefix: String,
    },
    /// The log that the ledger is a copy of cannot go on.
    #[error(transparent)]
    Shared(#[from] SharedLogError),
    /// The file is a copy of another log. It was not modified.
    #[error(
        "{} is ledger {found}, but {prefix} is the log of ledger {expected}. Correct the path or the prefix; a new member begins \
         with a copy of another one's file (`coalloc ledger backup`)",
        path.display()
    )]
    OtherLog {
        /// The file.
        path: PathBuf,
        /// The id of its ledger.
        found: String,
        /// The log.
        prefix: String,
        /// The id of the log's ledger.
        expected: String,
    },
    /// The operating system reported an error.
    #[error("{doing} {} failed", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, for example "creating".
        doing: &'static str,
        /// The error from the system.
        source: std::io::Error,
    },
    /// SQLite reported an error.
    #[error("{doing} {} failed", path.display())]
    Sqlite {
        /// The ledger.
        path: PathBuf,
        /// What was tried, for example "reading record 7 of".
        doing: String,
        /// The error from SQLite.
        source: rusqlite::Error,
    },
}

/// An error and its causes in one line: `writing /var/x failed: disk full`.
pub fn chain_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Converts an error of SQLite to a ledger error.
pub(crate) fn sqlite(
    path: &Path,
    doing: impl Into<String>,
) -> impl Fn(rusqlite::Error) -> LedgerError {
    let (path, doing) = (path.to_owned(), doing.into());
    move |source| LedgerError::Sqlite { path: path.clone(), doing: doing.clone(), source }
}
