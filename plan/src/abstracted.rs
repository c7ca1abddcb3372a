//! A federation as a child coordinator describes it to its parent: its end points, and one path
//! between every two of them. What lies between the end points is not disclosed.
//!
//! A path stands for all routes of at most N_max edges. It is as wide as the widest of them, and
//! has the value and the latency of the cheapest route of that width. Routes share edges, so the
//! paths together promise more than there is; the hold decides. When the paths promised too much,
//! [`short`] says which demand cannot be met beside those before it, and how much of it could be
//! met.
//!
//! [`AbstractTopology`] names all of this and turns a hold from the parent into a request for the
//! child's own federation. [`periods`] splits a hold whose amounts change over time. [`refused`]
//! explains a refusal in terms that the parent knows. Live and simulated coordinators use the same
//! code.

pub mod periods;
pub mod refused;
mod topology;

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    Amount, BitsPerSecond, CoAllocation, ResourceKind, Span, Topology, VertexIndex,
};

pub use self::topology::{
    AbstractTopology, Inner, InnerResource, Resource, ShownPath, seen_by_parent,
};
use crate::{Budget, FramePlanner, Instance, Outcome};

/// One path between two end points, in the empty federation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbstractPath {
    /// One end point.
    pub a: VertexIndex,
    /// The other end point.
    pub b: VertexIndex,
    /// The rate of the widest route, in the narrower of its two directions.
    pub width: BitsPerSecond,
    /// The unit value of the cheapest route of that width, in points per Gbit/s.
    pub unit_value: u64,
    /// The latency of that route, one way.
    pub latency: Span,
    /// Whether the path has a capacity for each direction. This is so when any route has an edge
    /// that does, because otherwise it would be open which direction of that edge to take. Where
    /// the other edges have one capacity for both directions, such a path promises too much.
    pub full_duplex: bool,
}

/// By vertex, the rate of the widest route from `source` of at most `edges_max` edges; zero where
/// there is no such route.
#[must_use]
pub fn widest(
    topology: &Topology,
    view: &FrameView,
    source: VertexIndex,
    edges_max: usize,
) -> Vec<BitsPerSecond> {
    let mut best = vec![BitsPerSecond(0); topology.vertices().len()];
    best[source.at()] = BitsPerSecond(u64::MAX);
    for _ in 0..edges_max {
        // One more edge in each round, so that no route is longer than counted.
        let mut next = best.clone();
        for edge in topology.edges() {
            let at = topology.find_edge(&edge.name).map_or(0, coalloc_common::EdgeIndex::at);
            for (direction, from) in [(Direction::AToB, edge.a), (Direction::BToA, edge.b)] {
                let free = view.free_bps[at][direction.at()].min(best[from.at()]);
                let to = edge.head(direction);
                next[to.at()] = next[to.at()].max(free);
            }
        }
        best = next;
    }
    best
}

/// Value and latency of the cheapest route of at most `edges_max` edges, all with a capacity of at
/// least `width`.
fn cheapest(
    topology: &Topology,
    source: VertexIndex,
    target: VertexIndex,
    width: BitsPerSecond,
    edges_max: usize,
) -> Option<(u64, Span)> {
    let mut best: Vec<Option<(u64, Span)>> = vec![None; topology.vertices().len()];
    best[source.at()] = Some((0, Span::ZERO));
    for _ in 0..edges_max {
        let mut next = best.clone();
        for edge in topology.edges().iter().filter(|edge| edge.capacity >= width) {
            for (direction, from) in [(Direction::AToB, edge.a), (Direction::BToA, edge.b)] {
                let Some((value, latency)) = best[from.at()] else { continue };
                let offer =
                    (value.saturating_add(edge.unit_value.0), latency.saturating_add(edge.latency));
                let known = &mut next[edge.head(direction).at()];
                if known.is_none_or(|known| offer < known) {
                    *known = Some(offer);
                }
            }
        }
        best = next;
    }
    best[target.at()]
}

/// By vertex, the number of edges of the shortest route from `source`; `None` where there is no
/// route.
fn lengths(topology: &Topology, source: VertexIndex) -> Vec<Option<usize>> {
    let mut lengths = vec![None; topology.vertices().len()];
    lengths[source.at()] = Some(0);
    let mut reached = vec![source];
    for length in 1.. {
        let hops = reached.iter().flat_map(|from| topology.hops(*from));
        let mut next: Vec<VertexIndex> = hops.map(|hop| hop.to).collect();
        next.retain(|to| lengths[to.at()].is_none());
        if next.is_empty() {
            break;
        }
        for to in &next {
            lengths[to.at()] = Some(length);
        }
        reached = next;
    }
    lengths
}

/// Whether some route of at most `edges_max` edges has an edge with a capacity for each direction.
fn meets_full_duplex(
    topology: &Topology,
    from_a: &[Option<usize>],
    from_b: &[Option<usize>],
    edges_max: usize,
) -> bool {
    let within = |near: VertexIndex, far: VertexIndex| {
        let (to, from) = (from_a[near.at()], from_b[far.at()]);
        to.zip(from).is_some_and(|(to, from)| to + 1 + from <= edges_max)
    };
    let mut full = topology.edges().iter().filter(|edge| !edge.is_shared());
    full.any(|edge| within(edge.a, edge.b) || within(edge.b, edge.a))
}

/// The paths between every two of `points` that are joined by a route, in the order of `points`.
#[must_use]
pub fn paths(topology: &Topology, points: &[VertexIndex], edges_max: usize) -> Vec<AbstractPath> {
    let Some(window) = any_window() else { return Vec::new() };
    let empty = FrameView::empty_federation(topology, window);
    let mut paths = Vec::new();
    let lengths: Vec<Vec<Option<usize>>> =
        points.iter().map(|point| lengths(topology, *point)).collect();
    for (nth, a) in points.iter().enumerate() {
        let widths = widest(topology, &empty, *a, edges_max);
        for (other, b) in points.iter().enumerate().skip(nth + 1) {
            let width = widths[b.at()];
            if width.0 == 0 {
                continue;
            }
            if let Some((unit_value, latency)) = cheapest(topology, *a, *b, width, edges_max) {
                let full_duplex =
                    meets_full_duplex(topology, &lengths[nth], &lengths[other], edges_max);
                paths.push(AbstractPath { a: *a, b: *b, width, unit_value, latency, full_duplex });
            }
        }
    }
    paths
}

/// Some window: what is free in the empty federation is the same in every window.
fn any_window() -> Option<coalloc_common::Window> {
    coalloc_common::Window::starting(coalloc_common::Time::from_us(0), Span::from_secs(1))
}

/// A demand that cannot be met beside those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// This site of the request (by index) has only this amount of a kind free.
    Site(usize, ResourceKind, Amount),
    /// This link of the request (by index) fits beside the links before it with at most this rate,
    /// in bit/s; zero if it does not fit at all.
    Link(usize, Amount),
}

/// The first demand of an instance that cannot be met beside those before it, sites first. `None`
/// when the planner finds nothing short, or when its budget ends.
///
/// Every site of the request has to be pinned.
#[must_use]
pub fn short(
    instance: &Instance<'_>,
    planner: &dyn FramePlanner,
    budget: &Budget<'_>,
) -> Option<Short> {
    let Instance { topology, request, view, .. } = instance;
    for (at, site) in request.sites.iter().enumerate() {
        if let Some(short) = view.short_of(site, topology.find_vertex(site.pinned.as_ref()?)?) {
            return Some(Short::Site(at, short.kind, short.free));
        }
    }
    let fits = |links: usize, last: BitsPerSecond| {
        let mut part =
            CoAllocation { links: request.links[..links].to_vec(), ..(*request).clone() };
        if let Some(link) = part.links.last_mut() {
            link.bandwidth = last;
        }
        matches!(planner.plan(&Instance::new(topology, &part, view), budget), Outcome::Planned(_))
    };
    let too_many = |links: &usize| !fits(*links, request.links[*links - 1].bandwidth);
    let links = (1..=request.links.len()).find(too_many)?;
    // What does not fit does not fit with a higher rate either, so bisection finds the limit.
    let (mut fitting, mut not) = (0, request.links[links - 1].bandwidth.0);
    while not - fitting > 1 {
        let middle = fitting + (not - fitting) / 2;
        if fits(links, BitsPerSecond(middle)) {
            fitting = middle;
        } else {
            not = middle;
        }
    }
    (!budget.stopped()).then_some(Short::Link(links - 1, Amount(fitting)))
}
