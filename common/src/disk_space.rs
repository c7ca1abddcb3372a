//! Is there room on the disk for something new? A fact that a shell tells its core (I17).
//!
//! What a node has promised it must be able to write down the end of, so room is kept back for that. When
//! the disk is so full that this room is all there is, nothing new is promised any more.
//!
//! Left out: how much room, and how it is kept, which is the ledger's.

/// What a core is told of its disk. Volatile: no record has it, and a restart begins with `Enough`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiskSpace {
    /// For whatever comes.
    #[default]
    Enough,
    /// Only for the ends of what has begun: no new hold, no new reservation.
    Low,
}

impl DiskSpace {
    /// Is nothing new to be begun?
    #[must_use]
    pub const fn is_low(self) -> bool {
        matches!(self, Self::Low)
    }
}
