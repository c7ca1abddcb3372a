//! Islands: vertices that edges with enough free join. Sites that links join, one after the other,
//! have to be placed on one island; so they are counted against each island before any search.
//!
//! The requested sites fall into groups, by the requested links. An island is open to a group if it
//! has a vertex of its own for each site of the group. On an island that is not open, a group has
//! no candidates. What is left out here, no plan could use, so planners find the same plans sooner.
//! An edge counts if it has the least rate of the group free in either direction, in the window in
//! which a link of that window is wanted.
//!
//! Left out: lengths and latencies of routes, and how much of an edge several links need together.

use coalloc_common::topology::FrameView;
use coalloc_common::{BitsPerSecond, CoAllocation, PartWindow, Topology};

use super::admit::Candidates;

/// Disjoint sets of numbers.
struct Sets(Vec<u32>);

impl Sets {
    fn new(count: usize) -> Self {
        // Vertices and sites are few enough, see `limits`.
        Self((0..count as u32).collect())
    }

    /// The number that stands for the set of this one.
    fn find(&mut self, mut one: u32) -> u32 {
        while self.0[one as usize] != one {
            let above = self.0[self.0[one as usize] as usize];
            self.0[one as usize] = above;
            one = above;
        }
        one
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        // The lower number stands for both, so that the order of joining does not matter.
        self.0[a.max(b) as usize] = a.min(b);
    }
}

/// A group of sites that fits on no island.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IslandShortage {
    /// The sites, as indices of the request.
    pub(crate) sites: Vec<usize>,
    /// The least rate of their links.
    pub(crate) rate: BitsPerSecond,
    /// The most vertices of one island on which a site of the group may be placed.
    pub(crate) most: usize,
}

/// Leaves out the candidates of each group on islands that are not open to it.
///
/// # Errors
/// The first group for which no island is open.
pub(crate) fn narrow(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    candidates: &mut Candidates,
) -> Result<(), IslandShortage> {
    let mut groups = Sets::new(request.sites.len());
    for link in &request.links {
        groups.join(link.from as u32, link.to as u32);
    }
    for first in 0..request.sites.len() {
        if groups.find(first as u32) as usize != first {
            continue;
        }
        let sites: Vec<usize> = (first..request.sites.len())
            .filter(|s| groups.find(*s as u32) as usize == first)
            .collect();
        if sites.len() > 1 {
            let islands = islands(topology, request, view, &sites);
            narrow_group(request, &sites, islands, candidates)?;
        }
    }
    Ok(())
}

/// The islands for the links of a group of sites.
fn islands(topology: &Topology, request: &CoAllocation, view: &FrameView, sites: &[usize]) -> Sets {
    // By window, the least rate of the group's links.
    let mut least: Vec<(Option<PartWindow>, BitsPerSecond)> = Vec::new();
    for link in request.links.iter().filter(|link| sites.contains(&link.from)) {
        match least.iter_mut().find(|(window, _)| *window == link.window) {
            Some((_, rate)) => *rate = link.bandwidth.min(*rate),
            None => least.push((link.window, link.bandwidth)),
        }
    }
    let mut islands = Sets::new(topology.vertices().len());
    for (window, rate) in least {
        let lanes = topology.edges().iter().zip(&view.during(window).free_bps);
        for (edge, _) in lanes.filter(|(_, free)| free[0] >= rate || free[1] >= rate) {
            islands.join(edge.a.0, edge.b.0);
        }
    }
    islands
}

fn narrow_group(
    request: &CoAllocation,
    sites: &[usize],
    mut islands: Sets,
    candidates: &mut Candidates,
) -> Result<(), IslandShortage> {
    let mut places: Vec<u32> =
        sites.iter().flat_map(|site| candidates.of(*site)).copied().collect();
    places.sort_unstable();
    places.dedup();
    let mut counts: Vec<(u32, usize)> = Vec::new();
    for place in &places {
        let island = islands.find(*place);
        match counts.iter_mut().find(|(other, _)| *other == island) {
            Some((_, count)) => *count += 1,
            None => counts.push((island, 1)),
        }
    }
    let vertices = islands.0.len();
    let open: Vec<u32> = counts
        .iter()
        .filter(|(island, count)| {
            *count >= sites.len()
                && candidates.can_place(sites, vertices, |at| islands.find(at) == *island)
        })
        .map(|(island, _)| *island)
        .collect();
    if open.is_empty() {
        let rates = request.links.iter().filter(|link| sites.contains(&link.from));
        let rate = rates.map(|link| link.bandwidth).min().unwrap_or(BitsPerSecond(0));
        let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
        return Err(IslandShortage { sites: sites.to_vec(), rate, most });
    }
    if open.len() < counts.len() {
        candidates
            .retain(|site, vertex| !sites.contains(&site) || open.contains(&islands.find(vertex)));
    }
    Ok(())
}
