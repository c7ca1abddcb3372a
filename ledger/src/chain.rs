//! The hash chain over the records. Each hash covers the record, its sequence number and the previous
//! hash, so no record can be changed, moved, or removed from the middle unnoticed (I15).
//!
//! The chain is not a signature. Whoever can write the file can write a new chain. A chain that was
//! cut off after any record is a sound, shorter chain; only a remembered last hash reveals the cut,
//! see [`crate::tip`]. Left out: where the records are kept.

use sha2::{Digest, Sha256};

use crate::body::Body;

/// A hash of the chain: SHA-256.
pub(crate) type Hash = [u8; 32];

/// The first sequence number.
pub(crate) const FIRST: u64 = 1;

/// The hash before the first record. It differs from ledger to ledger, so records of one ledger are
/// not valid in another.
pub(crate) fn genesis(ledger_id: &str) -> Hash {
    let mut digest = Sha256::new();
    digest.update(b"coalloc ledger, format 1\n");
    digest.update(length(ledger_id.as_bytes()));
    digest.update(ledger_id);
    digest.finalize().into()
}

/// The hash of a record, over the previous hash and the sequence number, which have a fixed length,
/// the record after its own length, and then the causer after its own length, if there is one. So two different
/// inputs never give the same bytes to the hash.
pub(crate) fn link(previous: &Hash, sequence: u64, body: Body<'_>) -> Hash {
    let mut digest = Sha256::new();
    digest.update(previous);
    digest.update(sequence.to_be_bytes());
    for part in [Some(body.bytes()), body.causer].into_iter().flatten() {
        digest.update(length(part));
        digest.update(part);
    }
    digest.finalize().into()
}

/// The end of a chain. The real ledger and the simulated one append and verify only with this type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The sequence number of the last record; `tip` is its hash.
    pub(crate) last: u64,
    pub(crate) tip: Hash,
}

impl Chain {
    /// The chain of a ledger without records.
    pub(crate) fn new(ledger_id: &str) -> Self {
        Self { last: FIRST - 1, tip: genesis(ledger_id) }
    }

    /// Appends a record to the chain.
    pub(crate) fn append(&mut self, body: Body<'_>) {
        self.last += 1;
        self.tip = link(&self.tip, self.last, body);
    }

    /// Appends a record that was read to the chain, if it is in its place and unchanged. The error
    /// says what is wrong.
    pub(crate) fn verify(
        &mut self,
        sequence: i64,
        body: Body<'_>,
        hash: &[u8],
    ) -> Result<(), String> {
        let expected = self.last + 1;
        if u64::try_from(sequence) != Ok(expected) {
            return Err(format!("it is missing; the next record is {sequence}"));
        }
        let tip = link(&self.tip, expected, body);
        if hash != tip {
            return Err("its hash does not match its content and position".to_owned());
        }
        (self.last, self.tip) = (expected, tip);
        Ok(())
    }
}

/// The length in bytes as 64 bits, into which any `usize` fits.
fn length(part: &[u8]) -> [u8; 8] {
    (part.len() as u64).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::StoredRecord;

    const fn json(text: &str) -> Body<'_> {
        Body { record: StoredRecord::Json(text), causer: None }
    }

    const fn packed<'a>(record: &'a [u8], causer: Option<&'a [u8]>) -> Body<'a> {
        Body { record: StoredRecord::Packed(record), causer }
    }

    #[test]
    fn every_part_counts() {
        let start = genesis("a");
        let hash = link(&start, 1, packed(b"ab", None));
        assert_ne!(start, genesis("b"));
        assert_ne!(hash, link(&genesis("b"), 1, packed(b"ab", None)));
        assert_ne!(hash, link(&start, 2, packed(b"ab", None)));
        assert_ne!(hash, link(&start, 1, packed(b"ac", None)));
        assert_ne!(hash, link(&start, 1, packed(b"ab", Some(b""))));
        assert_ne!(
            link(&start, 1, packed(b"ab", Some(b"c"))),
            link(&start, 1, packed(b"a", Some(b"bc")))
        );
    }

    /// The format is described in the crate's documentation; other tools may rely on it.
    #[test]
    fn the_format_does_not_change() {
        let hex = |hash: Hash| crate::tip::hex(&hash);
        let start = genesis("00000000000000000000000000000000");
        // Computed with Python's hashlib.
        assert_eq!(
            hex(link(&start, 1, json("{\"n\":1}"))),
            "1b84c1a96d7c9553008bbbbb065039421bd86addc6a72f20fcb789ef65cd4a51"
        );
        assert_eq!(
            hex(link(&start, 1, packed(b"\xa1\x61n\x01", Some(b"\xa0")))),
            "d546bed008fb66ee3f3059d9442160e1e0e4a4cc65496418318da433bab1d970"
        );
    }
}
