//! One-way candidates, whose RMs are booked one after the other by the Hold message itself: which messages each
//! RM is sent, and what a restart makes of it. The RMs' answers are written by hand.

use super::tests::{
    Bench, USER, at, open, plan, planned_again, plans_again, refused, request_planned, rm, sends,
    ticket, told,
};
use super::*;
use coalloc_common::limits;

use crate::conversation::Planned;
use crate::message::{Answer, Message};

/// The transaction of the first attempt at the first reservation.
const TRY: &str = "grc-t-1/1";

/// A plan over these RMs, to be booked in this order.
fn one_way(rms: &[&str]) -> Candidate {
    let order = rms.iter().map(|name| rm(name)).collect();
    Candidate { order, one_way: true, ..plan(rms) }
}

/// A reservation over b and a whose Hold was sent to b, and how many messages that took.
fn asked() -> (Bench, usize) {
    let mut bench = Bench::new();
    let sent = bench.reserve("r1", &[one_way(&["b", "a"])], at(0));
    assert_eq!(sends(&sent), ["b Hold"]);
    let is_one_way = |effect: &CoordinatorEffect| match effect {
        CoordinatorEffect::Send { message: Message::Hold(order), .. } => order.one_way,
        _ => false,
    };
    assert!(sent.iter().any(is_one_way));
    (bench, sent.len())
}

#[test]
fn n_rms_take_n_messages_and_their_answers() {
    let (mut bench, mut messages) = asked();
    // The expiry in the answer has no meaning here: nothing expires.
    let sent = bench.held("b", TRY, 0, at(10));
    assert_eq!(sends(&sent), ["a Hold"]);
    messages += 1;
    let done = bench.held("a", TRY, 0, at(20));
    assert_eq!(sends(&done), [] as [&str; 0], "no Commit");
    assert_eq!(told(&done), [(USER, State::Confirmed)]);
    assert_eq!(messages, 2);
    // Nothing is left to do but to look at the clock for its window.
    let check = at(0).boot.saturating_add(limits::USAGE_CLOCK_CHECK);
    assert_eq!(bench.core.next_wake(), Some(check));
    assert!(matches!(bench.last(), CoordinatorRecord::Finished { .. }));
    assert_eq!(bench.core.hold_ends(bench.core.find("grc-t-1").unwrap()), None);
}

#[test]
fn a_refusal_ends_what_was_booked_before_it_and_it_is_planned_again() {
    let (mut bench, _) = asked();
    let _ = bench.held("b", TRY, 0, at(10));
    let no = refused(Reason::InsufficientCapacity);
    let sent = bench.answer("a", TRY, MessageKind::Hold, no, at(20));
    assert_eq!(sends(&sent), ["b Abort"]);
    let told = bench.answer("b", TRY, MessageKind::Abort, Answer::Done, at(30));
    assert_eq!(plans_again(&told), [(USER, "grc-t-1".to_owned())]);
    let again = planned_again("grc-t-1", &[one_way(&["c"])], USER);
    assert_eq!(sends(&bench.step(again, at(40))), ["c Hold"]);
    let _ = bench.held("c", "grc-t-1/2", 0, at(50));
    assert_eq!(bench.state("grc-t-1"), State::Confirmed);
}

/// An RM forgets a refusal for want of disk space when its process ends, and a late copy of the Hold would
/// then be booked.
#[test]
fn one_without_room_is_told_that_it_is_over() {
    let (mut bench, _) = asked();
    let sent = bench.answer("b", TRY, MessageKind::Hold, refused(Reason::DiskFull), at(10));
    assert_eq!(sends(&sent), ["b Abort"], "a was never asked");
    assert_eq!(told(&sent), [], "nothing is definite before its tombstone");
    let done = bench.answer("b", TRY, MessageKind::Abort, Answer::Done, at(20));
    assert_eq!(told(&done), [(USER, State::Failed)]);
    // Any other refusal is in the RM's log, so nothing more is sent there.
    let (mut bench, _) = asked();
    let done = bench.answer("b", TRY, MessageKind::Hold, refused(Reason::ServiceLevel), at(10));
    assert_eq!((sends(&done), told(&done)), (vec![], vec![(USER, State::Failed)]));
}

#[test]
fn one_that_says_it_has_booked_instead_of_ending_it_is_told_to_release() {
    let (mut bench, _) = asked();
    let _ = bench.held("b", TRY, 0, at(10));
    let no = refused(Reason::ServiceLevel);
    let _ = bench.answer("a", TRY, MessageKind::Hold, no, at(20));
    let sent = bench.answer("b", TRY, MessageKind::Abort, refused(Reason::NotHeld), at(30));
    assert_eq!(sends(&sent), ["b Release"]);
    let _ = bench.answer("b", TRY, MessageKind::Release, Answer::Done, at(40));
    assert_eq!(bench.state("grc-t-1"), State::Failed);
}

#[test]
fn undecided_at_a_restart_everything_is_ended() {
    let (mut bench, _) = asked();
    let _ = bench.held("b", TRY, 0, at(10));
    assert_eq!(sends(&bench.restart(at(20))), ["a Abort", "b Abort"]);
    // A late answer to a message from before the restart changes nothing.
    assert_eq!(sends(&bench.held("a", TRY, 0, at(25))), [] as [&str; 0]);
    for name in ["a", "b"] {
        let _ = bench.answer(name, TRY, MessageKind::Abort, Answer::Done, at(30));
    }
    assert_eq!(bench.state("grc-t-1"), State::Failed);
}

#[test]
fn decided_at_a_restart_it_is_finished_without_a_message() {
    let (mut bench, _) = asked();
    let _ = bench.held("b", TRY, 0, at(10));
    let _ = bench.held("a", TRY, 0, at(20));
    // The last record is lost, as if the log had been cut within the batch.
    let finished = bench.log.pop();
    assert!(matches!(finished, Some(CoordinatorRecord::Finished { .. })));
    let mut core = super::tests::fresh();
    bench.log.iter().for_each(|record| core.apply(record).unwrap());
    bench.core = core;
    assert_eq!(bench.state("grc-t-1"), State::Committing);
    assert_eq!(sends(&bench.restart(at(30))), [] as [&str; 0]);
    assert_eq!(bench.state("grc-t-1"), State::Confirmed);
}

#[test]
fn a_booked_one_is_released_as_any_other() {
    let (mut bench, _) = asked();
    let _ = bench.held("b", TRY, 0, at(10));
    let _ = bench.held("a", TRY, 0, at(20));
    assert_eq!(sends(&bench.release("grc-t-1", at(30))), ["a Release", "b Release"]);
    for name in ["a", "b"] {
        let _ = bench.answer(name, TRY, MessageKind::Release, Answer::Done, at(40));
    }
    assert_eq!(bench.state("grc-t-1"), State::Terminated);
}

#[test]
fn released_before_it_is_decided_what_was_asked_is_ended() {
    let (mut bench, _) = asked();
    let _ = bench.held("b", TRY, 0, at(10));
    assert_eq!(sends(&bench.release("grc-t-1", at(20))), ["a Abort", "b Abort"]);
}

#[test]
fn one_that_does_not_answer_is_ended_too() {
    let (mut bench, _) = asked();
    let _ = bench.held("b", TRY, 0, at(10));
    let over = at(coalloc_common::limits::HOLD_PATIENCE.as_us() / 1_000);
    assert_eq!(sends(&bench.step(CoordinatorInput::Tick, over)), ["a Abort", "b Abort"]);
}

#[test]
fn how_often_it_is_planned_again_is_the_planners_to_say() {
    let mut bench = Bench::new();
    let _ = bench.step(open(ticket("r1", "c"), USER), at(0));
    let outcome = Ok(vec![one_way(&["a"])]);
    let planned = Planned { outcome, replans: Some(0), notes: String::new() };
    assert_eq!(sends(&bench.step(request_planned("r1", planned, USER), at(0))), ["a Hold"]);
    let no = refused(Reason::InsufficientCapacity);
    let done = bench.answer("a", TRY, MessageKind::Hold, no, at(10));
    assert_eq!(told(&done), [(USER, State::Failed)]);
}
