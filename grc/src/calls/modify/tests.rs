//! What a new version may be, and which sites of it stay.

use super::*;

fn at(s: i64) -> Time {
    Time::from_us((1_000_000 + s) * 1_000_000)
}

/// A moment, and from when on a user may change what has begun then.
fn from(old: Window, now: Time) -> (Time, Time) {
    (now, cut(old, now))
}

fn window(start: i64, end: i64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

fn booked(start: i64, end: i64) -> (Window, v1::Plan) {
    let placement = |site: &str, at: &str| v1::Placement {
        site: site.to_owned(),
        at: at.to_owned(),
        cpus: 4,
        ..v1::Placement::default()
    };
    let placements = vec![placement("a", "N0"), placement("b", "N1")];
    (window(start, end), v1::Plan { placements, ..v1::Plan::default() })
}

fn asked(duration_s: i64) -> v1::CoAllocationRequest {
    let site = |name: &str| v1::SiteRequest {
        name: name.to_owned(),
        cpus: 4,
        ..v1::SiteRequest::default()
    };
    v1::CoAllocationRequest {
        sites: vec![site("a"), site("c")],
        duration: Some(span_to_wire(Span::from_secs(duration_s))),
        ..v1::CoAllocationRequest::default()
    }
}

#[test]
fn an_unset_start_stays_and_known_sites_stay_where_they_are() {
    let (old, plan) = booked(100, 200);
    let new = version(&asked(500), old, &plan, &|_| true, from(old, at(0))).unwrap();
    assert_eq!(new.request.earliest_start, Some(time_to_wire(at(100))));
    assert_eq!(new.request.sites[0].pinned_to.as_deref(), Some("N0"));
    assert_eq!((new.request.sites[1].pinned_to.as_ref(), new.active), (None, None));
    let new = version(&asked(500), old, &plan, &|_| false, from(old, at(0))).unwrap();
    assert_eq!(new.request.sites[0].pinned_to, None, "it may move");
    let mut elsewhere = asked(500);
    elsewhere.sites[0].pinned_to = Some("N7".to_owned());
    let error = version(&elsewhere, old, &plan, &|_| true, from(old, at(0))).unwrap_err();
    assert_eq!(error.field, "sites[0].pinned_to");
    assert!(error.allowed.contains("N0"), "{error}");
    assert!(version(&elsewhere, old, &plan, &|_| false, from(old, at(0))).is_ok());
}

#[test]
fn what_can_be_used_stays_first_when_something_has_to_move() {
    let (old, plan) = booked(100, 200);
    let segment = |at: &str| Segment {
        resource: ResourceId::composed(at),
        amount: coalloc_common::Amount(4),
        window: old,
    };
    let [a, b] = ["crm-a", "crm-b"].map(RmName::composed);
    let segments = [(a.clone(), vec![segment("N0")]), (b, vec![segment("N1")])].into();
    let off: UnusableParts = [(a, [ResourceId::composed("N0/1")].into())].into();
    let stays = |place: &str| !is_at(place, &off, &segments);
    let mut asked = asked(500);
    asked.sites[1].name = "b".to_owned();
    let new = version(&asked, old, &plan, &stays, from(old, at(0))).unwrap();
    assert_eq!(new.request.sites[0].pinned_to, None, "its site has lost a server");
    assert_eq!(new.request.sites[1].pinned_to.as_deref(), Some("N1"));
}

#[test]
fn a_change_leaves_the_reservation_in_its_series() {
    let of = |series: &str| v1::CoAllocationRequest { series: series.to_owned(), ..asked(500) };
    let current = |series: &str| CurrentBooking {
        id: ReservationId::composed("grc-t-1"),
        user: UserName::composed("alice"),
        transaction: None,
        segments: BTreeMap::new(),
        plan: None,
        request: Some(of(series)),
        options: v1::PlanOptions::default(),
        manual_provision: false,
    };
    let check = |asked: &str, own: &str| {
        let wire = v1::ModifyRequest { request: Some(of(asked)), ..Default::default() };
        check_series(&wire, &current(own))
    };
    for (asked, own) in [("", ""), ("", "lab"), ("lab", "lab")] {
        assert_eq!(check(asked, own), Ok(()), "{asked} of {own}");
    }
    let error = check("other", "lab").unwrap_err();
    assert!(error.to_string().contains("allowed: lab, to which"), "{error}");
    assert!(check("lab", "").is_err());
}

#[test]
fn what_has_begun_keeps_its_start_and_ends_no_sooner_than_it_can_be_changed() {
    let (old, plan) = booked(0, 1_000);
    let (lead, now) = (limits::SOONEST_LEAD.as_us() / 1_000_000, at(100));
    let new = version(&asked(2_000), old, &plan, &|_| true, from(old, now)).unwrap();
    assert_eq!(new.active, Some((window(0, 2_000), at(100 + lead))));
    assert!(version(&asked(101 + lead), old, &plan, &|_| true, from(old, now)).is_ok());
    let error = version(&asked(100 + lead), old, &plan, &|_| true, from(old, now)).unwrap_err();
    assert_eq!(error.field, "duration", "{error}");
    let moved = |earliest, latest| v1::CoAllocationRequest {
        earliest_start: Some(time_to_wire(at(earliest))),
        latest_start: Some(time_to_wire(at(latest))),
        ..asked(2_000)
    };
    assert!(version(&moved(0, 0), old, &plan, &|_| true, from(old, now)).is_ok());
    let error = version(&moved(1, 1), old, &plan, &|_| true, from(old, now)).unwrap_err();
    assert_eq!(error.field, "earliest_start", "{error}");
    let error = version(&moved(0, 1), old, &plan, &|_| true, from(old, now)).unwrap_err();
    assert_eq!(error.field, "latest_start", "{error}");
}

#[test]
fn what_ends_before_it_could_be_changed_can_still_be_extended_without_a_gap() {
    let (old, plan) = booked(0, 110);
    let new = version(&asked(500), old, &plan, &|_| true, from(old, at(100))).unwrap();
    assert_eq!(new.active, Some((window(0, 500), at(110))));
}
