//! Federations that experiments name are read as the daemons read them, for every model.

use super::{coalloc, shown};

const NETWORK: &str = "name: three
exchange_points: [a, b, c]
networks:
  - name: nrm
    domain: N
    paths:
      - {name: a-b, a: a, b: b, capacity_bps: 1000000000, latency: 0.001s, full_duplex: true}
      - {name: b-c, a: b, b: c, capacity_bps: 1000000000, latency: 0.001s, full_duplex: true}
";
const TASKS: &str = "name: mine
title: Mine
model: tasks
settings:
  topology: {federation: {file: net.yaml}}
  clusters: {random: 1}
  workload: {lambda: 1, tasks: 20, mean_bytes: 1000000, mean_mi: 25000}
  planning: {planner: awmc-t}
seeds: {count: 1}
metrics:
  - {name: scheduled_tasks, label: Done}
";
const SWEPT: &str = "name: mine
title: Mine
model: tasks
settings:
  topology: {torus: {side: 3, km: 10, capacity_bps: 1000000000}}
  clusters: {random: 1}
  workload: {lambda: 1, tasks: 20, mean_bytes: 1000000, mean_mi: 25000}
  planning: {planner: awmc-t}
sweep:
  - name: network
    values:
      - {label: three, set: {topology: {federation: {file: net.yaml}}}}
seeds: {count: 1}
metrics:
  - {name: scheduled_tasks, label: Done}
";
const COALLOCATIONS: &str = "name: mine
title: Mine
model: coallocations
settings:
  federation: {file: net.yaml}
  workload: {requests: 3}
seeds: {count: 1}
metrics:
  - {name: success, label: Success}
";

fn run(experiment: &str, network: &str) -> (Option<i32>, String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    std::fs::write(&file, experiment).unwrap();
    std::fs::write(folder.path().join("net.yaml"), network).unwrap();
    let out = folder.path().join("out");
    let words = ["sim", "run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let ran = coalloc(&words);
    (ran.status.code(), shown(&ran), out.exists())
}

#[test]
fn what_is_wrong_with_one_is_told_with_its_own_line() {
    for (good, bad, said) in [
        (
            "capacity_bps: 1000000000, latency: 0.001s, full_duplex: true}\n      - ",
            "capacity: 1, a: a}\n      - ",
            "net.yaml:7: networks[0].paths[0]",
        ),
        ("a: b, b: c", "a: b, b: d", "net.yaml:8: networks[0].paths[1].b: d is not allowed"),
        (
            "latency: 0.001s, full_duplex: true}\n      - ",
            "latency: fast}\n      - ",
            "net.yaml:7: networks[0].paths[0].latency",
        ),
    ] {
        assert!(NETWORK.contains(good), "{good}");
        let network = NETWORK.replace(good, bad);
        for (experiment, line) in [
            (TASKS, "mine.yaml:5: settings.topology: "),
            (SWEPT, "mine.yaml:12: sweep[0].values[0]: "),
            (COALLOCATIONS, "mine.yaml:5: settings.federation: "),
        ] {
            let (code, text, written) = run(experiment, &network);
            assert!(code == Some(2) && !written, "{text}");
            assert!(text.contains(line) && text.contains(said), "{said}: {text}");
        }
    }
}

#[test]
fn one_that_is_not_connected_is_no_network_of_tasks() {
    let cut = NETWORK.replace("exchange_points: [a, b, c]", "exchange_points: [a, b, c, d]");
    for (experiment, line) in [(TASKS, "mine.yaml:5: "), (SWEPT, "mine.yaml:12: ")] {
        let (code, text, written) = run(experiment, &cut);
        assert!(code == Some(2) && !written, "{text}");
        assert!(text.contains(line) && text.contains("no route from a to d"), "{text}");
    }
    let (code, text, _) = run(TASKS, NETWORK);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn a_network_that_is_not_there_is_asked_for() {
    for nothing in ["{federation: }", "federation"] {
        let experiment = TASKS.replace("{federation: {file: net.yaml}}", nothing);
        let (code, text, written) = run(&experiment, NETWORK);
        assert!(code == Some(2) && !written, "{nothing}: {text}");
        assert!(text.contains("mine.yaml:5: settings.topology"), "{nothing}: {text}");
    }
}
