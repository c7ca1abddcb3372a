//! The backoff before a request is planned again: a random time whose bound doubles each time.
//!
//! Coordinators that want the same resources see the same availability and choose the same plan. Each then gets a part,
//! all are refused, and without a backoff all would try again at the same moment. Random exponential backoff separates
//! them, as it does stations on an Ethernet (Metcalfe, Boggs 1976). Only the request itself waits: no message of the
//! protocol is delayed, and nothing is held meanwhile.
//!
//! The generator is seeded with the ledger's identity, so that no two coordinators draw the same numbers.

use std::sync::{Mutex, PoisonError};

use coalloc_common::{Span, limits};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// Draws the backoffs of one coordinator.
#[derive(Debug)]
pub struct Pauses {
    draws: Mutex<ChaCha8Rng>,
}

impl Pauses {
    /// The backoffs of the coordinator with this ledger.
    #[must_use]
    pub fn of_ledger(ledger_id: &str) -> Self {
        Self { draws: Mutex::new(ChaCha8Rng::from_seed(Sha256::digest(ledger_id).into())) }
    }

    /// The backoff before planning again for the `replan`-th time, counted from 1: uniform from 0 to its bound.
    #[must_use]
    pub fn draw(&self, replan: u32) -> Span {
        // A panic in another thread leaves the generator as random as before.
        let mut draws = self.draws.lock().unwrap_or_else(PoisonError::into_inner);
        let bound = bound(replan).as_us().unsigned_abs();
        Span::from_us((draws.next_u64() % (bound + 1)) as i64)
    }

    /// Draws the backoff and waits that long.
    pub async fn wait(&self, replan: u32) {
        tokio::time::sleep(self.draw(replan).to_std()).await;
    }
}

/// The longest backoff before planning again for the `replan`-th time.
fn bound(replan: u32) -> Span {
    let doubled = 1_i64.checked_shl(replan.saturating_sub(1)).filter(|times| *times > 0);
    let us = limits::REPLAN_PAUSE.as_us().saturating_mul(doubled.unwrap_or(i64::MAX));
    Span::from_us(us.min(limits::REPLAN_PAUSE_MAX.as_us()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_double_until_the_longest() {
        let bounds: Vec<i64> = (1..=7).map(|n| bound(n).as_us() / 1_000).collect();
        assert_eq!(bounds, [20, 40, 80, 160, 320, 500, 500]);
        assert_eq!(bound(u32::MAX), limits::REPLAN_PAUSE_MAX);
    }

    #[test]
    fn draws_stay_within_the_bound_and_use_all_of_it() {
        let pauses = Pauses::of_ledger("a");
        let draws: Vec<i64> = (0..1_000).map(|_| pauses.draw(2).as_us()).collect();
        assert!(draws.iter().all(|us| (0..=40_000).contains(us)));
        assert!(draws.iter().any(|us| *us < 4_000) && draws.iter().any(|us| *us > 36_000));
    }

    #[test]
    fn one_ledger_draws_the_same_again_and_another_does_not() {
        let draw = |id: &str| {
            let pauses = Pauses::of_ledger(id);
            (0..8).map(|_| pauses.draw(3)).collect::<Vec<_>>()
        };
        assert_eq!(draw("a"), draw("a"));
        assert_ne!(draw("a"), draw("b"));
    }
}
