//! A change that some RMs have booked and others were too late to book. In the end one version is booked
//! everywhere, and nothing is released before that.

use super::tests::{
    Bench, OTHER, USER, at, change_planned, open_change, plan, plans_change, refused, replies,
    sends, told,
};
use super::*;
use crate::message::{Answer, Message};

const ID: &str = "grc-t-1";
const NEW: &str = "grc-t-1/2";
const AGAIN: &str = "grc-t-1/3";
const BACK: &str = "grc-t-1/4";

/// `a` and `b` have the old version. The new one is held at `a`, `b` and `c`, and commit is decided.
fn committing() -> Bench {
    let mut bench = Bench::confirmed();
    let ticket = ChangeTicket {
        reservation: ReservationId::composed(ID),
        change: RequestId::composed("c1"),
        content: "x".into(),
    };
    let _ = bench.step(open_change(ticket, USER), at(50));
    let _ = bench.step(change_planned(ID, &[plan(&["a", "b", "c"])], USER), at(60));
    for rm in ["a", "b", "c"] {
        let _ = bench.held(rm, NEW, 900, at(70));
    }
    bench
}

/// `a` has booked the new version; `b` and `c` were too late.
fn split() -> (Bench, Vec<CoordinatorEffect>) {
    let mut bench = committing();
    let _ = bench.answer("a", NEW, MessageKind::Commit, Answer::Done, at(80));
    let _ = bench.answer("b", NEW, MessageKind::Commit, refused(Reason::Expired), at(90));
    let last = bench.answer("c", NEW, MessageKind::Commit, refused(Reason::Expired), at(100));
    (bench, last)
}

/// For each Hold among these effects: its RM, its number of segments, and what it replaces.
fn replaced(effects: &[CoordinatorEffect]) -> Vec<(String, usize, Option<String>)> {
    let hold = |effect: &CoordinatorEffect| match effect {
        CoordinatorEffect::Send { rm, message: Message::Hold(order), .. } => {
            let replaces = order.replaces.as_ref().map(ToString::to_string);
            Some((rm.to_string(), order.segments.len(), replaces))
        }
        _ => None,
    };
    effects.iter().filter_map(hold).collect()
}

fn known(bench: &Bench) -> &Reservation {
    bench.core.find(ID).unwrap()
}

fn change_state(bench: &Bench) -> ChangeState {
    known(bench).change.as_ref().unwrap().state
}

fn drop_attempt(bench: &mut Bench, txn: &str, rms: &[&str], ms: i64) -> Vec<CoordinatorEffect> {
    let mut effects = Vec::new();
    for rm in rms {
        effects = bench.answer(rm, txn, MessageKind::Abort, Answer::Done, at(ms));
    }
    effects
}

#[test]
fn the_new_version_is_held_again_in_place_of_what_each_rm_has() {
    let (mut bench, sent) = split();
    let old = |txn: &str| Some(txn.to_owned());
    assert_eq!(
        replaced(&sent),
        [
            ("a".into(), 1, old("grc-t-1/2")),
            ("b".into(), 1, old("grc-t-1/1")),
            ("c".into(), 1, None)
        ]
    );
    assert_eq!(
        (known(&bench).state, change_state(&bench)),
        (State::Confirmed, ChangeState::Committing)
    );
    for rm in ["a", "b", "c"] {
        let _ = bench.held(rm, AGAIN, 900, at(110));
    }
    let mut last = Vec::new();
    for rm in ["a", "b", "c"] {
        last = bench.answer(rm, AGAIN, MessageKind::Commit, Answer::Done, at(120));
    }
    assert_eq!(told(&last), [(USER, State::Confirmed)]);
    let reservation = known(&bench);
    assert_eq!((reservation.version, reservation.notes.as_str()), (2, "new"));
    assert_eq!(reservation.transaction.as_ref().unwrap().as_str(), AGAIN);
    assert_eq!((change_state(&bench), reservation.is_definite()), (ChangeState::Done, true));
    let _ = bench.restart(at(130));
    let sent = bench.release(ID, at(140));
    assert_eq!(sends(&sent), ["a Release", "b Release", "c Release"]);
}

#[test]
fn or_the_old_one_when_the_new_one_is_not_to_be_had_any_more() {
    let (mut bench, _) = split();
    let no = refused(Reason::InsufficientCapacity);
    let _ = bench.answer("b", AGAIN, MessageKind::Hold, no, at(110));
    let sent = drop_attempt(&mut bench, AGAIN, &["a", "c"], 120);
    assert_eq!(
        replaced(&sent),
        [
            ("a".into(), 1, Some("grc-t-1/2".to_owned())),
            ("b".into(), 1, Some("grc-t-1/1".to_owned()))
        ],
        "c has nothing and is to have nothing"
    );
    for rm in ["a", "b"] {
        let _ = bench.held(rm, BACK, 900, at(130));
    }
    let _ = bench.answer("a", BACK, MessageKind::Commit, Answer::Done, at(140));
    let last = bench.answer("b", BACK, MessageKind::Commit, Answer::Done, at(140));
    assert_eq!(told(&last), [(USER, State::Confirmed)]);
    let reservation = known(&bench);
    assert_eq!((reservation.version, change_state(&bench)), (1, ChangeState::Refused));
    assert_eq!(reservation.transaction.as_ref().unwrap().as_str(), BACK);
    let why = reservation.change.as_ref().unwrap().refusal.clone().unwrap();
    assert_eq!(why.reason, Reason::Expired, "what the user is told: {why}");
    assert!(why.detail.contains("too late to book the new version"), "{why}");
    let _ = bench.restart(at(150));
    // The reservation can be changed again; the change replaces what each RM has now.
    let ticket = ChangeTicket {
        reservation: ReservationId::composed(ID),
        change: RequestId::composed("c2"),
        content: "y".into(),
    };
    let opened = bench.step(open_change(ticket, OTHER), at(160));
    assert_eq!(replies(&opened), [plans_change(OTHER, ID)]);
    let back = || Some(BACK.to_owned());
    let sent = bench.step(change_planned(ID, &[plan(&["a"])], OTHER), at(170));
    assert_eq!(replaced(&sent), [("a".into(), 1, back()), ("b".into(), 0, back())]);
}

#[test]
fn when_neither_is_to_be_had_both_are_tried_again_and_nothing_is_given_up() {
    let (mut bench, _) = split();
    let mut ms = 200;
    for number in (3..9).step_by(2) {
        let no = || refused(Reason::InsufficientCapacity);
        let (new, old) = (format!("{ID}/{number}"), format!("{ID}/{}", number + 1));
        let _ = bench.answer("b", &new, MessageKind::Hold, no(), at(ms));
        let back = drop_attempt(&mut bench, &new, &["a", "c"], ms + 1);
        assert_eq!(sends(&back), ["a Hold", "b Hold"]);
        let _ = bench.answer("a", &old, MessageKind::Hold, no(), at(ms + 2));
        assert_eq!(drop_attempt(&mut bench, &old, &["b"], ms + 3), [], "after a pause");
        let due = bench.core.next_wake().unwrap();
        let sent = bench.step(CoordinatorInput::Tick, Now { boot: due, ..at(ms) });
        assert_eq!(sends(&sent), ["a Hold", "b Hold", "c Hold"]);
        ms = due.since(at(0).boot).as_us() / 1_000 + 1;
    }
    assert!(bench.log.iter().all(|record| !matches!(record, CoordinatorRecord::Mixed { .. })));
    assert_eq!(
        (known(&bench).state, change_state(&bench)),
        (State::Confirmed, ChangeState::Committing)
    );
}

#[test]
fn a_restart_goes_on_mending() {
    let (mut bench, _) = split();
    let sent = bench.restart(at(200));
    assert_eq!(sends(&sent), ["a Abort", "b Abort", "c Abort"], "what was undecided is aborted");
    let sent = drop_attempt(&mut bench, AGAIN, &["a", "b", "c"], 210);
    assert_eq!(sends(&sent), ["a Hold", "b Hold"], "the other version next");
    let no = refused(Reason::InsufficientCapacity);
    let _ = bench.answer("a", BACK, MessageKind::Hold, no, at(220));
    assert_eq!(drop_attempt(&mut bench, BACK, &["b"], 230), []);
    let sent = bench.restart(at(240));
    assert_eq!(sends(&sent), ["a Hold", "b Hold", "c Hold"], "nobody else would");
    let _ = bench.restart(at(250));
}

#[test]
fn nobody_has_booked_it_so_nothing_has_changed() {
    let mut bench = committing();
    let mut last = Vec::new();
    for rm in ["a", "b", "c"] {
        last = bench.answer(rm, NEW, MessageKind::Commit, refused(Reason::Expired), at(90));
    }
    assert_eq!((sends(&last), told(&last)), (vec![], vec![(USER, State::Confirmed)]));
    assert_eq!((known(&bench).version, change_state(&bench)), (1, ChangeState::Refused));
    let _ = bench.restart(at(100));
}

#[test]
fn released_in_between_all_of_it_ends() {
    for decided in [false, true] {
        let (mut bench, _) = split();
        if decided {
            for rm in ["a", "b", "c"] {
                let _ = bench.held(rm, AGAIN, 900, at(110));
            }
        }
        let sent = sends(&bench.release(ID, at(120)));
        let releases = sent.iter().filter(|sent| sent.ends_with("Release")).count();
        let aborts = sent.iter().filter(|sent| sent.ends_with("Abort")).count();
        // The old version has two RMs, the new one three, and the further attempt the same three.
        assert_eq!((releases, aborts), if decided { (8, 0) } else { (5, 3) }, "{sent:?}");
        let _ = bench.restart(at(130));
        let last = if decided { MessageKind::Release } else { MessageKind::Abort };
        for (txn, kind) in
            [("grc-t-1/1", MessageKind::Release), (NEW, MessageKind::Release), (AGAIN, last)]
        {
            assert_eq!(bench.state(ID), State::Terminating);
            for rm in ["a", "b", "c"] {
                let _ = bench.answer(rm, txn, kind, Answer::Done, at(140));
            }
        }
        assert_eq!((bench.state(ID), bench.core.unfinished()), (State::Terminated, 0));
    }
}

#[test]
fn an_rm_that_has_lost_what_it_had_is_not_asked_on_the_way_back_and_its_booking_is_missed() {
    let (mut bench, _) = split();
    let _ = bench.answer("b", AGAIN, MessageKind::Hold, refused(Reason::NotHeld), at(110));
    let sent = drop_attempt(&mut bench, AGAIN, &["a", "c"], 120);
    assert_eq!(replaced(&sent), [("a".into(), 1, Some(NEW.to_owned()))]);
    let _ = bench.held("a", BACK, 900, at(130));
    let last = bench.answer("a", BACK, MessageKind::Commit, Answer::Done, at(140));
    assert_eq!(told(&last), [(USER, State::Confirmed)]);
    let counted = |rm: &str| {
        let set = bench.core.counted_on_at(&RmName::composed(rm));
        set.is_some_and(|set| !set.is_empty())
    };
    assert!(
        counted("a") && counted("b"),
        "b owes its booking: reconciliation finds the difference"
    );
    let _ = bench.restart(at(150));
}

#[test]
fn when_every_rm_has_lost_what_it_had_the_old_version_stands_and_nobody_is_asked() {
    for dies in [false, true] {
        let (mut bench, _) = split();
        let gone = || refused(Reason::NotHeld);
        let _ = bench.answer("a", AGAIN, MessageKind::Hold, gone(), at(110));
        let sent = drop_attempt(&mut bench, AGAIN, &["b", "c"], 120);
        assert_eq!(replaced(&sent), [("b".into(), 1, Some("grc-t-1/1".to_owned()))]);
        assert_eq!(sends(&bench.answer("b", BACK, MessageKind::Hold, gone(), at(130))), [""; 0]);
        let due = bench.core.next_wake().unwrap();
        let sent = bench.step(CoordinatorInput::Tick, Now { boot: due, ..at(140) });
        assert_eq!(replaced(&sent).iter().filter(|(.., old)| old.is_some()).count(), 0);
        let no = refused(Reason::InsufficientCapacity);
        let _ = bench.answer("c", "grc-t-1/5", MessageKind::Hold, no, at(400));
        let _ = bench.answer("a", "grc-t-1/5", MessageKind::Abort, Answer::Done, at(410));
        let last = bench.answer("b", "grc-t-1/5", MessageKind::Abort, Answer::Done, at(420));
        assert_eq!(told(&last), [(USER, State::Confirmed)]);
        assert!(sends(&last).iter().all(|sent| sent.ends_with("Release")), "{:?}", sends(&last));
        if dies {
            let _ = bench.restart(at(430));
        }
        let reservation = known(&bench);
        assert_eq!((reservation.version, change_state(&bench)), (1, ChangeState::Refused));
        for rm in ["a", "b"] {
            let set = bench.core.counted_on_at(&RmName::composed(rm));
            assert!(set.is_some_and(|set| !set.is_empty()), "{rm} owes its booking");
        }
        let sent = sends(&bench.release(ID, at(440)));
        assert!(sent.contains(&"a Release".to_owned()) && sent.contains(&"b Release".to_owned()));
    }
}

#[test]
fn when_both_versions_are_over_the_old_one_stands_and_nobody_is_asked() {
    let (mut bench, _) = split();
    let ends = plan(&["a"]).segments[&RmName::composed("a")][0].window.end();
    let no = || refused(Reason::InsufficientCapacity);
    let _ = bench.answer("b", AGAIN, MessageKind::Hold, no(), at(110));
    let _ = bench.answer("a", AGAIN, MessageKind::Abort, Answer::Done, at(120));
    let late = Now { wall: ends, ..at(130) };
    let last = bench.answer("c", AGAIN, MessageKind::Abort, Answer::Done, late);
    assert_eq!(told(&last), [(USER, State::Confirmed)]);
    assert!(sends(&last).iter().all(|sent| sent.ends_with("Release")), "{:?}", sends(&last));
    assert_eq!(change_state(&bench), ChangeState::Refused);
    let _ = bench.restart(late);
}

#[test]
fn that_an_attempt_itself_has_ended_says_nothing_of_what_it_was_to_replace() {
    for reason in [Reason::Aborted, Reason::Expired] {
        let (mut bench, _) = split();
        let _ = bench.answer("b", AGAIN, MessageKind::Hold, refused(reason), at(110));
        let sent = drop_attempt(&mut bench, AGAIN, &["a", "c"], 120);
        let old = |txn: &str| Some(txn.to_owned());
        let both = [("a".into(), 1, old(NEW)), ("b".into(), 1, old("grc-t-1/1"))];
        assert_eq!(replaced(&sent), both, "{reason:?}");
    }
}

#[test]
fn once_one_version_is_booked_everywhere_what_is_kept_of_the_others_is_given_back() {
    let (mut bench, sent) = split();
    let keeps = |effect: &CoordinatorEffect| match effect {
        CoordinatorEffect::Send { rm, message: Message::Hold(order), .. } => {
            Some((rm.to_string(), order.keeps_old))
        }
        _ => None,
    };
    let keeps: Vec<_> = sent.iter().filter_map(keeps).collect();
    assert_eq!(keeps, [("a".into(), true), ("b".into(), true), ("c".into(), false)]);
    for rm in ["a", "b", "c"] {
        let _ = bench.held(rm, AGAIN, 900, at(110));
    }
    for rm in ["a", "b"] {
        let sent = bench.answer(rm, AGAIN, MessageKind::Commit, Answer::Done, at(120));
        assert_eq!(sends(&sent), [""; 0], "nobody gives anything back before all have booked");
    }
    let last = bench.answer("c", AGAIN, MessageKind::Commit, Answer::Done, at(120));
    assert_eq!(told(&last), [(USER, State::Confirmed)]);
    let releases = ["a Release", "b Release", "a Release", "b Release", "c Release"];
    assert_eq!(sends(&last), releases, "of the old version, and of the one that b and c missed");
    assert_eq!(sends(&bench.restart(at(130))), releases, "until it is acknowledged");
    for (txn, rms) in [("grc-t-1/1", &["a", "b"][..]), (NEW, &["a", "b", "c"])] {
        for rm in rms {
            let _ = bench.answer(rm, txn, MessageKind::Release, Answer::Done, at(140));
        }
    }
    assert_eq!(bench.core.unfinished(), 0);
    assert_eq!((known(&bench).state, known(&bench).version), (State::Confirmed, 2));
    let settled = |record: &&CoordinatorRecord| matches!(record, CoordinatorRecord::Settled { .. });
    assert_eq!(bench.log.iter().filter(settled).count(), 2);
    let _ = bench.restart(at(150));
}
