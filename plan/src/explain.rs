//! Why a frame has no plan: what binds, and by how much it falls short, proven.
//!
//! A planner knows that nothing fits; this module says what would have to grow. Each statement is
//! true by itself and can be checked against the view by [`check`], which shares the notion of a
//! chain of paths with the search for statements and nothing else:
//! * one pinned site, or fewer sites with enough CPUs than there are requested sites that need one
//!   each (the least violator of Hall's condition);
//! * one link that no chain of paths carries: too long, too slow, or every chain has one of these
//!   too narrow paths;
//! * several links together that have to cross a cut with less room, by the sum, or because links
//!   are not split (a maximum flow and its minimum cut, for the links of each site and, when there
//!   are few sites, for every grouping of them).
//!
//! What no federation without bookings could serve is refused for good: [`never()`].
//!
//! When no such statement is found the answer is `None`: only the combination is infeasible, and the
//! sentence says that and no more; [`combination`] then finds, with a planner, a plan that comes close
//! and what it lacks. Pure, deterministic, and bounded by
//! [`limits::EXPLAIN_WORK_MAX`], so that it may run for every refused frame.
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
    Amount, Bottleneck, BottleneckKind, CoAllocation, EdgeIndex, Reason, Refusal, SiteDemand,
    Topology, VertexIndex, limits,
};

use crate::ip::{IpOptions, free_bps};

/// One capacity of an edge: the edge and the way it is travelled; of a shared edge always a to b.
pub(crate) type Lane = (EdgeIndex, Direction);

/// A request, what is free for it, and where its sites could land.
struct Case<'a> {
    topology: &'a Topology,
    request: &'a CoAllocation,
    view: &'a FrameView,
    route_edges: usize,
    /// By requested site: the vertices that it may land on and that have enough CPUs.
    candidates: Vec<Vec<VertexIndex>>,
    /// Arcs that may still be looked at.
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
            may.filter(|(at, ..)| view.free_cpus[at.at()] >= site.cpus).map(|(at, ..)| at).collect()
        };
        let candidates = request.sites.iter().map(fits).collect();
        let work = Cell::new(limits::EXPLAIN_WORK_MAX);
        Self { topology, request, view, route_edges: options.route_edges(), candidates, work }
    }

    fn lane(&self, edge: EdgeIndex, way: Direction) -> Lane {
        if self.topology.edge(edge).is_shared() { (edge, Direction::AToB) } else { (edge, way) }
    }

    fn free(&self, (edge, way): Lane) -> u64 {
        free_bps(self.topology.edge(edge), edge, way, self.view)
    }

    fn lane_name(&self, (edge, way): Lane) -> String {
        self.topology.edge(edge).resource(way).to_string()
    }

    /// Every lane, in order of index.
    fn lanes(&self) -> impl Iterator<Item = Lane> + '_ {
        (0u32..).zip(self.topology.edges()).flat_map(|(index, edge)| {
            let ways: &[Direction] = match edge.is_shared() {
                true => &[Direction::AToB],
                false => &[Direction::AToB, Direction::BToA],
            };
            ways.iter().map(move |way| (EdgeIndex(index), *way))
        })
    }

    /// How a link is called: `a-b`.
    fn link_name(&self, link: usize) -> String {
        let link = &self.request.links[link];
        format!("{}-{}", self.request.sites[link.from].name, self.request.sites[link.to].name)
    }

    /// Takes so much of the work that is left; false when there is none left.
    fn pay(&self, arcs: usize) -> bool {
        let left = self.work.get().checked_sub(arcs as u64);
        self.work.set(left.unwrap_or(0));
        left.is_some()
    }
}

fn may_land(site: &SiteDemand, place: &coalloc_common::VertexName) -> bool {
    site.pinned.as_ref().is_none_or(|pin| pin == place) && !site.excluded.contains(place)
}

/// What binds, if it can be proven: for a request that has no plan on this view. Of one that has a plan
/// nothing is ever claimed.
#[must_use]
pub fn bottleneck(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    options: &IpOptions,
) -> Option<Bottleneck> {
    let case = Case::new(topology, request, view, options);
    sites::bottleneck(&case).or_else(|| {
        // Chains of paths have ends only where every site has somewhere to land.
        if case.candidates.iter().any(Vec::is_empty) {
            return None;
        }
        links::bottleneck(&case).or_else(|| cuts::bottleneck(&case))
    })
}

/// Adds to a planner's refusal of a frame what binds: the facts, and a sentence that names them. What
/// binds in the empty federation too makes it a refusal for good.
#[must_use]
pub fn explain(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    options: &IpOptions,
    refusal: Refusal,
) -> Refusal {
    let empty = FrameView::empty_federation(topology, view.window);
    let (beyond, view) = match refusal.reason {
        Reason::BeyondCapacity => (true, &empty),
        Reason::InsufficientCapacity | Reason::NoRoute => (false, view),
        _ => return refusal,
    };
    let Some(found) = bottleneck(topology, request, view, options) else {
        return match refusal.reason {
            Reason::NoRoute => Refusal { detail: words::combination(request, view), ..refusal },
            _ => refusal,
        };
    };
    if !beyond && let Some(always) = bottleneck(topology, request, &empty, options) {
        return tell(&Case::new(topology, request, &empty, options), refusal, always, true);
    }
    tell(&Case::new(topology, request, view, options), refusal, found, beyond)
}

fn tell(case: &Case<'_>, refusal: Refusal, found: Bottleneck, beyond: bool) -> Refusal {
    let told = match found.kind {
        // The planner's own sentence counts the rivals and names the best of the others.
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
    /// The resource that binds, when it is one.
    fn only_resource(&self, found: &Bottleneck) -> Option<coalloc_common::ResourceId> {
        let [name] = &found.resources[..] else { return None };
        if found.kind == BottleneckKind::Site {
            let mut sites = self.topology.sites();
            return sites
                .find(|(_, place, _)| place.name.as_str() == name)
                .map(|(.., compute)| compute.resource.clone());
        }
        let lane = self.lanes().find(|lane| self.lane_name(*lane) == *name)?;
        Some(self.topology.edge(lane.0).resource(lane.1).clone())
    }
}
