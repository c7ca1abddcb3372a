//! One process per ledger: an advisory lock on a file beside the ledger, held while the ledger is
//! open.
//!
//! The operating system frees the lock when the process ends, however it ends. The file stays: if
//! it were deleted, a third process could lock a new file of that name while the second still holds
//! the old one. The file's content, the process id, is only shown to people.
//!
//! Left out: protection from a second machine on a network file system without locks. There, a
//! second writer is still noticed, because the sequence number is the primary key of the record
//! table.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::LedgerError;

/// The lock, which is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// `path` with a suffix, for example `north.ledger.lock`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

impl Lock {
    /// Takes the lock of the ledger at `path`. The error names the process that holds it.
    pub(crate) fn take(path: &Path) -> Result<Self, LedgerError> {
        let lock = beside(path, ".lock");
        let io = |doing| {
            let path = lock.clone();
            move |source| LedgerError::Io { path, doing, source }
        };
        // Not truncated: the process id of the current holder must stay readable.
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock)
            .map_err(io("opening the lock file"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let holder = match file.read_to_string(&mut text) {
                    Ok(_) => text.trim().parse().ok(),
                    Err(_) => None,
                };
                return Err(LedgerError::Locked { path: path.to_owned(), lock, holder });
            }
            Err(TryLockError::Error(source)) => return Err(io("locking")(source)),
        }
        let write = |file: &mut File| {
            // Overwrite the old content with text of the same width, because a full disk has no
            // block to give (I17).
            file.rewind()?;
            writeln!(file, "{:<10}", std::process::id())
        };
        write(&mut file).map_err(io("writing the process id to"))?;
        Ok(Self { _file: file })
    }
}
