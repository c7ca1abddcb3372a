//! Tests of the participant with a real inner network: random traffic against a model that knows only the
//! records, and cases on a ring.

// clippy allows unwrap in test functions only; this file is test code all through.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bench;
mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;

use coalloc_common::{
    Amount, BootTime, CoordinatorName, Now, Profile, ResourceId, ResourceKind, RmName, Segment,
    Time, TransactionId, UserName, Window, limits,
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

use self::bench::*;

const W: (i64, i64) = (3_600, 7_200);

/// A path that was removed, and an inner link whose name among the resources is the path's.
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
            fn append_caused(
                &mut self,
                records: &[coalloc_protocol::CausedRecord<'_, ParticipantRecord>],
            ) -> Result<(), std::fmt::Error> {
                self.0.extend(records.iter().map(|caused| caused.record.clone()));
                Ok(())
            }
        }
        let step = core.step(input, at(0));
        let _ = sync(vec![step], &mut Keep(log)).unwrap();
    };
    keep(&mut before, start(), &mut log);
    let hold = order(1, &[("inner/ring0", 7, window(3_600, 7_200))]);
    keep(
        &mut before,
        ParticipantInput::Hold { order: hold, oldest_open: 0, token: Token::new(0) },
        &mut log,
    );
    assert_eq!(before.name_of_two(at(0)), None, "nothing is inside yet");
    // The ledger does not fit an inner network whose link has that name.
    let replayed = |paths: &[v1::Path], inner: Option<&v1::InnerNetwork>, log: &[_]| {
        let mut core = participant(paths, inner);
        log.iter().for_each(|record| core.apply(record).unwrap());
        core.name_of_two(at(0)).map(|(txn, name)| (txn.to_string(), name.to_string()))
    };
    let twice = Some(("grc-t-1/1".to_owned(), "inner/ring0".to_owned()));
    assert_eq!(replayed(&paths, Some(&inner), &log), twice);
    let mut renamed = inner.clone();
    renamed.links[0].name = "arc0".to_owned();
    assert_eq!(replayed(&paths, Some(&renamed), &log), None, "by another name it does");
    // The other way round: a booking is routed over the inner network, then a path gets the name of the link.
    let (mut inside, mut log) = (participant(&paths, Some(&inner)), Vec::new());
    keep(&mut inside, start(), &mut log);
    let hold = order(1, &[("p0-p1", 7, window(3_600, 7_200))]);
    keep(
        &mut inside,
        ParticipantInput::Hold { order: hold, oldest_open: 0, token: Token::new(0) },
        &mut log,
    );
    assert_eq!(inside.name_of_two(at(0)), None);
    assert_eq!(replayed(std::slice::from_ref(&old), None, &log), twice);
    // A booking that has ended causes no conflict.
    let by = CoordinatorName::composed("grc");
    keep(&mut inside, ParticipantInput::Abort { txn: txn(1), by, token: Token::new(0) }, &mut log);
    assert_eq!(replayed(std::slice::from_ref(&old), None, &log), None);
}

#[test]
fn two_paths_that_share_the_inside_cannot_be_booked_to_their_sum() {
    let mut participant = started(false);
    let w = window(W.0, W.1);
    assert_eq!(free(&participant, w, at(0)), [10, 10, 10, 10]);
    // p0-p2 is routed over p1's switch, and takes part of both routes from p0 to p1.
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

/// Two bookings whose routes leave no place for a third, although all three would fit.
fn crossed(participant: &mut Participant) {
    let w = window(W.0, W.1);
    // The first takes ring0 and ring1 (the lower index of two equal routes).
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
    let input = ParticipantInput::Hold { order: asked(), oldest_open: 0, token: Token::new(0) };
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

/// A query of as many frames as there may be, each of which needs searches. The searches are bounded, the
/// query is answered in slices, and an answer without a search is never more than what is free.
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
    // While it is active: longer, on its own route.
    let now = at(W.0 + 60);
    assert!(is_held(&hold(&mut participant, change(3, 1, 4, W.1 + 600), now)));
    assert_eq!(routes(&participant, 3), route);
    assert_eq!(commit(&mut participant, 3, now), Answer::Done);
    // More than its route has left is refused, although the other route round the ring is empty.
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
        ParticipantInput::Hold {
            order: order(1, &[("p0-p2", 10, w)]),
            oldest_open: 0,
            token: Token::new(0),
        },
        ParticipantInput::Hold {
            order: order(2, &[("p1-p3", 10, w)]),
            oldest_open: 0,
            token: Token::new(0),
        },
        ParticipantInput::Hold {
            order: order(3, &[("p0-p1", 10, w)]),
            oldest_open: 0,
            token: Token::new(0),
        },
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
    // Three bookings of 10 each are more than the ring can carry. Those that cannot be routed stay booked,
    // and are listed.
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
        inputs.push(ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(0) });
        inputs.push(ParticipantInput::Commit { txn: txn(n), by: by.clone(), token: Token::new(0) });
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
    let release = ParticipantInput::Release { txn: txn(1), by, token: Token::new(0) };
    let _ = step(&mut routed, release, at(1));
    // Now there is enough capacity: a smaller version of it is held, with a route.
    let change = HoldOrder { replaces: Some(txn(3)), ..order(4, &[("p0-p1", 2, w)]) };
    assert!(is_held(&hold(&mut routed, change, at(1))));
    let _ = step(&mut routed, ParticipantInput::Start { boot: "third".into() }, at(2));
    assert_eq!(routed.entries()[&txn(3)].inner, None, "what is being replaced is not routed");
    routed.check_invariants().unwrap();
    assert_eq!(commit(&mut routed, 4, at(2)), Answer::Done);
    routed.check_invariants().unwrap();
}

/// Mistakes of a configuration, each with words that must be in its error message.
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
        (
            |_, inner| inner.links[1].b = "p0".into(),
            "inventory.inner.links[1].b",
            &["an end other than"],
        ),
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

/// Every instant at which something may change, and some between them.
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
        // Another booking, or the end of one; then the changes are read as an update.
        let txn = TransactionId::composed(format!("grc-t-{}/1", dice(n + 1)));
        let input = if n % 3 == 2 {
            ParticipantInput::Abort {
                txn,
                by: CoordinatorName::composed("grc"),
                token: Token::new(1),
            }
        } else {
            let from = 300 + 150 * i64::try_from(dice(30)).unwrap();
            let window = Window::new(at(from).wall, at(from + 450).wall).unwrap();
            let resource = names[dice(names.len() as u64) as usize].clone();
            let amount = Amount(p.config().resources[0].1.0 / (1 + dice(4)));
            let order = HoldOrder {
                txn: TransactionId::composed(format!("grc-t-{n}/1")),
                coordinator: CoordinatorName::composed("grc"),
                user: UserName::composed("u"),
                segments: vec![Segment { resource, amount, window }],
                hold_for: None,
                replaces: None,
                keeps_old: false,
                one_way: true,
                servers: None,
                manual_provision: false,
            };
            ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) }
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
