//! A secret that is a credential by itself: whoever knows it may do what it is for.
//!
//! It is told to its owner once and stored nowhere: what is kept is its digest, by which it is found again. It has too many
//! digits to be guessed or to be found from the digest, so neither comparing in constant time nor a salt would add anything.

use std::fmt;

use coalloc_ledger::tip::hex;
use sha2::{Digest as _, Sha256};
use tonic::Status;

use crate::status;

/// Random bytes of a secret.
const BYTES: usize = 32;

/// A secret, as 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A new one, from the randomness of the operating system.
    ///
    /// # Errors
    /// INTERNAL when the system gives none.
    pub fn draw() -> Result<Self, Status> {
        let mut bytes = [0; BYTES];
        let random = rustls::crypto::ring::default_provider().secure_random;
        let failed = |_| status::internal("the operating system gives no random bytes");
        random.fill(&mut bytes).map_err(failed)?;
        Ok(Self(hex(&bytes)))
    }

    /// The secret that somebody shows; `None` when the text cannot be one.
    #[must_use]
    pub fn shown(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_secret = text.len() == 2 * BYTES && text.bytes().all(is_digit);
        is_secret.then(|| Self(text.to_owned()))
    }

    /// SHA-256 of its digits, in hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(&self.0))
    }

    /// The digits, for the owner.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Without the digits: what is printed for debugging stands in logs.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_by_its_digest_and_printed_nowhere() {
        let (one, other) = (Secret::draw().unwrap(), Secret::draw().unwrap());
        assert_ne!(one, other);
        let text = one.clone().into_text();
        assert_eq!(Secret::shown(&text).unwrap().digest(), one.digest());
        assert!(one.digest() != other.digest() && !one.digest().contains(&text));
        assert_eq!(format!("{one:?}"), "Secret");
        for wrong in ["", &text[1..], &format!("{text}0"), &"G".repeat(64), &text.to_uppercase()] {
            let is_digits_only = wrong.bytes().all(|byte| byte.is_ascii_digit());
            assert!(Secret::shown(wrong).is_none() || is_digits_only, "{wrong}");
        }
    }
}
