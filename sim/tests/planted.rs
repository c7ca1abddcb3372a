//! Every planted bug is found; see `coalloc_common::planted`. The table is in `docs/PROTOCOL.md`.
//!
//! ```text
//! cargo test -p coalloc-sim --features planted --test planted                   runs all, and checks the table
//! COALLOC_BLESS=1 cargo test -p coalloc-sim --features planted --test planted   writes the table anew
//! COALLOC_BUG=StaleBoot COALLOC_SEED=7 cargo test .. --test planted -- --nocapture   one run, with its transcript
//! ```

#![allow(clippy::disallowed_methods)] // This test reads the page that it checks.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Clippy does not take helper functions for tests.

use coalloc_common::planted::{self, Bug};

#[cfg(feature = "planted")]
#[path = "documents/page.rs"]
mod page;

/// Without the feature a bug cannot even be turned on, because the switch is a constant.
#[cfg(not(feature = "planted"))]
#[test]
fn nothing_is_planted() {
    const { assert!(!planted::is(Bug::Canary)) };
    assert!(Bug::ALL.into_iter().all(|bug| !planted::is(bug)));
}

#[cfg(feature = "planted")]
mod on {
    use std::panic::{self, AssertUnwindSafe};

    use coalloc_sim::fault::run;
    use coalloc_sim::matrix::scenarios::ALL;
    use coalloc_sim::matrix::{Crash, DownTime};
    use coalloc_sim::world::Trace;
    use rayon::prelude::*;

    use super::{Bug, page, planted};

    /// A bug that takes more seeds than this counts as not found.
    const SEEDS_MAX: u64 = 10_000;

    /// How a bug was detected: number of seeds, and the message of the failure.
    struct DetectedBug {
        bug: Bug,
        seeds: u64,
        message: String,
        /// Number of single deaths of the crash matrix that it takes; `None` if the matrix does not find the
        /// bug.
        deaths: Option<usize>,
    }

    fn world(seed: u64, print: bool) -> Result<(), String> {
        run(seed, print).map(|_| ()).map_err(|failure| failure.what)
    }

    fn find(bug: Bug) -> Option<DetectedBug> {
        planted::with(bug, || {
            (0..SEEDS_MAX).find_map(|seed| {
                let message = world(seed, false).err()?;
                Some(DetectedBug { bug, seeds: seed + 1, message, deaths: None })
            })
        })
    }

    /// How many single deaths of the crash matrix it takes to find a bug. Dry runs are not counted.
    fn deaths(bug: Bug) -> Option<usize> {
        planted::with(bug, || {
            let mut count = 0;
            for scenario in ALL {
                let quiet = |crashes: &[&Crash]| {
                    let run =
                        || scenario.run(DownTime::Short, crashes, Trace::Off).map(|ran| ran.syncs);
                    panic::catch_unwind(AssertUnwindSafe(run)).is_ok_and(|end| end.is_ok())
                };
                if !quiet(&[]) {
                    return Some(count);
                }
                for crash in scenario.crashes(DownTime::Short).unwrap_or_default() {
                    count += 1;
                    if !quiet(&[&crash]) {
                        return Some(count);
                    }
                }
            }
            None
        })
    }

    fn found(bug: Bug) -> Option<DetectedBug> {
        Some(DetectedBug { deaths: deaths(bug), ..find(bug)? })
    }

    /// Bugs that show only when a node dies.
    const DEADLY: [Bug; 5] = [
        Bug::SkippedSync,
        Bug::SentWithoutSync,
        Bug::ReplayMissesLast,
        Bug::DecisionForgotten,
        Bug::ExpiryUnrecorded,
    ];

    /// The invariant that a message names, or what else detected the bug.
    fn caught_by(message: &str) -> String {
        if message.starts_with("panic") {
            return "a core's own assertion".to_owned();
        }
        let words = message.split([' ', ':', ',']);
        let number = |word: &&str| {
            let digits = word.strip_prefix(['I', 'D']);
            digits.is_some_and(|d| !d.is_empty() && d.chars().all(|c| c.is_ascii_digit()))
        };
        words.into_iter().find(number).map_or_else(|| "another check".to_owned(), str::to_owned)
    }

    /// The first words of a message, in a form that fits a table cell.
    fn short(message: &str) -> String {
        let plain = message.replace(['|', '\n', '`', '<'], " ");
        let mut words = String::new();
        for word in plain.split_whitespace() {
            if words.len() + word.len() > 72 {
                words.push_str(" ...");
                break;
            }
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(word);
        }
        words
    }

    fn row(found: &DetectedBug) -> String {
        let (side, what) = found.bug.what();
        let message = short(&found.message);
        let (bug, by, seeds) = (found.bug, caught_by(&found.message), found.seeds);
        let deaths = found.deaths.map_or("-".to_owned(), |deaths| deaths.to_string());
        format!("| `{bug:?}` | {side} | {what} | {by} | {seeds} | {deaths} | {message} |")
    }

    /// The cells of the table that do not depend on seeds: names and descriptions.
    fn names(table: &str) -> Vec<String> {
        let cells = |line: &str| line.split('|').take(4).collect::<Vec<_>>().join("|");
        table.lines().filter(|line| line.starts_with("| `")).map(cells).collect()
    }

    fn variable(name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    #[test]
    fn every_planted_bug_is_found() {
        if let (Some(name), Some(seed)) = (variable("COALLOC_BUG"), variable("COALLOC_SEED")) {
            let bug = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
            let bug = bug.unwrap_or_else(|| panic!("COALLOC_BUG={name} is none of {:?}", Bug::ALL));
            let seed = seed.parse().expect("COALLOC_SEED is a number");
            eprintln!("{:?}", planted::with(bug, || world(seed, true)));
            return;
        }
        // A bug may show as a panic, which is caught. The hook keeps hundreds of panic messages from being
        // printed.
        panic::set_hook(Box::new(|_| {}));
        let found: Vec<(Bug, Option<DetectedBug>)> =
            Bug::ALL.into_par_iter().map(|bug| (bug, found(bug))).collect();
        let _ = panic::take_hook();
        let missed: Vec<Bug> =
            found.iter().filter(|(_, found)| found.is_none()).map(|(bug, _)| *bug).collect();
        let rows: Vec<String> = found.iter().filter_map(|(_, f)| f.as_ref()).map(row).collect();
        eprintln!("{}", rows.join("\n"));
        // The crash matrix must find the bugs that show when a node dies; otherwise it proves nothing.
        let unseen = found.iter().filter(|(bug, found)| {
            DEADLY.contains(bug) && found.as_ref().is_none_or(|found| found.deaths.is_none())
        });
        let unseen: Vec<Bug> = unseen.map(|(bug, _)| *bug).collect();
        assert!(unseen.is_empty(), "not found by the crash matrix: {unseen:?}");
        assert!(missed.is_empty(), "not found within {SEEDS_MAX} seeds: {missed:?}");
        let head = "| bug | of | what is wrong | caught by | seeds | deaths | first words of the report |\n\
                    |---|---|---|---|---|---|---|\n";
        let table = format!("{head}{}\n", rows.join("\n"));
        // Seeds change with every change of the generator; names and descriptions do not.
        page::check("planted bugs", &table, |old, new| names(old) == names(new));
    }

    #[test]
    fn without_a_bug_the_same_seeds_pass() {
        for seed in 0..100 {
            world(seed, false).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}
