//! Quotas of holds: what they count, what they refuse and with which words, and totals that are the sum of the holds.

use coalloc_common::{AmountTime, Reason, Refusal, ResourceKind, Segment, UserName, Window};
use proptest::prelude::*;

use super::config::{CoordinatorQuotas, HoldQuota, HoldQuotas};
use super::quota::Held;
use super::tests::{abort, at, config, grc, order, run, txn, window};
use super::*;
use crate::message::{Decision, Resolution};

const KIND: ResourceKind = ResourceKind::Bandwidth;

/// A quota of holds, and of bit/s times seconds.
fn quota(holds: u32, held: Option<u64>) -> HoldQuota {
    let most = |bits: u64| AmountTime(u128::from(bits) * 1_000_000);
    HoldQuota { holds, held: held.map(|bits| (KIND, most(bits))).into_iter().collect() }
}

fn with_quotas(all: HoldQuota, each_user: HoldQuota) -> Participant {
    let each = CoordinatorQuotas { all, each_user, users: BTreeMap::new() };
    let quotas = HoldQuotas { each, coordinators: BTreeMap::new() };
    started(ParticipantConfig { quotas, ..config(&[("N0-N1", 1_000)]) })
}

fn started(config: ParticipantConfig) -> Participant {
    let mut participant = Participant::new(config);
    let _ = participant.step(ParticipantInput::Start { boot: "first".into() }, at(0));
    participant
}

fn of(user: &str, order: HoldOrder) -> HoldOrder {
    HoldOrder { user: UserName::composed(user), ..order }
}

fn hold(p: &mut Participant, order: HoldOrder) -> Answer {
    super::tests::hold(p, order, at(1))
}

fn refused(answer: Answer) -> Refusal {
    match answer {
        Answer::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

fn commit(p: &mut Participant, name: &str) {
    assert_eq!(super::tests::commit(p, name, at(2)), Answer::Done);
}

fn end(p: &mut Participant, name: &str) {
    assert_eq!(abort(p, name, at(2)), Answer::Done);
}

fn holds(p: &Participant, user: Option<&str>) -> u64 {
    let user = user.map(UserName::composed);
    p.held_by(&grc(), user.as_ref()).map_or(0, |held| held.holds)
}

fn is_held(answer: &Answer) -> bool {
    matches!(answer, Answer::Held { .. })
}

#[test]
fn one_hold_too_many_is_refused_with_the_quota_and_what_is_used() {
    let mut p = with_quotas(quota(3, None), quota(2, None));
    let small = |name: &str| order(name, 1, window(600, 1_200));
    for name in ["a", "b"] {
        assert!(is_held(&hold(&mut p, of("alice", small(name)))));
    }
    let third = of("alice", small("c"));
    let refusal = refused(hold(&mut p, third.clone()));
    assert_eq!(refusal.reason, Reason::Quota);
    assert_eq!(
        refusal.to_string(),
        "nrm-N: user alice of coordinator grc has 2 of at most 2 holds here that are not booked \
         yet: none is left until one of them is booked or ends"
    );
    assert!(is_held(&hold(&mut p, of("bob", small("d")))));
    let refusal_of_all = refused(hold(&mut p, of("carol", small("e"))));
    assert!(refusal_of_all.detail.starts_with("coordinator grc has 3 of at most 3 holds"));
    // A booking is no hold any more, and neither is what has ended.
    commit(&mut p, "a");
    end(&mut p, "d");
    assert_eq!((holds(&p, Some("alice")), holds(&p, Some("bob")), holds(&p, None)), (1, 0, 1));
    assert!(is_held(&hold(&mut p, of("alice", small("f")))));
    // The same id gets the same answer although there is room now (I8).
    end(&mut p, "f");
    assert_eq!(refused(hold(&mut p, third)), refusal);
}

#[test]
fn too_much_held_is_refused_with_what_is_left() {
    // 1 Gbit/s for an hour.
    let hour = 3_600_000_000_000;
    let mut config = config(&[("N0-N1", 5_000_000_000)]);
    config.quotas.each.each_user = quota(10, Some(hour));
    config.quotas.each.all = quota(10, Some(2 * hour));
    let mut p = started(config);
    let half = |name: &str, amount: u64| order(name, amount, window(600, 600 + 1_800));
    assert!(is_held(&hold(&mut p, of("alice", half("a", 1_500_000_000)))));
    let refusal = refused(hold(&mut p, of("alice", half("b", 1_000_000_000))));
    assert_eq!(refusal.reason, Reason::Quota);
    assert_eq!(
        refusal.detail,
        "user alice of coordinator grc holds 0.75 Gbit/s-hours of at most 1 Gbit/s-hour here that \
         are not booked yet: 0.25 Gbit/s-hours are left, and this hold takes 0.5 Gbit/s-hours"
    );
    assert!(is_held(&hold(&mut p, of("alice", half("c", 500_000_000)))), "all that is left");
    assert!(is_held(&hold(&mut p, of("bob", half("d", 1_600_000_000)))));
    let refusal = refused(hold(&mut p, of("carol", half("e", 800_000_000))));
    assert!(refusal.detail.starts_with("coordinator grc holds 1.8 Gbit/s-hours of at most 2 "));
    // What does not fit at all is refused for that.
    let refusal = refused(hold(&mut p, of("carol", half("f", 6_000_000_000))));
    assert_eq!(refusal.reason, Reason::BeyondCapacity);
}

#[test]
fn a_coordinator_and_a_user_may_have_quotas_of_their_own() {
    let mut config = config(&[("N0-N1", 1_000)]);
    config.quotas.each = CoordinatorQuotas {
        all: quota(1, None),
        each_user: quota(1, None),
        users: BTreeMap::new(),
    };
    let own = CoordinatorQuotas {
        all: quota(4, None),
        each_user: quota(1, None),
        users: [(UserName::composed("alice"), quota(2, None))].into(),
    };
    config.quotas.coordinators.insert(grc(), own);
    let mut p = started(config);
    let small = |user: &str, name: &str| of(user, order(name, 1, window(600, 1_200)));
    for (user, name, expected) in [
        ("alice", "a", true),
        ("alice", "b", true),
        ("alice", "c", false),
        ("bob", "d", true),
        ("bob", "e", false),
    ] {
        assert_eq!(is_held(&hold(&mut p, small(user, name))), expected, "{name}");
    }
    // The other coordinator has the quota of all, and what grc holds does not count there.
    let other = CoordinatorName::composed("other");
    for (number, expected) in [(1, true), (2, false)] {
        let order = HoldOrder {
            txn: TransactionId::composed(format!("other-t-{number}/1")),
            coordinator: other.clone(),
            ..small("alice", "x")
        };
        assert_eq!(is_held(&hold(&mut p, order)), expected, "{number}");
    }
}

#[test]
fn a_new_version_counts_what_it_takes_beyond_the_old_one() {
    let mut p = with_quotas(quota(1, Some(100_000)), quota(1, Some(100_000)));
    let version = |name: &str, amount: u64, replaces: &str| {
        let order = order(name, amount, window(600, 700));
        HoldOrder { replaces: (!replaces.is_empty()).then(|| txn(replaces)), ..order }
    };
    assert!(is_held(&hold(&mut p, version("a", 900, ""))));
    commit(&mut p, "a");
    assert!(is_held(&hold(&mut p, version("b", 1_000, "a"))), "100 more for 100 s");
    let held = p.held_by(&grc(), None).unwrap();
    let expected = Held { holds: 1, amounts: quota(1, Some(10_000)).held };
    assert_eq!(*held, expected);
    commit(&mut p, "b");
    assert!(p.held_by(&grc(), None).is_none());
    // The only hold is taken; what asks for no more than it has counts nothing, and is held all the same.
    assert!(is_held(&hold(&mut p, order("c", 1, window(800, 900)))));
    assert!(is_held(&hold(&mut p, version("d", 500, "b"))), "it takes nothing");
    assert_eq!(holds(&p, None), 1);
    end(&mut p, "d");
    let refusal = refused(hold(&mut p, version("e", 500, "")));
    assert_eq!(refusal.reason, Reason::Quota);
}

#[test]
fn a_one_way_hold_is_within_the_quota_and_counts_no_longer() {
    let mut p = with_quotas(quota(1, None), quota(1, Some(60_000)));
    let one_way = |name: &str, amount: u64| HoldOrder {
        one_way: true,
        ..order(name, amount, window(600, 700))
    };
    for name in ["a", "b", "c"] {
        assert!(is_held(&hold(&mut p, one_way(name, 1))));
        assert_eq!(holds(&p, None), 0);
    }
    assert_eq!(refused(hold(&mut p, one_way("d", 601))).reason, Reason::Quota);
    assert!(is_held(&hold(&mut p, order("e", 1, window(600, 700)))));
    assert_eq!(refused(hold(&mut p, one_way("f", 1))).reason, Reason::Quota);
}

#[test]
fn what_is_held_stays_held_under_smaller_quotas() {
    let mut log = Vec::new();
    let mut p = started(config(&[("N0-N1", 1_000)]));
    for name in ["a", "b", "c"] {
        let order = order(name, 1, window(600, 700));
        let step =
            p.step(ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) }, at(1));
        log.extend(step.records().iter().cloned());
    }
    let mut smaller = with_quotas(quota(1, Some(1)), quota(1, Some(1)));
    for record in &log {
        smaller.apply(record).unwrap();
        smaller.check_invariants().unwrap();
    }
    assert_eq!(holds(&smaller, None), 3);
    commit(&mut smaller, "a");
    let refusal = refused(hold(&mut smaller, order("d", 1, window(600, 700))));
    assert!(refusal.detail.contains("has 2 of at most 1 holds"), "{refusal}");
}

/// What happens next in a random run.
#[derive(Debug, Clone)]
enum Move {
    Hold {
        user: u8,
        amount: u64,
        start: i64,
        length: i64,
        replaces: Option<usize>,
        keeps_old: bool,
        one_way: bool,
    },
    Commit(usize),
    Abort(usize),
    Release(usize),
    Resolve(usize, bool),
    Tick(i64),
    Reboot,
}

fn moves() -> impl Strategy<Value = Move> {
    let which = || 0..12_usize;
    let replaces = || (prop::option::of(which()), any::<bool>(), prop::bool::weighted(0.2));
    prop_oneof![
        6 => (0..3_u8, 1..300_u64, 600..900_i64, 1..300_i64, replaces()).prop_map(
            |(user, amount, start, length, (replaces, keeps_old, one_way))| Move::Hold {
                user, amount, start, length, replaces, keeps_old,
                one_way: one_way && replaces.is_none(),
            }
        ),
        3 => which().prop_map(Move::Commit),
        2 => which().prop_map(Move::Abort),
        2 => which().prop_map(Move::Release),
        1 => (which(), any::<bool>()).prop_map(|(which, commit)| Move::Resolve(which, commit)),
        2 => (1..700_i64).prop_map(Move::Tick),
        1 => Just(Move::Reboot),
    ]
}

/// What a user holds, from the timetables' own holds: nothing of the totals is used.
fn naive(p: &Participant, user: &str) -> (u64, u128) {
    let (mut holds, mut bits) = (0, 0);
    for entry in p.entries().values() {
        let (Phase::Held(held), Some(order)) = (&entry.phase, &entry.order) else { continue };
        if order.user.as_str() != user {
            continue;
        }
        let area = |of: &Segment| {
            u128::from(of.amount.0) * u128::from(of.window.length().as_us().unsigned_abs())
        };
        holds += u64::from(!held.taken.is_empty());
        bits += held.taken.iter().map(area).sum::<u128>();
    }
    (holds, bits)
}

proptest! {
    #[test]
    fn the_totals_are_the_sum_of_the_holds_and_new_holds_are_within_the_quotas(
        all in prop::collection::vec(moves(), 1..60),
    ) {
        let mut p = with_quotas(quota(5, Some(60_000)), quota(3, Some(40_000)));
        let (mut now, mut boots, mut names) = (1, 0, Vec::new());
        for (number, next) in all.into_iter().enumerate() {
            let name = |which: usize| {
                names.get(which).cloned().unwrap_or_else(|| txn("unknown"))
            };
            let token = Token::new(1);
            let input = match next {
                Move::Hold { user, amount, start, length, replaces, keeps_old, one_way } => {
                    let window = Window::new(at(now + start).wall, at(now + start + length).wall);
                    let order = HoldOrder {
                        txn: TransactionId::composed(format!("grc-m-{number}/1")),
                        replaces: replaces.map(name),
                        keeps_old,
                        one_way,
                        ..of(&format!("u{user}"), order("x", amount, window.unwrap()))
                    };
                    names.push(order.txn.clone());
                    names = names.split_off(names.len().saturating_sub(12));
                    ParticipantInput::Hold { order, oldest_open: 0, token }
                }
                Move::Commit(of) => ParticipantInput::Commit { txn: name(of), by: grc(), token },
                Move::Abort(of) => ParticipantInput::Abort { txn: name(of), by: grc(), token },
                Move::Release(of) => ParticipantInput::Release { txn: name(of), by: grc(), token },
                Move::Resolve(of, commit) => {
                    let decision = if commit { Decision::Commit } else { Decision::Abort };
                    let resolution = Resolution::Decided(decision);
                    ParticipantInput::Resolved { txn: name(of), resolution }
                }
                Move::Tick(by) => {
                    now += by;
                    ParticipantInput::Tick
                }
                Move::Reboot => {
                    boots += 1;
                    ParticipantInput::Start { boot: format!("boot-{boots}") }
                }
            };
            let _ = run(&mut p, input, at(now));
            let new = |entry: &&Entry| {
                let order = entry.order.as_ref();
                let is_new = order.is_some_and(|order| order.replaces.is_none());
                matches!(entry.phase, Phase::Held(_)) && is_new
            };
            prop_assert!(p.entries().values().filter(new).count() <= 5);
            let mut sums = (0, 0);
            for user in ["u0", "u1", "u2"] {
                let (holds, bits) = naive(&p, user);
                let held = p.held_by(&grc(), Some(&UserName::composed(user)));
                let told = held.map_or((0, 0), |held| {
                    (held.holds, held.amounts.get(&KIND).map_or(0, |sum| sum.0))
                });
                prop_assert_eq!(told, (holds, bits), "{}", user);
                sums = (sums.0 + holds, sums.1 + bits);
            }
            let held = p.held_by(&grc(), None);
            let told = held.map_or((0, 0), |held| {
                (held.holds, held.amounts.get(&KIND).map_or(0, |sum| sum.0))
            });
            prop_assert_eq!(told, sums);
        }
    }
}
