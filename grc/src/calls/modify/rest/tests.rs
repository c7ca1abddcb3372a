//! Tests of the rest of a reservation that has begun.

use coalloc_common::ResourceId;
use coalloc_net::convert::{span_to_wire, time_to_wire};

use super::*;

fn at(s: i64) -> Time {
    Time::from_us((1_000_000 + s) * 1_000_000)
}

fn window(start: i64, end: i64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

#[test]
fn the_past_is_kept_the_rest_is_new_and_equal_neighbours_are_one() {
    let rm = RmName::composed("crm");
    let segment = |resource: &str, amount, start, end| Segment {
        resource: ResourceId::composed(resource),
        amount: Amount(amount),
        window: window(start, end),
    };
    let of = |segments: Vec<Segment>| BTreeMap::from([(rm.clone(), segments)]);
    let old = of(vec![segment("A", 4, 0, 100), segment("B", 4, 0, 100)]);
    let new = of(vec![segment("B", 8, 50, 200), segment("A", 4, 50, 200)]);
    let whole = of(vec![segment("A", 4, 0, 200), segment("B", 4, 0, 50), segment("B", 8, 50, 200)]);
    assert_eq!(joined(&old, at(50), new, &UnusableParts::new()), whole);
    let dropped = joined(&old, at(50), BTreeMap::new(), &UnusableParts::new());
    assert_eq!(dropped, of(vec![segment("A", 4, 0, 50), segment("B", 4, 0, 50)]));
}

fn secs(s: i64) -> Option<coalloc_proto::Duration> {
    Some(span_to_wire(Span::from_secs(s)))
}

/// A stage-in from 0 to 100, a run from 100 to 300, storage all the time until 1,000.
fn stage_in() -> v1::CoAllocationRequest {
    let site = |name: &str, offset, length| v1::SiteRequest {
        name: name.to_owned(),
        cpus: 4,
        offset: secs(offset),
        length: secs(length),
        ..v1::SiteRequest::default()
    };
    let mut run = site("run", 100, 200);
    run.others = vec![v1::KindAmount {
        kind: "storage".to_owned(),
        amount: 500,
        offset: secs(0),
        length: None,
    }];
    let link = v1::LinkRequest {
        from: "data".to_owned(),
        to: "run".to_owned(),
        bandwidth_bps: 1_000_000,
        length: secs(100),
        ..v1::LinkRequest::default()
    };
    v1::CoAllocationRequest {
        sites: vec![site("data", 0, 100), run],
        links: vec![link],
        earliest_start: Some(time_to_wire(at(0))),
        duration: secs(1_000),
        ..v1::CoAllocationRequest::default()
    }
}

fn booked() -> v1::Plan {
    let placement = |site: &str, at: &str| v1::Placement {
        site: site.to_owned(),
        at: at.to_owned(),
        ..v1::Placement::default()
    };
    v1::Plan {
        placements: vec![placement("data", "A"), placement("run", "B")],
        ..v1::Plan::default()
    }
}

/// The rest of a new version of [`stage_in`] that is changed at this second.
fn rest(new: &v1::CoAllocationRequest, cut: i64) -> Result<CoAllocation, InvalidField> {
    let whole = request_from_wire(new, at(0)).unwrap();
    let all = Window::starting(at(0), whole.timing.duration).unwrap();
    Rest::of(whole, new, Some(&stage_in()), &booked(), all, at(cut)).map(|rest| rest.request)
}

fn changed(change: impl FnOnce(&mut v1::CoAllocationRequest)) -> v1::CoAllocationRequest {
    let mut new = stage_in();
    change(&mut new);
    new
}

#[test]
fn of_each_part_the_rest_is_planned_anew() {
    let part = |offset, length, duration| {
        let span = Span::from_secs;
        PartWindow::new(span(offset), span(length), span(duration))
    };
    let early = rest(&stage_in(), 40).unwrap();
    assert_eq!(early.links[0].window, part(0, 60, 960));
    assert_eq!(early.sites[0].window(ResourceKind::Cpus), part(0, 60, 960));
    assert_eq!(early.sites[1].window(ResourceKind::Cpus), part(60, 200, 960));
    assert_eq!(early.sites[1].window(ResourceKind::Storage), None);
    let middle = rest(&stage_in(), 200).unwrap();
    assert_eq!((middle.links.len(), middle.sites[0].wants_nothing()), (0, true));
    assert_eq!(middle.sites[0].pinned, Some(VertexName::composed("A")), "where it was");
    assert_eq!(middle.sites[1].window(ResourceKind::Cpus), part(0, 100, 800));
    let late = rest(&stage_in(), 500).unwrap();
    assert_eq!((late.sites[1].cpus, late.sites[1].pinned.as_ref()), (Cpus(0), None));
    assert_eq!(late.sites[1].amount(ResourceKind::Storage), Amount(500));
    assert!(!late.has_part_windows());
}

#[test]
fn what_has_happened_is_not_changed() {
    type Change = fn(&mut v1::CoAllocationRequest);
    let refused: [(i64, &str, &str, Change); 8] = [
        (40, "links[0].offset", "0 s, when it began, or 40 s and more", |r| {
            r.links[0].offset = secs(10);
        }),
        (40, "links[0].length", "more than 40 s", |r| r.links[0].length = secs(30)),
        (200, "links[0].length", "1 min 40 s: it is over", |r| r.links[0].length = secs(90)),
        (200, "links[0].bandwidth_bps", "it is over", |r| r.links[0].bandwidth_bps = 7_000_000),
        (200, "sites[0].cpus", "it is over", |r| r.sites[0].cpus = 5),
        (200, "sites[1].offset", "1 min 40 s, when it began", |r| {
            r.sites[1].offset = secs(150);
        }),
        (200, "sites[1].others[0].offset", "0 s, when it began", |r| {
            r.sites[1].others[0].offset = secs(50);
        }),
        (200, "sites[2].offset", "3 min 20 s and more", |r| {
            let new = v1::SiteRequest { name: "new".to_owned(), ..r.sites[0].clone() };
            r.sites.push(new);
        }),
    ];
    for (cut, field, allowed, change) in refused {
        let error = rest(&changed(change), cut).unwrap_err();
        assert_eq!(error.field, field, "{error}");
        assert!(error.allowed.contains(allowed), "{error}");
    }
    let done: [(i64, Change); 6] = [
        (40, |r| r.links[0].length = secs(300)),
        (40, |r| r.links[0].bandwidth_bps = 7_000_000),
        (40, |r| r.links[0].offset = secs(500)),
        (200, |r| r.sites[1].cpus = 64),
        (200, |r| r.links.clear()),
        (200, |r| r.duration = secs(5_000)),
    ];
    for (cut, change) in done {
        let new = changed(change);
        assert!(rest(&new, cut).is_ok(), "{new:?}");
    }
}
