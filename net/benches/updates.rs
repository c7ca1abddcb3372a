//! What an update costs the picture that merges it, from bytes to merged profiles, and how many bytes it has.
//! `cargo bench -p coalloc-net --bench updates`.
//!
//! The picture has 1,000 links (10 resource managers) and 100 clusters (10 more), each with bookings in the
//! coming hour. An update says what one booking has changed: on a path of four links at one resource manager,
//! or at one cluster. After every ten seconds of updates the past is forgotten, as a coordinator does.

// clippy allows unwrap in test functions only; a bench is test code all through.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use coalloc_common::{Amount, BootTime, Now, ResourceId, RmName, Span, Time, Window};
use coalloc_net::convert::{update_from_wire, update_to_wire};
use coalloc_proto::v1;
use coalloc_protocol::Core as _;
use coalloc_protocol::message::{HoldOrder, Token};
use coalloc_protocol::participant::{
    Disclosure, HoldPolicy, HoldQuotas, Participant, ParticipantConfig, ParticipantInput,
};
use coalloc_protocol::update::{DueUpdate, Picture, Strategy, Subscription, Update, UpdateKind};
use divan::Bencher;
use prost::Message as _;

fn main() {
    divan::main();
}

const UPDATES: usize = 10_000;

fn at(ms: i64) -> Now {
    let wall = Time::from_us(1_795_219_200_000_000 + ms * 1_000);
    Now { wall, boot: BootTime::from_us(ms * 1_000) }
}

/// Numbers that look random, but are the same in every run.
fn dice(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

struct World {
    rms: Vec<(RmName, Participant, Subscription)>,
    /// Snapshots of all resource managers, then the updates, in the order in which they arrive.
    snapshots: Vec<(usize, Vec<u8>)>,
    updates: Vec<(usize, Vec<u8>)>,
}

fn participant(rm: usize) -> Participant {
    let (count, capacity) = if rm < 10 { (100, 1_000_000_000) } else { (10, 1_000) };
    let name = |n: usize| ResourceId::composed(format!("r{rm}-{n}"));
    let mut participant = Participant::new(ParticipantConfig {
        name: RmName::composed(format!("rm-{rm}")),
        resources: (0..count).map(|n| (name(n), Amount(capacity))).collect(),
        kinds: coalloc_common::ResourceKind::Bandwidth.into(),
        coordinators: [coalloc_common::CoordinatorName::composed("grc")].into(),
        policy: HoldPolicy::default(),
        levels: coalloc_common::ServiceLevels::default(),
        quotas: HoldQuotas::default(),
        inside: None,
        servers: BTreeMap::new(),
    });
    let _ = participant.step(ParticipantInput::Start { boot: "b".to_owned() }, at(0));
    participant
}

fn bytes(rm: &Participant, subscription: &mut Subscription, now: Now) -> Vec<Vec<u8>> {
    let resources = &rm.config().resources;
    let due = subscription.due(rm.changes(), |n| resources[n as usize].1, now);
    let (mut disclosure, from) = match due {
        DueUpdate::Snapshot => (rm.everything(now.wall), None),
        DueUpdate::Delta { from, touched } => {
            let all = touched.into_iter();
            let windows = all.flat_map(|(n, of)| of.windows.into_iter().map(move |w| (n, w)));
            (Disclosure::of(windows), Some(from))
        }
        DueUpdate::At(_) | DueUpdate::Nothing => return Vec::new(),
    };
    let revision = rm.changes().revision();
    subscription.told(revision, now.boot);
    let mut names: Vec<ResourceId> = resources.iter().map(|(name, _)| name.clone()).collect();
    let mut all = Vec::new();
    while all.is_empty() || !disclosure.is_read() {
        while !disclosure.is_read() && !disclosure.is_full() {
            rm.disclose(&mut disclosure);
        }
        let (parts, more) = (disclosure.take(), !disclosure.is_read());
        let kind = match from {
            None => UpdateKind::Snapshot { resources: std::mem::take(&mut names), more },
            Some(from) => UpdateKind::Delta { from },
        };
        let update =
            update_to_wire(&Update { epoch: u64::MAX, kind, revision, at: now.wall, parts });
        all.push(v1::WatchProfilesResponse { update: Some(update) }.encode_to_vec());
    }
    all
}

/// Makes one booking somewhere, with windows of some seconds in the coming hour.
fn book(rm: &mut Participant, serial: usize, state: &mut u64, now: Now) {
    let is_network = rm.config().resources.len() == 100;
    let segments = (0..if is_network { 4 } else { 1 }).map(|leg| {
        let resources = &rm.config().resources;
        let number = (dice(state, resources.len() as u64) as usize + leg * 7) % resources.len();
        let start =
            now.wall.saturating_add(Span::from_millis(1_000 + dice(state, 3_600_000) as i64));
        let window =
            Window::starting(start, Span::from_millis(500 + dice(state, 10_000) as i64)).unwrap();
        let amount = Amount(1 + dice(state, resources[number].1.0 / 50));
        coalloc_common::Segment { resource: resources[number].0.clone(), amount, window }
    });
    let order = HoldOrder {
        txn: coalloc_common::TransactionId::composed(format!("grc-t-{serial}/1")),
        coordinator: coalloc_common::CoordinatorName::composed("grc"),
        user: coalloc_common::UserName::composed("u"),
        segments: segments.collect(),
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: true,
        servers: None,
        manual_provision: false,
    };
    let _ = rm.step(ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) }, now);
}

fn world() -> World {
    let mut rms: Vec<(RmName, Participant, Subscription)> = (0..20)
        .map(|rm| {
            let name = RmName::composed(format!("rm-{rm}"));
            (name, participant(rm), Subscription::new(Strategy::EveryChange, None, at(0).boot))
        })
        .collect();
    let mut state = 1;
    for serial in 0..6_000 {
        let rm = dice(&mut state, 20) as usize;
        book(&mut rms[rm].1, serial, &mut state, at(0));
    }
    let mut snapshots = Vec::new();
    for (index, (_, rm, subscription)) in rms.iter_mut().enumerate() {
        snapshots.extend(bytes(rm, subscription, at(1)).into_iter().map(|bytes| (index, bytes)));
    }
    let mut updates = Vec::with_capacity(UPDATES);
    let mut serial = 10_000;
    while updates.len() < UPDATES {
        let (index, now) = (dice(&mut state, 20) as usize, at(2 + updates.len() as i64 / 10));
        let (_, rm, subscription) = &mut rms[index];
        serial += 1;
        book(rm, serial, &mut state, now);
        updates.extend(bytes(rm, subscription, now).into_iter().map(|bytes| (index, bytes)));
    }
    World { rms, snapshots, updates }
}

impl World {
    fn picture(&self) -> Picture {
        let mut picture = Picture::default();
        for (name, rm, _) in &self.rms {
            picture.expect(name, rm.config().resources.iter().cloned());
        }
        for (rm, bytes) in &self.snapshots {
            self.take(&mut picture, *rm, bytes, at(1));
        }
        picture
    }

    fn take(&self, picture: &mut Picture, rm: usize, bytes: &[u8], now: Now) {
        let wire = v1::WatchProfilesResponse::decode(bytes).unwrap().update.unwrap();
        let update = update_from_wire("update", &wire).unwrap();
        picture.merge(&self.rms[rm].0, &update, now).unwrap();
    }
}

/// Decode, check and merge on one thread. Items per second are updates per second.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn ten_thousand_updates_of_1000_links_and_100_clusters(bencher: Bencher) {
    let world = world();
    let mut sizes: Vec<usize> = world.updates.iter().map(|(_, bytes)| bytes.len()).collect();
    sizes.sort_unstable();
    let at_percent = |percent: usize| sizes[(sizes.len() - 1) * percent / 100];
    let snapshot: usize = world.snapshots.iter().map(|(_, bytes)| bytes.len()).sum();
    println!(
        "bytes of an update: median {}, 99 % {}, most {}; all snapshots {snapshot} bytes",
        at_percent(50),
        at_percent(99),
        at_percent(100)
    );
    bencher
        .counter(divan::counter::ItemsCount::new(UPDATES))
        .with_inputs(|| world.picture())
        .bench_local_values(|mut picture| {
            for (number, (rm, bytes)) in world.updates.iter().enumerate() {
                let now = at(2 + number as i64 / 10);
                world.take(&mut picture, *rm, bytes, now);
                if number % 1_000 == 0 {
                    picture.forget_before(now.wall);
                }
            }
            picture
        });
}

/// What a change costs the publisher of a network: finding what is due, reading it, encoding it.
#[divan::bench(sample_count = 20, sample_size = 100)]
fn a_delta_made_of_one_booking(bencher: Bencher) {
    let mut world = world();
    let (mut serial, mut state) = (100_000, 7);
    let (_, rm, subscription) = &mut world.rms[0];
    bencher.bench_local(|| {
        serial += 1;
        book(rm, serial, &mut state, at(2_000));
        bytes(rm, subscription, at(2_000))
    });
}
