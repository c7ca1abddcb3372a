//! The state of a core as parts, so that a start need not fold every record since the beginning.
//!
//! A ledger stores the parts that have changed, each under its key, together with the number of records that they stand
//! for. A start puts the parts back and replays only the records after them. The state must be the same as
//! the fold of all records (I12).
//!
//! Left out: where the parts are stored, and when; see the crate `ledger`. Which facts are in a part, see each core.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::{Core, ReplayError};

/// One part of a snapshot that has changed since the last snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPart<P> {
    /// Names the part within the snapshot. It stays the same for the life of what it stands for.
    pub key: String,
    /// What it is now; `None` when it is gone.
    pub part: Option<P>,
}

/// A core whose state can be stored as parts.
pub trait Snapshot: Core {
    /// One part. It is a serde type like a record: a field may be added later with a default.
    type Part: Serialize + DeserializeOwned + Send + 'static;

    /// How many parts have changed since the last call of [`Snapshot::take_changed`].
    fn changed(&self) -> usize;

    /// The parts that have changed since the last call, or since the core was made. Together with the parts that were
    /// taken before they are the fold of all records so far. Call it only when every step is durable.
    fn take_changed(&mut self) -> Vec<ChangedPart<Self::Part>>;

    /// Puts one part back into a core that was just made, in any order.
    ///
    /// # Errors
    /// [`ReplayError`] when the part does not belong to this core.
    fn restore(&mut self, part: Self::Part) -> Result<(), ReplayError>;

    /// Ends the restoring: computes what follows from the parts. `records` is the number of records that the parts
    /// stand for. From then on records are replayed with [`Core::apply`].
    ///
    /// # Errors
    /// [`ReplayError`] when the parts contradict each other.
    fn restored(&mut self, records: u64) -> Result<(), ReplayError>;
}
