//! Which of the processes that share a coordinator's ledger leads, as far as a receiver of its orders knows.
//!
//! A coordinator whose ledger is shared says with each order in which epoch its process leads. A receiver records the highest
//! epoch that it has heard, and carries out no order of a lower one: that process was replaced, and does not know it yet.
//! Nothing else depends on it. A process that was replaced decides nothing, because it cannot append to its ledger, and what it has
//! sent before may arrive late, as any message may.
//!
//! Left out: elections. Source: docs/adr/0049-etcd.md.

use std::cmp::Ordering;

use crate::core::ReplayError;
use crate::tracked::TrackedMap;

/// The highest epoch of each ledger from which an order has arrived.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaderEpochs {
    /// By ledger of a coordinator, as `<coordinator>-<tag>`. A new ledger of the same coordinator counts anew.
    pub(crate) on_record: TrackedMap<String, u64>,
}

impl LeaderEpochs {
    /// How an epoch compares with the one that is on record.
    pub(crate) fn compare(&self, ledger: &str, epoch: u64) -> Ordering {
        epoch.cmp(&self.of(ledger))
    }

    /// Applies the record that another process leads.
    ///
    /// # Errors
    /// If its epoch is not above the one that is on record.
    pub(crate) fn fold_changed(&mut self, ledger: &str, epoch: u64) -> Result<(), ReplayError> {
        if self.compare(ledger, epoch) != Ordering::Greater {
            let known = self.of(ledger);
            return Err(ReplayError(format!("epoch {epoch} of {ledger} follows epoch {known}")));
        }
        self.on_record.insert(ledger.to_owned(), epoch);
        Ok(())
    }

    /// The epoch that is on record; 0 if there is none.
    pub(crate) fn of(&self, ledger: &str) -> u64 {
        self.on_record.get(ledger).copied().unwrap_or_default()
    }
}
