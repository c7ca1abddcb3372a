//! Damage inside SQLite's write-ahead log, which SQLite itself takes for its end.
//!
//! After a crash SQLite reads the log up to the first frame whose checksum is wrong and drops the
//! rest: right for a transaction that was cut off while it was written, silent loss when an older
//! frame has rotted. The two can be told apart. Every commit is on the disk before the next one
//! begins, so behind the first bad frame there is at most one commit of the same log, the unfinished
//! one. A second one means that acknowledged records are about to be dropped (I15).
//!
//! Left out: damage in the very last transaction, which looks like an unfinished one, and a log that
//! was removed or cut between two transactions. The chain cannot tell either.
//!
//! Format: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>. The log is only there
//! after a crash: closing a ledger copies it to the main file and removes it.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use crate::error::LedgerError;
use crate::lock::beside;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The magic number; its lowest bit says that checksums are over big-endian words.
const MAGIC: u32 = 0x377f_0682;
/// SQLite's smallest and largest page.
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 512..=65_536;

/// Refuses a write-ahead log that is damaged before its last transaction. Call before SQLite opens
/// the ledger for writing.
pub(crate) fn check(path: &Path) -> Result<(), LedgerError> {
    let wal = beside(path, "-wal");
    let damage = match File::open(&wal) {
        Ok(file) => damage(&mut BufReader::new(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
    };
    match damage {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(LedgerError::WalDamaged { wal, why }),
        Err(source) => Err(LedgerError::Io { path: wal, doing: "reading", source }),
    }
}

/// What is wrong beyond an unfinished last transaction, if anything.
fn damage(log: &mut impl Read) -> io::Result<Option<String>> {
    let mut header = [0; HEADER];
    if !fill(log, &mut header)? {
        return Ok(None);
    }
    let big_endian = word(&header, 0) == MAGIC | 1;
    let page = word(&header, 8);
    let mut sum = checksum((0, 0), &header[..24], big_endian);
    let salts = &header[16..24];
    let sound = (big_endian || word(&header, 0) == MAGIC)
        && PAGE_BYTES.contains(&page)
        && sum == (word(&header, 24), word(&header, 28));
    if !sound {
        // SQLite syncs the header before it writes the first frame.
        let frames = log.read(&mut [0])? > 0;
        return Ok(frames.then(|| "its header is not sound, but frames follow".to_owned()));
    }
    let mut frame = vec![0; FRAME_HEADER + page as usize];
    let (mut number, mut first_bad, mut commits_behind) = (0_u64, None, 0_u64);
    while fill(log, &mut frame)? {
        number += 1;
        if &frame[8..16] != salts {
            // A frame of the log before this one, which lies behind the end of the new one.
            first_bad = first_bad.or(Some(number));
            continue;
        }
        if first_bad.is_none() {
            sum = checksum(sum, &frame[..8], big_endian);
            sum = checksum(sum, &frame[FRAME_HEADER..], big_endian);
            if sum == (word(&frame, 16), word(&frame, 20)) {
                continue;
            }
            first_bad = Some(number);
        }
        // The database's size in pages: not zero in the last frame of a transaction.
        commits_behind += u64::from(word(&frame, 4) != 0);
    }
    let Some(first_bad) = first_bad else {
        return Ok(None);
    };
    Ok((commits_behind > 1).then(|| {
        format!("frame {first_bad} is not sound, but {commits_behind} transactions end behind it")
    }))
}

/// Fills the buffer; `false` when the log ends before.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The big-endian 32-bit word at a place inside.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// SQLite's running checksum over a multiple of eight bytes.
fn checksum(mut sum: (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    let read = |at| {
        if big_endian { word(bytes, at) } else { word(bytes, at).swap_bytes() }
    };
    for at in (0..bytes.len()).step_by(8) {
        sum.0 = sum.0.wrapping_add(read(at)).wrapping_add(sum.1);
        sum.1 = sum.1.wrapping_add(read(at + 4)).wrapping_add(sum.0);
    }
    sum
}
