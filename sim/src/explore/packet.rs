//! What flies between nodes: messages and questions, their answers, and what strangers say instead.

use coalloc_common::TransactionId;
use coalloc_protocol::coordinator::MessageKind;
use coalloc_protocol::message::{Answer, Delivery, Message, Resolution};

use super::scenarios::RMS;

/// Whoever asks has given up: the message may still come, its answer is for nobody.
pub(super) const NOBODY: i64 = i64::MAX;

/// A node.
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

/// What a packet says; `rm` is its one end, the coordinator the other.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Request { rm: usize, txn: TransactionId, message: Message },
    Answer { rm: usize, txn: TransactionId, kind: MessageKind, answer: Answer },
    Question { rm: usize, txn: TransactionId },
    Resolution { rm: usize, txn: TransactionId, resolution: Resolution },
}

impl Content {
    /// Who takes it.
    pub(super) const fn to(&self) -> Node {
        match self {
            Self::Request { rm, .. } | Self::Resolution { rm, .. } => Node::Rm(*rm),
            Self::Answer { .. } | Self::Question { .. } => Node::Grc,
        }
    }

    /// Does somebody wait for an answer to it?
    pub(super) const fn is_call(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Question { .. })
    }

    /// Who waits for it or for the answer to it.
    pub(super) const fn caller(&self) -> Node {
        match self {
            Self::Request { .. } | Self::Answer { .. } => Node::Grc,
            Self::Question { rm, .. } | Self::Resolution { rm, .. } => Node::Rm(*rm),
        }
    }
}

/// Something in flight: the number of its content, and until when the caller waits.
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

/// What somebody who is no node of this federation says instead of one: a status, not an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Foreign {
    /// Any status that says that the message itself is wrong: PERMISSION_DENIED, UNIMPLEMENTED, ALREADY_EXISTS, ...
    Rejected,
    /// NOT_FOUND, to a question.
    NotMine,
}

/// In order; of messages for whose answer nobody waits, one of each.
pub(super) fn tidy(flight: &mut Vec<Packet>) {
    flight.sort_unstable();
    flight.dedup_by(|one, other| one == other && !one.is_live());
}

/// What a shell makes of a foreign status.
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
