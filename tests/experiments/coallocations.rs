//! The world of co-allocations, run by run.

use coalloc_plan::Named as _;
use std::path::Path;

use coalloc_common::Topology;
use coalloc_net::convert::file_topology;
use coalloc_proto::v1;
use coalloc_sim::coallocations::{Settings, run, settings};
use coalloc_sim::experiment::trace::TracedResource;
use coalloc_sim::experiment::{ModelError, SilentTrace, TraceEvent};

fn elgl() -> Topology {
    let text = include_str!("../../deploy/federations/elgl.yaml");
    let file = coalloc_proto::file::parse::<v1::FederationFile>(Path::new("elgl"), text.into());
    file_topology(&file.unwrap().message).unwrap()
}

fn small() -> Settings {
    let workload = settings::Workload { requests: 60, ..Default::default() };
    Settings { workload, ..Default::default() }
}

#[test]
fn the_same_seed_gives_the_same_measures_and_events() {
    let run = |seed| {
        let mut events: Vec<TraceEvent<'static>> = Vec::new();
        let measures = run(&small(), &elgl(), seed, &mut events).unwrap();
        (measures, events)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn what_is_reserved_never_exceeds_what_there_is_and_adds_up_to_the_load() {
    let settings = Settings { planner: "backtrack".into(), ..Default::default() };
    let mut events: Vec<TraceEvent<'static>> = Vec::new();
    let measures = run(&settings, &elgl(), 1, &mut events).unwrap();
    let mut capacities = std::collections::BTreeMap::new();
    let mut changes = std::collections::BTreeMap::<_, Vec<(i64, i64)>>::new();
    let mut cpu_us = 0_i128;
    for event in &events {
        match event {
            TraceEvent::Resource { resource, capacity, kind } => {
                capacities.insert(resource.clone(), (*capacity as i64, *kind));
            }
            TraceEvent::Reserved { resource, amount, start, end, .. } => {
                let own = changes.entry(resource.clone()).or_default();
                own.extend([(*start, *amount as i64), (*end, -(*amount as i64))]);
                if capacities[resource].1 == TracedResource::Site {
                    cpu_us += i128::from(end - start) * i128::from(*amount);
                }
            }
            _ => {}
        }
    }
    assert!(changes.len() > 30, "most resources of the federation are used: {}", changes.len());
    for (resource, mut own) in changes {
        own.sort_unstable();
        let mut level = 0;
        for (_, change) in own {
            level += change;
            assert!(level <= capacities[&resource].0, "{resource} is overbooked: {level}");
        }
    }
    let load = cpu_us as f64 / (232.0 * 86_400e6);
    assert!((load - measures.get("load").unwrap()).abs() < 1e-9, "{load}");
}

#[test]
fn competing_coordinators_refuse_one_another_and_alone_nobody_is_refused() {
    let alone = run(&Settings::default(), &elgl(), 1, &mut SilentTrace).unwrap();
    assert_eq!(alone.get("holds_refused"), Some(0.0));
    let workload = settings::Workload { interarrival_s: 2.0, requests: 120, ..Default::default() };
    let busy = Settings {
        coordinators: 4,
        in_turn: true,
        planning_us: 5_000_000,
        workload,
        ..Default::default()
    };
    let one = Settings { coordinators: 1, ..busy.clone() };
    let busy = run(&busy, &elgl(), 1, &mut SilentTrace).unwrap();
    let one = run(&one, &elgl(), 1, &mut SilentTrace).unwrap();
    assert_eq!(one.get("holds_refused"), Some(0.0), "one after the other is in nobody's way");
    assert!(one.get("answer_ms").unwrap() > 2.0 * busy.get("answer_ms").unwrap(), "but slow");
    assert!(busy.get("holds_refused").unwrap() > 0.0, "{busy:?}");
    assert!(busy.get("attempts").unwrap() > 1.0, "{busy:?}");
    assert!(busy.get("success").unwrap() > 0.3, "{busy:?}");
}

#[test]
fn every_planner_reserves_in_an_empty_day() {
    for solver in coalloc_plan::Solver::ALL {
        let mut settings = Settings { planner: solver.name().into(), ..small() };
        if solver.is_outside() {
            // A library takes a second per request without optimisation.
            settings.workload.requests = 4;
        }
        let measures = run(&settings, &elgl(), 4, &mut SilentTrace).unwrap();
        let success = measures.get("success").unwrap();
        assert!(success > 0.9, "{}: {success} of the first requests", solver.name());
    }
}

fn compared(planner: &str, every: u32) -> settings::ComparedPlannerSettings {
    settings::ComparedPlannerSettings { planner: planner.to_owned(), every, ..Default::default() }
}

#[test]
fn a_planner_beside_another_changes_nothing_and_agrees_with_exact() {
    let mut settings = small();
    let alone = run(&settings, &elgl(), 1, &mut SilentTrace).unwrap();
    settings.compared =
        Some(settings::ComparedPlannerSettings { frames: 2, ..compared("backtrack", 7) });
    let mut events: Vec<TraceEvent<'static>> = Vec::new();
    let both = run(&settings, &elgl(), 1, &mut events).unwrap();
    let planned: Vec<u64> = (events.iter())
        .filter_map(|event| match event {
            TraceEvent::PlanningBegins { request, .. } => Some(*request),
            _ => None,
        })
        .collect();
    let due: Vec<u64> = (0..60).filter(|at| at % 7 == 3).flat_map(|at| [at, at]).collect();
    assert_eq!(planned, due, "two frames of every seventh request");
    assert_eq!(both.get("compared_frames"), Some(due.len() as f64));
    for (name, value) in alone.iter() {
        assert_eq!(both.get(name), Some(value), "{name}");
    }
    settings.compared = Some(compared("backtrack", 1));
    let greedy = run(&settings, &elgl(), 1, &mut SilentTrace).unwrap();
    assert!(greedy.get("over_optimum").unwrap() > 1.0, "the first that fits is not the best");
    assert!(greedy.get("agreed").unwrap() < 1.0, "{greedy:?}");
    settings.compared = Some(compared("exact", 7));
    let same = run(&settings, &elgl(), 1, &mut SilentTrace).unwrap();
    assert_eq!((same.get("agreed"), same.get("over_optimum")), (Some(1.0), Some(1.0)));
}

#[test]
fn a_user_with_half_of_what_is_free_gets_less() {
    let mut settings = Settings::default();
    settings.levels.insert("UserB".into(), 50);
    let measures = run(&settings, &elgl(), 1, &mut SilentTrace).unwrap();
    let of = |user| measures.get(user).unwrap();
    assert!(of("success_usera") > of("success_userb") + 0.02, "{measures:?}");
}

#[test]
fn bad_settings_name_their_field() {
    type Spoil = fn(&mut Settings);
    let cases: [(&str, Spoil); 14] = [
        ("planner", |s| s.planner = "gurobi".into()),
        ("first_solution", |s| s.first_solution = true),
        ("solver_s", |s| s.solver_s = 0),
        ("compared.planner", |s| s.compared = Some(compared("gurobi", 1))),
        ("compared.every", |s| s.compared = Some(compared("exact", 0))),
        ("planner", |s| s.planner = "glpk".into()),
        ("objectives[1]", |s| s.objectives[1] = "speed".into()),
        ("frames", |s| s.frames = 0),
        ("levels.UserB", |s| s.levels = [("UserB".into(), 0)].into()),
        ("cpu_values.N9", |s| s.cpu_values = [("N9".into(), 1)].into()),
        ("workload.users", |s| s.workload.users.clear()),
        ("workload.users[0]", |s| s.workload.users[0] = "no name".into()),
        ("workload.interarrival_s", |s| s.workload.interarrival_s = f64::NAN),
        ("workload.durations_min[2]", |s| s.workload.slack = 20),
    ];
    for (field, spoil) in cases {
        let mut settings = Settings::default();
        spoil(&mut settings);
        match run(&settings, &elgl(), 1, &mut SilentTrace) {
            Err(ModelError::Setting(error)) => assert_eq!(error.field, field, "{error}"),
            other => panic!("{field}: {other:?}"),
        }
    }
    let mut apart = Topology::new();
    for vertex in elgl().vertices() {
        apart.add_vertex(vertex.clone()).unwrap();
    }
    let error = run(&Settings::default(), &apart, 1, &mut SilentTrace).unwrap_err().to_string();
    assert!(error.contains("no path leads to N1"), "{error}");
}
