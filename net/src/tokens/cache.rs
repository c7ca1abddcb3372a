//! Tokens that were verified before, by the SHA-256 of their text.
//!
//! A user sends the same token with every call, and verifying a signature costs far more than a digest. Only tokens
//! that were good are remembered: a stranger cannot fill the cache, and a user can only with tokens that an issuer
//! has signed. When the cache is full, the token that ends first makes way.
//!
//! Left out: locks (the owner has one), and the keys by which the tokens were verified. With other keys comes another
//! cache.

use std::collections::{BTreeSet, HashMap};

use coalloc_common::{Time, Window};

use super::VerifiedUser;

/// The SHA-256 of the text of a token.
pub(super) type TokenDigest = [u8; 32];

/// The tokens that are remembered.
#[derive(Debug)]
pub(super) struct TokenCache {
    most: usize,
    entries: HashMap<TokenDigest, Entry>,
    /// The same tokens in the order in which they end.
    ends: BTreeSet<(Time, TokenDigest)>,
}

#[derive(Debug)]
struct Entry {
    user: VerifiedUser,
    /// When the token's times allow it. It ends where the token ends.
    usable: Window,
}

impl TokenCache {
    /// A cache of at most so many tokens.
    pub(super) fn new(most: usize) -> Self {
        Self { most, entries: HashMap::new(), ends: BTreeSet::new() }
    }

    /// How many tokens are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The user of a token that is remembered and valid now.
    pub(super) fn get(&self, digest: &TokenDigest, now: Time) -> Option<VerifiedUser> {
        let entry = self.entries.get(digest)?;
        let is_usable = entry.usable.start() <= now && now < entry.usable.end();
        is_usable.then(|| entry.user.clone())
    }

    /// Remembers a token that was verified now, and forgets those that have ended.
    pub(super) fn insert(
        &mut self,
        digest: TokenDigest,
        user: VerifiedUser,
        usable: Window,
        now: Time,
    ) {
        if let Some(old) = self.entries.insert(digest, Entry { user, usable }) {
            self.ends.remove(&(old.usable.end(), digest));
        }
        self.ends.insert((usable.end(), digest));
        while let Some(&(end, first)) = self.ends.first()
            && (end <= now || self.ends.len() > self.most)
        {
            self.ends.pop_first();
            self.entries.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use coalloc_common::UserName;
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Time {
        Time::from_us(second * 1_000_000)
    }

    fn user(number: u8, end: i64) -> VerifiedUser {
        VerifiedUser {
            user: UserName::composed(format!("user-{number}")),
            issuer: Arc::from("issuer"),
            subject_digest: [number; 32],
            expires: at(end),
        }
    }

    proptest! {
        /// Against a list that is searched from its start.
        #[test]
        fn the_cache_is_a_list_of_the_tokens_that_end_last(
            steps in prop::collection::vec((0_u8..12, 0_i64..30, 1_i64..20), 1..200),
        ) {
            let mut cache = TokenCache::new(5);
            let mut list: Vec<(u8, i64, i64)> = Vec::new();
            for (number, now, length) in steps {
                let usable = Window::new(at(now - 2), at(now + length)).unwrap();
                cache.insert([number; 32], user(number, now + length), usable, at(now));
                list.retain(|(other, ..)| *other != number);
                list.push((number, now - 2, now + length));
                list.retain(|(_, _, end)| *end > now);
                list.sort_by_key(|(number, _, end)| (*end, [*number; 32]));
                list.drain(..list.len().saturating_sub(5));
                prop_assert_eq!(cache.entries.len(), list.len());
                prop_assert_eq!(cache.ends.len(), list.len());
                for number in 0..12 {
                    for now in [now - 3, now - 2, now, now + 1, now + 7] {
                        let expected = list.iter().find(|(other, ..)| *other == number);
                        let expected = expected.filter(|(_, from, end)| (*from..*end).contains(&now));
                        let expected = expected.map(|(number, _, end)| user(*number, *end));
                        prop_assert_eq!(cache.get(&[number; 32], at(now)), expected);
                    }
                }
            }
        }
    }
}
