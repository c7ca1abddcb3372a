//! Why an order cannot be held: each segment in its turn, beside those before it.

use std::collections::BTreeMap;

use coalloc_common::timetable::{Layer, Timetable};
use coalloc_common::{Amount, Now, Reason, Refusal, ResourceId, Segment, Window, limits};

use super::Participant;
use crate::message::HoldOrder;

impl Participant {
    /// Why this order cannot be held, if it cannot.
    pub(super) fn refusal_of(&self, order: &HoldOrder, now: Now) -> Option<Refusal> {
        let refuse = |reason, segment: &Segment, available: Option<Amount>, detail: String| {
            Some(Refusal {
                rm: Some(self.config.name.clone()),
                resource: Some(segment.resource.clone()),
                window: Some(segment.window),
                requested: available.map(|_| segment.amount),
                available,
                ..Refusal::new(reason, detail)
            })
        };
        let unit = self.config.unit;
        // What the segments before this one take, by resource.
        let mut taken: BTreeMap<&ResourceId, Timetable> = BTreeMap::new();
        for segment in &order.segments {
            let (resource, amount) = (&segment.resource, segment.amount);
            let Some(timetable) = self.timetable(resource) else {
                let detail = format!("there is no resource {resource} here");
                return refuse(Reason::UnknownResource, segment, None, detail);
            };
            let capacity = timetable.capacity();
            if amount > capacity {
                let (has, wanted) = (unit.show(capacity), unit.show(amount));
                let detail = format!("{resource} has {has} in all, {wanted} were asked for");
                return refuse(Reason::BeyondCapacity, segment, Some(capacity), detail);
            }
            if let Some(detail) = self.outside_horizon(segment.window, now) {
                return refuse(Reason::OutsideHorizon, segment, None, detail);
            }
            let taken = taken.entry(resource).or_insert_with(|| Timetable::new(capacity));
            let free = free_beside(timetable, taken, segment.window);
            if amount > free || taken.add(Layer::Held, segment.window, amount).is_err() {
                let (has, wanted, window) = (unit.show(free), unit.show(amount), segment.window);
                let detail =
                    format!("{resource} has {has} free in {window}, {wanted} were asked for");
                return refuse(Reason::InsufficientCapacity, segment, Some(free), detail);
            }
        }
        None
    }

    /// Says why a window cannot be booked now, if it cannot.
    pub(super) fn outside_horizon(&self, window: Window, now: Now) -> Option<String> {
        let first = now.wall.saturating_sub(limits::START_GRACE);
        let last = now.wall.saturating_add(self.config.policy.horizon);
        if window.start() < first {
            return Some(format!("{window} starts in the past; allowed: from {first}"));
        }
        (window.end() > last)
            .then(|| format!("{window} ends beyond the horizon; allowed: until {last}"))
    }
}

/// What is free over a window beside what the order itself has taken: the least over the pieces in
/// which that is constant. Segments add up where they overlap one another, and only there.
fn free_beside(timetable: &Timetable, taken: &Timetable, window: Window) -> Amount {
    let steps = taken.profile(window);
    let ends = steps.iter().skip(1).map(|step| step.start).chain([window.end()]);
    let pieces = steps.iter().zip(ends).filter_map(|(step, end)| {
        let free = timetable.free_min(Window::new(step.start, end)?);
        Some(Amount(free.0.saturating_sub(step.held.0)))
    });
    pieces.min().unwrap_or(Amount::ZERO)
}
