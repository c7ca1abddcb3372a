//! A full disk (I17): nothing new is begun, and what has begun is decided and finished.

use super::tests::{Bench, OTHER, USER, at, plan, replies, rm, sends, ticket, txn};
use super::*;
use crate::message::{Answer, Delivery};

fn tell(bench: &mut Bench, room: DiskSpace) {
    assert_eq!(bench.step(CoordinatorInput::Room(room), at(1)), []);
}

fn open(request: &str, token: Token) -> CoordinatorInput {
    CoordinatorInput::Open { ticket: ticket(request, "c"), token }
}

fn reserve(request: &str) -> CoordinatorInput {
    let (request, candidates) = (RequestId::composed(request), vec![plan(&["a"])]);
    CoordinatorInput::Reserve {
        request,
        candidates,
        replans: None,
        notes: String::new(),
        token: USER,
    }
}

#[test]
fn a_full_disk_begins_nothing_and_writes_nothing_of_it() {
    let mut bench = Bench::new();
    tell(&mut bench, DiskSpace::Low);
    let before = bench.log.len();
    assert_eq!(replies(&bench.step(open("r1", USER), at(2))), [(USER, Reply::NoRoom)]);
    tell(&mut bench, DiskSpace::Enough);
    // Planned while there was space, and tried when there is none: every waiting caller gets the refusal.
    assert_eq!(replies(&bench.step(open("r1", USER), at(3))), [(USER, Reply::Plan)]);
    assert_eq!(replies(&bench.step(open("r1", OTHER), at(3))), []);
    tell(&mut bench, DiskSpace::Low);
    let told = bench.step(reserve("r1"), at(4));
    assert_eq!(replies(&told), [(OTHER, Reply::NoRoom), (USER, Reply::NoRoom)]);
    assert_eq!((bench.log.len(), sends(&told).len()), (before, 0));
    // When there is space again, the same id is a new request.
    tell(&mut bench, DiskSpace::Enough);
    assert_eq!(replies(&bench.step(open("r1", USER), at(5))), [(USER, Reply::Plan)]);
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
    // The same request still gets its answer, an RM that asks gets the decision, and the user may release.
    assert!(matches!(
        &replies(&bench.step(open("r1", OTHER), at(21)))[..],
        [(_, Reply::Stands(_))]
    ));
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
