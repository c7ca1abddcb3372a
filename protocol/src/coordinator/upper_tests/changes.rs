//! Holds from above that replace what is booked here.

use super::*;

/// `u` is booked at `a` and `b`, and `v` shall replace it: it is held at both.
fn changing() -> Bench {
    let mut bench = Bench::booked();
    let new = HoldOrder { replaces: Some(txn("u")), ..order("v") };
    let sent = bench.planned_above(new, Ok(vec![plan(&["b", "c"])]), at(100));
    assert_eq!(sends(&sent), ["a Hold", "b Hold", "c Hold"], "whoever has the old version too");
    for rm in ["a", "b", "c"] {
        let _ = bench.held(rm, NEW, 60, at(110));
    }
    assert_eq!((bench.state(ID), bench.state("grc-t-2")), (State::Confirmed, State::Held));
    bench
}

/// The attempt at `v`.
const NEW: &str = "grc-t-2/1";

#[test]
fn a_new_version_takes_the_place_of_the_old_one_when_all_have_booked_it() {
    let mut bench = changing();
    let _ = bench.end_above("v", MessageKind::Commit, at(120));
    for rm in ["a", "b"] {
        let _ = bench.answer(rm, NEW, MessageKind::Commit, Answer::Done, at(130));
        assert_eq!(bench.state(ID), State::Confirmed);
    }
    let done = bench.answer("c", NEW, MessageKind::Commit, Answer::Done, at(140));
    assert_eq!(said(&done), DONE);
    for _ in 0..2 {
        assert_eq!(
            (bench.state(ID), bench.state("grc-t-2")),
            (State::Terminated, State::Confirmed)
        );
        assert_eq!(reason(&bench.hold_above(order("u"), at(150))), Reason::Replaced);
        assert_eq!(said(&bench.end_above("u", MessageKind::Release, at(150))), DONE);
        assert_eq!(bench.restart(at(160)), no_more());
    }
    let again = HoldOrder { replaces: Some(txn("u")), ..order("w") };
    let effects = bench.planned_above(again, Ok(vec![plan(&["a"])]), at(170));
    assert_eq!(reason(&effects), Reason::Replaced);
    let next = HoldOrder { replaces: Some(txn("v")), ..order("x") };
    let effects = bench.planned_above(next, Ok(vec![plan(&["a"])]), at(180));
    assert_eq!(sends(&effects), ["a Hold", "b Hold", "c Hold"]);
}

#[test]
fn a_change_that_is_dropped_leaves_the_old_version_whole() {
    for ending in ["abort", "expiry", "restart", "refused"] {
        let mut bench = changing();
        match ending {
            "abort" => drop(bench.end_above("v", MessageKind::Abort, at(120))),
            "expiry" => drop(bench.step(CoordinatorInput::Tick, at(60_100))),
            _ => {
                // Not promised yet.
                bench = Bench::booked();
                let new = HoldOrder { replaces: Some(txn("u")), ..order("v") };
                let _ = bench.planned_above(new, Ok(vec![plan(&["a", "b", "c"])]), at(100));
                match ending {
                    "restart" => drop(bench.restart(at(110))),
                    _ => {
                        let no = refused(Reason::TimedOut);
                        let _ = bench.answer("c", NEW, MessageKind::Hold, no, at(110));
                    }
                }
            }
        }
        for rm in ["a", "b", "c"] {
            let _ = bench.answer(rm, NEW, MessageKind::Abort, Answer::Done, at(60_200));
        }
        let states = (bench.state(ID), bench.state("grc-t-2"));
        assert_eq!(states, (State::Confirmed, State::Failed), "{ending}");
        // And it can be changed again.
        let new = HoldOrder { replaces: Some(txn("u")), ..order("w") };
        let sent = bench.planned_above(new, Ok(vec![plan(&["a"])]), at(60_300));
        assert_eq!(sends(&sent), ["a Hold", "b Hold"], "{ending}");
    }
}

#[test]
fn what_cannot_be_replaced_is_refused_for_ever() {
    let mut bench = changing();
    let replaces = |old: &str, new: &str| HoldOrder { replaces: Some(txn(old)), ..order(new) };
    for (old, new) in [("u", "second"), ("v", "of-held"), ("nobody", "of-nobody")] {
        for _ in 0..2 {
            let effects = bench.planned_above(replaces(old, new), Ok(vec![plan(&["a"])]), at(200));
            assert_eq!(reason(&effects), Reason::NotHeld, "{new}");
        }
    }
    let theirs = CoordinatorName::composed("top-2");
    let stolen = HoldOrder { coordinator: theirs, ..replaces("u", "stolen") };
    let effects = bench.planned_above(stolen, Ok(vec![plan(&["a"])]), at(200));
    assert_eq!(reason(&effects), Reason::NotHeld, "another coordinator's");
    assert_eq!(bench.state(ID), State::Confirmed);
}

#[test]
fn the_old_version_released_the_new_one_cannot_be_booked() {
    let mut bench = changing();
    let effects = bench.end_above("u", MessageKind::Release, at(120));
    assert_eq!(sends(&effects), ["a Release", "b Release"]);
    let effects = bench.end_above("v", MessageKind::Commit, at(130));
    assert_eq!(sends(&effects), ["a Abort", "b Abort", "c Abort"]);
    let mut said_last = Vec::new();
    for rm in ["a", "b", "c"] {
        let _ = bench.answer(rm, TRY, MessageKind::Release, Answer::Done, at(140));
        said_last = said(&bench.answer(rm, NEW, MessageKind::Abort, Answer::Done, at(140)));
    }
    let [(_, Answer::Refused(refusal))] = &said_last[..] else { panic!("{said_last:?}") };
    assert_eq!(refusal.reason, Reason::Aborted);
}

#[test]
fn released_or_mixed_while_it_is_being_booked_both_versions_end() {
    for (released, first) in [(Some("u"), "v"), (Some("v"), "u"), (None, "")] {
        let mut bench = changing();
        let _ = bench.end_above("v", MessageKind::Commit, at(120));
        let _ = bench.answer("a", NEW, MessageKind::Commit, Answer::Done, at(130));
        let effects = match released {
            Some(which) => bench.end_above(which, MessageKind::Release, at(140)),
            None => {
                let no = refused(Reason::Expired);
                bench.answer("b", NEW, MessageKind::Commit, no, at(140))
            }
        };
        let sent = sends(&effects);
        assert_eq!(sent.iter().filter(|sent| sent.ends_with("Release")).count(), 5, "{sent:?}");
        for rm in ["a", "b", "c"] {
            let _ = bench.answer(rm, NEW, MessageKind::Release, Answer::Done, at(150));
            let _ = bench.answer(rm, TRY, MessageKind::Release, Answer::Done, at(150));
        }
        assert_eq!(bench.core.unfinished(), 0);
        let new = if released.is_some() { State::Terminated } else { State::Failed };
        assert_eq!((bench.state(ID), bench.state("grc-t-2")), (State::Terminated, new));
        if released.is_some() {
            assert_eq!(said(&bench.end_above(first, MessageKind::Release, at(160))), DONE);
        }
    }
}
