//! A capacity timetable: how much of one resource is held and booked, over all time.
//!
//! It is an RM's own record; simulated RMs and planners use timetables too. It has one resource with an
//! integer capacity whose units are interchangeable (CPUs of a site, bit/s of a path). Held and booked
//! amounts are counted separately. An amount is never added if held + booked would exceed the capacity
//! at some instant (invariant I1). Only [`Timetable::restore`] may exceed the capacity: what was
//! promised stays promised when the resource shrinks.
//!
//! What is free over a window is the *minimum* over the window. A peer of ours (SuPA) instead sums all
//! reservations that overlap the window, which is a mistake: two reservations that do not overlap each
//! other never count together against a third one that spans both.
//!
//! Left out on purpose: which hold or booking an amount belongs to (the participant knows), individual
//! servers of a site, availability vectors, clocks, and the wire. A timetable is only a step function:
//! it refuses changes that break its bounds, but it cannot know whether the amount that a caller
//! removes was ever added by that caller.
//!
//! Cost, with `n` instants stored: every operation is O(log n), and allocates nothing but new nodes.
//! [`Timetable::profile`] also costs its steps. [`Timetable::earliest_fit`] costs O(log n) for each
//! too-full stretch that it skips. Source: the design, "Model".

use std::fmt;

use thiserror::Error;

use crate::amount::Amount;
use crate::limits;
use crate::planted::{self, Bug};
use crate::time::{Span, Time, Window};

mod breakpoints;
mod level;
#[cfg(test)]
mod tests;
mod walk;

use breakpoints::SeekGoal;
use level::Level;

/// Largest capacity that a timetable counts with, and largest level: four thousand times the highest
/// rate that [`limits`] allows. Levels are signed 64-bit numbers, and half way through an update a
/// node's change may be twice as large.
const CAPACITY_MAX: i64 = (1 << 62) - 1;
const _: () = assert!(
    limits::BANDWIDTH_MAX_BPS < CAPACITY_MAX.unsigned_abs()
        && limits::CPUS_MAX < CAPACITY_MAX.unsigned_abs()
);

/// 32 changes in a leaf and 32 branches in an inner node: measured, see `benches/timetable.rs`.
type Breakpoints = breakpoints::Breakpoints<32, 32>;

/// Whether an amount is taken by a hold or by a booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Holds: the first phase; may still be aborted or expire.
    Held,
    /// Bookings: committed.
    Booked,
}

impl Layer {
    /// The change that puts an amount into this layer.
    const fn level(self, amount: i64) -> Level {
        match self {
            Self::Held => Level { held: amount, booked: 0 },
            Self::Booked => Level { held: 0, booked: amount },
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Held => "held",
            Self::Booked => "booked",
        })
    }
}

/// More was requested than is free at some instant of the window. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{requested} requested, {available} free over the whole window, short at {at}")]
pub struct Shortfall {
    /// What is free over the whole window: the minimum over it.
    pub available: Amount,
    /// What was requested.
    pub requested: Amount,
    /// The first instant of the window at which less than `requested` is free. The minimum may be
    /// reached later.
    pub at: Time,
}

/// More was to be removed from a layer than is in it at some instant of the window: the caller's
/// records differ from the timetable's. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{requested} to be removed, but only {available} {layer} over the whole window, short at {at}"
)]
pub struct Underflow {
    /// The layer that has too little.
    pub layer: Layer,
    /// The amount in this layer over the whole window: the minimum over it.
    pub available: Amount,
    /// The amount that was to be removed.
    pub requested: Amount,
    /// The first instant of the window at which the layer has less than `requested`.
    pub at: Time,
}

/// More is held and booked than the capacity. A replay restored promises of a time when the capacity
/// was higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overcommitment {
    /// The first instant at which more is taken than the capacity.
    pub first: Time,
    /// The largest excess over the capacity at any instant. It may be reached later than `first`.
    pub excess: Amount,
}

/// One step of a timetable's profile: these levels, from `start` to the start of the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// First instant of the step.
    pub start: Time,
    /// Amount held.
    pub held: Amount,
    /// Amount booked.
    pub booked: Amount,
}

impl Step {
    fn new(start: Time, level: Level) -> Self {
        Self { start, held: amount(level.held), booked: amount(level.booked) }
    }
}

/// One resource with a capacity, and what is held and booked of it over all time.
///
/// Two timetables are equal when capacity, held and booked amounts are equal at every instant. The
/// order of the changes makes no difference.
#[derive(Clone)]
pub struct Timetable {
    /// The capacity, in `0..=CAPACITY_MAX`.
    capacity: i64,
    /// The highest total that is allowed: the highest restored total if it exceeds the capacity, else
    /// the capacity. It follows from the capacity and the content, so equality leaves it out.
    ceiling: i64,
    breakpoints: Breakpoints,
}

impl Timetable {
    /// A timetable with nothing held and nothing booked.
    ///
    /// A capacity above 2^62 - 1, which is far above [`limits`], counts as 2^62 - 1.
    #[must_use]
    pub fn new(capacity: Amount) -> Self {
        let capacity = signed(capacity).min(CAPACITY_MAX);
        Self { capacity, ceiling: capacity, breakpoints: Breakpoints::new() }
    }

    /// The capacity of the resource, the same at every instant.
    #[must_use]
    pub const fn capacity(&self) -> Amount {
        amount(self.capacity)
    }

    /// Takes an amount over a window, for a hold or, in the one-way mode, directly for a booking.
    /// Nothing happens when the amount is zero.
    ///
    /// # Errors
    /// [`Shortfall`] when less than the amount is free at some instant of the window (I1).
    pub fn add(&mut self, layer: Layer, window: Window, amount: Amount) -> Result<(), Shortfall> {
        let free = self.free_min(window);
        if free < amount {
            let at = self.first_in(window, SeekGoal::TotalAbove(self.beside(amount)));
            return Err(Shortfall { available: free, requested: amount, at });
        }
        // Nothing can fail from here: the amount is free, so it is within the capacity.
        self.change(window, layer.level(signed(amount)), layer.level(-signed(amount)));
        Ok(())
    }

    /// Takes an amount over a window without checking that it is free. It is only for replay: a record
    /// was admitted against the capacity of its time. Today's capacity, which may be lower, applies to
    /// new amounts only.
    ///
    /// # Errors
    /// [`Shortfall`] when the total would exceed 2^62 - 1, the largest possible capacity, so that no
    /// capacity of any time can have admitted it. Its `available` is counted from that capacity.
    pub fn restore(
        &mut self,
        layer: Layer,
        window: Window,
        amount: Amount,
    ) -> Result<(), Shortfall> {
        let most = self.max_total(window);
        let available = self::amount(CAPACITY_MAX - most);
        if available < amount {
            let enough = CAPACITY_MAX - signed(amount);
            let at = self.first_in(window, SeekGoal::TotalAbove(enough));
            return Err(Shortfall { available, requested: amount, at });
        }
        // Nothing can fail from here.
        self.change(window, layer.level(signed(amount)), layer.level(-signed(amount)));
        self.ceiling = self.ceiling.max(most + signed(amount));
        Ok(())
    }

    /// Turns a hold into a booking: moves an amount from held to booked over a window. The total does
    /// not change, so the capacity is not checked.
    ///
    /// # Errors
    /// [`Underflow`] when less than the amount is held at some instant of the window.
    pub fn commit(&mut self, window: Window, amount: Amount) -> Result<(), Underflow> {
        self.check_has(Layer::Held, window, amount)?;
        // Nothing can fail from here.
        let by = signed(amount);
        let (there, back) = (Level { held: -by, booked: by }, Level { held: by, booked: -by });
        self.change(window, there, back);
        Ok(())
    }

    /// Frees an amount over a window, because a hold was aborted or expired, a booking was released, or
    /// a change no longer needs this part of either.
    ///
    /// # Errors
    /// [`Underflow`] when the layer has less than the amount at some instant of the window.
    pub fn remove(
        &mut self,
        layer: Layer,
        window: Window,
        amount: Amount,
    ) -> Result<(), Underflow> {
        self.check_has(layer, window, amount)?;
        // Nothing can fail from here.
        self.change(window, layer.level(-signed(amount)), layer.level(signed(amount)));
        self.lower_ceiling();
        Ok(())
    }

    /// Forgets what was held and booked before an instant. From the instant on nothing changes; before it,
    /// the timetable says nothing of value any more.
    pub fn forget_before(&mut self, now: Time) {
        self.breakpoints.forget_before(now);
        self.lower_ceiling();
    }

    /// If part of an excess is gone, the ceiling is lowered with it.
    fn lower_ceiling(&mut self) {
        if self.ceiling > self.capacity {
            let all = self.breakpoints.extremes(Time::MIN, Time::MAX);
            self.ceiling = self.capacity.max(all.max_total);
        }
    }

    /// What is free over the whole window: the capacity less the highest held + booked in it, or zero
    /// when that total exceeds the capacity.
    #[must_use]
    pub fn free_min(&self, window: Window) -> Amount {
        if planted::is(Bug::SumForMinimum) {
            return amount((self.capacity - self.sum_in(window)).max(0));
        }
        amount((self.capacity - self.max_total(window)).max(0))
    }

    /// The same as [`Timetable::free_min`], but negative when more is taken than the capacity: for
    /// callers that will free something first.
    #[must_use]
    pub fn slack(&self, window: Window) -> i64 {
        self.capacity - self.max_total(window)
    }

    /// Where, at `from` or later, more is held and booked than the capacity. `None` if nowhere, which
    /// is always so unless amounts were restored.
    #[must_use]
    pub fn overcommitted(&self, from: Time) -> Option<Overcommitment> {
        let excess = self.max_total(Window::new(from, Time::MAX)?) - self.capacity;
        if excess <= 0 {
            return None;
        }
        let first = self.breakpoints.seek(from, SeekGoal::TotalAbove(self.capacity))?;
        Some(Overcommitment { first, excess: amount(excess) })
    }

    /// Held and booked amounts as a step function over a window. The first step starts with the window,
    /// the last one lasts to its end, and neighbouring steps differ.
    #[must_use]
    pub fn profile(&self, window: Window) -> Vec<Step> {
        self.steps(window).collect()
    }

    /// The same steps as an iterator, for callers that may not need all of them.
    pub fn steps(&self, window: Window) -> impl Iterator<Item = Step> + '_ {
        let walk = self.breakpoints.walk_after(window.start());
        let first = Step::new(window.start(), walk.level());
        let inside = walk.take_while(move |&(time, _)| time < window.end());
        std::iter::once(first).chain(inside.map(|(time, level)| Step::new(time, level)))
    }

    /// The earliest window of this length inside `within` over which this amount can be added. `None`
    /// when there is none, or when the length is not positive.
    ///
    /// Costs O((k + 1) log n) for `k` too-full stretches between the start of `within` and the answer.
    #[must_use]
    pub fn earliest_fit(&self, amount: Amount, length: Span, within: Window) -> Option<Window> {
        if amount > self.capacity() || length <= Span::ZERO {
            return None;
        }
        let enough = self.beside(amount);
        let mut start = within.start();
        loop {
            start = self.breakpoints.seek(start, SeekGoal::TotalAtMost(enough))?;
            if start >= within.end() || within.end().since(start) < length {
                return None;
            }
            let fit = Window::starting(start, length)?;
            match self.breakpoints.seek(start, SeekGoal::TotalAbove(enough)) {
                Some(full) if full < fit.end() => start = full,
                _ => return Some(fit),
            }
        }
    }

    /// The first instant after `after` at which the held and booked total drops. An amount that does
    /// not fit from `after` on does not fit from any start before that instant either. Costs O(log n)
    /// and the breakpoints that are passed.
    #[must_use]
    pub fn next_relief(&self, after: Time) -> Option<Time> {
        let walk = self.breakpoints.walk_after(after);
        let mut before = walk.level().total();
        for (time, level) in walk {
            if level.total() < before {
                return Some(time);
            }
            before = level.total();
        }
        None
    }

    /// How many instants are stored: those at which held or booked changes.
    #[must_use]
    pub const fn breakpoints(&self) -> usize {
        self.breakpoints.tree.count()
    }

    /// Bytes of heap in use, unused capacity included.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.breakpoints.tree.heap_bytes()
    }

    /// Checks the structure and I1: 0 <= held, 0 <= booked and held + booked <= capacity at every
    /// instant, and nothing held or booked after the last one. If restored amounts exceed the capacity,
    /// the bound is the highest total that is left of them. That total must be reached exactly: any
    /// further excess would have another cause. Costs O(n).
    ///
    /// # Errors
    /// A sentence that states what is wrong.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.breakpoints.check()?;
        let (capacity, ceiling) = (self.capacity, self.ceiling);
        let (mut walk, mut most) = (self.breakpoints.walk(), 0);
        for (time, Level { held, booked }) in walk.by_ref() {
            if held < 0 || booked < 0 || held + booked > ceiling {
                let text = format!("I1 at {time}: {held} held, {booked} booked of {capacity}");
                return Err(format!("{text} ({ceiling} with restored amounts)"));
            }
            most = most.max(held + booked);
        }
        if ceiling != capacity.max(most) {
            return Err(format!(
                "the ceiling is {ceiling}, but at most {most} of {capacity} are taken"
            ));
        }
        match walk.level() {
            Level::ZERO => Ok(()),
            level => Err(format!("{level:?} is left after the last breakpoint")),
        }
    }

    /// The highest held + booked in a window.
    fn max_total(&self, window: Window) -> i64 {
        if planted::is(Bug::EndInclusive) {
            let end = window.end().saturating_add(Span::from_us(1));
            return self.breakpoints.extremes(window.start(), end).max_total;
        }
        self.breakpoints.extremes(window.start(), window.end()).max_total
    }

    /// The sum that a peer of ours uses instead of the maximum (see the head of this module): a planted
    /// bug.
    fn sum_in(&self, window: Window) -> i64 {
        let totals: Vec<u64> =
            self.profile(window).iter().map(|step| step.held.0 + step.booked.0).collect();
        let more = totals.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        signed(Amount(totals[0] + more.sum::<u64>()))
    }

    /// The highest existing total that leaves the amount free. For a zero amount this is the ceiling,
    /// so that it always fits.
    fn beside(&self, amount: Amount) -> i64 {
        if amount == Amount::ZERO { self.ceiling } else { self.capacity - signed(amount) }
    }

    /// Returns an error when a layer has less than `requested` at some instant of the window.
    fn check_has(&self, layer: Layer, window: Window, requested: Amount) -> Result<(), Underflow> {
        let extremes = self.breakpoints.extremes(window.start(), window.end());
        let (least, goal) = match layer {
            Layer::Held => (extremes.min_held, SeekGoal::HeldBelow(signed(requested))),
            Layer::Booked => (extremes.min_booked, SeekGoal::BookedBelow(signed(requested))),
        };
        let available = amount(least);
        if available < requested {
            let at = self.first_in(window, goal);
            return Err(Underflow { layer, available, requested, at });
        }
        Ok(())
    }

    /// The first instant of the window at which a goal is met. The caller knows that it is met
    /// somewhere in the window.
    fn first_in(&self, window: Window, goal: SeekGoal) -> Time {
        // The window's extremes meet the goal, so the seek ends inside the window.
        self.breakpoints.seek(window.start(), goal).unwrap_or(window.start())
    }

    /// The only mutation: one change where the window starts, its opposite where it ends.
    fn change(&mut self, window: Window, there: Level, back: Level) {
        self.breakpoints.change(window.start(), there);
        self.breakpoints.change(window.end(), back);
    }
}

impl PartialEq for Timetable {
    /// A breakpoint always has a change, so equal step functions have equal breakpoints.
    fn eq(&self, other: &Self) -> bool {
        self.capacity == other.capacity
            && self.breakpoints() == other.breakpoints()
            && self.breakpoints.walk().eq(other.breakpoints.walk())
    }
}

impl Eq for Timetable {}

impl fmt::Debug for Timetable {
    /// The content, which is what a failed test should show; the nodes of the tree are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.breakpoints.walk().map(|(time, level)| Step::new(time, level));
        f.debug_struct("Timetable")
            .field("capacity", &self.capacity)
            .field("steps", &steps.collect::<Vec<_>>())
            .finish()
    }
}

/// An amount as a signed number. An amount above 63 bits counts as the largest number, which exceeds
/// any capacity, so it is refused as well.
fn signed(amount: Amount) -> i64 {
    i64::try_from(amount.0).unwrap_or(i64::MAX)
}

/// A level as an amount. A level is never negative (I1), and a free amount is not either.
const fn amount(level: i64) -> Amount {
    Amount(level.unsigned_abs())
}
