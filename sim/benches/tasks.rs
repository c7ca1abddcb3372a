//! Whole runs of the tasks world: Stevens' 10,000 jobs on 9 nodes (substitute), u = 10,000, CPU- and
//! data-intensive, 10 a second; and Christodoulopoulos' torus with distributed schedulers.
//!
//! Times are processor time of one run, everything included.
//!
//! `cargo bench -p coalloc-sim --bench tasks [-- PLANNER..]`

#![allow(clippy::unwrap_used, reason = "a bench that meets nonsense ends")]

use std::time::Duration;

use coalloc_sim::experiment::NoTrace;
use coalloc_sim::tasks::{self, TasksSettings};
use serde_json::{Value, json};

/// Processor time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn stevens(planner: &str) -> Value {
    let file = include_str!("../experiments/topologies/phosphorus9-substitute.yaml");
    let federation: Value = serde_saphyr::from_str(file).unwrap();
    json!({
        "topology": {"federation": federation},
        "clusters": {"random": 3, "cpus": 60, "mips": 25_000},
        "workload": {"lambda": 10.0, "tasks": 10_000, "warm_up": 1_000, "mean_bytes": 1e8,
            "mean_mi": 4e5, "deadline_factor": 2.0},
        "planning": {"planner": planner, "schedulers": "central"},
        "reservation": {"protocol": "two-phase", "tries": 1},
        "updates": {"strategy": "truth"},
    })
}

fn torus(planner: &str) -> Value {
    json!({
        "topology": {"torus": {"side": 5, "km": 400, "capacity_bps": 1_000_000_000_u64}},
        "clusters": {"random": 4, "cpus": 25, "mips": 25_000},
        "workload": {"lambda": 8.0, "tasks": 10_000, "warm_up": 1_000, "mean_bytes": 1.25e8,
            "mean_mi": 2.5e5},
        "planning": {"planner": planner},
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return; // `cargo test --all-targets` runs this file too; there is nothing to test.
    }
    let all = ["ect", "ect-first-link", "samcra", "samcra-hbh", "awmc-t", "mc-b", "mc-t"];
    for (name, world) in [("stevens", stevens as fn(&str) -> Value), ("torus", torus)] {
        for planner in all {
            let wanted = |argument: &&String| !argument.starts_with('-');
            if arguments.iter().any(|argument| wanted(&argument))
                && !arguments.iter().any(|argument| argument == planner)
            {
                continue;
            }
            let settings: TasksSettings = serde_json::from_value(world(planner)).unwrap();
            let begin = cpu_time();
            let measures = tasks::run(&settings, 1, &mut NoTrace).unwrap();
            let took = cpu_time() - begin;
            let shown = ["total_delay_s", "task_blocking", "burst_blocking", "conflict"];
            let shown = shown.map(|name| format!("{:.4}", measures.get(name).unwrap_or(0.0)));
            let operations = measures.get("operations").unwrap_or(0.0);
            println!(
                "{name:<8} {planner:<15} {:>7.3} s  delay, blocked, bursts, conflicts: {}  {operations:>12.0} operations",
                took.as_secs_f64(),
                shown.join(" ")
            );
        }
    }
}
