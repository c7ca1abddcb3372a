//! One transaction as a participant knows it: its content, its phase, and what it takes in the timetables.

use coalloc_common::timetable::Layer;
use coalloc_common::{
    BootTime, CoordinatorName, Now, Refusal, Segment, Span, TransactionId, limits,
};

use serde::{Deserialize, Serialize};

use super::equipment::Claim;
use super::footprint::Footprint;
use super::inner::InnerRoute;
use super::record::TransactionEnd;
use super::refused::{self, OrderDigest};
use super::servers::{SegmentServers, disclosed_footprint};
use crate::message::{Answer, HoldOrder};

/// The phase of a transaction at this RM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Held and not decided yet.
    Held(HoldClocks),
    /// Committed.
    Booked,
    /// Refused; it was never held.
    Refused(Refusal),
    /// Ended, in one of four ways.
    Ended(TransactionEnd),
}

/// The clocks of a hold, and what it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldClocks {
    /// When the hold was made.
    pub since: Now,
    /// The soft expiry: from here on the hold asks its coordinator.
    pub soft_at: BootTime,
    /// The hard expiry: here the hold ends.
    pub hard_at: BootTime,
    /// The time to the hard expiry, as it was reported to the coordinator.
    pub expires_in: Span,
    /// What the hold has in the timetables: for a new version, what it takes beyond the old one; otherwise everything.
    pub taken: Vec<Segment>,
    /// When to ask next, and how often the coordinator was asked. Forgotten at a restart, after which the hold
    /// asks at its soft expiry again.
    #[serde(skip, default = "unknown")]
    pub(super) ask_at: BootTime,
    #[serde(skip)]
    pub(super) asked: u32,
}

/// One transaction that the participant knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its content; `None` for the tombstone of a transaction whose Hold never arrived.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub order: Option<HoldOrder>,
    /// The digest of the whole content, when `order` is only the beginning of a refused Hold.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub whole: Option<OrderDigest>,
    /// The coordinator that it belongs to.
    pub coordinator: CoordinatorName,
    /// Its phase.
    pub phase: Phase,
    /// The inner links of each segment, when there is an inner network. They are never disclosed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inner: Option<Vec<InnerRoute>>,
    /// The servers of each segment; empty when none is at a by-server site.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub servers: Vec<SegmentServers>,
    /// What is still booked of it although a newer version has replaced it; ends with its Release at the latest.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub kept: Vec<Segment>,
    /// The first transaction of the chain in which each version replaces the one before; `None` when it is this one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub chain: Option<TransactionId>,
    /// Whether it is certain at the equipment.
    #[serde(skip_serializing_if = "Claim::is_not_needed", default)]
    pub claim: Claim,
    /// The transaction that has replaced it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaced_by: Option<TransactionId>,
}

/// In place of an instant that is set when a hold is put back.
const fn unknown() -> BootTime {
    BootTime::from_us(0)
}

impl Entry {
    /// What it takes in the timetables once it is booked, or took while it was.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        let segments = self.order.as_ref().map_or(&[][..], |order| &order.segments);
        disclosed_footprint(segments, &self.servers).and(self.inner_footprint())
    }

    /// Was it booked one-way, with no decision of a coordinator behind it?
    pub(super) fn is_one_way(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.one_way)
    }

    /// What it has in the timetables now, and in which layer.
    pub(super) fn in_timetables(&self) -> Option<(Layer, Vec<Segment>)> {
        match &self.phase {
            Phase::Held(held) => Some((Layer::Held, held.taken.clone())),
            Phase::Booked => Some((Layer::Booked, self.footprint().segments())),
            Phase::Ended(TransactionEnd::Replaced) if !self.kept.is_empty() => {
                Some((Layer::Booked, self.kept.clone()))
            }
            Phase::Refused(_) | Phase::Ended(_) => None,
        }
    }

    /// The answer to a Hold of a transaction that is known already (I2, I8, I9).
    pub(super) fn answer_hold(&self, order: &HoldOrder) -> Answer {
        if self.coordinator != order.coordinator {
            return Answer::Denied;
        }
        let is_same = |known: &HoldOrder| refused::is_same(order, known, self.whole.as_ref());
        if !self.order.as_ref().is_none_or(is_same) {
            return Answer::OtherContent;
        }
        match &self.phase {
            Phase::Held(held) => {
                let (expires_in, servers) = (held.expires_in, self.granted_servers());
                Answer::Held { expires_in, servers }
            }
            // It was held once and is booked now, so the answer is still yes. The interval no longer matters,
            // because the coordinator has decided.
            Phase::Booked => {
                let (expires_in, servers) = (limits::HOLD_HARD_MIN, self.granted_servers());
                Answer::Held { expires_in, servers }
            }
            Phase::Refused(refusal) => Answer::Refused(refusal.clone()),
            Phase::Ended(ending) => {
                let text = format!("{} was {} before this Hold arrived", order.txn, ending.word());
                Answer::Refused(Refusal::new(ending.reason(), text))
            }
        }
    }
}
