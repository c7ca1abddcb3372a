//! Recorded workflows: where an experiment finds its file, mistakes, and the real files, where those are.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::shown;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// An experiment with these files as values of its first axis; half of each level is synchronous.
fn experiment(files: &[&str]) -> String {
    format!(
        "name: mine
title: Mine
model: workflows
settings:
  planner: heft-sync-bt
  federation: {{cpus: 4}}
  workload:
    workflows: 12
    warm_up: 0
    interarrival_slots: 20
    deadline_percent: 1000
    cpus: {{least: 1, most: 1}}
    recorded: {{file: tiny.dax, synchronous_level_percent: 50}}
sweep: [{{name: file, path: workload.recorded.file, values: [{}]}}]
seeds: {{count: 1}}
metrics: [{{name: accepted, label: Accepted}}, {{name: synchronous, label: Synchronous}}]
plots: [{{name: all, title: All, y: [accepted]}}]
",
        files.join(", ")
    )
}

/// Runs the experiment. Returns the exit code, what was shown, and the lines of the results.
fn run(text: &str, traces: Option<&Path>) -> (Option<i32>, String, Vec<serde_json::Value>) {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("mine.yaml"), folder.path().join("out"));
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    command.args(["sim", "run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    command.env_remove("COALLOC_TRACES");
    if let Some(traces) = traces {
        command.args(["--traces", traces.to_str().unwrap()]);
    }
    let ran = command.output().unwrap();
    let lines = std::fs::read_to_string(out.join("results.jsonl")).unwrap_or_default();
    let lines = lines.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    (ran.status.code(), shown(&ran), lines)
}

#[test]
fn copies_of_our_tiny_workflow_are_planned_with_sets_of_half_a_level() {
    let (code, text, lines) =
        run(&experiment(&["tiny.dax"]), Some(&root().join("docs/examples/workflows")));
    assert_eq!(code, Some(0), "{text}");
    let measures = &lines[0]["measures"];
    // Nine tasks on levels of 1, 4, 3 and 1: two of the four are synchronous, and one of three makes no set.
    assert_eq!((&measures["activities"], &measures["synchronous"]), (&9.0.into(), &2.0.into()));
    assert!(measures["accepted"].as_f64().unwrap() > 6.0, "{measures}");
}

#[test]
fn a_file_that_is_not_there_or_wrong_is_named_with_its_place() {
    let (code, text, _) = run(&experiment(&["none.json"]), None);
    assert_eq!(code, Some(6), "{text}");
    for part in ["workload.recorded.file", "no recorded workflow none.json", "--traces DIR"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.json"), "{\"workflow\": 3}").unwrap();
    let (code, text, _) = run(&experiment(&["bad.json"]), Some(folder.path()));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("bad.json: "), "{text}");
    let many = experiment(&["tiny.dax"]).replace("percent: 50", "percent: 101");
    let (code, text, _) = run(&many, Some(&root().join("docs/examples/workflows")));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("recorded.synchronous_level_percent: 101"), "{text}");
}

#[test]
fn the_recorded_workflows_of_others_are_planned() {
    let folder = root().join("../shared/data/workflows");
    let files = [
        ("Montage_25.xml.gz", 25.0),
        ("montage-chameleon-2mass-005d-001.json.gz", 58.0),
        ("epigenomics-chameleon-hep-1seq-100k-001.json.gz", 41.0),
        ("seismology-chameleon-100p-001.json.gz", 101.0),
    ];
    if let Some((name, _)) = files.iter().find(|(name, _)| !folder.join(name).exists()) {
        println!("skipped the recorded workflows; our tiny one has a test of its own: no {name}");
        return;
    }
    let (code, text, lines) = run(&experiment(&files.map(|(name, _)| name)), Some(&folder));
    assert_eq!(code, Some(0), "{text}");
    for ((name, activities), line) in files.iter().zip(&lines) {
        let measures = &line["measures"];
        assert_eq!(measures["activities"], *activities, "{name}");
        assert!(measures["accepted"].as_f64().unwrap() > 6.0, "{name}: {measures}");
        assert!(measures["synchronous"].as_f64().unwrap() > activities / 4.0, "{name}: {measures}");
    }
    assert_eq!(lines.len(), files.len());
}
