//! The interface of every core to its shell: a state machine that never waits.

use coalloc_common::{BootTime, DiskSpace, Now};

use crate::durable::Unsynced;

/// A pure state machine: input and time go in, records and effects come out.
///
/// The state changes in [`Core::apply`] only, by one record at a time. A step decides which records to write,
/// and applies them. So the state equals the fold of the log by construction (I12, I14).
pub trait Core {
    /// What can happen to the core: a message, a caller's request, or the passing of time.
    type Input;
    /// What the core writes to its log.
    type Record;
    /// What the shell has to do once the records are durable: send a message, answer a caller.
    type Effect;

    /// Handles one input: first refusals in a fixed order, then records, then effects.
    fn step(&mut self, input: Self::Input, now: Now) -> Unsynced<Self::Record, Self::Effect>;

    /// Changes the state by one record, which either a step has just decided on or the log replays at start.
    ///
    /// # Errors
    /// [`ReplayError`] when the record does not fit the state: the log belongs to another core, or it is
    /// corrupt. A step never gets this error for its own records.
    fn apply(&mut self, record: &Self::Record) -> Result<(), ReplayError>;

    /// The input that only says that time has passed.
    fn tick() -> Self::Input;

    /// The input that says whether the disk has space for something new. `None` if the core does not need to
    /// know. The shell passes it in before all other inputs of the same batch, and before the inputs of the
    /// process's start.
    fn room(_room: DiskSpace) -> Option<Self::Input> {
        None
    }

    /// When the core wants a tick at the latest; `None` when it waits for nothing.
    fn next_wake(&self) -> Option<BootTime>;

    /// Checks everything that must always be true of the state.
    ///
    /// # Errors
    /// Describes the first violated invariant in words, with its number in the design (`I1`).
    fn check_invariants(&self) -> Result<(), String>;
}

/// A record that does not fit the state it is applied to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record does not fit the state: {0}")]
pub struct ReplayError(pub String);
