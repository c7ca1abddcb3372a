//! Checks a plan independently of the solvers: whether it answers this request, and costs what it
//! says. Written from Eq. (4) to (9) and (11) of Takefusa 2010, and uses nothing that a solver
//! computed.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{CoAllocation, EdgeIndex, PartWindow, Topology, VertexIndex};

use super::{IpOptions, free_bps};
use crate::{Instance, Plan, Route};

/// Checks a plan against the request, what is free, and the cost that the plan states.
///
/// # Errors
/// A sentence about the first thing that is wrong.
pub fn verify(instance: &Instance<'_>, options: &IpOptions, plan: &Plan) -> Result<(), String> {
    feasible(instance.topology, instance.request, instance.view, options, plan)?;
    let cost = instance.costs.plan(instance.request, &plan.placements, &plan.routes);
    if plan.cost != cost {
        return Err(format!("the plan says it costs {}, but it costs {cost}", plan.cost));
    }
    if plan.lower_bound > plan.cost {
        return Err(format!("lower bound {} above cost {}", plan.lower_bound, plan.cost));
    }
    Ok(())
}

/// Checks a plan against the request and what is free, whatever it costs.
///
/// # Errors
/// A sentence about the first thing that is wrong.
pub fn feasible(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    options: &IpOptions,
    plan: &Plan,
) -> Result<(), String> {
    if plan.window != view.window {
        return Err(format!(
            "the plan is for {}, but the view is for {}",
            plan.window, view.window
        ));
    }
    check_sites(topology, request, view, plan)?;
    check_links(topology, request, view, options, plan)
}

fn check_sites(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    plan: &Plan,
) -> Result<(), String> {
    if plan.placements.len() != request.sites.len() {
        return Err(format!("{} sites, {} placed", request.sites.len(), plan.placements.len()));
    }
    let mut taken = BTreeSet::new();
    for (site, vertex) in request.sites.iter().zip(&plan.placements) {
        let place = topology
            .vertices()
            .get(vertex.at())
            .ok_or_else(|| format!("{} lands on no vertex", site.name))?;
        if !taken.insert(*vertex) {
            return Err(format!("two sites on {} (Eq. 5)", place.name));
        }
        // A site that wants nothing may be placed where there is nothing: a link may end at an
        // exchange point.
        if place.compute.is_none() && !site.wants_nothing() {
            return Err(format!("{} lands on {}, which has no computers", site.name, place.name));
        }
        for (kind, wanted) in site.amounts() {
            let free = view.during(site.window(kind)).free_at(kind, *vertex);
            if free < wanted {
                let (name, at) = (&site.name, &place.name);
                let (wanted, free) = (kind.show(wanted), kind.show(free));
                let when = shown(site.window(kind), view);
                return Err(format!("{name} wants {wanted} of {free} free at {at}{when} (Eq. 6)"));
            }
        }
        if site.pinned.as_ref().is_some_and(|pin| *pin != place.name) {
            return Err(format!("{} is pinned, but not to {}", site.name, place.name));
        }
        if site.excluded.contains(&place.name) {
            return Err(format!("{} must not land on {}", site.name, place.name));
        }
    }
    Ok(())
}

fn check_links(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    options: &IpOptions,
    plan: &Plan,
) -> Result<(), String> {
    if plan.routes.len() != request.links.len() {
        return Err(format!("{} links, {} routed", request.links.len(), plan.routes.len()));
    }
    for (number, (link, route)) in request.links.iter().zip(&plan.routes).enumerate() {
        let (start, end) = (plan.placements[link.from], plan.placements[link.to]);
        check_route(topology, route, start, end, options)
            .map_err(|e| format!("links[{number}]: {e}"))?;
        let latency: i64 = route.iter().map(|(edge, _)| topology.edge(*edge).latency.as_us()).sum();
        if link.latency_max.is_some_and(|max| latency > max.as_us()) {
            return Err(format!("links[{number}] takes {latency} us, which is more than allowed"));
        }
    }
    let alone = request.links.iter().zip(&plan.routes).filter(|(link, _)| link.window.is_some());
    for (link, route) in alone {
        for (index, direction) in route {
            let edge = topology.edge(*index);
            let free = free_bps(edge, *index, *direction, view.during(link.window));
            if link.bandwidth.0 > free {
                let (name, when) = (&edge.name, shown(link.window, view));
                return Err(format!("{name} carries {} of {free} bit/s{when}", link.bandwidth.0));
            }
        }
    }
    let mut periods = request.periods().into_iter();
    periods.try_for_each(|period| check_loads(topology, request, view, plan, period))
}

/// Eq. (8) in one period; `None`: in the whole frame.
fn check_loads(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    plan: &Plan,
    period: Option<PartWindow>,
) -> Result<(), String> {
    // Load by edge and direction. On a shared edge both directions count as one.
    let mut loads: BTreeMap<(EdgeIndex, Direction), u64> = BTreeMap::new();
    let links = request.links.iter().zip(&plan.routes);
    for (link, route) in links.filter(|(link, _)| link.is_wanted_in(period)) {
        for (edge, direction) in route {
            let shared = topology.edge(*edge).is_shared();
            let lane = if shared { Direction::AToB } else { *direction };
            *loads.entry((*edge, lane)).or_default() += link.bandwidth.0;
        }
    }
    for ((index, lane), load) in loads {
        let edge = topology.edge(index);
        let free = free_bps(edge, index, lane, view.during(period));
        if load > free {
            let when = shown(period, view);
            return Err(format!("{} carries {load} bit/s of {free}{when} (Eq. 8)", edge.name));
        }
    }
    Ok(())
}

/// The window of a part, as the end of a sentence; nothing for the whole frame.
fn shown(part: Option<PartWindow>, view: &FrameView) -> String {
    part.map_or_else(String::new, |_| format!(" in {}", PartWindow::within(part, view.window)))
}

/// Checks that a route is simple, has 1 to N_max edges, and begins and ends where it should (Eq. 7,
/// 9, 11).
fn check_route(
    topology: &Topology,
    route: &Route,
    start: VertexIndex,
    end: VertexIndex,
    options: &IpOptions,
) -> Result<(), String> {
    if route.is_empty() || route.len() > options.route_edges() {
        return Err(format!("{} edges, 1 to {} allowed", route.len(), options.route_edges()));
    }
    let mut at = start;
    let mut seen = BTreeSet::from([start]);
    for (index, direction) in route {
        let edge = topology
            .edges()
            .get(index.at())
            .ok_or_else(|| format!("edge {} does not exist", index.0))?;
        let (tail, head) = match direction {
            Direction::AToB => (edge.a, edge.b),
            Direction::BToA => (edge.b, edge.a),
        };
        if tail != at {
            return Err(format!("{} does not continue the route", edge.name));
        }
        if !seen.insert(head) {
            return Err(format!("{} comes back to {}", edge.name, topology.vertex(head).name));
        }
        at = head;
    }
    if at != end {
        return Err(format!("ends at {}", topology.vertex(at).name));
    }
    Ok(())
}
