//! The coordinator's side of a [conversation](crate::conversation): what comes is new, known or under way, and what
//! was planned becomes a reservation, the next attempts of one, or an outcome.
//!
//! A request is here; a change is in [`change`](super::change), a hold of a parent in [`parent`](super::parent), and
//! planning again in [`retrying`](super::retrying).

use coalloc_common::planted::{self, Bug};
use coalloc_common::{Now, Reason, Refusal, RequestId, ReservationId};

use super::record::CoordinatorRecord;
use super::reservation::Reservation;
use super::retrying::{RetryState, usual_replans};
use super::{Candidate, Coordinator, Reply, StepOutput, Ticket};
use crate::conversation::{
    Caller, ConversationInput, Next, Opening, PlanJob, PlanTarget, Planned, RequestEnd, Waiter,
};
use crate::message::Token;

impl Coordinator {
    pub(super) fn converse(&mut self, input: ConversationInput, now: Now, out: &mut StepOutput) {
        match input {
            ConversationInput::Open(Opening::Request(ticket, token)) => {
                self.open_request(ticket, token, out);
            }
            ConversationInput::Open(Opening::Change(ticket, token)) => {
                self.open_change(ticket, token, out);
            }
            ConversationInput::Open(Opening::ParentHold(order, token)) => {
                self.parent_hold(order, None, token, now, out);
            }
            ConversationInput::Planned { job, planned, caller } => {
                self.planned(job, planned, caller, now, out);
            }
            ConversationInput::BrokenOff(job) => self.broken_off(job, now, out),
        }
    }

    fn planned(
        &mut self,
        job: PlanJob,
        planned: Planned,
        caller: Caller,
        now: Now,
        out: &mut StepOutput,
    ) {
        match (job.target, caller) {
            (PlanTarget::Request(id), Caller::Request(token)) => {
                self.request_planned(&id, planned, token, now, out);
            }
            (PlanTarget::Change(id), Caller::Change(token)) => {
                self.change_planned(&id, planned, token, now, out);
            }
            (PlanTarget::ParentHold(order), Caller::ParentHold(token)) => {
                self.parent_hold(order, Some(planned.outcome), token, now, out);
            }
            (PlanTarget::Again(id), caller) => {
                self.planned_again(&id, planned.outcome, caller, now, out);
            }
            // A job of another conversation than this caller's: nobody was told to plan it.
            (target, _) => self.broken_off(PlanJob::first(target), now, out),
        }
    }

    fn broken_off(&mut self, job: PlanJob, now: Now, out: &mut StepOutput) {
        match job.target {
            PlanTarget::Request(id) => {
                for token in self.conversations.end_request(&id) {
                    out.effects.push(RequestEnd::BrokenOff.to(token));
                }
            }
            PlanTarget::Change(id) => self.change_broken_off(&id, out),
            // Nothing is remembered of it before it is planned: the parent sends it again.
            PlanTarget::ParentHold(_) => {}
            PlanTarget::Again(id) => {
                if self.is_planned_again(&id) {
                    let text = "planning again broke off";
                    self.conclude(&id, Refusal::new(Reason::BudgetExhausted, text), now, out);
                }
            }
        }
    }

    fn open_request(
        &mut self,
        ticket: Ticket,
        token: Token<Next<RequestEnd>>,
        out: &mut StepOutput,
    ) {
        if let Some(known) = self.find_request(&ticket.request) {
            if known.ticket != ticket && !planted::is(Bug::OtherContentTaken) {
                out.effects.push(RequestEnd::OtherContent.to(token));
            } else if known.has_outcome() {
                out.effects.push(Waiter::Request(token).stands(known));
            } else {
                let id = known.id.clone();
                self.conversations.wait(&id, [Waiter::Request(token)]);
            }
            return;
        }
        match self.conversations.requests.get_mut(&ticket.request) {
            Some((known, _)) if *known != ticket => {
                out.effects.push(RequestEnd::OtherContent.to(token));
            }
            Some((_, waiting)) => waiting.push(token),
            None if self.room.is_low() => out.effects.push(RequestEnd::DiskFull.to(token)),
            None => {
                let job = PlanJob::first(PlanTarget::Request(ticket.request.clone()));
                let id = ticket.request.clone();
                self.conversations.requests.insert(id, (ticket, Vec::new()));
                out.reply(Reply::Request(token, Next::Plan(job)));
            }
        }
    }

    fn find_request(&self, request: &RequestId) -> Option<&Reservation> {
        self.by_request.get(request).and_then(|id| self.reservations.get(id))
    }

    /// A planned request becomes a reservation, and its best candidate the first attempt.
    fn request_planned(
        &mut self,
        request: &RequestId,
        planned: Planned,
        token: Token<Next<RequestEnd>>,
        now: Now,
        out: &mut StepOutput,
    ) {
        if self.room.is_low() {
            // There is no disk space to begin it (I17): it was never there, and all who wait for it are told.
            for token in self.conversations.end_request(request).into_iter().chain([token]) {
                out.effects.push(RequestEnd::DiskFull.to(token));
            }
            return;
        }
        let Some((ticket, waiting)) = self.conversations.requests.remove(request) else {
            return out.effects.push(RequestEnd::BrokenOff.to(token));
        };
        let id = self.next_id();
        self.conversations.wait(&id, waiting.into_iter().chain([token]).map(Waiter::Request));
        let Planned { outcome, replans, notes } = planned;
        let (first, rest) = match best_first(outcome) {
            Ok(candidates) => candidates,
            Err(refusal) => {
                let record =
                    CoordinatorRecord::Refused { reservation: id, ticket, refusal, notes, at: now };
                return self.record(record, out);
            }
        };
        let replans = replans.unwrap_or_else(|| usual_replans(&first));
        let trying = RetryState::new(rest, replans, Caller::Request(token), now);
        self.trying.insert(id.clone(), trying);
        let record = CoordinatorRecord::Opened { reservation: id.clone(), ticket, notes, at: now };
        self.record(record, out);
        self.attempt(&id, first, now, out);
    }

    fn next_id(&self) -> ReservationId {
        let number = self.order.len() + 1;
        ReservationId::composed(match planted::is(Bug::IdReused) {
            true => format!("{}-{number}", self.config.name),
            false => format!("{}-{}-{number}", self.config.name, self.config.tag),
        })
    }
}

/// The candidate to try first, and the others, to be tried from the back; or why there is none.
pub(super) fn best_first(
    outcome: Result<Vec<Candidate>, Refusal>,
) -> Result<(Candidate, Vec<Candidate>), Refusal> {
    let mut candidates = outcome?;
    candidates.reverse();
    let none = || Refusal::new(Reason::NoRoute, "the planner gave nothing to try");
    let first = candidates.pop().ok_or_else(none)?;
    Ok((first, candidates))
}
