//! What a coordinator writes down, and the one place where its durable state changes.

use coalloc_common::{Now, Refusal, ReservationId, RmName, Span, TransactionId, UserName};
use serde::{Deserialize, Serialize};

use super::reservation::{Reservation, State};
use super::transaction::{Goal, Transaction};
use super::{Candidate, Coordinator, Ticket};
use crate::core::ReplayError;
use crate::message::Decision;

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
    /// The user ends the reservation.
    Releasing {
        /// Its attempt.
        txn: TransactionId,
        /// Who says so.
        by: UserName,
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
        let of = |id: &ReservationId| self.reservations.get(id).map(|known| known.state);
        let of_txn = |txn: &TransactionId| of(&self.transactions.get(txn)?.reservation);
        match record {
            CoordinatorRecord::Decided { txn, state, .. }
            | CoordinatorRecord::Finished { txn, state, .. } => *state = of_txn(txn),
            CoordinatorRecord::Concluded { reservation, state, .. } => *state = of(reservation),
            CoordinatorRecord::Refused { .. }
            | CoordinatorRecord::Opened { .. }
            | CoordinatorRecord::Intent { .. }
            | CoordinatorRecord::Mixed { .. }
            | CoordinatorRecord::Releasing { .. } => {}
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
            CoordinatorRecord::Intent { txn, reservation, candidate, at } => {
                self.fold_intent(txn, reservation, candidate, *at)
            }
            CoordinatorRecord::Decided { txn, decision, refusal, .. } => {
                self.fold_decided(txn, *decision, refusal.as_ref())
            }
            CoordinatorRecord::Mixed { txn, refusal, .. } => self.fold_mixed(txn, refusal),
            CoordinatorRecord::Releasing { txn, .. } => self.fold_releasing(txn),
            CoordinatorRecord::Finished { txn, .. } => self.fold_finished(txn),
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
        at: Now,
    ) -> Result<(), ReplayError> {
        if self.transactions.contains_key(txn) {
            return Err(ReplayError(format!("{txn} begins twice")));
        }
        let reservation = self.reservation_mut(id)?;
        expect_checking(reservation, "tried")?;
        reservation.transaction = Some(txn.clone());
        reservation.candidate = Some(candidate.clone());
        reservation.attempts += 1;
        self.transactions.insert(txn.clone(), Transaction::new(id.clone(), candidate, at.boot));
        Ok(())
    }

    fn fold_decided(
        &mut self,
        txn: &TransactionId,
        decision: Decision,
        refusal: Option<&Refusal>,
    ) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        if transaction.goal != Goal::Hold {
            return Err(ReplayError(format!("{txn} is decided twice")));
        }
        let id = transaction.reservation.clone();
        transaction.turn(match decision {
            Decision::Commit => Goal::Commit,
            Decision::Abort => Goal::Abort,
        });
        let reservation = self.reservation_mut(&id)?;
        if decision == Decision::Commit {
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
        if transaction.goal != Goal::Commit {
            return Err(ReplayError(format!("{txn} is mixed but was not to be committed")));
        }
        // The one that refused is told as well: when its first answer was lost, and it denies us
        // only now, it has booked.
        transaction.turn(Goal::Release);
        let id = transaction.reservation.clone();
        let reservation = self.reservation_mut(&id)?;
        reservation.state = State::Aborting;
        reservation.refusal = Some(refusal.clone());
        Ok(())
    }

    fn fold_releasing(&mut self, txn: &TransactionId) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        if transaction.goal != Goal::Commit {
            return Err(ReplayError(format!("{txn} is released but was not to be committed")));
        }
        transaction.turn(Goal::Release);
        let id = transaction.reservation.clone();
        self.reservation_mut(&id)?.state = State::Terminating;
        Ok(())
    }

    fn fold_finished(&mut self, txn: &TransactionId) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        if transaction.is_done() {
            return Err(ReplayError(format!("{txn} is finished twice")));
        }
        transaction.finish();
        let (id, goal) = (transaction.reservation.clone(), transaction.goal);
        let unfinished = self.has_unfinished(&id);
        let reservation = self.reservation_mut(&id)?;
        reservation.state = match (goal, reservation.state) {
            (Goal::Hold, _) => return Err(ReplayError(format!("{txn} ends undecided"))),
            (Goal::Commit, State::Committing) => State::Confirmed,
            // Only when nothing is left of earlier attempts either.
            (_, State::Terminating) if !unfinished => State::Terminated,
            (_, State::Aborting) if !unfinished => State::Failed,
            (_, state) => state,
        };
        Ok(())
    }

    pub(super) fn has_unfinished(&self, id: &ReservationId) -> bool {
        // Attempts of one reservation stand together: their ids begin with its id.
        let first = TransactionId::composed(format!("{id}/"));
        self.transactions
            .range(first..)
            .take_while(|(txn, _)| txn.as_str().starts_with(&format!("{id}/")))
            .any(|(_, txn)| !txn.is_done())
    }

    pub(super) fn reservation_mut(
        &mut self,
        id: &ReservationId,
    ) -> Result<&mut Reservation, ReplayError> {
        let missing = || ReplayError(format!("there is no reservation {id}"));
        self.reservations.get_mut(id).ok_or_else(missing)
    }

    fn transaction_mut(&mut self, txn: &TransactionId) -> Result<&mut Transaction, ReplayError> {
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
