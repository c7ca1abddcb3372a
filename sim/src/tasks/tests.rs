//! Whole runs of the model `tasks`.

use std::collections::BTreeMap;

use coalloc_common::topology::Vertex;
use coalloc_common::{EdgeName, RmName, Span, VertexIndex, VertexName, limits};
use serde_json::json;

use super::*;
use crate::experiment::{SilentTrace, TraceEvent};

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

fn central(planner: &str, protocol: &str) -> TasksSettings {
    torus(&[
        ("planning.planner", json!(planner)),
        ("planning.schedulers", json!("central")),
        ("reservation.protocol", json!(protocol)),
        ("updates.strategy", json!("truth")),
    ])
}

const PROTOCOLS: [&str; 3] = ["one-way", "one-way-in-turn", "two-phase"];

fn measure(settings: &TasksSettings, seed: u64) -> Measures {
    run(settings, None, seed, &mut SilentTrace).expect("a run")
}

fn get(measures: &Measures, name: &str) -> f64 {
    measures.get(name).unwrap_or_else(|| panic!("no {name} in {measures:?}"))
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for (strategy, protocol) in [
        ("every-change", "one-way"),
        ("periodic", "two-phase"),
        ("threshold", "one-way"),
        ("every-change", "one-way-in-turn"),
    ] {
        let settings = torus(&[
            ("updates.strategy", json!(strategy)),
            ("updates.delay_ms", json!(300)),
            ("reservation.protocol", json!(protocol)),
        ]);
        let bytes = |seed| {
            let mut trace: Vec<TraceEvent<'static>> = Vec::new();
            let measures = run(&settings, None, seed, &mut trace).expect("a run");
            serde_json::to_string(&(trace, measures)).expect("text")
        };
        let first = bytes(5);
        assert!(first == bytes(5), "{strategy}, {protocol}");
        assert!(first != bytes(6), "{strategy}, {protocol}");
    }
}

#[test]
fn a_central_scheduler_that_sees_everything_meets_nobody_and_keeps_its_word() {
    let planners = ["mc-t", "awmc-t", "mc-b", "ect", "samcra", "samcra-hbh"];
    for (planner, protocol) in planners.into_iter().zip(PROTOCOLS.into_iter().cycle()) {
        let measures = measure(&central(planner, protocol), 3);
        for name in ["burst_blocking", "conflict"] {
            assert_eq!(get(&measures, name), 0.0, "{planner}, {protocol}: {name} in {measures:?}");
        }
        let at_once = planner.starts_with("samcra");
        let kept = at_once || get(&measures, "as_planned") == 1.0;
        assert!(kept, "{planner}, {protocol}: {measures:?}");
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
    for protocol in PROTOCOLS {
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

/// For each task, the number of its reservations minus releases, and whether it was accepted.
fn kept(trace: &[TraceEvent<'_>]) -> BTreeMap<u64, (i64, Option<bool>)> {
    let mut kept: BTreeMap<u64, (i64, Option<bool>)> = BTreeMap::new();
    for event in trace {
        match event {
            TraceEvent::Reserved { request, .. } => kept.entry(*request).or_default().0 += 1,
            TraceEvent::Released { request, .. } => kept.entry(*request).or_default().0 -= 1,
            TraceEvent::Ended { request, accepted, .. } => {
                kept.entry(*request).or_default().1 = Some(*accepted);
            }
            _ => {}
        }
    }
    kept
}

#[test]
fn what_a_coordinator_could_not_have_whole_it_gives_back() {
    for protocol in ["one-way-in-turn", "two-phase"] {
        let settings = torus(&[
            ("reservation.protocol", json!(protocol)),
            ("reservation.tries", json!(2)),
            ("updates.delay_ms", json!(5_000)),
            ("workload.lambda", json!(9.0)),
        ]);
        let mut trace: Vec<TraceEvent<'static>> = Vec::new();
        let measures = run(&settings, None, 5, &mut trace).expect("a run");
        assert!(get(&measures, "blocked_tasks") > 0.0, "{protocol}: {measures:?}");
        let freed = trace.iter().any(|event| matches!(event, TraceEvent::Released { .. }));
        assert!(freed, "{protocol}: nothing was ever given back");
        for (task, (left, accepted)) in kept(&trace) {
            match accepted {
                Some(true) => assert!(left > 0, "{protocol}: task {task} has nothing"),
                Some(false) => assert_eq!(left, 0, "{protocol}: task {task}"),
                None => panic!("{protocol}: task {task} has no outcome"),
            }
        }
    }
}

#[test]
fn patience_is_that_of_the_live_coordinator() {
    let slow = |us: i64| {
        let changes = [
            ("reservation.protocol", json!("two-phase")),
            ("reservation.processing_us", json!(us)),
            // The vectors cover more time than the messages take.
            ("planning.link_slot_us", json!(10_000)),
            ("workload.lambda", json!(0.05)),
            ("workload.tasks", json!(30)),
            ("workload.warm_up", json!(0)),
        ];
        measure(&torus(&changes), 2)
    };
    // Slower than the timeout of a Hold: the Abort arrives first, and the late Hold is refused.
    let patience = limits::HOLD_PATIENCE.as_us();
    let late = slow(patience + 500_000);
    assert_eq!((get(&late, "scheduled_tasks"), get(&late, "cpu_load")), (0.0, 0.0), "{late:?}");
    assert_eq!(get(&late, "plans_per_task"), 1.0, "they are not planned again: {late:?}");
    assert_eq!(get(&late, "burst_blocking"), 0.0, "no Hold arrived after its Abort: {late:?}");
    assert_eq!(late.get("conflict"), None, "and no message reached a cluster: {late:?}");
    // Faster than that, but slower than the time after which the Hold is sent again: the second Hold changes
    // nothing.
    let again = (limits::MESSAGE_PATIENCE.as_us() + patience) / 2;
    let twice = slow(again);
    assert_eq!(get(&twice, "scheduled_tasks"), 30.0, "{twice:?}");
}

#[test]
fn settings_that_make_no_sense_are_refused_by_field() {
    let refused = |settings: &TasksSettings, federation| match check(settings, federation, 1) {
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
        assert_eq!(refused(&torus(&[(path, value)]), None), path);
    }
    let unknown = torus(&[
        ("planning.planner", json!("samcra")),
        ("planning.sizes_known", json!(false)),
        ("reservation.protocol", json!("two-phase")),
    ]);
    assert_eq!(refused(&unknown, None), "planning.sizes_known");
    let settings = torus(&[("topology", json!({"federation": null}))]);
    assert_eq!(refused(&settings, None), "topology.federation");
    let mut cut = Topology::new();
    for name in ["a", "b", "c"] {
        let name = VertexName::composed(name);
        cut.add_vertex(Vertex::new(name, None, None)).expect("a vertex");
    }
    let (a, b, rm) = (VertexIndex(0), VertexIndex(1), RmName::composed("n"));
    let path = net::edge(EdgeName::composed("ab"), a, b, rm, 1, Span::ZERO);
    cut.add_edge(path).expect("an edge");
    assert_eq!(refused(&settings, Some(&cut)), "topology.federation");
}
