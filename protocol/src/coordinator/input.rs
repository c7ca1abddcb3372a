//! What a coordinator is told, what it wants done, and what it answers: its side of the shell.

use coalloc_common::{CoordinatorName, DiskSpace, ReservationId, RmName, TransactionId};

use super::giving_up::GiveUpReply;
use super::parent::ParentInput;
use super::promises::Difference;
use super::repair::{DisownReply, Repair};
use crate::conversation::{
    ChangeEnd, ConversationInput, Next, ParentReply, ReleaseReply, RequestEnd,
};
use crate::message::{Delivery, Message, Resolution, Token};

/// What can happen to a coordinator.
#[derive(Debug, Clone)]
pub enum CoordinatorInput {
    /// The process begins. Sent once, first, after the replay.
    Start,
    /// A caller opens a conversation about a request, a change or a hold of a parent, or goes on with one.
    Conversation(ConversationInput),
    /// What became of an [`CoordinatorEffect::Send`].
    Delivered {
        /// To whom.
        rm: RmName,
        /// Of which transaction.
        txn: TransactionId,
        /// In which role it was sent.
        kind: MessageKind,
        /// What became of it.
        delivery: Delivery,
    },
    /// An RM asks what became of a transaction.
    Resolve {
        /// Which.
        txn: TransactionId,
        /// Who asks.
        rm: RmName,
        /// Who waits.
        token: Token<Resolution>,
    },
    /// A reservation shall end.
    Release {
        /// Which.
        reservation: ReservationId,
        /// Who waits.
        token: Token<ReleaseReply>,
    },
    /// A comparison with an RM has been made.
    Compared {
        /// With whom.
        rm: RmName,
        /// All that differs.
        differences: Vec<Difference>,
    },
    /// An operator repairs a difference with an RM.
    Repair(Repair),
    /// From a coordinator above.
    Parent(ParentInput),
    /// Whether there is room on the disk to begin anything new (I17).
    Room(DiskSpace),
    /// Time has passed.
    Tick,
}

/// Which message an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageKind {
    /// Phase one.
    Hold,
    /// Phase two, yes.
    Commit,
    /// Phase two, no.
    Abort,
    /// The end of a booking.
    Release,
}

impl Message {
    /// Its role.
    #[must_use]
    pub const fn kind(&self) -> MessageKind {
        match self {
            Self::Hold(_) => MessageKind::Hold,
            Self::Commit => MessageKind::Commit,
            Self::Abort => MessageKind::Abort,
            Self::Release => MessageKind::Release,
        }
    }
}

/// What a coordinator wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorEffect {
    /// Send a message; what became of it comes back as `Delivered`.
    Send {
        /// To whom.
        rm: RmName,
        /// Of which transaction.
        txn: TransactionId,
        /// What.
        message: Message,
    },
    /// Ask the coordinator above what became of its transaction; the result comes back as
    /// [`ParentInput::Resolved`].
    AskParent {
        /// Whom.
        coordinator: CoordinatorName,
        /// Of what.
        txn: TransactionId,
    },
    /// Answer a waiting caller.
    Reply(Reply),
}

/// Answers to callers: who waits, and an answer of the type that the call has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// In a conversation about a request.
    Request(Token<Next<RequestEnd>>, Next<RequestEnd>),
    /// In a conversation about a change.
    Change(Token<Next<ChangeEnd>>, Next<ChangeEnd>),
    /// In a conversation about a hold of a parent coordinator.
    ParentHold(Token<Next<ParentReply>>, Next<ParentReply>),
    /// To a parent's Commit, Abort or Release.
    ParentEnd(Token<ParentReply>, ParentReply),
    /// To Release.
    Release(Token<ReleaseReply>, ReleaseReply),
    /// To Resolve.
    Resolve(Token<Resolution>, Resolution),
    /// To [`Repair::Rebook`]: as a change ends.
    Rebook(Token<ChangeEnd>, ChangeEnd),
    /// To [`Repair::Disown`].
    Disown(Token<DisownReply>, DisownReply),
    /// To [`Repair::GiveUp`].
    GiveUp(Token<GiveUpReply>, GiveUpReply),
}
