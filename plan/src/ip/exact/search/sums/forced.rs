//! A bound for routes of one edge: what the links between two vertices take is then known before
//! they are routed.
//!
//! If a route has at most one edge and one edge joins two vertices, every link between them takes
//! this edge. So the loads of the placed members do not depend on any choice of routes, and a
//! member can only be placed where all its links to placed members fit beside these loads. The
//! bound closes a branch when some member has no such vertex. Nothing is said of two vertices that
//! several edges join.

use super::super::super::network::{Link, Step};
use super::super::Search;
use super::Sums;

impl Search<'_, Sums<'_>> {
    /// Whether every member from this place in the order on has an open candidate from which its
    /// links to placed members fit. The open candidates have been found.
    pub(super) fn forced_routes_suffice(&mut self, place: usize) -> bool {
        if self.network.edges_max != 1 {
            return true;
        }
        for index in place..self.order.len() {
            let site = self.order[index];
            let own = self.starts[site]..self.starts[site + 1];
            let fits = |at: usize| {
                self.occupancy.open[at]
                    && self.short_edges(place, index, self.vertices[at]).next().is_none()
            };
            if own.clone().any(fits) {
                continue;
            }
            for at in own {
                if self.occupancy.open[at] {
                    self.note_short_edge(place, index, self.vertices[at]);
                } else {
                    self.note_closed(place, site, at);
                }
            }
            return false;
        }
        true
    }

    /// The resources that cannot carry the links from the member at `index` in the order, placed at
    /// this vertex, to the members before `place`; each with what they would have to have free.
    pub(super) fn short_edges(
        &self,
        place: usize,
        index: usize,
        vertex: u32,
    ) -> impl Iterator<Item = (u32, u64)> + '_ {
        let steps = self.network.steps(vertex);
        let single = move |step: &&Step| steps.iter().filter(|one| one.to == step.to).count() == 1;
        steps.iter().filter(single).flat_map(move |step| {
            let [away, back] = self.rates_between(place, index, step.to);
            let wanted = if step.out == step.back {
                [(step.out, away + back), (step.out, 0)]
            } else {
                [(step.out, away), (step.back, back)]
            };
            let needed =
                wanted.map(|(resource, rate)| (resource, rate, self.routing.load(resource)));
            let short = needed.into_iter().filter(|(resource, rate, load)| {
                *rate > 0 && load + rate > self.network.free[*resource as usize]
            });
            short.map(|(resource, rate, load)| (resource, load + rate))
        })
    }

    /// The rates of the links between a member and those members before `place` that are at a
    /// vertex: away from the member, and to it.
    fn rates_between(&self, place: usize, index: usize, vertex: u32) -> [u64; 2] {
        let mut rates = [0; 2];
        for (link, other) in &self.earlier[index] {
            if self.occupancy.place[*other] < place && self.placed[*other] == vertex {
                let Link { from, rate, .. } = self.links[*link];
                rates[usize::from(from == *other)] += rate;
            }
        }
        rates
    }

    /// Notes one resource that is short, if all of them could have enough free and none is noted.
    pub(super) fn note_short_edge(&mut self, place: usize, index: usize, vertex: u32) {
        let mut first = None;
        for (resource, wanted) in self.short_edges(place, index, vertex) {
            let never = self.network.most[resource as usize] < wanted;
            if never || self.occupancy.notes.has_edge(resource) {
                return;
            }
            first = first.or(Some(resource));
        }
        if let Some(resource) = first {
            self.occupancy.notes.add_edge(resource);
        }
    }
}
