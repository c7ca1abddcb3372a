//! Checks whether a statement about what binds is true, by computing it again from the view.

use std::collections::BTreeSet;

use coalloc_common::topology::FrameView;
use coalloc_common::{Bottleneck, BottleneckKind, CoAllocation, ResourceKind, Topology};

use super::links::{Chains, FAR};
use super::{Case, Lane, cuts, may_land, sites};
use crate::ip::IpOptions;

/// Checks that a bottleneck is a proof: its amounts are those of the view, they fall short, and the
/// demands cannot avoid it.
///
/// # Errors
/// A sentence about the first thing that is wrong.
pub fn check(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    options: &IpOptions,
    stated: &Bottleneck,
) -> Result<(), String> {
    let whole = Case::new(topology, request, view, options);
    for window in request.part_windows() {
        let (part, then) = (request.throughout(window), view.during(Some(window)));
        let alone = || Case::new(topology, &part, then, options);
        let holds = |case| check_in(case, stated).is_ok();
        if holds(alone()) || holds(Case { candidates: whole.candidates.clone(), ..alone() }) {
            return Ok(());
        }
    }
    check_in(whole, stated)
}

fn check_in(case: Case<'_>, stated: &Bottleneck) -> Result<(), String> {
    if stated.requested <= stated.available {
        return Err(format!("{} of {} is enough", stated.requested, stated.available));
    }
    match stated.kind {
        BottleneckKind::Site | BottleneckKind::Sites => of_sites(&case, stated),
        BottleneckKind::Length | BottleneckKind::Latency => of_chain(&case, stated),
        BottleneckKind::Combination => Err("a combination is not a proof".to_owned()),
        BottleneckKind::Path
        | BottleneckKind::Paths
        | BottleneckKind::Cut
        | BottleneckKind::Packing => of_lanes(case, stated),
    }
}

fn ensure(is_so: bool, otherwise: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn of_sites(case: &Case<'_>, stated: &Bottleneck) -> Result<(), String> {
    let named = |site: &usize| {
        stated.demands.iter().any(|name| *name == case.request.sites[*site].name.as_str())
    };
    let demands: BTreeSet<usize> = (0..case.request.sites.len()).filter(named).collect();
    ensure(demands.len() == stated.demands.len(), "a demand is not a site of the request")?;
    for name in &stated.resources {
        let mut places = case.topology.sites();
        let found = places.find(|(_, place, _)| place.name.as_str() == name);
        let (at, place, _) = found.ok_or_else(|| format!("there is no site {name}"))?;
        for site in demands.iter().map(|site| &case.request.sites[*site]) {
            let fits = case.view.fits(site, at);
            ensure(!fits || !may_land(site, &place.name), "a resource is large enough")?;
        }
        if stated.kind == BottleneckKind::Site {
            let kind = stated.resource_kind.unwrap_or(ResourceKind::Cpus);
            let wants = demands.first().map(|site| &case.request.sites[*site]);
            let window = wants.and_then(|site| site.window(kind));
            let free = case.view.during(window).free_at(kind, at).0;
            ensure(free == stated.available, "the amount that the site has free differs")?;
            let pinned = |site: &usize| {
                let site = &case.request.sites[*site];
                site.pinned.as_ref() == Some(&place.name) && site.amount(kind).0 == stated.requested
            };
            return ensure(
                demands.iter().all(pinned),
                "the demand is not pinned there, or differs",
            );
        }
    }
    let enough = sites::neighbours(case, &demands).len() as u64;
    ensure(enough == stated.available, "the number of sites that are large enough differs")?;
    ensure(demands.len() as u64 == stated.requested, "the number of demands differs")
}

fn of_chain(case: &Case<'_>, stated: &Bottleneck) -> Result<(), String> {
    let [link] = links(case, stated)?[..] else {
        return Err("exactly one link must be named".to_owned());
    };
    let none = BTreeSet::new();
    let with = |edges| {
        let chains = Chains { case, blocked: &none, edges };
        chains.fastest(link).map(|us| (us, us < FAR)).ok_or("too much work")
    };
    if stated.kind == BottleneckKind::Length {
        ensure(
            stated.available == case.route_edges as u64,
            "the number of paths that is allowed differs",
        )?;
        ensure(!with(case.route_edges)?.1, "a chain is short enough")?;
        ensure(with(stated.requested as usize)?.1, "the shortest chain is longer")?;
        return ensure(!with(stated.requested as usize - 1)?.1, "the shortest chain is shorter");
    }
    let allowed =
        case.request.links[link].latency_max.map_or(u64::MAX, |m| m.as_us().unsigned_abs());
    ensure(allowed == stated.available, "the latency that is allowed differs")?;
    let (fastest, any) = with(case.route_edges)?;
    ensure(
        any && fastest.unsigned_abs() == stated.requested,
        "the latency of the fastest chain differs",
    )
}

fn of_lanes(mut case: Case<'_>, stated: &Bottleneck) -> Result<(), String> {
    let links = links(&case, stated)?;
    let lanes: Vec<Lane> =
        case.lanes().filter(|lane| stated.resources.contains(&case.lane_name(*lane))).collect();
    ensure(lanes.len() == stated.resources.len(), "a resource is not a path")?;
    let widest = lanes.iter().map(|lane| case.free(*lane)).max().unwrap_or(0);
    let expected = match stated.kind {
        BottleneckKind::Paths => (cuts::by_sum(&case, &links, &[]).0, widest),
        BottleneckKind::Packing => cuts::by_count(&case, &links, &lanes),
        _ => cuts::by_sum(&case, &links, &lanes),
    };
    ensure(expected == (stated.requested, stated.available), "the amounts differ from the view's")?;
    ensure(
        stated.kind != BottleneckKind::Paths || links.len() == 1,
        "exactly one link must be named",
    )?;
    ensure(
        stated.kind != BottleneckKind::Path || lanes.len() == 1,
        "exactly one path must be named",
    )?;
    if parts(&case, &links, &lanes)? {
        return Ok(());
    }
    // Not every placement of the links needs these lanes. Then the statement is about one place of
    // the site that the links have in common, and every other place has to fall short in its own
    // way.
    let ends = |link: &usize| {
        let link = case.request.links[*link];
        [link.from, link.to]
    };
    let common = links.first().map(ends).unwrap_or_default().into_iter();
    let common: Vec<usize> =
        common.filter(|site| links.iter().all(|link| ends(link).contains(site))).collect();
    for site in common {
        let places = case.candidates[site].clone();
        let mut here = false;
        let mut everywhere = true;
        for place in &places {
            case.candidates[site] = vec![*place];
            here |= parts(&case, &links, &lanes)?;
            everywhere &= cuts::of_site(&case, site).is_some();
        }
        case.candidates[site] = places;
        if here && everywhere {
            return Ok(());
        }
    }
    Err("the links get around these paths".to_owned())
}

/// Whether each of the links needs one of the lanes.
fn parts(case: &Case<'_>, links: &[usize], lanes: &[Lane]) -> Result<bool, String> {
    let blocked = lanes.iter().copied().collect();
    let chains = Chains { case, blocked: &blocked, edges: case.route_edges };
    for link in links {
        if chains.reach(*link).ok_or("too much work")? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The indices of the links that a statement names.
fn links(case: &Case<'_>, stated: &Bottleneck) -> Result<Vec<usize>, String> {
    let named = |link: &usize| stated.demands.contains(&case.link_name(*link));
    let links: Vec<usize> = (0..case.request.links.len()).filter(named).collect();
    ensure(
        links.len() == stated.demands.len() && !links.is_empty(),
        "a demand is not a link of the request",
    )?;
    Ok(links)
}
