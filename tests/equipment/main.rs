//! Real clusters and a real link: `coalloc demo equipment` as root and as a plain user, and resource managers and controllers
//! that are killed at each step.
//!
//! Where COALLOC_EQUIPMENT is not 1 it does nothing; where it is, what is missing is a failure.

// clippy allows unwrap in test functions only; this file is test code all through.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod controller_kills;
mod crm_kills;
mod gate;
// Each test target uses a part of it.
#[allow(dead_code)]
#[path = "../harness/mod.rs"]
mod harness;
mod link;
mod manager;
mod nrm_kills;
mod site;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_coalloc");
/// What is measured would compete for the processors with all else.
static TURN: RwLock<()> = RwLock::new(());

/// The turn of a test that measures.
fn own_turn() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

fn is_wanted() -> bool {
    let is = std::env::var("COALLOC_EQUIPMENT").as_deref() == Ok("1");
    if !is {
        eprintln!("skipped: COALLOC_EQUIPMENT is not 1");
    }
    is
}

/// Runs a test beside which others may run.
fn run(test: impl Future<Output = ()>) {
    if is_wanted() {
        let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
        block_on(test);
    }
}

/// Runs the test for each of these at once: it waits most of the time.
fn run_each<T: Copy + Send>(cases: &[T], test: impl AsyncFn(T) + Sync) {
    if is_wanted() {
        let _turn = TURN.read().unwrap_or_else(PoisonError::into_inner);
        let test = &test;
        std::thread::scope(|threads| {
            for case in cases.iter().copied() {
                threads.spawn(move || block_on(test(case)));
            }
        });
    }
}

/// In one thread, because daemons end with the thread that has started them.
fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Is the story told to its end, with the right figures?
fn check(demo: &Output) {
    let said = String::from_utf8_lossy(&demo.stderr);
    let answer = String::from_utf8_lossy(&demo.stdout);
    assert_eq!(demo.status.code(), Some(0), "{said}{answer}");
    let report: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(report["proven"], true, "{report}");
    assert!(report["refusedHeld"].as_str().unwrap().contains("Access denied"), "{report}");
    assert_eq!(report["refusedBefore"].as_array().unwrap().len(), 2, "{report}");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{report}"));
    let active = number(&report["activeSeconds"]);
    println!("the reservation was active {active:.2} s into its window");
    assert!((0.0..5.0).contains(&active), "{report}");
    let share = number(&report["measuredBps"]) / number(&report["bookedBps"]);
    println!("measured {:.1} % of what is booked", share * 100.0);
    assert!((0.90..=0.97).contains(&share), "{report}");
    for site in report["sites"].as_array().unwrap() {
        let started = number(&site["startedSeconds"]);
        println!("{}: the job started {started:.2} s into its window", site["site"]);
        assert!((0.0..number(&report["windowSeconds"])).contains(&started), "{report}");
        assert!(site["jobEndedSeconds"].is_number(), "{report}");
        assert!(site["reservationGoneSeconds"].is_number(), "{report}");
    }
    assert!(report["classGoneSeconds"].is_number(), "{report}");
    assert_eq!(report["violations"].as_array().unwrap().len(), 0, "{report}");
}

/// The processes that have this path in their environment or command: daemons, clusters and jobs of a demo there.
fn processes_of(folder: &Path) -> Vec<String> {
    let mark = folder.display().to_string();
    let mut all = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let text = |file: &str| {
            let bytes = std::fs::read(process.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let command = text("cmdline");
        if command.contains(&mark) || text("environ").contains(&mark) {
            all.push(command);
        }
    }
    all
}

#[test]
fn the_story_is_told() {
    if !is_wanted() {
        return;
    }
    let _turn = own_turn();
    check(&Command::new(PROGRAM).args(["demo", "equipment", "--json"]).output().unwrap());
}

#[test]
fn a_plain_user_is_told_the_same_story() {
    if !is_wanted() || !is_root() {
        return;
    }
    let _turn = own_turn();
    let plain = |words: &[&str]| {
        let user = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"];
        Command::new("setpriv").args(user).args(words).current_dir("/").output().unwrap()
    };
    let test =
        ["unshare", "--user", "--map-current-user", "--net", "--mount", "test", "-x", PROGRAM];
    if !plain(&test).status.success() {
        eprintln!("skipped: plain users may have no namespaces here, or may not run {PROGRAM}");
        return;
    }
    check(&plain(&[PROGRAM, "demo", "equipment", "--json"]));
}

#[test]
fn a_reservation_moves_off_a_node_that_dies() {
    if !is_wanted() {
        return;
    }
    let _turn = own_turn();
    let args = ["demo", "equipment", "--kill-node", "--json"];
    let demo = Command::new(PROGRAM).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&demo.stderr);
    let answer = String::from_utf8_lossy(&demo.stdout);
    assert_eq!(demo.status.code(), Some(0), "{said}{answer}");
    let report: Value = serde_json::from_str(&answer).unwrap();
    let nodes = |name: &str| -> Vec<&str> {
        report[name].as_array().unwrap().iter().map(|node| node.as_str().unwrap()).collect()
    };
    let killed = report["killed"].as_str().unwrap();
    assert!(nodes("nodesBefore").contains(&killed), "{report}");
    assert!(nodes("nodesAfter").len() == 2 && !nodes("nodesAfter").contains(&killed), "{report}");
    for name in ["toldSeconds", "movedSeconds", "runsAgainSeconds"] {
        println!("{name}: {:.1}", report[name].as_f64().unwrap_or_else(|| panic!("{report}")));
    }
    assert_eq!(report["proven"], true, "{report}");
    assert_eq!((&report["sameHandle"], &report["gone"]), (&true.into(), &true.into()), "{report}");
    assert_eq!(report["violations"].as_array().unwrap().len(), 0, "{report}");
}

#[test]
fn an_interrupted_story_leaves_nothing() {
    if !is_wanted() {
        return;
    }
    let _turn = own_turn();
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("story");
    let mut demo =
        Command::new(PROGRAM).args(["demo", "equipment", "--dir"]).arg(&own).spawn().unwrap();
    // Until a job runs.
    let end = Instant::now() + Duration::from_secs(60);
    while !own.join("jobs/started-N0").exists() {
        assert!(Instant::now() < end && demo.try_wait().unwrap().is_none(), "no job has started");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(processes_of(&own).len() > 8, "{:?}", processes_of(&own));
    kill_process(Pid::from_child(&demo), Signal::INT).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(130));
    assert_eq!(processes_of(&own), Vec::<String>::new());
}
