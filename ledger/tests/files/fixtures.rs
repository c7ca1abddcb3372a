//! A record and a ledger file for the tests.
use std::path::{Path, PathBuf};

use coalloc_ledger::{Identity, LedgerError, SqliteLedger};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

pub(crate) const ID: &str = "0123456789abcdef0123456789abcdef";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) number: u64,
    pub(crate) text: String,
}

pub(crate) fn note(number: u64) -> Note {
    Note { number, text: format!("höld {number} \"x\"\n") }
}

pub(crate) fn north() -> Identity {
    Identity { kind: "nrm".into(), name: "north".into() }
}

pub(crate) fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("north.ledger");
    (folder, path)
}

pub(crate) fn open(path: &Path) -> Result<(SqliteLedger<Note>, Vec<Note>), LedgerError> {
    let mut seen = Vec::new();
    let ledger = SqliteLedger::open(
        path,
        &north(),
        || ID.to_owned(),
        |sequence, record| {
            seen.push(record);
            assert_eq!(sequence, seen.len() as u64);
            Ok(())
        },
    )?;
    Ok((ledger, seen))
}
