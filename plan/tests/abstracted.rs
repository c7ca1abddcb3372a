//! The abstract paths of a federation are what an enumeration of every simple path finds.

#![allow(clippy::expect_used, reason = "a test that meets nonsense ends")]

mod fixtures;

use std::collections::BTreeSet;

use coalloc_common::topology::{Direction, Duplex, FrameView};
use coalloc_common::{BitsPerSecond, ResourceId, Span, Topology, VertexIndex};
use coalloc_plan::abstracted::{is_full_duplex, paths, widest};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Two to six vertices and up to nine edges, parallel ones among them; some joined to nothing.
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

/// Every simple path from the end of `path` to `target`, as steps over edges.
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
    let (mut joined, mut apart, mut both_ways, mut mixed) = (0, 0, 0, 0);
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
                // Widest first, then the cheapest, then the quickest of those.
                let best = found.iter().map(|route| {
                    let edges = edges(route).into_iter().map(|at| &topology.edges()[at]);
                    let width = edges.clone().map(|edge| edge.capacity).min().expect("not empty");
                    let value: u64 = edges.clone().map(|edge| edge.unit_value.0).sum();
                    let latency = edges.fold(Span::ZERO, |sum, e| sum.saturating_add(e.latency));
                    (std::cmp::Reverse(width), value, latency)
                });
                match best.min() {
                    Some((width, value, latency)) => {
                        expected.push((*a, *b, width.0, value, latency));
                        joined += 1;
                    }
                    None => apart += 1,
                }
            }
        }
        let shown: Vec<_> =
            shown.iter().map(|p| (p.a, p.b, p.width, p.unit_value, p.latency)).collect();
        assert_eq!(shown, expected, "seed {seed}");
        let shared = topology.edges().iter().filter(|edge| edge.is_shared()).count();
        let all_full = shared == 0 && !topology.edges().is_empty();
        assert_eq!(is_full_duplex(&topology), all_full, "seed {seed}");
        both_ways += u32::from(all_full);
        mixed += u32::from(shared > 0 && shared < topology.edges().len());
    }
    assert!(joined > 5_000 && apart > 5_000, "{joined} joined, {apart} apart");
    assert!(both_ways > 500 && mixed > 500, "{both_ways} full duplex, {mixed} mixed");
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
