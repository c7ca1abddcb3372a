//! A B+-tree of level changes, keyed by instant.
//!
//! A breakpoint is an instant with the change of (held, booked) there; the level at an instant is the
//! sum of all changes up to it. Every inner node keeps, for each child, a [`Summary`]: the change over
//! the child and the extreme levels inside it, relative to the level before it. Thus adding an amount
//! over a window takes two point updates, whatever lies between them. A minimum over a window opens
//! only the nodes at its two ends. A search for the next instant at which a level is crossed opens only
//! nodes that are known to contain one. No change is propagated lazily, so reading needs no `&mut`.
//!
//! Nodes are stored in two arenas (leaves and inner nodes) and refer to each other by index. A
//! breakpoint whose change is zero is removed, so equal step functions have equal breakpoints. Left
//! out: capacities and layers, which are the timetable's.

use super::run::{Branch, Extremes, Item, Level, Run, Summary};
use crate::time::Time;

mod arena;
mod check;
mod walk;

use arena::Arena;

/// What [`Tree::seek`] looks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum SeekGoal {
    TotalAbove(i64),
    TotalAtMost(i64),
    HeldBelow(i64),
    BookedBelow(i64),
}

/// Times between which breakpoints are passed over; `None` is a bound that lies outside the node.
#[derive(Clone, Copy)]
struct Bounds {
    from: Option<Time>,
    to: Option<Time>,
}

impl SeekGoal {
    /// Is the goal met at this level?
    fn met_at(self, level: Level) -> bool {
        match self {
            Self::TotalAbove(bound) => level.total() > bound,
            Self::TotalAtMost(bound) => level.total() <= bound,
            Self::HeldBelow(bound) => level.held < bound,
            Self::BookedBelow(bound) => level.booked < bound,
        }
    }

    /// Can the goal be met inside a stretch with these extremes, when the level before the stretch is
    /// `base`?
    fn met_within(self, base: Level, inside: &Extremes) -> bool {
        match self {
            Self::TotalAbove(bound) => base.total() + inside.max_total > bound,
            Self::TotalAtMost(bound) => base.total() + inside.min_total <= bound,
            Self::HeldBelow(bound) => base.held + inside.min_held < bound,
            Self::BookedBelow(bound) => base.booked + inside.min_booked < bound,
        }
    }
}

/// The tree, with up to `L` changes in a leaf and up to `N` branches in an inner node.
#[derive(Clone)]
pub(super) struct Tree<const L: usize, const N: usize> {
    leaves: Arena<Run<Level, L>>,
    inners: Arena<Run<Branch, N>>,
    /// Index of the root in `inners`, or in `leaves` when `height` is 0.
    root: usize,
    /// Number of inner nodes on the path from the root to any leaf.
    height: usize,
    /// Number of breakpoints.
    count: usize,
}

/// The later half of a node that was split.
struct SplitNode {
    key: Time,
    branch: Branch,
}

impl<const L: usize, const N: usize> Tree<L, N> {
    pub(super) fn new() -> Self {
        let mut leaves = Arena::new();
        let root = leaves.put(Run::new());
        Self { leaves, inners: Arena::new(), root, height: 0, count: 0 }
    }

    /// Number of breakpoints.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Bytes of heap in use, unused capacity included.
    pub(super) fn heap_bytes(&self) -> usize {
        self.leaves.heap_bytes() + self.inners.heap_bytes()
    }

    /// Changes the level by `by` from `time` on.
    pub(super) fn change(&mut self, time: Time, by: Level) {
        if by == Level::ZERO {
            return;
        }
        if let Some(split) = self.change_below(self.root, self.height, time, by) {
            let summary = self.summary(self.root, self.height);
            let mut root = Run::new();
            root.insert(0, Time::MIN, Branch { child: self.root, summary });
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
            // When all bookings are gone, the memory of their nodes is freed as well.
            self.leaves.shrink_to_one(self.root);
            self.inners = Arena::new();
            self.root = 0;
        }
    }

    /// The part of [`Self::change`] below one node. Returns the later half of the node if it was split.
    fn change_below(
        &mut self,
        node: usize,
        height: usize,
        time: Time,
        by: Level,
    ) -> Option<SplitNode> {
        if height == 0 {
            return self.change_leaf(node, time, by);
        }
        let inner = &self.inners[node];
        let at = inner.branch_at(time);
        let child = inner.items()[at].child;
        let split = self.change_below(child, height - 1, time, by);
        let summary = self.summary(child, height - 1);
        self.inners[node].item_mut(at).summary = summary;
        if let Some(SplitNode { key, branch }) = split {
            let later = self.inners[node].insert(at + 1, key, branch)?;
            let (key, summary) = (later.keys()[0], later.summary());
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

    fn change_leaf(&mut self, node: usize, time: Time, by: Level) -> Option<SplitNode> {
        let leaf = &mut self.leaves[node];
        let at = leaf.count_before(time);
        if leaf.keys().get(at) == Some(&time) {
            let delta = leaf.item_mut(at);
            *delta += by;
            if *delta == Level::ZERO {
                leaf.remove(at);
                self.count -= 1;
            }
            return None;
        }
        self.count += 1;
        let later = leaf.insert(at, time, by)?;
        let (key, summary) = (later.keys()[0], later.summary());
        Some(SplitNode { key, branch: Branch { child: self.leaves.put(later), summary } })
    }

    fn summary(&self, node: usize, height: usize) -> Summary {
        if height == 0 { self.leaves[node].summary() } else { self.inners[node].summary() }
    }

    /// Has the node fewer items than a node other than the root may have?
    fn is_short(&self, node: usize, height: usize) -> bool {
        if height == 0 {
            self.leaves[node].len() < Run::<Level, L>::LEAST
        } else {
            self.inners[node].len() < Run::<Branch, N>::LEAST
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

    /// The extreme levels over `[from, to)`, including the level that applies at `from`. `from` must be
    /// before `to`.
    pub(super) fn extremes(&self, from: Time, to: Time) -> Extremes {
        let mut so_far = Summary::EMPTY;
        self.pass(self.root, self.height, Bounds { from: Some(from), to: Some(to) }, &mut so_far);
        so_far.extremes
    }

    /// Passes over the breakpoints of one node that are within the bounds. Changes up to `from` count in the
    /// level only. Of the children, only those at a bound are opened.
    fn pass(&self, node: usize, height: usize, bounds: Bounds, so_far: &mut Summary) {
        let Bounds { from, to } = bounds;
        if height == 0 {
            let leaf = &self.leaves[node];
            let first = from.map_or(0, |from| leaf.count_until(from));
            let end = to.map_or(leaf.len(), |to| leaf.count_before(to));
            if from.is_some() {
                leaf.items()[..first].iter().for_each(|item| so_far.level += item.change());
                so_far.see_level();
            }
            leaf.items()[first..end].iter().for_each(|item| item.pass(so_far));
            return;
        }
        let (inner, branches) = (&self.inners[node], self.inners[node].items());
        let last = to.map(|to| inner.count_before(to) - 1);
        let mut next = 0;
        if let Some(time) = from {
            let at = inner.branch_at(time);
            branches[..at].iter().for_each(|branch| so_far.level += branch.change());
            let to = if last == Some(at) { to } else { None };
            self.pass(branches[at].child, height - 1, Bounds { from, to }, so_far);
            next = at + 1;
        }
        let Some(last) = last else {
            branches[next..].iter().for_each(|branch| branch.pass(so_far));
            return;
        };
        if next <= last {
            branches[next..last].iter().for_each(|branch| branch.pass(so_far));
            self.pass(branches[last].child, height - 1, Bounds { from: None, to }, so_far);
        }
    }

    /// The first instant at `from` or later at which the goal is met.
    pub(super) fn seek(&self, from: Time, goal: SeekGoal) -> Option<Time> {
        let mut level = Level::ZERO;
        self.seek_below(self.root, self.height, Some(from), &mut level, goal)
    }

    /// The part of [`Self::seek`] below one node. If the goal is not met there, `level` is the level at
    /// the end of the node. It opens the child that contains `from`, and after that only a child in
    /// which the goal is known to be met.
    fn seek_below(
        &self,
        node: usize,
        height: usize,
        from: Option<Time>,
        level: &mut Level,
        goal: SeekGoal,
    ) -> Option<Time> {
        if height == 0 {
            return self.seek_leaf(node, from, level, goal);
        }
        let (inner, branches) = (&self.inners[node], self.inners[node].items());
        let mut next = 0;
        if let Some(time) = from {
            let at = inner.branch_at(time);
            branches[..at].iter().for_each(|branch| *level += branch.change());
            let found = self.seek_below(branches[at].child, height - 1, from, level, goal);
            if found.is_some() {
                return found;
            }
            next = at + 1;
        }
        for branch in &branches[next..] {
            if goal.met_within(*level, &branch.summary.extremes) {
                return self.seek_below(branch.child, height - 1, None, level, goal);
            }
            *level += branch.change();
        }
        None
    }

    fn seek_leaf(
        &self,
        node: usize,
        from: Option<Time>,
        level: &mut Level,
        goal: SeekGoal,
    ) -> Option<Time> {
        let leaf = &self.leaves[node];
        let mut next = 0;
        if let Some(time) = from {
            next = leaf.count_until(time);
            leaf.items()[..next].iter().for_each(|item| *level += item.change());
            if goal.met_at(*level) {
                return from;
            }
        }
        for (&time, item) in leaf.keys()[next..].iter().zip(&leaf.items()[next..]) {
            *level += item.change();
            if goal.met_at(*level) {
                return Some(time);
            }
        }
        None
    }
}
