//! The participant alone: every refusal, every final state, expiry and restart.

use coalloc_common::{
    Reason, ResourceKind, RmName, Segment, ServiceLevels, Time, UserName, Window,
};

use super::*;
use crate::message::{Decision, Resolution};

const MINUTE: i64 = 60;

pub(super) fn at(s: i64) -> Now {
    Now {
        wall: Time::from_us(1_000_000_000 + s * 1_000_000),
        boot: BootTime::from_us(s * 1_000_000),
    }
}

pub(super) fn window(start_s: i64, end_s: i64) -> Window {
    Window::new(at(start_s).wall, at(end_s).wall).unwrap()
}

pub(super) fn user() -> UserName {
    UserName::composed("UserA")
}

pub(super) fn grc() -> CoordinatorName {
    CoordinatorName::composed("grc")
}

/// A transaction of [`grc`], identified by a short name.
pub(super) fn txn(name: &str) -> TransactionId {
    let number = name.bytes().fold(0_u64, |number, byte| number << 8 | u64::from(byte));
    TransactionId::composed(format!("grc-t-{number}/1"))
}

pub(super) fn order(name: &str, amount: u64, window: Window) -> HoldOrder {
    let resource = ResourceId::composed("N0-N1");
    HoldOrder {
        txn: txn(name),
        coordinator: grc(),
        user: UserName::composed("UserA"),
        segments: vec![Segment { resource, amount: Amount(amount), window }],
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    }
}

pub(super) fn config(resources: &[(&str, u64)]) -> ParticipantConfig {
    let resource = |&(name, amount)| (ResourceId::composed(name), Amount(amount));
    ParticipantConfig {
        name: RmName::composed("nrm-N"),
        kinds: ResourceKind::Bandwidth.into(),
        resources: resources.iter().map(resource).collect(),
        coordinators: [grc(), CoordinatorName::composed("other")].into(),
        policy: HoldPolicy::default(),
        levels: ServiceLevels::default(),
        quotas: HoldQuotas::default(),
        inside: None,
        servers: BTreeMap::new(),
    }
}

pub(super) fn participant() -> Participant {
    let mut participant = Participant::new(config(&[("N0-N1", 1_000)]));
    let _ = participant.step(ParticipantInput::Start { boot: "first".into() }, at(0));
    participant
}

/// A participant with this inventory after replaying this log.
fn replayed(resources: &[(&str, u64)], log: &[ParticipantRecord]) -> Participant {
    let mut participant = Participant::new(config(resources));
    for record in log {
        participant.apply(record).unwrap();
        participant.check_invariants().unwrap();
    }
    participant
}

/// The log record of a hold of 600, made while the capacity was 1000.
fn held(name: &str, window: Window) -> ParticipantRecord {
    ParticipantRecord::Held {
        order: order(name, 600, window),
        soft: Span::from_secs(120),
        hard: Span::from_secs(900),
        at: at(0),
        inner: None,
        servers: Vec::new(),
        claim: Claim::NotNeeded,
    }
}

fn booked(name: &str) -> ParticipantRecord {
    ParticipantRecord::Booked { txn: txn(name), by: Cause::Restart, at: at(0) }
}

fn released(name: &str) -> ParticipantRecord {
    let (coordinator, ending) = (grc(), TransactionEnd::Released);
    ParticipantRecord::Ended { txn: txn(name), coordinator, ending, by: Cause::Restart, at: at(1) }
}

#[test]
fn a_hold_that_lasts_less_than_nothing_is_none() {
    let mut p = participant();
    for (soft, hard) in [(-1, 900), (120, -1)] {
        let order = order("a", 600, window(600, 1200));
        let (soft, hard) = (Span::from_secs(soft), Span::from_secs(hard));
        let record = ParticipantRecord::Held {
            order,
            soft,
            hard,
            at: at(1),
            inner: None,
            servers: Vec::new(),
            claim: Claim::NotNeeded,
        };
        let error = p.apply(&record).unwrap_err();
        assert!(error.to_string().contains("lasts"), "{error}");
        // A restart computes the deadlines of all holds anew.
        let _ = run(&mut p, ParticipantInput::Start { boot: "second".into() }, at(2));
    }
}

/// Overcommitted resources, each with the first instant and the excess.
fn overcommitted(participant: &Participant, now: Now) -> Vec<(String, Time, u64)> {
    let over = participant.overcommitted(now).into_iter();
    over.map(|over| (over.resource.to_string(), over.by.first, over.by.excess.0)).collect()
}

/// Runs a step, and checks the invariants and that replaying its records gives the same state (I12, I14).
pub(super) fn run(
    participant: &mut Participant,
    input: ParticipantInput,
    now: Now,
) -> Vec<ParticipantEffect> {
    let mut twin = participant.clone();
    let step = participant.step(input, now);
    for record in step.records() {
        let text = serde_json::to_string(record).unwrap();
        twin.apply(&serde_json::from_str(&text).unwrap()).unwrap();
    }
    assert_eq!(twin.timetables, participant.timetables);
    assert_eq!(twin.changes, participant.changes);
    assert_eq!(twin.held, participant.held);
    let phases = |p: &Participant| -> Vec<_> {
        p.entries.values().map(|entry| std::mem::discriminant(&entry.phase)).collect()
    };
    assert_eq!(phases(&twin), phases(participant));
    participant.check_invariants().unwrap();
    synced(step)
}

/// The effects of a step, as if its records were on the disk: the tests of a participant have no log.
pub(super) fn synced(step: Step) -> Vec<ParticipantEffect> {
    struct InstantLog;
    impl crate::durable::Log for InstantLog {
        type Record = ParticipantRecord;
        type Error = std::convert::Infallible;
        fn append_caused(
            &mut self,
            _: &[crate::causer::CausedRecord<'_, ParticipantRecord>],
        ) -> Result<(), Self::Error> {
            Ok(())
        }
    }
    let Ok(synced) = crate::durable::sync(vec![step], &mut InstantLog);
    synced.into_effects()
}

fn answer(effects: Vec<ParticipantEffect>) -> Answer {
    match &effects[..] {
        [ParticipantEffect::Reply { answer, .. }] => answer.clone(),
        other => panic!("one reply expected: {other:?}"),
    }
}

pub(super) fn hold(participant: &mut Participant, order: HoldOrder, now: Now) -> Answer {
    answer(run(
        participant,
        ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) },
        now,
    ))
}

pub(super) fn commit(participant: &mut Participant, name: &str, now: Now) -> Answer {
    let input = ParticipantInput::Commit { txn: txn(name), by: grc(), token: Token::new(2) };
    answer(run(participant, input, now))
}

pub(super) fn abort(participant: &mut Participant, name: &str, now: Now) -> Answer {
    let input = ParticipantInput::Abort { txn: txn(name), by: grc(), token: Token::new(3) };
    answer(run(participant, input, now))
}

pub(super) fn release(participant: &mut Participant, name: &str, now: Now) -> Answer {
    let input = ParticipantInput::Release { txn: txn(name), by: grc(), token: Token::new(4) };
    answer(run(participant, input, now))
}

pub(super) fn reason(answer: Answer) -> Reason {
    match answer {
        Answer::Refused(refusal) => refusal.reason,
        other => panic!("a refusal expected: {other:?}"),
    }
}

#[test]
fn a_large_question_is_answered_in_slices_and_as_if_it_were_many_small_ones() {
    const RESOURCES: usize = 3_000;
    let names: Vec<String> = (0..RESOURCES).map(|n| format!("r{n}")).collect();
    let resources: Vec<(&str, u64)> =
        names.iter().enumerate().map(|(n, name)| (name.as_str(), n as u64)).collect();
    let mut p = Participant::new(config(&resources));
    let taken = |name: &str, window| {
        let resource = ResourceId::composed(name);
        let segments = vec![Segment { resource, amount: Amount(5), window }];
        HoldOrder { segments, ..order(name, 0, window) }
    };
    for (name, from) in [("r7", 100), ("r1500", 200), ("r2999", 300)] {
        assert!(matches!(hold(&mut p, taken(name, window(from, 400)), at(1)), Answer::Held { .. }));
    }
    let windows: Vec<Window> = (1..=4).map(|n| window(n * 90, n * 90 + 20)).collect();
    let mut question = Question::new(windows.clone(), user(), None);
    let mut slices = 0;
    while !question.is_answered() {
        p.answer(&mut question, at(1));
        slices += 1;
    }
    // Together with the looks for the next change, each window takes more than a slice.
    const { assert!(2 * RESOURCES > limits::QUERY_SLICE_WORK && RESOURCES < limits::QUERY_SLICE_WORK) };
    assert_eq!(slices, windows.len(), "none is larger than it may be");
    let alone = windows.iter().map(|one| p.availability(&[*one], &user(), None, at(1)).remove(0));
    let alone: Vec<Vec<Amount>> = alone.collect();
    let (free, changes): (Vec<_>, Vec<_>) = question.into_answer_with_changes().unzip();
    assert_eq!(free, alone);
    assert_eq!(changes, [Some(window(100, 400).end()); 4]);
    assert_eq!((alone[0][7], alone[1][7], alone[3][2_999]), (Amount(2), Amount(2), Amount(2_994)));
}

#[test]
fn hold_commit_release_and_the_capacity_is_free_again() {
    let mut p = participant();
    let day = window(3_600, 7_200);
    assert!(matches!(hold(&mut p, order("t1", 600, day), at(1)), Answer::Held { .. }));
    assert_eq!(p.availability(&[day], &user(), None, at(1)), [[Amount(400)]]);
    assert_eq!(commit(&mut p, "t1", at(2)), Answer::Done);
    assert_eq!(commit(&mut p, "t1", at(3)), Answer::Done, "twice is once");
    assert_eq!(p.availability(&[day], &user(), None, at(3)), [[Amount(400)]]);
    assert_eq!(release(&mut p, "t1", at(4)), Answer::Done);
    assert_eq!(p.availability(&[day], &user(), None, at(4)), [[Amount(1_000)]]);
    assert_eq!(reason(commit(&mut p, "t1", at(5))), Reason::Released);
}

#[test]
fn sixteen_holds_of_600_on_1000_and_exactly_one_is_kept() {
    let mut p = participant();
    let day = window(3_600, 7_200);
    let kept = (0..16)
        .filter(|n| {
            let order = order(&format!("t{n}"), 600, day);
            matches!(hold(&mut p, order, at(1)), Answer::Held { .. })
        })
        .count();
    assert_eq!(kept, 1);
}

#[test]
fn bookings_disjoint_in_time_never_add_up_against_a_third_that_spans_both() {
    let mut p = participant();
    for (name, window) in [("t1", window(3_600, 3_700)), ("t2", window(3_800, 3_900))] {
        assert!(matches!(hold(&mut p, order(name, 600, window), at(1)), Answer::Held { .. }));
    }
    let spanning = order("t3", 400, window(3_600, 3_900));
    assert!(matches!(hold(&mut p, spanning, at(1)), Answer::Held { .. }));
}

#[test]
fn every_refusal_is_kept_and_says_how_much_there_is() {
    let mut p = participant();
    let day = window(3_600, 7_200);
    let _ = hold(&mut p, order("t0", 600, day), at(1));
    let Answer::Refused(refusal) = hold(&mut p, order("t1", 600, day), at(1)) else { panic!() };
    assert_eq!(refusal.reason, Reason::InsufficientCapacity);
    assert_eq!((refusal.requested, refusal.available), (Some(Amount(600)), Some(Amount(400))));
    let _ = abort(&mut p, "t0", at(2));
    let again = hold(&mut p, order("t1", 600, day), at(3));
    assert_eq!(again, Answer::Refused(refusal), "same id, same answer, though it would fit now");
    let mut unknown = order("t2", 1, day);
    unknown.segments[0].resource = ResourceId::composed("nowhere");
    assert_eq!(reason(hold(&mut p, unknown, at(3))), Reason::UnknownResource);
    assert_eq!(reason(hold(&mut p, order("t3", 1_001, day), at(3))), Reason::BeyondCapacity);
    let past = window(-7_200, -3_600);
    assert_eq!(reason(hold(&mut p, order("t4", 1, past), at(3))), Reason::OutsideHorizon);
    let far = window(3_600, 91 * 86_400);
    assert_eq!(reason(hold(&mut p, order("t5", 1, far), at(3))), Reason::OutsideHorizon);
    assert_eq!(p.availability(&[far], &user(), None, at(3)), [[Amount(0)]]);
}

#[test]
fn other_content_and_other_coordinators_change_nothing() {
    let mut p = participant();
    let day = window(3_600, 7_200);
    let _ = hold(&mut p, order("t1", 600, day), at(1));
    assert_eq!(hold(&mut p, order("t1", 601, day), at(1)), Answer::OtherContent);
    let other = CoordinatorName::composed("other");
    let stolen = HoldOrder { coordinator: other.clone(), ..order("t1", 600, day) };
    assert_eq!(hold(&mut p, stolen, at(1)), Answer::Denied);
    let input = ParticipantInput::Abort { txn: txn("t1"), by: other, token: Token::new(9) };
    assert_eq!(answer(run(&mut p, input, at(1))), Answer::Denied, "I21");
    let stranger = CoordinatorName::composed("stranger");
    let strange = HoldOrder { coordinator: stranger, ..order("t2", 1, day) };
    assert_eq!(hold(&mut p, strange, at(1)), Answer::Denied);
    assert_eq!(commit(&mut p, "t1", at(2)), Answer::Done);
    assert_eq!(reason(abort(&mut p, "t1", at(2))), Reason::NotHeld, "only Release ends a booking");
}

#[test]
fn abort_before_hold_leaves_a_tombstone() {
    let mut p = participant();
    assert_eq!(abort(&mut p, "t1", at(1)), Answer::Done);
    let late = hold(&mut p, order("t1", 1, window(3_600, 7_200)), at(2));
    assert_eq!(reason(late), Reason::Aborted, "I9");
    assert_eq!(reason(commit(&mut p, "t2", at(1))), Reason::NotHeld);
    let late = hold(&mut p, order("t2", 1, window(3_600, 7_200)), at(2));
    assert_eq!(reason(late), Reason::Aborted);
    assert_eq!(release(&mut p, "t3", at(1)), Answer::Done);
    let late = hold(&mut p, order("t3", 1, window(3_600, 7_200)), at(2));
    assert_eq!(reason(late), Reason::Released);
}

#[test]
fn segments_of_one_order_that_overlap_add_up() {
    let mut p = participant();
    let mut twice = order("t1", 600, window(3_600, 7_200));
    twice.segments.push(Segment { window: window(7_000, 9_000), ..twice.segments[0].clone() });
    assert_eq!(reason(hold(&mut p, twice, at(1))), Reason::InsufficientCapacity);
}

#[test]
fn segments_of_one_order_that_do_not_overlap_never_add_up_against_a_third() {
    let mut p = participant();
    let mut thrice = order("t1", 400, window(3_600, 7_200));
    for (start, end) in [(3_600, 3_700), (3_800, 3_900)] {
        let mut part = thrice.segments[0].clone();
        (part.amount, part.window) = (Amount(600), window(start, end));
        thrice.segments.push(part);
    }
    assert!(matches!(hold(&mut p, thrice, at(1)), Answer::Held { .. }));
    assert_eq!(p.availability(&[window(3_650, 3_850)], &user(), None, at(1)), [[Amount(0)]]);
    assert_eq!(p.availability(&[window(3_700, 3_800)], &user(), None, at(1)), [[Amount(600)]]);
}

#[test]
fn a_short_hold_is_asked_about_before_it_ends_and_more_often_towards_its_end() {
    let mut p = participant();
    // The hold's window begins at once, so its hard expiry is after ten seconds, but its soft expiry
    // after two minutes.
    let _ = hold(&mut p, order("t1", 600, window(0, 3_600)), at(0));
    let mut asked = Vec::new();
    while let Some(due) = p.next_wake() {
        let second = due.since(at(0).boot).as_us() / 1_000_000;
        if !run(&mut p, ParticipantInput::Tick, at(second)).is_empty() {
            asked.push(second);
        }
    }
    assert_eq!(asked, [5, 6, 8, 9], "from half of it on, to its last second");
    assert_eq!(reason(commit(&mut p, "t1", at(10))), Reason::Expired);
}

#[test]
fn what_a_coordinator_holds_it_may_end_when_it_is_not_configured_any_more() {
    let mut p = participant();
    let _ = hold(&mut p, order("t1", 600, window(3_600, 7_200)), at(0));
    let _ = hold(&mut p, order("t2", 100, window(3_600, 7_200)), at(0));
    p.config.coordinators.clear();
    let again = hold(&mut p, order("t1", 600, window(3_600, 7_200)), at(1));
    assert!(matches!(again, Answer::Held { .. }), "I8: {again:?}");
    assert_eq!(commit(&mut p, "t1", at(1)), Answer::Done, "what was promised stays promised");
    assert_eq!(abort(&mut p, "t2", at(2)), Answer::Done);
    assert_eq!(release(&mut p, "t1", at(3)), Answer::Done);
    assert_eq!(hold(&mut p, order("t3", 1, window(3_600, 7_200)), at(4)), Answer::Denied);
    assert_eq!(abort(&mut p, "t3", at(5)), Answer::Denied, "nothing of it is here");
}

#[test]
fn no_coordinator_holds_or_ends_what_another_ones_ids_name() {
    let mut p = participant();
    let other = CoordinatorName::composed("other");
    let stolen = HoldOrder { coordinator: other.clone(), ..order("t1", 1, window(3_600, 7_200)) };
    assert_eq!(hold(&mut p, stolen, at(0)), Answer::Denied);
    let early = ParticipantInput::Abort { txn: txn("t1"), by: other, token: Token::new(9) };
    assert_eq!(answer(run(&mut p, early, at(0))), Answer::Denied, "no tombstone before it comes");
    let held = hold(&mut p, order("t1", 1, window(3_600, 7_200)), at(1));
    assert!(matches!(held, Answer::Held { .. }), "{held:?}");
}

#[test]
fn a_hold_asks_at_its_soft_expiry_and_ends_at_its_hard_one() {
    let mut p = participant();
    let day = window(86_400, 90_000);
    let _ = hold(&mut p, order("t1", 600, day), at(0));
    assert_eq!(p.next_wake(), Some(at(2 * MINUTE).boot));
    assert_eq!(run(&mut p, ParticipantInput::Tick, at(2 * MINUTE - 1)), []);
    let asked = run(&mut p, ParticipantInput::Tick, at(2 * MINUTE));
    assert_eq!(asked, [ParticipantEffect::Ask { coordinator: grc(), txn: txn("t1") }]);
    let lost = ParticipantInput::Resolved { txn: txn("t1"), resolution: Resolution::Lost };
    assert_eq!(run(&mut p, lost, at(2 * MINUTE)), []);
    assert_eq!(p.next_wake(), Some(at(2 * MINUTE + 1).boot), "asked again a second later");
    assert_eq!(run(&mut p, ParticipantInput::Tick, at(15 * MINUTE)), []);
    assert_eq!(p.availability(&[day], &user(), None, at(15 * MINUTE)), [[Amount(1_000)]]);
    assert_eq!(reason(commit(&mut p, "t1", at(15 * MINUTE + 1))), Reason::Expired);
    assert_eq!(p.next_wake(), None);
}

#[test]
fn a_commit_after_the_hard_expiry_is_refused_though_no_tick_came() {
    let mut p = participant();
    let _ = hold(&mut p, order("t1", 600, window(86_400, 90_000)), at(0));
    assert_eq!(reason(commit(&mut p, "t1", at(15 * MINUTE))), Reason::Expired);
}

#[test]
fn an_answer_to_resolve_decides() {
    for (decision, free) in [(Decision::Commit, 400), (Decision::Abort, 1_000)] {
        let mut p = participant();
        let day = window(86_400, 90_000);
        let _ = hold(&mut p, order("t1", 600, day), at(0));
        let resolution = Resolution::Decided(decision);
        let input = ParticipantInput::Resolved { txn: txn("t1"), resolution };
        assert_eq!(run(&mut p, input, at(130)), []);
        assert_eq!(p.availability(&[day], &user(), None, at(130)), [[Amount(free)]]);
        assert_eq!(p.next_wake(), None);
    }
}

#[test]
fn a_hold_ends_before_the_time_it_holds() {
    let mut p = participant();
    let Answer::Held { expires_in, .. } = hold(&mut p, order("t1", 1, window(100, 200)), at(0))
    else {
        panic!()
    };
    assert_eq!(expires_in, Span::from_secs(99));
    let Answer::Held { expires_in, .. } = hold(&mut p, order("t2", 1, window(1, 200)), at(0))
    else {
        panic!()
    };
    assert_eq!(expires_in, limits::HOLD_HARD_MIN, "a request for now still gets its two phases");
}

#[test]
fn after_a_restart_in_the_same_boot_deadlines_stand_and_after_another_they_are_counted_by_the_wall()
{
    let mut p = participant();
    let _ = hold(&mut p, order("t1", 600, window(86_400, 90_000)), at(10));
    let same = ParticipantInput::Start { boot: "first".into() };
    let _ = run(&mut p, same, at(60));
    assert_eq!(p.next_wake(), Some(at(130).boot));
    // The machine was rebooted: boot time starts again, and 50 s have passed on the wall clock.
    let rebooted = Now { wall: at(60).wall, boot: BootTime::from_us(5_000_000) };
    let _ = run(&mut p, ParticipantInput::Start { boot: "second".into() }, rebooted);
    assert_eq!(p.next_wake(), Some(BootTime::from_us(75_000_000)), "70 s of 120 are left");
    // The wall clock was set back by a day in the meantime: no hold lives longer than its interval.
    let back = Now { wall: at(-86_400).wall, boot: BootTime::from_us(0) };
    let _ = run(&mut p, ParticipantInput::Start { boot: "third".into() }, back);
    assert_eq!(p.next_wake(), Some(BootTime::from_us(120_000_000)));
}

#[test]
fn a_log_that_cannot_be_stops_the_replay() {
    let mut p = participant();
    let day = window(0, 100);
    assert!(p.apply(&booked("t1")).unwrap_err().to_string().contains("never held"));
    p.apply(&held("t1", day)).unwrap();
    assert!(p.apply(&held("t1", day)).is_err(), "begins twice");
    p.apply(&released("t1")).unwrap();
    assert!(p.apply(&released("t1")).is_err(), "ends twice");
    assert!(p.apply(&booked("t1")).is_err(), "booked after its end");
    let ParticipantRecord::Held { mut order, soft, hard, at, inner, .. } = held("t2", day) else {
        panic!()
    };
    order.segments.push(Segment { amount: Amount(u64::MAX), ..order.segments[0].clone() });
    let endless = ParticipantRecord::Held {
        order,
        soft,
        hard,
        at,
        inner,
        servers: Vec::new(),
        claim: Claim::NotNeeded,
    };
    assert!(p.apply(&endless).is_err(), "more than any capacity ever was");
    p.check_invariants().unwrap();
    assert_eq!(
        p.availability(&[window(10, 20)], &user(), None, at),
        [[Amount(1_000)]],
        "nothing is left of it"
    );
}

#[test]
fn a_capacity_lowered_below_a_hold_that_has_ended_is_just_lower() {
    let day = window(3_600, 7_200);
    let log = [held("t1", day), booked("t1"), released("t1")];
    let mut p = replayed(&[("N0-N1", 100)], &log);
    assert_eq!(overcommitted(&p, at(2)), []);
    assert_eq!(p.availability(&[day], &user(), None, at(2)), [[Amount(100)]]);
    assert_eq!(reason(hold(&mut p, order("t2", 101, day), at(2))), Reason::BeyondCapacity);
    assert!(matches!(hold(&mut p, order("t3", 100, day), at(2)), Answer::Held { .. }));
}

#[test]
fn a_capacity_lowered_below_what_is_booked_breaks_no_promise_and_makes_none() {
    let (early, day, late) = (window(0, 3_600), window(3_600, 7_200), window(7_200, 9_000));
    // One booking, and one hold that is committed after the restart. Each takes 600, and their windows overlap.
    let log = [held("t1", day), booked("t1"), held("t2", window(5_000, 9_000))];
    let mut p = replayed(&[("N0-N1", 500)], &log);
    let resource = || "N0-N1".to_owned();
    assert_eq!(overcommitted(&p, at(2)), [(resource(), day.start(), 700)]);
    assert_eq!(overcommitted(&p, at(8_000)), [(resource(), at(8_000).wall, 100)]);
    assert_eq!(overcommitted(&p, at(9_000)), [], "what is over is nobody's concern");
    let free = p.availability(&[early, day, late], &user(), None, at(2));
    assert_eq!(free, [[Amount(500)], [Amount(0)], [Amount(0)]]);
    let Answer::Refused(refusal) = hold(&mut p, order("t3", 1, day), at(2)) else { panic!() };
    assert_eq!(refusal.reason, Reason::InsufficientCapacity);
    assert_eq!((refusal.requested, refusal.available), (Some(Amount(1)), Some(Amount(0))));
    assert!(matches!(hold(&mut p, order("t4", 500, early), at(2)), Answer::Held { .. }));
    assert_eq!(commit(&mut p, "t2", at(3)), Answer::Done, "it was promised");
    assert_eq!(release(&mut p, "t1", at(4)), Answer::Done);
    assert_eq!(overcommitted(&p, at(4)), [(resource(), at(5_000).wall, 100)]);
    assert_eq!(release(&mut p, "t2", at(5)), Answer::Done);
    assert_eq!(overcommitted(&p, at(5)), []);
    assert_eq!(reason(hold(&mut p, order("t3", 1, day), at(6))), Reason::InsufficientCapacity);
    assert!(matches!(hold(&mut p, order("t5", 500, day), at(6)), Answer::Held { .. }));
    assert_eq!(reason(hold(&mut p, order("t6", 1, day), at(6))), Reason::InsufficientCapacity);
}

#[test]
fn a_resource_that_is_removed_keeps_its_bookings_and_may_come_back() {
    let (day, night) = (window(3_600, 7_200), window(7_200, 9_000));
    let log = [held("t1", day), booked("t1"), held("t2", day), held("t3", night)];
    let other = ("N0-N2", 300);
    let mut p = replayed(&[other], &log);
    let removed = ResourceId::composed("N0-N1");
    assert_eq!(
        p.availability(&[day], &user(), None, at(2)),
        [[Amount(300)]],
        "only what is configured is told"
    );
    assert_eq!(p.timetable(&removed), None);
    assert_eq!(overcommitted(&p, at(2)), [("N0-N1".to_owned(), day.start(), 1_200)]);
    assert_eq!(reason(hold(&mut p, order("t4", 1, night), at(2))), Reason::UnknownResource);
    assert_eq!(commit(&mut p, "t2", at(3)), Answer::Done);
    assert_eq!(abort(&mut p, "t3", at(3)), Answer::Done);
    assert_eq!(release(&mut p, "t1", at(3)), Answer::Done);
    assert_eq!(p.entries()[&txn("t2")].phase, Phase::Booked);
    assert_eq!(overcommitted(&p, at(3)), [("N0-N1".to_owned(), day.start(), 600)]);
    assert_eq!(release(&mut p, "t2", at(4)), Answer::Done);
    assert_eq!(overcommitted(&p, at(4)), []);
    assert_eq!(reason(hold(&mut p, order("t5", 1, day), at(5))), Reason::UnknownResource);

    let back = replayed(&[("N0-N1", 1_000), other], &log[..2]);
    assert_eq!(back.availability(&[day], &user(), None, at(2)), [[Amount(400), Amount(300)]]);
    assert_eq!(overcommitted(&back, at(2)), []);
}

#[test]
#[should_panic(expected = "a record that was decided on applies")]
fn a_step_never_takes_what_does_not_fit() {
    let mut p = participant();
    p.must_apply(&held("t1", window(0, 100)));
    p.must_apply(&held("t2", window(0, 100)));
}
