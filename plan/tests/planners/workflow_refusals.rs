//! What `heft-sync-bt` says of a workflow that it refuses: what binds, and the same whatever it has tried.

use coalloc_common::topology::Direction;
use coalloc_common::workflow::{Channel, DataSource, Work, WorkflowGraph};
use coalloc_common::{Amount, BitsPerSecond, Reason, VertexName};
use coalloc_plan::workflow::{
    ScratchTimetables, SetSearch, WorkflowInstance, WorkflowOptions, WorkflowPlanner,
    WorkflowRefusal,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::fixtures::AMPLE;
use crate::fixtures::workflow::{
    CaseSize, SmallCase, activity, item, mesh, slots, small_case, t, workflow,
};

/// Two activities of two CPUs at the same time, joined by a channel; only P0 and P1 have two CPUs.
fn a_pair() -> SmallCase {
    let load = Work::Load { mi: 400 };
    let activities = vec![activity("one", load.clone(), 2), activity("two", load, 2)];
    let mut workflow = workflow(activities, Vec::new(), 20);
    workflow.sync_sets.push(vec![0, 1]);
    let bandwidth = BitsPerSecond(8);
    workflow.channels.push(Channel { from: 0, to: 1, bandwidth, latency_max: None });
    let topology = mesh(&[(2, 100), (2, 100), (1, 200)], 16);
    let graph = WorkflowGraph::new(&workflow).expect("a workflow");
    let free = ScratchTimetables::new(&topology);
    SmallCase { topology, workflow, graph, free }
}

fn refusal(case: &SmallCase, discrepancies: u32) -> Option<Box<WorkflowRefusal>> {
    let options = WorkflowOptions { route_edges_max: 1, discrepancies };
    let instance = WorkflowInstance { options, ..case.instance() };
    SetSearch.plan(&instance, &mut case.free.clone(), &AMPLE).outcome.err()
}

fn book(case: &mut SmallCase, rm: &str, resource: &str, amount: u64) {
    let all: Vec<_> = case.free.resources().map(|(_, rm, of)| (rm.clone(), of.clone())).collect();
    let found = all.iter().find(|(own, of)| own.as_str() == rm && of.as_str() == resource);
    let (rm, resource) = found.unwrap_or_else(|| panic!("{resource} of {rm} in {all:?}")).clone();
    let window = slots(0, 20);
    let segment = coalloc_common::Segment { resource, amount: Amount(amount), window };
    case.free.book(&rm, &[segment]).expect("it is free");
}

#[test]
fn where_links_bind_a_set_is_refused_for_its_route() {
    let mut case = a_pair();
    assert_eq!(refusal(&case, 0), None);
    let edge = case.topology.edges().iter().find(|edge| edge.name.as_str() == "P0-P1");
    let edge = edge.expect("the edge").clone();
    let (rm, resource) = (edge.rm.to_string(), edge.resource(Direction::AToB).to_string());
    book(&mut case, &rm, &resource, 9);
    let refused = refusal(&case, 0).expect("7 bit/s are left").refusal;
    assert_eq!(refused.reason, Reason::NoRoute, "{refused}");
    assert_eq!(refused.rm, Some(edge.rm.clone()));
    assert_eq!(refused.resource.as_ref(), Some(edge.resource(Direction::AToB)));
    assert_eq!(refused.available, Some(Amount(7)));
    assert!(refused.detail.contains("too little is free of P0-P1"), "{refused}");

    case.workflow.channels[0].bandwidth = BitsPerSecond(17);
    let refused = refusal(&case, 0).expect("no link carries 17 bit/s").refusal;
    assert_eq!((refused.reason, refused.resource), (Reason::NoRoute, None));
    assert!(refused.detail.contains("even if all were free"), "{}", refused.detail);
}

#[test]
fn where_sites_bind_a_set_is_refused_for_its_cpus() {
    let mut case = a_pair();
    let compute = case.topology.sites().find(|(_, vertex, _)| vertex.name.as_str() == "P1");
    let (_, _, compute) = compute.expect("the site");
    let (rm, resource) = (compute.rm.clone(), compute.resource.clone());
    book(&mut case, rm.as_str(), resource.as_str(), 1);
    let refused = refusal(&case, 0).expect("P0 is left for both");
    assert_eq!(refused.activities, [0, 1]);
    assert_eq!(refused.earliest_finish, Some(t(24)), "as soon as P1 is free");
    let refused = refused.refusal;
    assert_eq!(refused.reason, Reason::InsufficientCapacity, "{refused}");
    assert_eq!((refused.rm, refused.resource), (Some(rm), Some(resource)));
    assert_eq!(refused.available, Some(Amount(1)));
}

#[test]
fn data_that_come_too_late_are_named() {
    let mut case = a_pair();
    // Each of them by itself is there after 9 s; over one edge both take 18 s.
    for name in ["first", "second"] {
        let mut late = item(name, 0, &[0], 18, Some(16));
        late.source = DataSource::Site(VertexName::composed("P2"));
        case.workflow.data.push(late);
    }
    case.graph = WorkflowGraph::new(&case.workflow).expect("a workflow");
    let refused = refusal(&case, 0).expect("18 s and 4 s are more than 20 s");
    assert_eq!(refused.earliest_finish, Some(t(22)));
    let detail = refused.refusal.detail;
    assert_eq!(refused.refusal.reason, Reason::NoRoute, "{detail}");
    assert!(detail.contains("they fit, but the data second cannot arrive by then"), "{detail}");

    case.workflow.data[0].bytes = 40;
    let refused = refusal(&case, 0).expect("20 s are too long for one of them, too").refusal;
    assert_eq!(refused.reason, Reason::NoRoute);
    assert!(refused.detail.contains("the data of one reach no site in time"), "{}", refused.detail);
}

/// The refusal is that of the schedule without discrepancies, made after all of them were tried.
#[test]
fn discrepancies_change_nothing_that_a_refusal_says() {
    let size = CaseSize { sites: 4, activities: 6, members: 3, slots: 16 };
    let (mut refused, mut sets, mut timed) = (0, 0, 0);
    for seed in 0..1_500 {
        let mut case = small_case(&mut ChaCha8Rng::seed_from_u64(seed), size);
        case.workflow.deadline = t(14);
        let (without, with) = (refusal(&case, 0), refusal(&case, 4));
        if let (Some(without), Some(with)) = (without, with) {
            assert_eq!(without, with, "seed {seed}");
            refused += 1;
            sets += i32::from(with.activities.len() > 1);
            timed += i32::from(with.earliest_finish.is_some());
        }
    }
    assert!(refused > 300 && sets > 50 && timed > 40, "{refused}, {sets}, {timed}");
}
