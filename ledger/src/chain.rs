//! The hash chain over the records. Each hash covers the record, its sequence number and the previous
//! hash, so no record can be changed, moved, or removed from the middle unnoticed (I15).
//!
//! The chain is not a signature. Whoever can write the file can write a new chain. A chain that was
//! cut off after any record is a sound, shorter chain; only a remembered last hash reveals the cut,
//! see [`crate::tip`]. Left out: where the records are kept.

use sha2::{Digest, Sha256};

/// A hash of the chain: SHA-256.
pub(crate) type Hash = [u8; 32];

/// The first sequence number.
pub(crate) const FIRST: u64 = 1;

/// The hash before the first record. It differs from ledger to ledger, so records of one ledger are
/// not valid in another.
pub(crate) fn genesis(ledger_id: &str) -> Hash {
    let mut digest = Sha256::new();
    digest.update(b"coalloc ledger, format 1\n");
    digest.update(length(ledger_id));
    digest.update(ledger_id);
    digest.finalize().into()
}

/// The hash of a record, over the previous hash and the sequence number, which have a fixed length,
/// and the body after its own length. So two different inputs never give the same bytes to the hash.
pub(crate) fn link(previous: &Hash, sequence: u64, body: &str) -> Hash {
    let mut digest = Sha256::new();
    digest.update(previous);
    digest.update(sequence.to_be_bytes());
    digest.update(length(body));
    digest.update(body);
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
    pub(crate) fn append(&mut self, body: &str) {
        self.last += 1;
        self.tip = link(&self.tip, self.last, body);
    }

    /// Appends a record that was read to the chain, if it is in its place and unchanged. The error
    /// says what is wrong.
    pub(crate) fn verify(&mut self, sequence: i64, body: &str, hash: &[u8]) -> Result<(), String> {
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
fn length(text: &str) -> [u8; 8] {
    (text.len() as u64).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts() {
        let start = genesis("a");
        let hash = link(&start, 1, "{}");
        assert_ne!(start, genesis("b"));
        assert_ne!(hash, link(&genesis("b"), 1, "{}"));
        assert_ne!(hash, link(&start, 2, "{}"));
        assert_ne!(hash, link(&start, 1, "{ }"));
    }

    /// The format is described in the crate's documentation; other tools may rely on it.
    #[test]
    fn the_format_does_not_change() {
        let hash = link(&genesis("00000000000000000000000000000000"), 1, "{\"n\":1}");
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        // Computed with Python's hashlib.
        assert_eq!(hex, "1b84c1a96d7c9553008bbbbb065039421bd86addc6a72f20fcb789ef65cd4a51");
    }
}
