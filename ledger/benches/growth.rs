//! Measures what snapshots cost and what they save: how long a Hold waits beside them, and how long a start takes after
//! many transactions that have ended.
//!
//! `cargo bench -p coalloc-ledger --bench growth -- [TRANSACTIONS]`. A real participant is fed holds, commits and releases, 64
//! inputs to a batch as they gather while the disk is busy, and its records go to a real ledger. The temporary folder must be on a
//! real disk (`TMPDIR`). All figures are of one run; the batches without a snapshot are what those with one compare with.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that fails has nobody to tell but the terminal"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use coalloc_common::{
    Amount, BootTime, CoordinatorName, DiskSpace, Now, ResourceId, ResourceKind, RmName, Segment,
    ServiceLevels, Span, Time, TransactionId, UserName, Window,
};
use coalloc_ledger::{CoreFold, Identity, SqliteLedger, look, snapshot_if_due};
use coalloc_protocol::message::{HoldOrder, Token};
use coalloc_protocol::participant::{
    HoldPolicy, HoldQuotas, Participant, ParticipantConfig, ParticipantInput, ParticipantRecord,
};
use coalloc_protocol::{Core as _, sync};

const BATCH: u64 = 64;
const DEFAULT: u64 = 100_000;

fn grc() -> CoordinatorName {
    CoordinatorName::composed("grc")
}

fn link() -> ResourceId {
    ResourceId::composed("N0-N1")
}

fn core() -> Participant {
    Participant::new(ParticipantConfig {
        name: RmName::composed("nrm-N"),
        kinds: ResourceKind::Bandwidth.into(),
        resources: vec![(link(), Amount(1_000_000_000))],
        coordinators: [grc()].into(),
        policy: HoldPolicy::default(),
        levels: ServiceLevels::default(),
        quotas: HoldQuotas::default(),
        inside: None,
        servers: BTreeMap::new(),
    })
}

fn open(path: &Path) -> (SqliteLedger<ParticipantRecord>, Participant, u64) {
    let (mut core, mut replayed) = (core(), 0);
    let node = Identity { kind: "nrm".into(), name: "nrm-N".into() };
    let mut fold = CoreFold { core: &mut core, noticed: |_, _: &ParticipantRecord| replayed += 1 };
    let ledger = SqliteLedger::open_into(path, &node, || "0".repeat(32), &mut fold).unwrap();
    (ledger, core, replayed)
}

fn now(step: u64) -> Now {
    let us = step as i64 * 1_000_000;
    Now { wall: Time::from_us(1_795_219_200_000_000 + us), boot: BootTime::from_us(us) }
}

/// Every transaction is held, booked, and released.
fn inputs(number: u64, now: Now) -> [ParticipantInput; 3] {
    let txn = TransactionId::composed(format!("grc-1a2b3c4d-{number}/1"));
    let window =
        Window::starting(now.wall.saturating_add(Span::from_secs(600)), Span::from_secs(3_600));
    let segment = Segment { resource: link(), amount: Amount(1_000), window: window.unwrap() };
    let order = HoldOrder {
        txn: txn.clone(),
        coordinator: grc(),
        user: UserName::composed("alice"),
        segments: vec![segment],
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    };
    let by = grc();
    [
        ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) },
        ParticipantInput::Commit { txn: txn.clone(), by: by.clone(), token: Token::new(2) },
        ParticipantInput::Release { txn, by, token: Token::new(3) },
    ]
}

/// A quantile of times, which are sorted.
fn quantile(times: &[Duration], of: f64) -> Duration {
    times.get((times.len() as f64 * of) as usize).copied().unwrap_or_default()
}

fn main() {
    let wanted = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(DEFAULT);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nrm-N.ledger");
    let (mut ledger, mut core, _) = open(&path);
    let (mut plain, mut beside, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    let mut number = 0;
    let mut waiting = Vec::new();
    while number < wanted {
        while waiting.len() < BATCH as usize {
            number += 1;
            waiting.extend(inputs(number, now(number)));
        }
        let batch: Vec<_> = waiting.drain(..BATCH as usize).collect();
        let begun = Instant::now();
        let written = snapshot_if_due(&mut core, &mut ledger, DiskSpace::Enough).unwrap();
        let snapshot = begun.elapsed();
        let steps = batch.into_iter().map(|input| core.step(input, now(number))).collect();
        drop(sync(steps, &mut ledger).unwrap().into_effects());
        let took = begun.elapsed();
        if written {
            snapshots.push(snapshot);
            beside.push(took);
        } else {
            plain.push(took);
        }
    }
    for (what, times) in [
        ("batch alone", &mut plain),
        ("batch behind a snapshot", &mut beside),
        ("the snapshot", &mut snapshots),
    ] {
        times.sort();
        let [half, most, max] = [0.5, 0.99, 1.0 - f64::EPSILON].map(|of| quantile(times, of));
        println!(
            "{what:<24} {:>7} times  p50 {half:>9.2?}  p99 {most:>9.2?}  max {max:>9.2?}",
            times.len()
        );
    }
    let last = ledger.last_sequence();
    drop((ledger, core));
    let bytes = std::fs::metadata(&path).unwrap().len();
    let begun = Instant::now();
    let (ledger, core, read) = open(&path);
    println!(
        "start: {:.2?} with {} transactions known; {read} of {last} records were in the file of {:.1} MB",
        begun.elapsed(),
        core.entries().len(),
        bytes as f64 / 1e6
    );
    drop((ledger, core));
    let begun = Instant::now();
    let sound = look::look(&path, |_, _, _| Ok(())).unwrap();
    println!("verify: {:.2?}, {} records in archives", begun.elapsed(), sound.archived);
}
