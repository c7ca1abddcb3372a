//! What each choice of a planner costs: the one number that a planner minimises, as data.
//!
//! A plan's cost is a sum: of each requested site at the vertex it lands on, and of each requested
//! link over the steps of its route. What the numbers mean is the caller's business: unit values
//! (Eq. 3 of Takefusa 2010), or several objectives packed into one number. Planners only add.
//!
//! Two requested sites with equal CPUs cost the same everywhere, and a link costs by step in
//! proportion to its rate, both by construction: planners use either.

use coalloc_common::topology::Direction;
use coalloc_common::{BitsPerSecond, CoAllocation, Cpus, EdgeIndex, Topology, VertexIndex};

use crate::Route;

/// Costs of one request in one frame. The sum over any plan stays below 2^63, see
/// [`Costs::preference`] and [`Costs::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// By distinct number of CPUs, then by vertex.
    rows: Vec<Vec<u64>>,
    /// Row by requested site.
    row_of: Vec<usize>,
    /// By edge and [`Direction::at`], for each unit of rate.
    edges: Vec<[u64; 2]>,
    /// Mbit/s of one unit of rate.
    rate_unit_mbps: u64,
}

/// Whole Mbit/s of a rate, rounded up: what links are counted in.
#[must_use]
pub const fn mbps(rate: BitsPerSecond) -> u64 {
    rate.0.div_ceil(1_000_000)
}

impl Costs {
    /// Costs by these two functions: of that many CPUs at a vertex, and of one unit of rate on a step.
    /// A unit of rate is the greatest common divisor of all requested rates in Mbit/s, see
    /// [`Costs::rate_unit_mbps`].
    ///
    /// The caller sees to it that no plan's sum reaches 2^63.
    #[must_use]
    pub fn new(
        topology: &Topology,
        request: &CoAllocation,
        site: impl Fn(Cpus, VertexIndex) -> u64,
        step: impl Fn(EdgeIndex, Direction) -> u64,
    ) -> Self {
        let mut amounts: Vec<Cpus> = Vec::new();
        let mut row_of = Vec::with_capacity(request.sites.len());
        for demand in &request.sites {
            let known = amounts.iter().position(|cpus| *cpus == demand.cpus);
            row_of.push(known.unwrap_or(amounts.len()));
            if known.is_none() {
                amounts.push(demand.cpus);
            }
        }
        // At most VERTICES_MAX and EDGES_MAX.
        let vertices = 0..topology.vertices().len() as u32;
        let row = |cpus: &Cpus| vertices.clone().map(|at| site(*cpus, VertexIndex(at))).collect();
        let edges = 0..topology.edges().len() as u32;
        let lanes = |edge| [Direction::AToB, Direction::BToA].map(|way| step(EdgeIndex(edge), way));
        Self {
            rows: amounts.iter().map(row).collect(),
            row_of,
            edges: edges.map(lanes).collect(),
            rate_unit_mbps: rate_unit_mbps(request),
        }
    }

    /// Eq. (3): unit value times amount, in thousandths of a point. `limits` keeps the sum below 2^63.
    #[must_use]
    pub fn preference(topology: &Topology, request: &CoAllocation) -> Self {
        let unit = rate_unit_mbps(request);
        let site = |cpus, at| {
            let compute = topology.vertex(at).compute.as_ref();
            compute.map_or(0, |compute| compute.unit_value.of_cpus(cpus).milli)
        };
        // Points per Gbit/s are milli-points per Mbit/s.
        let step = |edge, _| topology.edge(edge).unit_value.0 * unit;
        Self::new(topology, request, site, step)
    }

    /// Cost of a requested site at a vertex; nothing at an exchange point.
    #[must_use]
    pub fn site(&self, site: usize, vertex: VertexIndex) -> u64 {
        self.rows[self.row_of[site]][vertex.at()]
    }

    /// Cost of a step for each unit of rate.
    #[must_use]
    pub fn step_unit(&self, edge: EdgeIndex, direction: Direction) -> u64 {
        self.edges[edge.at()][direction.at()]
    }

    /// How many units of rate a requested link counts.
    #[must_use]
    pub const fn rate_units(&self, rate: BitsPerSecond) -> u64 {
        mbps(rate).div_ceil(self.rate_unit_mbps)
    }

    /// Cost of a step for a requested link of this rate.
    #[must_use]
    pub fn step(&self, edge: EdgeIndex, direction: Direction, rate: BitsPerSecond) -> u64 {
        self.step_unit(edge, direction).saturating_mul(self.rate_units(rate))
    }

    /// Cost of a whole plan of the request these costs are for.
    #[must_use]
    pub fn plan(&self, request: &CoAllocation, sites: &[VertexIndex], routes: &[Route]) -> u64 {
        let placed = sites.iter().enumerate().map(|(site, at)| self.site(site, *at));
        let routed = request.links.iter().zip(routes).flat_map(|(link, route)| {
            route.iter().map(|(edge, way)| self.step(*edge, *way, link.bandwidth))
        });
        placed.chain(routed).fold(0, u64::saturating_add)
    }
}

/// The greatest common divisor of all requested rates, in Mbit/s; 1 without links.
#[must_use]
pub fn rate_unit_mbps(request: &CoAllocation) -> u64 {
    request.links.iter().fold(0, |unit, link| gcd(unit, mbps(link.bandwidth))).max(1)
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
