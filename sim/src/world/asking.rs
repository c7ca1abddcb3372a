//! Whoever has promised something asks what became of it, until the very end: what expires was asked about shortly
//! before, unless its process was down or stopped in its second half. A second opinion on when questions come, by
//! the time of the world.

use std::collections::BTreeMap;

use coalloc_common::{Span, TransactionId, limits};

use super::Address;
use super::check::SYNC_US_MAX;

/// The last question comes no earlier than this before the end: the pause before it is half of what was left then,
/// or the shortest pause.
const LAST_US: i64 = 2_000_000;

/// Who has asked what, when.
#[derive(Debug, Default)]
pub(crate) struct QuestionLog {
    /// When the process of each node began, or went on.
    awake_us: BTreeMap<Address, i64>,
    /// When each node has asked about each transaction last.
    last_us: BTreeMap<(Address, TransactionId), i64>,
    /// What each coordinator has promised above, by its own transaction: of which one there, when, for how long.
    promises: BTreeMap<(usize, TransactionId), (TransactionId, i64, Span)>,
}

impl QuestionLog {
    /// A process has begun, or goes on after it was stopped.
    pub(super) fn awake(&mut self, node: Address, at_us: i64) {
        self.awake_us.insert(node, at_us);
    }

    /// A question.
    pub(super) fn note(&mut self, node: Address, txn: &TransactionId, at_us: i64) {
        self.last_us.insert((node, txn.clone()), at_us);
    }

    /// A promise to a coordinator above.
    pub(super) fn promise(
        &mut self,
        (grc, txn): (usize, &TransactionId),
        parent_transaction: TransactionId,
        since_us: i64,
        lasts: Span,
    ) {
        self.promises.insert((grc, txn.clone()), (parent_transaction, since_us, lasts));
    }

    /// A promise has expired.
    pub(super) fn check_promise(
        &self,
        grc: usize,
        txn: &TransactionId,
        at_us: i64,
    ) -> Result<(), String> {
        match self.promises.get(&(grc, txn.clone())) {
            Some((upper, since_us, lasts)) => {
                self.check((Address::Grc(grc), upper), (*since_us, *lasts), at_us)
            }
            None => Ok(()),
        }
    }

    /// What was held or promised at this instant, for so long, has expired. Where a clock was set forward it does so
    /// early, and nothing is said about when it should have been asked about.
    pub(super) fn check(
        &self,
        (node, txn): (Address, &TransactionId),
        (since_us, lasts): (i64, Span),
        at_us: i64,
    ) -> Result<(), String> {
        let awake_us = self.awake_us.get(&node).copied().unwrap_or_default();
        let due_us = since_us + lasts.as_us();
        // What is shorter than any hold may be over before a write is that was under way.
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
        Err(format!("I22: {txn} expires after {lasts} and was asked about {asked}"))
    }
}
