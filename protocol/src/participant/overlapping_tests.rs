//! Segments of one resource that overlap in one Hold: their amounts add up, to the exact capacity. By-server sites are
//! in `server_tests`, inner networks in `nrm`.

use coalloc_common::{Reason, Segment};

use super::tests::{abort, at, commit, hold, order, participant, reason, release, user, window};
use super::*;

fn path() -> ResourceId {
    ResourceId::composed("N0-N1")
}

#[test]
fn overlapping_segments_of_one_hold_add_up_to_the_exact_capacity() {
    // 400 over the first half, 600 over the second, 400 over all of it: 800, then 1,000 of 1,000.
    let parts = |last: u64| {
        let part = |amount, window| Segment { resource: path(), amount: Amount(amount), window };
        vec![
            part(400, window(3_600, 5_400)),
            part(600, window(5_400, 7_200)),
            part(last, window(3_600, 7_200)),
        ]
    };
    let of =
        |name, last| HoldOrder { segments: parts(last), ..order(name, 1, window(3_600, 7_200)) };
    let mut p = participant();
    let refused = hold(&mut p, of("t1", 401), at(1));
    let Answer::Refused(refusal) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.reason, Reason::InsufficientCapacity);
    // The segments before it count, whichever of them: 1,000 - 600 are left in the second half.
    assert_eq!((refusal.requested, refusal.available), (Some(Amount(401)), Some(Amount(400))));
    assert_eq!(refusal.window, Some(window(3_600, 7_200)));
    assert!(matches!(hold(&mut p, of("t2", 400), at(1)), Answer::Held { .. }));
    let free = |p: &Participant, window| p.availability(&[window], &user(), None, at(1))[0][0];
    assert_eq!(free(&p, window(3_600, 5_400)), Amount(200));
    assert_eq!(free(&p, window(5_400, 7_200)), Amount(0));
    assert_eq!(commit(&mut p, "t2", at(2)), Answer::Done);
    assert_eq!(
        reason(hold(&mut p, order("t3", 1, window(5_400, 5_401)), at(3))),
        Reason::InsufficientCapacity
    );
    assert!(matches!(
        hold(&mut p, order("t4", 200, window(3_600, 5_400)), at(3)),
        Answer::Held { .. }
    ));
    assert_eq!(abort(&mut p, "t4", at(4)), Answer::Done);
    assert_eq!(release(&mut p, "t2", at(4)), Answer::Done);
    assert_eq!(free(&p, window(3_600, 7_200)), Amount(1_000), "everything is free again");
}

#[test]
fn the_same_segment_twice_takes_twice_as_much() {
    let day = window(3_600, 7_200);
    let twice = |name, amount| {
        let one = Segment { resource: path(), amount: Amount(amount), window: day };
        HoldOrder { segments: vec![one.clone(), one], ..order(name, 1, day) }
    };
    let mut p = participant();
    assert_eq!(reason(hold(&mut p, twice("t1", 501), at(1))), Reason::InsufficientCapacity);
    assert!(matches!(hold(&mut p, twice("t2", 500), at(1)), Answer::Held { .. }));
    assert_eq!(reason(hold(&mut p, order("t3", 1, day), at(1))), Reason::InsufficientCapacity);
}
