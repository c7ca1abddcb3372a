//! The path kernel for callers that have links and no frame: one cheapest route with a limited
//! number of links and limited latency, over open links. The tables of [`super::paths`] do the
//! work.

use super::network::{Class, Network};
use super::paths::Row;

/// Links as a network, and the memory for searching it.
pub(crate) struct Kernel {
    network: Network,
    row: Row,
}

impl Kernel {
    /// Undirected links `(a, b, microseconds)`, by index. Vertices are numbered below `vertices`,
    /// and a route has at most `links_max` links.
    pub(crate) fn new(vertices: usize, links: &[(u32, u32, u64)], links_max: usize) -> Self {
        Self { network: Network::of_links(vertices, links, links_max), row: Row::default() }
    }

    /// Sets the cost of every link. Until then each link costs 1.
    pub(crate) fn price(&mut self, cost: impl Fn(u32) -> u64) {
        self.network.price(cost);
    }

    /// The links of the cheapest route from one vertex to another, in the order of travel.
    /// `latency_max` is in microseconds.
    pub(crate) fn cheapest(
        &mut self,
        from: u32,
        to: u32,
        latency_max: Option<u64>,
        open: impl Fn(u32) -> bool,
    ) -> Option<Vec<u32>> {
        let class = Class { rate: 0, units: 1, latency_max, layer: 0 };
        self.row.fill(&self.network, class, from, true, |resource| open(resource >> 1));
        self.row.edges(to)
    }
}
