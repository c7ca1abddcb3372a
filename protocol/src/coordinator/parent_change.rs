//! A change by the coordinator above: a hold that replaces what it has booked here.
//!
//! The new version is a reservation of its own, as every hold from above is; its attempts hold new versions
//! at the inner RMs, which replace what the old reservation has booked there. So every answer is still made
//! of the state of one reservation. When all inner RMs have booked the new version the old reservation ends
//! as replaced, by a record. Before that it stands, whatever becomes of the change:
//!
//! ```text
//! old   Confirmed ----------------------------------- replaced --> Terminated
//! new   Checking -> Held --Commit--> Committing --all acks--^ Confirmed
//!           one no, Abort, expiry: Failed, and the old one is whole
//! ```
//!
//! What a participant does with two versions of a booking is done here with two reservations: one hold
//! replaces a booking at a time; a Commit that finds the old version gone is refused. Where the decision is
//! made and not yet carried out everywhere, neither version is whole: a Release then ends both, and an inner RM
//! that refuses to book has it mended, see [`mending`](super::mending).

use coalloc_common::{Now, Reason, Refusal, ReservationId, RmName, TransactionId};

use super::record::CoordinatorRecord;
use super::reservation::{Reservation, State};
use super::{Candidate, Coordinator, StepOutput};
use crate::core::ReplayError;
use crate::message::HoldOrder;

impl Coordinator {
    /// The reservation here that holds or has booked a transaction of a coordinator above.
    #[must_use]
    pub fn reservation_for_parent(&self, txn: &TransactionId) -> Option<&Reservation> {
        let (_, id) = self.parent_entries.get(txn)?.order.as_ref()?;
        self.reservations.get(id)
    }

    /// What one above wants kept for a reservation, if it is one's above.
    #[must_use]
    pub fn parent_order(&self, reservation: &Reservation) -> Option<&HoldOrder> {
        let entry = self.parent_entries.get(reservation.parent_transaction.as_ref()?)?;
        entry.order.as_ref().map(|(order, _)| order)
    }

    /// The reservation that this one would replace.
    pub(super) fn old_for_parent(&self, id: &ReservationId) -> Option<&Reservation> {
        let order = self.parent_order(self.reservations.get(id)?)?;
        self.reservation_for_parent(order.replaces.as_ref()?)
    }

    /// The inner transaction that attempts of this one replace.
    pub(super) fn replaced_inside(&self, id: &ReservationId) -> Option<TransactionId> {
        self.old_for_parent(id)?.transaction.clone()
    }

    /// The reservation that was the last to try to replace this one.
    fn replacing(&self, old: &Reservation) -> Option<&Reservation> {
        self.replacing_for_parent.get(&old.id).and_then(|id| self.reservations.get(id))
    }

    /// Why the booking that an order replaces cannot be replaced by it, if it cannot: as a participant
    /// would say it.
    pub(super) fn refusal_of_replacing(&self, order: &HoldOrder) -> Option<Refusal> {
        let old = order.replaces.as_ref()?;
        let refuse = |reason, text| Some(Refusal::new(reason, text).at(&self.rm_name()));
        let known =
            self.parent_entries.get(old).filter(|entry| entry.coordinator == order.coordinator);
        let Some(booked) = known.and_then(|_| self.reservation_for_parent(old)) else {
            return refuse(Reason::NotHeld, format!("{old} is not booked here, so not replaced"));
        };
        match booked.state {
            State::Confirmed => {}
            State::Terminating | State::Terminated => {
                let why = booked.refusal.as_ref().map(|why| why.reason);
                let why = why.filter(|why| *why == Reason::Replaced).unwrap_or(Reason::NotHeld);
                return refuse(why, format!("{old} is over; it cannot be replaced"));
            }
            State::Checking | State::Held | State::Committing | State::Aborting | State::Failed => {
                return refuse(Reason::NotHeld, format!("{old} is not booked, so not replaced"));
            }
        }
        let other = self.replacing(booked).filter(|other| !other.is_over())?;
        let other = other.parent_transaction.as_ref()?;
        refuse(Reason::NotHeld, format!("{old} is being replaced by {other} already"))
    }

    /// Why what a promise would replace is not there any more: it cannot be booked.
    pub(super) fn lost_old_for_parent(&self, id: &ReservationId) -> Option<Refusal> {
        let known = self.reservations.get(id)?;
        let old = self.parent_order(known)?.replaces.as_ref()?;
        let stands =
            self.reservation_for_parent(old).is_some_and(|old| old.state == State::Confirmed);
        let text = || format!("{old}, which it would replace, is not booked any more");
        (!stands).then(|| Refusal::new(Reason::Aborted, text()).at(&self.rm_name()))
    }

    /// Candidates of a hold from above: of one that replaces, with every RM of the old version.
    pub(super) fn with_parties_for_parent(
        &self,
        order: &HoldOrder,
        candidates: Vec<Candidate>,
    ) -> Vec<Candidate> {
        let old = order.replaces.as_ref().and_then(|old| self.reservation_for_parent(old));
        let id = old.map(|old| old.id.clone());
        id.map_or(candidates.clone(), |id| self.with_old_parties(&id, candidates))
    }

    /// The RMs that have the version which attempts of this reservation would replace.
    pub(super) fn old_parties(&self, id: &ReservationId) -> impl Iterator<Item = &RmName> {
        let changing = self.reservations.get(id).filter(|known| known.is_changing());
        let old = changing.or_else(|| self.old_for_parent(id));
        old.and_then(|old| old.candidate.as_ref()).into_iter().flat_map(|old| old.segments.keys())
    }

    /// The one above ends a booking. Of a change that is decided and not booked everywhere yet, both
    /// versions end, whichever is named.
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

    /// Releases what is booked or being booked for one reservation.
    fn release_inside(&mut self, id: &ReservationId, now: Now, out: &mut StepOutput) {
        let Some(known) = self.reservations.get(id) else { return };
        let Some(txn) = known.transaction.clone() else { return };
        if !matches!(known.state, State::Committing | State::Confirmed) {
            return;
        }
        let by = known.ticket.user.clone();
        let record = CoordinatorRecord::Releasing { txn, by, version: None, at: now };
        self.record(record, out);
        self.end_mending(id, now, out);
        self.send_released(id, now, out);
    }

    /// An inner RM has refused to book the new version: what the others have of the old one ends too.
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

    /// A transaction is booked everywhere: what it has replaced has ended.
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

    /// An attempt at a change from above opens.
    pub(super) fn fold_replacing(
        &mut self,
        id: &ReservationId,
        old: &TransactionId,
    ) -> Result<Vec<RmName>, ReplayError> {
        let old = self.transaction_mut(old)?.reservation.clone();
        let parties = self.old_parties(id).cloned().collect();
        self.replacing_for_parent.insert(old, id.clone());
        Ok(parties)
    }

    pub(super) fn fold_replaced_for_parent(
        &mut self,
        id: &ReservationId,
        by: &TransactionId,
    ) -> Result<(), ReplayError> {
        // Its transaction may be told to release already: of an RM that says it has lost what it had.
        if self.reservations.get(id).is_none_or(|old| old.state != State::Confirmed) {
            return Err(ReplayError(format!("{id} is replaced and was not booked")));
        }
        let old = self.reservation_mut(id)?;
        old.state = State::Terminated;
        let text = format!("{by} has taken its place");
        old.refusal = Some(Refusal::new(Reason::Replaced, text));
        Ok(())
    }
}
