//! Many requests at the same time, and the same request twice.

use coalloc_proto::v1::{self, ReservationState as State};
use tokio::task::JoinSet;

use crate::harness::{Federation, pair};

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_concurrent_requests_of_600_for_a_path_of_1000_and_exactly_one_wins_every_time() {
    let federation = Federation::start().await;
    for round in 0..5 {
        let mut calls = JoinSet::new();
        for n in 0..16 {
            let mut grc = federation.grc();
            let request = v1::ReserveRequest {
                request_id: format!("round{round}-{n}"),
                request: Some(pair(1, 600, 3_600 * (round + 1), 1_800)),
                ..v1::ReserveRequest::default()
            };
            calls.spawn(async move { grc.reserve(request).await });
        }
        let mut confirmed = 0;
        while let Some(answer) = calls.join_next().await {
            let reservation = answer.unwrap().unwrap().into_inner().reservation.unwrap();
            match reservation.state() {
                State::Confirmed => confirmed += 1,
                State::Failed => {
                    let refusal = reservation.refusal.unwrap();
                    assert!(refusal.detail.contains("A-B"), "says what was short: {refusal:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(confirmed, 1, "round {round}");
    }
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bookings_disjoint_in_time_never_add_up_against_a_third_that_spans_both() {
    let federation = Federation::start().await;
    for (id, start_s) in [("early", 3_600), ("late", 7_200)] {
        federation.reserve_confirmed(id, pair(60, 600, start_s, 600)).await;
    }
    federation.reserve_confirmed("spanning", pair(40, 400, 3_000, 7_200)).await;
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_resent_gets_the_same_answer_also_after_a_restart() {
    let mut federation = Federation::start().await;
    let request = pair(10, 600, 3_600, 600);
    let first = federation.reserve_confirmed("one", request.clone()).await;
    let refused = federation.reserve("two", request.clone()).await;
    assert_eq!(refused.state(), State::Failed);
    assert_eq!(federation.reserve("one", request.clone()).await, first);

    let mut released = federation.grc();
    let release = v1::ReleaseReservationRequest { id: first.id.clone(), ..Default::default() };
    let released = released.release(release).await.unwrap().into_inner().reservation.unwrap();
    assert_eq!(released.state(), State::Terminated);

    federation.kill("grc");
    federation.spawn("grc");
    federation.complete().await;
    // The request would fit now, but this id already has its answer.
    assert_eq!(federation.reserve("two", request.clone()).await, refused);
    assert_eq!(federation.reserve("one", request.clone()).await, released);
    let other = federation.try_reserve("one", pair(11, 600, 3_600, 600)).await.unwrap_err();
    assert_eq!(other.code(), tonic::Code::AlreadyExists);
    let third = federation.reserve("three", request).await;
    assert_eq!(third.state(), State::Confirmed, "the capacity is free again");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_sent_twice_at_once_is_one_reservation() {
    let federation = Federation::start().await;
    let request = pair(10, 600, 3_600, 600);
    let (first, second) = tokio::join!(
        federation.reserve("one", request.clone()),
        federation.reserve("one", request)
    );
    assert_eq!(first, second);
    assert_eq!(first.state(), State::Confirmed);
    assert_eq!(federation.bookings("nrm").await.len(), 1);
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_does_not_stop_its_reservation() {
    let federation = Federation::start().await;
    let request = pair(10, 600, 3_600, 600);
    let mut call = tonic::Request::new(v1::ReserveRequest {
        request_id: "gone".to_owned(),
        request: Some(request.clone()),
        ..v1::ReserveRequest::default()
    });
    call.set_timeout(std::time::Duration::from_micros(500));
    let _ = federation.grc().reserve(call).await;
    federation.reserve_confirmed("gone", request).await;
    federation.audit_at_rest().await;
    assert_eq!(federation.bookings("nrm").await.len(), 1);
}
