//! Every experiment that comes with the program still shows what its paper says: a small version of each
//! runs, and the stated shapes hold, except those that the file itself reports as not met. Five experiments run
//! every day, one of each model; `COALLOC_EXPERIMENTS=all` runs all of them, as `.ci/run` does.
//!
//! Our own figures are never checked.

// clippy allows unwrap in test functions only; the helpers of this file are test code all through.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod coallocations;
mod custom;
mod federations;
mod folder;
mod golden;
mod jobs;
mod mistakes;
mod parts;
mod programs;
mod recorded;
mod settings;
mod shards;
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

/// The experiments of every day: each takes two seconds at most.
const DAILY: [&str; 5] = [
    "coalloc-competing",
    "christodoulopoulos-2008-short",
    "castillo-2009-advance",
    "decker-2007-network",
    "decker-2007-recorded",
];

#[test]
fn the_shapes_of_experiments_hold_in_a_small_run() {
    let folder = tempfile::tempdir().unwrap();
    let all = std::env::var_os("COALLOC_EXPERIMENTS").is_some_and(|which| which == "all");
    let names = if all { names() } else { DAILY.map(str::to_owned).to_vec() };
    for name in &names {
        let out = folder.path().join(name);
        // No small run needs a trace of the user.
        let ran = Command::new(env!("CARGO_BIN_EXE_coalloc"))
            .args(["sim", "run", name, "--small", "--check", "--out", out.to_str().unwrap()])
            .env_remove("COALLOC_TRACES")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{name}: {}", shown(&ran));
        let report = std::fs::read_to_string(out.join("report.md")).unwrap();
        assert!(!shown(&ran).contains("no run has measured"), "{}", shown(&ran));
        // A small run may have no points of some plots.
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

/// An experiment file `mine.yaml` with this text, next to a federation of two sites.
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
