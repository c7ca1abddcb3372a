//! Statements about sites: one is too small, or too few are large enough.

use std::collections::BTreeSet;

use coalloc_common::{Bottleneck, BottleneckKind, VertexIndex};

use super::{Case, may_land};

/// At most this many names are listed in one statement; the largest sites come first.
const NAMES_MAX: usize = 64;

pub(super) fn bottleneck(case: &Case<'_>) -> Option<Bottleneck> {
    pinned(case).or_else(|| hall(case))
}

/// A site to which a demand is pinned has too few CPUs free.
fn pinned(case: &Case<'_>) -> Option<Bottleneck> {
    case.request.sites.iter().find_map(|site| {
        let pin = site.pinned.as_ref()?;
        let free = case.view.free_cpus[case.topology.find_vertex(pin)?.at()];
        (free < site.cpus).then(|| Bottleneck {
            kind: BottleneckKind::Site,
            demands: vec![site.name.to_string()],
            resources: vec![pin.to_string()],
            requested: site.cpus.0,
            available: free.0,
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
    let mut small: Vec<(u64, String)> = case
        .topology
        .sites()
        .filter(|(at, place, _)| {
            let mut demands = violators.iter().map(|site| &case.request.sites[*site]);
            !enough.contains(at) && demands.any(|site| may_land(site, &place.name))
        })
        .map(|(at, place, _)| (case.view.free_cpus[at.at()].0, place.name.to_string()))
        .collect();
    small.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    Some(Bottleneck {
        kind: BottleneckKind::Sites,
        demands: violators.iter().map(|s| case.request.sites[*s].name.to_string()).collect(),
        resources: small.into_iter().take(NAMES_MAX).map(|(_, name)| name).collect(),
        requested: violators.len() as u64,
        available: enough.len() as u64,
    })
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
