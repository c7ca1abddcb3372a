//! One node of the tree: a sorted run of up to `N` keyed items, stored in place.
//!
//! Leaves are runs of level changes, and inner nodes are runs of branches. The same code inserts into,
//! splits, merges and balances both kinds, and both are summed up through [`Item`]. Left out: which
//! nodes there are, see `tree.rs`.

use std::ops::AddAssign;

use crate::time::Time;

/// The held and booked amounts at an instant, or their change at that instant.
///
/// Levels lie in `0..=CAPACITY_MAX`, changes in `-CAPACITY_MAX..=CAPACITY_MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Level {
    pub(super) held: i64,
    pub(super) booked: i64,
}

impl Level {
    pub(super) const ZERO: Self = Self { held: 0, booked: 0 };

    pub(super) const fn total(self) -> i64 {
        self.held + self.booked
    }
}

impl AddAssign for Level {
    fn add_assign(&mut self, other: Self) {
        self.held += other.held;
        self.booked += other.booked;
    }
}

/// The highest and lowest levels seen along a stretch, relative to the level before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extremes {
    pub(super) max_total: i64,
    pub(super) min_total: i64,
    pub(super) min_held: i64,
    pub(super) min_booked: i64,
}

/// A summary of a stretch of breakpoints: the change of the level over the whole stretch, and the
/// extreme levels inside it. It makes every query logarithmic: a stretch whose extremes answer the
/// query is never opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    /// The level at the end of the stretch, relative to the level before it.
    pub(super) level: Level,
    pub(super) extremes: Extremes,
}

impl Summary {
    /// Nothing seen yet. These extremes are not levels: they are only read after a level has been
    /// seen.
    pub(super) const EMPTY: Self = Self {
        level: Level::ZERO,
        extremes: Extremes {
            max_total: i64::MIN,
            min_total: i64::MAX,
            min_held: i64::MAX,
            min_booked: i64::MAX,
        },
    };

    /// Includes the current level in the extremes.
    pub(super) fn see_level(&mut self) {
        let (Level { held, booked }, total) = (self.level, self.level.total());
        let seen = &mut self.extremes;
        seen.max_total = seen.max_total.max(total);
        seen.min_total = seen.min_total.min(total);
        seen.min_held = seen.min_held.min(held);
        seen.min_booked = seen.min_booked.min(booked);
    }
}

/// An element of a run.
pub(super) trait Item: Copy + Default {
    /// The change of the level over this item.
    fn change(&self) -> Level;
    /// Passes over this item: includes its extremes in the summary and adds its change.
    fn pass(&self, so_far: &mut Summary);
}

impl Item for Level {
    fn change(&self) -> Level {
        *self
    }
    fn pass(&self, so_far: &mut Summary) {
        so_far.level += *self;
        so_far.see_level();
    }
}

/// A child of an inner node: its index in the arena, and its summary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Branch {
    pub(super) child: usize,
    pub(super) summary: Summary,
}

impl Default for Branch {
    fn default() -> Self {
        Self { child: usize::MAX, summary: Summary::EMPTY }
    }
}

impl Item for Branch {
    fn change(&self) -> Level {
        self.summary.level
    }
    fn pass(&self, so_far: &mut Summary) {
        let (base, inside) = (so_far.level, &self.summary.extremes);
        let seen = &mut so_far.extremes;
        seen.max_total = seen.max_total.max(base.total() + inside.max_total);
        seen.min_total = seen.min_total.min(base.total() + inside.min_total);
        seen.min_held = seen.min_held.min(base.held + inside.min_held);
        seen.min_booked = seen.min_booked.min(base.booked + inside.min_booked);
        so_far.level += self.summary.level;
    }
}

/// Up to `N` items in the order of their keys. No two keys are equal.
///
/// In a leaf, the key of an item is the instant of the level change. In an inner node, the key of a
/// branch is a lower bound of every key below that branch, and greater than every key below the
/// previous branch.
#[derive(Debug, Clone)]
pub(super) struct Run<E, const N: usize> {
    len: usize,
    keys: [Time; N],
    items: [E; N],
}

impl<E: Item, const N: usize> Run<E, N> {
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

    pub(super) fn new() -> Self {
        const { Self::BOUNDS_FIT };
        Self { len: 0, keys: [Time::MIN; N], items: [E::default(); N] }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }
    pub(super) fn keys(&self) -> &[Time] {
        &self.keys[..self.len]
    }
    pub(super) fn items(&self) -> &[E] {
        &self.items[..self.len]
    }
    pub(super) fn item_mut(&mut self, at: usize) -> &mut E {
        &mut self.items[..self.len][at]
    }
    pub(super) fn set_key(&mut self, at: usize, key: Time) {
        self.keys[..self.len][at] = key;
    }

    /// How many keys are at `time` or earlier.
    pub(super) fn count_until(&self, time: Time) -> usize {
        self.keys().partition_point(|&key| key <= time)
    }
    /// How many keys are earlier than `time`.
    pub(super) fn count_before(&self, time: Time) -> usize {
        self.keys().partition_point(|&key| key < time)
    }

    /// The branch of an inner node under which `time` belongs. It exists: the first key of a node is
    /// the key under which its parent refers to it, and the first key of the leftmost node is
    /// [`Time::MIN`].
    pub(super) fn branch_at(&self, time: Time) -> usize {
        self.count_until(time) - 1
    }

    /// The summary of all items.
    pub(super) fn summary(&self) -> Summary {
        let mut summary = Summary::EMPTY;
        for item in self.items() {
            item.pass(&mut summary);
        }
        summary
    }

    /// Inserts before the item at `at`. A full run is split first, and its later half is returned.
    pub(super) fn insert(&mut self, at: usize, key: Time, item: E) -> Option<Self> {
        if self.len < N {
            self.keys.copy_within(at..self.len, at + 1);
            self.items.copy_within(at..self.len, at + 1);
            (self.keys[at], self.items[at]) = (key, item);
            self.len += 1;
            return None;
        }
        let mut later = Self::new();
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
