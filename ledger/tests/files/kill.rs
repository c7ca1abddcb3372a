//! SIGKILL while appending: afterwards every acknowledged record is there, and every append is
//! whole.
//!
//! This kills the process and not the machine. It shows that only records which the system has are
//! acknowledged, and that a half-written transaction is rolled back. Whether the system has them on
//! the disk depends on fsync.
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::fixtures::{Note, folder, open};
use coalloc_ledger::LedgerError;
use coalloc_protocol::Log;

const LEDGER: &str = "COALLOC_TEST_KILL_LEDGER";
const ROUNDS: u64 = 12;

/// The records of the append that begins at `number`. Their count depends on `number`.
fn batch(number: u64) -> Vec<Note> {
    let size = number % 7 + 1;
    (0..size).map(|i| Note { number: number + i, text: format!("{i}/{size}") }).collect()
}

/// The child: appends until it is killed, and prints each number once it is durable.
#[test]
fn child() {
    let Some(path) = std::env::var_os(LEDGER) else {
        return;
    };
    let (mut ledger, seen) = open(Path::new(&path)).unwrap();
    let mut out = std::io::stdout().lock();
    let mut number = seen.len() as u64 + 1;
    loop {
        let records = batch(number);
        ledger.append(&records.iter().collect::<Vec<_>>()).unwrap();
        number += records.len() as u64;
        writeln!(out, "\nacked {}", number - 1).unwrap();
        out.flush().unwrap();
    }
}

/// Runs a child until it has acknowledged `appends` more records, kills it, and returns the last
/// number that it printed.
fn life(path: &Path, appends: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child", "--nocapture"])
        .env(LEDGER, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut acked, mut heard) = (0, 0);
    // Keep reading after the kill: what is in the pipe was acknowledged.
    for line in lines {
        if let Some(number) = line.unwrap().strip_prefix("acked ") {
            acked = number.parse().unwrap();
            heard += 1;
            if heard == 1 {
                assert!(matches!(
                    open(path).err(),
                    Some(LedgerError::Locked { holder, .. }) if holder == Some(child.id())
                ));
            }
            if heard == appends {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    assert!(heard >= appends, "the child ended by itself after {heard} appends");
    acked
}

#[test]
fn a_killed_writer_loses_nothing_it_acknowledged() {
    let (_folder, path) = folder();
    let mut records = 0;
    for round in 0..ROUNDS {
        // The kills are spread over several checkpoints of the write-ahead log.
        let acked = life(&path, 1 + round * 97 % 400);
        let (ledger, seen) = open(&path).unwrap();
        assert!(seen.len() as u64 >= acked, "{} of {acked} in round {round}", seen.len());
        assert_eq!(ledger.last_sequence(), seen.len() as u64);
        assert!(acked > records);
        records = seen.len() as u64;
        let mut number = 1;
        while number <= records {
            let expected = batch(number);
            let at = number as usize - 1;
            assert_eq!(seen.get(at..at + expected.len()), Some(&expected[..]), "all or none");
            number += expected.len() as u64;
        }
    }
}
