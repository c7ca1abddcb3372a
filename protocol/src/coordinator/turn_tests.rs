//! Candidates whose RMs are sent Hold one after the other: which RM is sent what and when, which are sent
//! Abort, and what follows a refusal. The RMs' answers are written by hand.

use coalloc_common::limits;

use super::tests::{
    Bench, RM, USER, at, plan, planned_again, plans_again, refused, replies, rm, sends, txn,
};
use super::*;
use crate::message::Answer;

/// The transaction of the first attempt at the first reservation.
const TRY: &str = "grc-t-1/1";

/// A plan over these RMs, to be held in this order.
fn in_turns(rms: &[&str]) -> Candidate {
    Candidate { order: rms.iter().map(|name| rm(name)).collect(), ..plan(rms) }
}

/// A reservation with the order c, a, b whose first RM was sent Hold.
fn asked() -> Bench {
    let mut bench = Bench::new();
    let sent = bench.reserve("r1", &[in_turns(&["c", "a", "b"]), plan(&["d"])], at(0));
    assert_eq!(sends(&sent), ["c Hold"]);
    bench
}

fn replan() -> (u64, String) {
    (USER, "grc-t-1".to_owned())
}

#[test]
fn each_is_asked_after_the_yes_of_the_one_before_and_all_are_told_to_commit_at_once() {
    let mut bench = asked();
    assert_eq!(sends(&bench.held("c", TRY, 900, at(10))), ["a Hold"]);
    assert_eq!(sends(&bench.held("c", TRY, 900, at(15))), [] as [&str; 0], "doubled: nothing new");
    assert_eq!(sends(&bench.held("a", TRY, 900, at(20))), ["b Hold"]);
    let sent = bench.held("b", TRY, 900, at(30));
    assert_eq!(sends(&sent), ["a Commit", "b Commit", "c Commit"]);
}

#[test]
fn those_that_the_order_does_not_name_are_asked_last_and_together() {
    let mut bench = Bench::new();
    let order = vec![rm("c"), rm("a")];
    let sent = bench.reserve("r1", &[Candidate { order, ..plan(&["a", "b", "c", "d"]) }], at(0));
    assert_eq!(sends(&sent), ["c Hold"]);
    assert_eq!(sends(&bench.held("c", TRY, 900, at(10))), ["a Hold"]);
    assert_eq!(sends(&bench.held("a", TRY, 900, at(20))), ["b Hold", "d Hold"]);
}

#[test]
fn refused_at_the_second_the_first_is_let_go_the_third_never_hears_and_it_is_planned_again() {
    let mut bench = asked();
    let _ = bench.held("c", TRY, 900, at(10));
    let sent =
        bench.answer("a", TRY, MessageKind::Hold, refused(Reason::InsufficientCapacity), at(20));
    assert_eq!(sends(&sent), ["c Abort"]);
    let told = bench.answer("c", TRY, MessageKind::Abort, Answer::Done, at(30));
    assert_eq!(sends(&told), [] as [&str; 0], "the other candidate is not tried before");
    assert_eq!(plans_again(&told), [replan()]);
    let input = planned_again("grc-t-1", &[in_turns(&["c", "b"])], USER);
    assert_eq!(sends(&bench.step(input, at(40))), ["c Hold"]);
}

#[test]
fn refused_at_the_first_there_is_nobody_to_tell() {
    let mut bench = asked();
    let told =
        bench.answer("c", TRY, MessageKind::Hold, refused(Reason::InsufficientCapacity), at(10));
    assert_eq!(sends(&told), [] as [&str; 0]);
    assert_eq!(plans_again(&told), [replan()]);
}

#[test]
fn refused_for_another_reason_the_next_candidate_is_tried() {
    let mut bench = asked();
    let sent = bench.answer("c", TRY, MessageKind::Hold, refused(Reason::ServiceLevel), at(10));
    assert_eq!(sends(&sent), ["d Hold"]);
}

#[test]
fn choices_end_after_so_many_and_then_the_candidates_that_are_left_are_tried() {
    let mut bench = asked();
    let mut now = 10;
    for attempt in 1..=limits::BACKTRACKS_MAX {
        let id = format!("grc-t-1/{attempt}");
        let no = refused(Reason::InsufficientCapacity);
        let told = bench.answer("c", &id, MessageKind::Hold, no, at(now));
        assert_eq!(plans_again(&told), [replan()], "attempt {attempt}");
        let plans = [in_turns(&["c", "a"]), plan(&["d"])];
        let _ = bench.step(planned_again("grc-t-1", &plans, USER), at(now));
        now += 10;
    }
    let last = format!("grc-t-1/{}", limits::BACKTRACKS_MAX + 1);
    let no = refused(Reason::InsufficientCapacity);
    let sent = bench.answer("c", &last, MessageKind::Hold, no, at(now));
    assert_eq!(sends(&sent), ["d Hold"]);
}

#[test]
fn only_whoever_is_asked_is_asked_again_or_named_when_patience_ends() {
    let mut bench = asked();
    let _ = bench.held("c", TRY, 900, at(10));
    let second = at(limits::MESSAGE_PATIENCE.as_us() / 1_000 + 300);
    assert_eq!(sends(&bench.step(CoordinatorInput::Tick, second)), ["a Hold"]);
    let over = at(limits::HOLD_PATIENCE.as_us() / 1_000);
    // An RM that was sent Hold and has not answered may hold, so it is sent Abort. An RM that was not
    // sent Hold is not.
    assert_eq!(sends(&bench.step(CoordinatorInput::Tick, over)), ["a Abort", "c Abort"]);
    let refusal = bench.core.find("grc-t-1").unwrap().attempt_refusals[0].clone();
    assert_eq!(refusal.detail, "no answer to Hold in time from a");
}

#[test]
fn after_a_restart_nobody_knows_who_was_asked_and_all_are_told() {
    let mut bench = asked();
    let _ = bench.held("c", TRY, 900, at(10));
    assert_eq!(sends(&bench.restart(at(20))), ["a Abort", "b Abort", "c Abort"]);
    for name in ["a", "b", "c"] {
        let _ = bench.answer(name, TRY, MessageKind::Abort, Answer::Done, at(30));
    }
    assert_eq!(bench.state("grc-t-1"), State::Failed);
}

#[test]
fn one_who_asks_while_the_others_wait_for_their_turn_gets_abort_and_is_told_so() {
    let mut bench = asked();
    let _ = bench.held("c", TRY, 900, at(10));
    let effects = bench.resolve(TRY, "c", at(20));
    assert_eq!(sends(&effects), ["a Abort", "c Abort"]);
    let aborted = Reply::Resolve(Token::new(RM), Resolution::Decided(Decision::Abort));
    assert!(replies(&effects).contains(&aborted));
    assert!(bench.core.is_aborted(&txn(TRY)));
}

#[test]
fn released_between_two_turns_only_those_that_were_asked_are_told() {
    let mut bench = asked();
    assert_eq!(sends(&bench.release("grc-t-1", at(10))), ["c Abort"]);
    let _ = bench.answer("c", TRY, MessageKind::Abort, Answer::Done, at(20));
    assert_eq!(bench.state("grc-t-1"), State::Failed);
}

#[test]
fn an_intent_without_an_order_is_written_and_read_as_before() {
    let text = |candidate: Candidate| serde_json::to_value(candidate).unwrap();
    let old = text(plan(&["a"]));
    assert!(old.get("order").is_none(), "{old}");
    let read: Candidate = serde_json::from_value(old).unwrap();
    assert_eq!(read, plan(&["a"]));
    let new = text(in_turns(&["b", "a"]));
    assert_eq!(new["order"], serde_json::json!(["b", "a"]));
    let read: Candidate = serde_json::from_value(new).unwrap();
    assert_eq!(read, in_turns(&["b", "a"]));
}
