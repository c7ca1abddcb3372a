//! No room on the disk (I17): nothing new is held or begun, what has begun goes on.
//!
//! A refusal for want of room is the one that is not written down: on a disk that stays full, a record
//! for every Hold that comes would in the end take the room that commits and releases need. It is
//! remembered instead, so that a Hold that comes again gets the same answer for as long as the process
//! lives (I8). After a restart the same Hold may be kept: its coordinator has taken the refusal for its
//! answer and says abort when it is asked, so such a hold ends at its soft expiry. Nobody asks about what is booked
//! one-way: its coordinator sends Abort after such a refusal, and the tombstone is written.
//!
//! Left out: when there is too little room, which the ledger says ([`crate::durable::Log::room`]).

use std::collections::{BTreeMap, VecDeque};

use coalloc_common::{DiskSpace, Reason, Refusal, RmName, TransactionId, limits};

use crate::message::{Answer, HoldOrder};

/// Whether there is room, and what was refused when there was none.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiskGate {
    /// As the ledger has said last.
    pub(crate) now: DiskSpace,
    /// What was refused,
    refused: BTreeMap<TransactionId, HoldOrder>,
    /// the oldest first,
    oldest: VecDeque<TransactionId>,
    /// and what it weighs: at most [`limits::ROOM_REFUSALS_KEPT`].
    weight: usize,
}

impl DiskGate {
    /// Is nothing new to be begun?
    pub(crate) const fn is_low(&self) -> bool {
        self.now.is_low()
    }

    /// The answer to a Hold that was refused for want of room before.
    pub(crate) fn remembered(&self, order: &HoldOrder, rm: &RmName) -> Option<Answer> {
        Some(match self.refused.get(&order.txn)? {
            known if known.coordinator != order.coordinator => Answer::Denied,
            known if known != order => Answer::OtherContent,
            _ => Answer::Refused(refusal(rm)),
        })
    }

    /// The refusal of a Hold that nobody knows, when there is no room.
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

/// What is kept of an order, in segments.
fn weight(order: &HoldOrder) -> usize {
    1 + order.segments.len()
}

/// In a coordinator: why no further attempt is made.
pub(crate) fn no_room() -> Refusal {
    let text = "the coordinator's disk is nearly full: nothing new is begun";
    Refusal::new(Reason::DiskFull, text)
}

/// The same words each time.
fn refusal(rm: &RmName) -> Refusal {
    let text = "its disk is nearly full: nothing new is held, what is held and booked goes on";
    Refusal::new(Reason::DiskFull, text).at(rm)
}
