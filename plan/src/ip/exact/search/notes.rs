//! The shortages that a proof has used, when it shows that no placement fits.
//!
//! A shortage is noted only if the resource could have enough free: what lacks capacity would be
//! missing in any frame. So the proof still holds in a view in which every resource that is not
//! noted is entirely free.
//!
//! A search notes many vertices that no route joins. These notes become edges once, at the end.

use std::collections::BTreeSet;

use super::super::network::{Class, Network};
use super::super::paths::Row;

/// No route of a class leads from one vertex to another (or back, unless `away`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gap {
    pub(super) class: usize,
    pub(super) vertex: u32,
    pub(super) away: bool,
    pub(super) other: u32,
}

/// Shortages, by resource.
#[derive(Clone)]
pub(in super::super) struct Notes {
    kinds: usize,
    /// By vertex and kind.
    sites: Vec<bool>,
    /// By resource code.
    edges: Vec<bool>,
    gaps: BTreeSet<Gap>,
}

impl Notes {
    /// No shortage has been noted.
    pub(in super::super) fn new(network: &Network, kinds: usize) -> Self {
        Self {
            kinds,
            sites: vec![false; network.vertices() * kinds],
            edges: vec![false; network.free.len()],
            gaps: BTreeSet::new(),
        }
    }

    /// Forgets all shortages.
    pub(in super::super) fn clear(&mut self) {
        self.sites.fill(false);
        self.edges.fill(false);
        self.gaps.clear();
    }

    pub(super) fn has_site(&self, vertex: u32, kind: usize) -> bool {
        self.sites[vertex as usize * self.kinds + kind]
    }

    pub(super) fn add_site(&mut self, vertex: u32, kind: usize) {
        self.sites[vertex as usize * self.kinds + kind] = true;
    }

    pub(super) fn has_edge(&self, resource: u32) -> bool {
        self.edges[resource as usize]
    }

    pub(super) fn add_edge(&mut self, resource: u32) {
        self.edges[resource as usize] = true;
    }

    pub(super) fn has_gap(&self, gap: &Gap) -> bool {
        self.gaps.contains(gap)
    }

    pub(super) fn add_gap(&mut self, gap: Gap) {
        self.gaps.insert(gap);
    }

    /// The vertices and kinds of which too little is free.
    pub(in super::super) fn sites(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        let noted = self.sites.iter().enumerate().filter(|(_, noted)| **noted);
        // There are at most VERTICES_MAX vertices, so the cast keeps the value.
        noted.map(|(at, _)| ((at / self.kinds) as u32, at % self.kinds))
    }

    /// The codes of the edges of which too little is free. Notes edges for every gap first: enough
    /// of them that no route leads across the gap if all other edges are entirely free.
    pub(in super::super) fn edges(
        &mut self,
        network: &Network,
        classes: &[Class],
    ) -> impl Iterator<Item = u32> + '_ {
        let mut row = Row::default();
        for gap in &self.gaps {
            let class = classes[gap.class];
            let short = |resource: u32| network.free[resource as usize] < class.rate;
            loop {
                row.fill(network, class, gap.vertex, gap.away, |resource| {
                    network.most[resource as usize] >= class.rate
                        && !(short(resource) && self.edges[resource as usize])
                });
                let Some(path) = row.path(gap.other) else { break };
                let resources = path.codes().iter().map(|code| network.resource(*code) as u32);
                // The route does not exist in the view, so one of its edges is short.
                let Some(resource) = resources.into_iter().find(|at| short(*at)) else { break };
                self.edges[resource as usize] = true;
            }
        }
        (0u32..).zip(&self.edges).filter(|(_, noted)| **noted).map(|(code, _)| code)
    }
}
