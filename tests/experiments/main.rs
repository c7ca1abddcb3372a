//! Every experiment that comes with the program still shows what its paper says: a small version of each
//! runs, and the shapes that are stated hold, those aside that the file itself reports as not met. Never a
//! figure of ours.

// clippy allows unwrap in test functions only; the helpers of this file are test code all through.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod coallocations;
mod federations;
mod folder;
mod golden;
mod mistakes;
mod programs;
#[path = "../tmpfs.rs"]
mod tmpfs;

use std::path::Path;
use std::process::{Command, Output};

fn coalloc(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_coalloc")).args(words).output().unwrap()
}

fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn names() -> Vec<String> {
    let listed = coalloc(&["sim", "list"]);
    assert!(listed.status.success(), "{}", shown(&listed));
    let text = String::from_utf8(listed.stdout).unwrap();
    let rows = text.lines().skip(1).filter(|line| !line.starts_with(' '));
    rows.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn the_shapes_of_every_experiment_hold_in_a_small_run() {
    let folder = tempfile::tempdir().unwrap();
    for name in &names() {
        let out = folder.path().join(name);
        let ran =
            coalloc(&["sim", "run", name, "--small", "--check", "--out", out.to_str().unwrap()]);
        assert!(ran.status.success(), "{name}: {}", shown(&ran));
        let report = std::fs::read_to_string(out.join("report.md")).unwrap();
        assert!(!shown(&ran).contains("no run has measured"), "{}", shown(&ran));
        // A small run has no points of some plots.
        let plots = report.lines().filter(|line| line.starts_with("!["));
        let drawn = plots.map(|line| {
            let plot = line.rsplit('(').next().unwrap().trim_end_matches(')');
            std::fs::read_to_string(out.join(plot)).unwrap()
        });
        let lines = drawn.filter(|text| text.contains("<polyline")).count();
        assert!(lines > 0, "{name}: no plot has a line");
    }
}

#[test]
fn every_experiment_file_comes_with_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let names = names();
    for entry in std::fs::read_dir(root.join("sim/experiments")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            assert!(names.contains(&name), "{name} is not in experiment/shipped.rs");
        }
    }
}

/// An experiment file `mine.yaml` with this text, beside a federation of two sites.
fn written(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    std::fs::write(&file, text).unwrap();
    std::fs::write(folder.path().join("federation.yaml"), FEDERATION).unwrap();
    let name = file.to_str().unwrap().to_owned();
    (folder, name)
}

const MINE: &str = "name: mine
title: Mine
model: coallocations
settings:
  federation: {file: federation.yaml}
  workload: {requests: 3}
sweep:
  - {name: frames, path: frames, values: [1, 2]}
seeds: {count: 1}
metrics:
  - {name: success, label: Success}
plots: [{name: over-frames, title: Success over frames, y: [success]}]
";
const FEDERATION: &str = "name: two
computes:
  - {name: crm, domain: N, sites: [{name: a, cpus: 8}, {name: b, cpus: 8}]}
networks:
  - {name: nrm, domain: N, paths: [{name: a-b, a: a, b: b, capacity_bps: 1000000000}]}
";

#[test]
fn bad_input_is_told_with_file_line_and_field_and_nothing_is_written() {
    let cases = [
        ("frames, values: [1, 2]", "frames, values: []", "mine.yaml:8: sweep[0].values: [] is"),
        (
            "workload: {requests: 3}",
            "planner: gurobi",
            "mine.yaml:6: settings.planner: \"gurobi\" is not",
        ),
        ("values: [1, 2]", "values: [1, 0]", "mine.yaml:8: sweep[0].values[1]: frames: 0 is not"),
        ("path: frames", "path: frame", "mine.yaml:8: sweep[0].values[0]: frame: unknown field"),
        ("requests: 3", "requests: many", "mine.yaml:6: settings.workload.requests: invalid type"),
        ("name: success, ", "name: succes, ", "mine.yaml:11: metrics[0].name: \"succes\" is not"),
        ("model: coallocations", "model: colocations", "mine.yaml:3: model:"),
        ("federation.yaml", "nowhere.yaml", "mine.yaml:5: settings.federation:"),
        ("seeds: {count: 1}", "seeds: {counts: 1}", "mine.yaml:9: seeds"),
    ];
    for (good, bad, said) in cases {
        assert!(MINE.contains(good), "{good}");
        let (folder, file) = written(&MINE.replace(good, bad));
        std::fs::write(folder.path().join("federation.yaml"), FEDERATION).unwrap();
        let out = folder.path().join("out");
        let ran = coalloc(&["sim", "run", &file, "--out", out.to_str().unwrap()]);
        assert_eq!(ran.status.code(), Some(2), "{bad}: {}", shown(&ran));
        assert!(shown(&ran).contains(said), "{bad}: {}", shown(&ran));
        assert!(!out.exists(), "{bad}: something was written");
    }
    let (folder, file) = written(MINE);
    let apart = FEDERATION.replace("{name: b, cpus: 8}", "{name: b, cpus: 8}, {name: c, cpus: 8}");
    std::fs::write(folder.path().join("federation.yaml"), apart).unwrap();
    let out = folder.path().join("out");
    let ran = coalloc(&["sim", "run", &file, "--out", out.to_str().unwrap()]);
    assert!(
        shown(&ran).contains("mine.yaml:5: settings.federation: no path leads to c"),
        "{}",
        shown(&ran)
    );
}

#[test]
fn a_folder_of_another_experiment_is_refused_and_a_run_goes_on_where_it_was_cut_off() {
    let (folder, file) = written(MINE);
    std::fs::write(folder.path().join("federation.yaml"), FEDERATION).unwrap();
    let out = folder.path().join("out");
    let words = ["sim", "run", &file, "--out", out.to_str().unwrap()];
    assert!(coalloc(&words).status.success());
    let runs = out.join("results.jsonl");
    let whole = std::fs::read_to_string(&runs).unwrap();
    assert_eq!(whole.lines().count(), 3, "{whole}");
    // As a kill in the middle of a write leaves it.
    std::fs::write(&runs, &whole[..whole.len() - 5]).unwrap();
    let again = coalloc(&words);
    assert!(shown(&again).contains("1 runs in"), "{}", shown(&again));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        sorted(&std::fs::read_to_string(&runs).unwrap()),
        sorted(&whole),
        "same seed, same bytes"
    );
    std::fs::write(&file, MINE.replace("requests: 3", "requests: 4")).unwrap();
    let other = coalloc(&words);
    assert_eq!(other.status.code(), Some(2), "{}", shown(&other));
    assert!(
        shown(&other)
            .contains("results.jsonl:1: digest: the folder holds results of mine as it was")
    );
    assert_eq!(sorted(&std::fs::read_to_string(&runs).unwrap()), sorted(&whole), "overwritten");
    std::fs::write(&file, MINE.replace("label: Success", "label: Ratio")).unwrap();
    assert!(shown(&coalloc(&words)).contains("0 runs in"), "another label is no other experiment");
}
