//! Looks at a ledger from outside its node: is it sound, what is in it, and which node does it belong to?
//!
//! Nothing here changes a ledger, except [`accept_restored`], which an operator asks for. A look works while
//! the node runs, after a crash, and on a copy:
//!
//! ```text
//! no write-ahead log          read as a file that nobody changes: no lock, no file beside it
//! a log, and its index        a read-only connection, while the node runs or after a crash
//! a log without its index     the index would have to be made, so a copy in the temporary folder is read
//! ```
//!
//! Left out: whether the records fit each other. Only the node's core can check that, with its configuration.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::archive;
use crate::body::Body;
use crate::chain::{Chain, Hash};
use crate::error::LedgerError;
use crate::error::sqlite;
use crate::inspect::{self, LedgerSummary};
use crate::lock::{Lock, beside};
use crate::snapshot::{self, Positions};
use crate::sqlite::{self, End};
use crate::tip::{self, Tip, TipState};
use crate::wal::{self, Unfinished};

/// How often a log is checked before it is called damaged, and (`LOG_PAUSE`) the time between two checks.
const LOG_LOOKS: u32 = 5;
const LOG_PAUSE: std::time::Duration = std::time::Duration::from_millis(40);

/// What a look has found in a sound ledger.
#[derive(Debug, Clone)]
pub struct SoundLedger {
    /// The ledger's id and its node.
    pub about: LedgerSummary,
    /// The number of the last record, and its hash, which covers the whole ledger.
    pub tip: Tip,
    /// The last record that was not read, because neither the file nor the archives beside it have it; 0 when every record
    /// was read.
    pub missing: u64,
    /// The last record that is not in the file, but in an archive; 0 when nothing was archived.
    pub archived: u64,
    /// The last record that the snapshot contains; `None` when there is none yet.
    pub snapshot: Option<u64>,
    /// What the next start will roll back; `None` while a node has the ledger open, because it may be writing.
    pub unfinished: Option<Unfinished>,
    /// What the tip file beside the ledger remembers.
    pub remembered: TipState,
    /// Does a node have the ledger open?
    pub live: bool,
}

/// Reads a whole ledger: header, meta data, write-ahead log, every record against the chain, the snapshot, and the tip
/// beside it. The records in the archives beside it are read first, as far back as there is no gap. `each` gets the sequence number, hash and body of every record in order.
///
/// # Errors
/// [`LedgerError`] with the first thing that is wrong; `each` has been called for every record before it.
pub fn look(
    path: &Path,
    mut each: impl FnMut(u64, &Hash, Body<'_>) -> Result<(), LedgerError>,
) -> Result<SoundLedger, LedgerError> {
    // A file that does not exist is not a ledger, even if there is no tip.
    fs::metadata(path).map_err(io(path, "opening"))?;
    // Use the real path: the other files are beside the file itself, not beside a link to it.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let live = is_live(path);
    // Read the tip before the ledger: the node writes its tip after each record.
    let remembered = sqlite::remembered(path)?;
    inspect::header(path)?;
    let place = LedgerSource::of(path)?;
    // The log of a running node changes while it is read.
    let log = if live { Ok(None) } else { check_log(path) };
    let (connection, about) = match begin(path, &place) {
        Ok(begun) => begun,
        // A damaged log says more than what is read through it.
        Err(error) => return Err(log.err().unwrap_or(error)),
    };
    // Of a copy a power cut may leave gaps, before which SQLite cuts; what is missing is read from its log again.
    let unfinished = if about.shared_at.is_some() { None } else { log? };
    let wanted = match &remembered {
        TipState::Tip(tip) => tip.sequence,
        TipState::Nothing | TipState::Unreadable => 0,
    };
    let positions = sqlite::positions(path, &connection, &about)?;
    let missing = read_archives(path, &connection, &positions, &mut each)?;
    let mut end = End::begin(&about.id, &positions, wanted);
    let (snapshot, format) = (positions.snapshot.as_ref(), about.format);
    sqlite::read_chain(path, &connection, format, &mut end, |sequence, hash, body| {
        snapshot::check_record(path, snapshot, &Chain { last: sequence, tip: *hash })?;
        each(sequence, hash, body)
    })?;
    if let Some(snapshot) = snapshot {
        snapshot::check_reached(path, Some(snapshot), end.tip.sequence)?;
        snapshot::read_parts(path, &connection, snapshot, |_, _| Ok(()))?;
    }
    check_pages(path, &connection)?;
    end.judge(path, &remembered)?;
    let (archived, snapshot) = (positions.begin.last, snapshot.map(|snapshot| snapshot.at.last));
    Ok(SoundLedger {
        about,
        tip: end.tip,
        missing,
        archived,
        snapshot,
        unfinished,
        remembered,
        live,
    })
}

/// Begins to read a ledger, everything in one snapshot.
fn begin(path: &Path, place: &LedgerSource) -> Result<(Connection, LedgerSummary), LedgerError> {
    let unreadable = |source| inspect::unreadable_meta(path, source);
    let connection = place.connect().map_err(unreadable)?;
    connection.execute_batch("BEGIN").map_err(unreadable)?;
    let meta = inspect::read_meta(&connection).map_err(unreadable)?;
    Ok((connection, inspect::from_meta(path, &meta)?))
}

/// Reads the records of the archives from which the chain can be followed up to where the file begins. Returns the last
/// record before them.
fn read_archives(
    path: &Path,
    connection: &Connection,
    positions: &Positions,
    each: &mut impl FnMut(u64, &Hash, Body<'_>) -> Result<(), LedgerError>,
) -> Result<u64, LedgerError> {
    let hash = |record| sqlite::hash_of(connection, record).ok().flatten();
    let archives = archive::reaching(path, &positions.begin, hash)?;
    let Some(first) = archives.first() else { return Ok(positions.begin.last) };
    let begin = first.begin()?;
    let mut end = begin;
    for archive in &archives {
        let about = inspect::about(&archive.path)?;
        let opened = LedgerSource::of(&archive.path)?.connect();
        let opened = opened.map_err(sqlite(&archive.path, "opening"))?;
        let mut read = End::of_archive(&about.id, end, archive.last.min(positions.begin.last));
        sqlite::read_chain(&archive.path, &opened, about.format, &mut read, &mut *each)?;
        end = Chain { last: read.tip.sequence, tip: read.tip.hash };
    }
    Ok(begin.last)
}

/// The meta data of a ledger: whose it is, and its ids. Nothing else of it is read.
///
/// # Errors
/// [`LedgerError`] when it is not a ledger, or its meta data are damaged.
pub fn summary(path: &Path) -> Result<LedgerSummary, LedgerError> {
    fs::metadata(path).map_err(io(path, "opening"))?;
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    inspect::header(path)?;
    let place = LedgerSource::of(path)?;
    let connection = place.connect().map_err(|source| inspect::unreadable_meta(path, source))?;
    let meta = inspect::read_meta(&connection);
    inspect::from_meta(path, &meta.map_err(|source| inspect::unreadable_meta(path, source))?)
}

/// Checks the write-ahead log of a ledger that nobody seems to have open. A node in another container cannot be
/// seen from here, and its log may change while it is read. Real damage is found at every check.
fn check_log(path: &Path) -> Result<Option<Unfinished>, LedgerError> {
    let mut found = wal::check(path);
    for _ in 1..LOG_LOOKS {
        if found.is_ok() || !beside(path, "-shm").exists() {
            break;
        }
        std::thread::sleep(LOG_PAUSE);
        found = wal::check(path);
    }
    found
}

/// Checks the pages without records, too: a start would not notice that one is damaged, but a later write
/// would.
fn check_pages(path: &Path, connection: &Connection) -> Result<(), LedgerError> {
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    let found = found.map_err(|source| inspect::unreadable_meta(path, source))?;
    if found == "ok" {
        return Ok(());
    }
    let why = format!("every record is sound, but a page is not: {found}");
    Err(LedgerError::PageDamaged { path: path.to_owned(), why })
}

/// Lets a node continue from a ledger that is older than its tip. The tip is forgotten, and the ledger gets
/// another identity, so that no number is given twice. `tag` is eight random hexadecimal digits, with which the
/// new identity begins. Returns the ledger as it is from now on.
///
/// # Errors
/// [`LedgerError`] when a node has the ledger open, when it is damaged, or when it is not older than its tip.
pub fn accept_restored(path: &Path, tag: &str) -> Result<SoundLedger, LedgerError> {
    fs::metadata(path).map_err(io(path, "opening"))?;
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let _lock = Lock::take(path)?;
    let about = inspect::about(path)?;
    let unfinished = wal::check(path)?;
    let connection = sqlite::connect(path)?;
    let keeping = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    keeping.map_err(sqlite(path, "opening"))?;
    let remembered = sqlite::remembered(path)?;
    let wanted = match &remembered {
        TipState::Tip(tip) => tip.sequence,
        TipState::Nothing | TipState::Unreadable => 0,
    };
    let positions = sqlite::positions(path, &connection, &about)?;
    let mut end = End::begin(&about.id, &positions, wanted);
    sqlite::read_chain(path, &connection, about.format, &mut end, |_, _, _| Ok(()))?;
    if end.judge(path, &remembered).is_ok() && matches!(remembered, TipState::Tip(_)) {
        return Err(LedgerError::NotRestored { path: path.clone() });
    }
    let note = match &remembered {
        TipState::Tip(was) => {
            format!("accepted at record {}; {} were remembered", end.tip.sequence, was.sequence)
        }
        TipState::Nothing | TipState::Unreadable => {
            format!("accepted at record {}", end.tip.sequence)
        }
    };
    write_tag(&connection, tag, &note).map_err(sqlite(path, "writing to"))?;
    tip::accept(path, &end.tip).map_err(io(&beside(path, ".tip"), "writing"))?;
    let keeping = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
    keeping.map_err(sqlite(path, "closing"))?;
    let about = LedgerSummary { tag: Some(tag.to_owned()), ..about };
    let remembered = TipState::Tip(end.tip.clone());
    let (archived, snapshot) = (positions.begin.last, positions.snapshot.map(|it| it.at.last));
    let (missing, live) = (archived, false);
    Ok(SoundLedger {
        about,
        tip: end.tip,
        missing,
        archived,
        snapshot,
        unfinished,
        remembered,
        live,
    })
}

/// Gives a ledger another identity, and notes when and why.
pub(crate) fn write_tag(connection: &Connection, tag: &str, note: &str) -> rusqlite::Result<()> {
    let put =
        "INSERT INTO meta (key, value) VALUES ('tag', ?1) ON CONFLICT DO UPDATE SET value = ?1";
    let when =
        "INSERT INTO meta (key, value) VALUES (strftime('restored_%Y-%m-%dT%H:%M:%fZ', 'now'), ?1)";
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.execute(put, [tag])?;
    connection.execute(when, [note])?;
    // A copy of a shared log that was restored is a ledger of its own.
    inspect::write_shared_at(connection, None)?;
    connection.execute_batch("COMMIT")
}

/// Does a process hold the lock? The system is asked without taking the lock, so that the start of a node is
/// not disturbed. If the system does not list locks, the process whose id is in the lock file counts as the
/// holder while it lives.
fn is_live(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let lock = beside(path, ".lock");
    let Ok(file) = fs::metadata(&lock) else { return false };
    if let Ok(locks) = fs::read_to_string("/proc/locks") {
        return is_locked(&locks, file.ino());
    }
    let holder = fs::read_to_string(&lock).ok();
    let holder = holder.and_then(|text| text.trim().parse::<u32>().ok());
    // The index of the log exists while a node runs and after a crash, but the process only while it lives.
    beside(path, "-shm").exists() && holder.is_some_and(is_process)
}

/// Is this inode in the system's list of locks? Inode numbers are unique only per device. If the same number on
/// another device is locked, the look takes a closed ledger for one of a running node, but still reads it.
fn is_locked(locks: &str, inode: u64) -> bool {
    let of = |line: &str| {
        line.split_whitespace()
            .find(|word| word.matches(':').count() == 2)?
            .rsplit(':')
            .next()?
            .parse()
            .ok()
    };
    locks.lines().filter(|line| line.contains("FLOCK")).any(|line| of(line) == Some(inode))
}

fn is_process(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    // A process that belongs to another user counts, too.
    pid.is_some_and(|pid| {
        !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
    })
}

/// What is read: the ledger's file, or a copy of it.
pub(crate) enum LedgerSource {
    /// The file alone, which nobody has written to since it was closed.
    Closed(PathBuf),
    /// The file with SQLite's log, while somebody may have them open.
    Shared(PathBuf),
    /// A private copy of the file and its log, which is deleted when it is dropped.
    Copy(TempDir),
}

impl LedgerSource {
    pub(crate) fn of(path: &Path) -> Result<Self, LedgerError> {
        let wal = beside(path, "-wal");
        let log = fs::metadata(&wal).map_or(0, |log| log.len());
        if beside(path, "-shm").exists() {
            return Ok(Self::Shared(path.to_owned()));
        }
        if log == 0 {
            return Ok(Self::Closed(path.to_owned()));
        }
        let folder = tempfile::Builder::new().prefix("coalloc-ledger-").tempdir();
        let folder = folder.map_err(io(&std::env::temp_dir(), "making a folder in"))?;
        fs::copy(path, folder.path().join("copy")).map_err(io(path, "copying"))?;
        fs::copy(&wal, folder.path().join("copy-wal")).map_err(io(&wal, "copying"))?;
        Ok(Self::Copy(folder))
    }

    pub(crate) fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match self {
            Self::Closed(path) => {
                let uri = format!("file:{}?immutable=1", escaped(path));
                Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
            }
            Self::Shared(path) => Connection::open_with_flags(path, flags)?,
            Self::Copy(folder) => Connection::open_with_flags(folder.path().join("copy"), flags)?,
        };
        connection.busy_timeout(coalloc_common::limits::WATCH_READ_PATIENCE.to_std())?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }
}

/// A path with the escapes that a URI needs.
fn escaped(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = String::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    uri
}

pub(crate) fn io(path: &Path, doing: &'static str) -> impl Fn(std::io::Error) -> LedgerError {
    let path = path.to_owned();
    move |source| LedgerError::Io { path: path.clone(), doing, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_found_in_the_systems_list_by_its_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 812 fe:00:4711 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 955 fe:01:1311 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 956 fe:01:1311 0 EOF\n";
        assert!(is_locked(locks, 1311));
        assert!(!is_locked(locks, 4711), "another kind of lock");
        assert!(!is_locked(locks, 131));
    }
}
