//! The coordinator as a participant: what it answers to its parent coordinators, and when. The messages of its
//! own RMs and of the parent are written by hand.

mod changes;
mod giving_up;
mod leaders;
mod refused;

use coalloc_common::{Time, UserName, limits};

use super::tests::{
    Bench, OTHER, USER, at, open_change, plan, plans_again, refused, replies, resolution, sends,
};
use super::*;
use crate::conversation::{
    Caller, ChangeEnd, ConversationInput, Next, Opening, ParentReply, PlanJob, PlanTarget,
};
use crate::message::{Answer, HoldOrder};

/// The reservation for the parent's first hold; `TRY` is the transaction of its first attempt.
const ID: &str = "grc-t-1";
const TRY: &str = "grc-t-1/1";

/// A transaction of the parent `top`, identified by a short name.
fn txn(name: &str) -> TransactionId {
    let number = name.bytes().fold(0_u64, |number, byte| number << 8 | u64::from(byte));
    TransactionId::composed(format!("top-t-{number}/1"))
}

fn parents() -> ParentConfig {
    ParentConfig {
        coordinators: ["top", "top-2"].map(CoordinatorName::composed).into(),
        soft: Span::from_secs(30),
        hard: Span::from_secs(120),
        boot: "boot-1".to_owned(),
    }
}

fn order(id: &str) -> HoldOrder {
    let mut segments = plan(&["x"]).segments;
    HoldOrder {
        txn: txn(id),
        coordinator: CoordinatorName::composed("top"),
        user: UserName::composed("UserA"),
        segments: segments.remove(&RmName::composed("x")).unwrap(),
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    }
}

fn no_more() -> [CoordinatorEffect; 0] {
    []
}

impl Bench {
    /// A Hold arrives from the parent.
    fn parent_holds(&mut self, order: HoldOrder, now: Now) -> Vec<CoordinatorEffect> {
        let opening = Opening::ParentHold(order, Token::new(USER));
        self.step(ConversationInput::Open(opening).into(), now)
    }

    /// The same Hold again, with the result of its planning.
    fn planned_for_parent(
        &mut self,
        order: HoldOrder,
        planned: Result<Vec<Candidate>, Refusal>,
        now: Now,
    ) -> Vec<CoordinatorEffect> {
        self.planned(PlanJob::first(PlanTarget::ParentHold(order)), planned, now)
    }

    fn planned(
        &mut self,
        job: PlanJob,
        outcome: Result<Vec<Candidate>, Refusal>,
        now: Now,
    ) -> Vec<CoordinatorEffect> {
        let (planned, caller) = (outcome.into(), Caller::ParentHold(Token::new(USER)));
        self.step(ConversationInput::Planned { job, planned, caller }.into(), now)
    }

    fn parent_ends(&mut self, id: &str, kind: MessageKind, now: Now) -> Vec<CoordinatorEffect> {
        self.parent_ends_by("top", id, kind, now)
    }

    fn parent_ends_by(
        &mut self,
        by: &str,
        id: &str,
        kind: MessageKind,
        now: Now,
    ) -> Vec<CoordinatorEffect> {
        let by = CoordinatorName::composed(by);
        let upper = ParentInput::End { txn: txn(id), by, kind, epoch: 0, token: Token::new(OTHER) };
        self.step(CoordinatorInput::Parent(upper), now)
    }

    /// Passes in the result of planning the first reservation again.
    fn replanned(
        &mut self,
        outcome: Result<Vec<Candidate>, Refusal>,
        now: Now,
    ) -> Vec<CoordinatorEffect> {
        self.planned(PlanJob::again(ReservationId::composed(ID), Vec::new()), outcome, now)
    }

    fn parent_resolves(&mut self, id: &str, is: Resolution, now: Now) -> Vec<CoordinatorEffect> {
        let upper = ParentInput::Resolved { txn: txn(id), resolution: is };
        self.step(CoordinatorInput::Parent(upper), now)
    }

    /// The parent's transaction `u` is being held at `a` and `b` from 0 ms on.
    fn holding() -> Self {
        let mut bench = Self::child(parents());
        let job = PlanJob::first(PlanTarget::ParentHold(order("u")));
        assert_eq!(
            replies(&bench.parent_holds(order("u"), at(0))),
            [Reply::ParentHold(Token::new(USER), Next::Plan(job))]
        );
        let sent = bench.planned_for_parent(order("u"), Ok(vec![plan(&["a", "b"])]), at(0));
        assert_eq!(sends(&sent), ["a Hold", "b Hold"]);
        assert_eq!(replies(&sent), [], "not before it is held");
        bench
    }

    /// Both RMs hold for 60 s, and the parent has been answered.
    fn prepared() -> Self {
        let mut bench = Self::holding();
        assert_eq!(bench.held("a", TRY, 60, at(10)), no_more());
        let effects = bench.held("b", TRY, 60, at(20));
        assert_eq!(sends(&effects), [""; 0], "nothing is decided here");
        let promised = Span::from_millis(60_000 - 20).saturating_sub(limits::COMMIT_MARGIN);
        assert_eq!(
            said(&effects),
            [(USER, Answer::Held { expires_in: promised, servers: Vec::new() })]
        );
        assert_eq!(bench.state(ID), State::Held);
        bench
    }

    /// Committed by the parent and booked at both RMs, at 60 ms.
    fn booked() -> Self {
        let mut bench = Self::prepared();
        let _ = bench.parent_ends("u", MessageKind::Commit, at(30));
        let _ = bench.answer("a", TRY, MessageKind::Commit, Answer::Done, at(50));
        let _ = bench.answer("b", TRY, MessageKind::Commit, Answer::Done, at(60));
        assert_eq!(bench.state(ID), State::Confirmed);
        bench
    }

    /// Both RMs of the coordinator report the end.
    fn ended_inside(&mut self, kind: MessageKind, now: Now) -> Vec<CoordinatorEffect> {
        assert_eq!(replies(&self.answer("a", TRY, kind, Answer::Done, now)), [], "b is missing");
        self.answer("b", TRY, kind, Answer::Done, now)
    }
}

/// The answers to the parent, by token.
fn said(effects: &[CoordinatorEffect]) -> Vec<(u64, Answer)> {
    let one = |reply| match reply {
        Reply::ParentHold(token, Next::Done(ParentReply::Answered(answer))) => {
            (token.number(), answer)
        }
        Reply::ParentEnd(token, ParentReply::Answered(answer)) => (token.number(), answer),
        other => panic!("an answer to a parent expected: {other:?}"),
    };
    replies(effects).into_iter().map(one).collect()
}

fn reason(effects: &[CoordinatorEffect]) -> Reason {
    match &said(effects)[..] {
        [(_, Answer::Refused(refusal))] => refusal.reason,
        other => panic!("one refusal expected: {other:?}"),
    }
}

fn asks(effects: &[CoordinatorEffect]) -> Vec<String> {
    let one = |effect: &CoordinatorEffect| match effect {
        CoordinatorEffect::AskParent { coordinator, txn } => Some(format!("{coordinator} {txn}")),
        _ => None,
    };
    effects.iter().filter_map(one).collect()
}

const DONE: [(u64, Answer); 1] = [(OTHER, Answer::Done)];

#[test]
fn held_committed_and_done_only_after_every_inner_acknowledgement() {
    let mut bench = Bench::prepared();
    let sent = bench.parent_ends("u", MessageKind::Commit, at(30));
    assert_eq!(sends(&sent), ["a Commit", "b Commit"]);
    assert_eq!(replies(&sent), [], "I6");
    assert_eq!(bench.answer("a", TRY, MessageKind::Commit, Answer::Done, at(40)), no_more());
    let done = bench.answer("b", TRY, MessageKind::Commit, Answer::Done, at(50));
    assert_eq!(said(&done), DONE);
    assert_eq!(bench.state(ID), State::Confirmed);
    for round in 0..2 {
        assert_eq!(said(&bench.parent_ends("u", MessageKind::Commit, at(60))), DONE, "{round}");
        let abort = bench.parent_ends("u", MessageKind::Abort, at(70));
        assert_eq!(reason(&abort), Reason::NotHeld, "only Release ends a booking");
        assert_eq!(bench.restart(at(80)), no_more());
    }
}

#[test]
fn refused_inside_it_is_refused_above_and_nothing_is_left() {
    let mut bench = Bench::holding();
    let _ = bench.held("b", TRY, 60, at(10));
    let no = refused(Reason::InsufficientCapacity);
    let effects = bench.answer("a", TRY, MessageKind::Hold, no, at(20));
    assert_eq!(sends(&effects), ["b Abort"]);
    assert_eq!(replies(&effects), [], "b still holds");
    let ended = bench.answer("b", TRY, MessageKind::Abort, Answer::Done, at(30));
    assert_eq!(plans_again(&ended), [(USER, ID.to_owned())]);
    let none = Err(Refusal::new(Reason::InsufficientCapacity, "nothing is free any more"));
    assert_eq!(reason(&bench.replanned(none, at(35))), Reason::InsufficientCapacity);
    assert_eq!((bench.state(ID), bench.core.unfinished()), (State::Failed, 0));
    for _ in 0..2 {
        let again = bench.parent_holds(order("u"), at(40));
        assert_eq!(reason(&again), Reason::InsufficientCapacity, "I8");
        let commit = bench.parent_ends("u", MessageKind::Commit, at(40));
        assert_eq!(reason(&commit), Reason::InsufficientCapacity);
        assert_eq!(said(&bench.parent_ends("u", MessageKind::Abort, at(40))), DONE);
        assert_eq!(bench.restart(at(50)), no_more());
    }
}

#[test]
fn the_next_plan_is_tried_before_it_is_refused_and_no_plan_is_a_refusal() {
    let mut bench = Bench::child(parents());
    let plans = vec![plan(&["a"]), plan(&["b"])];
    let _ = bench.planned_for_parent(order("u"), Ok(plans), at(0));
    let no = refused(Reason::InsufficientCapacity);
    let next = bench.answer("a", TRY, MessageKind::Hold, no, at(10));
    assert_eq!(sends(&next), ["b Hold"]);
    let effects = bench.held("b", "grc-t-1/2", 60, at(20));
    assert!(matches!(said(&effects)[..], [(USER, Answer::Held { .. })]), "{effects:?}");

    let why = Refusal::new(Reason::OutsideHorizon, "too far");
    let effects = bench.planned_for_parent(order("u2"), Err(why), at(30));
    assert_eq!(reason(&effects), Reason::OutsideHorizon);
    let effects = bench.planned_for_parent(order("u3"), Ok(Vec::new()), at(30));
    assert_eq!(reason(&effects), Reason::NoRoute);
}

#[test]
fn it_is_planned_again_once_while_somebody_waits_and_has_patience() {
    let no = || refused(Reason::InsufficientCapacity);
    // The second of two Hold messages ends the wait of the first, and its caller then plans again.
    let mut bench = Bench::holding();
    let _ = bench.parent_holds(order("u"), at(5));
    let _ = bench.held("b", TRY, 60, at(10));
    let _ = bench.answer("a", TRY, MessageKind::Hold, no(), at(20));
    let _ = bench.answer("b", TRY, MessageKind::Abort, Answer::Done, at(30));
    let waiting = bench.parent_holds(order("u"), at(40));
    assert_eq!(replies(&waiting), [], "it is being planned again");
    let sent = bench.replanned(Ok(vec![plan(&["a"])]), at(50));
    assert_eq!(sends(&sent), ["a Hold"]);
    let effects = bench.answer("a", "grc-t-1/2", MessageKind::Hold, no(), at(60));
    assert_eq!(reason(&effects), Reason::InsufficientCapacity, "once is enough");

    for (waits, refused_at) in [(false, 1_000), (true, 3_000)] {
        let mut bench = Bench::holding();
        if !waits {
            // Aborted: no caller waits for the answer to Hold any more.
            let _ = bench.parent_ends("u", MessageKind::Abort, at(10));
        }
        let _ = bench.held("b", TRY, 60, at(10));
        let _ = bench.answer("a", TRY, MessageKind::Hold, no(), at(refused_at));
        let _ = bench.answer("a", TRY, MessageKind::Abort, Answer::Done, at(refused_at));
        let done = Answer::Done;
        let effects = bench.answer("b", TRY, MessageKind::Abort, done, at(refused_at));
        assert_eq!(plans_again(&effects), [], "{effects:?}");
        assert_eq!(bench.state(ID), State::Failed);
    }
}

#[test]
fn dropped_while_it_is_planned_again_it_is_over() {
    let mut bench = Bench::child(parents());
    let _ = bench.planned_for_parent(order("u"), Ok(vec![plan(&["a"])]), at(0));
    let no = refused(Reason::InsufficientCapacity);
    let again = bench.answer("a", TRY, MessageKind::Hold, no, at(10));
    assert_eq!(plans_again(&again), [(USER, ID.to_owned())]);
    assert_eq!(said(&bench.parent_ends("u", MessageKind::Abort, at(20))), DONE);
    let late = bench.replanned(Ok(vec![plan(&["a"])]), at(30));
    assert_eq!((sends(&late).len(), reason(&late)), (0, Reason::Aborted));
}

#[test]
fn aborted_from_above_at_any_time_before_the_decision() {
    for prepared in [false, true] {
        let mut bench = if prepared { Bench::prepared() } else { Bench::holding() };
        let effects = bench.parent_ends("u", MessageKind::Abort, at(30));
        assert_eq!(sends(&effects), ["a Abort", "b Abort"]);
        assert_eq!(replies(&effects), [], "not before the inner ones have let go");
        let _ = bench.restart(at(35));
        let _ = bench.parent_ends("u", MessageKind::Abort, at(40));
        let effects = bench.ended_inside(MessageKind::Abort, at(50));
        assert_eq!(said(&effects), DONE);
        assert_eq!((bench.state(ID), bench.core.unfinished()), (State::Failed, 0));
        assert_eq!(reason(&bench.parent_ends("u", MessageKind::Commit, at(60))), Reason::Aborted);
        assert_eq!(reason(&bench.parent_holds(order("u"), at(60))), Reason::Aborted);
    }
}

#[test]
fn committed_before_it_was_held_it_is_refused_for_ever() {
    let mut bench = Bench::holding();
    let effects = bench.parent_ends("u", MessageKind::Commit, at(10));
    assert_eq!(sends(&effects), ["a Abort", "b Abort"]);
    assert_eq!(bench.held("a", TRY, 60, at(20)), no_more());
    let _ = bench.answer("a", TRY, MessageKind::Abort, Answer::Done, at(30));
    let ended = bench.answer("b", TRY, MessageKind::Abort, Answer::Done, at(30));
    let answers = said(&ended);
    let no = |(_, answer): &(u64, Answer)| matches!(answer, Answer::Refused(_));
    assert!(answers.len() == 2 && answers.iter().all(no), "the Hold and the Commit: {answers:?}");
    assert_eq!(reason(&bench.parent_ends("u", MessageKind::Commit, at(40))), Reason::NotHeld);
}

#[test]
fn a_booking_is_released_from_above_and_by_nobody_else() {
    let mut bench = Bench::booked();
    assert_eq!(sends(&bench.release(ID, at(70))), [""; 0], "I21");
    assert_eq!(bench.state(ID), State::Confirmed);
    let ticket = ChangeTicket {
        reservation: ReservationId::composed(ID),
        change: RequestId::composed("c"),
        content: String::new(),
    };
    let change = bench.step(open_change(ticket, OTHER), at(70));
    let [Reply::Change(_, Next::Done(ChangeEnd::NotConfirmed(_)))] = &replies(&change)[..] else {
        panic!("{change:?}")
    };

    let effects = bench.parent_ends("u", MessageKind::Release, at(80));
    assert_eq!(sends(&effects), ["a Release", "b Release"]);
    assert_eq!(replies(&effects), []);
    let _ = bench.restart(at(85));
    let _ = bench.parent_ends("u", MessageKind::Release, at(86));
    assert_eq!(said(&bench.ended_inside(MessageKind::Release, at(90))), DONE);
    assert_eq!(bench.state(ID), State::Terminated);
    for kind in [MessageKind::Release, MessageKind::Abort] {
        assert_eq!(said(&bench.parent_ends("u", kind, at(95))), DONE);
    }
    assert_eq!(reason(&bench.parent_ends("u", MessageKind::Commit, at(95))), Reason::Released);
}

#[test]
fn released_while_it_is_being_booked() {
    let mut bench = Bench::prepared();
    let _ = bench.parent_ends("u", MessageKind::Commit, at(30));
    let effects = bench.parent_ends("u", MessageKind::Release, at(40));
    assert_eq!(sends(&effects), ["a Release", "b Release"]);
    let _ = bench.answer("a", TRY, MessageKind::Release, Answer::Done, at(50));
    let ended = said(&bench.answer("b", TRY, MessageKind::Release, Answer::Done, at(50)));
    assert!(matches!(&ended[..], [(_, Answer::Refused(_)), (_, Answer::Done)]), "{ended:?}");
}

#[test]
fn what_was_ended_before_its_hold_came_is_never_held() {
    let mut bench = Bench::child(parents());
    let commit = bench.parent_ends("c", MessageKind::Commit, at(0));
    assert_eq!(reason(&commit), Reason::NotHeld);
    for (id, kind) in [("a", MessageKind::Abort), ("r", MessageKind::Release)] {
        assert_eq!(said(&bench.parent_ends(id, kind, at(0))), DONE);
        assert_eq!(said(&bench.parent_ends(id, kind, at(1))), DONE, "and so for ever");
    }
    // The same is true of one that was being planned when the end came.
    let _ = bench.parent_holds(order("p"), at(1));
    let _ = bench.parent_ends("p", MessageKind::Abort, at(2));
    let effects = bench.planned_for_parent(order("p"), Ok(vec![plan(&["a"])]), at(3));
    assert_eq!((sends(&effects).len(), reason(&effects)), (0, Reason::Aborted));
    let _ = bench.restart(at(5));
    for id in ["c", "a", "r", "p"] {
        let effects = bench.parent_holds(order(id), at(10));
        assert_eq!(reason(&effects), Reason::Aborted, "I9: {id}");
    }
    assert_eq!(bench.core.reservations().count(), 0);
}

#[test]
fn the_same_hold_has_the_same_answer_and_another_content_is_another_hold() {
    let mut bench = Bench::prepared();
    let first = said(&bench.parent_holds(order("u"), at(30)));
    assert!(matches!(first[..], [(_, Answer::Held { .. })]), "{first:?}");
    let mut other = order("u");
    other.segments[0].amount.0 += 1;
    let answers = [(USER, Answer::OtherContent)];
    assert_eq!(said(&bench.parent_holds(other.clone(), at(31))), answers);
    assert_eq!(said(&bench.planned_for_parent(other, Ok(vec![plan(&["a"])]), at(31))), answers);
    let _ = bench.restart(at(40));
    assert_eq!(said(&bench.parent_holds(order("u"), at(50))), first);
    let _ = bench.parent_ends("u", MessageKind::Commit, at(60));
    assert_eq!(said(&bench.parent_holds(order("u"), at(70))), first, "being booked");
    let _ = bench.ended_inside(MessageKind::Commit, at(80));
    assert_eq!(said(&bench.parent_holds(order("u"), at(90))), first, "booked");
}

#[test]
fn a_stranger_and_another_coordinator_are_denied() {
    let mut bench = Bench::prepared();
    let denied = |token| [(token, Answer::Denied)];
    for name in ["top-2", "who"] {
        let stolen = HoldOrder { coordinator: CoordinatorName::composed(name), ..order("u") };
        assert_eq!(said(&bench.parent_holds(stolen, at(30))), denied(USER), "{name}");
        for kind in [MessageKind::Commit, MessageKind::Abort, MessageKind::Release] {
            assert_eq!(said(&bench.parent_ends_by(name, "u", kind, at(30))), denied(OTHER));
        }
    }
    let before = bench.log.len();
    assert_eq!(
        said(&bench.parent_ends_by("who", "new", MessageKind::Abort, at(30))),
        denied(OTHER)
    );
    assert_eq!(bench.log.len(), before, "a stranger leaves no tombstone");
    let _ = bench.parent_ends("mine", MessageKind::Abort, at(30));
    let theirs = HoldOrder { coordinator: CoordinatorName::composed("top-2"), ..order("mine") };
    assert_eq!(said(&bench.parent_holds(theirs, at(40))), denied(USER));
    assert_eq!(bench.state(ID), State::Held);
}

#[test]
fn an_inner_question_about_what_is_prepared_is_passed_on_once_and_never_decided_here() {
    let mut bench = Bench::prepared();
    let effects = bench.resolve(TRY, "a", at(30));
    assert_eq!(resolution(&effects), Resolution::Lost);
    assert_eq!(asks(&effects), ["top top-t-117/1"]);
    let effects = bench.resolve(TRY, "b", at(40));
    assert_eq!((resolution(&effects), asks(&effects).len()), (Resolution::Lost, 0));
    assert_eq!(resolution(&bench.resolve(TRY, "z", at(40))), Resolution::NotMine);
    for lost in [Resolution::Lost, Resolution::NotMine] {
        assert_eq!(bench.parent_resolves("u", lost, at(50)), no_more());
    }
    assert_eq!(bench.state(ID), State::Held);
    let effects = bench.parent_resolves("u", Resolution::Decided(Decision::Commit), at(60));
    assert_eq!(sends(&effects), ["a Commit", "b Commit"]);
    assert_eq!(resolution(&bench.resolve(TRY, "a", at(70))), Resolution::Decided(Decision::Commit));
    let late = bench.parent_resolves("u", Resolution::Decided(Decision::Abort), at(80));
    assert_eq!(late, no_more(), "decided is decided");
}

#[test]
fn an_answer_of_abort_from_above_drops_it() {
    let mut bench = Bench::prepared();
    assert_eq!(asks(&bench.step(CoordinatorInput::Tick, at(30_020))), ["top top-t-117/1"], "soft");
    assert_eq!(asks(&bench.step(CoordinatorInput::Tick, at(31_020))), ["top top-t-117/1"], "again");
    let effects = bench.parent_resolves("u", Resolution::Decided(Decision::Abort), at(31_030));
    assert_eq!(sends(&effects), ["a Abort", "b Abort"]);
    let _ = bench.ended_inside(MessageKind::Abort, at(31_040));
    assert_eq!(bench.state(ID), State::Failed);
    assert_eq!(reason(&bench.parent_ends("u", MessageKind::Commit, at(31_050))), Reason::Aborted);
    let unknown = bench.parent_resolves("u9", Resolution::Decided(Decision::Commit), at(31_060));
    assert_eq!(unknown, no_more());
}

#[test]
fn a_promise_ends_and_a_later_commit_is_refused_for_ever() {
    // The end is noticed by a tick, or by a Commit that arrives before the tick.
    for ticked in [true, false] {
        let mut bench = Bench::prepared();
        let ends = 60_000 - 2_000;
        let _ = bench.step(CoordinatorInput::Tick, at(ends - 1));
        assert_eq!(bench.state(ID), State::Held, "not a millisecond earlier");
        let effects = match ticked {
            true => bench.step(CoordinatorInput::Tick, at(ends)),
            false => bench.parent_ends("u", MessageKind::Commit, at(ends)),
        };
        assert_eq!(sends(&effects), ["a Abort", "b Abort"]);
        let effects = bench.ended_inside(MessageKind::Abort, at(ends + 10));
        assert_eq!(said(&effects).len(), usize::from(!ticked));
        for _ in 0..2 {
            let commit = bench.parent_ends("u", MessageKind::Commit, at(ends + 20));
            assert_eq!(reason(&commit), Reason::Expired);
            assert_eq!(bench.restart(at(ends + 30)), no_more());
        }
        let late = bench.parent_resolves("u", Resolution::Decided(Decision::Commit), at(ends + 40));
        assert_eq!((late.len(), bench.state(ID)), (0, State::Failed));
    }
}

#[test]
fn a_promise_is_no_longer_than_the_policy_says() {
    let mut bench = Bench::child(ParentConfig { hard: Span::from_secs(20), ..parents() });
    let _ = bench.planned_for_parent(order("u"), Ok(vec![plan(&["a"])]), at(0));
    let effects = bench.held("a", TRY, 900, at(10));
    assert_eq!(
        said(&effects),
        [(USER, Answer::Held { expires_in: Span::from_secs(20), servers: Vec::new() })]
    );
}

#[test]
fn prepared_survives_restarts_of_the_process_and_of_the_machine() {
    let mut bench = Bench::prepared();
    let effects = bench.restart(at(1_000));
    assert_eq!(sends(&effects), [""; 0]);
    assert_eq!(bench.state(ID), State::Held);
    assert_eq!(
        asks(&bench.step(CoordinatorInput::Tick, at(1_000))),
        ["top top-t-117/1"],
        "at once"
    );
    // Another boot: boot time starts again, and only the wall clock goes on.
    bench.parents.boot = "boot-2".to_owned();
    let booted = |wall_ms: i64| Now { boot: BootTime::from_us(wall_ms * 1_000), ..at(wall_ms) };
    let _ = bench.restart(booted(10_000));
    let ends = 20 + 60_000 - 20 - 2_000;
    let until = bench.core.promised_until(bench.core.find(ID).unwrap());
    assert_eq!(until, Some(BootTime::from_us(ends * 1_000)));
    let _ = bench.restart(booted(20_000));
    assert_eq!(bench.core.promised_until(bench.core.find(ID).unwrap()), until, "counted once");
    let effects = bench.parent_ends("u", MessageKind::Commit, booted(ends - 1));
    assert_eq!(sends(&effects), ["a Commit", "b Commit"]);
}

#[test]
fn a_promise_never_grows_by_a_wall_clock_that_was_set_back() {
    let mut bench = Bench::prepared();
    bench.parents.boot = "boot-2".to_owned();
    let back = Now { wall: Time::from_us(0), boot: BootTime::from_us(5_000_000) };
    let _ = bench.restart(back);
    let until = bench.core.promised_until(bench.core.find(ID).unwrap()).unwrap();
    assert_eq!(until, BootTime::from_us(5_000_000 + (60_000 - 20 - 2_000) * 1_000));
}

#[test]
fn what_was_not_prepared_at_a_restart_is_aborted_and_refused_above() {
    let mut bench = Bench::holding();
    let _ = bench.held("a", TRY, 60, at(10));
    assert_eq!(sends(&bench.restart(at(20))), ["a Abort", "b Abort"]);
    assert_eq!(bench.parent_holds(order("u"), at(30)), no_more(), "not before they let go");
    let effects = bench.ended_inside(MessageKind::Abort, at(40));
    assert_eq!(reason(&effects), Reason::CoordinatorRestarted);
    let commit = bench.parent_ends("u", MessageKind::Commit, at(50));
    assert_eq!(reason(&commit), Reason::CoordinatorRestarted);
}

#[test]
fn an_inner_refusal_to_book_is_a_mixed_outcome_above_too() {
    let mut bench = Bench::prepared();
    let _ = bench.parent_ends("u", MessageKind::Commit, at(30));
    let no = refused(Reason::Expired);
    let effects = bench.answer("a", TRY, MessageKind::Commit, no, at(40));
    assert_eq!(sends(&effects), ["a Release", "b Release"]);
    assert_eq!(reason(&bench.ended_inside(MessageKind::Release, at(50))), Reason::Mixed);
    assert_eq!(reason(&bench.parent_ends("u", MessageKind::Commit, at(60))), Reason::Mixed);
}

#[test]
fn who_asks_again_takes_the_place_of_who_waited() {
    let mut bench = Bench::holding();
    let sent_again = Reply::ParentHold(Token::new(USER), Next::Done(ParentReply::SentAgain));
    for round in 0..3 {
        let again = bench.parent_holds(order("u"), at(10 + round));
        assert_eq!(replies(&again), std::slice::from_ref(&sent_again), "one waits, not {round}");
    }
    let first = bench.parent_ends("u", MessageKind::Abort, at(20));
    assert_eq!(replies(&first), []);
    let again = bench.parent_ends("u", MessageKind::Abort, at(30));
    let sent_again = Reply::ParentEnd(Token::new(OTHER), ParentReply::SentAgain);
    assert_eq!(replies(&again), [sent_again]);
    let _ = bench.answer("a", TRY, MessageKind::Abort, Answer::Done, at(40));
    let ended = said(&bench.answer("b", TRY, MessageKind::Abort, Answer::Done, at(40)));
    assert_eq!(ended.len(), 2, "the last of each kind: {ended:?}");
    assert_eq!(resolution(&bench.resolve(TRY, "a", at(50))), Resolution::Decided(Decision::Abort));
}
