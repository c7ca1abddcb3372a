//! The tip of a ledger, kept beside it in `<ledger>.tip`: the number and hash of its last durable record.
//!
//! A ledger without its tail is a sound, shorter chain, so the ledger alone cannot show that its tail is
//! missing: an older file was put back (F11), a `-wal` file was deleted after a crash, or the last transaction
//! has rotted. A remembered tip shows it. After every durable append, the sequence number and hash of its last
//! record are written to this file, over one of two places in it. There is no fsync: the system writes the
//! file out in its own time, and a clean stop waits for that. So the tip is never ahead of the ledger, and it
//! is behind the ledger only after a power cut. A tip that is behind proves less, but never causes a sound
//! ledger to be refused.
//!
//! The two places are written in turns, each with its own checksum, so that a crash in the middle of writing
//! one leaves the other.
//!
//! Left out: ledger and tip put back together, as a snapshot of a whole disk does; then only other nodes
//! remember. A copy for a backup is therefore made without the tip.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::chain::{self, Hash};
use crate::lock::beside;

/// Bytes of one place: a line of text, so that people can read it.
const PLACE: usize = 256;
/// Hexadecimal digits of a place's checksum.
const CHECK: usize = 16;

/// What the tip file remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tip {
    /// The id of the ledger.
    pub ledger_id: String,
    /// The number of the last durable record; 0 when there was none.
    pub sequence: u64,
    /// The hash of that record.
    pub hash: Hash,
}

impl Tip {
    /// The text of one place in the file.
    fn line(&self) -> String {
        let text = format!("{} {} {}", self.sequence, hex(&self.hash), self.ledger_id);
        let line = format!("{text} {}", check(&text));
        format!("{line:<width$}\n", width = PLACE - 1)
    }

    /// Reads one place of the file; `None` when it is not as it was written.
    #[must_use]
    pub fn parse(place: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(place).ok()?.trim_end();
        let (text, found) = line.rsplit_once(' ')?;
        if check(text) != found {
            return None;
        }
        let mut words = text.split(' ');
        let (sequence, hash, id) = (words.next()?, words.next()?, words.next()?);
        let ledger_id = id.to_owned();
        Some(Self { ledger_id, sequence: sequence.parse().ok()?, hash: unhex(hash)? })
    }
}

/// What is known from the tip file beside a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TipState {
    /// There is no file: the ledger is from an early release without tips, or it is a copy.
    Nothing,
    /// There is a file, but it cannot be understood.
    Unreadable,
    /// The later of the two places in the file.
    Tip(Tip),
}

/// Reads the tip beside a ledger.
///
/// # Errors
/// When the file exists but the system cannot read it.
pub fn read(ledger: &Path) -> io::Result<TipState> {
    let mut bytes = Vec::new();
    match File::open(beside(ledger, ".tip")) {
        Ok(file) => file.take(2 * PLACE as u64).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(TipState::Nothing),
        Err(error) => return Err(error),
    };
    let tips = bytes.chunks(PLACE).filter_map(Tip::parse);
    Ok(tips.max_by_key(|tip| tip.sequence).map_or(TipState::Unreadable, TipState::Tip))
}

/// Writes the tip of an open ledger whenever it moves.
#[derive(Debug)]
pub(crate) struct TipWriter {
    /// `None` once the file cannot be written: it is then left alone, after one warning.
    file: Option<File>,
    second: bool,
}

impl TipWriter {
    /// Opens or creates the file, and durably writes the current tip to it.
    pub(crate) fn new(ledger: &Path, tip: &Tip) -> io::Result<Self> {
        let path = beside(ledger, ".tip");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let mut keeper = Self { file: Some(file), second: false };
        // Write both places: their earlier content was judged before.
        keeper.write(tip)?;
        keeper.write(tip)?;
        keeper.sync()?;
        Ok(keeper)
    }

    /// The same for a node that starts: a disk that is too full for a tip must not keep the node from serving
    /// (I17).
    pub(crate) fn new_or_none(ledger: &Path, tip: &Tip) -> io::Result<Self> {
        match Self::new(ledger, tip) {
            Err(error)
                if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
            {
                warn_of(&error);
                Ok(Self::none())
            }
            made => made,
        }
    }

    /// Writes nothing.
    pub(crate) const fn none() -> Self {
        Self { file: None, second: false }
    }

    /// Writes a new tip: the ledger is durable up to this record.
    pub(crate) fn moved(&mut self, tip: &Tip) {
        if let Err(error) = self.write(tip) {
            // The tip proves less from now on, but the ledger itself is sound.
            self.file = None;
            warn_of(&error);
        }
    }

    /// Waits until the tip is on the disk.
    pub(crate) fn close(&mut self) {
        if let Err(error) = self.sync() {
            tracing::warn!(%error, "the ledger's tip may not be on the disk");
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    fn write(&mut self, tip: &Tip) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let at = if self.second { PLACE as u64 } else { 0 };
        self.second = !self.second;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(tip.line().as_bytes())
    }
}

fn warn_of(error: &io::Error) {
    tracing::warn!(%error, "the ledger's tip cannot be written: an older copy may go unnoticed");
}

/// Durably replaces the tip of a ledger: its earlier content does not count any more.
pub(crate) fn accept(ledger: &Path, tip: &Tip) -> io::Result<()> {
    TipWriter::new(ledger, tip)?.sync()
}

/// The tip of a ledger without records.
#[must_use]
pub fn genesis(ledger_id: &str) -> Tip {
    Tip { ledger_id: ledger_id.to_owned(), sequence: 0, hash: chain::genesis(ledger_id) }
}

fn check(text: &str) -> String {
    let mut digest = hex(&Sha256::digest(text));
    digest.truncate(CHECK);
    digest
}

/// A hash as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    // Each append writes a tip, so no text is made for each byte.
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |of: u8| char::from(DIGITS[usize::from(of & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    if text.len() != 2 * hash.len() || !text.is_ascii() {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tip(sequence: u64) -> Tip {
        Tip { sequence, ..genesis("0123456789abcdef0123456789abcdef") }
    }

    #[test]
    fn the_later_of_two_places_counts_and_a_torn_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("n.ledger");
        assert_eq!(read(&ledger).unwrap(), TipState::Nothing);
        let mut keeper = TipWriter::new(&ledger, &tip(7)).unwrap();
        for sequence in 8..=9 {
            keeper.moved(&tip(sequence));
            assert_eq!(read(&ledger).unwrap(), TipState::Tip(tip(sequence)));
        }
        let path = beside(&ledger, ".tip");
        let sound = std::fs::read(&path).unwrap();
        assert_eq!(sound.len(), 2 * PLACE);
        // Change any significant byte of the later place: the earlier place still counts.
        for at in PLACE..PLACE + 110 {
            let mut torn = sound.clone();
            torn[at] ^= 1;
            std::fs::write(&path, &torn).unwrap();
            assert_eq!(read(&ledger).unwrap(), TipState::Tip(tip(8)), "byte {at}");
        }
        for bad in ["", "x", "9 zz 01 0123456789abcdef"] {
            std::fs::write(&path, bad).unwrap();
            assert_eq!(read(&ledger).unwrap(), TipState::Unreadable, "{bad}");
        }
    }
}
