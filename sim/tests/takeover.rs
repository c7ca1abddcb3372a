//! Worlds in which processes of a coordinator share its ledger. `coalloc sim takeover` runs more of them.

// clippy allows unwrap in test functions only; the helpers of this file are test code all through.
#![allow(clippy::unwrap_used)]

use coalloc_sim::takeover::{Mistake, TakeoverCounts, run};
use rayon::prelude::*;

/// Worlds of every test run.
const SEEDS: u64 = 400;

#[test]
fn whoever_leads_and_whoever_believes_to_the_log_is_one_and_nothing_is_lost() {
    let ends: Vec<Result<TakeoverCounts, String>> =
        (0..SEEDS).into_par_iter().map(|seed| run(seed, None)).collect();
    let mut all = TakeoverCounts::default();
    for end in ends {
        all.add(&end.unwrap_or_else(|what| panic!("{what}")));
    }
    println!("{all:?}");
    assert!(all.elections > 5 * SEEDS && all.replaced > SEEDS, "{all:?}");
    assert!(all.lies > SEEDS && all.freezes > SEEDS && all.refused_orders > SEEDS / 4, "{all:?}");
    assert!(all.restarted_managers > 2 * SEEDS, "{all:?}");
    assert!(all.confirmed > SEEDS && all.failed > SEEDS / 4, "{all:?}");
}

/// In how many of the worlds a mistake is found, and what the first one says.
fn found(mistake: Mistake) -> (usize, String) {
    let ends = (0..60_u64).into_par_iter().map(|seed| run(seed, Some(mistake)).err());
    let found: Vec<String> = ends.flatten().collect();
    (found.len(), found.into_iter().next().unwrap_or_default())
}

#[test]
fn mistakes_on_purpose_are_found() {
    let (worlds, what) = found(Mistake::NoCompare);
    assert!(worlds > 30, "in {worlds} of 60: {what}");
    let (worlds, what) = found(Mistake::AnyEpoch);
    assert!(worlds > 10 && what.contains("I20"), "in {worlds} of 60: {what}");
}
