//! Changes of reservations: extended, shortened, enlarged, refused, of the wrong reservation, and killed in
//! the middle.
//!
//! After each change the reservation is completely the old version or completely the new one.

use coalloc_proto::v1::{
    self, BookingState, ChangeState, Reason, ReservationState as State, hold_response,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::harness::{Federation, RMS, Setup, eventually, free_port, pair, seconds_from_now};
use crate::middle::{self, Control, Point, Then};

async fn try_modify(
    federation: &Federation,
    id: &str,
    change: &str,
    request: v1::CoAllocationRequest,
) -> Result<v1::Reservation, Status> {
    let request = v1::ModifyRequest {
        id: id.to_owned(),
        change_id: change.to_owned(),
        request: Some(request),
        ..v1::ModifyRequest::default()
    };
    Ok(federation.grc().modify(request).await?.into_inner().reservation.unwrap())
}

async fn modify(
    federation: &Federation,
    id: &str,
    change: &str,
    request: v1::CoAllocationRequest,
) -> v1::Reservation {
    try_modify(federation, id, change, request).await.unwrap()
}

fn change_of(reservation: &v1::Reservation) -> (ChangeState, u32) {
    (reservation.change.as_ref().unwrap().state(), reservation.version)
}

fn with(
    request: &v1::CoAllocationRequest,
    change: impl FnOnce(&mut v1::CoAllocationRequest),
) -> v1::CoAllocationRequest {
    let mut request = request.clone();
    change(&mut request);
    request
}

fn lasting(request: &v1::CoAllocationRequest, seconds: i64) -> v1::CoAllocationRequest {
    let duration = Some(coalloc_proto::Duration { seconds, nanos: 0 });
    v1::CoAllocationRequest { duration, earliest_start: None, ..request.clone() }
}

fn ends(reservation: &v1::Reservation) -> (i64, i64) {
    let window = reservation.plan.as_ref().unwrap().window.as_ref().unwrap();
    (window.start.as_ref().unwrap().seconds, window.end.as_ref().unwrap().seconds)
}

/// Every booking of an RM, also those that have ended, by transaction.
async fn history(federation: &Federation, rm: &str) -> Vec<v1::Booking> {
    let request = v1::ListBookingsRequest { include_ended: true, ..Default::default() };
    federation.rm(rm).list_bookings(request).await.unwrap().into_inner().bookings
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_extended_grown_and_shrunk_beside_others_and_each_change_counts_its_own_as_free() {
    let mut federation = Federation::start().await;
    let request = pair(60, 600, 3_600, 600);
    let one = federation.reserve("one", request.clone()).await;
    assert_eq!((one.state(), one.version), (State::Confirmed, 1));
    assert_eq!(one.request, Some(request.clone()));
    // 40 other CPUs are free: fewer than the reservation has, but enough for the additional ones.
    let longer = modify(&federation, "one", "longer", lasting(&request, 1_800)).await;
    assert_eq!(change_of(&longer), (ChangeState::Done, 2), "{longer:?}");
    assert_eq!(ends(&longer), (ends(&one).0, ends(&one).0 + 1_800));
    let larger = with(&lasting(&request, 1_800), |r| r.sites[0].cpus = 100);
    let grown = modify(&federation, &one.id, "larger", larger.clone()).await;
    assert_eq!(change_of(&grown), (ChangeState::Done, 3), "{grown:?}");
    assert_eq!(grown.request, Some(larger));
    // Without its link and one of its sites, two of the RMs have nothing of it any more.
    let alone = with(&lasting(&request, 300), |r| {
        r.sites.truncate(1);
        r.links.clear();
    });
    let small = modify(&federation, "one", "alone", alone.clone()).await;
    assert_eq!(change_of(&small), (ChangeState::Done, 4), "{small:?}");
    federation.audit_at_rest().await;
    let free = federation.reserve("two", pair(40, 1_000, 3_600, 300)).await;
    assert_eq!(free.state(), State::Confirmed, "the path is free: {:?}", free.refusal);
    let states: Vec<BookingState> =
        history(&federation, "nrm").await.iter().map(v1::Booking::state).collect();
    let replaced = [BookingState::Replaced; 3].into_iter();
    let expected: Vec<BookingState> = replaced.chain([BookingState::Booked; 2]).collect();
    assert_eq!(states, expected);
    // I8 also holds after a restart, and after later changes.
    federation.kill("grc");
    federation.spawn("grc");
    federation.complete().await;
    let again = modify(&federation, "one", "alone", alone).await;
    assert_eq!(again, small);
    let again = modify(&federation, "one", "longer", lasting(&request, 1_800)).await;
    assert_eq!(change_of(&again), (ChangeState::Done, 4), "an old change stays done");
    let error = try_modify(&federation, "one", "longer", lasting(&request, 1_801)).await;
    assert_eq!(error.unwrap_err().code(), Code::AlreadyExists);
    let request = v1::ReleaseReservationRequest { id: one.id, ..Default::default() };
    let released = federation.grc().release(request).await.unwrap().into_inner();
    assert_eq!(released.reservation.unwrap().state(), State::Terminated);
    federation.audit_at_rest().await;
    assert_eq!(federation.bookings("nrm").await.len(), 1, "only the other one's");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_beside_others_is_refused_and_the_old_version_stays_whole() {
    let federation = Federation::start().await;
    let request = pair(10, 600, 3_600, 600);
    let one = federation.reserve("one", request.clone()).await;
    federation.reserve_confirmed("two", pair(10, 300, 3_600, 600)).await;
    let before = federation.bookings("nrm").await;
    let more = with(&request, |r| r.links[0].bandwidth_bps = 701_000_000);
    let refused = modify(&federation, "one", "more", more.clone()).await;
    assert_eq!(change_of(&refused), (ChangeState::Refused, 1), "{refused:?}");
    assert_eq!((refused.state(), refused.definite), (State::Confirmed, true));
    assert_eq!((&refused.plan, &refused.transaction), (&one.plan, &one.transaction));
    assert_eq!(federation.bookings("nrm").await, before);
    assert_eq!(modify(&federation, "one", "more", more).await, refused, "I8");
    let exact = with(&request, |r| r.links[0].bandwidth_bps = 700_000_000);
    let changed = modify(&federation, "one", "exact", exact).await;
    assert_eq!(change_of(&changed), (ChangeState::Done, 2), "{changed:?}");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_change_says_what_would_fit_with_its_own_booking_counted_as_free() {
    let federation = Federation::start().await;
    let request = pair(10, 600, 3_600, 600);
    let one = federation.reserve("one", request.clone()).await;
    federation.reserve_confirmed("two", pair(10, 300, 3_600, 600)).await;
    let wanted = with(&request, |r| r.links[0].bandwidth_bps = 900_000_000);
    let change = |id: &str, alternatives| v1::ModifyRequest {
        id: "one".to_owned(),
        change_id: id.to_owned(),
        request: Some(wanted.clone()),
        options: Some(v1::PlanOptions { alternatives, ..Default::default() }),
        ..Default::default()
    };
    let call = |request| async { federation.grc().modify(request).await.unwrap().into_inner() };
    let silent = call(change("silent", None)).await.reservation.unwrap();
    assert_eq!((change_of(&silent).0, silent.alternatives), (ChangeState::Refused, None));
    let told = call(change("told", Some(true))).await.reservation.unwrap();
    assert_eq!(change_of(&told), (ChangeState::Refused, 1), "{told:?}");
    let found = told.alternatives.unwrap();
    let later = found.nearest_plan.as_ref().unwrap().window.as_ref().unwrap();
    assert!(later.start.as_ref().unwrap().seconds > ends(&one).0, "{found:?}");
    // 1000 less the other's 300: more than the 100 that are free beside both.
    let rates: Vec<u64> = found
        .smaller
        .iter()
        .filter_map(|smaller| smaller.request.as_ref())
        .flat_map(|request| &request.links)
        .map(|link| link.bandwidth_bps)
        .collect();
    assert!(rates.iter().any(|rate| (600_000_000..=700_000_000).contains(rate)), "{rates:?}");
    let unchanged = federation.get("one").await.unwrap();
    assert_eq!((unchanged.version, &unchanged.plan), (1, &one.plan));
    federation.audit_at_rest().await;
}

/// The RM itself admits a new version, whatever a coordinator has planned.
///
/// (SuPA, an NSI provider, takes the capacity of a modified reservation without looking at what is free.)
#[tokio::test(flavor = "multi_thread")]
async fn the_resource_manager_itself_checks_the_capacity_of_a_new_version() {
    let federation = Federation::start().await;
    let one = federation.reserve("one", pair(10, 600, 3_600, 600)).await;
    federation.reserve_confirmed("two", pair(10, 300, 3_600, 600)).await;
    let window = one.plan.unwrap().window;
    let hold = |transaction: &str, amount| v1::HoldRequest {
        transaction: transaction.to_owned(),
        coordinator: "grc".to_owned(),
        segments: vec![v1::Segment {
            resource: "A-B".to_owned(),
            amount,
            window,
            ..v1::Segment::default()
        }],
        replaces: one.transaction.clone(),
        ..v1::HoldRequest::default()
    };
    let mut nrm = federation.rm("nrm");
    let mut answer = async |request| nrm.hold(request).await.unwrap().into_inner().answer.unwrap();
    let Some(refusal) = refused(answer(hold("grc-t-1/1", 700_000_001)).await) else {
        panic!("held")
    };
    assert_eq!(refusal.reason(), Reason::InsufficientCapacity);
    assert_eq!((refusal.requested, refusal.available), (Some(700_000_001), Some(700_000_000)));
    assert_eq!(
        refused(answer(hold("grc-t-1/2", 700_000_000)).await),
        None,
        "it fits beside the other"
    );
    let refusal = refused(answer(hold("grc-t-1/3", 100)).await).unwrap();
    assert!(refusal.detail.contains("grc-t-1/2"), "one at a time: {refusal:?}");
    let refusal = refused(
        answer(v1::HoldRequest { replaces: "nobody/1".to_owned(), ..hold("grc-t-1/4", 100) }).await,
    );
    assert_eq!(refusal.unwrap().reason(), Reason::NotHeld);
}

fn refused(answer: hold_response::Answer) -> Option<v1::Refusal> {
    match answer {
        hold_response::Answer::Held(_) => None,
        hold_response::Answer::Refused(refusal) => Some(refusal),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_reservation_is_extended_grown_and_shortened_and_its_past_stays_as_it_was() {
    let federation = Federation::start().await;
    let request = pair(60, 600, -20, 600);
    let one = federation.reserve_confirmed("one", request.clone()).await;
    let (start, end) = ends(&one);
    // Another reservation begins at its end, and takes half of the capacity.
    let mut behind = pair(40, 300, 0, 600);
    behind.earliest_start = Some(coalloc_proto::Timestamp { seconds: end, nanos: 0 });
    federation.reserve_confirmed("two", behind).await;
    let longer = modify(&federation, "one", "longer", lasting(&request, 1_200)).await;
    assert_eq!(change_of(&longer), (ChangeState::Done, 2), "{longer:?}");
    assert_eq!(ends(&longer), (start, start + 1_200));
    assert_eq!(longer.plan.as_ref().unwrap().segments.len(), 3, "what goes on is one segment");
    let grown = with(&lasting(&request, 1_200), |r| r.links[0].bandwidth_bps = 700_000_000);
    let grown = modify(&federation, "one", "faster", grown).await;
    assert_eq!(change_of(&grown), (ChangeState::Done, 3), "{grown:?}");
    let nrm = federation.bookings("nrm").await;
    let mine = nrm.iter().find(|b| b.transaction == grown.transaction).unwrap();
    let amounts: Vec<u64> = mine.segments.iter().map(|segment| segment.amount).collect();
    assert_eq!(amounts, [600_000_000, 700_000_000], "the past is kept: {mine:?}");
    let too_much = with(&lasting(&request, 1_200), |r| r.links[0].bandwidth_bps = 701_000_000);
    let refused = modify(&federation, "one", "too-much", too_much).await;
    assert_eq!(change_of(&refused), (ChangeState::Refused, 3), "{refused:?}");
    let shorter = modify(&federation, "one", "shorter", lasting(&request, 300)).await;
    assert_eq!(change_of(&shorter), (ChangeState::Done, 4), "{shorter:?}");
    assert_eq!(ends(&shorter), (start, start + 300));
    for (change, field, wrong) in [
        ("over", "duration", lasting(&request, 10)),
        (
            "moved",
            "earliest_start",
            with(&request, |r| {
                r.earliest_start = Some(seconds_from_now(3_600));
            }),
        ),
    ] {
        let error = try_modify(&federation, "one", change, wrong).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error:?}");
        let details = error.get_details_bad_request().unwrap();
        assert_eq!(details.field_violations[0].field, format!("request.{field}"), "{error:?}");
    }
    federation.audit_at_rest().await;
}

async fn release_rest(
    federation: &Federation,
    change: &str,
    user: &str,
) -> Result<v1::Reservation, Status> {
    let (id, change_id, user) = ("one".to_owned(), change.to_owned(), user.to_owned());
    let request = v1::ReleaseRestRequest { id, change_id, user };
    Ok(federation.grc().release_rest(request).await?.into_inner().reservation.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_what_runs_is_free_for_others_and_its_past_stays_booked() {
    let federation = Federation::start().await;
    // The second site is wanted later, and the link ends earlier than the whole.
    let request = with(&pair(60, 600, -20, 600), |r| {
        r.links[0].length = Some(coalloc_proto::Duration { seconds: 500, nanos: 0 });
        r.sites[1].offset = Some(coalloc_proto::Duration { seconds: 400, nanos: 0 });
    });
    let one = federation.reserve_confirmed("one", request).await;
    let (start, end) = ends(&one);
    let behind = with(&pair(60, 600, 0, 300), |r| r.earliest_start = Some(seconds_from_now(60)));
    let refused = federation.reserve("two", behind.clone()).await;
    assert_eq!(refused.state(), State::Failed, "the rest is taken: {refused:?}");

    let error = release_rest(&federation, "r1", "UserB").await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    let short = release_rest(&federation, "r1", "UserA").await.unwrap();
    assert_eq!(change_of(&short), (ChangeState::Done, 2), "{short:?}");
    let (began, ended) = ends(&short);
    assert!(began == start && ended > start && ended < end, "{short:?}");
    assert!(ended <= seconds_from_now(32).seconds, "half a minute from now: {short:?}");
    let plan = short.plan.as_ref().unwrap();
    assert_eq!((plan.placements.len(), plan.routes.len()), (1, 1), "{plan:?}");
    federation.audit_at_rest().await;
    let nrm = federation.bookings("nrm").await;
    assert_eq!(nrm.len(), 1, "the past of the link is still booked: {nrm:?}");
    federation.reserve_confirmed("three", behind).await;

    let again = release_rest(&federation, "r1", "").await.unwrap();
    assert_eq!(again.plan, short.plan, "the same change");
    let error = release_rest(&federation, "r2", "").await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error:?}");
    assert!(error.message().contains("no change is faster"), "{error:?}");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_begun_has_no_rest() {
    let federation = Federation::start().await;
    federation.reserve_confirmed("one", pair(10, 600, 3_600, 600)).await;
    let error = release_rest(&federation, "r1", "").await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error:?}");
    assert!(error.message().contains("release all of it"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ones_own_released_or_beyond_the_horizon_is_not_changed() {
    let federation = Federation::start().await;
    let request = pair(10, 600, 3_600, 600);
    let one = federation.reserve("one", request.clone()).await;
    let code = |result: Result<v1::Reservation, Status>| result.unwrap_err().code();
    let stolen = with(&request, |r| r.user = "UserB".to_owned());
    assert_eq!(code(try_modify(&federation, "one", "c1", stolen).await), Code::PermissionDenied);
    assert_eq!(code(try_modify(&federation, "none", "c1", request.clone()).await), Code::NotFound);
    assert_eq!(
        code(try_modify(&federation, "one", "", request.clone()).await),
        Code::InvalidArgument
    );
    let far = with(&request, |r| r.earliest_start = Some(seconds_from_now(200 * 86_400)));
    let refused = modify(&federation, "one", "far", far).await;
    assert_eq!(change_of(&refused), (ChangeState::Refused, 1));
    let refusal = refused.change.unwrap().refusal.unwrap();
    assert_eq!(refusal.reason(), Reason::OutsideHorizon, "{refusal:?}");
    assert_eq!(refused.plan, one.plan, "the old one is whole");
    let release =
        |user: &str| v1::ReleaseReservationRequest { id: "one".to_owned(), user: user.to_owned() };
    let error = federation.grc().release(release("UserB")).await.unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    federation.audit_at_rest().await;
    federation.grc().release(release("UserA")).await.unwrap();
    let error = try_modify(&federation, "one", "late", lasting(&request, 300)).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.message().contains("terminated"), "{error:?}");
    assert!(error.get_details_precondition_failure().is_some());
    federation.audit_at_rest().await;
    for rm in RMS {
        assert!(federation.bookings(rm).await.is_empty(), "{rm} has something left");
    }
}

/// A federation whose GRC reaches the NRM through a relay, with one reservation and a change that has
/// reached a point.
///
/// The change asks for 800 Mbit/s.
async fn stopped_at(
    point: Point,
) -> (
    Federation,
    Control,
    tokio::sync::oneshot::Sender<Then>,
    tokio::task::JoinHandle<Option<v1::Reservation>>,
) {
    let mut federation = Federation::prepare();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut control = middle::start(&listen, &federation.addresses["nrm"]).await;
    let relayed = [("nrm".to_owned(), listen)].into();
    federation.configure(&Setup { relayed, ..Setup::default() });
    federation.start_all().await;
    let request = pair(10, 600, 3_600, 600);
    federation.reserve_confirmed("one", request.clone()).await;
    control.stop_at(point);
    let mut grc = federation.grc();
    let request = v1::ModifyRequest {
        id: "one".to_owned(),
        change_id: "more".to_owned(),
        request: Some(with(&request, |r| r.links[0].bandwidth_bps = 800_000_000)),
        ..v1::ModifyRequest::default()
    };
    let call = tokio::spawn(async move {
        grc.modify(request).await.ok().and_then(|answer| answer.into_inner().reservation)
    });
    let then = control.stopped().await;
    (federation, control, then, call)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_rm_killed_in_the_middle_of_a_change_ends_with_the_new_version() {
    for point in [Point::BeforeHold, Point::AfterHold, Point::BeforeCommit, Point::AfterCommit] {
        let (mut federation, _control, then, call) = stopped_at(point).await;
        federation.kill("nrm");
        then.send(Then::Lose).unwrap();
        federation.spawn("nrm");
        // The message is sent again, and reaches the restarted RM.
        let changed = call.await.unwrap().unwrap();
        assert_eq!(change_of(&changed), (ChangeState::Done, 2), "{point:?}: {changed:?}");
        federation.audit_at_rest().await;
        federation.reserve_confirmed("beside", pair(10, 200, 3_600, 600)).await;
        federation.audit_at_rest().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grc_killed_before_it_has_decided_a_change_keeps_the_old_version_whole() {
    for point in [Point::BeforeHold, Point::AfterHold] {
        let (mut federation, _control, then, call) = stopped_at(point).await;
        federation.kill("grc");
        let _ = then.send(Then::GoOn);
        assert_eq!(call.await.unwrap(), None, "the client hears of no outcome");
        federation.spawn("grc");
        federation.complete().await;
        federation.audit_at_rest().await;
        let reservation = federation.get("one").await.unwrap();
        assert_eq!(change_of(&reservation), (ChangeState::Refused, 1), "{reservation:?}");
        let refusal = reservation.change.unwrap().refusal.unwrap();
        assert_eq!(refusal.reason(), Reason::CoordinatorRestarted);
        let beside = federation.reserve("beside", pair(10, 400, 3_600, 600)).await;
        assert_eq!(beside.state(), State::Confirmed, "nothing is held: {:?}", beside.refusal);
        federation.audit_at_rest().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grc_killed_after_it_has_decided_a_change_finishes_it() {
    for point in [Point::BeforeCommit, Point::AfterCommit] {
        let (mut federation, _control, then, call) = stopped_at(point).await;
        // Another change is not begun in the meantime, and nothing is done.
        let other = pair(10, 900, 3_600, 600);
        let error = try_modify(&federation, "one", "other", other).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{error:?}");
        federation.kill("grc");
        let _ = then.send(Then::Lose);
        assert_eq!(call.await.unwrap(), None);
        federation.spawn("grc");
        federation.complete().await;
        eventually("the change is finished", || async {
            let reservation = federation.get("one").await;
            reservation.is_ok_and(|reservation| reservation.version == 2 && reservation.definite)
        })
        .await;
        federation.audit_at_rest().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn released_while_its_change_is_held_nothing_of_either_version_is_left() {
    let (federation, _control, then, call) = stopped_at(Point::AfterHold).await;
    let mut grc = federation.grc();
    let request = v1::ReleaseReservationRequest { id: "one".to_owned(), ..Default::default() };
    let release = tokio::spawn(async move { grc.release(request).await });
    eventually("the release is recorded", || async {
        let reservation = federation.get("one").await;
        reservation.is_ok_and(|r| matches!(r.state(), State::Terminating | State::Terminated))
    })
    .await;
    let _ = then.send(Then::GoOn);
    let released = release.await.unwrap().unwrap().into_inner().reservation.unwrap();
    assert_eq!(change_of(&released), (ChangeState::Refused, 1), "{released:?}");
    assert_eq!(released.state(), State::Terminated);
    let told = call.await.unwrap().unwrap();
    assert_eq!(told.change.unwrap().refusal.unwrap().reason(), Reason::Released);
    federation.audit_at_rest().await;
    for rm in RMS {
        assert!(federation.bookings(rm).await.is_empty(), "{rm} has something left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_level_bounds_what_is_shown_what_is_held_and_what_a_change_may_take() {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    let file = federation.dir.path().join("nrm.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let levels = "service_levels: [{name: guests, share_percent: 50, users: [UserA]}, \
                  {name: staff, share_percent: 100, users: [UserB]}]\n";
    federation.write("nrm.yaml", &(text + levels));
    federation.start_all().await;
    let refused = federation.reserve("half", pair(10, 501, 3_600, 600)).await;
    assert_eq!(refused.state(), State::Failed, "half of 1000 is 500");
    let one = federation.reserve_confirmed("one", pair(10, 400, 3_600, 600)).await;
    let query = |user: &str, replaces: &str| v1::QueryAvailabilityRequest {
        frames: vec![one.plan.as_ref().unwrap().window.unwrap()],
        user: user.to_owned(),
        replaces: replaces.to_owned(),
        ..Default::default()
    };
    let shown = async |user: &str, replaces: &str| {
        let answer = federation.rm("nrm").query_availability(query(user, replaces)).await;
        answer.unwrap().into_inner().frames[0].free[0] / 1_000_000
    };
    assert_eq!(shown("UserA", "").await, 300, "half of the 600 that are free");
    assert_eq!(shown("UserB", "").await, 600);
    assert_eq!(shown("Stranger", "").await, 300, "the smallest share");
    assert_eq!(shown("UserA", &one.transaction).await, 500, "half of the 1000 without its own");
    // At the RM itself: enough is free; only the service level refuses.
    let hold = v1::HoldRequest {
        transaction: "grc-t-1/1".to_owned(),
        coordinator: "grc".to_owned(),
        user: "UserA".to_owned(),
        segments: vec![v1::Segment {
            resource: "A-B".to_owned(),
            amount: 301_000_000,
            window: one.plan.as_ref().unwrap().window,
            ..v1::Segment::default()
        }],
        ..v1::HoldRequest::default()
    };
    let answer = federation.rm("nrm").hold(hold).await.unwrap().into_inner().answer.unwrap();
    let refusal = refused_by(answer);
    assert_eq!(refusal.reason(), Reason::ServiceLevel, "{refusal:?}");
    assert_eq!(refusal.available, Some(300_000_000));
    assert!(refusal.detail.contains("50 %"), "{refusal:?}");
    let request = pair(10, 501, 3_600, 600);
    let request = v1::CoAllocationRequest { earliest_start: None, ..request };
    let refused = modify(&federation, "one", "too-much", request.clone()).await;
    assert_eq!(change_of(&refused), (ChangeState::Refused, 1), "{refused:?}");
    let request = with(&request, |r| r.links[0].bandwidth_bps = 500_000_000);
    let changed = modify(&federation, "one", "half", request).await;
    assert_eq!(change_of(&changed), (ChangeState::Done, 2), "{changed:?}");
    federation.audit_at_rest().await;
}

fn refused_by(answer: hold_response::Answer) -> v1::Refusal {
    refused(answer).expect("it is refused")
}
