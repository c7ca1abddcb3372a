//! From one attempt to the next: candidates in order, planning again when other requests were faster, and the
//! end when nothing is left to try.

use coalloc_common::{BootTime, Now, Reason, Refusal, ReservationId, Span, TransactionId, limits};

use super::record::{CoordinatorRecord, stamped};
use super::reservation::{Candidate, ChangeState, Reservation, State};
use super::waiting::{ChangeWaiter, ParentWaiter};
use super::{Coordinator, StepOutput};
use crate::conversation::{Caller, ChangeEnd, ParentReply, PlanJob, RequestEnd};
use crate::disk_gate::no_room;
use crate::message::MessageKind;

/// What may still be tried for an undecided reservation.
#[derive(Debug, Clone)]
pub(super) struct RetryState {
    /// The candidates that are left. The best is last, and is taken first.
    candidates: Vec<Candidate>,
    /// The caller that planned, and will plan again; `None` while it does so.
    planner: Option<Caller>,
    /// How many more times it may be planned again.
    replans_left: u32,
    /// When the first attempt was opened, and how long after that another one may be opened.
    since: BootTime,
    patience: Span,
}

/// How often a request may be planned again when this is its first candidate.
pub(super) const fn usual_replans(first: &Candidate) -> u32 {
    if first.order.is_empty() { limits::REPLANS_MAX } else { limits::BACKTRACKS_MAX }
}

/// The candidate to try first, and the others in reverse order, to be taken from the back; or why there is
/// none.
#[allow(clippy::result_large_err)] // The refusal becomes a record at once.
pub(super) fn best_first(
    outcome: Result<Vec<Candidate>, Refusal>,
) -> Result<(Candidate, Vec<Candidate>), Refusal> {
    let mut candidates = outcome?;
    candidates.reverse();
    let none = || Refusal::new(Reason::NoRoute, "the planner found nothing to try");
    let first = candidates.pop().ok_or_else(none)?;
    Ok((first, candidates))
}

impl RetryState {
    /// The retry state after the first candidate was taken. `candidates` are the others, the best one last.
    /// `planner` has planned them, and may plan again `replans_left` times.
    pub(super) const fn new(
        candidates: Vec<Candidate>,
        replans_left: u32,
        planner: Caller,
        now: Now,
    ) -> Self {
        let (planner, since) = (Some(planner), now.boot);
        Self { candidates, planner, replans_left, since, patience: limits::RESERVE_PATIENCE }
    }

    /// The same for a hold of a parent coordinator, which waits a shorter time.
    pub(super) const fn for_parent(candidates: Vec<Candidate>, planner: Caller, now: Now) -> Self {
        let (planner, since) = (Some(planner), now.boot);
        let replans_left = limits::UPWARD_REPLANS_MAX;
        Self { candidates, planner, replans_left, since, patience: limits::UPWARD_PATIENCE }
    }

    /// Is it being planned again, with no attempt under way?
    pub(super) const fn is_replanned(&self) -> bool {
        self.planner.is_none()
    }

    /// Takes the best candidate that fits. Those before it are used up.
    pub(super) fn take_first(&mut self, fits: impl Fn(&Candidate) -> bool) -> Option<Candidate> {
        while let Some(next) = self.candidates.pop() {
            if fits(&next) {
                return Some(next);
            }
        }
        None
    }

    fn is_patient(&self, now: Now) -> bool {
        now.boot < self.since.saturating_add(self.patience)
    }
}

impl Coordinator {
    /// Opens the next attempt at a reservation: D1, then Hold to all RMs at once, or to the first one in the
    /// candidate's order.
    pub(super) fn attempt(
        &mut self,
        id: &ReservationId,
        candidate: Candidate,
        now: Now,
        out: &mut StepOutput,
    ) {
        // Another attempt is something new (I17): without disk space the reservation ends, even if it began
        // with space.
        if self.room.is_low() {
            return self.conclude(id, no_room(), now, out);
        }
        let candidate = match self.within_quota(id, candidate, now.wall) {
            Ok(candidate) => candidate,
            Err(refusal) => return self.conclude(id, refusal, now, out),
        };
        let known = self.reservations.get(id);
        let txn = self.next_attempt(id);
        let (reservation, at) = (id.clone(), now);
        let replaces = known.filter(|known| known.is_changing());
        let replaces = replaces.and_then(|known| known.transaction.clone());
        let replaces = replaces.or_else(|| self.replaced_inside(id));
        // An attempt that replaces a booking, or serves a parent, holds until it is decided. It cannot be
        // one-way.
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
            anew: Vec::new(),
            version: stamped::VERSION,
            active: stamped::ACTIVE,
            at,
        };
        self.record(record, out);
        self.send_due(&txn, now, out);
    }

    /// An attempt has failed, and its holds are dropped or the wait for that has timed out. Next is another
    /// candidate, or planning again, or the end.
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
        let last = last.unwrap_or_else(|| Refusal::new(Reason::TimedOut, "no candidate to try"));
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
        // When RMs are held one by one, a refusal is about one choice, and the search goes on from there before
        // it starts elsewhere.
        if !(one_by_one && again)
            && let Some(next) = trying.candidates.pop()
        {
            return self.attempt(id, next, now, out);
        }
        let planner = match is_above {
            // The caller that has sent the parent's Hold last is the one that waits, and it can plan as well as
            // the one before.
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

    /// Is this reservation being planned again, and is the result still wanted?
    pub(super) fn is_planned_again(&self, id: &ReservationId) -> bool {
        let known = self.reservations.get(id);
        let undecided = known.is_some_and(|k| k.state == State::Checking || k.is_changing());
        undecided && self.trying.get(id).is_some_and(RetryState::is_replanned)
    }

    /// The planner has planned again, or could not, in which case the reservation ends.
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
                    // It was released meanwhile.
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

    /// Candidates for a reservation. If it replaces another version, every RM of that version takes part in
    /// each.
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

    /// Candidates take many times the memory of the reservation itself, so they are kept only as long as one of
    /// them may be tried.
    pub(super) fn check_trying(&self) -> Result<(), String> {
        let undecided = |known: &Reservation| {
            let change = known.change.as_ref().map(|change| change.state);
            known.state == State::Checking || change == Some(ChangeState::Checking)
        };
        let over = self.trying.keys().find(|id| !self.reservations.get(*id).is_some_and(undecided));
        over.map_or(Ok(()), |id| {
            Err(format!("{id} makes no more attempts but still has candidates"))
        })
    }

    /// No further attempt is made. The reservation has failed; that is final once every RM has acknowledged.
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
            let known = self.reservations.get(id);
            let notes = known.and_then(|known| self.notes_after_attempts(known));
            let (reservation, state) = (id.clone(), stamped::STATE);
            let record =
                CoordinatorRecord::Concluded { reservation, refusal, notes, state, at: now };
            self.record(record, out);
        }
        // If something is unfinished, the wait for it has timed out already. So the callers are answered now.
        let Some(reservation) = self.reservations.get(id) else { return };
        let waiting = self.conversations.take(id).into_iter();
        out.effects.extend(waiting.map(|waiter| waiter.stands(reservation)));
    }
}
