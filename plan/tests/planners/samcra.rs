//! SAMCRA compared with exhaustive search; hop-by-hop routing without cycles; the planners `samcra`
//! and `samcra-hbh`.

use std::sync::atomic::AtomicBool;

use crate::fixtures::multicost::{GIGABIT, SLOT_BYTES, TINY, cluster, grid, link, task, tiny};
use coalloc_common::{AvailabilityVector, Cpus, Reason, Slot, Span, Time};
use coalloc_plan::Budget;
use coalloc_plan::multicost::samcra::route::{Edge, Graph, Length, Route};
use coalloc_plan::multicost::{
    BelievedNetwork, ClusterView, Effort, Samcra, Scratch, Task, TaskInstance, TaskOutcome,
    TaskPlanner, check,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const GRAPHS: u64 = 3_000;

/// A random graph: its edges, limits, source and target. Weights are small, so that many are equal,
/// and often all are zero.
fn random_graph<const K: usize>(
    random: &mut ChaCha8Rng,
) -> (Vec<Edge<K>>, [u64; K], u32, Graph<K>) {
    let vertices = random.random_range(2..8_u32);
    let limits = std::array::from_fn(|_| random.random_range(3..30));
    let (mut graph, mut edges) = (Graph::new(vertices as usize, limits), Vec::new());
    for from in 0..vertices {
        for to in (0..vertices).filter(|to| *to != from) {
            for _ in 0..random.random_range(0..3) {
                let nothing = random.random_bool(0.25);
                let weights =
                    std::array::from_fn(|_| if nothing { 0 } else { random.random_range(0..8) });
                let edge = Edge { from, to, weights };
                graph.add(edge);
                edges.push(edge);
            }
        }
    }
    (edges, limits, vertices - 1, graph)
}

/// The shortest of all simple paths.
fn exhaustive<const K: usize>(
    graph: &Graph<K>,
    edges: &[Edge<K>],
    path: &mut Vec<u32>,
    at: u32,
    target: u32,
    weights: [u64; K],
) -> Option<Length<K>> {
    if !graph.keeps_limits(weights) {
        return None;
    }
    if at == target {
        return Some(graph.length(weights, path.len() as u32 - 1));
    }
    let mut best = None;
    for edge in edges.iter().filter(|edge| edge.from == at) {
        if path.contains(&edge.to) {
            continue;
        }
        path.push(edge.to);
        let sums = std::array::from_fn(|k| weights[k] + edge.weights[k]);
        let found = exhaustive(graph, edges, path, edge.to, target, sums);
        best = best.into_iter().chain(found).min();
        path.pop();
    }
    best
}

fn vertices_of<const K: usize>(edges: &[Edge<K>], route: &Route<K>) -> Vec<u32> {
    let mut vertices = vec![edges[route.edges[0] as usize].from];
    for edge in &route.edges {
        let edge = edges[*edge as usize];
        assert_eq!(edge.from, vertices[vertices.len() - 1], "edges follow one another");
        vertices.push(edge.to);
    }
    vertices
}

fn compare<const K: usize>() -> (u64, u64) {
    let (mut found, mut other) = (0, 0);
    for seed in 0..GRAPHS {
        let (edges, _, target, graph) = random_graph::<K>(&mut ChaCha8Rng::seed_from_u64(seed));
        let best = exhaustive(&graph, &edges, &mut vec![0], 0, target, [0; K]);
        let mut effort = Effort::default();
        let route = graph.samcra(0, target, &mut effort);
        let length =
            route.as_ref().map(|route| graph.length(route.weights, route.edges.len() as u32));
        assert_eq!(length, best, "seed {seed}");
        let hop_by_hop = graph.hop_by_hop(0, target, &mut effort);
        let Some(route) = route else {
            assert_eq!(hop_by_hop, None, "seed {seed}");
            continue;
        };
        found += 1;
        vertices_of(&edges, &route);
        // Does step by step what every vertex does, and never comes back to a vertex.
        let (mut walk, mut weights, mut at) = (vec![0], [0; K], 0);
        while at != target {
            let next = graph.samcra(at, target, &mut effort).unwrap().edges[0] as usize;
            at = edges[next].to;
            weights = std::array::from_fn(|k| weights[k] + edges[next].weights[k]);
            assert!(!walk.contains(&at), "seed {seed}: a circle from {walk:?} to {at}");
            walk.push(at);
        }
        // A vertex of the path may choose another route than the source would, so the limits may be
        // exceeded.
        let Some(hops) = hop_by_hop else {
            assert!(!graph.keeps_limits(weights), "seed {seed}");
            other += 1;
            continue;
        };
        assert_eq!((vertices_of(&edges, &hops), hops.weights), (walk, weights), "seed {seed}");
        let hops_length = graph.length(hops.weights, hops.edges.len() as u32);
        assert!(Some(hops_length) >= best, "seed {seed}");
        other += u64::from(Some(hops_length) != best);
    }
    (found, other)
}

#[test]
fn samcra_is_what_exhaustive_search_finds_and_hop_by_hop_makes_no_circle() {
    for (weights, (found, other)) in [(1, compare::<1>()), (2, compare::<2>()), (3, compare::<3>())]
    {
        println!(
            "{weights} weights: {found} of {GRAPHS} have a path; hop by hop differs in {other}"
        );
        assert!(found > GRAPHS / 2 && found < GRAPHS, "{found}");
        // With one weight, the rest of every shortest path is a shortest path.
        assert_eq!(other > 0, weights > 1, "{other}");
    }
}

/// Fig. 4 and section 3.4 of Stevens 2009: by the largest entry alone, both paths have length 0.4;
/// by all entries, (0.4, 0.1) comes before (0.4, 0.2).
#[test]
fn the_papers_example_takes_the_path_that_the_original_misses() {
    let (c, b, e) = (0, 1, 2);
    let mut graph = Graph::new(3, [10, 10]);
    for (from, to, weights) in [(c, b, [2, 1]), (b, e, [2, 1]), (c, e, [4, 1])] {
        graph.add(Edge { from, to, weights });
    }
    let route = graph.samcra(c, e, &mut Effort::default()).unwrap();
    assert_eq!((route.edges.as_slice(), route.weights), ([2].as_slice(), [4, 1]));
    let (direct, around) = (graph.length([4, 1], 1), graph.length([4, 2], 2));
    assert_eq!((direct.0, around.0), ([40, 10], [40, 20]), "on one denominator, 100");
    assert!(direct < around && direct.0[0] == around.0[0]);
    // Above a limit there is no path, however short.
    let mut tight = Graph::new(3, [3, 10]);
    tight.add(Edge { from: c, to: e, weights: [4, 1] });
    assert_eq!(tight.samcra(c, e, &mut Effort::default()), None);
}

/// Two vertices joined by edges without cost: neither forwards back to the other.
#[test]
fn edges_without_weight_make_no_circle() {
    let mut graph = Graph::new(4, [10, 10]);
    for (from, to, weights) in [
        (0, 1, [0, 0]),
        (1, 0, [0, 0]),
        (1, 2, [0, 0]),
        (2, 1, [0, 0]),
        (0, 3, [5, 5]),
        (2, 3, [5, 5]),
    ] {
        graph.add(Edge { from, to, weights });
    }
    for source in 0..3 {
        let route = graph.hop_by_hop(source, 3, &mut Effort::default()).unwrap();
        assert_eq!(route.weights, [5, 5]);
        assert!(route.edges.len() <= 2, "{:?}", route.edges);
    }
}

fn plan(planner: &Samcra, picture: &BelievedNetwork, task: &Task) -> TaskOutcome {
    let stop = AtomicBool::new(false);
    let budget = Budget { nodes: u64::MAX, solver_time: Span::ZERO, stop: &stop };
    let instance = TaskInstance::new(task, picture).unwrap();
    planner.plan(&instance, &budget, &mut Scratch::default()).outcome
}

#[test]
fn what_samcra_plans_begins_at_once_and_holds_on_the_picture() {
    let mut counts = [0, 0];
    for seed in 0..GRAPHS {
        let (picture, task) = tiny(&mut ChaCha8Rng::seed_from_u64(seed));
        let instance = TaskInstance::new(&task, &picture).unwrap();
        for (hop_by_hop, count) in [false, true].into_iter().zip(&mut counts) {
            let planner = Samcra::new(hop_by_hop);
            let TaskOutcome::Planned(plans) = plan(&planner, &picture, &task) else { continue };
            assert_eq!(check::check(&instance, &plans[0]), Ok(()), "seed {seed}");
            let grid = picture.cluster_grid();
            assert_eq!(plans[0].run.start(), grid.start_of(grid.first_from(plans[0].arrival)));
            *count += 1;
        }
    }
    println!("samcra, samcra-hbh: {counts:?} of {GRAPHS}");
    assert!(counts.iter().all(|count| *count > GRAPHS / 20), "{counts:?}");
}

#[test]
fn load_and_delay_are_weighed_together() {
    let all = || AvailabilityVector::everything(grid(TINY.0), Slot(0), 40).unwrap();
    let mut picture =
        BelievedNetwork::new(3, grid(TINY.0), GIGABIT, grid(TINY.0), Cpus(1)).unwrap();
    for (index, to, ms) in [(0, 1, 2), (2, 2, 4)] {
        picture.add_link(link(index, 0, to, Span::from_millis(ms), vec![all()])).unwrap();
    }
    for (vertex, busy) in [(1, 6), (2, 3)] {
        let view = ClusterView { busy: Cpus(busy), ..cluster(vertex, 10, 1_000, all()) };
        picture.add_cluster(view).unwrap();
    }
    let task = task(0, 2 * SLOT_BYTES, 3, Time::from_us(0));
    let by = |delay_max: i64| {
        let delay_max = Span::from_millis(delay_max);
        let planner = Samcra { delay_max, ..Samcra::new(false) };
        match plan(&planner, &picture, &task) {
            TaskOutcome::Planned(plans) => Ok(plans[0].cluster),
            TaskOutcome::Refused(refusal) => Err(refusal.refusal.reason),
        }
    };
    // With a limit of one second the lengths are (0.002, 0.6) and (0.004, 0.3), so the load
    // decides; with 5 ms they are (0.4, 0.6) and (0.8, 0.3).
    assert_eq!((by(1_000), by(5), by(3)), (Ok(1), Ok(0), Ok(0)));
    assert_eq!(by(1), Err(Reason::NoRoute));
}
