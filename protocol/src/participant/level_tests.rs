//! Levels of coordinators: what a participant shows and gives a coordinator is never more than the best level of that
//! coordinator, whichever user it claims.

use std::collections::BTreeMap;

use coalloc_common::service_level::{WHOLE, part};
use coalloc_common::{
    CoordinatorLevels, Reason, Requester, ResourceKind, RmName, Segment, ServiceLevels, Time,
    UserName, Window,
};
use proptest::prelude::*;

use super::tests::synced;
use super::*;

const CAPACITY: u64 = 100;
/// How many hours the tests distinguish.
const HOURS: i64 = 6;

fn now() -> Now {
    Now { wall: Time::from_us(1), boot: BootTime::from_us(1) }
}

fn hours(from: i64, to: i64) -> Window {
    let at = |hour: i64| Time::from_us((hour + 1) * 3_600_000_000);
    Window::new(at(from), at(to)).unwrap()
}

fn site() -> ResourceId {
    ResourceId::composed("A")
}

fn coordinator(name: &str) -> CoordinatorName {
    CoordinatorName::composed(name)
}

/// A site of which grc may know everything and south a part, with levels of users who have no other at a coordinator.
fn participant(users: BTreeMap<UserName, u32>, south: CoordinatorLevels) -> Participant {
    let grc = CoordinatorLevels { best: WHOLE, each_user: Some(WHOLE), users: BTreeMap::new() };
    let coordinators = [(coordinator("grc"), grc), (coordinator("south"), south)];
    let mut participant = Participant::new(ParticipantConfig {
        name: RmName::composed("crm"),
        resources: vec![(site(), Amount(CAPACITY))],
        kinds: ResourceKind::Cpus.into(),
        coordinators: coordinators.iter().map(|(name, _)| name.clone()).collect(),
        policy: HoldPolicy::default(),
        levels: ServiceLevels { users, coordinators: coordinators.into() },
        quotas: HoldQuotas::default(),
        inside: None,
        servers: BTreeMap::new(),
    });
    let _ = participant.step(ParticipantInput::Start { boot: "one".into() }, now());
    participant
}

fn order(by: &str, number: usize, user: &str, amount: u64, window: Window) -> HoldOrder {
    HoldOrder {
        txn: TransactionId::composed(format!("{by}-t-{number}/1")),
        coordinator: coordinator(by),
        user: UserName::composed(user),
        segments: vec![Segment { resource: site(), amount: Amount(amount), window }],
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    }
}

fn hold(participant: &mut Participant, order: HoldOrder) -> Answer {
    let input = ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) };
    let step = participant.step(input, now());
    participant.check_invariants().unwrap();
    let answers = synced(step).into_iter().find_map(|effect| match effect {
        ParticipantEffect::Reply { answer, .. } => Some(answer),
        ParticipantEffect::Ask { .. } | ParticipantEffect::Reconcile { .. } => None,
    });
    answers.unwrap()
}

/// What a query of a requester says is free for a user.
fn free(participant: &Participant, requester: Requester, user: &str, window: Window) -> u64 {
    let question = Question::new(vec![window], UserName::composed(user), None);
    let mut question = question.of(requester);
    while !question.is_answered() {
        participant.answer(&mut question, now());
    }
    question.into_answer()[0][0].0
}

fn is_told(answer: &Answer) -> (Reason, Option<u64>, &str) {
    match answer {
        Answer::Refused(refusal) => {
            (refusal.reason, refusal.available.map(|amount| amount.0), &refusal.detail)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_coordinator_that_claims_a_better_user_of_another_gets_its_own_share() {
    let users =
        [("alice", 100), ("eve", 20)].map(|(name, share)| (UserName::composed(name), share));
    let south = CoordinatorLevels { best: 30, each_user: None, users: BTreeMap::new() };
    let mut p = participant(users.into(), south);
    let day = hours(0, 4);
    let of = |p: &Participant, requester, user| free(p, requester, user, day);
    let south = || Requester::Coordinator(coordinator("south"));
    let grc = Requester::Coordinator(coordinator("grc"));
    assert_eq!(
        (of(&p, grc, "alice"), of(&p, south(), "alice"), of(&p, south(), "eve")),
        (100, 30, 20)
    );
    assert_eq!((of(&p, Requester::Staff, "alice"), of(&p, Requester::Unknown, "alice")), (100, 30));
    // Beyond its best level, nothing more is there for it, however much is asked for.
    for (number, amount) in [(1, 31), (2, 99), (3, 100)] {
        let answer = hold(&mut p, order("south", number, "alice", amount, day));
        let (reason, available, detail) = is_told(&answer);
        assert_eq!((reason, available), (Reason::InsufficientCapacity, Some(30)), "{detail}");
        assert!(detail.contains("A has 30 CPUs free for coordinator south in"), "{detail}");
    }
    // Within it, the level of a user is said as before.
    let answer = hold(&mut p, order("south", 4, "eve", 21, day));
    let (reason, available, detail) = is_told(&answer);
    assert_eq!((reason, available), (Reason::ServiceLevel, Some(20)), "{detail}");
    assert!(matches!(hold(&mut p, order("south", 5, "alice", 30, day)), Answer::Held { .. }));
    assert_eq!((of(&p, south(), "alice"), of(&p, south(), "eve")), (21, 14));
    assert!(matches!(hold(&mut p, order("grc", 6, "alice", 70, day)), Answer::Held { .. }));
}

proptest! {
    /// Whatever is booked, whichever user south claims and whatever it asks for: it is not shown, told or given more than
    /// its best level of what is free.
    #[test]
    fn a_coordinator_never_gets_more_than_its_best_level(
        best in 1..=WHOLE,
        each_user in proptest::option::of(1..=WHOLE),
        general in proptest::collection::btree_map("[a-c]", 1..=WHOLE, 0..3),
        own in proptest::collection::btree_map("[a-c]", 1..=WHOLE, 0..3),
        booked in proptest::collection::vec((1..=40_u64, 0..HOURS, 1..=3_i64), 0..6),
        asked in proptest::collection::vec(("[a-d]", 1..=CAPACITY, 0..HOURS, 1..=3_i64), 1..8),
    ) {
        let named = |all: BTreeMap<String, u32>| -> BTreeMap<UserName, u32> {
            all.into_iter().map(|(name, share)| (UserName::composed(name), share)).collect()
        };
        let south = CoordinatorLevels { best, each_user, users: named(own) };
        let mut p = participant(named(general), south);
        for (number, (amount, from, length)) in booked.into_iter().enumerate() {
            let _ = hold(&mut p, order("grc", number, "z", amount, hours(from, from + length)));
        }
        for (number, (user, amount, from, length)) in asked.into_iter().enumerate() {
            let window = hours(from, from + length);
            let whole = p.timetables[&site()].free_min(window);
            let most = part(best, u128::from(whole.0)).0;
            let requester = Requester::Coordinator(coordinator("south"));
            let shown = free(&p, requester, &user, window);
            prop_assert!(shown <= most, "{} shown of at most {}", shown, most);
            match hold(&mut p, order("south", number, &user, amount, window)) {
                Answer::Held { .. } => prop_assert!(amount <= shown),
                Answer::Refused(refusal) => {
                    prop_assert!(amount > shown, "{:?}", refusal);
                    prop_assert_eq!(refusal.available, Some(Amount(shown)));
                    let is_beyond = refusal.reason == Reason::InsufficientCapacity;
                    prop_assert_eq!(is_beyond, amount > most, "{:?}", refusal);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
