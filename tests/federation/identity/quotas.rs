//! Quotas of users at a real coordinator: who meets one is told which and what is left, and nobody else notices.

use std::sync::OnceLock;

use coalloc_common::Role;
use coalloc_net::client::Dialer;
use coalloc_proto::v1::{self, Reason, ReservationState as State};
use tonic::Code;
use tonic_types::StatusExt as _;

use super::world::{TlsWorld, request};
use crate::harness::{pair, seconds_from_now};

/// Reserves some CPUs at each of two sites for a number of hours, an hour from now, with a tenth of a Gbit/s between them.
async fn reserve(
    world: &TlsWorld,
    dialer: &Dialer,
    id: &str,
    (user, cpus, hours): (&str, u64, i64),
) -> v1::Reservation {
    reserve_wide(world, dialer, id, (user, cpus, 100, hours)).await
}

async fn reserve_wide(
    world: &TlsWorld,
    dialer: &Dialer,
    id: &str,
    (user, cpus, mbps, hours): (&str, u64, u64, i64),
) -> v1::Reservation {
    // The same start for all, so that the same request is the same when it is sent again.
    static START: OnceLock<coalloc_proto::Timestamp> = OnceLock::new();
    let start = START.get_or_init(|| seconds_from_now(3_600));
    let request = Some(v1::CoAllocationRequest {
        user: user.to_owned(),
        earliest_start: Some(*start),
        ..pair(cpus, mbps, 3_600, hours * 3_600)
    });
    let request = v1::ReserveRequest { request_id: id.to_owned(), request, ..Default::default() };
    world.grc(dialer).reserve(request).await.unwrap().into_inner().reservation.unwrap()
}

async fn quota(world: &TlsWorld, dialer: &Dialer, user: &str) -> v1::GetQuotaResponse {
    let wanted = v1::GetQuotaRequest { user: user.to_owned() };
    world.grc(dialer).get_quota(wanted).await.unwrap().into_inner()
}

fn refused_by_quota(reservation: &v1::Reservation, said: &str) {
    let refusal = reservation.refusal.clone().unwrap_or_default();
    let found = (reservation.state(), refusal.reason());
    assert_eq!(found, (State::Failed, Reason::Quota), "{reservation:?}");
    assert!(refusal.detail.contains(said), "{refusal:?}");
}

async fn release(world: &TlsWorld, dialer: &Dialer, id: &str, user: &str) {
    let wanted = v1::ReleaseReservationRequest { id: id.to_owned(), user: user.to_owned() };
    let released = world.grc(dialer).release(wanted).await.unwrap().into_inner();
    assert_eq!(released.reservation.unwrap().state(), State::Terminated);
}

#[tokio::test(flavor = "multi_thread")]
async fn live_reservations_are_limited_whoever_asks_for_the_user_and_after_a_restart() {
    let quotas =
        "quotas: {user: {reservations: 3}, users: [{user: bob, quota: {reservations: 4}}]}\n";
    let mut world = TlsWorld::start_with(quotas).await;
    let alice = world.who("grid", Role::User, "alice");
    let olga = world.who("grid", Role::Operator, "olga");
    for number in 0..3 {
        let made = reserve(&world, &alice, &format!("a{number}"), ("alice", 1, 1)).await;
        assert_eq!(made.state(), State::Confirmed, "{made:?}");
    }
    let said = "user alice has 3 of at most 3 live reservations";
    refused_by_quota(&reserve(&world, &alice, "a3", ("alice", 1, 1)).await, said);
    refused_by_quota(&reserve(&world, &olga, "a4", ("alice", 1, 1)).await, said);
    // The same request gets the same answer, and what was refused is in nobody's way.
    refused_by_quota(&reserve(&world, &alice, "a3", ("alice", 1, 1)).await, said);
    let of_alice = quota(&world, &alice, "").await;
    assert_eq!((of_alice.user.as_str(), of_alice.reservations), ("alice", 3));
    assert_eq!(of_alice.reservations_max, 3);
    assert_eq!(quota(&world, &olga, "bob").await.reservations_max, 4);
    let denied = world.grc(&alice).get_quota(v1::GetQuotaRequest { user: "bob".to_owned() }).await;
    assert_eq!(denied.unwrap_err().code(), Code::PermissionDenied);
    let nobody = world.grc(&olga).get_quota(v1::GetQuotaRequest::default()).await.unwrap_err();
    assert_eq!(nobody.code(), Code::InvalidArgument, "{nobody:?}");
    world.federation.kill("grc");
    world.federation.spawn("grc");
    crate::harness::eventually("the coordinator is back", || async {
        let all = world.grc(&olga).describe_federation(v1::DescribeFederationRequest {}).await;
        all.is_ok_and(|all| all.into_inner().resource_managers.iter().all(|rm| rm.reachable))
    })
    .await;
    assert_eq!(quota(&world, &alice, "").await, of_alice);
    refused_by_quota(&reserve(&world, &alice, "a5", ("alice", 1, 1)).await, said);
    release(&world, &alice, "a0", "alice").await;
    assert_eq!(reserve(&world, &alice, "a6", ("alice", 1, 1)).await.state(), State::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn hours_ahead_are_limited_by_kind_and_the_refusal_says_what_is_left() {
    let quotas = "quotas: {user: {cpu_hours: 50, gbit_hours: 1}}\n";
    let mut world = TlsWorld::start_with(quotas).await;
    let alice = world.who("grid", Role::User, "alice");
    let bob = world.who("grid", Role::User, "bob");
    // Ten CPUs at each of two sites for two hours, and a tenth of a Gbit/s.
    let made = reserve(&world, &alice, "a0", ("alice", 10, 2)).await;
    assert_eq!(made.state(), State::Confirmed, "{made:?}");
    let hours = |quota: &v1::GetQuotaResponse| {
        let one =
            |of: &v1::HoursQuota| (of.kind.clone(), of.reserved_thousandths, of.max_thousandths);
        quota.hours.iter().map(one).collect::<Vec<_>>()
    };
    let expected =
        [("cpus".to_owned(), 40_000, Some(50_000)), ("bandwidth".to_owned(), 200, Some(1_000))];
    assert_eq!(hours(&quota(&world, &alice, "").await), expected);
    let refused = reserve(&world, &alice, "a1", ("alice", 6, 1)).await;
    refused_by_quota(&refused, "40 CPU-hours from now on, of at most 50 CPU-hours");
    refused_by_quota(&refused, "10 CPU-hours are left, and this takes 12 CPU-hours");
    let wide = reserve_wide(&world, &alice, "a2", ("alice", 1, 300, 4)).await;
    refused_by_quota(&wide, "0.8 Gbit/s-hours are left, and this takes 1.2 Gbit/s-hours");
    assert_eq!(reserve(&world, &alice, "a3", ("alice", 5, 1)).await.state(), State::Confirmed);
    assert_eq!(reserve(&world, &bob, "b0", ("bob", 20, 1)).await.state(), State::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_calls_too_often_is_told_when_to_come_back_and_others_do_not_notice() {
    let mut world = TlsWorld::start_with("quotas: {user: {calls_per_second: 5}}\n").await;
    let greedy = world.who("grid", Role::User, "greedy");
    let honest = world.who("grid", Role::User, "honest");
    let mut client = world.grc(&greedy);
    let mut refused = None;
    for _ in 0..100 {
        if let Err(status) = client.list(v1::ListRequest::default()).await {
            refused = Some(status);
            break;
        }
    }
    let status = refused.expect("a hundred calls at once are too many");
    assert_eq!(status.code(), Code::ResourceExhausted);
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "TOO_MANY_CALLS");
    assert!(details.quota_failure().unwrap().violations[0].subject.ends_with("greedy"));
    let wait = details.retry_info().unwrap().retry_delay.unwrap();
    assert!(wait <= std::time::Duration::from_millis(200), "{wait:?}");
    let made = world.grc(&honest).reserve(request("h1", "honest")).await.unwrap().into_inner();
    assert_eq!(made.reservation.unwrap().state(), State::Confirmed);
    tokio::time::sleep(wait).await;
    client.list(v1::ListRequest::default()).await.unwrap();
    assert_eq!(quota(&world, &honest, "").await.calls_per_second_max, 5);
}
