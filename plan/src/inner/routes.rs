//! Some simple routes of a path, those with the fewest links first. The search tries them beside
//! the cheapest route.

use coalloc_common::limits;

use super::{LinkRoute, Path, Router};

/// A depth-first walk that lists the routes of exactly a given number of links.
struct Walk<'a> {
    router: &'a Router,
    steps: Vec<Vec<(u32, u32)>>,
    /// The least number of links from each vertex to the path's end.
    left: Vec<usize>,
    path: Path,
    seen: Vec<bool>,
    way: LinkRoute,
    found: Vec<LinkRoute>,
    nodes: usize,
}

impl Router {
    pub(super) fn list_ways(&self, path: usize) -> Vec<LinkRoute> {
        let path = self.paths[path];
        let mut steps = vec![Vec::new(); self.vertices];
        for (index, link) in (0u32..).zip(&self.links) {
            steps[link.a as usize].push((index, link.b));
            steps[link.b as usize].push((index, link.a));
        }
        let left = distances(&steps, path.b);
        let nearest = left[path.a as usize];
        let seen = vec![false; self.vertices];
        let (way, found, nodes) = (Vec::new(), Vec::new(), limits::INNER_WAYS_NODES);
        let mut walk = Walk { router: self, steps, left, path, seen, way, found, nodes };
        let longest = self.links_max.min(self.vertices.saturating_sub(1));
        for length in nearest..=longest {
            walk.go(path.a, length, path.latency_max);
        }
        walk.found
    }
}

impl Walk<'_> {
    fn go(&mut self, at: u32, length: usize, latency: u64) {
        if at == self.path.b && length == 0 {
            self.found.push(self.way.clone());
            return;
        }
        if at == self.path.b || self.left[at as usize] > length {
            return;
        }
        self.seen[at as usize] = true;
        for index in 0..self.steps[at as usize].len() {
            let (link, to) = self.steps[at as usize][index];
            let takes = self.router.links[link as usize].latency;
            if self.seen[to as usize] || takes > latency {
                continue;
            }
            if self.nodes == 0 || self.found.len() >= limits::INNER_WAYS {
                break;
            }
            self.nodes -= 1;
            self.way.push(link);
            self.go(to, length - 1, latency - takes);
            self.way.pop();
        }
        self.seen[at as usize] = false;
    }
}

/// The number of links from every vertex to one of them; `usize::MAX` where there is no route.
fn distances(steps: &[Vec<(u32, u32)>], to: u32) -> Vec<usize> {
    let mut left = vec![usize::MAX; steps.len()];
    left[to as usize] = 0;
    let mut reached = vec![to];
    let mut next = 0;
    while let Some(&at) = reached.get(next) {
        next += 1;
        for &(_, other) in &steps[at as usize] {
            if left[other as usize] == usize::MAX {
                left[other as usize] = left[at as usize] + 1;
                reached.push(other);
            }
        }
    }
    left
}
