//! The bookings of each coordinator at this RM, in a form that can be compared with the coordinator's.
//!
//! The sets change in the fold, together with the entries; [`Participant::check_promised`] compares them with
//! the entries. Source: docs/adr/0031-reconciliation.md.

use std::collections::BTreeMap;

use coalloc_common::{CoordinatorName, TransactionId};

use super::{Participant, Phase};
use crate::digest::BookingSet;

impl Participant {
    /// The bookings of a coordinator; `None` when it never had any.
    #[must_use]
    pub fn booked_for(&self, coordinator: &CoordinatorName) -> Option<&BookingSet> {
        self.booked.get(coordinator)
    }

    /// Notes that an entry has become a booking.
    pub(super) fn enter_booked(&mut self, txn: &TransactionId) {
        let Some(entry) = self.entries.get(txn) else { return };
        let Some(order) = &entry.order else { return };
        let set = self.booked.entry(entry.coordinator.clone()).or_default();
        set.insert(txn, &order.segments);
    }

    /// Notes that an entry, if it is a booking, is about to end.
    pub(super) fn leave_booked(&mut self, txn: &TransactionId) {
        let booked = self.entries.get(txn).filter(|entry| entry.phase == Phase::Booked);
        let Some(entry) = booked else { return };
        if let (Some(order), Some(set)) = (&entry.order, self.booked.get_mut(&entry.coordinator)) {
            set.remove_content(txn, &order.segments);
        }
    }

    /// Checks that the sets contain exactly the bookings of the entries.
    pub(super) fn check_promised(&self) -> Result<(), String> {
        let mut naive: BTreeMap<&CoordinatorName, BookingSet> = BTreeMap::new();
        for (txn, entry) in &self.entries {
            if let (Phase::Booked, Some(order)) = (&entry.phase, &entry.order) {
                let set = naive.entry(&entry.coordinator).or_default();
                set.insert(txn, &order.segments);
            }
        }
        let nothing = BookingSet::default();
        for coordinator in self.booked.keys().chain(naive.keys().copied()) {
            let kept = self.booked.get(coordinator).unwrap_or(&nothing);
            kept.check_invariants()?;
            if kept != naive.get(coordinator).unwrap_or(&nothing) {
                return Err(format!("I12: the bookings of {coordinator} differ from its entries"));
            }
        }
        Ok(())
    }
}
