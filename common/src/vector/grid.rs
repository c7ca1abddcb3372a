//! How time is cut into slots. Left out: what is free in a slot, see
//! [`AvailabilityVector`](super::AvailabilityVector).

use crate::invalid::InvalidField;
use crate::limits;
use crate::time::{Span, Time, Window};

/// Number of a slot in its grid, counted from 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub i64);

impl Slot {
    /// The slot that is `slots` later, at most the last possible number.
    #[must_use]
    pub const fn plus(self, slots: u64) -> Self {
        Self(self.0.saturating_add_unsigned(slots))
    }
}

/// Slots of one length, one after another from 1970 on: slot `k` is `[k, k + 1)` times the length.
///
/// All grids with the same slot length are the same grid. Links and clusters may have different grids
/// (`tau_l` and `tau_m` of the papers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotGrid {
    slot: Span,
}

impl SlotGrid {
    /// A grid of slots of this length.
    ///
    /// # Errors
    /// [`InvalidField`] when the length is not in [`limits::SLOT_MIN`] to [`limits::SLOT_MAX`].
    pub fn new(slot: Span) -> Result<Self, InvalidField> {
        if !(limits::SLOT_MIN..=limits::SLOT_MAX).contains(&slot) {
            let (min, max) = (limits::SLOT_MIN, limits::SLOT_MAX);
            return Err(InvalidField::new("slot", slot, format!("{min} to {max}")));
        }
        Ok(Self { slot })
    }

    /// The length of a slot.
    #[must_use]
    pub const fn slot(self) -> Span {
        self.slot
    }

    /// The first instant of a slot.
    #[must_use]
    pub const fn start_of(self, slot: Slot) -> Time {
        Time::from_us(slot.0.saturating_mul(self.slot.as_us()))
    }

    /// The slot that contains an instant: the last one that begins at the instant or earlier.
    #[must_use]
    pub const fn containing(self, at: Time) -> Slot {
        Slot(at.as_us().div_euclid(self.slot.as_us()))
    }

    /// The first slot that begins at an instant or later. Something that is ready at the instant can
    /// begin there.
    #[must_use]
    pub const fn first_from(self, at: Time) -> Slot {
        let inside = at.as_us().rem_euclid(self.slot.as_us()) != 0;
        Slot(self.containing(at).0 + inside as i64)
    }

    /// The slots that have an instant in common with a window: the first of them, and the one after
    /// the last.
    #[must_use]
    pub const fn touched(self, window: Window) -> (Slot, Slot) {
        (self.containing(window.start()), self.first_from(window.end()))
    }

    /// A window widened to whole slots.
    #[must_use]
    pub fn widened(self, window: Window) -> Window {
        let (from, to) = self.touched(window);
        Window::new(self.start_of(from), self.start_of(to)).unwrap_or(window)
    }

    /// How many slots a length of time takes when it begins at a slot boundary: rounded up, 0 when it
    /// is not positive.
    #[must_use]
    pub const fn slots_for(self, length: Span) -> u64 {
        if length.as_us() <= 0 {
            return 0;
        }
        length.as_us().unsigned_abs().div_ceil(self.slot.as_us().unsigned_abs())
    }

    /// The length of this many slots, at most the longest possible span.
    #[must_use]
    pub fn length_of(self, slots: u64) -> Span {
        self.slot.saturating_mul(i64::try_from(slots).unwrap_or(i64::MAX))
    }

    /// The last slot that ends by [`limits::TIME_MAX_US`].
    #[must_use]
    pub const fn last_slot(self) -> Slot {
        Slot(limits::TIME_MAX_US / self.slot.as_us() - 1)
    }
}
