//! Traces of jobs: where an experiment finds its trace, what `coalloc trace show` says of one, mistakes, and
//! the figures of the real logs, where those are.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{coalloc, shown};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn tiny() -> Vec<u8> {
    std::fs::read(root().join("docs/examples/jobs/tiny.swf")).unwrap()
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

const FILE: &str = "name: mine
title: Mine
model: jobs
settings: {trace: tiny.swf, planner: online}
sweep:
  - {name: planner, path: planner, values: [online, easy]}
seeds: {count: 1}
metrics: [{name: mean_wait_h, label: Wait}]
plots: [{name: waits, title: Waits, y: [mean_wait_h]}]
";

/// A folder with an experiment file.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.yaml"), text).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file into a folder of this folder.
    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Runs the experiment. Returns the exit code, what was shown, and the measures of each point.
    fn run(&self, out: &str, more: &[&str], variable: Option<&str>) -> (Option<i32>, String) {
        let (file, out) = (self.path("mine.yaml"), self.path(out));
        let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
        command.args(["sim", "run", &file, "--out", &out]).args(more).env_remove("COALLOC_TRACES");
        if let Some(folder) = variable {
            command.env("COALLOC_TRACES", folder);
        }
        let ran = command.output().unwrap();
        (ran.status.code(), shown(&ran))
    }

    /// The measures of each point of the first axis.
    fn measures(&self, out: &str) -> BTreeMap<String, Value> {
        let text = std::fs::read_to_string(format!("{}/results.jsonl", self.path(out))).unwrap();
        let runs = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
        let point = |run: &Value| {
            let labels = run["point"].as_object().unwrap();
            labels.values().next().unwrap().as_str().unwrap().to_owned()
        };
        runs.map(|run| (point(&run), run["measures"].clone())).collect()
    }
}

#[test]
fn a_trace_is_found_beside_the_experiment_then_in_the_named_folder() {
    let folder = Folder::new(FILE);
    let (code, said) = folder.run("out", &[], None);
    assert_eq!(code, Some(6), "{said}");
    for part in [
        "mine.yaml:4: settings.trace: there is no trace tiny.swf: looked for ",
        "--traces DIR or COALLOC_TRACES",
        "Parallel Workloads Archive",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let other = folder.path("other");
    let (code, said) = folder.run("out", &["--traces", &other], None);
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains(&format!(" and {other}/tiny.swf; name its")), "{said}");
    assert!(!Path::new(&folder.path("out")).exists(), "something was written");
    let file = folder.path("mine.yaml");
    let listed = coalloc(&["sim", "show", &file]);
    assert!(listed.status.success(), "{}", shown(&listed));
    assert!(shown(&listed).contains("It cannot run yet"), "{}", shown(&listed));

    // Packed or plain, by option or by variable, the trace is the same.
    folder.put("packed/tiny.swf", &packed(&tiny()));
    folder.put("plain/tiny.swf", &tiny());
    let (packed, plain) = (folder.path("packed"), folder.path("plain"));
    for (out, more, variable) in [
        ("by-option", &["--traces", &packed][..], Some("/nowhere")),
        ("by-variable", &[][..], Some(&plain[..])),
    ] {
        let (code, said) = folder.run(out, more, variable);
        assert_eq!(code, Some(0), "{said}");
    }
    let measures = folder.measures("by-option");
    assert_eq!(measures, folder.measures("by-variable"));
    assert_eq!(
        (&measures["online"]["jobs"], &measures["easy"]["dropped"]),
        (&json!(56.0), &json!(4.0))
    );

    // The file beside the experiment comes first, and another trace means other runs.
    let half = tiny();
    let half = &half[..half.len() / 2];
    folder.put("tiny.swf", &half[..=half.iter().rposition(|byte| *byte == b'\n').unwrap()]);
    let (code, said) = folder.run("by-option", &["--traces", &packed], None);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("choose another --out"), "{said}");
    let (code, said) = folder.run("beside", &["--traces", &packed], None);
    assert_eq!(code, Some(0), "{said}");
    assert!(folder.measures("beside")["online"]["jobs"].as_f64().unwrap() < 40.0, "{said}");
}

#[test]
fn mistakes_in_a_trace_or_in_its_settings_are_told_with_line_and_field() {
    let bad = [&tiny()[..], b"61 5 5 many\n"].concat();
    let cut = packed(&tiny());
    for (trace, text, expected) in [
        (&bad[..], FILE.to_owned(), "tiny.swf:72: field 4 (run time): \"many\" is not allowed"),
        (&cut[..cut.len() / 2], FILE.to_owned(), "tiny.swf: is cut off: "),
        (b"", FILE.to_owned(), "tiny.swf:1: jobs: it is missing"),
        (
            &tiny(),
            FILE.replace("easy", "sjf"),
            "mine.yaml:6: sweep[0].values[1]: planner: `sjf` is not allowed; allowed: online, fcfs",
        ),
        (
            &tiny(),
            FILE.replace("online}", "online, step_s: -1}"),
            "mine.yaml:4: settings.step_s: -1 is not",
        ),
        (&tiny(), FILE.replace("online}", "online, steps: 1}"), "mine.yaml:4: settings"),
        (
            &tiny(),
            FILE.replace("online}", "online, least_cpu_s: 900000}"),
            "mine.yaml:4: settings.trace: a trace of 60 jobs, 4",
        ),
    ] {
        let folder = Folder::new(&text);
        folder.put("tiny.swf", trace);
        let (code, said) = folder.run("out", &[], None);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(expected), "{expected}: {said}");
        assert!(!Path::new(&folder.path("out")).exists(), "something was written");
    }
}

#[test]
fn trace_show_says_what_takes_part() {
    let folder = Folder::new(FILE);
    folder.put("tiny.swf.gz", &packed(&tiny()));
    folder.put("bad.swf", b"; MaxProcs: 4\n1 0 0 10\n");
    folder.put("nameless.swf", b"1 0 0 10 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n");
    let show = |words: &[&str]| {
        let ran = coalloc(&[&["trace", "show"], words].concat());
        (ran.status.code(), shown(&ran))
    };
    let tiny = folder.path("tiny.swf.gz");
    let (code, said) = show(&["--json", &tiny]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(code, Some(0), "{said}");
    for (field, value) in
        [("jobs", 56), ("servers", 8), ("dropped_without_run", 2), ("dropped_too_large", 1)]
    {
        assert_eq!(report[field], value, "{field}: {said}");
    }
    let (_, said) = show(&["--servers", "4", &tiny]);
    assert!(said.contains("2 without a run time, 1 without a size, 13 too large"), "{said}");
    for (words, expected) in [
        (&["nowhere.swf"][..], "nowhere.swf: No such file"),
        (
            &[&folder.path("bad.swf")],
            "bad.swf:2: line: 4 fields is not allowed; allowed: 18 fields",
        ),
        (&[&folder.path("nameless.swf")], "--servers: it is missing; needed: 1 to "),
        (&["--servers", "0", &tiny], "--servers: 0 is not allowed"),
        (&["--least-cpu-s", "-5", &tiny], "--least-cpu-s: -5 is not allowed; allowed: 0 to"),
        (&["--least-cpu-s", "900000", &tiny], "a trace of 60 jobs, 4 of them dropped"),
        (&["docs"], "docs"),
    ] {
        let (code, said) = show(words);
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

/// The experiments of the program name real logs. By name, a missing log is an error; with `--all`, what needs
/// it is left out, and told.
#[test]
fn without_the_logs_of_a_shipped_experiment_all_others_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
        let ran = command.args(["sim", "run"]).args(words).env_remove("COALLOC_TRACES");
        let ran = ran.output().unwrap();
        (ran.status.code(), shown(&ran))
    };
    let (code, said) = run(&["castillo-2009-waits", "--out", &path("named")]);
    assert_eq!(code, Some(6), "{said}");
    let missing = "there is no trace KTH-SP2-1996-2-raw.swf.gz: no folder was named; name its folder \
                   with --traces DIR or COALLOC_TRACES";
    assert!(said.contains("castillo-2009-waits.yaml:") && said.contains(missing), "{said}");
    assert!(!Path::new(&path("named")).exists(), "something was written");

    // A small run has a trace that comes with the program, whatever is in the folder of traces.
    let (code, said) = run(&["castillo-2009-waits", "--small", "--out", &path("small")]);
    assert_eq!(code, Some(0), "{said}");
    let report = std::fs::read_to_string(folder.path().join("small/report.md")).unwrap();
    assert!(report.contains("tiny") && !report.contains("left out"), "{report}");
}

/// A real log, and the points of an experiment on it.
struct Log {
    file: &'static str,
    /// Settings of all points.
    settings: &'static str,
    points: &'static [LogPoint],
}

/// A point, and what was derived for it elsewhere: metric, value, and half of its last digit.
struct LogPoint {
    settings: &'static str,
    figures: &'static [(&'static str, f64, f64)],
}

const fn point(settings: &'static str, figures: &'static [(&'static str, f64, f64)]) -> LogPoint {
    LogPoint { settings, figures }
}

/// Figures that another program has derived from the same logs. Some are of single servers.
const LOGS: [Log; 3] = [
    Log {
        file: "KTH-SP2-1996-2-raw.swf.gz",
        settings: "slot_s: 900",
        points: &[
            point(
                "planner: logged",
                &[
                    ("jobs", 28_481.0, 0.0),
                    ("servers", 100.0, 0.0),
                    ("mean_run_h", 2.466, 0.0005),
                    ("longest_wait_h", 272.23, 0.005),
                    ("waits_under_1h", 0.695, 0.0005),
                    ("penalty_4h_to_10h", 1.42, 0.005),
                ],
            ),
            point(
                "planner: online",
                &[
                    ("refused", 0.0, 0.0),
                    ("mean_wait_h", 2.05, 0.005),
                    ("longest_wait_h", 77.0, 0.05),
                    ("attempts_by_size_left@50", 8.3, 0.05),
                    ("attempts_by_size_left@150", 152.0, 0.0),
                    ("penalty_4h_to_10h", 0.53, 0.005),
                ],
            ),
            point("planner: online, index: count", &[("mean_wait_h", 2.052, 0.0005)]),
            point(
                "planner: online, index: tree",
                &[
                    ("mean_wait_h", 2.054, 0.0005),
                    ("longest_wait_h", 77.0, 0.05),
                    ("waits_under_1h", 0.645, 0.0005),
                    ("attempts_by_size_left@50", 8.3, 0.05),
                    ("attempts_by_size_left@100", 46.3, 0.05),
                    ("attempts_by_size_left@150", 152.0, 0.0),
                ],
            ),
            point(
                "planner: online, index: tree, round_run_to_s: 300",
                &[
                    ("attempts_by_size_left@50", 9.8, 0.05),
                    ("attempts_by_size_left@100", 50.7, 0.05),
                ],
            ),
            point(
                "planner: online, step_s: 0",
                &[("mean_wait_h", 1.970, 0.0005), ("longest_wait_h", 74.11, 0.005)],
            ),
            point(
                "planner: conservative",
                &[("mean_wait_h", 1.970, 0.0005), ("longest_wait_h", 74.11, 0.005)],
            ),
            point("planner: easy", &[("mean_wait_h", 1.77, 0.005)]),
            point("planner: easy, estimates: user", &[("mean_wait_h", 1.90, 0.005)]),
            point("planner: online, servers: 128", &[("longest_wait_h", 34.75, 0.005)]),
        ],
    },
    Log {
        file: "CTC-SP2-1996-3.1-cln.swf.gz",
        settings: "servers: 512, least_cpu_s: 550",
        points: &[
            point(
                "planner: logged, estimates: user",
                &[
                    ("jobs", 39_732.0, 0.0),
                    ("mean_run_h", 5.83, 0.005),
                    ("longest_wait_h", 673.64, 0.005),
                    ("estimates_under_2h", 0.129, 0.0005),
                    ("runs_under_2h", 0.38, 0.005),
                ],
            ),
            point(
                "planner: online",
                &[("mean_wait_h", 0.49, 0.005), ("longest_wait_h", 23.0, 0.05)],
            ),
            point("planner: easy", &[("mean_wait_h", 0.38, 0.005)]),
            point("planner: easy, estimates: user", &[("mean_wait_h", 0.31, 0.005)]),
        ],
    },
    Log {
        file: "HPC2N-2002-2.2-cln.swf.gz",
        settings: "slot_s: 900",
        points: &[
            point(
                "planner: online",
                &[
                    ("jobs", 202_871.0, 0.0),
                    ("servers", 240.0, 0.0),
                    ("mean_run_h", 4.729, 0.0005),
                    ("longest_wait_h", 323.0, 0.5),
                ],
            ),
            point("planner: online, index: tree", &[("mean_wait_h", 3.25, 0.005)]),
            point("planner: easy", &[("mean_wait_h", 3.23, 0.005)]),
            point("planner: easy, estimates: user", &[("mean_wait_h", 3.13, 0.005)]),
        ],
    },
];

#[test]
fn the_logs_of_the_paper_have_their_figures() {
    let traces = root().join("../shared/data/traces");
    for log in &LOGS {
        if !traces.join(log.file).exists() {
            println!("skipped: {} is not in {}", log.file, traces.display());
            continue;
        }
        let value = |(at, point): (usize, &LogPoint)| {
            format!("      - {{label: p{at}, set: {{{}, {}}}}}\n", point.settings, log.settings)
        };
        let values: String = log.points.iter().enumerate().map(value).collect();
        let axis = "  - {name: planner, path: planner, values: [online, easy]}\n";
        let text = FILE
            .replace("tiny.swf", log.file)
            .replace(axis, &format!("  - name: point\n    values:\n{values}"));
        let folder = Folder::new(&text);
        let (code, said) = folder.run("out", &["--traces", traces.to_str().unwrap()], None);
        assert_eq!(code, Some(0), "{said}");
        let measures = folder.measures("out");
        for (at, point) in log.points.iter().enumerate() {
            for (metric, value, within) in point.figures {
                let own = measures[&format!("p{at}")][*metric].as_f64().unwrap();
                let place = format!("{}, {}", log.file, point.settings);
                assert!(
                    (own - value).abs() <= within + 1e-9,
                    "{place}: {metric} is {own}, not {value}"
                );
            }
        }
    }
}
