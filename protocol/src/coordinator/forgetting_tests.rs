//! Forgetting: when a reservation is forgotten, what its RMs are told before, and what stays counted.

use super::tests::{
    Bench, OTHER, RM, USER, at, fresh, open, plan, plans_request, refused, replies,
    request_planned, rm, sends, ticket, txn,
};
use super::*;
use coalloc_common::UserName;

use crate::conversation::{ConversationInput, Next, Opening, ParentReply, PlanJob, PlanTarget};
use crate::message::{Answer, HoldOrder};
use crate::snapshot::Snapshot;

const ID: &str = "grc-t-1";
const TRY: &str = "grc-t-1/1";
/// A day after the last window of [`plan`], in milliseconds of [`at`].
const DAY_MS: i64 = 24 * 3_600_000;
const OVER_MS: i64 = 5_000_000 + DAY_MS;

fn policy() -> Option<ForgetPolicy> {
    Some(ForgetPolicy { retention: Span::from_secs(24 * 3_600), every: Span::from_secs(600) })
}

impl Bench {
    fn forgets(mut self) -> Self {
        self.core.config.forgets = policy();
        self.core.stir();
        self
    }

    /// Wakes the core whenever it wants to be woken, until this time. Returns what it sends.
    fn pass(&mut self, until: Now) -> Vec<String> {
        let mut sent = Vec::new();
        while let Some(due) = self.core.next_wake().filter(|due| *due <= until.boot) {
            let ms = due.as_us().max(1_000_000).div_euclid(1_000) - 1_000;
            let effects = self.step(CoordinatorInput::Tick, at(ms));
            sent.extend(sends(&effects));
        }
        sent
    }
}

#[test]
fn a_booked_reservation_is_released_and_forgotten_when_its_retention_is_over() {
    let mut bench = Bench::confirmed().forgets();
    let _ = bench.release("nothing", at(50));
    assert_eq!(bench.pass(at(OVER_MS - 1_000)), [] as [String; 0], "a day after the window");
    assert_eq!(bench.state(ID), State::Confirmed);
    let sent = bench.pass(at(OVER_MS + 600_000));
    assert_eq!(sent[..2], ["a Release", "b Release"]);
    assert!(sent.len() > 2, "sent again until it is acknowledged");
    assert_eq!(bench.state(ID), State::Terminating);
    assert_eq!(bench.core.oldest_open(), 2, "RMs need not wait for it");
    let later = at(OVER_MS + 700_000);
    let _ = bench.answer("a", TRY, MessageKind::Release, Answer::Done, later);
    let _ = bench.pass(at(OVER_MS + 2_000_000));
    assert_eq!(bench.state(ID), State::Terminating, "never before every party knows");
    let later = at(OVER_MS + 2_100_000);
    let _ = bench.answer("b", TRY, MessageKind::Release, Answer::Done, later);
    assert_eq!(bench.state(ID), State::Terminated);
    let _ = bench.pass(at(OVER_MS + 2_800_000));
    assert!(bench.core.find(ID).is_none() && bench.core.find("r1").is_none());
    assert!(bench.core.transactions.is_empty() && bench.core.next_wake().is_none());

    // What is forgotten stays counted, over a restart from the log and from a snapshot.
    let mut parts = fresh();
    for part in bench.core.take_changed() {
        part.part.into_iter().for_each(|part| parts.restore(part).unwrap());
    }
    parts.restored(0).unwrap();
    let now = at(OVER_MS + 3_000_000);
    let _ = bench.restart(now);
    for mut core in [bench.core.clone(), parts] {
        assert_eq!(core.place_of(ID), Some(0), "a page may begin after it");
        assert_eq!(core.place_of("grc-t-2"), None);
        let _ = core.step(open(ticket("r1", "other"), USER), now);
        let _ = core.step(request_planned("r1", Ok(vec![plan(&["a"])]), USER), now);
        core.check_invariants().unwrap();
        let known = core.find("r1").unwrap();
        assert_eq!(known.id.as_str(), "grc-t-2", "its request id counts as new");
        assert_eq!(known.transaction, Some(txn("grc-t-2/2")));
    }
}

#[test]
fn a_late_or_foreign_message_about_what_is_forgotten_changes_nothing() {
    let mut bench = Bench::confirmed().forgets();
    let _ = bench.release(ID, at(50));
    for name in ["a", "b"] {
        let _ = bench.answer(name, TRY, MessageKind::Release, Answer::Done, at(60));
    }
    let _ = bench.pass(at(DAY_MS));
    assert!(bench.core.find(ID).is_some(), "a day after it was released, whatever its window");
    let _ = bench.pass(at(DAY_MS + 1_300_000));
    assert!(bench.core.find(ID).is_none());
    let (written, late) = (bench.log.len(), at(DAY_MS + 1_400_000));
    assert_eq!(bench.held("a", TRY, 900, late), []);
    assert_eq!(bench.answer("b", TRY, MessageKind::Release, Answer::Done, late), []);
    assert_eq!(bench.answer("b", TRY, MessageKind::Commit, refused(Reason::Expired), late), []);
    let asked = bench.resolve(TRY, "a", late);
    assert_eq!(replies(&asked), [Reply::Resolve(Token::new(RM), Resolution::NotMine)]);
    let released = bench.release(ID, late);
    assert_eq!(replies(&released), [Reply::Release(Token::new(OTHER), ReleaseReply::Unknown)]);
    assert_eq!(bench.log.len(), written, "nothing is recorded");
}

#[test]
fn what_is_refused_is_forgotten_too_and_nothing_is_forgotten_without_a_policy() {
    for forgets in [true, false] {
        let mut bench = Bench::new();
        if forgets {
            bench = bench.forgets();
        }
        assert_eq!(
            replies(&bench.step(open(ticket("r1", "c"), USER), at(0))),
            [plans_request(1, "r1")]
        );
        let refusal = Refusal::new(Reason::InsufficientCapacity, "no");
        let _ = bench.step(request_planned("r1", Err(refusal), USER), at(5));
        assert_eq!(bench.core.next_wake().is_some(), forgets);
        let _ = bench.pass(at(DAY_MS + 700_000));
        assert_eq!(bench.core.find(ID).is_none(), forgets);
    }
}

#[test]
fn an_rm_that_was_given_up_on_does_not_keep_a_reservation_for_ever() {
    let mut bench = Bench::confirmed().forgets();
    let _ = bench.release(ID, at(50));
    let _ = bench.answer("a", TRY, MessageKind::Release, Answer::Done, at(60));
    let (by, why) = (UserName::composed("op"), "burnt".to_owned());
    let of = OfWhat::Reservation(ReservationId::composed(ID));
    let repair = Repair::GiveUp { rm: rm("b"), of, by, why, token: Token::new(RM) };
    let _ = bench.step(CoordinatorInput::Repair(repair), at(70));
    let _ = bench.pass(at(DAY_MS + 1_300_000));
    assert!(bench.core.find(ID).is_none());
    assert_eq!(bench.core.next_wake(), None, "nothing is sent to it any more");
}

#[test]
fn what_a_parent_has_done_with_is_forgotten_and_stays_refused() {
    let top = CoordinatorName::composed("top");
    let above = ParentConfig {
        coordinators: [top.clone()].into(),
        soft: Span::from_secs(30),
        hard: Span::from_secs(120),
        boot: "boot-1".to_owned(),
    };
    let mut bench = Bench::child(above).forgets();
    let order = |id: &str| HoldOrder {
        txn: txn(id),
        coordinator: top.clone(),
        user: UserName::composed("UserA"),
        segments: plan(&["x"]).segments.remove(&rm("x")).unwrap(),
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    };
    let hold = |bench: &mut Bench, id: &str, number: u64, now: Now| {
        let (txn, by, token) = (txn(id), top.clone(), Token::new(OTHER));
        let preface = ParentInput::Preface { txn, by, oldest_open: number, epoch: 0, token };
        let done = Reply::ParentEnd(token, ParentReply::Answered(Answer::Done));
        assert_eq!(replies(&bench.step(preface.into(), now)), [done]);
        let opening = Opening::ParentHold(order(id), Token::new(USER));
        bench.step(ConversationInput::Open(opening).into(), now)
    };
    let end = |bench: &mut Bench, id: &str, kind: MessageKind, now: Now| {
        let (by, token) = (top.clone(), Token::new(OTHER));
        bench.step(ParentInput::End { txn: txn(id), by, kind, epoch: 0, token }.into(), now)
    };
    // The first attempt is refused here, and the second one ends before its Hold arrives.
    let _ = hold(&mut bench, "top-t-1/1", 1, at(0));
    let job = PlanJob::first(PlanTarget::ParentHold(order("top-t-1/1")));
    let no = Refusal::new(Reason::InsufficientCapacity, "no");
    let caller = crate::conversation::Caller::ParentHold(Token::new(USER));
    let planned = ConversationInput::Planned { job, planned: Err(no).into(), caller };
    let _ = bench.step(planned.into(), at(5));
    let _ = end(&mut bench, "top-t-1/2", MessageKind::Abort, at(10));
    let _ = bench.pass(at(1_300_000));
    assert_eq!(bench.core.parent_entries().len(), 2, "the parent may still send either again");

    // The parent says that its third attempt is the oldest one that is open.
    let _ = hold(&mut bench, "top-t-2/3", 3, at(1_400_000));
    let _ = bench.pass(at(2_700_000));
    assert!(bench.core.parent_entries().is_empty() && bench.core.find(ID).is_none());
    let _ = bench.restart(at(2_800_000));
    let written = bench.log.len();
    for id in ["top-t-1/1", "top-t-1/2"] {
        let late = hold(&mut bench, id, 0, at(2_900_000));
        let [Reply::ParentHold(_, Next::Done(ParentReply::Answered(Answer::Refused(why))))] =
            &replies(&late)[..]
        else {
            panic!("{late:?}");
        };
        assert!(why.reason == Reason::Aborted && why.detail.contains("number 3"), "{why}");
        let ended = end(&mut bench, id, MessageKind::Release, at(2_900_000));
        let done = Reply::ParentEnd(Token::new(OTHER), ParentReply::Answered(Answer::Done));
        assert_eq!(replies(&ended), [done]);
    }
    assert_eq!(bench.log.len(), written, "nothing is recorded, and no tombstone is left");
}

#[test]
fn nothing_is_forgotten_when_the_wall_clock_was_set_far_ahead() {
    for (gain_s, forgotten) in [(3_600, true), (3_601, false)] {
        let mut bench = Bench::confirmed().forgets();
        let gained = Span::from_secs(gain_s);
        let ahead = |ms| Now { wall: at(ms).wall.saturating_add(gained), boot: at(ms).boot };
        for ms in [OVER_MS, OVER_MS + 700_000] {
            let sent = bench.step(CoordinatorInput::Tick, ahead(ms));
            assert!(forgotten || sent.is_empty(), "{sent:?}");
        }
        let state = if forgotten { State::Terminating } else { State::Confirmed };
        assert_eq!(bench.state(ID), state);
        assert_eq!(bench.core.next_wake().is_some(), forgotten);
    }
}
