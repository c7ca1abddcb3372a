//! Routes inside one network domain: the paths that an NRM offers, over the links between its
//! switches.
//!
//! An NRM offers paths between its end points. Inside its domain there are switches and links, each
//! with a capacity that all paths share. A demand is an amount of one path over a window. It takes
//! one route, is never split, and the route has at most `links_max` links and no more latency than
//! its path. [`Router::widest`] says how much one path can carry. [`Router::route`] routes all
//! demands of an order together. [`Router::rearrange`] frees capacity by giving new routes to other
//! demands that have not begun.
//!
//! A route with the fewest links is preferred, because every link used is missing to others, and
//! among those the least loaded one. Single demands are answered exactly: by the path kernel of
//! [`crate::ip::exact`], within its bound on links. For several demands at once, and for
//! rearrangements, the search is bounded: what it finds fits, and when it finds nothing there may
//! still be a solution. Deterministic: ties go by index.
//!
//! Left out: splitting a demand over routes, changing its route while it runs, wavelengths and
//! VLANs, and cuts that bound what several paths can carry together. Source:
//! docs/adr/0010-inner-networks.md.

mod load;
mod rearrange;
mod routes;
mod search;
#[cfg(test)]
mod tests;

use coalloc_common::Window;

use self::load::Load;
pub use self::rearrange::{Placed, Rearranged};
use crate::ip::exact::kernel::Kernel;

/// A link between two vertices (end points of paths, or switches).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// One end, as the number of a vertex.
    pub a: u32,
    /// The other end; never the same vertex.
    pub b: u32,
    /// Capacity in bit/s, shared by both directions.
    pub capacity: u64,
    /// One-way latency in microseconds.
    pub latency: u64,
}

/// A path that the NRM offers, between two vertices of its inner network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// One end, as the number of a vertex.
    pub a: u32,
    /// The other end.
    pub b: u32,
    /// The most latency that a route of the path may have, in microseconds.
    pub latency_max: u64,
}

/// A route: the indices of its links from the path's `a` to its `b`.
pub type LinkRoute = Vec<u32>;

/// An amount of a path over a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Index of the path.
    pub path: usize,
    /// Amount in bit/s.
    pub amount: u64,
    /// The window over which it is wanted.
    pub window: Window,
    /// The only route the demand may take, because it has begun on it; `None` when any route will
    /// do.
    pub only: Option<LinkRoute>,
}

/// What is free of a link over a whole window, in bit/s: its minimum over time. It is negative
/// where more is booked than the link has.
pub trait FreeCapacity {
    /// What is free of the link with this index.
    fn free(&self, link: u32, window: Window) -> i64;
}

/// A demand for which there is no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// Index of the demand.
    pub demand: usize,
    /// The largest amount, in bit/s, for which there would have been a route beside the demands
    /// before it.
    pub fits: u64,
}

/// Routes demands over one inner network.
#[derive(Debug, Clone)]
pub struct Router {
    vertices: usize,
    links: Vec<Link>,
    paths: Vec<Path>,
    links_max: usize,
    /// Some routes of each path, those with the fewest links first.
    ways: Vec<Vec<LinkRoute>>,
    /// Whether any link has a latency. Without latencies no route is too slow, and the kernel need
    /// not add them up.
    timed: bool,
}

impl Router {
    /// A router for these links and paths. Their vertices are numbered below `vertices`.
    ///
    /// `links_max`, the most links of a route, is within 1 to
    /// [`coalloc_common::limits::INNER_ROUTE_LINKS_MAX`].
    #[must_use]
    pub fn new(vertices: usize, links: Vec<Link>, paths: Vec<Path>, links_max: usize) -> Self {
        let timed = links.iter().any(|link| link.latency > 0);
        let mut router = Self { vertices, links, paths, links_max, ways: Vec::new(), timed };
        router.ways = (0..router.paths.len()).map(|path| router.list_ways(path)).collect();
        router
    }

    /// The links, by index.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The least latency in microseconds of any route of a path that can carry this amount when
    /// nothing is booked, even if the path allows less; `None` when there is no such route.
    #[must_use]
    pub fn least_latency(&self, path: usize, amount: u64) -> Option<u64> {
        let mut kernel = self.kernel();
        let latency = |link: u32| self.links[link as usize].latency;
        kernel.price(latency);
        let Path { a, b, .. } = self.paths[path];
        let open = |link: u32| self.links[link as usize].capacity >= amount;
        let way = kernel.cheapest(a, b, None, open)?;
        Some(way.into_iter().map(latency).sum())
    }

    /// The largest amount of a path that one route can carry, up to `most`. `free` is what is free
    /// of each link.
    #[must_use]
    pub fn widest(&self, path: usize, free: &[i64], most: u64) -> u64 {
        let fits = |amount: u64| move |link: &u32| free[*link as usize] >= signed(amount);
        let usual = self.ways[path].iter().take(2);
        if most == 0 || usual.into_iter().any(|way| way.iter().all(fits(most))) {
            return most;
        }
        // The answer is what is free on some link: the largest such amount for which there is still
        // a route.
        let less = free.iter().map(|free| free.max(&0).unsigned_abs()).filter(|free| *free < most);
        let mut amounts: Vec<u64> = less.chain([0, most]).collect();
        amounts.sort_unstable();
        amounts.dedup();
        let mut kernel = self.kernel();
        let (mut low, mut high) = (0, amounts.len());
        let mut middle = high - 1;
        while low + 1 < high {
            let open = |link: u32| fits(amounts[middle])(&link);
            if self.cheapest(&mut kernel, path, open).is_some() {
                low = middle;
            } else {
                high = middle;
            }
            middle = usize::midpoint(low, high);
        }
        amounts[low]
    }

    /// A route for every demand, so that all demands fit together. `room` is what is free of the
    /// links.
    ///
    /// # Errors
    /// [`Short`]: the first demand without a route when they are routed in their order, and the
    /// amount that would have had one.
    pub fn route(
        &self,
        demands: &[Demand],
        room: &dyn FreeCapacity,
    ) -> Result<Vec<LinkRoute>, Short> {
        self.search(demands, &mut Load::new(room, self.links.len(), demands.iter()))
    }

    fn kernel(&self) -> Kernel {
        let links: Vec<_> = self.links.iter().map(|l| (l.a, l.b, l.latency)).collect();
        Kernel::new(self.vertices, &links, self.links_max)
    }

    fn cheapest(
        &self,
        kernel: &mut Kernel,
        path: usize,
        open: impl Fn(u32) -> bool,
    ) -> Option<LinkRoute> {
        let Path { a, b, latency_max } = self.paths[path];
        kernel.cheapest(a, b, self.timed.then_some(latency_max), open)
    }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
