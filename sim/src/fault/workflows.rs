//! Worlds with workflows: RMs that own sites and RMs that own paths between them, users with small workflows, and
//! what these users report. Ordinary users take capacity away from them.
//!
//! Everything begins soon, so that activities run while faults happen. Left out: workflows in trees, because no
//! parent reports to a child coordinator; workflows that are held at one RM after the other.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::topology::{Compute, Duplex, Edge, Vertex};
use coalloc_common::workflow::{
    Activity, Channel, DataItem, DataSource, Work, Workflow, WorkflowGraph,
};
use coalloc_common::{
    ActivityName, BitsPerSecond, Cpus, DataName, RequestId, ResourceId, RmName, Span, Time,
    Topology, UnitValue, VertexIndex, VertexName,
};
use coalloc_plan::{Named, WorkflowPlannerName};
use coalloc_protocol::participant::Participant;

use super::SECOND;
use super::topology::{CAPACITY, RESOURCES};
use crate::world::clients::{Demand, Visit, WantedChange};
use crate::world::node::{Node, WALL_START};
use crate::world::workflows::WantedWorkflow;
use crate::world::{Event, World};

/// The largest number of RMs that own sites. Each owns two.
const SITE_RMS_MAX: u64 = 3;
const ACTIVITIES_MAX: i64 = 7;
/// The largest set of activities that run at the same time.
const MEMBERS_MAX: u64 = 3;

/// An index below `n`.
fn index(world: &mut World, n: usize) -> usize {
    usize::try_from(world.dice.below(n as u64)).expect("an index")
}

/// Divides the RMs into those that own sites, which come first, and those that own paths; lays the graph.
pub(super) fn graph(world: &mut World) {
    // A path has no servers, so by-server RMs own sites or nothing.
    let by_server = |rm: &&Node<Participant>| !rm.shadow.config().servers.is_empty();
    let (servers, others): (Vec<_>, Vec<_>) = world.rms.iter().partition(by_server);
    let with_servers = servers.len();
    let rms = servers.into_iter().chain(others).map(|rm| RmName::composed(&*rm.name));
    let rms: Vec<RmName> = rms.collect();
    let most = SITE_RMS_MAX.min(rms.len() as u64 - 1);
    let count = 1 + index(world, usize::try_from(most).expect("few"));
    let (site_rms, path_rms) = (&rms[..count], &rms[count.max(with_servers)..]);
    let mut topology = Topology::new();
    for rm in site_rms {
        for resource in RESOURCES {
            let mips = *world.dice.pick(&[500, 1_000, 2_000]);
            let compute = Compute {
                rm: rm.clone(),
                resource: ResourceId::composed(resource),
                capacity: Cpus(CAPACITY),
                unit_value: UnitValue(1),
                price: None,
                quality: 0,
                mips,
            };
            let name = VertexName::composed(format!("{rm}-{resource}"));
            topology.add_vertex(Vertex::new(name, None, Some(compute))).expect("a site");
        }
    }
    let sites = topology.vertices().len();
    let paths = path_rms.iter().flat_map(|rm| RESOURCES.map(|resource| (rm, resource)));
    for (number, (rm, resource)) in paths.enumerate() {
        // First a tree, so that data can travel; then anywhere.
        let a = if number + 1 < sites { number + 1 } else { index(world, sites) };
        let b = if number + 1 < sites { index(world, a) } else { (a + 1) % sites };
        let of = |at: usize| VertexIndex(u32::try_from(at).expect("few sites"));
        let edge = Edge {
            name: coalloc_common::id::EdgeName::composed(format!("{rm}-{resource}")),
            a: of(a),
            b: of(b),
            rm: rm.clone(),
            capacity: BitsPerSecond(CAPACITY),
            unit_value: UnitValue(1),
            price: None,
            quality: 0,
            latency: Span::ZERO,
            duplex: Duplex::Shared(ResourceId::composed(resource)),
        };
        topology.add_edge(edge).expect("a path");
    }
    world.workflows.topology = topology;
}

/// Adds users with workflows, and what they will do.
pub(super) fn users(world: &mut World) {
    world.clients.planning_us = 50_000;
    for number in 0..=world.dice.below(4) {
        let grc = index(world, world.grcs.len());
        let at_us = world.dice.between(0, 80) * SECOND;
        let workflow = loop {
            let workflow = draw(world, at_us);
            if WorkflowGraph::new(&workflow).is_ok() {
                break workflow;
            }
        };
        let planner = *world.dice.pick(WorkflowPlannerName::ALL);
        let mut demand = Demand::new(grc, &format!("w{number}"), "UserW", Vec::new());
        demand.patience_us = world.dice.between(2, 40) * SECOND;
        demand.workflow = Some(WantedWorkflow { workflow, planner });
        let patience_us = demand.patience_us;
        let demand = world.add_demand(demand);
        world.at(at_us, Event::Visit(Visit::Open(demand)));
        world.at(at_us + patience_us, Event::Visit(Visit::Again(demand)));
        looks(world, demand, at_us);
        revisions(world, demand, at_us);
        if world.dice.per_mille(200) {
            let later_us = world.dice.between(20_000, 240_000) * 1_000;
            world.at(at_us + later_us, Event::Visit(Visit::Release(demand)));
        }
        if world.dice.per_mille(80) {
            let later_us = world.dice.between(0, 120_000) * 1_000;
            world.at(at_us + later_us, Event::Visit(Visit::Vanish(demand)));
        }
    }
}

/// When the user looks at the workflow and may report something.
fn looks(world: &mut World, demand: usize, at_us: i64) {
    for _ in 0..6 + world.dice.below(30) {
        let look_us = at_us + world.dice.between(12_000, 240_000) * 1_000;
        let late_us = match world.dice.per_mille(250) {
            true => world.dice.log_between(500, 60_000) * 1_000,
            false => 0,
        };
        let twice = world.dice.per_mille(200);
        if look_us <= world.faults_us {
            world.at(look_us, Event::Visit(Visit::Look { demand, late_us, twice }));
        }
    }
}

/// The user wants a site avoided. Some of these changes are sent twice.
fn revisions(world: &mut World, demand: usize, at_us: i64) {
    let sites = world.workflows.topology.vertices().iter();
    let sites: Vec<VertexName> = sites.map(|site| site.name.clone()).collect();
    for number in 0..*world.dice.pick(&[0, 0, 1, 2]) {
        let avoid = BTreeSet::from([world.dice.pick(&sites).clone()]);
        let id = RequestId::composed(format!("avoid{number}"));
        let wish = WantedChange { id, candidates: Vec::new(), avoid, outcome: None };
        world.clients.demands[demand].changes.push(wish);
        let change = Event::Visit(Visit::Change { demand, wish: number });
        let mut later_us = at_us + world.dice.between(5_000, 180_000) * 1_000;
        world.at(later_us, change.clone());
        while world.dice.per_mille(400) {
            later_us += world.dice.between(0, 40_000) * 1_000;
            world.at(later_us, change.clone());
        }
    }
}

/// A random workflow of a user who calls at this time.
fn draw(world: &mut World, at_us: i64) -> Workflow {
    let count = usize::try_from(world.dice.between(2, ACTIVITIES_MAX)).expect("few");
    let sites: Vec<VertexName> =
        world.workflows.topology.vertices().iter().map(|site| site.name.clone()).collect();
    // Neighbours form sets; the rest stands alone. Data lead from earlier nodes to later ones.
    let mut nodes: Vec<Vec<usize>> = Vec::new();
    let mut next = 0;
    while next < count {
        let members = if world.dice.per_mille(400) { 1 + world.dice.below(MEMBERS_MAX) } else { 1 };
        let end = count.min(next + usize::try_from(members).expect("few"));
        nodes.push((next..end).collect());
        next = end;
    }
    let activities: Vec<Activity> = (0..count).map(|number| activity(world, number)).collect();
    let mut data = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        for consumer in node {
            if place > 0 && world.dice.per_mille(800) {
                let producers = &nodes[index(world, place)];
                let producer = *world.dice.pick(producers);
                data.push(item(world, data.len(), DataSource::Activity(producer), *consumer));
            } else if world.dice.per_mille(150) {
                let site = DataSource::Site(world.dice.pick(&sites).clone());
                data.push(item(world, data.len(), site, *consumer));
            }
        }
    }
    let mut channels = Vec::new();
    for node in nodes.iter().filter(|node| node.len() > 1) {
        if world.dice.per_mille(700) {
            let bandwidth = BitsPerSecond(*world.dice.pick(&[100, 200, 300]));
            channels.push(Channel { from: node[0], to: node[1], bandwidth, latency_max: None });
        }
    }
    let same_site = match count > 2 && world.dice.per_mille(150) {
        true => vec![vec![0, count - 1]],
        false => Vec::new(),
    };
    let ready_us = at_us + world.dice.between(10, 40) * SECOND;
    let deadline_us = ready_us + world.dice.between(80, 600) * SECOND;
    let wall = |us: i64| -> Time { WALL_START.saturating_add(Span::from_us(us)) };
    Workflow {
        activities,
        data,
        sync_sets: nodes.into_iter().filter(|node| node.len() > 1).collect(),
        channels,
        same_site,
        ready: wall(ready_us),
        deadline: wall(deadline_us),
    }
}

fn activity(world: &mut World, number: usize) -> Activity {
    let work = match world.dice.per_mille(500) {
        true => Work::Fixed(Span::from_secs(world.dice.between(15, 70))),
        false => Work::Load { mi: world.dice.between(10_000, 60_000).unsigned_abs() },
    };
    Activity {
        name: ActivityName::composed(format!("a{number}")),
        work,
        cpus: Cpus(*world.dice.pick(&[100, 200, 300, 500])),
        others: BTreeMap::new(),
        sites: BTreeSet::new(),
        excluded: BTreeSet::new(),
    }
}

fn item(world: &mut World, number: usize, source: DataSource, consumer: usize) -> DataItem {
    let bytes = match world.dice.per_mille(150) {
        true => 0,
        false => world.dice.between(100, 1_500).unsigned_abs(),
    };
    DataItem {
        name: DataName::composed(format!("d{number}")),
        bytes,
        source,
        consumers: vec![consumer],
        rate: *world.dice.pick(&[None, None, Some(BitsPerSecond(400))]),
    }
}
