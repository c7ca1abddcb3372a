//! What is disclosed to subscribers, and one-way holds.

use coalloc_common::{Profile, Reason, RmName, Window};
use proptest::prelude::*;

use super::tests::{at, config, grc, order, run, txn, window};
use super::*;
use crate::update::{DueUpdate, Picture, Strategy as Told, Subscription, Update, UpdateKind};

const RESOURCES: [(&str, u64); 3] = [("N0-N1", 100), ("N0-N2", 100), ("N1-N2", 40)];

fn participant(kept: usize) -> Participant {
    let mut participant = Participant::new(config(&RESOURCES)).with_changes_kept(kept);
    let _ = run(&mut participant, ParticipantInput::Start { boot: "first".into() }, at(0));
    participant
}

fn answer(participant: &mut Participant, input: ParticipantInput, now: Now) -> Answer {
    let effects = run(participant, input, now);
    let reply = effects.into_iter().find_map(|effect| match effect {
        ParticipantEffect::Reply { answer, .. } => Some(answer),
        ParticipantEffect::Ask { .. } | ParticipantEffect::Reconcile { .. } => None,
    });
    reply.expect("an answer")
}

fn hold(order: HoldOrder) -> ParticipantInput {
    ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) }
}

fn commit(name: &str) -> ParticipantInput {
    ParticipantInput::Commit { txn: txn(name), by: grc(), token: Token::new(1) }
}

fn abort(name: &str) -> ParticipantInput {
    ParticipantInput::Abort { txn: txn(name), by: grc(), token: Token::new(1) }
}

fn release(name: &str) -> ParticipantInput {
    ParticipantInput::Release { txn: txn(name), by: grc(), token: Token::new(1) }
}

fn one_way(name: &str, amount: u64, window: Window) -> HoldOrder {
    HoldOrder { one_way: true, ..order(name, amount, window) }
}

fn reason(answer: Answer) -> Option<Reason> {
    match answer {
        Answer::Refused(refusal) => Some(refusal.reason),
        _ => None,
    }
}

fn touched(participant: &Participant, from: u64) -> Vec<(u32, Window)> {
    let touched = participant.changes().since(from, at(0).wall).expect("kept");
    touched
        .into_iter()
        .flat_map(|(number, of)| of.windows.into_iter().map(move |w| (number, w)))
        .collect()
}

#[test]
fn one_way_is_booked_at_once_and_ends_by_abort_or_release() {
    let mut p = participant(64);
    let (early, late) = (window(600, 1_200), window(7_200, 7_500));
    let held = Answer::Held { expires_in: limits::HOLD_HARD_MIN, servers: Vec::new() };
    assert_eq!(answer(&mut p, hold(one_way("a", 60, early)), at(1)), held);
    assert_eq!(p.entries[&txn("a")].phase, Phase::Booked);
    // A repeated Hold always gets the same answer, and Commit finds the transaction booked.
    assert_eq!(answer(&mut p, hold(one_way("a", 60, early)), at(2)), held);
    assert_eq!(answer(&mut p, commit("a"), at(3)), Answer::Done);
    assert_eq!(answer(&mut p, hold(order("a", 60, early)), at(3)), Answer::OtherContent);
    // What does not fit is refused, now and later.
    for when in [4, 5] {
        let no = answer(&mut p, hold(one_way("b", 60, early)), at(when));
        assert_eq!(reason(no), Some(Reason::InsufficientCapacity));
    }
    // Nothing expires, and the coordinator is not asked.
    assert_eq!(p.next_wake(), None);
    assert_eq!(run(&mut p, ParticipantInput::Tick, at(3_000)), []);
    assert_eq!(answer(&mut p, abort("a"), at(3_001)), Answer::Done);
    assert_eq!(answer(&mut p, abort("a"), at(3_002)), Answer::Done);
    assert_eq!(
        reason(answer(&mut p, hold(one_way("a", 60, early)), at(3_003))),
        Some(Reason::Aborted)
    );
    assert_eq!(reason(answer(&mut p, commit("a"), at(3_003))), Some(Reason::Aborted));
    assert_eq!(answer(&mut p, hold(one_way("c", 100, late)), at(3_004)), held);
    assert_eq!(answer(&mut p, release("c"), at(3_005)), Answer::Done);
    assert_eq!(
        reason(answer(&mut p, hold(one_way("c", 100, late)), at(3_006))),
        Some(Reason::Released)
    );
    // Abort before the Hold leaves a tombstone, as it does in two phases.
    assert_eq!(answer(&mut p, abort("d"), at(3_007)), Answer::Done);
    assert_eq!(
        reason(answer(&mut p, hold(one_way("d", 1, late)), at(3_008))),
        Some(Reason::Aborted)
    );
    // Abort does not end a booking made in two phases.
    assert!(matches!(answer(&mut p, hold(order("e", 1, late)), at(3_009)), Answer::Held { .. }));
    assert_eq!(answer(&mut p, commit("e"), at(3_010)), Answer::Done);
    assert_eq!(reason(answer(&mut p, abort("e"), at(3_011))), Some(Reason::NotHeld));
    let change = HoldOrder { replaces: Some(txn("e")), ..one_way("f", 1, late) };
    assert_eq!(reason(answer(&mut p, hold(change), at(3_012))), Some(Reason::NotHeld));
}

#[test]
fn only_what_frees_or_takes_is_a_change_and_revisions_count_records() {
    let mut p = participant(64);
    let begun = p.changes().revision();
    assert_eq!((begun, touched(&p, 0)), (1, vec![]));
    let _ = answer(&mut p, hold(order("a", 60, window(600, 1_200))), at(1));
    assert_eq!(touched(&p, begun), [(0, window(600, 1_200))]);
    let held = p.changes().revision();
    let _ = answer(&mut p, commit("a"), at(2));
    let _ = answer(&mut p, hold(order("b", 60, window(600, 1_200))), at(3));
    assert_eq!((p.changes().revision(), touched(&p, held)), (held + 2, vec![]));
    assert!(!p.changes().is_behind(held));
    let _ = answer(&mut p, release("a"), at(4));
    assert_eq!(touched(&p, held), [(0, window(600, 1_200))]);
}

#[test]
fn long_profiles_are_read_in_slices_and_say_the_same() {
    let mut p = participant(limits::CHANGES_KEPT);
    // Neighbouring bookings differ, so that each gives a step.
    for number in 0_i64..1_500 {
        let start = 600 + number * 10;
        let order = one_way(
            &format!("t{number}"),
            1 + (number % 2).unsigned_abs(),
            window(start, start + 10),
        );
        let step = p.step(hold(order), at(1));
        assert_eq!(step.records().len(), 2);
    }
    let mut disclosure = p.everything(at(2).wall);
    let (mut pieces, mut profiles) = (0, vec![Profile::constant(at(2).wall, Amount::ZERO); 3]);
    while !disclosure.is_read() {
        while !disclosure.is_read() && !disclosure.is_full() {
            p.disclose(&mut disclosure);
        }
        let parts = disclosure.take();
        let steps: usize = parts.iter().map(|part| part.steps.len()).sum();
        assert!((1..=limits::UPDATE_STEPS_MAX).contains(&steps), "{steps}");
        for part in parts {
            assert!(part.is_sound(), "{part:?}");
            profiles[part.resource as usize].replace(part.window, &part.steps);
        }
        pieces += 1;
    }
    assert_eq!(pieces, 2);
    assert_eq!(profiles, of_timetables(&p, at(2)));
}

/// The profiles that the timetables give from now to the end of time, computed in the simplest way.
fn of_timetables(p: &Participant, now: Now) -> Vec<Profile> {
    let end = Time::from_us(limits::TIME_MAX_US);
    let window = Window::new(now.wall, end).expect("a window");
    let of = |(name, capacity): &(ResourceId, Amount)| {
        let mut profile = Profile::constant(now.wall, Amount::ZERO);
        for step in p.timetables[name].profile(window) {
            let free = Amount(capacity.0 - step.held.0 - step.booked.0);
            let rest = Window::new(step.start, end).expect("a window");
            profile.replace(rest, &[(step.start, free)]);
        }
        profile
    };
    p.config.resources.iter().map(of).collect()
}

#[derive(Debug, Clone)]
enum Op {
    Hold {
        txn: u8,
        resource: usize,
        from: i64,
        length: i64,
        amount: u64,
        one_way: bool,
        old: Option<u8>,
    },
    Commit(u8),
    Abort(u8),
    Release(u8),
    Pass(i64),
    Look,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let hold = (
        0_u8..24,
        0_usize..3,
        0_i64..40,
        1_i64..20,
        1_u64..60,
        any::<bool>(),
        prop::option::weighted(0.3, 0_u8..24),
    )
        .prop_map(|(txn, resource, from, length, amount, one_way, old)| {
            let one_way = one_way && old.is_none();
            Op::Hold { txn, resource, from, length, amount, one_way, old }
        });
    let op = prop_oneof![
        6 => hold,
        3 => (0_u8..24).prop_map(Op::Commit),
        2 => (0_u8..24).prop_map(Op::Abort),
        2 => (0_u8..24).prop_map(Op::Release),
        1 => (1_i64..200).prop_map(Op::Pass),
        4 => Just(Op::Look),
    ];
    prop::collection::vec(op, 1..60)
}

/// Brings a picture up to date as the publisher does, and returns the updates that were needed.
fn look(p: &Participant, subscription: &mut Subscription, now: Now) -> Vec<Update> {
    let capacity = |number: u32| p.config.resources[number as usize].1;
    let (mut disclosure, kind) = match subscription.due(p.changes(), capacity, now) {
        DueUpdate::Snapshot => {
            let resources = p.config.resources.iter().map(|(name, _)| name.clone()).collect();
            (p.everything(now.wall), UpdateKind::Snapshot { resources, more: false })
        }
        DueUpdate::Delta { from, touched } => {
            let windows = touched
                .into_iter()
                .flat_map(|(number, of)| of.windows.into_iter().map(move |w| (number, w)));
            (Disclosure::of(windows), UpdateKind::Delta { from })
        }
        DueUpdate::At(_) | DueUpdate::Nothing => return Vec::new(),
    };
    p.disclose(&mut disclosure);
    assert!(disclosure.is_read(), "one slice is enough here");
    let revision = p.changes().revision();
    subscription.told(revision, now.boot);
    vec![Update { epoch: 1, kind, revision, at: now.wall, parts: disclosure.take() }]
}

proptest! {
    #[test]
    fn snapshot_and_deltas_are_the_timetables(ops in ops(), kept in 1_usize..40) {
        let mut p = participant(kept);
        let rm = RmName::composed("nrm-N");
        let mut picture = Picture::default();
        picture.expect(&rm, p.config.resources.clone());
        let mut subscription = Subscription::new(Told::EveryChange, None, at(0).boot);
        let mut s = 1;
        let name = |number: u8| format!("t{number}");
        for op in ops.into_iter().chain([Op::Look]) {
            s += 1;
            let now = at(s);
            match op {
                Op::Hold { txn: number, resource, from, length, amount, one_way, old } => {
                    let from = 600 + from * 10;
                    let mut order = order(&name(number), amount, window(from, from + length * 10));
                    order.segments[0].resource = ResourceId::composed(RESOURCES[resource].0);
                    order.one_way = one_way;
                    order.replaces = old.map(|old| txn(&name(old)));
                    let _ = run(&mut p, hold(order), now);
                }
                Op::Commit(number) => drop(run(&mut p, commit(&name(number)), now)),
                Op::Abort(number) => drop(run(&mut p, abort(&name(number)), now)),
                Op::Release(number) => drop(run(&mut p, release(&name(number)), now)),
                Op::Pass(more) => {
                    s += more;
                    let _ = run(&mut p, ParticipantInput::Tick, at(s));
                }
                Op::Look => {
                    for update in look(&p, &mut subscription, now) {
                        prop_assert_eq!(picture.merge(&rm, &update, now), Ok(()));
                    }
                    let expected = of_timetables(&p, now);
                    picture.forget_before(now.wall);
                    let known = picture.known(&rm).expect("a snapshot came first");
                    for ((name, profile), expected) in known.profiles().zip(&expected) {
                        // Without an update since, the picture still knows earlier times, too.
                        let mut profile = profile.clone();
                        profile.forget_before(now.wall);
                        prop_assert_eq!(&profile, expected, "{}", name);
                    }
                }
            }
        }
    }
}
