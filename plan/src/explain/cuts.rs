//! Several links together that have to cross a cut with too little free, found by a maximum flow.
//!
//! The flow is a relaxation: links may be split, and one vertex may serve several requested sites.
//! What does not fit the relaxation does not fit at all. Counting in units of one rate takes into
//! account that links are not split.

use std::collections::BTreeSet;

use coalloc_common::topology::Direction;
use coalloc_common::{Bottleneck, BottleneckKind, VertexIndex, limits};

use super::flow::Network;
use super::{Case, Lane};

/// More than all rates of a request together.
const ENDLESS: u64 = u64::MAX / 4;

/// Which of the crossing links count, and which direction of a full-duplex path they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutDirection {
    Both,
    Out,
    In,
}

/// Links that have to leave a set of vertices, each to one of its places outside.
#[derive(Debug, Clone)]
struct Crossing {
    sources: BTreeSet<VertexIndex>,
    /// For each link: its index, whether it leaves (or else enters), and its places outside.
    links: Vec<(usize, bool, Vec<VertexIndex>)>,
}

/// Links that all have to cross these lanes.
#[derive(Debug, Clone)]
struct LinkCut {
    links: Vec<usize>,
    lanes: Vec<Lane>,
    /// The rate that whole links are counted in; `None` when rates are summed.
    unit: Option<u64>,
}

/// The limit of work has been reached.
struct WorkExhausted;

pub(super) fn bottleneck(case: &Case<'_>) -> Option<Bottleneck> {
    let sites = 0..case.request.sites.len();
    for site in sites {
        if let found @ Some(_) = of_site(case, site) {
            return found;
        }
    }
    let groups = groups(case);
    groups.iter().find_map(|group| of_crossing(case, &between(case, group)).ok().flatten())
}

/// What binds for the links of one site, wherever the site is placed: the statement about the place
/// that falls short least. `None` unless every place falls short.
pub(super) fn of_site(case: &Case<'_>, site: usize) -> Option<Bottleneck> {
    let mut best: Option<Bottleneck> = None;
    for place in &case.candidates[site] {
        let found = of_crossing(case, &around(case, site, *place)).ok()??;
        let short = |found: &Bottleneck| found.requested - found.available;
        if best.as_ref().is_none_or(|best| short(&found) < short(best)) {
            best = Some(found);
        }
    }
    best
}

/// The links of a site that is placed on this vertex.
fn around(case: &Case<'_>, site: usize, place: VertexIndex) -> Crossing {
    let links = (0..).zip(&case.request.links).filter_map(|(number, link)| {
        let leaves = link.from == site;
        let other = if leaves { link.to } else { link.from };
        let places = case.candidates[other].iter().copied().filter(|at| *at != place);
        (leaves || link.to == site).then(|| (number, leaves, places.collect()))
    });
    Crossing { sources: BTreeSet::from([place]), links: links.collect() }
}

/// The links between a group of sites and those sites that cannot be placed on any vertex of the
/// group.
fn between(case: &Case<'_>, group: &BTreeSet<usize>) -> Crossing {
    let sources: BTreeSet<VertexIndex> =
        group.iter().flat_map(|site| case.candidates[*site].iter().copied()).collect();
    let apart = |site: usize| !case.candidates[site].iter().any(|place| sources.contains(place));
    let links = (0..).zip(&case.request.links).filter_map(|(number, link)| {
        let leaves = group.contains(&link.from) && apart(link.to);
        let enters = group.contains(&link.to) && apart(link.from);
        let other = if leaves { link.to } else { link.from };
        (leaves || enters).then(|| (number, leaves, case.candidates[other].clone()))
    });
    let links = links.collect();
    Crossing { sources, links }
}

/// Groups of requested sites that a cut may separate from the others. With few sites these are all
/// groups; otherwise pairs, and the sites that can only be placed in one domain.
fn groups(case: &Case<'_>) -> Vec<BTreeSet<usize>> {
    let sites = case.request.sites.len();
    if sites <= limits::EXPLAIN_GROUPED_SITES_MAX {
        let members = |mask: usize| (0..sites).filter(|site| mask >> site & 1 == 1).collect();
        return (1..(1usize << sites) - 1).map(members).collect();
    }
    let domain = |place: &VertexIndex| case.topology.vertex(*place).domain.as_ref();
    let mut groups = BTreeSet::new();
    for site in 0..sites {
        let first = case.candidates[site].first().and_then(domain);
        let inside = |other: &usize| case.candidates[*other].iter().all(|at| domain(at) == first);
        groups.insert((0..sites).filter(inside).collect::<BTreeSet<usize>>());
        groups.extend((site + 1..sites).map(|other| BTreeSet::from([site, other])));
    }
    groups.into_iter().filter(|group| !group.is_empty()).collect()
}

/// The statement about what these links fall short of; `None` if they do not.
fn of_crossing(case: &Case<'_>, crossing: &Crossing) -> Result<Option<Bottleneck>, WorkExhausted> {
    if crossing.links.is_empty() {
        return Ok(None);
    }
    let mut rates: Vec<u64> =
        crossing.links.iter().map(|(link, ..)| case.request.links[*link].bandwidth.0).collect();
    rates.sort_unstable();
    rates.dedup();
    let duplex = case.topology.edges().iter().any(|edge| !edge.is_shared());
    let ways: &[CutDirection] = if duplex {
        &[CutDirection::Both, CutDirection::Out, CutDirection::In]
    } else {
        &[CutDirection::Both]
    };
    // The sum of rates comes first, because it is the simpler statement. When all links are alike,
    // it is the weaker one.
    let units = std::iter::once(None).chain(rates.into_iter().map(Some));
    for unit in units {
        for way in ways {
            if let Some(cut) = cut(case, crossing, *way, unit)?
                && let Some(found) = facts(case, &cut)
            {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// A minimum cut with less capacity than the links need. Counted by rate, or with a `unit` in whole
/// links of at least that rate.
fn cut(
    case: &Case<'_>,
    crossing: &Crossing,
    way: CutDirection,
    unit: Option<u64>,
) -> Result<Option<LinkCut>, WorkExhausted> {
    let count = |bps: u64| unit.map_or(bps, |unit| bps / unit);
    let vertices = case.topology.vertices().len();
    let wanted: Vec<&(usize, bool, Vec<VertexIndex>)> = crossing
        .links
        .iter()
        .filter(|(link, leaves, _)| {
            let rate = case.request.links[*link].bandwidth.0;
            unit.is_none_or(|unit| rate >= unit)
                && (way == CutDirection::Both || *leaves == (way == CutDirection::Out))
        })
        .collect();
    let need = |link: usize| match unit {
        Some(_) => 1,
        None => case.request.links[link].bandwidth.0,
    };
    let (source, sink) = (vertices, vertices + 1);
    let mut network = Network::new(vertices + 2 + wanted.len());
    for lane in case.lanes() {
        let edge = case.topology.edge(lane.0);
        let (a, b) = (edge.a.at(), edge.b.at());
        let room = count(case.free(lane));
        // Entering links are modelled as if they left, so they use the lanes in the opposite
        // direction.
        let forth = (lane.1 == Direction::AToB) == (way == CutDirection::Out);
        let (there, back) = match edge.is_shared() || way == CutDirection::Both {
            true => (room, room),
            false if forth => (room, 0),
            false => (0, room),
        };
        network.join(a, b, there, back);
    }
    crossing.sources.iter().for_each(|start| network.join(source, start.at(), ENDLESS, 0));
    let mut whole = 0u64;
    for (node, (link, _, places)) in (vertices + 2..).zip(&wanted) {
        places.iter().for_each(|place| network.join(place.at(), node, ENDLESS, 0));
        network.join(node, sink, need(*link), 0);
        whole = whole.saturating_add(need(*link));
    }
    let flow = network.maximum(source, sink, whole, &|arcs| case.pay(arcs)).ok_or(WorkExhausted)?;
    if flow >= whole {
        return Ok(None);
    }
    let side = network.side(source);
    let links = (vertices + 2..).zip(&wanted).filter(|(node, _)| !side[*node]);
    let lanes = case.lanes().filter(|(index, lane)| {
        let edge = case.topology.edge(*index);
        let out = match (side[edge.a.at()], side[edge.b.at()]) {
            (true, false) => Direction::AToB,
            (false, true) => Direction::BToA,
            _ => return false,
        };
        edge.is_shared()
            || way == CutDirection::Both
            || (*lane == out) == (way == CutDirection::Out)
    });
    let links = links.map(|(_, (link, ..))| *link).collect();
    Ok(Some(LinkCut { links, lanes: lanes.collect(), unit }))
}

/// The statement about a cut: by the sum of rates if that falls short, otherwise in whole links.
fn facts(case: &Case<'_>, cut: &LinkCut) -> Option<Bottleneck> {
    let demands: Vec<String> = cut.links.iter().map(|link| case.link_name(*link)).collect();
    let resources: Vec<String> = cut.lanes.iter().map(|lane| case.lane_name(*lane)).collect();
    let (requested, available) = by_sum(case, &cut.links, &cut.lanes);
    if requested > available {
        let kind = if cut.lanes.len() == 1 { BottleneckKind::Path } else { BottleneckKind::Cut };
        return Some(Bottleneck {
            kind,
            demands,
            resources,
            requested,
            available,
            resource_kind: None,
        });
    }
    cut.unit?;
    let (requested, available) = by_count(case, &cut.links, &cut.lanes);
    let kind = BottleneckKind::Packing;
    (requested > available).then_some(Bottleneck {
        kind,
        demands,
        resources,
        requested,
        available,
        resource_kind: None,
    })
}

/// The summed rates of the links, and what is free on the lanes, in bit/s.
pub(super) fn by_sum(case: &Case<'_>, links: &[usize], lanes: &[Lane]) -> (u64, u64) {
    let requested = links.iter().map(|link| case.request.links[*link].bandwidth.0).sum();
    let available = lanes.iter().map(|lane| case.free(*lane)).fold(0, u64::saturating_add);
    (requested, available)
}

/// The rates of the links, and what the lanes can carry, both in bit/s. Every link counts with the
/// least of their rates, and the lanes carry whole links.
pub(super) fn by_count(case: &Case<'_>, links: &[usize], lanes: &[Lane]) -> (u64, u64) {
    let rates = links.iter().map(|link| case.request.links[*link].bandwidth.0);
    let unit = rates.min().unwrap_or(1).max(1);
    let fit = lanes.iter().map(|lane| case.free(*lane) / unit).fold(0, u64::saturating_add);
    (unit * links.len() as u64, unit.saturating_mul(fit))
}
