//! What a coordinator writes down, and the one place where its durable state changes.

use std::collections::BTreeMap;
use std::ops::Bound;

use coalloc_common::{
    CoordinatorName, Now, Refusal, ReservationId, RmName, Span, Time, TransactionId, UserName,
};
use serde::{Deserialize, Serialize};

use super::change::{Change, ChangeState, ChangeTicket, released_meanwhile};
use super::mending::MendTarget;
use super::promises::Differs;
use super::repair::have_it;
use super::reservation::{Reservation, State};
use super::transaction::{Transaction, TransactionGoal};
use super::{Candidate, Coordinator, Ticket};
use crate::core::ReplayError;
use crate::message::{Decision, HoldOrder};

/// One entry of a coordinator's log. JSON in the ledger; fields are only ever added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum CoordinatorRecord {
    /// A request that planning refused; it is over.
    Refused {
        /// Its id.
        reservation: ReservationId,
        /// Who asked for what.
        ticket: Ticket,
        /// Why not.
        refusal: Refusal,
        /// What the shell wants remembered.
        notes: String,
        /// When.
        at: Now,
    },
    /// A request that planning has candidates for.
    Opened {
        /// Its id.
        reservation: ReservationId,
        /// Who asked for what.
        ticket: Ticket,
        /// What the shell wants remembered.
        notes: String,
        /// When.
        at: Now,
    },
    /// D1: the intent, before any Hold.
    Intent {
        /// The attempt.
        txn: TransactionId,
        /// Of which reservation.
        reservation: ReservationId,
        /// What will be held, at whom.
        candidate: Candidate,
        /// The booked version that it would replace, when it is an attempt at a change.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        replaces: Option<TransactionId>,
        /// Which version it would book everywhere, when some RMs have booked a change and others have not.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        mends: Option<MendTarget>,
        /// Its RMs keep what they give up of that version until it is released; not so in old logs.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        keeps_old: bool,
        /// RMs of that version that have lost it: they hold anew, and replace nothing.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        anew: Vec<RmName>,
        /// The version that is booked after this, for those who follow the log; none in old logs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        version: Option<u32>,
        /// When.
        at: Now,
    },
    /// D3: the decision, before any Commit or Abort.
    Decided {
        /// Of which attempt.
        txn: TransactionId,
        /// Final.
        decision: Decision,
        /// Why, when it is no.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        refusal: Option<Refusal>,
        /// Where its reservation stands after this, for those who follow the log; none in old logs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// When it is yes, the first of its holds ends so long after this, at the earliest.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        expires_in: Option<Span>,
        /// The version that is booked after this, for those who follow the log; none in old logs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        version: Option<u32>,
        /// When.
        at: Now,
    },
    /// A Commit was refused after the decision: what the others have booked will be released.
    Mixed {
        /// Of which attempt.
        txn: TransactionId,
        /// Who refused.
        rm: RmName,
        /// Why.
        refusal: Refusal,
        /// When.
        at: Now,
    },
    /// Every RM has answered the Commit of a change, and these have refused it: they have what they had before.
    /// Nothing is released; attempts follow that make one version of the two.
    Split {
        /// The transaction that is booked at its other RMs.
        txn: TransactionId,
        /// Who has not booked it, and why.
        refused: BTreeMap<RmName, Refusal>,
        /// Where its reservation stands after this, for those who follow the log.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// When.
        at: Now,
    },
    /// The user ends the reservation.
    Releasing {
        /// Its attempt.
        txn: TransactionId,
        /// Who says so.
        by: UserName,
        /// The version that is booked after this, for those who follow the log; none in old logs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        version: Option<u32>,
        /// When.
        at: Now,
    },
    /// A change that planning is through with; an attempt or its refusal follows.
    ChangeOpened {
        /// Which change of what.
        ticket: ChangeTicket,
        /// What the shell wants remembered once the reservation is changed.
        notes: String,
        /// The version that is booked after this, for those who follow the log; none in old logs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        version: Option<u32>,
        /// When.
        at: Now,
    },
    /// No attempt at a change succeeded and no other will be made; the old version is whole.
    ChangeRefused {
        /// Of which reservation.
        reservation: ReservationId,
        /// Why.
        refusal: Refusal,
        /// The version that is booked after this, for those who follow the log; none in old logs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        version: Option<u32>,
        /// When.
        at: Now,
    },
    /// D6: every RM has acknowledged what the transaction came to.
    Finished {
        /// Which.
        txn: TransactionId,
        /// Where its reservation stands after this, for those who follow the log; none in old logs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// The version that is booked after this, for those who follow the log; none in old logs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        version: Option<u32>,
        /// When.
        at: Now,
    },
    /// A hold of a coordinator above became a reservation.
    ParentHoldOpened {
        /// Its id here.
        reservation: ReservationId,
        /// What the one above wants kept.
        order: HoldOrder,
        /// When.
        at: Now,
    },
    /// D2 towards the one above: every inner RM holds, and nothing is decided here any more.
    Prepared {
        /// Which attempt.
        txn: TransactionId,
        /// The promise lasts so long.
        expires_in: Span,
        /// The boot that it is counted in.
        boot: String,
        /// When.
        at: Now,
    },
    /// The tombstone of a transaction of a coordinator above that never held anything here.
    ParentTombstone {
        /// Its id above.
        txn: TransactionId,
        /// Whose it is.
        coordinator: CoordinatorName,
        /// When.
        at: Now,
    },
    /// A newer version of what a coordinator above has booked here is booked everywhere in its place.
    ReplacedForParent {
        /// What it has replaced.
        reservation: ReservationId,
        /// The transaction above that has the new version.
        by: TransactionId,
        /// When.
        at: Now,
    },
    /// The one above needs the version before this reservation's replacement no more.
    Superseded {
        /// What was replaced.
        reservation: ReservationId,
        /// When.
        at: Now,
    },
    /// Every RM has acknowledged that it keeps nothing of a version that was replaced.
    Settled {
        /// Which.
        txn: TransactionId,
        /// Where its reservation stands after this, for those who follow the log.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// The version that is booked after this, for those who follow the log.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        version: Option<u32>,
        /// When.
        at: Now,
    },
    /// An RM has something of a transaction that stands nowhere here, and an operator wants it released.
    Disowned {
        /// What.
        txn: TransactionId,
        /// Where.
        rm: RmName,
        /// Who wants it.
        by: UserName,
        /// And why.
        why: String,
        /// When.
        at: Now,
    },
    /// The RM has acknowledged that.
    DisownEnded {
        /// What.
        txn: TransactionId,
        /// Where.
        rm: RmName,
        /// Where its reservation stands, if it is of one; none in old logs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// When.
        at: Now,
    },
    /// Comparisons with an RM show that it has something of a reservation otherwise than is counted on, or has it as
    /// that is again.
    Differs {
        /// Of which transaction.
        txn: TransactionId,
        /// Which RM.
        rm: RmName,
        /// How it differs; `None`: it does not any more.
        differs: Option<Differs>,
        /// Where its reservation stands.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// The version that is booked.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        version: Option<u32>,
        /// When.
        at: Now,
    },
    /// An operator has given an RM up that does not acknowledge an end: it counts as having done so, and is told to
    /// release it until it says that it has, which is recorded as `DisownEnded`.
    GaveUp {
        /// What it was to end.
        txn: TransactionId,
        /// Which RM.
        rm: RmName,
        /// Who wants it.
        by: UserName,
        /// And why.
        why: String,
        /// It may have it booked until then.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        until: Option<Time>,
        /// Where its reservation stands after this, for those who follow the log.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// The version that is booked after this, for those who follow the log.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        version: Option<u32>,
        /// When.
        at: Now,
    },
    /// No attempt succeeded and no other will be made.
    Concluded {
        /// Which.
        reservation: ReservationId,
        /// Why.
        refusal: Refusal,
        /// Where its reservation stands after this, for those who follow the log; none in old logs.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// When.
        at: Now,
    },
}

impl Coordinator {
    /// Writes into a record that has been applied what it has led to, where that is not evident from
    /// the record itself: whoever follows the log has no state to look it up in.
    pub(super) fn stamp(&self, record: &mut CoordinatorRecord) {
        let of = |id: &ReservationId| self.reservations.get(id);
        let of_txn = |txn: &TransactionId| of(&self.transactions.get(txn)?.reservation);
        let state = |known: &Reservation| known.state;
        let booked = |known: &Reservation| known.booked_version();
        match record {
            CoordinatorRecord::Decided { txn, state: after, version, .. }
            | CoordinatorRecord::Finished { txn, state: after, version, .. }
            | CoordinatorRecord::Settled { txn, state: after, version, .. }
            | CoordinatorRecord::Differs { txn, state: after, version, .. }
            | CoordinatorRecord::GaveUp { txn, state: after, version, .. } => {
                *after = of_txn(txn).map(state);
                *version = of_txn(txn).map(booked);
            }
            CoordinatorRecord::Concluded { reservation, state: after, .. } => {
                *after = of(reservation).map(state);
            }
            CoordinatorRecord::Split { txn, state: after, .. }
            | CoordinatorRecord::DisownEnded { txn, state: after, .. } => {
                *after = of_txn(txn).map(state);
            }
            CoordinatorRecord::Intent { reservation, version, .. }
            | CoordinatorRecord::ChangeRefused { reservation, version, .. } => {
                *version = of(reservation).map(booked);
            }
            CoordinatorRecord::ChangeOpened { ticket, version, .. } => {
                *version = of(&ticket.reservation).map(booked);
            }
            CoordinatorRecord::Releasing { txn, version, .. } => {
                *version = of_txn(txn).map(booked);
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

    /// The state after one more record.
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
                keeps_old,
                anew,
                at,
                ..
            } => {
                match mends {
                    Some(_) => self.fold_mend_opened(txn, reservation, candidate, *at),
                    None => {
                        let replaces = (replaces.as_ref(), anew.as_slice());
                        self.fold_intent((txn, reservation), candidate, replaces, *at)
                    }
                }?;
                self.transaction_mut(txn)?.keeps_old = *keeps_old;
                Ok(())
            }
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
                self.fold_gave_up((rm, txn), (by, why), *until, *at)
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
        (txn, id): (&TransactionId, &ReservationId),
        candidate: &Candidate,
        (replaces, anew): (Option<&TransactionId>, &[RmName]),
        at: Now,
    ) -> Result<(), ReplayError> {
        if self.transactions.contains_key(txn) {
            return Err(ReplayError(format!("{txn} begins twice")));
        }
        let mut transaction = Transaction::new(id.clone(), candidate, at.boot);
        let from_above = self.reservation_mut(id)?.parent_transaction.is_some();
        if let Some(old) = replaces.filter(|_| from_above) {
            let booked = self.fold_replacing(id, old)?;
            transaction.replace(old, booked.iter().map(|rm| (rm, old)));
        }
        let reservation = self.reservation_mut(id)?;
        if let Some(old) = replaces.filter(|_| !from_above) {
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
        // The one that refused is told as well: when its first answer was lost, and it denies us
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

    /// An ending reservation has ended when nothing is left of any attempt.
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

    /// Every transaction of a reservation.
    pub(super) fn attempts_of(
        &self,
        id: &ReservationId,
    ) -> impl Iterator<Item = (&TransactionId, &Transaction)> {
        // They stand together: their ids begin with its id.
        let own = format!("{id}/");
        // A bound that is no id of its own: with its slash it may be longer than one.
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

/// Nothing is tried, decided or concluded for a reservation whose outcome is known.
fn expect_checking(reservation: &Reservation, what: &str) -> Result<(), ReplayError> {
    if reservation.state == State::Checking {
        return Ok(());
    }
    let (id, state) = (&reservation.id, reservation.state);
    Err(ReplayError(format!("{id} is {what} but is {state:?} already")))
}
