//! A federation as one resource manager shows it: its end points, and one path between every two of
//! them. What lies between is not disclosed.
//!
//! A path stands for all routes of at most N_max edges: as wide as the widest of them, with the value
//! and the latency of the cheapest among the widest. Routes share edges, so the paths promise more
//! together than there is; whoever holds decides.

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{BitsPerSecond, Span, Topology, VertexIndex};

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

/// Has a path a capacity for each direction? Only when every edge inside has: else both directions of
/// one path would be promised what they share.
#[must_use]
pub fn is_full_duplex(topology: &Topology) -> bool {
    let edges = topology.edges();
    !edges.is_empty() && edges.iter().all(|edge| !edge.is_shared())
}

/// The paths between every two of `points` that some route joins, in the order of `points`.
#[must_use]
pub fn paths(topology: &Topology, points: &[VertexIndex], edges_max: usize) -> Vec<AbstractPath> {
    let Some(window) = any_window() else { return Vec::new() };
    let empty = FrameView::empty_federation(topology, window);
    let mut paths = Vec::new();
    for (nth, a) in points.iter().enumerate() {
        let widths = widest(topology, &empty, *a, edges_max);
        for b in &points[nth + 1..] {
            let width = widths[b.at()];
            if width.0 == 0 {
                continue;
            }
            if let Some((unit_value, latency)) = cheapest(topology, (*a, *b), width, edges_max) {
                paths.push(AbstractPath { a: *a, b: *b, width, unit_value, latency });
            }
        }
    }
    paths
}

/// The empty federation looks the same in every window.
fn any_window() -> Option<coalloc_common::Window> {
    coalloc_common::Window::starting(coalloc_common::Time::from_us(0), Span::from_secs(1))
}
