//! Measures how many events a second the queue handles. Each event schedules the next one at a random
//! distance; a fixed number of events is pending at any time.
//!
//! `cargo bench -p coalloc-sim --bench engine`

#![allow(clippy::unwrap_used, reason = "a bench that meets nonsense ends")]

use std::hint::black_box;
use std::time::Duration;

use coalloc_common::{Span, Time};
use coalloc_sim::chance::RandomStream;
use coalloc_sim::engine::Queue;

/// Processor time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        return; // `cargo test --all-targets` runs this file too; there is nothing to test.
    }
    const EVENTS: u64 = 3_000_000;
    for pending in [1_u64, 100, 10_000, 100_000] {
        let mut chance = RandomStream::new(1, "bench");
        let mut queue = Queue::new(Time::from_us(0));
        for number in 0..pending {
            queue.at(Time::from_us(chance.below(1_000_000) as i64), number);
        }
        let begin = cpu_time();
        for _ in 0..EVENTS {
            let (_, number) = queue.take().unwrap();
            queue.after(Span::from_us(chance.below(1_000_000) as i64), black_box(number));
        }
        let seconds = (cpu_time() - begin).as_secs_f64();
        let rate = EVENTS as f64 / seconds / 1e6;
        println!("{pending:>7} pending: {rate:6.1} million events a second");
    }
}
