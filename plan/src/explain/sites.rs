//! Statements about sites: one is too small, or too few are large enough, of CPUs or of a further
//! kind.

use std::collections::BTreeSet;

use coalloc_common::{
    Amount, Bottleneck, BottleneckKind, ResourceKind, SiteDemand, VertexIndex, VertexName,
};

use super::{Case, may_land};

/// At most this many names are listed in one statement; the largest sites come first.
const NAMES_MAX: usize = 64;

pub(super) fn bottleneck(case: &Case<'_>) -> Option<Bottleneck> {
    pinned(case).or_else(|| hall(case))
}

/// A site to which a demand is pinned has too little free of a kind.
fn pinned(case: &Case<'_>) -> Option<Bottleneck> {
    case.request.sites.iter().find_map(|site| {
        let pin = site.pinned.as_ref()?;
        let short = case.view.short_of(site, case.topology.find_vertex(pin)?)?;
        Some(Bottleneck {
            kind: BottleneckKind::Site,
            demands: vec![site.name.to_string()],
            resources: vec![pin.to_string()],
            requested: short.wanted.0,
            available: short.free.0,
            resource_kind: Some(short.kind).filter(|kind| *kind != ResourceKind::Cpus),
        })
    })
}

/// A least set of requested sites that has fewer vertices than members.
fn hall(case: &Case<'_>) -> Option<Bottleneck> {
    let mut violators = unmatched(case)?;
    for site in violators.clone() {
        let rest: BTreeSet<usize> = violators.iter().copied().filter(|one| *one != site).collect();
        if neighbours(case, &rest).len() < rest.len() {
            violators = rest;
        }
    }
    let enough = neighbours(case, &violators);
    let resource_kind = scarce(case, &violators);
    let counted = resource_kind.unwrap_or(ResourceKind::Cpus);
    let mut small: Vec<(Amount, String)> = case
        .topology
        .sites()
        .filter(|(at, place, _)| {
            let mut demands = violators.iter().map(|site| &case.request.sites[*site]);
            !enough.contains(at) && demands.any(|site| may_land(site, &place.name))
        })
        .map(|(at, place, _)| (case.view.free_at(counted, at), place.name.to_string()))
        .collect();
    small.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    Some(Bottleneck {
        kind: BottleneckKind::Sites,
        demands: violators.iter().map(|s| case.request.sites[*s].name.to_string()).collect(),
        resources: small.into_iter().take(NAMES_MAX).map(|(_, name)| name).collect(),
        requested: violators.len() as u64,
        available: enough.len() as u64,
        resource_kind,
    })
}

/// The first further kind of which alone fewer sites have enough than these requested sites need.
/// `None` when CPUs alone are too few, or only several kinds together.
fn scarce(case: &Case<'_>, violators: &BTreeSet<usize>) -> Option<ResourceKind> {
    let binds = |kind: ResourceKind| {
        let open = |site: &SiteDemand, at: VertexIndex, place: &VertexName| {
            let view = case.view.during(site.window(kind));
            may_land(site, place) && view.free_at(kind, at) >= site.amount(kind)
        };
        let places = case.topology.sites();
        let enough = places.filter(|(at, place, _)| {
            let mut sites = violators.iter().map(|site| &case.request.sites[*site]);
            sites.any(|site| open(site, *at, &place.name))
        });
        enough.count() < violators.len()
    };
    let wants = |kind: &ResourceKind| {
        let mut sites = violators.iter().map(|site| &case.request.sites[*site]);
        sites.any(|site| site.others.contains_key(kind))
    };
    let mut others = ResourceKind::others().filter(wants).peekable();
    others.peek()?;
    if binds(ResourceKind::Cpus) { None } else { others.find(|kind| binds(*kind)) }
}

/// The vertices where at least one of these sites could be placed.
pub(super) fn neighbours(case: &Case<'_>, sites: &BTreeSet<usize>) -> BTreeSet<VertexIndex> {
    sites.iter().flat_map(|site| case.candidates[*site].iter().copied()).collect()
}

/// The requested sites that an alternating walk reaches from one that a maximum matching leaves
/// out.
fn unmatched(case: &Case<'_>) -> Option<BTreeSet<usize>> {
    let sites = case.request.sites.len();
    let mut holder = vec![usize::MAX; case.topology.vertices().len()];
    for site in 0..sites {
        let mut seen = BTreeSet::from([site]);
        if !augment(case, site, &mut holder, &mut seen) {
            return Some(seen);
        }
    }
    None
}

/// Finds a vertex for a site. `seen` collects the sites that would have to move for it.
fn augment(case: &Case<'_>, site: usize, holder: &mut [usize], seen: &mut BTreeSet<usize>) -> bool {
    for vertex in &case.candidates[site] {
        let held = holder[vertex.at()];
        if held == usize::MAX || (seen.insert(held) && augment(case, held, holder, seen)) {
            holder[vertex.at()] = site;
            return true;
        }
    }
    false
}
