//! The ledger on a disk: one SQLite file in write-ahead mode, every append one durable transaction.
//!
//! Opening goes from what cannot harm to what can: lock, header bytes, meta data through a read-only
//! connection, write-ahead log, and only then a connection that may write. So a file of a newer
//! release, of another node or of another program is refused as it was found.
//!
//! Left out: how a new file is made (`create`), what is checked before it is opened (`inspect`, `wal`).

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coalloc_protocol::{Log, ReplayError};
use rusqlite::{Connection, OpenFlags, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::chain::Chain;
use crate::error::LedgerError;
use crate::lock::Lock;
use crate::{create, inspect, replay, wal};

/// The format this binary writes, and the newest it reads.
pub const FORMAT_VERSION: i64 = 1;
/// SQLite's application id of a ledger: "CoAL". `file` and `PRAGMA application_id` show it.
pub const APPLICATION_ID: i32 = 0x436f_414c;

/// How long an append waits for somebody who holds SQLite's write lock: an operator's own tool in a
/// write transaction, which should not be there. Then the append fails, and the process ends (I16).
const BUSY_PATIENCE: Duration = Duration::from_secs(5);
/// Pages in the write-ahead log (4 KiB each) after which a commit copies them to the main file:
/// SQLite's own default. Larger spares copies of the same page, but one commit in that many pays
/// for the copy, and an opening after a crash reads the log first.
const CHECKPOINT_PAGES: i64 = 1_000;
/// The write-ahead log is cut to this after a checkpoint. It grows beyond when a reader keeps one
/// snapshot open for long: nothing can be copied past that one.
const WAL_BYTES_KEPT: i64 = 16 << 20;

const INSERT: &str = "INSERT INTO record (sequence, body, hash) VALUES (?1, ?2, ?3)";
const SELECT: &str = "SELECT sequence, body, hash FROM record ORDER BY sequence";

/// Whose ledger it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// What the node is, as in `nrm`, `crm`, `grc`.
    pub kind: String,
    /// The node's name.
    pub name: String,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)
    }
}

/// A [`Log`] in a SQLite file. See the crate's documentation for the format and its guarantees.
pub struct SqliteLedger<R> {
    path: PathBuf,
    connection: Connection,
    id: String,
    /// Up to the last durable record.
    chain: Chain,
    /// An append failed: what the disk has is unknown, so nothing is built upon it.
    failed: bool,
    /// Declared last, so that it is freed after the connection is closed.
    _lock: Lock,
    _records: PhantomData<fn() -> R>,
}

impl<R: Serialize + DeserializeOwned> SqliteLedger<R> {
    /// Opens the ledger at `path`, creates it if there is none, and replays its records in order.
    ///
    /// `new_id` is only called for a new ledger and gives its id: 128 random bits as 32 lower-case
    /// hexadecimal digits. The folder must exist.
    ///
    /// # Errors
    /// [`LedgerError`] when it is in use, of a newer format, another node's or no ledger; when a
    /// record is damaged, cannot be read, or is refused by `replay`; when the system fails.
    pub fn open(
        path: &Path,
        identity: &Identity,
        new_id: impl FnOnce() -> String,
        replay: impl FnMut(u64, R) -> Result<(), ReplayError>,
    ) -> Result<Self, LedgerError> {
        // Two names of one file must find one lock.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let lock = Lock::take(&path)?;
        if !inspect::exists(&path)? {
            create::create(&path, identity, &new_id())?;
        }
        let id = inspect::inspect(&path, identity)?;
        wal::check(&path)?;
        let connection = connect(&path)?;
        let mut ledger = Self {
            path,
            connection,
            chain: Chain::new(&id),
            id,
            failed: false,
            _lock: lock,
            _records: PhantomData,
        };
        ledger.replay(replay)?;
        tracing::info!(path = %ledger.path.display(), records = ledger.chain.last, "ledger open");
        Ok(ledger)
    }

    /// Reads every record, checks it against the chain and hands it on.
    fn replay(
        &mut self,
        mut replay: impl FnMut(u64, R) -> Result<(), ReplayError>,
    ) -> Result<(), LedgerError> {
        let mut chain = self.chain;
        let mut statement =
            self.connection.prepare(SELECT).map_err(sqlite(&self.path, "reading"))?;
        let mut rows = statement.query([]).map_err(sqlite(&self.path, "reading"))?;
        loop {
            let expected = chain.last + 1;
            let reading =
                |source| sqlite(&self.path, format!("reading record {expected} of"))(source);
            let Some(row) = rows.next().map_err(reading)? else {
                break;
            };
            let broken = |why: String| LedgerError::ChainBroken {
                path: self.path.clone(),
                sequence: expected,
                why,
            };
            let sequence: i64 = row.get(0).map_err(reading)?;
            let body = row.get_ref(1).map_err(reading)?.as_str();
            let body = body.map_err(|error| broken(format!("its body is no text ({error})")))?;
            let hash = row.get_ref(2).map_err(reading)?.as_blob().unwrap_or_default();
            replay::record(&self.path, &mut chain, (sequence, body, hash), &mut replay)?;
        }
        drop(rows);
        drop(statement);
        self.chain = chain;
        Ok(())
    }

    /// One transaction: all records or none, on the disk when this returns.
    fn write(&mut self, records: &[&R]) -> Result<(), LedgerError> {
        let mut chain = self.chain;
        let failed = sqlite(&self.path, "writing to");
        let transaction = self.connection.transaction().map_err(&failed)?;
        {
            let mut insert = transaction.prepare_cached(INSERT).map_err(&failed)?;
            for record in records {
                let body = serde_json::to_string(record).map_err(|source| {
                    let (path, sequence) = (self.path.clone(), chain.last + 1);
                    LedgerError::Unencodable { path, sequence, source }
                })?;
                chain.append(&body);
                // `as` is exact: nobody writes 2^63 records.
                let row = params![chain.last as i64, body, chain.tip.as_slice()];
                insert.execute(row).map_err(&failed)?;
            }
        }
        transaction.commit().map_err(&failed)?;
        self.chain = chain;
        Ok(())
    }
}

impl<R> SqliteLedger<R> {
    /// The ledger's own id, made when it was.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The sequence number of the last durable record; the first record is 1.
    pub const fn last_sequence(&self) -> u64 {
        self.chain.last
    }

    /// The hash of the last durable record. Kept elsewhere, it tells whether a tail was cut off.
    pub const fn tip(&self) -> &[u8; 32] {
        &self.chain.tip
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl<R> std::fmt::Debug for SqliteLedger<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("SqliteLedger");
        f.field("path", &self.path).field("id", &self.id).field("last", &self.chain.last);
        f.field("failed", &self.failed).finish_non_exhaustive()
    }
}

impl<R: Serialize + DeserializeOwned> Log for SqliteLedger<R> {
    type Record = R;
    type Error = LedgerError;

    fn append(&mut self, records: &[&R]) -> Result<(), LedgerError> {
        if self.failed {
            return Err(LedgerError::Failed { path: self.path.clone() });
        }
        if records.is_empty() {
            return Ok(());
        }
        let result = self.write(records);
        self.failed = result.is_err();
        result
    }
}

/// The connection that writes.
fn connect(path: &Path) -> Result<Connection, LedgerError> {
    let open = || -> rusqlite::Result<(Connection, String)> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_PATIENCE)?;
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
        // In write-ahead mode FULL is what makes each commit wait for the disk.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Where fsync does not reach the platter unless told so (macOS); elsewhere nothing.
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)?;
        Ok((connection, mode))
    };
    let (connection, mode) = open().map_err(sqlite(path, "opening"))?;
    if mode != "wal" {
        let why = format!("its folder cannot have a write-ahead log (journal mode {mode})");
        return Err(LedgerError::NotALedger { path: path.to_owned(), why });
    }
    Ok(connection)
}

/// Turns SQLite's error into ours.
pub(crate) fn sqlite(
    path: &Path,
    doing: impl Into<String>,
) -> impl Fn(rusqlite::Error) -> LedgerError {
    let (path, doing) = (path.to_owned(), doing.into());
    move |source| LedgerError::Sqlite { path: path.clone(), doing: doing.clone(), source }
}
