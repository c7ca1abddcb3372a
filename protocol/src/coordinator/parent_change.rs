//! A change by a parent coordinator: a hold that replaces what the parent has booked here.
//!
//! The new version is a reservation of its own, like every hold of a parent. Its attempts hold new versions at
//! the inner RMs, which replace what the old reservation has booked there. So every answer still follows from
//! the state of one reservation. When all inner RMs have booked the new version, a record ends the old
//! reservation as replaced. Until then it stays booked, whatever becomes of the change:
//!
//! ```text
//! old   Confirmed ----------------------------------- replaced --> Terminated
//! new   Checking -> Held --Commit--> Committing --all acks--^ Confirmed
//!           one no, Abort, expiry: Failed, and the old one is intact
//! ```
//!
//! A participant handles the two versions with two entries; here it takes two reservations. The rules are the
//! same: only one hold at a time replaces a booking, and a Commit is refused if the old version is gone.
//! Between the decision and its end at all RMs, neither version is complete. A Release then ends both, and if
//! an inner RM refuses to book, the change is mended, see [`mending`](super::mending).

use coalloc_common::{Now, Reason, Refusal, ReservationId, RmName, TransactionId};

use super::record::{CoordinatorRecord, stamped};
use super::reservation::{Candidate, Reservation, State};
use super::{Coordinator, StepOutput};
use crate::core::ReplayError;
use crate::message::HoldOrder;

impl Coordinator {
    /// The reservation here that holds or has booked a parent's transaction.
    #[must_use]
    pub fn reservation_for_parent(&self, txn: &TransactionId) -> Option<&Reservation> {
        let (_, id) = self.parents.entries.get(txn)?.order.as_ref()?;
        self.reservations.get(id)
    }

    /// The parent's Hold from which a reservation comes; `None` for a user's own reservation.
    #[must_use]
    pub fn parent_order(&self, reservation: &Reservation) -> Option<&HoldOrder> {
        let entry = self.parents.entries.get(reservation.parent_transaction.as_ref()?)?;
        entry.order.as_ref().map(|(order, _)| order)
    }

    /// The reservation that this one would replace.
    pub(super) fn old_for_parent(&self, id: &ReservationId) -> Option<&Reservation> {
        let order = self.parent_order(self.reservations.get(id)?)?;
        self.reservation_for_parent(order.replaces.as_ref()?)
    }

    /// The inner transaction that attempts at this reservation replace.
    pub(super) fn replaced_inside(&self, id: &ReservationId) -> Option<TransactionId> {
        self.old_for_parent(id)?.transaction.clone()
    }

    /// The reservation that last tried to replace this one.
    fn replacing(&self, old: &Reservation) -> Option<&Reservation> {
        self.parents.replacing.get(&old.id).and_then(|id| self.reservations.get(id))
    }

    /// Why an order cannot replace the booking that it names, in the words of a participant; `None` if it can.
    pub(super) fn refusal_of_replacing(&self, order: &HoldOrder) -> Option<Refusal> {
        let old = order.replaces.as_ref()?;
        let refuse = |reason, text| Some(Refusal::new(reason, text).at(&self.rm_name()));
        let known =
            self.parents.entries.get(old).filter(|entry| entry.coordinator == order.coordinator);
        let Some(booked) = known.and_then(|_| self.reservation_for_parent(old)) else {
            return refuse(
                Reason::NotHeld,
                format!("{old} is not booked here, so it cannot be replaced"),
            );
        };
        match booked.state {
            State::Confirmed => {}
            State::Terminating | State::Terminated => {
                let why = booked.refusal.as_ref().map(|why| why.reason);
                let why = why.filter(|why| *why == Reason::Replaced).unwrap_or(Reason::NotHeld);
                return refuse(why, format!("{old} has ended; it cannot be replaced"));
            }
            State::Checking | State::Held | State::Committing | State::Aborting | State::Failed => {
                return refuse(
                    Reason::NotHeld,
                    format!("{old} is not booked, so it cannot be replaced"),
                );
            }
        }
        let other = self.replacing(booked).filter(|other| !other.is_over())?;
        let other = other.parent_transaction.as_ref()?;
        refuse(Reason::NotHeld, format!("{old} is already being replaced by {other}"))
    }

    /// Why a promise can no longer be booked: what it would replace is gone. `None` if it is not.
    pub(super) fn lost_old_for_parent(&self, id: &ReservationId) -> Option<Refusal> {
        let known = self.reservations.get(id)?;
        let old = self.parent_order(known)?.replaces.as_ref()?;
        let stands =
            self.reservation_for_parent(old).is_some_and(|old| old.state == State::Confirmed);
        let text = || format!("{old}, which it would replace, is no longer booked");
        (!stands).then(|| Refusal::new(Reason::Aborted, text()).at(&self.rm_name()))
    }

    /// Candidates of a parent's hold. If it replaces a booking, every RM of the old version takes part in each.
    pub(super) fn with_parties_for_parent(
        &self,
        order: &HoldOrder,
        candidates: Vec<Candidate>,
    ) -> Vec<Candidate> {
        let old = order.replaces.as_ref().and_then(|old| self.reservation_for_parent(old));
        let id = old.map(|old| old.id.clone());
        id.map_or(candidates.clone(), |id| self.with_old_parties(&id, candidates))
    }

    /// The RMs that have the version which attempts at this reservation would replace.
    pub(super) fn old_parties(&self, id: &ReservationId) -> impl Iterator<Item = &RmName> {
        let changing = self.reservations.get(id).filter(|known| known.is_changing());
        let old = changing.or_else(|| self.old_for_parent(id));
        old.and_then(|old| old.candidate.as_ref()).into_iter().flat_map(|old| old.segments.keys())
    }

    /// The parent ends a booking. If a change of it is decided and not booked everywhere yet, both versions
    /// end, whichever one the parent names.
    pub(super) fn release_for_parent(
        &mut self,
        id: &ReservationId,
        now: Now,
        out: &mut StepOutput,
    ) {
        let is_committing =
            |known: &&Reservation| known.state == State::Committing && known.id != *id;
        let new = self.reservations.get(id).and_then(|known| self.replacing(known));
        let new = new.filter(is_committing).map(|new| new.id.clone());
        let changing = new.as_ref().unwrap_or(id);
        let is_changing =
            self.reservations.get(changing).is_some_and(|known| known.state == State::Committing);
        let old = self.old_for_parent(changing).filter(|_| is_changing).map(|old| old.id.clone());
        for id in [Some(changing.clone()), old].into_iter().flatten() {
            self.release_inside(&id, now, out);
        }
    }

    /// Releases what is booked, or being booked, for one reservation.
    fn release_inside(&mut self, id: &ReservationId, now: Now, out: &mut StepOutput) {
        let Some(known) = self.reservations.get(id) else { return };
        let Some(txn) = known.transaction.clone() else { return };
        if !matches!(known.state, State::Committing | State::Confirmed) {
            return;
        }
        let by = known.ticket.user.clone();
        let record = CoordinatorRecord::Releasing { txn, by, version: stamped::VERSION, at: now };
        self.record(record, out);
        self.end_mending(id, now, out);
        self.send_released(id, now, out);
    }

    /// An inner RM has refused to book the new version. What the other RMs have of the old one ends, too.
    pub(super) fn end_old_for_parent(
        &mut self,
        txn: &TransactionId,
        now: Now,
        out: &mut StepOutput,
    ) {
        let reservation = self.transactions.get(txn).map(|txn| txn.reservation.clone());
        let old = reservation.and_then(|id| self.old_for_parent(&id)).map(|old| old.id.clone());
        if let Some(old) = old {
            self.release_inside(&old, now, out);
        }
    }

    /// A transaction is booked everywhere, so the version that it replaces has ended.
    pub(super) fn replaced_for_parent(
        &mut self,
        txn: &TransactionId,
        now: Now,
        out: &mut StepOutput,
    ) {
        let Some(id) = self.transactions.get(txn).map(|txn| txn.reservation.clone()) else {
            return;
        };
        let upper = self.reservations.get(&id).and_then(|known| known.parent_transaction.clone());
        let old = self.old_for_parent(&id).filter(|old| old.state == State::Confirmed);
        if let (Some(by), Some(old)) = (upper, old.map(|old| old.id.clone())) {
            let reservation = old.clone();
            self.record(CoordinatorRecord::ReplacedForParent { reservation, by, at: now }, out);
            let known = self.reservations.get(&id).and_then(|known| self.parent_order(known));
            if !known.is_some_and(|order| order.keeps_old) {
                self.supersede(&old, now, out);
            }
        }
    }

    /// An attempt at a parent's change opens. Returns the RMs of the old version.
    pub(super) fn fold_replacing(
        &mut self,
        id: &ReservationId,
        old: &TransactionId,
    ) -> Result<Vec<RmName>, ReplayError> {
        let old = self.transaction_mut(old)?.reservation.clone();
        let parties = self.old_parties(id).cloned().collect();
        self.parents.replacing.insert(old, id.clone());
        Ok(parties)
    }

    pub(super) fn fold_replaced_for_parent(
        &mut self,
        id: &ReservationId,
        by: &TransactionId,
    ) -> Result<(), ReplayError> {
        // The transaction of the old version may be under release already, if an RM has reported that it lost
        // what it had.
        if self.reservations.get(id).is_none_or(|old| old.state != State::Confirmed) {
            return Err(ReplayError(format!("{id} is replaced but was not booked")));
        }
        let old = self.reservation_mut(id)?;
        old.state = State::Terminated;
        let text = format!("{by} has replaced it");
        old.refusal = Some(Refusal::new(Reason::Replaced, text));
        Ok(())
    }
}
