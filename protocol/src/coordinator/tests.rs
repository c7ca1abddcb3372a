//! The coordinator alone: what it decides when, whom it tells, and that repeated messages get the same answer.
//! The RMs' answers are written by hand.

mod bench;

use coalloc_common::limits;

use super::*;
use crate::conversation::RequestEnd;
use crate::message::{Answer, Delivery};

pub(super) use self::bench::*;

#[test]
fn it_decides_no_when_a_hold_would_run_out_before_its_commit_came() {
    // Holds are counted from before the first Hold left: 10 s, less the margin of 2, is 8.
    for (ms, decision) in [(8_000, Decision::Commit), (8_001, Decision::Abort)] {
        let mut bench = Bench::new();
        let _ = bench.reserve("r1", &[plan(&["a", "b"])], at(0));
        let _ = bench.held("a", "grc-t-1/1", 10, at(10));
        let sent = bench.held("b", "grc-t-1/1", 900, at(ms));
        assert_eq!(sends(&sent), [format!("a {decision:?}"), format!("b {decision:?}")]);
        let CoordinatorRecord::Decided { refusal, .. } = bench.last() else { panic!() };
        let reason = refusal.as_ref().map(|refusal| refusal.reason);
        assert_eq!(reason, (decision == Decision::Abort).then_some(Reason::TimedOut));
    }
}

#[test]
fn confirmed_is_said_after_every_acknowledgement_and_to_all_who_wait() {
    let mut bench = Bench::decided();
    let again = open(ticket("r1", "c"), OTHER);
    assert_eq!(bench.step(again, at(25)), [], "it waits for the same outcome");
    let half = bench.answer("b", "grc-t-1/1", MessageKind::Commit, Answer::Done, at(30));
    assert_eq!(half, [], "I6");
    let twice = bench.answer("b", "grc-t-1/1", MessageKind::Commit, Answer::Done, at(31));
    assert_eq!(twice, [], "the other has not answered, this one has answered twice");
    let all = bench.answer("a", "grc-t-1/1", MessageKind::Commit, Answer::Done, at(40));
    assert_eq!(told(&all), [(USER, State::Confirmed), (OTHER, State::Confirmed)]);
    assert!(matches!(bench.last(), CoordinatorRecord::Finished { .. }));
    let other = bench.step(open(ticket("r1", "else"), OTHER), at(50));
    assert_eq!(replies(&other), [request_end(OTHER, RequestEnd::OtherContent)], "I8");
}

#[test]
fn whoever_is_elected_goes_on_with_what_was_decided_in_the_same_step() {
    let mut bench = Bench::decided();
    let elected = CoordinatorInput::Elected { epoch: bench.core.next_epoch(7), member: "b".into() };
    let effects = bench.restart_by(elected, at(25));
    assert_eq!(bench.core.epoch(), 7);
    let commits = effects.iter().filter(|effect| matches!(effect, CoordinatorEffect::Send { .. }));
    assert_eq!(commits.count(), 2, "{effects:?}");
    bench.core.check_invariants().unwrap();
}

#[test]
fn asked_while_undecided_it_records_the_abort_before_it_answers() {
    let mut bench = Bench::new();
    let _ = bench.reserve("r1", &[plan(&["a", "b"])], at(0));
    let _ = bench.held("a", "grc-t-1/1", 900, at(10));
    let effects = bench.resolve("grc-t-1/1", "a", at(20));
    assert!(
        matches!(bench.last(), CoordinatorRecord::Decided { decision: Decision::Abort, .. }),
        "the record is synced with the very step that answers"
    );
    assert_eq!(resolution(&effects), Resolution::Decided(Decision::Abort));
    assert_eq!(sends(&effects), ["a Abort", "b Abort"]);
    assert_eq!(bench.held("b", "grc-t-1/1", 900, at(30)), [], "a late yes changes nothing");
}

#[test]
fn asked_later_it_says_what_it_decided_and_only_to_those_concerned() {
    let mut bench = Bench::decided();
    let answer = |bench: &mut Bench, id, name| resolution(&bench.resolve(id, name, at(30)));
    assert_eq!(answer(&mut bench, "grc-t-1/1", "a"), Resolution::Decided(Decision::Commit));
    assert_eq!(answer(&mut bench, "grc-t-1/1", "stranger"), Resolution::NotMine, "I21");
    assert_eq!(answer(&mut bench, "grc-t-7/1", "a"), Resolution::NotMine, "F11: it has no intent");
    assert_eq!(answer(&mut bench, "grc-other-1/1", "a"), Resolution::NotMine, "F10");
    assert_eq!(answer(&mut bench, "else-t-1/1", "a"), Resolution::NotMine);
    assert_eq!(answer(&mut bench, "grc-t-2-1/1", "a"), Resolution::NotMine, "of one named grc-t");
    let _ = bench.release("grc-t-1", at(40));
    assert_eq!(answer(&mut bench, "grc-t-1/1", "a"), Resolution::Decided(Decision::Abort));
}

#[test]
fn a_stranger_that_asks_aborts_nothing() {
    let mut bench = Bench::new();
    let _ = bench.reserve("r1", &[plan(&["a"])], at(0));
    let records = bench.log.len();
    assert_eq!(resolution(&bench.resolve("grc-t-1/1", "b", at(5))), Resolution::NotMine, "I21");
    assert_eq!(bench.log.len(), records, "nothing was decided");
    assert_eq!(sends(&bench.held("a", "grc-t-1/1", 900, at(10))), ["a Commit"]);
}

#[test]
fn released_while_it_is_being_held_it_is_aborted_and_no_other_plan_is_tried() {
    let mut bench = Bench::new();
    let _ = bench.reserve("r1", &[plan(&["a"]), plan(&["b"])], at(0));
    let effects = bench.release("grc-t-1", at(5));
    assert_eq!((sends(&effects), replies(&effects)), (vec!["a Abort".to_owned()], vec![]));
    let effects = bench.answer("a", "grc-t-1/1", MessageKind::Abort, Answer::Done, at(10));
    assert_eq!(told(&effects), [(USER, State::Failed), (OTHER, State::Failed)]);
    let refusal = bench.core.find("grc-t-1").unwrap().refusal.clone();
    assert_eq!(refusal.unwrap().reason, Reason::Released);
}

#[test]
fn released_while_it_is_being_committed_every_rm_is_told_release() {
    let mut bench = Bench::decided();
    let _ = bench.answer("a", "grc-t-1/1", MessageKind::Commit, Answer::Done, at(30));
    assert_eq!(sends(&bench.release("grc-t-1", at(35))), ["a Release", "b Release"]);
    let late = bench.answer("b", "grc-t-1/1", MessageKind::Commit, Answer::Done, at(40));
    assert_eq!(late, [], "the acknowledgement of the Commit comes too late to count");
    let _ = bench.answer("a", "grc-t-1/1", MessageKind::Release, Answer::Done, at(45));
    let effects = bench.answer("b", "grc-t-1/1", MessageKind::Release, Answer::Done, at(50));
    assert_eq!(told(&effects), [(USER, State::Terminated), (OTHER, State::Terminated)]);
}

#[test]
fn refused_for_want_of_capacity_it_is_planned_again_a_few_times_and_then_ends() {
    let mut bench = Bench::new();
    let _ = bench.reserve("r1", &[plan(&["a"])], at(0));
    let short = || refused(Reason::InsufficientCapacity);
    let mut txn = "grc-t-1/1".to_owned();
    for round in 1..=limits::REPLANS_MAX {
        let effects = bench.answer("a", &txn, MessageKind::Hold, short(), at(10));
        assert_eq!(plans_again(&effects), [(USER, "grc-t-1".to_owned())]);
        let input = planned_again("grc-t-1", &[plan(&["a"])], USER);
        assert_eq!(sends(&bench.step(input, at(20))), ["a Hold"]);
        txn = format!("grc-t-1/{}", round + 1);
    }
    let effects = bench.answer("a", &txn, MessageKind::Hold, short(), at(30));
    assert_eq!(told(&effects), [(USER, State::Failed)]);
    // Any other refusal would meet the next plan, too.
    let _ = bench.reserve("r2", &[plan(&["a"])], at(40));
    let gone = refused(Reason::OutsideHorizon);
    let effects = bench.answer(
        "a",
        &format!("grc-t-2/{}", limits::REPLANS_MAX + 2),
        MessageKind::Hold,
        gone,
        at(50),
    );
    assert_eq!(told(&effects), [(USER, State::Failed)]);
}

#[test]
fn released_while_it_is_planned_again_it_ends_at_once_and_late_plans_are_dropped() {
    let mut bench = Bench::new();
    let _ = bench.reserve("r1", &[plan(&["a"])], at(0));
    let short = refused(Reason::InsufficientCapacity);
    let _ = bench.answer("a", "grc-t-1/1", MessageKind::Hold, short, at(10));
    assert_eq!(told(&bench.release("grc-t-1", at(20))).len(), 1);
    let effects = bench.step(planned_again("grc-t-1", &[plan(&["a"])], USER), at(30));
    assert_eq!(sends(&effects), [""; 0]);
    assert_eq!(told(&effects), [(USER, State::Failed)]);
}

#[test]
fn released_when_it_is_confirmed_and_once_more_when_it_is_gone() {
    let mut bench = Bench::confirmed();
    assert_eq!(sends(&bench.release("grc-t-1", at(50))), ["a Release", "b Release"]);
    assert_eq!(bench.state("grc-t-1"), State::Terminating);
    assert_eq!(sends(&bench.restart(at(55))), ["a Release", "b Release"], "it goes on");
    let _ = bench.answer("a", "grc-t-1/1", MessageKind::Release, Answer::Done, at(60));
    let _ = bench.answer("b", "grc-t-1/1", MessageKind::Release, Answer::Done, at(70));
    let effects = bench.release("grc-t-1", at(80));
    assert_eq!((sends(&effects), told(&effects)), (vec![], vec![(OTHER, State::Terminated)]));
    let unknown = Reply::Release(Token::new(OTHER), ReleaseReply::Unknown);
    assert_eq!(replies(&bench.release("grc-t-9", at(90))), [unknown]);
}

#[test]
fn ids_are_never_given_twice() {
    let mut bench = Bench::new();
    let mut ids = Vec::new();
    for round in 0..4 {
        for number in 0..3 {
            let request = format!("r{round}-{number}");
            let _ = bench.reserve(&request, &[plan(&["a"]), plan(&["a"])], at(round));
            let known = bench.core.find(&request).unwrap();
            let (id, first) =
                (known.id.to_string(), known.transaction.clone().unwrap().to_string());
            if number == 0 {
                let no = refused(Reason::InsufficientCapacity);
                let sent = bench.answer("a", &first, MessageKind::Hold, no, at(round));
                assert_eq!(sends(&sent), ["a Hold"], "refused at once, the next plan is tried");
            }
            ids.push(bench.core.find(&request).unwrap().transaction.clone().unwrap());
            ids.push(txn(&id));
        }
        let _ = bench.restart(at(round));
    }
    let count = ids.len();
    assert_eq!(ids.into_iter().collect::<BTreeSet<_>>().len(), count);
}

#[test]
fn a_late_end_of_an_attempt_left_behind_never_ends_the_reservation() {
    let mut bench = Bench::new();
    let _ = bench.reserve("r1", &[plan(&["a", "b"]), plan(&["b"])], at(0));
    let _ = bench.held("b", "grc-t-1/1", 900, at(10));
    assert_eq!(sends(&bench.step(CoordinatorInput::Tick, at(7_000))), ["a Abort", "b Abort"]);
    let _ = bench.answer("b", "grc-t-1/1", MessageKind::Abort, Answer::Done, at(7_010));
    let next = bench.step(CoordinatorInput::Tick, at(12_000));
    assert_eq!(sends(&next), ["b Hold"], "patience with the silent one is over");
    let _ = bench.held("b", "grc-t-1/2", 900, at(12_010));
    let _ = bench.answer("b", "grc-t-1/2", MessageKind::Commit, Answer::Done, at(12_020));
    assert_eq!(bench.state("grc-t-1"), State::Confirmed);
    let sent = bench.restart(at(13_000));
    assert_eq!(sends(&sent), ["a Abort", "b Abort"]);
    // It is released, and ends only after the old attempt has ended.
    assert_eq!(sends(&bench.release("grc-t-1", at(13_001))), ["b Release"]);
    let _ = bench.answer("b", "grc-t-1/2", MessageKind::Release, Answer::Done, at(13_010));
    assert_eq!(bench.state("grc-t-1"), State::Terminating);
    let _ = bench.answer("b", "grc-t-1/1", MessageKind::Abort, Answer::Done, at(13_020));
    let effects = bench.answer("a", "grc-t-1/1", MessageKind::Abort, Answer::Done, at(13_030));
    assert_eq!(told(&effects), [(OTHER, State::Terminated)]);
}

#[test]
fn a_commit_that_is_denied_is_a_mixed_outcome_and_the_denier_has_nothing_to_let_go() {
    let mut bench = Bench::decided();
    let _ = bench.answer("a", "grc-t-1/1", MessageKind::Commit, Answer::Done, at(30));
    let effects = bench.answer("b", "grc-t-1/1", MessageKind::Commit, Answer::Denied, at(40));
    assert!(matches!(bench.last(), CoordinatorRecord::Mixed { .. }));
    assert_eq!(sends(&effects), ["a Release", "b Release"], "b may have booked before");
    let _ = bench.answer("a", "grc-t-1/1", MessageKind::Release, Answer::Done, at(50));
    let effects = bench.answer("b", "grc-t-1/1", MessageKind::Release, Answer::Denied, at(60));
    assert_eq!(told(&effects), [(USER, State::Failed)], "it says that nothing of it is there");
    assert_eq!(bench.core.find("r1").unwrap().refusal.as_ref().unwrap().reason, Reason::Mixed);
}

/// A refusal of a message that is not the answer of the RM it was for.
fn foreign() -> [Delivery; 2] {
    [Delivery::Rejected("a proxy".into()), Delivery::Answered(Answer::OtherContent)]
}

#[test]
fn no_foreign_status_undoes_a_decision() {
    for delivery in foreign() {
        let mut bench = Bench::decided();
        for (kind, later) in [(MessageKind::Commit, at(300)), (MessageKind::Release, at(900))] {
            if kind == MessageKind::Release {
                let _ = bench.release("grc-t-1", at(600));
            }
            let _ = bench.answer("a", "grc-t-1/1", kind, Answer::Done, at(30));
            let (rm, txn, delivery) = (rm("b"), txn("grc-t-1/1"), delivery.clone());
            let input = CoordinatorInput::Delivered { rm, txn, kind, delivery };
            assert_eq!(bench.step(input, later), []);
            let again = format!("b {kind:?}");
            let tick = Now { boot: bench.core.next_wake().unwrap(), ..later };
            assert_eq!(sends(&bench.step(CoordinatorInput::Tick, tick)), [again]);
        }
    }
}

#[test]
fn a_foreign_status_may_end_an_attempt_and_never_its_cleaning_up() {
    for delivery in foreign() {
        let mut bench = Bench::new();
        let _ = bench.reserve("r1", &[plan(&["a", "b"])], at(0));
        let _ = bench.held("a", "grc-t-1/1", 900, at(5));
        let input = |kind| {
            let (rm, txn, delivery) = (rm("b"), txn("grc-t-1/1"), delivery.clone());
            CoordinatorInput::Delivered { rm, txn, kind, delivery }
        };
        let sent = bench.step(input(MessageKind::Hold), at(10));
        assert_eq!(sends(&sent), ["a Abort", "b Abort"], "its first yes may have been lost");
        let _ = bench.answer("a", "grc-t-1/1", MessageKind::Abort, Answer::Done, at(20));
        assert_eq!(bench.step(input(MessageKind::Abort), at(30)), [], "b may hold on");
        assert_eq!(sends(&bench.step(CoordinatorInput::Tick, at(300))), ["b Abort"]);
        let told_early = told(&bench.step(CoordinatorInput::Tick, at(9_000)));
        assert_eq!(told_early, [(USER, State::Aborting)], "indefinite: b has not answered");
        assert_eq!(sends(&bench.restart(at(10_000))), ["a Abort", "b Abort"], "and it goes on");
        let _ = bench.answer("a", "grc-t-1/1", MessageKind::Abort, Answer::Done, at(10_010));
        let _ = bench.answer("b", "grc-t-1/1", MessageKind::Abort, Answer::Done, at(10_020));
        assert_eq!(bench.state("grc-t-1"), State::Failed);
    }
}

#[test]
fn a_hold_that_is_denied_is_aborted_at_the_denier_too() {
    let mut bench = Bench::new();
    let _ = bench.reserve("r1", &[plan(&["a", "b"])], at(0));
    let sent = bench.answer("a", "grc-t-1/1", MessageKind::Hold, Answer::Denied, at(10));
    assert_eq!(sends(&sent), ["a Abort", "b Abort"], "its first yes may have been lost");
    let _ = bench.answer("a", "grc-t-1/1", MessageKind::Abort, Answer::Denied, at(20));
    let effects = bench.answer("b", "grc-t-1/1", MessageKind::Abort, Answer::Done, at(30));
    assert_eq!(told(&effects), [(USER, State::Failed)]);
}

#[test]
fn an_answer_that_does_not_fit_its_message_is_no_answer() {
    let mut bench = Bench::decided();
    let held = Answer::Held { expires_in: Span::from_secs(900), servers: Vec::new() };
    let _ = bench.answer("a", "grc-t-1/1", MessageKind::Commit, held, at(30));
    let _ = bench.answer("b", "grc-t-1/1", MessageKind::Commit, Answer::Done, at(40));
    assert_eq!(bench.state("grc-t-1"), State::Committing, "I6: a has not said that it booked");
}

#[test]
fn what_was_undecided_at_a_restart_is_aborted_and_nothing_else_is_tried() {
    let mut bench = Bench::new();
    let _ = bench.reserve("r1", &[plan(&["a"]), plan(&["b"])], at(0));
    assert_eq!(sends(&bench.restart(at(10))), ["a Abort"]);
    assert_eq!(bench.state("grc-t-1"), State::Aborting);
    assert_eq!(sends(&bench.restart(at(20))), ["a Abort"], "and so it is at the next one");
    let _ = bench.answer("a", "grc-t-1/1", MessageKind::Abort, Answer::Done, at(30));
    assert_eq!(bench.state("grc-t-1"), State::Failed);
    let again = open(ticket("r1", "c"), OTHER);
    assert_eq!(told(&bench.step(again, at(40))), [(OTHER, State::Failed)], "I8");
    assert_eq!(bench.restart(at(50)), []);
}

#[test]
fn a_log_that_does_not_fit_stops_the_replay() {
    let bench = Bench::confirmed();
    let mut core = bench.core.clone();
    for record in &bench.log {
        assert!(core.apply(record).is_err(), "twice: {record:?}");
    }
    let conclude = CoordinatorRecord::Concluded {
        reservation: ReservationId::composed("grc-t-1"),
        refusal: restarted(),
        notes: None,
        state: State::Failed,
        at: at(99),
    };
    assert!(core.apply(&conclude).is_err(), "what is confirmed cannot have failed");
    core.check_invariants().unwrap();
}

#[test]
fn the_first_hold_to_end_is_known_until_it_is_booked() {
    let mut bench = Bench::new();
    bench.reserve("r1", &[plan(&["a", "b"])], at(0));
    let ends = |bench: &Bench| bench.core.hold_ends(bench.core.find("grc-t-1").unwrap());
    assert_eq!(ends(&bench), None, "nobody has said yet");
    bench.held("b", "grc-t-1/1", 900, at(10));
    assert_eq!(ends(&bench), Some(at(900_000).boot), "counted from before the Hold left");
    bench.held("a", "grc-t-1/1", 60, at(20));
    assert_eq!(ends(&bench), Some(at(60_000).boot));
    let CoordinatorRecord::Decided { expires_in, state, .. } = bench.last() else { panic!() };
    assert_eq!(*expires_in, Some(Span::from_millis(60_000 - 20)));
    assert_eq!(*state, State::Committing);
    bench.answer("a", "grc-t-1/1", MessageKind::Commit, Answer::Done, at(30));
    assert_eq!(ends(&bench), Some(at(900_000).boot), "one is booked, the other is held yet");
    bench.answer("b", "grc-t-1/1", MessageKind::Commit, Answer::Done, at(40));
    assert_eq!(ends(&bench), None);
    let CoordinatorRecord::Finished { state, .. } = bench.last() else { panic!() };
    assert_eq!(*state, State::Confirmed);
    let txn = txn("grc-t-1/1");
    assert_eq!(bench.core.reservation_of(&txn).unwrap().id.as_str(), "grc-t-1");
    assert!(!bench.core.is_aborted(&txn));
}

/// Found by guided fuzzing: an id, as long as an id in a log may be, of a reservation that does not exist.
#[test]
fn a_record_of_a_reservation_with_the_longest_id_there_is_does_not_fit() {
    let longest = "g".repeat(2 * limits::NAME_LEN_MAX);
    let reservation: ReservationId = serde_json::from_value(longest.into()).unwrap();
    let refusal = Refusal::new(Reason::TimedOut, "no");
    let record = CoordinatorRecord::Concluded {
        reservation,
        refusal,
        notes: None,
        state: State::Failed,
        at: at(0),
    };
    assert!(Bench::new().core.apply(&record).is_err());
}

#[test]
fn epochs_rise_whatever_the_store_counts_and_are_in_the_snapshot() {
    use crate::snapshot::Snapshot;
    let mut bench = Bench::new();
    assert_eq!(bench.core.epoch(), 0);
    let elect = |bench: &mut Bench, number, member: &str| {
        let epoch = bench.core.next_epoch(number);
        let _ = bench.step(CoordinatorInput::Elected { epoch, member: member.into() }, at(1));
        bench.core.epoch()
    };
    assert_eq!(elect(&mut bench, 700, "a"), 700);
    // A new store counts from the beginning.
    assert_eq!(elect(&mut bench, 5, "b"), 701);
    let again = CoordinatorRecord::LeaderElected { epoch: 701, member: "a".into(), at: at(2) };
    assert!(bench.core.apply(&again).is_err());
    let mut restored = fresh();
    for part in bench.core.take_changed().into_iter().filter_map(|changed| changed.part) {
        restored.restore(part).unwrap();
    }
    restored.restored(3).unwrap();
    assert_eq!(restored.epoch(), 701);
    let _ = bench.restart(at(3));
    assert_eq!(bench.core.epoch(), 701);
}
