//! Complete runs of the tasks world: Stevens' 10,000 jobs on 9 nodes (substitute), u = 10,000, CPU- and
//! data-intensive, 10 per second; and Christodoulopoulos' torus with distributed schedulers.
//!
//! Times are processor time of one run, including everything.
//!
//! `cargo bench -p coalloc --bench tasks [-- WORLD] [PLANNER] [PROTOCOL]`

#![allow(clippy::unwrap_used, reason = "a bench that meets nonsense ends")]

use std::time::Duration;

use coalloc_common::Topology;
use coalloc_net::convert::file_topology;
use coalloc_plan::{Named as _, TaskPlannerName};
use coalloc_proto::v1;
use coalloc_sim::experiment::SilentTrace;
use coalloc_sim::tasks::{self, TasksSettings};
use serde_json::{Value, json};

const PROTOCOLS: [&str; 3] = ["one-way", "one-way-in-turn", "two-phase"];

/// Processor time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn phosphorus() -> Topology {
    let path = "../sim/experiments/topologies/phosphorus9-substitute.yaml";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let file = coalloc_proto::file::read::<v1::FederationFile>(&path).unwrap();
    file_topology(&file.message).unwrap()
}

fn stevens(planner: &str, protocol: &str) -> Value {
    json!({
        "topology": {"federation": null},
        "clusters": {"random": 3, "cpus": 60, "mips": 25_000},
        "workload": {"lambda": 10.0, "tasks": 10_000, "warm_up": 1_000, "mean_bytes": 1e8,
            "mean_mi": 4e5, "deadline_factor": 2.0},
        "planning": {"planner": planner, "schedulers": "central"},
        "reservation": {"protocol": protocol, "tries": 1},
        "updates": {"strategy": "truth"},
    })
}

fn torus(planner: &str, protocol: &str) -> Value {
    json!({
        "topology": {"torus": {"side": 5, "km": 400, "capacity_bps": 1_000_000_000_u64}},
        "clusters": {"random": 4, "cpus": 25, "mips": 25_000},
        "workload": {"lambda": 8.0, "tasks": 10_000, "warm_up": 1_000, "mean_bytes": 1.25e8,
            "mean_mi": 2.5e5},
        "planning": {"planner": planner},
        "reservation": {"protocol": protocol},
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return; // `cargo test --all-targets` also runs this file; there is nothing to test.
    }
    let wanted: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let all: Vec<&str> = TaskPlannerName::ALL.iter().map(|planner| planner.name()).collect();
    let federation = phosphorus();
    for (name, world) in [("stevens", stevens as fn(&str, &str) -> Value), ("torus", torus)] {
        for (planner, protocol) in
            all.iter().flat_map(|planner| PROTOCOLS.map(|protocol| (*planner, protocol)))
        {
            if !wanted.iter().all(|word| [name, planner, protocol].contains(word)) {
                continue;
            }
            let settings: TasksSettings = serde_json::from_value(world(planner, protocol)).unwrap();
            let begin = cpu_time();
            let measures = tasks::run(&settings, Some(&federation), 1, &mut SilentTrace).unwrap();
            let took = cpu_time() - begin;
            let shown = ["total_delay_s", "task_blocking", "burst_blocking", "conflict"];
            let shown = shown.map(|name| format!("{:.4}", measures.get(name).unwrap_or(0.0)));
            let operations = measures.get("operations").unwrap_or(0.0);
            println!(
                "{name:<8} {planner:<15} {protocol:<15} {:>7.3} s  delay, blocked, bursts, conflicts: {}  {operations:>12.0} operations",
                took.as_secs_f64(),
                shown.join(" ")
            );
        }
    }
}
