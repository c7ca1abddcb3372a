//! Forgetting what has ended for good, so that an RM's state is bounded by what lives.
//!
//! A transaction may be forgotten only when no message about it can still matter. Its coordinator knows when that is:
//! a coordinator counts its attempts, and a Hold says which attempt is its *oldest open* one. Every attempt with a lower
//! number belongs to a reservation at rest: it is decided, and every RM has acknowledged the decision. What is left of
//! it on the way are repetitions. So below that number
//!
//! * a refused or ended transaction is forgotten. A booking that was replaced is kept while the version that has
//!   replaced it lives, because a change back must be told how it ended. A booking whose time is over is kept until its
//!   coordinator releases it, because other parts of the same reservation may last longer;
//! * an unknown transaction needs no tombstone. A Hold or Commit of it is refused, and an Abort or Release of it has
//!   nothing to end (I9).
//!
//! The number that was heard is recorded together with what was forgotten by it, so after a restart the RM still
//! refuses what it has forgotten. Transactions are looked at in slices, so that no Hold waits for long. Nothing is
//! forgotten while no coordinator sends a Hold, but then nothing grows either.
//!
//! Left out: transactions of a ledger of which no Hold arrives any more, because its coordinator lost it. They are kept.
//! Source: docs/adr/0047-forgetting.md.

use std::collections::BTreeMap;
use std::ops::Bound;

use coalloc_common::planted::{self, Bug};
use coalloc_common::{BootTime, Now, Reason, Refusal, TransactionId, limits};

use super::{Entry, Participant, ParticipantRecord, Phase, TransactionEnd};
use crate::core::ReplayError;
use crate::message::HoldOrder;
use crate::oldest_open::OldestOpen;

/// What is known to be at rest, and where the next look for what can be forgotten begins.
#[derive(Debug, Clone, Default)]
pub(super) struct Forgetting {
    pub(super) oldest_open: OldestOpen,
    /// When to look next, and after which transaction; `None` when nothing was heard since the last look. Lost at a
    /// restart.
    next: Option<(BootTime, Option<TransactionId>)>,
}

impl Forgetting {
    /// When to look next.
    pub(super) fn due(&self) -> Option<BootTime> {
        self.next.as_ref().map(|(due, _)| *due)
    }
}

impl Participant {
    /// Notes what the sender of a Hold says about its oldest open attempt.
    pub(super) fn hear_oldest_open(&mut self, order: &HoldOrder, oldest_open: u64, now: Now) {
        let HoldOrder { txn, coordinator, .. } = order;
        let is_own = txn.is_of(coordinator) && self.config.coordinators.contains(coordinator);
        if !is_own || !self.forgetting.oldest_open.hear(txn, coordinator, oldest_open) {
            return;
        }
        if self.forgetting.next.is_none() {
            let due = now.boot.saturating_add(self.config.policy.forget_every);
            self.forgetting.next = Some((due, None));
        }
    }

    /// Why a Hold is refused that is unknown here although its coordinator has done with it; `None` if it has not.
    pub(super) fn refusal_of_forgotten(&self, txn: &TransactionId) -> Option<Refusal> {
        let open = self.forgetting.oldest_open.after(txn)?;
        let detail = format!(
            "{txn} was decided long ago: the oldest open attempt of its coordinator is number {open}"
        );
        Some(Refusal::new(Reason::Aborted, detail).at(&self.config.name))
    }

    /// Looks at the next slice of transactions, if that is due, and forgets those that may be forgotten.
    pub(super) fn forget_due(&mut self, now: Now) -> Option<ParticipantRecord> {
        let (due, after) = self.forgetting.next.clone()?;
        if due > now.boot {
            return None;
        }
        if self.room.is_low() {
            // The reserved space is for the ends of what has begun (I17).
            let due = now.boot.saturating_add(self.config.policy.forget_every);
            self.forgetting.next = Some((due, after));
            return None;
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let slice = self.entries.range((from, Bound::Unbounded)).take(limits::FORGET_SLICE);
        let (mut oldest_open, mut transactions) = (BTreeMap::new(), Vec::new());
        let (mut looked_at, mut last) = (0, None);
        for (txn, entry) in slice {
            (looked_at, last) = (looked_at + 1, Some(txn));
            if let Some((ledger, number)) = self.may_forget(txn, entry) {
                oldest_open.insert(ledger, number);
                transactions.push(txn.clone());
            }
        }
        let pause = limits::FORGET_PAUSE.min(self.config.policy.forget_every);
        self.forgetting.next = (looked_at == limits::FORGET_SLICE)
            .then(|| (now.boot.saturating_add(pause), last.cloned()));
        if transactions.is_empty() {
            return None;
        }
        let record = ParticipantRecord::Forgotten { oldest_open, transactions, at: now };
        self.must_apply(&record);
        Some(record)
    }

    /// By which ledger's number a transaction may be forgotten; `None` if it may not.
    fn may_forget(&self, txn: &TransactionId, entry: &Entry) -> Option<(String, u64)> {
        let (ledger, attempt, number) = self.forgetting.oldest_open.of(txn, &entry.coordinator)?;
        let early = planted::is(Bug::TombstoneForgotten);
        let number = number.or_else(|| early.then_some(0))?;
        let ended = match &entry.phase {
            Phase::Held(_) | Phase::Booked => false,
            Phase::Refused(_) => true,
            Phase::Ended(TransactionEnd::Replaced) => !self.is_replaced_by_live(entry),
            Phase::Ended(_) => true,
        };
        let may = ended && entry.kept.is_empty() && (attempt < number || early);
        may.then_some((ledger, number))
    }

    /// Does the version live that has replaced this one?
    fn is_replaced_by_live(&self, entry: &Entry) -> bool {
        let Some(newer) = &entry.replaced_by else { return true };
        let newer = self.entries.get(newer).map(|newer| &newer.phase);
        matches!(newer, Some(Phase::Held(_) | Phase::Booked))
    }

    pub(super) fn fold_forgotten(
        &mut self,
        oldest_open: &BTreeMap<String, u64>,
        transactions: &[TransactionId],
    ) -> Result<(), ReplayError> {
        for txn in transactions {
            let has_ended = |entry: &Entry| {
                matches!(entry.phase, Phase::Refused(_) | Phase::Ended(_)) && entry.kept.is_empty()
            };
            if !self.entries.get(txn).is_some_and(has_ended) {
                return Err(ReplayError(format!("{txn} is forgotten but has not ended")));
            }
        }
        self.forgetting.oldest_open.fold(oldest_open);
        for txn in transactions {
            self.entries.remove(txn);
        }
        Ok(())
    }
}
