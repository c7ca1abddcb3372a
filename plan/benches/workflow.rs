//! The planners of workflows under load: processor time of planning, and frames.
//!
//! The federation is that of Decker 2007, section V-A: seven machines, here of 128 CPUs and 500 to 1,100
//! MIPS, fully meshed. Workflows have the mix of the free parameters: activities of 1 to 15 CPUs and a mean
//! load of 4,480 MI, one dependency and a half for each activity, and synchronous sets within levels. A slot is a
//! second. Workflows arrive so that about half of all CPUs are taken; what is planned is booked. The first hundred
//! of a run, while the world fills, are left out.
//!
//! `cargo bench -p coalloc-plan --bench workflow`

#![allow(clippy::unwrap_used, reason = "a bench that meets nonsense ends")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use coalloc_common::topology::{Compute, Duplex, Edge, Vertex};
use coalloc_common::workflow::{
    Activity, Channel, DataItem, DataSource, Work, Workflow, WorkflowGraph,
};
use coalloc_common::{
    ActivityName, BitsPerSecond, Cpus, DataName, DomainName, EdgeName, ResourceId, RmName, Span,
    Time, Topology, UnitValue, VertexName, limits,
};
use coalloc_plan::workflow::{ScratchTimetables, WorkflowInstance, WorkflowOptions};
use coalloc_plan::{Budget, Named, WorkflowPlannerName};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SLOT: Span = Span::from_secs(1);
/// Workflows that fill a world and are not measured.
const FILL: usize = 100;

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn federation(machines: u64) -> Topology {
    let mut topology = Topology::new();
    let mut vertices = Vec::new();
    for index in 0..machines {
        let name = format!("P{index}");
        let compute = Compute {
            rm: RmName::composed(format!("crm-{name}")),
            resource: ResourceId::composed("cpus"),
            capacity: Cpus(128),
            unit_value: UnitValue(1),
            price: None,
            quality: limits::QUALITY_FULL,
            mips: 500 + 100 * (index % 7),
        };
        let domain = Some(DomainName::composed("D"));
        let vertex = Vertex::new(VertexName::composed(name), domain, Some(compute));
        vertices.push(topology.add_vertex(vertex).unwrap());
    }
    for (index, a) in vertices.iter().enumerate() {
        for b in &vertices[index + 1..] {
            let name = format!("P{}-P{}", a.0, b.0);
            let edge = Edge {
                name: EdgeName::composed(name.clone()),
                a: *a,
                b: *b,
                rm: RmName::composed("nrm"),
                capacity: BitsPerSecond(1_000_000_000),
                unit_value: UnitValue(1),
                price: None,
                quality: limits::QUALITY_FULL,
                latency: Span::ZERO,
                duplex: Duplex::Shared(ResourceId::composed(name)),
            };
            topology.add_edge(edge).unwrap();
        }
    }
    topology
}

/// A workflow of levels; every second level is one synchronous set with a chain of channels.
fn workflow(rng: &mut ChaCha8Rng, activities: usize, members: usize, ready: Time) -> Workflow {
    let activity = |index: usize, rng: &mut ChaCha8Rng| Activity {
        name: ActivityName::composed(format!("a{index}")),
        work: Work::Load { mi: rng.random_range(960..=8_000) },
        cpus: Cpus(rng.random_range(1..=15)),
        others: BTreeMap::new(),
        sites: BTreeSet::new(),
        excluded: BTreeSet::new(),
    };
    let all: Vec<Activity> = (0..activities).map(|index| activity(index, rng)).collect();
    let (mut sync_sets, mut channels, mut data) = (Vec::new(), Vec::new(), Vec::new());
    let level = |at: usize| at / members;
    for first in (0..activities).step_by(2 * members) {
        let set: Vec<usize> = (first..(first + members).min(activities)).collect();
        if set.len() > 1 {
            for pair in set.windows(2) {
                let bandwidth = BitsPerSecond(rng.random_range(1..=100) * 1_000_000);
                channels.push(Channel { from: pair[0], to: pair[1], bandwidth, latency_max: None });
            }
            sync_sets.push(set);
        }
    }
    for to in members..activities {
        for _ in 0..rng.random_range(1..=2) {
            let before = (level(to) - 1) * members;
            let from = before + rng.random_range(0..members);
            let name = DataName::composed(format!("d{}", data.len()));
            let (source, consumers) = (DataSource::Activity(from), vec![to]);
            let bytes = rng.random_range(0..=200_000_000);
            data.push(DataItem { name, bytes, source, consumers, rate: None });
        }
    }
    let deadline = ready.saturating_add(Span::from_secs(40_000));
    Workflow { activities: all, data, sync_sets, channels, same_site: Vec::new(), ready, deadline }
}

fn run(name: WorkflowPlannerName, activities: usize, members: usize, count: usize, machines: u64) {
    let topology = federation(machines);
    let mut free = ScratchTimetables::new(&topology);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let planner = name.planner();
    let stop = AtomicBool::new(false);
    let budget = Budget { nodes: 1_000_000, solver_time: Span::ZERO, stop: &stop };
    // Half of the CPUs: activities x 8 CPUs x 4,480 MI against machines x 128 CPUs x 800 MIPS.
    let gap = activities as i64 * 8 * 4_480 * 2 / (machines as i64 * 128 * 800);
    let (mut times, mut frames, mut unproven, mut sets, mut planned) = (Vec::new(), 0, 0, 0, 0);
    for index in 0..count + FILL.min(count) {
        let ready = Time::from_us(index as i64 * gap.max(1) * 1_000_000);
        let workflow = workflow(&mut rng, activities, members, ready);
        let graph = WorkflowGraph::new(&workflow).unwrap();
        let instance = WorkflowInstance {
            topology: &topology,
            workflow: &workflow,
            graph: &graph,
            slot: SLOT,
            options: WorkflowOptions::default(),
            kept: None,
        };
        free.forget_before(ready);
        let begun = cpu_time();
        let answer = planner.plan(&instance, &mut free, &budget);
        let took = cpu_time() - begun;
        if index >= FILL.min(count) {
            times.push(took);
            frames += answer.effort.frames;
            unproven += answer.effort.unproven;
            sets += workflow.sync_sets.len() as u64;
        }
        if let Ok(schedule) = answer.outcome {
            planned += 1;
            for (rm, segments) in schedule.segments(&topology, &workflow) {
                free.book(&rm, &segments).unwrap();
            }
        }
    }
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!(
        "{:22} {activities:5} {members:3} {machines:3}  {:9.3} {:9.3}  {:8.2}  {unproven:8} {planned:5}",
        name.name(),
        at(50),
        at(99),
        frames as f64 / sets.max(1) as f64,
    );
}

fn main() {
    println!(
        "planner                 acts mem rms  median ms     99 %  frames/set  unproven planned"
    );
    for name in WorkflowPlannerName::ALL.iter().copied() {
        let printed = name == WorkflowPlannerName::HeftSyncBtPrinted;
        for (activities, members, count) in
            [(10, 3, 1_000), (60, 3, 300), (60, 6, 300), (250, 4, 50), (1_000, 4, 20)]
        {
            if !printed || members <= 3 && activities <= 60 {
                run(name, activities, members, count, 7);
            }
        }
        if !printed {
            run(name, 1_000, 4, 20, 13);
        }
    }
    for members in [2, 4, 8, 16] {
        run(WorkflowPlannerName::HeftSyncBt, 64, members, 100, 7);
    }
}
