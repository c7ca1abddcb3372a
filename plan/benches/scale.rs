//! Solver `exact` on federations of the size that comes next: 12 domains, 120 sites, 16 exchange
//! points.
//!
//! Runs [`INSTANCES`] seeded instances (`fixtures::scale`) for each shape of request and each mean
//! load. Times are processor time of the one searching thread, so that other programs on the
//! machine do not count. A search is told to stop after [`LIMIT`], which is checked every few
//! thousand nodes. "First plan" covers the feasible instances; "to proof" covers all that were
//! decided, refusals included.
//!
//! `cargo bench -p coalloc-plan --bench scale`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]
#![allow(clippy::expect_used, reason = "a bench that meets nonsense ends")]

#[path = "../tests/planners/fixtures/mod.rs"]
mod fixtures;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Reason, Span, Topology};
use coalloc_plan::ip::Exact;
use coalloc_plan::{Budget, Instance, Outcome};
use fixtures::scale;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const INSTANCES: u64 = 50;
/// The time within which a proof counts as in time.
const PROOF: Duration = Duration::from_millis(50);
/// The time within which a first plan counts as in time.
const FIRST: Duration = Duration::from_millis(10);
/// Wall time after which a search is told to stop.
const LIMIT: Duration = Duration::from_millis(1000);

/// Processor time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The result of one instance.
struct Run {
    time: Duration,
    first: Option<(Duration, u64)>,
    nodes: u64,
    /// Cost and lower bound; `None` when it is proven that there is no plan.
    bounds: Option<(u64, u64)>,
    decided: bool,
}

fn run(topology: &Topology, request: &CoAllocation, view: &FrameView) -> Run {
    let stop = AtomicBool::new(false);
    let budget = Budget { nodes: u64::MAX, solver_time: Span::ZERO, stop: &stop };
    let instance = Instance::new(topology, request, view);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let end = Instant::now() + LIMIT;
            while !done.load(Ordering::Relaxed) && Instant::now() < end {
                std::thread::park_timeout(Duration::from_millis(2));
            }
            stop.store(true, Ordering::Relaxed);
        });
        let begin = cpu_time();
        let mut first = None;
        let searched = Exact::default().search(&instance, &budget, &mut |_, nodes| {
            first.get_or_insert_with(|| (cpu_time() - begin, nodes));
        });
        let time = cpu_time() - begin;
        done.store(true, Ordering::Relaxed);
        let (bounds, decided) = match &searched.outcome {
            Outcome::Planned(plan) => {
                (Some((plan.cost, plan.lower_bound)), plan.is_proven_optimal())
            }
            Outcome::Refused(refusal) => (None, refusal.reason != Reason::BudgetExhausted),
        };
        Run { time, first, nodes: searched.nodes, bounds, decided }
    })
}

fn percentile<T: Copy + Ord>(values: &[T], percent: usize) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied()
}

fn ms(time: Option<Duration>) -> String {
    time.map_or("-".into(), |time| format!("{:.3}", time.as_secs_f64() * 1e3))
}

fn print_row(name: &str, runs: &[&Run]) {
    let feasible: Vec<&&Run> = runs.iter().filter(|run| run.bounds.is_some()).collect();
    let undecided = runs.iter().filter(|run| run.bounds.is_none() && !run.decided).count();
    let decided: Vec<Duration> =
        runs.iter().filter(|run| run.decided).map(|run| run.time).collect();
    let within = decided.iter().filter(|time| **time <= PROOF).count();
    let firsts: Vec<Duration> = feasible.iter().filter_map(|run| run.first).map(|f| f.0).collect();
    let early = firsts.iter().filter(|time| **time <= FIRST).count();
    let nodes: Vec<u64> = runs.iter().map(|run| run.nodes).collect();
    // The gap in hundredths of a percent of the cost.
    let gaps: Vec<u64> = feasible
        .iter()
        .filter(|run| !run.decided)
        .filter_map(|run| run.bounds)
        .map(|(cost, bound)| (cost - bound) * 10_000 / cost.max(1))
        .collect();
    let gap = percentile(&gaps, 100).map_or("-".into(), |gap| format!("{:.2}", gap as f64 / 1e2));
    println!(
        "{name:<18} {:>5} {:>5} {undecided:>5} {:>6} {within:>6} {:>9} {:>9} {early:>6} {:>9} {:>9} {:>9} {gap:>7}",
        runs.len(),
        feasible.len(),
        decided.len(),
        ms(percentile(&decided, 50)),
        ms(percentile(&decided, 99)),
        ms(percentile(&firsts, 100)),
        percentile(&nodes, 50).unwrap_or(0),
        percentile(&nodes, 100).unwrap_or(0),
    );
}

/// One row of the table: [`INSTANCES`] instances of one kind.
fn row(
    name: &str,
    first_seed: u64,
    detail: bool,
    make: impl Fn(&mut ChaCha8Rng) -> (Topology, CoAllocation, FrameView),
) -> Vec<Run> {
    let mut runs = Vec::new();
    for seed in first_seed..first_seed + INSTANCES {
        let (topology, request, view) = make(&mut ChaCha8Rng::seed_from_u64(seed));
        let run = run(&topology, &request, &view);
        if detail {
            let Run { time, first, nodes, bounds, decided } = &run;
            let time = ms(Some(*time));
            println!(
                "  {name} {seed}: {bounds:?} {time} ms, {nodes} nodes, first {first:?}, {decided}"
            );
        }
        runs.push(run);
    }
    print_row(name, &runs.iter().collect::<Vec<_>>());
    runs
}

fn main() {
    let detail = std::env::args().any(|argument| argument == "--detail");
    println!(
        "{:<18} {:>5} {:>5} {:>5} {:>6} {:>6} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>7}",
        "",
        "count",
        "feas",
        "undec",
        "proven",
        "<50ms",
        "med ms",
        "p99 ms",
        "<10ms",
        "first ms",
        "med nodes",
        "max nodes",
        "gap %"
    );
    let mut all = Vec::new();
    for (shape, (name, sites, links)) in (0..).zip(scale::shapes()) {
        for load in scale::LOADS {
            let seed = 1_000 * load + 1_000_000 * shape;
            all.extend(row(&format!("{name} {load} %"), seed, detail, |rng| {
                let topology = scale::topology();
                let request = scale::request(sites, &links, rng);
                let view = scale::loaded(&topology, load, rng);
                (topology, request, view)
            }));
        }
    }
    print_row("all", &all.iter().collect::<Vec<_>>());
    // Beyond the required instances: other loads, other values, more links.
    let mesh = (0..8).flat_map(|a| (a + 1..8).map(move |b| (a, b))).collect();
    let shapes = scale::shapes().into_iter().chain([("mesh-8", 8, mesh)]);
    for (shape, (name, sites, links)) in (10..).zip(shapes) {
        let seed = 1_000_000 * shape;
        row(&format!("{name} random"), seed, detail, |rng| {
            let topology = scale::topology();
            let request = scale::request(sites, &links, rng);
            let view = fixtures::random_loads(&topology, rng);
            (topology, request, view)
        });
        row(&format!("{name} varied 70 %"), seed + 1_000, detail, |rng| {
            let topology = scale::varied(rng);
            let request = scale::request(sites, &links, rng);
            let view = scale::loaded(&topology, 70, rng);
            (topology, request, view)
        });
    }
}
