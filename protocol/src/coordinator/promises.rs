//! What this coordinator has booked at each RM, and how that differs from what an RM reports that it has.
//!
//! A confirmed reservation is booked at each RM of its candidate. These sets of bookings follow the
//! reservations in the fold ([`Coordinator::recount`]). So do the sets of what is booked here for each parent
//! coordinator. The sets of an RM differ if its ledger was lost or put back from an older copy.
//!
//! A difference counts only when nothing is under way, so [`Coordinator::differences`] judges reservations at
//! rest. The RM's report may still be older than that. Therefore the caller compares twice: a difference is
//! real if two comparisons show it, and the second one began after the first was judged.
//!
//! Left out: the comparison itself, which the shell makes; and what is done about a difference, see
//! [`repair`](super::repair). Source: docs/adr/0031-reconciliation.md.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{CoordinatorName, Now, ReservationId, RmName, Time, TransactionId, limits};

use super::record::{CoordinatorRecord, Differs, stamped};
use super::reservation::{Reservation, State};
use super::{Coordinator, ParentEntry, StepOutput};
use crate::digest::{BookingSet, Listed, Member, Part};
use crate::tracked::TrackedMap;

/// One difference with one RM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The transaction of the booking.
    pub txn: TransactionId,
    /// How the two records differ.
    pub differs: Differs,
    /// The reservation of the transaction; `None` if the ledger of this coordinator does not know the
    /// transaction.
    pub reservation: Option<ReservationId>,
    /// When the booking ends, here or there; the later of the two if both have it.
    pub ends: Time,
}

/// What is booked at each RM and for each parent coordinator, according to this coordinator.
#[derive(Debug, Clone, Default)]
pub(super) struct Promises {
    at: BTreeMap<RmName, BookingSet>,
    of_parent: BTreeMap<CoordinatorName, BookingSet>,
    of: BTreeMap<ReservationId, ReservationPromises>,
    /// The differences that are recorded, by RM and transaction.
    pub(super) differing: TrackedMap<RmName, BTreeMap<TransactionId, Differs>>,
}

/// The members that one reservation has in those sets.
#[derive(Debug, Clone)]
struct ReservationPromises {
    txn: TransactionId,
    parts: Vec<(RmName, Part)>,
    above: Option<(CoordinatorName, TransactionId, Part)>,
}

impl Promises {
    /// A difference is recorded; `None` records its end.
    pub(super) fn note(&mut self, rm: &RmName, txn: &TransactionId, differs: Option<Differs>) {
        let at = self.differing.get_or_default(rm.clone());
        match differs {
            Some(differs) => at.insert(txn.clone(), differs),
            None => at.remove(txn),
        };
        if at.is_empty() {
            self.differing.remove(rm);
        }
    }

    /// A transaction is forgotten, and with it how it differed anywhere.
    pub(super) fn forget(&mut self, txn: &TransactionId) {
        let of = |(rm, all): (&RmName, &BTreeMap<_, _>)| all.contains_key(txn).then(|| rm.clone());
        let rms: Vec<RmName> = self.differing.iter().filter_map(of).collect();
        rms.iter().for_each(|rm| self.note(rm, txn, None));
    }

    fn leave(&mut self, id: &ReservationId) {
        let Some(ReservationPromises { txn, parts, above }) = self.of.remove(id) else { return };
        for (rm, part) in parts {
            if let Some(set) = self.at.get_mut(&rm) {
                set.remove(&txn, part);
            }
        }
        if let Some((coordinator, txn, part)) = above
            && let Some(set) = self.of_parent.get_mut(&coordinator)
        {
            set.remove(&txn, part);
        }
    }

    fn enter(
        &mut self,
        reservation: &Reservation,
        txn: &TransactionId,
        upper: Option<(&TransactionId, &ParentEntry)>,
    ) {
        let mut parts = Vec::new();
        for (rm, segments) in reservation.candidate.iter().flat_map(|booked| &booked.segments) {
            let set = self.at.entry(rm.clone()).or_default();
            parts.extend(set.insert(txn, segments).map(|part| (rm.clone(), part)));
        }
        let above = upper.and_then(|(txn, ParentEntry { coordinator, order, .. })| {
            let set = self.of_parent.entry(coordinator.clone()).or_default();
            let part = set.insert(txn, &order.as_ref()?.0.segments)?;
            Some((coordinator.clone(), txn.clone(), part))
        });
        let standing = ReservationPromises { txn: txn.clone(), parts, above };
        self.of.insert(reservation.id.clone(), standing);
    }
}

impl Coordinator {
    /// What this coordinator has booked at an RM; `None` if it never booked anything there.
    #[must_use]
    pub fn counted_on_at(&self, rm: &RmName) -> Option<&BookingSet> {
        self.promises.at.get(rm)
    }

    /// What a parent coordinator has booked here; `None` if it never booked anything.
    #[must_use]
    pub fn booked_for_parent(&self, coordinator: &CoordinatorName) -> Option<&BookingSet> {
        self.promises.of_parent.get(coordinator)
    }

    /// Does the named coordinator belong to the parents that may hold here?
    #[must_use]
    pub fn serves(&self, coordinator: &CoordinatorName) -> bool {
        self.parents.config.coordinators.contains(coordinator)
    }

    /// After a record, updates the sets for its reservation, if the record can begin or end a booking.
    pub(super) fn recount_after(&mut self, record: &CoordinatorRecord) {
        let id = match record {
            CoordinatorRecord::Finished { txn, .. }
            | CoordinatorRecord::Mixed { txn, .. }
            | CoordinatorRecord::Releasing { txn, .. }
            | CoordinatorRecord::RetentionEnded { txn, .. } => {
                self.transactions.get(txn).map(|txn| txn.reservation.clone())
            }
            CoordinatorRecord::ReplacedForParent { reservation, .. } => Some(reservation.clone()),
            _ => None,
        };
        if let Some(id) = id {
            self.recount(&id);
        }
    }

    pub(super) fn recount(&mut self, id: &ReservationId) {
        let Some(reservation) = self.reservations.get(id) else { return };
        let confirmed = reservation.state == State::Confirmed;
        let stands = reservation.transaction.as_ref().filter(|_| confirmed);
        if self.promises.of.get(id).map(|standing| &standing.txn) == stands {
            return;
        }
        let upper = reservation.parent_transaction.as_ref();
        let upper = upper.and_then(|txn| Some((txn, self.parents.entries.get(txn)?)));
        self.promises.leave(id);
        if let Some(txn) = stands {
            self.promises.enter(reservation, txn, upper);
        }
    }

    /// How an RM differs, given the parts that a comparison found to differ, as the RM has them. Sorted by
    /// transaction. Reports nothing about what is under way, nor about what is over by `now`.
    #[must_use]
    pub fn differences(&self, rm: &RmName, theirs: &[Listed], now: Time) -> Vec<Difference> {
        let nothing = BookingSet::default();
        let set = self.counted_on_at(rm).unwrap_or(&nothing);
        let ours: BTreeMap<TransactionId, Member> =
            theirs.iter().flat_map(|listed| set.listed(listed.part).members).collect();
        let theirs: BTreeMap<&TransactionId, Member> =
            theirs.iter().flat_map(|listed| &listed.members).map(|(txn, m)| (txn, *m)).collect();
        let all: BTreeSet<&TransactionId> = ours.keys().chain(theirs.keys().copied()).collect();
        let difference = |txn: &TransactionId| {
            let (differs, ends) = match (ours.get(txn), theirs.get(txn)) {
                (Some(here), Some(there)) if here.digest == there.digest => return None,
                (Some(here), Some(there)) => (Differs::OtherContent, here.ends.max(there.ends)),
                (Some(here), None) => (Differs::MissingThere, here.ends),
                (None, Some(there)) => (Differs::UnknownHere, there.ends),
                (None, None) => return None,
            };
            let reservation = self.transactions.get(txn).map(|txn| txn.reservation.clone());
            let under_way = reservation
                .as_ref()
                .is_some_and(|id| self.has_unfinished(id) || self.is_split(id, txn));
            let ending = self.is_disowning(rm, txn);
            let counts = ends > now && !under_way && !ending;
            let txn = txn.clone();
            counts.then_some(Difference { txn, differs, reservation, ends })
        };
        all.into_iter().filter_map(difference).collect()
    }

    /// Handles the end of a comparison with an RM. New differences are recorded, and so are those that are
    /// gone, so that watchers of a reservation learn of them. Differences of no reservation are not recorded,
    /// because nobody can watch them. Without disk space nothing is recorded, and the next comparison finds the
    /// difference again.
    pub(super) fn compared(
        &mut self,
        rm: &RmName,
        differences: Vec<Difference>,
        now: Now,
        out: &mut StepOutput,
    ) {
        if self.room.is_low() {
            return;
        }
        let own = differences.into_iter().filter(|one| one.reservation.is_some());
        let found: BTreeMap<TransactionId, Differs> =
            own.map(|one| (one.txn, one.differs)).collect();
        let nothing = BTreeMap::new();
        let known = self.promises.differing.get(rm).unwrap_or(&nothing);
        let gone = known.keys().filter(|txn| !found.contains_key(*txn));
        let gone = gone.map(|txn| (txn.clone(), None));
        let new = found.iter().filter(|(txn, differs)| known.get(*txn) != Some(*differs));
        let new = new.map(|(txn, differs)| (txn.clone(), Some(*differs)));
        let told: Vec<_> = gone.chain(new).take(limits::DIFFERENCES_RECORDED_MAX).collect();
        for (txn, differs) in told {
            let (rm, at) = (rm.clone(), now);
            let (state, version) = (stamped::STATE, stamped::VERSION);
            let active = stamped::ACTIVE;
            let record =
                CoordinatorRecord::Differs { txn, rm, differs, state, version, active, at };
            self.record(record, out);
        }
    }

    /// Checks that the sets agree with the confirmed reservations.
    pub(super) fn check_promises(&self) -> Result<(), String> {
        let mut naive = Promises::default();
        for (id, reservation) in &self.reservations {
            if let (State::Confirmed, Some(txn)) = (reservation.state, &reservation.transaction) {
                let upper = reservation.parent_transaction.as_ref();
                let upper = upper.and_then(|txn| Some((txn, self.parents.entries.get(txn)?)));
                naive.enter(reservation, txn, upper);
            }
            if self.promises.of.contains_key(id) != naive.of.contains_key(id) {
                return Err(format!(
                    "I12: {id} is {:?}, which disagrees with the promises",
                    reservation.state
                ));
            }
        }
        let nothing = BookingSet::default();
        let same = |kept: Option<&BookingSet>, naive: Option<&BookingSet>| {
            let kept = kept.unwrap_or(&nothing);
            kept.check_invariants()?;
            let equal = kept == naive.unwrap_or(&nothing);
            equal
                .then_some(())
                .ok_or_else(|| "I12: the promises differ from the confirmed reservations".into())
        };
        let Promises { at, of_parent: above, .. } = &self.promises;
        for rm in at.keys().chain(naive.at.keys()) {
            same(at.get(rm), naive.at.get(rm)).map_err(|text: String| format!("{rm}: {text}"))?;
        }
        for name in above.keys().chain(naive.of_parent.keys()) {
            same(above.get(name), naive.of_parent.get(name))
                .map_err(|text: String| format!("{name}: {text}"))?;
        }
        Ok(())
    }
}
