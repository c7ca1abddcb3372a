//! The rest of a reservation that has begun: what of its new version is planned anew, and how that becomes a plan of
//! the whole again.
//!
//! Everything before `cut` stays as it is booked. So a part with a window of its own keeps its start if it began
//! before that, and keeps everything if it is over by then. A part without one may be new: it then begins at `cut`.

use std::collections::BTreeMap;

use coalloc_common::{
    Amount, CoAllocation, Cpus, InvalidField, PartWindow, ResourceKind, RmName, Segment,
    SiteDemand, Span, Time, Timing, Topology, VertexName, Window,
};
use coalloc_net::convert::{
    plan_digest, plan_to_wire, request_from_wire, segments_to_wire, window_to_wire,
};
use coalloc_plan::RankedPlan;
use coalloc_plan::objectives::price_of;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::UnusableParts;

use super::joined;

/// What is planned anew of a reservation that has begun.
pub(super) struct Rest {
    /// What is wanted from `cut` on. Sites of which nothing is left want nothing; links that are over are left out.
    pub(super) request: CoAllocation,
    /// The whole new version.
    whole: CoAllocation,
    window: Window,
    cut: Time,
}

/// A part of a version: its field, how much it wants, and when, counted from the common start.
struct Part {
    field: String,
    /// The name of the amount's field, and the amount as people read it.
    amount: (&'static str, String),
    start: Span,
    end: Span,
    /// Whether it has a window of its own.
    own: bool,
}

/// The parts of a version, by site and kind, or by the two sites of a link.
type Parts = BTreeMap<(String, String), Part>;

impl Rest {
    /// The rest of the version `whole`, which was sent as `wire` and has this window. `old` is the request of the current
    /// booking, and `plan` its plan.
    ///
    /// # Errors
    /// [`InvalidField`] when the new version changes something that has happened.
    pub(super) fn of(
        whole: CoAllocation,
        wire: &v1::CoAllocationRequest,
        old: Option<&v1::CoAllocationRequest>,
        plan: &v1::Plan,
        window: Window,
        cut: Time,
    ) -> Result<Self, InvalidField> {
        let passed = cut.since(window.start());
        if whole.has_part_windows() {
            // The request of a booking was correct when it was booked. Ledgers of older releases may have none.
            let old = old.and_then(|old| request_from_wire(old, window.start()).ok());
            check_past(&parts(&whole, wire), old.map(|was| parts(&was, wire)), passed, cut)?;
        }
        let duration = window.end().since(cut);
        let left = |part: Option<PartWindow>| left_of(part, passed, duration);
        let mut request = whole.clone();
        for site in &mut request.sites {
            leave(site, passed, duration);
            if site.wants_nothing()
                && let Some(old) = plan.placements.iter().find(|old| old.site == site.name.as_str())
            {
                // Where it was; a plan has a place for each site.
                site.pinned = Some(VertexName::composed(old.at.as_str()));
            }
        }
        request.links.retain_mut(|link| match left(link.window) {
            Some(window) => {
                link.window = window;
                true
            }
            None => false,
        });
        request.timing = Timing { earliest_start: cut, latest_start: cut, duration };
        Ok(Self { request, whole, window, cut })
    }

    /// The plan of the whole, made from a plan of the rest, and its segments. `old` is the plan of the current booking,
    /// and `booked` its segments. Of what it has at the RMs in `left`, nothing is kept.
    pub(super) fn with_past(
        &self,
        topology: &Topology,
        judged: &RankedPlan,
        old: &v1::Plan,
        booked: &BTreeMap<RmName, Vec<Segment>>,
        left: &UnusableParts,
    ) -> (v1::Plan, BTreeMap<RmName, Vec<Segment>>) {
        let new = judged.plan.segments(topology, &self.request);
        let segments = joined(booked, self.cut, new, left);
        let mut wire = match self.whole.has_part_windows() {
            false => plan_to_wire(topology, &self.request, judged),
            true => self.of_whole(topology, judged, old),
        };
        as_whole(&mut wire, self.window, &segments, topology);
        (wire, segments)
    }

    /// A plan of the rest with the amounts and windows of the whole, and with the routes of links that are over.
    fn of_whole(&self, topology: &Topology, judged: &RankedPlan, old: &v1::Plan) -> v1::Plan {
        let duration = self.window.end().since(self.cut);
        let passed = self.cut.since(self.window.start());
        let is_over = |part: Option<PartWindow>| left_of(part, passed, duration).is_none();
        let mut all = judged.clone();
        all.plan.window = self.window;
        let mut planned = judged.plan.routes.iter();
        let links = self.whole.links.iter();
        all.plan.routes = links
            .map(|link| match is_over(link.window) {
                true => Vec::new(),
                false => planned.next().cloned().unwrap_or_default(),
            })
            .collect();
        let mut wire = plan_to_wire(topology, &self.whole, &all);
        for (link, route) in self.whole.links.iter().zip(&mut wire.routes) {
            let same = |old: &&v1::Route| old.from == route.from && old.to == route.to;
            if is_over(link.window)
                && let Some(old) = old.routes.iter().find(same)
            {
                let window = route.window;
                *route = v1::Route { window, ..old.clone() };
            }
        }
        wire
    }
}

/// What is left of a part when so much of the request's time has passed, and `duration` is left of the whole. The
/// outer `None`: it is over.
fn left_of(part: Option<PartWindow>, passed: Span, duration: Span) -> Option<Option<PartWindow>> {
    let Some(part) = part else { return Some(None) };
    let end = part.end().saturating_sub(passed);
    if end <= Span::ZERO {
        return None;
    }
    let offset = part.offset().saturating_sub(passed).max(Span::ZERO);
    Some(PartWindow::new(offset, end.saturating_sub(offset), duration))
}

/// Leaves of a demand what is wanted from now on.
fn leave(site: &mut SiteDemand, passed: Span, duration: Span) {
    for (kind, part) in std::mem::take(&mut site.windows) {
        match left_of(Some(part), passed, duration) {
            None if kind == ResourceKind::Cpus => site.cpus = Cpus(0),
            None => site.set_amount(kind, Amount::ZERO),
            Some(left) => site.windows.extend(left.map(|left| (kind, left))),
        }
    }
}

/// All parts of a version by name. `wire` is the new version as it was sent, in which fields are numbered.
fn parts(request: &CoAllocation, wire: &v1::CoAllocationRequest) -> Parts {
    let duration = request.timing.duration;
    let part = |field: String, amount, window: Option<PartWindow>| Part {
        field,
        amount,
        start: window.map_or(Span::ZERO, PartWindow::offset),
        end: window.map_or(duration, PartWindow::end),
        own: window.is_some(),
    };
    let mut all = BTreeMap::new();
    for (index, site) in request.sites.iter().enumerate() {
        for (kind, amount) in site.amounts() {
            let (field, name) = match kind {
                ResourceKind::Cpus => (format!("sites[{index}]"), "cpus"),
                _ => {
                    let others = wire.sites.get(index).map_or(&[][..], |site| &site.others);
                    let number = others.iter().position(|other| other.kind == kind.word());
                    (format!("sites[{index}].others[{}]", number.unwrap_or(0)), "amount")
                }
            };
            let amount = (name, kind.show(amount));
            let key = (site.name.to_string(), kind.word().to_owned());
            all.insert(key, part(field, amount, site.window(kind)));
        }
    }
    for (index, link) in request.links.iter().enumerate() {
        let name = |site: usize| request.sites[site].name.to_string();
        let amount = ("bandwidth_bps", link.bandwidth.to_string());
        // No kind has a word with a blank.
        let key = (name(link.from), format!("to {}", name(link.to)));
        all.insert(key, part(format!("links[{index}]"), amount, link.window));
    }
    all
}

/// Checks that parts with windows of their own keep what has happened.
fn check_past(
    new: &Parts,
    old: Option<Parts>,
    passed: Span,
    cut: Time,
) -> Result<(), InvalidField> {
    let before = old.unwrap_or_default();
    for (key, part) in new {
        if !part.own || part.start >= passed {
            continue;
        }
        let was = before.get(key);
        let field = |name: &str| format!("{}.{name}", part.field);
        let Some(was) = was.filter(|was| was.start == part.start) else {
            let began = was.filter(|was| was.start < passed);
            let began =
                began.map_or_else(String::new, |was| format!("{}, when it began, or ", was.start));
            let allowed = format!(
                "{began}{passed} and more: the request has begun, and can be changed from {cut} on"
            );
            return Err(InvalidField::new(field("offset"), part.start, allowed));
        };
        if part.end > passed {
            continue;
        }
        let length = part.end.saturating_sub(part.start);
        if was.end > passed {
            let least = passed.saturating_sub(part.start);
            let allowed =
                format!("more than {least}: it has begun, and can be changed from {cut} on");
            return Err(InvalidField::new(field("length"), length, allowed));
        }
        if was.end != part.end {
            let allowed = format!("{}: it is over", was.end.saturating_sub(was.start));
            return Err(InvalidField::new(field("length"), length, allowed));
        }
        if was.amount != part.amount {
            let allowed = format!("{}: it is over", was.amount.1);
            return Err(InvalidField::new(field(part.amount.0), &part.amount.1, allowed));
        }
    }
    Ok(())
}

/// Turns the plan for the rest of an active reservation into a plan for the whole of it. Start and price then count
/// from the beginning of the reservation; the other values are those of the rest.
pub(super) fn as_whole(
    plan: &mut v1::Plan,
    window: Window,
    segments: &BTreeMap<RmName, Vec<Segment>>,
    topology: &Topology,
) {
    plan.window = Some(window_to_wire(window));
    plan.digest = plan_digest(segments);
    let of = |(rm, segments): (&RmName, &Vec<Segment>)| segments_to_wire(Some(rm), segments);
    plan.segments = segments.iter().flat_map(of).collect();
    plan.values.retain_mut(|value| {
        let whole = match value.objective() {
            v1::Objective::Start => Some(window.start().as_us().unsigned_abs()),
            v1::Objective::Price => price_of(topology, segments),
            _ => Some(value.value),
        };
        value.value = whole.unwrap_or_default();
        whole.is_some()
    });
}

#[cfg(test)]
mod tests;
