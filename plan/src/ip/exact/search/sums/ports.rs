//! The bound of ports: the edges of a vertex carry the links that have to leave it or come to it.

use super::super::super::network::{Link, Network};
use super::super::{Occupancy, Search};
use super::Sums;

impl Search<'_, Sums<'_>> {
    /// Whether the edges of every vertex carry the links that have to leave it or come to it: those
    /// whose other end is placed at another vertex, or cannot be placed there.
    pub(super) fn ports_suffice(&mut self, place: usize) -> bool {
        for index in 0..self.links.len() {
            let Link { from, to, rate, .. } = self.links[index];
            let at = |site: usize| (self.occupancy.place[site] <= place).then(|| self.placed[site]);
            match (at(from), at(to)) {
                (Some(start), Some(end)) if start != end => {
                    self.occupancy.rates[start as usize][0] += rate;
                    self.occupancy.rates[end as usize][1] += rate;
                }
                (Some(start), None) if !self.could_join(to, start) => {
                    self.occupancy.rates[start as usize][0] += rate;
                }
                (None, Some(end)) if !self.could_join(from, end) => {
                    self.occupancy.rates[end as usize][1] += rate;
                }
                _ => {}
            }
        }
        let mut suffice = true;
        for index in 0..=place {
            let vertex = self.placed[self.order[index]];
            let rates = std::mem::take(&mut self.occupancy.rates[vertex as usize]);
            if suffice && rates != [0; 2] {
                suffice = self.port_suffices(place, vertex, rates);
            }
        }
        suffice
    }

    /// Whether a member that is not placed could be placed at this vertex.
    fn could_join(&self, site: usize, vertex: u32) -> bool {
        (self.starts[site]..self.starts[site + 1])
            .any(|at| self.vertices[at] == vertex && self.closed[at] == 0)
            && self.occupancy.is_open(site, vertex)
    }

    /// Whether the edges of a vertex carry these rates away from it and to it.
    fn port_suffices(&mut self, place: usize, vertex: u32, rates: [u64; 2]) -> bool {
        let [away, back] = rates;
        for (ways, wanted) in
            [([true, true], away + back), ([true, false], away), ([false, true], back)]
        {
            let rate = self.occupancy.bounds.rate;
            let have: u64 = port(self.network, vertex, ways)
                .map(|resource| self.network.free[resource as usize] / rate * rate)
                .fold(0, u64::saturating_add);
            if wanted > have {
                self.note_port(place, vertex, ways, wanted - have - 1);
                return false;
            }
        }
        true
    }

    /// Notes the shortages of a vertex whose edges do not carry its links.
    fn note_port(&mut self, place: usize, vertex: u32, ways: [bool; 2], slack: u64) {
        let (network, rate) = (self.network, self.occupancy.bounds.rate);
        self.occupancy.gains.clear();
        for resource in port(network, vertex, ways) {
            if !self.occupancy.notes.has_edge(resource) {
                let (free, most) =
                    (network.free[resource as usize], network.most[resource as usize]);
                self.occupancy.gains.push((most / rate * rate - free / rate * rate, resource));
            }
        }
        self.occupancy.drop_small_gains(slack);
        for index in 0..self.occupancy.gains.len() {
            let resource = self.occupancy.gains[index].1;
            self.occupancy.notes.add_edge(resource);
        }
        for index in 0..self.links.len() {
            let Link { from, to, .. } = self.links[index];
            for (placed, other, way) in [(from, to, 0), (to, from, 1)] {
                if !ways[way]
                    || self.occupancy.place[placed] > place
                    || self.placed[placed] != vertex
                    || self.occupancy.place[other] <= place
                    || self.could_join(other, vertex)
                {
                    continue;
                }
                for at in self.starts[other]..self.starts[other + 1] {
                    if self.vertices[at] == vertex {
                        self.note_closed(place, other, at);
                    }
                }
            }
        }
    }
}

/// The resources of the edges of a vertex, for the steps away from it and the steps to it.
fn port(network: &Network, vertex: u32, ways: [bool; 2]) -> impl Iterator<Item = u32> + '_ {
    network.steps(vertex).iter().flat_map(move |step| {
        // On a shared edge both steps take the same resource.
        let back = ways[1] && !(ways[0] && step.back == step.out);
        [ways[0].then_some(step.out), back.then_some(step.back)].into_iter().flatten()
    })
}
