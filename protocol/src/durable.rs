//! Durable before speaking, enforced by types.
//!
//! A core's step returns [`Unsynced`]: records that must be made durable, and effects (messages, replies) that
//! may leave only afterwards. The only way to the effects is [`sync`]. It hands the records to a [`Log`], and
//! returns [`Synced`] once the log says that they are on the disk. Nothing else can make a `Synced`, and only a
//! `Synced` gives up its effects.
//!
//! The records of this crate are the points D1 to D5 of the design. Group commit means that one call of
//! [`sync`] takes many `Unsynced`. The design follows the trust quorum of omicron and `Ready` of etcd/raft,
//! except that here the compiler enforces the order.

use coalloc_common::DiskSpace;
use coalloc_common::planted::{self, Bug};
use serde::Serialize;

use crate::causer::{CausedRecord, Causer};
use crate::snapshot::ChangedPart;

/// The durable log of one core, in the order of its records.
pub trait Log {
    /// One entry of the log.
    type Record;
    /// Why an append failed. A failed append ends the process before any reply (I16): nobody knows whether the
    /// records are on the disk, so nothing may be sent.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Does this error say that another process may append by now? Then nothing is wrong here, but this process must end, too.
    fn is_replaced(_error: &Self::Error) -> bool {
        false
    }

    /// Appends all records in their order, each with who caused it, or none of them. Returns when they are durable.
    ///
    /// # Errors
    /// When the records are not known to be durable.
    fn append_caused(
        &mut self,
        records: &[CausedRecord<'_, Self::Record>],
    ) -> Result<(), Self::Error>;

    /// The same, for records that the node itself has caused.
    ///
    /// # Errors
    /// As [`Log::append_caused`].
    fn append(&mut self, records: &[&Self::Record]) -> Result<(), Self::Error> {
        let records: Vec<_> = records.iter().map(|record| CausedRecord::from(*record)).collect();
        self.append_caused(&records)
    }

    /// Should a snapshot be written now that so many parts have changed since the last one? A log without snapshots
    /// says no.
    fn snapshot_is_due(&self, _changed: usize) -> bool {
        false
    }

    /// Makes the changed parts part of the snapshot, which from then on stands for every record that was appended: all
    /// of them or none, durable when this returns. It is called only when a snapshot is due.
    ///
    /// # Errors
    /// As [`Log::append_caused`].
    fn write_snapshot<P: Serialize>(
        &mut self,
        _changed: &[ChangedPart<P>],
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Is there space on the disk for any batch that may come, beyond the reserved space for ending what has
    /// begun (I17)? The question is asked before each batch is stepped. A log without a size limit says yes.
    ///
    /// # Errors
    /// When the log cannot go on. Like a failed append, this ends the process (I16).
    fn room(&mut self) -> Result<DiskSpace, Self::Error> {
        Ok(DiskSpace::Enough)
    }
}

/// The result of one step: records to make durable first, then effects to release.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "records that are not synced are lost, and so are the effects that depend on them"]
pub struct Unsynced<R, E> {
    records: Vec<R>,
    effects: Vec<E>,
    by: Causer,
}

impl<R, E> Unsynced<R, E> {
    /// Makes the result of one step. Any core may do so, because an `Unsynced` releases nothing. Only [`sync`]
    /// makes a [`Synced`].
    pub const fn new(records: Vec<R>, effects: Vec<E>) -> Self {
        Self { records, effects, by: Causer::Itself }
    }

    /// The same step after one more record.
    pub(crate) fn after(mut self, record: R) -> Self {
        self.records.insert(0, record);
        self
    }

    /// The same step with more effects, after its own.
    pub(crate) fn with_effects(mut self, effects: impl IntoIterator<Item = E>) -> Self {
        self.effects.extend(effects);
        self
    }

    /// The same step, caused by somebody. Its shell knows by whom; a core does not.
    pub fn caused_by(self, by: Causer) -> Self {
        Self { by, ..self }
    }

    /// The records, for inspection only; they stay in the `Unsynced`.
    pub fn records(&self) -> &[R] {
        &self.records
    }
}

/// Effects whose own records are durable, and the records of every earlier step, too.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "effects that are not sent leave somebody waiting"]
pub struct Synced<E> {
    effects: Vec<E>,
}

impl<E> Synced<E> {
    /// The effects, to be carried out in this order.
    pub fn into_effects(self) -> Vec<E> {
        self.effects
    }
}

/// Makes a batch of steps durable with one append, and releases their effects in order.
///
/// Steps without records must pass through here as well. Otherwise a reply that repeats what an earlier step of
/// the batch decided could overtake that step's records.
///
/// # Errors
/// The error of the log. The effects are lost then, and the caller must end the process (I16).
pub fn sync<L: Log, E>(
    batch: Vec<Unsynced<L::Record, E>>,
    log: &mut L,
) -> Result<Synced<E>, L::Error> {
    let caused = |step| {
        let Unsynced { records, by, .. }: &Unsynced<L::Record, E> = step;
        records.iter().map(move |record| CausedRecord { record, by })
    };
    let records: Vec<_> = batch.iter().flat_map(caused).collect();
    if !records.is_empty()
        && let Err(error) = log.append_caused(&records)
        && !planted::is(Bug::SentWithoutSync)
    {
        return Err(error);
    }
    Ok(Synced { effects: batch.into_iter().flat_map(|step| step.effects).collect() })
}
