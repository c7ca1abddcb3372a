//! Who plans and who waits, and the answers to those that wait. All of it is lost at a restart, and callers send
//! again. What planning leads to is decided in the other files.

use std::collections::BTreeMap;

use coalloc_common::{RequestId, ReservationId};

use super::input::{CoordinatorEffect, Reply};
use super::reservation::{ChangeTicket, Reservation, Ticket};
use crate::conversation::{
    Caller, ChangeEnd, ChangeToken, HoldToken, Next, ParentReply, PlanJob, ReleaseReply,
    RequestEnd, RequestToken,
};
use crate::message::{Answer, MessageKind, Token};

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

    /// The reservations for whose outcome somebody waits.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = &ReservationId> {
        self.waiting.keys()
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
