//! The inputs and effects of a participant: its interface to its shell.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{CoordinatorName, DiskSpace, ResourceId, TransactionId};

use super::equipment::{EquipmentKey, EquipmentTrouble, Unusable, Want};
use crate::message::{Answer, HoldOrder, Resolution, Token};

impl ParticipantInput {
    /// For a message of a coordinator: its transaction, who has sent it, and the caller that waits for the answer.
    pub(super) const fn order(&self) -> Option<(&TransactionId, &CoordinatorName, Token<Answer>)> {
        match self {
            Self::Hold { order, token, .. } => Some((&order.txn, &order.coordinator, *token)),
            Self::Commit { txn, by, token }
            | Self::Abort { txn, by, token }
            | Self::Release { txn, by, token } => Some((txn, by, *token)),
            Self::Start { .. }
            | Self::Led { .. }
            | Self::Resolved { .. }
            | Self::Equipped { .. }
            | Self::Unusable(_)
            | Self::Room(_)
            | Self::Tick => None,
        }
    }
}

/// What can happen to a participant.
#[derive(Debug, Clone)]
pub enum ParticipantInput {
    /// The process begins. Sent once, before everything else.
    Start {
        /// Names the running boot of the machine. Boot times compare only within one boot.
        boot: String,
    },
    /// Phase one: hold the order's segments.
    Hold {
        /// What to hold.
        order: HoldOrder,
        /// All attempts of the coordinator's ledger with lower numbers are at rest; 0 if it has not said so.
        oldest_open: u64,
        /// The caller that waits for the answer.
        token: Token<Answer>,
    },
    /// Phase two: book what is held.
    Commit {
        /// The transaction to commit.
        txn: TransactionId,
        /// The coordinator that sent the message.
        by: CoordinatorName,
        /// The caller that waits for the answer.
        token: Token<Answer>,
    },
    /// Phase two: end what is held.
    Abort {
        /// The transaction to abort.
        txn: TransactionId,
        /// The coordinator that sent the message.
        by: CoordinatorName,
        /// The caller that waits for the answer.
        token: Token<Answer>,
    },
    /// End a booking, or whatever else is left of the transaction.
    Release {
        /// The transaction to release.
        txn: TransactionId,
        /// The coordinator that sent the message.
        by: CoordinatorName,
        /// The caller that waits for the answer.
        token: Token<Answer>,
    },
    /// A message of a coordinator's process that leads in some epoch.
    Led {
        /// The epoch; 0 if the coordinator's ledger was never shared.
        epoch: u64,
        /// The message: a Hold, Commit, Abort or Release.
        order: Box<Self>,
    },
    /// The outcome of a [`ParticipantEffect::Ask`].
    Resolved {
        /// The transaction that was asked about.
        txn: TransactionId,
        /// The coordinator's answer, or that none has arrived.
        resolution: Resolution,
    },
    /// The equipment's answer.
    Equipped {
        /// The key under which it was told something.
        key: EquipmentKey,
        /// What it was told to have; `None`: nothing.
        asked: Option<Box<Want>>,
        /// How it names what it has; any text when it has nothing.
        outcome: Result<String, EquipmentTrouble>,
        /// What is wrong with what it has, as of the last look.
        trouble: Option<String>,
    },
    /// What of the RM's equipment cannot be used now, by the whole names of servers and the names of resources. It replaces what was said before.
    Unusable(BTreeMap<ResourceId, Unusable>),
    /// Whether the disk has space to hold anything new (I17).
    Room(DiskSpace),
    /// Time has passed.
    Tick,
}

/// What a participant wants its shell to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParticipantEffect {
    /// Answer a waiting caller.
    Reply {
        /// The caller that waits.
        token: Token<Answer>,
        /// The answer.
        answer: Answer,
    },
    /// Compare the equipment with what is wanted of these chains of versions. The outcomes come back as `Equipped`.
    Reconcile {
        /// The first transaction of each chain.
        chains: BTreeSet<TransactionId>,
    },
    /// Ask a coordinator for the decision on a transaction (Resolve). The outcome comes back as `Resolved`.
    Ask {
        /// The coordinator to ask.
        coordinator: CoordinatorName,
        /// The transaction to ask about.
        txn: TransactionId,
    },
}
