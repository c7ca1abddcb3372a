//! Workflows of the wire: what is read, and what is refused with its field.

use super::*;
use coalloc_plan::Budget;
use coalloc_plan::workflow::{ScratchTimetables, WorkflowInstance, check};
use coalloc_proto::file::read_from;
use std::sync::atomic::AtomicBool;

use crate::convert::file_topology;

const FEDERATION: &str = "
computes:
  - {name: crm-A, domain: a, sites: [{name: A, cpus: 8, mips: 1000}]}
  - {name: crm-B, domain: b, sites: [{name: B, cpus: 8, mips: 2000}]}
exchange_points: [X]
networks:
  - name: nrm
    domain: n
    paths:
      - {name: A-X, a: A, b: X, capacity_bps: 1000000, full_duplex: true}
      - {name: B-X, a: B, b: X, capacity_bps: 1000000}
";

const WORKFLOW: &str = "
ready: 2030-01-01T00:00:00Z
deadline: 2030-01-01T01:00:00Z
activities:
  - {name: read, duration: 10s, sites: [A]}
  - {name: filter, load_mi: 20000, cpus: 4, sites: [B]}
  - {name: show, durations: [{site: A, duration: 5s}]}
  - {name: keep, duration: 3.5s, sites: [A]}
data:
  - {name: raw, bytes: 1000000, from_site: B, to: [read]}
  - {name: kept, bytes: 250000, from: filter, to: [keep], rate_bps: 500000}
sync_sets:
  - activities: [read, filter]
  - activities: [filter, show]
channels:
  - {from: read, to: filter, bandwidth_bps: 1000}
";

const SOONEST: Time = Time::from_us(1_900_000_000_000_000);

fn topology() -> Topology {
    let file = read_from::<v1::FederationFile>("f.yaml".as_ref(), FEDERATION.as_bytes()).unwrap();
    file_topology(&file.message).unwrap()
}

fn workflow(text: &str) -> v1::Workflow {
    read_from::<v1::Workflow>("w.yaml".as_ref(), text.as_bytes()).unwrap().message
}

fn parsed(wire: &v1::Workflow) -> Result<ParsedWorkflow, InvalidField> {
    workflow_from_wire(Some(&topology()), wire, SOONEST)
}

fn error(change: impl FnOnce(&mut v1::Workflow)) -> String {
    let mut wire = workflow(WORKFLOW);
    change(&mut wire);
    parsed(&wire).unwrap_err().to_string()
}

#[test]
fn a_file_becomes_a_workflow_and_its_plan_goes_to_the_wire_and_back() {
    let (topology, wire) = (topology(), workflow(WORKFLOW));
    let parsed = parsed(&wire).unwrap();
    assert_eq!(parsed.workflow.activities[1].work, Work::Load { mi: 20_000 });
    assert_eq!(parsed.workflow.data[1].source, DataSource::Activity(1));
    let merged = merged_sets(&parsed);
    assert_eq!(merged[0].sync_sets, [0, 1]);
    assert_eq!(merged[0].activities, ["read", "filter", "show"]);
    let stop = AtomicBool::new(false);
    let budget = Budget { nodes: 1_000, solver_time: Span::ZERO, stop: &stop };
    let mut free = ScratchTimetables::new(&topology);
    let instance = WorkflowInstance {
        topology: &topology,
        workflow: &parsed.workflow,
        graph: &parsed.graph,
        slot: limits::WORKFLOW_SLOT,
        options: WorkflowOptions::default(),
        kept: None,
    };
    let options = workflow_options(None).unwrap();
    let answer = options.planner.planner().plan(&instance, &mut free, &budget);
    let schedule = answer.outcome.clone().unwrap();
    let wire = workflow_answer_to_wire(&topology, &parsed, "p", &answer).plan.unwrap();
    assert_eq!(schedule_from_wire(&topology, &parsed, &wire), Some(schedule.clone()));
    check::verify(&topology, &parsed.workflow, &free, &schedule).unwrap();
    let windows: BTreeSet<String> =
        wire.activities[..3].iter().map(|one| format!("{:?}", one.window)).collect();
    assert_eq!(windows.len(), 1, "{:?}", wire.activities);
    let steps: Vec<String> =
        wire.critical_path.iter().map(|step| step.activity.clone() + &step.data).collect();
    // 1 MB over 1 Mbit/s take 8 s, 250 kB at 500 kbit/s take 4 s.
    assert_eq!(steps, ["raw", "read", "kept", "keep"]);
    assert_eq!(wire.makespan.unwrap().seconds, 8 + 10 + 4 + 4);
    let summary = wire.summary.clone().unwrap();
    assert_eq!((summary.activities, summary.transfers, summary.channels), (4, 2, 1));
    let counts: Vec<u32> = summary.segments.iter().map(|one| one.segments).collect();
    assert_eq!(counts.iter().sum::<u32>() as usize, wire.segments.len());
    // What is missing or unknown makes no schedule.
    let mut short = wire.clone();
    short.activities.pop();
    assert_eq!(schedule_from_wire(&topology, &parsed, &short), None);
    let mut broken = wire;
    broken.transfers[0].paths.reverse();
    assert_eq!(schedule_from_wire(&topology, &parsed, &broken), None);
}

#[test]
fn what_is_unset_gets_its_default() {
    let mut wire = workflow(WORKFLOW);
    (wire.ready, wire.deadline) = (None, None);
    let read = parsed(&wire).unwrap().workflow;
    assert_eq!(read.ready, SOONEST);
    assert_eq!(read.deadline.since(SOONEST), limits::WORKFLOW_DEADLINE_DEFAULT);
    assert_eq!(read.activities[0].cpus, Cpus(1));
    let options = workflow_options(None).unwrap();
    assert_eq!(options, workflow_options(Some(&v1::WorkflowOptions::default())).unwrap());
    assert_eq!(options.planner, WorkflowPlannerName::default());
    // Without a federation no name of a site is unknown.
    wire.activities[0].sites = vec!["Atlantis".to_owned()];
    workflow_from_wire(None, &wire, SOONEST).unwrap();
}

type Change = fn(&mut v1::Workflow);

#[test]
fn bad_input_is_named_with_its_field_value_and_range() {
    let cases: [(Change, &str); 24] = [
        (|w| w.activities.clear(), "activities: 0 is not allowed; allowed: 1 to 4096 activities"),
        (|w| w.activities[0].name = "read it".into(), "activities[0].name: "),
        (|w| w.activities[1].name = "read".into(), "activities[1].name: read "),
        (|w| w.activities[0].load_mi = Some(1), "activities[0]: load_mi and duration "),
        (|w| w.activities[0].duration = None, "activities[0]: none of them "),
        (|w| w.activities[1].load_mi = Some(0), "activities[1].load_mi: 0 "),
        (
            |w| w.activities[1].load_mi = Some(u64::MAX),
            "activities[1].load_mi: 18446744073709551615 ",
        ),
        (|w| w.activities[0].duration = span(0), "activities[0].duration: 0 s "),
        (|w| w.activities[0].duration = span(-1), "activities[0].duration: -1"),
        (
            |w| w.activities[2].durations[0].duration = None,
            "activities[2].durations[0].duration: it is missing",
        ),
        (
            |w| w.activities[2].durations[0].site = "Z".into(),
            "activities[2].durations[0].site: \"Z\" ",
        ),
        (|w| w.activities[0].cpus = Some(0), "activities[0].cpus: 0 "),
        (|w| w.activities[0].excluded = vec!["A".into()], "activities[0].sites: A "),
        (|w| w.data[0].from_site = "BB".into(), "data[0].from_site: \"BB\" "),
        (|w| w.data[0].from_site.clear(), "data[0].from: it is missing"),
        (|w| w.data[1].from_site = "A".into(), "data[1].from_site: A "),
        (|w| w.data[1].to = vec!["kep".into()], "data[1].to[0]: \"kep\" "),
        (|w| w.data[1].to.clear(), "data[1].to: 0 "),
        (|w| w.data[1].rate_bps = Some(0), "data[1].rate_bps: 0 "),
        (|w| w.data[1].bytes = u64::MAX, "data[1].bytes: "),
        (|w| w.sync_sets[0].activities.truncate(1), "sync_sets[0]: 1 "),
        (|w| w.channels[0].bandwidth_bps = 0, "channels[0].bandwidth_bps: 0 "),
        (|w| w.channels[0].to = "keep".into(), "channels[0].to: keep "),
        (|w| w.deadline = w.ready, "deadline: 2030-01-01T00:00:00Z "),
    ];
    for (change, expected) in cases {
        let said = error(change);
        assert!(said.starts_with(expected), "said: {said}\nwant: {expected}");
        assert!(said.contains("allowed: ") || said.contains("needed: "), "{said}");
    }
    assert!(error(|w| w.data[1].to = vec!["kep".into()]).contains("did you mean keep"));
    let cycle = error(|w| w.data[0] = item("raw", "keep", "read"));
    assert!(cycle.contains("keep > {read, filter, show}") || cycle.contains("} > keep"), "{cycle}");
    let many = error(|w| w.data[1].to = vec!["keep".into(); 16_385]);
    assert!(many.starts_with("data: 16386 "), "{many}");
}

fn span(seconds: i64) -> Option<coalloc_proto::Duration> {
    Some(coalloc_proto::Duration { seconds, nanos: 0 })
}

fn item(name: &str, from: &str, to: &str) -> v1::WorkflowData {
    v1::WorkflowData {
        name: name.into(),
        bytes: 1,
        from: from.into(),
        to: vec![to.into()],
        ..v1::WorkflowData::default()
    }
}

#[test]
fn options_out_of_range_are_named() {
    let error = |options| workflow_options(Some(&options)).unwrap_err().to_string();
    let planner = Some("heft".to_owned());
    let said = error(v1::WorkflowOptions { planner, ..Default::default() });
    assert!(said.starts_with("options.planner: \"heft\" "), "{said}");
    let said = error(v1::WorkflowOptions { tries: Some(17), ..Default::default() });
    assert!(said.starts_with("options.tries: 17 "), "{said}");
    let said = error(v1::WorkflowOptions { discrepancies: Some(9), ..Default::default() });
    assert!(said.starts_with("options.discrepancies: 9 "), "{said}");
    let said = error(v1::WorkflowOptions { max_paths_per_route: Some(0), ..Default::default() });
    assert!(said.starts_with("options.max_paths_per_route: 0 "), "{said}");
}
