//! Every kind of refusal, provoked and checked against the timetables: a shortage is exactly as large as
//! the refusal says, and the alternative that it names works, and nothing earlier does.

use std::collections::BTreeSet;

use coalloc_proto::v1::{self, BottleneckKind as Kind, Reason, ReservationState as State};
use coalloc_proto::{Duration, Timestamp};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::harness::{Federation, Setup, pair, seconds_from_now};

/// The paths of these tests: the path of 1 Gbit/s, and a detour over X1.
const PATHS: [(&str, &str, u64); 5] = [
    ("nrm", "A-B", 1_000_000_000),
    ("nrm", "A-X1:ab", 600_000_000),
    ("nrm", "A-X1:ba", 600_000_000),
    ("nrm", "X1-B:ab", 400_000_000),
    ("nrm", "X1-B:ba", 400_000_000),
];

/// Two sites with a path and a detour between them.
async fn with_a_detour() -> Federation {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    let nrm = std::fs::read_to_string(federation.dir.path().join("nrm.yaml")).unwrap();
    let (before, _) = nrm.split_once("inventory:").unwrap();
    let inventory = "inventory:
  name: nrm
  domain: D
  paths:
  - {name: A-B, a: A, b: B, capacity_bps: 1000000000, latency: 0.001s}
  - {name: A-X1, a: A, b: X1, capacity_bps: 600000000, full_duplex: true, latency: 0.002s}
  - {name: X1-B, a: X1, b: B, capacity_bps: 400000000, full_duplex: true, latency: 0.002s}
";
    federation.write("nrm.yaml", &(before.to_owned() + inventory));
    federation.start_all().await;
    federation
}

fn seconds(time: Option<&Timestamp>) -> i64 {
    time.unwrap().seconds
}

fn ends(window: Option<&v1::Window>) -> (i64, i64) {
    let window = window.unwrap();
    (seconds(window.start.as_ref()), seconds(window.end.as_ref()))
}

/// The free amount of a resource over a window, computed from its RM's own list of bookings.
async fn free(federation: &Federation, resource: &str, window: (i64, i64)) -> u64 {
    let site = [("crm-A", "A", 100), ("crm-B", "B", 100)];
    let all = PATHS.iter().chain(&site);
    let (rm, _, capacity) = *all.clone().find(|(_, name, _)| *name == resource).unwrap();
    let bookings = federation.bookings(rm).await;
    let taken: Vec<(i64, i64, u64)> = bookings
        .iter()
        .flat_map(|booking| &booking.segments)
        .filter(|segment| segment.resource == resource)
        .map(|segment| {
            let (start, end) = ends(segment.window.as_ref());
            (start, end, segment.amount)
        })
        .collect();
    // The level only rises where a booking starts; at the window's start it includes the bookings that
    // reach into it.
    let instants = taken.iter().map(|one| one.0).chain([window.0]);
    let most = instants
        .filter(|at| window.0 <= *at && *at < window.1)
        .map(|at| taken.iter().filter(|one| one.0 <= at && at < one.1).map(|one| one.2).sum())
        .max()
        .unwrap_or(0);
    capacity - most
}

async fn plan(federation: &Federation, request: v1::CoAllocationRequest) -> v1::PlanResponse {
    let request = v1::PlanRequest { request: Some(request), options: None };
    federation.grc().plan(request).await.unwrap().into_inner()
}

fn pinned(mut request: v1::CoAllocationRequest) -> v1::CoAllocationRequest {
    for (site, place) in request.sites.iter_mut().zip(["A", "B"]) {
        site.pinned_to = Some(place.to_owned());
    }
    request
}

/// The same request with links in both directions.
fn both_ways(mut request: v1::CoAllocationRequest) -> v1::CoAllocationRequest {
    let there = request.links[0].clone();
    request.links.push(v1::LinkRequest { from: there.to.clone(), to: there.from.clone(), ..there });
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_to_be_short_is_short_by_exactly_that() {
    let federation = with_a_detour().await;
    for (id, request) in [
        ("one", pinned(pair(60, 300, 3_600, 1_800))),
        ("two", pinned(pair(20, 500, 4_200, 1_800))),
        ("three", pinned(pair(30, 900, 9_000, 600))),
    ] {
        assert_eq!(federation.reserve(id, request).await.state(), State::Confirmed, "{id}");
    }
    let narrow = |mut request: v1::CoAllocationRequest| {
        request.links[0].max_latency = Some(Duration { seconds: 0, nanos: 100_000 });
        request
    };
    let cases = [
        (Kind::Site, Reason::InsufficientCapacity, pinned(pair(41, 1, 3_600, 1_800))),
        (Kind::Sites, Reason::InsufficientCapacity, pair(21, 1, 3_600, 1_800)),
        (Kind::Paths, Reason::NoRoute, pinned(pair(1, 500, 4_200, 600))),
        (Kind::Packing, Reason::NoRoute, both_ways(pinned(pair(1, 450, 3_600, 500)))),
        (Kind::Latency, Reason::BeyondCapacity, narrow(pair(1, 1, 3_600, 600))),
        (Kind::Site, Reason::BeyondCapacity, pinned(pair(101, 1, 3_600, 600))),
        (Kind::Paths, Reason::BeyondCapacity, pinned(pair(1, 1_001, 3_600, 600))),
    ];
    let mut seen = BTreeSet::new();
    for (expected, reason, request) in cases {
        let answer = plan(&federation, request).await;
        assert!(answer.plans.is_empty(), "{expected:?}");
        let frame = &answer.refused[0];
        let refusal = frame.refusal.clone().unwrap();
        assert_eq!(refusal.reason(), reason, "{refusal:?}");
        assert_eq!(refusal.nsi_error.len(), 5, "{refusal:?}");
        let found =
            refusal.bottleneck.clone().unwrap_or_else(|| panic!("nothing binds: {refusal:?}"));
        assert_eq!(found.kind(), expected, "{refusal:?}");
        assert!(found.requested > found.available, "{refusal:?}");
        let beyond = reason == Reason::BeyondCapacity;
        // A refusal for more than the federation has is about an empty timetable, so the window is long
        // before the first booking.
        let window = if beyond { (0, 1) } else { ends(frame.window.as_ref()) };
        let mut frees = Vec::new();
        for resource in &found.resources {
            frees.push(free(&federation, resource, window).await);
        }
        let least = found.requested / found.demands.len() as u64;
        let there = match found.kind() {
            Kind::Sites => 2 - frees.iter().filter(|free| **free < 21).count() as u64,
            Kind::Paths => frees.iter().copied().max().unwrap(),
            Kind::Packing => frees.iter().map(|free| free / least * least).sum(),
            Kind::Latency => 100,
            _ => frees.iter().sum(),
        };
        assert_eq!(found.available, there, "{refusal:?}, free by the timetables: {frees:?}");
        if !beyond && found.kind() != Kind::Sites {
            assert!(
                refusal.detail.contains("short") || found.kind() == Kind::Packing,
                "{refusal:?}"
            );
        }
        assert_eq!(refusal.transient, !beyond, "{refusal:?}");
        seen.insert(found.kind);
        let alternatives = answer.alternatives.unwrap();
        assert_eq!(alternatives.searched_until.is_some(), !beyond, "never is never: {refusal:?}");
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_window_reserves_and_no_earlier_end_of_a_booking_does() {
    let federation = Federation::start().await;
    for (id, request) in [
        ("b1", pair(60, 600, 3_600, 1_800)),
        ("b2", pair(45, 200, 5_400, 2_000)),
        ("b3", pair(10, 100, 5_700, 700)),
        ("b4", pair(80, 10, 7_400, 1_800)),
        ("b5", pair(10, 700, 9_300, 500)),
    ] {
        assert_eq!(federation.reserve(id, request).await.state(), State::Confirmed, "{id}");
    }
    let asked = pair(50, 500, 3_700, 1_800);
    let answer = plan(&federation, asked.clone()).await;
    let found = answer.alternatives.unwrap();
    let nearest = ends(found.nearest_window.as_ref());
    assert!(found.complete && found.starts_tried > 2, "{found:?}");
    assert_eq!(ends(found.nearest_plan.as_ref().unwrap().window.as_ref()), nearest);

    // By the timetables: of all ends of bookings, the first from which on all of it is free.
    let mut starts: BTreeSet<i64> = BTreeSet::new();
    for rm in ["crm-A", "crm-B", "nrm"] {
        let bookings = federation.bookings(rm).await;
        let segments = bookings.iter().flat_map(|booking| &booking.segments);
        starts.extend(segments.map(|segment| ends(segment.window.as_ref()).1));
    }
    let asked_start = seconds(asked.earliest_start.as_ref());
    starts.retain(|start| *start > asked_start);
    let mut expected = None;
    let mut earlier = Vec::new();
    for start in starts {
        let window = (start, start + 1_800);
        let cpus = free(&federation, "A", window).await.min(free(&federation, "B", window).await);
        if cpus >= 50 && free(&federation, "A-B", window).await >= 500_000_000 {
            expected = Some(window);
            break;
        }
        earlier.push(start);
    }
    assert_eq!(Some(nearest), expected);
    assert!(earlier.len() >= 3, "{earlier:?}");

    // The resource managers confirm it.
    let at = |seconds: i64| {
        let start = Some(Timestamp { seconds, nanos: 0 });
        v1::CoAllocationRequest { earliest_start: start, ..asked.clone() }
    };
    for (n, start) in earlier.into_iter().enumerate() {
        let refused = federation.reserve(&format!("early-{n}"), at(start)).await;
        assert_eq!(refused.state(), State::Failed, "{start} is no booking end that fits");
    }
    let reserved = federation.reserve_confirmed("nearest", at(nearest.0)).await;
    assert_eq!(reserved.plan.unwrap().digest, found.nearest_plan.unwrap().digest);
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_request_reserves_and_a_little_more_does_not() {
    let federation = Federation::start().await;
    federation.reserve_confirmed("first", pair(60, 600, 3_600, 1_800)).await;
    let cases = [
        (pair(50, 300, 3_600, 1_800), "40 CPUs a site instead of 50"),
        (pair(30, 500, 3_600, 1_800), "400 Mbit/s a link instead of 500 Mbit/s"),
        (pair(50, 500, 3_600, 1_800), "80 % of all CPUs and rates"),
    ];
    for (n, (asked, change)) in cases.into_iter().enumerate() {
        let found = plan(&federation, asked).await.alternatives.unwrap();
        assert_eq!(found.smaller.len(), 1, "{found:?}");
        assert_eq!(found.smaller[0].change, change);
        let request = found.smaller[0].request.clone().unwrap();
        let mut more = request.clone();
        more.sites[0].cpus += 1;
        more.links[0].bandwidth_bps += 1_000_000;
        let refused = federation.reserve(&format!("more-{n}"), more).await;
        assert_eq!(refused.state(), State::Failed, "{change}");
        let reserved = federation.reserve_confirmed(&format!("less-{n}"), request).await;
        let release = v1::ReleaseReservationRequest { id: reserved.id, ..Default::default() };
        let released = federation.grc().release(release).await.unwrap().into_inner();
        assert_eq!(released.reservation.unwrap().state(), State::Terminated);
    }
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reserve_call_is_told_alternatives_when_it_asks_for_them() {
    let federation = Federation::start().await;
    let first = federation.reserve_confirmed("first", pair(60, 600, 3_600, 1_800)).await;
    let asked = pair(50, 500, 3_600, 1_800);
    let plain = federation.reserve("plain", asked.clone()).await;
    assert_eq!((plain.state(), &plain.alternatives), (State::Failed, &None));
    let bottleneck = plain.refusal.unwrap().bottleneck.unwrap();
    let numbers = (bottleneck.kind(), bottleneck.requested, bottleneck.available);
    assert_eq!(numbers, (Kind::Sites, 1, 0), "already one of them finds no site of 50 CPUs");
    let options = v1::PlanOptions { alternatives: Some(true), ..Default::default() };
    let request = v1::ReserveRequest {
        request_id: "told".to_owned(),
        request: Some(asked),
        options: Some(options),
        ..Default::default()
    };
    let told = federation.grc().reserve(request).await.unwrap().into_inner().reservation.unwrap();
    assert_eq!(told.state(), State::Failed);
    let found = told.alternatives.unwrap();
    let first = first.plan.unwrap();
    assert_eq!(ends(found.nearest_window.as_ref()).0, ends(first.window.as_ref()).1);
    assert_eq!(found.smaller[0].change, "80 % of all CPUs and rates");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typo_is_never_a_lack_of_resources() {
    let federation = with_a_detour().await;
    let mut typo = pinned(pair(1, 1, 3_600, 600));
    typo.sites[1].pinned_to = Some("b".to_owned());
    let error = federation.try_reserve("typo", typo).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let violation = error.get_details_bad_request().unwrap().field_violations[0].clone();
    assert!(violation.field.ends_with("sites[1].pinned_to"), "{violation:?}");
    assert!(violation.description.ends_with("did you mean B?"), "{violation:?}");
    let mut typo = pair(1, 1, 3_600, 600);
    typo.links[0].to = "rihgt".to_owned();
    let error = federation.try_reserve("typo", typo).await.unwrap_err();
    assert!(error.message().ends_with("did you mean right?"), "{error}");

    // The errors at a resource manager, in the order in which it checks for them.
    let hold = |n: u32, resource: &str, amount: u64, start_s: i64| v1::HoldRequest {
        transaction: format!("grc-typo-{n}/1"),
        coordinator: "grc".to_owned(),
        segments: vec![v1::Segment {
            resource: resource.to_owned(),
            amount,
            window: Some(v1::Window {
                start: Some(seconds_from_now(start_s)),
                end: Some(seconds_from_now(start_s + 600)),
            }),
            resource_manager: String::new(),
        }],
        ..Default::default()
    };
    let cases = [
        (hold(1, "A-BB", 1, 3_600), Reason::UnknownResource, "00701", "did you mean A-B?"),
        (hold(2, "A-B", 1_000_000_001, 3_600), Reason::BeyondCapacity, "00705", "in all"),
        (hold(3, "A-B", 1, 91 * 86_400), Reason::OutsideHorizon, "00102", "allowed: until"),
        (hold(4, "A-B", 700_000_000, 3_600), Reason::Unspecified, "", ""),
        (
            hold(5, "A-B", 400_000_000, 3_600),
            Reason::InsufficientCapacity,
            "00705",
            "300 Mbit/s free",
        ),
    ];
    for (hold, reason, nsi, detail) in cases {
        use v1::hold_response::Answer;
        let answer = federation.rm("nrm").hold(hold).await.unwrap().into_inner().answer.unwrap();
        let Answer::Refused(refusal) = answer else {
            assert_eq!(reason, Reason::Unspecified, "held");
            continue;
        };
        assert_eq!(refusal.reason(), reason, "{refusal:?}");
        assert_eq!(refusal.nsi_error, nsi, "{refusal:?}");
        assert!(refusal.detail.contains(detail), "{refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_carry_their_reason_for_programs() {
    let federation = Federation::start().await;
    let reason = |error: &tonic::Status| error.get_details_error_info().unwrap().reason;
    let error = federation.get("nothing").await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::NotFound, "NOT_FOUND"));
    assert_eq!(error.get_details_resource_info().unwrap().resource_name, "nothing");

    let release = v1::ReleaseRequest {
        transaction: "grc-t-1/1".to_owned(),
        coordinator: "grc".to_owned(),
        resource_manager: "crm-A".to_owned(),
        ..Default::default()
    };
    let error = federation.rm("nrm").release(release.clone()).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::FailedPrecondition, "OTHER_DAEMON"));
    assert_eq!(error.get_details_precondition_failure().unwrap().violations[0].subject, "crm-A");

    let stranger = v1::ReleaseRequest { coordinator: "stranger".to_owned(), ..release };
    let refused = federation.rm("crm-A").release(stranger).await.unwrap().into_inner().refused;
    assert_eq!(refused.map(|refusal| refusal.reason()), Some(v1::Reason::Denied));

    federation.reserve_confirmed("one", pair(1, 1, 3_600, 600)).await;
    let error = federation.try_reserve("one", pair(2, 1, 3_600, 600)).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::AlreadyExists, "OTHER_CONTENT"));
    assert_eq!(error.get_details_resource_info().unwrap().resource_name, "one");

    let error = federation.try_reserve("bad", pair(0, 1, 3_600, 600)).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
    federation.audit_at_rest().await;
}
