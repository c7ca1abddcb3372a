//! Mistakes in an experiment, its files and the command: each is reported with file, line, field, value and
//! what is allowed, before anything runs, and nothing is written or overwritten.

use std::path::Path;

use super::tmpfs::Small;
use super::{FEDERATION, MINE, coalloc, shown, written};

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
        (
            "path: frames",
            "path: frame",
            "mine.yaml:8: sweep[0].path: frame: there is no such field here",
        ),
        (
            "requests: 3",
            "requests: many",
            "mine.yaml:6: settings.workload.requests: \"many\" is not allowed; allowed: a whole number from 0",
        ),
        (
            "requests: 3",
            "requests: -1",
            "mine.yaml:6: settings.workload.requests: -1 is not allowed; allowed: a whole number from 0",
        ),
        (
            "workload: {requests: 3}",
            "workload: 3",
            "mine.yaml:6: settings.workload: 3 is not allowed; allowed: a mapping, `field: VALUE`",
        ),
        (
            "plots:",
            "  - {name: succes, label: x}\nplots:",
            "mine.yaml:12: metrics[1].name: \"succes\" is not",
        ),
        // The name is misspelled where it is declared, and the plot has it right.
        (
            "{name: success, label: Success}",
            "{name: succes, label: Success}",
            "mine.yaml:11: metrics[0].name: \"succes\" is not",
        ),
        ("model: coallocations", "model: colocations", "mine.yaml:3: model:"),
        ("model: coallocations\n", "", "mine.yaml:1: `model` is missing; expected `model: VALUE`"),
        (
            "plots:",
            "paper: {shapes: [{says: x, place: x, bounds: {of: {metric: success}, at_least: 0.9, at_most: 0.1}}]}\nplots:",
            "mine.yaml:12: paper.shapes[0].bounds.at_least: 0.9 is not allowed; allowed: at most 0.1, which is its at_most",
        ),
        (
            "plots:",
            "paper: {shapes: [{says: x, place: x, ratio: {of: {metric: success}, to: {metric: success}}}]}\nplots:",
            "mine.yaml:12: paper.shapes[0].ratio: neither at_least nor at_most is not allowed; allowed: at_least, at_most, or both",
        ),
        (
            "plots:",
            "paper: {numbers: [{metric: success, value: .nan, place: x}]}\nplots:",
            "mine.yaml:12: paper.numbers[0].value: .nan is not allowed; allowed: a number",
        ),
        (
            "plots:",
            "paper: {numbers: [{metric: success, value: much, place: x}]}\nplots:",
            "mine.yaml:12: paper.numbers[0].value: what is written there is not allowed; allowed: a number, such as 0.5",
        ),
        (
            "workload: {requests: 3}",
            "workload: {interarrival_s: .nan}",
            "mine.yaml:6: settings.workload.interarrival_s: .nan is not allowed; allowed: a number",
        ),
        (
            "workload: {requests: 3}",
            "planner: exactly",
            "or program:PATH, a program of your own; did you mean exact?",
        ),
        ("federation.yaml", "nowhere.yaml", "mine.yaml:5: settings.federation:"),
        ("seeds: {count: 1}", "seeds: {counts: 1}", "mine.yaml:9: seeds"),
        (
            "seeds: {count: 1}",
            "seeds: {count: 0}",
            "mine.yaml:9: seeds.count: 0 is not allowed; allowed: 1",
        ),
        (
            "seeds: {count: 1}",
            "seeds: {count: -1}",
            "mine.yaml:9: seeds.count: `-1` is not allowed; allowed",
        ),
        (
            "seeds: {count: 1}",
            "seeds: {first: 18446744073709551615, count: 1}",
            "mine.yaml:9: seeds.first: 18446744073709551615 is not allowed; allowed: 0 to 1000000000000",
        ),
        (
            "path: frames",
            "path: frames.each",
            "mine.yaml:8: sweep[0].path: frames: a mapping is not allowed; allowed: 1 to 256",
        ),
        (
            "plots:",
            "  - {name: burst_blocking, label: x}\nplots:",
            "mine.yaml:12: metrics[1].name: \"burst_blocking\" is not allowed; allowed: a metric of its model: requests",
        ),
        (
            "y: [success]",
            "y: [speed]",
            "mine.yaml:12: plots[0].y[0]: \"speed\" is not allowed; allowed: a metric of this file: success",
        ),
        (
            "plots:",
            "paper: {numbers: [{metric: success, at: {frame: 7}, value: 0.1, place: x}]}\nplots:",
            "mine.yaml:12: paper.numbers[0].at.frame: \"frame\" is not allowed; allowed: an axis of the sweep: frames",
        ),
        (
            "name: success, label: Success}\nplots: [{name: over-frames, title: Success over frames, y: [success]}]",
            "name: success_until, label: Success}\nplots: [{name: more, title: x, y: [success_until]}]",
            "mine.yaml:12: plots[0].y[0]: \"success_until\" is not allowed; allowed: a metric that has one value at a point",
        ),
        (
            "plots:",
            "paper: {numbers: [{metric: success, value: 0.1, within: -1, place: x}]}\nplots:",
            "mine.yaml:12: paper.numbers[0].within: -1 is not allowed; allowed: 0 or more",
        ),
        ("y: [success]}]", "y: [succ", "mine.yaml:12: plots"),
    ];
    for (good, bad, said) in cases {
        assert!(MINE.contains(good), "{good}");
        let (folder, file) = written(&MINE.replace(good, bad));
        let out = folder.path().join("out");
        let ran = coalloc(&["sim", "run", &file, "--out", out.to_str().unwrap()]);
        assert_eq!(ran.status.code(), Some(2), "{bad}: {}", shown(&ran));
        assert!(shown(&ran).contains(said), "{bad}: {}", shown(&ran));
        assert!(!out.exists(), "{bad}: something was written");
    }
}

#[test]
fn what_is_said_of_a_value_that_the_sweep_no_longer_has_is_left_out() {
    let said = "paper: {numbers: [{metric: success, at: {frames: 7}, value: 0.1, place: x}, \
                {metric: success, at: {frames: 2}, value: 1, place: x}], \
                shapes: [{says: it rises, place: x, order: {falling: [{metric: success, at: {frames: 7}}, \
                {metric: success, at: {frames: 1}}]}}]}\nplots:";
    let (folder, file) = written(&MINE.replace("plots:", said).replace(
        "y: [success]}",
        "y: [success]}, {name: gone, title: x, y: [success], at: {frames: 7}}",
    ));
    let out = folder.path().join("out");
    let ran = coalloc(&["sim", "run", &file, "--out", out.to_str().unwrap()]);
    assert!(ran.status.success(), "{}", shown(&ran));
    let report = std::fs::read_to_string(out.join("report.md")).unwrap();
    for place in ["paper.numbers[0]", "paper.shapes[0].order.falling[0]", "plots[1]"] {
        let said = format!(
            "* {place}.at.frames: \"7\" is not allowed; allowed: a value of that axis: 1, 2; what is said of it is left out"
        );
        assert!(report.contains(&said), "{place}: {}\n{report}", shown(&ran));
    }
    assert!(!out.join("gone.svg").exists(), "{}", shown(&ran));
}

/// The message with which `coalloc sim run` refuses these arguments.
fn refused(words: &[&str]) -> String {
    let ran = coalloc(&[&["sim", "run"], words].concat());
    assert_eq!(ran.status.code(), Some(2), "{words:?}: {}", shown(&ran));
    shown(&ran)
}

#[test]
fn a_topology_that_is_not_connected_is_told_by_both_models() {
    let tasks = "name: mine
title: Mine
model: tasks
settings:
  topology: {federation: {file: federation.yaml}}
  clusters: {at: [a], cpus: 5, mips: 25000}
  workload: {lambda: 5, tasks: 60, warm_up: 10, mean_bytes: 125000000, mean_mi: 250000}
  planning: {planner: awmc-t}
seeds: {count: 1}
metrics: [{name: total_delay_s, label: Delay}]
";
    let apart = FEDERATION.replace("{name: b, cpus: 8}", "{name: b, cpus: 8}, {name: c, cpus: 8}");
    for (text, field) in [(MINE, "settings.federation"), (tasks, "settings.topology")] {
        let (folder, file) = written(text);
        std::fs::write(folder.path().join("federation.yaml"), &apart).unwrap();
        let out = folder.path().join("out");
        let said = refused(&[&file, "--out", out.to_str().unwrap()]);
        assert!(said.contains(&format!("mine.yaml:5: {field}")), "{said}");
        let told = said.contains("no path leads to c") || said.contains("no route from a to c");
        assert!(told, "{said}");
        assert!(!out.exists(), "something was written");
    }
}

#[test]
fn files_that_are_none_or_cut_off_are_told_with_their_line() {
    let (folder, file) = written(MINE);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let out = path("out");
    std::fs::write(path("bytes.yaml"), [MINE.as_bytes(), b"about: \xff\n"].concat()).unwrap();
    let said = refused(&[&path("bytes.yaml"), "--out", &out]);
    assert!(said.contains("bytes.yaml:13: the byte 0xff is not UTF-8; allowed"), "{said}");
    std::fs::write(path("empty.yaml"), "").unwrap();
    let said = refused(&[&path("empty.yaml"), "--out", &out]);
    assert!(said.contains("empty.yaml:1: the file has no content; expected"), "{said}");
    let said = refused(&[folder.path().to_str().unwrap(), "--out", &out]);
    assert!(said.contains(": is a folder; expected an experiment file"), "{said}");
    // A file that the experiment includes is cut off.
    std::fs::write(path("federation.yaml"), &FEDERATION[..60]).unwrap();
    let said = refused(&[&file, "--out", &out]);
    assert!(said.contains("mine.yaml:5: settings.federation:"), "{said}");
    assert!(said.contains("federation.yaml:3: computes"), "{said}");
    assert!(!Path::new(&out).exists(), "something was written");
    // Both experiments are read before one is started.
    std::fs::write(path("federation.yaml"), FEDERATION).unwrap();
    refused(&[&file, &path("empty.yaml"), "--out", &out]);
    assert!(!Path::new(&out).exists(), "something was written");
}

#[test]
fn a_place_that_is_none_for_results_is_left_as_it_is() {
    let (folder, file) = written(MINE);
    let taken = folder.path().join("taken");
    std::fs::write(&taken, "letters").unwrap();
    let said = refused(&[&file, "--out", taken.to_str().unwrap()]);
    assert!(said.contains("taken: is a file, not a folder; expected"), "{said}");
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "letters");
    let said = refused(&[&file, "--out", folder.path().to_str().unwrap()]);
    assert!(said.contains("the folder has files and no results.jsonl"), "{said}");
    let Some(disk) = Small::mounted(1) else { return };
    disk.fill();
    let said = refused(&[&file, "--out", disk.path().join("out").to_str().unwrap()]);
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn a_point_to_trace_is_one_of_the_sweep_and_a_trace_overwrites_nothing() {
    let (folder, file) = written(MINE);
    let trace = folder.path().join("day.jsonl");
    let trace = trace.to_str().unwrap();
    let out = folder.path().join("out");
    for (at, expected) in [
        ("speed=3", "--at speed=3: speed is not an axis of mine; allowed: frames"),
        ("frames=9", "--at frames=9: 9 is not a value of that axis in this run; allowed: 1, 2"),
        ("frames", "--at frames: is not AXIS=VALUE; allowed: frames"),
    ] {
        let said = refused(&[&file, "--out", out.to_str().unwrap(), "--trace", trace, "--at", at]);
        assert!(said.contains(expected), "{said}");
        assert!(!out.exists() && !Path::new(trace).exists(), "something was written");
    }
    std::fs::write(trace, "letters").unwrap();
    let said = refused(&[&file, "--out", out.to_str().unwrap(), "--trace", trace]);
    assert!(said.contains("day.jsonl: exists already; allowed: a new file"), "{said}");
    assert_eq!(std::fs::read_to_string(trace).unwrap(), "letters");
    assert!(!out.exists(), "something was written");
    for (place, expected) in [
        (format!("{trace}/day.jsonl"), "Not a directory"),
        (
            trace.replace("day.jsonl", "nowhere/day.jsonl"),
            "nowhere is not a folder; allowed: a file",
        ),
    ] {
        let said = refused(&[&file, "--out", out.to_str().unwrap(), "--trace", &place]);
        assert!(said.contains(expected), "{said}");
        assert!(!out.exists(), "something was written");
    }
}

#[test]
fn a_trace_that_is_cut_off_is_not_drawn() {
    let (folder, file) = written(MINE);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, out) = (path("day.jsonl"), path("out"));
    let ran = coalloc(&["sim", "run", &file, "--out", &out, "--trace", &trace, "--at", "frames=2"]);
    assert!(ran.status.success(), "{}", shown(&ran));
    let (svg, png) = (path("day.svg"), path("day.png"));
    let draw = |trace: &str| coalloc(&["sim", "gantt", trace, "--svg", &svg, "--png", &png]);
    let whole = std::fs::read(&trace).unwrap();
    for length in [0, 1, whole.len() / 2, whole.len() - 20] {
        std::fs::write(path("cut.jsonl"), &whole[..length]).unwrap();
        let drawn = draw(&path("cut.jsonl"));
        assert_eq!(drawn.status.code(), Some(2), "{length}: {}", shown(&drawn));
        let said = if length == 0 { ": the file is empty" } else { ": the trace is cut off" };
        assert!(shown(&drawn).contains(said), "{length}: {}", shown(&drawn));
        assert!(!Path::new(&svg).exists() && !Path::new(&png).exists(), "{length}");
    }
    let drawn = draw(&trace);
    assert!(drawn.status.success(), "{}", shown(&drawn));
    assert!(std::fs::read_to_string(&svg).unwrap().contains("<title>request"));
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    let (own, dotted) = (path("own.drawing"), path("./own.drawing"));
    let both = coalloc(&["sim", "gantt", &trace, "--svg", &own, "--png", &dotted]);
    assert_eq!(both.status.code(), Some(2), "{}", shown(&both));
    assert!(shown(&both).contains("is also the file of --svg"), "{}", shown(&both));
    assert!(!Path::new(&own).exists(), "something was written");
    let onto = coalloc(&["sim", "gantt", &trace, "--svg", &trace]);
    assert_eq!(onto.status.code(), Some(2), "{}", shown(&onto));
    assert_eq!(std::fs::read(&trace).unwrap(), whole, "the trace was overwritten");
}
