//! The abstract paths of a federation are those that an enumeration of every simple path finds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use coalloc_common::topology::{Direction, Duplex, FrameView};
use coalloc_common::{
    Amount, BitsPerSecond, CoAllocation, Cpus, LinkDemand, Reason, ResourceId, SiteDemand,
    SiteName, Span, Time, Timing, Topology, VertexIndex, Window, limits,
};
use coalloc_plan::abstracted::{AbstractTopology, Short, paths, short, widest};
use coalloc_plan::ip::{Exact, IpOptions};
use coalloc_plan::{Budget, Instance};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fixtures;

/// Two to six vertices and up to nine edges, some of them parallel; some vertices have no edge.
fn federation(rng: &mut ChaCha8Rng) -> (Topology, Vec<VertexIndex>) {
    let mut topology = Topology::new();
    let points: Vec<VertexIndex> = (0..rng.random_range(2..=6))
        .map(|n| topology.add_vertex(fixtures::exchange(&format!("X{n}"))).expect("new"))
        .collect();
    let full = rng.random_range(0..=2);
    for number in 0..rng.random_range(0..=9) {
        let a = points[rng.random_range(0..points.len())];
        let b = points[rng.random_range(0..points.len())];
        if a == b {
            continue;
        }
        let name = format!("e{number}");
        let capacity = rng.random_range(1..=4) * 100;
        let mut edge = fixtures::edge(&name, a, b, capacity, rng.random_range(0..=3));
        edge.latency = Span::from_millis(rng.random_range(0..=3));
        if full == 2 || (full == 1 && rng.random_bool(0.5)) {
            let one = |way: &str| ResourceId::composed(format!("{name}:{way}"));
            edge.duplex = Duplex::Full { ab: one("ab"), ba: one("ba") };
        }
        topology.add_edge(edge).expect("new");
    }
    (topology, points)
}

/// Every simple path that continues `path` to `target`, as steps over edges.
fn routes(
    topology: &Topology,
    target: VertexIndex,
    edges_max: usize,
    at: VertexIndex,
    seen: &mut BTreeSet<VertexIndex>,
    path: &mut Vec<(usize, Direction)>,
    found: &mut Vec<Vec<(usize, Direction)>>,
) {
    if at == target {
        found.push(path.clone());
        return;
    }
    if path.len() == edges_max {
        return;
    }
    for (number, edge) in topology.edges().iter().enumerate() {
        for (direction, from) in [(Direction::AToB, edge.a), (Direction::BToA, edge.b)] {
            let to = edge.head(direction);
            if from == at && seen.insert(to) {
                path.push((number, direction));
                routes(topology, target, edges_max, to, seen, path, found);
                path.pop();
                seen.remove(&to);
            }
        }
    }
}

fn all_routes(
    topology: &Topology,
    from: VertexIndex,
    to: VertexIndex,
    edges_max: usize,
) -> Vec<Vec<(usize, Direction)>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([from]);
    routes(topology, to, edges_max, from, &mut seen, &mut Vec::new(), &mut found);
    found
}

#[test]
fn every_path_is_the_widest_route_and_the_cheapest_of_those() {
    let (mut joined, mut apart, mut both_ways, mut mixed, mut one_way) = (0, 0, 0, 0, 0);
    for seed in 0..4_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, points) = federation(&mut rng);
        let edges_max = rng.random_range(1..=4);
        let shown = paths(&topology, &points, edges_max);
        let mut expected = Vec::new();
        for (nth, a) in points.iter().enumerate() {
            for b in &points[nth + 1..] {
                let found = all_routes(&topology, *a, *b, edges_max);
                let edges = |route: &[(usize, Direction)]| -> Vec<usize> {
                    route.iter().map(|(edge, _)| *edge).collect()
                };
                // The widest first, then the cheapest, then the fastest of those.
                let best = found.iter().map(|route| {
                    let edges = edges(route).into_iter().map(|at| &topology.edges()[at]);
                    let width = edges.clone().map(|edge| edge.capacity).min().expect("not empty");
                    let value: u64 = edges.clone().map(|edge| edge.unit_value.0).sum();
                    let latency = edges.fold(Span::ZERO, |sum, e| sum.saturating_add(e.latency));
                    (std::cmp::Reverse(width), value, latency)
                });
                match best.min() {
                    Some((width, value, latency)) => {
                        let is_full = |(at, _): &(usize, _)| !topology.edges()[*at].is_shared();
                        // A walk may pass a point twice, so there may be more walks than simple
                        // routes.
                        let on_a_route = found.iter().flatten().any(is_full);
                        expected.push((*a, *b, width.0, value, latency, on_a_route));
                        joined += 1;
                    }
                    None => apart += 1,
                }
            }
        }
        let shown: Vec<_> = shown
            .iter()
            .map(|p| (p.a, p.b, p.width, p.unit_value, p.latency, p.full_duplex))
            .collect();
        let without = |all: &[(VertexIndex, VertexIndex, BitsPerSecond, u64, Span, bool)]| {
            all.iter().map(|p| (p.0, p.1, p.2, p.3, p.4)).collect::<Vec<_>>()
        };
        assert_eq!(without(&shown), without(&expected), "seed {seed}");
        let shared = topology.edges().iter().filter(|edge| edge.is_shared()).count();
        for (path, full_route) in shown.iter().zip(&expected).map(|(path, e)| (path, e.5)) {
            let full = path.5;
            assert!(full || !full_route, "seed {seed}: a direction would be lost");
            assert!(!full || shared < topology.edges().len(), "seed {seed}");
            both_ways += u32::from(full && shared == 0);
            mixed += u32::from(full && shared > 0);
            one_way += u32::from(!full && shared < topology.edges().len());
        }
    }
    assert!(joined > 5_000 && apart > 5_000, "{joined} joined, {apart} apart");
    let kinds = [both_ways, mixed, one_way];
    assert!(kinds.iter().all(|count| *count > 300), "full, mixed, shared beside full: {kinds:?}");
}

#[test]
fn what_is_free_is_the_widest_route_in_its_direction() {
    let window = fixtures::window();
    let mut narrower_back = 0;
    for seed in 0..4_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, points) = federation(&mut rng);
        let edges_max = rng.random_range(1..=4);
        let mut view = FrameView::empty_federation(&topology, window);
        for (at, edge) in topology.edges().iter().enumerate() {
            let mut free = || BitsPerSecond(rng.random_range(0..=edge.capacity.0));
            let ab = free();
            view.free_bps[at] = [ab, if edge.is_shared() { ab } else { free() }];
        }
        for a in &points {
            let found = widest(&topology, &view, *a, edges_max);
            for b in points.iter().filter(|b| *b != a) {
                let width = |route: &Vec<(usize, Direction)>| {
                    let free = route.iter().map(|(at, way)| view.free_bps[*at][way.at()]);
                    free.min().expect("not empty")
                };
                let routes = all_routes(&topology, *a, *b, edges_max);
                let best = routes.iter().map(width).max().unwrap_or(BitsPerSecond(0));
                assert_eq!(found[b.at()], best, "seed {seed}");
                let back = widest(&topology, &view, *b, edges_max)[a.at()];
                narrower_back += u32::from(back != best);
            }
        }
    }
    assert!(narrower_back > 500, "directions differ: {narrower_back}");
}

/// Whether these links can be routed together at these rates without splitting any, by trying
/// everything.
fn fit(
    topology: &Topology,
    view: &mut FrameView,
    links: &[(VertexIndex, VertexIndex, u64)],
    edges_max: usize,
) -> bool {
    let Some(((from, to, rate), rest)) = links.split_first() else { return true };
    for route in all_routes(topology, *from, *to, edges_max) {
        if route.iter().any(|(at, way)| view.free_bps[*at][way.at()].0 < *rate) {
            continue;
        }
        let before = view.free_bps.clone();
        for (at, way) in &route {
            let shared = topology.edges()[*at].is_shared();
            for direction in [Direction::AToB, Direction::BToA] {
                if shared || direction == *way {
                    view.free_bps[*at][direction.at()].0 -= rate;
                }
            }
        }
        let fits = fit(topology, view, rest, edges_max);
        view.free_bps = before;
        if fits {
            return true;
        }
    }
    false
}

#[test]
fn what_is_short_is_the_first_link_that_does_not_fit_and_all_of_it_that_does() {
    let (mut none, mut some, mut all) = (0, 0, 0);
    for seed in 0..3_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, points) = federation(&mut rng);
        let edges_max = rng.random_range(1..=4);
        let mut view = FrameView::empty_federation(&topology, fixtures::window());
        let site = |at: &VertexIndex| {
            let name = topology.vertex(*at).name.clone();
            SiteDemand {
                name: SiteName::composed(name.as_str()),
                cpus: Cpus(0),
                others: BTreeMap::new(),
                pinned: Some(name),
                excluded: BTreeSet::new(),
                windows: BTreeMap::new(),
            }
        };
        let mut links: Vec<LinkDemand> = Vec::new();
        for _ in 0..rng.random_range(1..=3) {
            let (from, to) = (rng.random_range(0..points.len()), rng.random_range(0..points.len()));
            if from != to && !links.iter().any(|link| (link.from, link.to) == (from, to)) {
                let bandwidth = BitsPerSecond(rng.random_range(1..=4) * 60);
                links.push(LinkDemand { from, to, bandwidth, latency_max: None, window: None });
            }
        }
        let start = Time::from_us(0);
        let timing =
            Timing { earliest_start: start, latest_start: start, duration: Span::from_secs(60) };
        let request = CoAllocation { sites: points.iter().map(site).collect(), links, timing };
        let stop = AtomicBool::new(false);
        let budget = Budget { nodes: 1 << 20, solver_time: Span::ZERO, stop: &stop };
        let planner = Exact::new(IpOptions {
            route_edges_max: edges_max as u32,
            exclude_opposite_arcs: true,
        });
        let found = short(&Instance::new(&topology, &request, &view), &planner, &budget);
        let prefix = |count: usize, last: u64| -> Vec<(VertexIndex, VertexIndex, u64)> {
            let ends = |link: &LinkDemand| (points[link.from], points[link.to], link.bandwidth.0);
            let mut links: Vec<_> = request.links[..count].iter().map(ends).collect();
            links[count - 1].2 = last;
            links
        };
        let counts = 1..=request.links.len();
        let mut whole = counts.map(|count| (count, request.links[count - 1].bandwidth.0));
        let first =
            whole.find(|(n, rate)| !fit(&topology, &mut view, &prefix(*n, *rate), edges_max));
        let expected = first.map(|(count, rate)| {
            let mut fits = |rate: &u64| fit(&topology, &mut view, &prefix(count, *rate), edges_max);
            let most = (1..rate).rev().find(|rate| fits(rate)).unwrap_or(0);
            Short::Link(count - 1, Amount(most))
        });
        assert_eq!(found, expected, "seed {seed}");
        match expected {
            None => all += 1,
            Some(Short::Link(_, Amount(0))) => none += 1,
            Some(_) => some += 1,
        }
    }
    assert!(none > 300 && some > 300 && all > 300, "{none} not at all, {some} in part, {all} fit");
}

#[test]
fn a_hold_wants_no_more_of_anything_than_a_request_may() {
    let mut topology = Topology::new();
    let a = topology.add_vertex(fixtures::site("A", "D", 8, 1)).expect("new");
    let b = topology.add_vertex(fixtures::site("B", "D", 8, 1)).expect("new");
    topology.add_edge(fixtures::edge("A-B", a, b, 100, 1)).expect("new");
    let shown = AbstractTopology::of(topology.into(), "g", &BTreeSet::new(), 4).expect("shown");
    let window = Window::starting(Time::from_us(0), Span::from_secs(60)).expect("a window");
    let wanted = |name: &str, amount| {
        shown.request(window, &[(ResourceId::composed(name), Amount(amount))].into())
    };
    for (name, most) in [("A", limits::CPUS_MAX), ("g:A--B", limits::BANDWIDTH_MAX_BPS)] {
        assert!(wanted(name, most).is_ok(), "{name}");
        let refusal = wanted(name, most + 1).expect_err("too much");
        assert_eq!(refusal.reason, Reason::BeyondCapacity);
        assert_eq!(refusal.resource, Some(ResourceId::composed(name)));
        assert_eq!(refusal.requested, Some(Amount(most + 1)));
    }
}
