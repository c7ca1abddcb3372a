//! Tests of readers while a writer is at work: they get everything that is durable, once and in
//! order, and nobody waits.
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::fixtures::{ID, Note, folder, note, open};
use coalloc_common::limits;
use coalloc_ledger::{
    AppendFault, Entry, LedgerError, LedgerReader, MemoryLedger, MemoryReader, ReadRecords,
    SimulatedDisk,
};
use coalloc_protocol::Log;
use rusqlite::Connection;

/// Everything after a cursor, chunk after chunk.
fn follow<R: ReadRecords>(reader: &mut R, mut cursor: u64, last: u64) -> Vec<Entry<R::Record>> {
    let mut all: Vec<Entry<R::Record>> = Vec::new();
    while cursor < last {
        let chunk = reader.read(cursor, last).unwrap();
        assert!(!chunk.is_empty() && chunk.len() <= limits::WATCH_CHUNK);
        cursor = chunk.last().unwrap().sequence;
        all.extend(chunk);
    }
    all
}

fn reader(path: &Path) -> LedgerReader<Note> {
    LedgerReader::open(path, ID).unwrap()
}

#[test]
fn readers_beside_a_hammering_writer_see_every_record_once_and_none_early() {
    const COMMITS: u64 = 1_500;
    const BATCH: u64 = 4;
    let (_folder, path) = folder();
    let (mut ledger, _) = open(&path).unwrap();
    let durable = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (path, durable) = (path.clone(), Arc::clone(&durable));
            thread::spawn(move || {
                let (mut reader, mut cursor) = (reader(&path), 0);
                let mut seen = Vec::new();
                while cursor < COMMITS * BATCH {
                    let last = durable.load(Ordering::Acquire);
                    for entry in follow(&mut reader, cursor, last) {
                        cursor = entry.sequence;
                        seen.push((entry.sequence, entry.record.number, entry.hash));
                    }
                    thread::yield_now();
                }
                seen
            })
        })
        .collect();
    for commit in 0..COMMITS {
        let notes: Vec<Note> = (1..=BATCH).map(|n| note(commit * BATCH + n)).collect();
        ledger.append(&notes.iter().collect::<Vec<_>>()).unwrap();
        durable.store(ledger.last_sequence(), Ordering::Release);
    }
    let tip = *ledger.tip();
    let stories: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    for story in &stories {
        let numbers: Vec<(u64, u64)> = story.iter().map(|(at, number, _)| (*at, *number)).collect();
        let expected: Vec<(u64, u64)> = (1..=COMMITS * BATCH).map(|n| (n, n)).collect();
        assert!(numbers == expected, "a gap, a double, or another order");
        assert_eq!(story.last().unwrap().2, tip);
    }
    // The writer could still truncate its log: no reader kept a snapshot open.
    let wal = std::fs::metadata(path.with_file_name("north.ledger-wal")).unwrap().len();
    assert!(wal < 32 << 20, "the write-ahead log has {wal} bytes");
}

#[test]
fn a_chunk_ends_by_number_and_by_bytes_and_never_beyond_what_is_asked_for() {
    let (_folder, path) = folder();
    let (mut ledger, _) = open(&path).unwrap();
    let big = Note { number: 1, text: "x".repeat(limits::WATCH_CHUNK_BYTES) };
    ledger.append(&[&big, &big]).unwrap();
    let many: Vec<Note> = (0..2 * limits::WATCH_CHUNK as u64).map(note).collect();
    ledger.append(&many.iter().collect::<Vec<_>>()).unwrap();
    let mut reader = reader(&path);
    assert_eq!(reader.read(0, 1_000).unwrap().len(), 1, "one, however large it is");
    assert_eq!(reader.read(1, 1_000).unwrap().len(), 1);
    assert_eq!(reader.read(2, 1_000).unwrap().len(), limits::WATCH_CHUNK);
    assert_eq!(reader.read(2, 5).unwrap().len(), 3, "what is later may not be durable yet");
    assert!(reader.read(ledger.last_sequence(), 1_000).unwrap().is_empty());
}

#[test]
fn the_hash_of_a_record_tells_two_pasts_apart() {
    let (_folder, path) = folder();
    let (mut ledger, _) = open(&path).unwrap();
    let mut reader = reader(&path);
    let before = reader.hash(0).unwrap().unwrap();
    assert_eq!(before, *ledger.tip(), "of an empty ledger");
    ledger.append(&[&note(1), &note(2)]).unwrap();
    assert_eq!(reader.hash(2).unwrap(), Some(*ledger.tip()));
    assert_eq!(reader.hash(3).unwrap(), None);
    let (_other, path) = folder();
    let (mut other, _) = open(&path).unwrap();
    other.append(&[&note(1), &note(3)]).unwrap();
    let mut other = self::reader(&path);
    assert_eq!(other.hash(1).unwrap(), reader.hash(1).unwrap());
    assert_ne!(other.hash(2).unwrap(), reader.hash(2).unwrap());
}

#[test]
fn a_hole_is_noticed() {
    let (_folder, path) = folder();
    let (mut ledger, _) = open(&path).unwrap();
    ledger.append(&[&note(1), &note(2), &note(3)]).unwrap();
    let mut reader = reader(&path);
    Connection::open(&path).unwrap().execute("DELETE FROM record WHERE sequence = 2", []).unwrap();
    let error = reader.read(0, 3).unwrap_err();
    assert!(matches!(error, LedgerError::ChainBroken { sequence: 2, .. }), "{error}");
}

#[test]
fn the_simulated_disk_is_read_alike() {
    let disk = SimulatedDisk::new("north");
    let mut ledger = MemoryLedger::<Note>::open(&disk, |_, _| Ok(())).unwrap();
    let mut reader = MemoryReader::<Note>::new(disk.clone());
    let notes: Vec<Note> = (1..=300).map(note).collect();
    ledger.append(&notes.iter().collect::<Vec<_>>()).unwrap();
    let seen = follow(&mut reader, 100, 300);
    assert_eq!(
        seen.iter().map(|entry| entry.record.number).collect::<Vec<_>>(),
        (101..=300).collect::<Vec<_>>()
    );
    assert_eq!(reader.hash(300).unwrap(), Some(seen.last().unwrap().hash));
    // A record that was written and lost could never be read.
    disk.cut_after(0, AppendFault::BeforeDurable);
    ledger.append(&[&note(301)]).unwrap_err();
    assert!(reader.read(300, 400).unwrap().is_empty());
    assert_eq!(reader.hash(301).unwrap(), None);
}
