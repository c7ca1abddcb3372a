//! Finds damage inside SQLite's write-ahead log, which SQLite itself takes for the end of the log.
//!
//! After a crash, SQLite reads the log up to the first frame whose checksum is wrong and drops the rest. That
//! is right for a transaction that was cut off while it was written, but if an older frame has rotted,
//! records are lost silently. The two cases can be distinguished. Every commit is on the disk before the next
//! one begins, so after the first bad frame there is at most one commit of the same log, the unfinished one.
//! A second commit means that acknowledged records are about to be dropped (I15).
//!
//! Left out: damage in the very last transaction, which looks like an unfinished one, and a log that was
//! removed or cut between two transactions. The chain cannot reveal these cases, but the tip can
//! ([`crate::tip`]).
//!
//! Format: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>. The log exists only while the
//! ledger is open and after a crash: closing a ledger copies it to the main file and removes it.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use crate::error::LedgerError;
use crate::lock::beside;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The magic number. Its lowest bit says that checksums are over big-endian words.
const MAGIC: u32 = 0x377f_0682;
/// Bytes of SQLite's smallest and largest page.
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 512..=65_536;

/// What a crash has left of a transaction that was never acknowledged. Opening the ledger drops it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfinished {
    /// Whole frames of the transaction.
    pub frames: u64,
    /// Bytes of the transaction, including those of a last, partial frame.
    pub bytes: u64,
}

/// Refuses a write-ahead log that is damaged before its last transaction, and returns what is unfinished at
/// its end. Call before SQLite opens the ledger for writing.
pub(crate) fn check(path: &Path) -> Result<Option<Unfinished>, LedgerError> {
    let wal = beside(path, "-wal");
    let end = match File::open(&wal) {
        Ok(file) => end(&mut BufReader::new(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => Err(error),
    };
    match end {
        Ok(Ok(unfinished)) => Ok(unfinished),
        Ok(Err(why)) => Err(LedgerError::WalDamaged { wal, why }),
        Err(source) => Err(LedgerError::Io { path: wal, doing: "reading", source }),
    }
}

/// The end of a log: sound, or a transaction that was cut off, or (the inner error) damage.
///
/// # Errors
/// When the log cannot be read.
pub fn end(log: &mut impl Read) -> io::Result<Result<Option<Unfinished>, String>> {
    let mut header = [0; HEADER];
    let got = fill(log, &mut header)?;
    if got < HEADER {
        let cut = Unfinished { frames: 0, bytes: got as u64 };
        return Ok(Ok((got > 0).then_some(cut)));
    }
    let big_endian = word(&header, 0) == MAGIC | 1;
    let page = word(&header, 8);
    let mut sum = checksum((0, 0), &header[..24], big_endian);
    let salts = &header[16..24];
    let sound = (big_endian || word(&header, 0) == MAGIC)
        && PAGE_BYTES.contains(&page)
        && page.is_power_of_two()
        && sum == (word(&header, 24), word(&header, 28));
    if !sound {
        // SQLite syncs the header before it writes the first frame.
        let frames = log.read(&mut [0])? > 0;
        let damage = "its header is not sound, but frames follow".to_owned();
        return Ok(if frames { Err(damage) } else { Ok(None) });
    }
    let mut frame = vec![0; FRAME_HEADER + page as usize];
    let (mut number, mut first_bad, mut commits_behind) = (0_u64, None, 0_u64);
    // What comes after the last complete transaction of this log.
    let mut behind = Unfinished { frames: 0, bytes: 0 };
    loop {
        let got = fill(log, &mut frame)?;
        if got < frame.len() {
            // A frame that was cut off. It belongs to the previous log, unless its salts say otherwise.
            if got >= 16 && &frame[8..16] == salts {
                behind.bytes += got as u64;
            }
            break;
        }
        number += 1;
        if &frame[8..16] != salts {
            // A frame of the previous log, after the end of the new one.
            first_bad = first_bad.or(Some(number));
            continue;
        }
        let commits = word(&frame, 4) != 0;
        behind.frames += 1;
        behind.bytes += frame.len() as u64;
        if first_bad.is_none() {
            sum = checksum(sum, &frame[..8], big_endian);
            sum = checksum(sum, &frame[FRAME_HEADER..], big_endian);
            if sum == (word(&frame, 16), word(&frame, 20)) {
                if commits {
                    behind = Unfinished { frames: 0, bytes: 0 };
                }
                continue;
            }
            first_bad = Some(number);
        }
        // The database's size in pages, which is not zero in the last frame of a transaction.
        commits_behind += u64::from(commits);
    }
    if let Some(first_bad) = first_bad.filter(|_| commits_behind > 1) {
        return Ok(Err(format!(
            "frame {first_bad} is not sound, but {commits_behind} transactions end after it"
        )));
    }
    Ok(Ok((behind.bytes > 0).then_some(behind)))
}

/// Fills the buffer as far as the log goes, and returns how many bytes were read.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match log.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// The big-endian 32-bit word that begins at index `at`.
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
