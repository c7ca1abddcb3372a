//! Packets between nodes: messages and questions, the answers to them, and the statuses that strangers send
//! instead.

use coalloc_common::TransactionId;
use coalloc_protocol::coordinator::MessageKind;
use coalloc_protocol::message::{Answer, Delivery, Message, Resolution};

use super::scenarios::RMS;

/// The deadline of a packet whose caller has given up: the message may still arrive, but nobody waits for its
/// answer.
pub(super) const NOBODY: i64 = i64::MAX;

/// A node of the federation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Node {
    Grc,
    Rm(usize),
}

impl Node {
    pub(super) const ALL: [Self; 3] = [Self::Grc, Self::Rm(0), Self::Rm(1)];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Grc => "grc",
            Self::Rm(rm) => RMS[rm],
        }
    }
}

/// The content of a packet. One end is the RM of index `rm`, the other is the coordinator.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Request { rm: usize, txn: TransactionId, message: Message },
    Answer { rm: usize, txn: TransactionId, kind: MessageKind, answer: Answer },
    Question { rm: usize, txn: TransactionId },
    Resolution { rm: usize, txn: TransactionId, resolution: Resolution },
}

impl Content {
    /// The node that receives it.
    pub(super) const fn to(&self) -> Node {
        match self {
            Self::Request { rm, .. } | Self::Resolution { rm, .. } => Node::Rm(*rm),
            Self::Answer { .. } | Self::Question { .. } => Node::Grc,
        }
    }

    /// Does the sender wait for an answer to it?
    pub(super) const fn is_call(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Question { .. })
    }

    /// The node that waits for this packet or for the answer to it.
    pub(super) const fn caller(&self) -> Node {
        match self {
            Self::Request { .. } | Self::Answer { .. } => Node::Grc,
            Self::Question { rm, .. } | Self::Resolution { rm, .. } => Node::Rm(*rm),
        }
    }
}

/// A packet in flight: the number of its content, and until when its caller waits, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Packet {
    pub(super) content: u32,
    pub(super) until: i64,
}

impl Packet {
    /// Does its caller still wait?
    pub(super) const fn is_live(self) -> bool {
        self.until != NOBODY
    }
}

/// What a stranger, who is no node of this federation, sends in place of a node: a status, not an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Foreign {
    /// Any status that says that the message itself is wrong: PERMISSION_DENIED, UNIMPLEMENTED,
    /// ALREADY_EXISTS, ...
    Rejected,
    /// The status NOT_FOUND in answer to a question.
    NotMine,
}

/// Sorts the packets in flight. Of equal messages whose callers have given up, only one is kept.
pub(super) fn tidy(flight: &mut Vec<Packet>) {
    flight.sort_unstable();
    flight.dedup_by(|one, other| one == other && !one.is_live());
}

/// What a shell passes to its core for a stranger's status.
pub(super) fn status(foreign: Foreign) -> Delivery {
    match foreign {
        Foreign::Rejected => Delivery::Rejected("a status that is not the RM's".to_owned()),
        Foreign::NotMine => Delivery::Lost,
    }
}

pub(super) const fn strangers(content: &Content) -> &'static [Foreign] {
    match content {
        Content::Request { .. } | Content::Answer { .. } => &[Foreign::Rejected],
        Content::Question { .. } | Content::Resolution { .. } => &[Foreign::NotMine],
    }
}
