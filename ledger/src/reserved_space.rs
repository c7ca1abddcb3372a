//! Disk space that is reserved for the ends of what has begun (I17).
//!
//! A node that has said yes to a hold must be able to record its commit, abort or expiry, and the release of a
//! booking, even if others have filled the disk in the meantime. Checking the free space before each hold is
//! not enough, because others may take the space after the check. So the blocks are taken before the hold is
//! admitted:
//!
//! * In the main file, they are a table `room` of zero bytes. When the disk becomes full, the rows of the table
//!   are deleted; their pages stay in the file and take the records that follow.
//! * For the write-ahead log, they are blocks after its end (`fallocate` that keeps the size). SQLite writes
//!   its log from the beginning after each checkpoint, and never gives blocks back up to the size that it
//!   keeps. On a file system that cannot do this, as many bytes must be free instead.
//!
//! The disk counts as full when the reserved space cannot be kept complete, or when less than
//! [`limits::LEDGER_FREE_MIN`] is free beyond it. The disk counts as having space again when the reserved space
//! can be completed and [`limits::LEDGER_ROOM_MARGIN`] is left.
//!
//! Left out: file systems that never write in place (btrfs, ZFS), where reserved blocks guarantee nothing, and
//! a log that cannot begin anew because a reader keeps a transaction open for long.

use std::fs::File;
use std::path::{Path, PathBuf};

use coalloc_common::{DiskSpace, limits};
use rusqlite::{Connection, params};

use crate::lock::beside;

/// STRICT, like the other tables. Earlier releases that read format 1 do not know this table and ignore it.
pub(crate) const SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS room (number INTEGER PRIMARY KEY, zeros BLOB NOT NULL) STRICT;";
const ADD: &str = "INSERT INTO room (zeros) VALUES (zeroblob(?1))";
const GIVE: &str = "DELETE FROM room";
const KEPT: &str = "SELECT coalesce(sum(length(zeros)), 0) FROM room";
/// Bytes that are added at a time: one short transaction.
pub(crate) const CHUNK: u64 = 1 << 20;

/// The reserved space of one ledger.
#[derive(Debug)]
pub(crate) struct ReservedSpace {
    main: PathBuf,
    /// Bytes in the table.
    kept: u64,
    /// Bytes that could not be reserved for the log; 0 when all are reserved.
    log_short: u64,
    now: DiskSpace,
    /// Is there a table? There is none in a ledger of an earlier release that was opened on a full disk.
    has_table: bool,
}

impl ReservedSpace {
    /// Finds out how much is reserved, and reserves blocks for the log. The connection must have read
    /// something, so that the log exists.
    pub(crate) fn new(main: &Path, connection: &Connection) -> rusqlite::Result<Self> {
        let has_table = match connection.execute_batch(SCHEMA) {
            Ok(()) => true,
            // A ledger from before there was reserved space, on a full disk: the table is made when there is
            // space.
            Err(error) if is_full(&error) => false,
            Err(error) => return Err(error),
        };
        let kept: i64 =
            if has_table { connection.query_row(KEPT, [], |row| row.get(0))? } else { 0 };
        let (kept, now) = (u64::try_from(kept).unwrap_or(0), DiskSpace::default());
        let mut room = Self { main: main.to_owned(), kept, log_short: 0, now, has_table };
        room.keep_log();
        Ok(room)
    }

    /// Bytes that are reserved now, in both files.
    pub(crate) const fn bytes(&self) -> u64 {
        self.kept + limits::LEDGER_LOG_ROOM - self.log_short
    }

    /// Is there space for something new? Completes or gives up the reserved space in the main file as the
    /// answer changes.
    pub(crate) fn check(&mut self, connection: &mut Connection) -> rusqlite::Result<DiskSpace> {
        let size = std::fs::metadata(&self.main).map_or(0, |file| file.len());
        let short = wanted(size.saturating_sub(self.kept)).saturating_sub(self.kept);
        // A file system that does not report its free space counts as having enough.
        let free = free(&self.main).unwrap_or(u64::MAX);
        let needed = (short + self.log_short).saturating_add(match self.now {
            DiskSpace::Enough => limits::LEDGER_FREE_MIN,
            DiskSpace::Low => limits::LEDGER_ROOM_MARGIN,
        });
        let done = if free < needed {
            self.low(connection)
        } else if short > 0 || self.now.is_low() {
            self.fill(connection, short)
        } else {
            Ok(())
        };
        match done {
            // Another program is writing, which it should not do: this is tried again before the next batch.
            Err(error) if is_busy(&error) => tracing::warn!(
                ledger = %self.main.display(),
                "another program has a transaction open: disk space will be reserved later"
            ),
            done => done?,
        }
        Ok(self.now)
    }

    /// The disk is nearly full. From now on only ends are recorded, in the pages that were reserved for them.
    fn low(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if !self.now.is_low() {
            // Do this first: nothing new may begin from here on, even if the rest fails.
            self.now = DiskSpace::Low;
            tracing::warn!(
                ledger = %self.main.display(),
                kept = self.bytes(),
                "the disk is nearly full: nothing new is held or started; commits, aborts and \
                 releases continue in the reserved space. Free some disk space"
            );
            // Do this while there are free blocks: it copies the log to the main file, and the log begins anew.
            let _ = settle(connection);
        }
        if self.kept == 0 {
            return Ok(());
        }
        connection.execute(GIVE, [])?;
        self.kept = 0;
        Ok(())
    }

    /// There is space: completes the reserved space with it.
    fn fill(&mut self, connection: &mut Connection, mut short: u64) -> rusqlite::Result<()> {
        if self.log_short > 0 {
            self.keep_log();
        }
        if !self.has_table {
            match connection.execute_batch(SCHEMA) {
                Ok(()) => self.has_table = true,
                Err(error) if is_full(&error) => return self.low(connection),
                Err(error) => return Err(error),
            }
        }
        let grows = short > 0;
        while short > 0 {
            match add(connection, CHUNK) {
                Ok(()) => {
                    self.kept += CHUNK;
                    short = short.saturating_sub(CHUNK);
                }
                // Others took the space first, or there is a quota.
                Err(error) if is_full(&error) => return self.low(connection),
                Err(error) => return Err(error),
            }
        }
        // Zeros that are only in the log reserve nothing, because a checkpoint would have to extend the main
        // file for them.
        match if grows { settle(connection) } else { Ok(()) } {
            Err(error) if is_full(&error) => return self.low(connection),
            settled => settled?,
        }
        if self.now.is_low() {
            self.now = DiskSpace::Enough;
            tracing::info!(ledger = %self.main.display(), "there is enough disk space again");
        }
        Ok(())
    }

    fn keep_log(&mut self) {
        let kept = File::options()
            .write(true)
            .open(beside(&self.main, "-wal"))
            .and_then(|log| keep_back(&log, limits::LEDGER_LOG_ROOM));
        self.log_short = if kept.is_ok() { 0 } else { limits::LEDGER_LOG_ROOM };
    }
}

/// Reserved space wanted, in bytes, for this many bytes of records.
fn wanted(records: u64) -> u64 {
    let wanted = (records / 4).clamp(limits::LEDGER_ROOM_MIN, limits::LEDGER_ROOM_MAX);
    wanted.next_multiple_of(CHUNK)
}

/// Adds zeros to the table, in a transaction of their own.
pub(crate) fn add(connection: &mut Connection, bytes: u64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    // `as` is exact: at most a chunk, or the least reserved space.
    transaction.execute(ADD, params![bytes as i64])?;
    transaction.commit()
}

/// Copies the log to the main file, as far as no reader prevents it.
fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

pub(crate) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

#[cfg(target_os = "linux")]
fn keep_back(file: &File, bytes: u64) -> std::io::Result<()> {
    Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, bytes)?)
}

#[cfg(not(target_os = "linux"))]
fn keep_back(_: &File, _: u64) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Bytes that an ordinary process may still take from the file system.
fn free(path: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(path).ok()?;
    system.f_bavail.checked_mul(system.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_grows_with_the_ledger_up_to_a_bound() {
        assert_eq!(wanted(0), limits::LEDGER_ROOM_MIN);
        assert_eq!(wanted(4 * limits::LEDGER_ROOM_MIN + 4), limits::LEDGER_ROOM_MIN + CHUNK);
        assert_eq!(wanted(u64::MAX), limits::LEDGER_ROOM_MAX);
    }
}
