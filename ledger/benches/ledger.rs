//! Measures what durability costs: the ledger compared with a plain append + fdatasync of the same
//! bytes.
//!
//! `cargo bench -p coalloc-ledger`. The temporary folder must be on a real disk (`TMPDIR`). Both
//! sides run in turns, so that a busy machine slows both down: read the ratios.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that fails has nobody to tell but the terminal"
)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use coalloc_ledger::{Identity, SqliteLedger};
use coalloc_protocol::Log;
use serde::{Deserialize, Serialize};

const ROUNDS: u64 = 5;
const COMMITS: u64 = 2_000;
const BATCH: u64 = 64;
const BATCHES: u64 = 300;

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

fn open(path: &Path) -> (SqliteLedger<Hold>, u64) {
    let identity = Identity { kind: "nrm".into(), name: "bench".into() };
    let mut records = 0;
    let count = |_, _| {
        records += 1;
        Ok(())
    };
    let ledger = SqliteLedger::open(path, &identity, || "0".repeat(32), count).unwrap();
    (ledger, records)
}

/// Time for `appends` appends of `batch` records each.
fn ledger(ledger: &mut SqliteLedger<Hold>, appends: u64, batch: u64) -> Duration {
    let holds: Vec<Hold> = (0..batch).map(hold).collect();
    let records: Vec<&Hold> = holds.iter().collect();
    let start = Instant::now();
    for _ in 0..appends {
        ledger.append(&records).unwrap();
    }
    start.elapsed()
}

/// The time for the same bytes (the body and 32 bytes of hash) without a ledger.
fn bare(file: &mut File, appends: u64, batch: u64) -> Duration {
    let mut bytes = Vec::new();
    for number in 0..batch {
        bytes.extend(serde_json::to_vec(&hold(number)).unwrap());
        bytes.extend([0; 32]);
    }
    let start = Instant::now();
    for _ in 0..appends {
        file.write_all(&bytes).unwrap();
        file.sync_data().unwrap();
    }
    start.elapsed()
}

fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.ledger");
    let (mut log, _) = open(&path);
    let mut file = File::create(folder.path().join("bare")).unwrap();
    let mut times = [[Duration::ZERO; 2]; 2];
    for _ in 0..ROUNDS {
        times[0][0] += ledger(&mut log, COMMITS, 1);
        times[0][1] += bare(&mut file, COMMITS, 1);
        times[1][0] += ledger(&mut log, BATCHES, BATCH);
        times[1][1] += bare(&mut file, BATCHES, BATCH);
    }
    drop(log);
    let start = Instant::now();
    let (log, records) = open(&path);
    let replay = start.elapsed();
    drop(log);

    println!("{:<34}{:>12}{:>12}{:>8}", "", "ledger", "bare", "ratio");
    let row = |name: &str, count: u64, [ours, bare]: [Duration; 2]| {
        let (ours, bare) = (per_second(count, ours), per_second(count, bare));
        println!("{name:<34}{ours:>12.0}{bare:>12.0}{:>8.2}", ours / bare);
    };
    row("durable commits/s, one record", ROUNDS * COMMITS, times[0]);
    row("records/s, 64 a commit", ROUNDS * BATCHES * BATCH, times[1]);
    println!("{:<34}{:>12.0}", "replay, records/s", per_second(records, replay));
    let bytes = std::fs::metadata(&path).unwrap().len() as f64 / records as f64;
    let body = serde_json::to_vec(&hold(0)).unwrap().len();
    println!("{:<34}{bytes:>12.0}   (its JSON is {body})", "bytes a record in the file");
}
