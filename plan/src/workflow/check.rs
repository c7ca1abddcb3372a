//! Verifies a schedule, independently of the planners.
//!
//! It reads the workflow as it was written down, not its graph: precedence, equal windows of
//! synchronous sets (Decker 2007, section II-A.3), arrivals, channels throughout their windows, and what
//! is free of every resource, counted instant by instant. Left out: whether a better schedule exists.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::topology::Direction;
use coalloc_common::workflow::{DataSource, Workflow};
use coalloc_common::{
    EdgeIndex, ResourceId, RmName, Segment, Span, Time, Topology, VertexIndex, Window,
};

use super::answer::{PlacedActivity, Schedule};
use super::scratch::ScratchTimetables;
use crate::Route;

/// Checks that a schedule does what the workflow asks for, on what `free` has free.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn verify(
    topology: &Topology,
    workflow: &Workflow,
    free: &ScratchTimetables,
    schedule: &Schedule,
) -> Result<(), String> {
    verify_graph(topology, workflow, schedule)?;
    verify_amounts(&schedule.segments(topology, workflow), free)
}

/// Checks all but the amounts: sites, durations, precedence, sets, journeys and channels.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn verify_graph(
    topology: &Topology,
    workflow: &Workflow,
    schedule: &Schedule,
) -> Result<(), String> {
    verify_revised(topology, workflow, schedule, &BTreeSet::new())
}

/// Checks all but the amounts of a schedule that was revised while it ran: activities that have ended may have
/// done so sooner than planned.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn verify_revised(
    topology: &Topology,
    workflow: &Workflow,
    schedule: &Schedule,
    ended: &BTreeSet<usize>,
) -> Result<(), String> {
    let Schedule { activities, transfers, channels } = schedule;
    if activities.len() != workflow.activities.len() || channels.len() != workflow.channels.len() {
        return Err("not every activity or channel is placed".to_owned());
    }
    for (index, (activity, placed)) in workflow.activities.iter().zip(activities).enumerate() {
        let name = &activity.name;
        let place = topology.vertex(placed.site);
        let mips = place.compute.as_ref().ok_or(format!("{name} runs where no CPUs are"))?.mips;
        let duration = activity.work.duration_at(&place.name, mips);
        let enough =
            duration.is_some_and(|it| it <= placed.window.length() || ended.contains(&index));
        if !enough || !activity.may_run_at(&place.name) {
            return Err(format!("{name} cannot run at {} in {:?}", place.name, placed.window));
        }
        if placed.window.start() < workflow.ready || placed.window.end() > workflow.deadline {
            return Err(format!("{name} runs before the workflow is ready or after its deadline"));
        }
    }
    for set in &workflow.sync_sets {
        let windows: BTreeSet<Window> = set.iter().map(|one| activities[*one].window).collect();
        if windows.len() > 1 {
            return Err(format!("the members of {set:?} run at different times: {windows:?}"));
        }
    }
    for set in &workflow.same_site {
        let sites: BTreeSet<VertexIndex> = set.iter().map(|one| activities[*one].site).collect();
        if sites.len() > 1 {
            return Err(format!("the activities {set:?} run at different sites: {sites:?}"));
        }
    }
    verify_data(topology, workflow, schedule)?;
    for (index, (channel, route)) in workflow.channels.iter().zip(channels).enumerate() {
        let (from, to) = (activities[channel.from].site, activities[channel.to].site);
        verify_route(topology, route, from, to).map_err(|why| format!("channel {index}: {why}"))?;
        let latency = route
            .iter()
            .fold(Span::ZERO, |sum, (edge, _)| sum.saturating_add(topology.edge(*edge).latency));
        if channel.latency_max.is_some_and(|max| latency > max) {
            return Err(format!("channel {index} has a latency of {latency}"));
        }
    }
    let mut journeys = BTreeSet::new();
    match transfers.iter().find(|one| !journeys.insert((one.item, one.to))) {
        Some(twice) => Err(format!("item {} travels twice to {:?}", twice.item, twice.to)),
        None => Ok(()),
    }
}

/// Every consumer has its data at its start.
fn verify_data(
    topology: &Topology,
    workflow: &Workflow,
    schedule: &Schedule,
) -> Result<(), String> {
    for (index, item) in workflow.data.iter().enumerate() {
        let (from, ready) = match &item.source {
            DataSource::Activity(producer) => {
                let PlacedActivity { site, window } = schedule.activities[*producer];
                (site, window.end())
            }
            DataSource::Site(name) => {
                let site = topology.find_vertex(name).ok_or(format!("no site {name}"))?;
                (site, workflow.ready)
            }
        };
        for consumer in &item.consumers {
            let PlacedActivity { site, window } = schedule.activities[*consumer];
            let mut there = ready;
            if site != from && item.bytes > 0 {
                let mut journeys = schedule.transfers.iter();
                let journey = journeys.find(|one| one.item == index && one.to == site);
                let Some(journey) = journey else {
                    return Err(format!("{} does not travel to {site:?}", item.name));
                };
                verify_route(topology, &journey.route, from, site)?;
                let bits = u128::from(item.bytes) * 8 * 1_000_000;
                let us = u128::from(journey.window.length().as_us().unsigned_abs());
                let rate = item.rate.unwrap_or(journey.rate);
                if journey.from != from
                    || journey.window.start() < ready
                    || us * u128::from(journey.rate.0) < bits
                    || rate != journey.rate
                {
                    return Err(format!(
                        "{} travels too early, too slowly or from elsewhere",
                        item.name
                    ));
                }
                there = journey.window.end();
            }
            if window.start() < there {
                let name = &workflow.activities[*consumer].name;
                return Err(format!("{name} starts before {} has arrived", item.name));
            }
        }
    }
    Ok(())
}

/// The route leads from one vertex to the other without visiting any twice.
fn verify_route(
    topology: &Topology,
    route: &Route,
    from: VertexIndex,
    to: VertexIndex,
) -> Result<(), String> {
    let mut at = from;
    let mut seen = BTreeSet::from([from]);
    for (edge, direction) in route {
        let of = topology.edge(*edge);
        let tail = if *direction == Direction::AToB { of.a } else { of.b };
        at = of.head(*direction);
        if tail == at || !seen.insert(at) || !leads(topology, *edge, tail, at) {
            return Err(format!("its route is broken at {}", of.name));
        }
    }
    if at == to { Ok(()) } else { Err(format!("its route ends at {at:?} instead of {to:?}")) }
}

fn leads(topology: &Topology, edge: EdgeIndex, tail: VertexIndex, head: VertexIndex) -> bool {
    let of = topology.edge(edge);
    (of.a, of.b) == (tail, head) || (of.b, of.a) == (tail, head)
}

/// All segments together fit into what is free, at every instant.
///
/// # Errors
/// A sentence that names the resource and the instant at which too much is taken.
pub fn verify_amounts(
    segments: &BTreeMap<RmName, Vec<Segment>>,
    free: &ScratchTimetables,
) -> Result<(), String> {
    let mut of_resource: BTreeMap<(&RmName, &ResourceId), Vec<&Segment>> = BTreeMap::new();
    for (rm, some) in segments {
        for segment in some {
            of_resource.entry((rm, &segment.resource)).or_default().push(segment);
        }
    }
    for ((rm, resource), some) in of_resource {
        let number = free.find(rm, resource).ok_or(format!("{rm} has no resource {resource}"))?;
        let instants: BTreeSet<Time> =
            some.iter().flat_map(|one| [one.window.start(), one.window.end()]).collect();
        let instants: Vec<Time> = instants.into_iter().collect();
        for pair in instants.windows(2) {
            let Some(window) = Window::new(pair[0], pair[1]) else { continue };
            let overlapping = some.iter().filter(|one| one.window.overlaps(window));
            let taken: u64 = overlapping.map(|one| one.amount.0).sum();
            let left = free.free_min(number, window).0;
            if taken > left {
                return Err(format!("{taken} of {resource} taken at {}, {left} free", pair[0]));
            }
        }
    }
    Ok(())
}
