//! Input that must be refused: each answer names field, value and allowed range, and nothing is left behind.

use coalloc_proto::v1::{self, Reason, ReservationState as State};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::harness::{Federation, RMS, pair, seconds_from_now};

type Spoil = fn(&mut v1::CoAllocationRequest);

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_name_field_value_and_range_and_leave_nothing() {
    let federation = Federation::start().await;
    let cases: [(&str, &str, Spoil); 12] = [
        ("sites", "1 to 32", |r| r.sites.clear()),
        ("sites[0].cpus", "1 to 10000000", |r| r.sites[0].cpus = 0),
        ("sites[0].cpus", "1 to 10000000", |r| r.sites[0].cpus = u64::MAX),
        ("sites[1].pinned_to", "A, B", |r| r.sites[1].pinned_to = Some("Atlantis".to_owned())),
        ("sites[0].excluded[0]", "A, B", |r| r.sites[0].excluded = vec!["Atlantis".to_owned()]),
        ("sites[1].name", "sites[0]", |r| r.sites[1].name = "left".to_owned()),
        ("links[0].to", "left, right", |r| r.links[0].to = "nowhere".to_owned()),
        ("links[0].bandwidth_bps", "1 to", |r| r.links[0].bandwidth_bps = 0),
        ("links[1]", "links[0]", |r| r.links.push(r.links[0].clone())),
        ("duration", "1 s to 366 d", |r| r.duration = None),
        ("latest_start", "not before earliest_start", |r| {
            r.latest_start = Some(seconds_from_now(0));
        }),
        ("user", "1 to 128 characters", |r| r.user = "a b".to_owned()),
    ];
    for (field, allowed, spoil) in cases {
        let mut request = pair(1, 1, 3_600, 600);
        spoil(&mut request);
        let error = federation.try_reserve("bad", request).await.expect_err(field);
        assert_eq!(error.code(), Code::InvalidArgument, "{field}: {error}");
        let details = error.get_details_bad_request().unwrap();
        let violation = &details.field_violations[0];
        assert!(violation.field.ends_with(field), "{field}: {violation:?}");
        assert!(violation.description.contains(allowed), "{field}: {violation:?}");
    }
    // The id of a malformed request can still be used.
    federation.reserve_confirmed("bad", pair(1, 1, 3_600, 600)).await;
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_frames_are_refused_at_the_grc_and_at_the_rm() {
    let federation = Federation::start().await;
    let options = v1::PlanOptions { frames: Some(10_000), ..Default::default() };
    let request = v1::PlanRequest { request: Some(pair(1, 1, 60, 60)), options: Some(options) };
    let error = federation.grc().plan(request).await.unwrap_err();
    assert!(error.message().contains("options.frames: 10000"), "{error}");
    assert!(error.message().contains("1 to 256"), "{error}");
    let window = v1::Window { start: Some(seconds_from_now(1)), end: Some(seconds_from_now(2)) };
    let query = v1::QueryAvailabilityRequest { frames: vec![window; 10_000], ..Default::default() };
    let error = federation.rm("nrm").query_availability(query).await.unwrap_err();
    assert!(error.message().contains("frames: 10000"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversize_message_is_refused() {
    let federation = Federation::start().await;
    let mut request = pair(1, 1, 3_600, 600);
    request.sites[0].excluded = vec!["x".repeat(2 << 20)];
    let error = federation.try_reserve("huge", request).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange, "{error}");
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_beyond_the_federation_or_its_horizon_is_refused_with_the_reason() {
    let federation = Federation::start().await;
    let large = federation.reserve("large", pair(101, 1, 3_600, 600)).await;
    assert_eq!(large.state(), State::Failed);
    let refusal = large.refusal.unwrap();
    assert_eq!(refusal.reason(), Reason::BeyondCapacity, "{refusal:?}");
    assert!(refusal.detail.contains("101") && refusal.detail.contains("100"), "{refusal:?}");

    let mut three = pair(1, 1, 3_600, 600);
    three.sites.push(v1::SiteRequest { name: "c".to_owned(), cpus: 1, ..Default::default() });
    let refusal = federation.reserve("three", three).await.refusal.unwrap();
    assert_eq!(refusal.reason(), Reason::BeyondCapacity, "{refusal:?}");

    for (id, start_s) in [("far", 91 * 86_400), ("past", -86_400)] {
        let refusal = federation.reserve(id, pair(1, 1, start_s, 600)).await.refusal.unwrap();
        assert_eq!(refusal.reason(), Reason::OutsideHorizon, "{refusal:?}");
        assert!(refusal.detail.contains("allowed"), "{refusal:?}");
    }
    federation.audit_at_rest().await;
    for rm in RMS {
        assert!(federation.bookings(rm).await.is_empty(), "{rm}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_rm_takes_messages_of_its_coordinators_only() {
    let federation = Federation::start().await;
    let window =
        v1::Window { start: Some(seconds_from_now(600)), end: Some(seconds_from_now(700)) };
    let segment = v1::Segment {
        resource: "A-B".to_owned(),
        amount: 1,
        window: Some(window),
        resource_manager: String::new(),
    };
    let hold = v1::HoldRequest {
        transaction: "stranger-t-1/1".to_owned(),
        coordinator: "stranger".to_owned(),
        user: String::new(),
        segments: vec![segment.clone()],
        hold_for: None,
        resource_manager: String::new(),
        replaces: String::new(),
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
        oldest_open: 0,
        ..Default::default()
    };
    let denied = |answer: v1::HoldResponse| match answer.answer {
        Some(v1::hold_response::Answer::Refused(refusal)) => refusal.reason() == v1::Reason::Denied,
        _ => false,
    };
    let answer = federation.rm("nrm").hold(hold.clone()).await.unwrap().into_inner();
    assert!(denied(answer), "said in the answer: a status may be anybody's");
    // An id that belongs to another coordinator may not be held, ended or tombstoned, neither before it is
    // given nor after.
    let stolen = v1::HoldRequest { coordinator: "grc".to_owned(), ..hold.clone() };
    assert!(denied(federation.rm("nrm").hold(stolen).await.unwrap().into_inner()));
    let tombstone = v1::AbortRequest {
        transaction: hold.transaction.clone(),
        coordinator: "grc".to_owned(),
        resource_manager: String::new(),
        ..Default::default()
    };
    let refused = federation.rm("nrm").abort(tombstone).await.unwrap().into_inner().refused;
    assert_eq!(refused.map(|refusal| refusal.reason()), Some(v1::Reason::Denied));
    let nothing = v1::Segment { amount: 0, ..segment.clone() };
    let own = v1::HoldRequest {
        transaction: "grc-t-1/1".to_owned(),
        coordinator: "grc".to_owned(),
        ..hold
    };
    let wrong = v1::HoldRequest { segments: vec![segment.clone(), nothing], ..own.clone() };
    let error = federation.rm("nrm").hold(wrong).await.unwrap_err();
    assert!(error.message().contains("segments[1].amount"), "{error}");
    let ahead = v1::HoldRequest { oldest_open: 2, ..own.clone() };
    let error = federation.rm("nrm").hold(ahead).await.unwrap_err();
    assert!(
        error.message().contains("oldest_open") && error.message().contains("0 to 1"),
        "{error}"
    );
    // Segments of one resource may overlap; together they are more than there is.
    let most = v1::Segment { amount: 1_000_000_000, ..segment.clone() };
    let twice = v1::HoldRequest { segments: vec![most, segment], ..own };
    let answer = federation.rm("nrm").hold(twice).await.unwrap().into_inner().answer;
    let Some(v1::hold_response::Answer::Refused(refusal)) = answer else { panic!("{answer:?}") };
    assert_eq!(refusal.reason(), v1::Reason::InsufficientCapacity);
    assert_eq!((refusal.requested, refusal.available), (Some(1), Some(0)));
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_must_not_look_like_a_reservation() {
    let federation = Federation::start().await;
    let first = federation.reserve("one", pair(1, 1, 3_600, 600)).await;
    let next = format!("{}2", first.id.strip_suffix('1').unwrap());
    let error = federation.try_reserve(&next, pair(1, 1, 3_600, 600)).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("request_id"), "{error}");
    // The id of a request, an id that does not exist yet, and arbitrary text are not tokens.
    for token in ["one", &next, "nowhere"] {
        let list = v1::ListRequest { page_token: token.to_owned(), ..Default::default() };
        let error = federation.grc().list(list).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{token}");
        assert!(error.message().contains("page_token"), "{error}");
        let page_token = token.to_owned();
        let list = v1::ListBookingsRequest { page_token, ..Default::default() };
        let error = federation.rm("nrm").list_bookings(list).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{token}");
        assert!(error.message().contains("page_token"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_come_in_pages_that_miss_nothing() {
    let federation = Federation::start().await;
    let mut made = Vec::new();
    for n in 0..5 {
        let request = pair(1, 1, 3_600 + 600 * n, 600);
        made.push(federation.reserve(&format!("r{n}"), request).await.id);
    }
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let list = v1::ListRequest { page_size: Some(2), page_token: token, ..Default::default() };
        let page = federation.grc().list(list).await.unwrap().into_inner();
        assert!(page.reservations.len() <= 2);
        seen.extend(page.reservations.into_iter().map(|reservation| reservation.id));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, made);
    let (mut count, mut token) = (0, String::new());
    loop {
        let page_size = Some(2);
        let list = v1::ListBookingsRequest { page_size, page_token: token, ..Default::default() };
        let page = federation.rm("nrm").list_bookings(list).await.unwrap().into_inner();
        count += page.bookings.len();
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(count, 5);
}
