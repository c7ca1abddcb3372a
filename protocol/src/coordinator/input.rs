//! What a coordinator is told, what it wants done, and what it answers: its side of the shell.

use coalloc_common::{
    CoordinatorName, DiskSpace, Refusal, RequestId, ReservationId, RmName, TransactionId,
};

use super::change::ChangeTicket;
use super::giving_up::{GaveUpOn, NotGivenUp};
use super::parent::ParentInput;
use super::promises::Difference;
use super::repair::Repair;
use super::reservation::Reservation;
use super::{Candidate, Ticket};
use crate::message::{Answer, Delivery, Message, Resolution, Token};

/// What can happen to a coordinator.
#[derive(Debug, Clone)]
pub enum CoordinatorInput {
    /// The process begins. Sent once, first, after the replay.
    Start,
    /// A request came. Answered with [`Reply::Plan`] when it is new, else when it has an outcome.
    Open {
        /// What is asked for.
        ticket: Ticket,
        /// Who waits.
        token: Token,
    },
    /// Planning has ended with something to try, best first; never empty.
    Reserve {
        /// Of which request.
        request: RequestId,
        /// What to try.
        candidates: Vec<Candidate>,
        /// How often it may be planned again; `None`: as often as its kind of candidates usually may.
        replans: Option<u32>,
        /// What the shell wants remembered with the reservation; never looked at.
        notes: String,
        /// Who waits.
        token: Token,
    },
    /// A [`Reply::Replan`] has been followed.
    Replanned {
        /// Of which reservation.
        reservation: ReservationId,
        /// What to try now, best first; or why there is nothing.
        outcome: Result<Vec<Candidate>, Refusal>,
        /// Who waits.
        token: Token,
    },
    /// Planning has ended with nothing to try.
    Refuse {
        /// Of which request.
        request: RequestId,
        /// Why.
        refusal: Refusal,
        /// What the shell wants remembered with the reservation; never looked at.
        notes: String,
        /// Who waits.
        token: Token,
    },
    /// A change of a reservation came. Answered with [`Reply::PlanChange`] when it is new and can be
    /// made, else when it has an outcome.
    OpenChange {
        /// Which change of what.
        ticket: ChangeTicket,
        /// Who waits.
        token: Token,
    },
    /// Planning of a change has ended.
    Modify {
        /// Of which reservation.
        reservation: ReservationId,
        /// What to try, best first; or why there is nothing.
        outcome: Result<Vec<Candidate>, Refusal>,
        /// What the shell wants remembered with the reservation once it is changed; never looked at.
        notes: String,
        /// Who waits.
        token: Token,
    },
    /// Planning of a change has broken off; the change was never there.
    ForgetChange {
        /// Of which reservation.
        reservation: ReservationId,
    },
    /// Planning has broken off; the request was never there.
    Forget {
        /// Of which request.
        request: RequestId,
    },
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
        token: Token,
    },
    /// A reservation shall end.
    Release {
        /// Which.
        reservation: ReservationId,
        /// Who waits.
        token: Token,
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
    Reply {
        /// Who.
        token: Token,
        /// What.
        reply: Reply,
    },
}

/// Answers to callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To Open: it is new; plan it, then send `Reserve`, `Refuse` or `Forget`.
    Plan,
    /// To Reserve, Replanned, and to a Hold from above: every plan was refused because others were faster; or
    /// one that is held in an order was. Plan again on what is free now, then send `Replanned`, in any case.
    Replan(ReservationId),
    /// To Open, Reserve, Refuse, Release: where the reservation stands. It is definite, or it takes
    /// longer than anybody should wait.
    Stands(Box<Reservation>),
    /// To Open, Reserve, Refuse, OpenChange, Modify: there is no room on the disk to begin it. Nothing was done or
    /// written, and the same id may be sent again.
    NoRoom,
    /// To Open: the id is known with other content.
    OtherContent,
    /// To Open, when another caller's planning of the same request broke off: send it again. To whoever
    /// is above, when the same message came again meanwhile.
    Forgotten,
    /// To Release, OpenChange, GiveUp: there is none of that id.
    Unknown,
    /// To OpenChange: it is new; plan it, then send `Modify` or `ForgetChange`.
    PlanChange,
    /// To OpenChange: this one is under way; nothing was done.
    ChangeUnderWay(RequestId),
    /// To OpenChange: the reservation was changed as often as it may be; nothing was done.
    ChangesSpent,
    /// To OpenChange, Modify: it cannot be changed as it stands; nothing was done.
    NotConfirmed(Box<Reservation>),
    /// To Disown: the RM has acknowledged; it has nothing of the transaction any more.
    Disowned,
    /// To GiveUp: it is recorded.
    GaveUp(GaveUpOn),
    /// To GiveUp: it is not, and why.
    NotGivenUp(NotGivenUp),
    /// To a Hold from above: it is new; plan it, then send it again with what came of that.
    PlanParentHold,
    /// To whoever is above.
    ToParent(Answer),
    /// To Resolve.
    Resolution(Resolution),
}
