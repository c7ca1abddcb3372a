//! How time is cut into slots.

use crate::invalid::InvalidField;
use crate::limits;
use crate::time::{Span, Time, Window};

/// Number of a slot in its grid, counted from 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub i64);

impl Slot {
    /// The slot so many later, at most the last number there is.
    #[must_use]
    pub const fn plus(self, slots: u64) -> Self {
        Self(self.0.saturating_add_unsigned(slots))
    }
}

/// Slots of one length, one after another from 1970 on: slot `k` is `[k, k + 1)` times the length.
///
/// Grids of one length are the same grid, wherever they are used; links and clusters may have
/// different ones (`tau_l` and `tau_m` of the papers).
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

    /// The slot an instant lies in: the last that begins at it or earlier.
    #[must_use]
    pub const fn containing(self, at: Time) -> Slot {
        Slot(at.as_us().div_euclid(self.slot.as_us()))
    }

    /// The first slot that begins at an instant or later: when something that is ready then can begin.
    #[must_use]
    pub const fn first_from(self, at: Time) -> Slot {
        let inside = at.as_us().rem_euclid(self.slot.as_us()) != 0;
        Slot(self.containing(at).0 + inside as i64)
    }

    /// The slots that a window has an instant in: the first, and the one after the last.
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

    /// How many slots a length of time needs, begun at a boundary: rounded up, 0 for none.
    #[must_use]
    pub const fn slots_for(self, length: Span) -> u64 {
        if length.as_us() <= 0 {
            return 0;
        }
        length.as_us().unsigned_abs().div_ceil(self.slot.as_us().unsigned_abs())
    }

    /// The length of so many slots, at most the longest there is.
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
