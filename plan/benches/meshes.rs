//! Solver `exact` where links compete: full meshes on wide-area networks and grids, and requests
//! of 8 and 10 sites on many domains.
//!
//! Runs [`INSTANCES`] seeded instances (`fixtures::wide`) of each kind with a budget of nodes, so
//! that the counts are the same on every machine; and then, with `--time`, each for [`LIMIT`] of
//! processor time.
//!
//! `cargo bench -p coalloc-plan --bench meshes [-- --time] [-- --detail]`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]
#![allow(clippy::expect_used, reason = "a bench that meets nonsense ends")]

#[path = "../tests/planners/fixtures/mod.rs"]
mod fixtures;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Reason, Span, Topology};
use coalloc_plan::baseline::Backtrack;
use coalloc_plan::ip::{Exact, verify};
use coalloc_plan::{Budget, FramePlanner, Instance, Outcome};
use fixtures::wide::{self, mesh, ring};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const INSTANCES: u64 = 10;
/// Processor time after which a search is told to stop.
const LIMIT: Duration = Duration::from_millis(1000);

/// Processor time of a thread.
fn cpu_time(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Plans within [`LIMIT`] of the processor time of the process, whose other thread only waits.
fn plan(planner: &dyn FramePlanner, instance: &Instance<'_>) -> (Outcome, Duration) {
    let clock = rustix::time::ClockId::ProcessCPUTime;
    let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let begin = cpu_time(clock);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) && cpu_time(clock) - begin < LIMIT {
                std::thread::park_timeout(Duration::from_millis(2));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let budget = Budget { nodes: u64::MAX, solver_time: Span::ZERO, stop: &stop };
        let outcome = planner.plan(instance, &budget);
        done.store(true, Ordering::Relaxed);
        (outcome, cpu_time(clock) - begin)
    })
}

/// One row of the table.
fn row(
    name: &str,
    route_edges: u32,
    make: impl Fn(&mut ChaCha8Rng) -> (Topology, CoAllocation, FrameView),
) {
    let detail = std::env::args().any(|argument| argument == "--detail");
    let only = std::env::args().skip_while(|argument| argument != "--only").nth(1);
    if only.is_some_and(|only| !name.contains(&only)) {
        return;
    }
    let (mut planned, mut proven, mut refuted, mut lost) = (0, 0, 0, 0);
    let (mut gaps, mut times) = (Vec::new(), Vec::new());
    for seed in 0..INSTANCES {
        let (topology, request, view) = make(&mut ChaCha8Rng::seed_from_u64(seed));
        let instance = Instance::new(&topology, &request, &view);
        let options = fixtures::hops(route_edges);
        let (baseline, _) = plan(&Backtrack { options }, &instance);
        let (outcome, time) = plan(&Exact::new(options), &instance);
        let mut said = String::from("refuted");
        match &outcome {
            Outcome::Planned(plan) => {
                assert_eq!(verify(&instance, &options, plan), Ok(()));
                planned += 1;
                proven += u32::from(plan.is_proven_optimal());
                gaps.push((plan.cost - plan.lower_bound) * 10_000 / plan.cost.max(1));
                said = format!("cost {} bound {}", plan.cost, plan.lower_bound);
            }
            Outcome::Refused(why) if why.reason == Reason::BudgetExhausted => {
                lost += u32::from(matches!(baseline, Outcome::Planned(_)));
                said = String::from("open");
            }
            Outcome::Refused(_) => refuted += 1,
        }
        times.push(time);
        if detail {
            let baseline = match baseline {
                Outcome::Planned(plan) => plan.cost.to_string(),
                Outcome::Refused(why) => format!("{:?}", why.reason),
            };
            println!("  {name} {seed}: {said}, {time:?}; backtrack: {baseline}");
        }
    }
    gaps.sort_unstable();
    times.sort_unstable();
    let decided = proven + refuted;
    println!(
        "{name:<28} {INSTANCES:>3} {planned:>5} {refuted:>6} {decided:>6} {lost:>5} {:>8.2} {:>8.2} {:>9.1}",
        gaps.get(gaps.len() / 2).map_or(0.0, |gap| *gap as f64 / 100.0),
        gaps.last().map_or(0.0, |gap| *gap as f64 / 100.0),
        times[times.len() / 2].as_secs_f64() * 1e3,
    );
}

fn main() {
    println!(
        "{:<28} {:>3} {:>5} {:>6} {:>6} {:>5} {:>8} {:>8} {:>9}",
        "", "n", "plans", "none", "decid", "lost", "med gap", "max gap", "med ms"
    );
    for (sites, degree, most) in
        [(10, 30, 2), (10, 40, 2), (20, 30, 2), (20, 40, 2), (40, 30, 2), (40, 40, 2), (40, 30, 4)]
    {
        for edges in [4, 6, 8] {
            let name = format!("wan {sites} d{degree} g{most} N{edges} mesh-5");
            row(&name, edges, |rng| {
                let topology = wide::wan(sites, degree, most, rng);
                let view = FrameView::empty_federation(&topology, fixtures::window());
                (topology, wide::request(5, &mesh(5)), view)
            });
        }
    }
    for most in [2, 4] {
        row(&format!("grid 64 g{most} N16 mesh-5"), 16, |rng| {
            let topology = wide::grid(8, most, rng);
            let view = FrameView::empty_federation(&topology, fixtures::window());
            (topology, wide::request(5, &mesh(5)), view)
        });
    }
    for load in [0, 50, 70] {
        row(&format!("12 x 10, {load} % N4 mesh-8"), 4, |rng| {
            let topology = fixtures::scale::topology();
            let view = fixtures::scale::loaded(&topology, load, rng);
            (topology, wide::request(8, &mesh(8)), view)
        });
    }
    for load in [0, 30] {
        for (name, links) in [("mesh-10", mesh(10)), ("ring-10", ring(10))] {
            row(&format!("40 x 10, {load} % N4 {name}"), 4, |rng| {
                let topology = wide::domains(40);
                let view = wide::worn(&topology, load, rng);
                (topology, wide::request(10, &links), view)
            });
        }
    }
}
