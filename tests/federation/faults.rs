//! Processes that are killed, paused and restarted between two messages; afterwards everything is audited.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use coalloc_proto::v1::{self, Reason, ReservationState as State};

use crate::harness::{Federation, RMS, Setup, eventually, free_port, pair};
use crate::middle::{self, Control, Point, Then};

/// A federation whose GRC reaches the NRM through a relay.
async fn relayed(policy: &'static str) -> (Federation, Control) {
    let mut federation = Federation::prepare();
    let listen = format!("127.0.0.1:{}", free_port());
    let control = middle::start(&listen, &federation.addresses["nrm"]).await;
    let relayed = [("nrm".to_owned(), listen)].into();
    federation.configure(&Setup { policy, relayed });
    federation.start_all().await;
    (federation, control)
}

/// Sends a request in the background and waits until it has reached a point.
async fn stop_at(
    federation: &Federation,
    control: &mut Control,
    point: Point,
) -> (tokio::sync::oneshot::Sender<Then>, tokio::task::JoinHandle<Option<v1::Reservation>>) {
    control.stop_at(point);
    let mut grc = federation.grc();
    let request = v1::ReserveRequest {
        request_id: "one".to_owned(),
        request: Some(pair(10, 600, 3_600, 600)),
        ..v1::ReserveRequest::default()
    };
    let call = tokio::spawn(async move {
        grc.reserve(request).await.ok().and_then(|answer| answer.into_inner().reservation)
    });
    (control.stopped().await, call)
}

async fn nothing_is_left(federation: &Federation) {
    federation.audit_at_rest().await;
    for rm in RMS {
        assert!(federation.bookings(rm).await.is_empty(), "{rm} has something left");
    }
    let after = federation.reserve("after", pair(100, 1_000, 3_600, 600)).await;
    assert_eq!(after.state(), State::Confirmed, "all capacity is free: {:?}", after.refusal);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_rm_that_is_down_while_planning_is_named_and_nothing_is_held() {
    let mut federation = Federation::start().await;
    federation.kill("nrm");
    let refused = federation.reserve("one", pair(10, 600, 3_600, 600)).await;
    assert_eq!(refused.state(), State::Failed);
    assert_eq!(refused.unreachable, ["nrm"]);
    let refusal = refused.refusal.unwrap();
    assert_eq!(refusal.reason(), Reason::Unreachable);
    assert!(refusal.detail.contains("nrm"), "{refusal:?}");
    // Requests that do not need it are still served.
    let mut unlinked = pair(10, 600, 3_600, 600);
    unlinked.links.clear();
    federation.reserve_confirmed("two", unlinked).await;
    federation.spawn("nrm");
    federation.complete().await;
    federation.reserve_confirmed("three", pair(10, 600, 3_600, 600)).await;
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_rm_that_is_slow_while_planning_costs_its_patience_only() {
    let federation = Federation::start().await;
    federation.pause("nrm");
    let begun = Instant::now();
    let refused = federation.reserve("one", pair(10, 600, 3_600, 600)).await;
    assert_eq!(refused.unreachable, ["nrm"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "bounded");
    federation.resume("nrm");
    federation.complete().await;
    nothing_is_left(&federation).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_rm_that_stops_answering_while_holding_is_aborted_and_cleaned_up() {
    let (federation, mut control) = relayed("{}").await;
    let (then, call) = stop_at(&federation, &mut control, Point::BeforeHold).await;
    federation.pause("nrm");
    then.send(Then::GoOn).unwrap();
    let answer = call.await.unwrap().unwrap();
    assert!(matches!(answer.state(), State::Aborting | State::Failed), "{answer:?}");
    assert_eq!(answer.refusal.as_ref().unwrap().reason(), Reason::TimedOut);
    assert!(answer.refusal.unwrap().detail.contains("nrm"));
    federation.resume("nrm");
    nothing_is_left(&federation).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_rm_killed_before_its_hold_and_restarted_leaves_nothing_half_done() {
    let (mut federation, mut control) = relayed("{}").await;
    let (then, call) = stop_at(&federation, &mut control, Point::BeforeHold).await;
    federation.kill("nrm");
    then.send(Then::Lose).unwrap();
    federation.spawn("nrm");
    // The Hold is sent again within the coordinator's timeout, and reaches the restarted RM.
    let answer = call.await.unwrap().unwrap();
    assert_eq!(answer.state(), State::Confirmed, "{answer:?}");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_rm_killed_after_its_hold_still_has_it_when_the_commit_comes() {
    let (mut federation, mut control) = relayed("{}").await;
    let (then, call) = stop_at(&federation, &mut control, Point::BeforeCommit).await;
    federation.kill("nrm");
    then.send(Then::Lose).unwrap();
    federation.spawn("nrm");
    assert_eq!(call.await.unwrap().unwrap().state(), State::Confirmed);
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_ack_is_lost_is_confirmed_once() {
    let (mut federation, mut control) = relayed("{}").await;
    let (then, call) = stop_at(&federation, &mut control, Point::AfterCommit).await;
    federation.kill("nrm");
    then.send(Then::Lose).unwrap();
    federation.spawn("nrm");
    assert_eq!(call.await.unwrap().unwrap().state(), State::Confirmed);
    federation.audit_at_rest().await;
    assert_eq!(federation.bookings("nrm").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grc_killed_before_its_decision_reserves_nothing() {
    for point in [Point::BeforeHold, Point::AfterHold] {
        let (mut federation, mut control) = relayed("{}").await;
        let (then, call) = stop_at(&federation, &mut control, point).await;
        federation.kill("grc");
        let _ = then.send(Then::GoOn);
        assert_eq!(call.await.unwrap(), None, "the client hears of no outcome");
        federation.spawn("grc");
        federation.complete().await;
        federation.audit_at_rest().await;
        let reservation = federation.get("one").await.unwrap();
        assert_eq!(reservation.state(), State::Failed);
        assert_eq!(reservation.refusal.unwrap().reason(), Reason::CoordinatorRestarted);
        nothing_is_left(&federation).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grc_killed_after_its_decision_finishes_it() {
    for point in [Point::BeforeCommit, Point::AfterCommit] {
        let (mut federation, mut control) = relayed("{}").await;
        let (then, call) = stop_at(&federation, &mut control, point).await;
        federation.kill("grc");
        let _ = then.send(Then::Lose);
        assert_eq!(call.await.unwrap(), None);
        federation.spawn("grc");
        federation.complete().await;
        eventually("the decision is finished", || async {
            let reservation = federation.get("one").await;
            reservation.is_ok_and(|reservation| reservation.state().is_booked())
        })
        .await;
        federation.audit_at_rest().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_asks_its_coordinator_at_the_soft_expiry() {
    let (federation, mut control) = relayed("{hold_soft: 1s, hold_hard: 600s}").await;
    let (then, call) = stop_at(&federation, &mut control, Point::AfterHold).await;
    // The answer of the NRM never arrives, so the GRC is undecided when the NRM asks it: the GRC first
    // records abort, then answers.
    eventually("the hold is dropped on the coordinator's answer", || async {
        federation.bookings("nrm").await.is_empty()
    })
    .await;
    let answer = call.await.unwrap().unwrap();
    assert!(matches!(answer.state(), State::Aborting | State::Failed), "{answer:?}");
    let _ = then.send(Then::Lose);
    nothing_is_left(&federation).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_grc_gone_for_good_the_capacity_is_free_at_the_hard_expiry() {
    let (mut federation, mut control) = relayed("{hold_soft: 1s, hold_hard: 10s}").await;
    let (then, call) = stop_at(&federation, &mut control, Point::AfterHold).await;
    federation.kill("grc");
    let _ = then.send(Then::Lose);
    let _ = call.await;
    assert_eq!(federation.bookings("nrm").await.len(), 1, "held while the GRC may come back");
    for rm in RMS {
        eventually("the hold has expired", || async { federation.bookings(rm).await.is_empty() })
            .await;
    }
    let request = v1::ListBookingsRequest { include_ended: true, ..Default::default() };
    let ended = federation.rm("nrm").list_bookings(request).await.unwrap().into_inner().bookings;
    assert_eq!(ended[0].state(), v1::BookingState::Expired);
    // When it does come back after all, nothing is resurrected.
    federation.spawn("grc");
    federation.complete().await;
    nothing_is_left(&federation).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rms_that_have_changed_places_are_not_taken_for_one_another() {
    let mut federation = Federation::start().await;
    let confirmed = federation.reserve_confirmed("one", pair(10, 600, 3_600, 600)).await;
    let swap = |federation: &mut Federation| {
        for name in ["crm-A", "crm-B"] {
            federation.kill(name);
        }
        let a = federation.addresses["crm-A"].clone();
        let b = federation.addresses.insert("crm-B".to_owned(), a).unwrap();
        federation.addresses.insert("crm-A".to_owned(), b);
    };
    swap(&mut federation);
    // The daemons' own files give them new addresses; the GRC's file stays as it was.
    let grc_file = std::fs::read_to_string(federation.dir.path().join("grc.yaml")).unwrap();
    federation.configure(&Setup::default());
    federation.write("grc.yaml", &grc_file);
    federation.spawn("crm-A");
    federation.spawn("crm-B");
    let mut grc = federation.grc();
    let request = v1::ReleaseReservationRequest { id: confirmed.id.clone(), ..Default::default() };
    let release = tokio::spawn(async move { grc.release(request).await });
    eventually("the NRM has released", || async { federation.bookings("nrm").await.is_empty() })
        .await;
    eventually("both have met a message for the other", || async {
        ["crm-A", "crm-B"]
            .iter()
            .all(|rm| federation.log(rm).contains("for another resource manager"))
    })
    .await;
    assert_eq!(federation.get("one").await.unwrap().state(), State::Terminating);
    assert_eq!(federation.bookings("crm-A").await.len(), 1, "nobody has told it anything");
    swap(&mut federation);
    federation.configure(&Setup::default());
    federation.spawn("crm-A");
    federation.spawn("crm-B");
    let released = release.await.unwrap().unwrap().into_inner().reservation.unwrap();
    assert_eq!(released.state(), State::Terminated);
    federation.complete().await;
    nothing_is_left(&federation).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_being_planned_can_be_seen_and_says_that_nothing_is_held() {
    let (federation, mut control) = relayed("{}").await;
    let (then, call) = stop_at(&federation, &mut control, Point::BeforeQuery).await;
    let seen = federation.get("one").await.unwrap();
    assert_eq!((seen.state(), seen.id.as_str(), seen.definite), (State::Checking, "", false));
    let request = v1::ReleaseReservationRequest { id: "one".to_owned(), ..Default::default() };
    let error = federation.grc().release(request).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::FailedPrecondition, "{error}");
    then.send(Then::GoOn).unwrap();
    assert_eq!(call.await.unwrap().unwrap().state(), State::Confirmed);
    federation.audit_at_rest().await;
}

/// What is released waits for a resource manager that is down, and says so. Several releases wait together, by our own client.
#[tokio::test(flavor = "multi_thread")]
async fn releases_name_whom_they_wait_for_and_wait_together() {
    let mut federation = Federation::start().await;
    for id in ["one", "two"] {
        federation.reserve_confirmed(id, pair(10, 100, 3_600, 600)).await;
    }
    federation.kill("crm-B");
    let mut release = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    release.args(["release", "one", "two"]).env("COALLOC_GRC", &federation.addresses["grc"]);
    release.env_remove("COALLOC_IDENTITY").stdout(Stdio::piped()).stderr(Stdio::null());
    let release = release.spawn().unwrap();
    for id in ["one", "two"] {
        eventually("crm-B alone has not acknowledged", || async {
            let request = v1::GetRequest { id: id.to_owned() };
            let known = federation.grc().get(request).await.unwrap().into_inner();
            let known = known.reservation.unwrap();
            known.state() == State::Terminating && known.awaited == ["crm-B"]
        })
        .await;
    }
    federation.spawn("crm-B");
    let output = release.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), text.as_str()),
        (Some(0), "one: terminated\ntwo: terminated\n")
    );
    federation.audit_at_rest().await;
}
