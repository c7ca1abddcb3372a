//! The checks before a ledger is opened for writing, so that a ledger that is refused stays as it was.
//!
//! First the header of the file is read without SQLite, then the meta data through a connection that can
//! only read. Call with the lock held. Left out: the records and the write-ahead log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::LedgerError;
use crate::error::sqlite;
use crate::identity::{APPLICATION_ID, FORMAT_VERSION, Identity, OLDEST_FORMAT, WRITTEN_BY};
use crate::lock::beside;
use crate::look::LedgerSource;

/// Is there a file? A write-ahead log without its ledger is refused, because SQLite would apply it to any
/// file that is created in that place.
pub(crate) fn exists(path: &Path) -> Result<bool, LedgerError> {
    let is_there = |path: &Path| {
        path.try_exists().map_err(|source| LedgerError::Io {
            path: path.to_owned(),
            doing: "looking for",
            source,
        })
    };
    if is_there(path)? {
        return Ok(true);
    }
    for suffix in ["-wal", "-journal"] {
        let orphan = beside(path, suffix);
        if is_there(&orphan)? {
            let why = format!("it is missing, but {} is there", orphan.display());
            return Err(LedgerError::NotALedger { path: path.to_owned(), why });
        }
    }
    Ok(false)
}

/// What the meta data of a ledger say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerSummary {
    /// The format of the file, 1 or higher.
    pub format: i64,
    /// The program that has brought it to this format; `None` if that was before format 3.
    pub written_by: Option<String>,
    /// The ledger's own id, which was made with the ledger; the hash chain begins with it.
    pub id: String,
    /// The node that the ledger belongs to.
    pub node: Identity,
    /// When the ledger was made, by the clock of the machine that made it.
    pub created: String,
    /// Where the log is that the file is a copy of; `None` if the file is all that there is.
    pub shared_at: Option<String>,
    /// The digits that replace the first digits of the id since a restored copy was accepted; `None` if
    /// that never happened.
    pub tag: Option<String>,
}

impl LedgerSummary {
    /// The id by which others know the ledger: its own id, or another one since a restored copy was
    /// accepted. Numbers that were given after the copy was made must not be given again.
    #[must_use]
    pub fn identity(&self) -> String {
        match &self.tag {
            Some(tag) => format!("{tag}{}", self.id.get(tag.len()..).unwrap_or_default()),
            None => self.id.clone(),
        }
    }
}

/// Checks the format and that the ledger belongs to the expected node, and returns its meta data.
pub(crate) fn inspect(path: &Path, expected: &Identity) -> Result<LedgerSummary, LedgerError> {
    let about = about(path)?;
    if about.node != *expected {
        let (found, expected) = (about.node, expected.clone());
        return Err(LedgerError::ForeignNode { path: path.to_owned(), found, expected });
    }
    Ok(about)
}

/// Checks the format, and returns the ledger's meta data, whichever node it belongs to.
pub(crate) fn about(path: &Path) -> Result<LedgerSummary, LedgerError> {
    header(path)?;
    from_meta(path, &meta(path)?)
}

/// The same from meta data that were read already.
pub(crate) fn from_meta(
    path: &Path,
    meta: &BTreeMap<String, String>,
) -> Result<LedgerSummary, LedgerError> {
    let get = |key: &str| {
        meta.get(key).cloned().ok_or_else(|| LedgerError::NotALedger {
            path: path.to_owned(),
            why: format!("its metadata has no `{key}`"),
        })
    };
    let version = get("format_version")?;
    let Ok(format) = version.parse::<i64>() else {
        let why = format!("its format version is `{version}`");
        return Err(LedgerError::NotALedger { path: path.to_owned(), why });
    };
    let written_by = meta.get(WRITTEN_BY).cloned();
    check_format(path, format, written_by.as_deref())?;
    Ok(LedgerSummary {
        format,
        written_by,
        id: get("ledger_id")?,
        node: Identity { kind: get("node_kind")?, name: get("node_name")? },
        created: get("created_at").unwrap_or_default(),
        shared_at: meta.get(SHARED_AT).cloned(),
        tag: meta.get("tag").cloned(),
    })
}

/// The meta datum that makes a file a copy.
pub(crate) const SHARED_AT: &str = "shared_at";

/// Notes that a file is a copy of a log, or that it is all that there is. This waits for the disk, and with it everything before is
/// durable. Call with the lock held.
pub(crate) fn set_shared_at(path: &Path, prefix: Option<&str>) -> Result<(), LedgerError> {
    let write = || -> rusqlite::Result<()> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        write_shared_at(&connection, prefix)?;
        connection.close().map_err(|(_, error)| error)
    };
    write().map_err(sqlite(path, "writing to"))
}

/// The same through a connection.
pub(crate) fn write_shared_at(
    connection: &Connection,
    prefix: Option<&str>,
) -> rusqlite::Result<()> {
    let Some(prefix) = prefix else {
        return connection.execute("DELETE FROM meta WHERE key = ?1", [SHARED_AT]).map(drop);
    };
    let put = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
    connection.execute(put, [SHARED_AT, prefix]).map(drop)
}

fn check_format(path: &Path, found: i64, by: Option<&str>) -> Result<(), LedgerError> {
    let path = path.to_owned();
    if found > FORMAT_VERSION {
        let by = by.unwrap_or("a later release").to_owned();
        return Err(LedgerError::NewerFormat { path, found, by, newest: FORMAT_VERSION });
    }
    if found < OLDEST_FORMAT {
        return Err(LedgerError::NotALedger { path, why: format!("its format is {found}") });
    }
    Ok(())
}

/// Checks the first 100 bytes of the file: <https://www.sqlite.org/fileformat2.html#the_database_header>.
pub(crate) fn header(path: &Path) -> Result<(), LedgerError> {
    let not = |why: String| LedgerError::NotALedger { path: path.to_owned(), why };
    let mut bytes = [0; 100];
    match File::open(path).and_then(|mut file| file.read_exact(&mut bytes)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(not("it is too short".to_owned()));
        }
        Err(source) => {
            return Err(LedgerError::Io { path: path.to_owned(), doing: "reading", source });
        }
    }
    let number =
        |at: usize| i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if !bytes.starts_with(b"SQLite format 3\0") {
        return Err(not("it is not an SQLite file".to_owned()));
    }
    if number(68) != APPLICATION_ID {
        return Err(not(format!("its application id is {}, not {APPLICATION_ID}", number(68))));
    }
    let found = i64::from(number(60));
    let by = if found > FORMAT_VERSION { writer(path) } else { None };
    check_format(path, found, by.as_deref())
}

/// The program that wrote a ledger of a later format, if that still says so where this release looks. Changes nothing.
fn writer(path: &Path) -> Option<String> {
    let connection = LedgerSource::Closed(path.to_owned()).connect().ok()?;
    read_meta(&connection).ok()?.remove(WRITTEN_BY)
}

fn meta(path: &Path) -> Result<BTreeMap<String, String>, LedgerError> {
    let read = || -> rusqlite::Result<BTreeMap<String, String>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        // Closing the connection must not copy anything from the write-ahead log either.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        read_meta(&connection)
    };
    read().map_err(|source| unreadable_meta(path, source))
}

/// All meta data, by key.
pub(crate) fn read_meta(connection: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = connection.prepare("SELECT key, value FROM meta")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// The error for meta data that SQLite cannot read, because of damage or because the system fails.
pub(crate) fn unreadable_meta(path: &Path, source: rusqlite::Error) -> LedgerError {
    match is_damage(&source) {
        true => LedgerError::Damaged { path: path.to_owned(), at: "its meta data".into(), source },
        false => sqlite(path, "reading the meta data of")(source),
    }
}

/// Does this error of SQLite mean that the file is not what it wrote?
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, SchemaChanged, Unknown};
    match error {
        // In a page of zeros there is no schema, so a table is missing. SQLite calls "no such table" an
        // unknown error.
        rusqlite::Error::SqliteFailure(failure, _) => {
            matches!(failure.code, DatabaseCorrupt | NotADatabase | SchemaChanged | Unknown)
        }
        rusqlite::Error::SqlInputError { .. }
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..) => true,
        _ => false,
    }
}
