//! Tests of snapshots and archives: a start reads the parts and the records after them, damage is found, and the
//! archives prove the chain from the first record on for as long as they are there.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use coalloc_ledger::look::{SoundLedger, look};
use coalloc_ledger::{
    Fold, LedgerError, LedgerReader, ReadRecords as _, SnapshotPolicy, SqliteLedger, backup,
};
use coalloc_protocol::{ChangedPart, Log as _, ReplayError};
use rusqlite::Connection;

use crate::fixtures::{ID, Note, folder, north, note};

/// The sums of the numbers of all notes, by their last digit.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Sums {
    sums: BTreeMap<u64, u64>,
    /// Where the snapshot ended, and which records were replayed after it.
    restored: u64,
    replayed: Vec<u64>,
}

impl Fold for Sums {
    type Part = (u64, u64);
    type Record = Note;

    fn restore(&mut self, (digit, sum): (u64, u64)) -> Result<(), ReplayError> {
        self.sums.insert(digit, sum);
        Ok(())
    }

    fn restored(&mut self, records: u64) -> Result<(), ReplayError> {
        self.restored = records;
        Ok(())
    }

    fn replay(&mut self, sequence: u64, note: Note) -> Result<(), ReplayError> {
        self.replayed.push(sequence);
        *self.sums.entry(note.number % 10).or_default() += note.number;
        Ok(())
    }
}

fn open(path: &Path) -> Result<(SqliteLedger<Note>, Sums), LedgerError> {
    let mut sums = Sums::default();
    let ledger = SqliteLedger::open_into(path, &north(), || ID.to_owned(), &mut sums)?;
    Ok((ledger, sums))
}

/// What the fold of so many notes must be.
fn expected(notes: u64) -> BTreeMap<u64, u64> {
    let mut sums = BTreeMap::new();
    (1..=notes).for_each(|number| *sums.entry(number % 10).or_default() += number);
    sums
}

fn append(ledger: &mut SqliteLedger<Note>, numbers: std::ops::RangeInclusive<u64>) {
    numbers.for_each(|number| ledger.append(&[&note(number)]).unwrap());
}

/// Writes a snapshot of these notes, of which only the parts of some digits have changed.
fn snapshot(ledger: &mut SqliteLedger<Note>, notes: u64, digits: &[u64]) {
    let sums = expected(notes);
    let part = |digit: &u64| ChangedPart {
        key: digit.to_string(),
        part: sums.get(digit).map(|sum| (*digit, *sum)),
    };
    ledger.write_snapshot(&digits.iter().map(part).collect::<Vec<_>>()).unwrap();
}

const ALL: [u64; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

#[test]
fn a_start_reads_the_parts_and_the_records_after_them() {
    let (_folder, path) = folder();
    let (mut ledger, _) = open(&path).unwrap();
    append(&mut ledger, 1..=10);
    snapshot(&mut ledger, 10, &ALL);
    append(&mut ledger, 11..=13);
    drop(ledger);
    let (mut ledger, sums) = open(&path).unwrap();
    assert_eq!((sums.restored, sums.replayed), (10, vec![11, 12, 13]));
    assert_eq!(sums.sums, expected(13));
    // Only what has changed is written, and the next start has all of it.
    snapshot(&mut ledger, 13, &[1, 2, 3]);
    drop(ledger);
    let (mut ledger, sums) = open(&path).unwrap();
    assert_eq!((sums.restored, sums.replayed.len()), (13, 0));
    assert_eq!(sums.sums, expected(13));
    // A part that is gone is gone.
    ledger
        .write_snapshot(&[ChangedPart::<(u64, u64)> { key: "7".to_owned(), part: None }])
        .unwrap();
    drop(ledger);
    let mut without = expected(13);
    without.remove(&7);
    assert_eq!(open(&path).unwrap().1.sums, without);
    assert_eq!(look(&path, |_, _, _| Ok(())).unwrap().snapshot, Some(13));
}

#[test]
fn snapshots_are_due_by_changed_parts_and_by_records() {
    let (_folder, path) = folder();
    let (mut ledger, _) = open(&path).unwrap();
    let policy = SnapshotPolicy { parts: 5, parts_max: 5, records: 8, kept: 100, archived: 100 };
    ledger.set_policy(policy);
    append(&mut ledger, 1..=7);
    assert!(!ledger.snapshot_is_due(4) && ledger.snapshot_is_due(5));
    append(&mut ledger, 8..=8);
    assert!(ledger.snapshot_is_due(0));
    snapshot(&mut ledger, 8, &ALL);
    assert!(!ledger.snapshot_is_due(0));
    append(&mut ledger, 9..=15);
    drop(ledger);
    let (mut ledger, _) = open(&path).unwrap();
    ledger.set_policy(policy);
    assert!(!ledger.snapshot_is_due(0), "counted from the snapshot, not from the start");
    append(&mut ledger, 16..=16);
    assert!(ledger.snapshot_is_due(0));
}

#[test]
fn a_damaged_snapshot_is_refused_and_left_as_it_is() {
    for sql in [
        "UPDATE part SET body = x'8201182A' WHERE key = '1'",
        "DELETE FROM part WHERE key = '1'",
        "INSERT INTO part VALUES ('one', x'820105')",
        "UPDATE part SET key = 'x' WHERE key = '1'",
        "UPDATE position SET digest = zeroblob(32)",
    ] {
        let (_folder, path) = folder();
        let (mut ledger, _) = open(&path).unwrap();
        append(&mut ledger, 1..=10);
        snapshot(&mut ledger, 10, &ALL);
        drop(ledger);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let before = fs::read(&path).unwrap();
        let error = open(&path).map(|_| ()).unwrap_err();
        assert!(matches!(error, LedgerError::SnapshotDamaged { record: 10, .. }), "{sql}: {error}");
        let error = look(&path, |_, _, _| Ok(())).unwrap_err();
        assert!(matches!(error, LedgerError::SnapshotDamaged { record: 10, .. }), "{sql}: {error}");
        assert_eq!(fs::read(&path).unwrap(), before, "{sql}");
    }
}

#[test]
fn a_snapshot_of_another_record_is_refused() {
    for (sql, sequence) in [
        ("UPDATE position SET sequence = 9", 9),
        ("UPDATE position SET hash = zeroblob(32)", 10),
        ("DELETE FROM record WHERE sequence = 10", 10),
    ] {
        let (_folder, path) = folder();
        let (mut ledger, _) = open(&path).unwrap();
        append(&mut ledger, 1..=10);
        snapshot(&mut ledger, 10, &ALL);
        drop(ledger);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let error = open(&path).map(|_| ()).unwrap_err();
        let LedgerError::ChainBroken { sequence: found, .. } = error else {
            panic!("{sql}: {error}")
        };
        assert_eq!(found, sequence, "{sql}");
    }
}

/// A ledger of 100 notes whose first 60 are in two archives, the last of which were deleted by the last append.
fn archived() -> (tempfile::TempDir, PathBuf) {
    let (folder, path) = folder();
    let policy = SnapshotPolicy { parts: 5, parts_max: 5, records: 8, kept: 20, archived: 30 };
    for (from, to) in [(1, 49), (50, 50), (51, 80), (81, 99), (100, 100)] {
        let (mut ledger, _) = open(&path).unwrap();
        ledger.set_policy(policy);
        append(&mut ledger, from..=to);
        snapshot(&mut ledger, to, &ALL);
        // The end of the ledger waits for the archive that was begun.
    }
    (folder, path)
}

fn archives(path: &Path) -> Vec<PathBuf> {
    let folder = path.with_extension("ledger.archive");
    let mut all: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Looks at a ledger, and returns the numbers of the records that were read, too.
fn looked(path: &Path) -> Result<(SoundLedger, Vec<u64>), LedgerError> {
    let mut read = Vec::new();
    let sound = look(path, |sequence, _, body| {
        assert_eq!(body.record::<Note>().unwrap(), note(sequence));
        read.push(sequence);
        Ok(())
    })?;
    Ok((sound, read))
}

#[test]
fn archived_records_leave_the_file_and_still_prove_the_chain() {
    let (_folder, path) = archived();
    let (sound, read) = looked(&path).unwrap();
    assert_eq!((sound.archived, sound.missing, sound.tip.sequence), (60, 0, 100));
    assert_eq!(read, (1..=100).collect::<Vec<_>>());
    let in_file: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM record", [], |row| row.get(0))
        .unwrap();
    assert_eq!(in_file, 40);
    let (_, sums) = open(&path).unwrap();
    assert_eq!((sums.restored, &sums.sums), (100, &expected(100)));
    // Moved away one after the other, they prove less.
    let all = archives(&path);
    assert_eq!(all.len(), 2);
    fs::remove_file(&all[0]).unwrap();
    let (sound, read) = looked(&path).unwrap();
    assert_eq!((sound.missing, read.first()), (30, Some(&31)));
    fs::remove_file(&all[1]).unwrap();
    let (sound, read) = looked(&path).unwrap();
    assert_eq!((sound.missing, read.first()), (60, Some(&61)));
    assert_eq!(open(&path).unwrap().1.sums, expected(100));
}

#[test]
fn a_damaged_archive_is_named() {
    let (_folder, path) = archived();
    let first = &archives(&path)[0];
    let change = "UPDATE record SET hash = zeroblob(32) WHERE sequence = 7";
    Connection::open(first).unwrap().execute_batch(change).unwrap();
    let error = looked(&path).map(|_| ()).unwrap_err();
    let LedgerError::ChainBroken { path: of, sequence: 7, .. } = &error else { panic!("{error}") };
    assert_eq!(of, first);
    // No start reads it.
    assert_eq!(open(&path).unwrap().1.sums, expected(100));
}

#[test]
fn a_crash_between_archive_and_deletion_makes_no_second_archive() {
    let (_folder, path) = folder();
    let policy = SnapshotPolicy { parts: 5, parts_max: 5, records: 8, kept: 20, archived: 30 };
    let (mut ledger, _) = open(&path).unwrap();
    ledger.set_policy(policy);
    append(&mut ledger, 1..=50);
    snapshot(&mut ledger, 50, &ALL);
    drop(ledger);
    // The archive is there, and nothing is deleted yet.
    let (sound, read) = looked(&path).unwrap();
    assert_eq!((sound.archived, read.len(), archives(&path).len()), (0, 50, 1));
    let (mut ledger, _) = open(&path).unwrap();
    ledger.set_policy(policy);
    snapshot(&mut ledger, 50, &ALL);
    append(&mut ledger, 51..=51);
    drop(ledger);
    let (sound, read) = looked(&path).unwrap();
    assert_eq!((sound.archived, sound.missing, read.len(), archives(&path).len()), (30, 0, 51, 1));
}

#[test]
fn a_reader_learns_what_it_cannot_read_any_more() {
    let (_folder, path) = archived();
    let (ledger, _) = open(&path).unwrap();
    let mut reader = LedgerReader::<Note>::open(&path, ID).unwrap();
    assert_eq!(reader.begin().unwrap(), 60);
    for cursor in [0, 30, 59] {
        let error = reader.read(cursor, 100).unwrap_err();
        assert!(matches!(error, LedgerError::Archived { archived: 60, .. }), "{error}");
        assert_eq!(reader.hash(cursor).unwrap(), None);
    }
    let first = reader.read(60, 100).unwrap();
    assert_eq!((first[0].sequence, &first[0].record), (61, &note(61)));
    assert!(reader.hash(60).unwrap().is_some());
    assert_eq!(reader.hash(100).unwrap(), Some(*ledger.tip()));
}

#[test]
fn a_backup_of_an_archived_ledger_starts_on_a_new_machine() {
    let (folder, path) = archived();
    let (copy, elsewhere) = (folder.path().join("copy"), folder.path().join("elsewhere.ledger"));
    let (ledger, _) = open(&path).unwrap();
    assert_eq!(backup::back_up(&path, &copy).unwrap().missing, 60);
    drop(ledger);
    backup::restore(&copy, &elsewhere, "00000000").unwrap();
    let (mut ledger, sums) = open(&elsewhere).unwrap();
    assert_eq!(sums.sums, expected(100));
    append(&mut ledger, 101..=101);
}

/// A backup is older than an archive. The node goes on from the backup and has another past from then on.
#[test]
fn an_archive_of_another_past_is_none() {
    let (folder, path) = folder();
    let policy = SnapshotPolicy { parts: 5, parts_max: 5, records: 8, kept: 20, archived: 30 };
    let copy = folder.path().join("copy");
    let (mut ledger, _) = open(&path).unwrap();
    append(&mut ledger, 1..=10);
    backup::back_up(&path, &copy).unwrap();
    ledger.set_policy(policy);
    append(&mut ledger, 11..=50);
    snapshot(&mut ledger, 50, &ALL);
    drop(ledger);
    assert_eq!(archives(&path).len(), 1);
    for suffix in ["", ".tip", ".lock"] {
        fs::remove_file(path.with_extension(format!("ledger{suffix}"))).unwrap();
    }
    backup::restore(&copy, &path, "11111111").unwrap();
    let (mut ledger, _) = open(&path).unwrap();
    ledger.set_policy(policy);
    ledger.append(&[&note(11), &note(12)]).unwrap();
    append(&mut ledger, 13..=13);
    // Other records from here on.
    (14..=50).for_each(|number| ledger.append(&[&note(number + 1_000)]).unwrap());
    ledger
        .write_snapshot(&[ChangedPart { key: "0".to_owned(), part: Some((0_u64, 0_u64)) }])
        .unwrap();
    drop(ledger);
    let (mut ledger, _) = open(&path).unwrap();
    ledger.append(&[&note(51)]).unwrap();
    drop(ledger);
    let mut read = Vec::new();
    let sound = look(&path, |sequence, _, body| {
        read.push((sequence, body.record::<Note>().unwrap().number));
        Ok(())
    });
    let sound = sound.unwrap();
    assert_eq!((sound.archived, sound.missing, archives(&path).len()), (30, 0, 2));
    assert_eq!((read[12], read[13], read.len()), ((13, 13), (14, 1_014), 51));
}

#[test]
fn only_a_core_reads_a_ledger_with_a_snapshot() {
    let (_folder, path) = archived();
    let error = crate::fixtures::open(&path).map(|_| ()).unwrap_err();
    assert!(matches!(error, LedgerError::SnapshotDoesNotFit { record: 100, .. }), "{error}");
}
