//! Frames in which demands may share sites: how long one frame takes, by kind of frame.
//!
//! Seven sites of one domain, fully meshed, with seeded loads; every case has 200 frames. Prints how
//! many fit, how many are refuted and how many end their budget, the nodes, the resources of a
//! conflict, and the time of the least of several repeats.
//!
//! `cargo bench -p coalloc-plan --bench shared`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]
#![allow(clippy::expect_used, reason = "a bench that meets nonsense ends")]

#[path = "../tests/planners/fixtures/mod.rs"]
mod fixtures;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use coalloc_common::topology::FrameView;
use coalloc_common::{BitsPerSecond, Cpus, LinkDemand, Topology, VertexIndex};
use coalloc_plan::Budget;
use coalloc_plan::ip::shared::{SharedFrame, SharedMember, SharedOutcome, place};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const FRAMES: u64 = 200;
const REPEATS: usize = 5;
const BUDGET: Budget<'static> = Budget { nodes: 100_000, ..fixtures::AMPLE };
const GIGABIT: u64 = 1_000_000_000;

struct Frame {
    view: FrameView,
    members: Vec<SharedMember>,
    links: Vec<LinkDemand>,
}

fn mesh() -> Topology {
    fixtures::federation(&[("M", &[64; 7], &[])])
}

/// A frame with these free CPUs and rates, members at any site in a random order, and links.
fn frame(
    rng: &mut ChaCha8Rng,
    cpus: impl Fn(&mut ChaCha8Rng) -> u64,
    gigabits: u64,
    wants: &[u64],
    links: &[(usize, usize, u64)],
) -> Frame {
    let topology = mesh();
    let mut view = FrameView::empty_federation(&topology, fixtures::window());
    for free in &mut view.free_cpus {
        *free = Cpus(cpus(rng));
    }
    for free in &mut view.free_bps {
        *free = [BitsPerSecond(rng.random_range(0..=gigabits) * GIGABIT); 2];
    }
    let members = wants
        .iter()
        .map(|cpus| {
            let mut candidates: Vec<VertexIndex> = (0..7).map(VertexIndex).collect();
            candidates.rotate_left(rng.random_range(0..7));
            SharedMember { cpus: Cpus(*cpus), others: BTreeMap::new(), candidates }
        })
        .collect();
    let link = |(from, to, rate): &(usize, usize, u64)| LinkDemand {
        from: *from,
        to: *to,
        bandwidth: BitsPerSecond(rate * GIGABIT),
        latency_max: None,
        window: None,
    };
    Frame { view, members, links: links.iter().map(link).collect() }
}

/// The same list of candidates for all members.
fn alike(mut frame: Frame) -> Frame {
    let candidates = frame.members[0].candidates.clone();
    frame.members.iter_mut().for_each(|member| member.candidates.clone_from(&candidates));
    frame
}

fn ring(members: usize, rate: u64) -> Vec<(usize, usize, u64)> {
    (0..members).map(|member| (member, (member + 1) % members, rate)).collect()
}

/// Amounts with this sum, random in 1 to 8.
fn parts(rng: &mut ChaCha8Rng, count: u64, sum: u64) -> Vec<u64> {
    let mut parts: Vec<u64> = (0..count).map(|_| rng.random_range(1..=8)).collect();
    loop {
        let now: u64 = parts.iter().sum();
        let at = rng.random_range(0..count as usize);
        match now.cmp(&sum) {
            std::cmp::Ordering::Less => parts[at] += 1,
            std::cmp::Ordering::Greater => parts[at] = (parts[at] - 1).max(1),
            std::cmp::Ordering::Equal => return parts,
        }
    }
}

fn run(name: &str, make: impl Fn(&mut ChaCha8Rng) -> Frame) {
    let topology = mesh();
    let (mut times, mut nodes, mut conflicts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut fit, mut refuted, mut stopped) = (0, 0, 0);
    for seed in 0..FRAMES {
        let made = make(&mut ChaCha8Rng::seed_from_u64(seed));
        let shared = SharedFrame {
            topology: &topology,
            view: &made.view,
            members: &made.members,
            links: &made.links,
            route_edges_max: 4,
        };
        let mut least = Duration::MAX;
        let mut answer = None;
        for _ in 0..REPEATS {
            let begin = Instant::now();
            let found = black_box(place(&shared, &BUDGET, &mut |_| true));
            least = least.min(begin.elapsed());
            answer = Some(found);
        }
        let answer = answer.expect("at least one repeat");
        times.push(least);
        nodes.push(answer.nodes);
        match answer.outcome {
            SharedOutcome::Fits { .. } => fit += 1,
            SharedOutcome::Refuted { conflict, .. } => {
                refuted += 1;
                conflicts.push(conflict.sites.len() + conflict.edges.len());
            }
            SharedOutcome::Stopped => stopped += 1,
        }
    }
    times.sort_unstable();
    nodes.sort_unstable();
    conflicts.sort_unstable();
    let us = |at: usize| times[at].as_secs_f64() * 1e6;
    println!(
        "{name:<34} {fit:>4} {refuted:>8} {stopped:>8} {:>9.1} {:>9.1} {:>9.1} {:>6} {:>7} {:>9}",
        us(100),
        us(198),
        us(199),
        nodes[100],
        nodes[199],
        conflicts.get(conflicts.len() / 2).map_or(String::from("-"), usize::to_string),
    );
}

fn main() {
    println!(
        "{:<34} {:>4} {:>8} {:>8} {:>9} {:>9} {:>9} {:>6} {:>7} {:>9}",
        "",
        "fit",
        "refuted",
        "stopped",
        "median us",
        "p99 us",
        "max us",
        "nodes",
        "most",
        "conflict"
    );
    run("3 members, at first choice", |rng| alike(frame(rng, |_| 64, 10, &[4; 3], &ring(3, 1))));
    run("3 members, apart, empty", |rng| frame(rng, |_| 64, 10, &[4; 3], &ring(3, 1)));
    run("3 members, loaded", |rng| {
        frame(rng, |rng| rng.random_range(0..=16), 4, &[4, 8, 4], &ring(3, 1))
    });
    run("5 members, loaded, one list", |rng| {
        alike(frame(rng, |rng| rng.random_range(0..=12), 3, &[4, 8, 4, 8, 4], &ring(5, 1)))
    });
    run("16 members, 1 CPU too much", |rng| {
        let wants = parts(rng, 16, 7 * 10 + 1);
        frame(rng, |_| 10, 10, &wants, &[])
    });
    run("16 members, every CPU wanted", |rng| {
        let wants = parts(rng, 16, 7 * 10);
        frame(rng, |_| 10, 10, &wants, &[])
    });
    run("16 equal members, one too many", |rng| frame(rng, |_| 17, 10, &[8; 16], &ring(16, 1)));
    run("16 members, bad sizes", |rng| {
        let wants: Vec<u64> =
            (0..16).map(|at| [5, 6, 7, 9][at % 4] + rng.random_range(0..2)).collect();
        frame(rng, |_| 17, 10, &wants, &[])
    });
    run("16 members, tight, ring", |rng| {
        let wants = parts(rng, 16, 7 * 10 - 2);
        frame(rng, |_| 10, 2, &wants, &ring(16, 1))
    });
    run("32 members, ring, roomy", |rng| {
        frame(rng, |rng| rng.random_range(16..=40), 10, &[4; 32], &ring(32, 1))
    });
    run("32 members, ring, one list", |rng| {
        alike(frame(rng, |rng| rng.random_range(16..=24), 10, &[4; 32], &ring(32, 1)))
    });
    run("32 members, ring, few edges", |rng| {
        frame(rng, |rng| rng.random_range(16..=24), 1, &[4; 32], &ring(32, 1))
    });
}
