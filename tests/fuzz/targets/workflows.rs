//! Workflows: from protobuf bytes to a checked graph, and on to a plan.

use std::sync::atomic::AtomicBool;

use coalloc_common::{Span, limits};
use coalloc_net::convert;
use coalloc_plan::Budget;
use coalloc_plan::workflow::{ScratchTimetables, WorkflowInstance, check};
use coalloc_proto::{Duration, v1};

use super::messages::{NOW, decoded, federation, taken};

fn activity(name: &str, load_mi: u64) -> v1::WorkflowActivity {
    v1::WorkflowActivity {
        name: name.to_owned(),
        load_mi: Some(load_mi),
        cpus: Some(1),
        ..v1::WorkflowActivity::default()
    }
}

fn data(name: &str, from: &str, to: &str) -> v1::WorkflowData {
    v1::WorkflowData {
        name: name.to_owned(),
        bytes: 1_000,
        from: from.to_owned(),
        to: vec![to.to_owned()],
        rate_bps: Some(1_000),
        ..v1::WorkflowData::default()
    }
}

pub(crate) fn submission() -> v1::SubmitWorkflowRequest {
    let set = |names: [&str; 2]| v1::ActivitySet { activities: names.map(str::to_owned).to_vec() };
    let fixed = v1::WorkflowActivity {
        load_mi: None,
        duration: Some(Duration { seconds: 30, nanos: 0 }),
        ..activity("d", 1)
    };
    let workflow = v1::Workflow {
        activities: vec![activity("a", 250_000), activity("b", 500_000), activity("c", 1), fixed],
        data: vec![data("x", "a", "b"), data("y", "a", "c"), data("z", "c", "d")],
        sync_sets: vec![set(["b", "c"])],
        channels: vec![v1::WorkflowChannel {
            from: "b".to_owned(),
            to: "c".to_owned(),
            bandwidth_bps: 1_000,
            max_latency: Some(Duration { seconds: 1, nanos: 0 }),
        }],
        same_site: vec![set(["a", "d"])],
        user: "UserA".to_owned(),
        ..v1::Workflow::default()
    };
    let options = Some(v1::WorkflowOptions { tries: Some(2), ..Default::default() });
    v1::SubmitWorkflowRequest { request_id: "r7".to_owned(), workflow: Some(workflow), options }
}

/// What is read is a graph without cycles. If a planner plans it, the plan is one by the independent check, and goes to
/// the wire and back.
pub(crate) fn workflows(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::SubmitWorkflowRequest>(bytes) else { return false };
    let options = taken(convert::workflow_options(wire.options.as_ref()));
    let workflow = wire.workflow.unwrap_or_default();
    let without = taken(convert::workflow_from_wire(None, &workflow, NOW));
    let topology = convert::file_topology(&federation()).unwrap();
    let parsed = taken(convert::workflow_from_wire(Some(&topology), &workflow, NOW));
    let (Some(parsed), Some(options)) = (parsed, options) else { return false };
    assert_eq!(without.as_ref(), Some(&parsed), "the topology only forbids names");
    assert_eq!(parsed.graph.order.len(), parsed.graph.nodes.len());
    let instance = WorkflowInstance {
        topology: &topology,
        workflow: &parsed.workflow,
        graph: &parsed.graph,
        slot: limits::WORKFLOW_SLOT,
        options: options.options,
        kept: None,
    };
    let stop = AtomicBool::new(false);
    let budget = Budget { nodes: 1_000, solver_time: Span::ZERO, stop: &stop };
    let mut free = ScratchTimetables::new(&topology);
    let answer = options.planner.planner().plan(&instance, &mut free, &budget);
    let plan = convert::workflow_answer_to_wire(&topology, &parsed, "p", &answer).plan;
    if let (Ok(schedule), Some(plan)) = (answer.outcome, plan) {
        check::verify(&topology, &parsed.workflow, &free, &schedule).unwrap();
        assert_eq!(convert::schedule_from_wire(&topology, &parsed, &plan), Some(schedule));
    }
    true
}
