//! What a receiver of Holds knows of the attempts of each coordinator: all below a number are at rest.
//!
//! A coordinator counts its attempts, and says with each Hold which attempt is its oldest open one. Whoever receives
//! Holds, a resource manager or a child coordinator, notes the number as heard, and records it together with what it
//! forgets by it. So after a restart it still refuses what it has forgotten.
//!
//! Left out: what may be forgotten, which each receiver knows for itself. Source: docs/adr/0047-forgetting.md.

use std::collections::BTreeMap;

use coalloc_common::{CoordinatorName, TransactionId};

use crate::tracked::TrackedMap;

/// The oldest open attempts of all coordinators.
#[derive(Debug, Clone, Default)]
pub(crate) struct OldestOpen {
    /// By ledger of a coordinator: all attempts with lower numbers are at rest, as it is on record.
    pub(crate) on_record: TrackedMap<String, u64>,
    /// What each coordinator has said last: its ledger, and the number. Lost at a restart.
    heard: BTreeMap<CoordinatorName, (String, u64)>,
}

impl OldestOpen {
    /// Notes what the sender of a Hold says. Returns whether the number has risen. The caller has checked that the
    /// transaction is the coordinator's own.
    pub(crate) fn hear(
        &mut self,
        txn: &TransactionId,
        coordinator: &CoordinatorName,
        number: u64,
    ) -> bool {
        let Some((ledger, attempt)) = txn.counted() else { return false };
        // The attempt of the Hold itself was open when the Hold was sent.
        if number == 0 || number > attempt {
            return false;
        }
        let heard = self.heard.get(coordinator);
        if heard.is_some_and(|(of, known)| of == ledger && *known >= number) {
            return false;
        }
        self.heard.insert(coordinator.clone(), (ledger.to_owned(), number));
        true
    }

    /// The oldest open attempt that is on record for the ledger of a transaction, if it lies after the transaction.
    pub(crate) fn after(&self, txn: &TransactionId) -> Option<u64> {
        let (ledger, attempt) = txn.counted()?;
        self.on_record.get(ledger).copied().filter(|open| attempt < *open)
    }

    /// The ledger of a transaction of this coordinator, the transaction's number, and the oldest open attempt of that
    /// ledger that was heard or is on record.
    pub(crate) fn of(
        &self,
        txn: &TransactionId,
        coordinator: &CoordinatorName,
    ) -> Option<(String, u64, Option<u64>)> {
        let (ledger, attempt) = txn.counted()?;
        let heard = self.heard.get(coordinator);
        let heard = heard.filter(|(of, _)| of == ledger).map(|(_, number)| *number);
        let number = heard.max(self.on_record.get(ledger).copied());
        Some((ledger.to_owned(), attempt, number))
    }

    /// Puts numbers on record. A lower number than before changes nothing.
    pub(crate) fn fold(&mut self, numbers: &BTreeMap<String, u64>) {
        for (ledger, number) in numbers {
            if self.on_record.get(ledger).is_none_or(|known| known < number) {
                self.on_record.insert(ledger.clone(), *number);
            }
        }
    }
}
