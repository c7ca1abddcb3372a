//! Tests on a really full disk: a small tmpfs, filled by somebody else (I17). Mounting needs root; without root,
//! the tests print that and do nothing.
use std::fs;
use std::path::{Path, PathBuf};

use crate::fixtures::{Note, note, open};
use crate::tmpfs::Small;
use coalloc_common::DiskSpace;
use coalloc_ledger::chain_text;
use coalloc_protocol::Log;

fn file_on(small: &Small) -> PathBuf {
    small.path().join("north.ledger")
}

/// A record of the size of an end: about 250 bytes.
fn end(number: u64) -> Note {
    Note { number, text: "x".repeat(230) }
}

fn seen(path: &Path) -> usize {
    open(path).unwrap().1.len()
}

#[test]
fn thousands_of_ends_fit_on_a_disk_that_is_full() {
    let Some(small) = Small::mounted(24) else { return };
    let (mut ledger, _) = open(&file_on(&small)).unwrap();
    assert_eq!(ledger.room().unwrap(), DiskSpace::Enough);
    ledger.append(&[&note(1)]).unwrap();
    small.fill();
    assert_eq!(ledger.room().unwrap(), DiskSpace::Low);
    let mut written = 1;
    // Others take all space that is freed, but the reserved blocks are never free.
    for round in 0..7_500 {
        assert_eq!(ledger.room().unwrap(), DiskSpace::Low, "{round}");
        if let Err(error) = ledger.append(&[&end(round)]) {
            panic!("end {round} does not fit: {}", chain_text(&error));
        }
        written += 1;
        if round % 500 == 0 {
            small.fill();
        }
    }
    drop(ledger);
    // A clean stop frees the log's blocks.
    small.free();
    assert_eq!(seen(&file_on(&small)), written);
}

/// A ledger from before there was reserved space gets it at the first start. What is added then must be in the main
/// file, and not only in its log.
#[test]
fn a_ledger_of_an_earlier_release_has_room_too() {
    let Some(small) = Small::mounted(24) else { return };
    drop(open(&file_on(&small)).unwrap());
    let earlier = rusqlite::Connection::open(file_on(&small)).unwrap();
    earlier.execute_batch("DROP TABLE room; VACUUM;").unwrap();
    drop(earlier);
    let (mut ledger, _) = open(&file_on(&small)).unwrap();
    assert_eq!(ledger.room().unwrap(), DiskSpace::Enough);
    small.fill();
    assert_eq!(ledger.room().unwrap(), DiskSpace::Low);
    for round in 0..7_500 {
        if let Err(error) = ledger.append(&[&end(round)]) {
            panic!("end {round} does not fit: {}", chain_text(&error));
        }
    }
    drop(ledger);
    small.free();
    assert_eq!(seen(&file_on(&small)), 7_500);
}

/// Such a ledger also starts on a disk that is already full, and reports that the disk is full.
#[test]
fn a_ledger_of_an_earlier_release_starts_on_a_full_disk() {
    let Some(small) = Small::mounted(24) else { return };
    let (mut ledger, _) = open(&file_on(&small)).unwrap();
    ledger.append(&[&note(1)]).unwrap();
    drop(ledger);
    let earlier = rusqlite::Connection::open(file_on(&small)).unwrap();
    earlier.execute_batch("DROP TABLE room; VACUUM; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    drop(earlier);
    let path = file_on(&small);
    fs::remove_file(format!("{}.tip", path.display())).unwrap();
    small.fill();
    // Its log needs a block or two, as before.
    small.give_back(64 * 1024);
    let (mut ledger, seen) = open(&path).unwrap();
    assert_eq!((ledger.room().unwrap(), seen.len()), (DiskSpace::Low, 1));
    small.free();
    assert_eq!(ledger.room().unwrap(), DiskSpace::Enough);
    ledger.append(&[&note(2)]).unwrap();
}

#[test]
fn there_is_room_again_when_space_is_freed_and_not_before_there_is_some_to_spare() {
    let Some(small) = Small::mounted(24) else { return };
    let (mut ledger, _) = open(&file_on(&small)).unwrap();
    small.fill();
    assert_eq!(ledger.room().unwrap(), DiskSpace::Low);
    // A little free space is not enough, because the reserved space has to be completed first.
    small.give_back(1 << 20);
    assert_eq!(ledger.room().unwrap(), DiskSpace::Low);
    small.free();
    assert_eq!(ledger.room().unwrap(), DiskSpace::Enough);
    ledger.append(&[&note(1)]).unwrap();
    small.fill();
    assert_eq!(ledger.room().unwrap(), DiskSpace::Low);
    for round in 0..2_000 {
        ledger.append(&[&end(round)]).unwrap();
    }
    drop(ledger);
    small.free();
    assert_eq!(seen(&file_on(&small)), 2_001);
}

/// A write that fails in spite of the reserved space ends the node, and what was acknowledged is there afterwards
/// (I16).
#[test]
fn beyond_the_room_a_write_fails_and_nothing_is_lost() {
    let Some(small) = Small::mounted(16) else { return };
    let (mut ledger, _) = open(&file_on(&small)).unwrap();
    small.fill();
    assert_eq!(ledger.room().unwrap(), DiskSpace::Low);
    let mut written = 0;
    let error = loop {
        match ledger.append(&[&end(written)]) {
            Ok(()) => written += 1,
            Err(error) => break chain_text(&error),
        }
    };
    assert!(error.contains("full") && error.contains("north.ledger"), "{error}");
    assert!(ledger.append(&[&end(0)]).is_err(), "nothing is built upon it");
    assert!(written >= 7_500, "{written}");
    // As after a kill, the files stay as they are.
    drop(ledger);
    small.free();
    assert_eq!(seen(&file_on(&small)) as u64, written);
}
