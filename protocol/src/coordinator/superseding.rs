//! The end of a version that was replaced: its RMs give back what they have kept of it.
//!
//! The Hold of a new version asks its RM to keep what the old version has and the new one does not need
//! ([`HoldOrder::keeps_old`](crate::message::HoldOrder::keeps_old)). So the old version can be restored as long
//! as some RM may be too late to book the new one. Once one version is booked everywhere, nobody goes back.
//! Every transaction that is booked for another version is then *superseded*. It is released at its RMs, which
//! have it as replaced, until all of them have acknowledged ([`CoordinatorRecord::Settled`]). The user was
//! answered before that.
//!
//! ```text
//! Done (booked) --a newer version is booked everywhere--> Releasing, superseded --all acks--> Done (settled)
//! ```
//!
//! For a change from a parent, the parent says when: it may want the old version back while another of its RMs
//! is too late. Its Release of what was replaced here is recorded ([`CoordinatorRecord::Superseded`]),
//! answered, and passed on.
//!
//! Source: docs/adr/0032-an-old-version-is-kept.md.

use coalloc_common::{Now, ReservationId, RmName, TransactionId};

use super::record::CoordinatorRecord;
use super::transaction::{Transaction, TransactionGoal};
use super::{Coordinator, StepOutput};
use crate::core::ReplayError;

impl Coordinator {
    /// Has this RM still to acknowledge the release of a transaction that a newer version has superseded?
    #[must_use]
    pub fn is_settling_at(&self, txn: &TransactionId, rm: &RmName) -> bool {
        self.transactions.get(txn).is_some_and(|txn| txn.is_settling_at(rm))
    }

    /// The parent needs nothing more of a reservation that it has replaced.
    pub(super) fn supersede(&mut self, id: &ReservationId, now: Now, out: &mut StepOutput) {
        let versions = self.versions_for_parent(id);
        if versions.iter().all(|id| self.superseded_of(id).is_empty()) {
            return;
        }
        let record = CoordinatorRecord::Superseded { reservation: id.clone(), at: now };
        self.record(record, out);
        versions.iter().for_each(|id| self.send_released(id, now, out));
    }

    /// A parent's reservation, and the one that last tried to replace it.
    pub(super) fn versions_for_parent(&self, id: &ReservationId) -> Vec<ReservationId> {
        let newer = self.parents.replacing.get(id).cloned();
        [Some(id.clone()), newer].into_iter().flatten().collect()
    }

    /// The transactions of a reservation that are booked but are not its current version.
    fn superseded_of(&self, id: &ReservationId) -> Vec<TransactionId> {
        let own = self.reservations.get(id).and_then(|known| known.transaction.as_ref());
        let own = own.and_then(|txn| self.transactions.get_key_value(txn));
        let superseded = |(id, txn): &(&TransactionId, &Transaction)| {
            let of = self.reservations.get(&txn.reservation);
            let stands = of.is_some_and(|of| !of.is_over() && of.transaction.as_ref() == Some(*id));
            txn.goal == TransactionGoal::Commit && txn.is_done() && !stands
        };
        let all = self.attempts_of(id).chain(own).filter(superseded);
        all.map(|(txn, _)| txn.clone()).collect()
    }

    /// A newer version is booked everywhere: all versions of the reservation before it are superseded.
    pub(super) fn supersede_all(&mut self, id: &ReservationId) {
        for txn in self.superseded_of(id) {
            if let Some(txn) = self.transactions.get_mut(&txn) {
                txn.supersede();
            }
        }
    }

    pub(super) fn fold_superseded(&mut self, id: &ReservationId) {
        self.versions_for_parent(id).iter().for_each(|id| self.supersede_all(id));
    }

    pub(super) fn fold_settled(&mut self, txn: &TransactionId) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        if transaction.is_done() || !transaction.is_superseded() {
            return Err(ReplayError(format!("{txn} is settled but was not superseded")));
        }
        transaction.finish();
        let id = transaction.reservation.clone();
        self.fold_over(&id)
    }
}
