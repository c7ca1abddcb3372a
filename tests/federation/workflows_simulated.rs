//! Live = simulated: workflows that the simulator draws are submitted to a federation of real processes, one
//! after the other, and planned by the simulator's planner on timetables of an equal federation. Both must choose
//! the same sites, windows and transfers, refuse the same workflows, and for the same reason.

use coalloc_common::workflow::{DataSource, Work, Workflow};
use coalloc_common::{Span, Time, limits};
use coalloc_net::convert::{file_topology, schedule_from_wire, time_from_wire, time_to_wire};
use coalloc_plan::workflow::{ScratchTimetables, WorkflowInstance, WorkflowOptions};
use coalloc_plan::{Budget, Named as _, WorkflowPlannerName};
use coalloc_proto::v1;
use coalloc_sim::workflows::generator::Generator;
use coalloc_sim::workflows::settings::{UniformRange, WorkloadSettings};

use super::workflows::{elgl, parsed, start, submit};
use crate::harness::seconds_from_now;

/// How many workflows are compared.
const WORKFLOWS: usize = 40;

/// Workflows that fill a part of ELGL: its 232 CPUs do 25,000 million instructions a second each.
fn workload() -> WorkloadSettings {
    let range = |least, most| UniformRange { least, most };
    WorkloadSettings {
        interarrival_slots: 15.0,
        book_ahead_slots: 120.0,
        activities: range(4, 12),
        load_mi: range(500_000, 4_000_000),
        synchronous_percent: range(20, 80),
        members: range(2, 4),
        channel_bps: range(500_000_000, 3_000_000_000),
        data_bytes: range(0, 20_000_000_000),
        ..WorkloadSettings::default()
    }
}

/// A workflow of the simulator in our schema, so much later.
fn to_wire(workflow: &Workflow, later: Span) -> v1::Workflow {
    let name = |at: usize| workflow.activities[at].name.to_string();
    let names = |all: &[usize]| all.iter().map(|at| name(*at)).collect();
    let activities = workflow.activities.iter().map(|one| {
        let Work::Load { mi } = one.work else { unreachable!("the generator draws loads") };
        v1::WorkflowActivity {
            name: one.name.to_string(),
            cpus: Some(one.cpus.0),
            load_mi: Some(mi),
            ..v1::WorkflowActivity::default()
        }
    });
    let data = workflow.data.iter().map(|item| {
        let DataSource::Activity(from) = item.source else { unreachable!("activities make all") };
        v1::WorkflowData {
            name: item.name.to_string(),
            bytes: item.bytes,
            from: name(from),
            to: names(&item.consumers),
            ..v1::WorkflowData::default()
        }
    });
    let channels = workflow.channels.iter().map(|channel| v1::WorkflowChannel {
        from: name(channel.from),
        to: name(channel.to),
        bandwidth_bps: channel.bandwidth.0,
        max_latency: None,
    });
    let ready = workflow.ready.saturating_add(later);
    v1::Workflow {
        activities: activities.collect(),
        data: data.collect(),
        channels: channels.collect(),
        sync_sets: workflow
            .sync_sets
            .iter()
            .map(|set| v1::ActivitySet { activities: names(set) })
            .collect(),
        ready: Some(time_to_wire(ready)),
        deadline: Some(time_to_wire(ready.saturating_add(Span::from_secs(600)))),
        user: "alice".to_owned(),
        ..v1::Workflow::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workflows_of_the_simulator_get_the_same_plans_live_and_simulated() {
    let federation = start(v1::TaskMode::Central).await;
    let topology = file_topology(&elgl()).unwrap();
    let mut free = ScratchTimetables::new(&topology);
    let planner = WorkflowPlannerName::named("heft-sync-bt").unwrap().planner();
    let settings = workload();
    let mut generator = Generator::new(&settings, None, 17);
    // Everything lies ahead of the clock, however long the test takes.
    let begin = time_from_wire("begin", &seconds_from_now(3_600)).unwrap();
    let (mut accepted, mut refused, mut sets, mut transfers, mut moved) = (0, 0, 0, 0, 0);
    for number in 0..WORKFLOWS {
        let wire = to_wire(&generator.draw_next().workflow, begin.since(Time::from_us(0)));
        let live = submit(&federation, &format!("w{number}"), &wire).await.unwrap();
        let parsed = parsed(&wire);
        let instance = WorkflowInstance {
            topology: &topology,
            workflow: &parsed.workflow,
            graph: &parsed.graph,
            slot: limits::WORKFLOW_SLOT,
            options: WorkflowOptions::default(),
            kept: None,
        };
        let stop = std::sync::atomic::AtomicBool::new(false);
        let budget = Budget { nodes: 1_000_000, solver_time: Span::ZERO, stop: &stop };
        match planner.plan(&instance, &mut free, &budget).outcome {
            Ok(simulated) => {
                assert!(
                    live.confirmed,
                    "workflow {number} is planned only by the simulator: {live:?}"
                );
                let plan = live.plan.as_ref().unwrap();
                let lived = schedule_from_wire(&topology, &parsed, plan).unwrap();
                let names = parsed.workflow.activities.iter().map(|one| &one.name);
                for ((name, live), simulated) in
                    names.zip(&lived.activities).zip(&simulated.activities)
                {
                    assert_eq!(live, simulated, "{name} of workflow {number}");
                }
                assert_eq!(lived.transfers, simulated.transfers, "workflow {number}");
                assert_eq!(lived.channels, simulated.channels, "workflow {number}");
                for (rm, segments) in simulated.segments(&topology, &parsed.workflow) {
                    free.book(&rm, &segments).unwrap();
                }
                accepted += 1;
                sets += parsed.workflow.sync_sets.len();
                transfers += simulated.transfers.len();
                let start = simulated.start().unwrap();
                moved += usize::from(start > parsed.workflow.ready);
            }
            Err(simulated) => {
                assert!(!live.confirmed, "workflow {number} is planned only live: {simulated:?}");
                let live = live.refusal.unwrap();
                let name = |at: &usize| parsed.workflow.activities[*at].name.to_string();
                let names: Vec<String> = simulated.activities.iter().map(name).collect();
                assert_eq!(live.activities, names, "workflow {number}");
                let detail = live.refusal.unwrap().detail;
                assert_eq!(detail, simulated.refusal.detail, "workflow {number}");
                refused += 1;
            }
        }
    }
    println!(
        "{accepted} accepted, {refused} refused, {sets} sets, {transfers} transfers, {moved} later"
    );
    assert!(accepted > 20 && refused > 2 && sets > 20 && transfers > 50 && moved > 2);
}
