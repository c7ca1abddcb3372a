//! Planners that are separate programs: real ones where this machine has them, and scripts that do what
//! programs should not do.

use coalloc_plan::Named as _;
use coalloc_plan::ip::Program;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::{FEDERATION, MINE, shown};

/// An experiment with these planners, in its own folder.
fn experiment(planners: &str, more: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let axis = "{name: frames, path: frames, values: [1, 2]}";
    let planner = format!("{{name: planner, path: planner, values: [{planners}]}}");
    let text = MINE.replace(axis, &planner);
    let text = text.replace("workload: {requests: 3}", &format!("workload: {{requests: 3}}{more}"));
    let text = with_metrics(&text, "  - {name: cut_short, label: Cut short}\n");
    std::fs::write(folder.path().join("mine.yaml"), text).unwrap();
    std::fs::write(folder.path().join("federation.yaml"), FEDERATION).unwrap();
    folder
}

/// The experiment with additional metrics.
fn with_metrics(text: &str, metrics: &str) -> String {
    text.replace("plots:", &format!("{metrics}plots:"))
}

fn command(folder: &Path, path: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    command.current_dir(folder).env("PATH", path).args(["sim", "run", "mine.yaml", "--out", "out"]);
    command
}

fn run(folder: &Path, path: &str) -> Output {
    command(folder, path).output().unwrap()
}

/// A script that is started instead of this program.
fn script(folder: &Path, program: Program, text: &str) -> String {
    let file = folder.join(program.executable());
    std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder.to_str().unwrap().to_owned()
}

fn report(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("out/report.md")).unwrap()
}

#[test]
fn every_program_that_is_here_plans_what_exact_plans() {
    let path = std::env::var("PATH").unwrap();
    let here = |program: &Program| {
        std::env::split_paths(&path).any(|folder| folder.join(program.executable()).is_file())
    };
    let (here, missing): (Vec<Program>, Vec<Program>) =
        Program::ALL.iter().copied().partition(here);
    for program in &missing {
        println!("skipped: {} is not on this machine", program.executable());
    }
    assert!(
        missing.is_empty()
            || std::env::var_os("COALLOC_SOLVERS").is_none_or(|wanted| wanted != "1"),
        "COALLOC_SOLVERS=1 says that every program is here"
    );
    let names: Vec<&str> = here.iter().map(|program| program.name()).collect();
    // Each of them plans a day, and each is compared with exact on the paper's federation.
    let folder = experiment(&format!("exact, {}", names.join(", ")), "");
    let ran = run(folder.path(), &path);
    assert!(ran.status.success(), "{}", shown(&ran));
    let rows: Vec<serde_json::Value> =
        std::fs::read_to_string(folder.path().join("out/results.jsonl"))
            .unwrap()
            .lines()
            .skip(1)
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
    assert_eq!(rows.len(), 1 + here.len());
    for row in &rows {
        assert_eq!(row["measures"]["success"], rows[0]["measures"]["success"], "{row}");
        let is_program = row["point"]["planner"] != "exact";
        assert_eq!(row["measures"].get("cut_short").is_some(), is_program, "{row}");
    }
    let elgl = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/federations/elgl.yaml");
    for program in here {
        let name = program.name();
        let settings = format!(
            "\n  compared: {{planner: {name}, every: 4, frames: 1}}\n  frames: 2\n  solver_s: 60"
        );
        let folder = experiment("exact", &settings);
        let file = folder.path().join("mine.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.replace("federation.yaml", elgl.to_str().unwrap());
        let metrics =
            "  - {name: agreed, label: Agreed}\n  - {name: compared_frames, label: Frames}\n";
        let text = with_metrics(&text.replace("requests: 3", "requests: 8"), metrics);
        std::fs::write(&file, text).unwrap();
        let ran = run(folder.path(), &path);
        assert!(ran.status.success(), "{}", shown(&ran));
        let runs = std::fs::read_to_string(folder.path().join("out/results.jsonl")).unwrap();
        assert!(runs.contains("\"agreed\":1.0,"), "{name}: {runs}");
        assert!(runs.contains("\"compared_frames\":2.0,"), "{name}: {runs}");
    }
}

#[test]
fn what_is_not_on_the_machine_is_left_out_and_said() {
    let folder = experiment("exact, glpk, minisat+", "");
    let ran = run(folder.path(), "/nowhere");
    assert!(ran.status.success(), "{}", shown(&ran));
    for line in [
        "glpsol is not on this machine, left out: planner glpk\n",
        "minisat+ is not on this machine, left out: planner minisat+\n",
    ] {
        assert!(shown(&ran).contains(line), "{}", shown(&ran));
        assert!(report(folder.path()).contains(&format!("* {line}")), "{}", report(folder.path()));
    }
    assert!(shown(&ran).contains("1 run in"), "{}", shown(&ran));
    let none = experiment("glpk", "");
    let ran = run(none.path(), "/nowhere");
    assert_eq!(ran.status.code(), Some(6), "{}", shown(&ran));
    assert!(shown(&ran).contains("no point is left"), "{}", shown(&ran));
    assert!(!none.path().join("out").exists(), "nothing was written");
}

#[test]
fn what_a_program_has_measured_stays_in_the_report_when_it_is_gone() {
    let folder = experiment("exact, minisat+", "");
    let path = script(folder.path(), Program::MinisatPlus, "echo 's UNSATISFIABLE'");
    let ran = run(folder.path(), &path);
    assert!(ran.status.success(), "{}", shown(&ran));
    let table = std::fs::read_to_string(folder.path().join("out/results.csv")).unwrap();
    assert!(table.contains("minisat+"), "{table}");
    let ran = run(folder.path(), "/nowhere");
    assert!(ran.status.success(), "{}", shown(&ran));
    assert!(shown(&ran).contains("0 runs in"), "{}", shown(&ran));
    assert!(!shown(&ran).contains("left out"), "{}", shown(&ran));
    assert_eq!(std::fs::read_to_string(folder.path().join("out/results.csv")).unwrap(), table);
    // With another seed there is no run yet.
    let ran = command(folder.path(), "/nowhere").args(["--seeds", "2"]).output().unwrap();
    assert!(ran.status.success(), "{}", shown(&ran));
    let said = "minisat+ is not on this machine, left out: planner minisat+\n";
    assert!(shown(&ran).contains(said), "{}", shown(&ran));
}

#[test]
fn a_program_that_errs_ends_those_of_the_other_threads() {
    let folder = experiment("minisat+, glpk", "\n  solver_s: 300");
    script(folder.path(), Program::MinisatPlus, "echo begun > \"$0.begun\"\nexec /bin/sleep 600");
    let waits = "until [ -s \"${0%/*}/minisat+.begun\" ]; do /bin/sleep 0.05; done\nexit 1";
    let path = script(folder.path(), Program::Glpk, waits);
    let begun = Instant::now();
    let ran = command(folder.path(), &path).args(["--jobs", "2"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(1), "{}", shown(&ran));
    assert!(shown(&ran).contains("glpsol gave up (it ended with exit code 1"), "{}", shown(&ran));
    assert!(begun.elapsed() < Duration::from_secs(250), "the other program was waited for");
}

#[test]
fn a_program_that_leaves_somebody_behind_is_heard_and_that_one_ended() {
    let folder = experiment("minisat+", "");
    let leaves = "/bin/sleep 600 &\necho $! > \"$0.left\"\necho 's UNSATISFIABLE'";
    let path = script(folder.path(), Program::MinisatPlus, leaves);
    let ran = run(folder.path(), &path);
    assert!(ran.status.success(), "{}", shown(&ran));
    let left = std::fs::read_to_string(folder.path().join("minisat+.left")).unwrap();
    assert!(!Path::new("/proc").join(left.trim()).join("exe").exists(), "{left} goes on");
}

#[test]
fn a_program_that_errs_ends_the_run_with_its_words() {
    let cases = [
        (
            Program::Glpk,
            "echo 'glpsol: unknown option'; exit 1",
            "exit code 1; its last words: glpsol: unknown option",
        ),
        (Program::Glpk, "exit 0", "glpsol gave up (it did not report a result)"),
        (Program::Glpk, "echo nonsense > \"$6\"", "line 1 of its answer is \"nonsense\""),
        (Program::Glpk, "kill -SEGV $$", "killed by signal 11"),
        (
            Program::Clasp,
            "echo 's OPTIMUM FOUND'; echo 'v x1 x2 x3 x4 x999'",
            "line 2 of its answer",
        ),
        (Program::Clasp, "echo 's OPTIMUM FOUND'; echo 'v x1 x3'", "clasp "),
        (
            Program::MinisatPlus,
            "while :; do echo c c c c c c c c c c c c c c c c c c c c c c c c c; done",
            "it wrote more than",
        ),
    ];
    for (program, text, expected) in cases {
        let folder = experiment(program.name(), "");
        let path = script(folder.path(), program, text);
        let ran = run(folder.path(), &path);
        assert_eq!(ran.status.code(), Some(1), "{text}: {}", shown(&ran));
        assert!(shown(&ran).contains("a planner failed: "), "{text}: {}", shown(&ran));
        assert!(shown(&ran).contains(expected), "{text}: {}", shown(&ran));
        let kept = std::fs::read_to_string(folder.path().join("out/results.jsonl")).unwrap();
        assert_eq!(kept.lines().count(), 1, "what failed has no measures: {kept}");
    }
}

#[test]
fn a_program_that_does_not_come_to_its_end_is_cut_short_and_counted() {
    // This program ignores the signal, and has started another one that keeps its output open.
    let folder = experiment("minisat+", "\n  frames: 1\n  solver_s: 1");
    let deaf = "trap '' TERM\n/bin/sleep 600 &\nwait\nwait\n/bin/sleep 600";
    let path = script(folder.path(), Program::MinisatPlus, deaf);
    let ran = run(folder.path(), &path);
    assert!(ran.status.success(), "{}", shown(&ran));
    let line = " % of its frames at planner minisat+: a faster machine may plan them otherwise";
    assert!(shown(&ran).contains(line), "{}", shown(&ran));
    assert!(report(folder.path()).contains(line), "{}", report(folder.path()));
}

#[test]
fn a_stop_ends_a_running_program_and_keeps_no_measure_of_it() {
    stopped(&[]);
}

#[test]
fn a_stop_in_the_run_that_is_traced_leaves_no_trace() {
    let folder = stopped(&["--trace", "day.jsonl"]);
    assert!(!folder.path().join("day.jsonl").exists());
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let parts: Vec<String> = names.filter(|name| name.ends_with(".part")).collect();
    assert!(parts.is_empty(), "{parts:?}");
    // The same command continues.
    let path = script(folder.path(), Program::MinisatPlus, "echo 's UNSATISFIABLE'");
    let ran = command(folder.path(), &path).args(["--trace", "day.jsonl"]).output().unwrap();
    assert!(ran.status.success(), "{}", shown(&ran));
    assert!(folder.path().join("day.jsonl").is_file());
}

/// The folder of a run that was stopped while its program was at work.
fn stopped(more: &[&str]) -> tempfile::TempDir {
    let folder = experiment("minisat+", "");
    let path =
        script(folder.path(), Program::MinisatPlus, "echo $$ > \"$0.pid\"\nexec /bin/sleep 600");
    let mut running = command(folder.path(), &path)
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let file = folder.path().join("minisat+.pid");
    let begun = Instant::now();
    let started = loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.ends_with('\n') {
            break text.trim().to_owned();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was started");
        std::thread::yield_now();
    };
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert!(!Path::new("/proc").join(&started).join("exe").exists(), "{started} goes on");
    let kept = std::fs::read_to_string(folder.path().join("out/results.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 1, "{kept}");
    folder
}
