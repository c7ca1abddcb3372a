//! Tests of every kind of damage on the real file. Nothing that was acknowledged is lost silently, nothing
//! that is refused is changed, and the error names the file, the record and what to do (I15, F4, F11).
use std::fs;
use std::path::{Path, PathBuf};

use crate::fixtures::{Note, folder, note, open};
use coalloc_ledger::look::{accept_restored, look};
use coalloc_ledger::tip::{self, TipState};
use coalloc_ledger::{Identity, LedgerError, SqliteLedger, chain_text};
use coalloc_protocol::Log;
use rusqlite::Connection;
use tempfile::TempDir;

/// Writes a closed ledger with records 1 to `count`, each in an append of its own.
fn written(path: &Path, count: u64) {
    let (mut ledger, seen) = open(path).unwrap();
    for number in seen.len() as u64 + 1..=count {
        ledger.append(&[&note(number)]).unwrap();
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    path.with_file_name(format!("north.ledger{suffix}"))
}

/// The files that a crash leaves after `records` appends: main file, write-ahead log and tip, in a folder of
/// their own.
fn crashed(records: u64) -> (TempDir, PathBuf) {
    let ((_live, path), (copies, copy)) = (folder(), folder());
    let (mut ledger, _) = open(&path).unwrap();
    for number in 1..=records {
        ledger.append(&[&note(number)]).unwrap();
    }
    for suffix in ["", "-wal", ".tip"] {
        fs::copy(beside(&path, suffix), beside(&copy, suffix)).unwrap();
    }
    (copies, copy)
}

fn bytes(path: &Path) -> Vec<(&'static str, Option<Vec<u8>>)> {
    ["", "-wal", ".tip"].map(|suffix| (suffix, fs::read(beside(path, suffix)).ok())).into()
}

/// Checks that both the node's open and a look refuse the ledger, that nothing is changed, and that the error
/// says what to do.
fn refused(path: &Path) -> LedgerError {
    let before = bytes(path);
    let error = open(path).map(|(ledger, _)| ledger).expect_err("it must be refused");
    assert!(bytes(path) == before, "{error}");
    let seen = look(path, |_, _, _| Ok(())).expect_err("a look sees it, too");
    assert!(bytes(path) == before, "{seen}");
    for error in [&error, &seen] {
        let text = chain_text(error);
        assert!(text.contains("north.ledger"), "{text}");
        let ways = ["restore", "Restore", "Put", "Start", "Correct", "newer format"];
        assert!(ways.iter().any(|way| text.contains(way)), "what to do: {text}");
    }
    error
}

#[test]
fn a_flipped_byte_is_found_or_harms_nothing() {
    let (_folder, path) = folder();
    written(&path, 800);
    let sound = fs::read(&path).unwrap();
    let tip = fs::read(beside(&path, ".tip")).unwrap();
    let expected: Vec<Note> = (1..=800).map(note).collect();
    // Bytes to change: the first 200, then steps of 61 through the first pages, steps of 65,521 through the
    // reserved space (zeros), and steps of 61 through the records after it. In a ledger of 800 records these
    // steps meet every part of a page, because they divide no size.
    let room = 16_384..2 << 20;
    let places = (0..200).chain((200..room.start).step_by(61)).chain(room.clone().step_by(65_521));
    let places = places.chain((room.end..sound.len()).step_by(61));
    let (mut found, mut harmless) = (0, 0);
    for at in places {
        let mut bad = sound.clone();
        bad[at] ^= 0x20;
        fs::write(&path, &bad).unwrap();
        fs::write(beside(&path, ".tip"), &tip).unwrap();
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(beside(&path, suffix));
        }
        match open(&path) {
            Ok((ledger, seen)) => {
                assert_eq!(seen, expected, "byte {at}: other records without a word");
                drop(ledger);
                harmless += 1;
            }
            Err(error) => {
                let text = chain_text(&error);
                assert!(text.contains("north.ledger"), "byte {at}: {text}");
                assert_eq!(fs::read(&path).unwrap(), bad, "byte {at}: touched, {text}");
                found += 1;
            }
        }
    }
    // Some bytes have no meaning, such as free bytes of pages and the file's change counter.
    assert!(found > 500 && harmless > 50, "{found} found, {harmless} harmless");
}

#[test]
fn a_flipped_byte_in_the_log_is_found_by_the_log_or_by_the_tip() {
    let (_sound, sound) = crashed(5);
    let log = fs::read(beside(&sound, "-wal")).unwrap();
    let (frame, mut by_tip) = (24 + 4_096, 0);
    let places = (0..32).chain((32..log.len()).step_by(127)).chain(log.len() - 24..log.len());
    for at in places {
        let (_folder, path) = folder();
        for (suffix, content) in bytes(&sound) {
            fs::write(beside(&path, suffix), content.unwrap()).unwrap();
        }
        let mut bad = log.clone();
        bad[at] ^= 1;
        fs::write(beside(&path, "-wal"), &bad).unwrap();
        match open(&path) {
            // For example the database's size in a frame that does not end a transaction.
            Ok((_, seen)) => assert_eq!(seen, [1, 2, 3, 4, 5].map(note), "byte {at}"),
            // A damaged last transaction looks like one that was cut off, but this one was acknowledged.
            Err(LedgerError::Restored { .. }) => {
                assert!(at >= log.len() - frame || at < 32, "byte {at}");
                by_tip += 1;
            }
            Err(LedgerError::WalDamaged { .. }) => assert!(at < log.len() - frame, "byte {at}"),
            Err(other) => panic!("byte {at}: {other}"),
        }
        assert_eq!(fs::read(beside(&path, "-wal")).ok().filter(|log| *log != bad), None);
    }
    assert!(by_tip > 20, "{by_tip}");
}

#[test]
fn an_unfinished_last_transaction_is_reported_and_rolled_back() {
    let (_folder, path) = crashed(5);
    let wal = beside(&path, "-wal");
    let log = fs::read(&wal).unwrap();
    // An append that was cut off was never acknowledged, so the tip does not contain it. Here the log of five
    // appends is cut inside the fifth, and the tip is that after four.
    let four = crashed(4);
    fs::copy(beside(&four.1, ".tip"), beside(&path, ".tip")).unwrap();
    fs::write(&wal, &log[..log.len() - 100]).unwrap();
    let sound = look(&path, |_, _, _| Ok(())).unwrap();
    let unfinished = sound.unfinished.unwrap();
    assert_eq!((unfinished.frames, unfinished.bytes), (0, 24 + 4_096 - 100));
    assert_eq!(sound.tip.sequence, 4);
    assert_eq!(fs::read(&wal).unwrap().len(), log.len() - 100, "a look rolls nothing back");
    assert_eq!(open(&path).unwrap().1, [1, 2, 3, 4].map(note));
    assert!(look(&path, |_, _, _| Ok(())).unwrap().unfinished.is_none());
}

#[test]
fn zeroed_and_missing_pages_are_found() {
    let (_folder, path) = folder();
    written(&path, 800);
    let sound = fs::read(&path).unwrap();
    let pages = sound.len() / 4_096;
    let mut found = 0;
    for page in 0..pages {
        let mut bad = sound.clone();
        bad[page * 4_096..(page + 1) * 4_096].fill(0);
        fs::write(&path, &bad).unwrap();
        match open(&path) {
            Ok((_, seen)) => assert_eq!(seen.len(), 800, "page {page}"),
            Err(error) => {
                assert_eq!(fs::read(&path).unwrap(), bad, "page {page}: {error}");
                found += 1;
            }
        }
        let _ = fs::remove_file(beside(&path, "-wal"));
        let _ = fs::remove_file(beside(&path, "-shm"));
        fs::write(&path, &sound).unwrap();
    }
    assert!(found > 10, "{found} of {pages}");
    for length in [0, 50, 4_096, 8_192, sound.len() / 2 + 1, sound.len() - 4_096] {
        fs::write(&path, &sound[..length]).unwrap();
        let error = match open(&path) {
            Ok(_) => look(&path, |_, _, _| Ok(())).expect_err("a look reads every page"),
            Err(error) => error,
        };
        assert!(error.to_string().contains("north.ledger"), "{length}: {error}");
        let _ = fs::remove_file(beside(&path, "-wal"));
        let _ = fs::remove_file(beside(&path, "-shm"));
    }
}

#[test]
fn an_older_file_put_back_is_refused_until_somebody_accepts_it() {
    let (_folder, path) = folder();
    written(&path, 5);
    let old = fs::read(&path).unwrap();
    written(&path, 8);
    let identity = open(&path).unwrap().0.identity();
    fs::write(&path, &old).unwrap();
    let error = refused(&path);
    let text = error.to_string();
    assert!(matches!(error, LedgerError::Restored { .. }), "{text}");
    assert!(text.contains("ends at record 5, but record 8 had been written"), "{text}");
    assert!(text.contains("accept-restored"), "{text}");
    // Now accept the older ledger on purpose.
    let accepted = accept_restored(&path, "00c0ffee").unwrap();
    assert_eq!(accepted.tip.sequence, 5);
    let (mut ledger, seen) = open(&path).unwrap();
    assert_eq!(seen.len(), 5);
    // The ledger has another identity for others, so that no number is given twice.
    assert_ne!(ledger.identity(), identity);
    assert_eq!((ledger.identity().get(..8), ledger.identity().len()), (Some("00c0ffee"), 32));
    ledger.append(&[&note(6)]).unwrap();
    // Accepting is refused while a node has the ledger open, and when the ledger is not older than its tip.
    assert!(matches!(accept_restored(&path, "11111111"), Err(LedgerError::Locked { .. })));
    drop(ledger);
    let error = accept_restored(&path, "11111111").unwrap_err();
    assert!(matches!(error, LedgerError::NotRestored { .. }), "{error}");
    assert_eq!(open(&path).unwrap().1.len(), 6);
}

#[test]
fn an_older_file_that_went_on_elsewhere_is_another_past() {
    let (_folder, path) = folder();
    written(&path, 3);
    let (_other, other) = folder();
    fs::copy(&path, &other).unwrap();
    written(&path, 5);
    let (mut ledger, _) = open(&other).unwrap();
    for number in [7, 8, 9] {
        ledger.append(&[&note(number)]).unwrap();
    }
    drop(ledger);
    fs::copy(&other, &path).unwrap();
    let text = refused(&path).to_string();
    assert!(text.contains("record 5 is intact but is not the one that was written here"), "{text}");
}

#[test]
fn a_log_deleted_after_a_crash_is_missed() {
    let (_folder, path) = crashed(5);
    fs::remove_file(beside(&path, "-wal")).unwrap();
    let text = refused(&path).to_string();
    assert!(text.contains("ends at record 0, but record 5 had been written"), "{text}");
}

#[test]
fn a_log_of_another_ledger_or_of_another_time_is_refused_and_not_applied() {
    // A log of another ledger.
    let (_mine, mine) = crashed(5);
    let (_live, path) = folder();
    let south = Identity { kind: "nrm".into(), name: "south".into() };
    let id = || "f".repeat(32);
    let mut ledger = SqliteLedger::<Note>::open(&path, &south, id, |_, _| Ok(())).unwrap();
    ledger.append(&[&note(1), &note(2)]).unwrap();
    fs::copy(beside(&path, "-wal"), beside(&mine, "-wal")).unwrap();
    refused(&mine);
    // An earlier log of the same ledger.
    let (_folder, path) = folder();
    written(&path, 300);
    let (mut ledger, _) = open(&path).unwrap();
    for number in 301..=303 {
        ledger.append(&[&note(number)]).unwrap();
    }
    let old = fs::read(beside(&path, "-wal")).unwrap();
    for number in 304..=400 {
        ledger.append(&[&note(number)]).unwrap();
    }
    drop(ledger);
    fs::write(beside(&path, "-wal"), old).unwrap();
    refused(&path);
}

#[test]
fn a_ledger_that_is_gone_is_missed() {
    let (_folder, path) = folder();
    written(&path, 3);
    fs::remove_file(&path).unwrap();
    let error = open(&path).map(|(ledger, _)| ledger).unwrap_err();
    assert!(matches!(error, LedgerError::Gone { records: 3, .. }), "{error}");
    assert!(!path.exists());
    fs::remove_file(beside(&path, ".tip")).unwrap();
    assert_eq!(open(&path).unwrap().1, []);
}

#[test]
fn a_tip_that_is_older_or_unreadable_or_missing_refuses_nothing() {
    let (_folder, path) = folder();
    written(&path, 3);
    let old = fs::read(beside(&path, ".tip")).unwrap();
    written(&path, 6);
    for content in [Some(&old[..]), Some(b"rot"), Some(b""), None] {
        match content {
            Some(content) => fs::write(beside(&path, ".tip"), content).unwrap(),
            None => fs::remove_file(beside(&path, ".tip")).unwrap(),
        }
        assert_eq!(open(&path).unwrap().1.len(), 6);
        let TipState::Tip(tip) = tip::read(&path).unwrap() else { panic!("it is written anew") };
        assert_eq!(tip.sequence, 6);
    }
}

#[test]
fn a_look_works_beside_a_writer_and_on_a_copy_and_changes_nothing() {
    let (_folder, path) = folder();
    let (mut ledger, _) = open(&path).unwrap();
    ledger.append(&[&note(1), &note(2)]).unwrap();
    let mut seen = Vec::new();
    let sound = look(&path, |sequence, _, body| {
        seen.push((sequence, body.record::<Note>().unwrap()));
        Ok(())
    });
    let sound = sound.unwrap();
    assert!(sound.live);
    assert_eq!((sound.tip.sequence, sound.tip.hash), (2, *ledger.tip()));
    assert_eq!(seen, [(1, note(1)), (2, note(2))]);
    assert_eq!(sound.about.node, crate::fixtures::north());
    ledger.append(&[&note(3)]).unwrap();
    drop(ledger);
    let before = bytes(&path);
    let names = || {
        let all = fs::read_dir(path.parent().unwrap()).unwrap();
        let mut names: Vec<_> = all.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let beforehand = names();
    assert_eq!(look(&path, |_, _, _| Ok(())).unwrap().tip.sequence, 3);
    assert!(bytes(&path) == before && names() == beforehand, "{:?}", names());
    // A copy with its log and nothing else.
    let (_crash, path) = crashed(4);
    fs::remove_file(beside(&path, ".tip")).unwrap();
    let before = bytes(&path);
    assert_eq!(look(&path, |_, _, _| Ok(())).unwrap().tip.sequence, 4);
    assert!(bytes(&path) == before);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2);
    let missing = look(Path::new("/nowhere/north.ledger"), |_, _, _| Ok(())).unwrap_err();
    assert!(matches!(missing, LedgerError::Io { .. }), "{missing}");
}

/// A newer format is refused before anything else is read, whatever other files there are.
#[test]
fn a_newer_format_is_refused_untouched() {
    let (_folder, path) = crashed(3);
    drop(open(&path).unwrap());
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 5").unwrap();
    let error = refused(&path);
    assert!(matches!(error, LedgerError::NewerFormat { found: 5, .. }), "{error}");
}
