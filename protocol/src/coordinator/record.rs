//! The log records of a coordinator, and the one place where its durable state changes: the fold of the
//! records.

use std::collections::BTreeMap;
use std::ops::Bound;

use coalloc_common::{
    CoordinatorName, Now, Refusal, ReservationId, RmName, Span, Time, TransactionId, UserName,
};
use serde::{Deserialize, Serialize};

use super::change::{Change, ChangeState, ChangeTicket, released_meanwhile};
use super::giving_up::Operator;
use super::mending::MendTarget;
use super::promises::Differs;
use super::repair::have_it;
use super::reservation::{Reservation, State};
use super::transaction::{Transaction, TransactionGoal};
use super::{Candidate, Coordinator, Ticket};
use crate::core::ReplayError;
use crate::message::{Decision, HoldOrder};

/// What a record says of its reservation until it is stamped.
pub(super) mod stamped {
    use super::State;

    /// In place of a state.
    pub(in super::super) const STATE: State = State::Checking;
    /// In place of a version.
    pub(in super::super) const VERSION: u32 = 0;
}

/// One record of a coordinator's log. In the ledger it is JSON.
///
/// Who makes a record leaves [`STATE`](stamped::STATE) and [`VERSION`](stamped::VERSION) to the coordinator, which
/// stamps them once the record is applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum CoordinatorRecord {
    /// A request that planning refused. It has ended.
    Refused {
        /// The reservation's id.
        reservation: ReservationId,
        /// Who requested what.
        ticket: Ticket,
        /// Why planning refused it.
        refusal: Refusal,
        /// What the shell wants remembered with it.
        notes: String,
        /// When it was refused.
        at: Now,
    },
    /// A request for which planning found candidates.
    Opened {
        /// The reservation's id.
        reservation: ReservationId,
        /// Who requested what.
        ticket: Ticket,
        /// What the shell wants remembered with it.
        notes: String,
        /// When the reservation was opened.
        at: Now,
    },
    /// D1: the intent, before any Hold.
    Intent {
        /// The transaction of this attempt.
        txn: TransactionId,
        /// The reservation that it belongs to.
        reservation: ReservationId,
        /// What will be held at each RM.
        candidate: Candidate,
        /// The transaction of the booked version that this one would replace, when it is an attempt at a
        /// change.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        replaces: Option<TransactionId>,
        /// For an attempt that mends: the version that it would book everywhere.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        mends: Option<MendTarget>,
        /// RMs that have lost their booking of the old version. They hold anew and replace nothing.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        anew: Vec<RmName>,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// When the attempt was opened.
        at: Now,
    },
    /// D3: the decision, before any Commit or Abort.
    Decided {
        /// The transaction that is decided.
        txn: TransactionId,
        /// The decision, which is final.
        decision: Decision,
        /// Why it was decided against.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        refusal: Option<Refusal>,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// If the decision is Commit: the time from `at` to the end of the first hold, at the earliest.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        expires_in: Option<Span>,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// When it was decided.
        at: Now,
    },
    /// An RM refused Commit after the decision. What the other RMs have booked will be released.
    Mixed {
        /// The transaction that was to be committed.
        txn: TransactionId,
        /// The RM that refused.
        rm: RmName,
        /// Why it refused.
        refusal: Refusal,
        /// When the refusal arrived.
        at: Now,
    },
    /// Every RM has answered the Commit of a change, and some have refused it: these still have their old
    /// version. Nothing is released. Attempts follow that book one of the two versions everywhere.
    Split {
        /// The transaction that the other RMs have booked.
        txn: TransactionId,
        /// The RMs that have not booked it, each with its reason.
        refused: BTreeMap<RmName, Refusal>,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// When the last RM had answered.
        at: Now,
    },
    /// The user, or a parent coordinator for its user, ends the reservation.
    Releasing {
        /// The reservation's current transaction.
        txn: TransactionId,
        /// The user of the reservation.
        by: UserName,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// When the release began.
        at: Now,
    },
    /// A change whose planning has ended. An attempt follows, or the refusal of the change.
    ChangeOpened {
        /// Which change of which reservation.
        ticket: ChangeTicket,
        /// What the shell wants remembered once the change is booked.
        notes: String,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// When the change was opened.
        at: Now,
    },
    /// No attempt at a change succeeded, and no further one will be made. The old version is intact.
    ChangeRefused {
        /// The reservation that was to be changed.
        reservation: ReservationId,
        /// Why it was not changed.
        refusal: Refusal,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// When the change was refused.
        at: Now,
    },
    /// D6: every RM has acknowledged the decision, or the release, of a transaction.
    Finished {
        /// The transaction that is finished.
        txn: TransactionId,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// When the last acknowledgement arrived.
        at: Now,
    },
    /// A hold of a parent coordinator became a reservation.
    ParentHoldOpened {
        /// The reservation's id in this coordinator.
        reservation: ReservationId,
        /// What the parent wants held.
        order: HoldOrder,
        /// When the reservation was opened.
        at: Now,
    },
    /// D2 towards the parent: every inner RM holds. From now on only the parent decides.
    Prepared {
        /// The transaction of the attempt that holds.
        txn: TransactionId,
        /// How long the promise to the parent lasts, counted from `at`.
        expires_in: Span,
        /// The boot in whose boot time the promise is counted.
        boot: String,
        /// When the promise was made.
        at: Now,
    },
    /// The tombstone of a parent's transaction that never held anything here.
    ParentTombstone {
        /// The transaction's id in the parent.
        txn: TransactionId,
        /// The parent coordinator that it belongs to.
        coordinator: CoordinatorName,
        /// When the tombstone was made.
        at: Now,
    },
    /// A newer version of a parent's booking is booked everywhere in its place.
    ReplacedForParent {
        /// The reservation of the old version.
        reservation: ReservationId,
        /// The parent's transaction that has the new version.
        by: TransactionId,
        /// When the new version was booked everywhere.
        at: Now,
    },
    /// The parent no longer needs the version that this reservation had before it was replaced.
    Superseded {
        /// The reservation of the old version.
        reservation: ReservationId,
        /// When the parent's Release of it arrived.
        at: Now,
    },
    /// Every RM has acknowledged that it keeps nothing of a version that was replaced.
    Settled {
        /// The transaction of the old version.
        txn: TransactionId,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// When the last acknowledgement arrived.
        at: Now,
    },
    /// An operator wants an RM to release what it has of a transaction that is not booked here.
    Disowned {
        /// The transaction to release.
        txn: TransactionId,
        /// The RM that has it.
        rm: RmName,
        /// The operator.
        by: UserName,
        /// The operator's reason.
        why: String,
        /// When the operator asked for it.
        at: Now,
    },
    /// The RM has acknowledged a release after `Disowned` or `GaveUp`.
    DisownEnded {
        /// The transaction that is released.
        txn: TransactionId,
        /// The RM that has acknowledged.
        rm: RmName,
        /// The state of the transaction's reservation, if it has one here.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// When the acknowledgement arrived.
        at: Now,
    },
    /// A comparison with an RM has shown that its booking for a reservation differs from the coordinator's
    /// record, or differs no longer.
    Differs {
        /// The transaction of the booking.
        txn: TransactionId,
        /// The RM of the comparison.
        rm: RmName,
        /// How the two differ; `None` if they no longer do.
        differs: Option<Differs>,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// When the comparison was made.
        at: Now,
    },
    /// An operator has given up on an RM that does not acknowledge an end. From now on it counts as having
    /// acknowledged. It is still sent Release until it does acknowledge; that is recorded as `DisownEnded`.
    GaveUp {
        /// The transaction that the RM was to end.
        txn: TransactionId,
        /// The RM that is given up on.
        rm: RmName,
        /// The operator.
        by: UserName,
        /// The operator's reason.
        why: String,
        /// The RM may have it booked until this time; `None` if it was to have nothing of it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        until: Option<Time>,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// When the operator gave up on it.
        at: Now,
    },
    /// No attempt at a reservation succeeded, and no further one will be made.
    Concluded {
        /// The reservation that has failed.
        reservation: ReservationId,
        /// Why it failed.
        refusal: Refusal,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// When it was concluded.
        at: Now,
    },
}

/// The version that an attempt at a change would replace.
#[derive(Clone, Copy)]
struct Replaced<'a> {
    /// Its transaction.
    old: &'a TransactionId,
    /// RMs that have lost their booking of it.
    anew: &'a [RmName],
}

impl Coordinator {
    /// Writes what an applied record has led to into the record itself, where the record does not show it. A
    /// reader of the log has no state to look it up in.
    pub(super) fn stamp(&self, record: &mut CoordinatorRecord) {
        let of = |id: &ReservationId| self.reservations.get(id);
        let of_txn = |txn: &TransactionId| of(&self.transactions.get(txn)?.reservation);
        // Every record but DisownEnded is of a reservation that there is: else it is not applied.
        match record {
            CoordinatorRecord::Decided { txn, state, version, .. }
            | CoordinatorRecord::Finished { txn, state, version, .. }
            | CoordinatorRecord::Settled { txn, state, version, .. }
            | CoordinatorRecord::Differs { txn, state, version, .. }
            | CoordinatorRecord::GaveUp { txn, state, version, .. } => {
                let Some(known) = of_txn(txn) else { return };
                (*state, *version) = (known.state, known.booked_version());
            }
            CoordinatorRecord::Concluded { reservation, state, .. } => {
                of(reservation).inspect(|known| *state = known.state);
            }
            CoordinatorRecord::Split { txn, state, .. } => {
                of_txn(txn).inspect(|known| *state = known.state);
            }
            CoordinatorRecord::DisownEnded { txn, state, .. } => {
                *state = of_txn(txn).map(|known| known.state);
            }
            CoordinatorRecord::Intent { reservation, version, .. }
            | CoordinatorRecord::ChangeRefused { reservation, version, .. } => {
                of(reservation).inspect(|known| *version = known.booked_version());
            }
            CoordinatorRecord::ChangeOpened { ticket, version, .. } => {
                of(&ticket.reservation).inspect(|known| *version = known.booked_version());
            }
            CoordinatorRecord::Releasing { txn, version, .. } => {
                of_txn(txn).inspect(|known| *version = known.booked_version());
            }
            CoordinatorRecord::Refused { .. }
            | CoordinatorRecord::Opened { .. }
            | CoordinatorRecord::ParentHoldOpened { .. }
            | CoordinatorRecord::Prepared { .. }
            | CoordinatorRecord::ParentTombstone { .. }
            | CoordinatorRecord::ReplacedForParent { .. }
            | CoordinatorRecord::Superseded { .. }
            | CoordinatorRecord::Disowned { .. }
            | CoordinatorRecord::Mixed { .. } => {}
        }
    }

    /// Applies one more record.
    pub(super) fn fold(&mut self, record: &CoordinatorRecord) -> Result<(), ReplayError> {
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
            CoordinatorRecord::Decided { txn, decision, refusal, .. } => {
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
            CoordinatorRecord::ParentHoldOpened { reservation, order, at } => {
                self.fold_parent_hold_opened(reservation, order, *at)
            }
            CoordinatorRecord::Prepared { txn, expires_in, boot, at } => {
                self.fold_prepared(txn, *expires_in, boot, *at)
            }
            CoordinatorRecord::ParentTombstone { txn, coordinator, .. } => {
                self.fold_parent_tombstone(txn, coordinator)
            }
            CoordinatorRecord::ReplacedForParent { reservation, by, .. } => {
                self.fold_replaced_for_parent(reservation, by)
            }
            CoordinatorRecord::Concluded { reservation, refusal, .. } => {
                let unfinished = self.has_unfinished(reservation);
                let reservation = self.reservation_mut(reservation)?;
                expect_checking(reservation, "concluded")?;
                reservation.state = if unfinished { State::Aborting } else { State::Failed };
                reservation.refusal = Some(refusal.clone());
                Ok(())
            }
        }
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
        self.order.push(id.clone());
        Ok(())
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
        if decision == Decision::Commit && !mends {
            expect_checking(reservation, "decided")?;
            reservation.state = State::Committing;
        }
        if let Some(refusal) = refusal {
            reservation.attempt_refusals.push(refusal.clone());
        }
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
    pub(super) fn fold_over(&mut self, id: &ReservationId) -> Result<(), ReplayError> {
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

    pub(super) fn has_unfinished(&self, id: &ReservationId) -> bool {
        self.attempts_of(id).any(|(_, txn)| !txn.is_done())
    }

    /// All transactions of a reservation.
    pub(super) fn attempts_of(
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

    pub(super) fn reservation_mut(
        &mut self,
        id: &ReservationId,
    ) -> Result<&mut Reservation, ReplayError> {
        let missing = || ReplayError(format!("there is no reservation {id}"));
        self.reservations.get_mut(id).ok_or_else(missing)
    }

    pub(super) fn transaction_mut(
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
