//! Users who prove who they are by a token (JWT) that their login service has signed.
//!
//! [`TokenIssuers`] are the login services that a coordinator believes, with their public keys out of files.
//! [`TokenVerifier`] verifies tokens by them, without asking anybody: the signature, for whom the token is, and its
//! times. What it verifies it remembers until the token ends, or until the keys are replaced. [`TokenError`] says why
//! a token is refused and what to do.
//!
//! The issuer is looked up by what the token claims (`iss`). The token is then believed only if a key of that issuer
//! has signed exactly this text. A user of the coordinator's own domain has the token's subject (`sub`) as name; a user
//! of another domain is called `DOMAIN/SUBJECT`. No subject has a slash, so no issuer can speak for users of another
//! domain.
//!
//! `jsonwebtoken` verifies signatures. Everything else that decides whether a token is believed is in this module.
//!
//! Left out: where a token comes from in a call, and what its user may do; tokens that are revoked before they end
//! (they live for [`limits::TOKEN_LIFETIME_MAX`] at most); fetching keys (the operator does); tokens that are bound to
//! a key of their bearer (`cnf`, RFC 7800), which count as plain ones. Sources: RFC 7519 (JWT), RFC 7517 (key sets),
//! RFC 8725 (best practices).

mod cache;
mod error;
mod issuers;
mod json;
mod keys;
mod signed;
#[cfg(test)]
mod test_keys;
#[cfg(test)]
mod tests;

pub use error::{TokenError, TokenPart};
pub use issuers::TokenIssuers;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use coalloc_common::{Time, UserName, Window, limits};
use sha2::{Digest as _, Sha256};

use cache::{TokenCache, TokenDigest};
use signed::SignedToken;

/// A user who has proven by a token who he or she is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedUser {
    /// The user's name at this coordinator.
    pub user: UserName,
    /// Who issued the token.
    pub issuer: Arc<str>,
    /// SHA-256 of the issuer's length in bytes (8 bytes, the highest first), the issuer and the subject. It is the same
    /// for all tokens of one user of one issuer, and another one for everybody else.
    pub subject_digest: [u8; 32],
    /// When the token ends.
    pub expires: Time,
}

/// Verifies the tokens of users, and remembers those that were good. Many threads may use it at a time.
pub struct TokenVerifier {
    state: RwLock<Arc<State>>,
}

/// The issuers, and what was verified by their keys. They are replaced together, so that nothing is remembered
/// longer than the keys, even if the token is being verified in the moment in which they are replaced.
struct State {
    issuers: TokenIssuers,
    cache: Mutex<TokenCache>,
}

impl State {
    fn new(issuers: TokenIssuers) -> Self {
        Self { issuers, cache: Mutex::new(TokenCache::new(limits::TOKEN_CACHE_MAX)) }
    }

    fn cache(&self) -> MutexGuard<'_, TokenCache> {
        // Nothing in the cache panics between two changes that belong together, but for want of memory.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenVerifier {
    /// A verifier that believes these issuers.
    #[must_use]
    pub fn new(issuers: TokenIssuers) -> Self {
        Self { state: RwLock::new(Arc::new(State::new(issuers))) }
    }

    /// The user who bears this token, which is the text after `Bearer`. `now` is the wall clock.
    ///
    /// # Errors
    /// [`TokenError`] when the token does not prove who its bearer is.
    pub fn verify(&self, token: &str, now: Time) -> Result<VerifiedUser, TokenError> {
        if token.len() > limits::TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong { bytes: token.len() });
        }
        let state = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner));
        let digest: TokenDigest = Sha256::digest(token).into();
        if let Some(user) = state.cache().get(&digest, now) {
            return Ok(user);
        }
        let (user, usable) = state.issuers.verify(token, now)?;
        if let Some(usable) = usable {
            state.cache().insert(digest, user.clone(), usable, now);
        }
        Ok(user)
    }

    /// Whether a token of this issuer could stand for this user now.
    #[must_use]
    pub fn speaks_for(&self, issuer: &str, user: &UserName) -> bool {
        let state = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner));
        let domain = state.issuers.named(issuer).map(|issuer| issuer.domain.as_ref());
        domain.is_some_and(|domain| signed::is_user_of(domain, user))
    }

    /// Believes these issuers from now on instead, and forgets all that was verified.
    pub fn replace(&self, issuers: TokenIssuers) {
        let state = Arc::new(State::new(issuers));
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

impl fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenVerifier").finish_non_exhaustive()
    }
}

impl TokenIssuers {
    /// The user who bears this token, and the time in which the token may be remembered.
    fn verify(&self, token: &str, now: Time) -> Result<(VerifiedUser, Option<Window>), TokenError> {
        let token = SignedToken::parse(token)?;
        let name = token.issuer()?;
        let Some(issuer) = self.named(name) else {
            return Err(TokenError::UnknownIssuer { issuer: error::quoted(name) });
        };
        let claims = token.verified_by(&issuer.keys)?;
        claims.check_parties(&issuer.name, &issuer.audience)?;
        let times = claims.check_times(now)?;
        let subject = claims.subject()?;
        let user = VerifiedUser {
            user: signed::user_of(issuer.domain.as_ref(), subject)?,
            issuer: Arc::clone(&issuer.name),
            subject_digest: subject_digest(&issuer.name, subject),
            expires: times.expires,
        };
        Ok((user, times.usable))
    }
}

fn subject_digest(issuer: &str, subject: &str) -> [u8; 32] {
    let length = (issuer.len() as u64).to_be_bytes();
    Sha256::new().chain_update(length).chain_update(issuer).chain_update(subject).finalize().into()
}
