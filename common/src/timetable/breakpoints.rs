//! The instants at which a timetable's levels change, in a tree that finds extreme levels.
//!
//! A breakpoint is an instant with the change of (held, booked) there; the level at an instant is the
//! sum of all changes up to it. Every inner node keeps, for each child, the change over the child and
//! the extreme levels inside it, relative to the level before it ([`Stretch`]). Thus adding an amount
//! over a window takes two point updates, whatever lies between them. A minimum over a window opens
//! only the nodes at its two ends. A search for the next instant at which a level is crossed opens only
//! nodes that are known to contain one. No change is propagated lazily, so reading needs no `&mut`.
//!
//! A breakpoint whose change is zero is removed, so equal step functions have equal breakpoints. Left
//! out: capacities and layers, which are the timetable's, and the nodes, which are
//! [`crate::summary_tree`]'s.

use super::level::{Extremes, Level, Stretch};
use crate::summary_tree::{Entry as _, Summary as _, SummaryTree};
use crate::time::Time;

/// What [`Breakpoints::seek`] looks for.
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

/// The breakpoints, with up to `L` of them in a leaf and up to `N` branches in an inner node.
#[derive(Clone)]
pub(super) struct Breakpoints<const L: usize, const N: usize> {
    pub(super) tree: SummaryTree<Level, L, N>,
}

impl<const L: usize, const N: usize> Breakpoints<L, N> {
    pub(super) fn new() -> Self {
        Self { tree: SummaryTree::new() }
    }

    /// Changes the level by `by` from `time` on.
    pub(super) fn change(&mut self, time: Time, by: Level) {
        self.tree.edit(time, |change| {
            let mut change = change.unwrap_or_default();
            change += by;
            (change != Level::ZERO).then_some(change)
        });
    }

    /// Removes the breakpoints before an instant, but for the last of them. It gets the level that was
    /// there, so the levels from it on stay the same.
    pub(super) fn forget_before(&mut self, time: Time) {
        let mut past: Vec<(Time, Level)> = self.walk().take_while(|(at, _)| *at < time).collect();
        let Some((last, level)) = past.pop().filter(|_| !past.is_empty()) else { return };
        for (at, _) in past {
            self.tree.edit(at, |_| None);
        }
        self.tree.edit(last, |_| (level != Level::ZERO).then_some(level));
    }

    /// Checks the structure, and that every breakpoint has a change.
    pub(super) fn check(&self) -> Result<(), String> {
        self.tree.check()?;
        let mut before = Level::ZERO;
        for (time, level) in self.walk() {
            if level == before {
                return Err(format!("breakpoint {time:?} changes nothing"));
            }
            before = level;
        }
        Ok(())
    }

    /// The extreme levels over `[from, to)`, including the level that applies at `from`. `from` must be
    /// before `to`.
    pub(super) fn extremes(&self, from: Time, to: Time) -> Extremes {
        let mut so_far = Stretch::EMPTY;
        self.pass(
            self.tree.root,
            self.tree.height,
            Bounds { from: Some(from), to: Some(to) },
            &mut so_far,
        );
        so_far.extremes
    }

    /// Passes over the breakpoints of one node that are within the bounds. Changes up to `from` count in the
    /// level only. Of the children, only those at a bound are opened.
    fn pass(&self, node: usize, height: usize, bounds: Bounds, so_far: &mut Stretch) {
        let Bounds { from, to } = bounds;
        if height == 0 {
            let leaf = &self.tree.leaves[node];
            let first = from.map_or(0, |from| leaf.count_until(from));
            let end = to.map_or(leaf.len(), |to| leaf.count_before(to));
            if from.is_some() {
                leaf.items()[..first].iter().for_each(|item| so_far.level += *item);
                so_far.see_level();
            }
            for (&time, item) in leaf.keys()[first..end].iter().zip(&leaf.items()[first..end]) {
                item.pass(time, so_far);
            }
            return;
        }
        let (inner, branches) = (&self.tree.inners[node], self.tree.inners[node].items());
        let last = to.map(|to| inner.count_before(to) - 1);
        let mut next = 0;
        if let Some(time) = from {
            let at = inner.branch_at(time);
            branches[..at].iter().for_each(|branch| so_far.level += branch.summary.level);
            let to = if last == Some(at) { to } else { None };
            self.pass(branches[at].child, height - 1, Bounds { from, to }, so_far);
            next = at + 1;
        }
        let Some(last) = last else {
            branches[next..].iter().for_each(|branch| so_far.append(&branch.summary));
            return;
        };
        if next <= last {
            branches[next..last].iter().for_each(|branch| so_far.append(&branch.summary));
            self.pass(branches[last].child, height - 1, Bounds { from: None, to }, so_far);
        }
    }

    /// The first instant at `from` or later at which the goal is met.
    pub(super) fn seek(&self, from: Time, goal: SeekGoal) -> Option<Time> {
        let mut level = Level::ZERO;
        self.seek_below(self.tree.root, self.tree.height, Some(from), &mut level, goal)
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
        let (inner, branches) = (&self.tree.inners[node], self.tree.inners[node].items());
        let mut next = 0;
        if let Some(time) = from {
            let at = inner.branch_at(time);
            branches[..at].iter().for_each(|branch| *level += branch.summary.level);
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
            *level += branch.summary.level;
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
        let leaf = &self.tree.leaves[node];
        let mut next = 0;
        if let Some(time) = from {
            next = leaf.count_until(time);
            leaf.items()[..next].iter().for_each(|item| *level += *item);
            if goal.met_at(*level) {
                return from;
            }
        }
        for (&time, item) in leaf.keys()[next..].iter().zip(&leaf.items()[next..]) {
            *level += *item;
            if goal.met_at(*level) {
                return Some(time);
            }
        }
        None
    }
}
