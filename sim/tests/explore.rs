//! Every possible run of a small federation, up to a number of faults; see `coalloc_sim::explore`.
//!
//! ```text
//! cargo test -p coalloc-sim --test explore -- --nocapture                        the daily bound
//! cargo test --release -p coalloc-sim --test explore -- --ignored --nocapture    the deep bound (`just deep`)
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used)] // Clippy does not take helper functions for tests.

use std::collections::BTreeSet;

use coalloc_sim::explore::{
    Bound, CHANGE_OF_RUNNING, Check, Explored, FailedCheck, Fault, ONE_WAY, SECOND_PLAN, Scenario,
    explore,
};
use rayon::prelude::*;

fn print(scenario: &Scenario, kinds: &[Fault], explored: &Explored) {
    let Explored { states, choices, cores, steps, depth, .. } = explored;
    println!(
        "{}, {kinds:?}: {} states, by faults {states:?}; {choices} choices; {cores} states of \
         cores, {steps} steps of them; the longest path takes {depth} choices",
        scenario.name,
        explored.all()
    );
}

fn print_found(check: Check, found: &FailedCheck) {
    let FailedCheck { faults, choices, what, trace, states } = found;
    println!(
        "{check:?} fails in {states} states, first after {choices} choices, {faults} of them faults: {what}"
    );
    trace.iter().for_each(|line| println!("    {line}"));
}

/// A scenario, the largest number of faults, and their kinds.
type Search = (Scenario, u32, &'static [Fault]);

/// A small bound, for every day.
const DAILY: &[Search] = &[
    (CHANGE_OF_RUNNING, 1, Bound::KINDS),
    (SECOND_PLAN, 2, Bound::KINDS),
    (ONE_WAY, 3, Bound::KINDS),
];

/// A larger bound, which takes ten minutes.
const DEEP: &[Search] = &[
    (CHANGE_OF_RUNNING, 2, Bound::KINDS),
    (CHANGE_OF_RUNNING, 3, &[Fault::Late]),
    (CHANGE_OF_RUNNING, 3, &[Fault::Stranger]),
    (SECOND_PLAN, 2, Bound::KINDS),
    (ONE_WAY, 4, Bound::KINDS),
];

/// Makes every search, each on a thread, and returns the checks that fail.
fn fails(searches: &[Search]) -> BTreeSet<Check> {
    let search = |(scenario, faults, kinds): &Search| {
        explore(scenario, Bound { kinds, ..Bound::faults(*faults) })
    };
    let all: Vec<Explored> = searches.par_iter().map(search).collect();
    let mut fails = BTreeSet::new();
    for ((scenario, _, kinds), explored) in searches.iter().zip(all) {
        print(scenario, kinds, &explored);
        assert!(explored.whole, "{}: more states than may be", scenario.name);
        explored.found.iter().for_each(|(check, found)| print_found(*check, found));
        fails.extend(explored.found.keys());
    }
    fails
}

#[test]
fn every_world_keeps_every_check() {
    assert_eq!(fails(DAILY), BTreeSet::new());
}

#[test]
#[ignore = "takes minutes: `just deep`"]
fn every_world_keeps_every_check_deep() {
    assert_eq!(fails(DEEP), BTreeSet::new());
}

/// Bugs on purpose (`coalloc_common::planted`). With these faults alone each bug makes this check fail, and
/// without the bug no check fails.
#[cfg(feature = "planted")]
#[test]
fn what_is_planted_is_found() {
    use coalloc_common::planted::{self, Bug};

    let planted: &[(Bug, Check, Search)] = &[
        (Bug::NoTombstone, Check::DefiniteIsTrue, (SECOND_PLAN, 0, &[])),
        (Bug::CommitBeforeDecision, Check::BookedIsDecided, (SECOND_PLAN, 0, &[])),
        (Bug::ConfirmedEarly, Check::ConfirmedIsBooked, (CHANGE_OF_RUNNING, 0, &[])),
        (Bug::OldReleasedAtHold, Check::ConfirmedIsBooked, (CHANGE_OF_RUNNING, 0, &[])),
        (Bug::ReleaseUnrecorded, Check::DefiniteIsTrue, (SECOND_PLAN, 0, &[])),
        (Bug::DecisionForgotten, Check::DecidedStands, (SECOND_PLAN, 1, &[Fault::Death])),
        (Bug::LostForRefused, Check::DefiniteIsTrue, (SECOND_PLAN, 1, &[Fault::Loss])),
        (Bug::CommitOfExpired, Check::ConfirmedIsBooked, (CHANGE_OF_RUNNING, 1, &[Fault::Late])),
        (Bug::ChangeDestroyed, Check::ChangeKeepsBooking, (CHANGE_OF_RUNNING, 1, &[Fault::Late])),
        (Bug::ShortHoldUnasked, Check::AsksInTime, (CHANGE_OF_RUNNING, 0, &[])),
        (Bug::StatusForAnswer, Check::DecidedStands, (CHANGE_OF_RUNNING, 1, &[Fault::Stranger])),
        (Bug::DeniedForDone, Check::DefiniteIsTrue, (ONE_WAY, 1, &[Fault::Stranger])),
    ];
    for (bug, check, (scenario, faults, kinds)) in planted {
        let bound =
            Bound { kinds, states: 3_000_000, until: Some(*check), ..Bound::faults(*faults) };
        let search = || explore(scenario, bound);
        assert!(!search().found.contains_key(check), "{check:?} fails without {bug:?}");
        let explored = planted::with(*bug, search);
        let found = explored.found.get(check).unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?}:");
        print_found(*check, found);
    }
}
