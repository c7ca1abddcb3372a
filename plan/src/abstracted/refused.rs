//! Refusals of the child's own RMs, translated for the parent: about what the parent ordered, and
//! not about what is inside the child's federation.
//!
//! When one of its RMs refuses to hold, the child takes the plan that it tried and finds the paths
//! known to the parent whose routes use the refused resource. It names the first of them. The
//! available amount is that path's own amount less what is missing inside. Amounts of sites are
//! passed on unchanged, because sites are the same on both levels. A refusal that fits neither case names no
//! resource.
//!
//! Pure, and computed from what is recorded: the same message gets the same answer for ever (I8).

use coalloc_common::topology::FrameView;
use coalloc_common::{Amount, Reason, Refusal, ResourceId, ResourceKind, Segment, Window};

use super::{AbstractTopology, Inner, Short};

/// The route of one link of the plan that was tried, by names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutedLink {
    /// The end point where it begins.
    pub from: String,
    /// The end point where it ends.
    pub to: String,
    /// The paths of the child's federation that the route takes.
    pub paths: Vec<String>,
}

/// Whether the refusal says that there is too little, so that [`super::short`] can find what is
/// short.
#[must_use]
pub fn is_short(why: &Refusal) -> bool {
    matches!(why.reason, Reason::InsufficientCapacity | Reason::NoRoute | Reason::BeyondCapacity)
}

/// The refusal for the parent when there is no plan for what it wants over one window. `why` is the
/// planner's refusal, `found` the demand that is short.
#[must_use]
pub fn unplanned(
    shown: &AbstractTopology,
    inner: &Inner,
    window: Window,
    why: Refusal,
    found: Option<Short>,
) -> Refusal {
    let found = match found {
        Some(Short::Site(at, kind, most)) => {
            let site = &inner.request.sites[at];
            inner.of_sites[at].get(&kind).map(|name| (name, site.amount(kind), most))
        }
        Some(Short::Link(at, most)) => {
            let link = &inner.request.links[at];
            Some((&inner.of_links[at], link.bandwidth.into(), most))
        }
        None => None,
    };
    let Some((name, amount, most)) = found else {
        // The other fields may name what is inside, so only reason and detail are passed on.
        return Refusal::new(why.reason, why.detail);
    };
    let empty = shown.free(&FrameView::empty_federation(shown.topology(), window));
    let capacity = shown.resources().iter().zip(empty);
    let mut capacity = capacity.filter(|(resource, _)| resource.name == *name);
    let beyond = capacity.all(|(_, capacity)| amount > capacity);
    let reason = if beyond { Reason::BeyondCapacity } else { Reason::InsufficientCapacity };
    of_resource(reason, name, window, amount, most, why.detail)
}

/// A refusal about one resource.
#[must_use]
pub fn of_resource(
    reason: Reason,
    resource: &ResourceId,
    window: Window,
    requested: Amount,
    available: Amount,
    detail: String,
) -> Refusal {
    Refusal {
        resource: Some(resource.clone()),
        window: Some(window),
        requested: Some(requested),
        available: Some(available),
        ..Refusal::new(reason, detail)
    }
}

/// Translates a refusal for the parent. `order` has the segments that the parent ordered, and
/// `tried` the routes of the plan that was tried last.
#[must_use]
pub fn outward(name: &str, refusal: &Refusal, order: &[Segment], tried: &[RoutedLink]) -> Refusal {
    let about = matches!(
        refusal.reason,
        Reason::InsufficientCapacity
            | Reason::BeyondCapacity
            | Reason::ServiceLevel
            | Reason::NoRoute
    );
    let found = if about { of_order(refusal, order, tried) } else { None };
    let Some((segment, available)) = found else {
        return Refusal {
            window: order.first().map(|segment| segment.window),
            ..Refusal::new(reason(refusal.reason), words(name, refusal))
        };
    };
    let resource = &segment.resource;
    let detail = match refusal.reason {
        // The detail of a refusal about an ordered resource is passed on; any other may name what
        // is inside.
        Reason::ServiceLevel if refusal.resource.as_ref() == Some(resource) => {
            refusal.detail.clone()
        }
        _ => {
            let shown = |amount| shown(name, resource, amount);
            let (can, asked) = (shown(available), shown(segment.amount));
            format!(
                "{resource}: {can} of the requested {asked} are available in {}",
                segment.window
            )
        }
    };
    Refusal {
        resource: Some(resource.clone()),
        window: Some(refusal.window.unwrap_or(segment.window)),
        requested: Some(segment.amount),
        available: Some(available),
        ..Refusal::new(reason(refusal.reason), detail)
    }
}

/// An amount of a resource that the parent knows, for people. Names of paths begin with the
/// coordinator's name.
fn shown(name: &str, resource: &ResourceId, amount: Amount) -> String {
    let is_path = resource.as_str().strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
    let of_site = || ResourceKind::of_site_resource(resource.as_str()).1;
    let kind = if is_path { ResourceKind::Bandwidth } else { of_site() };
    kind.show(amount)
}

/// For the parent, a missing route is a missing amount.
const fn reason(inside: Reason) -> Reason {
    match inside {
        Reason::NoRoute => Reason::InsufficientCapacity,
        other => other,
    }
}

/// The segment of the order that a refusal is about, and how much of it could be had.
fn of_order<'a>(
    refusal: &Refusal,
    order: &'a [Segment],
    tried: &[RoutedLink],
) -> Option<(&'a Segment, Amount)> {
    let short = refusal.resource.as_ref()?;
    let overlaps =
        |segment: &&Segment| refusal.window.is_none_or(|window| segment.window.overlaps(window));
    let mut segments = order.iter().filter(overlaps);
    if let Some(own) = segments.clone().find(|segment| segment.resource == *short) {
        return Some((own, refusal.available.unwrap_or(Amount::ZERO)));
    }
    // The refused resource lies on the route of a path. Both amounts are in bit/s.
    let missing = refusal.requested?.0.checked_sub(refusal.available?.0)?;
    let path = path_of(short);
    let over = || tried.iter().filter(|led| led.paths.iter().any(|name| name == path));
    let led = segments
        .find(|segment| over().any(|led| joins(path_of(&segment.resource), &led.from, &led.to)))?;
    Some((led, Amount(led.amount.0.saturating_sub(missing))))
}

/// The path that a resource belongs to: the name without its direction.
fn path_of(resource: &ResourceId) -> &str {
    let name = resource.as_str();
    name.strip_suffix(":ab").or_else(|| name.strip_suffix(":ba")).unwrap_or(name)
}

/// Whether this is the name of the path between two points.
fn joins(path: &str, from: &str, to: &str) -> bool {
    let ends = |a: &str, b: &str| path.ends_with(&format!(":{a}--{b}"));
    ends(from, to) || ends(to, from)
}

/// The detail of a refusal that concerns nothing that the parent knows.
#[must_use]
pub fn words(name: &str, refusal: &Refusal) -> String {
    let what = match refusal.reason {
        Reason::Expired => "the hold has expired",
        Reason::Aborted => "it was aborted",
        Reason::Released => "it was released",
        Reason::Replaced => "a newer version has replaced it",
        Reason::DiskFull => "a disk is nearly full: new holds are refused",
        Reason::Quota => "a quota of its coordinator or of the user is used up",
        Reason::Unsupported => "a release in its domain would not carry it out as it is meant",
        Reason::Equipment => "the equipment in its domain refuses, or cannot be reached",
        Reason::NotHeld => "nothing is held, and a later Hold will be refused",
        Reason::OutsideHorizon => return refusal.detail.clone(),
        // An RM's own refusal names what is inside, so only one that names no RM is passed on.
        Reason::UnknownResource if refusal.rm.is_none() => return refusal.detail.clone(),
        Reason::Mixed => "some of it could not be booked; the rest is released",
        Reason::InsufficientCapacity | Reason::BeyondCapacity | Reason::NoRoute => {
            "its domain cannot provide everything that was requested"
        }
        _ => "its domain could not hold it in time",
    };
    format!("{name}: {what}")
}

#[cfg(test)]
mod tests {
    use coalloc_common::{RmName, Time};

    use super::*;

    fn window() -> Window {
        Window::new(Time::from_us(0), Time::from_us(60_000_000)).unwrap()
    }

    fn order(segments: &[(&str, u64)]) -> Vec<Segment> {
        let segment = |(resource, amount): &(&str, u64)| Segment {
            resource: ResourceId::composed(*resource),
            amount: Amount(*amount),
            window: window(),
        };
        segments.iter().map(segment).collect()
    }

    fn inside(resource: &str, requested: u64, available: u64) -> Refusal {
        Refusal {
            rm: Some(RmName::composed("nrm-1")),
            resource: Some(ResourceId::composed(resource)),
            window: Some(window()),
            requested: Some(Amount(requested)),
            available: Some(Amount(available)),
            ..Refusal::new(Reason::InsufficientCapacity, "switch7-X is full")
        }
    }

    fn plan(routes: &[(&str, &str, &[&str])]) -> Vec<RoutedLink> {
        let led = |(from, to, paths): &(&str, &str, &[&str])| RoutedLink {
            from: (*from).to_owned(),
            to: (*to).to_owned(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        routes.iter().map(led).collect()
    }

    fn told(refusal: &Refusal) -> (Option<&str>, Option<u64>, Option<u64>) {
        let resource = refusal.resource.as_ref().map(ResourceId::as_str);
        (resource, refusal.requested.map(|a| a.0), refusal.available.map(|a| a.0))
    }

    #[test]
    fn the_path_is_named_that_was_to_lead_over_what_is_short() {
        let order = order(&[("A", 4), ("B", 4), ("g:A--X", 500), ("g:B--X", 300)]);
        let plan = plan(&[("A", "X", &["A-s", "s-X"]), ("B", "X", &["B-X"])]);
        let of = |resource: &str, requested, available| {
            outward("g", &inside(resource, requested, available), &order, &plan)
        };
        assert_eq!(told(&of("B-X", 300, 200)), (Some("g:B--X"), Some(300), Some(200)));
        assert_eq!(told(&of("s-X", 500, 420)), (Some("g:A--X"), Some(500), Some(420)));
        // Other routes of this transaction add to the amount requested inside, so only the missing
        // amount counts.
        assert_eq!(told(&of("s-X", 800, 700)), (Some("g:A--X"), Some(500), Some(400)));
        assert_eq!(told(&of("s-X", 9_000, 0)), (Some("g:A--X"), Some(500), Some(0)));
        assert_eq!(told(&of("A", 4, 3)), (Some("A"), Some(4), Some(3)), "CPUs as they are");
        let text = of("A", 4, 3).detail;
        assert!(text.starts_with("A: 3 CPUs of the requested 4 CPUs are available in "), "{text}");
        let text = of("B-X", 300_000_000, 299_999_800).detail;
        assert!(
            text.starts_with("g:B--X: 100 bit/s of the requested 300 bit/s are available in "),
            "{text}"
        );
        // The RMs' own sentences name what is inside, for whatever reason they refuse.
        let of_reason = |reason, resource: &str| {
            let detail = "50 % of what is free: 100 of 250 of s-X";
            let refusal = Refusal { reason, detail: detail.into(), ..inside(resource, 500, 420) };
            outward("g", &refusal, &order, &plan)
        };
        let all = [
            of("B-X", 300, 200),
            of("s-X", 500, 420),
            of("elsewhere", 7, 0),
            of_reason(Reason::ServiceLevel, "s-X"),
            of_reason(Reason::UnknownResource, "elsewhere"),
        ];
        for refusal in all {
            assert!(!refusal.to_string().contains("s-X") && refusal.rm.is_none(), "{refusal:?}");
        }
    }

    #[test]
    fn directions_and_the_order_of_the_ends_do_not_matter() {
        let order = order(&[("g:A--X:ba", 500)]);
        let plan = plan(&[("X", "A", &["A-X"])]);
        let refusal = outward("g", &inside("A-X:ba", 500, 100), &order, &plan);
        assert_eq!(told(&refusal), (Some("g:A--X:ba"), Some(500), Some(100)));
    }

    #[test]
    fn what_is_of_nothing_asked_for_names_nothing() {
        let order = order(&[("A", 4), ("g:A--X", 500)]);
        let plan = plan(&[("A", "X", &["A-X"])]);
        let unknown = outward("g", &inside("y-z", 1, 0), &order, &plan);
        assert_eq!(told(&unknown), (None, None, None));
        assert_eq!(unknown.reason, Reason::InsufficientCapacity);
        assert_eq!(told(&outward("g", &inside("A-X", 5, 1), &order, &[])), (None, None, None));
        let late = Refusal { reason: Reason::TimedOut, ..inside("A-X", 5, 1) };
        let late = outward("g", &late, &order, &plan);
        assert_eq!((told(&late), late.reason), ((None, None, None), Reason::TimedOut));
        assert_eq!(late.detail, "g: its domain could not hold it in time");
        let nowhere = Refusal::new(Reason::NoRoute, "s7-X binds");
        assert_eq!(outward("g", &nowhere, &order, &[]).reason, Reason::InsufficientCapacity);
    }
}
