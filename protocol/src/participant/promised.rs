//! What is booked here for each coordinator, kept so that it can be compared with what that one has.
//!
//! The sets change where entries do, in the fold; [`Participant::check_promised`] compares them with what the
//! entries say. Source: docs/adr/0031-reconciliation.md.

use std::collections::BTreeMap;

use coalloc_common::{CoordinatorName, TransactionId};

use super::{Participant, Phase};
use crate::digest::BookingSet;

impl Participant {
    /// What is booked here for a coordinator; `None` when nothing ever was.
    #[must_use]
    pub fn booked_for(&self, coordinator: &CoordinatorName) -> Option<&BookingSet> {
        self.booked.get(coordinator)
    }

    /// An entry has become a booking.
    pub(super) fn enter_booked(&mut self, txn: &TransactionId) {
        let Some(entry) = self.entries.get(txn) else { return };
        let Some(order) = &entry.order else { return };
        let set = self.booked.entry(entry.coordinator.clone()).or_default();
        set.insert(txn, &order.segments);
    }

    /// An entry is about to be no booking any more, if it is one.
    pub(super) fn leave_booked(&mut self, txn: &TransactionId) {
        let booked = self.entries.get(txn).filter(|entry| entry.phase == Phase::Booked);
        let Some(entry) = booked else { return };
        if let (Some(order), Some(set)) = (&entry.order, self.booked.get_mut(&entry.coordinator)) {
            set.remove_content(txn, &order.segments);
        }
    }

    /// Are the sets those of the entries?
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
                return Err(format!("I12: the bookings of {coordinator} are not its entries'"));
            }
        }
        Ok(())
    }
}
