//! An iterator over breakpoints.

use super::breakpoints::Breakpoints;
use super::level::Level;
use crate::summary_tree::SummaryTree;
use crate::time::Time;

/// Iterates over breakpoints in the order of time: each item is an instant and the level from there
/// on.
pub(super) struct Walk<'a, const L: usize, const N: usize> {
    tree: &'a SummaryTree<Level, L, N>,
    /// Inner nodes on the path from the root to `leaf`, root first, each with the index of the next
    /// branch to take.
    above: Vec<(usize, usize)>,
    leaf: usize,
    next: usize,
    level: Level,
}

impl<const L: usize, const N: usize> Walk<'_, L, N> {
    /// The level after the last item, or before the first one.
    pub(super) const fn level(&self) -> Level {
        self.level
    }
}

impl<const L: usize, const N: usize> Iterator for Walk<'_, L, N> {
    type Item = (Time, Level);

    fn next(&mut self) -> Option<(Time, Level)> {
        loop {
            let leaf = &self.tree.leaves[self.leaf];
            if let Some(&time) = leaf.keys().get(self.next) {
                self.level += leaf.items()[self.next];
                self.next += 1;
                return Some((time, self.level));
            }
            let mut node = loop {
                let (inner, at) = self.above.last_mut()?;
                if let Some(branch) = self.tree.inners[*inner].items().get(*at) {
                    *at += 1;
                    break branch.child;
                }
                self.above.pop();
            };
            while self.above.len() < self.tree.height {
                self.above.push((node, 1));
                node = self.tree.inners[node].items()[0].child;
            }
            (self.leaf, self.next) = (node, 0);
        }
    }
}

impl<const L: usize, const N: usize> Breakpoints<L, N> {
    /// All breakpoints.
    pub(super) fn walk(&self) -> Walk<'_, L, N> {
        self.walk_from(None)
    }

    /// The breakpoints after an instant. The walk begins with the level that applies at that
    /// instant.
    pub(super) fn walk_after(&self, time: Time) -> Walk<'_, L, N> {
        self.walk_from(Some(time))
    }

    fn walk_from(&self, after: Option<Time>) -> Walk<'_, L, N> {
        let tree = &self.tree;
        let mut level = Level::ZERO;
        let (mut node, mut above) = (tree.root, Vec::with_capacity(tree.height));
        while above.len() < tree.height {
            let inner = &tree.inners[node];
            let at = after.map_or(0, |time| inner.branch_at(time));
            inner.items()[..at].iter().for_each(|branch| level += branch.summary.level);
            above.push((node, at + 1));
            node = inner.items()[at].child;
        }
        let next = after.map_or(0, |time| tree.leaves[node].count_until(time));
        tree.leaves[node].items()[..next].iter().for_each(|&delta| level += delta);
        Walk { tree, above, leaf: node, next, level }
    }
}
