//! Tests of the ledger on a disk: what it keeps, what it finds, and what it refuses without
//! changing it.
use std::fs;
use std::path::Path;

use crate::fixtures::{ID, Note, folder, north, note, open};
use coalloc_ledger::{Identity, LedgerError, SqliteLedger, chain_text};
use coalloc_protocol::{Log, ReplayError};
use rusqlite::Connection;

/// Puts something in the place of a ledger.
type Make<'a> = &'a dyn Fn(&Path);
/// Damages the bytes of a write-ahead log.
type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);

/// Writes a closed ledger with records 1 to `count`, each in an append of its own.
fn written(path: &Path, count: u64) {
    let (mut ledger, _) = open(path).unwrap();
    for number in 1..=count {
        ledger.append(&[&note(number)]).unwrap();
    }
}

/// Changes a closed ledger, as a person with `sqlite3` could.
fn tamper(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

fn refusal(path: &Path) -> LedgerError {
    open(path).expect_err("it must be refused")
}

fn broken_at(path: &Path) -> u64 {
    match refusal(path) {
        LedgerError::ChainBroken { sequence, .. } => sequence,
        other => panic!("{other}"),
    }
}

/// Name and content of every file beside the ledger, except the lock.
fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            !name.ends_with(".lock") && !name.ends_with(".tip")
        })
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn what_was_appended_is_replayed() {
    let (_folder, path) = folder();
    let (mut ledger, seen) = open(&path).unwrap();
    assert_eq!((seen.len(), ledger.last_sequence(), ledger.id()), (0, 0, ID));
    ledger.append(&[]).unwrap();
    ledger.append(&[&note(1)]).unwrap();
    ledger.append(&[&note(2), &note(3)]).unwrap();
    let tip = *ledger.tip();
    drop(ledger);
    let (mut ledger, seen) = open(&path).unwrap();
    assert_eq!(seen, [note(1), note(2), note(3)]);
    assert_eq!((ledger.last_sequence(), *ledger.tip()), (3, tip));
    ledger.append(&[&note(4)]).unwrap();
    drop(ledger);
    assert_eq!(open(&path).unwrap().1.len(), 4);
    // A closed ledger is one file.
    assert_eq!(files(&path).len(), 1);
}

#[test]
fn people_can_read_a_live_ledger_with_their_own_tools() {
    let (_folder, path) = folder();
    let (mut ledger, _) = open(&path).unwrap();
    ledger.append(&[&note(1)]).unwrap();
    let reader = Connection::open(&path).unwrap();
    let name = "SELECT value FROM meta WHERE key = 'node_name'";
    assert_eq!(reader.query_row(name, [], |row| row.get::<_, String>(0)).unwrap(), "north");
    // A read transaction that stays open does not delay an append.
    reader.execute_batch("BEGIN").unwrap();
    let packed = "SELECT sequence FROM record WHERE typeof(body) = 'blob'";
    assert_eq!(reader.query_row(packed, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    ledger.append(&[&note(2)]).unwrap();
}

#[test]
fn a_flipped_byte_is_found() {
    let (_folder, path) = folder();
    written(&path, 20);
    let mut bytes = fs::read(&path).unwrap();
    let text = b"h\xc3\xb6ld 13 ";
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(broken_at(&path), 13);
    let text = refusal(&path).to_string();
    assert!(text.contains("north.ledger is damaged at record 13"), "{text}");
}

#[test]
fn removed_swapped_inserted_and_renumbered_records_are_found() {
    let swap = "
        CREATE TEMP TABLE kept AS SELECT * FROM record WHERE sequence IN (4, 5);
        DELETE FROM record WHERE sequence IN (4, 5);
        INSERT INTO record SELECT 9 - sequence, body, hash, causer FROM kept;";
    let renumber = "
        DELETE FROM record WHERE sequence = 4;
        UPDATE record SET sequence = 4 WHERE sequence = 5;
        UPDATE record SET sequence = 5 WHERE sequence = 6;";
    let cases = [
        ("DELETE FROM record WHERE sequence = 4", 4),
        ("DELETE FROM record WHERE sequence = 1", 1),
        (swap, 4),
        (renumber, 4),
        ("UPDATE record SET hash = zeroblob(32) WHERE sequence = 2", 2),
        ("UPDATE record SET body = body || ' ' WHERE sequence = 6", 6),
        ("INSERT INTO record SELECT 0, body, hash, causer FROM record WHERE sequence = 1", 1),
        ("INSERT INTO record SELECT 7, body, hash, causer FROM record WHERE sequence = 6", 7),
        ("UPDATE meta SET value = replace(value, 'a', 'b') WHERE key = 'ledger_id'", 1),
    ];
    for (sql, sequence) in cases {
        let (_folder, path) = folder();
        written(&path, 6);
        tamper(&path, sql);
        assert_eq!(broken_at(&path), sequence, "{sql}");
    }
}

#[test]
fn a_newer_format_is_refused_and_left_as_it_is() {
    // In the first case only the header is read; in the second, SQLite reads the table but writes
    // nothing.
    let cases = [
        "PRAGMA user_version = 5; UPDATE meta SET value = 'coalloc 9.1' WHERE key = 'written_by'",
        "UPDATE meta SET value = '5' WHERE key = 'format_version'; DELETE FROM meta WHERE key = 'written_by'",
        "PRAGMA user_version = 5; DROP TABLE meta",
    ];
    for sql in cases {
        let (_folder, path) = folder();
        written(&path, 3);
        tamper(&path, sql);
        let before = files(&path);
        let error = refusal(&path);
        assert!(matches!(error, LedgerError::NewerFormat { found: 5, newest: 4, .. }), "{error}");
        let by = if sql.contains("9.1") { "coalloc 9.1" } else { "a later release" };
        assert!(error.to_string().contains(&format!("format 5, written by {by}")), "{error}");
        let after = files(&path);
        assert_eq!(after[0], before[0], "{sql}");
        // A read-only look may leave SQLite's own empty side files, but none with content.
        assert!(after[1..].iter().all(|(name, bytes)| name.ends_with("-shm") || bytes.is_empty()));
    }
}

#[test]
fn another_nodes_ledger_is_refused_and_left_as_it_is() {
    let (_folder, path) = folder();
    written(&path, 3);
    let before = files(&path);
    for (kind, name) in [("nrm", "south"), ("crm", "north")] {
        let south = Identity { kind: kind.into(), name: name.into() };
        let error = SqliteLedger::<Note>::open(&path, &south, || unreachable!(), |_, _| Ok(()));
        let text = error.err().unwrap().to_string();
        let expected = format!("is the ledger of nrm `north`, but this node is {kind} `{name}`");
        assert!(text.contains(&expected), "{text}");
    }
    assert_eq!(files(&path)[0], before[0]);
    assert_eq!(open(&path).unwrap().1.len(), 3);
}

#[test]
fn what_is_no_ledger_is_refused_and_left_as_it_is() {
    let cases: [(&str, Make); 5] = [
        ("too short", &|path| fs::write(path, "").unwrap()),
        ("not an SQLite file", &|path| fs::write(path, vec![b'x'; 5_000]).unwrap()),
        ("application id is 0", &|path| tamper(path, "CREATE TABLE record (a)")),
        ("no `node_kind`", &|path| {
            written(path, 1);
            tamper(path, "DELETE FROM meta WHERE key = 'node_kind'");
        }),
        ("-wal is there", &|path| {
            fs::write(path.with_file_name("north.ledger-wal"), "x").unwrap();
        }),
    ];
    for (why, make) in cases {
        let (_folder, path) = folder();
        make(&path);
        let before = files(&path);
        let error = refusal(&path);
        assert!(matches!(error, LedgerError::NotALedger { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(files(&path)[0], before[0], "{why}");
    }
}

#[test]
fn a_ledger_is_open_once() {
    let (_folder, path) = folder();
    let (ledger, _) = open(&path).unwrap();
    // Opening it by another name is refused, too.
    let link = path.with_file_name("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for path in [&path, &link] {
        match refusal(path) {
            LedgerError::Locked { lock, holder, .. } => {
                assert_eq!(holder, Some(std::process::id()));
                assert!(lock.ends_with("north.ledger.lock"), "{}", lock.display());
            }
            other => panic!("{other}"),
        }
    }
    drop(ledger);
    open(&path).unwrap();
}

#[test]
fn records_of_another_release_and_records_that_do_not_fit_are_named() {
    let (_folder, path) = folder();
    written(&path, 3);
    let open = SqliteLedger::<u64>::open(&path, &north(), || unreachable!(), |_, _| Ok(()));
    let error = open.err().unwrap();
    assert!(matches!(error, LedgerError::Undecodable { sequence: 1, .. }), "{error}");
    let replay = |sequence, _| match sequence {
        3 => Err(ReplayError("booked without a hold".into())),
        _ => Ok(()),
    };
    let open = SqliteLedger::<Note>::open(&path, &north(), || unreachable!(), replay);
    let text = chain_text(&open.err().unwrap());
    assert!(text.contains("record 3 of") && text.ends_with("booked without a hold"), "{text}");
}

#[test]
fn a_bad_id_makes_no_ledger() {
    let (_folder, path) = folder();
    let open = SqliteLedger::<Note>::open(&path, &north(), || "x".to_owned(), |_, _| Ok(()));
    assert!(matches!(open.err().unwrap(), LedgerError::BadIdentity { what: "id", .. }));
    assert!(files(&path).is_empty());
}

#[test]
fn the_remains_of_an_interrupted_creation_are_no_obstacle() {
    let (_folder, path) = folder();
    fs::write(path.with_file_name("north.ledger.new"), "half").unwrap();
    fs::write(path.with_file_name("north.ledger.new-journal"), "half").unwrap();
    written(&path, 1);
    assert_eq!(files(&path).len(), 1);
}

#[test]
fn after_a_failed_append_nothing_is_written() {
    let (_folder, path) = folder();
    let (mut ledger, _) = open(&path).unwrap();
    ledger.append(&[&note(1)]).unwrap();
    // A second writer has got around the lock: its record already has the next number.
    tamper(&path, "INSERT INTO record VALUES (3, '{}', zeroblob(32), NULL)");
    let error = ledger.append(&[&note(2), &note(3)]).unwrap_err();
    assert!(matches!(error, LedgerError::Sqlite { .. }), "{error}");
    let error = ledger.append(&[&note(2)]).unwrap_err();
    assert!(matches!(error, LedgerError::Failed { .. }), "{error}");
    drop(ledger);
    tamper(&path, "DELETE FROM record WHERE sequence = 3");
    assert_eq!(open(&path).unwrap().1, [note(1)], "all or none");
}

/// Opens what a crash leaves, after `damage` to the log. A copy of a live ledger has the same
/// files: main file and write-ahead log.
fn crashed(path: &Path, records: u64, damage: impl Fn(&mut Vec<u8>)) -> Result<usize, LedgerError> {
    let (_copies, copy) = folder();
    let (mut ledger, _) = open(path).unwrap();
    for number in 1..=records {
        ledger.append(&[&note(number)]).unwrap();
    }
    fs::copy(path, &copy).unwrap();
    let mut wal = fs::read(path.with_file_name("north.ledger-wal")).unwrap();
    // Every append is one frame here, because all records fit one page.
    assert_eq!(wal.len() as u64, 32 + records * (24 + 4_096));
    damage(&mut wal);
    fs::write(copy.with_file_name("north.ledger-wal"), &wal).unwrap();
    let result = open(&copy).map(|(_, seen)| seen.len());
    if result.is_err() {
        assert_eq!(fs::read(copy.with_file_name("north.ledger-wal")).unwrap(), wal);
    }
    result
}

#[test]
fn an_unfinished_last_transaction_is_rolled_back() {
    let cases: [(Damage, usize); 5] = [
        (&|_| (), 5),
        (&|wal| wal.truncate(wal.len() - 1), 4),
        (&|wal| wal.truncate(wal.len() - 4_100), 4),
        (&|wal| *wal.last_mut().unwrap() ^= 1, 4),
        (&|wal| wal.clear(), 0),
    ];
    for (damage, kept) in cases {
        let (_folder, path) = folder();
        assert_eq!(crashed(&path, 5, damage).unwrap(), kept);
    }
}

#[test]
fn rot_inside_the_write_ahead_log_stops_the_node_instead_of_dropping_what_follows() {
    let frame = |number: usize| 32 + (number - 1) * (24 + 4_096);
    // A byte of the log's header, of a frame header and of a page, but not of the last transaction.
    for at in [16, frame(1) + 10, frame(2) + 16, frame(4) + 24 + 4_000] {
        let (_folder, path) = folder();
        let error = crashed(&path, 5, |wal| wal[at] ^= 1).unwrap_err();
        assert!(matches!(error, LedgerError::WalDamaged { .. }), "{at}: {error}");
    }
}
