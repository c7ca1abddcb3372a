//! One planning conversation: how a caller and the coordinator get from a request to its outcome.
//!
//! A caller opens a conversation about its subject: a new request, a change of a reservation, or a hold of a parent
//! coordinator. Every answer says what is next:
//!
//! ```text
//!            Open                  Planned                        Planned
//! caller  ---------> coordinator <--------- caller ... coordinator <--------- caller ...
//!         <--------- Plan(job)   ---------> (waits)    ---------> Plan(job), others were faster
//!         <--------- Done(end), when it is known already     ---> Done(end)
//! ```
//!
//! * [`Next::Plan`]: plan this job, then post [`ConversationInput::Planned`] with the result of planning, or
//!   [`ConversationInput::BrokenOff`] when planning ended without a result. One of the two must follow: until
//!   then everybody who sends the same subject again waits.
//! * No answer yet: the coordinator tries what was planned. The caller waits.
//! * [`Next::Done`]: the outcome.
//!
//! Tasks are requests with another planner. Which planner plans a job, and on which picture, is the caller's
//! business. This module has the types of the conversation; who plans, who waits, and what planning leads to is
//! kept and decided by [`coordinator`](crate::coordinator).

use coalloc_common::{Refusal, RequestId, ReservationId};

use crate::coordinator::reservation::{Candidate, ChangeTicket, Reservation, Ticket};
use crate::message::{Answer, HoldOrder, Token};

/// What the caller of a conversation does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<E> {
    /// It plans this job and reports the result.
    Plan(PlanJob),
    /// Nothing: the conversation has ended.
    Done(E),
}

/// Something that the coordinator wants planned. It goes back to the coordinator with the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanJob {
    /// What is to be planned.
    pub target: PlanTarget,
    /// Why earlier attempts at the same subject were refused, oldest first; empty for the first planning.
    pub refusals: Vec<Refusal>,
}

/// What is to be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanTarget {
    /// A new request.
    Request(RequestId),
    /// A new version of this reservation.
    Change(ReservationId),
    /// What a parent coordinator wants held.
    ParentHold(HoldOrder),
    /// The subject of this reservation once more: every plan was refused because others were faster, or the
    /// refusal was about one choice of a search that goes on from there.
    Again(ReservationId),
}

impl PlanJob {
    /// The first planning of a subject.
    #[must_use]
    pub const fn first(target: PlanTarget) -> Self {
        Self { target, refusals: Vec::new() }
    }

    /// Planning again for a reservation, with the refusals of its attempts so far.
    #[must_use]
    pub const fn again(reservation: ReservationId, refusals: Vec<Refusal>) -> Self {
        Self { target: PlanTarget::Again(reservation), refusals }
    }

    /// The reservation that is planned again; `None` for the first planning of a subject.
    #[must_use]
    pub const fn reservation(&self) -> Option<&ReservationId> {
        match &self.target {
            PlanTarget::Again(reservation) => Some(reservation),
            PlanTarget::Request(_) | PlanTarget::Change(_) | PlanTarget::ParentHold(_) => None,
        }
    }
}

/// The result of planning.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The candidates to try, best first; or the reason why there are none.
    pub outcome: Result<Vec<Candidate>, Refusal>,
    /// How often a new request may be planned again; `None` means as often as usual for its kind of candidates.
    /// Has no meaning for other subjects.
    pub replans: Option<u32>,
    /// What the shell wants remembered with a new request or a new version. The coordinator never looks at it,
    /// and planning again does not change it.
    pub notes: String,
}

impl From<Result<Vec<Candidate>, Refusal>> for Planned {
    fn from(outcome: Result<Vec<Candidate>, Refusal>) -> Self {
        Self { outcome, replans: None, notes: String::new() }
    }
}

/// Who waits for what is next in a conversation about a request.
pub type RequestToken = Token<Next<RequestEnd>>;
/// Who waits for what is next in a conversation about a change.
pub type ChangeToken = Token<Next<ChangeEnd>>;
/// Who waits for what is next in a conversation about a hold of a parent coordinator.
pub type HoldToken = Token<Next<ParentReply>>;

/// What a conversation is about: a request, a change or a parent's hold. It determines the type of the outcome.
pub trait Subject: Sized {
    /// How the conversation ends.
    type End;
    /// Opens the conversation. The answer goes to this token, and says what is next.
    fn open(self, token: Token<Next<Self::End>>) -> Opening;
    /// The caller with this token, as it stands in [`ConversationInput::Planned`].
    fn caller(token: Token<Next<Self::End>>) -> Caller;
}

impl Subject for Ticket {
    type End = RequestEnd;

    fn open(self, token: RequestToken) -> Opening {
        Opening::Request(self, token)
    }

    fn caller(token: RequestToken) -> Caller {
        Caller::Request(token)
    }
}

impl Subject for ChangeTicket {
    type End = ChangeEnd;

    fn open(self, token: ChangeToken) -> Opening {
        Opening::Change(self, token)
    }

    fn caller(token: ChangeToken) -> Caller {
        Caller::Change(token)
    }
}

impl Subject for HoldOrder {
    type End = ParentReply;

    fn open(self, token: HoldToken) -> Opening {
        Opening::ParentHold(self, token)
    }

    fn caller(token: HoldToken) -> Caller {
        Caller::ParentHold(token)
    }
}

/// What a caller reports in a conversation.
#[derive(Debug, Clone)]
pub enum ConversationInput {
    /// A subject arrives, for the first time or again.
    Open(Opening),
    /// Planning has ended.
    Planned {
        /// The job that was planned.
        job: PlanJob,
        /// The result.
        planned: Planned,
        /// The caller that waits for what is next.
        caller: Caller,
    },
    /// Planning has broken off without a result. Of a subject that was planned for the first time nothing is
    /// kept; one that was planned again is refused.
    BrokenOff(PlanJob),
}

/// The first message of a conversation: its subject, and the token of the caller that waits.
#[allow(clippy::large_enum_variant)] // One a call, moved once: a box would be an allocation for nothing.
#[derive(Debug, Clone)]
pub enum Opening {
    /// A request.
    Request(Ticket, RequestToken),
    /// A change of a reservation.
    Change(ChangeTicket, ChangeToken),
    /// A hold of a parent coordinator.
    ParentHold(HoldOrder, HoldToken),
}

/// The caller that waits for what is next in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// About a request.
    Request(RequestToken),
    /// About a change.
    Change(ChangeToken),
    /// About a hold of a parent coordinator.
    ParentHold(HoldToken),
}

/// How a conversation about a request ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestEnd {
    /// The reservation as it is now. Its state is definite, or becoming so takes longer than a caller should
    /// wait.
    Stands(Box<Reservation>),
    /// The id is known with other content.
    OtherContent,
    /// There is no disk space to begin it. Nothing was done or written, and the same id may be sent again.
    DiskFull,
    /// Another caller's planning of the same request broke off: send it again.
    BrokenOff,
}

/// How a conversation about a change ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeEnd {
    /// The reservation as it is now, with this change as its last one.
    Stands(Box<Reservation>),
    /// The id of the change is known with other content.
    OtherContent,
    /// There is no disk space to begin it. Nothing was done or written, and the same id may be sent again.
    DiskFull,
    /// Another caller's planning of the same change broke off: send it again.
    BrokenOff,
    /// There is no reservation of that id.
    Unknown,
    /// Another change is under way, which has this id; nothing was done.
    UnderWay(RequestId),
    /// The reservation was changed as often as it may be; nothing was done.
    Spent,
    /// The reservation cannot be changed in its present state; nothing was done.
    NotConfirmed(Box<Reservation>),
}

/// The answer to a parent coordinator's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParentReply {
    /// As a resource manager would answer it.
    Answered(Answer),
    /// The same message arrived again meanwhile. The answer goes to the later one.
    SentAgain,
}

/// The answer to the release of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseReply {
    /// The reservation as it is now. Its state is definite, or becoming so takes longer than a caller should
    /// wait.
    Stands(Box<Reservation>),
    /// There is no reservation of that id.
    Unknown,
}
