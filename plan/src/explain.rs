//! Why a frame has no plan: what binds, and by how much it falls short, proven.
//!
//! A planner finds that nothing fits; this module says what would have to grow. Each statement is
//! true by itself, and [`check`] can verify it against the view. [`check`] shares with the search
//! for statements only the notion of a chain of paths. The statements are:
//!
//! * One pinned site has too little of what is wanted there (CPUs or a further kind), or there are
//!   fewer sites with enough than requested sites that need one each (the least violator of Hall's condition).
//! * No chain of paths carries one of the links: all chains are too long or too slow, or each has
//!   at least one of the paths named, which are too narrow.
//! * Several links together have to cross a cut that is too small, by the sum of their rates or
//!   because links are not split. This is found by a maximum flow and its minimum cut, for the
//!   links of each site and for groups of sites: for every group when the sites are few.
//!
//! A request whose parts have windows of their own is taken apart: what it wants throughout one of
//! these windows, or throughout one period, is a request by itself. What binds that request in that window
//! binds the whole.
//!
//! What not even a federation without bookings could serve is refused for good, see [`never()`].
//!
//! When no such statement is found, the answer is `None`: only the combination is infeasible, and
//! the sentence claims no more. [`combination`] then uses a planner to find a plan that comes
//! close, and says what that plan lacks. Pure, deterministic, and bounded by
//! [`limits::EXPLAIN_WORK_MAX`], so that it can run for every refused frame.
//!
//! Left out: a proof for every infeasible instance, which would be the planner's whole search tree.

mod check;
mod combination;
mod cuts;
mod flow;
mod links;
mod never;
mod sites;
mod words;

pub use check::check;
pub use combination::combination;
pub use never::never;

use std::cell::Cell;

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    Amount, Bottleneck, BottleneckKind, CoAllocation, EdgeIndex, Reason, Refusal, ResourceKind,
    SiteDemand, Topology, VertexIndex, limits,
};

use crate::ip::admit::no_island;
use crate::ip::{IpOptions, free_bps};

/// One capacity of an edge: the edge and the direction in which it is used. For a shared edge the
/// direction is always a to b.
pub(crate) type Lane = (EdgeIndex, Direction);

/// A request, what is free for it, and where its sites could be placed.
struct Case<'a> {
    topology: &'a Topology,
    request: &'a CoAllocation,
    view: &'a FrameView,
    route_edges: usize,
    /// For each requested site, the vertices where it may be placed and that have enough free.
    candidates: Vec<Vec<VertexIndex>>,
    /// How many more arcs may be examined.
    work: Cell<u64>,
}

impl<'a> Case<'a> {
    fn new(
        topology: &'a Topology,
        request: &'a CoAllocation,
        view: &'a FrameView,
        options: &IpOptions,
    ) -> Self {
        let fits = |site: &SiteDemand| {
            let may = topology.sites().filter(|(_, place, _)| may_land(site, &place.name));
            may.filter(|(at, ..)| view.fits(site, *at)).map(|(at, ..)| at).collect()
        };
        let candidates = request.sites.iter().map(fits).collect();
        let work = Cell::new(limits::EXPLAIN_WORK_MAX);
        Self { topology, request, view, route_edges: options.route_edges(), candidates, work }
    }

    fn lane(&self, edge: EdgeIndex, way: Direction) -> Lane {
        if self.topology.edge(edge).is_shared() { (edge, Direction::AToB) } else { (edge, way) }
    }

    fn free(&self, lane: Lane) -> u64 {
        let (edge, way) = lane;
        free_bps(self.topology.edge(edge), edge, way, self.view)
    }

    fn lane_name(&self, lane: Lane) -> String {
        let (edge, way) = lane;
        self.topology.edge(edge).resource(way).to_string()
    }

    /// Every lane, in the order of the edges.
    fn lanes(&self) -> impl Iterator<Item = Lane> + '_ {
        (0u32..).zip(self.topology.edges()).flat_map(|(index, edge)| {
            let ways: &[Direction] = match edge.is_shared() {
                true => &[Direction::AToB],
                false => &[Direction::AToB, Direction::BToA],
            };
            ways.iter().map(move |way| (EdgeIndex(index), *way))
        })
    }

    /// The name of a link: `a-b`, after its sites.
    fn link_name(&self, link: usize) -> String {
        let link = &self.request.links[link];
        format!("{}-{}", self.request.sites[link.from].name, self.request.sites[link.to].name)
    }

    /// Deducts `arcs` from the remaining work; false when that is too little.
    fn pay(&self, arcs: usize) -> bool {
        let left = self.work.get().checked_sub(arcs as u64);
        self.work.set(left.unwrap_or(0));
        left.is_some()
    }
}

fn may_land(site: &SiteDemand, place: &coalloc_common::VertexName) -> bool {
    site.pinned.as_ref().is_none_or(|pin| pin == place) && !site.excluded.contains(place)
}

/// What binds, as far as it can be proven, for a request that has no plan on this view. For a
/// request that has a plan it returns `None`.
#[must_use]
pub fn bottleneck(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    options: &IpOptions,
) -> Option<Bottleneck> {
    let case = Case::new(topology, request, view, options);
    if !request.has_part_windows() {
        return sites::bottleneck(&case).or_else(|| of_paths(&case));
    }
    let part = |of: Statement| Some(binding_part(&case, options, of)?.2);
    part(at_sites).or_else(|| sites::bottleneck(&case)).or_else(|| part(on_paths))
}

/// What binds on paths.
fn of_paths(case: &Case<'_>) -> Option<Bottleneck> {
    // Chains of paths have ends only if every site can be placed somewhere.
    if case.candidates.iter().any(Vec::is_empty) {
        return None;
    }
    links::bottleneck(case).or_else(|| cuts::bottleneck(case))
}

/// A statement about what a request with windows of its parts wants throughout one of them. The second
/// case is that of the whole request.
type Statement = fn(Case<'_>, &Case<'_>) -> Option<Bottleneck>;

fn at_sites(part: Case<'_>, _whole: &Case<'_>) -> Option<Bottleneck> {
    sites::bottleneck(&part)
}

/// Links end where each site has everything in all of its windows. So the sites of the whole request
/// must have places of their own.
fn on_paths(part: Case<'_>, whole: &Case<'_>) -> Option<Bottleneck> {
    let candidates = whole.candidates.clone();
    of_paths(&Case { candidates, ..part })
}

/// Of a request whose parts have windows of their own: what is wanted throughout the first window in
/// which something binds by this statement, what is free in that window, and what binds.
fn binding_part<'a>(
    whole: &Case<'a>,
    options: &IpOptions,
    of: Statement,
) -> Option<(CoAllocation, &'a FrameView, Bottleneck)> {
    whole.request.part_windows().into_iter().find_map(|window| {
        let (part, then) = (whole.request.throughout(window), whole.view.during(Some(window)));
        let found = of(Case::new(whole.topology, &part, then, options), whole)?;
        Some((part, then, found))
    })
}

/// Adds what binds to a planner's refusal of a frame: the facts, and a sentence that names them. If
/// something binds even in the empty federation, the refusal becomes one for good.
#[must_use]
pub fn explain(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    options: &IpOptions,
    refusal: Refusal,
) -> Refusal {
    if request.has_part_windows() {
        return explain_parts(topology, request, view, options, refusal);
    }
    let empty = FrameView::empty_federation(topology, view.window);
    let (beyond, view) = match refusal.reason {
        Reason::BeyondCapacity => (true, &empty),
        Reason::InsufficientCapacity | Reason::NoRoute => (false, view),
        _ => return refusal,
    };
    let Some(found) = bottleneck(topology, request, view, options) else {
        return of_all_parts(topology, request, view, refusal);
    };
    if !beyond && let Some(always) = bottleneck(topology, request, &empty, options) {
        return tell(&Case::new(topology, request, &empty, options), refusal, always, true);
    }
    tell(&Case::new(topology, request, view, options), refusal, found, beyond)
}

/// [`explain`] for a request whose parts have windows of their own.
fn explain_parts(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    options: &IpOptions,
    refusal: Refusal,
) -> Refusal {
    let empty = FrameView::empty_federation(topology, view.window);
    let now = match refusal.reason {
        Reason::BeyondCapacity => &empty,
        Reason::InsufficientCapacity | Reason::NoRoute => view,
        _ => return refusal,
    };
    for (seen, beyond) in [(&empty, true), (now, false)] {
        let whole = Case::new(topology, request, seen, options);
        if let Some((part, then, found)) = binding_part(&whole, options, at_sites) {
            return tell(&Case::new(topology, &part, then, options), refusal, found, beyond);
        }
        if let Some(found) = sites::bottleneck(&whole) {
            return tell(&whole, refusal, found, beyond);
        }
        if let Some((part, then, found)) = binding_part(&whole, options, on_paths) {
            return tell(&Case::new(topology, &part, then, options), refusal, found, beyond);
        }
    }
    of_all_parts(topology, request, view, refusal)
}

/// The refusal when no part binds by itself: the islands are too small, or only all parts together
/// do not fit.
fn of_all_parts(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    refusal: Refusal,
) -> Refusal {
    if refusal.reason != Reason::NoRoute {
        return refusal;
    }
    no_island(topology, request, view)
        .unwrap_or_else(|| Refusal { detail: words::combination(request, view), ..refusal })
}

fn tell(case: &Case<'_>, refusal: Refusal, found: Bottleneck, beyond: bool) -> Refusal {
    let told = match found.kind {
        // The planner's own sentence says how many sites compete, and names the best of the others.
        BottleneckKind::Sites if beyond == (refusal.reason == Reason::BeyondCapacity) => refusal,
        _ => {
            let amounts = matches!(
                found.kind,
                BottleneckKind::Site
                    | BottleneckKind::Path
                    | BottleneckKind::Paths
                    | BottleneckKind::Cut
                    | BottleneckKind::Packing
            );
            Refusal {
                reason: match found.kind {
                    _ if beyond => Reason::BeyondCapacity,
                    BottleneckKind::Site | BottleneckKind::Sites => Reason::InsufficientCapacity,
                    _ => Reason::NoRoute,
                },
                resource: case.only_resource(&found),
                window: (!beyond).then_some(case.view.window),
                requested: amounts.then_some(Amount(found.requested)),
                available: amounts.then_some(Amount(found.available)),
                detail: words::sentence(case, &found, beyond),
                ..refusal
            }
        }
    };
    Refusal { bottleneck: Some(Box::new(found)), ..told }
}

impl Case<'_> {
    /// The resource that binds, if it is a single one.
    fn only_resource(&self, found: &Bottleneck) -> Option<coalloc_common::ResourceId> {
        let [name] = &found.resources[..] else { return None };
        if found.kind == BottleneckKind::Site {
            let kind = found.resource_kind.unwrap_or(ResourceKind::Cpus);
            let mut sites = self.topology.sites();
            let (_, place, _) = sites.find(|(_, place, _)| place.name.as_str() == name)?;
            let own = place.resources().find(|of| of.kind == kind);
            return own.map(|of| of.resource.clone());
        }
        let lane = self.lanes().find(|lane| self.lane_name(*lane) == *name)?;
        Some(self.topology.edge(lane.0).resource(lane.1).clone())
    }
}
