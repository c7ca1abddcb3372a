//! A binary search tree of idle periods that keeps its periods in its leaves, and in each inner node
//! their median and number. A primary tree has a secondary tree in each inner node.
//!
//! A subtree in which one side has more than seven tenths of the periods is built anew, with halves.
//! A median is exact when its node was built; later it is a bound between the two sides.

use std::fmt::Debug;
use std::ops::ControlFlow;

use super::Meter;
use crate::servers::{IdlePeriod, ServerIndex};
use crate::time::Time;

/// The order of a tree: a time, and the server where times are equal.
type Key = (i64, u32);

/// A tree's order, and what its inner nodes have.
pub(super) trait Axis: Sized + Clone + Debug {
    /// What an inner node has besides its two sides.
    type Secondary: Secondary;

    /// The place of a period in the order.
    fn key(period: &IdlePeriod) -> Key;

    /// How many of `size` periods, at least 2, the left side gets.
    fn left_of(size: usize) -> usize;

    /// The median of two sides, of which these are the last period on the left and the first on the
    /// right, and the greatest key that belongs on the left.
    fn divide(last: &IdlePeriod, first: &IdlePeriod) -> (Time, Key);
}

/// By falling start: a primary tree.
#[derive(Debug, Clone)]
pub(super) struct ByStart;

impl Axis for ByStart {
    type Secondary = MedianTree<ByEnd>;

    fn key(period: &IdlePeriod) -> Key {
        (!period.start.as_us(), period.server.0)
    }

    fn left_of(size: usize) -> usize {
        size / 2
    }

    /// What starts later than the median belongs on the left: a search that marks the right side takes
    /// all of it.
    fn divide(_: &IdlePeriod, first: &IdlePeriod) -> (Time, Key) {
        let (start, server) = Self::key(first);
        let bound = match server.checked_sub(1) {
            Some(before) => (start, before),
            None => (start.saturating_sub(1), u32::MAX),
        };
        (first.start, bound)
    }
}

/// By rising end: a secondary tree.
#[derive(Debug, Clone)]
pub(super) struct ByEnd;

impl Axis for ByEnd {
    type Secondary = ();

    fn key(period: &IdlePeriod) -> Key {
        (period.end.as_us(), period.server.0)
    }

    fn left_of(size: usize) -> usize {
        size.div_ceil(2)
    }

    /// What ends later than the median belongs on the right.
    fn divide(last: &IdlePeriod, _: &IdlePeriod) -> (Time, Key) {
        (last.end, Self::key(last))
    }
}

/// What an inner node has besides its two sides: the same periods in another order, or nothing.
pub(super) trait Secondary: Sized + Clone + Debug {
    fn of(periods: &[IdlePeriod], meter: &Meter) -> Self;
    fn insert(&mut self, period: IdlePeriod, meter: &Meter);
    fn remove(&mut self, period: IdlePeriod, meter: &Meter);
    /// Checks that it has these periods.
    fn check(&self, periods: Vec<IdlePeriod>) -> Result<(), String>;
}

impl Secondary for () {
    fn of(_: &[IdlePeriod], _: &Meter) -> Self {}
    fn insert(&mut self, _: IdlePeriod, _: &Meter) {}
    fn remove(&mut self, _: IdlePeriod, _: &Meter) {}
    fn check(&self, _: Vec<IdlePeriod>) -> Result<(), String> {
        Ok(())
    }
}

impl<X: Axis> Secondary for MedianTree<X> {
    fn of(periods: &[IdlePeriod], meter: &Meter) -> Self {
        let mut periods = periods.to_vec();
        periods.sort_unstable_by_key(X::key);
        Self { root: Node::of(&periods, meter) }
    }

    fn insert(&mut self, period: IdlePeriod, meter: &Meter) {
        Self::insert(self, period, meter);
    }

    fn remove(&mut self, period: IdlePeriod, meter: &Meter) {
        Self::remove(self, period, meter);
    }

    fn check(&self, periods: Vec<IdlePeriod>) -> Result<(), String> {
        Self::check(self, periods)
    }
}

#[derive(Debug, Clone)]
enum Node<X: Axis> {
    Leaf(IdlePeriod),
    Inner(Box<Inner<X>>),
}

#[derive(Debug, Clone)]
struct Inner<X: Axis> {
    median: Time,
    /// No key on the left is greater, and every key on the right is.
    bound: Key,
    size: usize,
    secondary: X::Secondary,
    left: Node<X>,
    right: Node<X>,
}

/// A tree; it may be empty.
#[derive(Debug, Clone)]
pub(super) struct MedianTree<X: Axis> {
    root: Option<Node<X>>,
}

impl<X: Axis> Default for MedianTree<X> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<X: Axis> Node<X> {
    /// The tree of sorted periods.
    fn of(periods: &[IdlePeriod], meter: &Meter) -> Option<Self> {
        meter.change(1);
        if let [only] = periods {
            return Some(Self::Leaf(*only));
        }
        let (left, right) = periods.split_at(X::left_of(periods.len()));
        let (last, first) = (left.last()?, right.first()?);
        let (median, bound) = X::divide(last, first);
        Some(Self::Inner(Box::new(Inner {
            median,
            bound,
            size: periods.len(),
            secondary: Secondary::of(periods, meter),
            left: Self::of(left, meter)?,
            right: Self::of(right, meter)?,
        })))
    }

    fn size(&self) -> usize {
        match self {
            Self::Leaf(_) => 1,
            Self::Inner(inner) => inner.size,
        }
    }

    /// Adds its periods, in their order.
    fn collect(&self, into: &mut Vec<IdlePeriod>) {
        match self {
            Self::Leaf(period) => into.push(*period),
            Self::Inner(inner) => {
                inner.left.collect(into);
                inner.right.collect(into);
            }
        }
    }

    fn insert(&mut self, period: IdlePeriod, meter: &Meter) {
        let key = X::key(&period);
        match self {
            Self::Inner(inner) if !is_lopsided(inner.size_with(key), inner.size + 1) => {
                meter.change(1);
                inner.size += 1;
                inner.secondary.insert(period, meter);
                inner.side(key).insert(period, meter);
            }
            _ => {
                let mut periods = Vec::with_capacity(self.size() + 1);
                self.collect(&mut periods);
                let at = periods.partition_point(|other| X::key(other) < key);
                periods.insert(at, period);
                self.rebuild(&periods, meter);
            }
        }
    }

    /// Removes a period; it is there. `true` when it is the only one: the caller removes the node then.
    fn remove(&mut self, period: IdlePeriod, meter: &Meter) -> bool {
        let key = X::key(&period);
        let Self::Inner(inner) = self else { return true };
        let other = inner.size - inner.size_with(key) + 1;
        if is_lopsided(other, inner.size - 1) {
            let mut periods = Vec::with_capacity(inner.size);
            self.collect(&mut periods);
            periods.retain(|other| X::key(other) != key);
            self.rebuild(&periods, meter);
            return false;
        }
        meter.change(1);
        inner.size -= 1;
        inner.secondary.remove(period, meter);
        if inner.side(key).remove(period, meter) {
            let nothing = || Self::Leaf(period);
            let rest = if key <= inner.bound { &mut inner.right } else { &mut inner.left };
            *self = std::mem::replace(rest, nothing());
        }
        false
    }

    fn rebuild(&mut self, periods: &[IdlePeriod], meter: &Meter) {
        if let Some(node) = Self::of(periods, meter) {
            *self = node;
        }
    }
}

impl<X: Axis> Inner<X> {
    fn side(&mut self, key: Key) -> &mut Node<X> {
        if key <= self.bound { &mut self.left } else { &mut self.right }
    }

    /// How many periods the side of this key would have with one more.
    fn size_with(&self, key: Key) -> usize {
        1 + if key <= self.bound { self.left.size() } else { self.right.size() }
    }
}

/// Has one side so many of all periods that the node is to be built anew?
const fn is_lopsided(side: usize, all: usize) -> bool {
    all > 3 && 10 * side > 7 * all
}

impl<X: Axis> MedianTree<X> {
    /// Adds a period that is not there.
    pub(super) fn insert(&mut self, period: IdlePeriod, meter: &Meter) {
        match &mut self.root {
            Some(root) => root.insert(period, meter),
            none => {
                meter.change(1);
                *none = Some(Node::Leaf(period));
            }
        }
    }

    /// Removes a period that is there.
    pub(super) fn remove(&mut self, period: IdlePeriod, meter: &Meter) {
        if self.root.as_mut().is_some_and(|root| root.remove(period, meter)) {
            self.root = None;
        }
    }

    /// Checks that the tree has these periods and no others, in its order, and that sizes, bounds and
    /// secondary trees are right.
    pub(super) fn check(&self, mut periods: Vec<IdlePeriod>) -> Result<(), String> {
        periods.sort_unstable_by_key(X::key);
        let mut found = Vec::new();
        if let Some(root) = &self.root {
            root.collect(&mut found);
            root.check()?;
        }
        if found == periods {
            return Ok(());
        }
        Err(format!("has {found:?} instead of {periods:?}"))
    }
}

impl<X: Axis> Node<X> {
    fn check(&self) -> Result<(), String> {
        let Self::Inner(inner) = self else { return Ok(()) };
        let (mut left, mut right) = (Vec::new(), Vec::new());
        inner.left.collect(&mut left);
        inner.right.collect(&mut right);
        let apart = left.iter().all(|period| X::key(period) <= inner.bound)
            && right.iter().all(|period| X::key(period) > inner.bound);
        if !apart || left.len() + right.len() != inner.size {
            return Err(format!("{left:?} and {right:?} at {:?}, {}", inner.bound, inner.size));
        }
        inner.secondary.check([left, right].concat())?;
        inner.left.check()?;
        inner.right.check()
    }
}

/// The subtrees that phase 1 has marked, in this order.
pub(super) struct MarkedSubtrees<'a> {
    nodes: Vec<&'a Node<ByStart>>,
    size: usize,
}

impl MarkedSubtrees<'_> {
    /// How many periods they have.
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    /// Phase 2: the servers of those periods that end at `end` or later, until `visit` breaks.
    pub(super) fn ending_from(
        &self,
        end: Time,
        meter: &Meter,
        visit: &mut dyn FnMut(ServerIndex) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for node in self.nodes.iter().rev() {
            match node {
                Node::Leaf(period) => {
                    meter.visit();
                    if period.end >= end {
                        visit(period.server)?;
                    }
                }
                Node::Inner(inner) => inner.secondary.ending_from(end, meter, visit)?,
            }
        }
        ControlFlow::Continue(())
    }
}

impl MedianTree<ByStart> {
    /// Phase 1: the subtrees whose periods start at `start` or earlier.
    pub(super) fn starting_until(&self, start: Time, meter: &Meter) -> MarkedSubtrees<'_> {
        let mut marked = MarkedSubtrees { nodes: Vec::new(), size: 0 };
        let mut next = self.root.as_ref();
        while let Some(node) = next {
            meter.visit();
            let mut mark = |node| {
                marked.nodes.push(node);
                marked.size += node.size();
            };
            next = match node {
                Node::Leaf(period) => {
                    if period.start <= start {
                        mark(node);
                    }
                    None
                }
                Node::Inner(inner) if inner.median > start => Some(&inner.right),
                Node::Inner(inner) => {
                    mark(&inner.right);
                    Some(&inner.left)
                }
            };
        }
        marked
    }

    /// The medians at the root, and at the root of its secondary tree.
    #[cfg(test)]
    pub(super) fn medians(&self) -> Option<(Time, Time)> {
        let Node::Inner(primary) = self.root.as_ref()? else { return None };
        let Node::Inner(secondary) = primary.secondary.root.as_ref()? else { return None };
        Some((primary.median, secondary.median))
    }

    /// The first start after an instant.
    pub(super) fn next_start(&self, after: Time) -> Option<Time> {
        /// The last period before a place in the order.
        fn before(node: &Node<ByStart>, key: Key) -> Option<&IdlePeriod> {
            match node {
                Node::Leaf(period) => (ByStart::key(period) < key).then_some(period),
                Node::Inner(inner) if key <= inner.bound => before(&inner.left, key),
                Node::Inner(inner) => {
                    before(&inner.right, key).or_else(|| before(&inner.left, key))
                }
            }
        }
        before(self.root.as_ref()?, (!after.as_us(), 0)).map(|period| period.start)
    }
}

impl MedianTree<ByEnd> {
    /// Marks the subtrees whose periods end at `end` or later, then visits them by rising end.
    fn ending_from(
        &self,
        end: Time,
        meter: &Meter,
        visit: &mut dyn FnMut(ServerIndex) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut marked = Vec::new();
        let mut next = self.root.as_ref();
        while let Some(node) = next {
            meter.visit();
            next = match node {
                Node::Leaf(period) => {
                    if period.end >= end {
                        marked.push(node);
                    }
                    None
                }
                Node::Inner(inner) if inner.median < end => Some(&inner.right),
                Node::Inner(inner) => {
                    marked.push(&inner.right);
                    Some(&inner.left)
                }
            };
        }
        marked.into_iter().rev().try_for_each(|node| node.visit_all(meter, visit))
    }
}

impl<X: Axis> Node<X> {
    fn visit_all(
        &self,
        meter: &Meter,
        visit: &mut dyn FnMut(ServerIndex) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        meter.visit();
        match self {
            Self::Leaf(period) => visit(period.server),
            Self::Inner(inner) => {
                inner.left.visit_all(meter, visit)?;
                inner.right.visit_all(meter, visit)
            }
        }
    }
}
