//! Checks of the tree's structure, for tests and for the users' `check_invariants`.

use super::{Branch, Entry, Run, SummaryTree};

/// What the check has counted so far.
struct SubtreeCount<K> {
    leaves: usize,
    inners: usize,
    entries: usize,
    last: Option<K>,
}

impl<E: Entry, const L: usize, const N: usize> SummaryTree<E, L, N> {
    /// Checks the order, sizes, summaries and counts.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut found = SubtreeCount { leaves: 0, inners: 0, entries: 0, last: None };
        self.check_below(self.root, self.height, &mut found)?;
        let (met, kept) = (
            (found.leaves, found.inners, found.entries),
            (self.leaves.used(), self.inners.used(), self.count),
        );
        if met != kept {
            return Err(format!("leaves, inner nodes, entries: {met:?} found, {kept:?} counted"));
        }
        Ok(())
    }

    fn check_below(
        &self,
        node: usize,
        height: usize,
        found: &mut SubtreeCount<E::Key>,
    ) -> Result<E::Summary, String> {
        if height == 0 {
            return self.check_leaf(node, found);
        }
        found.inners += 1;
        let inner = &self.inners[node];
        let least =
            if height == self.height { 2 } else { Run::<E::Key, Branch<E::Summary>, N>::LEAST };
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
        Ok(inner.branches_summary())
    }

    fn check_leaf(
        &self,
        node: usize,
        found: &mut SubtreeCount<E::Key>,
    ) -> Result<E::Summary, String> {
        found.leaves += 1;
        let leaf = &self.leaves[node];
        found.entries += leaf.len();
        if self.height > 0 && leaf.len() < Run::<E::Key, E, L>::LEAST {
            return Err(format!("leaf {node} has {} entries", leaf.len()));
        }
        for &key in leaf.keys() {
            if found.last.is_some_and(|last| last >= key) {
                return Err(format!("entry {key:?} is not after the one before it"));
            }
            found.last = Some(key);
        }
        Ok(leaf.entries_summary())
    }

    /// The first key below a node.
    fn first_key(&self, node: usize, height: usize) -> Option<E::Key> {
        if height == 0 {
            return self.leaves[node].keys().first().copied();
        }
        self.first_key(self.inners[node].items().first()?.child, height - 1)
    }
}
