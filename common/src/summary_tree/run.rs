//! One node of the tree: a sorted run of up to `N` keyed items, stored in place.
//!
//! Leaves are runs of entries, and inner nodes are runs of branches. The same code inserts into,
//! splits, merges and balances both kinds. Left out: which nodes there are, see `summary_tree.rs`.

use super::{Entry, Summary};

/// A child of an inner node: its index in the arena, and its summary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Branch<S> {
    pub(crate) child: usize,
    pub(crate) summary: S,
}

impl<S: Summary> Branch<S> {
    /// Fills the places of a node that are not in use.
    pub(super) const NONE: Self = Self { child: usize::MAX, summary: S::EMPTY };
}

/// Up to `N` items in the order of their keys. No two keys are equal.
///
/// In an inner node, the key of a branch is a lower bound of every key below that branch, and greater
/// than every key below the previous branch.
#[derive(Debug, Clone)]
pub(crate) struct Run<K, T, const N: usize> {
    len: usize,
    keys: [K; N],
    items: [T; N],
}

impl<K: Copy + Ord, T: Copy, const N: usize> Run<K, T, N> {
    /// Least number of items of a node other than the root. A node with fewer is merged or balanced
    /// with a neighbour.
    pub(super) const LEAST: usize = N / 2 - N / 8;
    /// Two neighbours are merged when together they have at most this many items. It is less than `N`,
    /// so that a merged node takes some more items before it splits again.
    pub(super) const MERGE: usize = N - N / 4;
    /// Both halves of a split, and both nodes of a balanced pair, must have at least [`Self::LEAST`]
    /// items.
    const BOUNDS_FIT: () = assert!(
        N >= 4
            && Self::LEAST >= 2
            && N / 2 >= Self::LEAST
            && Self::MERGE.div_ceil(2) >= Self::LEAST
    );

    /// An empty run; key and item fill the places that are not in use.
    pub(super) fn new(key: K, item: T) -> Self {
        const { Self::BOUNDS_FIT };
        Self { len: 0, keys: [key; N], items: [item; N] }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }
    pub(crate) fn keys(&self) -> &[K] {
        &self.keys[..self.len]
    }
    pub(crate) fn items(&self) -> &[T] {
        &self.items[..self.len]
    }
    pub(super) fn item_mut(&mut self, at: usize) -> &mut T {
        &mut self.items[..self.len][at]
    }
    pub(super) fn set_key(&mut self, at: usize, key: K) {
        self.keys[..self.len][at] = key;
    }

    /// How many keys are `key` or less.
    pub(crate) fn count_until(&self, key: K) -> usize {
        self.keys().partition_point(|&own| own <= key)
    }
    /// How many keys are less than `key`.
    pub(crate) fn count_before(&self, key: K) -> usize {
        self.keys().partition_point(|&own| own < key)
    }

    /// The branch of an inner node under which `key` belongs. It exists: the first key of a node is
    /// the key under which its parent refers to it, and the first key of the leftmost node is
    /// [`Entry::KEY_MIN`].
    pub(crate) fn branch_at(&self, key: K) -> usize {
        self.count_until(key) - 1
    }

    /// Inserts before the item at `at`. A full run is split first, and its later half is returned.
    pub(super) fn insert(&mut self, at: usize, key: K, item: T) -> Option<Self> {
        if self.len < N {
            self.keys.copy_within(at..self.len, at + 1);
            self.items.copy_within(at..self.len, at + 1);
            (self.keys[at], self.items[at]) = (key, item);
            self.len += 1;
            return None;
        }
        let mut later = Self::new(key, item);
        let half = N / 2;
        later.append_from(self, half, N);
        self.len = half;
        // Either half has free places now, so neither of these calls splits again.
        if at <= half {
            self.insert(at, key, item);
        } else {
            later.insert(at - half, key, item);
        }
        Some(later)
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.keys.copy_within(at + 1..self.len, at);
        self.items.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }

    /// Moves items between this run and the one after it. If they are few enough, all go into this run
    /// and the other one is empty; else both have half of them.
    pub(super) fn share_with(&mut self, later: &mut Self) {
        let all = self.len + later.len;
        let here = if all <= Self::MERGE { all } else { all / 2 };
        if here < self.len {
            let moved = self.len - here;
            later.keys.copy_within(0..later.len, moved);
            later.items.copy_within(0..later.len, moved);
            later.keys[..moved].copy_from_slice(&self.keys[here..self.len]);
            later.items[..moved].copy_from_slice(&self.items[here..self.len]);
            (self.len, later.len) = (here, all - here);
        } else {
            let moved = here - self.len;
            self.append_from(later, 0, moved);
            later.keys.copy_within(moved..later.len, 0);
            later.items.copy_within(moved..later.len, 0);
            later.len -= moved;
        }
    }

    /// Copies the items `from..to` of another run to the end of this one.
    fn append_from(&mut self, other: &Self, from: usize, to: usize) {
        let end = self.len + (to - from);
        self.keys[self.len..end].copy_from_slice(&other.keys[from..to]);
        self.items[self.len..end].copy_from_slice(&other.items[from..to]);
        self.len = end;
    }
}

impl<E: Entry, const N: usize> Run<E::Key, E, N> {
    /// The summary of the entries of a leaf.
    pub(super) fn entries_summary(&self) -> E::Summary {
        let mut summary = E::Summary::EMPTY;
        for (&key, entry) in self.keys().iter().zip(self.items()) {
            entry.pass(key, &mut summary);
        }
        summary
    }
}

impl<K: Copy + Ord, S: Summary, const N: usize> Run<K, Branch<S>, N> {
    /// The summary of the branches of an inner node.
    pub(super) fn branches_summary(&self) -> S {
        let mut summary = S::EMPTY;
        for branch in self.items() {
            summary.append(&branch.summary);
        }
        summary
    }
}
