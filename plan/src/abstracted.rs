//! A federation as one resource manager shows it: its end points, and one path between every two of
//! them. What lies between is not disclosed.
//!
//! A path stands for all routes of at most N_max edges: as wide as the widest of them, with the value
//! and the latency of the cheapest among the widest. Routes share edges, so the paths promise more
//! together than there is; whoever holds decides. Where they did promise too much, [`short`] says which of
//! them cannot be had beside those before it, and how much of it could.
//!
//! [`AbstractTopology`] names all that and turns a hold from above into a request inside, [`periods`] cuts a hold
//! that is not the same all the time, [`refused`] says in the words of the one above why there is nothing. Live
//! coordinators and simulated ones use the same of it.

pub mod periods;
pub mod refused;
mod topology;

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{Amount, BitsPerSecond, CoAllocation, Span, Topology, VertexIndex};

pub use self::topology::{
    AbstractTopology, Inner, InnerResource, Resource, ShownPath, seen_by_parent,
};
use crate::{Budget, FramePlanner, Instance, Outcome};

/// One path between two end points of the empty federation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbstractPath {
    /// One end.
    pub a: VertexIndex,
    /// The other.
    pub b: VertexIndex,
    /// The widest route, the narrower of its two directions.
    pub width: BitsPerSecond,
    /// Points per Gbit/s of the cheapest route of that width.
    pub unit_value: u64,
    /// Its latency.
    pub latency: Span,
    /// Has it a capacity for each direction? When any route has an edge that does: else nobody could say
    /// which of the edge's directions to take. Where other edges share theirs, too much is promised.
    pub full_duplex: bool,
}

/// The widest route within `edges_max` edges from `source` to every vertex, by vertex; zero where
/// there is none.
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
        // Layer by layer, so that no route is longer than counted.
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

/// Value and latency of the cheapest route within `edges_max` edges whose every edge has `width`.
fn cheapest(
    topology: &Topology,
    (source, target): (VertexIndex, VertexIndex),
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

/// Edges from `source` to every vertex by the shortest way; `None` where there is none.
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

/// Lies an edge with a capacity for each direction on some way of at most `edges_max` edges?
fn meets_full_duplex(
    topology: &Topology,
    (from_a, from_b): (&[Option<usize>], &[Option<usize>]),
    edges_max: usize,
) -> bool {
    let within = |near: VertexIndex, far: VertexIndex| {
        let (to, from) = (from_a[near.at()], from_b[far.at()]);
        to.zip(from).is_some_and(|(to, from)| to + 1 + from <= edges_max)
    };
    let mut full = topology.edges().iter().filter(|edge| !edge.is_shared());
    full.any(|edge| within(edge.a, edge.b) || within(edge.b, edge.a))
}

/// The paths between every two of `points` that some route joins, in the order of `points`.
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
            if let Some((unit_value, latency)) = cheapest(topology, (*a, *b), width, edges_max) {
                let ways = (&lengths[nth][..], &lengths[other][..]);
                let full_duplex = meets_full_duplex(topology, ways, edges_max);
                paths.push(AbstractPath { a: *a, b: *b, width, unit_value, latency, full_duplex });
            }
        }
    }
    paths
}

/// The empty federation looks the same in every window.
fn any_window() -> Option<coalloc_common::Window> {
    coalloc_common::Window::starting(coalloc_common::Time::from_us(0), Span::from_secs(1))
}

/// A demand that cannot be met beside those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// This site of the request has only so many CPUs free.
    Site(usize, Amount),
    /// This link of the request fits beside the links before it with only so much; zero: with nothing.
    Link(usize, Amount),
}

/// The first demand of an instance that cannot be met beside those before it, sites first. `None` when the
/// planner finds nothing that is short, or its budget ends.
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
        let free = view.free_cpus[topology.find_vertex(site.pinned.as_ref()?)?.at()];
        if free < site.cpus {
            return Some(Short::Site(at, free.into()));
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
    // What does not fit does not fit with more either.
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
