//! Routes inside one network domain: disclosed paths over the links between its switches.
//!
//! An NRM discloses paths between its end points. Inside there are switches and links, each with a
//! capacity that all paths share. A demand is so much of a path over a window; it takes one route (it
//! is never split) of at most so many links, no slower than its path. [`Router::widest`] says how much
//! one path can carry, [`Router::route`] routes all demands of an order together, and
//! [`Router::rearrange`] makes room by giving others, which have not begun, new routes.
//!
//! Which route: the fewest links first, because each link taken is one that others lack, then the
//! least loaded ones. Single demands are answered exactly: by the path kernel of [`crate::ip::exact`],
//! within its bound on links. Several at once, and rearrangements, are a bounded search: what it finds
//! fits; when it finds nothing there may still be an answer. Deterministic: ties go by index.
//!
//! Left out: splitting a demand over routes, changing its route while it runs, wavelengths and VLANs,
//! cuts that bound what several paths can carry together. Source: docs/adr/0010-inner-networks.md.

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
    /// One end.
    pub a: u32,
    /// The other end; not the same.
    pub b: u32,
    /// bit/s, shared by both directions.
    pub capacity: u64,
    /// Microseconds, one way.
    pub latency: u64,
}

/// A disclosed path, as it is seen from inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// One end.
    pub a: u32,
    /// The other end.
    pub b: u32,
    /// Microseconds its routes may take.
    pub latency_max: u64,
}

/// A route: the links from the path's `a` to its `b`.
pub type LinkRoute = Vec<u32>;

/// So much of a path over a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Index of the path.
    pub path: usize,
    /// bit/s.
    pub amount: u64,
    /// When.
    pub window: Window,
    /// The only route it may take: that of something that has begun.
    pub only: Option<LinkRoute>,
}

/// What is free of a link over a whole window, in bit/s: its minimum; negative where more is promised
/// than there is.
pub trait FreeCapacity {
    /// Of the link with this index.
    fn free(&self, link: u32, window: Window) -> i64;
}

/// A demand that found no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// Its index.
    pub demand: usize,
    /// What would have found one beside the demands before it.
    pub fits: u64,
}

/// Routes demands over one inner network.
#[derive(Debug, Clone)]
pub struct Router {
    vertices: usize,
    links: Vec<Link>,
    paths: Vec<Path>,
    links_max: usize,
    /// Some routes of every path, the fewest links first.
    ways: Vec<Vec<LinkRoute>>,
    /// Without latencies no route is too slow, and the kernel need not count.
    timed: bool,
}

impl Router {
    /// A router of these links and paths, whose vertices are numbered below `vertices`.
    ///
    /// `links_max` is within 1 to [`coalloc_common::limits::INNER_ROUTE_LINKS_MAX`].
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

    /// The least latency of any route of a path that can carry this much when nothing is booked,
    /// however slow the path may be; `None` when there is none.
    #[must_use]
    pub fn least_latency(&self, path: usize, amount: u64) -> Option<u64> {
        let mut kernel = self.kernel();
        let latency = |link: u32| self.links[link as usize].latency;
        kernel.price(latency);
        let Path { a, b, .. } = self.paths[path];
        let open = |link: u32| self.links[link as usize].capacity >= amount;
        let way = kernel.cheapest((a, b), None, open)?;
        Some(way.into_iter().map(latency).sum())
    }

    /// The most of a path that one route can carry, at most `most`, when this much is free of each link.
    #[must_use]
    pub fn widest(&self, path: usize, free: &[i64], most: u64) -> u64 {
        let fits = |amount: u64| move |link: &u32| free[*link as usize] >= signed(amount);
        let usual = self.ways[path].iter().take(2);
        if most == 0 || usual.into_iter().any(|way| way.iter().all(fits(most))) {
            return most;
        }
        // The answer is what is free on some link: the largest such amount that still has a route.
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

    /// A route for every demand, so that they fit together.
    ///
    /// # Errors
    /// [`Short`]: the first demand that finds none when they are routed in their order, and what would.
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
        kernel.cheapest((a, b), self.timed.then_some(latency_max), open)
    }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
