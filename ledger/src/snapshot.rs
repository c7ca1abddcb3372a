//! The snapshot in a ledger: the parts of a core's state, and the record that they stand for.
//!
//! Table `part` has one row for each part. Table `position` has at most two rows: `snapshot` is the last record that the
//! parts stand for, with its hash in the chain and a digest of all parts; `begin` is the last record that is no longer in this
//! file, because it was archived. A snapshot is written in one transaction, and only the parts that have changed since
//! the last one are written.
//!
//! The digest is the exclusive or of the SHA-256 of every part, so that it can follow the changes. It finds damage: a part
//! that was changed, removed, or left behind. It does not stop somebody who can write the file, as little as
//! the chain does; but the archives have the records from which the parts follow.
//!
//! Left out: when a snapshot is due, and the archives; see [`crate::sqlite`] and [`crate::archive`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use coalloc_common::limits;
use coalloc_protocol::{ChangedPart, ReplayError};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::chain::{Chain, Hash};
use crate::error::{LedgerError, sqlite};
use crate::packed::{self, PackedError};

/// Parts and positions. No part is in a ledger until its first snapshot.
pub(crate) const SCHEMA: &str = "
CREATE TABLE part (
    key TEXT PRIMARY KEY,
    body BLOB NOT NULL            -- the part as Packed CBOR
) STRICT, WITHOUT ROWID;
CREATE TABLE position (
    name TEXT PRIMARY KEY,        -- 'snapshot': what the parts stand for; 'begin': what is no longer in this file
    sequence INTEGER NOT NULL,    -- the last record of it
    hash BLOB NOT NULL,           -- the hash of that record
    digest BLOB                   -- of a snapshot: exclusive or of SHA-256 of (length of key, key, body) of every part
) STRICT, WITHOUT ROWID;
";

const ADD: &str = "INSERT INTO part (key, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
const CHANGE: &str = "UPDATE part SET body = ?2 WHERE key = ?1";
const PUT_POSITION: &str = "INSERT INTO position (name, sequence, hash, digest) VALUES (?1, ?2, ?3, ?4) \
                            ON CONFLICT DO UPDATE SET sequence = excluded.sequence, \
                            hash = excluded.hash, digest = excluded.digest";

/// When snapshots are due, and how many records stay in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotPolicy {
    /// A snapshot is due when so many parts have changed, or more, as long as writing them takes no longer than
    /// [`limits::SNAPSHOT_TIME`].
    pub parts: usize,
    /// A snapshot is due when so many parts have changed, however fast they are written.
    pub parts_max: usize,
    /// A snapshot is due when so many records were appended since the last.
    pub records: u64,
    /// Records that stay in the file at least, for those who follow the ledger.
    pub kept: u64,
    /// Records in one archive. An archive is made when there are `kept` records and these.
    pub archived: u64,
}

impl Default for SnapshotPolicy {
    fn default() -> Self {
        Self {
            parts: limits::SNAPSHOT_PARTS,
            parts_max: limits::SNAPSHOT_PARTS_MAX,
            records: limits::SNAPSHOT_RECORDS,
            kept: limits::LEDGER_RECORDS_KEPT,
            archived: limits::ARCHIVE_RECORDS,
        }
    }
}

impl SnapshotPolicy {
    /// With how many changed parts the next snapshot is due, after one of `written` parts that took so long, and was due with
    /// `before`. A part that changes twice before the snapshot is written once, so larger snapshots are less work. One that took
    /// long makes the next ones small at once; after that they at most double.
    pub(crate) fn next_due(&self, before: usize, written: usize, took: Duration) -> usize {
        let most = limits::SNAPSHOT_TIME.to_std();
        if written < before && took <= most {
            // It was due because of the records. Of so few parts the commit is most of the time.
            return before;
        }
        let fit = (written as u128).saturating_mul(most.as_nanos()) / took.as_nanos().max(1);
        let fit = usize::try_from(fit).unwrap_or(usize::MAX).min(before.saturating_mul(2));
        fit.clamp(self.parts, self.parts_max.max(self.parts))
    }
}

/// What is read of a ledger at start: first parts, then records.
pub trait Fold {
    /// One part of a snapshot.
    type Part: DeserializeOwned;
    /// One record.
    type Record: DeserializeOwned;

    /// Takes one part.
    ///
    /// # Errors
    /// [`ReplayError`] when the part cannot be of this state.
    fn restore(&mut self, part: Self::Part) -> Result<(), ReplayError>;

    /// There are no further parts; they stand for so many records.
    ///
    /// # Errors
    /// [`ReplayError`] when the parts contradict each other.
    fn restored(&mut self, records: u64) -> Result<(), ReplayError>;

    /// Notices a record that the parts contain already, if it is still in the ledger's file. Comes after
    /// [`Fold::restored`].
    fn contained(&mut self, _sequence: u64, _record: Self::Record) {}

    /// Takes the next record after the parts, with its sequence number.
    ///
    /// # Errors
    /// [`ReplayError`] when the record does not fit the state.
    fn replay(&mut self, sequence: u64, record: Self::Record) -> Result<(), ReplayError>;
}

/// A core that is read from its ledger. `noticed` is told of every record that is in the file.
#[derive(Debug)]
pub struct CoreFold<'a, C, N> {
    /// A core that was just made.
    pub core: &'a mut C,
    /// Called for every record in the file, whether the snapshot contains it or it was replayed.
    pub noticed: N,
}

impl<C, N> Fold for CoreFold<'_, C, N>
where
    C: coalloc_protocol::Snapshot,
    C::Record: DeserializeOwned,
    N: FnMut(u64, &C::Record),
{
    type Part = C::Part;
    type Record = C::Record;

    fn restore(&mut self, part: C::Part) -> Result<(), ReplayError> {
        self.core.restore(part)
    }

    fn restored(&mut self, records: u64) -> Result<(), ReplayError> {
        self.core.restored(records)
    }

    fn contained(&mut self, sequence: u64, record: C::Record) {
        (self.noticed)(sequence, &record);
    }

    fn replay(&mut self, sequence: u64, record: C::Record) -> Result<(), ReplayError> {
        self.core.apply(&record)?;
        (self.noticed)(sequence, &record);
        Ok(())
    }
}

/// A fold of records alone, for programs that have no state: it refuses a ledger with a snapshot.
#[derive(Debug)]
pub(crate) struct RecordsOnly<R, F>(pub(crate) F, std::marker::PhantomData<fn() -> R>);

impl<R, F> RecordsOnly<R, F> {
    pub(crate) const fn new(replay: F) -> Self {
        Self(replay, std::marker::PhantomData)
    }
}

impl<R, F> Fold for RecordsOnly<R, F>
where
    R: DeserializeOwned,
    F: FnMut(u64, R) -> Result<(), ReplayError>,
{
    type Part = serde::de::IgnoredAny;
    type Record = R;

    fn restore(&mut self, _: Self::Part) -> Result<(), ReplayError> {
        Err(ReplayError("the first records were archived, and only a core reads a snapshot".into()))
    }

    fn restored(&mut self, _: u64) -> Result<(), ReplayError> {
        Ok(())
    }

    fn replay(&mut self, sequence: u64, record: R) -> Result<(), ReplayError> {
        (self.0)(sequence, record)
    }
}

/// What the parts of a ledger stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The last record that the parts contain.
    pub(crate) at: Chain,
    digest: PartsDigest,
}

/// The positions of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Positions {
    /// The end of the records that are no longer in the file; the chain goes on from here.
    pub(crate) begin: Chain,
    /// The snapshot; `None` when there is none yet.
    pub(crate) snapshot: Option<Snapshot>,
}

impl Positions {
    /// Those of a ledger of format 1, or without a snapshot.
    pub(crate) fn none(id: &str) -> Self {
        Self { begin: Chain::new(id), snapshot: None }
    }

    /// Reads them.
    pub(crate) fn read(connection: &Connection, format: i64, id: &str) -> rusqlite::Result<Self> {
        if format < 2 {
            return Ok(Self::none(id));
        }
        let mut select = connection
            .prepare_cached("SELECT sequence, hash, digest FROM position WHERE name = ?1")?;
        let mut of = |name: &str| {
            let row = |row: &rusqlite::Row<'_>| {
                let last = u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
                let at = Chain { last, tip: row.get(1)? };
                Ok((at, row.get::<_, Option<Hash>>(2)?.unwrap_or_default()))
            };
            select.query_row([name], row).optional()
        };
        let begin = of("begin")?.map_or_else(|| Chain::new(id), |(at, _)| at);
        let snapshot =
            of("snapshot")?.map(|(at, digest)| Snapshot { at, digest: PartsDigest(digest) });
        Ok(Self { begin, snapshot })
    }
}

/// The digest of a set of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PartsDigest(Hash);

impl PartsDigest {
    /// Adds a part that is not in the set, or removes one that is.
    pub(crate) fn toggle(&mut self, key: &str, body: &[u8]) {
        let mut digest = Sha256::new();
        digest.update((key.len() as u64).to_be_bytes());
        digest.update(key);
        digest.update(body);
        let hash: Hash = digest.finalize().into();
        self.0.iter_mut().zip(hash).for_each(|(byte, of)| *byte ^= of);
    }
}

/// Why a snapshot cannot be written.
pub(crate) enum WriteError {
    Part(PackedError),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Writes the changed parts, and that all parts stand for the records up to `at` from now on. The caller commits.
pub(crate) fn write<P: Serialize>(
    transaction: &Connection,
    before: Option<Snapshot>,
    changed: &[ChangedPart<P>],
    at: Chain,
) -> Result<Snapshot, WriteError> {
    let mut digest = before.map(|before| before.digest).unwrap_or_default();
    let mut select = transaction.prepare_cached("SELECT body FROM part WHERE key = ?1")?;
    let mut add = transaction.prepare_cached(ADD)?;
    let mut change = transaction.prepare_cached(CHANGE)?;
    let mut delete = transaction.prepare_cached("DELETE FROM part WHERE key = ?1")?;
    for ChangedPart { key, part } in changed {
        let body = part.as_ref().map(packed::pack).transpose().map_err(WriteError::Part)?;
        if let Some(body) = &body {
            digest.toggle(key, body);
            // Most parts are new, and an old body needs to be looked for only if there is one.
            if add.execute(params![key, body])? == 1 {
                continue;
            }
        }
        let old: Option<Vec<u8>> = select.query_row([key], |row| row.get(0)).optional()?;
        if let Some(old) = &old {
            digest.toggle(key, old);
        }
        match body {
            Some(body) => change.execute(params![key, body])?,
            None => delete.execute([key])?,
        };
    }
    put_position(transaction, "snapshot", at, Some(digest))?;
    Ok(Snapshot { at, digest })
}

/// Writes one position.
pub(crate) fn put_position(
    transaction: &Connection,
    name: &str,
    at: Chain,
    digest: Option<PartsDigest>,
) -> rusqlite::Result<()> {
    let digest = digest.map(|digest| digest.0);
    // `as` is exact: nobody writes 2^63 records.
    let row = params![name, at.last as i64, at.tip, digest];
    transaction.prepare_cached(PUT_POSITION)?.execute(row).map(drop)
}

/// Passes every part to `each`, and checks that they are those that were written.
pub(crate) fn read_parts(
    path: &Path,
    connection: &Connection,
    snapshot: &Snapshot,
    mut each: impl FnMut(&str, &[u8]) -> Result<(), LedgerError>,
) -> Result<(), LedgerError> {
    let reading = sqlite(path, "reading the snapshot of");
    let mut digest = PartsDigest::default();
    let mut statement = connection.prepare("SELECT key, body FROM part").map_err(&reading)?;
    let mut rows = statement.query([]).map_err(&reading)?;
    while let Some(row) = rows.next().map_err(&reading)? {
        let key =
            row.get_ref(0).map_err(&reading)?.as_str().map_err(|error| reading(error.into()))?;
        let body =
            row.get_ref(1).map_err(&reading)?.as_blob().map_err(|error| reading(error.into()))?;
        digest.toggle(key, body);
        each(key, body)?;
    }
    if digest != snapshot.digest {
        let (path, record) = (path.to_owned(), snapshot.at.last);
        return Err(LedgerError::SnapshotDamaged { path, record });
    }
    Ok(())
}

/// Reads a snapshot into a fold.
pub(crate) fn restore<F: Fold>(
    path: &Path,
    connection: &Connection,
    snapshot: &Snapshot,
    fold: &mut F,
) -> Result<(), LedgerError> {
    let record = snapshot.at.last;
    // The parts are checked as a whole at the end. So an error of a single one may be damage, which says more.
    let mut restored = Ok(());
    read_parts(path, connection, snapshot, |key, body| {
        if restored.is_ok() {
            restored = restore_part(path, record, key, body, fold);
        }
        Ok(())
    })?;
    restored?;
    end_restoring(path, record, fold)
}

/// Reads parts that are in memory into a fold.
pub(crate) fn restore_parts<F: Fold>(
    path: &Path,
    record: u64,
    parts: &BTreeMap<String, Vec<u8>>,
    fold: &mut F,
) -> Result<(), LedgerError> {
    for (key, body) in parts {
        restore_part(path, record, key, body, fold)?;
    }
    end_restoring(path, record, fold)
}

fn restore_part<F: Fold>(
    path: &Path,
    record: u64,
    key: &str,
    body: &[u8],
    fold: &mut F,
) -> Result<(), LedgerError> {
    let part = packed::unpack(body).map_err(|error| error.to_string());
    let result = part.and_then(|part| fold.restore(part).map_err(|error| error.to_string()));
    result.map_err(|why| {
        let why = format!("part `{key}`: {why}");
        LedgerError::SnapshotDoesNotFit { path: path.to_owned(), record, why }
    })
}

fn end_restoring<F: Fold>(path: &Path, record: u64, fold: &mut F) -> Result<(), LedgerError> {
    fold.restored(record).map_err(|error| {
        let (path, why) = (path.to_owned(), error.to_string());
        LedgerError::SnapshotDoesNotFit { path, record, why }
    })
}

/// Checks that a record that was read is the one that the snapshot stands for.
pub(crate) fn check_record(
    path: &Path,
    snapshot: Option<&Snapshot>,
    read: &Chain,
) -> Result<(), LedgerError> {
    match snapshot {
        Some(snapshot) if snapshot.at.last == read.last && snapshot.at.tip != read.tip => {
            let why = "the snapshot stands for another record in its place".to_owned();
            Err(LedgerError::ChainBroken { path: path.to_owned(), sequence: read.last, why })
        }
        _ => Ok(()),
    }
}

/// Checks that the record that the snapshot stands for was read, or was archived.
pub(crate) fn check_reached(
    path: &Path,
    snapshot: Option<&Snapshot>,
    last: u64,
) -> Result<(), LedgerError> {
    match snapshot {
        Some(snapshot) if snapshot.at.last > last => {
            let why = "it is missing, but the snapshot contains it".to_owned();
            Err(LedgerError::ChainBroken { path: path.to_owned(), sequence: last + 1, why })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_grow_as_far_as_they_are_fast_and_shrink_at_once() {
        let policy = SnapshotPolicy::default();
        let (least, most) = (policy.parts, policy.parts_max);
        let ms = Duration::from_millis;
        assert_eq!(policy.next_due(least, least, ms(1)), 2 * least, "eight times would fit");
        assert_eq!(policy.next_due(2_000, 2_000, ms(10)), 1_600);
        assert_eq!(policy.next_due(most, most, ms(1)), most);
        assert_eq!(policy.next_due(most, most, ms(800)), least);
        // Few parts, because there were many records: a larger one would not take as long for each part.
        assert_eq!(policy.next_due(2_000, 20, ms(2)), 2_000);
        assert_eq!(policy.next_due(2_000, 500, ms(16)), least);
        assert_eq!(policy.next_due(least, 0, ms(0)), least);
    }
}
