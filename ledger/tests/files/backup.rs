//! Copies of ledgers that are in use, and ledgers that are put back.

use std::fs;
use std::path::Path;

use coalloc_ledger::backup::{back_up, restore};
use coalloc_ledger::look::look;
use coalloc_ledger::{Identity, LedgerError, SqliteLedger};
use coalloc_protocol::Log as _;

use crate::fixtures::{Note, folder, note, open};

/// Writes records up to this one, and leaves the ledger open.
fn written(path: &Path, until: u64) -> SqliteLedger<Note> {
    let (mut ledger, seen) = open(path).unwrap();
    for number in seen.len() as u64 + 1..=until {
        ledger.append(&[&note(number)]).unwrap();
    }
    ledger
}

fn records(path: &Path) -> u64 {
    look(path, |_, _, _| Ok(())).unwrap().tip.sequence
}

#[test]
fn a_ledger_in_use_is_copied_whole_and_goes_on() {
    let (folder, path) = folder();
    let copy = folder.path().join("copy");
    let mut ledger = written(&path, 5);
    assert_eq!(back_up(&path, &copy).unwrap().tip.sequence, 5);
    ledger.append(&[&note(6)]).unwrap();
    assert_eq!((records(&copy), records(&path)), (5, 6));
    let found = look(&copy, |_, _, _| Ok(())).unwrap();
    assert_eq!((found.about.identity(), found.live), (ledger.identity(), false));
    // A backup is never overwritten.
    let error = back_up(&path, &copy).unwrap_err();
    assert!(matches!(error, LedgerError::Occupied { .. }), "{error}");
    assert_eq!(records(&copy), 5);
}

#[test]
fn a_damaged_ledger_gives_no_backup() {
    let (folder, path) = folder();
    drop(written(&path, 5));
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute("UPDATE record SET body = replace(body, '3', '4') WHERE sequence = 3", [])
        .unwrap();
    drop(connection);
    let copy = folder.path().join("copy");
    let error = back_up(&path, &copy).unwrap_err();
    assert!(matches!(error, LedgerError::ChainBroken { sequence: 3, .. }), "{error}");
    assert!(!copy.exists());
}

#[test]
fn a_backup_that_is_put_back_has_another_identity_if_records_are_missing() {
    let (folder, path) = folder();
    let copy = folder.path().join("copy");
    let ledger = written(&path, 5);
    back_up(&path, &copy).unwrap();
    let error = restore(&copy, &path, "00c0ffee").unwrap_err();
    assert!(matches!(error, LedgerError::Locked { .. }), "{error}");
    let identity = ledger.identity();
    drop(ledger);
    // Nothing is missing yet: the ledger is what it was.
    let restored = restore(&copy, &path, "00c0ffee").unwrap();
    assert_eq!((restored.lost, restored.ledger.about.identity()), (Some(0), identity));
    // What was there before is still there, and nobody overwrites it.
    let aside = restored.moved_to.unwrap();
    assert_eq!(records(&aside), 5);
    let error = restore(&copy, &path, "00c0ffee").unwrap_err();
    assert!(matches!(error, LedgerError::Occupied { .. }), "{error}");
    fs::remove_file(aside).unwrap();
    // Records came after the backup.
    drop(written(&path, 8));
    let restored = restore(&copy, &path, "00c0ffee").unwrap();
    assert_eq!((restored.lost, restored.ledger.tip.sequence), (Some(3), 5));
    assert!(restored.ledger.about.identity().starts_with("00c0ffee"));
    let (ledger, seen) = open(&path).unwrap();
    assert_eq!((seen.len(), ledger.identity()), (5, restored.ledger.about.identity()));
}

#[test]
fn a_tip_that_is_behind_does_not_show_that_nothing_is_missing() {
    let (folder, path) = folder();
    let (copy, tip) = (folder.path().join("copy"), folder.path().join("north.ledger.tip"));
    drop(written(&path, 5));
    back_up(&path, &copy).unwrap();
    let behind = fs::read(&tip).unwrap();
    drop(written(&path, 8));
    // As a power cut leaves it.
    fs::write(&tip, behind).unwrap();
    let restored = restore(&copy, &path, "00c0ffee").unwrap();
    assert_eq!((restored.lost, restored.ledger.tip.sequence), (Some(3), 5));
    assert!(restored.ledger.about.identity().starts_with("00c0ffee"));
    // Nobody knows, if there is only a tip.
    fs::remove_file(restored.moved_to.unwrap()).unwrap();
    fs::remove_file(&path).unwrap();
    let restored = restore(&copy, &path, "11111111").unwrap();
    assert_eq!(restored.lost, None);
    assert!(restored.ledger.about.identity().starts_with("11111111"));
}

#[test]
fn a_backup_on_a_new_machine_has_another_identity() {
    let (folder, path) = folder();
    let copy = folder.path().join("copy");
    let ledger = written(&path, 5);
    back_up(&path, &copy).unwrap();
    let place = folder.path().join("elsewhere.ledger");
    let restored = restore(&copy, &place, "00c0ffee").unwrap();
    assert_eq!((restored.lost, restored.moved_to), (None, None));
    assert_ne!(restored.ledger.about.identity(), ledger.identity());
    // Once more: the identity of the backup does not come back.
    let again = restore(&copy, &place, "11111111").unwrap();
    assert!(again.ledger.about.identity().starts_with("11111111") && again.moved_to.is_some());
    assert_eq!(open(&place).unwrap().1.len(), 5);
}

#[test]
fn a_log_without_its_ledger_is_moved_aside_and_nothing_is_overwritten() {
    let (folder, path) = folder();
    let (copy, wal) = (folder.path().join("copy"), folder.path().join("north.ledger-wal"));
    drop(written(&path, 5));
    back_up(&path, &copy).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&wal, "the log of a ledger that is gone").unwrap();
    let restored = restore(&copy, &path, "00c0ffee").unwrap();
    assert_eq!((restored.moved_to, records(&path)), (None, 5));
    let aside = folder.path().join("north.ledger.replaced-wal");
    assert_eq!(fs::read_to_string(&aside).unwrap(), "the log of a ledger that is gone");
    let error = restore(&copy, &path, "11111111").unwrap_err();
    assert!(matches!(error, LedgerError::Occupied { .. }), "{error}");
    // A source whose name looks like a draft's stays.
    let odd = folder.path().join("north.ledger.new");
    fs::rename(&copy, &odd).unwrap();
    fs::remove_file(aside).unwrap();
    restore(&odd, &path, "22222222").unwrap();
    assert_eq!((records(&odd), records(&path)), (5, 5));
    let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().contains("coalloc-copy")));
}

#[test]
fn the_backup_of_another_node_is_refused_and_nothing_changes() {
    let (folder, path) = folder();
    drop(written(&path, 5));
    let other = folder.path().join("south.ledger");
    let south = Identity { kind: "nrm".into(), name: "south".into() };
    let id = || "f".repeat(32);
    drop(SqliteLedger::<Note>::open(&other, &south, id, |_, _| Ok(())).unwrap());
    let before = fs::read(&path).unwrap();
    let error = restore(&other, &path, "00c0ffee").unwrap_err();
    assert!(matches!(error, LedgerError::ForeignNode { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}
