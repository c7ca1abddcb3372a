//! What it costs an RM to compare two equal histories, and what it costs to keep the sets for that.
//!
//! `cargo bench -p coalloc-protocol --bench digest`

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // A benchmark has a clock.

use std::hint::black_box;
use std::time::{Duration, Instant};

use coalloc_common::{Amount, ResourceId, Segment, Span, Time, TransactionId, Window};
use coalloc_protocol::digest::{BookingSet, Part};

const RUNS: usize = 101;
const DAY: i64 = 86_400_000_000;

/// Bookings of two segments each, spread over `days` days.
fn bookings(count: u32, days: i64) -> Vec<(TransactionId, Vec<Segment>)> {
    let booking = |number: u32| {
        let at = i64::from(number).wrapping_mul(7_919_000_003) % (days * DAY);
        let start = Time::from_us(20_000 * DAY + at);
        let segment = |resource: &str| {
            let window = Window::starting(start, Span::from_secs(3_600))?;
            let resource = ResourceId::composed(resource);
            Some(Segment { resource, amount: Amount(u64::from(number)), window })
        };
        let segments = ["tokyo-osaka:ab", "osaka-fukuoka:ab"].into_iter().filter_map(segment);
        (TransactionId::composed(format!("grc-0a1b2c3d-{number}/1")), segments.collect())
    };
    (0..count).map(booking).collect()
}

fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let begun = Instant::now();
            run();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[RUNS / 2]
}

fn main() {
    if !std::env::args().any(|arg| arg == "--bench") {
        return; // `cargo test --all-targets` runs this file too; there is nothing to test.
    }
    println!("| bookings | ends within | parts | kept, each | equal | one differs | it lists |");
    println!("|---|---|---|---|---|---|---|");
    for (count, days) in [(10_000, 90), (100_000, 7), (100_000, 90), (1_000_000, 90)] {
        let all = bookings(count, days);
        let begun = Instant::now();
        let mut set = BookingSet::default();
        for (txn, segments) in &all {
            set.insert(txn, segments);
        }
        let kept = begun.elapsed() / count;
        let from = Part::first(Time::from_us(20_000 * DAY));
        let theirs = set.summaries(from..);
        let equal = median(|| assert!(black_box(set.differing(&theirs, from..)).is_empty()));
        let (txn, segments) = &all[all.len() / 2];
        set.remove_content(txn, segments);
        let mut listed = 0;
        let differs = median(|| {
            let parts = set.differing(&theirs, from..);
            let lists = parts.into_iter().map(|part| set.listed(part).members.len());
            listed = black_box(lists.sum());
        });
        let parts = theirs.len();
        println!(
            "| {count} | {days} days | {parts} | {kept:.2?} | {equal:.1?} | {differs:.1?} | {listed} |"
        );
    }
}
