//! The cheapest way for several links of one site to leave a vertex together: a bound that sees
//! that they share what is free around it.
//!
//! Each of the links ends at another vertex, so the cheapest flow of as many units from the vertex
//! to different other vertices costs no more (Ahuja, Magnanti and Orlin 1993, section 9.7:
//! successive shortest paths). An edge carries as many units as it has times the least rate of the
//! links free. Where there is no such flow, the site cannot be placed at the vertex.
//!
//! Left out: N_max, latencies, the costs of the sites at the other ends, edges with a capacity for
//! each direction, and links with windows of their own. They would only raise the bound.

use super::network::{NONE, Network};

/// At most this many steps are looked at for all vertices together, so that the bounds take some
/// milliseconds. In larger federations there are none.
const WORK_MAX: usize = 1 << 22;

/// Scratch memory for flows in one network.
pub(super) struct Fan<'a> {
    network: &'a Network,
    /// The cost of each step for the cheapest of the links, by code.
    units: u64,
    /// How many units each resource carries.
    room: Vec<i64>,
    /// The units on each edge, from a to b, by resource; negative the other way.
    flow: Vec<i64>,
    ends: Vec<bool>,
    distance: Vec<i64>,
    previous: Vec<(u32, u32)>,
}

impl<'a> Fan<'a> {
    /// For links of at least this rate, each counted with at least this many units of cost. `None`
    /// where the bound does not apply.
    pub(super) fn new(network: &'a Network, rate: u64, units: u64, links: usize) -> Option<Self> {
        let vertices = network.vertices();
        let steps: usize = (0..vertices as u32).map(|vertex| network.steps(vertex).len()).sum();
        // A shortest path takes a few rounds over all steps.
        let work = vertices.saturating_mul(links).saturating_mul(steps).saturating_mul(4);
        if !network.reversible || network.periods > 1 || rate == 0 || work > WORK_MAX {
            return None;
        }
        // More units than links are no use.
        let room = network.free.iter().map(|free| (free / rate).min(1 << 16) as i64).collect();
        Some(Self {
            network,
            units,
            room,
            flow: vec![0; network.free.len()],
            ends: vec![false; vertices],
            distance: Vec::new(),
            previous: Vec::new(),
        })
    }

    /// The least cost of this many links from a vertex to different other vertices that are marked;
    /// `None` when they cannot all leave it.
    pub(super) fn least(&mut self, vertex: u32, links: usize, marked: &[bool]) -> Option<u64> {
        self.flow.fill(0);
        self.ends.clone_from_slice(marked);
        self.ends[vertex as usize] = false;
        let mut whole = 0u64;
        for _ in 0..links {
            self.shortest(vertex);
            // Ends that have a unit already keep it: a shortest path never gives one back.
            let open = (0..self.ends.len()).filter(|end| self.ends[*end]);
            let end = open.min_by_key(|end| (self.distance[*end], *end))?;
            let cost = self.distance[end];
            if cost == i64::MAX {
                return None;
            }
            whole = whole.saturating_add(cost.unsigned_abs());
            self.ends[end] = false;
            let mut at = end as u32;
            while at != vertex {
                let (before, code) = self.previous[at as usize];
                self.flow[(code & !1) as usize] += if code & 1 == 0 { 1 } else { -1 };
                at = before;
            }
        }
        Some(whole)
    }

    /// The cheapest distances from a vertex, where a unit may be taken back from an edge.
    fn shortest(&mut self, vertex: u32) {
        let vertices = self.network.vertices();
        self.distance.clear();
        self.distance.resize(vertices, i64::MAX);
        self.previous.clear();
        self.previous.resize(vertices, (NONE, NONE));
        self.distance[vertex as usize] = 0;
        for _ in 0..vertices {
            let mut changed = false;
            for from in 0..vertices as u32 {
                let before = self.distance[from as usize];
                if before == i64::MAX {
                    continue;
                }
                for step in self.network.steps(from) {
                    let edge = (step.code & !1) as usize;
                    let along = if step.code & 1 == 0 { self.flow[edge] } else { -self.flow[edge] };
                    // Costs stay far below 2^62, see `limits`.
                    let cost = step.unit.saturating_mul(self.units).min(1 << 60) as i64;
                    let cost = match along {
                        ..0 => -cost,
                        _ if along < self.room[step.out as usize] => cost,
                        _ => continue,
                    };
                    let offer = before.saturating_add(cost);
                    if offer < self.distance[step.to as usize] {
                        self.distance[step.to as usize] = offer;
                        self.previous[step.to as usize] = (from, step.code);
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
    }
}
