//! Holds from a parent coordinator that replace what is booked here.

use super::*;

/// `u` is booked at `a` and `b`. `v` is to replace it, and is held at all three RMs.
fn changing() -> Bench {
    let mut bench = Bench::booked();
    let new = HoldOrder { replaces: Some(txn("u")), keeps_old: true, ..order("v") };
    let sent = bench.planned_for_parent(new, Ok(vec![plan(&["b", "c"])]), at(100));
    assert_eq!(sends(&sent), ["a Hold", "b Hold", "c Hold"], "whoever has the old version too");
    for rm in ["a", "b", "c"] {
        let _ = bench.held(rm, NEW, 60, at(110));
    }
    assert_eq!((bench.state(ID), bench.state("grc-t-2")), (State::Confirmed, State::Held));
    bench
}

/// The transaction of the attempt at `v`.
const NEW: &str = "grc-t-2/2";

#[test]
fn a_new_version_takes_the_place_of_the_old_one_when_all_have_booked_it() {
    let mut bench = changing();
    let _ = bench.parent_ends("v", MessageKind::Commit, at(120));
    for rm in ["a", "b"] {
        let _ = bench.answer(rm, NEW, MessageKind::Commit, Answer::Done, at(130));
        assert_eq!(bench.state(ID), State::Confirmed);
    }
    let done = bench.answer("c", NEW, MessageKind::Commit, Answer::Done, at(140));
    assert_eq!(said(&done), DONE);
    assert_eq!(sends(&done), [""; 0], "the one above may want the old version back");
    assert_eq!(bench.restart(at(145)), no_more());
    for again in [false, true] {
        assert_eq!(
            (bench.state(ID), bench.state("grc-t-2")),
            (State::Terminated, State::Confirmed)
        );
        assert_eq!(reason(&bench.parent_holds(order("u"), at(150))), Reason::Replaced);
        let released = bench.parent_ends("u", MessageKind::Release, at(150));
        assert_eq!(said(&released), DONE);
        if !again {
            assert_eq!(sends(&released), ["a Release", "b Release"], "and now it does not");
            assert_eq!(sends(&bench.restart(at(155))), ["a Release", "b Release"]);
            settle(&mut bench, TRY, &["a", "b"], 156);
        }
        assert_eq!(bench.restart(at(160)), no_more());
        assert_eq!(bench.core.unfinished(), 0);
    }
    let again = HoldOrder { replaces: Some(txn("u")), ..order("w") };
    let effects = bench.planned_for_parent(again, Ok(vec![plan(&["a"])]), at(170));
    assert_eq!(reason(&effects), Reason::Replaced);
    let next = HoldOrder { replaces: Some(txn("v")), ..order("x") };
    let effects = bench.planned_for_parent(next, Ok(vec![plan(&["a"])]), at(180));
    assert_eq!(sends(&effects), ["a Hold", "b Hold", "c Hold"]);
}

fn settle(bench: &mut Bench, txn: &str, rms: &[&str], ms: i64) {
    for rm in rms {
        let _ = bench.answer(rm, txn, MessageKind::Release, Answer::Done, at(ms));
    }
}

#[test]
fn one_above_that_keeps_no_old_version_has_it_given_back_when_all_have_booked() {
    let mut bench = Bench::booked();
    let new = HoldOrder { replaces: Some(txn("u")), ..order("v") };
    let _ = bench.planned_for_parent(new, Ok(vec![plan(&["b"])]), at(100));
    for rm in ["a", "b"] {
        let _ = bench.held(rm, NEW, 60, at(110));
    }
    let _ = bench.parent_ends("v", MessageKind::Commit, at(120));
    let _ = bench.answer("a", NEW, MessageKind::Commit, Answer::Done, at(130));
    let done = bench.answer("b", NEW, MessageKind::Commit, Answer::Done, at(140));
    assert_eq!(sends(&done), ["a Release", "b Release"]);
}

#[test]
fn the_one_above_takes_the_change_back_and_then_releases_both_versions() {
    let mut bench = changing();
    let _ = bench.parent_ends("v", MessageKind::Commit, at(120));
    for rm in ["a", "b", "c"] {
        let _ = bench.answer(rm, NEW, MessageKind::Commit, Answer::Done, at(130));
    }
    let back = HoldOrder { replaces: Some(txn("v")), keeps_old: true, ..order("w") };
    let _ = bench.planned_for_parent(back, Ok(vec![plan(&["a", "b"])]), at(140));
    for rm in ["a", "b", "c"] {
        let _ = bench.held(rm, "grc-t-3/3", 60, at(150));
    }
    let _ = bench.parent_ends("w", MessageKind::Commit, at(160));
    for rm in ["a", "b", "c"] {
        let _ = bench.answer(rm, "grc-t-3/3", MessageKind::Commit, Answer::Done, at(170));
    }
    let sent = bench.parent_ends("v", MessageKind::Release, at(180));
    assert_eq!(sends(&sent), ["a Release", "b Release", "c Release"]);
    let sent = bench.parent_ends("u", MessageKind::Release, at(190));
    assert_eq!(sends(&sent), ["a Release", "b Release"]);
    let _ = bench.restart(at(200));
    settle(&mut bench, NEW, &["a", "b", "c"], 210);
    settle(&mut bench, TRY, &["a", "b"], 220);
    assert_eq!((bench.state("grc-t-3"), bench.core.unfinished()), (State::Confirmed, 0));
}

#[test]
fn a_change_that_is_dropped_leaves_the_old_version_whole() {
    for ending in ["abort", "expiry", "restart", "refused"] {
        let mut bench = changing();
        match ending {
            "abort" => drop(bench.parent_ends("v", MessageKind::Abort, at(120))),
            "expiry" => drop(bench.step(CoordinatorInput::Tick, at(60_100))),
            _ => {
                // Here nothing is promised to the parent yet.
                bench = Bench::booked();
                let new = HoldOrder { replaces: Some(txn("u")), ..order("v") };
                let _ = bench.planned_for_parent(new, Ok(vec![plan(&["a", "b", "c"])]), at(100));
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
        // The reservation can be changed again.
        let new = HoldOrder { replaces: Some(txn("u")), ..order("w") };
        let sent = bench.planned_for_parent(new, Ok(vec![plan(&["a"])]), at(60_300));
        assert_eq!(sends(&sent), ["a Hold", "b Hold"], "{ending}");
    }
}

#[test]
fn what_cannot_be_replaced_is_refused_for_ever() {
    let mut bench = changing();
    let replaces = |old: &str, new: &str| HoldOrder { replaces: Some(txn(old)), ..order(new) };
    for (old, new) in [("u", "second"), ("v", "of-held"), ("nobody", "of-nobody")] {
        for _ in 0..2 {
            let effects =
                bench.planned_for_parent(replaces(old, new), Ok(vec![plan(&["a"])]), at(200));
            assert_eq!(reason(&effects), Reason::NotHeld, "{new}");
        }
    }
    let theirs = CoordinatorName::composed("top-2");
    let own = TransactionId::composed("top-2-t-1/1");
    let stolen = HoldOrder { coordinator: theirs, txn: own, ..replaces("u", "stolen") };
    let effects = bench.planned_for_parent(stolen, Ok(vec![plan(&["a"])]), at(200));
    assert_eq!(reason(&effects), Reason::NotHeld, "another coordinator's");
    assert_eq!(bench.state(ID), State::Confirmed);
}

#[test]
fn the_old_version_released_the_new_one_cannot_be_booked() {
    let mut bench = changing();
    let effects = bench.parent_ends("u", MessageKind::Release, at(120));
    assert_eq!(sends(&effects), ["a Release", "b Release"]);
    let effects = bench.parent_ends("v", MessageKind::Commit, at(130));
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
fn released_while_it_is_being_booked_both_versions_end() {
    for (released, first) in [("u", "v"), ("v", "u")] {
        let mut bench = changing();
        let _ = bench.parent_ends("v", MessageKind::Commit, at(120));
        let _ = bench.answer("a", NEW, MessageKind::Commit, Answer::Done, at(130));
        let effects = bench.parent_ends(released, MessageKind::Release, at(140));
        let sent = sends(&effects);
        assert_eq!(sent.iter().filter(|sent| sent.ends_with("Release")).count(), 5, "{sent:?}");
        for rm in ["a", "b", "c"] {
            let _ = bench.answer(rm, NEW, MessageKind::Release, Answer::Done, at(150));
            let _ = bench.answer(rm, TRY, MessageKind::Release, Answer::Done, at(150));
        }
        assert_eq!(bench.core.unfinished(), 0);
        let both = (bench.state(ID), bench.state("grc-t-2"));
        assert_eq!(both, (State::Terminated, State::Terminated));
        assert_eq!(said(&bench.parent_ends(first, MessageKind::Release, at(160))), DONE);
    }
}

/// The change is booked at `a` and `c`, but `b` was too late: the new version is tried again at all RMs.
fn split() -> Bench {
    let mut bench = changing();
    let _ = bench.parent_ends("v", MessageKind::Commit, at(120));
    let _ = bench.answer("a", NEW, MessageKind::Commit, Answer::Done, at(130));
    let no = refused(Reason::Expired);
    assert_eq!(bench.answer("b", NEW, MessageKind::Commit, no, at(140)), [], "c has not answered");
    let sent = bench.answer("c", NEW, MessageKind::Commit, Answer::Done, at(150));
    assert_eq!(sends(&sent), ["a Hold", "b Hold", "c Hold"], "nothing is released");
    assert_eq!(bench.state("grc-t-2"), State::Committing, "the one above is not answered yet");
    bench
}

const AGAIN: &str = "grc-t-2/3";
const BACK: &str = "grc-t-2/4";

#[test]
fn an_inner_rm_that_books_too_late_holds_the_new_version_again() {
    let mut bench = split();
    for rm in ["a", "b", "c"] {
        let _ = bench.held(rm, AGAIN, 60, at(200));
    }
    let mut told = Vec::new();
    for rm in ["a", "b", "c"] {
        told = said(&bench.answer(rm, AGAIN, MessageKind::Commit, Answer::Done, at(210)));
    }
    assert_eq!(told, DONE, "whoever waits for its Commit");
    assert_eq!(said(&bench.parent_ends("v", MessageKind::Commit, at(220))), DONE);
    assert_eq!((bench.state(ID), bench.state("grc-t-2")), (State::Terminated, State::Confirmed));
    let _ = bench.restart(at(230));
    let sent = bench.parent_ends("v", MessageKind::Release, at(240));
    assert_eq!(sends(&sent), ["a Release", "b Release", "c Release"]);
}

#[test]
fn or_the_old_version_is_whole_again_and_the_one_above_hears_that_it_was_not_booked() {
    let mut bench = split();
    let _ = bench.held("a", AGAIN, 60, at(200));
    let no = refused(Reason::InsufficientCapacity);
    let _ = bench.answer("b", AGAIN, MessageKind::Hold, no, at(210));
    let _ = bench.answer("a", AGAIN, MessageKind::Abort, Answer::Done, at(220));
    let sent = bench.answer("c", AGAIN, MessageKind::Abort, Answer::Done, at(230));
    assert_eq!(sends(&sent), ["a Hold", "b Hold", "c Hold"], "back to the old version at once");
    for rm in ["a", "b", "c"] {
        let _ = bench.held(rm, BACK, 60, at(240));
    }
    let _ = bench.restart(at(245));
    for rm in ["a", "b", "c"] {
        let _ = bench.answer(rm, BACK, MessageKind::Commit, Answer::Done, at(250));
    }
    assert_eq!((bench.state(ID), bench.state("grc-t-2")), (State::Confirmed, State::Failed));
    settle(&mut bench, TRY, &["a", "b"], 251);
    settle(&mut bench, NEW, &["a", "b", "c"], 252);
    let commit = bench.parent_ends("v", MessageKind::Commit, at(260));
    assert_eq!(reason(&commit), Reason::Expired, "it was not booked, and the old one is");
    let _ = bench.restart(at(270));
    let sent = bench.parent_ends("u", MessageKind::Release, at(280));
    assert_eq!(sends(&sent), ["a Release", "b Release", "c Release"], "under its last transaction");
    for rm in ["a", "b", "c"] {
        let _ = bench.answer(rm, BACK, MessageKind::Release, Answer::Done, at(290));
    }
    assert_eq!((bench.state(ID), bench.core.unfinished()), (State::Terminated, 0));
}
