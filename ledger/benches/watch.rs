//! Measures what watching costs: commits while there are followers, and how fast a follower reads
//! old records.
//!
//! `cargo bench -p coalloc-ledger --bench watch`. The temporary folder must be on a real disk
//! (`TMPDIR`). Followers behave as watchers do: they are woken by the last durable number, at most once in
//! `limits::WATCH_PAUSE`, and each has its own connection. Rounds are run in turns: read the ratios.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that fails has nobody to tell but the terminal"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use coalloc_common::limits;
use coalloc_ledger::{Identity, LedgerReader, ReadRecords, SqliteLedger};
use coalloc_protocol::Log;
use serde::{Deserialize, Serialize};

const ROUNDS: u64 = 4;
const COMMITS: u64 = 1_000;
const FOLLOWERS: [usize; 3] = [0, 1, 10];
const PAST: u64 = 1_000_000;
const ID: &str = "00000000000000000000000000000000";

/// A record of about the size of a hold of three segments.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Hold {
    transaction: String,
    peer: String,
    soft_us: i64,
    segments: Vec<(String, i64, i64, u64)>,
}

fn hold(number: u64) -> Hold {
    let start = 1_795_219_200_000_000 + number as i64 * 60_000_000;
    let segment = |name: &str| (name.to_owned(), start, start + 3_600_000_000, 1_000_000_000);
    Hold {
        transaction: format!("grc-east-7f3a-{number}/1"),
        peer: "grc-east.example.org".to_owned(),
        soft_us: 120_000_000,
        segments: ["tokyo-osaka", "osaka-fukuoka", "osaka-kyoto"].map(segment).to_vec(),
    }
}

fn open(path: &Path) -> SqliteLedger<Hold> {
    let identity = Identity { kind: "nrm".into(), name: "bench".into() };
    SqliteLedger::open(path, &identity, || ID.to_owned(), |_, _| Ok(())).unwrap()
}

/// Reads from `cursor` to `stop`, as a watcher does.
fn follow(path: &Path, mut cursor: u64, durable: &AtomicU64, stop: u64) {
    let mut reader = LedgerReader::<Hold>::open(path, ID).unwrap();
    while cursor < stop {
        let last = durable.load(Ordering::Acquire);
        while cursor < last {
            cursor = reader.read(cursor, last).unwrap().last().unwrap().sequence;
        }
        thread::sleep(limits::WATCH_PAUSE.to_std());
    }
}

/// The time for the commits of one round while there are so many followers.
fn commits(ledger: &mut SqliteLedger<Hold>, followers: usize) -> Duration {
    let durable = Arc::new(AtomicU64::new(ledger.last_sequence()));
    let (first, last) = (ledger.last_sequence(), ledger.last_sequence() + COMMITS);
    let threads: Vec<_> = (0..followers)
        .map(|_| {
            let (path, durable) = (ledger.path().to_owned(), Arc::clone(&durable));
            thread::spawn(move || follow(&path, first, &durable, last))
        })
        .collect();
    let record = hold(1);
    let start = Instant::now();
    for _ in 0..COMMITS {
        ledger.append(&[&record]).unwrap();
        durable.store(ledger.last_sequence(), Ordering::Release);
    }
    let time = start.elapsed();
    for thread in threads {
        thread.join().unwrap();
    }
    time
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.ledger");
    let mut ledger = open(&path);
    let mut times = [Duration::ZERO; 3];
    for _ in 0..ROUNDS {
        for (time, followers) in times.iter_mut().zip(FOLLOWERS) {
            *time += commits(&mut ledger, followers);
        }
    }
    for (time, followers) in times.iter().zip(FOLLOWERS) {
        let rate = (ROUNDS * COMMITS) as f64 / time.as_secs_f64();
        println!("durable commits/s beside {followers:>2} followers: {rate:>8.0}");
    }
    let batch: Vec<Hold> = (0..1_000).map(hold).collect();
    let batch: Vec<&Hold> = batch.iter().collect();
    while ledger.last_sequence() < PAST {
        ledger.append(&batch).unwrap();
    }
    let last = ledger.last_sequence();
    let mut reader = LedgerReader::<Hold>::open(&path, ID).unwrap();
    let (start, mut cursor) = (Instant::now(), 0);
    while cursor < last {
        cursor = reader.read(cursor, last).unwrap().last().unwrap().sequence;
    }
    let rate = last as f64 / start.elapsed().as_secs_f64();
    println!("read from the beginning, {last} records: {rate:>8.0} records/s");
}
