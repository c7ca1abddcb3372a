//! Availability vectors: for one amount of one resource, one bit per slot that says whether the amount is
//! free.
//!
//! A vector is a profile at one amount `r`, cut into slots of equal length: the capacity availability
//! vector of a link, or the r-cluster availability vector of a cluster (Christodoulopoulos 2008, section 3;
//! Stevens 2009, section 4.1). The bit of a slot is set when `r` is free during the *whole* slot; the
//! papers print "more than r" and mean "at least". Multi-cost planners work on these vectors.
//!
//! **Absolute slots.** Slot `k` of a [`SlotGrid`] is `[k, k + 1)` times the slot's length since 1970, so
//! vectors of one grid can be combined regardless of who made them and when. A vector knows its first slot.
//! Nothing is known outside of its slots, and unknown means not available: every operation here treats
//! slots before the first and after the last as not free.
//!
//! **The papers' positions** are relative: position 0 is "now" at the node that sent the vector. The vector
//! of a link that begins at distance `d` is therefore `d` old when it is used, and Eq. (1) shifts it by
//! `2 d`: one `d` for its age, and one for the travel time of the data. Absolute slots already account for
//! the age, so [`AvailabilityVector::along`] shifts by the travel time alone.
//! [`AvailabilityVector::shifted_left`] and [`AvailabilityVector::masked_until`] (`MUV`) are the papers'
//! operations as printed; a test shows that both readings agree.
//!
//! **Conservative rounding.** A slot that is free only in part counts as not free. A length of time is
//! rounded up to slots ([`SlotGrid::slots_for`]), and an instant at which something becomes ready is moved
//! to the next slot boundary ([`SlotGrid::first_from`]). So a plan that fits the vectors also fits the
//! profiles that they were made from, whatever the grids of links and clusters are.
//!
//! Left out: amounts (one vector has one amount), which hold takes a slot, clocks, the wire. Planners that
//! do many operations at once use the raw words of the bits; [`kernel`] has those operations.

mod grid;
pub mod kernel;
#[cfg(test)]
mod tests;

use bitvec::order::Lsb0;
use bitvec::vec::BitVec;

use crate::amount::Amount;
use crate::invalid::{InvalidField, check_range};
use crate::limits;
use crate::time::{Time, Window};
use crate::timetable::Timetable;

pub use grid::{Slot, SlotGrid};

/// When one amount of one resource is free, by slots.
///
/// Two vectors are equal when they have the same grid, the same first slot and the same bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvailabilityVector {
    grid: SlotGrid,
    first: Slot,
    /// Bit `i` is slot `first + i`. The bits begin at a word boundary, and the bits of the last word beyond
    /// the length are zero, because the kernels work on whole words.
    bits: BitVec<u64, Lsb0>,
}

impl AvailabilityVector {
    /// A vector of `slots` slots from `first` on, none of them free.
    ///
    /// # Errors
    /// [`InvalidField`] when `slots` is not in 1 to [`limits::VECTOR_SLOTS_MAX`], or the vector begins
    /// before 1970 or ends after [`limits::TIME_MAX_US`].
    pub fn nothing(grid: SlotGrid, first: Slot, slots: usize) -> Result<Self, InvalidField> {
        check_range("slots", slots, 1..=limits::VECTOR_SLOTS_MAX, "slots")?;
        let last = grid.last_slot().0 - slots as i64 + 1;
        check_range("first", first.0, 0..=last, "(slots since 1970)")?;
        Ok(Self { grid, first, bits: BitVec::repeat(false, slots) })
    }

    /// A vector of `slots` slots from `first` on, all of them free.
    ///
    /// # Errors
    /// As [`AvailabilityVector::nothing`].
    pub fn everything(grid: SlotGrid, first: Slot, slots: usize) -> Result<Self, InvalidField> {
        let mut vector = Self::nothing(grid, first, slots)?;
        kernel::set(vector.bits.as_raw_mut_slice(), 0, slots);
        Ok(vector)
    }

    /// A vector from bits. The first bit is slot `first`.
    ///
    /// # Errors
    /// As [`AvailabilityVector::nothing`].
    pub fn of_bits(
        grid: SlotGrid,
        first: Slot,
        bits: impl IntoIterator<Item = bool>,
    ) -> Result<Self, InvalidField> {
        // One more than allowed is enough to be refused, however many follow.
        let bits: Vec<bool> = bits.into_iter().take(limits::VECTOR_SLOTS_MAX + 1).collect();
        let mut vector = Self::nothing(grid, first, bits.len())?;
        for (index, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
            kernel::set(vector.bits.as_raw_mut_slice(), index, index + 1);
        }
        Ok(vector)
    }

    /// When `timetable` has an amount free: the bit of a slot is set when held + booked leave at least
    /// `amount` free throughout the slot. Costs as much as the profile over the vector's time.
    ///
    /// # Errors
    /// As [`AvailabilityVector::nothing`].
    pub fn of_timetable(
        timetable: &Timetable,
        amount: Amount,
        grid: SlotGrid,
        first: Slot,
        slots: usize,
    ) -> Result<Self, InvalidField> {
        let vector = Self::nothing(grid, first, slots)?;
        let Some(window) = Window::new(grid.start_of(first), grid.start_of(vector.end())) else {
            return Ok(vector); // No slots: refused above.
        };
        let capacity = timetable.capacity();
        // Where restored amounts exceed the capacity, nothing is free.
        let free = |step: crate::timetable::Step| {
            let free = capacity.saturating_sub(step.held).saturating_sub(step.booked);
            (step.start, free)
        };
        Self::of_profile(
            timetable.profile(window).into_iter().map(free),
            amount,
            grid,
            first,
            slots,
        )
    }

    /// When a profile has an amount free. The profile is a step function of the free amount: each step
    /// lasts from its instant to that of the next step, and the last step lasts for ever. Before the first
    /// step, nothing is known to be free. A step whose instant is not later than that of the step before
    /// replaces that step.
    ///
    /// # Errors
    /// As [`AvailabilityVector::nothing`].
    pub fn of_profile(
        steps: impl IntoIterator<Item = (Time, Amount)>,
        amount: Amount,
        grid: SlotGrid,
        first: Slot,
        slots: usize,
    ) -> Result<Self, InvalidField> {
        let mut vector = Self::nothing(grid, first, slots)?;
        // The instant since which enough is free, over as many steps as that lasts: a slot may span several
        // steps.
        let mut since: Option<Time> = None;
        for (at, free) in steps {
            match (since, free >= amount) {
                (None, true) => since = Some(at),
                (Some(start), false) => {
                    vector.set_free(start, at);
                    since = None;
                }
                _ => {}
            }
        }
        if let Some(start) = since {
            vector.set_free(start, grid.start_of(vector.end()));
        }
        Ok(vector)
    }

    /// Marks the slots that lie inside `[start, end)` as free.
    fn set_free(&mut self, start: Time, end: Time) {
        let from = self.position(self.grid.first_from(start));
        let to = self.position(self.grid.containing(end));
        kernel::set(self.bits.as_raw_mut_slice(), from, to);
    }

    /// Moves the vector so that it begins at a later slot. The slots before that are dropped, and as many
    /// new slots are appended at the end, all of them free. Nothing happens when the vector already begins
    /// there or later.
    ///
    /// Costs as much as its words, without allocation: it is for pictures that move along with the time.
    pub fn advance(&mut self, first: Slot) {
        let last = self.grid.last_slot().0 - self.len() as i64 + 1;
        let first = first.0.min(last);
        let by = usize::try_from(first.saturating_sub(self.first.0)).unwrap_or(0);
        if by == 0 {
            return;
        }
        let slots = self.len();
        let words = self.bits.as_raw_mut_slice();
        kernel::shift_down(words, by);
        kernel::set(words, slots.saturating_sub(by), slots);
        self.first = Slot(first);
    }

    /// Replaces the slots that a window touches with a profile at an amount, in the form that
    /// [`AvailabilityVector::of_profile`] takes. A slot is free when the profile has the amount free
    /// throughout the slot. A slot inside which the amount becomes free, or stops being free, is not free.
    pub fn replace(
        &mut self,
        window: Window,
        steps: impl IntoIterator<Item = (Time, Amount)>,
        amount: Amount,
    ) {
        let (from, to) = self.grid.touched(window);
        let (begin, end) = (self.position(from), self.position(to));
        kernel::clear(self.bits.as_raw_mut_slice(), begin, end);
        let (first, last) = (self.grid.start_of(from), self.grid.start_of(to));
        let mut since: Option<Time> = None;
        for (at, free) in steps {
            match (since, free >= amount) {
                (None, true) => since = Some(at.max(first)),
                (Some(start), false) => {
                    self.set_free(start, at.min(last));
                    since = None;
                }
                _ => {}
            }
        }
        if let Some(start) = since {
            self.set_free(start, last);
        }
    }

    /// The position of a slot, at most the length; 0 for slots before the first.
    fn position(&self, slot: Slot) -> usize {
        usize::try_from(slot.0.saturating_sub(self.first.0)).unwrap_or(0).min(self.len())
    }

    /// The grid of its slots.
    #[must_use]
    pub const fn grid(&self) -> SlotGrid {
        self.grid
    }
    /// The first slot that the vector covers.
    #[must_use]
    pub const fn first(&self) -> Slot {
        self.first
    }
    /// The first slot after those that the vector covers.
    #[must_use]
    pub fn end(&self) -> Slot {
        Slot(self.first.0 + self.len() as i64)
    }
    /// How many slots it has (`u` or `z`, the papers' dimension).
    #[must_use]
    pub fn len(&self) -> usize {
        self.bits.len()
    }
    /// Always false: a vector has at least one slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }
    /// Is this slot free? Slots outside of the vector are not.
    #[must_use]
    pub fn is_free(&self, slot: Slot) -> bool {
        let position = slot.0.checked_sub(self.first.0).and_then(|at| usize::try_from(at).ok());
        position.and_then(|at| self.bits.get(at)).is_some_and(|bit| *bit)
    }
    /// Is every slot from `from` to before `to` free? True when there is no slot between them.
    #[must_use]
    pub fn is_free_over(&self, from: Slot, to: Slot) -> bool {
        from >= to
            || (self.first <= from
                && to <= self.end()
                && kernel::first_zero(self.words(), self.position(from)) >= self.position(to))
    }
    /// The bits as words, position 0 first: 64 per word, the lowest bit first, zero beyond the length.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.bits.as_raw_slice()
    }
    /// The bits, position 0 first.
    pub fn bits(&self) -> impl Iterator<Item = bool> {
        self.bits.iter().by_vals()
    }

    /// How many slots are free (`weight` of Eq. 6).
    #[must_use]
    pub fn weight(&self) -> usize {
        kernel::weight(self.words())
    }

    /// `R(b)`: the first slot, not before `from`, at which `length` free slots in a row begin. For a
    /// `length` of 0 it is `from` itself, unless `from` is after the vector's end.
    #[must_use]
    pub fn first_run(&self, from: Slot, length: usize) -> Option<Slot> {
        if from > self.end() {
            return None;
        }
        let from = from.max(self.first);
        let found = kernel::first_run(self.words(), self.position(from), length)?;
        (found + length <= self.len()).then(|| Slot(self.first.0 + found as i64))
    }

    /// The vector of this path extended by a link (Eq. 1, with absolute slots). A slot is free when it is
    /// free in this vector and the link is free `travel` slots later, which is when data sent in this slot
    /// arrive there. The result covers the slots of this vector.
    ///
    /// Associative: `a.along(x, b).along(x + y, c)` equals `a.along(x, b.along(y, c))` wherever all three
    /// vectors cover the slots.
    ///
    /// # Errors
    /// [`InvalidField`] when the two vectors are on different grids.
    pub fn along(&self, travel: u64, link: &Self) -> Result<Self, InvalidField> {
        if self.grid != link.grid {
            let allowed = format!("a vector with slots of {}", self.grid.slot());
            return Err(InvalidField::new("link", link.grid.slot(), allowed));
        }
        let travel = i64::try_from(travel).unwrap_or(i64::MAX);
        let shift = self.first.0.saturating_add(travel).saturating_sub(link.first.0);
        let mut bits = BitVec::repeat(false, self.len());
        kernel::and_shifted(bits.as_raw_mut_slice(), self.words(), link.words(), shift);
        Ok(Self { grid: self.grid, first: self.first, bits })
    }

    /// `LSH_by`: position `k` of the result is position `k + by` of this vector; the positions at the end
    /// are not free. The first slot and the length do not change, as in the papers, whose positions are
    /// relative.
    #[must_use]
    pub fn shifted_left(&self, by: u64) -> Self {
        let mut bits = BitVec::repeat(false, self.len());
        let all = vec![u64::MAX; self.words().len()];
        let shift = i64::try_from(by).unwrap_or(i64::MAX);
        kernel::and_shifted(bits.as_raw_mut_slice(), &all, self.words(), shift);
        Self { grid: self.grid, first: self.first, bits }
    }

    /// `MUV`: this vector with every slot before `slot` marked as not available. The papers' `MUV_k` is
    /// that of slot `first + k`.
    #[must_use]
    pub fn masked_until(&self, slot: Slot) -> Self {
        let mut masked = self.clone();
        let to = masked.position(slot);
        kernel::clear(masked.bits.as_raw_mut_slice(), 0, to);
        masked
    }

    /// The slots at which `length` free slots in a row begin, where something of that length can start. For
    /// a length of 0 or 1 this is the vector itself.
    #[must_use]
    pub fn starts(&self, length: usize) -> Self {
        let mut starts =
            Self { grid: self.grid, first: self.first, bits: BitVec::repeat(false, self.len()) };
        kernel::starts(starts.bits.as_raw_mut_slice(), self.words(), length);
        starts
    }

    /// Is every slot that is free in `other` also free in this vector (`>=`, component by component, of Eq.
    /// 3)? Slots outside of a vector count as not free. False when the two are on different grids.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let ahead = other.first.0.saturating_sub(self.first.0);
        self.grid == other.grid
            && kernel::first_uncovered(self.words(), other.words(), ahead).is_none()
    }
}
