//! Room kept back on the disk for the ends of what has begun (I17).
//!
//! A node that has said yes to a hold must be able to write down its commit, its abort or its expiry, and of a
//! booking its release, also when others have filled the disk meanwhile. To look at the free space before
//! each hold is no promise: others take it while one looks. So the blocks are ours before the hold is:
//!
//! * in the main file, as a table `room` of zero bytes. When the disk becomes full its rows are deleted; their
//!   pages stay in the file and take the records that follow.
//! * for the write-ahead log, as blocks behind its end (`fallocate` that keeps the size). SQLite writes its log
//!   from the beginning after each checkpoint and never gives back what it does not exceed. Where a file
//!   system cannot do that, as much free space is asked for instead.
//!
//! The disk counts as full when this cannot be kept whole, or when less than
//! [`limits::LEDGER_FREE_MIN`] is free beside it; as having room again when the room can be filled up
//! with [`limits::LEDGER_ROOM_MARGIN`] to spare.
//!
//! Left out: file systems that never write in place (btrfs, ZFS), where blocks kept back are no promise;
//! a log that a reader with a transaction open for long keeps from beginning anew.

use std::fs::File;
use std::path::{Path, PathBuf};

use coalloc_common::{DiskSpace, limits};
use rusqlite::{Connection, params};

use crate::lock::beside;

/// STRICT, as the others. Format 1 knows no such table and reads on without it.
pub(crate) const SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS room (number INTEGER PRIMARY KEY, zeros BLOB NOT NULL) STRICT;";
const ADD: &str = "INSERT INTO room (zeros) VALUES (zeroblob(?1))";
const GIVE: &str = "DELETE FROM room";
const KEPT: &str = "SELECT coalesce(sum(length(zeros)), 0) FROM room";
/// Bytes added at a time: one short transaction.
pub(crate) const CHUNK: u64 = 1 << 20;

/// The room of one ledger.
#[derive(Debug)]
pub(crate) struct ReservedSpace {
    main: PathBuf,
    /// Bytes in the table.
    kept: u64,
    /// Bytes that the log could not be given; 0 when it has all.
    log_short: u64,
    now: DiskSpace,
    /// Is there a table? Not in a ledger of an earlier release that was opened on a full disk.
    has_table: bool,
}

impl ReservedSpace {
    /// Takes stock, and keeps blocks back for the log. The connection must have read something, so that the log
    /// is there.
    pub(crate) fn new(main: &Path, connection: &Connection) -> rusqlite::Result<Self> {
        let has_table = match connection.execute_batch(SCHEMA) {
            Ok(()) => true,
            // A ledger of before there was room, on a disk that has none: the table is made when there is.
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

    /// Bytes that are kept back now, in both files.
    pub(crate) const fn bytes(&self) -> u64 {
        self.kept + limits::LEDGER_LOG_ROOM - self.log_short
    }

    /// Is there room for something new? Fills up or gives away the room in the main file as that changes.
    pub(crate) fn check(&mut self, connection: &mut Connection) -> rusqlite::Result<DiskSpace> {
        let size = std::fs::metadata(&self.main).map_or(0, |file| file.len());
        let short = wanted(size.saturating_sub(self.kept)).saturating_sub(self.kept);
        // A file system that does not say has whatever it takes.
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
            // Somebody's shell writes, which it should not: it is tried again before the next batch.
            Err(error) if is_busy(&error) => tracing::warn!(
                ledger = %self.main.display(),
                "another program has a transaction open: room on the disk is seen to later"
            ),
            done => done?,
        }
        Ok(self.now)
    }

    /// From now on only ends are written: into the pages that were kept for them.
    fn low(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if !self.now.is_low() {
            // First of all: nothing new is begun from here on, whatever comes of the rest.
            self.now = DiskSpace::Low;
            tracing::warn!(
                ledger = %self.main.display(),
                kept = self.bytes(),
                "the disk is nearly full: nothing new is held or begun; commits, aborts and releases go on in the \
                 room that was kept for them. Free some space"
            );
            // While there are blocks yet: what the log has is in the main file then, and the log begins anew.
            let _ = settle(connection);
        }
        if self.kept == 0 {
            return Ok(());
        }
        connection.execute(GIVE, [])?;
        self.kept = 0;
        Ok(())
    }

    /// There is space: the room is made whole with it.
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
                // Others were faster, or there is a quota.
                Err(error) if is_full(&error) => return self.low(connection),
                Err(error) => return Err(error),
            }
        }
        // In the log alone the zeros would be no room: a checkpoint had to lengthen the main file for them.
        match if grows { settle(connection) } else { Ok(()) } {
            Err(error) if is_full(&error) => return self.low(connection),
            settled => settled?,
        }
        if self.now.is_low() {
            self.now = DiskSpace::Enough;
            tracing::info!(ledger = %self.main.display(), "there is room on the disk again");
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

/// Room wanted beside so many bytes of records.
fn wanted(records: u64) -> u64 {
    let wanted = (records / 4).clamp(limits::LEDGER_ROOM_MIN, limits::LEDGER_ROOM_MAX);
    wanted.next_multiple_of(CHUNK)
}

/// Adds zeros to the table, in a transaction of their own.
pub(crate) fn add(connection: &mut Connection, bytes: u64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    // `as` is exact: no more than a chunk, or the least room.
    transaction.execute(ADD, params![bytes as i64])?;
    transaction.commit()
}

/// Brings what the log has into the main file, as far as nobody reads it.
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

/// What an ordinary process may still take of the file system.
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
