//! What a hold costs at an NRM with an inner network of 20 switches, 40 links and 60 disclosed paths, with
//! 10,000 random bookings over 90 days; with and without rerouting of bookings, admitted and refused. Also
//! what the largest orders cost the thread that owns the ledger.
//!
//! `cargo bench -p coalloc-nrm --bench inner`

use std::collections::BTreeMap;
use std::sync::Arc;

use coalloc_common::{
    Amount, BootTime, CoordinatorName, Now, ResourceId, ResourceKind, RmName, Segment, Span, Time,
    TransactionId, UserName, Window,
};
use coalloc_net::convert::inner_network;
use coalloc_nrm::inner::Network;
use coalloc_proto::v1;
use coalloc_protocol::Core;
use coalloc_protocol::message::{HoldOrder, Token};
use coalloc_protocol::participant::{
    HoldPolicy, HoldQuotas, InnerRouter, Participant, ParticipantConfig, ParticipantInput, Phase,
    Question,
};
use divan::Bencher;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SWITCHES: u32 = 20;
const LINKS: u32 = 40;
const PATHS: u32 = 60;
const BOOKINGS: usize = 10_000;
const GBPS: u64 = 1_000_000_000;
const DAYS_90_S: i64 = 90 * 86_400;

fn main() {
    if !std::env::args().any(|arg| arg == "--bench") {
        return; // `cargo test --all-targets` runs this file too; there is nothing to test.
    }
    divan::main();
}

const NOW: Now = Now { wall: Time::from_us(1_800_000_000_000_000), boot: BootTime::from_us(0) };

/// A ring of switches and as many chords, with 100 Gbit/s each. Its paths are between random switches, with
/// 40 Gbit/s each.
fn network(may_move: bool) -> (Vec<v1::Path>, Arc<dyn InnerRouter>) {
    let mut random = ChaCha8Rng::seed_from_u64(20_261_121);
    let name = |n: u32| format!("s{n}");
    let mut two = |n: u32| {
        let a = if n < SWITCHES { n } else { random.random_range(0..SWITCHES) };
        let by = if n < SWITCHES { 1 } else { random.random_range(2..SWITCHES - 1) };
        (name(a), name((a + by) % SWITCHES))
    };
    let link = |n: u32, (a, b): (String, String)| v1::InnerLink {
        name: format!("l{n}"),
        a,
        b,
        capacity_bps: 100 * GBPS,
        latency: None,
    };
    let links = (0..LINKS).map(|n| link(n, two(n))).collect();
    let path = |n: u32, (a, b): (String, String)| v1::Path {
        name: format!("p{n}"),
        a,
        b,
        capacity_bps: 40 * GBPS,
        ..v1::Path::default()
    };
    let paths: Vec<v1::Path> = (0..PATHS).map(|n| path(n, two(SWITCHES + n))).collect();
    let inner = v1::InnerNetwork { links, may_move, max_links_per_path: None };
    let Ok(plan) = inner_network("inventory", &paths, &inner) else {
        unreachable!("a good network")
    };
    (paths, Arc::new(Network::new(plan)))
}

fn order(random: &mut ChaCha8Rng, n: usize, gbps: u64) -> HoldOrder {
    let start =
        Time::from_us(NOW.wall.as_us() + random.random_range(60..DAYS_90_S - 90_000) * 1_000_000);
    let length = Span::from_secs(random.random_range(3_600..86_400));
    let Some(window) = Window::starting(start, length) else { unreachable!("a positive length") };
    let resource = ResourceId::composed(format!("p{}", random.random_range(0..PATHS)));
    HoldOrder {
        txn: TransactionId::composed(format!("grc-t-{n}/1")),
        coordinator: CoordinatorName::composed("grc"),
        user: UserName::composed("UserA"),
        segments: vec![Segment { resource, amount: Amount(gbps * GBPS), window }],
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    }
}

/// An NRM with its bookings. At any instant there are about 58, of 1 to 20 Gbit/s each.
fn filled(inside: bool, may_move: bool) -> (Participant, ChaCha8Rng) {
    let (paths, network) = network(may_move);
    let resource = |path: &v1::Path| (ResourceId::composed(&*path.name), Amount(path.capacity_bps));
    let mut participant = Participant::new(ParticipantConfig {
        name: RmName::composed("nrm"),
        resources: paths.iter().map(resource).collect(),
        kinds: ResourceKind::Bandwidth.into(),
        coordinators: [CoordinatorName::composed("grc")].into(),
        policy: HoldPolicy::default(),
        levels: Default::default(),
        quotas: HoldQuotas::default(),
        inside: inside.then_some(network),
        servers: BTreeMap::new(),
    });
    let _ = participant.step(ParticipantInput::Start { boot: "bench".into() }, NOW);
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut held = 0;
    for n in 0.. {
        let gbps = random.random_range(1..=20);
        let order = order(&mut random, n, gbps);
        let txn = order.txn.clone();
        let _ = participant
            .step(ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(0) }, NOW);
        let entry = participant.entries().get(&txn);
        if entry.is_some_and(|entry| matches!(entry.phase, Phase::Held(_))) {
            let by = CoordinatorName::composed("grc");
            let _ =
                participant.step(ParticipantInput::Commit { txn, by, token: Token::new(0) }, NOW);
            held += 1;
        }
        if held == BOOKINGS {
            break;
        }
    }
    (participant, random)
}

/// Holds of `gbps` Gbit/s on random paths and windows. Each is ended again outside the time that is measured.
fn holds(bencher: Bencher<'_, '_>, inside: bool, may_move: bool, gbps: u64) {
    let (participant, random) = filled(inside, may_move);
    let state = std::cell::RefCell::new((participant, random, 1_000_000_usize));
    bencher
        .with_inputs(|| {
            let (participant, random, n) = &mut *state.borrow_mut();
            if *n > 1_000_000 {
                let (txn, by) = (
                    TransactionId::composed(format!("grc-t-{n}/1")),
                    CoordinatorName::composed("grc"),
                );
                let _ = participant
                    .step(ParticipantInput::Release { txn, by, token: Token::new(0) }, NOW);
            }
            *n += 1;
            order(random, *n, gbps)
        })
        .bench_local_values(|order| {
            let (participant, ..) = &mut *state.borrow_mut();
            let _ = participant
                .step(ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(0) }, NOW);
        });
}

#[divan::bench(args = [1, 20, 40], sample_count = 200, sample_size = 1)]
fn hold_without_inner_network(bencher: Bencher<'_, '_>, gbps: u64) {
    holds(bencher, false, false, gbps);
}

#[divan::bench(args = [1, 20, 40], sample_count = 200, sample_size = 1)]
fn hold(bencher: Bencher<'_, '_>, gbps: u64) {
    holds(bencher, true, false, gbps);
}

#[divan::bench(args = [1, 20, 40], sample_count = 200, sample_size = 1)]
fn hold_may_move(bencher: Bencher<'_, '_>, gbps: u64) {
    holds(bencher, true, true, gbps);
}

/// Queries of `frames` random frames, with their whole answers.
fn queries(bencher: Bencher<'_, '_>, may_move: bool, frames: usize, slices: usize) {
    let (participant, mut random) = filled(true, may_move);
    bencher
        .with_inputs(|| {
            let window = |n| order(&mut random, n, 1).segments[0].window;
            Question::new((0..frames).map(window).collect(), UserName::composed("UserA"), None)
        })
        .bench_local_values(|mut question| {
            let mut left = slices;
            while left > 0 && !question.is_answered() {
                participant.answer(&mut question, NOW);
                left -= 1;
            }
            question
        });
}

#[divan::bench(args = [false, true], sample_count = 50, sample_size = 1)]
fn query_10_frames(bencher: Bencher<'_, '_>, may_move: bool) {
    queries(bencher, may_move, 10, usize::MAX);
}

#[divan::bench(args = [false, true], sample_count = 20, sample_size = 1)]
fn query_256_frames(bencher: Bencher<'_, '_>, may_move: bool) {
    queries(bencher, may_move, 256, usize::MAX);
}

/// The longest time for which the protocol has to wait.
#[divan::bench(args = [false, true], sample_count = 50, sample_size = 1)]
fn one_slice_of_256_frames(bencher: Bencher<'_, '_>, may_move: bool) {
    queries(bencher, may_move, 256, 1);
}

/// An order of `segments` segments of a few bit/s on one path, each window around the one before.
fn nested(segments: i64, replaces: Option<usize>, n: usize) -> HoldOrder {
    let at = |s: i64| Time::from_us(NOW.wall.as_us() + (60 + s) * 1_000_000);
    let segment = |k: i64| Segment {
        resource: ResourceId::composed("p0"),
        amount: Amount(1 + n as u64),
        window: window(at(segments - k), at(segments + 1 + k + n as i64)),
    };
    let txn = |n: usize| TransactionId::composed(format!("grc-t-{n}/1"));
    HoldOrder {
        txn: txn(20_000_000 + n),
        segments: (0..segments).map(segment).collect(),
        replaces: replaces.map(|n| txn(20_000_000 + n)),
        ..order(&mut ChaCha8Rng::seed_from_u64(1), 0, 1)
    }
}

fn window(start: Time, end: Time) -> Window {
    let Some(window) = Window::new(start, end) else { unreachable!("in order") };
    window
}

/// Measures an order of `segments` segments: held; held as a change; or refused, because the last segment
/// asks for too much.
fn largest(bencher: Bencher<'_, '_>, segments: i64, may_move: bool, replaces: bool, refused: bool) {
    let (mut participant, _) = filled(true, may_move);
    if replaces {
        let order = nested(segments, None, 0);
        let (txn, by) = (order.txn.clone(), order.coordinator.clone());
        let _ = participant
            .step(ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(0) }, NOW);
        let _ = participant.step(ParticipantInput::Commit { txn, by, token: Token::new(0) }, NOW);
    }
    bencher
        .with_inputs(|| {
            let mut order = nested(segments, replaces.then_some(0), 1);
            if let Some(last) = order.segments.last_mut().filter(|_| refused) {
                last.amount = Amount(40 * GBPS);
            }
            (participant.clone(), order)
        })
        .bench_local_values(|(mut participant, order)| {
            let _ = participant
                .step(ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(0) }, NOW);
            participant
        });
}

#[divan::bench(args = [256, 512, 4_096], sample_count = 5, sample_size = 1)]
fn largest_held(bencher: Bencher<'_, '_>, segments: i64) {
    largest(bencher, segments, false, false, false);
}

#[divan::bench(args = [256, 512, 4_096], sample_count = 5, sample_size = 1)]
fn largest_refused(bencher: Bencher<'_, '_>, segments: i64) {
    largest(bencher, segments, true, false, true);
}

#[divan::bench(args = [256, 512, 4_096], sample_count = 5, sample_size = 1)]
fn largest_changed(bencher: Bencher<'_, '_>, segments: i64) {
    largest(bencher, segments, false, true, false);
}
