//! The ordinary run of random worlds under faults; see `coalloc_sim::fault`.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Clippy does not take helper functions for tests.

use coalloc_sim::fault::{Counts, Fault, Kind, corpus, run, run_kind};
use coalloc_sim::world::Trace;

/// Number of seeds of the ordinary run.
const SEEDS: u64 = 2_000;

#[allow(clippy::disallowed_methods)] // The environment says which seeds the test runs.
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs these seeds. Reports which of them failed, and how to replay them.
fn run_all(seeds: impl Iterator<Item = u64>) -> Counts {
    let mut total = Counts::default();
    let mut failed = Vec::new();
    for seed in seeds {
        match run(seed, false) {
            Ok(counts) => total.add(&counts),
            Err(failure) => {
                eprintln!("{failure}\n  cargo run --release -- {}", &failure.replay()[8..]);
                failed.push(seed);
            }
        }
    }
    assert!(failed.is_empty(), "{} seeds failed: {failed:?}", failed.len());
    total
}

#[test]
fn every_seed_comes_to_rest_as_it_should() {
    if let Some(seed) = variable("COALLOC_SEED") {
        let counts = run(seed, true).unwrap_or_else(|failure| panic!("{failure}"));
        return eprintln!("{counts:?}");
    }
    run_all(corpus::present().into_iter().map(|found| found.seed));
    let seeds = variable("COALLOC_SEEDS").unwrap_or(SEEDS);
    let total = run_all(0..seeds);
    eprintln!("{seeds} seeds: {total:?}");
    if seeds < SEEDS {
        return;
    }
    // A run in which too few faults happened proves nothing.
    for fault in Fault::ALL {
        assert!(total.of(fault) >= seeds / 10, "{fault:?} is too rare: {}", total.of(fault));
    }
    for (name, count) in total.named() {
        assert!(count >= seeds / 100, "{name}: {count} in {seeds} seeds is too few");
    }
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for kind in Kind::ALL {
        let counts = || run_kind(Some(kind), 3, Trace::Off).unwrap();
        assert_eq!(counts(), counts());
    }
}
