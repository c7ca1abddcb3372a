//! A lower bound for requests whose remaining links form a forest: cheapest completions by dynamic
//! programming.
//!
//! Once the first sites in the order (the prefix) are placed, the links among the other sites of a
//! ring, a chain, a tree, or several of them with common sites, form a forest. The cheapest way to
//! place a whole forest is found exactly, from the leaves up, if two things are ignored: links that
//! compete for capacity (Eq. 8), and most sites that share a vertex (Eq. 5). Sharing is excluded
//! only between neighbours and between two neighbours of a third site, because otherwise a chain
//! that goes straight back would nearly always be the cheapest. To exclude it, each vertex keeps
//! its two best continuations, like 2-cycle elimination in vehicle routing (Houck et al. 1980).
//!
//! The tables are valid for one placement of the prefix. They count costs to the prefix, and leave
//! out its vertices and those closed by a symmetry.

use super::network::{Link, NONE};

/// The least cost of a subtree, for one vertex of its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Best {
    least: u64,
    /// The vertex of the child for that cost.
    to: u32,
    /// The least cost when the child is at another vertex than `to`.
    other: u64,
}

impl Best {
    const NONE: Self = Self { least: u64::MAX, to: NONE, other: u64::MAX };

    fn offer(&mut self, cost: u64, vertex: u32) {
        if cost < self.least {
            self.other = self.least;
            (self.least, self.to) = (cost, vertex);
        } else if cost < self.other {
            self.other = cost;
        }
    }

    /// The least cost when the child is not at this vertex.
    fn without(&self, vertex: u32) -> u64 {
        if self.to == vertex { self.other } else { self.least }
    }
}

/// The forest of a request, with its tables. A place is an index in the order of placing.
pub(super) struct Chains {
    /// The number of sites in the prefix.
    pub(super) prefix: usize,
    /// For each place, the place of its parent beyond the prefix, and the link to it.
    parents: Vec<Option<(usize, usize)>>,
    children: Vec<Vec<usize>>,
    /// For each place that is a child, by vertex of its parent.
    best: Vec<Vec<Best>>,
    /// For each place without a parent, the least cost of its tree.
    roots: Vec<u64>,
    ready: bool,
}

impl Chains {
    /// The forest of a request; `None` unless some tree is deeper than one link, because the tables
    /// would then add nothing.
    pub(super) fn of(links: &[Link], order: &[usize], place: &[usize]) -> Option<Self> {
        let sites = order.len();
        let prefix = (1..sites).find(|prefix| forest(links, place, *prefix, sites).is_some())?;
        let parents = forest(links, place, prefix, sites)?;
        let mut children = vec![Vec::new(); sites];
        for (child, parent) in parents.iter().enumerate() {
            if let Some((parent, _)) = parent {
                children[*parent].push(child);
            }
        }
        let deep = |child: usize| parents[child].is_some() && !children[child].is_empty();
        (0..sites).any(deep).then(|| Self {
            prefix,
            parents,
            children,
            best: vec![Vec::new(); sites],
            roots: vec![0; sites],
            ready: false,
        })
    }

    /// Whether the tables are valid.
    pub(super) const fn ready(&self) -> bool {
        self.ready
    }

    /// Called when the prefix moves: the tables are no longer valid.
    pub(super) const fn forget(&mut self) {
        self.ready = false;
    }

    /// The parent of a place, and the link to it.
    pub(super) fn parent(&self, place: usize) -> Option<(usize, usize)> {
        self.parents[place]
    }

    /// Fills one entry of a place's table: the least cost of its subtree when its parent is at
    /// vertex `at`. The tables of its children are there already. `open` are its open vertices with
    /// their own costs, and `costs` the routes between `at` and every vertex. A cost of `u64::MAX`
    /// means that there is no route.
    pub(super) fn fill(&mut self, place: usize, at: u32, open: &[(u32, u64)], costs: &[u64]) {
        let mut best = Best::NONE;
        for (vertex, own) in open {
            let way = costs[*vertex as usize];
            if way == u64::MAX || *vertex == at {
                continue;
            }
            let cost = self.below(place, *vertex, at).saturating_add(own + way);
            best.offer(cost, *vertex);
        }
        self.best[place][at as usize] = best;
    }

    /// Prepares an empty table for a place.
    pub(super) fn begin(&mut self, place: usize, vertices: usize) {
        self.best[place].clear();
        self.best[place].resize(vertices, Best::NONE);
    }

    /// Sets the least cost of the tree whose root is at this place.
    pub(super) fn root(&mut self, place: usize, open: &[(u32, u64)]) {
        let tree =
            |(vertex, own): &(u32, u64)| self.below(place, *vertex, NONE).saturating_add(*own);
        self.roots[place] = open.iter().map(tree).min().unwrap_or(u64::MAX);
    }

    /// Marks all tables as made.
    pub(super) const fn end(&mut self) {
        self.ready = true;
    }

    /// The least cost that the children of a place add when it is at `vertex` and none of them is
    /// at `not`.
    pub(super) fn below(&self, place: usize, vertex: u32, not: u32) -> u64 {
        self.children[place].iter().fold(0, |sum, child| {
            self.best[*child][vertex as usize].without(not).saturating_add(sum)
        })
    }

    /// The vertex that the children of a place must not take: that of its parent.
    pub(super) fn behind(&self, place: usize, order: &[usize], placed: &[u32]) -> u32 {
        self.parents[place].map_or(NONE, |(parent, _)| placed[order[parent]])
    }

    /// The least cost that the unplaced sites (from `place` on) add, without `but` and what is
    /// below it.
    pub(super) fn rest(&self, place: usize, but: usize, order: &[usize], placed: &[u32]) -> u64 {
        let mut sum = 0u64;
        for waiting in place..order.len() {
            if waiting == but {
                continue;
            }
            let least = match self.parents[waiting] {
                None => self.roots[waiting],
                Some((parent, _)) if parent < place => {
                    let not = self.behind(parent, order, placed);
                    self.best[waiting][placed[order[parent]] as usize].without(not)
                }
                Some(_) => 0,
            };
            sum = sum.saturating_add(least);
        }
        sum
    }
}

/// For each place, its parent and the link to it; `None` unless each site beyond the prefix has at
/// most one neighbour there that is placed before it.
fn forest(
    links: &[Link],
    place: &[usize],
    prefix: usize,
    sites: usize,
) -> Option<Vec<Option<(usize, usize)>>> {
    let mut parents = vec![None; sites];
    for (index, link) in links.iter().enumerate() {
        let (a, b) = (place[link.from], place[link.to]);
        let (parent, child) = (a.min(b), a.max(b));
        if parent < prefix {
            continue;
        }
        if parents[child].is_some() {
            return None;
        }
        parents[child] = Some((parent, index));
    }
    Some(parents)
}
