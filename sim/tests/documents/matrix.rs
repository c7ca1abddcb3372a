//! The crash matrix: all single deaths and all pairs of every scenario, and the table of them in
//! `docs/PROTOCOL.md`; see `coalloc_sim::matrix`.
//!
//! ```text
//! cargo test -p coalloc-sim --test documents matrix                      runs all of it, and checks the table
//! COALLOC_BLESS=1 cargo test -p coalloc-sim --test documents matrix      writes the table anew
//! COALLOC_CRASH="reserve: Short Grc(0) #2 (D3 commit) AfterFsync" cargo test .. --test documents matrix -- --nocapture
//! ```

use super::page;
use coalloc_sim::matrix::scenarios::ALL;
use coalloc_sim::matrix::{Crash, DownTime, Outcome, Row, Scenario};
use coalloc_sim::world::Trace;
use rayon::prelude::*;

#[test]
fn every_death_and_every_pair_of_them_comes_to_rest_as_it_should() {
    let mut jobs: Vec<(&Scenario, DownTime, Crash)> = Vec::new();
    for scenario in ALL {
        for down in DownTime::ALL {
            let crashes =
                scenario.crashes(down).unwrap_or_else(|error| panic!("{scenario}{error}"));
            jobs.extend(crashes.into_iter().map(|crash| (scenario, down, crash)));
        }
    }
    let rows: Vec<(&Scenario, Crash, Row)> = (jobs.into_par_iter())
        .map(|(scenario, down, crash)| {
            let row = scenario.try_crash(down, &crash);
            (scenario, crash, row)
        })
        .collect();
    let failed: Vec<&String> = rows.iter().flat_map(|(_, _, row)| &row.failed).collect();
    for failed in failed.iter().take(40) {
        eprintln!("{failed}");
    }
    assert!(failed.is_empty(), "{} failed; COALLOC_CRASH=\"..\" replays one", failed.len());
    page::check("crash matrix", &table(rows), |old, new| old == new);
}

fn table(rows: Vec<(&Scenario, Crash, Row)>) -> String {
    let (mut all, mut scenarios) = (Row::default(), String::new());
    // Cells are in the order of the scenarios, and of the points as a run first reaches them.
    let mut cells: Vec<(&Scenario, String, Row)> = Vec::new();
    for (scenario, crash, row) in rows {
        let key = format!("{} | {}", scenario.role(crash.sync.node), crash.sync.point);
        let known = cells.iter_mut().find(|(of, k, _)| of.name == scenario.name && *k == key);
        match known {
            Some((_, _, sum)) => sum.merge(row),
            None => cells.push((scenario, key, row)),
        }
    }
    let mut before = "";
    let mut points = String::new();
    for (scenario, key, row) in cells {
        let name = if scenario.name == before { "" } else { scenario.name };
        if !name.is_empty() {
            scenarios.push_str(&format!("* {}: {}\n", scenario.name, scenario.what));
        }
        before = scenario.name;
        points.push_str(&line(&format!("{name} | {key}"), &row));
        all.merge(row);
    }
    let head = "| scenario | role | written | one death | two | done | refused | mixed | passed |\n\
                |---|---|---|---|---|---|---|---|---|\n";
    format!("{scenarios}\n{head}{points}{}", line("**all** | | ", &all))
}

fn line(key: &str, row: &Row) -> String {
    let of = |outcome| row.outcomes.get(&outcome).copied().unwrap_or_default();
    let (done, refused, mixed) = (of(Outcome::Done), of(Outcome::Refused), of(Outcome::Mixed));
    let runs = row.singles + row.pairs;
    let passed = runs - row.failed.len() as u64;
    let percent = 100 * passed / runs.max(1);
    let (singles, pairs) = (row.singles, row.pairs);
    format!("| {key} | {singles} | {pairs} | {done} | {refused} | {mixed} | {percent} % |\n")
}

/// Prints the transcript of the run that `COALLOC_CRASH` names, in the form in which a failure names it:
/// `reserve: Short Grc(0) #2 .. AfterFsync, then ..`.
#[test]
fn one_that_is_named_is_told() {
    let Ok(wanted) = std::env::var("COALLOC_CRASH") else { return };
    for scenario in ALL {
        for down in DownTime::ALL {
            for first in scenario.crashes(down).unwrap() {
                let name = format!("{scenario}{down:?} {first}");
                if wanted == name {
                    eprintln!("{:?}", scenario.run(down, &[&first], Trace::Print));
                    return;
                }
                let Some(second) = wanted.strip_prefix(&format!("{name}, then ")) else { continue };
                let seconds = scenario.seconds(down, &first).unwrap();
                let second = seconds.iter().find(|crash| crash.to_string() == second);
                let second = second.expect("no such second death");
                eprintln!("{:?}", scenario.run(down, &[&first, second], Trace::Print));
                return;
            }
        }
    }
    panic!("{wanted:?} names no death; paste the name that a failure prints");
}
