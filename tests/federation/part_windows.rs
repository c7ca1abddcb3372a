//! Reservations whose parts have windows of their own: a path for the hour in which data are staged in, CPUs for the
//! two hours after it, storage for the whole.
//!
//! Site A has 100 CPUs, site B has 100 CPUs and 30 GB, and a path of 1 Gbit/s joins them.

use coalloc_proto::v1::{self, ChangeState, Reason, ReservationState as State};
use coalloc_proto::{Duration, Timestamp};
use tonic::{Code, Status};

use crate::harness::{Federation, RMS, Setup, pair, seconds_from_now};
use crate::servers::{after, blamed, configure_crm, seconds};
use crate::trees;

const HOUR: i64 = 3_600;

async fn start() -> Federation {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    let site = "{name: B, cpus: 100, others: [{kind: storage, capacity: 30}]}";
    configure_crm(&federation, "crm-B", site, "grc", "");
    federation.start_all().await;
    federation
}

/// Data from A for an hour, a run at B for the next two, and storage at B for all of fifteen hours.
fn stage_in(from: Timestamp) -> v1::CoAllocationRequest {
    let mut request = pair(10, 800, 0, 15 * HOUR);
    request.earliest_start = Some(from);
    request.sites[0].pinned_to = Some("A".to_owned());
    request.sites[0].length = seconds(HOUR);
    let run = &mut request.sites[1];
    (run.cpus, run.offset, run.length) = (60, seconds(HOUR), seconds(2 * HOUR));
    let (kind, offset) = ("storage".to_owned(), seconds(0));
    run.others = vec![v1::KindAmount { kind, amount: 20, offset, length: None }];
    request.links[0].length = seconds(HOUR);
    request
}

/// The same request without storage, for federations that have none.
fn without_storage(mut request: v1::CoAllocationRequest) -> v1::CoAllocationRequest {
    request.sites[1].others.clear();
    request
}

/// What an RM has booked: resource, amount, and the window in seconds from an instant.
async fn booked(
    federation: &Federation,
    rm: &str,
    from: &Timestamp,
) -> Vec<(String, u64, i64, i64)> {
    let bookings = federation.bookings(rm).await;
    let of = |segment: &v1::Segment| {
        let window = segment.window.as_ref().unwrap();
        let since = |time: &Option<Timestamp>| time.unwrap().seconds - from.seconds;
        (segment.resource.clone(), segment.amount, since(&window.start), since(&window.end))
    };
    let mut all: Vec<_> = bookings.iter().flat_map(|booking| &booking.segments).map(of).collect();
    all.sort();
    all
}

fn one(resource: &str, amount: u64, from: i64, to: i64) -> (String, u64, i64, i64) {
    (resource.to_owned(), amount, from, to)
}

/// A request for both sites and the path between them, from so long after an instant on.
fn later(
    from: &Timestamp,
    offset: i64,
    cpus: u64,
    mbps: u64,
    length: i64,
) -> v1::CoAllocationRequest {
    v1::CoAllocationRequest { earliest_start: after(from, offset), ..pair(cpus, mbps, 0, length) }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_part_is_booked_in_its_own_window_and_the_rest_is_free_for_others() {
    let mut federation = start().await;
    let from = seconds_from_now(HOUR);
    let reservation = federation.reserve_confirmed("stage-in", stage_in(from)).await;
    let plan = reservation.plan.as_ref().unwrap();
    assert_eq!(plan.window.unwrap().end, after(&from, 15 * HOUR));
    assert_eq!(plan.placements[1].window.unwrap().start, after(&from, HOUR));
    assert_eq!(plan.routes[0].window.unwrap().end, after(&from, HOUR));
    assert_eq!(booked(&federation, "crm-A", &from).await, [one("A", 10, 0, HOUR)]);
    let run = [one("B", 60, HOUR, 3 * HOUR), one("B:storage", 20, 0, 15 * HOUR)];
    assert_eq!(booked(&federation, "crm-B", &from).await, run);
    let path = [one("A-B", 800_000_000, 0, HOUR)];
    assert_eq!(booked(&federation, "nrm", &from).await, path);
    // In the hour of the stage-in the path is short, and the refusal says when.
    let short = federation.reserve("short", later(&from, 600, 10, 300, 600)).await;
    assert_eq!(short.state(), State::Failed);
    // Another stage-in at the same time is refused for the window of its link.
    let mut rival = without_storage(stage_in(from));
    rival.sites[1].cpus = 40;
    let rival = federation.reserve("rival", rival).await;
    let refusal = rival.refusal.unwrap();
    assert_eq!(refusal.window.unwrap().end, after(&from, HOUR), "{refusal:?}");
    assert_eq!((refusal.reason(), refusal.resource.as_str()), (Reason::NoRoute, "A-B"));
    // Outside of the windows of its parts, all is free: the path after the first hour, the CPUs after the third.
    federation.reserve_confirmed("path", later(&from, HOUR, 40, 900, 2 * HOUR)).await;
    federation.reserve_confirmed("all", later(&from, 3 * HOUR, 80, 900, 12 * HOUR)).await;
    // A stage-in whose link waits until the path is free fits beside it.
    let mut beside = without_storage(stage_in(from));
    beside.sites[0].length = None;
    beside.sites[1].cpus = 30;
    (beside.sites[1].offset, beside.sites[1].length) = (seconds(0), seconds(1_800));
    beside.links[0].bandwidth_bps = 100_000_000;
    beside.links[0].offset = seconds(HOUR);
    beside.links[0].length = None;
    federation.reserve_confirmed("beside", beside).await;
    federation.audit_at_rest().await;
    // What is kept is the same after a restart, and released as a whole.
    for name in RMS.iter().chain(&["grc"]) {
        federation.kill(name);
        federation.spawn(name);
    }
    federation.complete().await;
    let again = federation.reserve("stage-in", stage_in(from)).await;
    assert_eq!((again.state(), &again.plan), (State::Confirmed, &reservation.plan));
    let release = v1::ReleaseReservationRequest { id: reservation.id, ..Default::default() };
    federation.grc().release(release).await.unwrap();
    federation.audit_at_rest().await;
    let storage = |all: Vec<(String, u64, i64, i64)>| all.iter().any(|one| one.0 == "B:storage");
    assert!(!storage(booked(&federation, "crm-B", &from).await), "all of it is released");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_with_windows_is_reserved_by_its_digest_and_alternatives_keep_the_windows() {
    let federation = start().await;
    let from = seconds_from_now(HOUR);
    let request =
        v1::CoAllocationRequest { latest_start: after(&from, 9 * HOUR), ..stage_in(from) };
    let ask = || v1::PlanRequest { request: Some(request.clone()), options: None };
    let planned = federation.grc().plan(ask()).await.unwrap().into_inner();
    assert_eq!(planned.plans.len(), 10, "every frame has a plan");
    let chosen = planned.plans[3].clone();
    let reserve = v1::ReserveRequest {
        request_id: "chosen".to_owned(),
        request: Some(request.clone()),
        plan_digest: chosen.digest.clone(),
        ..v1::ReserveRequest::default()
    };
    let reserved = federation.grc().reserve(reserve).await.unwrap().into_inner();
    assert_eq!(reserved.reservation.unwrap().plan.unwrap().segments, chosen.segments);
    // All the storage that is left is too little, at every start. Smaller requests keep their windows, and the nearest
    // window begins when the storage becomes free.
    let whole = v1::CoAllocationRequest { latest_start: None, ..request.clone() };
    let ask = v1::PlanRequest { request: Some(whole), options: None };
    let refused = federation.grc().plan(ask).await.unwrap().into_inner();
    assert!(refused.plans.is_empty());
    let found = refused.alternatives.unwrap();
    assert_eq!(found.nearest_window.unwrap().start, chosen.window.unwrap().end);
    let smaller = &found.smaller[0];
    assert!(smaller.change.contains("10 GB of storage"), "{}", smaller.change);
    let kept = &smaller.request.as_ref().unwrap().sites[1];
    assert_eq!((kept.offset, kept.others[0].offset), (seconds(HOUR), seconds(0)));
    federation.audit_at_rest().await;
}

async fn modify(
    federation: &Federation,
    change: &str,
    request: v1::CoAllocationRequest,
) -> Result<v1::Reservation, Status> {
    let request = v1::ModifyRequest {
        id: "one".to_owned(),
        change_id: change.to_owned(),
        request: Some(request),
        ..v1::ModifyRequest::default()
    };
    Ok(federation.grc().modify(request).await?.into_inner().reservation.unwrap())
}

fn change_of(reservation: &v1::Reservation) -> ChangeState {
    reservation.change.as_ref().unwrap().state()
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_of_parts_are_changed_while_the_reservation_lies_ahead() {
    let federation = start().await;
    let from = seconds_from_now(HOUR);
    let old = federation.reserve_confirmed("one", stage_in(from)).await;
    federation.reserve_confirmed("path", later(&from, 2 * HOUR, 10, 900, HOUR)).await;
    // The link may last two hours, beside its own old booking, but not three.
    let lasting = |hours: i64| {
        let mut new = stage_in(from);
        new.links[0].length = seconds(hours * HOUR);
        new
    };
    let refused = modify(&federation, "three", lasting(3)).await.unwrap();
    assert_eq!((change_of(&refused), &refused.plan), (ChangeState::Refused, &old.plan));
    let longer = modify(&federation, "two", lasting(2)).await.unwrap();
    assert_eq!(change_of(&longer), ChangeState::Done, "{longer:?}");
    let mine = one("A-B", 800_000_000, 0, 2 * HOUR);
    assert!(booked(&federation, "nrm", &from).await.contains(&mine));
    // A part that lasts longer than the shortened request is named.
    let mut short = lasting(2);
    short.duration = seconds(2 * HOUR);
    let error = modify(&federation, "short", short).await.unwrap_err();
    let (field, problem) = blamed(&error);
    assert_eq!(field, "request.sites[1].length");
    assert!(problem.contains("1 s to 1 h"), "{problem}");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_reservation_that_has_begun_what_has_passed_stays() {
    let federation = start().await;
    // The stage-in was over after ten seconds. The run has begun and ends after 400 s, the storage after 900 s.
    let from = seconds_from_now(-20);
    let mut request = stage_in(from);
    request.duration = seconds(900);
    request.sites[0].length = seconds(10);
    request.links[0].length = seconds(10);
    (request.sites[1].offset, request.sites[1].length) = (seconds(5), seconds(395));
    let old = federation.reserve_confirmed("one", request.clone()).await;
    assert_eq!(booked(&federation, "nrm", &from).await, [one("A-B", 800_000_000, 0, 10)]);
    // Others may have the path at once.
    federation.reserve_confirmed("path", later(&seconds_from_now(60), 0, 10, 900, 60)).await;
    let mut more = request.clone();
    more.sites[1].cpus = 70;
    more.sites[1].others[0].amount = 25;
    let more_reservation = modify(&federation, "more", more.clone()).await.unwrap();
    assert_eq!(change_of(&more_reservation), ChangeState::Done, "{more_reservation:?}");
    let at_b = booked(&federation, "crm-B", &from).await;
    let mine: Vec<_> = at_b.iter().filter(|one| one.1 != 10).collect();
    let cut = mine[0].3;
    let expected = [
        one("B", 60, 5, cut),
        one("B", 70, cut, 400),
        one("B:storage", 20, 0, cut),
        one("B:storage", 25, cut, 900),
    ];
    assert_eq!(mine, expected.iter().collect::<Vec<_>>());
    let plan = more_reservation.plan.as_ref().unwrap();
    let (was, is) = (&old.plan.as_ref().unwrap().routes, &plan.routes);
    assert_eq!(was, is, "the link that is over is shown as it was");
    assert_eq!(plan.placements[0], old.plan.as_ref().unwrap().placements[0]);
    assert_eq!(plan.placements[1].cpus, 70);
    // Whatever has passed cannot be changed.
    type Change = fn(&mut v1::CoAllocationRequest);
    let wrong: [(&str, &str, Change); 4] = [
        ("links[0].bandwidth_bps", "800 Mbit/s: it is over", |r| r.links[0].bandwidth_bps /= 2),
        ("links[0].length", "10 s: it is over", |r| r.links[0].length = seconds(11)),
        ("sites[1].offset", "5 s, when it began, or", |r| r.sites[1].offset = seconds(6)),
        ("sites[1].length", "more than", |r| r.sites[1].length = seconds(10)),
    ];
    for (number, (field, allowed, change)) in wrong.into_iter().enumerate() {
        let mut new = more.clone();
        change(&mut new);
        let error = modify(&federation, &format!("wrong-{number}"), new).await.unwrap_err();
        let (blamed, problem) = blamed(&error);
        assert_eq!(blamed, format!("request.{field}"), "{problem}");
        assert!(problem.contains(allowed), "{problem}");
    }
    // The rest of the run ends later.
    let mut longer = more;
    longer.sites[1].length = seconds(800);
    let longer = modify(&federation, "longer", longer).await.unwrap();
    assert_eq!(change_of(&longer), ChangeState::Done, "{longer:?}");
    let at_b = booked(&federation, "crm-B", &from).await;
    assert!(at_b.contains(&one("B", 70, cut, 805)), "{at_b:?}");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_chosen_for_the_window_of_their_part() {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    configure_crm(&federation, "crm-B", crate::servers::B, "grc", "grc");
    federation.start_all().await;
    let from = seconds_from_now(HOUR);
    let request = |cpus: u64, offset: i64, length: i64| {
        let mut request = without_storage(stage_in(from));
        let run = &mut request.sites[1];
        (run.cpus, run.offset, run.length) = (cpus, seconds(offset), seconds(length));
        run.pinned_to = Some("B".to_owned());
        request.links[0].bandwidth_bps = 1_000_000;
        request
    };
    let count =
        |one: &v1::Reservation| one.servers.iter().map(|of| of.servers.len()).sum::<usize>();
    let first = federation.reserve_confirmed("first", request(16, HOUR, HOUR)).await;
    assert_eq!(count(&first), 2, "{first:?}");
    let second = federation.reserve_confirmed("second", request(24, 2 * HOUR, HOUR)).await;
    assert_eq!(count(&second), 3, "the same servers, in the hour after it");
    let third = federation.reserve_confirmed("third", request(8, HOUR, HOUR)).await;
    assert_eq!(count(&third), 1);
    let none = federation.reserve("none", request(8, HOUR, HOUR)).await;
    assert_eq!(none.state(), State::Failed);
    let refusal = none.refusal.unwrap();
    assert_eq!((refusal.reason(), refusal.requested), (Reason::InsufficientCapacity, Some(8)));
    assert_eq!(refusal.window.unwrap().start, after(&from, HOUR));
    federation.reserve_confirmed("after", request(8, 3 * HOUR, 2 * HOUR)).await;
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_plans_windows_of_parts_across_its_children() {
    let tree = trees::start("{}").await;
    let from = seconds_from_now(HOUR);
    let mut request = without_storage(stage_in(from));
    // Two hours of data, of which the second overlaps with the run.
    request.sites[0].length = None;
    request.links[0].length = seconds(2 * HOUR);
    let reservation = tree.reserve("one", request.clone()).await;
    assert_eq!(reservation.state(), State::Confirmed, "{reservation:?}");
    assert_eq!(booked(&tree, "crm-A", &from).await, [one("A", 10, 0, 15 * HOUR)]);
    assert_eq!(booked(&tree, "crm-B", &from).await, [one("B", 60, HOUR, 3 * HOUR)]);
    for (nrm, path) in [("nrm-1", "A-X"), ("nrm-2", "B-X")] {
        let expected = [one(path, 800_000_000, 0, 2 * HOUR)];
        assert_eq!(booked(&tree, nrm, &from).await, expected);
    }
    let mut rival = request.clone();
    rival.sites[1].cpus = 40;
    let rival = tree.reserve("rival", rival).await;
    assert_eq!(rival.state(), State::Failed);
    let window = rival.refusal.unwrap().window.unwrap();
    assert_eq!((window.start, window.end), (Some(from), after(&from, HOUR)), "the first period");
    let mut next = request;
    (next.links[0].offset, next.links[0].length) = (seconds(2 * HOUR), None);
    (next.sites[1].offset, next.sites[1].length) = (seconds(3 * HOUR), None);
    next.sites[1].cpus = 100;
    let next = tree.reserve("next", next).await;
    assert_eq!(next.state(), State::Confirmed, "{next:?}");
    for id in ["one", "next"] {
        let release = v1::ReleaseReservationRequest { id: id.to_owned(), ..Default::default() };
        tree.grc().release(release).await.unwrap();
    }
    trees::nothing_left(&tree).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_window_is_refused_with_field_value_and_range() {
    let federation = start().await;
    let from = seconds_from_now(HOUR);
    type Change = fn(&mut v1::CoAllocationRequest);
    let cases: [(&str, &str, Change); 9] = [
        ("sites[0].offset", "0 s to 14 h 59 min 59 s", |r| r.sites[0].offset = seconds(-1)),
        ("sites[0].offset", "0 s to 14 h 59 min 59 s", |r| r.sites[0].offset = seconds(15 * HOUR)),
        ("sites[0].length", "1 s to 15 h", |r| r.sites[0].length = seconds(0)),
        ("sites[0].length", "1 s to 15 h", |r| r.sites[0].length = seconds(15 * HOUR + 1)),
        ("sites[1].length", "1 s to 14 h", |r| r.sites[1].length = seconds(i64::MAX)),
        ("sites[1].others[0].offset", "0 s to 14 h 59 min 59 s", |r| {
            r.sites[1].others[0].offset = seconds(i64::MIN);
        }),
        ("links[0].offset", "0 s to 14 h 59 min 59 s", |r| {
            r.links[0].offset = Some(Duration { seconds: 1, nanos: -1 });
        }),
        ("links[0].length", "1 s to 15 h", |r| {
            r.links[0].length = Some(Duration { seconds: 0, nanos: 999_999_000 });
        }),
        ("sites and links", "at most 17", |r| {
            for number in 0..20 {
                let mut site = r.sites[0].clone();
                site.name = format!("s{number}");
                (site.pinned_to, site.offset) = (None, seconds(1_000 * number));
                r.sites.push(site);
            }
        }),
    ];
    for (field, allowed, change) in cases {
        let mut request = stage_in(from);
        change(&mut request);
        let error = federation.try_reserve("wrong", request).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        let (blamed, problem) = blamed(&error);
        assert_eq!(blamed, format!("request.{field}"), "{problem}");
        assert!(problem.contains(allowed), "{field}: {problem}");
    }
    for rm in RMS {
        assert!(federation.bookings(rm).await.is_empty());
    }
}
