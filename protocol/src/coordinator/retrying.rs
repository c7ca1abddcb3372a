//! From one attempt to the next: candidates in order, planning again when others were faster, and the
//! end when nothing is left to try.

use coalloc_common::{BootTime, Now, Reason, Refusal, ReservationId, Span, TransactionId, limits};

use super::change::ChangeState;
use super::converse::best_first;
use super::record::CoordinatorRecord;
use super::reservation::{Reservation, State};
use super::{Candidate, Coordinator, MessageKind, StepOutput};
use crate::conversation::{
    Caller, ChangeEnd, ChangeWaiter, ParentReply, ParentWaiter, PlanJob, RequestEnd,
};
use crate::disk_gate::no_room;

/// What an undecided reservation may still try.
#[derive(Debug, Clone)]
pub(super) struct RetryState {
    /// Tried from the back, best first.
    candidates: Vec<Candidate>,
    /// Who planned, and plans again; `None` while that is under way.
    planner: Option<Caller>,
    /// How often it may be planned again yet.
    replans_left: u32,
    /// When the first attempt was opened, and how long after that another may be.
    since: BootTime,
    patience: Span,
}

/// How often what begins with this candidate may be planned again.
pub(super) const fn usual_replans(first: &Candidate) -> u32 {
    if first.order.is_empty() { limits::REPLANS_MAX } else { limits::BACKTRACKS_MAX }
}

impl RetryState {
    /// The candidates after the first, to be tried from the back, planned by this caller, who may plan again
    /// so often.
    pub(super) const fn new(
        candidates: Vec<Candidate>,
        replans_left: u32,
        planner: Caller,
        now: Now,
    ) -> Self {
        let (planner, since) = (Some(planner), now.boot);
        Self { candidates, planner, replans_left, since, patience: limits::RESERVE_PATIENCE }
    }

    /// The same of a hold from above: whoever waits there has less patience.
    pub(super) const fn for_parent(candidates: Vec<Candidate>, planner: Caller, now: Now) -> Self {
        let (planner, since) = (Some(planner), now.boot);
        let replans_left = limits::UPWARD_REPLANS_MAX;
        Self { candidates, planner, replans_left, since, patience: limits::UPWARD_PATIENCE }
    }

    /// Is it being planned again, with no attempt under way?
    pub(super) const fn is_replanned(&self) -> bool {
        self.planner.is_none()
    }

    fn is_patient(&self, now: Now) -> bool {
        now.boot < self.since.saturating_add(self.patience)
    }
}

impl Coordinator {
    /// Opens the next attempt of a reservation: D1, then Hold to every RM at once, or to the first in its order.
    pub(super) fn attempt(
        &mut self,
        id: &ReservationId,
        candidate: Candidate,
        now: Now,
        out: &mut StepOutput,
    ) {
        // What was begun when there was room ends when there is none: an attempt more is a beginning (I17).
        if self.room.is_low() {
            return self.conclude(id, no_room(), now, out);
        }
        let known = self.reservations.get(id);
        let number = known.map_or(0, |known| known.opened) + 1;
        let txn = TransactionId::composed(format!("{id}/{number}"));
        let (reservation, at) = (id.clone(), now);
        let replaces = known.filter(|known| known.is_changing());
        let replaces = replaces.and_then(|known| known.transaction.clone());
        let replaces = replaces.or_else(|| self.replaced_inside(id));
        // What replaces a booking, or serves one above, is held until it is decided.
        let held =
            replaces.is_some() || known.is_some_and(|known| known.parent_transaction.is_some());
        let one_way = candidate.one_way && !held;
        let candidate = Candidate { details: candidate.details.written(), one_way, ..candidate };
        let record = CoordinatorRecord::Intent {
            txn: txn.clone(),
            reservation,
            candidate,
            replaces,
            mends: None,
            keeps_old: true,
            anew: Vec::new(),
            version: None,
            at,
        };
        self.record(record, out);
        self.send_due(&txn, now, out);
    }

    /// An attempt has failed and its holds are dropped, or patience with that is over: the next
    /// candidate, or fresh ones, or the end.
    pub(super) fn go_on(
        &mut self,
        txn: &TransactionId,
        id: &ReservationId,
        now: Now,
        out: &mut StepOutput,
    ) {
        let silent = self.leave_behind(txn);
        let stuck = self.is_stuck_at(id, &silent);
        let one_by_one = self.transactions.get(txn).is_some_and(|txn| txn.one_by_one);
        let known = self.reservations.get(id);
        let last = known.and_then(Reservation::last_refusal);
        let last = last.unwrap_or_else(|| Refusal::new(Reason::TimedOut, "nothing to try"));
        let is_above = known.is_some_and(|known| known.parent_transaction.is_some());
        let patient = |trying: &&mut RetryState| trying.is_patient(now) && !stuck;
        let Some(trying) = self.trying.get_mut(id).filter(patient) else {
            return self.conclude(id, last, now, out);
        };
        // An RM that does not even acknowledge an abort will not hold the next plan either.
        trying.candidates.retain(|c| silent.iter().all(|rm| !c.segments.contains_key(rm)));
        // Only a refusal for want of capacity says that the plans were out of date.
        let outdated = last.reason == Reason::InsufficientCapacity;
        let again = outdated && trying.replans_left > 0;
        // One by one it is about one choice: the search goes on from there before it starts elsewhere.
        if !(one_by_one && again)
            && let Some(next) = trying.candidates.pop()
        {
            return self.attempt(id, next, now, out);
        }
        let planner = match is_above {
            // Whoever has sent the message last waits, and can plan as well as who has planned before.
            true => self.conversations.parent_planner(id),
            false => trying.planner,
        };
        if let Some(planner) = planner.filter(|_| again) {
            trying.planner = None;
            trying.replans_left -= 1;
            self.conversations.leave_as_parent(id);
            if let Some(waiter) = planner.waiter() {
                self.conversations.leave(id, waiter);
            }
            let known = self.reservations.get(id);
            let refusals = known.map(Reservation::refusals_so_far).unwrap_or_default();
            out.effects.push(planner.plan(PlanJob::again(id.clone(), refusals)));
            return;
        }
        self.conclude(id, last, now, out);
    }

    /// Is it planned again, and still wanted?
    pub(super) fn is_planned_again(&self, id: &ReservationId) -> bool {
        let known = self.reservations.get(id);
        let undecided = known.is_some_and(|k| k.state == State::Checking || k.is_changing());
        undecided && self.trying.get(id).is_some_and(RetryState::is_replanned)
    }

    /// The planner has planned again; or it could not, and the reservation ends.
    pub(super) fn planned_again(
        &mut self,
        id: &ReservationId,
        outcome: Result<Vec<Candidate>, Refusal>,
        caller: Caller,
        now: Now,
        out: &mut StepOutput,
    ) {
        let wanted = self.is_planned_again(id);
        match (caller, self.reservations.get(id)) {
            (Caller::Request(token), None) => {
                return out.effects.push(RequestEnd::BrokenOff.to(token));
            }
            (Caller::Change(token), None) => {
                let waiter = ChangeWaiter::Conversation(token);
                return out.effects.push(waiter.reply(ChangeEnd::Unknown));
            }
            (Caller::ParentHold(token), None) => {
                return out.effects.push(ParentWaiter::Hold(token).reply(ParentReply::SentAgain));
            }
            (Caller::ParentHold(token), Some(_)) => {
                self.answer_parent(id, MessageKind::Hold, ParentWaiter::Hold(token), out);
            }
            (Caller::Request(_) | Caller::Change(_), Some(known)) => {
                let Some(waiter) = caller.waiter() else { return };
                if !wanted {
                    // Released meanwhile.
                    return out.effects.push(waiter.stands(known));
                }
                self.conversations.wait(id, [waiter]);
            }
        }
        if !wanted {
            return;
        }
        match best_first(outcome.map(|candidates| self.with_parties_of_old(id, candidates))) {
            Ok((next, rest)) => {
                if let Some(trying) = self.trying.get_mut(id) {
                    trying.candidates = rest;
                    trying.planner = Some(caller);
                }
                self.attempt(id, next, now, out);
            }
            Err(refusal) => self.conclude(id, refusal, now, out),
        }
    }

    /// Candidates for the reservation itself, or of one that replaces another version with every RM of that.
    fn with_parties_of_old(
        &self,
        id: &ReservationId,
        candidates: Vec<Candidate>,
    ) -> Vec<Candidate> {
        let Some(known) = self.reservations.get(id) else { return candidates };
        match self.parent_order(known) {
            _ if known.is_changing() => self.with_old_parties(id, candidates),
            Some(order) => self.with_parties_for_parent(order, candidates),
            None => candidates,
        }
    }

    /// Candidates are many times what a reservation itself takes: they are kept no longer than something
    /// may be tried.
    pub(super) fn check_trying(&self) -> Result<(), String> {
        let undecided = |known: &Reservation| {
            let change = known.change.as_ref().map(|change| change.state);
            known.state == State::Checking || change == Some(ChangeState::Checking)
        };
        let over = self.trying.keys().find(|id| !self.reservations.get(*id).is_some_and(undecided));
        over.map_or(Ok(()), |id| Err(format!("{id} tries nothing any more but has candidates")))
    }

    /// No further attempt: the reservation has failed, for certain once every RM has acknowledged.
    pub(super) fn conclude(
        &mut self,
        id: &ReservationId,
        refusal: Refusal,
        now: Now,
        out: &mut StepOutput,
    ) {
        self.trying.remove(id);
        let known = self.reservations.get(id);
        let change = known.and_then(|known| known.change.as_ref()).filter(|c| c.is_under_way());
        let last = match change {
            Some(change) => change.transaction.clone(),
            None => known.and_then(|known| known.transaction.clone()),
        };
        let is_change = change.is_some();
        if let Some(last) = last {
            self.leave_behind(&last);
        }
        if is_change {
            self.refuse_change(id, refusal, now, out);
        } else {
            let (reservation, state) = (id.clone(), None);
            let record = CoordinatorRecord::Concluded { reservation, refusal, state, at: now };
            self.record(record, out);
        }
        // Patience is over already where something is unfinished: say so instead of keeping them.
        let Some(reservation) = self.reservations.get(id) else { return };
        let waiting = self.conversations.take(id).into_iter();
        out.effects.extend(waiting.map(|waiter| waiter.stands(reservation)));
    }
}
