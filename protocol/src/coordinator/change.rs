//! A change of a confirmed reservation. Its new version is one more transaction, whose Hold names for every RM
//! the booking that it replaces.
//!
//! ```text
//! change   Checking --D3 commit--> Committing --all acks--> Done (version + 1)
//!             |  ^ next candidate      | one refuses: mended, until one version is booked everywhere:
//!             v  '---.                 v the new one (Done), or the old one again
//!          Aborting --all acks--> Refused (the old version is whole)
//! ```
//!
//! All RMs of the old version and of the new one take part. An RM that is no longer needed holds an order
//! without segments. If such an RM does not answer, a candidate may leave it out: the RM keeps its booking of
//! the old version until the Release of that version reaches it, which is sent once the new one is booked. Until D3 the reservation keeps its old version. A reservation has one change at a time.
//! The outcome of every change is kept, so that the same change always gets the same answer (I8): if a change
//! were forgotten, sending it again would make it again. For that reason the number of changes is bounded by
//! [`limits::CHANGES_MAX`]. Candidates are tried in the same way as for a new reservation, see
//! [`retrying`](super::retrying).
//!
//! Left out: planning the new version, and who may ask for a change; the shell does both. Source:
//! docs/adr/0005-modify.md; NSI Connection Service 2.1, `reserve` of a new version.

use coalloc_common::{Now, Reason, Refusal, ReservationId, RmName, TransactionId, limits};

use super::record::{CoordinatorRecord, stamped};
use super::reservation::{Candidate, Change, ChangeState, ChangeTicket, Reservation, State};
use super::retrying::{RetryState, best_first, usual_replans};
use super::transaction::{Transaction, TransactionGoal};
use super::waiting::{ChangeWaiter, Waiter};
use super::{Coordinator, Reply, StepOutput};
use crate::conversation::{Caller, ChangeEnd, ChangeToken, Next, PlanJob, PlanTarget, Planned};
use crate::core::ReplayError;

/// How far a change without an outcome is.
enum ChangeStage {
    /// It is new, and may begin.
    New,
    BeingPlanned,
    /// It was planned, and attempts are being made.
    Tried,
}

impl Coordinator {
    /// The change of this id, the reservation's last one or an earlier one.
    #[must_use]
    pub fn find_change(&self, reservation: &ReservationId, id: &str) -> Option<&Change> {
        let last = self.reservations.get(reservation)?.change.as_ref();
        let past = || self.past_changes.get(reservation)?.get(id);
        last.filter(|change| change.id.as_str() == id).or_else(past)
    }

    /// A change arrives. It is planned, or answered from what is known of it.
    pub(super) fn open_change(
        &mut self,
        ticket: ChangeTicket,
        token: ChangeToken,
        out: &mut StepOutput,
    ) {
        if self.admit_change(&ticket, ChangeWaiter::Conversation(token), out) {
            let id = ticket.reservation.clone();
            self.conversations.changes.insert(id.clone(), (ticket, Vec::new()));
            let job = PlanJob::first(PlanTarget::Change(id));
            out.reply(Reply::Change(token, Next::Plan(job)));
        }
    }

    /// Is this change new, and may it begin? If not, its caller is answered now, or waits for the outcome.
    pub(super) fn admit_change(
        &mut self,
        ticket: &ChangeTicket,
        waiter: ChangeWaiter,
        out: &mut StepOutput,
    ) -> bool {
        match self.end_of_change(ticket) {
            Ok(ChangeStage::New) => return true,
            Ok(ChangeStage::Tried) => {
                self.conversations.wait(&ticket.reservation, [Waiter::Change(waiter)]);
            }
            Ok(ChangeStage::BeingPlanned) => {
                let planning = self.conversations.changes.get_mut(&ticket.reservation);
                planning.into_iter().for_each(|(_, waiting)| waiting.push(waiter));
            }
            Err(end) => out.effects.push(waiter.reply(*end)),
        }
        false
    }

    /// How far an arriving change is, or the end that answers it.
    fn end_of_change(&self, ticket: &ChangeTicket) -> Result<ChangeStage, Box<ChangeEnd>> {
        let end = |end| Err(Box::new(end));
        let Some(known) = self.reservations.get(&ticket.reservation) else {
            return end(ChangeEnd::Unknown);
        };
        if let Some(change) = self.find_change(&known.id, ticket.change.as_str()) {
            return if change.content != ticket.content {
                end(ChangeEnd::OtherContent)
            } else if change.is_under_way() {
                Ok(ChangeStage::Tried)
            } else {
                // The same answer as the first caller got: the reservation, with this change as its last one.
                let known = Reservation { change: Some(change.clone()), ..known.clone() };
                end(ChangeEnd::Stands(Box::new(known)))
            };
        }
        match self.conversations.changes.get(&known.id) {
            Some((other, _)) if other.change != ticket.change => {
                return end(ChangeEnd::UnderWay(other.change.clone()));
            }
            Some((same, _)) if same != ticket => return end(ChangeEnd::OtherContent),
            Some(_) => return Ok(ChangeStage::BeingPlanned),
            None => {}
        }
        if let Some(change) = known.change.as_ref().filter(|change| change.is_under_way()) {
            return end(ChangeEnd::UnderWay(change.id.clone()));
        }
        // Only the parent may change what it has booked here (I21), and it has no call for changes.
        if known.state != State::Confirmed || known.parent_transaction.is_some() {
            return end(ChangeEnd::NotConfirmed(Box::new(known.clone())));
        }
        if known.changes >= limits::CHANGES_MAX {
            return end(ChangeEnd::Spent);
        }
        if self.room.is_low() {
            return end(ChangeEnd::DiskFull);
        }
        Ok(ChangeStage::New)
    }

    /// The planning of a change has ended: with candidates to try, or with the reason why there are none.
    pub(super) fn change_planned(
        &mut self,
        id: &ReservationId,
        planned: Planned,
        token: ChangeToken,
        now: Now,
        out: &mut StepOutput,
    ) {
        let caller = ChangeWaiter::Conversation(token);
        let Some((ticket, mut waiting)) = self.conversations.changes.remove(id) else {
            return out.effects.push(caller.reply(ChangeEnd::BrokenOff));
        };
        waiting.push(caller);
        let Some(known) = self.reservations.get(id) else { return };
        let unable = if known.state != State::Confirmed {
            // The reservation was released meanwhile. Nothing of the change was recorded, so this answer is not
            // kept.
            Some(ChangeEnd::NotConfirmed(Box::new(known.clone())))
        } else if self.room.is_low() {
            Some(ChangeEnd::DiskFull)
        } else {
            None
        };
        if let Some(end) = unable {
            out.effects.extend(waiting.into_iter().map(|waiter| waiter.reply(end.clone())));
            return;
        }
        self.conversations.wait(id, waiting.into_iter().map(Waiter::Change));
        let Planned { outcome, notes, .. } = planned;
        let notes = if outcome.is_ok() { notes } else { self.notes_of_refused(notes) };
        let (version, active) = (stamped::VERSION, stamped::ACTIVE);
        let record = CoordinatorRecord::ChangeOpened { ticket, notes, version, active, at: now };
        self.record(record, out);
        match best_first(outcome.map(|candidates| self.with_old_parties(id, candidates))) {
            Ok((first, rest)) => {
                let replans = usual_replans(&first);
                let trying = RetryState::new(rest, replans, Caller::Change(token), now);
                self.trying.insert(id.clone(), trying);
                self.attempt(id, first, now, out);
            }
            Err(refusal) => self.conclude(id, refusal, now, out),
        }
    }

    /// The planning of a change has broken off without a result. Nothing of the change is kept.
    pub(super) fn change_broken_off(&mut self, id: &ReservationId, out: &mut StepOutput) {
        for waiter in self.conversations.end_change(id) {
            out.effects.push(waiter.reply(ChangeEnd::BrokenOff));
        }
    }

    /// Candidates in which every RM of the booked version takes part, unless its candidate leaves it out. An RM
    /// that is not needed any more has an empty list of segments.
    pub(super) fn with_old_parties(
        &self,
        id: &ReservationId,
        mut candidates: Vec<Candidate>,
    ) -> Vec<Candidate> {
        let old = self.reservations.get(id).and_then(|known| known.candidate.as_ref());
        for rm in old.iter().flat_map(|old| old.segments.keys()) {
            for candidate in &mut candidates {
                if !candidate.left_out.contains(rm) {
                    candidate.segments.entry(rm.clone()).or_default();
                }
            }
        }
        candidates
    }

    /// The user releases a reservation that is being changed. An undecided change is refused first. A decided
    /// one is released together with the version that it replaces.
    pub(super) fn end_change(&mut self, id: &ReservationId, now: Now, out: &mut StepOutput) {
        let Some(reservation) = self.reservations.get(id) else { return };
        let Some(change) = reservation.change.as_ref() else { return };
        let by = reservation.ticket.user.clone();
        match (change.state, change.transaction.clone()) {
            (ChangeState::Checking, txn) => {
                self.trying.remove(id);
                let text = "the reservation was released before the change was decided";
                let refusal = Refusal::new(Reason::Released, text);
                if let Some(txn) = txn {
                    // No attempt follows this one. All that is left to do is to end its aborts.
                    self.leave_behind(&txn);
                    if self
                        .transactions
                        .get(&txn)
                        .is_some_and(|txn| txn.goal == TransactionGoal::Hold)
                    {
                        self.abort(&txn, refusal.clone(), None, now, out);
                    }
                }
                self.refuse_change(id, refusal, now, out);
            }
            (ChangeState::Committing, Some(txn)) => {
                self.record(
                    CoordinatorRecord::Releasing {
                        txn: txn.clone(),
                        by,
                        version: stamped::VERSION,
                        at: now,
                    },
                    out,
                );
                self.end_mending(id, now, out);
                self.send_released(id, now, out);
            }
            _ => {}
        }
    }

    /// Refuses a change after its last attempt. The reservation keeps its old version.
    pub(super) fn refuse_change(
        &mut self,
        id: &ReservationId,
        refusal: Refusal,
        now: Now,
        out: &mut StepOutput,
    ) {
        let record = CoordinatorRecord::ChangeRefused {
            reservation: id.clone(),
            refusal,
            version: stamped::VERSION,
            active: stamped::ACTIVE,
            at: now,
        };
        self.record(record, out);
    }

    /// Has one of these silent RMs booked the version that attempts at this reservation would replace? As long
    /// as that RM has not dropped the last attempt, it will not hold another one.
    pub(super) fn is_stuck_at(&self, id: &ReservationId, silent: &[RmName]) -> bool {
        self.old_parties(id).any(|rm| silent.contains(rm))
    }

    /// The reservations with an undecided change.
    pub(super) fn undecided_changes(&self) -> Vec<ReservationId> {
        let undecided = |reservation: &&Reservation| {
            let state = reservation.change.as_ref().map(|change| change.state);
            state == Some(ChangeState::Checking)
        };
        self.reservations.values().filter(undecided).map(|known| known.id.clone()).collect()
    }

    pub(super) fn fold_change_opened(
        &mut self,
        ticket: &ChangeTicket,
        notes: &str,
    ) -> Result<(), ReplayError> {
        let id = &ticket.change;
        let known = self.find_change(&ticket.reservation, id.as_str()).is_some();
        let reservation = self.reservation_mut(&ticket.reservation)?;
        if reservation.state != State::Confirmed || reservation.is_changing() {
            return Err(ReplayError(format!(
                "change {id} is of a reservation that cannot be changed"
            )));
        }
        if known {
            return Err(ReplayError(format!("change {id} begins twice")));
        }
        let change = Change {
            id: id.clone(),
            content: ticket.content.clone(),
            state: ChangeState::Checking,
            transaction: None,
            candidate: None,
            attempts: 0,
            refusal: None,
            attempt_refusals: Vec::new(),
            notes: notes.to_owned(),
        };
        reservation.changes += 1;
        if let Some(past) = reservation.change.replace(change) {
            let of = self.past_changes.get_or_default(ticket.reservation.clone());
            of.insert(past.id.clone(), past);
        }
        Ok(())
    }

    pub(super) fn fold_change_refused(
        &mut self,
        id: &ReservationId,
        refusal: &Refusal,
    ) -> Result<(), ReplayError> {
        let unfinished = self.has_unfinished_change(id);
        let change = self.reservation_mut(id)?.change.as_mut();
        let undecided = change.filter(|change| change.state == ChangeState::Checking);
        let Some(change) = undecided else {
            return Err(ReplayError(format!(
                "{id}: a change is refused although it is already decided"
            )));
        };
        change.state = if unfinished { ChangeState::Aborting } else { ChangeState::Refused };
        change.refuse(refusal);
        Ok(())
    }

    /// A transaction of the reservation has finished: the change's own, or another one. A refused change is
    /// over when the last one has.
    pub(super) fn fold_change_finished(
        &mut self,
        id: &ReservationId,
        txn: &TransactionId,
        goal: TransactionGoal,
    ) -> Result<(), ReplayError> {
        let unfinished = self.has_unfinished_change(id);
        let reservation = self.reservation_mut(id)?;
        let is_of_change = reservation.is_of_change(txn);
        let Some(change) = reservation.change.as_mut() else { return Ok(()) };
        match change.state {
            ChangeState::Committing if is_of_change && goal == TransactionGoal::Commit => {
                change.state = ChangeState::Done;
                reservation.candidate = change.candidate.take();
                reservation.transaction = Some(txn.clone());
                reservation.notes = std::mem::take(&mut change.notes);
                reservation.version += 1;
                self.supersede_all(id);
                self.fold_servers(id, txn)?;
            }
            ChangeState::Aborting if !unfinished => change.state = ChangeState::Refused,
            _ => {}
        }
        Ok(())
    }

    /// The decided change and the version that it replaces are both released. An RM that has booked the new
    /// version ends that one; an RM that has not ends the old one.
    pub(super) fn fold_change_undone(
        &mut self,
        id: &ReservationId,
        refusal: &Refusal,
    ) -> Result<(), ReplayError> {
        let reservation = self.reservation_mut(id)?;
        let old = reservation.transaction.clone();
        if let Some(change) = reservation.change.as_mut() {
            change.state = ChangeState::Refused;
            change.refuse(refusal);
        }
        if let Some(old) = old {
            self.transaction_mut(&old)?.turn(TransactionGoal::Release);
        }
        Ok(())
    }

    pub(super) fn has_unfinished_change(&self, id: &ReservationId) -> bool {
        let unfinished =
            |txn: &Transaction| txn.replaces.is_some() && !txn.is_done() && !txn.is_superseded();
        self.attempts_of(id).any(|(_, txn)| unfinished(txn))
    }

    /// Checks that a change which is under way is being pursued, and that its reservation allows a change.
    pub(super) fn check_change(&self, reservation: &Reservation) -> Result<(), String> {
        let id = &reservation.id;
        let Some(change) = reservation.change.as_ref().filter(|change| change.is_under_way())
        else {
            return Ok(());
        };
        let txn = change.transaction.as_ref().and_then(|txn| self.transactions.get(txn));
        if reservation.state != State::Confirmed && change.state != ChangeState::Aborting {
            return Err(format!("{id} is {:?} but is being changed", reservation.state));
        }
        let pursued = match change.state {
            ChangeState::Checking => {
                let replanned = self.trying.get(id).is_some_and(RetryState::is_replanned);
                replanned || txn.is_some_and(|txn| !txn.is_done() && !txn.is_left_behind())
            }
            ChangeState::Committing => {
                let mended = self.mendings.open.contains_key(id);
                mended
                    || txn.is_some_and(|txn| txn.goal == TransactionGoal::Commit && !txn.is_done())
            }
            ChangeState::Aborting => self.has_unfinished_change(id),
            ChangeState::Done | ChangeState::Refused => true,
        };
        if !pursued {
            return Err(format!("I22: nothing is done about change {} of {id}", change.id));
        }
        Ok(())
    }
}

/// The refusal of an undecided change that ended with the process.
pub(super) fn restarted() -> Refusal {
    let text = "the coordinator stopped before it had decided; the old version stays booked";
    Refusal::new(Reason::CoordinatorRestarted, text)
}

/// The refusal of a decided change that was released before it was booked everywhere.
pub(super) fn released_meanwhile() -> Refusal {
    let text = "the reservation was released before the change was booked everywhere";
    Refusal::new(Reason::Released, text)
}
