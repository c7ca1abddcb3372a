//! Planner `ip` on the paper's federation: how long one frame takes, solver by solver, in one run.
//!
//! 1,000 seeded instances of ELGL: every resource loaded at random (`fixtures::random_loads`), the
//! four request types evenly, 1 Gbit/s, feasible and infeasible. A median and a p99 say more here
//! than a mean, so this is a plain program that prints a table. Every solver answers the same
//! instances, and its value must be the exact one. With cargo feature `highs`, HiGHS is timed too;
//! microlp is timed on every tenth instance.
//!
//! `cargo bench -p coalloc-plan --bench ip [--features highs]`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]
#![allow(clippy::expect_used, reason = "a bench that meets nonsense ends")]

#[path = "../tests/planners/fixtures/mod.rs"]
mod fixtures;

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Span, Topology};
use coalloc_plan::ip::{Exact, IpOptions, Mip, MipBackend};
use coalloc_plan::{Budget, FramePlanner, Instance, Outcome};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const INSTANCES: u64 = 1_000;
/// `exact` runs each instance this often and the median time is kept, because times of microseconds
/// are noisy.
const REPEATS: usize = 5;

static GO: AtomicBool = AtomicBool::new(false);
const BUDGET: Budget<'static> =
    Budget { nodes: 100_000_000, solver_time: Span::from_secs(120), stop: &GO };

struct Case {
    shape: usize,
    request: CoAllocation,
    view: FrameView,
}

/// Times and values for each instance; the value is missing where the answer was a refusal.
struct Timings {
    times: Vec<Duration>,
    values: Vec<Option<u64>>,
}

fn run(
    planner: &dyn FramePlanner,
    topology: &Topology,
    instances: &[&Case],
    repeats: usize,
) -> Timings {
    let mut timings = Timings { times: Vec::new(), values: Vec::new() };
    for Case { request, view, .. } in instances {
        let mut times = Vec::new();
        let mut outcome = None;
        for _ in 0..repeats {
            let begin = Instant::now();
            let answer = black_box(planner.plan(&Instance::new(topology, request, view), &BUDGET));
            times.push(begin.elapsed());
            outcome = Some(answer);
        }
        timings.times.push(percentile(&times, 50));
        timings.values.push(match outcome.expect("at least one repeat") {
            Outcome::Planned(plan) => {
                assert!(plan.is_proven_optimal());
                Some(plan.cost)
            }
            Outcome::Refused(refusal) => {
                assert_ne!(refusal.reason, coalloc_common::Reason::BudgetExhausted, "{refusal}");
                None
            }
        });
    }
    timings
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

fn print_row(name: &str, times: &[Duration], feasible: usize) {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{name:<30} {:>6} {feasible:>9} {:>12.1} {:>12.1} {:>12.1}",
        times.len(),
        us(percentile(times, 50)),
        us(percentile(times, 99)),
        us(percentile(times, 100)),
    );
}

fn print_timings(name: &str, timings: &Timings) {
    print_row(name, &timings.times, timings.values.iter().flatten().count());
}

fn print_machine() {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("machine: {cores} cores, {model}");
}

/// Another solver on the same instances. Its values have to be equal; prints how many times slower
/// its median is.
fn compare(
    name: &str,
    backend: MipBackend,
    topology: &Topology,
    instances: &[&Case],
    exact: &Timings,
    every: usize,
) {
    let chosen: Vec<&Case> = instances.iter().copied().step_by(every).collect();
    let mip = Mip::new(IpOptions::default(), backend);
    let timings = run(&mip, topology, &chosen, 1);
    let values: Vec<Option<u64>> = exact.values.iter().copied().step_by(every).collect();
    let times: Vec<Duration> = exact.times.iter().copied().step_by(every).collect();
    assert_eq!(timings.values, values, "{name} and exact differ");
    print_timings(name, &timings);
    let ratio = percentile(&timings.times, 50).as_secs_f64() / percentile(&times, 50).as_secs_f64();
    println!("  values equal on all {}; ratio of medians {name} / exact: {ratio:.0}", chosen.len());
}

/// Instances in which routes compete (`fixtures::scarce`), for `exact` alone.
fn scarce() {
    let topology = fixtures::elgl();
    for route_edges_max in [4, 8] {
        let instances: Vec<Case> = (0..INSTANCES)
            .map(|seed| {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let shape = fixtures::paper_shape(&mut rng);
                let request = fixtures::paper_request(shape, &mut rng);
                Case { shape, request, view: fixtures::scarce(&topology, &mut rng) }
            })
            .collect();
        let instances: Vec<&Case> = instances.iter().collect();
        let exact = Exact::new(IpOptions { route_edges_max, ..IpOptions::default() });
        let timings = run(&exact, &topology, &instances, 1);
        print_timings(&format!("exact, few edges, N_max {route_edges_max}"), &timings);
    }
}

fn elgl() {
    let topology = fixtures::elgl();
    let instances: Vec<Case> = (0..INSTANCES)
        .map(|seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let shape = fixtures::paper_shape(&mut rng);
            let request = fixtures::paper_request(shape, &mut rng);
            Case { shape, request, view: fixtures::random_loads(&topology, &mut rng) }
        })
        .collect();
    let instances: Vec<&Case> = instances.iter().collect();
    let exact = run(&Exact::default(), &topology, &instances, REPEATS);
    print_timings("exact, ELGL", &exact);
    for (shape, (name, _, _)) in fixtures::SHAPES.iter().enumerate() {
        let chosen = instances.iter().zip(exact.times.iter().zip(&exact.values));
        let (times, values): (Vec<Duration>, Vec<Option<u64>>) = chosen
            .filter(|(instance, _)| instance.shape == shape)
            .map(|(_, (time, value))| (*time, *value))
            .unzip();
        print_row(&format!("  {name}"), &times, values.iter().flatten().count());
    }
    #[cfg(feature = "highs")]
    compare("HiGHS", MipBackend::Highs, &topology, &instances, &exact, 1);
    compare("microlp", MipBackend::Microlp, &topology, &instances, &exact, 10);
}

/// Twelve domains, 120 sites, 16 exchange points: the size that federations will reach next.
fn large() {
    let topology = fixtures::large();
    let ring: Vec<(usize, usize)> = (0..8).map(|site| (site, (site + 1) % 8)).collect();
    let star: Vec<(usize, usize)> = (1..8).map(|site| (0, site)).collect();
    let mesh: Vec<(usize, usize)> = (0..8).flat_map(|a| (a + 1..8).map(move |b| (a, b))).collect();
    for (name, sites, links) in [
        ("edge", 2, &ring[..1]),
        ("mesh-4", 4, fixtures::SHAPES[5].2),
        ("ring-8", 8, &ring[..]),
        ("star-8", 8, &star[..]),
        ("mesh-8", 8, &mesh[..]),
    ] {
        let mut times = Vec::new();
        let (mut planned, mut proven) = (0, 0);
        for seed in 0..40 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let request = fixtures::request(&vec![4; sites], links, 1_000_000_000);
            let view = fixtures::random_loads(&topology, &mut rng);
            let budget = Budget { nodes: 100_000, ..BUDGET };
            let begin = Instant::now();
            let outcome =
                Exact::default().plan(&Instance::new(&topology, &request, &view), &budget);
            times.push(begin.elapsed());
            if let Outcome::Planned(plan) = outcome {
                planned += 1;
                proven += usize::from(plan.is_proven_optimal());
            }
        }
        print_row(&format!("exact, 12 domains, {name}"), &times, planned);
        println!("  proven within 100,000 nodes: {proven} of {planned} plans");
    }
}

fn main() {
    print_machine();
    println!(
        "{:<30} {:>6} {:>9} {:>12} {:>12} {:>12}",
        "", "count", "feasible", "median us", "p99 us", "max us"
    );
    elgl();
    scarce();
    large();
}
