//! Makes a new ledger: completely under another name, and then renames it into place.
//!
//! A crash on the way leaves no ledger, and never half of one; the next attempt overwrites the
//! remains. Call with the lock held. Left out: opening it, see [`crate::sqlite`].

use std::fs::{self, File};
use std::io;
use std::path::Path;

use coalloc_common::limits;
use rusqlite::{Connection, Transaction, params};

use crate::error::LedgerError;
use crate::error::sqlite;
use crate::identity::{APPLICATION_ID, FORMAT_VERSION, Identity, PROGRAM, WRITTEN_BY};
use crate::inspect::LedgerSummary;
use crate::lock::beside;
use crate::{reserved_space, snapshot};

/// The tables are STRICT, so that no tool stores a number where a text belongs. The record table is
/// ordered by its sequence number in the file itself, so an append goes to the last page.
const SCHEMA: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE record (
    sequence INTEGER PRIMARY KEY, -- 1, 2, 3, ... without gaps
    body ANY NOT NULL,            -- the record as Packed CBOR; as JSON text, if format 1 wrote it
    hash BLOB NOT NULL,           -- SHA-256 of previous hash, sequence, and then body and causer, each after its length
    causer INTEGER                -- who caused it, a row of table causer; NULL for the node itself
) STRICT;
";

/// Those who caused records. Records name them by number, because a causer is longer than most records.
pub(crate) const CAUSERS: &str = "
CREATE TABLE causer (
    id INTEGER PRIMARY KEY,
    body BLOB NOT NULL UNIQUE     -- the causer as Packed CBOR
) STRICT;
";

/// Makes an empty ledger at `path`, which is durable when this returns.
pub(crate) fn create(path: &Path, identity: &Identity, id: &str) -> Result<(), LedgerError> {
    check("id", id, "32 lower-case hexadecimal digits", |id| {
        id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })?;
    for (what, text) in [("kind", &identity.kind), ("name", &identity.name)] {
        check(what, text, "a text that is not empty", |text| !text.is_empty())?;
    }
    let draft = beside(path, ".new");
    for remains in [draft.clone(), beside(&draft, "-journal")] {
        match fs::remove_file(&remains) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(LedgerError::Io { path: remains, doing: "removing", source });
            }
            _ => {}
        }
    }
    fill(&draft, identity, id).map_err(sqlite(&draft, "creating"))?;
    place(&draft, path).map_err(|source| LedgerError::Io {
        path: path.to_owned(),
        doing: "creating",
        source,
    })
}

/// Gives a complete file its name, durably.
pub(crate) fn place(draft: &Path, path: &Path) -> io::Result<()> {
    File::open(draft)?.sync_all()?;
    fs::rename(draft, path)?;
    // The new name is durable only when its folder is synced.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Makes the file of an archive: the tables of a ledger, with the meta data of the ledger that it is of.
pub(crate) fn archive(draft: &Path, about: &LedgerSummary) -> rusqlite::Result<Connection> {
    let connection = tables(draft, &about.node, &about.id)?;
    // The draft is synced as a whole before it gets its name.
    connection.pragma_update(None, "synchronous", "OFF")?;
    Ok(connection)
}

fn fill(draft: &Path, identity: &Identity, id: &str) -> rusqlite::Result<()> {
    let mut connection = tables(draft, identity, id)?;
    connection.execute_batch(reserved_space::SCHEMA)?;
    // Reserve space here, because it need not go through the write-ahead log.
    reserved_space::add(&mut connection, limits::LEDGER_ROOM_MIN)?;
    connection.close().map_err(|(_, error)| error)
}

fn tables(draft: &Path, identity: &Identity, id: &str) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open(draft)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    // The format version is stored twice: in the header, where it is read without SQLite touching
    // the file, and in a table, where people find it. A later format must be in the header before
    // anything else changes.
    connection.pragma_update(None, "user_version", FORMAT_VERSION)?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.execute_batch(CAUSERS)?;
    transaction.execute_batch(snapshot::SCHEMA)?;
    {
        let mut insert = transaction.prepare("INSERT INTO meta (key, value) VALUES (?1, ?2)")?;
        insert.execute(params!["format_version", FORMAT_VERSION.to_string()])?;
        insert.execute(params!["ledger_id", id])?;
        insert.execute(params!["node_kind", identity.kind])?;
        insert.execute(params!["node_name", identity.name])?;
    }
    sign(&transaction)?;
    // For people only. Nothing is computed from it, so SQLite's clock will do.
    transaction.execute(
        "INSERT INTO meta (key, value) VALUES ('created_at', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))",
        [],
    )?;
    transaction.commit()?;
    Ok(connection)
}

/// Notes that this program has brought a ledger to the newest format.
pub(crate) fn sign(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let put = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
    transaction.execute(put, [WRITTEN_BY, PROGRAM]).map(drop)
}

fn check(
    what: &'static str,
    found: &str,
    expected: &'static str,
    good: impl Fn(&str) -> bool,
) -> Result<(), LedgerError> {
    if good(found) {
        return Ok(());
    }
    Err(LedgerError::BadIdentity { what, found: found.to_owned(), expected })
}
