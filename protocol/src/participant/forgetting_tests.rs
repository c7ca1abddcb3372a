//! What is forgotten, when, and that nothing changes by it.

use proptest::prelude::*;

use super::tests::{at, config, grc, order, run, window};
use super::*;
use crate::message::Answer;
use crate::snapshot::Snapshot;

const DAY: i64 = 86_400;
const EVERY: i64 = limits::FORGET_EVERY.as_us() / 1_000_000;

fn attempt(number: u64) -> TransactionId {
    TransactionId::composed(format!("grc-t-1/{number}"))
}

fn started() -> Participant {
    let mut p = Participant::new(config(&[("N0-N1", 1_000)]));
    let _ = run(&mut p, ParticipantInput::Start { boot: "first".into() }, at(0));
    p
}

fn of(number: u64, amount: u64, window: Window) -> HoldOrder {
    HoldOrder { txn: attempt(number), ..order("a", amount, window) }
}

/// The answer to a message. The step is replayed, and compared.
fn tell(p: &mut Participant, input: ParticipantInput, now: Now) -> Answer {
    match &run(p, input, now)[..] {
        [ParticipantEffect::Reply { answer, .. }] => answer.clone(),
        other => panic!("one answer expected: {other:?}"),
    }
}

fn hold(p: &mut Participant, order: HoldOrder, oldest_open: u64, now: Now) -> Answer {
    tell(p, ParticipantInput::Hold { order, oldest_open, token: Token::new(1) }, now)
}

fn commit(p: &mut Participant, number: u64, now: Now) -> Answer {
    let (txn, by, token) = (attempt(number), grc(), Token::new(1));
    tell(p, ParticipantInput::Commit { txn, by, token }, now)
}

fn abort(p: &mut Participant, number: u64, now: Now) -> Answer {
    let (txn, by, token) = (attempt(number), grc(), Token::new(1));
    tell(p, ParticipantInput::Abort { txn, by, token }, now)
}

fn release(p: &mut Participant, number: u64, now: Now) -> Answer {
    let (txn, by, token) = (attempt(number), grc(), Token::new(1));
    tell(p, ParticipantInput::Release { txn, by, token }, now)
}

fn known(p: &Participant) -> Vec<u64> {
    let mut all: Vec<u64> = p.entries.keys().map(|txn| txn.counted().unwrap().1).collect();
    all.sort_unstable();
    all
}

fn is_held(answer: &Answer) -> bool {
    matches!(answer, Answer::Held { .. })
}

fn reason(answer: Answer) -> Reason {
    match answer {
        Answer::Refused(refusal) => refusal.reason,
        other => panic!("a refusal expected: {other:?}"),
    }
}

/// Refused, aborted, a tombstone, booked, held: attempts 1 to 5. The Hold of attempt 6 says which are at rest.
fn five(oldest_open: u64) -> Participant {
    let mut p = started();
    let later = window(3_600, 7_200);
    assert!(!is_held(&hold(&mut p, of(1, 2_000, later), 0, at(1))));
    assert!(is_held(&hold(&mut p, of(2, 100, later), 0, at(1))));
    assert_eq!(abort(&mut p, 2, at(2)), Answer::Done);
    assert_eq!(abort(&mut p, 3, at(2)), Answer::Done);
    assert!(is_held(&hold(&mut p, of(4, 100, later), 0, at(2))));
    assert_eq!(commit(&mut p, 4, at(3)), Answer::Done);
    assert!(is_held(&hold(&mut p, of(5, 100, later), 0, at(3))));
    assert!(is_held(&hold(&mut p, of(6, 100, later), oldest_open, at(4))));
    p
}

#[test]
fn what_has_ended_is_forgotten_below_the_oldest_open_attempt_and_stays_refused() {
    let mut p = five(5);
    let _ = run(&mut p, ParticipantInput::Tick, at(3 + EVERY));
    assert_eq!(known(&p), [1, 2, 3, 4, 5, 6], "it is not time yet");
    let due = p.forgetting.due().unwrap();
    assert_eq!(due, at(4 + EVERY).boot);
    let _ = run(&mut p, ParticipantInput::Tick, at(4 + EVERY));
    assert_eq!(known(&p), [4, 5, 6]);
    assert_eq!(p.forgetting.due(), None, "nothing more was heard");
    // A restart from the records says the same, and so does one from a snapshot.
    let mut restored = Participant::new(config(&[("N0-N1", 1_000)]));
    for part in p.clone().take_changed().into_iter().filter_map(|changed| changed.part) {
        restored.restore(part).unwrap();
    }
    restored.restored(9).unwrap();
    for p in [&mut p, &mut restored] {
        let now = at(5 + EVERY);
        for number in [1, 2, 3] {
            let late = hold(p, of(number, 100, window(3_600, 7_200)), 0, now);
            assert_eq!(reason(late), Reason::Aborted);
            assert_eq!(reason(commit(p, number, now)), Reason::NotHeld);
            assert_eq!(abort(p, number, now), Answer::Done);
            assert_eq!(release(p, number, now), Answer::Done);
        }
        assert_eq!(known(p), [4, 5, 6], "no new tombstones");
        assert_eq!(commit(p, 4, now), Answer::Done);
    }
}

#[test]
fn nothing_is_forgotten_unless_its_own_coordinator_says_so() {
    // Not said; said of attempts after its own, which cannot be.
    for oldest_open in [0, 7] {
        let mut p = five(oldest_open);
        assert_eq!(p.forgetting.due(), None);
        let _ = run(&mut p, ParticipantInput::Tick, at(4 + EVERY));
        assert_eq!(known(&p), [1, 2, 3, 4, 5, 6]);
    }
    // Another coordinator, one that is not configured, and another ledger of the same one.
    let later = window(3_600, 7_200);
    for (name, ledger) in [("other", "other-t"), ("who", "who-t"), ("grc", "grc-u")] {
        let mut p = five(0);
        let coordinator = CoordinatorName::composed(name);
        let txn = TransactionId::composed(format!("{ledger}-1/9"));
        let _ = hold(&mut p, HoldOrder { txn, coordinator, ..of(9, 1, later) }, 9, at(5));
        let _ = run(&mut p, ParticipantInput::Tick, at(5 + EVERY));
        let own = p.entries.keys().filter(|txn| txn.as_str().starts_with("grc-t"));
        assert_eq!(own.count(), 6, "{ledger}");
    }
}

#[test]
fn a_replaced_version_is_kept_while_the_newer_one_lives() {
    let mut p = started();
    let later = window(3_600, 7_200);
    assert!(is_held(&hold(&mut p, of(1, 500, later), 0, at(1))));
    assert_eq!(commit(&mut p, 1, at(1)), Answer::Done);
    let newer = HoldOrder { replaces: Some(attempt(1)), keeps_old: true, ..of(2, 400, later) };
    assert!(is_held(&hold(&mut p, newer, 1, at(2))));
    assert_eq!(commit(&mut p, 2, at(2)), Answer::Done);
    let look = |p: &mut Participant, number: u64, second: i64| {
        let now = at(second);
        assert!(is_held(&hold(p, of(number, 1, later), number, now)));
        assert_eq!(abort(p, number, now), Answer::Done);
        let _ = run(p, ParticipantInput::Tick, at(second + EVERY));
        known(p)
    };
    assert_eq!(look(&mut p, 3, 3), [1, 2, 3], "something is kept of it");
    assert_eq!(release(&mut p, 1, at(EVERY + 4)), Answer::Done);
    assert_eq!(look(&mut p, 4, EVERY + 5), [1, 2, 4], "the newer one lives");
    assert_eq!(release(&mut p, 2, at(2 * EVERY + 6)), Answer::Done);
    assert_eq!(look(&mut p, 5, 2 * EVERY + 7), [5], "both are gone, the newer one first or last");
}

#[test]
fn many_are_forgotten_slice_by_slice() {
    let mut p = started();
    let many = 3 * limits::FORGET_SLICE as u64;
    for number in 1..=many {
        assert_eq!(abort(&mut p, number, at(1)), Answer::Done);
    }
    assert!(is_held(&hold(&mut p, of(many + 1, 1, window(3_600, 7_200)), many + 1, at(1))));
    let mut now = at(1 + EVERY);
    for left in [2, 1, 0] {
        let _ = run(&mut p, ParticipantInput::Tick, now);
        // The held one is within one of the slices.
        let rest = p.entries.len() - 1;
        assert!(rest.abs_diff(left * limits::FORGET_SLICE) <= 1, "{rest}");
        now = p
            .forgetting
            .due()
            .unwrap_or(now.boot)
            .max(now.boot)
            .since(BootTime::from_us(0))
            .as_us()
            .checked_div(1_000_000)
            .map(at)
            .unwrap();
    }
    let _ = run(&mut p, ParticipantInput::Tick, now);
    assert_eq!(known(&p), [many + 1]);
}

/// What may happen to an attempt, in this order, though messages may be lost.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Aborted,
    Booked,
    Released,
}

/// An attempt: its amount, its day, and what becomes of it. Messages to it that are late are delivered after everything
/// else, once more.
fn attempts() -> impl Strategy<Value = Vec<(u64, i64, Fate, bool, [bool; 3])>> {
    let fate = prop_oneof![Just(Fate::Aborted), Just(Fate::Booked), Just(Fate::Released)];
    prop::collection::vec((1_u64..900, 1_i64..4, fate, any::<bool>(), any::<[bool; 3]>()), 1..24)
}

proptest! {
    /// An RM that forgets has the same timetables as one that does not, and holds and books nothing that the other does
    /// not, however late a message is.
    #[test]
    fn nothing_changes_by_forgetting(attempts in attempts()) {
        let (mut forgets, mut remembers) = (started(), started());
        let mut late = Vec::new();
        let mut second = 1;
        for (number, (amount, day, fate, arrives, again)) in (1_u64..).zip(attempts) {
            let order = of(number, amount, window(day * DAY, day * DAY + 3_600));
            let mut sent = Vec::new();
            if arrives {
                sent.push(0);
            }
            match fate {
                Fate::Aborted => sent.push(2),
                Fate::Booked => sent.push(1),
                Fate::Released => sent.extend([1, 3]),
            }
            let mut deliver = |what: i32, oldest_open: u64, second: i64| {
                let mut answers = [&mut forgets, &mut remembers].map(|p| match what {
                    0 => hold(p, order.clone(), oldest_open, at(second)),
                    1 => commit(p, number, at(second)),
                    2 => abort(p, number, at(second)),
                    _ => release(p, number, at(second)),
                });
                for answer in &mut answers {
                    if let Answer::Refused(refusal) = answer {
                        *refusal = Refusal::new(Reason::Aborted, "");
                    }
                }
                answers
            };
            for what in &sent {
                second += 1;
                let [a, b] = deliver(*what, number, second);
                prop_assert_eq!(a, b);
            }
            for what in [0, 1, 2] {
                if again[what] && !(what == 2 && matches!(fate, Fate::Booked)) {
                    late.push((order.clone(), number, what));
                }
            }
            second += EVERY;
            let _ = run(&mut forgets, ParticipantInput::Tick, at(second));
        }
        for (order, number, what) in late {
            second += 1;
            let before = forgets.timetables.clone();
            let [a, b] = [&mut forgets, &mut remembers].map(|p| match what {
                0 => is_held(&hold(p, order.clone(), 0, at(second))),
                1 => commit(p, number, at(second)) == Answer::Done,
                _ => abort(p, number, at(second)) == Answer::Done,
            });
            prop_assert_eq!(a, b, "late {} of {}", what, number);
            prop_assert_eq!(&before, &forgets.timetables);
        }
        prop_assert_eq!(&forgets.timetables, &remembers.timetables);
        prop_assert!(forgets.entries.len() <= remembers.entries.len());
    }
}
