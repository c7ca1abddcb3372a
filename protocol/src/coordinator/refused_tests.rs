//! What is kept of users' reservations that were refused.

use coalloc_common::{Reason, Refusal, limits};

use super::tests::{
    Bench, USER, at, open, open_change, plan, refused, replies, request_planned, stands, ticket,
};
use super::*;
use crate::conversation::{
    Caller, ChangeEnd, ConversationInput, Next, PlanJob, PlanTarget, Planned,
};
use crate::message::Answer;

const ID: &str = "grc-t-1";

/// A coordinator whose shell keeps the first letter of long notes.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.core.set_short_notes(|notes| notes[..1].to_owned());
    bench
}

fn no() -> Refusal {
    Refusal::new(Reason::InsufficientCapacity, "full")
}

fn notes(bytes: usize) -> String {
    "n".repeat(bytes)
}

fn planned(notes: String, outcome: Result<Vec<Candidate>, Refusal>) -> Planned {
    Planned { outcome, replans: Some(0), notes }
}

const MOST: usize = limits::REFUSED_NOTES_BYTES_MAX;

#[test]
fn long_notes_of_what_planning_refuses_are_not_recorded() {
    for (bytes, kept) in [(MOST, MOST), (MOST + 1, 1)] {
        let mut bench = bench();
        let _ = bench.step(open(ticket("r", "c"), USER), at(0));
        let _ = bench.step(request_planned("r", planned(notes(bytes), Err(no())), USER), at(1));
        assert_eq!(bench.core.find(ID).unwrap().notes.len(), kept);
        assert!(serde_json::to_string(bench.last()).unwrap().len() < kept + 500);
        let _ = bench.restart(at(2));
        let again = bench.step(open(ticket("r", "c"), USER), at(3));
        assert_eq!(stands(&again)[0].1.refusal, Some(no()), "I8");
    }
}

#[test]
fn long_notes_and_candidates_end_with_the_last_attempt() {
    for (bytes, details, kept) in [(100, 100, 100), (MOST + 1, 0, 1), (100, MOST, 1)] {
        let mut bench = bench();
        let details = Details::from(notes(details));
        let candidate = Candidate { details, ..plan(&["a", "b"]) };
        let _ = bench.step(open(ticket("r", "c"), USER), at(0));
        let candidates = planned(notes(bytes), Ok(vec![candidate]));
        let _ = bench.step(request_planned("r", candidates, USER), at(1));
        assert_eq!(bench.core.find(ID).unwrap().notes.len(), bytes, "it may still be booked");
        let refused = refused(Reason::InsufficientCapacity);
        let _ = bench.answer("a", "grc-t-1/1", MessageKind::Hold, refused, at(2));
        assert_eq!(bench.core.find(ID).unwrap().notes.len(), bytes, "it waits for b");
        let _ = bench.answer("b", "grc-t-1/1", MessageKind::Abort, Answer::Done, at(3));
        let known = bench.core.find(ID).unwrap();
        assert_eq!((known.state, known.notes.len()), (State::Failed, kept));
        assert_eq!(known.candidate.is_some(), kept > 1);
        let _ = bench.restart(at(4));
    }
}

#[test]
fn a_change_that_planning_refuses_leaves_no_long_notes() {
    let mut bench = Bench::confirmed();
    let change = ChangeTicket {
        reservation: ReservationId::composed(ID),
        change: RequestId::composed("later"),
        content: "d".into(),
    };
    let _ = bench.step(open_change(change.clone(), USER), at(50));
    let job = PlanJob::first(PlanTarget::Change(change.reservation.clone()));
    let caller = Caller::Change(Token::new(USER));
    let planned = planned(notes(MOST + 1), Err(no()));
    let _ = bench.step(ConversationInput::Planned { job, planned, caller }.into(), at(51));
    let longest = bench.log.iter().map(|record| serde_json::to_string(record).unwrap().len());
    assert!(longest.max().unwrap() < 2_000);
    let again = bench.step(open_change(change, USER), at(52));
    let [Reply::Change(_, Next::Done(ChangeEnd::Stands(known)))] = &replies(&again)[..] else {
        panic!("{again:?}")
    };
    assert_eq!(known.change.as_ref().unwrap().refusal, Some(no()), "I8");
    let _ = bench.restart(at(53));
}
