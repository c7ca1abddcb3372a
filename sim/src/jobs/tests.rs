//! Each planner against an implementation that is slow and obvious, job for job, and against the others.

mod naive;
mod swf_tests;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::swf::{SwfHeader, SwfJob};
use super::workload::{Job, SelectedJobs};
use super::*;
use crate::experiment::SilentTrace;

/// Settings with these changes; the trace is a word.
fn settings(changes: Value) -> JobsSettings {
    let mut all = json!({"trace": "tiny.swf", "planner": "online", "servers": 5});
    for (name, value) in changes.as_object().expect("a mapping") {
        all[name] = value.clone();
    }
    serde_json::from_value(all).expect("settings")
}

fn starts(changes: Value, jobs: &[Job], servers: u64) -> Vec<Option<i64>> {
    let placements = place(&settings(changes), jobs, servers).expect("placements");
    placements.into_iter().map(|placement| placement.start).collect()
}

/// Up to 12 jobs on up to 5 servers, close together; some end early, and some are advance reservations.
fn worlds() -> impl Strategy<Value = (u64, Vec<Job>)> {
    (1..=5_u64).prop_flat_map(|servers| {
        let job = (0..4_i64, 1..=servers.cast_signed(), 1..6_i64, 0..4_i64, 0..4_i64);
        let jobs = prop::collection::vec(job, 1..13).prop_map(|raw| {
            let mut now = 0;
            let job = |(gap, servers, run, over, ahead): (i64, i64, i64, i64, i64)| {
                // Half of the jobs come together with the one before.
                now += (gap - 1).max(0);
                let earliest = now + (ahead - 1).max(0);
                let reserved = run + over;
                Job { submitted: now, earliest, servers, run, reserved, logged_wait: None }
            };
            raw.into_iter().map(job).collect()
        });
        (Just(servers), jobs)
    })
}

/// The same jobs, known exactly.
fn exact(jobs: &[Job]) -> Vec<Job> {
    jobs.iter().map(|job| Job { reserved: job.run, ..*job }).collect()
}

/// Asserts that no server is used twice.
fn assert_fits(jobs: &[Job], starts: &[Option<i64>], servers: u64) {
    for now in 0..400 {
        let runs = |(job, start): &(&Job, &Option<i64>)| {
            start.is_some_and(|start| (start..start + job.run).contains(&now))
        };
        let busy = jobs.iter().zip(starts).filter(runs).map(|(job, _)| job.servers).sum::<i64>();
        assert!(busy <= servers.cast_signed(), "{busy} servers at {now}: {jobs:?} {starts:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn queues_are_the_naive_ones((servers, jobs) in worlds()) {
        for backfills in [false, true] {
            let planner = if backfills { "easy" } else { "fcfs" };
            for order in ["ends-first", "submissions-first"] {
                let changes = json!({"planner": planner, "at_one_instant": order});
                let found = starts(changes, &jobs, servers);
                let naive = naive::queue(&jobs, servers, backfills, order == "ends-first");
                assert_fits(&jobs, &found, servers);
                prop_assert_eq!(found, naive, "{} {} {:?} on {}", planner, order, jobs, servers);
            }
        }
    }

    #[test]
    fn conservative_is_the_naive_one((servers, jobs) in worlds()) {
        for order in ["ends-first", "submissions-first"] {
            let changes = json!({"planner": "conservative", "at_one_instant": order});
            let found = starts(changes, &jobs, servers);
            let naive = naive::conservative(&jobs, servers, order == "ends-first");
            assert_fits(&jobs, &found, servers);
            prop_assert_eq!(found, naive, "{} {:?} on {}", order, jobs, servers);
        }
    }

    #[test]
    fn online_without_steps_is_conservative_with_exact_estimates((servers, jobs) in worlds()) {
        let jobs = exact(&jobs);
        let online = starts(json!({"step_s": 0}), &jobs, servers);
        prop_assert_eq!(&online, &starts(json!({"planner": "conservative"}), &jobs, servers));
    }

    #[test]
    fn online_makes_the_attempts_that_it_counts(
        (servers, jobs) in worlds(),
        step in 0..4_i64,
        attempts in 1..8_u64,
    ) {
        for order in ["ends-first", "submissions-first"] {
            let changes = json!({"step_s": step, "attempts": attempts, "at_one_instant": order});
            let found = place(&settings(changes), &jobs, servers).expect("placements");
            let naive = naive::online(&jobs, servers, step, attempts, order == "ends-first");
            prop_assert_eq!(found, naive, "step {} {} {:?} on {}", step, order, jobs, servers);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Every index of single servers gives the starts of a list of seconds for each server.
    #[test]
    fn online_on_single_servers_is_the_naive_one((servers, jobs) in worlds(), step in 0..4_i64) {
        let naive = naive::online_on_servers(&jobs, servers, step);
        for (index, slot_s) in [("tree", 3), ("bits", 3), ("slots", 3), ("slots-printed", 600)] {
            let changes = json!({
                "step_s": step, "index": index, "choice": "first", "slot_s": slot_s,
                "horizon_days": 1,
            });
            let found = place(&settings(changes), &jobs, servers).expect("placements");
            let found: Vec<_> =
                found.iter().map(|placed| (placed.start, placed.attempts)).collect();
            prop_assert_eq!(&found, &naive, "{} step {} {:?} on {}", index, step, jobs, servers);
        }
    }
}

/// The paper's trees count what they do, and no other index does.
#[test]
fn only_the_paper_s_trees_count_operations() {
    let job = Job { submitted: 0, earliest: 5, servers: 2, run: 7, reserved: 7, logged_wait: None };
    let operations = |index: &str| {
        let all = json!({"index": index, "slot_s": 60, "horizon_days": 1});
        place(&settings(all), &[job], 5).expect("placements")[0].operations
    };
    assert_eq!((operations("tree"), operations("bits"), operations("count")), (None, None, None));
    let (apart, printed) = (operations("slots").unwrap(), operations("slots-printed").unwrap());
    assert!(apart > 0 && printed > 100 * apart, "a tail is in 1,440 slots: {apart} {printed}");
}

/// The planners on larger worlds, where jobs wait for each other in long queues.
#[test]
fn long_queues_are_the_naive_ones() {
    for seed in 0..40 {
        let mut random = crate::chance::RandomStream::new(seed, "queues");
        let mut draw = |n: u64| random.below(n).cast_signed();
        let mut now = 0;
        let jobs: Vec<Job> = (0..60)
            .map(|_| {
                now += draw(4);
                let (run, servers) = (1 + draw(9), 1 + draw(4) * draw(3));
                let reserved = run + draw(12);
                Job { submitted: now, earliest: now, servers, run, reserved, logged_wait: None }
            })
            .collect();
        for is_first in [true, false] {
            let order = if is_first { "ends-first" } else { "submissions-first" };
            let of = |planner: &str| {
                starts(json!({"planner": planner, "at_one_instant": order}), &jobs, 8)
            };
            assert_eq!(of("easy"), naive::queue(&jobs, 8, true, is_first), "seed {seed}");
            assert_eq!(of("fcfs"), naive::queue(&jobs, 8, false, is_first), "seed {seed}");
            assert_eq!(of("conservative"), naive::conservative(&jobs, 8, is_first), "seed {seed}");
        }
    }
}

/// 60 jobs of a seed, as a trace of five servers; the fifth and every tenth after it cannot run.
fn drawn_trace() -> SwfTrace {
    let mut random = crate::chance::RandomStream::new(7, "trace");
    let mut draw = |n: u64| random.below(n).cast_signed();
    let job = |at: i64| {
        let run = 60 + draw(20_000);
        let (wait, estimate) = (draw(9_000), run + draw(9_000));
        let servers = if at % 10 == 5 { 6 } else { 1 + draw(5) };
        let cpu_ms = draw(2_000) * 1_000;
        SwfJob { submitted: at * 1_200, wait, run, servers, cpu_ms, estimate }
    };
    let header = SwfHeader { max_procs: Some(5), ..SwfHeader::default() };
    SwfTrace { header, jobs: (0..60).map(job).collect() }
}

fn measured(changes: Value, seed: u64) -> Measures {
    run(&settings(changes), &drawn_trace(), seed, &mut SilentTrace).expect("measures")
}

fn get(measures: &Measures, name: &str) -> f64 {
    measures.get(name).unwrap_or_else(|| panic!("no {name} in {measures:?}"))
}

#[test]
fn jobs_that_cannot_take_part_are_counted_by_their_reason() {
    let job =
        |run, servers| SwfJob { submitted: 0, wait: 5, run, servers, cpu_ms: 0, estimate: run };
    let jobs = vec![job(-1, 1), job(0, -1), job(3, 0), job(3, 6), job(3, 5), job(4, 1)];
    let trace = SwfTrace { header: SwfHeader::default(), jobs };
    let selection = Selection { servers: Some(5), ..Selection::default() };
    let selected = SelectedJobs::of(&trace, &selection).expect("jobs");
    let counts = (selected.without_run, selected.without_servers, selected.too_large);
    assert_eq!((counts, selected.filtered, selected.jobs.len()), ((2, 1, 1), 0, 2));
    let one = Selection { jobs: Some(1), ..selection };
    assert_eq!(SelectedJobs::of(&trace, &one).expect("jobs").filtered, 1);
    let rounded = Selection { round_run_to_s: Some(4), ..selection };
    let rounded = SelectedJobs::of(&trace, &rounded).expect("jobs").jobs;
    assert_eq!(rounded.iter().map(|job| job.run).collect::<Vec<_>>(), [4, 4]);
    let refused = |selection: Selection| SelectedJobs::of(&trace, &selection).expect_err("none");
    let busy = Selection { least_cpu_s: Some(1), ..selection };
    assert_eq!(refused(busy).field, "trace");
    let unknown = refused(Selection::default());
    assert_eq!(unknown.field, "servers");
    assert!(unknown.allowed.contains("MaxProcs"), "{unknown}");
}

#[test]
fn a_larger_share_adds_reservations_to_those_of_a_smaller_one() {
    let selected = SelectedJobs::of(&drawn_trace(), &Selection::default()).expect("jobs");
    let ahead = |share: f64, seed| -> Vec<i64> {
        let jobs = selected.jobs(&settings(json!({"reserved_share": share})), seed);
        jobs.iter().map(|job| job.earliest - job.submitted).collect()
    };
    assert!(ahead(0.0, 1).iter().all(|ahead| *ahead == 0));
    let (half, all) = (ahead(0.5, 1), ahead(1.0, 1));
    assert!(half.iter().zip(&all).all(|(half, all)| *half == 0 || half == all), "{half:?}");
    let reserved = half.iter().filter(|ahead| **ahead > 0).count();
    assert!((15..40).contains(&reserved), "{reserved} of {}", half.len());
    assert!(all.iter().all(|ahead| (0..=10_800).contains(ahead)) && all != ahead(1.0, 2));
}

#[test]
fn measures_count_what_the_placements_say() {
    let job = |submitted, earliest, servers, run| Job {
        submitted,
        earliest,
        servers,
        run,
        reserved: run,
        logged_wait: None,
    };
    let jobs = [job(0, 0, 50, 3_600), job(0, 7_200, 51, 18_000), job(0, 0, 1, 10)];
    let placed = |start, attempts| Placement { start, attempts, operations: None };
    let placements =
        [placed(Some(1_800), Some(3)), placed(Some(14_400), Some(9)), placed(None, None)];
    let selected = SelectedJobs {
        servers: 100,
        jobs: Vec::new(),
        without_run: 1,
        without_servers: 2,
        too_large: 3,
        filtered: 4,
    };
    let measures = measure::measures(&selected, &jobs, &placements);
    for (name, value) in [
        ("jobs", 3.0),
        ("dropped", 6.0),
        ("filtered", 4.0),
        ("refused", 1.0),
        ("mean_wait_h", 1.25),
        ("median_wait_h", 1.25),
        ("longest_wait_h", 2.0),
        ("mean_wait_from_submission_h", 2.25),
        ("waits_under_1h", 0.5),
        ("waits_under_2h", 0.5),
        ("wait_share@1", 0.5),
        ("wait_share@3", 0.5),
        ("wait_from_submission_share@5", 0.5),
        ("wait_by_size@50", 0.5),
        ("wait_by_size@100", 2.0),
        ("wait_by_size_left@100", 1.25),
        ("wait_by_run@2", 0.5),
        ("wait_by_run@6", 2.0),
        ("penalty", 0.45),
        ("penalty_by_run@6", 0.4),
        ("penalty_4h_to_10h", 0.4),
        ("penalty_2h_to_10h", 0.4),
        ("attempts", 6.0),
        ("attempts_by_size@50", 3.0),
        ("attempts_by_size_left@100", 6.0),
        ("jobs_by_size@50", 2.0),
        ("jobs_by_size_left@50", 1.0),
        ("runs_under_2h", 2.0 / 3.0),
        ("utilisation", (50.0 * 3_600.0 + 51.0 * 18_000.0) / (100.0 * 32_400.0)),
    ] {
        assert!((get(&measures, name) - value).abs() < 1e-9, "{name}: {measures:?}");
    }
    assert_eq!(measures.get("wait_by_size_left@50"), None, "the refused job has no wait");
}

#[test]
fn every_measure_has_a_description_and_every_description_a_measure() {
    let of = |planner: &str| measured(json!({"planner": planner, "estimates": "user"}), 1);
    let mut all: Vec<Measures> =
        ["online", "fcfs", "easy", "conservative", "logged"].map(of).into();
    all.push(measured(json!({"planner": "online", "index": "slots"}), 1));
    let is_known = |name: &str| METRICS.iter().any(|(known, _)| *known == name);
    let names = all.iter().flat_map(Measures::iter);
    let names: std::collections::BTreeSet<String> =
        names.map(|(name, _)| crate::experiment::measures::parts(name).0.to_owned()).collect();
    assert!(names.iter().all(|name| is_known(name)), "{names:?}");
    for (name, _) in METRICS {
        assert!(names.contains(*name), "nothing measures {name}");
    }
}

#[test]
fn a_run_is_its_settings_and_its_seed() {
    let text = |share: f64, seed| {
        let mut trace: Vec<TraceEvent<'static>> = Vec::new();
        let settings = settings(json!({"reserved_share": share}));
        let measures = run(&settings, &drawn_trace(), seed, &mut trace).expect("measures");
        serde_json::to_string(&(trace, measures)).expect("text")
    };
    assert_eq!(text(0.5, 1), text(0.5, 1));
    assert_ne!(text(0.5, 1), text(0.5, 2));
    assert_eq!(text(0.0, 1), text(0.0, 2), "only reservations are drawn");
}

#[test]
fn a_job_that_no_attempt_can_place_is_refused() {
    let refused = |changes: Value| get(&measured(changes, 1), "refused");
    assert_eq!(refused(json!({})), 0.0);
    assert!(refused(json!({"attempts": 3})) > 0.0);
    let days = json!({"horizon_days": 1, "step_s": 0});
    assert!(refused(days) < refused(json!({"horizon_days": 1, "attempts": 3})));
}

#[test]
fn settings_that_make_no_sense_are_refused_by_field() {
    for (field, value) in [
        ("servers", json!(0)),
        ("servers", json!(u64::MAX)),
        ("step_s", json!(-1)),
        ("step_s", json!(86_401)),
        ("horizon_days", json!(0)),
        ("slot_s", json!(0)),
        ("attempts", json!(0)),
        ("reserved_share", json!(1.5)),
        ("reserved_ahead_s", json!(-1)),
        ("round_run_to_s", json!(0)),
        ("least_cpu_s", json!(-1)),
        ("jobs", json!(0)),
    ] {
        let refused = check(&settings(json!({field: value})), &drawn_trace());
        assert_eq!(refused.expect_err("refused").field, field);
    }
    // An index of single servers has bounds of its own, which hold before anything runs.
    let index = |index, servers, slot_s| {
        settings(json!({"index": index, "servers": servers, "slot_s": slot_s}))
    };
    for (settings, field) in [
        (index("tree", 10_001, 900), "servers"),
        (index("slots", 10_000, 1), "slots"),
        (index("bits", 10_000, 1), "slots"),
    ] {
        assert_eq!(check(&settings, &drawn_trace()).expect_err("refused").field, field);
        let run = run(&settings, &drawn_trace(), 1, &mut SilentTrace);
        assert!(matches!(run, Err(ModelError::Setting(refused)) if refused.field == field));
    }
    assert_eq!(check(&index("tree", 10_000, 900), &drawn_trace()), Ok(()));
    assert_eq!(check(&index("count", 10_001, 900), &drawn_trace()), Ok(()));
    // A slot that is as long as the horizon leaves no attempt.
    let none = settings(json!({"horizon_days": 1, "slot_s": 86_400}));
    assert_eq!(none.check().expect_err("refused").field, "attempts");
}
