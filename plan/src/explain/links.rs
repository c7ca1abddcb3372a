//! Statements about one link: whether any chain of paths can carry it, and which paths are too
//! narrow.

use std::collections::BTreeSet;

use coalloc_common::{Bottleneck, BottleneckKind, VertexIndex};

use super::{Case, Lane};

/// More than any latency, in microseconds.
pub(super) const FAR: i64 = i64::MAX / 2;

pub(super) fn bottleneck(case: &Case<'_>) -> Option<Bottleneck> {
    (0..case.request.links.len()).find_map(|link| of_link(case, link))
}

fn of_link(case: &Case<'_>, link: usize) -> Option<Bottleneck> {
    let demand = case.request.links[link];
    let all = Chains { case, blocked: &BTreeSet::new(), edges: case.route_edges };
    let fastest = all.fastest(link)?;
    let found = |kind, resources, requested, available| Bottleneck {
        kind,
        demands: vec![case.link_name(link)],
        resources,
        requested,
        available,
        resource_kind: None,
    };
    if fastest >= FAR {
        let most = case.topology.vertices().len();
        let allowed = case.route_edges;
        let length = (allowed + 1..most).find_map(|edges| {
            let reached = Chains { edges, ..all }.fastest(link)? < FAR;
            reached.then_some(edges)
        });
        return Some(match length {
            Some(needed) => {
                found(BottleneckKind::Length, Vec::new(), needed as u64, allowed as u64)
            }
            // No chain of any length joins the ends.
            None => found(BottleneckKind::Cut, Vec::new(), demand.bandwidth.0, 0),
        });
    }
    if let Some(allowed) = demand.latency_max.filter(|allowed| fastest > allowed.as_us()) {
        let (needed, allowed) = (fastest.unsigned_abs(), allowed.as_us().unsigned_abs());
        return Some(found(BottleneckKind::Latency, Vec::new(), needed, allowed));
    }
    let narrow = needed_of(case, link)?;
    let kind = if narrow.len() == 1 { BottleneckKind::Path } else { BottleneckKind::Paths };
    let widest = narrow.iter().map(|lane| case.free(*lane)).max().unwrap_or(0);
    let names = narrow.iter().map(|lane| case.lane_name(*lane)).collect();
    Some(found(kind, names, demand.bandwidth.0, widest))
}

/// A least set of too narrow lanes such that every chain for the link has one of them; `None` when
/// the link has a chain without any.
fn needed_of(case: &Case<'_>, link: usize) -> Option<BTreeSet<Lane>> {
    let rate = case.request.links[link].bandwidth.0;
    let mut narrow: Vec<Lane> = case.lanes().filter(|lane| case.free(*lane) < rate).collect();
    let mut blocked: BTreeSet<Lane> = narrow.iter().copied().collect();
    let edges = case.route_edges;
    if (Chains { case, blocked: &blocked, edges }).reach(link)? {
        return None;
    }
    // The narrowest lanes are dropped first, so that those remain which are nearest to being wide
    // enough.
    narrow.sort_by_key(|lane| (case.free(*lane), *lane));
    for lane in narrow {
        blocked.remove(&lane);
        // When the limit of work is reached the set stays larger than needed, which is still true.
        if (Chains { case, blocked: &blocked, edges }).reach(link).unwrap_or(true) {
            blocked.insert(lane);
        }
    }
    Some(blocked)
}

/// Chains of at most `edges` paths that avoid the lanes in `blocked`.
#[derive(Clone, Copy)]
pub(super) struct Chains<'a> {
    pub(super) case: &'a Case<'a>,
    pub(super) blocked: &'a BTreeSet<Lane>,
    pub(super) edges: usize,
}

impl Chains<'_> {
    /// Whether there is a chain between places of the link's ends within its latency. `None` when
    /// the limit of work is reached before that is known.
    pub(super) fn reach(self, link: usize) -> Option<bool> {
        let allowed = self.case.request.links[link].latency_max;
        Some(self.fastest(link)? <= allowed.map_or(FAR - 1, |allowed| allowed.as_us()))
    }

    /// Latency in microseconds of the fastest chain between any places of the link's ends; `FAR` or
    /// more when there is none. `None` when the limit of work is reached.
    pub(super) fn fastest(self, link: usize) -> Option<i64> {
        let link = self.case.request.links[link];
        let (from, to) = (&self.case.candidates[link.from], &self.case.candidates[link.to]);
        if from.iter().all(|place| !to.contains(place)) {
            return self.between(from, to);
        }
        // Both ends must not be the same vertex, so each start is treated by itself.
        let mut best = FAR;
        for start in from {
            let ends: Vec<VertexIndex> = to.iter().copied().filter(|end| end != start).collect();
            best = best.min(self.between(&[*start], &ends)?);
            if best == 0 {
                break;
            }
        }
        Some(best)
    }

    /// Latency of the fastest chain from one of `from` to one of `to`, by relaxation edge by edge.
    fn between(self, from: &[VertexIndex], to: &[VertexIndex]) -> Option<i64> {
        let case = self.case;
        let mut latency = vec![FAR; case.topology.vertices().len()];
        from.iter().for_each(|start| latency[start.at()] = 0);
        let mut front: BTreeSet<VertexIndex> = from.iter().copied().collect();
        for _ in 0..self.edges {
            let mut next = latency.clone();
            let mut reached = BTreeSet::new();
            for vertex in &front {
                let hops = case.topology.hops(*vertex);
                if !case.pay(hops.len()) {
                    return None;
                }
                for hop in hops {
                    let whole = latency[vertex.at()]
                        .saturating_add(case.topology.edge(hop.edge).latency.as_us());
                    if whole < next[hop.to.at()]
                        && !self.blocked.contains(&case.lane(hop.edge, hop.direction))
                    {
                        next[hop.to.at()] = whole;
                        reached.insert(hop.to);
                    }
                }
            }
            latency = next;
            front = reached;
            if front.is_empty() {
                break;
            }
        }
        Some(to.iter().map(|end| latency[end.at()]).min().unwrap_or(FAR))
    }
}
