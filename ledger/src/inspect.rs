//! What is checked before a ledger is opened for writing, so that what is refused stays as it was.
//!
//! First the header of the file, read without SQLite; then the meta data through a connection that
//! can only read. Call with the lock held.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::LedgerError;
use crate::lock::beside;
use crate::sqlite::{APPLICATION_ID, FORMAT_VERSION, Identity, sqlite};

/// Is there a file? A write-ahead log without its ledger is refused: SQLite would apply it to
/// whatever is created in that place.
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
            let why = format!("it is missing, yet {} is there", orphan.display());
            return Err(LedgerError::NotALedger { path: path.to_owned(), why });
        }
    }
    Ok(false)
}

/// Checks whose ledger it is and in which format, and gives its id.
pub(crate) fn inspect(path: &Path, expected: &Identity) -> Result<String, LedgerError> {
    header(path)?;
    let meta = meta(path)?;
    let get = |key: &str| {
        meta.get(key).cloned().ok_or_else(|| LedgerError::NotALedger {
            path: path.to_owned(),
            why: format!("its meta data have no `{key}`"),
        })
    };
    let version = get("format_version")?;
    match version.parse::<i64>() {
        Ok(found) => format(path, found)?,
        Err(_) => {
            let why = format!("its format version is `{version}`");
            return Err(LedgerError::NotALedger { path: path.to_owned(), why });
        }
    }
    let found = Identity { kind: get("node_kind")?, name: get("node_name")? };
    if found != *expected {
        let expected = expected.clone();
        return Err(LedgerError::ForeignNode { path: path.to_owned(), found, expected });
    }
    get("ledger_id")
}

fn format(path: &Path, found: i64) -> Result<(), LedgerError> {
    let path = path.to_owned();
    if found > FORMAT_VERSION {
        return Err(LedgerError::NewerFormat { path, found, newest: FORMAT_VERSION });
    }
    if found < FORMAT_VERSION {
        // There was none before the first.
        return Err(LedgerError::NotALedger { path, why: format!("its format is {found}") });
    }
    Ok(())
}

/// The first 100 bytes: <https://www.sqlite.org/fileformat2.html#the_database_header>.
fn header(path: &Path) -> Result<(), LedgerError> {
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
        return Err(not("it is no SQLite file".to_owned()));
    }
    if number(68) != APPLICATION_ID {
        return Err(not(format!("its application id is {}, not {APPLICATION_ID}", number(68))));
    }
    format(path, i64::from(number(60)))
}

fn meta(path: &Path) -> Result<BTreeMap<String, String>, LedgerError> {
    let read = || -> rusqlite::Result<BTreeMap<String, String>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        // Closing copies nothing from the write-ahead log either.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let mut statement = connection.prepare("SELECT key, value FROM meta")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    };
    read().map_err(sqlite(path, "reading the meta data of"))
}
