//! The participant with a real inner network: random traffic against a model that knows only the
//! records, and the cases that a ring is for.
//!
//! A few lines over 600: one model and its cases.

// clippy allows unwrap in test functions only; this file is test code all through.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use coalloc_common::{
    Amount, BootTime, CoordinatorName, Now, Profile, ResourceId, RmName, Segment, Time,
    TransactionId, Unit, UserName, Window, limits,
};
use coalloc_net::convert::inner_network;
use coalloc_nrm::inner::Network;
use coalloc_proto::v1;
use coalloc_protocol::message::{Answer, HoldOrder, Token};
use coalloc_protocol::participant::{
    Disclosure, HoldPolicy, InnerRoute, Participant, ParticipantConfig, ParticipantEffect,
    ParticipantInput, ParticipantRecord, Phase, Question,
};
use coalloc_protocol::{Core, Log, sync};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A ring of four switches, 10 units each, with an end point at every switch:
/// two ways between any two of them.
fn ring(may_move: bool) -> (Vec<v1::Path>, v1::InnerNetwork) {
    let link = |name: &str, a: &str, b: &str, capacity_bps| v1::InnerLink {
        name: name.to_owned(),
        a: a.to_owned(),
        b: b.to_owned(),
        capacity_bps,
        latency: None,
    };
    let mut links = Vec::new();
    for (n, next) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
        links.push(link(&format!("ring{n}"), &format!("s{n}"), &format!("s{next}"), 10));
        links.push(link(&format!("port{n}"), &format!("p{n}"), &format!("s{n}"), 20));
    }
    let path = |a: i32, b: i32| v1::Path {
        name: format!("p{a}-p{b}"),
        a: format!("p{a}"),
        b: format!("p{b}"),
        capacity_bps: 10,
        ..v1::Path::default()
    };
    let paths = vec![path(0, 1), path(0, 2), path(1, 2), path(1, 3)];
    (paths, v1::InnerNetwork { links, may_move, max_links_per_path: None })
}

fn participant(paths: &[v1::Path], inner: Option<&v1::InnerNetwork>) -> Participant {
    let inside = inner.map(|inner| {
        Arc::new(Network::new(inner_network("inventory", paths, inner).unwrap())) as _
    });
    let resource = |path: &v1::Path| (ResourceId::composed(&*path.name), Amount(path.capacity_bps));
    Participant::new(ParticipantConfig {
        name: RmName::composed("nrm"),
        resources: paths.iter().map(resource).collect(),
        unit: Unit::BitsPerSecond,
        coordinators: [CoordinatorName::composed("grc")].into(),
        policy: HoldPolicy::default(),
        levels: [(UserName::composed("half"), 50)].into(),
        inside,
    })
}

fn started(may_move: bool) -> Participant {
    let (paths, inner) = ring(may_move);
    let mut participant = participant(&paths, Some(&inner));
    let _ = participant.step(ParticipantInput::Start { boot: "first".into() }, at(0));
    participant
}

fn at(s: i64) -> Now {
    let wall = Time::from_us(1_000_000_000_000 + s * 1_000_000);
    Now { wall, boot: BootTime::from_us(s * 1_000_000) }
}

fn window(start_s: i64, end_s: i64) -> Window {
    Window::new(at(start_s).wall, at(end_s).wall).unwrap()
}

fn txn(n: usize) -> TransactionId {
    TransactionId::composed(format!("grc-{n}/1"))
}

fn order(n: usize, segments: &[(&str, u64, Window)]) -> HoldOrder {
    let segment = |&(path, amount, window): &(&str, u64, Window)| Segment {
        resource: ResourceId::composed(path),
        amount: Amount(amount),
        window,
    };
    HoldOrder {
        txn: txn(n),
        coordinator: CoordinatorName::composed("grc"),
        user: UserName::composed("UserA"),
        segments: segments.iter().map(segment).collect(),
        hold_for: None,
        replaces: None,
        one_way: false,
    }
}

/// These tests have no log; answers are looked at as if their records were durable.
struct Nowhere;

impl Log for Nowhere {
    type Record = ParticipantRecord;
    type Error = std::fmt::Error;

    fn append(&mut self, _: &[&ParticipantRecord]) -> Result<(), std::fmt::Error> {
        Ok(())
    }
}

/// Steps, and checks that the invariants hold and that replaying the records, as they stand in a
/// ledger, on a copy from before gives the same state (I12, I14).
fn step(
    participant: &mut Participant,
    input: ParticipantInput,
    now: Now,
) -> (Option<Answer>, Vec<ParticipantRecord>) {
    let mut twin = participant.clone();
    let unsynced = participant.step(input, now);
    let records = unsynced.records().to_vec();
    for record in &records {
        let text = serde_json::to_string(record).unwrap();
        twin.apply(&serde_json::from_str(&text).unwrap()).unwrap();
    }
    participant.check_invariants().unwrap();
    twin.check_invariants().unwrap();
    assert_eq!(twin.entries(), participant.entries());
    let effects = sync(vec![unsynced], &mut Nowhere).unwrap().into_effects();
    let answer = effects.into_iter().find_map(|effect| match effect {
        ParticipantEffect::Reply { answer, .. } => Some(answer),
        ParticipantEffect::Ask { .. } => None,
    });
    (answer, records)
}

fn hold(participant: &mut Participant, order: HoldOrder, now: Now) -> Answer {
    step(participant, ParticipantInput::Hold { order, token: Token(0) }, now).0.unwrap()
}

fn commit(participant: &mut Participant, n: usize, now: Now) -> Answer {
    let by = CoordinatorName::composed("grc");
    let input = ParticipantInput::Commit { txn: txn(n), by, token: Token(0) };
    step(participant, input, now).0.unwrap()
}

fn is_held(answer: &Answer) -> bool {
    matches!(answer, Answer::Held { .. })
}

fn routes(participant: &Participant, n: usize) -> Vec<InnerRoute> {
    participant.entries()[&txn(n)].inner.clone().unwrap()
}

fn free(participant: &Participant, window: Window, now: Now) -> Vec<u64> {
    let free = participant.availability(&[window], &UserName::composed("UserA"), None, now);
    free[0].iter().map(|amount| amount.0).collect()
}

const W: (i64, i64) = (3_600, 7_200);

/// A path of the name that an inner link has among the resources.
#[test]
fn a_path_that_is_gone_and_an_inner_link_of_its_name_never_share_a_timetable() {
    let (paths, inner) = ring(false);
    let old = v1::Path { name: "inner/ring0".to_owned(), ..paths[0].clone() };
    let mut before = participant(std::slice::from_ref(&old), None);
    let start = || ParticipantInput::Start { boot: "first".into() };
    let mut log: Vec<ParticipantRecord> = Vec::new();
    let keep = |core: &mut Participant, input, log: &mut Vec<ParticipantRecord>| {
        struct Keep<'a>(&'a mut Vec<ParticipantRecord>);
        impl Log for Keep<'_> {
            type Record = ParticipantRecord;
            type Error = std::fmt::Error;
            fn append(&mut self, records: &[&ParticipantRecord]) -> Result<(), std::fmt::Error> {
                self.0.extend(records.iter().copied().cloned());
                Ok(())
            }
        }
        let step = core.step(input, at(0));
        let _ = sync(vec![step], &mut Keep(log)).unwrap();
    };
    keep(&mut before, start(), &mut log);
    let hold = order(1, &[("inner/ring0", 7, window(3_600, 7_200))]);
    keep(&mut before, ParticipantInput::Hold { order: hold, token: Token(0) }, &mut log);
    assert_eq!(before.name_of_two(at(0)), None, "nothing is inside yet");
    // With an inner network whose link has the name, the ledger does not fit.
    let replayed = |paths: &[v1::Path], inner: Option<&v1::InnerNetwork>, log: &[_]| {
        let mut core = participant(paths, inner);
        log.iter().for_each(|record| core.apply(record).unwrap());
        core.name_of_two(at(0)).map(|(txn, name)| (txn.to_string(), name.to_string()))
    };
    let twice = Some(("grc-1/1".to_owned(), "inner/ring0".to_owned()));
    assert_eq!(replayed(&paths, Some(&inner), &log), twice);
    let mut renamed = inner.clone();
    renamed.links[0].name = "arc0".to_owned();
    assert_eq!(replayed(&paths, Some(&renamed), &log), None, "by another name it does");
    // The other way round: routed inside, then a path gets the name of the link.
    let (mut inside, mut log) = (participant(&paths, Some(&inner)), Vec::new());
    keep(&mut inside, start(), &mut log);
    let hold = order(1, &[("p0-p1", 7, window(3_600, 7_200))]);
    keep(&mut inside, ParticipantInput::Hold { order: hold, token: Token(0) }, &mut log);
    assert_eq!(inside.name_of_two(at(0)), None);
    assert_eq!(replayed(std::slice::from_ref(&old), None, &log), twice);
    // What has ended is in nobody's way.
    let by = CoordinatorName::composed("grc");
    keep(&mut inside, ParticipantInput::Abort { txn: txn(1), by, token: Token(0) }, &mut log);
    assert_eq!(replayed(std::slice::from_ref(&old), None, &log), None);
}

#[test]
fn two_paths_that_share_the_inside_cannot_be_booked_to_their_sum() {
    let mut participant = started(false);
    let w = window(W.0, W.1);
    assert_eq!(free(&participant, w, at(0)), [10, 10, 10, 10]);
    // p0-p2 goes over p1's switch, and takes part of both ways from p0 to p1.
    assert!(is_held(&hold(&mut participant, order(1, &[("p0-p2", 6, w)]), at(0))));
    assert_eq!(free(&participant, w, at(0)), [4, 4, 4, 4]);
    let Answer::Refused(refusal) = hold(&mut participant, order(3, &[("p0-p1", 5, w)]), at(0))
    else {
        panic!("each of them fits alone, all together do not");
    };
    assert_eq!(refusal.resource, Some(ResourceId::composed("p0-p1")));
    assert_eq!((refusal.requested, refusal.available), (Some(Amount(5)), Some(Amount(4))));
    let text = serde_json::to_string(&refusal).unwrap();
    assert!(!["inner", "ring", "port"].iter().any(|name| text.contains(name)), "{text}");
    assert!(is_held(&hold(&mut participant, order(4, &[("p0-p1", 4, w)]), at(0))));
}

#[test]
fn a_path_is_routed_around_what_is_taken() {
    let mut participant = started(false);
    let w = window(W.0, W.1);
    assert!(is_held(&hold(&mut participant, order(1, &[("p0-p1", 6, w)]), at(0))));
    assert!(is_held(&hold(&mut participant, order(2, &[("p0-p1", 4, w)]), at(0))));
    assert!(is_held(&hold(&mut participant, order(3, &[("p0-p2", 10, w)]), at(0))));
    let short = routes(&participant, 1);
    let round = routes(&participant, 3);
    assert_eq!(short, [["inner/port0", "inner/ring0", "inner/port1"].map(ResourceId::composed)]);
    let expected = ["inner/port0", "inner/ring3", "inner/ring2", "inner/port2"];
    assert_eq!(round, [expected.map(ResourceId::composed)]);
}

/// Two bookings whose routes leave no room for a third, although there is room for all three.
fn crossed(participant: &mut Participant) {
    let w = window(W.0, W.1);
    // The first takes ring0 and ring1 (the lower index of two equal ways).
    assert!(is_held(&hold(participant, order(1, &[("p0-p2", 6, w)]), at(0))));
    assert_eq!(commit(participant, 1, at(0)), Answer::Done);
}

#[test]
fn moving_admits_what_is_refused_without() {
    let w = window(W.0, W.1);
    let asked = || order(2, &[("p0-p1", 10, w), ("p1-p2", 10, w)]);
    let mut fixed = started(false);
    crossed(&mut fixed);
    assert!(!is_held(&hold(&mut fixed, asked(), at(0))));

    let mut moving = started(true);
    crossed(&mut moving);
    let before = routes(&moving, 1);
    let input = ParticipantInput::Hold { order: asked(), token: Token(0) };
    let (answer, records) = step(&mut moving, input, at(0));
    assert!(is_held(&answer.unwrap()));
    let [ParticipantRecord::Moved { moves, .. }, ParticipantRecord::Held { .. }] = &records[..]
    else {
        panic!("the move is recorded before the hold: {records:?}");
    };
    assert_eq!(moves[0].txn, txn(1));
    assert_ne!(routes(&moving, 1), before);
    assert_eq!(moving.entries()[&txn(1)].phase, Phase::Booked, "its booking is what it was");
    assert_eq!(commit(&mut moving, 2, at(0)), Answer::Done);
}

#[test]
fn what_has_begun_or_begins_soon_never_moves() {
    let w = window(W.0, W.1);
    let asked = || order(2, &[("p0-p1", 10, w), ("p1-p2", 10, w)]);
    let lead = limits::INNER_MOVE_LEAD.as_us() / 1_000_000;
    for (now, admitted) in [(W.0 - lead - 1, true), (W.0 - lead, false), (W.0 + 10, false)] {
        let mut participant = started(true);
        crossed(&mut participant);
        assert_eq!(is_held(&hold(&mut participant, asked(), at(now))), admitted, "at {now}");
    }
}

#[test]
fn availability_tells_what_moving_makes_possible() {
    let w = window(W.0, W.1);
    for may_move in [false, true] {
        let mut participant = started(may_move);
        assert!(is_held(&hold(&mut participant, order(1, &[("p0-p2", 6, w)]), at(0))));
        assert!(is_held(&hold(&mut participant, order(2, &[("p0-p1", 3, w)]), at(0))));
        let free = free(&participant, w, at(0));
        for (index, path) in ["p0-p1", "p0-p2", "p1-p2", "p1-p3"].iter().enumerate() {
            let mut copy = participant.clone();
            let yes = hold(&mut copy, order(9, &[(path, free[index], w)]), at(0));
            assert!(free[index] == 0 || is_held(&yes), "{path}: {} was told", free[index]);
        }
    }
}

/// A query of as many frames as there may be, each of which wants searches: they are bounded, it is
/// answered in slices, and what is told without a search is what there is.
#[test]
fn a_query_searches_for_so_long_and_tells_no_more_than_there_is_after_that() {
    let w = window(W.0, W.1);
    let mut moving = started(true);
    crossed(&mut moving);
    let told = |participant: &Participant, frames: usize| {
        let user = UserName::composed("UserA");
        let mut question = Question::new(vec![w; frames], user, None);
        let mut slices = 0;
        while !question.is_answered() {
            participant.answer(&mut question, at(0));
            slices += 1;
        }
        (question.into_answer(), slices)
    };
    let with = told(&moving, 1).0.remove(0);
    let mut fixed = started(false);
    crossed(&mut fixed);
    let without = told(&fixed, 1).0.remove(0);
    assert!(with.iter().zip(&without).any(|(with, without)| with > without), "{with:?}");
    let (answer, slices) = told(&moving, limits::FRAMES_MAX as usize);
    assert!(slices > 1, "{slices}");
    let searched = answer.iter().filter(|frame| **frame != without).count();
    assert!(searched > 1 && searched <= limits::INNER_QUERY_SEARCHES, "{searched}");
    for frame in &answer {
        let bounds = without.iter().zip(&with);
        let within =
            frame.iter().zip(bounds).all(|(told, (low, high))| low <= told && told <= high);
        assert!(within, "{frame:?} is not within {without:?} and {with:?}");
    }
    assert_eq!(answer.last(), Some(&without));
    assert_eq!(told(&fixed, limits::FRAMES_MAX as usize).1, 1, "without moving it is one slice");
}

#[test]
fn a_service_level_takes_its_share_of_what_a_route_can_carry() {
    let mut participant = started(false);
    let w = window(W.0, W.1);
    assert!(is_held(&hold(&mut participant, order(1, &[("p0-p2", 6, w)]), at(0))));
    let half = UserName::composed("half");
    let told = participant.availability(&[w], &half, None, at(0));
    assert_eq!(told[0][0], Amount(2), "half of the 4 that a route has left");
    let mut asked = order(3, &[("p0-p1", 3, w)]);
    asked.user = half;
    assert!(!is_held(&hold(&mut participant, asked.clone(), at(0))));
    asked.txn = txn(4);
    asked.segments[0].amount = Amount(2);
    assert!(is_held(&hold(&mut participant, asked, at(0))));
}

#[test]
fn a_change_keeps_its_route_and_an_active_one_can_only_grow_on_it() {
    let mut participant = started(true);
    let w = window(W.0, W.1);
    assert!(is_held(&hold(&mut participant, order(1, &[("p0-p2", 4, w)]), at(0))));
    assert_eq!(commit(&mut participant, 1, at(0)), Answer::Done);
    assert!(is_held(&hold(&mut participant, order(2, &[("p0-p1", 5, w)]), at(0))));
    assert_eq!(commit(&mut participant, 2, at(0)), Answer::Done);
    let route = routes(&participant, 1);
    let change = |n, old, amount, end| HoldOrder {
        replaces: Some(txn(old)),
        ..order(n, &[("p0-p2", amount, window(W.0, end))])
    };
    // While it runs: longer, on its own route.
    let now = at(W.0 + 60);
    assert!(is_held(&hold(&mut participant, change(3, 1, 4, W.1 + 600), now)));
    assert_eq!(routes(&participant, 3), route);
    assert_eq!(commit(&mut participant, 3, now), Answer::Done);
    // More than its route has left is refused, although the other way round is empty.
    let shared = route[0].contains(&ResourceId::composed("inner/ring0"));
    let answer = hold(&mut participant, change(4, 3, 9, W.1 + 600), now);
    assert_eq!(is_held(&answer), !shared, "{answer:?}");
}

#[test]
fn bookings_from_before_the_inner_network_get_routes_at_start() {
    let (paths, inner) = ring(false);
    let mut plain = participant(&paths, None);
    let mut log = Vec::new();
    let w = window(W.0, W.1);
    let inputs = [
        ParticipantInput::Start { boot: "first".into() },
        ParticipantInput::Hold { order: order(1, &[("p0-p2", 10, w)]), token: Token(0) },
        ParticipantInput::Hold { order: order(2, &[("p1-p3", 10, w)]), token: Token(0) },
        ParticipantInput::Hold { order: order(3, &[("p0-p1", 10, w)]), token: Token(0) },
    ];
    for input in inputs {
        log.extend(step(&mut plain, input, at(0)).1);
    }
    let mut routed = participant(&paths, Some(&inner));
    for record in &log {
        routed.apply(record).unwrap();
    }
    assert_eq!(routed.unrouted(at(1)).len(), 3);
    let _ = step(&mut routed, ParticipantInput::Start { boot: "second".into() }, at(1));
    // Three of 10 each are more than the ring has; what cannot be routed stays booked, and is known.
    assert_eq!(routed.unrouted(at(1)), [&txn(2), &txn(3)]);
    assert_eq!(routed.entries().len(), 3);
}

#[test]
fn a_restart_while_a_change_is_held_leaves_its_old_version_as_it_is() {
    let (paths, inner) = ring(false);
    let mut plain = participant(&paths, None);
    let mut log = Vec::new();
    let w = window(W.0, W.1);
    let by = CoordinatorName::composed("grc");
    let mut inputs = vec![ParticipantInput::Start { boot: "first".into() }];
    for (n, path) in [(1, "p0-p2"), (3, "p0-p1")] {
        let order = order(n, &[(path, 10, w)]);
        inputs.push(ParticipantInput::Hold { order, token: Token(0) });
        inputs.push(ParticipantInput::Commit { txn: txn(n), by: by.clone(), token: Token(0) });
    }
    for input in inputs {
        log.extend(step(&mut plain, input, at(0)).1);
    }
    let mut routed = participant(&paths, Some(&inner));
    for record in &log {
        routed.apply(record).unwrap();
    }
    let _ = step(&mut routed, ParticipantInput::Start { boot: "second".into() }, at(1));
    assert!(routed.unrouted(at(1)).contains(&&txn(3)), "there was no room for it");
    let release = ParticipantInput::Release { txn: txn(1), by, token: Token(0) };
    let _ = step(&mut routed, release, at(1));
    // Now there is room; a smaller version of it is held, with a route.
    let change = HoldOrder { replaces: Some(txn(3)), ..order(4, &[("p0-p1", 2, w)]) };
    assert!(is_held(&hold(&mut routed, change, at(1))));
    let _ = step(&mut routed, ParticipantInput::Start { boot: "third".into() }, at(2));
    assert_eq!(routed.entries()[&txn(3)].inner, None, "what is being replaced is not routed");
    routed.check_invariants().unwrap();
    assert_eq!(commit(&mut routed, 4, at(2)), Answer::Done);
    routed.check_invariants().unwrap();
}

/// What every live entry takes of each link at an instant, by the records alone.
fn taken(participant: &Participant, instant: Time) -> BTreeMap<ResourceId, u64> {
    let at_instant = |n: &TransactionId| -> BTreeMap<ResourceId, u64> {
        let entry = &participant.entries()[n];
        let (order, inner) = (entry.order.as_ref().unwrap(), entry.inner.as_ref().unwrap());
        let mut taken = BTreeMap::new();
        for (segment, route) in order.segments.iter().zip(inner) {
            if segment.window.start() <= instant && instant < segment.window.end() {
                for link in route {
                    *taken.entry(link.clone()).or_default() += segment.amount.0;
                }
            }
        }
        taken
    };
    let mut all: BTreeMap<ResourceId, u64> = BTreeMap::new();
    let live = |phase: &Phase| matches!(phase, Phase::Held(_) | Phase::Booked);
    for (txn, entry) in participant.entries().iter().filter(|(_, e)| live(&e.phase)) {
        let old = entry.order.as_ref().and_then(|order| order.replaces.as_ref());
        let old = old.filter(|old| participant.entries()[*old].phase == Phase::Booked);
        // A hold of a new version takes what it has beyond the old one.
        let less = match (&entry.phase, old) {
            (Phase::Held(_), Some(old)) => at_instant(old),
            _ => BTreeMap::new(),
        };
        for (link, amount) in at_instant(txn) {
            let less = less.get(&link).copied().unwrap_or_default();
            *all.entry(link).or_default() += amount.saturating_sub(less);
        }
    }
    all
}

fn check_inside(participant: &Participant, paths: &[v1::Path], inner: &v1::InnerNetwork) {
    let links: BTreeMap<String, &v1::InnerLink> =
        inner.links.iter().map(|link| (format!("inner/{}", link.name), link)).collect();
    let mut instants = Vec::new();
    for entry in participant.entries().values() {
        let Some(routes) = &entry.inner else { continue };
        let order = entry.order.as_ref().unwrap();
        for (segment, route) in order.segments.iter().zip(routes) {
            instants.push(segment.window.start());
            let path = paths.iter().find(|path| path.name == segment.resource.as_str()).unwrap();
            let mut here = path.a.as_str();
            for link in route {
                let link = links[link.as_str()];
                here = if link.a == here {
                    &link.b
                } else {
                    assert_eq!(link.b, here);
                    &link.a
                };
            }
            assert_eq!(here, path.b, "the route ends where its path does");
        }
    }
    for instant in instants {
        for (link, amount) in taken(participant, instant) {
            let capacity = links[link.as_str()].capacity_bps;
            assert!(amount <= capacity, "I1: {link} has {amount} of {capacity} taken at {instant}");
        }
    }
}

/// One random input.
fn random_input(random: &mut ChaCha8Rng, n: usize, now: i64) -> ParticipantInput {
    let by = CoordinatorName::composed("grc");
    let (other, token) = (txn(random.random_range(0..n.max(1))), Token(0));
    match random.random_range(0..10) {
        0..=5 => {
            let names = ["p0-p1", "p0-p2", "p1-p2", "p1-p3"];
            let mut segments = Vec::new();
            for _ in 0..random.random_range(1..=3) {
                let start = now + random.random_range(1..400);
                let w = window(start, start + random.random_range(10..200));
                segments.push((names[random.random_range(0..4)], random.random_range(1..=6), w));
            }
            let replaces = random.random_bool(0.2).then_some(other);
            ParticipantInput::Hold { order: HoldOrder { replaces, ..order(n, &segments) }, token }
        }
        6 | 7 => ParticipantInput::Commit { txn: other, by, token },
        8 => ParticipantInput::Abort { txn: other, by, token },
        _ => ParticipantInput::Release { txn: other, by, token },
    }
}

#[test]
fn random_traffic_never_overbooks_a_link_and_never_moves_what_has_begun() {
    let (mut moved, mut more) = (0, 0);
    for seed in 0..40 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (paths, inner) = ring(true);
        let (_, still) = ring(false);
        let mut participant = started(true);
        let mut log = Vec::new();
        let mut now = 0;
        for n in 0..120 {
            now += random.random_range(0..8);
            let input = random_input(&mut random, n, now);
            // The same state without moving admits no more.
            if let ParticipantInput::Hold { .. } = &input {
                let mut twin = self::participant(&paths, Some(&still));
                log.iter().for_each(|record| twin.apply(record).unwrap());
                let _ = twin.step(ParticipantInput::Start { boot: "twin".into() }, at(now));
                let (without, _) = step(&mut twin, input.clone(), at(now));
                let (with, _) = step(&mut participant.clone(), input.clone(), at(now));
                let (without, with) = (is_held(&without.unwrap()), is_held(&with.unwrap()));
                assert!(with || !without, "seed {seed}, {n}: refused only when it may move");
                more += u32::from(with && !without);
            }
            let before = participant.entries().clone();
            let (_, records) = step(&mut participant, input, at(now));
            moved +=
                records.iter().filter(|r| matches!(r, ParticipantRecord::Moved { .. })).count();
            for (txn, entry) in &before {
                let segments =
                    &entry.order.as_ref().map(|o| o.segments.clone()).unwrap_or_default();
                let begun = segments.iter().any(|s| s.window.start() <= at(now).wall);
                if begun {
                    assert_eq!(participant.entries()[txn].inner, entry.inner, "{txn} has begun");
                }
            }
            log.extend(records);
            check_inside(&participant, &paths, &inner);
        }
        // The whole log, on an empty participant without a router, gives the same routes.
        let mut replayed = self::participant(&paths, None);
        log.iter().for_each(|record| replayed.apply(record).unwrap());
        replayed.check_invariants().unwrap();
        for (txn, entry) in participant.entries() {
            assert_eq!(replayed.entries()[txn].inner, entry.inner);
        }
    }
    assert!(moved > 50 && more > 50, "{moved} moved, {more} admitted only because others moved");
}

/// The mistakes of a configuration, each with the words that must be in its sentence.
#[test]
fn what_the_inside_can_never_carry_is_refused_with_both_numbers() {
    type Change = fn(&mut Vec<v1::Path>, &mut v1::InnerNetwork);
    let cases: [(Change, &str, &[&str]); 9] = [
        (
            |paths, _| paths[1].capacity_bps = 11,
            "inventory.paths[1].capacity_bps",
            &["11", "at most 10 "],
        ),
        (
            |_, inner| inner.links[0].capacity_bps = 0,
            "inventory.inner.links[0].capacity_bps",
            &["1 to"],
        ),
        (
            |_, inner| inner.links[1].name = "ring0".into(),
            "inventory.inner.links[1].name",
            &["no other"],
        ),
        (|_, inner| inner.links[1].b = "p0".into(), "inventory.inner.links[1].b", &["another end"]),
        (|_, inner| inner.links.clear(), "inventory.inner.links", &["1 to 1000"]),
        (
            |_, inner| inner.max_links_per_path = Some(65),
            "inventory.inner.max_links_per_path",
            &["1 to 64"],
        ),
        (
            |_, inner| inner.max_links_per_path = Some(2),
            "inventory.paths[0].capacity_bps",
            &["at most 0 "],
        ),
        (|paths, _| paths[2].b = "elsewhere".into(), "inventory.paths[2].b", &["inner.links"]),
        (
            |_, inner| {
                let latency = coalloc_proto::Duration { seconds: 0, nanos: 1_000_000 };
                inner.links.iter_mut().for_each(|link| link.latency = Some(latency));
            },
            "inventory.paths[0].latency",
            &["at least 3 ms"],
        ),
    ];
    for (change, field, words) in cases {
        let (mut paths, mut inner) = ring(false);
        change(&mut paths, &mut inner);
        let error = inner_network("inventory", &paths, &inner).unwrap_err();
        assert_eq!(error.field, field, "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{word:?} in {error}");
        }
    }
}

/// Every instant at which something may change, and some between.
fn instants() -> impl Iterator<Item = i64> {
    (0..40).map(|n| 300 + n * 150)
}

#[test]
fn what_subscribers_are_told_of_a_path_is_what_a_query_of_that_instant_answers() {
    let mut p = started(false);
    let names: Vec<ResourceId> =
        p.config().resources.iter().map(|(name, _)| name.clone()).collect();
    let mut state = 7_u64;
    let mut dice = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut told: Vec<Profile> = vec![Profile::constant(at(100).wall, Amount::ZERO); names.len()];
    let mut disclosure = p.everything(at(100).wall);
    let mut revision = p.changes().revision();
    let mut differed = 0;
    for n in 0..60 {
        while !disclosure.is_read() {
            p.disclose(&mut disclosure);
            for part in disclosure.take() {
                assert!(part.is_sound(), "{part:?}");
                told[part.resource as usize].replace(part.window, &part.steps);
            }
        }
        for s in instants() {
            let window = Window::new(at(s).wall, at(s + 1).wall).unwrap();
            let asked = p.availability(&[window], &UserName::composed("u"), None, at(100));
            for (number, name) in names.iter().enumerate() {
                let free = told[number].free_at(at(s).wall);
                assert_eq!(free, Some(asked[0][number]), "{name} at {s} after {n}");
                differed += u64::from(free != Some(p.config().resources[number].1));
            }
        }
        // Another booking, or the end of one; then what changed is told.
        let txn = TransactionId::composed(format!("t{}", dice(n + 1)));
        let input = if n % 3 == 2 {
            ParticipantInput::Abort { txn, by: CoordinatorName::composed("grc"), token: Token(1) }
        } else {
            let from = 300 + 150 * i64::try_from(dice(30)).unwrap();
            let window = Window::new(at(from).wall, at(from + 450).wall).unwrap();
            let resource = names[dice(names.len() as u64) as usize].clone();
            let amount = Amount(p.config().resources[0].1.0 / (1 + dice(4)));
            let order = HoldOrder {
                txn: TransactionId::composed(format!("t{n}")),
                coordinator: CoordinatorName::composed("grc"),
                user: UserName::composed("u"),
                segments: vec![Segment { resource, amount, window }],
                hold_for: None,
                replaces: None,
                one_way: true,
            };
            ParticipantInput::Hold { order, token: Token(1) }
        };
        let _ = p.step(input, at(100));
        let touched = p.changes().since(revision, at(100).wall).expect("kept").into_iter();
        let windows =
            touched.flat_map(|(number, of)| of.windows.into_iter().map(move |w| (number, w)));
        disclosure = Disclosure::of(windows);
        revision = p.changes().revision();
    }
    assert!(differed > 1_000, "{differed}: nothing was ever taken");
}
