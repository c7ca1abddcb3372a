//! Turns a ledger of an older format into one of the newest, in place, when its node opens it.
//!
//! Format 1 has its records as JSON texts, and their causers inside. Format 2 has packed records, and a table of causers.
//! The old records stay as they are, and so does the chain over them: only the tables change, so the upgrade takes
//! the same time for every ledger, and a signed tip stays valid. Format 3 has the tables of format 2, and records that releases before it
//! do not know. An upgrade is one transaction. A release that does not know the newest format refuses the ledger from then on.
//!
//! Left out: a way back. Source: docs/adr/0045-packed-records.md, docs/adr/0050-versions.md.

use std::path::Path;

use rusqlite::{Connection, Transaction};

use crate::error::{LedgerError, sqlite};
use crate::identity::{FORMAT_VERSION, PROGRAM};
use crate::inspect::LedgerSummary;
use crate::{create, snapshot};

/// In a STRICT table, a column of type ANY stores what it is given, and what is in a column of type TEXT is stored the
/// same way. So the type of the column can be changed in the schema alone, as SQLite's documentation of ALTER TABLE
/// allows for changes that do not affect what is on the disk.
const ANY_BODY: &str = "UPDATE sqlite_schema SET sql = replace(sql, 'body TEXT NOT NULL', 'body ANY NOT NULL') \
                        WHERE type = 'table' AND name = 'record'";

/// Upgrades a ledger that is sound, unless it has the newest format. Returns its meta data as they are now.
pub(crate) fn to_newest(
    path: &Path,
    connection: &mut Connection,
    about: LedgerSummary,
) -> Result<LedgerSummary, LedgerError> {
    if about.format == FORMAT_VERSION {
        return Ok(about);
    }
    upgrade(connection, about.format).map_err(sqlite(path, "upgrading"))?;
    tracing::info!(
        path = %path.display(),
        from = about.format,
        to = FORMAT_VERSION,
        "the ledger was upgraded: older releases cannot open it any more"
    );
    Ok(LedgerSummary { format: FORMAT_VERSION, written_by: Some(PROGRAM.to_owned()), ..about })
}

fn upgrade(connection: &mut Connection, from: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.pragma_update(None, "user_version", FORMAT_VERSION)?;
    transaction.execute(
        "UPDATE meta SET value = ?1 WHERE key = 'format_version'",
        [FORMAT_VERSION.to_string()],
    )?;
    create::sign(&transaction)?;
    if from == 1 {
        pack(&transaction)?;
    }
    transaction.commit()?;
    // An older release looks at the header of the file itself first, so bring it there.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Makes room for packed records and their causers.
fn pack(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(create::CAUSERS)?;
    transaction.execute_batch(snapshot::SCHEMA)?;
    transaction.execute_batch("ALTER TABLE record ADD COLUMN causer INTEGER")?;
    let version: i64 = transaction.pragma_query_value(None, "schema_version", |row| row.get(0))?;
    transaction.pragma_update(None, "writable_schema", true)?;
    let changed = transaction.execute(ANY_BODY, [])?;
    // Every connection reads the schema anew when its version has changed.
    transaction.pragma_update(None, "schema_version", version + 1)?;
    transaction.pragma_update(None, "writable_schema", false)?;
    if changed != 1 {
        return Err(rusqlite::Error::StatementChangedRows(changed));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use coalloc_protocol::{CausedRecord, Causer, Log as _, ProvenPeer};
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::body::{Body, StoredRecord};
    use crate::chain::Chain;
    use crate::reader::{LedgerReader, ReadRecords as _};
    use crate::{Identity, SqliteLedger, look};

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(tag = "record", rename_all = "snake_case")]
    enum Note {
        Noted { number: u64 },
    }

    fn north() -> Identity {
        Identity { kind: "nrm".to_owned(), name: "north".to_owned() }
    }

    fn alice() -> ProvenPeer {
        ProvenPeer { peer: "alice".to_owned(), issuer: None, subject: None }
    }

    /// A ledger as the last release with format 1 left it: closed, with three records, of which Alice caused the last.
    fn format_1(path: &Path) -> Chain {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch(include_str!("../tests/format_1.sql")).unwrap();
        let mut chain = Chain::new(ID);
        for (sequence, from) in [(1, ""), (2, ""), (3, r#","from":{"peer":"alice"}"#)] {
            let text = format!(r#"{{"record":"noted","number":{sequence}{from}}}"#);
            chain.append(Body { record: StoredRecord::Json(&text), causer: None });
            let insert = "INSERT INTO record (sequence, body, hash) VALUES (?1, ?2, ?3)";
            connection.execute(insert, rusqlite::params![sequence, text, chain.tip]).unwrap();
        }
        chain
    }

    fn open(path: &Path) -> (SqliteLedger<Note>, Vec<Note>) {
        let mut seen = Vec::new();
        let replay = |_, record| {
            seen.push(record);
            Ok(())
        };
        let ledger = SqliteLedger::open(path, &north(), || ID.to_owned(), replay).unwrap();
        (ledger, seen)
    }

    fn noted(numbers: std::ops::RangeInclusive<u64>) -> Vec<Note> {
        numbers.map(|number| Note::Noted { number }).collect()
    }

    #[test]
    fn a_ledger_of_format_1_goes_on_with_its_records_and_its_chain() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("north.ledger");
        let chain = format_1(&path);
        // A look reads it and changes nothing.
        let before = std::fs::read(&path).unwrap();
        let sound = look::look(&path, |_, _, body| {
            assert!(body.to_json().unwrap().contains("noted"));
            Ok(())
        });
        let sound = sound.unwrap();
        assert_eq!((sound.about.format, sound.tip.hash), (1, chain.tip));
        assert_eq!(std::fs::read(&path).unwrap(), before);
        // Its node upgrades it and goes on.
        let (mut ledger, seen) = open(&path);
        assert_eq!(seen, noted(1..=3));
        assert_eq!((ledger.last_sequence(), *ledger.tip()), (3, chain.tip));
        let by = Causer::peer(alice());
        let record = Note::Noted { number: 4 };
        ledger.append_caused(&[CausedRecord { record: &record, by: &by }]).unwrap();
        let mut reader = LedgerReader::<Note>::open(&path, ID).unwrap();
        let read = reader.read(0, 4).unwrap();
        let from: Vec<_> = read.iter().map(|entry| entry.from.clone()).collect();
        assert_eq!(from, [None, None, Some(alice()), Some(alice())]);
        drop((reader, ledger));
        let (ledger, seen) = open(&path);
        assert_eq!(seen, noted(1..=4));
        drop(ledger);
        let mut json = Vec::new();
        let sound = look::look(&path, |_, _, body| {
            json.push(body.to_json().unwrap());
            Ok(())
        });
        assert_eq!((sound.unwrap().about.format, json.len()), (FORMAT_VERSION, 4));
        assert_eq!(json[3], json[2].replace('3', "4"));
    }

    #[test]
    fn a_ledger_of_format_2_gets_the_mark_of_this_release_and_nothing_else_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("north.ledger");
        let (mut ledger, _) = open(&path);
        ledger.append(&[&Note::Noted { number: 1 }]).unwrap();
        let tip = *ledger.tip();
        drop(ledger);
        let back = "PRAGMA user_version = 2; UPDATE meta SET value = '2' WHERE key = 'format_version'; \
                    DELETE FROM meta WHERE key = 'written_by'";
        Connection::open(&path).unwrap().execute_batch(back).unwrap();
        let about = look::look(&path, |_, _, _| Ok(())).unwrap().about;
        assert_eq!((about.format, about.written_by), (2, None));
        let (ledger, seen) = open(&path);
        assert_eq!((seen, *ledger.tip()), (noted(1..=1), tip));
        drop(ledger);
        let about = look::look(&path, |_, _, _| Ok(())).unwrap().about;
        assert_eq!((about.format, about.written_by.as_deref()), (FORMAT_VERSION, Some(PROGRAM)));
    }

    /// A new ledger and an upgraded one have the same tables.
    #[test]
    fn the_tables_are_those_of_a_new_ledger() {
        let folder = tempfile::tempdir().unwrap();
        let columns = |name: &str| {
            let connection = Connection::open(folder.path().join(name)).unwrap();
            let select = "SELECT m.name, c.name, c.type, c.\"notnull\", c.pk FROM sqlite_schema m, \
                          pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1, c.cid";
            let mut statement = connection.prepare(select).unwrap();
            let rows = statement.query_map([], |row| {
                let column: (String, String, String, i64, i64) =
                    (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
                Ok(column)
            });
            rows.unwrap().map(Result::unwrap).collect::<Vec<_>>()
        };
        format_1(&folder.path().join("old"));
        drop(open(&folder.path().join("old")));
        drop(open(&folder.path().join("new")));
        assert_eq!(columns("old"), columns("new"));
        assert_eq!(columns("new").iter().filter(|column| column.0 == "record").count(), 4);
    }
}
