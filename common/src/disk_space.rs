//! Whether the disk has space for something new: a fact that a shell reports to its core (I17).
//!
//! A node must be able to record the end of everything that it has promised, so disk space is reserved
//! for that. When the disk is so full that only this reserved space is left, the node makes no new
//! promises.
//!
//! Left out: how much space is reserved, and how, which is the ledger's concern.

/// What a shell reports to its core about the disk. It is volatile: no record contains it, and a restart
/// begins with `Enough`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiskSpace {
    /// There is space for anything.
    #[default]
    Enough,
    /// There is only space for the ends of what has begun: no new hold, no new reservation.
    Low,
}

impl DiskSpace {
    /// Must nothing new be begun?
    #[must_use]
    pub const fn is_low(self) -> bool {
        matches!(self, Self::Low)
    }
}
