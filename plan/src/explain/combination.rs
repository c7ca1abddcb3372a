//! When nothing binds by itself: the plan that would fit if a few paths had more free.
//!
//! There is a plan if every path is treated as if nothing were booked on it. The paths that this
//! plan overloads are then restored to what is really free, one after the other, as long as another
//! plan does without more on them. The paths that remain would have to grow for the final plan:
//! that plan needs each of them, though another plan may need other paths. This does not prove that
//! nothing fits; the planner proved that.

use std::collections::BTreeMap;

use coalloc_common::topology::FrameView;
use coalloc_common::{
    BitsPerSecond, Bottleneck, BottleneckKind, CoAllocation, Reason, Refusal, Topology, limits,
};

use super::{Case, Lane, words};
use crate::Plan;
use crate::ip::IpOptions;

/// For each lane with too little free, the rate that a plan puts on it, in bit/s.
type Overload = BTreeMap<Lane, u64>;

/// Adds the plan that comes closest to a refusal that names no bottleneck. `plan` plans on views
/// with more free than there is; when it finds nothing, the refusal stays as it is.
pub fn combination(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    options: &IpOptions,
    refusal: Refusal,
    plan: &mut dyn FnMut(&FrameView) -> Option<Plan>,
) -> Refusal {
    // Left out: parts with windows of their own. Paths would have to be relaxed period by period.
    if refusal.bottleneck.is_some()
        || refusal.reason != Reason::NoRoute
        || request.has_part_windows()
    {
        return refusal;
    }
    let case = Case::new(topology, request, view, options);
    let Some((over, closest)) = closest(&case, plan) else { return refusal };
    let carries = |link: &usize| {
        let mut route = closest.routes[*link].iter();
        route.any(|(edge, way)| over.contains_key(&case.lane(*edge, *way)))
    };
    let links = (0..request.links.len()).filter(carries);
    let found = Bottleneck {
        kind: BottleneckKind::Combination,
        demands: links.map(|link| case.link_name(link)).collect(),
        resources: over.keys().map(|lane| case.lane_name(*lane)).collect(),
        requested: over.values().sum(),
        available: over.keys().map(|lane| case.free(*lane)).sum(),
        resource_kind: None,
    };
    let detail = words::sentence(&case, &found, false);
    Refusal { detail, bottleneck: Some(Box::new(found)), ..refusal }
}

/// A plan that overloads few lanes, and what it puts on them.
fn closest(
    case: &Case<'_>,
    plan: &mut dyn FnMut(&FrameView) -> Option<Plan>,
) -> Option<(Overload, Plan)> {
    let all: Vec<Lane> = case.lanes().collect();
    let first = plan(&with_room(case, &all))?;
    let mut best = (overload(case, &first), first);
    let mut settled: Vec<Lane> = Vec::new();
    for _ in 0..limits::COMBINATION_STEPS_MAX {
        // The lane that is short of the most is tried first.
        let open = best.0.iter().filter(|(lane, _)| !settled.contains(lane));
        let Some((lane, _)) = open.max_by_key(|(lane, load)| *load - case.free(**lane)) else {
            break;
        };
        let lane = *lane;
        let rest: Vec<Lane> = best.0.keys().copied().filter(|other| *other != lane).collect();
        match plan(&with_room(case, &rest)) {
            Some(found) => best = (overload(case, &found), found),
            None => settled.push(lane),
        }
    }
    (!best.0.is_empty()).then_some(best)
}

/// The view in which nothing is booked on these lanes.
fn with_room(case: &Case<'_>, lanes: &[Lane]) -> FrameView {
    let mut view = case.view.clone();
    for (edge, way) in lanes {
        let capacity = case.topology.edge(*edge).capacity;
        let free = &mut view.free_bps[edge.at()];
        match case.topology.edge(*edge).is_shared() {
            true => *free = [capacity; 2],
            false => free[way.at()] = capacity,
        }
    }
    view
}

fn overload(case: &Case<'_>, plan: &Plan) -> Overload {
    let mut loads = Overload::new();
    for (link, route) in case.request.links.iter().zip(&plan.routes) {
        let BitsPerSecond(rate) = link.bandwidth;
        for (edge, way) in route {
            *loads.entry(case.lane(*edge, *way)).or_default() += rate;
        }
    }
    loads.retain(|lane, load| *load > case.free(*lane));
    loads
}
