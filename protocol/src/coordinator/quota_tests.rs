//! Quotas of users: what counts, what is refused, and what a restart still knows.

use coalloc_common::{Amount, ResourceId, ResourceKinds, Segment};
use proptest::prelude::*;

use super::tests::{
    Bench, OTHER, USER, at, change_planned, open_change, plans_again, refused, replies, rm, sends,
    ticket, txn,
};
use super::*;
use crate::coordinator::reservation::ChangeTicket;
use crate::message::Answer;
use coalloc_common::{AmountTime, ResourceKind, Time, UserName, Window};

const HOUR_S: i64 = 3_600;

fn user() -> UserName {
    UserName::composed("UserA")
}

/// CPUs at an RM for a number of hours, from the hour `from` after the bench's time 0.
fn cpus(name: &str, amount: u64, from: i64, hours: i64) -> Candidate {
    let start = at(0).wall.saturating_add(Span::from_secs(from * HOUR_S));
    let window = Window::starting(start, Span::from_secs(hours * HOUR_S)).unwrap();
    let segment = Segment { resource: ResourceId::composed("A"), amount: Amount(amount), window };
    Candidate {
        segments: [(rm(name), vec![segment])].into(),
        kinds: [(rm(name), ResourceKinds::all(ResourceKind::Cpus))].into(),
        ..Candidate::default()
    }
}

fn bench(live: u32, cpu_hours: Option<u64>) -> Bench {
    let mut bench = Bench::new();
    let hours = |hours| (ResourceKind::Cpus, AmountTime::from_hours(ResourceKind::Cpus, hours));
    let each = ReservationQuota { live, ahead: cpu_hours.map(hours).into_iter().collect() };
    bench.core.set_quotas(ReservationQuotas { each, users: BTreeMap::new() });
    bench
}

/// Reserves and books a candidate at one RM. Returns its state.
fn book(bench: &mut Bench, number: usize, candidate: Candidate, now_ms: i64) -> State {
    let name = candidate.segments.keys().next().unwrap().to_string();
    let _ = bench.reserve(&format!("r{number}"), &[candidate], at(now_ms));
    let id = format!("grc-t-{number}");
    if bench.state(&id) == State::Checking {
        let attempt = bench.core.find(&id).unwrap().transaction.clone().unwrap().to_string();
        let _ = bench.held(&name, &attempt, 900, at(now_ms));
        let _ = bench.answer(&name, &attempt, MessageKind::Commit, Answer::Done, at(now_ms));
    }
    bench.state(&id)
}

fn hours(bench: &Bench, now_ms: i64) -> (u64, String) {
    let reserved = bench.core.reserved_by(&user(), at(now_ms).wall);
    let cpus = reserved.ahead.get(&ResourceKind::Cpus).copied().unwrap_or_default();
    (reserved.live, cpus.show_down(ResourceKind::Cpus))
}

fn refusal(bench: &Bench, id: &str) -> Refusal {
    bench.core.find(id).unwrap().refusal.clone().unwrap()
}

#[test]
fn one_reservation_too_many_is_refused_and_a_release_gives_it_back() {
    let mut bench = bench(2, None);
    assert_eq!(book(&mut bench, 1, cpus("a", 1, 1, 1), 0), State::Confirmed);
    assert_eq!(book(&mut bench, 2, cpus("a", 1, 1, 1), 1), State::Confirmed);
    assert_eq!(book(&mut bench, 3, cpus("a", 1, 1, 1), 2), State::Failed);
    let refusal = refusal(&bench, "grc-t-3");
    assert_eq!(refusal.reason, Reason::Quota);
    assert!(refusal.detail.contains("2 of at most 2 live reservations"), "{refusal:?}");
    let _ = bench.release("grc-t-1", at(3));
    // What is being released may still be booked.
    assert_eq!(book(&mut bench, 4, cpus("a", 1, 1, 1), 4), State::Failed);
    let _ = bench.answer("a", "grc-t-1/1", MessageKind::Release, Answer::Done, at(5));
    assert_eq!(book(&mut bench, 5, cpus("a", 1, 1, 1), 6), State::Confirmed);
}

#[test]
fn a_reservation_counts_until_its_time_is_over() {
    let mut bench = bench(1, Some(100));
    assert_eq!(book(&mut bench, 1, cpus("a", 10, 1, 2), 0), State::Confirmed);
    assert_eq!(hours(&bench, 0), (1, "20 CPU-hours".to_owned()));
    // An hour and a half of its two hours are left.
    assert_eq!(hours(&bench, 3_600_000 * 3 / 2), (1, "15 CPU-hours".to_owned()));
    let over = 3 * 3_600_000;
    assert_eq!(hours(&bench, over), (0, "0 CPU-hours".to_owned()));
    assert_eq!(book(&mut bench, 2, cpus("a", 1, 5, 1), over), State::Confirmed);
}

#[test]
fn hours_ahead_are_limited_and_the_refusal_says_what_is_left() {
    let mut bench = bench(10, Some(30));
    assert_eq!(book(&mut bench, 1, cpus("a", 10, 1, 2), 0), State::Confirmed);
    assert_eq!(book(&mut bench, 2, cpus("a", 11, 1, 1), 1), State::Failed);
    let refusal = refusal(&bench, "grc-t-2");
    let said = "user UserA has reserved 20 CPU-hours from now on, of at most 30 CPU-hours";
    assert!(refusal.detail.starts_with(said), "{refusal:?}");
    let left = "10 CPU-hours are left, and this takes 11 CPU-hours";
    assert!(refusal.detail.ends_with(left), "{refusal:?}");
    assert_eq!(book(&mut bench, 3, cpus("a", 10, 1, 1), 2), State::Confirmed);
    // Nothing was sent or begun for what was refused.
    assert_eq!(bench.core.find("grc-t-2").unwrap().attempts, 0);
}

#[test]
fn a_candidate_within_the_quota_is_tried_instead_of_one_beyond_it() {
    let mut bench = bench(10, Some(30));
    let plans = [cpus("a", 31, 1, 1), cpus("b", 30, 1, 1), cpus("c", 1, 1, 1)];
    assert_eq!(sends(&bench.reserve("r1", &plans, at(0))), ["b Hold"]);
}

#[test]
fn a_change_that_takes_no_more_meets_no_quota_and_counts_once() {
    let mut bench = bench(1, Some(30));
    assert_eq!(book(&mut bench, 1, cpus("a", 10, 1, 2), 0), State::Confirmed);
    // A smaller quota in a new configuration ends nothing.
    let hours_10 = (ResourceKind::Cpus, AmountTime::from_hours(ResourceKind::Cpus, 10));
    let each = ReservationQuota { live: 1, ahead: [hours_10].into() };
    bench.core.set_quotas(ReservationQuotas { each, users: BTreeMap::new() });
    let change = |id: &str| ChangeTicket {
        reservation: ReservationId::composed("grc-t-1"),
        change: RequestId::composed(id),
        content: id.to_owned(),
    };
    let _ = bench.step(open_change(change("more"), USER), at(1));
    let told = bench.step(change_planned("grc-t-1", &[cpus("a", 11, 1, 2)], USER), at(1));
    assert!(sends(&told).is_empty(), "{told:?}");
    let known = bench.core.find("grc-t-1").unwrap().clone();
    assert_eq!(known.change.unwrap().refusal.unwrap().reason, Reason::Quota);
    let _ = bench.step(open_change(change("same"), USER), at(2));
    let told = bench.step(change_planned("grc-t-1", &[cpus("a", 20, 2, 1)], USER), at(2));
    assert_eq!(sends(&told), ["a Hold"]);
    assert_eq!(hours(&bench, 2), (1, "20 CPU-hours".to_owned()));
    let refused = bench.answer("a", "grc-t-1/2", MessageKind::Hold, refused(Reason::Quota), at(3));
    assert!(plans_again(&refused).is_empty());
}

#[test]
fn one_user_never_takes_the_quota_of_another() {
    let mut bench = bench(1, None);
    assert_eq!(book(&mut bench, 1, cpus("a", 1, 1, 1), 0), State::Confirmed);
    let other = Ticket { user: UserName::composed("UserB"), ..ticket("r2", "c") };
    let _ = bench.step(super::tests::open(other, OTHER), at(1));
    let planned = super::tests::request_planned("r2", Ok(vec![cpus("a", 1, 1, 1)]), OTHER);
    assert_eq!(sends(&bench.step(planned, at(1))), ["a Hold"]);
}

#[test]
fn what_a_user_has_reserved_is_the_same_after_a_restart() {
    let mut bench = bench(10, Some(100));
    assert_eq!(book(&mut bench, 1, cpus("a", 10, 1, 2), 0), State::Confirmed);
    let _ = bench.reserve("r2", &[cpus("b", 3, 1, 1)], at(1));
    let (before, quotas) = (hours(&bench, 2), bench.core.quotas().clone());
    assert_eq!(before, (2, "23 CPU-hours".to_owned()));
    // The restart aborts what was undecided; until the RM has acknowledged it, it counts.
    let _ = bench.restart(at(2));
    bench.core.set_quotas(quotas);
    assert_eq!(hours(&bench, 2), before);
    let _ = bench.answer("b", "grc-t-2/2", MessageKind::Abort, Answer::Done, at(3));
    assert_eq!(hours(&bench, 3), (1, "20 CPU-hours".to_owned()));
    assert!(bench.core.reservation_of(&txn("grc-t-2/2")).is_some());
}

proptest! {
    /// Against a naive model: a user's hours are the sum of what is left of each booked window, and a request is
    /// confirmed exactly when it fits beside them.
    #[test]
    fn requests_are_confirmed_exactly_when_they_fit(
        requests in prop::collection::vec((1_u64..8, 0_i64..6, 1_i64..4, 0_i64..3), 1..12),
        live in 1_u32..6,
        quota in 5_u64..40,
    ) {
        let mut bench = bench(live, Some(quota));
        let (mut booked, mut now): (Vec<(u64, i64, i64)>, i64) = (Vec::new(), 0);
        for (number, (amount, from, hours, pause)) in requests.into_iter().enumerate() {
            now += pause;
            let from = now + from;
            booked.retain(|(_, _, end)| *end > now);
            let left = |(amount, from, end): &(u64, i64, i64)| amount * (end - now.max(*from)) as u64;
            let used: u64 = booked.iter().map(left).sum();
            let one = (amount, from, from + hours);
            let fits = booked.len() < live as usize && used + left(&one) <= quota;
            let state = book(&mut bench, number + 1, cpus("a", amount, from, hours), now * 3_600_000);
            prop_assert_eq!(state == State::Confirmed, fits);
            if fits {
                booked.push(one);
            }
        }
    }
}

#[test]
fn replies_to_a_refused_request_name_the_quota() {
    let mut bench = bench(1, None);
    assert_eq!(book(&mut bench, 1, cpus("a", 1, 1, 1), 0), State::Confirmed);
    let told = bench.reserve("r2", &[cpus("a", 1, 1, 1)], at(1));
    assert_eq!(replies(&told).len(), 1);
    assert_eq!(refusal(&bench, "grc-t-2").reason, Reason::Quota);
    let until = Time::from_us(i64::MAX - 1);
    assert_eq!(bench.core.reserved_by(&user(), until).live, 0);
}
