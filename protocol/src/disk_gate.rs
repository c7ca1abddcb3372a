//! A full disk (I17): nothing new is held or begun, and what has begun goes on.
//!
//! A refusal for want of disk space is the only refusal without a log record. On a disk that stays full, one
//! record for every Hold would in the end use up the reserved space, which commits and releases need. Such a
//! refusal is remembered in memory instead. So a repeated Hold gets the same answer for as long as the process
//! lives (I8).
//!
//! After a restart, a repetition of that Hold may be granted. This does no harm: its coordinator has taken the
//! refusal for the answer, and answers "abort" to Resolve, so such a hold ends at its soft expiry. No RM sends
//! Resolve about a one-way booking. There the coordinator sends Abort after such a refusal, and the RM records
//! the tombstone.
//!
//! Left out: how little disk space is too little, which the ledger decides ([`crate::durable::Log::room`]).

use std::collections::{BTreeMap, VecDeque};

use coalloc_common::{DiskSpace, Reason, Refusal, RmName, TransactionId, limits};

use crate::message::{Answer, HoldOrder};

/// Whether the disk has space for something new, and the Holds that were refused when it had none.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiskGate {
    /// What the ledger reported last.
    pub(crate) now: DiskSpace,
    /// The refused Holds, by transaction.
    refused: BTreeMap<TransactionId, HoldOrder>,
    /// The same transactions, the oldest refusal first.
    oldest: VecDeque<TransactionId>,
    /// The weight of all refused Holds together, at most [`limits::ROOM_REFUSALS_KEPT`].
    weight: usize,
}

impl DiskGate {
    /// Is the disk so full that nothing new may begin?
    pub(crate) const fn is_low(&self) -> bool {
        self.now.is_low()
    }

    /// The answer to a Hold that was refused before for want of disk space; `None` for any other Hold.
    pub(crate) fn remembered(&self, order: &HoldOrder, rm: &RmName) -> Option<Answer> {
        Some(match self.refused.get(&order.txn)? {
            known if known.coordinator != order.coordinator => Answer::Denied,
            known if known != order => Answer::OtherContent,
            _ => Answer::Refused(refusal(rm)),
        })
    }

    /// Refuses a Hold that is not known yet if the disk is too full; `None` if it is not.
    pub(crate) fn refuse(&mut self, order: &HoldOrder, rm: &RmName) -> Option<Answer> {
        if !self.now.is_low() {
            return None;
        }
        self.oldest.push_back(order.txn.clone());
        self.weight += weight(order);
        self.refused.insert(order.txn.clone(), order.clone());
        while self.weight > limits::ROOM_REFUSALS_KEPT
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.weight -= self.refused.remove(&oldest).as_ref().map_or(0, weight);
        }
        Some(Answer::Refused(refusal(rm)))
    }
}

/// How much memory a remembered Hold takes, counted in segments; the Hold itself counts as one.
fn weight(order: &HoldOrder) -> usize {
    1 + order.segments.len()
}

/// In a coordinator: why it makes no further attempt.
pub(crate) fn no_room() -> Refusal {
    let text = "the coordinator's disk is nearly full: it starts nothing new";
    Refusal::new(Reason::DiskFull, text)
}

/// The refusal that an RM sends. Its words are always the same, so that a repeated Hold gets an identical
/// answer.
fn refusal(rm: &RmName) -> Refusal {
    let text = "its disk is nearly full: it refuses new holds; existing holds and bookings are not \
                affected";
    Refusal::new(Reason::DiskFull, text).at(rm)
}
