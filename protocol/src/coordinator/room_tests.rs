//! A full disk (I17): nothing new is begun, and what has begun is decided and finished.

use super::tests::{
    Bench, OTHER, USER, at, plan, plans_request, replies, request_end, request_planned, rm, sends,
    stands, ticket, txn,
};
use super::*;
use crate::conversation::RequestEnd;
use crate::message::{Answer, Delivery};

fn tell(bench: &mut Bench, room: DiskSpace) {
    assert_eq!(bench.step(CoordinatorInput::Room(room), at(1)), []);
}

fn open(request: &str, who: u64) -> CoordinatorInput {
    super::tests::open(ticket(request, "c"), who)
}

fn reserve(request: &str) -> CoordinatorInput {
    request_planned(request, Ok(vec![plan(&["a"])]), USER)
}

#[test]
fn a_full_disk_begins_nothing_and_writes_nothing_of_it() {
    let mut bench = Bench::new();
    tell(&mut bench, DiskSpace::Low);
    let before = bench.log.len();
    assert_eq!(
        replies(&bench.step(open("r1", USER), at(2))),
        [request_end(USER, RequestEnd::DiskFull)]
    );
    tell(&mut bench, DiskSpace::Enough);
    // Planned while there was space, and tried when there is none: every waiting caller gets the refusal.
    assert_eq!(replies(&bench.step(open("r1", USER), at(3))), [plans_request(USER, "r1")]);
    assert_eq!(replies(&bench.step(open("r1", OTHER), at(3))), []);
    tell(&mut bench, DiskSpace::Low);
    let told = bench.step(reserve("r1"), at(4));
    let full = |who| request_end(who, RequestEnd::DiskFull);
    assert_eq!(replies(&told), [full(OTHER), full(USER)]);
    assert_eq!((bench.log.len(), sends(&told).len()), (before, 0));
    // When there is space again, the same id is a new request.
    tell(&mut bench, DiskSpace::Enough);
    assert_eq!(replies(&bench.step(open("r1", USER), at(5))), [plans_request(USER, "r1")]);
    assert_eq!(sends(&bench.step(reserve("r1"), at(6))), ["a Hold"]);
}

#[test]
fn a_full_disk_decides_and_finishes_what_has_begun() {
    let mut bench = Bench::new();
    let _ = bench.reserve("r1", &[plan(&["a", "b"])], at(0));
    tell(&mut bench, DiskSpace::Low);
    let _ = bench.held("a", "grc-t-1/1", 900, at(10));
    assert_eq!(sends(&bench.held("b", "grc-t-1/1", 900, at(11))), ["a Commit", "b Commit"]);
    for name in ["a", "b"] {
        let _ = bench.answer(name, "grc-t-1/1", MessageKind::Commit, Answer::Done, at(20));
    }
    assert_eq!(bench.state("grc-t-1"), State::Confirmed);
    // The same request gets its answer; an RM that asks does, too; and the user may end it.
    assert_eq!(stands(&bench.step(open("r1", OTHER), at(21))).len(), 1);
    assert_eq!(sends(&bench.release("grc-t-1", at(30))), ["a Release", "b Release"]);
    for name in ["a", "b"] {
        let _ = bench.answer(name, "grc-t-1/1", MessageKind::Release, Answer::Done, at(40));
    }
    assert_eq!(bench.state("grc-t-1"), State::Terminated);
}

#[test]
fn an_attempt_more_is_a_beginning() {
    let mut bench = Bench::new();
    let _ = bench.reserve("r1", &[plan(&["a"]), plan(&["b"])], at(0));
    tell(&mut bench, DiskSpace::Low);
    let no = Answer::Refused(Refusal::new(Reason::InsufficientCapacity, "taken"));
    let delivery = Delivery::Answered(no);
    let (rm, kind) = (rm("a"), MessageKind::Hold);
    let told = bench
        .step(CoordinatorInput::Delivered { rm, txn: txn("grc-t-1/1"), kind, delivery }, at(10));
    assert_eq!(sends(&told), Vec::<String>::new(), "nothing at b");
    assert_eq!(bench.state("grc-t-1"), State::Failed);
    let refusal = bench.core.find("r1").unwrap().refusal.clone().unwrap();
    assert_eq!(refusal.reason, Reason::DiskFull);
    let _ = bench.restart(at(20));
    assert_eq!(bench.state("grc-t-1"), State::Failed);
}
