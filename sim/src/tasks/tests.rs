//! Whole runs of the tasks world.

use serde_json::json;

use super::*;
use crate::experiment::{NoTrace, TraceEvent};

/// The torus of Christodoulopoulos 2008, with fewer tasks; `changes` are dotted paths and values.
fn torus(changes: &[(&str, serde_json::Value)]) -> TasksSettings {
    let mut settings = json!({
        "topology": {"torus": {"side": 5, "km": 400, "capacity_bps": 1_000_000_000_u64}},
        "clusters": {"random": 4, "cpus": 25, "mips": 25_000},
        "workload": {
            "lambda": 7.0, "tasks": 400, "warm_up": 50, "mean_bytes": 1.25e8, "mean_mi": 2.5e5,
        },
        "planning": {"planner": "awmc-t"},
    });
    for (path, value) in changes {
        let mut at = &mut settings;
        for part in path.split('.') {
            at = &mut at[part];
        }
        *at = value.clone();
    }
    serde_json::from_value(settings).expect("settings")
}

fn central(planner: &str) -> TasksSettings {
    torus(&[
        ("planning.planner", json!(planner)),
        ("planning.schedulers", json!("central")),
        ("reservation.protocol", json!("two-phase")),
        ("updates.strategy", json!("truth")),
    ])
}

fn measure(settings: &TasksSettings, seed: u64) -> Measures {
    run(settings, seed, &mut NoTrace).expect("a run")
}

fn get(measures: &Measures, name: &str) -> f64 {
    measures.get(name).unwrap_or_else(|| panic!("no {name} in {measures:?}"))
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for (strategy, protocol) in
        [("every-change", "one-way"), ("periodic", "two-phase"), ("threshold", "one-way")]
    {
        let settings = torus(&[
            ("updates.strategy", json!(strategy)),
            ("updates.delay_ms", json!(300)),
            ("reservation.protocol", json!(protocol)),
        ]);
        let bytes = |seed| {
            let mut trace: Vec<TraceEvent<'static>> = Vec::new();
            let measures = run(&settings, seed, &mut trace).expect("a run");
            serde_json::to_string(&(trace, measures)).expect("text")
        };
        let first = bytes(5);
        assert!(first == bytes(5), "{strategy}, {protocol}");
        assert!(first != bytes(6), "{strategy}, {protocol}");
    }
}

#[test]
fn a_central_scheduler_that_sees_everything_meets_nobody_and_keeps_its_word() {
    for planner in ["mc-t", "awmc-t", "mc-b", "ect", "samcra", "samcra-hbh"] {
        let measures = measure(&central(planner), 3);
        for name in ["burst_blocking", "conflict"] {
            assert_eq!(get(&measures, name), 0.0, "{planner}: {name} in {measures:?}");
        }
        let at_once = planner.starts_with("samcra");
        assert!(at_once || get(&measures, "as_planned") == 1.0, "{planner}: {measures:?}");
    }
}

#[test]
fn whoever_hears_of_nothing_for_long_meets_others() {
    let delayed = |ms: i64| torus(&[("updates.delay_ms", json!(ms))]);
    let (fresh, old) = (measure(&delayed(0), 4), measure(&delayed(5_000), 4));
    for name in ["burst_blocking", "conflict", "staleness_ms", "total_delay_s"] {
        assert!(get(&fresh, name) < get(&old, name), "{name}: {fresh:?} {old:?}");
    }
}

#[test]
fn every_task_is_done_or_blocked() {
    for protocol in ["one-way", "two-phase"] {
        for on_conflict in ["queue", "replan", "drop"] {
            let settings = torus(&[
                ("reservation.protocol", json!(protocol)),
                ("reservation.on_conflict", json!(on_conflict)),
                ("reservation.tries", json!(3)),
                ("updates.delay_ms", json!(2_000)),
            ]);
            let measures = measure(&settings, 8);
            let (done, blocked) =
                (get(&measures, "scheduled_tasks"), get(&measures, "blocked_tasks"));
            assert_eq!(done + blocked, 350.0, "{protocol}, {on_conflict}: {measures:?}");
        }
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_by_field() {
    let refused = |settings: &TasksSettings| match check(settings, 1) {
        Err(ModelError::Setting(error)) => error.field,
        other => panic!("{other:?}"),
    };
    for (path, value) in [
        ("planning.planner", json!("mct")),
        ("planning.sizes_known", json!(false)),
        ("planning.link_slots", json!(0)),
        ("workload.lambda", json!(-1.0)),
        ("workload.warm_up", json!(400)),
        ("clusters.random", json!(26)),
        ("reservation.tries", json!(0)),
        ("updates.percent", json!(101)),
    ] {
        assert_eq!(refused(&torus(&[(path, value)])), path);
    }
    let mut settings = torus(&[]);
    let file = json!({
        "exchange_points": ["a", "b", "c"],
        "networks": [{"name": "n", "domain": "d", "paths": [
            {"name": "ab", "a": "a", "b": "b", "capacity_bps": 1, "full_duplex": true}]}],
    });
    settings.topology = TopologySettings::Federation(serde_json::from_value(file).expect("file"));
    assert_eq!(refused(&settings), "topology");
}
