//! One transaction as a participant knows it: its content, where it stands, and what that takes.

use coalloc_common::timetable::Layer;
use coalloc_common::{BootTime, CoordinatorName, Now, Refusal, Segment, Span, limits};

use super::footprint::Footprint;
use super::inner::InnerRoute;
use super::record::TransactionEnd;
use crate::message::{Answer, HoldOrder};

/// Where one transaction stands here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Kept, undecided.
    Held(HoldClocks),
    /// Committed.
    Booked,
    /// Never held.
    Refused(Refusal),
    /// Over, in one of four ways.
    Ended(TransactionEnd),
}

/// A hold's clocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldClocks {
    /// When it was made.
    pub since: Now,
    /// Ask the coordinator from here on.
    pub soft_at: BootTime,
    /// Over from here on.
    pub hard_at: BootTime,
    /// The interval its coordinator was told.
    pub expires_in: Span,
    /// What it has in the timetables: of a new version, what it takes beyond the old one; else all.
    pub taken: Vec<Segment>,
    /// When to ask next, and how often it was asked; forgotten at a restart, which asks at once.
    pub(super) ask_at: BootTime,
    pub(super) asked: u32,
}

/// One transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its content; `None` for a tombstone of a Hold that never came.
    pub order: Option<HoldOrder>,
    /// Whose it is.
    pub coordinator: CoordinatorName,
    /// Where it stands.
    pub phase: Phase,
    /// The inner links of each segment, where there is an inner network. Nobody outside hears of it.
    pub inner: Option<Vec<InnerRoute>>,
    /// What of it is still booked although a newer version is, until it is released.
    pub kept: Vec<Segment>,
}

impl Entry {
    /// What it takes, or took, in the timetables once it is booked.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        self.disclosed_footprint().and(self.inner_footprint())
    }

    /// Was it booked as it was held, with no decision behind it?
    pub(super) fn is_one_way(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.one_way)
    }

    /// The same without inner links.
    pub(super) fn disclosed_footprint(&self) -> Footprint {
        Footprint::of(self.order.iter().flat_map(|order| &order.segments))
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

    /// The answer to a Hold of a transaction that is known (I2, I8, I9).
    pub(super) fn answer_hold(&self, order: &HoldOrder) -> Answer {
        if self.coordinator != order.coordinator {
            return Answer::Denied;
        }
        if self.order.as_ref().is_some_and(|known| known != order) {
            return Answer::OtherContent;
        }
        match &self.phase {
            Phase::Held(held) => Answer::Held { expires_in: held.expires_in },
            // It was held once, and is more than held now: the answer is still yes. The interval no
            // longer matters to a coordinator that has decided.
            Phase::Booked => Answer::Held { expires_in: limits::HOLD_HARD_MIN },
            Phase::Refused(refusal) => Answer::Refused(refusal.clone()),
            Phase::Ended(ending) => {
                let text = format!("{} was {} before this Hold came", order.txn, ending.word());
                Answer::Refused(Refusal::new(ending.reason(), text))
            }
        }
    }
}
