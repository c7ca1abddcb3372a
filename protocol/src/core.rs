//! What every core is to its shell: a state machine that never waits.

use coalloc_common::{BootTime, DiskSpace, Now};

use crate::durable::Unsynced;

/// A pure state machine: input and time in, records and effects out.
///
/// The state changes in one place only, [`Core::apply`], for a record; a step decides which records
/// there are and applies them. So the state equals the fold of the log by construction (I12, I14).
pub trait Core {
    /// What can happen to it.
    type Input;
    /// What it writes down.
    type Record;
    /// What it wants done afterwards.
    type Effect;

    /// Handles one input: refusals in a fixed order, then records, then effects.
    fn step(&mut self, input: Self::Input, now: Now) -> Unsynced<Self::Record, Self::Effect>;

    /// Changes the state by one record: a step's own, or one replayed at start.
    ///
    /// # Errors
    /// [`ReplayError`] when the record does not fit the state: the log is not this core's, or it is
    /// corrupt. A step never meets this with its own records.
    fn apply(&mut self, record: &Self::Record) -> Result<(), ReplayError>;

    /// The input that only says that time has passed.
    fn tick() -> Self::Input;

    /// The input that says whether there is room on the disk for something new; `None` of a core that does
    /// not ask. It comes before all others of its batch, and before those of the process's start.
    fn room(_room: DiskSpace) -> Option<Self::Input> {
        None
    }

    /// When it wants a tick at the latest; `None` when it waits for nothing.
    fn next_wake(&self) -> Option<BootTime>;

    /// Checks what must always be true.
    ///
    /// # Errors
    /// The first violated invariant, in words, with its number in the design (`I1`).
    fn check_invariants(&self) -> Result<(), String>;
}

/// A record that does not fit the state it is applied to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the ledger does not fit: {0}")]
pub struct ReplayError(pub String);
