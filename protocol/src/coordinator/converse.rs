//! The coordinator's side of a [conversation](crate::conversation). A subject that arrives is new, known or
//! under way. What was planned becomes a reservation, further attempts at one, or an outcome.
//!
//! This module has the conversation about a request. [`change`](super::change) has that about a change,
//! [`parent`](super::parent) that about a parent's hold, and [`retrying`](super::retrying) planning again.

use coalloc_common::planted::{self, Bug};
use coalloc_common::{Now, Reason, Refusal, RequestId, ReservationId};

use super::record::CoordinatorRecord;
use super::reservation::{Reservation, Ticket};
use super::retrying::{RetryState, best_first, usual_replans};
use super::waiting::Waiter;
use super::{Coordinator, Reply, StepOutput};
use crate::conversation::{
    Caller, ConversationInput, Next, Opening, PlanJob, PlanTarget, Planned, RequestEnd,
    RequestToken,
};

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
            // The job belongs to another conversation than the caller does: this caller was never asked to plan
            // it.
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
            // Nothing is kept about a parent's hold before it is planned. The parent sends it again.
            PlanTarget::ParentHold(_) => {}
            PlanTarget::Again(id) => {
                if self.is_planned_again(&id) {
                    let text = "the planning of another attempt broke off";
                    self.conclude(&id, Refusal::new(Reason::BudgetExhausted, text), now, out);
                }
            }
        }
    }

    fn open_request(&mut self, ticket: Ticket, token: RequestToken, out: &mut StepOutput) {
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

    /// Makes a reservation of a planned request, and its best candidate the first attempt.
    fn request_planned(
        &mut self,
        request: &RequestId,
        planned: Planned,
        token: RequestToken,
        now: Now,
        out: &mut StepOutput,
    ) {
        if self.room.is_low() {
            // There is no disk space to begin it (I17). Nothing is recorded, and all callers that wait for it
            // get this answer.
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
                let notes = self.notes_of_refused(notes);
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

    /// The id of the next reservation. What is forgotten keeps its number.
    pub(super) fn next_id(&self) -> ReservationId {
        let forgotten = match planted::is(Bug::NumberReused) {
            true => 0,
            false => self.forgetting.count.reservations,
        };
        let number = self.order.len() as u64 + forgotten + 1;
        ReservationId::composed(match planted::is(Bug::IdReused) {
            true => format!("{}-{number}", self.config.name),
            false => format!("{}-{}-{number}", self.config.name, self.config.tag),
        })
    }
}
