//! The baselines with real processes: `backtrack` holds at one resource manager after the other and goes
//! back when one refuses; `sliding-window` fixes computers first and slides on when they have no path.

use std::collections::BTreeMap;

use coalloc_proto::v1::{self, BookingState, ReservationState as State};
use tokio::task::JoinSet;

use crate::harness::{Federation, Setup, free_port, pair, seconds_from_now};
use crate::middle::{self, Control, Point, Then};

/// Sites A, B and C with paths A-B and A-C; crm-B owns B and C and is behind a relay.
async fn with_a_choice() -> (Federation, Control) {
    let mut federation = Federation::prepare();
    let relay = format!("127.0.0.1:{}", free_port());
    let relayed = BTreeMap::from([("crm-B".to_owned(), relay.clone())]);
    federation.configure(&Setup { relayed, ..Setup::default() });
    let replace = |rm: &str, inventory: &str| {
        let text = std::fs::read_to_string(federation.dir.path().join(format!("{rm}.yaml")));
        let text = text.unwrap();
        let (before, _) = text.split_once("inventory:").unwrap();
        let inventory = format!("inventory: {{name: {rm}, domain: D, {inventory}}}\n");
        federation.write(&format!("{rm}.yaml"), &(before.to_owned() + &inventory));
    };
    replace("crm-B", "sites: [{name: B, cpus: 60}, {name: C, cpus: 40}]");
    let path = |b: &str| format!("{{name: A-{b}, a: A, b: {b}, capacity_bps: 1000000000}}");
    replace("nrm", &format!("paths: [{}, {}]", path("B"), path("C")));
    let control = middle::start(&relay, &federation.addresses["crm-B"]).await;
    federation.start_all().await;
    (federation, control)
}

fn reserve(
    id: &str,
    request: v1::CoAllocationRequest,
    solver: &str,
    frames: u32,
) -> v1::ReserveRequest {
    let (solver, frames) = (Some(solver.to_owned()), Some(frames));
    let options = Some(v1::PlanOptions { solver, frames, ..Default::default() });
    v1::ReserveRequest {
        request_id: id.to_owned(),
        request: Some(request),
        options,
        ..Default::default()
    }
}

fn pinned(mut request: v1::CoAllocationRequest, places: [&str; 2]) -> v1::CoAllocationRequest {
    for (site, place) in request.sites.iter_mut().zip(places) {
        site.pinned_to = Some(place.to_owned());
    }
    request
}

fn places(reservation: &v1::Reservation) -> Vec<&str> {
    let plan = reservation.plan.as_ref().unwrap();
    plan.placements.iter().map(|placement| placement.at.as_str()).collect()
}

async fn states(federation: &Federation, rm: &str) -> Vec<BookingState> {
    federation.bookings(rm).await.iter().map(v1::Booking::state).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn backtrack_holds_one_after_the_other_and_takes_the_next_choice_when_one_refuses() {
    let (federation, mut control) = with_a_choice().await;
    control.stop_at(Point::BeforeHold);
    let mut grc = federation.grc();
    let wanted = reserve("one", pair(20, 200, 3_600, 600), "backtrack", 1);
    let call = tokio::spawn(async move { grc.reserve(wanted).await });
    let stopped = control.stopped().await;
    // The request's first choice is A and B. crm-A holds, crm-B is being asked, and the path is not asked
    // for yet.
    assert_eq!(states(&federation, "crm-A").await, [BookingState::Held]);
    assert_eq!(states(&federation, "nrm").await, []);
    // Meanwhile another request takes B.
    let site = v1::SiteRequest {
        name: "b".to_owned(),
        cpus: 50,
        pinned_to: Some("B".to_owned()),
        ..Default::default()
    };
    let rival =
        v1::CoAllocationRequest { sites: vec![site], links: Vec::new(), ..pair(1, 1, 3_600, 600) };
    federation.reserve_confirmed("rival", rival).await;
    stopped.send(Then::GoOn).unwrap();
    let reservation = call.await.unwrap().unwrap().into_inner().reservation.unwrap();
    assert_eq!(reservation.state(), State::Confirmed, "{:?}", reservation.refusal);
    assert_eq!((places(&reservation), reservation.attempts), (vec!["A", "C"], 2));
    let refused: Vec<&str> =
        reservation.attempt_refusals.iter().map(|refusal| refusal.resource.as_str()).collect();
    assert_eq!(refused, ["B"]);
    assert_eq!(reservation.plan.as_ref().unwrap().solver, "backtrack");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_two_holds_of_a_search_nothing_is_left() {
    let (mut federation, mut control) = with_a_choice().await;
    control.stop_at(Point::AfterHold);
    let mut grc = federation.grc();
    let wanted = reserve("one", pair(20, 200, 3_600, 600), "backtrack", 1);
    let call = tokio::spawn(async move { grc.reserve(wanted).await });
    let stopped = control.stopped().await;
    federation.kill("grc");
    drop(stopped);
    assert!(call.await.unwrap().is_err(), "the coordinator is gone");
    assert_eq!(states(&federation, "crm-A").await, [BookingState::Held]);
    assert_eq!(states(&federation, "crm-B").await, [BookingState::Held]);
    federation.spawn("grc");
    federation.complete().await;
    federation.audit_at_rest().await;
    assert_eq!(federation.get("one").await.unwrap().state(), State::Failed);
    for rm in ["crm-A", "crm-B", "nrm"] {
        assert_eq!(states(&federation, rm).await, [], "{rm}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_searches_at_once_fill_every_start_there_is() {
    let federation = Federation::start().await;
    let mut request = pair(1, 600, 3_600, 600);
    request.latest_start = Some(seconds_from_now(3_600 + 1_200));
    let mut calls = JoinSet::new();
    for n in 0..16 {
        let (mut grc, wanted) =
            (federation.grc(), reserve(&format!("r{n}"), request.clone(), "backtrack", 3));
        calls.spawn(async move { grc.reserve(wanted).await });
    }
    let mut confirmed = 0;
    while let Some(answer) = calls.join_next().await {
        let reservation = answer.unwrap().unwrap().into_inner().reservation.unwrap();
        assert!(reservation.definite);
        confirmed += usize::from(reservation.state().is_booked());
    }
    // The path carries one request at a time, and each request that holds it books it.
    assert_eq!(confirmed, 3);
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sliding_window_takes_the_first_start_at_which_its_first_computers_have_a_path() {
    let (federation, _control) = with_a_choice().await;
    let taken = pinned(pair(1, 1_000, 3_600, 600), ["A", "B"]);
    federation.reserve_confirmed("taken", taken).await;
    let mut request = pair(20, 200, 3_600, 600);
    request.latest_start = Some(seconds_from_now(3_600 + 3_600));
    let start = request.earliest_start.unwrap().seconds;
    let plan = |solver: &str| {
        let (mut grc, wanted) = (federation.grc(), reserve("", request.clone(), solver, 5));
        async move {
            let wanted = v1::PlanRequest { request: wanted.request, options: wanted.options };
            grc.plan(wanted).await.unwrap().into_inner()
        }
    };
    let at = |plan: &v1::Plan| plan.window.as_ref().unwrap().start.as_ref().unwrap().seconds;
    let exact = plan("exact").await;
    assert_eq!((exact.plans.len(), at(&exact.plans[0])), (5, start), "A and C, at once");
    let slid = plan("sliding-window").await;
    assert_eq!((slid.plans.len(), slid.refused.len()), (1, 1), "none after the first that fits");
    assert_eq!(at(&slid.plans[0]), start + 900);
    let mut grc = federation.grc();
    let answer = grc.reserve(reserve("one", request.clone(), "sliding-window", 5)).await;
    let reservation = answer.unwrap().into_inner().reservation.unwrap();
    assert_eq!((reservation.state(), places(&reservation)), (State::Confirmed, vec!["A", "B"]));
    assert_eq!(at(reservation.plan.as_ref().unwrap()), start + 900);
    federation.audit_at_rest().await;
}
