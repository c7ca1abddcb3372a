//! One node of the tree: a sorted run of up to `N` keyed items, stored in place.
//!
//! Leaves are runs of deltas, inner nodes are runs of branches. Both are inserted into, split,
//! merged and evened out by the same code, and both are summed up by the same [`Item`].

use std::ops::AddAssign;

use crate::time::Time;

/// What is held and booked at an instant, or the change of it there.
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

/// A stretch of breakpoints in brief: by how much the level changes over all of it, and the extreme
/// levels inside. It is what makes every question logarithmic: a stretch whose extremes settle the
/// question is never opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Summary {
    /// The level reached, counted from the level before the stretch.
    pub(super) level: Level,
    pub(super) extremes: Extremes,
}

impl Summary {
    /// Nothing seen yet. Its extremes are no levels: they are read only after a first one was seen.
    pub(super) const EMPTY: Self = Self {
        level: Level::ZERO,
        extremes: Extremes {
            max_total: i64::MIN,
            min_total: i64::MAX,
            min_held: i64::MAX,
            min_booked: i64::MAX,
        },
    };

    /// Takes the level reached into the extremes.
    pub(super) fn see_level(&mut self) {
        let (Level { held, booked }, total) = (self.level, self.level.total());
        let seen = &mut self.extremes;
        seen.max_total = seen.max_total.max(total);
        seen.min_total = seen.min_total.min(total);
        seen.min_held = seen.min_held.min(held);
        seen.min_booked = seen.min_booked.min(booked);
    }
}

/// What a run is made of.
pub(super) trait Item: Copy + Default {
    /// By how much the level changes over this item.
    fn change(&self) -> Level;
    /// Goes over this item: its extremes are seen and its change is added.
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

/// A child of an inner node: where it is, and its summary.
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

/// Up to `N` items in the order of their keys, which are all different.
///
/// In a leaf a key is the instant of its delta. In an inner node it is a lower bound of every key
/// below the branch, and greater than every key below the branch before it.
#[derive(Debug, Clone)]
pub(super) struct Run<E, const N: usize> {
    len: usize,
    keys: [Time; N],
    items: [E; N],
}

impl<E: Item, const N: usize> Run<E, N> {
    /// A node other than the root with fewer items is merged or evened out with a neighbour.
    pub(super) const LEAST: usize = N / 2 - N / 8;
    /// Two neighbours are merged when together they have no more than this. Less than `N`, so that
    /// a merged node takes some more items before it splits again.
    pub(super) const MERGE: usize = N - N / 4;
    /// Both halves of a split, and both of an evened pair, must have enough.
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

    /// In an inner node that may contain `time`, the branch that may. There is one: the first key of a
    /// node is the key by which its parent leads to it, and that of the leftmost is [`Time::MIN`].
    pub(super) fn branch_at(&self, time: Time) -> usize {
        self.count_until(time) - 1
    }

    /// All items in brief.
    pub(super) fn summary(&self) -> Summary {
        let mut summary = Summary::EMPTY;
        for item in self.items() {
            item.pass(&mut summary);
        }
        summary
    }

    /// Inserts in front of the item at `at`. A full run is split first; its later half is returned.
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
        // Either half has room now, so that neither of these splits again.
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

    /// Moves items between this run and the one after it: all of them here when few enough (the
    /// other is empty then), else so that both have half.
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

    /// Copies the items `from..to` of another run behind the last one here.
    fn append_from(&mut self, other: &Self, from: usize, to: usize) {
        let end = self.len + (to - from);
        self.keys[self.len..end].copy_from_slice(&other.keys[from..to]);
        self.items[self.len..end].copy_from_slice(&other.items[from..to]);
        self.len = end;
    }
}
