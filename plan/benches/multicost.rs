//! The multi-cost planners under load: time and effort for each task, on three networks.
//!
//! Each run is a world without outdated information: tasks arrive (Poisson), one planner plans them
//! on the picture of that instant, and its plans are booked. Times are processor time of the
//! planning alone; the time for making the picture is listed separately. The first hundred tasks of
//! a run, while the world fills, are left out.
//!
//! The tasks are those of Stevens 2009, Table 2, CPU- and data-intensive: 100 MB and 400,000 MI on
//! average, both exponential, with a deadline of twice the time of transfer and run. On the torus
//! they are those of Christodoulopoulos 2008, section 7: a transfer of 1 s and a run of 10 s on
//! average, without a deadline, and in another run a tenth of both. Links have 10,000 slots of 1
//! ms, clusters 10,000 of 40 ms.
//!
//! Stevens' network is a substitute, see `tests/fixtures/multicost.rs`.
//!
//! `cargo bench -p coalloc-plan --bench multicost`

#![allow(clippy::unwrap_used, reason = "a bench that meets nonsense ends")]

#[path = "../tests/planners/fixtures/multicost.rs"]
#[allow(dead_code, reason = "the tests take the rest")]
mod fixture;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use coalloc_common::{Cpus, Span, Time};
use coalloc_plan::Budget;
use coalloc_plan::multicost::{
    Ect, Effort, Entries, McB, McT, Samcra, Scratch, Task, TaskInstance, TaskPlanner,
};
use fixture::{MIPS, PHOSPHORUS_SUBSTITUTE, World, exponential, task, torus};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The number of tasks in one run.
const TASKS: usize = 1_100;
/// How many of them fill the world and are not measured.
const FILL: usize = 100;
/// The most paths of one search: about what a planner may use in a daemon.
const PATHS: u64 = 20_000;

/// Processor time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A network, and the tasks that arrive there.
struct Setting {
    name: &'static str,
    nodes: u32,
    links: Vec<(u32, u32, i64)>,
    clusters: Vec<(u32, u64)>,
    /// Mean size of the data, in bytes.
    data: f64,
    /// Mean work, in MI.
    work: f64,
    /// Tasks per second, for each of three runs.
    rates: [f64; 3],
    /// Whether there is a deadline of twice the time of transfer and run.
    deadline: bool,
}

fn settings() -> [Setting; 4] {
    let mut random = ChaCha8Rng::seed_from_u64(100);
    let hundred = fixture::ring_with_chords(100, &mut random);
    let (stevens, torus_clusters) = ([0, 5, 8], [3, 7, 16, 20]);
    let phosphorus = PHOSPHORUS_SUBSTITUTE.to_vec();
    let of = |vertices: &[u32], cpus| vertices.iter().map(|vertex| (*vertex, cpus)).collect();
    [
        Setting {
            name: "9 nodes (substitute)",
            nodes: 9,
            links: phosphorus,
            clusters: of(&stevens, 60),
            data: 1e8,
            work: 4e5,
            rates: [1.0, 5.0, 10.0],
            deadline: true,
        },
        Setting {
            name: "torus 5x5",
            nodes: 25,
            links: torus(),
            clusters: of(&torus_clusters, 25),
            data: 1.25e8,
            work: 2.5e5,
            rates: [1.0, 5.0, 10.0],
            deadline: false,
        },
        // Ten times shorter tasks at ten times the rate: ten times as many gaps in every vector.
        Setting {
            name: "torus 5x5, short",
            nodes: 25,
            links: torus(),
            clusters: of(&torus_clusters, 25),
            data: 1.25e7,
            work: 2.5e4,
            rates: [50.0, 90.0, 100.0],
            deadline: false,
        },
        Setting {
            name: "100 nodes",
            nodes: 100,
            links: hundred,
            clusters: of(&[5, 25, 45, 65, 85], 60),
            data: 1e8,
            work: 4e5,
            rates: [1.0, 5.0, 10.0],
            deadline: true,
        },
    ]
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len() - 1);
    sorted[at].as_secs_f64() * 1e6
}

/// One planner in one world.
fn run(setting: &Setting, per_second: f64, planner: &dyn TaskPlanner) {
    let mut world = World::new(setting.nodes, &setting.links, &setting.clusters);
    let mut random = ChaCha8Rng::seed_from_u64(20_261_121);
    let (mut now, mut scratch) = (1_000_000_000_i64, Scratch::default());
    let stop = AtomicBool::new(false);
    let budget = Budget { nodes: PATHS, solver_time: Span::ZERO, stop: &stop };
    let (mut times, mut pictures, mut effort) = (Vec::new(), Vec::new(), Effort::default());
    let (mut done, mut proven, mut met, mut delay) = (0_u32, 0_u32, 0_u32, 0_f64);
    for number in 0..TASKS {
        now += exponential(1e6 / per_second, &mut random) as i64;
        let source = random.random_range(0..setting.nodes);
        let bytes = exponential(setting.data, &mut random);
        let work = exponential(setting.work, &mut random);
        let needs = bytes as i64 * 8 / 1_000 + work as i64 * 1_000_000 / MIPS as i64;
        let ready = Time::from_us(now);
        let deadline = setting.deadline.then(|| ready.saturating_add(Span::from_us(2 * needs)));
        let task = Task { deadline, ..task(source, bytes, work, ready) };
        let begin = cpu_time();
        let picture = world.picture(ready, Cpus(1));
        let made = cpu_time();
        let instance = TaskInstance::new(&task, &picture).unwrap();
        let answer = planner.plan(&instance, &budget, &mut scratch);
        let end = cpu_time();
        if number >= FILL {
            pictures.push(made - begin);
            times.push(end - made);
            effort.operations += answer.effort.operations;
            effort.paths += answer.effort.paths;
            effort.tried += answer.effort.tried;
        }
        let Some(plan) = answer.best() else { continue };
        let booked = world.book(plan, Cpus(1));
        if number >= FILL {
            met += u32::from(!booked);
            done += u32::from(booked);
            proven += u32::from(plan.proven);
            delay += plan.completion().since(ready).as_us() as f64 / 1e6;
        }
    }
    times.sort_unstable();
    pictures.sort_unstable();
    let tasks = times.len() as f64;
    println!(
        "{:<14} {:>3} {:>8.0} {:>8.0} {:>8.0} {:>8.1} {:>8.1} {:>10.0} {:>7.1} {:>7.1} {:>8.2} {:>7.1} {:>6.0}",
        planner.name(),
        per_second,
        percentile(&times, 50),
        percentile(&times, 99),
        percentile(&times, 100),
        effort.paths as f64 / tasks,
        effort.tried as f64 / tasks,
        effort.operations as f64 / tasks,
        100.0 * (1.0 - f64::from(done) / tasks),
        100.0 * f64::from(met) / tasks,
        delay / f64::from(done + met).max(1.0),
        100.0 * f64::from(proven) / f64::from(done).max(1.0),
        percentile(&pictures, 50),
    );
}

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return; // `cargo test --all-targets` runs this file too; there is nothing to test.
    }
    // A variant without a name for users: awmc-t that counts a slot only if the data can leave in
    // it.
    let (name, entries) = ("awmc-t-starts", Entries::Starts);
    let weight_of_starts = McT { name, entries, ..McT::available_weight() };
    let planners: [&dyn TaskPlanner; 10] = [
        &McT::optimal(),
        &McT::phases(),
        &McT::printed(),
        &McT::available_weight(),
        &weight_of_starts,
        &McB::default(),
        &Ect { first_link_only: false },
        &Ect { first_link_only: true },
        &Samcra::new(false),
        &Samcra::new(true),
    ];
    for setting in settings() {
        println!("\n{}", setting.name);
        println!(
            "{:<14} {:>3} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10} {:>7} {:>7} {:>8} {:>7} {:>6}",
            "planner",
            "/s",
            "med us",
            "p99 us",
            "max us",
            "paths",
            "tried",
            "ops",
            "block %",
            "burst %",
            "delay s",
            "proven%",
            "pic us"
        );
        for per_second in setting.rates {
            for planner in planners {
                run(&setting, per_second, planner);
            }
        }
    }
}
