//! Planners that are programs of the user: the example in Python, what the guide says of the JSON, and programs that
//! answer what is no plan.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{MINE, coalloc, shown, written};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A script `mine` in the folder of an experiment.
fn script(folder: &Path, text: &str) {
    let file = folder.join("mine");
    std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// An experiment that plans with `program:./mine`.
fn experiment(more: &str) -> (tempfile::TempDir, String) {
    let axis = "{name: frames, path: frames, values: [1, 2]}";
    let planner = "{name: planner, path: planner, values: [\"program:./mine\"]}";
    let text = MINE.replace(axis, planner);
    let text = text.replace("workload: {requests: 3}", &format!("workload: {{requests: 3}}{more}"));
    let metric = "  - {name: cut_short, label: Cut short}\nplots:";
    written(&text.replace("plots:", metric))
}

fn run(folder: &Path, file: &str) -> std::process::Output {
    let out = folder.join("out");
    coalloc(&["sim", "run", file, "--out", out.to_str().unwrap()])
}

/// The runs of a folder.
fn rows(out: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(out.join("results.jsonl")).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_example_in_python_plans_what_the_program_plans() {
    let file = root().join("docs/examples/planner/compared.yaml");
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), file.to_str().unwrap());
    assert!(ran.status.success(), "{}", shown(&ran));
    let rows = rows(&folder.path().join("out"));
    let success = |planner: &str| -> Vec<f64> {
        let own = rows.iter().filter(|row| row["point"]["planner"] == planner);
        own.map(|row| row["measures"]["success"].as_f64().unwrap()).collect()
    };
    let (exact, own) = (success("exact"), success("program:./cheapest.py"));
    assert_eq!((exact.len(), own.len()), (2, 2));
    assert!(own.iter().all(|share| *share > 0.5), "{own:?} against {exact:?}");
    assert_eq!(own, exact, "the federation is small");
    // The result is that of the seed, and the program came to its end.
    let cut_short = rows.iter().filter_map(|row| row["measures"].get("cut_short"));
    assert_eq!(cut_short.collect::<Vec<_>>(), [0.0, 0.0]);
}

/// The blocks of JSON of the guide's chapter.
fn guide_s_json() -> [Value; 2] {
    let guide = std::fs::read_to_string(root().join("docs/guide/experiments.md")).unwrap();
    let section = guide.split("## A planner of your own").nth(1).unwrap();
    let blocks = section.split("```json\n").skip(1).take(2);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    let blocks: Vec<Value> = blocks.map(|block| serde_json::from_str(block).unwrap()).collect();
    blocks.try_into().unwrap()
}

#[test]
fn a_program_gets_what_the_guide_shows_and_may_answer_as_it_says() {
    let (folder, file) = experiment("\n  frames: 1");
    let [frame, answer] = guide_s_json();
    // The first request of this day is that of the guide; the others are refused.
    script(
        folder.path(),
        &format!(
            "if [ -e frame.json ]; then cat > other.json; echo '{{\"refused\": \"only one\"}}'\n\
             else cat > frame.json; echo '{answer}'; fi"
        ),
    );
    let ran = run(folder.path(), &file);
    assert!(ran.status.success(), "{}", shown(&ran));
    let got = std::fs::read_to_string(folder.path().join("frame.json")).unwrap();
    let got: Value = serde_json::from_str(&got).unwrap();
    assert_eq!(got, frame, "{}", serde_json::to_string_pretty(&got).unwrap());
    let success = rows(&folder.path().join("out"))[0]["measures"]["success"].as_f64().unwrap();
    assert!(success > 0.0 && success < 1.0, "{success}");
}

#[test]
fn an_answer_that_is_no_plan_ends_the_run_with_what_is_wrong() {
    // Requests have two to four sites, and the federation has two.
    let one = r#"{"plan": {"sites": ["a", "b"], "routes": [["a-b"]]}}"#;
    let with = |good: &str, bad: &str| {
        assert!(one.contains(good), "{good}");
        format!("echo '{}'", one.replace(good, bad))
    };
    for (text, said) in [
        (
            "echo no".to_owned(),
            "its answer \"no\" is no plan: it is not JSON from line 1 column 2 on; expected {\"plan\": ",
        ),
        (
            "true".to_owned(),
            "it answered nothing on its standard output; expected {\"plan\": {\"sites\": [SITE, SITE], \"routes\": [[PATH, ..]]}} or {\"refused\": \"why\"}",
        ),
        ("echo '{}'".to_owned(), "its answer has neither `plan` nor `refused`; expected {"),
        ("echo wrong >&2; exit 3".to_owned(), "it ended with exit code 3; its last words: wrong"),
        ("kill -SEGV $$".to_owned(), "it was killed by signal 11"),
        (with("sites\"", "places\""), "unknown field `places`, expected `sites` or `routes`"),
        (with("\"b\"]", "\"c\"]"), "plan.sites[1]: there is no site \"c\""),
        (with("\"b\"]", "\"a\"]"), "its plan is not valid: two sites on a (Eq. 5)"),
        (
            with(", \"b\"]", "]"),
            "plan.sites: 1 in number; needed: 2, a place for each site of the request; expected {",
        ),
        (with("a-b\"", "a-c\""), "plan.routes[0][0]: there is no path \"a-c\"; did you mean a-b?"),
        (with("[\"a-b\"]", "[]"), "its plan is not valid: links[0]"),
        (
            with("[[\"a-b\"]]", "[]"),
            "plan.routes: 0 in number; needed: 1, a route for each link of the request; expected {",
        ),
    ] {
        let (folder, file) = experiment("\n  frames: 1");
        // A request of more than two sites has no plan here.
        script(
            folder.path(),
            &format!(
                "grep -q '\"links\":\\[{{[^}}]*}}\\]' || {{ echo '{{\"refused\": \"too many\"}}'; exit; }}\n{text}"
            ),
        );
        let ran = run(folder.path(), &file);
        assert_eq!(ran.status.code(), Some(1), "{text}: {}", shown(&ran));
        let begin = "mine: seed 1 at planner program:./mine: a planner failed: ./mine: ";
        assert!(shown(&ran).contains(begin), "{text}: {}", shown(&ran));
        assert!(shown(&ran).contains(said), "{text}: {}", shown(&ran));
        assert_eq!(rows(&folder.path().join("out")).len(), 0, "what failed has no measures");
    }
}

#[test]
fn a_program_that_takes_too_long_is_ended_with_all_that_it_started_and_counted() {
    let (folder, file) = experiment("\n  frames: 1\n  solver_s: 1");
    script(
        folder.path(),
        "trap '' TERM\n/bin/sleep 600 &\necho $! > left\nwait\nwait\n/bin/sleep 600",
    );
    let ran = run(folder.path(), &file);
    assert!(ran.status.success(), "{}", shown(&ran));
    let line = "time ended the planner in 100 % of its frames at planner program:./mine";
    assert!(shown(&ran).contains(line), "{}", shown(&ran));
    let waits = "waiting for ./mine, which has been planning one frame for 0.5 s; the setting solver_s gives it 1 s";
    assert!(shown(&ran).contains(waits), "{}", shown(&ran));
    let left = std::fs::read_to_string(folder.path().join("left")).unwrap();
    assert!(!Path::new("/proc").join(left.trim()).join("exe").exists(), "{left} goes on");
}

#[test]
fn a_program_that_is_not_there_is_told_and_another_one_is_another_experiment() {
    let (folder, file) = experiment("");
    let missing = run(folder.path(), &file);
    assert_eq!(missing.status.code(), Some(2), "{}", shown(&missing));
    let place = folder.path().join("./mine");
    let said = "mine.yaml:8: sweep[0].values[0]: program:./mine: there is no such program; looked for a file at ";
    assert!(shown(&missing).contains(said), "{}", shown(&missing));
    assert!(!folder.path().join("out").exists(), "nothing was written");
    assert!(!place.exists());
    script(folder.path(), "echo '{\"refused\": \"no\"}'");
    let ran = run(folder.path(), &file);
    assert!(ran.status.success(), "{}", shown(&ran));
    script(folder.path(), "echo '{\"refused\": \"never\"}'");
    let other = run(folder.path(), &file);
    assert_eq!(other.status.code(), Some(2), "{}", shown(&other));
    assert!(shown(&other).contains("results.jsonl:1: digest: "), "{}", shown(&other));
    for (text, said) in [
        (
            "echo '{}'\n",
            "its first line does not say what runs it; begin the file with a line such as `#!/usr/bin/env python3`",
        ),
        (
            "#!/nowhere/pyhton -u\n",
            "its first line says that \"/nowhere/pyhton\" runs it, which is no program",
        ),
    ] {
        std::fs::write(folder.path().join("mine"), text).unwrap();
        let refused = run(folder.path(), &file);
        assert_eq!(refused.status.code(), Some(2), "{}", shown(&refused));
        let said = format!("mine.yaml:8: sweep[0].values[0]: program:./mine: {said}");
        assert!(shown(&refused).contains(&said), "{}", shown(&refused));
    }
    let unnamed = std::fs::read_to_string(&file).unwrap().replace("program:./mine", "program:");
    std::fs::write(&file, unnamed).unwrap();
    let unnamed = run(folder.path(), &file);
    assert!(
        shown(&unnamed).contains("or program:PATH, a program of your own"),
        "{}",
        shown(&unnamed)
    );
}
