//! The generator keeps its ranges, runs repeat, nothing is overbooked, and settings are checked.

use coalloc_common::Time;
use coalloc_common::workflow::WorkflowGraph;
use coalloc_plan::{Named, WorkflowPlannerName};
use proptest::prelude::*;

use super::generator::Generator;
use super::settings::{UniformRange, WorkflowsSettings, WorkloadSettings};
use super::{federation, run, world};
use crate::experiment::{SilentTrace, TraceEvent};

fn small() -> WorkflowsSettings {
    let workload = WorkloadSettings { workflows: 300, warm_up: 50, ..WorkloadSettings::default() };
    WorkflowsSettings { workload, ..WorkflowsSettings::default() }
}

fn range(least: u64, most: u64) -> UniformRange {
    UniformRange { least, most }
}

fn ranges(low: u64, high: u64) -> impl Strategy<Value = UniformRange> {
    (low..=high).prop_flat_map(move |least| (least..=high).prop_map(move |most| range(least, most)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_drawn_workflow_is_valid_and_within_its_ranges(
        activities in ranges(1, 60),
        dependencies in ranges(0, 300),
        synchronous in ranges(0, 100),
        members in ranges(2, 16),
        channels in ranges(0, 300),
        shape in ranges(1, 400),
        seed in 0_u64..1_000,
    ) {
        let settings = WorkloadSettings {
            activities,
            dependencies_percent: dependencies,
            synchronous_percent: synchronous,
            members,
            channels_percent: channels,
            shape_percent: shape,
            ..WorkloadSettings::default()
        };
        let mut generator = Generator::new(&settings, None, seed);
        let mut before = Time::from_us(0);
        for _ in 0..20 {
            let arriving = generator.draw_next();
            prop_assert!(before <= arriving.at && arriving.at <= arriving.workflow.ready);
            before = arriving.at;
            let workflow = arriving.workflow;
            let graph = WorkflowGraph::new(&workflow);
            prop_assert!(graph.is_ok(), "{graph:?}");
            let count = workflow.activities.len() as u64;
            prop_assert!((activities.least..=activities.most).contains(&count));
            prop_assert!(workflow.data.len() as u64 <= dependencies.most * count / 100);
            let in_sets: usize = workflow.sync_sets.iter().map(Vec::len).sum();
            prop_assert!(in_sets as u64 <= synchronous.most * count / 100);
            prop_assert!(workflow.channels.len() as u64 <= channels.most * in_sets as u64 / 100);
            for set in &workflow.sync_sets {
                prop_assert!((members.least..=members.most).contains(&(set.len() as u64)));
            }
            let sets = graph.unwrap().nodes.iter().filter(|node| node.is_set()).count();
            prop_assert_eq!(sets, workflow.sync_sets.len(), "sets do not overlap");
        }
    }
}

#[test]
fn the_means_are_those_of_the_ranges() {
    let settings = WorkloadSettings::default();
    let mut generator = Generator::new(&settings, None, 4);
    let (mut activities, mut dependencies, mut synchronous) = (0, 0, 0);
    let (mut cpus, mut last, mut ahead) = (0, Time::from_us(0), 0);
    const COUNT: usize = 20_000;
    for _ in 0..COUNT {
        let arriving = generator.draw_next();
        let workflow = arriving.workflow;
        activities += workflow.activities.len();
        dependencies += workflow.data.len();
        synchronous += workflow.sync_sets.iter().map(Vec::len).sum::<usize>();
        cpus += workflow.activities.iter().map(|one| one.cpus.0).sum::<u64>();
        ahead += workflow.ready.since(arriving.at).as_us();
        last = arriving.at;
    }
    let near = |value: f64, mean: f64, name: &str| {
        assert!((value / mean - 1.0).abs() < 0.02, "{name}: {value} for {mean}");
    };
    let count = COUNT as f64;
    near(activities as f64 / count, 10.0, "activities");
    // A few workflows have too few levels for as many pairs as were drawn.
    let of_each = dependencies as f64 / activities as f64;
    assert!((1.45..=1.5).contains(&of_each), "{of_each} dependencies of an activity");
    near(cpus as f64 / activities as f64, 8.0, "CPUs");
    near(last.as_us() as f64 / count, 5e5, "time between arrivals");
    near(ahead as f64 / count, 2e7, "book-ahead");
    // Up to 6 of 10, uniform: 3; what is left over after the last set is lost.
    let of_each = synchronous as f64 / activities as f64;
    assert!((0.26..0.30).contains(&of_each), "{of_each}");
}

#[test]
fn a_load_or_a_planner_changes_no_workflow() {
    let settings = WorkloadSettings::default();
    let slower = WorkloadSettings { interarrival_slots: 5.0, ..settings.clone() };
    let (mut one, mut other) =
        (Generator::new(&settings, None, 8), Generator::new(&slower, None, 8));
    for _ in 0..100 {
        let (one, other) = (one.draw_next(), other.draw_next());
        let ahead = one.workflow.ready.since(one.at);
        assert_eq!(ahead, other.workflow.ready.since(other.at));
        assert_eq!(one.workflow.activities, other.workflow.activities);
        assert_eq!(one.workflow.data, other.workflow.data);
        assert_eq!(one.workflow.channels, other.workflow.channels);
    }
}

#[test]
fn two_runs_are_equal_and_every_planner_meets_the_same_workflows() {
    let mut offered = Vec::new();
    for planner in WorkflowPlannerName::ALL {
        let settings = WorkflowsSettings { planner: planner.name().to_owned(), ..small() };
        let measure = |seed| run(&settings, None, seed, &mut SilentTrace).unwrap();
        let measures = measure(3);
        let text = |seed| serde_json::to_string(&measure(seed)).unwrap();
        assert_eq!(text(3), text(3), "{}", planner.name());
        assert_ne!(text(3), text(4), "{}", planner.name());
        assert_eq!(measures.get("workflows"), Some(250.0));
        let utilisation = measures.get("utilisation").unwrap();
        assert!((0.1..=1.0).contains(&utilisation), "{utilisation}");
        offered.push((measures.get("offered_load"), measures.get("critical_path_slots")));
    }
    offered.dedup();
    assert_eq!(offered.len(), 1, "{offered:?}");
}

/// The test build verifies every schedule in the world. Here everything that the trace reports as reserved is added
/// up once more, without the timetables.
#[test]
fn no_resource_is_ever_overbooked() {
    for planner in WorkflowPlannerName::ALL {
        let mut settings = WorkflowsSettings { planner: planner.name().to_owned(), ..small() };
        settings.workload.interarrival_slots = 0.1;
        settings.workload.workflows = 400;
        settings.workload.deadline_percent = 300;
        settings.federation.speed_choice = super::settings::SpeedChoice::Drawn;
        let mut events: Vec<TraceEvent<'static>> = Vec::new();
        run(&settings, None, 5, &mut events).unwrap();
        let mut capacities = std::collections::BTreeMap::new();
        let mut changes: std::collections::BTreeMap<_, Vec<(i64, i64)>> =
            std::collections::BTreeMap::new();
        let (mut accepted, mut rejected) = (0, 0);
        for event in events {
            match event {
                TraceEvent::Resource { resource, capacity, .. } => {
                    capacities.insert(resource, i64::try_from(capacity).unwrap());
                }
                TraceEvent::Reserved { resource, amount, start, end, at, .. } => {
                    assert!(at <= start && start < end);
                    let amount = i64::try_from(amount).unwrap();
                    let of = changes.entry(resource).or_default();
                    of.extend([(start, amount), (end, -amount)]);
                }
                TraceEvent::Ended { accepted: true, .. } => accepted += 1,
                TraceEvent::Ended { .. } => rejected += 1,
                _ => {}
            }
        }
        assert!(accepted > 20 && rejected > 20, "{accepted} accepted, {rejected} rejected");
        for (resource, mut of) in changes {
            of.sort_unstable();
            let mut taken = 0;
            for (at, change) in of {
                taken += change;
                assert!(taken <= capacities[&resource], "{taken} of {resource} at {at}");
            }
        }
    }
}

#[test]
fn machines_have_even_or_drawn_speeds() {
    let mut settings = WorkflowsSettings::default().federation;
    let speeds = |settings: &_, seed| {
        let topology = federation::topology(settings, seed).unwrap();
        topology.sites().map(|(_, _, compute)| compute.mips).collect::<Vec<_>>()
    };
    assert_eq!(speeds(&settings, 1), [500, 600, 700, 800, 900, 1_000, 1_100]);
    let topology = federation::topology(&settings, 1).unwrap();
    assert_eq!(topology.edges().len(), 21);
    assert_eq!(world::machines(&topology), (7 * 128, 5_600));
    settings.speed_choice = super::settings::SpeedChoice::Drawn;
    assert_ne!(speeds(&settings, 1), speeds(&settings, 2));
    assert!(speeds(&settings, 1).iter().all(|mips| (500..=1_100).contains(mips)));
}

#[test]
fn a_wrong_setting_is_named_with_its_value_and_what_is_allowed() {
    type Change = fn(&mut WorkflowsSettings);
    let wrong = |change: Change| {
        let mut settings = WorkflowsSettings::default();
        change(&mut settings);
        settings.check().unwrap_err().to_string()
    };
    let cases: [(Change, &str); 12] = [
        (
            |own| own.planner = "heft".to_owned(),
            "planner: \"heft\" is not allowed; allowed: \"heft-",
        ),
        (|own| own.route_edges = 0, "route_edges: 0 is not allowed; allowed: 1 to 16 edges"),
        (|own| own.placements = 0, "placements: 0 is not"),
        (
            |own| own.federation.machines = 65,
            "federation.machines: 65 is not allowed; allowed: 1 to 64",
        ),
        (
            |own| own.federation.speeds = range(900, 500),
            "federation.speeds.most: 500 is not allowed; allowed: 900 to",
        ),
        (
            |own| own.workload.warm_up = 5_000,
            "workload.warm_up: 5000 is not allowed; allowed: 0 to 4999",
        ),
        (
            |own| own.workload.interarrival_slots = f64::NAN,
            "workload.interarrival_slots: NaN is not allowed; allowed: a number from above 0 to 1000",
        ),
        (
            |own| own.workload.book_ahead_slots = -1.0,
            "workload.book_ahead_slots: -1 is not allowed; allowed: a number from 0 to 1000000",
        ),
        (
            |own| own.workload.cpus = range(1, 129),
            "workload.cpus.most: 129 is not allowed; allowed: 1 to 128 CPUs",
        ),
        (
            |own| own.workload.members = range(1, 4),
            "workload.members.least: 1 is not allowed; allowed: 2",
        ),
        (
            |own| own.workload.channel_bps = range(1, 2_000_000_000),
            "workload.channel_bps.most: 2000000000 is not allowed; allowed: 1 to 1000000000",
        ),
        (|own| own.workload.load_mi = range(1, 1 << 50), "workload.deadline_percent: 67553"),
    ];
    for (change, expected) in cases {
        let error = wrong(change);
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(WorkflowsSettings::default().check(), Ok(WorkflowPlannerName::HeftSync));
}
