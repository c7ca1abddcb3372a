//! Differences with RMs, found from the parts that differ, and what repairs do about them.

use std::ops::RangeFrom;

use coalloc_common::UserName;

use super::tests::{Bench, OTHER, at, plan, refused, replies, rm, sends, stands, txn};
use super::*;
use crate::conversation::ChangeEnd;
use crate::digest::{BookingSet, Listed, Part};
use crate::message::{Answer, Delivery, Message};

const FROM: RangeFrom<Part> = Part { era: 0, shard: 0 }..;

fn wall(ms: i64) -> coalloc_common::Time {
    at(ms).wall
}

/// The differences that a coordinator finds when it compares with an RM that has this set.
fn found(core: &Coordinator, name: &str, theirs: &BookingSet) -> Vec<(String, Differs)> {
    let ours = core.counted_on_at(&rm(name)).map(|set| set.summaries(FROM)).unwrap_or_default();
    let listed: Vec<Listed> =
        theirs.differing(&ours, FROM).into_iter().map(|part| theirs.listed(part)).collect();
    let all = core.differences(&rm(name), &listed, wall(0));
    all.into_iter().map(|one| (one.txn.to_string(), one.differs)).collect()
}

/// The set of an RM that has booked these transactions.
fn booked(txns: &[&str]) -> BookingSet {
    let mut set = BookingSet::default();
    for name in txns {
        set.insert(&txn(name), &plan(&["a"]).segments[&rm("a")]);
    }
    set
}

fn rebook(lost: &[&str], id: &str) -> CoordinatorInput {
    let ticket = ChangeTicket {
        reservation: ReservationId::composed("grc-t-1"),
        change: RequestId::composed(id),
        content: "again".into(),
    };
    let lost = lost.iter().map(|name| rm(name)).collect();
    let (booked, candidate) = (txn("grc-t-1/1"), plan(&["a", "b"]));
    CoordinatorInput::Repair(Repair::Rebook {
        ticket,
        booked,
        candidate,
        lost,
        token: Token::new(OTHER),
    })
}

fn disown(id: &str) -> CoordinatorInput {
    let (rm, txn, by) = (rm("a"), txn(id), UserName::composed("op"));
    let token = Token::new(OTHER);
    CoordinatorInput::Repair(Repair::Disown { rm, txn, by, why: "left".into(), token })
}

#[test]
fn what_is_confirmed_is_counted_on_until_it_is_released() {
    let mut bench = Bench::decided();
    assert_eq!(found(&bench.core, "a", &BookingSet::default()), []);
    for name in ["a", "b"] {
        let _ = bench.answer(name, "grc-t-1/1", MessageKind::Commit, Answer::Done, at(40));
    }
    assert_eq!(found(&bench.core, "a", &booked(&["grc-t-1/1"])), [], "equal");
    let missing = [("grc-t-1/1".to_owned(), Differs::MissingThere)];
    assert_eq!(found(&bench.core, "a", &BookingSet::default()), missing);
    let _ = bench.restart(at(50));
    assert_eq!(found(&bench.core, "a", &BookingSet::default()), missing, "also after a restart");
    let _ = bench.release("grc-t-1", at(60));
    assert_eq!(found(&bench.core, "a", &booked(&["grc-t-1/1"])), [], "under way: nothing is said");
    for name in ["a", "b"] {
        let _ = bench.answer(name, "grc-t-1/1", MessageKind::Release, Answer::Done, at(70));
    }
    assert_eq!(found(&bench.core, "a", &BookingSet::default()), []);
    let left = [("grc-t-1/1".to_owned(), Differs::UnknownHere)];
    assert_eq!(found(&bench.core, "a", &booked(&["grc-t-1/1"])), left, "an older ledger is back");
}

#[test]
fn strangers_under_our_name_and_other_content_are_told() {
    let bench = Bench::confirmed();
    let stranger = [("grc-x-7/1".to_owned(), Differs::UnknownHere)];
    assert_eq!(found(&bench.core, "a", &booked(&["grc-t-1/1", "grc-x-7/1"])), stranger);
    let mut other = BookingSet::default();
    let mut segments = plan(&["a"]).segments[&rm("a")].clone();
    segments[0].amount = coalloc_common::Amount(2);
    other.insert(&txn("grc-t-1/1"), &segments);
    let differs = [("grc-t-1/1".to_owned(), Differs::OtherContent)];
    assert_eq!(found(&bench.core, "a", &other), differs);
}

#[test]
fn what_is_new_in_a_comparison_is_recorded_and_its_end() {
    let mut bench = Bench::confirmed();
    let found = |bench: &Bench, theirs: &BookingSet| {
        let ours = bench.core.counted_on_at(&rm("a")).map(|set| set.summaries(FROM));
        let parts = theirs.differing(&ours.unwrap_or_default(), FROM);
        let listed: Vec<Listed> = parts.into_iter().map(|part| theirs.listed(part)).collect();
        bench.core.differences(&rm("a"), &listed, wall(0))
    };
    let compare = |bench: &mut Bench, theirs: &BookingSet| -> Vec<Option<Differs>> {
        let differences = found(bench, theirs);
        let before = bench.log.len();
        let effects = bench.step(CoordinatorInput::Compared { rm: rm("a"), differences }, at(100));
        assert_eq!(effects, []);
        let differs = |record: &CoordinatorRecord| match record {
            CoordinatorRecord::Differs { txn, differs, state, version, .. } => {
                assert_eq!(txn.as_str(), "grc-t-1/1");
                assert_eq!((*state, *version), (State::Confirmed, 1));
                *differs
            }
            other => panic!("{other:?}"),
        };
        bench.log[before..].iter().map(differs).collect()
    };
    let (empty, whole) = (BookingSet::default(), booked(&["grc-t-1/1"]));
    assert_eq!(compare(&mut bench, &whole), []);
    assert_eq!(compare(&mut bench, &booked(&["grc-t-1/1", "grc-x-7/1"])), [], "nobody's");
    assert_eq!(compare(&mut bench, &empty), [Some(Differs::MissingThere)]);
    assert_eq!(compare(&mut bench, &empty), [], "once");
    let _ = bench.restart(at(110));
    assert_eq!(compare(&mut bench, &empty), [], "also after a restart");
    assert_eq!(compare(&mut bench, &whole), [None]);
    assert_eq!(compare(&mut bench, &whole), []);
    let _ = bench.step(CoordinatorInput::Room(coalloc_common::DiskSpace::Low), at(120));
    assert_eq!(compare(&mut bench, &empty), [], "found again when there is room");
    let _ = bench.step(CoordinatorInput::Room(coalloc_common::DiskSpace::Enough), at(130));
    assert_eq!(compare(&mut bench, &empty), [Some(Differs::MissingThere)]);
}

#[test]
fn booked_again_the_loser_holds_anew_and_the_others_replace() {
    let mut bench = Bench::confirmed();
    let effects = bench.step(rebook(&["a"], "again-1"), at(50));
    let holds: Vec<(String, Option<String>)> = effects
        .iter()
        .map(|effect| match effect {
            CoordinatorEffect::Send { rm, message: Message::Hold(order), .. } => {
                (rm.to_string(), order.replaces.as_ref().map(ToString::to_string))
            }
            other => panic!("a Hold expected: {other:?}"),
        })
        .collect();
    assert_eq!(holds, [("a".into(), None), ("b".into(), Some("grc-t-1/1".into()))]);
    for name in ["a", "b"] {
        let _ = bench.held(name, "grc-t-1/2", 900, at(60));
    }
    let _ = bench.restart(at(65));
    for name in ["a", "b"] {
        let _ = bench.answer(name, "grc-t-1/2", MessageKind::Commit, Answer::Done, at(70));
    }
    let reservation = bench.core.find("grc-t-1").unwrap();
    assert_eq!((reservation.state, reservation.version), (State::Confirmed, 2));
    assert_eq!(found(&bench.core, "a", &booked(&["grc-t-1/2"])), []);
    // The same repair again gets the same answer. A repair of what is no longer booked changes nothing.
    let again = stands(&bench.step(rebook(&["a"], "again-1"), at(80)));
    assert!(matches!(&again[..], [(OTHER, known)] if known.version == 2));
    let late = replies(&bench.step(rebook(&["a"], "again-2"), at(90)));
    assert!(matches!(&late[..], [Reply::Rebook(_, ChangeEnd::NotConfirmed(_))]), "{late:?}");
}

#[test]
fn where_the_capacity_is_sold_it_is_refused_and_stands_as_it_was() {
    let mut bench = Bench::confirmed();
    let _ = bench.step(rebook(&["a"], "again-1"), at(50));
    let _ = bench.held("b", "grc-t-1/2", 900, at(60));
    let sold = refused(Reason::InsufficientCapacity);
    let _ = bench.answer("a", "grc-t-1/2", MessageKind::Hold, sold, at(60));
    let done = bench.answer("b", "grc-t-1/2", MessageKind::Abort, Answer::Done, at(70));
    let told = stands(&done);
    let [(OTHER, known)] = &told[..] else { panic!("{told:?}") };
    let change = known.change.as_ref().unwrap();
    assert_eq!((known.state, change.state), (State::Confirmed, ChangeState::Refused));
    assert_eq!(change.refusal.as_ref().unwrap().reason, Reason::InsufficientCapacity);
    assert_eq!(known.transaction, Some(txn("grc-t-1/1")));
    assert_eq!(found(&bench.core, "b", &booked(&["grc-t-1/1"])), []);
}

#[test]
fn what_is_nobodys_is_released_until_the_rm_acknowledges() {
    let mut bench = Bench::confirmed();
    let known = replies(&bench.step(disown("grc-t-1/1"), at(50)));
    assert!(matches!(&known[..], [Reply::Disown(_, DisownReply::Stands(_))]), "{known:?}");
    assert_eq!(sends(&bench.step(disown("grc-x-7/1"), at(60))), ["a Release"]);
    assert_eq!(found(&bench.core, "a", &booked(&["grc-t-1/1", "grc-x-7/1"])), [], "under way");
    let lost = CoordinatorInput::Delivered {
        rm: rm("a"),
        txn: txn("grc-x-7/1"),
        kind: MessageKind::Release,
        delivery: Delivery::Lost,
    };
    assert_eq!(bench.step(lost, at(70)), []);
    let again = bench.core.next_wake().unwrap();
    let later = Now { boot: again, ..at(80) };
    assert_eq!(sends(&bench.step(CoordinatorInput::Tick, later)), ["a Release"]);
    // Release is repeated also after a restart, when no caller waits for it any more.
    assert_eq!(sends(&bench.restart(at(90))), [] as [&str; 0]);
    assert!(bench.core.next_wake().unwrap() <= at(90).boot);
    let effects = bench.step(CoordinatorInput::Tick, at(91));
    assert_eq!(sends(&effects), ["a Release"]);
    let _ = bench.step(disown("grc-x-7/1"), at(92));
    let done = bench.answer("a", "grc-x-7/1", MessageKind::Release, Answer::Done, at(95));
    assert_eq!(replies(&done), [Reply::Disown(Token::new(OTHER), DisownReply::Released)]);
    assert!(bench.core.next_wake().unwrap() > at(1_000).boot, "nothing is left to do");
    let _ = bench.restart(at(99));
    assert!(bench.core.next_wake().unwrap() > at(1_000).boot, "nothing is left to do");
}
