//! A lower bound for requests whose rest is a forest: cheapest completions by dynamic programming.
//!
//! Once the first sites in the order (the prefix) are placed, the links among the others of a ring, a
//! chain, a tree, or several of them through common sites, form a forest. For a forest the cheapest
//! way to place all of it is found exactly, from the leaves up, when three things are set aside:
//! links that compete for capacity (Eq. 8), and sites that share a vertex (Eq. 5) unless they are
//! neighbours or both neighbours of a third: a chain that turns back on its heel would be cheapest
//! nearly always. To exclude that, each vertex keeps its two best continuations, as 2-cycle
//! elimination does in vehicle routing (Houck et al. 1980).
//!
//! The tables hold for one placement of the prefix: costs to it are counted, its vertices and those
//! that a symmetry has closed are left out.

use super::network::{Link, NONE};

/// The least cost of a subtree seen from a vertex of its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Best {
    least: u64,
    /// Where the child lands for that.
    to: u32,
    /// The least when it lands elsewhere.
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

    /// The least cost with the child not at this vertex.
    fn without(&self, vertex: u32) -> u64 {
        if self.to == vertex { self.other } else { self.least }
    }
}

/// The forest of a request and its tables. Places are places in the order of placing.
pub(super) struct Chains {
    /// How many sites the prefix has.
    pub(super) prefix: usize,
    /// By place: the place of its parent beyond the prefix, and the link to it.
    parents: Vec<Option<(usize, usize)>>,
    children: Vec<Vec<usize>>,
    /// By place of a child, by vertex of its parent.
    best: Vec<Vec<Best>>,
    /// By place without a parent: the least of its tree.
    roots: Vec<u64>,
    ready: bool,
}

impl Chains {
    /// The forest of a request, if the tables can tell anything beyond one link.
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

    /// Do the tables hold?
    pub(super) const fn ready(&self) -> bool {
        self.ready
    }

    /// The prefix moves: the tables no longer hold.
    pub(super) const fn forget(&mut self) {
        self.ready = false;
    }

    /// The parent of a place and the link to it.
    pub(super) fn parent(&self, place: usize) -> Option<(usize, usize)> {
        self.parents[place]
    }

    /// Begins the tables of a place, those of all later places being there: `open` are the vertices
    /// open to it with their costs by themselves; gives them back with their subtrees' for a parent at
    /// `at`. Costs that cannot be are `u64::MAX`.
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

    /// Makes room for the table of a place.
    pub(super) fn begin(&mut self, place: usize, vertices: usize) {
        self.best[place].clear();
        self.best[place].resize(vertices, Best::NONE);
    }

    /// The least of a tree whose root is at this place.
    pub(super) fn root(&mut self, place: usize, open: &[(u32, u64)]) {
        let tree =
            |(vertex, own): &(u32, u64)| self.below(place, *vertex, NONE).saturating_add(*own);
        self.roots[place] = open.iter().map(tree).min().unwrap_or(u64::MAX);
    }

    /// All tables are there.
    pub(super) const fn end(&mut self) {
        self.ready = true;
    }

    /// The least that the children of a place add when it is at `vertex`, none of them at `not`.
    pub(super) fn below(&self, place: usize, vertex: u32, not: u32) -> u64 {
        self.children[place].iter().fold(0, |sum, child| {
            self.best[*child][vertex as usize].without(not).saturating_add(sum)
        })
    }

    /// The vertex a place's children must not take: its parent's.
    pub(super) fn behind(&self, place: usize, order: &[usize], placed: &[u32]) -> u32 {
        self.parents[place].map_or(NONE, |(parent, _)| placed[order[parent]])
    }

    /// The least that the sites add which are neither placed (before `place`) nor below `but`.
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

/// By place its parent and the link to it, if each site beyond the prefix has at most one neighbour
/// there that is placed before it.
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
