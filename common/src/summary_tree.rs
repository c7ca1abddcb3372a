//! A B+-tree whose nodes keep a summary of what is below them, so that a query opens only the nodes
//! that can contain its answer.
//!
//! [`Timetable`](crate::timetable::Timetable) keys level changes by instant and summarises the extreme
//! levels; the index of idle servers ([`crate::servers`]) keys idle periods by start and server and
//! summarises their ends. What an entry is and how it is summarised is said by [`Entry`] and
//! [`Summary`]; the queries are the users' own and walk the nodes themselves.
//!
//! Nodes are stored in two arenas (leaves and inner nodes) and refer to each other by index. Left out:
//! every query.

mod arena;
mod check;
mod run;

use arena::Arena;
pub(crate) use run::{Branch, Run};

/// What a leaf keeps for a key.
pub(crate) trait Entry: Copy + Default {
    /// The order of the entries.
    type Key: Copy + Ord + std::fmt::Debug;
    /// What an inner node keeps of the entries below it.
    type Summary: Summary;
    /// At most as great as any key.
    const KEY_MIN: Self::Key;

    /// Includes this entry in the summary of the entries before it.
    fn pass(&self, key: Self::Key, so_far: &mut Self::Summary);
}

/// A summary of a run of entries.
pub(crate) trait Summary: Copy + PartialEq {
    /// The summary of no entries.
    const EMPTY: Self;

    /// Includes the summary of the entries that follow.
    fn append(&mut self, later: &Self);
}

/// The tree, with up to `L` entries in a leaf and up to `N` branches in an inner node.
#[derive(Clone)]
pub(crate) struct SummaryTree<E: Entry, const L: usize, const N: usize> {
    pub(crate) leaves: Arena<Run<E::Key, E, L>>,
    pub(crate) inners: Arena<Run<E::Key, Branch<E::Summary>, N>>,
    /// Index of the root in `inners`, or in `leaves` when `height` is 0.
    pub(crate) root: usize,
    /// Number of inner nodes on the path from the root to any leaf.
    pub(crate) height: usize,
    /// Number of entries.
    count: usize,
}

/// The later half of a node that was split.
struct SplitNode<E: Entry> {
    key: E::Key,
    branch: Branch<E::Summary>,
}

impl<E: Entry, const L: usize, const N: usize> SummaryTree<E, L, N> {
    pub(crate) fn new() -> Self {
        let mut leaves = Arena::new();
        let root = leaves.put(Run::new(E::KEY_MIN, E::default()));
        Self { leaves, inners: Arena::new(), root, height: 0, count: 0 }
    }

    /// Number of entries.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Bytes of heap in use, unused capacity included.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.leaves.heap_bytes() + self.inners.heap_bytes()
    }

    /// Changes the entry of a key: `edit` gets it, if there is one, and returns what is to be kept.
    pub(crate) fn edit(&mut self, key: E::Key, edit: impl FnOnce(Option<E>) -> Option<E>) {
        if let Some(split) = self.edit_below(self.root, self.height, key, edit) {
            let summary = self.summary(self.root, self.height);
            let mut root = Run::new(E::KEY_MIN, Branch::NONE);
            root.insert(0, E::KEY_MIN, Branch { child: self.root, summary });
            root.insert(1, split.key, split.branch);
            self.root = self.inners.put(root);
            self.height += 1;
        }
        if self.height > 0
            && let [only] = self.inners[self.root].items()
        {
            let child = only.child;
            self.inners.free(self.root);
            self.root = child;
            self.height -= 1;
        }
        if self.count == 0 {
            // When all entries are gone, the memory of their nodes is freed as well.
            self.leaves.shrink_to_one(self.root);
            self.inners = Arena::new();
            self.root = 0;
        }
    }

    /// The part of [`Self::edit`] below one node. Returns the later half of the node if it was split.
    fn edit_below(
        &mut self,
        node: usize,
        height: usize,
        key: E::Key,
        edit: impl FnOnce(Option<E>) -> Option<E>,
    ) -> Option<SplitNode<E>> {
        if height == 0 {
            return self.edit_leaf(node, key, edit);
        }
        let inner = &self.inners[node];
        let at = inner.branch_at(key);
        let child = inner.items()[at].child;
        let split = self.edit_below(child, height - 1, key, edit);
        let summary = self.summary(child, height - 1);
        self.inners[node].item_mut(at).summary = summary;
        if let Some(SplitNode { key, branch }) = split {
            let later = self.inners[node].insert(at + 1, key, branch)?;
            let (key, summary) = (later.keys()[0], later.branches_summary());
            return Some(SplitNode {
                key,
                branch: Branch { child: self.inners.put(later), summary },
            });
        }
        if self.is_short(child, height - 1) {
            self.refill(node, height, at);
        }
        None
    }

    fn edit_leaf(
        &mut self,
        node: usize,
        key: E::Key,
        edit: impl FnOnce(Option<E>) -> Option<E>,
    ) -> Option<SplitNode<E>> {
        let leaf = &mut self.leaves[node];
        let at = leaf.count_before(key);
        if leaf.keys().get(at) == Some(&key) {
            let entry = leaf.item_mut(at);
            match edit(Some(*entry)) {
                Some(kept) => *entry = kept,
                None => {
                    leaf.remove(at);
                    self.count -= 1;
                }
            }
            return None;
        }
        let new = edit(None)?;
        self.count += 1;
        let later = leaf.insert(at, key, new)?;
        let (key, summary) = (later.keys()[0], later.entries_summary());
        Some(SplitNode { key, branch: Branch { child: self.leaves.put(later), summary } })
    }

    fn summary(&self, node: usize, height: usize) -> E::Summary {
        if height == 0 {
            self.leaves[node].entries_summary()
        } else {
            self.inners[node].branches_summary()
        }
    }

    /// Has the node fewer items than a node other than the root may have?
    fn is_short(&self, node: usize, height: usize) -> bool {
        if height == 0 {
            self.leaves[node].len() < Run::<E::Key, E, L>::LEAST
        } else {
            self.inners[node].len() < Run::<E::Key, Branch<E::Summary>, N>::LEAST
        }
    }

    /// Merges or balances the child at `at` of an inner node, which has too few items, with a
    /// neighbour.
    fn refill(&mut self, node: usize, height: usize, at: usize) {
        // Every inner node has at least two children: the root because it collapses otherwise, the
        // others by `LEAST`.
        let earlier_at = at.saturating_sub(1);
        let branches = self.inners[node].items();
        let (earlier, later) = (branches[earlier_at].child, branches[earlier_at + 1].child);
        let later_key = if height == 1 {
            self.leaves.with_two(earlier, later, Run::share_with);
            self.leaves[later].keys().first().copied()
        } else {
            self.inners.with_two(earlier, later, Run::share_with);
            self.inners[later].keys().first().copied()
        };
        self.inners[node].item_mut(earlier_at).summary = self.summary(earlier, height - 1);
        if let Some(key) = later_key {
            self.inners[node].set_key(earlier_at + 1, key);
            let summary = self.summary(later, height - 1);
            self.inners[node].item_mut(earlier_at + 1).summary = summary;
            return;
        }
        self.inners[node].remove(earlier_at + 1);
        if height == 1 {
            self.leaves.free(later);
        } else {
            self.inners.free(later);
        }
    }
}
