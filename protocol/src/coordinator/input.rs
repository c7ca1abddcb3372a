//! The inputs, effects and answers of a coordinator: its interface to its shell.

use coalloc_common::{CoordinatorName, DiskSpace, ReservationId, RmName, TransactionId};

use super::giving_up::GiveUpReply;
use super::parent::ParentInput;
use super::promises::Difference;
use super::repair::{DisownReply, Repair};
use crate::conversation::{
    ChangeEnd, ChangeToken, ConversationInput, HoldToken, Next, ParentReply, ReleaseReply,
    RequestEnd, RequestToken,
};
use crate::message::{Delivery, Message, Resolution, Token};

/// What can happen to a coordinator.
#[derive(Debug, Clone)]
pub enum CoordinatorInput {
    /// The process begins. Sent once, first, after the replay.
    Start,
    /// A caller opens a conversation about a request, a change or a hold of a parent, or goes on with one.
    Conversation(ConversationInput),
    /// The outcome of a [`CoordinatorEffect::Send`].
    Delivered {
        /// The RM that the message was sent to.
        rm: RmName,
        /// The transaction that the message was about.
        txn: TransactionId,
        /// Which kind of message was sent.
        kind: MessageKind,
        /// What became of the message.
        delivery: Delivery,
    },
    /// An RM asks for the decision on a transaction (Resolve).
    Resolve {
        /// The transaction to decide.
        txn: TransactionId,
        /// The RM that asks.
        rm: RmName,
        /// The caller that waits for the answer.
        token: Token<Resolution>,
    },
    /// A user releases a reservation.
    Release {
        /// The reservation to release.
        reservation: ReservationId,
        /// The caller that waits for the answer.
        token: Token<ReleaseReply>,
    },
    /// The shell has compared bookings with an RM.
    Compared {
        /// The RM of the comparison.
        rm: RmName,
        /// All differences that it found.
        differences: Vec<Difference>,
    },
    /// An operator repairs a difference with an RM.
    Repair(Repair),
    /// A parent coordinator sent a message, or answered a question.
    Parent(ParentInput),
    /// Whether the disk has space to begin anything new (I17).
    Room(DiskSpace),
    /// Time has passed.
    Tick,
}

/// The kind of a [`Message`], by which an answer is matched to what was sent.
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
    /// The message's kind.
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

/// What a coordinator wants its shell to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoordinatorEffect {
    /// Send a message to an RM. The outcome comes back as `Delivered`.
    Send {
        /// The RM to send it to.
        rm: RmName,
        /// The transaction that it is about.
        txn: TransactionId,
        /// The message.
        message: Message,
    },
    /// Ask a parent coordinator for the decision on its transaction. The outcome comes back as
    /// [`ParentInput::Resolved`].
    AskParent {
        /// The parent to ask.
        coordinator: CoordinatorName,
        /// The parent's transaction to ask about.
        txn: TransactionId,
    },
    /// Answer a waiting caller.
    Reply(Reply),
}

/// An answer to a waiting caller: the caller's token, and an answer of the type that its call has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// In a conversation about a request.
    Request(RequestToken, Next<RequestEnd>),
    /// In a conversation about a change.
    Change(ChangeToken, Next<ChangeEnd>),
    /// In a conversation about a hold of a parent coordinator.
    ParentHold(HoldToken, Next<ParentReply>),
    /// To a parent's Commit, Abort or Release.
    ParentEnd(Token<ParentReply>, ParentReply),
    /// To Release.
    Release(Token<ReleaseReply>, ReleaseReply),
    /// To Resolve.
    Resolve(Token<Resolution>, Resolution),
    /// To [`Repair::Rebook`], which ends as a change does.
    Rebook(Token<ChangeEnd>, ChangeEnd),
    /// To [`Repair::Disown`].
    Disown(Token<DisownReply>, DisownReply),
    /// To [`Repair::GiveUp`].
    GiveUp(Token<GiveUpReply>, GiveUpReply),
}
