//! The folder of results: the same bytes however the runs came about, and nothing is lost when the program
//! is killed, the disk is full, or another process works there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::tmpfs::Small;
use super::{FEDERATION, MINE, coalloc, shown, written};

fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path.as_ref()).unwrap()
}

fn golden(model: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/experiments/golden");
    folder.join(format!("{model}.yaml")).to_str().unwrap().to_owned()
}

/// Runs an experiment to its end.
fn run(file: &str, out: &Path, more: &[&str]) -> String {
    let words = [&["sim", "run", file, "--out", out.to_str().unwrap()], more].concat();
    let ran = coalloc(&words);
    assert!(ran.status.success(), "{}", shown(&ran));
    shown(&ran)
}

#[test]
fn threads_and_stops_change_no_byte() {
    for model in ["tasks", "coallocations", "jobs"] {
        let file = golden(model);
        let folder = tempfile::tempdir().unwrap();
        let out = |name: &str| folder.path().join(name);
        run(&file, &out("one"), &["--seeds", "3", "--jobs", "1"]);
        run(&file, &out("two"), &["--seeds", "3", "--jobs", "2"]);
        run(&file, &out("halves"), &["--seeds", "1", "--jobs", "2"]);
        let told = run(&file, &out("halves"), &["--seeds", "3", "--jobs", "2"]);
        assert!(!told.contains("(0 were there)"), "{told}");
        for own in ["results.jsonl", "results.csv", "report.md", "plot.svg"] {
            let expected = text(out("one").join(own));
            for name in ["two", "halves"] {
                assert!(text(out(name).join(own)) == expected, "{model}: {name}/{own} differs");
            }
        }
    }
}

/// A program at work, killed when this value is dropped.
struct Running(Child);

impl Running {
    fn start(file: &str, out: &Path, seeds: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
        command.args(["sim", "run", file, "--seeds", seeds, "--out"]).arg(out);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Waits until the file has this many lines.
    fn until(&mut self, runs: &Path, lines: usize) {
        let has = || std::fs::read(runs).map(|bytes| bytes.iter().filter(|b| **b == b'\n').count());
        let is_there = || has().is_ok_and(|count| count >= lines);
        while !is_there() {
            if let Some(status) = self.0.try_wait().unwrap() {
                // The program may have written the lines since they were counted.
                assert!(is_there(), "ended before it had {lines} lines: {status}");
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_run_that_is_killed_goes_on_to_the_same_bytes() {
    const SEEDS: &str = "300";
    let (folder, file) = written(MINE);
    let whole = folder.path().join("whole");
    run(&file, &whole, &["--seeds", SEEDS]);
    let out = folder.path().join("out");
    let runs = out.join("results.jsonl");
    // Killed before its first run, and at some of the 600.
    for lines in [0, 1, 2, 40, 90, 200] {
        let mut running = Running::start(&file, &out, SEEDS);
        running.until(&runs, lines);
        drop(running);
    }
    let told = run(&file, &out, &["--seeds", SEEDS]);
    assert!(!told.contains("(0 were there)"), "{told}");
    for own in ["results.jsonl", "results.csv", "report.md", "experiment.yaml"] {
        assert!(text(out.join(own)) == text(whole.join(own)), "{own} differs");
    }
    let left = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let left: Vec<PathBuf> =
        left.filter(|path| path.extension().is_some_and(|e| e == "part")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_full_disk_ends_the_run_and_loses_nothing() {
    let Some(disk) = Small::mounted(4) else { return };
    let (folder, file) = written(MINE);
    let whole = folder.path().join("whole");
    run(&file, &whole, &["--seeds", "100"]);
    let out = disk.path().join("out");
    disk.fill();
    disk.give_back(20 << 10);
    let words = ["sim", "run", &file, "--seeds", "100", "--out", out.to_str().unwrap()];
    let full = coalloc(&words);
    assert_eq!(full.status.code(), Some(1), "{}", shown(&full));
    assert!(shown(&full).contains("No space left on device"), "{}", shown(&full));
    assert!(shown(&full).contains("the same command continues from there"), "{}", shown(&full));
    let kept = text(out.join("results.jsonl"));
    assert!(kept.ends_with('\n') && kept.lines().count() > 2, "{kept}");
    for line in kept.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
    disk.free();
    run(&file, &out, &["--seeds", "100"]);
    assert!(text(out.join("results.jsonl")) == text(whole.join("results.jsonl")));
}

#[test]
fn the_same_command_goes_on_with_its_trace_and_not_with_that_of_another_run() {
    let (folder, file) = written(MINE);
    let (out, trace) = (folder.path().join("out"), folder.path().join("day.jsonl"));
    let more = |at: &'static str| ["--trace", trace.to_str().unwrap(), "--at", at];
    run(&file, &out, &more("frames=2"));
    let whole = text(&trace);
    let told = run(&file, &out, &more("frames=2"));
    assert!(told.contains("0 runs in"), "{told}");
    let words = ["sim", "run", &file, "--out", out.to_str().unwrap()];
    let other = coalloc(&[&words[..], &more("frames=1")].concat());
    assert_eq!(other.status.code(), Some(2), "{}", shown(&other));
    assert!(shown(&other).contains("is the trace of another run; allowed"), "{}", shown(&other));
    assert_eq!(text(&trace), whole, "overwritten");
    // A trace may also be in the folder of the results, which is created for it.
    let (out, within) = (folder.path().join("new"), folder.path().join("new/day.jsonl"));
    for _ in 0..2 {
        run(&file, &out, &["--trace", within.to_str().unwrap(), "--at", "frames=2"]);
        assert_eq!(text(&within), whole);
    }
}

#[test]
fn two_at_once_do_not_write_to_one_folder() {
    let (folder, file) = written(MINE);
    let out = folder.path().join("out");
    let mut first = Running::start(&file, &out, "100000");
    first.until(&out.join("results.jsonl"), 2);
    let second = coalloc(&["sim", "run", &file, "--out", out.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(3), "{}", shown(&second));
    let said = "another `coalloc sim run` writes to this folder; wait for its end";
    assert!(shown(&second).contains(said), "{}", shown(&second));
    drop(first);
    run(&file, &out, &[]);
}

#[test]
fn a_folder_of_another_experiment_or_program_is_refused_and_a_new_label_is_not() {
    let (folder, file) = written(MINE);
    let out = folder.path().join("out");
    run(&file, &out, &[]);
    let runs = out.join("results.jsonl");
    let whole = text(&runs);
    let refused = |said: &str| {
        let again = coalloc(&["sim", "run", &file, "--out", out.to_str().unwrap()]);
        assert_eq!(again.status.code(), Some(2), "{}", shown(&again));
        assert!(shown(&again).contains(said), "{}", shown(&again));
    };
    std::fs::write(&file, MINE.replace("requests: 3", "requests: 4")).unwrap();
    refused("results.jsonl:1: digest: the folder holds results of mine from before");
    assert_eq!(text(&runs), whole, "overwritten");
    let timed = "metrics:\n  - {name: plan_ms, label: Time}";
    std::fs::write(&file, MINE.replace("metrics:", timed)).unwrap();
    refused("or from runs that were not timed");
    assert_eq!(text(&runs), whole, "overwritten");
    std::fs::write(&file, MINE.replace("label: Success", "label: Ratio")).unwrap();
    let told = run(&file, &out, &[]);
    assert!(told.contains("0 runs in"), "another label is no other experiment: {told}");
    let other = whole.replace("\"version\":\"", "\"version\":\"0.");
    std::fs::write(&runs, &other).unwrap();
    refused("results of two programs are not mixed; choose another --out, or remove the folder");
    assert_eq!(text(&runs), other, "overwritten");
    // Results of two programs may be compared when they are in different folders.
    let own = folder.path().join("own");
    run(&file, &own, &[]);
    let compared = coalloc(&["sim", "compare", out.to_str().unwrap(), own.to_str().unwrap()]);
    assert!(compared.status.success(), "{}", shown(&compared));
    assert!(shown(&compared).contains("ONE was made by coalloc 0."), "{}", shown(&compared));
}

/// The folder, the federation and the program of an experiment are not there any more, and its traces come from elsewhere.
#[test]
fn the_experiment_of_a_folder_runs_again_without_its_files_from_anywhere() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let (deep, elsewhere) = (folder.path().join("a/b"), folder.path().join("elsewhere"));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(folder.path().join("a/federation.yaml"), FEDERATION).unwrap();
    let program = deep.join("mine");
    std::fs::write(&program, "#!/bin/sh\necho '{\"refused\": \"no\"}'\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let own = MINE.replace("federation.yaml", "../federation.yaml");
    let own = own.replace(
        "path: frames, values: [1, 2]",
        "path: planner, values: [exact, \"program:./mine\"]",
    );
    std::fs::write(deep.join("own.yaml"), own).unwrap();
    let jobs =
        coalloc(&["sim", "new", deep.join("jobs.yaml").to_str().unwrap(), "--blank", "jobs"]);
    assert!(jobs.status.success(), "{}", shown(&jobs));
    std::fs::rename(deep.join("tiny.swf"), elsewhere.join("tiny.swf")).unwrap();
    let first = |name: &str| {
        let out = folder.path().join("out").join(name);
        let file = deep.join(format!("{name}.yaml"));
        let more = ["--traces", elsewhere.to_str().unwrap()];
        run(file.to_str().unwrap(), &out, &more);
        out
    };
    let outs = [first("own"), first("jobs")];
    std::fs::remove_dir_all(folder.path().join("a")).unwrap();
    std::fs::remove_dir_all(&elsewhere).unwrap();
    for out in outs {
        let again = out.with_extension("again");
        let ran = Command::new(env!("CARGO_BIN_EXE_coalloc"))
            .args(["sim", "run", "experiment.yaml", "--out", again.to_str().unwrap()])
            .current_dir(&out)
            .env_remove("COALLOC_TRACES")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", shown(&ran));
        assert_eq!(text(again.join("results.jsonl")), text(out.join("results.jsonl")));
        // A folder that was made of a folder is one, too.
        let file = again.join("experiment.yaml");
        let told = run(file.to_str().unwrap(), &again, &[]);
        assert!(told.contains("0 runs in "), "{told}");
        let named = coalloc(&["sim", "show", again.to_str().unwrap()]);
        assert!(shown(&named).contains("again/experiment.yaml?"), "{}", shown(&named));
    }
}

#[test]
fn a_curve_that_no_plot_draws_is_told() {
    let curve = "  - {name: success_until, label: Success}\nplots:";
    let (folder, file) = written(&MINE.replace("plots:", curve));
    let out = folder.path().join("out");
    let told = run(&file, &out, &[]);
    let said = "no plot draws the points of success_until, which are in results.csv; to draw a curve, add to \
                plots: {name: success_until, title: A title, x: \"@\", y: [success_until]}";
    assert!(told.contains(said), "{told}");
    assert!(text(out.join("report.md")).contains(&format!("* {said}\n")));
    let add = "y: [success]}, {name: success_until, title: A title, x: \"@\", y: [success_until]}";
    std::fs::write(&file, MINE.replace("plots:", curve).replace("y: [success]}", add)).unwrap();
    let told = run(&file, &out, &[]);
    assert!(!told.contains("no plot draws") && out.join("success_until.svg").exists(), "{told}");
}

#[test]
fn several_experiments_have_a_folder_each_and_a_line_in_one_table() {
    let (folder, file) = written(MINE);
    let other = folder.path().join("other.yaml");
    std::fs::write(&other, MINE.replace("name: mine", "name: other")).unwrap();
    let other = other.to_str().unwrap();
    let out = folder.path().join("out");
    let told = run(&file, &out, &[other, "--png"]);
    for (name, runs) in [("mine", "2"), ("other", "2"), ("all", "4")] {
        let line = told.lines().find(|line| line.split_whitespace().next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("{name} has no line in\n{told}"));
        assert_eq!(line.split_whitespace().nth(1), Some(runs), "{told}");
    }
    for name in ["mine", "other"] {
        assert!(out.join(name).join("report.md").is_file(), "{name}");
        let svg = text(out.join(name).join("over-frames.svg"));
        let png = std::fs::read(out.join(name).join("over-frames.png")).unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "{name}");
        let wide: u32 =
            svg.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        let pixels = u32::from_be_bytes(png[16..20].try_into().unwrap());
        assert!(pixels.abs_diff(2 * wide) <= 2, "{pixels} pixels of {wide}");
    }
    let twice = coalloc(&["sim", "run", &file, &file, "--out", out.to_str().unwrap()]);
    assert_eq!(twice.status.code(), Some(2), "{}", shown(&twice));
    assert!(shown(&twice).contains("two of the experiments are named mine"), "{}", shown(&twice));
}
