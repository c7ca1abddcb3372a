//! One planning conversation: how a caller and the coordinator come from a request to its outcome.
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
//! * [`Next::Plan`]: plan this job, then post [`ConversationInput::Planned`] with what planning came to, or
//!   [`ConversationInput::BrokenOff`] when planning ended without a result. One of the two must follow: until then
//!   everybody who sends the same subject again waits.
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
    /// It plans this job and says what came of it.
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

    /// Planning again for a reservation whose attempts were refused so.
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

/// What planning came to.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What to try, best first; or why there is nothing.
    pub outcome: Result<Vec<Candidate>, Refusal>,
    /// How often a new request may be planned again; `None`: as often as its kind of candidates usually may. Not
    /// looked at otherwise.
    pub replans: Option<u32>,
    /// What the shell wants remembered with a new request or the new version; never looked at. Planning again
    /// changes nothing about the notes.
    pub notes: String,
}

impl From<Result<Vec<Candidate>, Refusal>> for Planned {
    fn from(outcome: Result<Vec<Candidate>, Refusal>) -> Self {
        Self { outcome, replans: None, notes: String::new() }
    }
}

/// What a conversation is about, with the type of its outcome.
pub trait Subject: Sized {
    /// How the conversation ends.
    type End;
    /// Opens the conversation. The answer comes for this token, and tells what is next.
    fn open(self, token: Token<Next<Self::End>>) -> Opening;
    /// Who waits for what comes of a planning.
    fn caller(token: Token<Next<Self::End>>) -> Caller;
}

impl Subject for Ticket {
    type End = RequestEnd;

    fn open(self, token: Token<Next<RequestEnd>>) -> Opening {
        Opening::Request(self, token)
    }

    fn caller(token: Token<Next<RequestEnd>>) -> Caller {
        Caller::Request(token)
    }
}

impl Subject for ChangeTicket {
    type End = ChangeEnd;

    fn open(self, token: Token<Next<ChangeEnd>>) -> Opening {
        Opening::Change(self, token)
    }

    fn caller(token: Token<Next<ChangeEnd>>) -> Caller {
        Caller::Change(token)
    }
}

impl Subject for HoldOrder {
    type End = ParentReply;

    fn open(self, token: Token<Next<ParentReply>>) -> Opening {
        Opening::ParentHold(self, token)
    }

    fn caller(token: Token<Next<ParentReply>>) -> Caller {
        Caller::ParentHold(token)
    }
}

/// What a caller says in a conversation.
#[derive(Debug, Clone)]
pub enum ConversationInput {
    /// A subject came, for the first time or again.
    Open(Opening),
    /// Planning has ended.
    Planned {
        /// What was planned.
        job: PlanJob,
        /// What came of it.
        planned: Planned,
        /// Who waits for what is next.
        caller: Caller,
    },
    /// Planning has broken off without a result. A subject that was planned for the first time was never there;
    /// one that was planned again is refused.
    BrokenOff(PlanJob),
}

impl From<ConversationInput> for CoordinatorInput {
    fn from(input: ConversationInput) -> Self {
        Self::Conversation(input)
    }
}

/// The first message of a conversation: its subject, and who waits.
#[allow(clippy::large_enum_variant)] // One a call, moved once: a box would be an allocation for nothing.
#[derive(Debug, Clone)]
pub enum Opening {
    /// A request.
    Request(Ticket, Token<Next<RequestEnd>>),
    /// A change of a reservation.
    Change(ChangeTicket, Token<Next<ChangeEnd>>),
    /// A hold of a parent coordinator.
    ParentHold(HoldOrder, Token<Next<ParentReply>>),
}

/// Who waits for what is next in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// About a request.
    Request(Token<Next<RequestEnd>>),
    /// About a change.
    Change(Token<Next<ChangeEnd>>),
    /// About a hold of a parent coordinator.
    ParentHold(Token<Next<ParentReply>>),
}

/// How a conversation about a request ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestEnd {
    /// Where the reservation stands. It is definite, or it takes longer than anybody should wait.
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
    /// Where the reservation stands, with this change as its last one.
    Stands(Box<Reservation>),
    /// The id of the change is known with other content.
    OtherContent,
    /// There is no disk space to begin it. Nothing was done or written, and the same id may be sent again.
    DiskFull,
    /// Another caller's planning of the same change broke off: send it again.
    BrokenOff,
    /// There is no reservation of that id.
    Unknown,
    /// Another change, this one, is under way; nothing was done.
    UnderWay(RequestId),
    /// The reservation was changed as often as it may be; nothing was done.
    Spent,
    /// The reservation cannot be changed as it stands; nothing was done.
    NotConfirmed(Box<Reservation>),
}

/// What a parent coordinator's message is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParentReply {
    /// As a resource manager would answer it.
    Answered(Answer),
    /// The same message came again meanwhile, and that copy has the answer.
    SentAgain,
}

/// What the release of a reservation is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseReply {
    /// Where the reservation stands. It is definite, or it takes longer than anybody should wait.
    Stands(Box<Reservation>),
    /// There is none of that id.
    Unknown,
}

impl Caller {
    /// The answer that has this caller plan a job.
    pub(crate) const fn plan(self, job: PlanJob) -> CoordinatorEffect {
        CoordinatorEffect::Reply(match self {
            Self::Request(token) => Reply::Request(token, Next::Plan(job)),
            Self::Change(token) => Reply::Change(token, Next::Plan(job)),
            Self::ParentHold(token) => Reply::ParentHold(token, Next::Plan(job)),
        })
    }

    /// The same caller as one who waits for the outcome of its reservation. A parent waits for the answer to its
    /// message instead, see [`ParentWaiter`].
    pub(crate) const fn waiter(self) -> Option<Waiter> {
        match self {
            Self::Request(token) => Some(Waiter::Request(token)),
            Self::Change(token) => Some(Waiter::Change(ChangeWaiter::Conversation(token))),
            Self::ParentHold(_) => None,
        }
    }
}

/// Somebody who waits for the outcome of a reservation or of its change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    Request(Token<Next<RequestEnd>>),
    Change(ChangeWaiter),
    Release(Token<ReleaseReply>),
}

impl Waiter {
    /// Where the reservation stands, to whoever waits for it.
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
    /// This end, to whoever waits for it.
    pub(crate) const fn to(self, token: Token<Next<Self>>) -> CoordinatorEffect {
        CoordinatorEffect::Reply(Reply::Request(token, Next::Done(self)))
    }
}

/// Somebody who waits for what comes of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeWaiter {
    /// Who planned the change, or sent it again meanwhile.
    Conversation(Token<Next<ChangeEnd>>),
    /// An operator who books a reservation again: nothing is planned.
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
    Hold(Token<Next<ParentReply>>),
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

/// Who plans and who waits. All of it is forgotten at a restart: callers send again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversations {
    /// Requests that are being planned, with who waits for each besides its planner.
    pub(crate) requests: BTreeMap<RequestId, (Ticket, Vec<Token<Next<RequestEnd>>>)>,
    /// Changes that are being planned, with who waits for each besides its planner.
    pub(crate) changes: BTreeMap<ReservationId, (ChangeTicket, Vec<ChangeWaiter>)>,
    /// Who waits for the outcome of a reservation.
    waiting: BTreeMap<ReservationId, Vec<Waiter>>,
    /// Which parent waits for which answer, one of each kind.
    parents: BTreeMap<(ReservationId, MessageKind), ParentWaiter>,
}

impl Conversations {
    /// The planning of a request has ended; who else waits for it.
    pub(crate) fn end_request(&mut self, id: &RequestId) -> Vec<Token<Next<RequestEnd>>> {
        self.requests.remove(id).map(|(_, waiting)| waiting).unwrap_or_default()
    }

    /// The planning of a change has ended; who else waits for it.
    pub(crate) fn end_change(&mut self, id: &ReservationId) -> Vec<ChangeWaiter> {
        self.changes.remove(id).map(|(_, waiting)| waiting).unwrap_or_default()
    }

    /// These wait for the outcome of a reservation from now on.
    pub(crate) fn wait(&mut self, id: &ReservationId, who: impl IntoIterator<Item = Waiter>) {
        self.waiting.entry(id.clone()).or_default().extend(who);
    }

    /// This one waits no longer.
    pub(crate) fn leave(&mut self, id: &ReservationId, who: Waiter) {
        if let Some(waiting) = self.waiting.get_mut(id) {
            waiting.retain(|other| *other != who);
        }
    }

    /// All who wait for the outcome of a reservation; nobody waits any longer.
    pub(crate) fn take(&mut self, id: &ReservationId) -> Vec<Waiter> {
        self.waiting.remove(id).unwrap_or_default()
    }

    /// Takes all who wait for one of the reservations that are definite.
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

    /// A parent waits for the answer to a message. One of each kind does: whoever waited before has given up that
    /// call.
    pub(crate) fn wait_as_parent(
        &mut self,
        id: &ReservationId,
        kind: MessageKind,
        waiter: ParentWaiter,
    ) -> Option<ParentWaiter> {
        self.parents.insert((id.clone(), kind), waiter)
    }

    /// The parent that waits for the answer to its Hold becomes the planner of that hold.
    pub(crate) fn parent_planner(&self, id: &ReservationId) -> Option<Caller> {
        match self.parents.get(&(id.clone(), MessageKind::Hold))? {
            ParentWaiter::Hold(token) => Some(Caller::ParentHold(*token)),
            ParentWaiter::End(_) => None,
        }
    }

    /// Whoever waited for the answer to a Hold does not any longer.
    pub(crate) fn leave_as_parent(&mut self, id: &ReservationId) {
        self.parents.remove(&(id.clone(), MessageKind::Hold));
    }

    /// All parents that wait; none waits any longer.
    pub(crate) fn take_parents(&mut self) -> BTreeMap<(ReservationId, MessageKind), ParentWaiter> {
        std::mem::take(&mut self.parents)
    }
}
