//! Versions of a booking and service levels, by hand and against a naive model that treats every instant separately.

mod model;

use coalloc_common::{
    Reason, ResourceKind, RmName, Segment, ServiceLevels, Time, UserName, Window,
};
use proptest::prelude::*;

use self::model::{Act, Model, act};
use super::footprint::Footprint;
use super::tests::synced;
use super::*;

/// How many instants the model distinguishes.
const INSTANTS: usize = 12;
/// How many seconds pass before the first of them.
const AHEAD: i64 = 3_600;
const CAPACITY: u64 = 20;

fn at(s: i64) -> Now {
    Now { wall: Time::from_us(s * 1_000_000), boot: BootTime::from_us(s * 1_000_000) }
}

fn window(from: usize, to: usize) -> Window {
    let wall = |instant: usize| at(AHEAD + i64::try_from(instant).unwrap()).wall;
    Window::new(wall(from), wall(to)).unwrap()
}

fn resource() -> ResourceId {
    ResourceId::composed("A")
}

fn txn(number: usize) -> TransactionId {
    TransactionId::composed(format!("grc-t-1/{number}"))
}

fn grc() -> CoordinatorName {
    CoordinatorName::composed("grc")
}

fn segment(amount: u64, from: usize, to: usize) -> Segment {
    Segment { resource: resource(), amount: Amount(amount), window: window(from, to) }
}

fn order(number: usize, user: &str, segments: &[Segment], replaces: Option<usize>) -> HoldOrder {
    HoldOrder {
        txn: txn(number),
        coordinator: grc(),
        user: UserName::composed(user),
        segments: segments.to_vec(),
        hold_for: None,
        replaces: replaces.map(txn),
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    }
}

fn participant() -> Participant {
    let mut participant = of_capacity(CAPACITY);
    let _ = participant.step(ParticipantInput::Start { boot: "one".into() }, at(0));
    participant
}

/// An RM that has not started yet.
fn of_capacity(capacity: u64) -> Participant {
    Participant::new(ParticipantConfig {
        name: RmName::composed("crm"),
        resources: vec![(resource(), Amount(capacity))],
        kinds: ResourceKind::Cpus.into(),
        coordinators: [grc()].into(),
        policy: HoldPolicy::default(),
        levels: ServiceLevels::of_users(
            [(UserName::composed("guest"), 35), (UserName::composed("u"), 100)].into(),
        ),
        quotas: HoldQuotas::default(),
        inside: None,
        servers: BTreeMap::new(),
    })
}

/// Runs a step, checks the invariants and that replay gives the same state, and returns the answer.
fn step(participant: &mut Participant, input: ParticipantInput, now: Now) -> Option<Answer> {
    let mut twin = participant.clone();
    let step = participant.step(input, now);
    for record in step.records() {
        let text = serde_json::to_string(record).unwrap();
        twin.apply(&serde_json::from_str(&text).unwrap()).unwrap();
    }
    participant.check_invariants().unwrap();
    twin.check_invariants().unwrap();
    assert_eq!(twin.timetables, participant.timetables, "I12, I14");
    assert_eq!(twin.replacing, participant.replacing);
    assert_eq!(twin.changes, participant.changes);
    synced(step).into_iter().find_map(|effect| match effect {
        ParticipantEffect::Reply { answer, .. } => Some(answer),
        ParticipantEffect::Ask { .. } | ParticipantEffect::Reconcile { .. } => None,
    })
}

fn hold(participant: &mut Participant, order: HoldOrder) -> Answer {
    hold_at(participant, order, at(0))
}

fn hold_at(participant: &mut Participant, order: HoldOrder, now: Now) -> Answer {
    step(participant, ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) }, now)
        .unwrap()
}

fn commit(participant: &mut Participant, number: usize) -> Answer {
    let input = ParticipantInput::Commit { txn: txn(number), by: grc(), token: Token::new(1) };
    step(participant, input, at(1)).unwrap()
}

fn abort(participant: &mut Participant, number: usize) -> Answer {
    let input = ParticipantInput::Abort { txn: txn(number), by: grc(), token: Token::new(1) };
    step(participant, input, at(1)).unwrap()
}

fn release(participant: &mut Participant, number: usize) -> Answer {
    let input = ParticipantInput::Release { txn: txn(number), by: grc(), token: Token::new(1) };
    step(participant, input, at(1)).unwrap()
}

fn book(participant: &mut Participant, order: HoldOrder) {
    let number: usize = order.txn.as_str()["grc-t-1/".len()..].parse().unwrap();
    assert!(matches!(hold(participant, order), Answer::Held { .. }));
    assert_eq!(commit(participant, number), Answer::Done);
}

/// What is held and booked at every instant.
fn levels(participant: &Participant) -> Vec<(u64, u64)> {
    let timetable = participant.timetable(&resource()).unwrap();
    let level = |instant| {
        let step = timetable.profile(window(instant, instant + 1))[0];
        (step.held.0, step.booked.0)
    };
    (0..INSTANTS).map(level).collect()
}

fn reason(answer: &Answer) -> Reason {
    match answer {
        Answer::Refused(refusal) => refusal.reason,
        other => panic!("refused expected: {other:?}"),
    }
}

#[test]
fn a_new_version_holds_what_it_lacks_and_replaces_the_old_one_when_it_is_booked() {
    let mut p = participant();
    book(&mut p, order(1, "u", &[segment(8, 0, 4)], None));
    let new = order(2, "u", &[segment(12, 2, 6)], Some(1));
    assert!(matches!(hold(&mut p, new.clone()), Answer::Held { .. }));
    let held: Vec<u64> = levels(&p).iter().map(|(held, _)| *held).take(7).collect();
    assert_eq!(held, [0, 0, 4, 4, 12, 12, 0]);
    assert_eq!(commit(&mut p, 2), Answer::Done);
    let booked: Vec<u64> = levels(&p).iter().map(|(_, booked)| *booked).take(7).collect();
    assert_eq!(booked, [0, 0, 12, 12, 12, 12, 0]);
    assert_eq!(p.entries()[&txn(1)].phase, Phase::Ended(TransactionEnd::Replaced));
    assert_eq!(commit(&mut p, 2), Answer::Done, "twice is once");
    assert_eq!(reason(&commit(&mut p, 1)), Reason::Replaced);
    assert_eq!(release(&mut p, 1), Answer::Done, "nothing is left of the old one to release");
    assert!(matches!(hold(&mut p, new), Answer::Held { .. }), "I8");
    assert_eq!(release(&mut p, 2), Answer::Done);
    assert!(levels(&p).iter().all(|level| *level == (0, 0)));
}

#[test]
fn aborted_or_expired_the_old_version_is_whole() {
    let mut p = participant();
    book(&mut p, order(1, "u", &[segment(8, 0, 4)], None));
    let before = levels(&p);
    hold(&mut p, order(2, "u", &[segment(12, 2, 6)], Some(1)));
    assert_eq!(abort(&mut p, 2), Answer::Done);
    assert_eq!(levels(&p), before);
    hold(&mut p, order(3, "u", &[segment(12, 2, 6)], Some(1)));
    assert_eq!(step(&mut p, ParticipantInput::Tick, at(1_000)), None);
    assert_eq!(p.entries()[&txn(3)].phase, Phase::Ended(TransactionEnd::Expired));
    assert_eq!((levels(&p), &p.entries()[&txn(1)].phase), (before, &Phase::Booked));
}

#[test]
fn only_what_is_booked_is_replaced_by_one_at_a_time() {
    let mut p = participant();
    let all = [segment(8, 0, 4)];
    assert_eq!(reason(&hold(&mut p, order(2, "u", &all, Some(1)))), Reason::NotHeld, "unknown");
    hold(&mut p, order(3, "u", &all, None));
    assert_eq!(reason(&hold(&mut p, order(4, "u", &all, Some(3)))), Reason::NotHeld, "held");
    commit(&mut p, 3);
    assert!(matches!(hold(&mut p, order(5, "u", &[], Some(3))), Answer::Held { .. }));
    assert_eq!(reason(&hold(&mut p, order(6, "u", &all, Some(3)))), Reason::NotHeld, "two at once");
    abort(&mut p, 5);
    assert!(matches!(hold(&mut p, order(7, "u", &all, Some(3))), Answer::Held { .. }));
    release(&mut p, 3);
    assert_eq!(reason(&commit(&mut p, 7)), Reason::Aborted, "it was released meanwhile");
    assert_eq!(reason(&commit(&mut p, 7)), Reason::Aborted, "I8");
    assert_eq!(reason(&hold(&mut p, order(8, "u", &all, Some(3)))), Reason::NotHeld, "over");
    assert!(levels(&p).iter().all(|level| *level == (0, 0)));
}

#[test]
fn the_past_of_an_active_booking_stays_and_only_the_rest_may_change() {
    let mut p = participant();
    book(&mut p, order(1, "u", &[segment(8, 0, 4)], None));
    // A window longer than the grace period for starts; the change is made in its middle.
    let long = |amount, from: i64, to: i64| Segment {
        resource: resource(),
        amount: Amount(amount),
        window: Window::new(at(from).wall, at(to).wall).unwrap(),
    };
    book(&mut p, order(2, "u", &[long(5, 10_000, 20_000)], None));
    let now = at(15_000);
    let kept = order(3, "u", &[long(5, 10_000, 15_100), long(9, 15_100, 25_000)], Some(2));
    assert!(matches!(hold_at(&mut p, kept, now), Answer::Held { .. }));
    abort(&mut p, 3);
    let rewritten = order(4, "u", &[long(6, 10_000, 25_000)], Some(2));
    assert_eq!(reason(&hold_at(&mut p, rewritten, now)), Reason::OutsideHorizon);
    let less = order(5, "u", &[long(4, 10_000, 20_000)], Some(2));
    assert!(matches!(hold_at(&mut p, less, now), Answer::Held { .. }), "less is nobody's harm");
}

#[test]
fn a_service_level_bounds_what_is_taken_and_says_so() {
    let mut p = participant();
    let refused = hold(&mut p, order(1, "guest", &[segment(8, 0, 4)], None));
    let Answer::Refused(refusal) = &refused else { panic!("35 % of 20 is 7: {refused:?}") };
    assert_eq!((refusal.reason, refusal.available), (Reason::ServiceLevel, Some(Amount(7))));
    assert!(refusal.detail.contains("35 %"), "{refusal}");
    let refused = hold(&mut p, order(9, "another-name", &[segment(8, 0, 4)], None));
    assert_eq!(
        reason(&refused),
        Reason::ServiceLevel,
        "nobody gets more by a name that nobody knows"
    );
    book(&mut p, order(2, "guest", &[segment(7, 0, 4)], None));
    let guest = UserName::composed("guest");
    let shown = |p: &Participant, replaces: Option<usize>| {
        p.availability(&[window(0, 4)], &guest, replaces.map(txn).as_ref(), at(0))[0][0]
    };
    assert_eq!((shown(&p, None), shown(&p, Some(2))), (Amount(4), Amount(7)), "35 % of 13; of 20");
    book(&mut p, order(3, "u", &[segment(13, 0, 4)], None));
    assert_eq!((shown(&p, None), shown(&p, Some(2))), (Amount(0), Amount(7)), "its own is its own");
    let refused = hold(&mut p, order(4, "guest", &[segment(8, 0, 4)], Some(2)));
    assert_eq!(reason(&refused), Reason::InsufficientCapacity, "nobody could have more");
}

/// The hold counts on what is kept. It takes that over as it is: nothing more is taken than before, however little
/// the resource has by now.
#[test]
fn what_was_kept_passes_to_a_hold_also_when_the_inventory_has_shrunk() {
    let (mut p, mut log) = (participant(), Vec::new());
    let new = |number, segments: &[Segment], old| HoldOrder {
        keeps_old: true,
        ..order(number, "u", segments, Some(old))
    };
    for order in [order(1, "u", &[segment(15, 0, 4)], None), new(2, &[segment(5, 0, 4)], 1)] {
        let (txn, token) = (order.txn.clone(), Token::new(1));
        let commit = ParticipantInput::Commit { txn, by: grc(), token };
        for input in [ParticipantInput::Hold { order, oldest_open: 0, token }, commit] {
            log.extend(p.step(input, at(0)).records().iter().cloned());
        }
    }
    assert_eq!(levels(&p)[0], (0, 15));
    let mut p = of_capacity(10);
    log.iter().for_each(|record| p.apply(record).unwrap());
    let _ = p.step(ParticipantInput::Start { boot: "two".into() }, at(0));
    assert!(is_held(&hold(&mut p, new(3, &[segment(15, 0, 4)], 2))));
    assert_eq!(release(&mut p, 1), Answer::Done);
    assert_eq!(levels(&p)[0], (10, 5));
    assert_eq!(commit(&mut p, 3), Answer::Done);
    assert_eq!(levels(&p)[0], (0, 15));
}

#[test]
fn what_a_new_version_does_without_is_kept_until_the_old_one_is_released() {
    let mut p = participant();
    let new = |number, segments: &[Segment], old| HoldOrder {
        keeps_old: true,
        ..order(number, "u", segments, Some(old))
    };
    let booked = |p: &Participant| levels(p).iter().map(|(_, booked)| *booked).collect::<Vec<_>>();
    book(&mut p, order(1, "u", &[segment(15, 0, 4)], None));
    book(&mut p, new(2, &[segment(10, 2, 6)], 1));
    assert_eq!(booked(&p)[..6], [15, 15, 15, 15, 10, 10], "the larger of both");
    let other = hold(&mut p, order(3, "u", &[segment(6, 0, 1)], None));
    assert_eq!(reason(&other), Reason::InsufficientCapacity, "nobody else gets it");
    // A return to the old version fits, partly in what is kept; what it does not need is kept in turn.
    book(&mut p, new(4, &[segment(15, 0, 4)], 2));
    assert_eq!(booked(&p)[..6], [15, 15, 15, 15, 10, 10]);
    assert_eq!(release(&mut p, 1), Answer::Done, "of this nothing is kept by itself any more");
    assert_eq!(booked(&p)[..6], [15, 15, 15, 15, 10, 10]);
    // This hold counts on what is kept. When that is released, the hold takes its part of it.
    assert!(is_held(&hold(&mut p, new(5, &[segment(15, 0, 5)], 4))));
    assert_eq!(levels(&p)[4], (5, 10));
    assert_eq!(release(&mut p, 2), Answer::Done);
    assert_eq!(levels(&p)[4..6], [(15, 0), (0, 0)]);
    assert_eq!(release(&mut p, 2), Answer::Done, "and again");
    assert_eq!(commit(&mut p, 5), Answer::Done);
    assert_eq!(release(&mut p, 5), Answer::Done);
    assert_eq!(release(&mut p, 4), Answer::Done);
    assert_eq!(booked(&p), [0; INSTANTS]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_hold_and_every_level_is_that_of_the_model(
        acts in prop::collection::vec(act(), 1..40),
        seen in (0..INSTANTS - 1, 1..INSTANTS),
    ) {
        let (mut p, mut model) = (participant(), Model::default());
        for act in acts {
            let count = model.known.len();
            match act {
                Act::Hold { guest, parts, replaces, keeps_old } => {
                    let replaces = replaces.filter(|_| count > 0).map(|index| index.index(count));
                    let mut new = [0; INSTANTS];
                    for (amount, from, to) in &parts {
                        new[*from..*to].iter_mut().for_each(|level| *level += amount);
                    }
                    let parts: Vec<Segment> =
                        parts.iter().map(|(amount, from, to)| segment(*amount, *from, *to)).collect();
                    let user = if guest { "guest" } else { "u" };
                    let keeps_old = keeps_old && replaces.is_some();
                    let order = HoldOrder { keeps_old, ..order(count, user, &parts, replaces) };
                    let answer = hold(&mut p, order);
                    let held = model.hold(guest, new, replaces, keeps_old);
                    prop_assert_eq!(matches!(answer, Answer::Held { .. }), held, "{:?}", answer);
                }
                Act::Commit(index) if count > 0 => {
                    let number = index.index(count);
                    commit(&mut p, number);
                    model.commit(number);
                }
                Act::Abort(index) if count > 0 => {
                    let number = index.index(count);
                    abort(&mut p, number);
                    model.known[number].held = false;
                }
                Act::Release(index) if count > 0 => {
                    let number = index.index(count);
                    release(&mut p, number);
                    model.release(number);
                }
                _ => {}
            }
            let totals: Vec<u64> = levels(&p).iter().map(|(held, booked)| held + booked).collect();
            let expected: Vec<u64> = (0..INSTANTS).map(|instant| model.total(instant)).collect();
            prop_assert_eq!(totals, expected);
            let (from, to) = (seen.0, (seen.0 + seen.1).min(INSTANTS));
            for old in (0..model.known.len()).map(Some).chain([None]) {
                let own = model.own(old.filter(|old| model.known[*old].booked));
                for (guest, user) in [(true, "guest"), (false, "u")] {
                    let least = (from..to).map(|t| model.allowed(t, own[t], guest)).min().unwrap();
                    let user = UserName::composed(user);
                    let shown =
                        p.availability(&[window(from, to)], &user, old.map(txn).as_ref(), at(0));
                    prop_assert_eq!(shown[0][0], Amount(least));
                }
            }
        }
    }

    #[test]
    fn a_footprint_is_its_segments_added_up_and_what_is_beyond_is_the_positive_difference(
        one in prop::collection::vec((1..9_u64, 0..INSTANTS - 1, 1..INSTANTS), 0..6),
        other in prop::collection::vec((1..9_u64, 0..INSTANTS - 1, 1..INSTANTS), 0..6),
    ) {
        let of = |parts: &[(u64, usize, usize)]| {
            let (mut levels, mut segments) = ([0_u64; INSTANTS], Vec::new());
            for (amount, from, length) in parts {
                let to = (from + length).min(INSTANTS);
                levels[*from..to].iter_mut().for_each(|level| *level += amount);
                segments.push(segment(*amount, *from, to));
            }
            (levels, Footprint::of(&segments))
        };
        let ((a, one), (b, other)) = (of(&one), of(&other));
        let beyond = one.beyond(&other);
        for (t, level) in a.iter().enumerate() {
            let instant = window(t, t + 1).start();
            let at = |footprint: &Footprint| {
                footprint.steps(&resource()).map_or(0, |steps| steps.at(instant).0)
            };
            prop_assert_eq!((at(&one), at(&beyond)), (*level, level.saturating_sub(b[t])));
        }
        // The segments do not overlap, touch only where their amounts differ, and have the same sum.
        let segments = one.segments();
        for pair in segments.windows(2) {
            let (first, second) = (&pair[0], &pair[1]);
            prop_assert!(first.window.end() <= second.window.start());
            let touch = first.window.end() == second.window.start();
            prop_assert!(!touch || first.amount != second.amount);
        }
        prop_assert_eq!(Footprint::of(&segments), one);
    }

    /// Compares, also beside a booking that may be replaced, with a search through the segments instant by
    /// instant: the first segment in the order that is too much, and what it could have had.
    #[test]
    fn the_refusal_is_that_of_the_first_segment_which_is_too_much(
        old in prop::collection::vec((1..9_u64, 0..INSTANTS - 1, 1..INSTANTS), 0..3),
        other in prop::collection::vec((1..9_u64, 0..INSTANTS - 1, 1..INSTANTS), 0..2),
        new in prop::collection::vec((1..6_u64, 0..INSTANTS - 1, 1..INSTANTS), 1..12),
        (guest, replaces) in any::<(bool, bool)>(),
    ) {
        let parts = |parts: &[(u64, usize, usize)]| -> Vec<(u64, usize, usize)> {
            let to = |from: usize, length: usize| (from + length).min(INSTANTS);
            parts.iter().map(|(amount, from, length)| (*amount, *from, to(*from, *length))).collect()
        };
        let (old, other, new) = (parts(&old), parts(&other), parts(&new));
        let sum = |parts: &[(u64, usize, usize)]| {
            let mut levels = [0_u64; INSTANTS];
            for (amount, from, to) in parts {
                levels[*from..*to].iter_mut().for_each(|level| *level += amount);
            }
            levels
        };
        let segments = |parts: &[(u64, usize, usize)]| -> Vec<Segment> {
            parts.iter().map(|(amount, from, to)| segment(*amount, *from, *to)).collect()
        };
        let mut p = participant();
        let mut taken = [0; INSTANTS];
        let mut own = [0; INSTANTS];
        for (number, parts) in [(1, &old), (2, &other)] {
            if is_held(&hold(&mut p, order(number, "u", &segments(parts), None))) {
                commit(&mut p, number);
                let levels = sum(parts);
                taken.iter_mut().zip(levels).for_each(|(taken, level)| *taken += level);
                if number == 1 && replaces {
                    own = levels;
                }
            }
        }
        let replaces = replaces && p.entries()[&txn(1)].phase == Phase::Booked;
        let share = if guest { 35 } else { 100 };
        let may_take =
            |t: usize, share: u64| own[t].max((CAPACITY - taken[t] + own[t]) * share / 100);
        let refused = (0..new.len()).find_map(|index| {
            let ((amount, from, to), before) = (new[index], sum(&new[..index]));
            let least = |share| {
                (from..to).map(|t| may_take(t, share).saturating_sub(before[t])).min().unwrap()
            };
            let reason = if amount <= least(100) {
                Reason::ServiceLevel
            } else {
                Reason::InsufficientCapacity
            };
            (amount > least(share)).then_some((reason, amount, window(from, to), least(share)))
        });
        let user = if guest { "guest" } else { "u" };
        let wanted = order(3, user, &segments(&new), replaces.then_some(1));
        let told = match hold(&mut p, wanted) {
            Answer::Refused(told) => Some((
                told.reason,
                told.requested.unwrap().0,
                told.window.unwrap(),
                told.available.unwrap().0,
            )),
            Answer::Held { .. } => None,
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(told, refused);
    }
}

fn is_held(answer: &Answer) -> bool {
    matches!(answer, Answer::Held { .. })
}

/// A hold of thousands of segments is admitted and refused like a small one.
#[test]
fn thousands_of_segments_are_held_booked_and_replaced_as_a_few_are() {
    // Nested: each segment lies inside the one before it, and the innermost instant is in all of them.
    let count = i64::try_from(limits::HOLD_SEGMENTS_MAX).unwrap();
    let nested = |amount: u64, by: i64| -> Vec<Segment> {
        let segment = |n: i64| {
            let (from, to) = (3_600 + n + by, 3_600 + 2 * count - n + by);
            let window = Window::new(at(from).wall, at(to).wall).unwrap();
            Segment { resource: resource(), amount: Amount(amount), window }
        };
        (0..count).map(segment).collect()
    };
    let capacity = limits::HOLD_SEGMENTS_MAX as u64;
    let mut p = Participant::new(ParticipantConfig {
        resources: vec![(resource(), Amount(capacity))],
        ..participant().config().clone()
    });
    let _ = p.step(ParticipantInput::Start { boot: "one".into() }, at(0));
    book(&mut p, order(1, "u", &nested(1, 0), None));
    let top = |p: &Participant| {
        let whole = Window::new(at(0).wall, at(3_600 + 3 * count).wall).unwrap();
        let steps = p.timetable(&resource()).unwrap().profile(whole);
        steps.iter().map(|step| step.held.0 + step.booked.0).max()
    };
    assert_eq!(top(&p), Some(capacity));
    // Beside it nothing fits in the middle. Moved as a whole, it replaces itself.
    let Answer::Refused(refusal) = hold(&mut p, order(2, "u", &nested(1, 0), None)) else {
        panic!("twice is too much")
    };
    let half = nested(1, 0).swap_remove(0).window;
    assert_eq!((refusal.window, refusal.available), (Some(half), Some(Amount(0))));
    book(&mut p, order(3, "u", &nested(1, 500), Some(1)));
    assert_eq!(top(&p), Some(capacity));
    assert_eq!(release(&mut p, 3), Answer::Done);
    assert_eq!(top(&p), Some(0));
}
