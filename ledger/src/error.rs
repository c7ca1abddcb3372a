//! What can be wrong with a ledger, each with what a person needs to act on it.
//!
//! The text of an error names the file, the record and the way out; the cause below it (an I/O
//! error, an error of SQLite) is its `source` and is not repeated in the text. [`chain_text`] joins
//! the two for a log line. Nothing here is answered to a client: a node whose ledger fails ends.

use std::path::PathBuf;

use coalloc_protocol::ReplayError;

use crate::sqlite::Identity;

/// Why a ledger could not be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another process has it open.
    #[error(
        "{} is in use by another process ({}); stop that one first. The lock is {}: it is freed \
         when its process ends, deleting the file does not help",
        path.display(),
        holder.map_or_else(|| "which one is not known".to_owned(), |pid| format!("pid {pid}")),
        lock.display()
    )]
    Locked {
        /// The ledger.
        path: PathBuf,
        /// The lock file beside it.
        lock: PathBuf,
        /// The process id written in the lock file, if it could be read.
        holder: Option<u32>,
    },
    /// A later release wrote it. It was not modified.
    #[error(
        "{} has format {found}, this binary reads formats up to {newest}; it was left as it is. \
         Start the release that wrote it",
        path.display()
    )]
    NewerFormat {
        /// The ledger.
        path: PathBuf,
        /// Its format version.
        found: i64,
        /// The newest format this binary reads.
        newest: i64,
    },
    /// It belongs to another node. It was not modified.
    #[error(
        "{} is the ledger of {found}, this node is {expected}; it was left as it is. Correct the \
         path or the name in this node's configuration",
        path.display()
    )]
    ForeignNode {
        /// The ledger.
        path: PathBuf,
        /// Whose it is.
        found: Identity,
        /// Who wanted to open it.
        expected: Identity,
    },
    /// Whatever it is, it is no ledger. It was not modified.
    #[error(
        "{} is not a ledger of Coalloc: {why}; it was left as it is. Correct the path, or restore \
         the ledger from a backup",
        path.display()
    )]
    NotALedger {
        /// The file.
        path: PathBuf,
        /// What gave it away.
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
        /// The first record that is not what was written.
        sequence: u64,
        /// Expected and found.
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
        /// What was found.
        why: String,
    },
    /// SQLite finds the file damaged (I15).
    #[error(
        "{} is damaged: {at} cannot be read. Keep a copy of the file, check the disk, and restore the ledger \
         from a backup; `coalloc ledger verify` says which records are sound",
        path.display()
    )]
    Damaged {
        /// The ledger.
        path: PathBuf,
        /// Which part, as in "its meta data".
        at: String,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// All records are sound, and SQLite's own structure is not.
    #[error(
        "{} is damaged: {why}. Keep a copy of the file, check the disk, and restore the ledger from a backup",
        path.display()
    )]
    PageDamaged {
        /// The ledger.
        path: PathBuf,
        /// What SQLite says.
        why: String,
    },
    /// There is nothing to accept.
    #[error(
        "{} is the ledger that was here last, not an older one; nothing was changed. Start the node",
        path.display()
    )]
    NotRestored {
        /// The ledger.
        path: PathBuf,
    },
    /// It is not as far as it was (F11). It was not modified.
    #[error(
        "{} is not the ledger that was here last: {why} ({}). It was left as it is. Put the newer file back. \
         If it was replaced on purpose, `coalloc ledger accept-restored {}` goes on from it: what was \
         reserved since is forgotten here and known elsewhere, see the guide, \"Ledgers\"",
        path.display(), tip.display(), path.display()
    )]
    Restored {
        /// The ledger.
        path: PathBuf,
        /// The file beside it that remembers.
        tip: PathBuf,
        /// What it remembers, and what was found.
        why: String,
    },
    /// There is none, and there was one.
    #[error(
        "{} is missing, and {} remembers {records} records of it. Put it back from where it is, or from a \
         backup. To begin with nothing, delete {} as well: what was reserved is forgotten here and known elsewhere",
        path.display(), tip.display(), tip.display()
    )]
    Gone {
        /// The ledger.
        path: PathBuf,
        /// The file beside it that remembers.
        tip: PathBuf,
        /// How many records it had at least.
        records: u64,
    },
    /// A record is as it was written, but this binary cannot read it.
    #[error(
        "record {sequence} of {} is intact but cannot be read by this binary; a release with other \
         records wrote it. Start that release",
        path.display()
    )]
    Undecodable {
        /// The ledger.
        path: PathBuf,
        /// The record.
        sequence: u64,
        /// What the decoder says.
        source: serde_json::Error,
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
        /// The record.
        sequence: u64,
        /// What the state machine says.
        source: ReplayError,
    },
    /// A record could not be written as JSON, or is not read back from it. Nothing was written.
    #[error("record {sequence} of {} has no JSON form; this is a defect of Coalloc", path.display())]
    Unencodable {
        /// The ledger.
        path: PathBuf,
        /// The record.
        sequence: u64,
        /// What the encoder says.
        source: serde_json::Error,
    },
    /// The name, kind or id given for a new ledger cannot be used.
    #[error("a ledger cannot be made with {what} `{found}`: expected {expected}")]
    BadIdentity {
        /// Which of them.
        what: &'static str,
        /// What was given.
        found: String,
        /// What would do.
        expected: &'static str,
    },
    /// An append came after one that failed. What is on the disk is unknown until it is reopened.
    #[error("an earlier write to {} failed; nothing is written until it is opened again", path.display())]
    Failed {
        /// The ledger.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{doing} {} failed", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as in "creating".
        doing: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
    /// SQLite refused.
    #[error("{doing} {} failed", path.display())]
    Sqlite {
        /// The ledger.
        path: PathBuf,
        /// What was tried, as in "reading record 7 of".
        doing: String,
        /// What SQLite says.
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
