//! What the largest allowed Hold costs the thread that owns an RM's ledger, for each shape of its segments; and
//! what its Commit, its Release and its replay cost.
//!
//! Every order has [`limits::HOLD_SEGMENTS_MAX`] segments. They follow one another on one resource; are nested
//! or all alike on one resource; are each on a resource of its own; have one too much at the end; or are a new
//! version of a booking in which every segment moves by half of its length.
//!
//! `cargo bench -p coalloc-protocol --bench hold`

use std::collections::BTreeMap;
use std::fmt;

use coalloc_common::{
    Amount, BootTime, CoordinatorName, Now, ResourceId, ResourceKind, RmName, Segment, Time,
    TransactionId, UserName, Window, limits,
};
use coalloc_protocol::Core;
use coalloc_protocol::message::{HoldOrder, Token};
use coalloc_protocol::participant::{
    HoldPolicy, HoldQuotas, Participant, ParticipantConfig, ParticipantInput, ParticipantRecord,
};
use divan::Bencher;

const SEGMENTS: i64 = limits::HOLD_SEGMENTS_MAX as i64;
const NOW: Now = Now { wall: Time::from_us(1_800_000_000_000_000), boot: BootTime::from_us(0) };
const SHAPES: [Shape; 6] = [
    Shape::Adjacent,
    Shape::Nested,
    Shape::Alike,
    Shape::Everywhere,
    Shape::Refused,
    Shape::Replacing,
];

fn main() {
    if !std::env::args().any(|arg| arg == "--bench") {
        return; // `cargo test --all-targets` runs this file too; there is nothing to test.
    }
    divan::main();
}

/// How the segments of an order lie relative to one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Adjacent,
    Nested,
    Alike,
    Everywhere,
    Refused,
    Replacing,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

fn resource(number: i64) -> ResourceId {
    ResourceId::composed(format!("site-{number}"))
}

fn txn(number: u32) -> TransactionId {
    TransactionId::composed(format!("grc-t-{number}/1"))
}

/// A window in seconds, counted from one minute after `NOW`.
fn window(from_s: i64, to_s: i64) -> Window {
    let at = |s: i64| Time::from_us(NOW.wall.as_us() + (60 + s) * 1_000_000);
    let Some(window) = Window::new(at(from_s), at(to_s)) else { unreachable!("in order") };
    window
}

fn segments(shape: Shape) -> Vec<Segment> {
    let segment = |n: i64| {
        let (on, amount, window) = match shape {
            // Neighbouring amounts differ, so that the segments are not merged into one.
            Shape::Adjacent | Shape::Replacing => (0, 1 + n % 2, window(100 * n, 100 * n + 100)),
            Shape::Nested => (0, 1, window(100 * n, 100 * (2 * SEGMENTS - n))),
            Shape::Refused if n == SEGMENTS - 1 => (0, 2_000_000, window(100 * n, 100 * n + 100)),
            Shape::Refused => (0, 1, window(100 * n, 100 * (2 * SEGMENTS - n))),
            Shape::Alike => (0, 1, window(0, 100)),
            Shape::Everywhere => (n, 1, window(0, 100)),
        };
        Segment { resource: resource(on), amount: Amount(amount.unsigned_abs()), window }
    };
    (0..SEGMENTS).map(segment).collect()
}

fn order(number: u32, segments: Vec<Segment>, replaces: Option<u32>) -> HoldOrder {
    HoldOrder {
        txn: txn(number),
        coordinator: CoordinatorName::composed("grc"),
        user: UserName::composed("UserA"),
        segments,
        hold_for: None,
        replaces: replaces.map(txn),
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    }
}

fn hold_of(order: HoldOrder) -> ParticipantInput {
    ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(0) }
}

fn commit_of(number: u32) -> ParticipantInput {
    let by = CoordinatorName::composed("grc");
    ParticipantInput::Commit { txn: txn(number), by, token: Token::new(0) }
}

fn release_of(number: u32) -> ParticipantInput {
    let by = CoordinatorName::composed("grc");
    ParticipantInput::Release { txn: txn(number), by, token: Token::new(0) }
}

/// An RM in its state before the hold of this shape, and the order of that hold.
fn ground(shape: Shape) -> (Participant, HoldOrder) {
    let (ready, order) = prepared(shape);
    let step = ready.clone().step(hold_of(order.clone()), NOW);
    // An order that is denied costs almost nothing and would look like a fast one.
    let is_as_meant = match step.records().last() {
        Some(ParticipantRecord::Held { .. }) => shape != Shape::Refused,
        Some(ParticipantRecord::Refused { .. }) => shape == Shape::Refused,
        _ => false,
    };
    assert!(is_as_meant, "{shape}: {:?}", step.records().len());
    (ready, order)
}

fn prepared(shape: Shape) -> (Participant, HoldOrder) {
    let resources = (0..SEGMENTS).map(|n| (resource(n), Amount(1_000_000))).collect();
    let mut participant = Participant::new(ParticipantConfig {
        name: RmName::composed("crm"),
        resources,
        kinds: ResourceKind::Cpus.into(),
        coordinators: [CoordinatorName::composed("grc")].into(),
        policy: HoldPolicy { horizon: limits::HORIZON_MAX, ..HoldPolicy::default() },
        levels: Default::default(),
        quotas: HoldQuotas::default(),
        inside: None,
        servers: BTreeMap::new(),
    });
    let _ = participant.step(ParticipantInput::Start { boot: "bench".into() }, NOW);
    if shape != Shape::Replacing {
        return (participant, order(1, segments(shape), None));
    }
    let _ = participant.step(hold_of(order(0, segments(shape), None)), NOW);
    let _ = participant.step(commit_of(0), NOW);
    let moved = |segment: Segment| {
        let (start, half) = (segment.window.start(), 50_000_000);
        let later = |at: Time| Time::from_us(at.as_us() + half);
        let Some(window) = Window::new(later(start), later(segment.window.end())) else {
            unreachable!("it moves as a whole")
        };
        Segment { window, ..segment }
    };
    let segments = segments(shape).into_iter().map(moved).collect();
    (participant, order(1, segments, Some(0)))
}

#[divan::bench(args = SHAPES, sample_count = 10, sample_size = 1)]
fn hold(bencher: Bencher<'_, '_>, shape: Shape) {
    let (ready, order) = ground(shape);
    bencher
        .with_inputs(|| (ready.clone(), hold_of(order.clone())))
        .bench_local_values(|(mut rm, input)| (rm.step(input, NOW), rm));
}

#[divan::bench(args = SHAPES, sample_count = 10, sample_size = 1)]
fn commit(bencher: Bencher<'_, '_>, shape: Shape) {
    let (mut held, order) = ground(shape);
    let _ = held.step(hold_of(order), NOW);
    bencher
        .with_inputs(|| held.clone())
        .bench_local_values(|mut rm| (rm.step(commit_of(1), NOW), rm));
}

#[divan::bench(args = SHAPES, sample_count = 10, sample_size = 1)]
fn release(bencher: Bencher<'_, '_>, shape: Shape) {
    let (mut booked, order) = ground(shape);
    let _ = booked.step(hold_of(order), NOW);
    let _ = booked.step(commit_of(1), NOW);
    bencher
        .with_inputs(|| booked.clone())
        .bench_local_values(|mut rm| (rm.step(release_of(1), NOW), rm));
}

/// Replays the records of the Hold and the Commit.
#[divan::bench(args = SHAPES, sample_count = 10, sample_size = 1)]
fn replay(bencher: Bencher<'_, '_>, shape: Shape) {
    let (ready, order) = ground(shape);
    let mut twin = ready.clone();
    let mut records: Vec<ParticipantRecord> = twin.step(hold_of(order), NOW).records().to_vec();
    records.extend(twin.step(commit_of(1), NOW).records().iter().cloned());
    bencher.with_inputs(|| ready.clone()).bench_local_values(|mut rm| {
        for record in &records {
            let Ok(()) = rm.apply(record) else { unreachable!("it was stepped") };
        }
        rm
    });
}
