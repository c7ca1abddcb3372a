//! The count of all attempts, and the oldest of them that is not at rest.
//!
//! A coordinator counts its attempts over all of its reservations, and the number is the last part of an attempt's id.
//! With every Hold it says which attempt is its *oldest open* one, so that RMs can forget those before it (see
//! [`crate::participant`]). An attempt is open while its reservation is not at rest: until the reservation is decided,
//! every RM has acknowledged the decision, and no change or mending is under way. When a reservation that was at rest
//! is changed or released, all of its attempts are open again. An RM that has forgotten them answers what follows from
//! that (ADR 47).
//!
//! Ids from before this count had a count for each reservation. They are lower than every number that is given now.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{ReservationId, TransactionId};

use super::Coordinator;
use super::record::CoordinatorRecord;

/// How many attempts there were, and which reservations have open ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attempts {
    /// How many attempts were opened so far. The next one has the next number.
    pub(super) opened: u64,
    /// The lowest number of each reservation that is not at rest.
    lowest: BTreeMap<ReservationId, u64>,
    /// The same by number.
    open: BTreeSet<(u64, ReservationId)>,
}

impl Attempts {
    fn close(&mut self, id: &ReservationId) {
        if let Some(lowest) = self.lowest.remove(id) {
            self.open.remove(&(lowest, id.clone()));
        }
    }

    fn open(&mut self, id: &ReservationId, lowest: u64) {
        self.lowest.insert(id.clone(), lowest);
        self.open.insert((lowest, id.clone()));
    }
}

impl Coordinator {
    /// The id of the next attempt at a reservation.
    pub(super) fn next_attempt(&self, id: &ReservationId) -> TransactionId {
        TransactionId::composed(format!("{id}/{}", self.attempts.opened + 1))
    }

    /// All attempts with a lower number are at rest.
    #[must_use]
    pub fn oldest_open(&self) -> u64 {
        self.attempts.open.first().map_or(self.attempts.opened + 1, |(number, _)| *number)
    }

    /// After a record, notes which of its reservations are at rest now.
    pub(super) fn note_rest_after(&mut self, record: &CoordinatorRecord) {
        for id in self.reservations_of(record) {
            self.note_rest(&id);
            if self.is_at_rest(&id)
                && let Some(known) = self.reservations.get_mut(&id)
            {
                known.at_rest_since = Some(record.at().wall);
                self.stir();
            }
        }
    }

    pub(super) fn note_rest(&mut self, id: &ReservationId) {
        if self.is_at_rest(id) {
            return self.attempts.close(id);
        }
        // The first attempt has the lowest number, and later ones change nothing.
        if !self.attempts.lowest.contains_key(id)
            && let Some(lowest) = self.lowest_attempt(id)
        {
            self.attempts.open(id, lowest);
        }
    }

    fn lowest_attempt(&self, id: &ReservationId) -> Option<u64> {
        self.attempts_of(id).filter_map(|(txn, _)| Some(txn.counted()?.1)).min()
    }

    /// Is nothing of a reservation under way, at any RM, but the Release of what is long over? An RM that has forgotten
    /// a booking answers that Release as one that has it.
    pub(super) fn is_at_rest(&self, id: &ReservationId) -> bool {
        let Some(known) = self.reservations.get(id) else { return true };
        let stands = known.transaction.as_ref().and_then(|txn| self.transactions.get(txn));
        known.retention_ended
            || known.is_definite()
                && !self.has_unfinished(id)
                && !self.mendings.open.contains_key(id)
                && stands.is_none_or(super::transaction::Transaction::is_done)
    }

    /// The reservations that a record may bring to rest, or out of it.
    fn reservations_of(&self, record: &CoordinatorRecord) -> BTreeSet<ReservationId> {
        let (id, txn) = match record {
            CoordinatorRecord::Refused { reservation, .. }
            | CoordinatorRecord::Opened { reservation, .. }
            | CoordinatorRecord::Intent { reservation, .. }
            | CoordinatorRecord::ChangeRefused { reservation, .. }
            | CoordinatorRecord::Concluded { reservation, .. }
            | CoordinatorRecord::ReplacedForParent { reservation, .. }
            | CoordinatorRecord::Superseded { reservation, .. }
            | CoordinatorRecord::ParentHoldOpened { reservation, .. } => (Some(reservation), None),
            CoordinatorRecord::ChangeOpened { ticket, .. } => (Some(&ticket.reservation), None),
            CoordinatorRecord::Decided { txn, .. }
            | CoordinatorRecord::Mixed { txn, .. }
            | CoordinatorRecord::Split { txn, .. }
            | CoordinatorRecord::Releasing { txn, .. }
            | CoordinatorRecord::Finished { txn, .. }
            | CoordinatorRecord::Settled { txn, .. }
            | CoordinatorRecord::Prepared { txn, .. }
            | CoordinatorRecord::RetentionEnded { txn, .. }
            | CoordinatorRecord::GaveUp { txn, .. } => (None, Some(txn)),
            CoordinatorRecord::Disowned { .. }
            | CoordinatorRecord::DisownEnded { .. }
            | CoordinatorRecord::Differs { .. }
            | CoordinatorRecord::Reported { .. }
            | CoordinatorRecord::UsageChanged { .. }
            | CoordinatorRecord::LeaderElected { .. }
            | CoordinatorRecord::CalendarChanged { .. }
            | CoordinatorRecord::ParentLeaderChanged { .. }
            | CoordinatorRecord::Forgotten { .. }
            | CoordinatorRecord::ParentTombstone { .. } => (None, None),
        };
        let mut all: BTreeSet<ReservationId> = id.cloned().into_iter().collect();
        all.extend(txn.into_iter().flat_map(|txn| self.both_of(txn)));
        if self.parents.entries.is_empty() {
            return all;
        }
        // A change of a parent is a reservation of its own, and its transactions may come to belong to the old one.
        for id in all.clone() {
            all.extend(self.old_for_parent(&id).map(|old| old.id.clone()));
            all.extend(self.versions_for_parent(&id));
        }
        for id in all.clone() {
            let stands = self.reservations.get(&id).and_then(|known| known.transaction.as_ref());
            all.extend(stands.into_iter().flat_map(|txn| self.both_of(txn)));
        }
        all
    }

    /// The reservation that a transaction belongs to, and the one that it is named after.
    fn both_of(&self, txn: &TransactionId) -> impl Iterator<Item = ReservationId> {
        let of = self.transactions.get(txn).map(|txn| txn.reservation.clone());
        let named = txn.as_str().rsplit_once('/').map(|(id, _)| id);
        let named = named.and_then(|id| self.reservations.get_key_value(id));
        of.into_iter().chain(named.map(|(id, _)| id.clone()))
    }

    /// Checks that exactly the reservations that are not at rest have open attempts.
    pub(super) fn check_attempts(&self) -> Result<(), String> {
        let opened: u64 = self.reservations.values().map(|known| u64::from(known.opened)).sum();
        let opened = opened + self.forgetting.count.attempts;
        if opened != self.attempts.opened {
            let counted = self.attempts.opened;
            return Err(format!("I12: {opened} attempts were opened, but {counted} are counted"));
        }
        for id in self.reservations.keys() {
            let lowest = self.lowest_attempt(id).filter(|_| !self.is_at_rest(id));
            if self.attempts.lowest.get(id).copied() != lowest {
                return Err(format!("I9: the oldest open attempt of {id} is not {lowest:?}"));
            }
        }
        if self.attempts.lowest.len() != self.attempts.open.len() {
            return Err("I12: the open attempts are counted twice".to_owned());
        }
        Ok(())
    }
}
