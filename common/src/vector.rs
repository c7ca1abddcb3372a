//! Availability vectors: when so much of one resource is free, one bit a slot.
//!
//! A vector is a profile at one amount `r`, cut into slots of equal length: the capacity availability
//! vector of a link, the r-cluster availability vector of a cluster (Christodoulopoulos 2008, section
//! 3; Stevens 2009, section 4.1). A slot's bit is set when `r` is free during the *whole* slot; the
//! papers print "more than r" and mean "at least". Multi-cost planners work on these.
//!
//! **Absolute slots.** Slot `k` of a [`SlotGrid`] is `[k, k + 1)` times the slot's length since 1970,
//! so that vectors of one grid fit together whoever made them and whenever. A vector knows its first
//! slot. Outside of it nothing is known, and what is not known is not available: every operation here
//! takes a slot before the first and after the last as not free.
//!
//! **The papers' positions** are relative: position 0 is "now" at the node that sent the vector.
//! The vector of a link that begins at distance `d` is therefore `d` old when it is used, and Eq.
//! (1) shifts it by `2 d`: one `d` for its age, one for the travel of the data. Absolute slots do
//! the first by themselves: [`AvailabilityVector::along`] shifts by the travel alone.
//! [`AvailabilityVector::shifted_left`] and [`AvailabilityVector::masked_until`] (`MUV`) make the
//! papers' reading as printed; a test shows that both agree.
//!
//! **Conservative rounding.** Whatever is cut into slots loses what a slot has only in part. A length
//! of time becomes slots by rounding up ([`SlotGrid::slots_for`]), an instant at which something
//! becomes ready the next boundary ([`SlotGrid::first_from`]). So a plan that fits vectors fits the
//! profiles they were made from, whatever the grids of links and clusters are.
//!
//! Left out: amounts (one vector is one amount), which hold takes a slot, clocks, the wire. The words
//! behind the bits are for planners that do many operations at once; [`kernel`] has those.

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
    /// Bit `i` is slot `first + i`. It begins at a word, and what its last word has beyond its length
    /// is zero: the kernels work on whole words.
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

    /// The same, all of them free.
    ///
    /// # Errors
    /// As [`AvailabilityVector::nothing`].
    pub fn everything(grid: SlotGrid, first: Slot, slots: usize) -> Result<Self, InvalidField> {
        let mut vector = Self::nothing(grid, first, slots)?;
        kernel::set(vector.bits.as_raw_mut_slice(), 0, slots);
        Ok(vector)
    }

    /// A vector of bits, the first of them slot `first`.
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

    /// What `timetable` has free of an amount: a slot's bit is set when held + booked leave at least
    /// `amount` throughout the slot. Costs what the profile over the vector's time costs.
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
        // A level beyond the capacity (what was restored) leaves nothing.
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

    /// What a profile has free of an amount. The profile is the free amount as a step function: each
    /// step holds from its instant to the next one's, the last for ever; before the first nothing is
    /// known to be free. Steps whose instant is not later than the one before take its place.
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
        // Since when enough is free, over as many steps as that lasts: a slot may span several.
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

    /// Marks the slots that lie in `[start, end)` as free.
    fn set_free(&mut self, start: Time, end: Time) {
        let from = self.position(self.grid.first_from(start));
        let to = self.position(self.grid.containing(end));
        kernel::set(self.bits.as_raw_mut_slice(), from, to);
    }

    /// Moves it on to begin at a later slot: what was before is forgotten, and as many slots at its end are
    /// new, all of them free. Nothing happens when it begins there or later already.
    ///
    /// Costs what its words cost, without allocation: for pictures that go with the time.
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

    /// Replaces what it says of the slots that a window touches by a profile at an amount, as
    /// [`AvailabilityVector::of_profile`] takes them. A slot is free when the profile has the amount
    /// free throughout it: steps that begin or end within a slot leave that one not free.
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

    /// A slot's position, at most the length; 0 for those before the first.
    fn position(&self, slot: Slot) -> usize {
        usize::try_from(slot.0.saturating_sub(self.first.0)).unwrap_or(0).min(self.len())
    }

    /// How its time is cut.
    #[must_use]
    pub const fn grid(&self) -> SlotGrid {
        self.grid
    }
    /// The first slot of which anything is known.
    #[must_use]
    pub const fn first(&self) -> Slot {
        self.first
    }
    /// The first slot after the last of which anything is known.
    #[must_use]
    pub fn end(&self) -> Slot {
        Slot(self.first.0 + self.len() as i64)
    }
    /// How many slots it has (`u` or `z`, the papers' dimension).
    #[must_use]
    pub fn len(&self) -> usize {
        self.bits.len()
    }
    /// Never: a vector has at least one slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }
    /// Is this slot free? Not outside of the vector.
    #[must_use]
    pub fn is_free(&self, slot: Slot) -> bool {
        let position = slot.0.checked_sub(self.first.0).and_then(|at| usize::try_from(at).ok());
        position.and_then(|at| self.bits.get(at)).is_some_and(|bit| *bit)
    }
    /// Is every slot from one to before another free? Also when there is none between.
    #[must_use]
    pub fn is_free_over(&self, from: Slot, to: Slot) -> bool {
        from >= to
            || (self.first <= from
                && to <= self.end()
                && kernel::first_zero(self.words(), self.position(from)) >= self.position(to))
    }
    /// The bits, position 0 first: 64 a word, the lowest bit first, zero beyond the length.
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

    /// `R(b)`: the first slot, not before `from`, at which `length` free slots in a row begin. For no
    /// slots at all that is `from` itself, when it is not after the vector's end.
    #[must_use]
    pub fn first_run(&self, from: Slot, length: usize) -> Option<Slot> {
        if from > self.end() {
            return None;
        }
        let from = from.max(self.first);
        let found = kernel::first_run(self.words(), self.position(from), length)?;
        (found + length <= self.len()).then(|| Slot(self.first.0 + found as i64))
    }

    /// The vector of this path and then a link (Eq. 1, absolute): a slot is free when it is free here
    /// and `travel` slots later on the link, where what is sent in it arrives so much later. Known
    /// where this vector is known.
    ///
    /// Associative: `a.along(x, b).along(x + y, c)` equals `a.along(x, b.along(y, c))` where all of
    /// them are known.
    ///
    /// # Errors
    /// [`InvalidField`] when the two are on different grids.
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

    /// `LSH_by`: position `k` becomes what position `k + by` was, with nothing free at the end. First
    /// slot and length stay, as in the papers, whose positions are relative.
    #[must_use]
    pub fn shifted_left(&self, by: u64) -> Self {
        let mut bits = BitVec::repeat(false, self.len());
        let all = vec![u64::MAX; self.words().len()];
        let shift = i64::try_from(by).unwrap_or(i64::MAX);
        kernel::and_shifted(bits.as_raw_mut_slice(), &all, self.words(), shift);
        Self { grid: self.grid, first: self.first, bits }
    }

    /// `MUV`: the same with every slot before `slot` not available. The papers' `MUV_k` is that of slot
    /// `first + k`.
    #[must_use]
    pub fn masked_until(&self, slot: Slot) -> Self {
        let mut masked = self.clone();
        let to = masked.position(slot);
        kernel::clear(masked.bits.as_raw_mut_slice(), 0, to);
        masked
    }

    /// The slots at which `length` free slots in a row begin: where something of that length can start.
    /// For a length of 0, or of 1, the vector itself.
    #[must_use]
    pub fn starts(&self, length: usize) -> Self {
        let mut starts =
            Self { grid: self.grid, first: self.first, bits: BitVec::repeat(false, self.len()) };
        kernel::starts(starts.bits.as_raw_mut_slice(), self.words(), length);
        starts
    }

    /// Is every slot that is free in `other` free here (`>=`, component by component, of Eq. 3)? Slots
    /// outside of a vector count as not free.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let ahead = other.first.0.saturating_sub(self.first.0);
        self.grid == other.grid
            && kernel::first_uncovered(self.words(), other.words(), ahead).is_none()
    }
}
