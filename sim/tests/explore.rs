//! Every world of a small federation, up to a number of faults; see `coalloc_sim::explore`.
//!
//! ```text
//! cargo test -p coalloc-sim --test explore -- --nocapture                        the bound of every day
//! cargo test --release -p coalloc-sim --test explore -- --ignored --nocapture    the deep one (`just deep`)
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are not seen as tests.

use std::collections::BTreeSet;

use coalloc_sim::explore::{
    ALL, Bound, CHANGE_OF_RUNNING, Check, Explored, Fault, Found, ONE_WAY, Scenario, explore,
};

/// What does not hold yet, and by which faults alone it is found where. What is mended leaves this list, and must
/// never be found again.
const KNOWN: &[(Check, Scenario, &[Fault])] = &[
    // A change whose Commit comes after the hold has expired loses both versions.
    (Check::ChangeKeepsBooking, CHANGE_OF_RUNNING, &[Fault::Late]),
    // A short hold expires before it asks.
    (Check::AsksInTime, CHANGE_OF_RUNNING, &[]),
    // A foreign status for a Commit makes a mixed outcome.
    (Check::DecidedStands, CHANGE_OF_RUNNING, &[Fault::Stranger]),
    // A foreign status for an Abort is taken for its acknowledgement.
    (Check::DefiniteIsTrue, ONE_WAY, &[Fault::Stranger]),
];

fn print(scenario: &Scenario, explored: &Explored) {
    let Explored { states, choices, cores, steps, depth, .. } = explored;
    println!(
        "{}: {} states, by faults {states:?}; {choices} choices; {cores} states of cores, {steps} steps of them; \
         the longest way takes {depth} choices",
        scenario.name,
        explored.all()
    );
}

fn print_found(check: Check, found: &Found) {
    let Found { faults, choices, what, trace, states } = found;
    println!(
        "{check:?} fails in {states} states, first after {choices} choices, {faults} of them faults: {what}"
    );
    trace.iter().for_each(|line| println!("    {line}"));
}

/// Explores every scenario, and says which checks fail.
fn fails(bounds: [u32; 3]) -> BTreeSet<Check> {
    let mut fails = BTreeSet::new();
    for (scenario, faults) in ALL.iter().zip(bounds) {
        let explored = explore(scenario, Bound::faults(faults));
        print(scenario, &explored);
        assert!(explored.whole, "{}: more states than may be", scenario.name);
        explored.found.iter().for_each(|(check, found)| print_found(*check, found));
        fails.extend(explored.found.keys());
    }
    fails
}

fn known() -> BTreeSet<Check> {
    KNOWN.iter().map(|(check, ..)| *check).collect()
}

#[test]
fn every_world_keeps_every_check() {
    assert_eq!(fails([1, 1, 2]), known());
}

#[test]
#[ignore = "takes minutes: `just deep`"]
fn every_world_keeps_every_check_deep() {
    assert_eq!(fails([2, 3, 4]), known());
}

#[test]
fn what_is_known_is_found_by_its_own_faults() {
    for (check, scenario, kinds) in KNOWN {
        let explored = explore(scenario, Bound { kinds, ..Bound::faults(1) });
        let found = explored.found.get(check).unwrap_or_else(|| panic!("{check:?} is not found"));
        print_found(*check, found);
    }
}
