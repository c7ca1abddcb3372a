//! Measures what it costs to find idle servers and to take and give them back, by index and size.
//!
//! First, one tree of idle periods with 10^3 to 10^6 periods on 512 servers: `find` of 64 servers, and one
//! server taken and given back, at random places. Then all indices on 512 servers and 2,880 slots of 15
//! minutes, filled to a fifth.
//!
//! `cargo bench -p coalloc-common --bench servers`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]
#![allow(clippy::expect_used, reason = "a bench that meets nonsense ends")]

use std::time::{Duration, Instant};

use coalloc_common::servers::{
    Choice, IdleIndex, PeriodTree, ServerIndex, ServerTimetable, SlotBits, SlotTrees,
    SlotTreesConfig, Tails,
};
use coalloc_common::{Span, Time, Window};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SERVERS: u32 = 512;
const SLOT: Span = Span::from_secs(900);
const SLOTS: usize = 2_880;
const ORIGIN: Time = Time::from_us(0);

fn main() {
    if !std::env::args().any(|arg| arg == "--bench") {
        return; // `cargo test --all-targets` runs this file too; there is nothing to test.
    }
    println!("one tree, 512 servers; medians");
    println!("{:>9} {:>12} {:>14} {:>14}", "periods", "bytes/period", "find 64", "take, give");
    for periods in [1_000, 10_000, 100_000, 1_000_000] {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut table = ServerTimetable::new(SERVERS, PeriodTree::new());
        // Each server is taken for an hour at a time, with an idle period of a day or so between.
        let each = periods / SERVERS as usize;
        for server in (0..SERVERS).map(ServerIndex) {
            let mut start = ORIGIN;
            for _ in 0..each {
                start = start.saturating_add(Span::from_secs(random.random_range(3_600..160_000)));
                let Some(window) = Window::starting(start, Span::from_secs(3_600)) else { break };
                assert_eq!(table.take(server, window), Ok(()));
                start = window.end();
            }
        }
        let end = each as i64 * 85_000;
        let bytes = table.index().heap_bytes() / table.index().periods();
        let find = median(|| find(&table, &mut random, end));
        let change = median(|| change(&mut table, &mut random, end));
        println!("{periods:>9} {bytes:>12} {find:>14.2?} {change:>14.2?}");
    }
    println!("\n512 servers, 2,880 slots, a fifth taken; medians");
    println!("{:<16} {:>14} {:>14}", "index", "find 64", "take, give");
    slotted("tree", PeriodTree::new());
    slotted("bits", bits());
    slotted("slots", trees(Tails::Apart));
    slotted("slots-printed", trees(Tails::Printed));
}

fn bits() -> SlotBits {
    SlotBits::new(ORIGIN, SLOT, SLOTS, SERVERS).expect("slots within the bounds")
}

fn trees(tails: Tails) -> SlotTrees {
    let config = SlotTreesConfig { origin: ORIGIN, slot: SLOT, slots: SLOTS, tails };
    SlotTrees::new(config, SERVERS).expect("slots within the bounds")
}

fn slotted(name: &str, index: impl IdleIndex) {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let horizon = SLOT.as_us() / 1_000_000 * SLOTS as i64;
    let (mut taken, mut sum, wanted) = (Vec::new(), 0, horizon * i64::from(SERVERS) / 5);
    let mut plan = ServerTimetable::new(SERVERS, PeriodTree::new());
    while sum < wanted {
        let window = window(&mut random, horizon - 40_000, 3_600..40_000);
        let server = ServerIndex(random.random_range(0..SERVERS));
        if plan.take(server, window).is_ok() {
            taken.push((server, window));
            sum += window.length().as_us() / 1_000_000;
        }
    }
    let table = ServerTimetable::with_taken(SERVERS, &taken, index);
    let mut table = table.expect("what was taken before can be taken again");
    let find = median(|| find(&table, &mut random, horizon - 40_000));
    let change = median(|| change(&mut table, &mut random, horizon - 40_000));
    println!("{name:<16} {find:>14.2?} {change:>14.2?}");
}

fn window(random: &mut ChaCha8Rng, end_s: i64, length_s: std::ops::Range<i64>) -> Window {
    let start = Time::from_us(random.random_range(0..end_s) * 1_000_000);
    let length = Span::from_secs(random.random_range(length_s));
    let Some(window) = Window::starting(start, length) else { unreachable!("a positive length") };
    window
}

/// The time of one search for 64 servers.
fn find<I: IdleIndex>(table: &ServerTimetable<I>, random: &mut ChaCha8Rng, end_s: i64) -> Duration {
    let window = window(random, end_s, 600..7_200);
    let start = Instant::now();
    std::hint::black_box(table.find(window, 64, Choice::Paper));
    start.elapsed()
}

/// The mean time of taking an idle server and of giving it back.
fn change<I: IdleIndex>(
    table: &mut ServerTimetable<I>,
    random: &mut ChaCha8Rng,
    end_s: i64,
) -> Duration {
    loop {
        let window = window(random, end_s, 600..7_200);
        let server = ServerIndex(random.random_range(0..SERVERS));
        let start = Instant::now();
        if table.take(server, window).is_ok() {
            assert_eq!(table.give(server, window), Ok(()));
            return start.elapsed() / 2;
        }
    }
}

fn median(mut sample: impl FnMut() -> Duration) -> Duration {
    let mut samples: Vec<Duration> = (0..2_001).map(|_| sample()).collect();
    samples.sort_unstable();
    samples[samples.len() / 2]
}
