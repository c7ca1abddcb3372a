//! Checks of the tree's structure, for tests and for
//! [`Timetable::check_invariants`](crate::timetable::Timetable::check_invariants).

use super::Tree;
use crate::time::Time;
use crate::timetable::run::{Branch, Item, Level, Run, Summary};

/// What the check has counted so far.
#[derive(Default)]
struct SubtreeSummary {
    leaves: usize,
    inners: usize,
    breakpoints: usize,
    last: Option<Time>,
}

impl<const L: usize, const N: usize> Tree<L, N> {
    /// Checks the order, sizes, summaries and counts, and that every breakpoint has a change.
    pub(in crate::timetable) fn check(&self) -> Result<(), String> {
        let mut found = SubtreeSummary::default();
        self.check_below(self.root, self.height, &mut found)?;
        let (met, kept) = (
            (found.leaves, found.inners, found.breakpoints),
            (self.leaves.used(), self.inners.used(), self.count),
        );
        if met != kept {
            return Err(format!(
                "leaves, inner nodes, breakpoints: {met:?} found, {kept:?} counted"
            ));
        }
        Ok(())
    }

    fn check_below(
        &self,
        node: usize,
        height: usize,
        found: &mut SubtreeSummary,
    ) -> Result<Summary, String> {
        if height == 0 {
            return self.check_leaf(node, found);
        }
        found.inners += 1;
        let inner = &self.inners[node];
        let least = if height == self.height { 2 } else { Run::<Branch, N>::LEAST };
        if inner.len() < least {
            return Err(format!("inner node {node} has {} branches", inner.len()));
        }
        for (at, (&key, branch)) in inner.keys().iter().zip(inner.items()).enumerate() {
            if found.last.is_some_and(|last| last >= key) {
                return Err(format!(
                    "inner node {node}: key {key:?} is not after the key before it"
                ));
            }
            let first = self.first_key(branch.child, height - 1);
            if first.is_none_or(|first| first < key) {
                return Err(format!(
                    "inner node {node}: key {key:?} is later than its child's first key, {first:?}"
                ));
            }
            let summary = self.check_below(branch.child, height - 1, found)?;
            if summary != branch.summary {
                return Err(format!(
                    "inner node {node}: summary of branch {at} is not its child's"
                ));
            }
        }
        Ok(inner.summary())
    }

    fn check_leaf(&self, node: usize, found: &mut SubtreeSummary) -> Result<Summary, String> {
        found.leaves += 1;
        let leaf = &self.leaves[node];
        found.breakpoints += leaf.len();
        if self.height > 0 && leaf.len() < Run::<Level, L>::LEAST {
            return Err(format!("leaf {node} has {} breakpoints", leaf.len()));
        }
        for (&time, item) in leaf.keys().iter().zip(leaf.items()) {
            if found.last.is_some_and(|last| last >= time) {
                return Err(format!("breakpoint {time:?} is not after the one before it"));
            }
            if item.change() == Level::ZERO {
                return Err(format!("breakpoint {time:?} changes nothing"));
            }
            found.last = Some(time);
        }
        Ok(leaf.summary())
    }

    /// The first breakpoint below a node.
    fn first_key(&self, node: usize, height: usize) -> Option<Time> {
        if height == 0 {
            return self.leaves[node].keys().first().copied();
        }
        self.first_key(self.inners[node].items().first()?.child, height - 1)
    }
}
