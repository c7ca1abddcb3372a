//! What is kept of a parent's long Hold that was refused.

use super::*;

/// A parent's Hold of more segments than are kept of one that was refused.
fn long() -> HoldOrder {
    let whole = order("u");
    let segments = vec![whole.segments[0].clone(); limits::HOLD_SEGMENTS_MAX];
    HoldOrder { segments, ..whole }
}

/// Its beginning is kept, and it is still told from another one.
fn is_short(bench: &mut Bench) {
    let entry = &bench.core.parent_entries()[&txn("u")];
    let (kept, _) = entry.order.as_ref().unwrap();
    assert_eq!(kept.segments.len(), limits::REFUSED_SEGMENTS_KEPT);
    let beginning = kept.clone();
    let mut other = long();
    other.segments.last_mut().unwrap().amount.0 += 1;
    for _ in 0..2 {
        let again = bench.parent_holds(long(), at(40));
        assert_eq!(reason(&again), Reason::InsufficientCapacity, "I8");
        for other in [&other, &beginning] {
            let answers = [(USER, Answer::OtherContent)];
            assert_eq!(said(&bench.parent_holds(other.clone(), at(41))), answers);
        }
        let _ = bench.restart(at(50));
    }
}

#[test]
fn of_a_long_hold_that_planning_refuses_the_beginning_is_recorded() {
    let mut bench = Bench::child(parents());
    let why = Refusal::new(Reason::InsufficientCapacity, "full");
    let refused = bench.planned_for_parent(long(), Err(why), at(0));
    assert_eq!(reason(&refused), Reason::InsufficientCapacity);
    let bytes = bench.log.iter().map(|record| serde_json::to_string(record).unwrap().len());
    assert!(bytes.max().unwrap() < 10_000);
    is_short(&mut bench);
}

#[test]
fn of_a_long_hold_that_an_inner_rm_refuses_the_beginning_is_kept() {
    let mut bench = Bench::child(parents());
    let _ = bench.planned_for_parent(long(), Ok(vec![plan(&["a"])]), at(0));
    let no = refused(Reason::InsufficientCapacity);
    let _ = bench.answer("a", TRY, MessageKind::Hold, no, at(10));
    let none = Err(Refusal::new(Reason::InsufficientCapacity, "nothing is free any more"));
    assert_eq!(reason(&bench.replanned(none, at(20))), Reason::InsufficientCapacity);
    assert_eq!(bench.core.find(ID).unwrap().candidate, None);
    is_short(&mut bench);
}

#[test]
fn a_long_hold_that_is_booked_is_kept_whole() {
    let mut bench = Bench::child(parents());
    let _ = bench.planned_for_parent(long(), Ok(vec![plan(&["a"])]), at(0));
    let _ = bench.held("a", TRY, 60, at(10));
    let _ = bench.parent_ends("u", MessageKind::Commit, at(30));
    let _ = bench.answer("a", TRY, MessageKind::Commit, Answer::Done, at(50));
    let _ = bench.restart(at(60));
    let (kept, _) = bench.core.parent_entries()[&txn("u")].order.clone().unwrap();
    assert_eq!(kept, long());
}
