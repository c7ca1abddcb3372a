//! The ledger on a disk: one SQLite file in write-ahead mode, in which every append is one durable
//! transaction.
//!
//! Opening begins with the steps that cannot do harm: first the lock, then the header bytes, the meta data
//! through a read-only connection, and the write-ahead log. Only then is a connection opened that may
//! write. So a file of a newer release, of another node or of another program is refused without being
//! changed.
//!
//! Left out: how a new file is made (`create`), and the checks before a file is opened (`inspect`, `wal`).

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coalloc_common::DiskSpace;
use coalloc_protocol::{CausedRecord, ChangedPart, Log, ReplayError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::archive::Archiver;
use crate::body::{Body, OwnedBody};
use crate::chain::{self, Chain, Hash};
use crate::error::{LedgerError, sqlite};
use crate::identity::Identity;
use crate::inspect::{LedgerSummary, is_damage};
use crate::lock::{Lock, beside};
use crate::reserved_space::ReservedSpace;
use crate::rows::{self, Causers, INSERT};
use crate::snapshot::{self, Fold, Positions, RecordsOnly, SnapshotPolicy, WriteError};
use crate::tip::{self, Tip, TipState, TipWriter};
use crate::{create, inspect, replay, upgrade, wal};

/// How long an append waits for SQLite's write lock. Only an operator's own tool in a write transaction can
/// hold it, which should not happen. After that the append fails, and the process ends (I16).
const BUSY_PATIENCE: Duration = Duration::from_secs(5);
/// Pages in the write-ahead log (4 KiB each) after which a commit copies them to the main file: SQLite's
/// own default. A larger number saves copies of the same page. But one commit in that many pays for the
/// copy, and an opening after a crash reads the log first.
const CHECKPOINT_PAGES: i64 = 1_000;
/// Bytes to which the write-ahead log is truncated after a checkpoint. It grows larger while a reader keeps
/// one snapshot open for long, because nothing can be copied past that snapshot.
const WAL_BYTES_KEPT: i64 = 16 << 20;

/// Records that an append deletes at most, of those that are in an archive.
const TRIMMED_AT_A_TIME: u64 = 256;

/// What a file is of its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileRole<'a> {
    /// All that there is. What was appended is durable, and a tip beside the file reveals whether something was lost.
    Original,
    /// A copy of the log at this prefix. A crash may cut off its end, which is read again there.
    Copy(&'a str),
}

/// A [`Log`] in a SQLite file. See the crate's documentation for the format and its guarantees.
pub struct SqliteLedger<R> {
    path: PathBuf,
    connection: Connection,
    about: LedgerSummary,
    /// Sequence number of the last durable record; `tip` is its hash.
    last: u64,
    tip: Hash,
    /// Writes the last record's number and hash to the tip file beside the ledger.
    keeper: TipWriter,
    causers: Causers,
    positions: Positions,
    policy: SnapshotPolicy,
    /// With how many changed parts the next snapshot is due.
    parts_due: usize,
    archiver: Archiver,
    room: ReservedSpace,
    /// Does every commit wait for the disk?
    is_original: bool,
    /// Has an append failed? Then it is unknown what is on the disk, so nothing more is written.
    failed: bool,
    /// Declared last, so that the lock is freed after the connection is closed.
    _lock: Lock,
    _records: PhantomData<fn() -> R>,
}

impl<R: Serialize + DeserializeOwned> SqliteLedger<R> {
    /// Opens the ledger at `path`, creates it if there is none, and replays its records in order.
    ///
    /// `new_id` is called only for a new ledger and returns its id: 128 random bits as 32 lower-case
    /// hexadecimal digits. The folder must exist.
    ///
    /// # Errors
    /// [`LedgerError`] when the ledger is in use, has a newer format, belongs to another node or is not a
    /// ledger; when it is missing or older although the tip remembers more; when a record is damaged,
    /// cannot be read, or is refused by `replay`; or when the system fails.
    pub fn open(
        path: &Path,
        identity: &Identity,
        new_id: impl FnOnce() -> String,
        replay: impl FnMut(u64, R) -> Result<(), ReplayError>,
    ) -> Result<Self, LedgerError> {
        Self::open_into(path, identity, new_id, &mut RecordsOnly::new(replay))
    }

    /// The same for a ledger that may have a snapshot: its parts are read first, and then the records after it.
    ///
    /// # Errors
    /// As [`SqliteLedger::open`], and when the snapshot is damaged or cannot be read.
    pub fn open_into(
        path: &Path,
        identity: &Identity,
        new_id: impl FnOnce() -> String,
        fold: &mut impl Fold<Record = R>,
    ) -> Result<Self, LedgerError> {
        Self::open_as(FileRole::Original, path, identity, new_id, fold)
    }

    /// Opens this member's copy of the log at `prefix`, and creates it with the id of that log if there is none. The records of the
    /// copy are read into the fold.
    ///
    /// # Errors
    /// As [`SqliteLedger::open_into`].
    pub(crate) fn open_copy(
        path: &Path,
        identity: &Identity,
        id: &str,
        prefix: &str,
        fold: &mut impl Fold<Record = R>,
    ) -> Result<Self, LedgerError> {
        Self::open_as(FileRole::Copy(prefix), path, identity, || id.to_owned(), fold)
    }

    fn open_as(
        role: FileRole<'_>,
        path: &Path,
        identity: &Identity,
        new_id: impl FnOnce() -> String,
        fold: &mut impl Fold<Record = R>,
    ) -> Result<Self, LedgerError> {
        // Two names of one file must lead to one lock.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let lock = Lock::take(&path)?;
        let remembered = match role {
            FileRole::Original => remembered(&path)?,
            FileRole::Copy(_) => TipState::Nothing,
        };
        if !inspect::exists(&path)? {
            if let TipState::Tip(tip) = &remembered {
                let (beside, records) = (beside(&path, ".tip"), tip.sequence);
                return Err(LedgerError::Gone { path, tip: beside, records });
            }
            create::create(&path, identity, &new_id())?;
        }
        let about = inspect::inspect(&path, identity)?;
        let unfinished = match (role, &about.shared_at) {
            (FileRole::Original, Some(prefix)) => {
                return Err(LedgerError::IsCopy { path, prefix: prefix.clone() });
            }
            (FileRole::Original, None) => wal::check(&path)?,
            // Of a copy a power cut may leave later transactions without earlier ones; SQLite cuts before the gap.
            (FileRole::Copy(_), _) => None,
        };
        // If the log is empty, there is nothing to copy, and closing the connection removes SQLite's own
        // empty files.
        let has_log = std::fs::metadata(beside(&path, "-wal")).is_ok_and(|log| log.len() > 0);
        let mut connection = connect(&path)?;
        let keep_log = |keep| {
            let keeping =
                connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep);
            keeping.map(drop).map_err(sqlite(&path, "opening"))
        };
        // Until everything is known to be sound, nothing is copied from the log to the main file, and
        // closing the connection does not copy either: a ledger that is refused stays as it was.
        keep_log(has_log)?;
        let wanted = match &remembered {
            TipState::Tip(tip) => tip.sequence,
            TipState::Nothing | TipState::Unreadable => 0,
        };
        let positions = positions(&path, &connection, &about)?;
        let mut end = End::begin(&about.id, &positions, wanted);
        read_all(&path, &connection, about.format, &positions, &mut end, fold)?;
        end.judge(&path, &remembered)?;
        keep_log(false)?;
        let about = upgrade::to_newest(&path, &mut connection, about)?;
        if let Some(unfinished) = unfinished {
            tracing::warn!(
                wal = %beside(&path, "-wal").display(),
                bytes = unfinished.bytes,
                frames = unfinished.frames,
                last_sound_record = end.tip.sequence,
                "an unfinished last transaction was rolled back: a crash cut it off, and nobody \
                 had received an answer to it"
            );
        }
        let hash = |record: u64| hash_of(&connection, record).ok().flatten();
        let archiver = Archiver::new(&path, &about, positions.begin.last, hash)?;
        let keeper = match role {
            FileRole::Original => TipWriter::new_or_none(&path, &end.tip).map_err(|source| {
                LedgerError::Io { path: beside(&path, ".tip"), doing: "writing", source }
            })?,
            FileRole::Copy(_) => TipWriter::none(),
        };
        if let FileRole::Copy(prefix) = role
            && about.shared_at.as_deref() != Some(prefix)
        {
            inspect::write_shared_at(&connection, Some(prefix))
                .map_err(sqlite(&path, "writing to"))?;
        }
        let is_original = role == FileRole::Original;
        set_durable(&connection, is_original).map_err(sqlite(&path, "opening"))?;
        let mut room = ReservedSpace::new(&path, &connection)
            .map_err(sqlite(&path, "reserving disk space in"))?;
        room.check(&mut connection).map_err(sqlite(&path, "reserving disk space in"))?;
        tracing::info!(path = %path.display(), records = end.tip.sequence, "ledger open");
        Ok(Self {
            path,
            connection,
            about,
            last: end.tip.sequence,
            tip: end.tip.hash,
            keeper,
            causers: Causers::default(),
            positions,
            policy: SnapshotPolicy::default(),
            parts_due: SnapshotPolicy::default().parts,
            archiver,
            room,
            is_original,
            failed: false,
            _lock: lock,
            _records: PhantomData,
        })
    }

    /// The bodies of records, as they are written after the last record.
    pub(crate) fn bodies(
        &self,
        records: &[CausedRecord<'_, R>],
    ) -> Result<Vec<OwnedBody>, LedgerError> {
        let body = |(sequence, caused): (u64, &CausedRecord<'_, R>)| {
            OwnedBody::new(*caused).map_err(|source| {
                let path = self.path.clone();
                LedgerError::Unencodable { path, sequence, source }
            })
        };
        (self.last + 1..).zip(records).map(body).collect()
    }

    /// Writes records in one transaction: all of them or none. In an original they are durable when this returns.
    fn write(&mut self, bodies: Vec<OwnedBody>) -> Result<(), LedgerError> {
        let mut chain = Chain { last: self.last, tip: self.tip };
        let failed = sqlite(&self.path, "writing to");
        let transaction = self.connection.transaction().map_err(&failed)?;
        {
            let mut insert = transaction.prepare_cached(INSERT).map_err(&failed)?;
            for body in bodies {
                chain.append(body.as_body());
                let OwnedBody { record, causer } = body;
                let causer = causer.map(|causer| self.causers.number(&transaction, causer));
                let causer = causer.transpose().map_err(&failed)?;
                // `as` is exact: nobody writes 2^63 records.
                let row = params![chain.last as i64, record, chain.tip.as_slice(), causer];
                insert.execute(row).map_err(&failed)?;
            }
        }
        let begin = trim(&transaction, self.positions.begin, self.archiver.archived());
        let begin = begin.map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        (self.last, self.tip) = (chain.last, chain.tip);
        self.positions.begin = begin;
        Ok(())
    }

    /// Appends records as they are in another log. After an error, what is on the disk is unknown.
    pub(crate) fn append_bodies(&mut self, bodies: Vec<OwnedBody>) -> Result<(), LedgerError> {
        if self.failed {
            return Err(LedgerError::Failed { path: self.path.clone() });
        }
        if bodies.is_empty() {
            return Ok(());
        }
        let result = self.write(bodies);
        self.failed = result.is_err();
        if !self.failed {
            let (sequence, hash) = (self.last, self.tip);
            self.keeper.moved(&Tip { ledger_id: self.about.id.clone(), sequence, hash });
        }
        result
    }

    /// Writes the changed parts in one transaction. If it is to be durable, all records before it are durable afterwards, too.
    pub(crate) fn write_parts<P: Serialize>(
        &mut self,
        changed: &[ChangedPart<P>],
        is_durable: bool,
    ) -> Result<(), LedgerError> {
        if self.failed {
            return Err(LedgerError::Failed { path: self.path.clone() });
        }
        let result = self.try_write_parts(changed, is_durable);
        self.failed = result.is_err();
        result
    }

    fn try_write_parts<P: Serialize>(
        &mut self,
        changed: &[ChangedPart<P>],
        is_durable: bool,
    ) -> Result<(), LedgerError> {
        let begun = Instant::now();
        let failed = sqlite(&self.path, "writing a snapshot to");
        let at = Chain { last: self.last, tip: self.tip };
        set_durable(&self.connection, is_durable).map_err(&failed)?;
        let transaction = self.connection.transaction().map_err(&failed)?;
        let written = snapshot::write(&transaction, self.positions.snapshot, changed, at);
        let written = written.map_err(|error| match error {
            WriteError::Sqlite(error) => failed(error),
            WriteError::Part(source) => {
                let (path, sequence) = (self.path.clone(), at.last);
                LedgerError::Unencodable { path, sequence, source: source.into() }
            }
        })?;
        transaction.commit().map_err(&failed)?;
        set_durable(&self.connection, self.is_original).map_err(&failed)?;
        self.positions.snapshot = Some(written);
        let took = begun.elapsed();
        self.parts_due = self.policy.next_due(self.parts_due, changed.len(), took);
        let begin = self.positions.begin;
        let SnapshotPolicy { kept, archived, .. } = self.policy;
        if at.last - begin.last >= kept + archived && self.archiver.archived() == begin.last {
            self.archiver.begin(begin, begin.last + archived);
        }
        Ok(())
    }

    /// Sets when snapshots and archives are due, for tests: the default is right for a node.
    pub const fn set_policy(&mut self, policy: SnapshotPolicy) {
        (self.policy, self.parts_due) = (policy, policy.parts);
    }
}

/// The end of what was read of a ledger.
pub(crate) struct End {
    /// The last record that was read.
    pub(crate) tip: Tip,
    /// The hash of the record that the tip remembers, once that record was read; `None` if it was archived.
    passed: Option<Hash>,
    wanted: u64,
    /// The last record that is read, if there are more.
    until: u64,
}

impl End {
    /// The state before the first record that is in the file. `wanted` is the record that the tip remembers.
    pub(crate) fn begin(id: &str, positions: &Positions, wanted: u64) -> Self {
        let Chain { last: sequence, tip: hash } = positions.begin;
        let tip = Tip { ledger_id: id.to_owned(), sequence, hash };
        // What was archived cannot be compared with a tip that has stayed behind.
        Self { tip, passed: (wanted >= sequence).then_some(hash), wanted, until: u64::MAX }
    }

    /// The state before the first record of an archive, which is read up to `until`.
    pub(crate) fn of_archive(id: &str, begin: Chain, until: u64) -> Self {
        let positions = Positions { begin, snapshot: None };
        Self { until, ..Self::begin(id, &positions, 0) }
    }

    /// Checks that this is the ledger that the tip remembers, and that it has all records up to the tip.
    pub(crate) fn judge(&self, path: &Path, remembered: &TipState) -> Result<(), LedgerError> {
        let beside = beside(path, ".tip");
        let known = match remembered {
            TipState::Nothing => return Ok(()),
            TipState::Unreadable => {
                tracing::warn!(tip = %beside.display(), "cannot read the tip; it is written anew");
                return Ok(());
            }
            TipState::Tip(known) => known,
        };
        let (last, then) = (self.tip.sequence, known.sequence);
        let why = if known.ledger_id != self.tip.ledger_id {
            format!("its id is {}, but was {}", self.tip.ledger_id, known.ledger_id)
        } else if then > last {
            format!("it ends at record {last}, but record {then} had been written")
        } else if self.passed.is_some_and(|passed| passed != known.hash) {
            format!("record {then} is intact but is not the one that was written here")
        } else {
            return Ok(());
        };
        Err(LedgerError::Restored { path: path.to_owned(), tip: beside, why })
    }
}

/// Reads the tip beside the ledger.
pub(crate) fn remembered(path: &Path) -> Result<TipState, LedgerError> {
    let (tip, doing) = (beside(path, ".tip"), "reading");
    tip::read(path).map_err(|source| LedgerError::Io { path: tip, doing, source })
}

/// Reads every record of a ledger of this format, checks it against the chain and passes it to `each`.
pub(crate) fn read_chain(
    path: &Path,
    connection: &Connection,
    format: i64,
    end: &mut End,
    mut each: impl FnMut(u64, &Hash, Body<'_>) -> Result<(), LedgerError>,
) -> Result<(), LedgerError> {
    let reading = |sequence: u64| {
        move |source: rusqlite::Error| match is_damage(&source) {
            true => broken(path, sequence, format!("SQLite cannot read it ({source})")),
            false => sqlite(path, format!("reading record {sequence} of"))(source),
        }
    };
    let select = format!("{} WHERE sequence <= ?1 ORDER BY sequence", rows::select(format));
    let mut statement = connection.prepare(&select).map_err(reading(chain::FIRST))?;
    let until = i64::try_from(end.until).unwrap_or(i64::MAX);
    let mut rows = statement.query([until]).map_err(reading(chain::FIRST))?;
    loop {
        let expected = end.tip.sequence + 1;
        let Some(row) = rows.next().map_err(reading(expected))? else { return Ok(()) };
        let sequence: i64 = row.get(0).map_err(reading(expected))?;
        let body = rows::body(row).map_err(reading(expected))?;
        let body = body.map_err(|why| broken(path, expected, why.to_owned()))?;
        let hash = row.get_ref(2).map_err(reading(expected))?.as_blob().unwrap_or_default();
        let mut chain = Chain { last: end.tip.sequence, tip: end.tip.hash };
        chain.verify(sequence, body, hash).map_err(|why| broken(path, expected, why))?;
        each(expected, &chain.tip, body)?;
        (end.tip.sequence, end.tip.hash) = (chain.last, chain.tip);
        if expected == end.wanted {
            end.passed = Some(chain.tip);
        }
    }
}

/// Reads the snapshot and the records after it into a fold. The records that the snapshot contains are checked
/// against the chain, as far as they are in the file.
fn read_all<F: Fold>(
    path: &Path,
    connection: &Connection,
    format: i64,
    positions: &Positions,
    end: &mut End,
    fold: &mut F,
) -> Result<(), LedgerError> {
    let snapshot = positions.snapshot.as_ref();
    if let Some(snapshot) = snapshot {
        snapshot::restore(path, connection, snapshot, fold)?;
    }
    let contained = snapshot.map_or(0, |snapshot| snapshot.at.last);
    read_chain(path, connection, format, end, |sequence, hash, body| {
        snapshot::check_record(path, snapshot, &Chain { last: sequence, tip: *hash })?;
        replay::decoded(path, sequence, body, &mut |sequence, record| {
            if sequence > contained {
                return fold.replay(sequence, record);
            }
            fold.contained(sequence, record);
            Ok(())
        })
    })?;
    snapshot::check_reached(path, snapshot, end.tip.sequence)
}

/// Reads where the file begins and what its snapshot stands for.
pub(crate) fn positions(
    path: &Path,
    connection: &Connection,
    about: &LedgerSummary,
) -> Result<Positions, LedgerError> {
    let positions = Positions::read(connection, about.format, &about.id);
    let positions = positions.map_err(|source| inspect::unreadable_meta(path, source))?;
    Ok(positions)
}

/// The hash of a record that is in the file.
pub(crate) fn hash_of(connection: &Connection, record: u64) -> rusqlite::Result<Option<Hash>> {
    let mut select = connection.prepare_cached("SELECT hash FROM record WHERE sequence = ?1")?;
    // `as` is exact: nobody writes 2^63 records.
    select.query_row([record as i64], |row| row.get(0)).optional()
}

/// Deletes some of the records that were archived. Returns where the file begins now.
fn trim(connection: &Connection, begin: Chain, archived: u64) -> rusqlite::Result<Chain> {
    let last = archived.min(begin.last + TRIMMED_AT_A_TIME);
    let Some(tip) = (last > begin.last).then(|| hash_of(connection, last)).transpose()?.flatten()
    else {
        return Ok(begin);
    };
    let begin = Chain { last, tip };
    let mut delete = connection.prepare_cached("DELETE FROM record WHERE sequence <= ?1")?;
    delete.execute([last as i64])?;
    snapshot::put_position(connection, "begin", begin, None)?;
    Ok(begin)
}

fn broken(path: &Path, sequence: u64, why: String) -> LedgerError {
    LedgerError::ChainBroken { path: path.to_owned(), sequence, why }
}

impl<R> SqliteLedger<R> {
    /// The ledger's own id, which was made with the ledger.
    pub fn id(&self) -> &str {
        &self.about.id
    }

    /// The id by which others know the ledger, 32 hexadecimal digits: see [`LedgerSummary::identity`].
    pub fn identity(&self) -> String {
        self.about.identity()
    }

    /// Bytes that are reserved for the ends of what has begun (I17).
    pub const fn room_bytes(&self) -> u64 {
        self.room.bytes()
    }

    /// The sequence number of the last durable record; the first record is 1.
    pub const fn last_sequence(&self) -> u64 {
        self.last
    }

    /// The hash of the last durable record. If it is kept elsewhere, it reveals whether a tail was cut off.
    pub const fn tip(&self) -> &[u8; 32] {
        &self.tip
    }

    /// The path of the ledger's file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl<R> std::fmt::Debug for SqliteLedger<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("SqliteLedger");
        f.field("path", &self.path).field("id", &self.about.id).field("last", &self.last);
        f.field("failed", &self.failed).finish_non_exhaustive()
    }
}

impl<R: Serialize + DeserializeOwned> Log for SqliteLedger<R> {
    type Record = R;
    type Error = LedgerError;

    fn append_caused(&mut self, records: &[CausedRecord<'_, R>]) -> Result<(), LedgerError> {
        if self.failed {
            return Err(LedgerError::Failed { path: self.path.clone() });
        }
        let bodies = self.bodies(records);
        self.failed = bodies.is_err();
        self.append_bodies(bodies?)
    }

    fn snapshot_is_due(&self, changed: usize) -> bool {
        let since = self.positions.snapshot.map_or(0, |snapshot| snapshot.at.last);
        changed >= self.parts_due || self.last - since >= self.policy.records
    }

    fn write_snapshot<P: Serialize>(
        &mut self,
        changed: &[ChangedPart<P>],
    ) -> Result<(), LedgerError> {
        self.write_parts(changed, true)
    }

    fn room(&mut self) -> Result<DiskSpace, LedgerError> {
        if self.failed {
            return Err(LedgerError::Failed { path: self.path.clone() });
        }
        let room = self.room.check(&mut self.connection);
        self.failed = room.is_err();
        room.map_err(sqlite(&self.path, "reserving disk space in"))
    }
}

impl<R> Drop for SqliteLedger<R> {
    fn drop(&mut self) {
        if !self.failed {
            self.keeper.close();
        }
    }
}

/// Should each commit wait for the disk? Otherwise only the copying of the write-ahead log does, and a crash cuts off some of the
/// last commits, but never one before another.
fn set_durable(connection: &Connection, is_durable: bool) -> rusqlite::Result<()> {
    let mode = if is_durable { "FULL" } else { "NORMAL" };
    connection.pragma_update(None, "synchronous", mode)
}

/// Opens the connection that writes.
pub(crate) fn connect(path: &Path) -> Result<Connection, LedgerError> {
    let open = || -> rusqlite::Result<(Connection, String)> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_PATIENCE)?;
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
        // In write-ahead mode, FULL makes each commit wait for the disk.
        set_durable(&connection, true)?;
        // On macOS, fsync reaches the platter only with these two settings; elsewhere they do nothing.
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
