//! The structure of the paper: for each slot of time, a two-dimensional tree of the idle periods that
//! overlap it.
//!
//! The primary tree of a slot orders its periods by falling start. Each of its inner nodes has a
//! secondary tree of the same periods, by rising end. A search takes the tree of the slot in which the
//! window starts. Phase 1 marks the subtrees whose periods start early enough, and counts them. Phase 2
//! searches them in reverse order, each by rising end, for periods that end late enough.
//!
//! What the text leaves open, or says wrong, and what is done here:
//!
//! * *Balance.* Rotations would break the secondary trees. A subtree that has become lopsided is built
//!   anew: amortised O(log² N) for each change of one tree.
//! * *A median equal to the start or the end* takes the branch that marks a subtree, as the other
//!   branch would lose periods. Medians are lower medians, as in Fig. 2.
//! * *A new slot at the horizon is not O(1)*: every server that is idle up to the horizon belongs in
//!   its tree. [`Tails::Printed`] does it so. [`Tails::Apart`] keeps the periods without an end in one
//!   tree of their own, where they are searched last.
//! * *One period for each server and slot* needs windows of at least a slot. Several are allowed here.
//!   So the tree of a slot may have more periods than there are servers.
//!
//! Left out: the retries at later starts, which are the caller's. Source: Castillo 2009, section 4.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{ControlFlow, Range};

use super::{IdleIndex, IdlePeriod, ServerIndex};
use crate::invalid::InvalidField;
use crate::limits;
use crate::time::{Span, Time, Window};

mod median_tree;

use median_tree::{ByStart, MedianTree, Secondary as _};

/// Where idle periods without an end are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tails {
    /// In one tree of their own.
    #[default]
    Apart,
    /// In the tree of every slot up to the horizon, as the paper has it.
    Printed,
}

/// The slots of [`SlotTrees`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotTreesConfig {
    /// First instant of the first slot.
    pub origin: Time,
    /// The paper's tau: the length of a slot.
    pub slot: Span,
    /// The paper's Q: the number of slots.
    pub slots: usize,
    /// Where idle periods without an end are kept.
    pub tails: Tails,
}

/// What the trees have done since they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operations {
    /// Nodes that searches have visited.
    pub visited: u64,
    /// Nodes that were made or changed.
    pub changed: u64,
}

impl Operations {
    /// All operations.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.visited + self.changed
    }
}

/// Counts operations, also of searches, which change nothing else.
#[derive(Debug, Clone, Default)]
struct Meter {
    visited: Cell<u64>,
    changed: Cell<u64>,
}

impl Meter {
    fn visit(&self) {
        self.visited.set(self.visited.get() + 1);
    }

    fn change(&self, nodes: usize) {
        self.changed.set(self.changed.get() + nodes as u64);
    }
}

/// Idle periods by the trees in which they belong.
#[derive(Default)]
struct PlacedPeriods {
    tails: Vec<IdlePeriod>,
    slots: Vec<Vec<IdlePeriod>>,
    later: BTreeMap<(Time, ServerIndex), Time>,
}

/// An index of idle periods in one two-dimensional tree for each slot.
#[derive(Debug, Clone)]
pub struct SlotTrees {
    config: SlotTreesConfig,
    servers: u32,
    /// First instant of the first slot that is left.
    first: Time,
    trees: VecDeque<MedianTree<ByStart>>,
    /// Periods without an end, for [`Tails::Apart`].
    tails: MedianTree<ByStart>,
    /// Every period that ends after the last slot: their ends by start and server.
    later: BTreeMap<(Time, ServerIndex), Time>,
    meter: Meter,
}

impl SlotTrees {
    /// An index with these slots, for so many servers.
    ///
    /// # Errors
    /// [`InvalidField`] when a slot is not positive, when there is no slot, or when slots times servers
    /// exceed [`limits::SLOT_TREE_PERIODS_MAX`].
    pub fn new(config: SlotTreesConfig, servers: u32) -> Result<Self, InvalidField> {
        super::check_slots(config.slot, config.slots, servers, limits::SLOT_TREE_PERIODS_MAX)?;
        Ok(Self {
            config,
            servers: 0,
            first: config.origin,
            trees: (0..config.slots).map(|_| MedianTree::default()).collect(),
            tails: MedianTree::default(),
            later: BTreeMap::new(),
            meter: Meter::default(),
        })
    }

    /// First instant after the last slot.
    #[must_use]
    pub fn horizon(&self) -> Time {
        let slots = i64::try_from(self.trees.len()).unwrap_or(i64::MAX);
        self.first.saturating_add(self.config.slot.saturating_mul(slots))
    }

    /// The medians at the root of a slot's primary tree, and of its secondary tree.
    #[cfg(test)]
    pub(super) fn medians(&self, slot: usize) -> Option<(Time, Time)> {
        self.trees[slot].medians()
    }

    /// How many periods of the slot of `start` start at `start` or earlier.
    #[cfg(test)]
    pub(super) fn candidates(&self, start: Time) -> usize {
        let slot = self.slot_of(start).unwrap_or_default();
        self.trees[slot].starting_until(start, &self.meter).size()
    }

    /// Whether the period is kept in the tree of tails only.
    fn is_apart(&self, period: IdlePeriod) -> bool {
        self.config.tails == Tails::Apart && period.end == Time::MAX
    }

    /// The slot of an instant; `None` before the first and after the last.
    fn slot_of(&self, at: Time) -> Option<usize> {
        if at < self.first || at >= self.horizon() {
            return None;
        }
        usize::try_from(at.since(self.first).as_us() / self.config.slot.as_us()).ok()
    }

    /// The slots that a period overlaps.
    fn slots_of(&self, period: IdlePeriod) -> Range<usize> {
        if period.end <= self.first || period.start >= self.horizon() {
            return 0..0;
        }
        let first = self.slot_of(period.start.max(self.first)).unwrap_or(0);
        let last_instant = period.end.saturating_sub(Span::from_us(1));
        let last = self.slot_of(last_instant).unwrap_or(self.trees.len() - 1);
        first..last + 1
    }

    /// Where each period belongs.
    fn placed(&self, periods: &[IdlePeriod]) -> PlacedPeriods {
        let mut placed =
            PlacedPeriods { slots: vec![Vec::new(); self.trees.len()], ..PlacedPeriods::default() };
        for &period in periods {
            if period.end > self.horizon() {
                placed.later.insert((period.start, period.server), period.end);
            }
            if self.is_apart(period) {
                placed.tails.push(period);
                continue;
            }
            for slot in self.slots_of(period) {
                placed.slots[slot].push(period);
            }
        }
        placed
    }

    /// Builds all trees of these periods.
    fn build(&mut self, periods: &[IdlePeriod]) {
        let PlacedPeriods { tails, slots, later } = self.placed(periods);
        self.later = later;
        self.tails = MedianTree::of(&tails, &self.meter);
        self.trees.clear();
        self.trees.extend(slots.iter().map(|slot| MedianTree::of(slot, &self.meter)));
    }

    fn insert(&mut self, period: IdlePeriod) {
        if period.end > self.horizon() {
            self.later.insert((period.start, period.server), period.end);
        }
        if self.is_apart(period) {
            self.tails.insert(period, &self.meter);
            return;
        }
        for slot in self.slots_of(period) {
            self.trees[slot].insert(period, &self.meter);
        }
    }

    fn remove(&mut self, period: IdlePeriod) {
        self.later.remove(&(period.start, period.server));
        if self.is_apart(period) {
            self.tails.remove(period, &self.meter);
            return;
        }
        for slot in self.slots_of(period) {
            self.trees[slot].remove(period, &self.meter);
        }
    }
}

impl IdleIndex for SlotTrees {
    fn fill(&mut self, servers: u32) {
        self.servers = servers;
        let always = |server| IdlePeriod { server, start: Time::MIN, end: Time::MAX };
        self.build(&(0..servers).map(ServerIndex).map(always).collect::<Vec<IdlePeriod>>());
    }

    fn take(&mut self, period: IdlePeriod, window: Window) {
        self.remove(period);
        period.around(window).into_iter().flatten().for_each(|part| self.insert(part));
    }

    /// Builds each tree once, which takes seconds where one change after the other takes hours.
    fn take_all(&mut self, _: &[(IdlePeriod, Window)], left: &[IdlePeriod]) {
        self.build(left);
    }

    fn give(&mut self, period: IdlePeriod, window: Window) {
        period.around(window).into_iter().flatten().for_each(|part| self.remove(part));
        self.insert(period);
    }

    fn visit(
        &self,
        window: Window,
        least: usize,
        visit: &mut dyn FnMut(ServerIndex) -> ControlFlow<()>,
    ) {
        let Some(slot) = self.slot_of(window.start()) else {
            // Only the timetable knows what is idle outside of the slots.
            let _ = (0..self.servers).map(ServerIndex).try_for_each(visit);
            return;
        };
        let marked = self.trees[slot].starting_until(window.start(), &self.meter);
        let tails = self.tails.starting_until(window.start(), &self.meter);
        if marked.size() + tails.size() < least {
            return;
        }
        let _ = [marked, tails]
            .iter()
            .try_for_each(|marked| marked.ending_from(window.end(), &self.meter, visit));
    }

    fn next_start(&self, after: Time, _: Span) -> Option<Time> {
        let tail = self.tails.next_start(after);
        let first = self.slot_of(after).unwrap_or(0);
        let among = self.trees.range(first..).find_map(|tree| tree.next_start(after));
        let beyond = (after.max(self.horizon()), ServerIndex(0));
        let beyond = self.later.range(beyond..).map(|((start, _), _)| *start);
        let beyond = beyond.into_iter().find(|start| *start > after);
        [tail, among, beyond].into_iter().flatten().min()
    }

    /// Drops the slots that have ended by now, and makes as many new ones at the horizon.
    fn advance(&mut self, now: Time) {
        while self.first.saturating_add(self.config.slot) <= now {
            self.trees.pop_front();
            self.trees.push_back(MedianTree::default());
            self.first = self.first.saturating_add(self.config.slot);
            let (horizon, last) = (self.horizon(), self.trees.len() - 1);
            let within = self.later.range(..(horizon, ServerIndex(0)));
            let within: Vec<IdlePeriod> =
                within.map(|(&(start, server), &end)| IdlePeriod { server, start, end }).collect();
            for period in within {
                if !self.is_apart(period) {
                    self.trees[last].insert(period, &self.meter);
                }
                if period.end <= horizon {
                    self.later.remove(&(period.start, period.server));
                }
            }
        }
    }

    fn operations(&self) -> Option<Operations> {
        let Meter { visited, changed } = &self.meter;
        Some(Operations { visited: visited.get(), changed: changed.get() })
    }

    fn check(&self, periods: &[IdlePeriod]) -> Result<(), String> {
        let PlacedPeriods { tails, slots, later } = self.placed(periods);
        if later != self.later {
            return Err("the periods that end after the horizon are not those kept".to_owned());
        }
        self.tails.check(tails).map_err(|error| format!("tails: {error}"))?;
        for (slot, (tree, periods)) in self.trees.iter().zip(slots).enumerate() {
            tree.check(periods).map_err(|error| format!("slot {slot}: {error}"))?;
        }
        Ok(())
    }
}
