//! Why a shared log cannot be used, or cannot go on.

use coalloc_etcd::EtcdError;

use crate::identity::{FORMAT_VERSION, PROGRAM};

/// Why a shared log cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SharedLogError {
    /// Another member leads, or has led since. An append may have landed before that if an answer to it was lost.
    #[error("this member does not lead {prefix} any more: {why}")]
    NotLeading {
        /// The log.
        prefix: String,
        /// How that is known.
        why: String,
    },
    /// The store does not say whether an append has landed, although it was asked for long enough.
    #[error("the store of {prefix} does not answer")]
    Unknown {
        /// The log.
        prefix: String,
        /// The last failure.
        source: EtcdError,
    },
    /// The store has refused a call.
    #[error("the store of {prefix} cannot be used")]
    Store {
        /// The log.
        prefix: String,
        /// Its reason.
        source: EtcdError,
    },
    /// The log has records of a later release. Nothing was changed.
    #[error(
        "{prefix} has format {found}, written by {by}, but this program ({PROGRAM}) reads only formats up to {FORMAT_VERSION}: \
         upgrade this member, too"
    )]
    NewerFormat {
        /// The log.
        prefix: String,
        /// Its format.
        found: i64,
        /// The program that has brought it to this format.
        by: String,
    },
    /// The store has something else than a log of this kind.
    #[error("{prefix} is damaged, or is not the log of this ledger: {why}")]
    Damaged {
        /// The log.
        prefix: String,
        /// What is wrong.
        why: String,
    },
    /// There is no log, and none may be made.
    #[error(
        "there is no log at {prefix}: `coalloc ledger share` makes one. If there was one before, etcd has lost it, and what it had \
         is in the copies of the members (the guide, \"High availability\")"
    )]
    Missing {
        /// The log.
        prefix: String,
    },
    /// There is a log already.
    #[error("there is a log at {prefix} already, of ledger {found}; nothing was changed")]
    Occupied {
        /// The log.
        prefix: String,
        /// Its ledger.
        found: String,
    },
    /// The log goes on after the end of a copy, or somebody leads it.
    #[error(
        "{prefix} cannot end with this copy: {why}. Stop all processes; if the log has more records than the copy, start the one of \
         this copy once more before that"
    )]
    NotAtEnd {
        /// The log.
        prefix: String,
        /// What differs.
        why: String,
    },
    /// The log begins after the record that is needed next.
    #[error(
        "{prefix} does not have record {wanted} any more. This member was away for too long: copy the ledger of another member \
         to it (`coalloc ledger backup`)"
    )]
    Trimmed {
        /// The log.
        prefix: String,
        /// The record.
        wanted: u64,
    },
}
