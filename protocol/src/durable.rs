//! Durable before speaking, as types.
//!
//! A core's step returns [`Unsynced`]: records that must be durable, and effects (messages, replies)
//! that may only leave afterwards. The one way to get the effects out is [`sync`], which hands the
//! records to a [`Log`] and returns [`Synced`] when the log says that they are on the disk. Nothing
//! else can make a `Synced`, and only a `Synced` gives up its effects.
//!
//! Points D1 to D5 of the design are what the records of this crate are; group commit is many
//! `Unsynced` in one call of [`sync`]. After omicron's trust quorum and etcd/raft's `Ready`, with the
//! order enforced instead of written down.

use coalloc_common::DiskSpace;
use coalloc_common::planted::{self, Bug};

/// The durable log of one core, in the order of its records.
pub trait Log {
    /// What one entry is.
    type Record;
    /// Why an append failed. A failed append ends the process before any reply (I16): whether the
    /// records are on the disk is unknown, so nothing may be said.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Appends all records, in order, all or none, and returns when they are durable.
    ///
    /// # Errors
    /// When the records are not known to be durable.
    fn append(&mut self, records: &[&Self::Record]) -> Result<(), Self::Error>;

    /// Is there room for a batch of whatever comes, beyond what is kept back for the ends of what has
    /// begun (I17)? Asked before each batch is stepped. A log without bounds says yes.
    ///
    /// # Errors
    /// When the log cannot go on: as a failed append, it ends the process (I16).
    fn room(&mut self) -> Result<DiskSpace, Self::Error> {
        Ok(DiskSpace::Enough)
    }
}

/// What one step wants: records to make durable first, then effects to release.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "records that are not synced are lost, and so are the effects behind them"]
pub struct Unsynced<R, E> {
    records: Vec<R>,
    effects: Vec<E>,
}

impl<R, E> Unsynced<R, E> {
    /// A step's result. Any core may make one: it promises nothing. Only [`Synced`], which does, is
    /// beyond their reach.
    pub const fn new(records: Vec<R>, effects: Vec<E>) -> Self {
        Self { records, effects }
    }

    /// The records, for a look; they stay where they are.
    pub fn records(&self) -> &[R] {
        &self.records
    }
}

/// Effects whose records are durable, and those of every step before.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "effects that are not sent leave somebody waiting"]
pub struct Synced<E> {
    effects: Vec<E>,
}

impl<E> Synced<E> {
    /// The effects, to be sent in this order.
    pub fn into_effects(self) -> Vec<E> {
        self.effects
    }
}

/// Makes a batch of steps durable with one append, and releases their effects in order.
///
/// Steps without records still go through here, so that a reply which repeats what an earlier step
/// of the batch decided cannot overtake that step's records.
///
/// # Errors
/// Whatever the log says; the effects are gone then, and the caller must end the process (I16).
pub fn sync<L: Log, E>(
    batch: Vec<Unsynced<L::Record, E>>,
    log: &mut L,
) -> Result<Synced<E>, L::Error> {
    let records: Vec<&L::Record> = batch.iter().flat_map(|step| &step.records).collect();
    if !records.is_empty()
        && let Err(error) = log.append(&records)
        && !planted::is(Bug::SentWithoutSync)
    {
        return Err(error);
    }
    Ok(Synced { effects: batch.into_iter().flat_map(|step| step.effects).collect() })
}
