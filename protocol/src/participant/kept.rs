//! What stays booked of a replaced booking until its coordinator reports that it is no longer needed.
//!
//! A change is booked at each RM by a separate message. An RM that is too late to book keeps the old version,
//! and then all other RMs must be able to return to it. So a hold may ask that the RM keep what the new version
//! does not need ([`HoldOrder::keeps_old`](crate::message::HoldOrder::keeps_old)). At Commit the old
//! transaction then ends as replaced, and what it had beyond the new one stays booked; this is what is *kept*
//! of it. Whatever next replaces the new version counts both as its own, so a return to the old version always
//! fits. A Release of the old transaction ends what is kept. The coordinator sends it when one version is
//! booked everywhere.
//!
//! Only the version that was replaced last has anything kept. When the new version is replaced in turn, what
//! was kept before it becomes part of what is given up then. A booking beside which something is kept is not
//! rerouted in the inner network: what is kept includes inner links that its present routes do not use.
//!
//! Left out: asking the coordinator how long to keep it. The coordinator repeats Release until it is answered,
//! also after its own restart, and what is kept ends with its windows at the latest. Source:
//! docs/adr/0032-an-old-version-is-kept.md.

use coalloc_common::timetable::{Layer, Timetable};
use coalloc_common::{Segment, TransactionId};

use super::footprint::Footprint;
use super::{Entry, Participant, Phase, TransactionEnd};
use crate::core::ReplayError;

impl Participant {
    /// The entry of a transaction that is booked; `None` when it is not booked.
    pub(super) fn booked_entry(&self, txn: Option<&TransactionId>) -> Option<&Entry> {
        txn.and_then(|txn| self.entries.get(txn)).filter(|entry| entry.phase == Phase::Booked)
    }

    /// What a new version of a booking may count as its own, on paths and on inner links: what is booked, and
    /// what is kept beside it. `None` when the transaction is not booked.
    pub(super) fn own(&self, booked: Option<&TransactionId>) -> Option<Footprint> {
        let entry = self.booked_entry(booked)?;
        let kept = booked.and_then(|txn| self.kept_before(txn));
        let kept = kept.and_then(|before| self.entries.get(before)).map(|before| &before.kept);
        Some(match kept {
            Some(kept) => Footprint::of(entry.footprint().segments().iter().chain(kept)),
            None => entry.footprint(),
        })
    }

    /// The transaction that `txn` has replaced, when something of it is kept.
    pub(super) fn kept_before(&self, txn: &TransactionId) -> Option<&TransactionId> {
        let before = self.entries.get(txn)?.order.as_ref()?.replaces.as_ref()?;
        let keeps = self.entries.get(before).is_some_and(|before| !before.kept.is_empty());
        keeps.then_some(before)
    }

    /// Checks that something is kept only of transactions that were replaced.
    pub(super) fn check_kept(&self) -> Result<(), String> {
        let replaced = Phase::Ended(TransactionEnd::Replaced);
        let odd = |(_, entry): &(&TransactionId, &Entry)| {
            !entry.kept.is_empty() && entry.phase != replaced
        };
        if let Some((txn, _)) = self.entries.iter().find(odd) {
            return Err(format!("I1: {txn} keeps something but was not replaced"));
        }
        Ok(())
    }

    /// Ends what is kept of a replaced transaction. A hold that counts on it now takes over what it needs of it.
    pub(super) fn fold_settled(&mut self, txn: &TransactionId) -> Result<(), ReplayError> {
        let Some(entry) = self.entries.get_mut(txn) else { return Ok(()) };
        let kept = std::mem::take(&mut entry.kept);
        self.note_equipment(txn);
        self.give_back(Layer::Booked, &kept)?;
        self.note(&kept);
        let is_new = |new: &TransactionId| {
            let order = self.entries.get(new).and_then(|entry| entry.order.as_ref());
            order.is_some_and(|order| order.replaces.as_ref() == Some(txn))
        };
        let change = self.replacing.iter().find(|(booked, _)| is_new(booked));
        match change.map(|(booked, held)| (booked.clone(), held.clone())) {
            Some((booked, held)) => self.take_over(&booked, &held),
            None => Ok(()),
        }
    }

    /// Makes the hold of a new version take all that it needs beyond the booking. It takes no more than was kept,
    /// so the capacity is not checked: the inventory may have shrunk meanwhile.
    fn take_over(
        &mut self,
        booked: &TransactionId,
        held: &TransactionId,
    ) -> Result<(), ReplayError> {
        let Some(own) = self.own(Some(booked)) else { return Ok(()) };
        self.discount_hold(held);
        let Some(entry) = self.entries.get_mut(held) else { return Ok(()) };
        let lacks = entry.footprint().beyond(&own);
        let Phase::Held(hold) = &mut entry.phase else { return Ok(()) };
        let more: Vec<Segment> = lacks.beyond(&Footprint::of(&hold.taken)).segments();
        hold.taken = lacks.segments();
        for segment in &more {
            let taken = self.take_segment(Layer::Held, segment, Timetable::restore);
            taken.map_err(|problem| ReplayError(format!("hold of {held}: {problem}")))?;
        }
        self.count_hold(held);
        self.note(&more);
        Ok(())
    }
}
