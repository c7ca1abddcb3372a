//! Runs many seeds, each in its own run, and proves that a run can fail.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use coalloc_net::telemetry::LogFormat;

use crate::run::{Ledgers, Outcome, run};

/// Number of runs of an ordinary test.
const SEEDS: u64 = 160;
/// Number of seeds within which a planted fault must be found.
const PLANTED_SEEDS: u64 = 40;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text:?} is no number")))
}

/// Shows a run that has failed, and how to repeat it.
fn report(seed: u64, outcome: &Outcome) -> String {
    let lines = outcome.lines.join("\n");
    let faults = outcome.faults.join("\n  ");
    format!(
        "{lines}\nseed {seed}:\n  {faults}\nagain: COALLOC_SEED={seed} cargo test -p coalloc --test \
         shells seeds_hold -- --nocapture"
    )
}

/// Events that must occur in the runs of a test, as the log shows them; a run in which nothing happens
/// proves nothing.
const HAPPENS: [&str; 37] = [
    " Confirmed ",
    " Changed ",
    " Unchanged ",
    " Refused ",
    " Released ",
    " Lost",
    "TimedOut",
    " Waits",
    " Deadline(",
    " Vanishes(",
    " Partition(",
    " OneWay(",
    " Hold(",
    " Slow(",
    ", No)",
    ", Yes)",
    ", Low)",
    "nearly full",
    "the append was cut, BeforeWrite",
    "the append was cut, BeforeDurable",
    "the append was cut, Torn",
    "the append was cut, BeforeReturn",
    "Bookings ended",
    "Reservations ended",
    " goes on from revision ",
    " begins anew at revision ",
    " Renew(",
    "has no valid certificate",
    " Revoke",
    "Hold with a stolen key (Denial): PermissionDenied",
    "Commit with a stolen key (Denial): PermissionDenied",
    "Resolve with a stolen key (Denial): PermissionDenied",
    "Release with a stolen key (Refusal): refused",
    "Hold that replaces with a stolen key (Refusal): refused",
    "Hold with a stolen key (Anything): done",
    "Release with a stolen key (Anything): done",
    "with a revoked key (Anything): Unavailable",
];

/// How often each of these events has occurred.
#[derive(Debug, Default)]
struct Tally(Mutex<BTreeMap<&'static str, usize>>);

impl Tally {
    fn count(&self, outcome: &Outcome) {
        let mut counts = self.0.lock().unwrap();
        for what in HAPPENS {
            let lines = outcome.lines.iter().filter(|line| line.contains(what));
            *counts.entry(what).or_default() += lines.count();
        }
    }

    /// Prints the counts; an ordinary run fails if one of the events never occurred.
    fn check(&self, seeds: u64) {
        let counts = self.0.lock().unwrap();
        println!("{seeds} seeds");
        for (what, count) in &*counts {
            println!("{count:>8} {}", what.trim());
        }
        let missing: Vec<_> = counts.iter().filter(|(_, count)| **count == 0).collect();
        assert!(
            seeds < SEEDS || missing.is_empty(),
            "has not happened in {seeds} seeds: {missing:?}"
        );
    }
}

/// Runs seeds on all cores until `against` finds a fault in one; returns the first seed that failed.
fn first_failing(
    seeds: u64,
    ledgers: Ledgers,
    against: impl Fn(&Outcome) -> bool + Sync,
) -> Option<(u64, Outcome)> {
    let next = AtomicU64::new(0);
    let failed: Mutex<Option<(u64, Outcome)>> = Mutex::new(None);
    let work = || {
        while failed.lock().unwrap().is_none() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            let outcome = run(seed, ledgers);
            let mut failed = failed.lock().unwrap();
            if against(&outcome) && failed.as_ref().is_none_or(|(first, _)| seed < *first) {
                *failed = Some((seed, outcome));
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    failed.into_inner().unwrap()
}

#[test]
fn seeds_hold_every_promise() {
    if let Some(seed) = number("COALLOC_SEED") {
        if std::env::var_os("COALLOC_LOG").is_some() {
            coalloc_net::telemetry::init(LogFormat::Text);
        }
        let outcome = run(seed, Ledgers::Sound);
        println!("{}", outcome.lines.join("\n"));
        assert!(outcome.faults.is_empty(), "{}", outcome.faults.join("\n"));
        return;
    }
    let seeds = number("COALLOC_SHELL_SEEDS").unwrap_or(SEEDS);
    let tally = Tally::default();
    let failed = first_failing(seeds, Ledgers::Sound, |outcome| {
        tally.count(outcome);
        !outcome.faults.is_empty()
    });
    if let Some((seed, outcome)) = failed {
        panic!("{}", report(seed, &outcome));
    }
    tally.check(seeds);
}

#[test]
fn a_ledger_that_says_more_than_it_has_is_found() {
    // The fault must be found by the auditor: what a client was told is no longer true. It is not enough
    // that a follower notices it first, because it was told of records that do not exist yet.
    let by_the_auditor = |outcome: &Outcome| {
        outcome.faults.iter().any(|fault| fault.starts_with("I6") || fault.starts_with("I8"))
    };
    let found = first_failing(PLANTED_SEEDS, Ledgers::Lying, by_the_auditor);
    let (seed, outcome) = found.expect("it is found");
    println!("found with seed {seed}:\n{}", outcome.faults.join("\n"));
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 4, 5] {
        let (first, again) = (run(seed, Ledgers::Sound), run(seed, Ledgers::Sound));
        let differs = first.lines.iter().zip(&again.lines).position(|(a, b)| a != b);
        if let Some(at) = differs {
            let from = at.saturating_sub(5);
            panic!(
                "seed {seed}: line {at} differs\n{}\n--- again\n{}",
                first.lines[from..(at + 3).min(first.lines.len())].join("\n"),
                again.lines[from..(at + 3).min(again.lines.len())].join("\n")
            );
        }
        assert_eq!(first.lines.len(), again.lines.len());
        assert!(first.lines.len() > 50, "seed {seed} did nothing");
    }
}
