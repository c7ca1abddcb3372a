//! Tests what an experiment file may contain, and how mistakes in it are reported.

use super::*;

const FILE: &str = r"
name: blocking
title: Blocking over load
model: tasks
settings:
  planner: ect
  workload: {lambda: 1, jobs: 100}
small: {workload.jobs: 10}
sweep:
  - {name: lambda, path: workload.lambda, values: [1, 2.5, 10], small: [1, 10]}
  - name: planner
    values:
      - {label: ect, set: {planner: ect}}
      - {label: late, set: {planner: mc-t, workload.delay: 5}}
seeds: {count: 5, small: 2}
metrics: [{name: blocking, label: Blocking}]
paper:
  numbers:
    - {metric: blocking, at: {lambda: 2.5}, value: 0.1, place: Fig. 1}
  shapes:
    - says: late is worse
      place: section 5
      order: {falling: [{metric: blocking, at: {planner: late}}, {metric: blocking, at: {planner: ect}}]}
plots: [{name: blocking, title: Blocking, y: [blocking], at: {planner: [ect, late]}}]
";

fn read(text: &str) -> Experiment {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn every_point_has_the_settings_of_its_place() {
    let experiment = read(FILE);
    experiment.check().unwrap();
    let points = experiment.points(false);
    assert_eq!(points.len(), 6);
    let late = &points[3];
    let labels = [("lambda".into(), "2.5".into()), ("planner".into(), "late".into())];
    assert_eq!(late.labels, labels);
    assert_eq!(late.settings["workload"]["lambda"], 2.5);
    assert_eq!(late.settings["workload"]["delay"], 5);
    assert_eq!(late.settings["workload"]["jobs"], 100);
    assert_eq!(late.settings["planner"], "mc-t");
    assert_eq!(experiment.seeds(false), 1..6);
}

#[test]
fn a_small_run_has_fewer_points_seeds_and_jobs() {
    let experiment = read(FILE);
    let points = experiment.points(true);
    assert_eq!(points.len(), 4);
    assert_eq!(points[0].settings["workload"]["jobs"], 10);
    assert_eq!(experiment.seeds(true), 1..3);
}

#[test]
fn a_value_for_small_runs_is_in_no_full_run() {
    let late = "{label: late, set: {planner: mc-t, workload.delay: 5}}";
    let small_only = late.replace("5}}", "5}, small_only: true}");
    let experiment = read(&FILE.replace(late, &small_only));
    experiment.check().unwrap();
    let counts =
        |experiment: &Experiment| [false, true].map(|small| experiment.points(small).len());
    assert_eq!(counts(&experiment), [3, 4]);
    let off = read(&FILE.replace(late, &small_only.replace("true", "false")));
    off.check().unwrap();
    assert_eq!(counts(&off), [6, 4]);
    let none = small_only.replace("{label: late", "{label: ect");
    let ect = "{label: ect, set: {planner: ect}}";
    let none = read(&FILE.replace(ect, &none).replace(late, &small_only));
    assert_eq!(none.check().unwrap_err().field, "sweep[1].values");
    let bad = read(&FILE.replace(late, &small_only.replace("true", "1")));
    assert_eq!(bad.check().unwrap_err().field, "sweep[1].values[1]");
}

#[test]
fn a_setting_is_traced_to_the_field_that_gave_it() {
    let experiment = read(FILE);
    let point = &experiment.points(false)[3];
    assert_eq!(
        experiment.field_of_setting(point, "workload.lambda", SettingFault::Value),
        "sweep[0].values[1]"
    );
    assert_eq!(
        experiment.field_of_setting(point, "workload.delay", SettingFault::Value),
        "sweep[1].values[1]"
    );
    assert_eq!(
        experiment.field_of_setting(point, "workload.jobs", SettingFault::Value),
        "settings.workload.jobs"
    );
}

#[test]
fn mistakes_name_their_field() {
    let cases = [
        ("values: [1, 2.5, 10]", "values: []", "sweep[0].values"),
        ("values: [1, 2.5, 10]", "values: [1, 1]", "sweep[0].values[1]"),
        ("small: [1, 10]", "small: [3]", "sweep[0].small[0]"),
        ("path: workload.lambda, ", "", "sweep[0].path"),
        ("name: planner", "name: lambda", "sweep[1].name"),
        ("set: {planner: ect}", "sets: {planner: ect}", "sweep[1].values[0]"),
        ("count: 5", "count: 0", "seeds.count"),
        ("count: 5", "count: 900000000", "seeds.count"),
        (
            "at: {planner: late}",
            "at: {planner: lat}",
            "paper.shapes[0].order.falling[0].at.planner",
        ),
        ("at: {lambda: 2.5}", "at: {speed: 3}", "paper.numbers[0].at.speed"),
        ("- {metric: blocking, at", "- {metric: delay, at", "paper.numbers[0].metric"),
        ("[{metric: blocking, at: {planner: late}},", "[", "paper.shapes[0].order.falling"),
        ("y: [blocking]", "y: []", "plots[0].y"),
        ("y: [blocking]", "y: [speed]", "plots[0].y[0]"),
        ("name: blocking, title", "name: ../x, title", "plots[0].name"),
        ("metrics: [{name: blocking, label: Blocking}]", "metrics: []", "metrics"),
    ];
    for (good, bad, field) in cases {
        assert!(FILE.contains(good), "{good}");
        let error = read(&FILE.replace(good, bad)).check().unwrap_err();
        assert_eq!(error.field, field, "{good} -> {bad}: {error}");
    }
}
