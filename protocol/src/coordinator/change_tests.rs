//! Changes of a confirmed reservation: which RMs take part, and that each change has one answer.

use coalloc_common::limits;

use super::tests::{
    Bench, OTHER, RM, USER, at, change_end, change_planned, open, open_change, plan, plans_change,
    refused, replies, stands, ticket, told, txn,
};
use super::*;
use crate::conversation::{ChangeEnd, Next};
use crate::message::{Answer, Message};

fn change(name: &str, content: &str, who: u64) -> CoordinatorInput {
    let ticket = ChangeTicket {
        reservation: ReservationId::composed("grc-t-1"),
        change: RequestId::composed(name),
        content: content.into(),
    };
    open_change(ticket, who)
}

fn new_version(plans: &[Candidate]) -> CoordinatorInput {
    change_planned("grc-t-1", plans, USER)
}

#[test]
fn a_change_asks_every_rm_of_both_versions_and_says_what_it_replaces() {
    let mut bench = Bench::confirmed();
    let opened = bench.step(change("c1", "x", USER), at(50));
    assert_eq!(replies(&opened), [plans_change(USER, "grc-t-1")]);
    let effects = bench.step(new_version(&[plan(&["b", "c"])]), at(60));
    let holds: Vec<(String, usize, Option<String>)> = effects
        .iter()
        .map(|effect| match effect {
            CoordinatorEffect::Send { rm, message: Message::Hold(order), .. } => {
                let replaces = order.replaces.as_ref().map(ToString::to_string);
                (rm.to_string(), order.segments.len(), replaces)
            }
            other => panic!("a Hold expected: {other:?}"),
        })
        .collect();
    let old = || Some("grc-t-1/1".to_owned());
    assert_eq!(holds, [("a".into(), 0, old()), ("b".into(), 1, old()), ("c".into(), 1, None)]);
    let reservation = bench.core.find("grc-t-1").unwrap();
    assert_eq!((reservation.state, reservation.is_definite()), (State::Confirmed, false));
    assert_eq!(
        reservation.transaction,
        Some(txn("grc-t-1/1")),
        "the old one until all have booked"
    );
    for name in ["a", "b", "c"] {
        let _ = bench.held(name, "grc-t-1/2", 900, at(70));
    }
    for name in ["a", "b"] {
        assert_eq!(bench.answer(name, "grc-t-1/2", MessageKind::Commit, Answer::Done, at(80)), []);
    }
    let _ = bench.restart(at(85));
    for name in ["a", "b", "c"] {
        let _ = bench.answer(name, "grc-t-1/2", MessageKind::Commit, Answer::Done, at(90));
    }
    let reservation = bench.core.find("grc-t-1").unwrap();
    assert_eq!((reservation.version, reservation.is_definite()), (2, true));
    assert_eq!(reservation.transaction, Some(txn("grc-t-1/2")));
    assert_eq!((reservation.notes.as_str(), reservation.attempts), ("new", 1));
    let _ = bench.restart(at(100));
}

#[test]
fn one_change_at_a_time_and_each_has_one_answer() {
    let mut bench = Bench::confirmed();
    let _ = bench.step(change("c1", "x", USER), at(50));
    let under_way = || [change_end(OTHER, ChangeEnd::UnderWay(RequestId::composed("c1")))];
    assert_eq!(replies(&bench.step(change("c2", "x", OTHER), at(51))), under_way(), "planned");
    let other_content = [change_end(OTHER, ChangeEnd::OtherContent)];
    assert_eq!(replies(&bench.step(change("c1", "y", OTHER), at(52))), other_content);
    let _ = bench.step(new_version(&[plan(&["a"])]), at(60));
    assert_eq!(replies(&bench.step(change("c2", "x", OTHER), at(61))), under_way(), "held");
    let request = bench.step(open(ticket("r1", "c"), RM), at(62));
    assert_eq!(told(&request), [(RM, State::Confirmed)], "its request is through");
    let no = refused(Reason::OutsideHorizon);
    let _ = bench.answer("a", "grc-t-1/2", MessageKind::Hold, no, at(70));
    let done = bench.answer("b", "grc-t-1/2", MessageKind::Abort, Answer::Done, at(80));
    let outcome = |effects: &[CoordinatorEffect]| match &stands(effects)[..] {
        [(_, known)] => {
            let change = known.change.clone().unwrap();
            (known.state, change.id.to_string(), change.state, known.version)
        }
        other => panic!("an outcome expected: {other:?}"),
    };
    let refused = (State::Confirmed, "c1".to_owned(), ChangeState::Refused, 1);
    assert_eq!(outcome(&done), refused);
    let known = bench.core.find("grc-t-1").and_then(|known| known.change.as_ref()).unwrap();
    let why: Vec<Reason> = known.attempt_refusals.iter().map(|refusal| refusal.reason).collect();
    assert_eq!(why, [Reason::OutsideHorizon], "planning again learns from them");
    let _ = bench.restart(at(90));
    // Another change follows, and the first still has its answer.
    let _ = bench.step(change("c2", "x", USER), at(100));
    let _ = bench.step(new_version(&[]), at(101));
    assert_eq!(outcome(&bench.step(change("c1", "x", OTHER), at(110))), refused, "I8");
    assert_eq!(replies(&bench.step(change("c1", "y", OTHER), at(111))), other_content);
    // The reservation is released while the third change is being planned: nothing of that change is recorded.
    let _ = bench.step(change("c3", "x", USER), at(120));
    let _ = bench.release("grc-t-1", at(121));
    let effects = bench.step(new_version(&[plan(&["a"])]), at(122));
    let end = &replies(&effects)[..];
    let not_confirmed = |end| matches!(end, Next::Done(ChangeEnd::NotConfirmed(_)));
    assert!(matches!(end, [Reply::Change(_, end)] if not_confirmed(end.clone())), "{effects:?}");
    assert!(bench.core.find_change(&ReservationId::composed("grc-t-1"), "c3").is_none());
}

#[test]
fn changes_are_bounded_what_was_answered_stays_answered_and_replies_do_not_grow() {
    let mut bench = Bench::confirmed();
    for number in 0..limits::CHANGES_MAX {
        let opened = bench.step(change(&format!("c{number}"), "x", USER), at(50));
        assert_eq!(replies(&opened), [plans_change(USER, "grc-t-1")], "{number}");
        let told = stands(&bench.step(new_version(&[]), at(51)));
        let [(USER, known)] = &told[..] else { panic!("an outcome: {told:?}") };
        let last = known.change.as_ref().unwrap();
        assert_eq!((last.state, last.notes.as_str()), (ChangeState::Refused, ""), "{number}");
        assert_eq!(known.changes, number + 1);
    }
    for _ in 0..2 {
        let more = replies(&bench.step(change("more", "x", OTHER), at(60)));
        assert_eq!(more, [change_end(OTHER, ChangeEnd::Spent)]);
        for number in [0, 1, limits::CHANGES_MAX - 1] {
            let again = stands(&bench.step(change(&format!("c{number}"), "x", OTHER), at(61)));
            let [(OTHER, known)] = &again[..] else { panic!("{again:?}") };
            let told = known.change.as_ref().unwrap();
            assert_eq!(
                (told.id.as_str(), told.state),
                (&*format!("c{number}"), ChangeState::Refused)
            );
        }
        let other = replies(&bench.step(change("c0", "y", OTHER), at(62)));
        assert_eq!(other, [change_end(OTHER, ChangeEnd::OtherContent)]);
        let _ = bench.restart(at(70));
    }
    assert_eq!(told(&bench.release("grc-t-1", at(80))), [], "it can be released as ever");
}

/// An RM that is dead and not needed any more does not keep a change from being booked. When it returns, it is
/// sent Release of what it has.
#[test]
fn a_change_leaves_out_an_rm_that_it_does_not_need() {
    let mut bench = Bench::confirmed();
    let _ = bench.step(change("c1", "x", USER), at(50));
    let rm = |name: &str| RmName::composed(name);
    let new = Candidate { left_out: vec![rm("a"), rm("c")], ..plan(&["b", "c"]) };
    let effects = bench.step(new_version(&[new]), at(60));
    let asked = |effects: &[CoordinatorEffect]| -> Vec<(String, MessageKind, String)> {
        let sent = effects.iter().filter_map(|effect| match effect {
            CoordinatorEffect::Send { rm, txn, message, .. } => {
                Some((rm.to_string(), message.kind(), txn.to_string()))
            }
            _ => None,
        });
        sent.collect()
    };
    let hold = |rm: &str| (rm.to_owned(), MessageKind::Hold, "grc-t-1/2".to_owned());
    assert_eq!(asked(&effects), [hold("b"), hold("c")], "c is needed, so it takes part");
    for name in ["b", "c"] {
        let _ = bench.held(name, "grc-t-1/2", 900, at(70));
    }
    let _ = bench.answer("b", "grc-t-1/2", MessageKind::Commit, Answer::Done, at(80));
    let effects = bench.answer("c", "grc-t-1/2", MessageKind::Commit, Answer::Done, at(80));
    let release = |rm: &str| (rm.to_owned(), MessageKind::Release, "grc-t-1/1".to_owned());
    assert_eq!(asked(&effects), [release("a"), release("b")]);
    let known = bench.core.find("grc-t-1").unwrap();
    assert_eq!((known.version, known.is_definite()), (2, true));
    let _ = bench.answer("b", "grc-t-1/1", MessageKind::Release, Answer::Done, at(90));
    let _ = bench.restart(at(100));
    assert_eq!(bench.core.unfinished(), 1, "a still has the old version");
    for name in ["a", "b"] {
        let _ = bench.answer(name, "grc-t-1/1", MessageKind::Release, Answer::Done, at(110));
    }
    assert_eq!(bench.core.unfinished(), 0);
    // The next change does not ask it any more.
    let _ = bench.step(change("c2", "x", USER), at(120));
    let effects = bench.step(new_version(&[plan(&["b"])]), at(130));
    let hold = |rm: &str| (rm.to_owned(), MessageKind::Hold, "grc-t-1/3".to_owned());
    assert_eq!(asked(&effects), [hold("b"), hold("c")]);
}
