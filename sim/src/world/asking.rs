//! Checks that a node asks (Resolve) for the outcome of everything it has held or promised, until the very
//! end: before something expires, the node has asked about it shortly before, unless its process was down or
//! frozen in the second half of the hold. This is a second opinion on when questions come, by the time of the
//! world.

use std::collections::BTreeMap;

use coalloc_common::{Span, TransactionId, limits};

use super::Address;

/// The longest time that a sync takes, in microseconds. What falls due during a sync comes that much later.
pub(super) const SYNC_US_MAX: i64 = 10_000_000;

/// The last question comes at most this long before the end (in microseconds): the backoff before it is half
/// of the time that was left then, or the shortest backoff.
const LAST_US: i64 = 2_000_000;

/// Which node has asked about which transaction, and when.
#[derive(Debug, Default)]
pub(crate) struct QuestionLog {
    /// When the process of each node began, or continued after it was frozen.
    awake_us: BTreeMap<Address, i64>,
    /// When each node last asked about each transaction.
    last_us: BTreeMap<(Address, TransactionId), i64>,
    /// What each child coordinator has promised to its parent, by its own transaction: the parent's
    /// transaction, when it was promised, and for how long.
    promises: BTreeMap<(usize, TransactionId), (TransactionId, i64, Span)>,
}

impl QuestionLog {
    /// A process has begun, or continues after it was frozen.
    pub(super) fn awake(&mut self, node: Address, at_us: i64) {
        self.awake_us.insert(node, at_us);
    }

    /// A node asks about a transaction.
    pub(super) fn note(&mut self, node: Address, txn: &TransactionId, at_us: i64) {
        self.last_us.insert((node, txn.clone()), at_us);
    }

    /// A child coordinator promises something to its parent.
    pub(super) fn promise(
        &mut self,
        grc: usize,
        txn: &TransactionId,
        parent_transaction: TransactionId,
        since_us: i64,
        lasts: Span,
    ) {
        self.promises.insert((grc, txn.clone()), (parent_transaction, since_us, lasts));
    }

    /// A promise has expired: checks that the child coordinator has asked about it shortly before.
    pub(super) fn check_promise(
        &self,
        grc: usize,
        txn: &TransactionId,
        at_us: i64,
    ) -> Result<(), String> {
        match self.promises.get(&(grc, txn.clone())) {
            Some((upper, since_us, lasts)) => {
                self.check(Address::Grc(grc), upper, *since_us, *lasts, at_us)
            }
            None => Ok(()),
        }
    }

    /// What was held or promised at `since_us`, for `lasts`, has expired: checks that the node has asked
    /// about it shortly before. Where a clock was set forward it expires early; then the check does not
    /// apply.
    pub(super) fn check(
        &self,
        node: Address,
        txn: &TransactionId,
        since_us: i64,
        lasts: Span,
        at_us: i64,
    ) -> Result<(), String> {
        let awake_us = self.awake_us.get(&node).copied().unwrap_or_default();
        let due_us = since_us + lasts.as_us();
        // Something that is shorter than any hold may be over before a write that was under way is done.
        let short = lasts < limits::HOLD_HARD_MIN;
        if short || awake_us > since_us + lasts.as_us() / 2 || at_us < due_us {
            return Ok(());
        }
        let last_us = self.last_us.get(&(node, txn.clone()));
        if last_us.is_some_and(|last| *last >= due_us - LAST_US - SYNC_US_MAX) {
            return Ok(());
        }
        let asked = match last_us {
            Some(last) => format!("last {} before", Span::from_us(due_us - last)),
            None => "never".to_owned(),
        };
        Err(format!("I22: {txn} expires after {lasts}, but was asked about {asked}"))
    }
}
