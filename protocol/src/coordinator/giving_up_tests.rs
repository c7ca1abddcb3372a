//! Giving up on an RM: when it is allowed, what it leads to, and that the RM is still sent Release.

use coalloc_common::UserName;

use super::tests::{
    Bench, RM, USER, at, change_planned, open_change, plan, refused, replies, rm, sends, txn,
};
use super::*;
use crate::message::{Answer, Delivery};

const ID: &str = "grc-t-1";
const TRY: &str = "grc-t-1/1";

fn of(id: &str) -> OfWhat {
    OfWhat::Reservation(ReservationId::composed(id))
}

impl Bench {
    fn give_up(&mut self, name: &str, of: OfWhat, now: Now) -> Vec<CoordinatorEffect> {
        let (rm, by, why) = (rm(name), UserName::composed("op"), "disk burnt".to_owned());
        let input = Repair::GiveUp { rm, of, by, why, token: Token::new(RM) };
        self.step(CoordinatorInput::Repair(input), now)
    }

    /// Why the RM is not given up on. Checks that nothing is written or sent.
    fn not_given_up(&mut self, name: &str, of: OfWhat, now: Now) -> NotGivenUp {
        let written = self.log.len();
        let effects = self.give_up(name, of, now);
        assert_eq!(self.log.len(), written);
        match &effects[..] {
            [CoordinatorEffect::Reply(Reply::GiveUp(_, GiveUpReply::NotGivenUp(why)))] => {
                why.clone()
            }
            other => panic!("{other:?}"),
        }
    }

    fn tick(&mut self, now: Now) -> Vec<CoordinatorEffect> {
        self.step(CoordinatorInput::Tick, now)
    }
}

/// A reservation that its user has released; `a` has acknowledged, `b` is silent.
fn released() -> Bench {
    let mut bench = Bench::confirmed();
    assert_eq!(sends(&bench.release(ID, at(50))), ["a Release", "b Release"]);
    assert_eq!(bench.answer("a", TRY, MessageKind::Release, Answer::Done, at(60)), []);
    assert_eq!(bench.state(ID), State::Terminating);
    bench
}

/// What giving up led to: the reservations, how many more there are, and at how many the RM is still needed.
fn gave_up(effects: &[CoordinatorEffect]) -> GaveUpOn {
    let told = |effect: &CoordinatorEffect| match effect {
        CoordinatorEffect::Reply(Reply::GiveUp(_, GiveUpReply::GaveUp(on))) => Some(on.clone()),
        _ => None,
    };
    effects.iter().find_map(told).unwrap_or_else(|| panic!("{effects:?}"))
}

#[test]
fn given_up_it_is_over_and_the_rm_is_told_until_it_acknowledges() {
    let mut bench = released();
    let effects = bench.give_up("b", of(ID), at(70));
    assert_eq!(gave_up(&effects).reservations, [ReservationId::composed(ID)]);
    assert_eq!(sends(&effects), ["b Release"], "it goes on being told");
    let told = replies(&effects);
    let Some(known) = told.iter().find_map(|reply| match reply {
        Reply::Release(_, ReleaseReply::Stands(known)) => Some(known),
        _ => None,
    }) else {
        panic!("the user waits: {told:?}")
    };
    assert_eq!((known.state, known.is_definite()), (State::Terminated, true));
    let [one] = &known.given_up[..] else { panic!("{:?}", known.given_up) };
    let whole = (one.rm.as_str(), one.by.as_str(), one.why.as_str(), one.at, one.until, one.ended);
    let until = coalloc_common::Time::from_us(6_000_000_000);
    assert_eq!(whole, ("b", "op", "disk burnt", at(70).wall, Some(until), None));
    let kinds: Vec<bool> = bench.log[bench.log.len() - 2..]
        .iter()
        .map(|r| matches!(r, CoordinatorRecord::GaveUp { .. }))
        .collect();
    assert_eq!(kinds, [true, false], "recorded before anything follows from it");
    assert_eq!(bench.core.owed()[&rm("b")], Owed { decisions: 0, releases: 1 });

    // A repetition gives the same answer, and writes nothing.
    let written = bench.log.len();
    let again = bench.give_up("b", of(ID), at(71));
    assert_eq!((gave_up(&again).reservations.len(), bench.log.len()), (1, written));
    assert_eq!(sends(&again), [] as [&str; 0]);

    // The same holds after a restart.
    let _ = bench.restart(at(80));
    assert_eq!((bench.state(ID), bench.core.unfinished()), (State::Terminated, 0));
    assert_eq!(sends(&bench.tick(at(81))), ["b Release"]);
    let not_configured = Delivery::Rejected("b is not configured".into());
    let kind = MessageKind::Release;
    for ms in [90, 20_000, 40_000] {
        let (rm, txn, delivery) = (rm("b"), txn(TRY), not_configured.clone());
        let input = CoordinatorInput::Delivered { rm, txn, kind, delivery };
        assert_eq!(bench.step(input, at(ms)), []);
        let next = bench.core.next_wake().unwrap();
        assert!(next > at(ms).boot, "it does not spin");
        assert_eq!(sends(&bench.tick(Now { boot: next, ..at(ms) })), ["b Release"]);
    }
    // The RM's answer to an earlier message does not acknowledge this Release.
    assert_eq!(bench.answer("b", TRY, MessageKind::Commit, Answer::Done, at(50_000)), []);
    let _ = bench.answer("b", TRY, kind, Answer::Done, at(60_000));
    assert!(matches!(bench.last(), CoordinatorRecord::DisownEnded { .. }), "{:?}", bench.last());
    let ended = |bench: &Bench| bench.core.find(ID).unwrap().given_up[0].ended;
    assert_eq!(ended(&bench), Some(at(60_000).wall));
    assert_eq!((bench.core.next_wake(), bench.core.owed().len()), (None, 0));
    let _ = bench.restart(at(70_000));
    assert_eq!((ended(&bench), bench.core.next_wake()), (Some(at(60_000).wall), None));
}

#[test]
fn only_an_end_that_is_owed_can_be_given_up() {
    let mut bench = Bench::decided();
    assert_eq!(bench.not_given_up("b", of(ID), at(25)), NotGivenUp::Wanted, "a Commit is wanted");
    for name in ["a", "b"] {
        let _ = bench.answer(name, TRY, MessageKind::Commit, Answer::Done, at(30));
    }
    assert_eq!(bench.not_given_up("b", of(ID), at(45)), NotGivenUp::Wanted, "it stands");
    let mut bench = released();
    let owing = vec![rm("b")];
    assert_eq!(bench.not_given_up("a", of(ID), at(70)), NotGivenUp::OwesNothing(owing.clone()));
    assert_eq!(bench.not_given_up("c", of(ID), at(70)), NotGivenUp::NoPart(owing));
    let unknown = Reply::GiveUp(Token::new(RM), GiveUpReply::Unknown);
    assert_eq!(replies(&bench.give_up("b", of("grc-t-9"), at(70))), [unknown]);
    assert_eq!(bench.state(ID), State::Terminating);
}

#[test]
fn what_failed_and_cannot_end_fails_for_good() {
    let mut bench = Bench::new();
    let _ = bench.reserve("r1", &[plan(&["a", "b"])], at(0));
    // The reservation is undecided: its timeout will end it.
    assert_eq!(bench.not_given_up("b", of(ID), at(5)), NotGivenUp::Wanted);
    let _ = bench.answer("a", TRY, MessageKind::Hold, refused(Reason::OutsideHorizon), at(10));
    let _ = bench.tick(at(8_000));
    assert_eq!(bench.state(ID), State::Aborting);
    let effects = bench.give_up("b", of(ID), at(8_100));
    assert_eq!(bench.state(ID), State::Failed);
    assert!(bench.core.find(ID).unwrap().is_definite());
    assert_eq!(sends(&effects), ["b Release"], "which also ends what is held");
    // An RM that asks for the decision gets it.
    let told = bench.resolve(TRY, "b", at(8_200));
    let aborted = Reply::Resolve(Token::new(RM), Resolution::Decided(Decision::Abort));
    assert!(replies(&told).contains(&aborted), "{told:?}");
}

#[test]
fn of_all_only_what_ends_is_given_up() {
    let mut bench = released();
    // The second reservation is confirmed except at `b`, whose acknowledgement of Commit is still wanted.
    let _ = bench.reserve("r2", &[plan(&["a", "b"])], at(100));
    for name in ["a", "b"] {
        let _ = bench.held(name, "grc-t-2/2", 900, at(110));
    }
    let _ = bench.answer("a", "grc-t-2/2", MessageKind::Commit, Answer::Done, at(120));
    assert_eq!(bench.core.owed()[&rm("b")], Owed { decisions: 2, releases: 0 });
    let on = gave_up(&bench.give_up("b", OfWhat::All, at(130)));
    assert_eq!(on.reservations, [ReservationId::composed(ID)]);
    assert_eq!((on.more, on.wanted), (0, 1));
    assert_eq!((bench.state(ID), bench.state("grc-t-2")), (State::Terminated, State::Committing));
    assert_eq!(bench.core.owed()[&rm("b")], Owed { decisions: 1, releases: 1 });
    let on = gave_up(&bench.give_up("b", OfWhat::All, at(140)));
    assert_eq!((on.reservations.len(), on.wanted), (0, 1), "none a second time");
    assert_eq!(gave_up(&bench.give_up("z", OfWhat::All, at(150))), GaveUpOn::default());
    // Once it is released, it may be given up on as well.
    let _ = bench.release("grc-t-2", at(160));
    let _ = bench.answer("a", "grc-t-2/2", MessageKind::Release, Answer::Done, at(170));
    let on = gave_up(&bench.give_up("b", OfWhat::All, at(180)));
    assert_eq!((on.reservations.len(), on.wanted), (1, 0));
    assert_eq!(bench.state("grc-t-2"), State::Terminated);
}

#[test]
fn of_very_many_the_rest_is_left_to_the_next_call() {
    let mut bench = Bench::new();
    let many = coalloc_common::limits::GIVE_UP_MAX + 1;
    for number in 1..=many {
        let _ = bench.reserve(&format!("r{number}"), &[plan(&["a", "b"])], at(0));
        let id = format!("grc-t-{number}/{number}");
        let no = refused(Reason::InsufficientCapacity);
        let _ = bench.answer("a", &id, MessageKind::Hold, no, at(10));
    }
    let on = gave_up(&bench.give_up("b", OfWhat::All, at(20)));
    assert_eq!((on.reservations.len(), on.more), (many - 1, 1));
    let on = gave_up(&bench.give_up("b", OfWhat::All, at(30)));
    assert_eq!((on.reservations.len(), on.more), (1, 0));
    assert_eq!(bench.core.owed()[&rm("b")].releases, many);
}

#[test]
fn what_both_versions_of_a_change_owe_is_given_up_together() {
    let mut bench = Bench::confirmed();
    let id = ReservationId::composed(ID);
    let change = RequestId::composed("c1");
    let ticket = ChangeTicket { reservation: id.clone(), change, content: "c".into() };
    let _ = bench.step(open_change(ticket, USER), at(50));
    let _ = bench.step(change_planned(ID, &[plan(&["a", "b"])], USER), at(50));
    for name in ["a", "b"] {
        let _ = bench.held(name, "grc-t-1/2", 900, at(60));
    }
    assert_eq!(bench.not_given_up("b", of(ID), at(65)), NotGivenUp::Wanted);
    let _ = bench.release(ID, at(70));
    for id in ["grc-t-1/1", "grc-t-1/2"] {
        let _ = bench.answer("a", id, MessageKind::Release, Answer::Done, at(80));
    }
    let effects = bench.give_up("b", of(ID), at(90));
    assert_eq!(sends(&effects), ["b Release", "b Release"]);
    let known = bench.core.find(ID).unwrap();
    assert_eq!((known.state, known.given_up.len()), (State::Terminated, 2));
    let _ = bench.restart(at(100));
    assert_eq!(bench.state(ID), State::Terminated);
}
