//! The events that watchers get from the records of a random world: folded, they give what the listings show.
//!
//! The world is that of the protocol's fault simulator: lost and duplicated messages, crashes between any
//! two steps. Every record is turned into its event twice, once soon after it was written and once at the
//! end: both must be the same event.

use std::collections::BTreeMap;

use coalloc_common::{
    Amount, CoordinatorName, ResourceId, ResourceKind, RmName, Segment, Span, Window, limits,
};
use coalloc_grc::views::events::ReservationEvents;
use coalloc_grc::views::view;
use coalloc_ledger::Entry;
use coalloc_net::watch::Events;
use coalloc_proto::v1;
use coalloc_protocol::Snapshot;
use coalloc_protocol::coordinator::{Candidate, CoordinatorConfig};
use coalloc_protocol::participant::{
    HoldPolicy, HoldQuotas, ParticipantConfig, Phase, TransactionEnd,
};
use coalloc_rm::events::BookingEvents;

use coalloc_sim::world::clients::{Demand, Visit};
use coalloc_sim::world::network::FaultRates;
use coalloc_sim::world::node::{Node, Record, WALL_START};
use coalloc_sim::world::{Event, Trace, World};

const SEEDS: u64 = 30;
const SECOND: i64 = 1_000_000;
const FAULTS_US: i64 = 120 * SECOND;
const REST_US: i64 = 600 * SECOND;

/// One coordinator, three RMs, users who reserve and release, and faults for a while.
fn make(seed: u64) -> Result<World, String> {
    let mut world = World::new(seed, Trace::Off);
    for number in 1..=3 {
        world.add_rm(ParticipantConfig {
            name: RmName::composed(format!("rm-{number}")),
            kinds: ResourceKind::Cpus.into(),
            resources: vec![(ResourceId::composed("a"), Amount(1_000))],
            coordinators: [CoordinatorName::composed("grc")].into(),
            policy: HoldPolicy {
                soft: Span::from_secs(3),
                hard: Span::from_secs(10 + 10 * (seed % 3) as i64),
                horizon: limits::HORIZON_DEFAULT,
                ..HoldPolicy::default()
            },
            levels: coalloc_common::ServiceLevels::default(),
            quotas: HoldQuotas::default(),
            inside: None,
            servers: BTreeMap::new(),
        })?;
    }
    let name = CoordinatorName::composed("grc");
    world.add_grc(CoordinatorConfig {
        name,
        tag: "t".to_owned(),
        hold_for: None,
        forgets: None,
    })?;
    world.clients.planning_us = 50_000;
    for number in 0..world.dice.between(3, 10) {
        let at_us = world.dice.between(0, 90) * SECOND;
        let plans = (0..world.dice.below(4)).map(|_| candidate(&mut world)).collect();
        let mut demand = Demand::new(0, &format!("r{number}"), "UserA", plans);
        demand.patience_us = 10 * SECOND;
        let index = world.add_demand(demand);
        world.at(at_us, Event::Visit(Visit::Open(index)));
        world.at(at_us + 20 * SECOND, Event::Visit(Visit::Again(index)));
        if world.dice.per_mille(500) {
            let later = world.dice.between(0, 60) * SECOND;
            world.at(at_us + later, Event::Visit(Visit::Release(index)));
        }
    }
    world.weather = FaultRates {
        loss: *world.dice.pick(&[0, 50, 200]),
        twice: *world.dice.pick(&[0, 100]),
        crash: *world.dice.pick(&[0, 20, 80]),
        ..FaultRates::default()
    };
    Ok(world)
}

fn candidate(world: &mut World) -> Candidate {
    let mut segments = BTreeMap::new();
    for rm in 1..=3 {
        if rm > 1 && world.dice.per_mille(400) {
            continue;
        }
        let start = WALL_START.saturating_add(Span::from_secs(3_600));
        let window = Window::starting(start, Span::from_secs(3_600)).unwrap();
        let amount = Amount(*world.dice.pick(&[100, 400, 700]));
        let segment = Segment { resource: ResourceId::composed("a"), amount, window };
        segments.insert(RmName::composed(format!("rm-{rm}")), vec![segment]);
    }
    Candidate { segments, ..Candidate::default() }
}

/// The events of a node's log from a given record on, with facts of the fold of that log.
fn events<C, E>(node: &Node<C>, events: &E, from: usize) -> Vec<(u64, E::Message)>
where
    C: Snapshot + Clone,
    C::Record: Record,
    E: Events<C>,
{
    let records = node.records().into_iter().enumerate().skip(from);
    let entries: Vec<Entry<C::Record>> = records
        .map(|(index, record)| Entry {
            sequence: index as u64 + 1,
            hash: [0; 32],
            record,
            from: None,
        })
        .collect();
    let facts = E::facts(&entries, &node.shadow);
    let event = |entry: &Entry<C::Record>| {
        let token = || entry.sequence.to_string();
        Some((entry.sequence, events.event(entry, &facts, &token)?))
    };
    entries.iter().filter_map(event).collect()
}

fn reservation(message: v1::WatchResponse) -> v1::ReservationEvent {
    match message.what {
        Some(v1::watch_response::What::Event(event)) => event,
        other => panic!("{other:?}"),
    }
}

fn booking(message: v1::WatchBookingsResponse) -> v1::BookingEvent {
    match message.what {
        Some(v1::watch_bookings_response::What::Event(event)) => event,
        other => panic!("{other:?}"),
    }
}

const fn state_of(phase: &Phase) -> v1::BookingState {
    match phase {
        Phase::Held(_) => v1::BookingState::Held,
        Phase::Booked => v1::BookingState::Booked,
        Phase::Refused(_) => v1::BookingState::Refused,
        Phase::Ended(TransactionEnd::Aborted) => v1::BookingState::Aborted,
        Phase::Ended(TransactionEnd::Expired) => v1::BookingState::Expired,
        Phase::Ended(TransactionEnd::Released) => v1::BookingState::Released,
        Phase::Ended(TransactionEnd::Replaced) => v1::BookingState::Replaced,
    }
}

/// Runs one seed; returns how many events of each kind there were.
fn run(seed: u64) -> Result<BTreeMap<String, usize>, String> {
    let mut world = make(seed)?;
    let all = ReservationEvents::default();
    let (mut early, mut early_rms) = (Vec::new(), vec![Vec::new(); world.rms.len()]);
    let (mut steps, mut calm, mut looked_us) = (0, false, 0);
    while world.next_at().is_some_and(|at| at <= REST_US) && !(steps > 0 && is_quiet_after(&world))
    {
        if !calm && world.next_at().is_some_and(|at| at > FAULTS_US) {
            calm = true;
            world.weather = FaultRates::default();
            world.drop_faults();
        }
        world.step()?;
        steps += 1;
        // This is done only now and then, because each time the whole log is read.
        if world.now_us >= looked_us + 30 * SECOND {
            looked_us = world.now_us;
            let from = early.last().map_or(0, |(at, _): &(u64, _)| *at as usize);
            early.extend(events(&world.grcs[0], &all, from));
            for (index, early) in early_rms.iter_mut().enumerate() {
                let from = early.last().map_or(0, |(at, _): &(u64, _)| *at as usize);
                early.extend(events(&world.rms[index], &BookingEvents, from));
            }
        }
    }
    let mut kinds = BTreeMap::new();
    let late = events(&world.grcs[0], &all, 0);
    assert_eq!(early[..], late[..early.len()], "seed {seed}: an event has changed");
    let mut states = BTreeMap::new();
    for (_, message) in late {
        let event = reservation(message);
        *kinds.entry(format!("{:?}", event.state())).or_default() += 1;
        states.insert(event.reservation.clone(), event.state);
    }
    let grc = &world.grcs[0].shadow;
    assert_eq!(states.len(), grc.reservations().count(), "seed {seed}: all and no other");
    for one in grc.reservations() {
        let shown = view::states(one).next().unwrap();
        assert_eq!(states.get(one.id.as_str()), Some(&shown), "seed {seed}: {one:?}");
    }
    for (index, early) in early_rms.iter().enumerate() {
        let rm = &world.rms[index];
        let late = events(rm, &BookingEvents, 0);
        assert_eq!(early[..], late[..early.len()], "seed {seed}: an event has changed");
        let mut bookings = BTreeMap::new();
        for (_, message) in late {
            let event = booking(message);
            let booking = event.booking.unwrap();
            *kinds.entry(format!("{:?} by {}", booking.state(), event.cause)).or_default() += 1;
            bookings.insert(booking.transaction.clone(), booking);
        }
        let entries = rm.shadow.entries();
        assert_eq!(bookings.len(), entries.len(), "seed {seed}: all and no other");
        for (txn, entry) in entries {
            let told = &bookings[txn.as_str()];
            assert_eq!(told.state(), state_of(&entry.phase), "seed {seed}: {txn}");
            let order = entry.order.as_ref();
            let segments = order.map_or(0, |order| order.segments.len());
            assert_eq!(told.segments.len(), segments, "seed {seed}: {txn}");
            assert_eq!(told.coordinator, entry.coordinator.as_str(), "seed {seed}: {txn}");
        }
    }
    Ok(kinds)
}

/// Is the world quiet after the faults?
fn is_quiet_after(world: &World) -> bool {
    world.now_us > FAULTS_US && world.is_quiet()
}

#[test]
fn folded_events_are_what_the_listings_show_in_any_weather() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..SEEDS {
        let seen = run(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for (kind, count) in seen {
            *kinds.entry(kind).or_default() += count;
        }
    }
    // A world without faults proves nothing.
    let states = ["Checking", "Committing", "Confirmed", "Failed", "Terminating", "Terminated"];
    let bookings =
        ["Held by coordinator grc", "Booked by coordinator grc", "Aborted by coordinator grc"];
    for kind in
        states.iter().chain(&bookings).chain(&["Released by coordinator grc", "Expired by expiry"])
    {
        assert!(kinds.contains_key(*kind), "no {kind} in {kinds:?}");
    }
}
