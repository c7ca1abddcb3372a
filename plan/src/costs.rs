//! The cost of each choice of a planner, as data. The sum of these costs is the one number that a
//! planner minimises.
//!
//! A plan's cost is the sum over each requested site at its vertex and over each requested link at
//! the steps of its route. The caller decides what the numbers mean: unit values (Eq. 3 of Takefusa
//! 2010), or several objectives packed into one number. Planners only add them up.
//!
//! Two requested sites that want the same amounts in the same windows cost the same at every vertex. The cost of a
//! link at a step is proportional to its rate, among links with the same window. Both hold by construction, and
//! planners rely on both.

use coalloc_common::topology::Direction;
use coalloc_common::{
    BitsPerSecond, CoAllocation, EdgeIndex, PartWindow, SiteDemand, Topology, VertexIndex,
};

use crate::Route;

/// Costs of one request in one frame. The sum over any plan stays below 2^63, see
/// [`Costs::preference`] and [`Costs::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// The cost of each site, by distinct amounts and then by vertex.
    rows: Vec<Vec<u64>>,
    /// The index into `rows` of each requested site.
    row_of: Vec<usize>,
    /// The cost of one unit of rate, by distinct window of links, then by edge, then by [`Direction::at`].
    lanes: Vec<[u64; 2]>,
    /// Where the costs of each requested link begin in `lanes`. Empty if no link has a window of its own.
    lanes_of: Vec<usize>,
    /// One unit of rate, in Mbit/s.
    rate_unit_mbps: u64,
}

/// A rate in whole Mbit/s, rounded up. Links are counted in this unit.
#[must_use]
pub const fn mbps(rate: BitsPerSecond) -> u64 {
    rate.0.div_ceil(1_000_000)
}

impl Costs {
    /// Builds the costs from two functions. `site` gives the cost of a demand at a vertex, by its
    /// amounts and their windows alone, and `step` the cost of one unit of rate on a step for links with this window. A
    /// unit of rate is the greatest common divisor of all requested rates in Mbit/s, see [`Costs::rate_unit_mbps`].
    ///
    /// The caller ensures that no plan's sum reaches 2^63.
    #[must_use]
    pub fn new(
        topology: &Topology,
        request: &CoAllocation,
        site: impl Fn(&SiteDemand, VertexIndex) -> u64,
        step: impl Fn(Option<PartWindow>, EdgeIndex, Direction) -> u64,
    ) -> Self {
        let mut amounts: Vec<&SiteDemand> = Vec::new();
        let mut row_of = Vec::with_capacity(request.sites.len());
        for demand in &request.sites {
            let known = amounts.iter().position(|other| other.wants_as(demand));
            row_of.push(known.unwrap_or(amounts.len()));
            if known.is_none() {
                amounts.push(demand);
            }
        }
        // There are at most VERTICES_MAX vertices and EDGES_MAX edges, so the casts keep the
        // values.
        let vertices = 0..topology.vertices().len() as u32;
        let row = |demand: &&SiteDemand| {
            vertices.clone().map(|at| site(demand, VertexIndex(at))).collect()
        };
        let edges = 0..topology.edges().len() as u32;
        let lanes = |window: Option<PartWindow>| {
            let both = [Direction::AToB, Direction::BToA];
            edges.clone().map(|edge| both.map(|way| step(window, EdgeIndex(edge), way))).collect()
        };
        let first: Vec<[u64; 2]> = lanes(request.links.first().and_then(|link| link.window));
        let (lanes, lanes_of) = match request.links.iter().any(|link| link.window.is_some()) {
            true => by_window(request, first, lanes),
            false => (first, Vec::new()),
        };
        Self {
            rows: amounts.iter().map(row).collect(),
            row_of,
            lanes,
            lanes_of,
            rate_unit_mbps: rate_unit_mbps(request),
        }
    }

    /// Costs by Eq. (3): unit value times amount, in thousandths of a point. The bounds in `limits`
    /// keep the sum below 2^63.
    #[must_use]
    pub fn preference(topology: &Topology, request: &CoAllocation) -> Self {
        let unit = rate_unit_mbps(request);
        let site = |demand: &SiteDemand, at| topology.vertex(at).value_of(demand);
        // Points per Gbit/s are milli-points per Mbit/s.
        let step = |_, edge, _| topology.edge(edge).unit_value.0 * unit;
        Self::new(topology, request, site, step)
    }

    /// Cost of a requested site at a vertex; 0 at an exchange point.
    #[must_use]
    pub fn site(&self, site: usize, vertex: VertexIndex) -> u64 {
        self.rows[self.row_of[site]][vertex.at()]
    }

    /// Cost of one unit of rate on a step for a requested link. In a request without links, any link costs as much as
    /// one without a window of its own.
    #[must_use]
    pub fn step_unit(&self, link: usize, edge: EdgeIndex, direction: Direction) -> u64 {
        let lanes = self.lanes_of.get(link).copied().unwrap_or(0);
        self.lanes[lanes + edge.at()][direction.at()]
    }

    /// How many units of rate a rate is, rounded up.
    #[must_use]
    pub const fn rate_units(&self, rate: BitsPerSecond) -> u64 {
        mbps(rate).div_ceil(self.rate_unit_mbps)
    }

    /// Cost of a step for a requested link, which has this rate.
    #[must_use]
    pub fn step(
        &self,
        link: usize,
        edge: EdgeIndex,
        direction: Direction,
        rate: BitsPerSecond,
    ) -> u64 {
        self.step_unit(link, edge, direction).saturating_mul(self.rate_units(rate))
    }

    /// Cost of a whole plan. `request` is the one these costs are for.
    #[must_use]
    pub fn plan(&self, request: &CoAllocation, sites: &[VertexIndex], routes: &[Route]) -> u64 {
        let placed = sites.iter().enumerate().map(|(site, at)| self.site(site, *at));
        let routed =
            request.links.iter().zip(routes).enumerate().flat_map(|(at, (link, route))| {
                route.iter().map(move |(edge, way)| self.step(at, *edge, *way, link.bandwidth))
            });
        placed.chain(routed).fold(0, u64::saturating_add)
    }
}

/// The costs of steps for the windows of all links, one after the other, and where those of each link begin. `first`
/// are those for the window of the first link.
fn by_window(
    request: &CoAllocation,
    first: Vec<[u64; 2]>,
    lanes: impl Fn(Option<PartWindow>) -> Vec<[u64; 2]>,
) -> (Vec<[u64; 2]>, Vec<usize>) {
    let (edges, mut all) = (first.len(), first);
    let mut windows: Vec<Option<PartWindow>> = Vec::new();
    let mut begin = Vec::with_capacity(request.links.len());
    for link in &request.links {
        let known = windows.iter().position(|other| *other == link.window);
        begin.push(known.unwrap_or(windows.len()) * edges);
        if known.is_none() {
            if !windows.is_empty() {
                all.extend(lanes(link.window));
            }
            windows.push(link.window);
        }
    }
    (all, begin)
}

/// The greatest common divisor of all requested rates, in Mbit/s; 1 without links.
#[must_use]
pub fn rate_unit_mbps(request: &CoAllocation) -> u64 {
    request.links.iter().fold(0, |unit, link| gcd(unit, mbps(link.bandwidth))).max(1)
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
