//! The entries of a timetable's tree: changes of the levels held and booked, and the extreme levels
//! over stretches of them.

use std::ops::AddAssign;

use crate::summary_tree::{Entry, Summary};
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
pub(super) struct Stretch {
    /// The level at the end of the stretch, relative to the level before it.
    pub(super) level: Level,
    pub(super) extremes: Extremes,
}

impl Summary for Stretch {
    /// Nothing seen yet. These extremes are not levels: they are only read after a level has been
    /// seen.
    const EMPTY: Self = Self {
        level: Level::ZERO,
        extremes: Extremes {
            max_total: i64::MIN,
            min_total: i64::MAX,
            min_held: i64::MAX,
            min_booked: i64::MAX,
        },
    };

    fn append(&mut self, later: &Self) {
        let (base, inside) = (self.level, &later.extremes);
        let seen = &mut self.extremes;
        seen.max_total = seen.max_total.max(base.total() + inside.max_total);
        seen.min_total = seen.min_total.min(base.total() + inside.min_total);
        seen.min_held = seen.min_held.min(base.held + inside.min_held);
        seen.min_booked = seen.min_booked.min(base.booked + inside.min_booked);
        self.level += later.level;
    }
}

impl Stretch {
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

impl Entry for Level {
    type Key = Time;
    type Summary = Stretch;
    const KEY_MIN: Time = Time::MIN;

    fn pass(&self, _: Time, so_far: &mut Stretch) {
        so_far.level += *self;
        so_far.see_level();
    }
}
