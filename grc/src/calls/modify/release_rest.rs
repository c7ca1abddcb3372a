//! What ReleaseRest does: a reservation that has begun ends as soon as it can be changed ([`cut`]), and what it has
//! booked after that is free.
//!
//! It is a change of the reservation ([`ChangeTicket`]): the new version has the segments of the old one until then. So
//! all resource managers shorten it or none does, and the past stays booked and counted. Nothing is planned, because
//! a booking that becomes shorter always fits.

use std::collections::BTreeMap;

use coalloc_common::{InvalidField, RequestId, ReservationId, RmName, Segment, Span, Time, Window};
use coalloc_net::convert::{
    span_from_wire, span_to_wire, user_name, window_from_wire, window_to_wire,
};
use coalloc_net::status;
use coalloc_proto::{Duration, v1};
use coalloc_protocol::conversation::{PlanJob, Planned};
use coalloc_protocol::coordinator::{Candidate, ChangeTicket};
use tonic::Status;

use super::rest::as_whole;
use super::{CurrentBooking, booked, cut};
use crate::admission;
use crate::calls::service::GrcService;
use crate::node::conversation::{JobPlanner, converse};
use crate::views::{kept, view};

impl GrcService {
    /// Handles one ReleaseRest call.
    pub(crate) async fn release_rest_whole(
        &self,
        wire: v1::ReleaseRestRequest,
    ) -> Result<v1::Reservation, Status> {
        let standing = self.standing(&wire.id).await?;
        if !wire.user.is_empty() {
            let user = user_name("user", &wire.user).map_err(|error| status::invalid(&error))?;
            if user != *standing.user() {
                let text = format!("{} is not a reservation of user {user}", wire.id);
                return Err(status::denied(text));
            }
        }
        let change = RequestId::parse("change_id", &wire.change_id);
        let change = change.map_err(|error: InvalidField| status::invalid(&error))?;
        let id = standing.id().clone();
        // The reservation may be named by either of its ids; the digest of the change must be the same.
        let same = v1::ReleaseRestRequest { id: id.to_string(), user: String::new(), ..wire };
        let content = admission::digest(&same);
        let ticket = ChangeTicket { reservation: id.clone(), change: change.clone(), content };
        let mut planner = RestPlanner { service: self, id: &id };
        let end = converse(self.conversation(), ticket, &mut planner).await?;
        let known = self.change_end(end, &id, &change)?;
        Ok(self.shown(&known))
    }
}

/// Makes the new version.
struct RestPlanner<'a> {
    service: &'a GrcService,
    id: &'a ReservationId,
}

impl JobPlanner for RestPlanner<'_> {
    async fn plan(&mut self, _: &PlanJob) -> Result<Planned, Status> {
        let standing = self.service.standing(self.id.as_str()).await?;
        let (old, plan) = booked(&standing)?;
        let now = self.service.handle.now().wall;
        let cut = cut(old, now);
        check_has_rest(&standing, old, (now, cut))?;
        let window = Window::new(old.start(), cut);
        let segments = until(&standing.segments, cut);
        let Some(window) = window.filter(|_| !segments.is_empty()) else {
            let id = self.id.as_str();
            let text = format!("no part of {id} has begun: release all of it; nothing was done");
            return Err(status::precondition("not_begun", id, text));
        };
        let mut plan = plan_until(plan, window);
        let topology = &self.service.federation.snapshot().topology;
        as_whole(&mut plan, window, &segments, topology);
        let request = standing.request.as_ref();
        let request = request.map(|request| request_for(request, window.length()));
        let notes = view::notes(&[], request.as_ref(), Some(&standing.options));
        let candidate = Candidate {
            segments,
            details: kept::co_allocation(&plan).into(),
            manual_provision: standing.manual_provision,
            ..Candidate::default()
        };
        Ok(Planned { outcome: Ok(vec![candidate]), replans: None, notes })
    }
}

/// Checks that a reservation has begun, and has something after `cut`.
fn check_has_rest(
    standing: &CurrentBooking,
    old: Window,
    (now, cut): (Time, Time),
) -> Result<(), Status> {
    let id = standing.id().as_str();
    let (kind, text) = if old.end() <= now {
        ("passed_end_time", format!("{id} is over since {}; nothing was done", old.end()))
    } else if old.start() > now {
        let begins = old.start();
        ("not_begun", format!("{id} begins at {begins}: release all of it; nothing was done"))
    } else if old.end() <= cut {
        let ends = old.end();
        ("ends_soon", format!("{id} ends at {ends}, and no change is faster; nothing was done"))
    } else {
        return Ok(());
    };
    Err(status::precondition(kind, id, text))
}

/// What is booked before `cut`.
fn until(booked: &BTreeMap<RmName, Vec<Segment>>, cut: Time) -> BTreeMap<RmName, Vec<Segment>> {
    let shorter = |segment: &Segment| {
        let window = Window::new(segment.window.start(), segment.window.end().min(cut))?;
        Some(Segment { window, ..segment.clone() })
    };
    let of_rm = booked.iter().map(|(rm, segments)| {
        (rm.clone(), segments.iter().filter_map(shorter).collect::<Vec<Segment>>())
    });
    of_rm.filter(|(_, segments)| !segments.is_empty()).collect()
}

/// The plan of a reservation whose window becomes shorter. Parts that would begin later are left out.
fn plan_until(plan: &v1::Plan, whole: Window) -> v1::Plan {
    let mut plan = plan.clone();
    let length = whole.length();
    for placement in &mut plan.placements {
        let is_begun = is_left(&mut placement.window, whole);
        if !is_begun {
            (placement.cpus, placement.window) = (0, None);
        }
        // A kind without a window of its own has that of the site.
        placement.others.retain_mut(|other| match (&other.offset, &other.length) {
            (None, None) => is_begun,
            _ => is_wanted(&mut other.offset, &mut other.length, length),
        });
    }
    plan.placements.retain(|placement| placement.cpus > 0 || !placement.others.is_empty());
    plan.routes.retain_mut(|route| is_left(&mut route.window, whole));
    plan
}

/// Cuts the window of a part to that of the whole. Is anything left of it?
fn is_left(part: &mut Option<v1::Window>, whole: Window) -> bool {
    let Some(own) = part else { return true };
    let Ok(window) = window_from_wire("window", Some(own)) else { return true };
    match Window::new(window.start(), window.end().min(whole.end())) {
        Some(left) => {
            *own = window_to_wire(left);
            true
        }
        None => false,
    }
}

/// The request of a reservation that becomes this short. Parts that would begin later are left out.
fn request_for(request: &v1::CoAllocationRequest, length: Span) -> v1::CoAllocationRequest {
    let mut request = request.clone();
    request.duration = Some(span_to_wire(length));
    for site in &mut request.sites {
        // A kind without a window of its own is wanted when the site is.
        site.others.retain_mut(|other| match (&other.offset, &other.length) {
            (None, None) => is_wanted(&mut site.offset.clone(), &mut None, length),
            _ => is_wanted(&mut other.offset, &mut other.length, length),
        });
        if !is_wanted(&mut site.offset, &mut site.length, length) {
            (site.cpus, site.offset, site.length) = (0, None, None);
        }
    }
    request.sites.retain(|site| site.cpus > 0 || !site.others.is_empty());
    let links = &mut request.links;
    links.retain_mut(|link| is_wanted(&mut link.offset, &mut link.length, length));
    let sites = &request.sites;
    let is_there = |name: &str| sites.iter().any(|site| site.name == name);
    request.links.retain(|link| is_there(&link.from) && is_there(&link.to));
    request
}

/// Cuts the length of a part so that it ends with the whole. Is anything left of it?
fn is_wanted(offset: &mut Option<Duration>, length: &mut Option<Duration>, whole: Span) -> bool {
    let span = |wire: &Option<Duration>| span_from_wire("part", wire.as_ref()?).ok();
    let left = whole.saturating_sub(span(offset).unwrap_or(Span::ZERO));
    if left <= Span::ZERO {
        return false;
    }
    if span(length).is_some_and(|length| length > left) {
        *length = Some(span_to_wire(left));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use coalloc_common::{Amount, ResourceId};

    fn at(s: i64) -> Time {
        Time::from_us(s * 1_000_000)
    }

    fn window(start: i64, end: i64) -> Window {
        Window::new(at(start), at(end)).unwrap()
    }

    fn seconds(s: i64) -> Option<Duration> {
        Some(span_to_wire(Span::from_secs(s)))
    }

    #[test]
    fn what_is_booked_ends_at_the_cut_and_later_segments_are_free() {
        let segment = |resource: &str, start, end| Segment {
            resource: ResourceId::composed(resource),
            amount: Amount(4),
            window: window(start, end),
        };
        let rm = RmName::composed;
        let all = BTreeMap::from([
            (rm("a"), vec![segment("N0", 0, 50), segment("N0", 50, 200)]),
            (rm("b"), vec![segment("N1", 100, 200)]),
        ]);
        let left = until(&all, at(100));
        let expected = vec![segment("N0", 0, 50), segment("N0", 50, 100)];
        assert_eq!(left, BTreeMap::from([(rm("a"), expected)]));
    }

    #[test]
    fn parts_are_cut_with_the_whole_and_parts_that_have_not_begun_are_left_out() {
        let site = |name: &str, offset, length| v1::SiteRequest {
            name: name.to_owned(),
            cpus: 4,
            offset,
            length,
            ..v1::SiteRequest::default()
        };
        let link = |offset| v1::LinkRequest {
            from: "a".to_owned(),
            to: "b".to_owned(),
            offset,
            ..v1::LinkRequest::default()
        };
        let request = v1::CoAllocationRequest {
            sites: vec![
                site("a", None, None),
                site("b", seconds(10), seconds(60)),
                site("c", seconds(30), seconds(70)),
                site("d", seconds(100), None),
            ],
            links: vec![link(seconds(20)), link(seconds(120))],
            duration: seconds(200),
            ..v1::CoAllocationRequest::default()
        };
        let short = request_for(&request, Span::from_secs(80));
        assert_eq!(short.duration, seconds(80));
        let lengths: Vec<_> = short.sites.iter().map(|site| site.length).collect();
        assert_eq!(lengths, [None, seconds(60), seconds(50)]);
        assert_eq!(short.links, [link(seconds(20))]);

        let own = |start, end| Some(window_to_wire(window(start, end)));
        let placement = |window, offset| v1::Placement {
            cpus: 4,
            window,
            others: vec![v1::KindAmount { offset, ..v1::KindAmount::default() }],
            ..v1::Placement::default()
        };
        let route = |window| v1::Route { window, ..v1::Route::default() };
        let plan = v1::Plan {
            placements: vec![
                placement(None, None),
                placement(own(30, 100), seconds(90)),
                placement(own(100, 200), seconds(90)),
                placement(own(100, 200), None),
            ],
            routes: vec![route(own(10, 50)), route(own(90, 100))],
            ..v1::Plan::default()
        };
        let short = plan_until(&plan, window(0, 80));
        let cut = v1::Placement { others: Vec::new(), ..placement(own(30, 80), None) };
        assert_eq!(short.placements, [placement(None, None), cut]);
        assert_eq!(short.routes, [route(own(10, 50))]);
    }
}
