//! The hash chain over the records: each hash covers the record, its sequence number and the hash
//! before it, so that no record can be changed, removed from the middle or moved unnoticed (I15).
//!
//! It is no signature. Who can write the file can write a new chain, and a chain that was cut off
//! after any record is a sound shorter chain: only somebody who remembers the last hash can tell.

use sha2::{Digest, Sha256};

/// A link of the chain: SHA-256.
pub(crate) type Hash = [u8; 32];

/// The first sequence number.
pub(crate) const FIRST: u64 = 1;

/// The hash before the first record. It differs from ledger to ledger, so that records of one
/// cannot stand in another.
pub(crate) fn genesis(ledger_id: &str) -> Hash {
    let mut digest = Sha256::new();
    digest.update(b"coalloc ledger, format 1\n");
    digest.update(length(ledger_id));
    digest.update(ledger_id);
    digest.finalize().into()
}

/// The hash of a record: of the fixed-length previous hash and sequence number, and the body behind
/// its own length. No two different inputs are the same bytes.
pub(crate) fn link(previous: &Hash, sequence: u64, body: &str) -> Hash {
    let mut digest = Sha256::new();
    digest.update(previous);
    digest.update(sequence.to_be_bytes());
    digest.update(length(body));
    digest.update(body);
    digest.finalize().into()
}

/// How far a chain has come. The ledger in a file and its simulated twin append and verify with this,
/// and with nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The sequence number of the last record, and its hash.
    pub(crate) last: u64,
    pub(crate) tip: Hash,
}

impl Chain {
    /// Of a ledger without records.
    pub(crate) fn new(ledger_id: &str) -> Self {
        Self { last: FIRST - 1, tip: genesis(ledger_id) }
    }

    /// The next record is this one.
    pub(crate) fn append(&mut self, body: &str) {
        self.last += 1;
        self.tip = link(&self.tip, self.last, body);
    }

    /// The next record that was read is this one, if it is as it was written and in its place.
    pub(crate) fn verify(&mut self, sequence: i64, body: &str, hash: &[u8]) -> Result<(), String> {
        let expected = self.last + 1;
        if u64::try_from(sequence) != Ok(expected) {
            return Err(format!("it is missing, the next one is {sequence}"));
        }
        let tip = link(&self.tip, expected, body);
        if hash != tip {
            return Err("its hash is not that of its content and place".to_owned());
        }
        (self.last, self.tip) = (expected, tip);
        Ok(())
    }
}

/// The length in bytes as 64 bits, which hold any `usize`.
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

    /// The format is written down in the crate's documentation; other tools may follow it.
    #[test]
    fn the_format_does_not_change() {
        let hash = link(&genesis("00000000000000000000000000000000"), 1, "{\"n\":1}");
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        // Computed with Python's hashlib.
        assert_eq!(hex, "1b84c1a96d7c9553008bbbbb065039421bd86addc6a72f20fcb789ef65cd4a51");
    }
}
