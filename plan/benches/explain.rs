//! What an explanation costs, and how often there is one. Runs on ELGL under random and under
//! scarce loads, and on the large federation; only on refused frames.
//!
//! `cargo bench -p coalloc-plan --bench explain`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]
#![allow(clippy::expect_used, reason = "a bench that meets nonsense ends")]

#[path = "../tests/planners/fixtures/mod.rs"]
mod fixtures;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Reason, Span, Topology, VertexName};
use coalloc_plan::explain::explain;
use coalloc_plan::ip::{Exact, IpOptions};
use coalloc_plan::{Budget, FramePlanner, Instance, Outcome};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

static GO: AtomicBool = AtomicBool::new(false);
const BUDGET: Budget<'static> =
    Budget { nodes: 100_000, solver_time: Span::from_secs(1), stop: &GO };

type Load = fn(&Topology, &mut ChaCha8Rng) -> FrameView;

fn main() {
    let (elgl, large) = (fixtures::elgl(), fixtures::large());
    let cases: [(&str, &Topology, Load, bool, u64); 4] = [
        ("ELGL, random loads", &elgl, fixtures::random_loads, false, 20_000),
        ("ELGL, scarce", &elgl, fixtures::scarce, false, 20_000),
        ("ELGL, scarce, all pinned", &elgl, fixtures::scarce, true, 20_000),
        ("12 domains, random loads", &large, fixtures::random_loads, false, 2_000),
    ];
    println!("| refused frames of | frames | explained | median | 99th percentile | largest |");
    println!("|---|---|---|---|---|---|");
    for (name, topology, load, pinned, instances) in cases {
        run(name, topology, load, pinned, instances);
    }
    println!(
        "\n| requests of 10 frames | refused frames | explaining each | what a reservation shows |"
    );
    println!("|---|---|---|---|");
    reservations("ELGL, scarce, all pinned", &elgl, fixtures::scarce, true, 1_000);
    reservations("12 domains, random loads", &large, fixtures::random_loads, false, 100);
    reservations("12 domains, scarce, all pinned", &large, fixtures::scarce, true, 100);
}

/// Compares explaining every refused frame of a request with explaining only what the reservation
/// reports: one frame, when there is no plan at all. Adds up over all requests.
fn reservations(name: &str, topology: &Topology, load: Load, pinned: bool, requests: u64) {
    let options = IpOptions::default();
    let (mut each, mut shown, mut frames, mut refused_all) = (Duration::ZERO, Duration::ZERO, 0, 0);
    for seed in 0..requests {
        let mut rng = ChaCha8Rng::seed_from_u64(1_000_000 + seed);
        let shape = fixtures::paper_shape(&mut rng);
        let mut request = fixtures::paper_request(shape, &mut rng);
        if pinned {
            pin(topology, &mut request, &mut rng);
        }
        let mut refused = Vec::new();
        for _ in 0..10 {
            let view = load(topology, &mut rng);
            let instance = Instance::new(topology, &request, &view);
            if let Outcome::Refused(refusal) = Exact::new(options).plan(&instance, &BUDGET) {
                let begin = Instant::now();
                let _ = black_box(explain(topology, &request, &view, &options, refusal));
                refused.push(begin.elapsed());
            }
        }
        frames += refused.len();
        each += refused.iter().sum::<Duration>();
        if refused.len() == 10 {
            refused_all += 1;
            shown += refused[9];
        }
    }
    println!(
        "| {name}: {requests}, {refused_all} without any plan | {frames} | {each:.1?} | {shown:.1?} |"
    );
}

fn run(name: &str, topology: &Topology, load: Load, pinned: bool, instances: u64) {
    let options = IpOptions::default();
    let mut times: Vec<Duration> = Vec::new();
    let (mut told, mut kinds) = (0, BTreeMap::new());
    for seed in 0..instances {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let view = load(topology, &mut rng);
        let shape = fixtures::paper_shape(&mut rng);
        let mut request = fixtures::paper_request(shape, &mut rng);
        if pinned {
            pin(topology, &mut request, &mut rng);
        }
        let instance = Instance::new(topology, &request, &view);
        let Outcome::Refused(refusal) = Exact::new(options).plan(&instance, &BUDGET) else {
            continue;
        };
        if refusal.reason == Reason::BudgetExhausted {
            continue;
        }
        let begin = Instant::now();
        let refusal = black_box(explain(topology, &request, &view, &options, refusal));
        times.push(begin.elapsed());
        if let Some(found) = refusal.bottleneck {
            told += 1;
            *kinds.entry(found.kind).or_insert(0) += 1;
        }
    }
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    let largest = times.last().expect("some frame is refused");
    let frames = times.len();
    println!("| {name} | {frames} | {told} | {:.1?} | {:.1?} | {largest:.1?} |", at(50), at(99));
    eprintln!("{name}: {kinds:?}");
}

/// Pins every site to a different vertex.
fn pin(topology: &Topology, request: &mut CoAllocation, rng: &mut ChaCha8Rng) {
    let mut places: Vec<VertexName> =
        topology.sites().map(|(_, place, _)| place.name.clone()).collect();
    for site in &mut request.sites {
        site.pinned = Some(places.swap_remove(rng.random_range(0..places.len())));
    }
}
