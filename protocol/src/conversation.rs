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
//! business. This module has the types of the conversation and remembers who is planning and who waits
//! ([`Conversations`]); what planning leads to is decided by [`coordinator`](crate::coordinator).

use std::collections::BTreeMap;

use coalloc_common::{Refusal, RequestId, ReservationId};

use crate::coordinator::{
    Candidate, ChangeTicket, CoordinatorEffect, CoordinatorInput, MessageKind, Reply, Reservation,
    Ticket,
};
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

impl From<ConversationInput> for CoordinatorInput {
    fn from(input: ConversationInput) -> Self {
        Self::Conversation(input)
    }
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

impl Caller {
    /// The answer that asks this caller to plan a job.
    pub(crate) const fn plan(self, job: PlanJob) -> CoordinatorEffect {
        CoordinatorEffect::Reply(match self {
            Self::Request(token) => Reply::Request(token, Next::Plan(job)),
            Self::Change(token) => Reply::Change(token, Next::Plan(job)),
            Self::ParentHold(token) => Reply::ParentHold(token, Next::Plan(job)),
        })
    }

    /// This caller as one that waits for the outcome of its reservation; `None` for a parent, which waits for
    /// the answer to its message instead, see [`ParentWaiter`].
    pub(crate) const fn waiter(self) -> Option<Waiter> {
        match self {
            Self::Request(token) => Some(Waiter::Request(token)),
            Self::Change(token) => Some(Waiter::Change(ChangeWaiter::Conversation(token))),
            Self::ParentHold(_) => None,
        }
    }
}

/// A caller that waits for the outcome of a reservation or of its change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    Request(RequestToken),
    Change(ChangeWaiter),
    Release(Token<ReleaseReply>),
}

impl Waiter {
    /// The answer to this caller: the reservation as it is now.
    pub(crate) fn stands(self, known: &Reservation) -> CoordinatorEffect {
        let known = Box::new(known.clone());
        match self {
            Self::Request(token) => RequestEnd::Stands(known).to(token),
            Self::Change(waiter) => waiter.reply(ChangeEnd::Stands(known)),
            Self::Release(token) => {
                CoordinatorEffect::Reply(Reply::Release(token, ReleaseReply::Stands(known)))
            }
        }
    }
}

impl RequestEnd {
    /// The answer to this token: the conversation has ended like this.
    pub(crate) const fn to(self, token: Token<Next<Self>>) -> CoordinatorEffect {
        CoordinatorEffect::Reply(Reply::Request(token, Next::Done(self)))
    }
}

/// A caller that waits for the outcome of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeWaiter {
    /// A caller that has planned the change, or has sent it again meanwhile.
    Conversation(ChangeToken),
    /// An operator that books a reservation again, for which nothing is planned.
    Rebook(Token<ChangeEnd>),
}

impl ChangeWaiter {
    pub(crate) const fn reply(self, end: ChangeEnd) -> CoordinatorEffect {
        CoordinatorEffect::Reply(match self {
            Self::Conversation(token) => Reply::Change(token, Next::Done(end)),
            Self::Rebook(token) => Reply::Rebook(token, end),
        })
    }
}

/// A parent coordinator that waits for the answer to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParentWaiter {
    Hold(HoldToken),
    End(Token<ParentReply>),
}

impl ParentWaiter {
    pub(crate) const fn reply(self, reply: ParentReply) -> CoordinatorEffect {
        CoordinatorEffect::Reply(match self {
            Self::Hold(token) => Reply::ParentHold(token, Next::Done(reply)),
            Self::End(token) => Reply::ParentEnd(token, reply),
        })
    }

    pub(crate) const fn answer(self, answer: Answer) -> CoordinatorEffect {
        self.reply(ParentReply::Answered(answer))
    }
}

/// Who plans and who waits. All of it is lost at a restart, and callers send again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversations {
    /// Requests that are being planned, each with the callers that wait besides its planner.
    pub(crate) requests: BTreeMap<RequestId, (Ticket, Vec<RequestToken>)>,
    /// Changes that are being planned, each with the callers that wait besides its planner.
    pub(crate) changes: BTreeMap<ReservationId, (ChangeTicket, Vec<ChangeWaiter>)>,
    /// The callers that wait for the outcome of a reservation.
    waiting: BTreeMap<ReservationId, Vec<Waiter>>,
    /// The parents that wait for an answer about a reservation, one for each kind of message.
    parents: BTreeMap<(ReservationId, MessageKind), ParentWaiter>,
}

impl Conversations {
    /// The planning of a request has ended. Returns the other callers that wait for it.
    pub(crate) fn end_request(&mut self, id: &RequestId) -> Vec<RequestToken> {
        self.requests.remove(id).map(|(_, waiting)| waiting).unwrap_or_default()
    }

    /// The planning of a change has ended. Returns the other callers that wait for it.
    pub(crate) fn end_change(&mut self, id: &ReservationId) -> Vec<ChangeWaiter> {
        self.changes.remove(id).map(|(_, waiting)| waiting).unwrap_or_default()
    }

    /// From now on these callers wait for the outcome of a reservation.
    pub(crate) fn wait(&mut self, id: &ReservationId, who: impl IntoIterator<Item = Waiter>) {
        self.waiting.entry(id.clone()).or_default().extend(who);
    }

    /// This caller no longer waits.
    pub(crate) fn leave(&mut self, id: &ReservationId, who: Waiter) {
        if let Some(waiting) = self.waiting.get_mut(id) {
            waiting.retain(|other| *other != who);
        }
    }

    /// Takes all callers that wait for the outcome of a reservation.
    pub(crate) fn take(&mut self, id: &ReservationId) -> Vec<Waiter> {
        self.waiting.remove(id).unwrap_or_default()
    }

    /// Answers all callers that wait for a reservation which is definite.
    pub(crate) fn answer_definite<'a>(
        &mut self,
        find: impl Fn(&ReservationId) -> Option<&'a Reservation>,
        effects: &mut Vec<CoordinatorEffect>,
    ) {
        self.waiting.retain(|id, waiting| {
            let Some(known) = find(id).filter(|known| known.is_definite()) else { return true };
            effects.extend(waiting.drain(..).map(|waiter| waiter.stands(known)));
            false
        });
    }

    /// A parent waits for the answer to a message. Only one caller waits for each kind of message: an earlier
    /// one has given up its call, and is returned.
    pub(crate) fn wait_as_parent(
        &mut self,
        id: &ReservationId,
        kind: MessageKind,
        waiter: ParentWaiter,
    ) -> Option<ParentWaiter> {
        self.parents.insert((id.clone(), kind), waiter)
    }

    /// The waiting caller of a parent's Hold, as the one that plans the hold again.
    pub(crate) fn parent_planner(&self, id: &ReservationId) -> Option<Caller> {
        match self.parents.get(&(id.clone(), MessageKind::Hold))? {
            ParentWaiter::Hold(token) => Some(Caller::ParentHold(*token)),
            ParentWaiter::End(_) => None,
        }
    }

    /// No caller waits any longer for the answer to a parent's Hold.
    pub(crate) fn leave_as_parent(&mut self, id: &ReservationId) {
        self.parents.remove(&(id.clone(), MessageKind::Hold));
    }

    /// Takes all waiting parents.
    pub(crate) fn take_parents(&mut self) -> BTreeMap<(ReservationId, MessageKind), ParentWaiter> {
        std::mem::take(&mut self.parents)
    }
}
