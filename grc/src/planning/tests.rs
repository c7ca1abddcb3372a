//! Tests of the planners' threads: stages, places, cores, and which refusals are explained.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::topology::{Compute, Duplex, Edge, FrameView, Vertex};
use coalloc_common::{
    BitsPerSecond, Cpus, EdgeName, LinkDemand, ResourceId, SiteDemand, SiteName, Time, Timing,
    Topology, UnitValue, VertexIndex, VertexName,
};
use coalloc_plan::{Budget, Packing};

use super::*;

fn nothing_known() -> Arc<Snapshot> {
    let (topology, members) = (Arc::new(Topology::new()), BTreeMap::new());
    Arc::new(Snapshot { topology, members, missing: Vec::new() })
}

fn request() -> CoAllocation {
    let name = SiteName::composed("a");
    let site = SiteDemand {
        name,
        cpus: Cpus(1),
        others: BTreeMap::new(),
        pinned: None,
        excluded: BTreeSet::new(),
        windows: BTreeMap::new(),
    };
    let start = Time::from_us(0);
    let duration = Span::from_secs(60);
    let timing = Timing { earliest_start: start, latest_start: start, duration };
    CoAllocation { sites: vec![site], links: Vec::new(), timing }
}

fn picture() -> FrameAvailability {
    let windows = request().timing.frames(1);
    let topology = Topology::new();
    let views = windows.iter().map(|w| FrameView::nothing(&topology, *w)).collect();
    FrameAvailability { views, changes: Vec::new(), unreachable: Vec::new() }
}

/// One site of 4 CPUs, and one frame of an hour for each entry of `free`, the number of its free CPUs.
fn one_site(free: &[u64]) -> (Arc<Snapshot>, FrameAvailability) {
    let mut topology = Topology::new();
    let compute = Compute {
        rm: RmName::composed("crm"),
        resource: ResourceId::composed("A"),
        capacity: Cpus(4),
        unit_value: UnitValue(1),
        price: None,
        quality: limits::QUALITY_FULL,
        mips: limits::MIPS_DEFAULT,
    };
    let name = VertexName::composed("A");
    topology.add_vertex(Vertex::new(name, None, Some(compute))).unwrap();
    let view = |(hour, free): (i64, &u64)| {
        let start = Time::from_us(hour * 3_600_000_000);
        let window = Window::starting(start, Span::from_secs(3_600)).unwrap();
        FrameView { free_cpus: vec![Cpus(*free)], ..FrameView::nothing(&topology, window) }
    };
    let views = (0..).zip(free).map(view).collect();
    let picture = FrameAvailability { views, changes: Vec::new(), unreachable: Vec::new() };
    let (members, missing) = (BTreeMap::new(), Vec::new());
    let topology = Arc::new(topology);
    (Arc::new(Snapshot { topology, members, missing }), picture)
}

#[tokio::test]
async fn a_reservation_explains_one_refused_frame_and_only_when_there_is_no_plan() {
    let planners = Planners::start().unwrap();
    let mut wanted = request();
    wanted.sites[0].cpus = Cpus(3);
    wanted.sites[0].pinned = Some(VertexName::composed("A"));
    let explained = |planned: &PlanningOutcome| {
        let refused = planned.refused.iter();
        refused.filter(|(_, refusal)| refusal.bottleneck.is_some()).count()
    };
    let plan = async |free: &[u64], explained| {
        let (federation, picture) = one_site(free);
        let options = RequestOptions::default();
        planners.plan(federation, wanted.clone(), options, picture, explained).await.unwrap()
    };
    let none: &[u64] = &[2, 1, 0, 2];
    let (all, one) =
        (plan(none, ExplainedFrames::All).await, plan(none, ExplainedFrames::Closest).await);
    assert_eq!((explained(&all), explained(&one)), (4, 1));
    assert_eq!(one.refusal(), all.refusal(), "what is told at last is the same");
    assert!(one.refusal().bottleneck.is_some());
    let some: &[u64] = &[2, 3, 0, 2];
    let (all, one) =
        (plan(some, ExplainedFrames::All).await, plan(some, ExplainedFrames::Closest).await);
    assert_eq!((explained(&all), explained(&one)), (3, 0));
    assert_eq!((all.plans, all.refused.len()), (one.plans, one.refused.len()));
}

#[test]
fn long_work_leaves_a_core_alone_and_short_work_does_not() {
    let here = sched_getaffinity(None).unwrap();
    let planners = Planners::start().unwrap();
    let cores = |pool: &rayon::ThreadPool| {
        pool.broadcast(|_| sched_getaffinity(None).unwrap().count()).into_iter().max().unwrap()
    };
    assert_eq!(cores(&planners.quick), here.count());
    let left = (here.count() - 1).max(1);
    assert_eq!((cores(&planners.search), cores(&planners.outside)), (left, left));
}

#[tokio::test]
async fn too_many_plannings_are_answered_busy_and_a_place_is_given_back() {
    let mut planners = Planners::start().unwrap();
    planners.places = Places::new(1);
    let taken = planners.places.enter(&nobody()).unwrap();
    let options = RequestOptions::default();
    let busy =
        planners.plan(nothing_known(), request(), options, picture(), ExplainedFrames::All).await;
    assert_eq!(busy.unwrap_err().code(), tonic::Code::ResourceExhausted);
    drop(taken);
    for _ in 0..2 {
        let planned = planners
            .plan(nothing_known(), request(), options, picture(), ExplainedFrames::All)
            .await;
        let planned = planned.unwrap();
        assert!(planned.plans.is_empty(), "an empty federation has no site");
        assert_eq!(planned.refusal().reason, Reason::BeyondCapacity);
    }
}

/// Three sites, with a path between every two of them.
fn triangle() -> Topology {
    let mut topology = Topology::new();
    for name in ["A", "B", "C"] {
        let compute = Compute {
            rm: RmName::composed(format!("crm-{name}")),
            resource: ResourceId::composed(name),
            capacity: Cpus(8),
            unit_value: UnitValue(1),
            price: None,
            quality: 0,
            mips: limits::MIPS_DEFAULT,
        };
        let name = VertexName::composed(name);
        topology.add_vertex(Vertex::new(name, None, Some(compute))).unwrap();
    }
    for (name, a, b) in [("A-B", 0, 1), ("B-C", 1, 2), ("A-C", 0, 2)] {
        let edge = Edge {
            name: EdgeName::composed(name),
            a: VertexIndex(a),
            b: VertexIndex(b),
            rm: RmName::composed("nrm"),
            capacity: BitsPerSecond(1_000),
            unit_value: UnitValue(1),
            price: None,
            quality: 0,
            latency: Span::from_millis(1),
            duplex: Duplex::Shared(ResourceId::composed(name)),
        };
        topology.add_edge(edge).unwrap();
    }
    topology
}

#[tokio::test]
async fn what_a_short_search_leaves_open_is_searched_whole_with_the_same_plans() {
    let topology = triangle();
    let whole = request();
    let second = SiteDemand { name: SiteName::composed("b"), ..whole.sites[0].clone() };
    let links = vec![LinkDemand {
        from: 0,
        to: 1,
        bandwidth: BitsPerSecond(600),
        latency_max: None,
        window: None,
    }];
    let sites = vec![whole.sites[0].clone(), second];
    let timing = Timing { latest_start: Time::from_us(600_000_000), ..whole.timing };
    let request = CoAllocation { sites, links, timing };
    let mut views: Vec<FrameView> =
        timing.frames(4).iter().map(|w| FrameView::empty_federation(&topology, *w)).collect();
    views[2].free_bps = vec![[BitsPerSecond(500); 2]; 3];
    let (topology, members) = (Arc::new(topology), BTreeMap::new());
    let snapshot = Arc::new(Snapshot { topology, members, missing: Vec::new() });
    let options = RequestOptions { plans: 4, ..RequestOptions::default() };
    let mut planners = Planners::start().unwrap();
    let mut answers = Vec::new();
    for nodes in [limits::QUICK_NODES, 1, 0] {
        planners.quick_nodes = nodes;
        let picture = FrameAvailability {
            views: views.clone(),
            changes: Vec::new(),
            unreachable: Vec::new(),
        };
        let (snapshot, request) = (Arc::clone(&snapshot), request.clone());
        let planned = planners.plan(snapshot, request, options, picture, ExplainedFrames::All);
        let planned = planned.await.unwrap();
        assert!(planned.plans.iter().all(|judged| judged.proven_optimal), "{nodes} nodes");
        let plans: Vec<_> = planned.plans.into_iter().map(|judged| judged.plan).collect();
        answers.push((plans, planned.refused));
    }
    let (plans, refused) = &answers[0];
    assert_eq!((plans.len(), refused.len()), (3, 1));
    assert!(answers.iter().all(|answer| answer == &answers[0]));
    let nothing = Budget { nodes: 0, solver_time: Span::ZERO, stop: &AtomicBool::new(false) };
    let packing = Packing::new(&snapshot.topology, &request, &views[0], options.ranking, 16);
    let planner = options.solver.planner(ip_options(options), None);
    assert!(is_open(&packing.solve(planner.as_ref(), &nothing)), "or nothing was searched twice");
}
