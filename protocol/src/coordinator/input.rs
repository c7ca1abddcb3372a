//! The inputs, effects and answers of a coordinator: its interface to its shell.

use coalloc_common::{CoordinatorName, DiskSpace, ReservationId, RmName, TransactionId, UserName};

use super::calendar::{CalendarInput, CalendarReply};
use super::giving_up::{GiveUpReply, OfWhat};
use super::promises::Difference;
use super::reports::{Report, ReportEnd};
use super::reservation::{Candidate, ChangeTicket, Reservation};
use super::usage::EquipmentNews;
use crate::conversation::{
    ChangeEnd, ChangeToken, ConversationInput, HoldToken, Next, ParentReply, ReleaseReply,
    RequestEnd, RequestToken,
};
use crate::message::{Delivery, Message, MessageKind, Resolution, Token};

/// What can happen to a coordinator.
#[derive(Debug, Clone)]
pub enum CoordinatorInput {
    /// The process begins. Sent once, first, after the replay; not to one that was elected.
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
    /// The process begins, because it was elected to lead those that share the ledger. Sent once, first, after the replay,
    /// instead of [`CoordinatorInput::Start`]: in a step between the two, nothing would have an alarm.
    Elected {
        /// The epoch, see [`Coordinator::next_epoch`](super::Coordinator::next_epoch).
        epoch: u64,
        /// The name of this process among them.
        member: String,
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
    /// A user reports what happened to a reservation.
    Report {
        /// The reservation.
        reservation: ReservationId,
        /// What happened.
        report: Report,
        /// The user who reports it.
        by: UserName,
        /// The caller that waits for the answer.
        token: Token<ReportEnd>,
    },
    /// A user makes or revokes the secret address of its calendar.
    Calendar(CalendarInput),
    /// The shell has compared bookings with an RM.
    Compared {
        /// The RM of the comparison.
        rm: RmName,
        /// All differences that it found.
        differences: Vec<Difference>,
    },
    /// An RM tells of its equipment.
    Equipment(EquipmentNews),
    /// An operator repairs a difference with an RM.
    Repair(Repair),
    /// A parent coordinator sent a message, or answered a question.
    Parent(ParentInput),
    /// Whether the disk has space to begin anything new (I17).
    Room(DiskSpace),
    /// Time has passed.
    Tick,
}

impl From<ConversationInput> for CoordinatorInput {
    fn from(input: ConversationInput) -> Self {
        Self::Conversation(input)
    }
}

impl From<ParentInput> for CoordinatorInput {
    fn from(input: ParentInput) -> Self {
        Self::Parent(input)
    }
}

/// What a parent coordinator sends, except for a Hold, which opens a [conversation](crate::conversation).
#[derive(Debug, Clone)]
pub enum ParentInput {
    /// Phase two, either way, or the end of a booking.
    End {
        /// The parent's transaction.
        txn: TransactionId,
        /// The coordinator that sent the message.
        by: CoordinatorName,
        /// Which message it is: any kind but Hold.
        kind: MessageKind,
        /// The epoch in which the sending process leads; 0 if the parent's ledger was never shared.
        epoch: u64,
        /// The caller that waits for the answer.
        token: Token<ParentReply>,
    },
    /// What a parent says of itself with a Hold. Passed in before the Hold itself, which follows only if the answer is
    /// [`Answer::Done`](crate::message::Answer::Done).
    Preface {
        /// The parent's transaction of the Hold.
        txn: TransactionId,
        /// The parent.
        by: CoordinatorName,
        /// All of its attempts with lower numbers are at rest; 0 if it does not say.
        oldest_open: u64,
        /// The epoch in which the sending process leads; 0 if the parent's ledger was never shared.
        epoch: u64,
        /// The caller that waits for the answer.
        token: Token<ParentReply>,
    },
    /// The outcome of a [`CoordinatorEffect::AskParent`].
    Resolved {
        /// The parent's transaction.
        txn: TransactionId,
        /// The parent's answer, or that none has arrived.
        resolution: Resolution,
    },
}

/// A repair that an operator wants.
#[derive(Debug, Clone)]
pub enum Repair {
    /// Book a confirmed reservation again. Answered like a change.
    Rebook {
        /// The reservation, and the id of this repair.
        ticket: ChangeTicket,
        /// The booked version that the repair is about. If another one is booked by now, nothing is changed.
        booked: TransactionId,
        /// The current version, without what has ended by now at the RMs that have lost it.
        candidate: Candidate,
        /// The RMs that have lost it.
        lost: Vec<RmName>,
        /// The caller that waits for the answer.
        token: Token<ChangeEnd>,
    },
    /// Release what an RM has of a transaction that is not booked here.
    Disown {
        /// The RM that has it.
        rm: RmName,
        /// The transaction to release.
        txn: TransactionId,
        /// The operator.
        by: UserName,
        /// The operator's reason.
        why: String,
        /// The caller that waits for the answer.
        token: Token<DisownReply>,
    },
    /// Give up on an RM that does not acknowledge an end, see [`giving_up`](super::giving_up).
    GiveUp {
        /// The RM to give up on.
        rm: RmName,
        /// The reservations for which it is given up on.
        of: OfWhat,
        /// The operator.
        by: UserName,
        /// The operator's reason.
        why: String,
        /// The caller that waits for the answer.
        token: Token<GiveUpReply>,
    },
}

/// The answer to [`Repair::Disown`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DisownReply {
    /// The RM has acknowledged: it has nothing of the transaction any more.
    Released,
    /// The transaction is booked or under way here, in this reservation. Nothing was done.
    Stands(Box<Reservation>),
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
        /// All attempts with lower numbers are at rest. Sent with a Hold.
        oldest_open: u64,
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
    /// To a report.
    Report(Token<ReportEnd>, ReportEnd),
    /// To a [`CalendarInput`].
    Calendar(Token<CalendarReply>, CalendarReply),
    /// To Resolve.
    Resolve(Token<Resolution>, Resolution),
    /// To [`Repair::Rebook`], which ends as a change does.
    Rebook(Token<ChangeEnd>, ChangeEnd),
    /// To [`Repair::Disown`].
    Disown(Token<DisownReply>, DisownReply),
    /// To [`Repair::GiveUp`].
    GiveUp(Token<GiveUpReply>, GiveUpReply),
}
