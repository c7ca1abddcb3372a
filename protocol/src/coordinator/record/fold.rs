//! The one place where a coordinator's durable state changes: the fold of its records.
//!
//! Left out: the folds of changes, mending, parents and repairs, which are beside what they do.

use std::collections::BTreeSet;
use std::ops::Bound;

use coalloc_common::{Now, Refusal, ReservationId, RmName, TransactionId};

use super::CoordinatorRecord;
use crate::coordinator::change::released_meanwhile;
use crate::coordinator::giving_up::Operator;
use crate::coordinator::repair::have_it;
use crate::coordinator::reservation::{Candidate, Change, ChangeState, Reservation, State, Ticket};
use crate::coordinator::transaction::{Transaction, TransactionGoal};
use crate::coordinator::{Coordinator, place_in};
use crate::core::ReplayError;
use crate::message::Decision;

/// The version that an attempt at a change would replace.
#[derive(Clone, Copy)]
struct Replaced<'a> {
    /// Its transaction.
    old: &'a TransactionId,
    /// RMs that have lost their booking of it.
    anew: &'a [RmName],
}

impl Coordinator {
    /// Applies one more record.
    pub(in crate::coordinator) fn fold(
        &mut self,
        record: &CoordinatorRecord,
    ) -> Result<(), ReplayError> {
        match record {
            CoordinatorRecord::Refused { reservation, ticket, refusal, notes, at } => {
                self.fold_opened(reservation, ticket, notes, *at)?;
                let reservation = self.reservation_mut(reservation)?;
                reservation.state = State::Failed;
                reservation.refusal = Some(refusal.clone());
                Ok(())
            }
            CoordinatorRecord::Opened { reservation, ticket, notes, at } => {
                self.fold_opened(reservation, ticket, notes, *at)
            }
            CoordinatorRecord::Intent {
                txn,
                reservation,
                candidate,
                replaces,
                mends,
                anew,
                at,
                ..
            } => match mends {
                Some(_) => self.fold_mend_opened(txn, reservation, candidate, *at),
                None => {
                    let replaces = replaces.as_ref().map(|old| Replaced { old, anew });
                    self.fold_intent(txn, reservation, candidate, replaces, *at)
                }
            },
            CoordinatorRecord::Disowned { txn, rm, .. } => {
                self.fold_disowned(rm, txn);
                Ok(())
            }
            CoordinatorRecord::Differs { txn, rm, differs, .. } => {
                self.promises.note(rm, txn, *differs);
                Ok(())
            }
            CoordinatorRecord::DisownEnded { txn, rm, at, .. } => {
                self.fold_given_up_ended(rm, txn, *at);
                self.fold_disown_ended(rm, txn)
            }
            CoordinatorRecord::GaveUp { txn, rm, by, why, until, at, .. } => {
                let operator = Operator { by: by.clone(), why: why.clone() };
                self.fold_gave_up(rm, txn, operator, *until, *at)
            }
            CoordinatorRecord::ChangeOpened { ticket, notes, .. } => {
                self.fold_change_opened(ticket, notes)
            }
            CoordinatorRecord::ChangeRefused { reservation, refusal, .. } => {
                self.fold_change_refused(reservation, refusal)
            }
            CoordinatorRecord::Reported { reservation, report, .. } => {
                self.fold_reported(reservation, report)
            }
            CoordinatorRecord::Decided { txn, decision, refusal, servers, .. } => {
                self.transaction_mut(txn)?.grant(servers);
                self.fold_decided(txn, *decision, refusal.as_ref())
            }
            CoordinatorRecord::Mixed { txn, refusal, .. } => self.fold_mixed(txn, refusal),
            CoordinatorRecord::Split { txn, refused, .. } => self.fold_split(txn, refused),
            CoordinatorRecord::Releasing { txn, .. } => self.fold_releasing(txn),
            CoordinatorRecord::Finished { txn, .. } => self.fold_finished(txn),
            CoordinatorRecord::Superseded { reservation, .. } => {
                self.fold_superseded(reservation);
                Ok(())
            }
            CoordinatorRecord::Settled { txn, .. } => self.fold_settled(txn),
            CoordinatorRecord::ParentHoldOpened { reservation, order, whole, at } => {
                self.fold_parent_hold_opened(reservation, order, whole.as_ref(), *at)
            }
            CoordinatorRecord::Prepared { txn, expires_in, boot, servers, at } => {
                self.transaction_mut(txn)?.grant(servers);
                self.fold_prepared(txn, *expires_in, boot, *at)
            }
            CoordinatorRecord::ParentTombstone { txn, coordinator, .. } => {
                self.fold_parent_tombstone(txn, coordinator)
            }
            CoordinatorRecord::ReplacedForParent { reservation, by, .. } => {
                self.fold_replaced_for_parent(reservation, by)
            }
            CoordinatorRecord::RetentionEnded { txn, .. } => self.fold_retention_ended(txn),
            CoordinatorRecord::UsageChanged { txn, usage, .. } => {
                self.fold_usage_changed(txn, usage)
            }
            CoordinatorRecord::CalendarChanged { user, address, .. } => {
                self.fold_calendar_changed(user, address.as_ref())
            }
            CoordinatorRecord::LeaderElected { epoch, .. } => self.fold_leader_elected(*epoch),
            CoordinatorRecord::ParentLeaderChanged { ledger, epoch, .. } => {
                self.parents.leader_epochs.fold_changed(ledger, *epoch)
            }
            CoordinatorRecord::Forgotten { oldest_open, reservations, tombstones, .. } => {
                self.fold_forgotten(oldest_open, reservations, tombstones)
            }
            CoordinatorRecord::Concluded { reservation, refusal, notes, .. } => {
                self.fold_concluded(reservation, refusal, notes.as_deref())
            }
        }
    }

    fn fold_leader_elected(&mut self, epoch: u64) -> Result<(), ReplayError> {
        if epoch <= self.epoch.now {
            let text = format!("epoch {epoch} follows epoch {}", self.epoch.now);
            return Err(ReplayError(text));
        }
        self.epoch.now = epoch;
        Ok(())
    }

    fn fold_concluded(
        &mut self,
        id: &ReservationId,
        refusal: &Refusal,
        notes: Option<&str>,
    ) -> Result<(), ReplayError> {
        let unfinished = self.has_unfinished(id);
        let reservation = self.reservation_mut(id)?;
        expect_checking(reservation, "concluded")?;
        reservation.state = if unfinished { State::Aborting } else { State::Failed };
        reservation.refusal = Some(refusal.clone());
        if let Some(notes) = notes {
            notes.clone_into(&mut reservation.notes);
            reservation.notes.shrink_to_fit();
            reservation.candidate = None;
            if let Some(txn) = reservation.parent_transaction.clone() {
                self.fold_parent_hold_refused(&txn);
            }
        }
        Ok(())
    }

    fn fold_opened(
        &mut self,
        id: &ReservationId,
        ticket: &Ticket,
        notes: &str,
        at: Now,
    ) -> Result<(), ReplayError> {
        if self.reservations.contains_key(id) || self.by_request.contains_key(&ticket.request) {
            return Err(ReplayError(format!("{id} begins twice")));
        }
        let reservation = Reservation::new(id.clone(), ticket.clone(), notes.to_owned(), at.wall);
        self.reservations.insert(id.clone(), reservation);
        self.by_request.insert(ticket.request.clone(), id.clone());
        self.fold_place(id)
    }

    /// Enters a reservation in the order in which they were made, which is that of their numbers.
    pub(in crate::coordinator) fn fold_place(
        &mut self,
        id: &ReservationId,
    ) -> Result<(), ReplayError> {
        let place = place_in(id.as_str());
        let place = place.ok_or_else(|| ReplayError(format!("{id} has no number")))?;
        match self.order.insert(place, id.clone()) {
            None => Ok(()),
            Some(other) => Err(ReplayError(format!("{id} has the number of {other}"))),
        }
    }

    fn fold_intent(
        &mut self,
        txn: &TransactionId,
        id: &ReservationId,
        candidate: &Candidate,
        replaces: Option<Replaced<'_>>,
        at: Now,
    ) -> Result<(), ReplayError> {
        if self.transactions.contains_key(txn) {
            return Err(ReplayError(format!("{txn} begins twice")));
        }
        let mut transaction = Transaction::new(id.clone(), candidate, at.boot);
        let from_above = self.reservation_mut(id)?.parent_transaction.is_some();
        if let Some(Replaced { old, .. }) = replaces.filter(|_| from_above) {
            let booked = self.fold_replacing(id, old)?;
            transaction.replace(old, booked.iter().map(|rm| (rm, old)));
        }
        let reservation = self.reservation_mut(id)?;
        if let Some(Replaced { old, anew }) = replaces.filter(|_| !from_above) {
            let booked = reservation.candidate.iter().flat_map(|old| old.segments.keys());
            transaction.replace(old, have_it(booked, anew).map(|rm| (rm, old)));
            let undecided = |change: &&mut Change| change.state == ChangeState::Checking;
            let Some(change) = reservation.change.as_mut().filter(undecided) else {
                return Err(ReplayError(format!("{txn} changes {id}, which is not being changed")));
            };
            change.transaction = Some(txn.clone());
            change.candidate = Some(candidate.clone());
            change.attempts += 1;
        } else {
            expect_checking(reservation, "tried")?;
            reservation.transaction = Some(txn.clone());
            reservation.candidate = Some(candidate.clone());
            reservation.attempts += 1;
        }
        reservation.opened += 1;
        self.attempts.opened += 1;
        self.transactions.insert(txn.clone(), transaction);
        Ok(())
    }

    fn fold_decided(
        &mut self,
        txn: &TransactionId,
        decision: Decision,
        refusal: Option<&Refusal>,
    ) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        if !matches!(transaction.goal, TransactionGoal::Hold | TransactionGoal::Prepared) {
            return Err(ReplayError(format!("{txn} is decided twice")));
        }
        let (id, mends) = (transaction.reservation.clone(), transaction.mends);
        transaction.turn(match decision {
            Decision::Commit => TransactionGoal::Commit,
            Decision::Abort => TransactionGoal::Abort,
        });
        if mends && decision == Decision::Abort {
            self.fold_mend_aborted(&id, refusal);
        }
        let reservation = self.reservation_mut(&id)?;
        let is_of_change = reservation.is_of_change(txn);
        if let Some(change) = reservation.change.as_mut().filter(|_| is_of_change) {
            if decision == Decision::Commit {
                change.state = ChangeState::Committing;
                change.refusal = None;
            } else {
                change.refusal = refusal.cloned();
                change.attempt_refusals.extend(refusal.cloned());
            }
            return Ok(());
        }
        if reservation.state == State::Held {
            reservation.state = State::Checking;
        }
        if let Some(refusal) = refusal {
            reservation.attempt_refusals.push(refusal.clone());
        }
        if decision == Decision::Commit && !mends {
            expect_checking(reservation, "decided")?;
            reservation.state = State::Committing;
            self.fold_servers(&id, txn)?;
        }
        Ok(())
    }

    /// The servers that a transaction has become those of a reservation. At other RMs it keeps those that it had.
    pub(in crate::coordinator) fn fold_servers(
        &mut self,
        id: &ReservationId,
        txn: &TransactionId,
    ) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        let mut servers = transaction.servers();
        let parties: BTreeSet<RmName> = transaction.parties().cloned().collect();
        let reservation = self.reservation_mut(id)?;
        reservation.servers.retain(|rm, _| !parties.contains(rm));
        reservation.servers.append(&mut servers);
        Ok(())
    }

    fn fold_mixed(&mut self, txn: &TransactionId, refusal: &Refusal) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        if transaction.goal != TransactionGoal::Commit {
            return Err(ReplayError(format!("{txn} is mixed but was not to be committed")));
        }
        // The RM that refused is sent Release, too. If its first answer was lost, and it denies the transaction
        // only now, it has booked.
        transaction.turn(TransactionGoal::Release);
        let id = transaction.reservation.clone();
        if self.reservation_mut(&id)?.is_of_change(txn) {
            self.fold_change_undone(&id, refusal)?;
        }
        let reservation = self.reservation_mut(&id)?;
        reservation.state = State::Aborting;
        reservation.refusal = Some(refusal.clone());
        Ok(())
    }

    fn fold_releasing(&mut self, txn: &TransactionId) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        let id = transaction.reservation.clone();
        if self.fold_mending_released(&id)? {
            let reservation = self.reservation_mut(&id)?;
            reservation.state = State::Terminating;
            if let Some(change) = reservation.change.as_mut().filter(|c| c.is_under_way()) {
                change.state = ChangeState::Refused;
                change.refuse(&released_meanwhile());
            }
            return Ok(());
        }
        let transaction = self.transaction_mut(txn)?;
        if transaction.goal != TransactionGoal::Commit {
            return Err(ReplayError(format!("{txn} is released but was not to be committed")));
        }
        transaction.turn(TransactionGoal::Release);
        let id = transaction.reservation.clone();
        if self.reservation_mut(&id)?.is_of_change(txn) {
            self.fold_change_undone(&id, &released_meanwhile())?;
        }
        self.reservation_mut(&id)?.state = State::Terminating;
        Ok(())
    }

    fn fold_finished(&mut self, txn: &TransactionId) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        if transaction.is_done() {
            return Err(ReplayError(format!("{txn} is finished twice")));
        }
        transaction.finish();
        let (id, goal, mends) =
            (transaction.reservation.clone(), transaction.goal, transaction.mends);
        if mends && goal == TransactionGoal::Commit {
            return self.fold_mended(&id, txn);
        }
        if matches!(goal, TransactionGoal::Hold | TransactionGoal::Prepared) {
            return Err(ReplayError(format!("{txn} ends undecided")));
        }
        self.fold_change_finished(&id, txn, goal)?;
        let reservation = self.reservation_mut(&id)?;
        if (goal, reservation.state) == (TransactionGoal::Commit, State::Committing) {
            reservation.state = State::Confirmed;
        }
        self.fold_over(&id)
    }

    /// Sets the final state of a reservation that is ending, once no transaction of it is unfinished.
    pub(in crate::coordinator) fn fold_over(
        &mut self,
        id: &ReservationId,
    ) -> Result<(), ReplayError> {
        if self.has_unfinished(id) {
            return Ok(());
        }
        let reservation = self.reservation_mut(id)?;
        reservation.state = match reservation.state {
            State::Terminating => State::Terminated,
            State::Aborting => State::Failed,
            state => state,
        };
        Ok(())
    }

    pub(in crate::coordinator) fn has_unfinished(&self, id: &ReservationId) -> bool {
        self.attempts_of(id).any(|(_, txn)| !txn.is_done())
    }

    /// All transactions of a reservation.
    pub(in crate::coordinator) fn attempts_of(
        &self,
        id: &ReservationId,
    ) -> impl Iterator<Item = (&TransactionId, &Transaction)> {
        // They are adjacent in the map, because their ids begin with the reservation's id.
        let own = format!("{id}/");
        // The bound is a plain text and not an id: with its slash it may be longer than an id may be.
        let from = (Bound::Included(own.as_str()), Bound::Unbounded);
        let from = self.transactions.range::<str, _>(from);
        from.take_while(move |(txn, _)| txn.as_str().starts_with(&own))
    }

    pub(in crate::coordinator) fn reservation_mut(
        &mut self,
        id: &ReservationId,
    ) -> Result<&mut Reservation, ReplayError> {
        let missing = || ReplayError(format!("there is no reservation {id}"));
        self.reservations.get_mut(id).ok_or_else(missing)
    }

    pub(in crate::coordinator) fn transaction_mut(
        &mut self,
        txn: &TransactionId,
    ) -> Result<&mut Transaction, ReplayError> {
        let missing = || ReplayError(format!("there is no transaction {txn}"));
        self.transactions.get_mut(txn).ok_or_else(missing)
    }
}

/// Only a reservation whose outcome is open may be tried, decided or concluded.
fn expect_checking(reservation: &Reservation, what: &str) -> Result<(), ReplayError> {
    if reservation.state == State::Checking {
        return Ok(());
    }
    let (id, state) = (&reservation.id, reservation.state);
    Err(ReplayError(format!("{id} is {what} but is already {state:?}")))
}
