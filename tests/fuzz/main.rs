//! Every decoder for input from the network and the disk, on input that nobody would send: messages, files,
//! ledger records, write-ahead logs, tokens, command lines.
//!
//! Each target is a function of bytes ([`targets`]). It must not panic, and must take bounded time and
//! memory. What it accepts must survive a round trip; what it refuses must be reported with field and
//! value. The bytes are sound inputs (encodings of valid messages, the repository's own example files,
//! records of real cores) after a few mutations of bytes and of structure, and sometimes random noise
//! ([`mutate`]).
//!
//! ```text
//! cargo test -p coalloc --test fuzz                                        half a second a target
//! COALLOC_FUZZ_SECONDS=300 cargo test --release -p coalloc --test fuzz     longer; `just fuzz`
//! COALLOC_FUZZ_SEED=77 cargo test -p coalloc --test fuzz messages          one input again
//! ```
//!
//! Guided by coverage, the same targets run under libFuzzer in a separate workspace, [`fuzz/`](../../fuzz):
//! `just fuzz-guided TARGET SECONDS`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod files;
mod messages;
mod mutate;
mod records;
mod targets;
mod texts;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

/// Default time for each target.
const SECONDS: f64 = 0.5;
/// Maximum time for one input, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs a target on inputs made from seed numbers until its time is over, and prints how many.
fn fuzz(name: &str, target: impl Fn(&mut ChaCha8Rng)) {
    let one: Option<u64> = number("COALLOC_FUZZ_SEED");
    let time = Duration::from_secs_f64(number("COALLOC_FUZZ_SECONDS").unwrap_or(SECONDS));
    // Testing different numbers each day finds more than testing the same ones; short runs stay the same.
    let first = one.unwrap_or_else(|| number("COALLOC_FUZZ_FIRST").unwrap_or(0));
    let (begun, mut done) = (Instant::now(), 0_u64);
    for seed in first.. {
        let started = Instant::now();
        let run = catch_unwind(AssertUnwindSafe(|| target(&mut ChaCha8Rng::seed_from_u64(seed))));
        let again = format!("COALLOC_FUZZ_SEED={seed} cargo test -p coalloc --test fuzz {name}");
        if let Err(panic) = run {
            eprintln!("again: {again}");
            std::panic::resume_unwind(panic);
        }
        assert!(started.elapsed() < LONGEST, "one input took {:?}: {again}", started.elapsed());
        done += 1;
        if one.is_some() || begun.elapsed() >= time {
            break;
        }
    }
    eprintln!("{name}: {done} inputs from {first} in {:.1} s", begun.elapsed().as_secs_f64());
}

/// Checks that the guided fuzzer has every target, and begins with bytes that the target accepts.
#[test]
fn each_target_takes_sound_bytes_and_has_its_file() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/fuzz_targets");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let named = targets::ALL.iter().map(|target| format!("{}.rs", target.name)).collect();
    assert_eq!(files, named);
    for target in &targets::ALL {
        let taken = (target.sound)().iter().filter(|bytes| (target.check)(bytes)).count();
        assert!(taken > 0, "{} takes none of its sound bytes", target.name);
    }
}
