//! What a participant is told, and what it wants done: its side of the shell.

use coalloc_common::{CoordinatorName, DiskSpace, TransactionId};

use crate::message::{Answer, HoldOrder, Resolution, Token};

/// What can happen to a participant.
#[derive(Debug, Clone)]
pub enum ParticipantInput {
    /// The process begins; `boot` names the running boot of its machine. Sent once, first.
    Start {
        /// Boot times compare only within one boot.
        boot: String,
    },
    /// Phase one.
    Hold {
        /// What to keep.
        order: HoldOrder,
        /// Who waits.
        token: Token,
    },
    /// Phase two, yes.
    Commit {
        /// Of which transaction.
        txn: TransactionId,
        /// Who says so.
        by: CoordinatorName,
        /// Who waits.
        token: Token,
    },
    /// Phase two, no.
    Abort {
        /// Of which transaction.
        txn: TransactionId,
        /// Who says so.
        by: CoordinatorName,
        /// Who waits.
        token: Token,
    },
    /// End of a booking.
    Release {
        /// Of which transaction.
        txn: TransactionId,
        /// Who says so.
        by: CoordinatorName,
        /// Who waits.
        token: Token,
    },
    /// What came of an [`ParticipantEffect::Ask`].
    Resolved {
        /// Of which transaction.
        txn: TransactionId,
        /// The answer, or that none came.
        resolution: Resolution,
    },
    /// Whether there is room on the disk to hold anything new (I17).
    Room(DiskSpace),
    /// Time has passed.
    Tick,
}

/// What a participant wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParticipantEffect {
    /// Answer a waiting caller.
    Reply {
        /// Who.
        token: Token,
        /// What.
        answer: Answer,
    },
    /// Ask a coordinator what became of a transaction; the result comes back as `Resolved`.
    Ask {
        /// Whom.
        coordinator: CoordinatorName,
        /// Of what.
        txn: TransactionId,
    },
}
