//! Reads a ledger while its writer is at work: from a cursor on, in chunks.
//!
//! Streams of state changes are built on this. The ledger already is the log of events, so a follower
//! needs no queue of its own: a cursor marks its position, and a reader that is slow, or away for a week,
//! costs nothing meanwhile. [`LedgerReader`] is a connection that can only read; [`MemoryReader`] is the
//! same for the simulated disk.
//!
//! Each read is one short transaction. SQLite can copy its write-ahead log to the main file only as far as
//! the oldest open snapshot, so no reader may keep a snapshot open. A reader never waits for the writer,
//! nor the writer for it.
//!
//! What a reader sees has been written. Between write and fsync another connection sees nothing, because
//! SQLite publishes a commit after the fsync. A caller that must be sure that records are durable limits
//! its reads to the sequence number that the writer has announced.
//!
//! Left out: the hash chain, which is checked when the node starts and not here. A missing record is
//! noticed, however.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use coalloc_common::limits;
use coalloc_protocol::ProvenPeer;
use rusqlite::{Connection, OpenFlags, params};
use serde::de::DeserializeOwned;

use crate::body::Body;
use crate::chain::{self, Hash};
use crate::error::LedgerError;
use crate::error::sqlite;
use crate::identity::FORMAT_VERSION;
use crate::memory::SimulatedDisk;
use crate::rows;
use crate::snapshot::Positions;
use crate::sqlite::hash_of;

static CHUNK: LazyLock<String> = LazyLock::new(|| {
    let select = rows::select(FORMAT_VERSION);
    format!("{select} WHERE sequence > ?1 AND sequence <= ?2 ORDER BY sequence LIMIT ?3")
});
/// Size of a reader's page cache. SQLite takes a negative number as KiB: this is enough for the path down
/// the tree and a chunk.
const CACHE_KIB: i64 = -256;

/// One record, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<R> {
    /// The record's sequence number: 1, 2, 3 and so on.
    pub sequence: u64,
    /// The record's hash in the chain, which covers every record up to this one.
    pub hash: [u8; 32],
    /// The record.
    pub record: R,
    /// Who caused it; `None` if the node itself did.
    pub from: Option<ProvenPeer>,
}

/// Reads durable records in order.
pub trait ReadRecords {
    /// The type of the records.
    type Record;

    /// The records after `cursor` and up to `last`, which are both sequence numbers. `cursor` is not before
    /// [`ReadRecords::begin`]. Returns at most
    /// [`limits::WATCH_CHUNK`] records, and stops after [`limits::WATCH_CHUNK_BYTES`] of them; but at
    /// least one record, unless there is none.
    ///
    /// # Errors
    /// [`LedgerError`] when the file cannot be read, or a record is missing, was archived, or cannot be understood.
    fn read(&mut self, cursor: u64, last: u64) -> Result<Vec<Entry<Self::Record>>, LedgerError>;

    /// The last record that cannot be read any more, because it was archived; 0 when there is none.
    ///
    /// # Errors
    /// [`LedgerError`] when the file cannot be read.
    fn begin(&mut self) -> Result<u64, LedgerError>;

    /// The hash of one record; for 0, the hash before the first record; `None` when there is no such
    /// record, or when it cannot be read any more. The hash of the record [`ReadRecords::begin`] is known.
    ///
    /// # Errors
    /// [`LedgerError`] when the file cannot be read.
    fn hash(&mut self, sequence: u64) -> Result<Option<Hash>, LedgerError>;
}

/// Reads records from a ledger's file.
#[derive(Debug)]
pub struct LedgerReader<R> {
    path: PathBuf,
    id: String,
    connection: Connection,
    _records: PhantomData<fn() -> R>,
}

impl<R> LedgerReader<R> {
    /// Opens a ledger's file for reading, while it is open for writing. `id` is the ledger's id.
    ///
    /// # Errors
    /// [`LedgerError::Sqlite`] when the file cannot be opened.
    pub fn open(path: &Path, id: &str) -> Result<Self, LedgerError> {
        let open = || -> rusqlite::Result<Connection> {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(limits::WATCH_READ_PATIENCE.to_std())?;
            connection.pragma_update(None, "query_only", true)?;
            connection.pragma_update(None, "cache_size", CACHE_KIB)?;
            Ok(connection)
        };
        let connection = open().map_err(sqlite(path, "opening for reading"))?;
        Ok(Self { path: path.to_owned(), id: id.to_owned(), connection, _records: PhantomData })
    }

    fn positions(&self) -> Result<Positions, LedgerError> {
        let positions = Positions::read(&self.connection, FORMAT_VERSION, &self.id);
        positions.map_err(sqlite(&self.path, "following"))
    }
}

impl<R: DeserializeOwned> ReadRecords for LedgerReader<R> {
    type Record = R;

    fn read(&mut self, cursor: u64, last: u64) -> Result<Vec<Entry<R>>, LedgerError> {
        let reading = sqlite(&self.path, "following");
        let mut statement = self.connection.prepare_cached(&CHUNK).map_err(&reading)?;
        let most = limits::WATCH_CHUNK;
        // `as` is exact: nobody writes 2^63 records.
        let mut rows =
            statement.query(params![cursor as i64, last as i64, most as i64]).map_err(&reading)?;
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        while bytes < limits::WATCH_CHUNK_BYTES {
            let Some(row) = rows.next().map_err(&reading)? else { break };
            let expected = cursor + 1 + chunk.len() as u64;
            let found: i64 = row.get(0).map_err(&reading)?;
            if u64::try_from(found) != Ok(expected) {
                let archived = self.positions()?.begin.last;
                return Err(match archived > cursor {
                    true => LedgerError::Archived { path: self.path.clone(), archived },
                    false => missing(&self.path, expected),
                });
            }
            let body = rows::body(row).map_err(&reading)?;
            let body = body.map_err(|_| missing(&self.path, expected))?;
            bytes += body.bytes().len();
            let hash = row.get(2).map_err(&reading)?;
            chunk.push(entry(&self.path, expected, body, hash)?);
        }
        Ok(chunk)
    }

    fn begin(&mut self) -> Result<u64, LedgerError> {
        Ok(self.positions()?.begin.last)
    }

    fn hash(&mut self, sequence: u64) -> Result<Option<Hash>, LedgerError> {
        let begin = self.positions()?.begin;
        if sequence == begin.last {
            return Ok(Some(begin.tip));
        }
        hash_of(&self.connection, sequence).map_err(sqlite(&self.path, "following"))
    }
}

/// Reads records from a simulated disk. Its chain is that of a ledger whose id is the disk's name.
#[derive(Debug)]
pub struct MemoryReader<R> {
    disk: SimulatedDisk,
    _records: PhantomData<fn() -> R>,
}

impl<R> MemoryReader<R> {
    /// A reader of the durable records on `disk`.
    #[must_use]
    pub const fn new(disk: SimulatedDisk) -> Self {
        Self { disk, _records: PhantomData }
    }
}

impl<R: DeserializeOwned> ReadRecords for MemoryReader<R> {
    type Record = R;

    fn read(&mut self, cursor: u64, last: u64) -> Result<Vec<Entry<R>>, LedgerError> {
        let path = Path::new("simulated");
        let after =
            (1..).zip(self.disk.chained()).filter(|(at, _)| (cursor + 1..=last).contains(at));
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        for (sequence, (body, hash)) in after.take(limits::WATCH_CHUNK) {
            if bytes >= limits::WATCH_CHUNK_BYTES {
                break;
            }
            bytes += body.record.len();
            chunk.push(entry(path, sequence, body.as_body(), hash)?);
        }
        Ok(chunk)
    }

    fn begin(&mut self) -> Result<u64, LedgerError> {
        Ok(0)
    }

    fn hash(&mut self, sequence: u64) -> Result<Option<Hash>, LedgerError> {
        let Some(index) = sequence.checked_sub(chain::FIRST) else {
            return Ok(Some(chain::genesis(&self.disk.id())));
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        Ok(self.disk.chained().get(index).map(|(_, hash)| *hash))
    }
}

fn entry<R: DeserializeOwned>(
    path: &Path,
    sequence: u64,
    body: Body<'_>,
    hash: Hash,
) -> Result<Entry<R>, LedgerError> {
    let undecodable = |source| {
        let path = path.to_owned();
        LedgerError::Undecodable { path, sequence, source }
    };
    let record = body.record().map_err(undecodable)?;
    let from = body.causer().map_err(undecodable)?;
    Ok(Entry { sequence, hash, record, from })
}

fn missing(path: &Path, sequence: u64) -> LedgerError {
    let why = "it is missing or cannot be read, although the writer wrote it".to_owned();
    LedgerError::ChainBroken { path: path.to_owned(), sequence, why }
}
