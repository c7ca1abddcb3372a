//! How many calls a second each user makes, and which of them are too many.
//!
//! The rule is the generic cell rate algorithm: each call takes its share of a second, and a user who was silent has
//! [`limits::CALLS_BURST`] of shares in hand. A user is the same by certificate and by token. Operators, auditors, daemons,
//! and everybody in plain text are not counted.
//!
//! Left out: what a call costs. Long planning has places and turns of its own. Source: docs/adr/0043-quotas.md; the rule is
//! that of ITU-T I.371, annex A.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use coalloc_common::{BootTime, Span, UserName, limits};

/// How many calls a second users may make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallQuotas {
    /// Each user who is not in `users`.
    pub each: u32,
    /// Users with a quota of their own.
    pub users: BTreeMap<UserName, u32>,
}

impl Default for CallQuotas {
    fn default() -> Self {
        Self { each: limits::CALLS_PER_USER, users: BTreeMap::new() }
    }
}

impl CallQuotas {
    /// The most calls a second of a user.
    #[must_use]
    pub fn of(&self, user: &UserName) -> u32 {
        self.users.get(user).copied().unwrap_or(self.each)
    }
}

/// One call too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyCalls {
    /// The most calls a second of the user.
    pub most: u32,
    /// When the next call is not too many.
    pub retry_after: Span,
}

/// The calls of all users.
#[derive(Debug, Default)]
pub struct CallRates {
    quotas: CallQuotas,
    /// For each user: until when its calls so far take all of its shares.
    taken: Mutex<BTreeMap<UserName, BootTime>>,
}

impl CallRates {
    /// Nobody has called yet.
    #[must_use]
    pub fn new(quotas: CallQuotas) -> Self {
        Self { quotas, taken: Mutex::default() }
    }

    /// Counts a call of a user.
    ///
    /// # Errors
    /// When it is one too many; it then takes nothing.
    pub fn count(&self, user: &UserName, now: BootTime) -> Result<(), TooManyCalls> {
        let most = self.quotas.of(user).max(1);
        let share = Span::from_us(1_000_000 / i64::from(most));
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.len() >= limits::CALLERS_COUNTED_MAX && !taken.contains_key(user) {
            taken.retain(|_, until| *until > now);
            if taken.len() >= limits::CALLERS_COUNTED_MAX {
                return Ok(());
            }
        }
        let until = taken.get(user).copied().unwrap_or(now).max(now).saturating_add(share);
        let over = until.since(now).saturating_sub(limits::CALLS_BURST);
        if over > Span::ZERO {
            // In whole milliseconds, which people read and clients wait.
            let retry_after = Span::from_millis(over.as_us().div_euclid(1_000) + 1);
            return Err(TooManyCalls { most, retry_after });
        }
        taken.insert(user.clone(), until);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn user(name: &str) -> UserName {
        UserName::composed(name)
    }

    fn rates(each: u32) -> CallRates {
        CallRates::new(CallQuotas { each, users: BTreeMap::new() })
    }

    #[test]
    fn two_seconds_of_calls_at_once_then_one_by_one_and_others_do_not_notice() {
        let rates = rates(10);
        let at = |ms: i64| BootTime::from_us(ms * 1_000);
        for _ in 0..20 {
            rates.count(&user("greedy"), at(0)).unwrap();
        }
        let refused = rates.count(&user("greedy"), at(0)).unwrap_err();
        assert_eq!(refused, TooManyCalls { most: 10, retry_after: Span::from_millis(101) });
        assert!(rates.count(&user("greedy"), at(99)).is_err());
        rates.count(&user("greedy"), at(100)).unwrap();
        assert!(rates.count(&user("greedy"), at(100)).is_err());
        rates.count(&user("honest"), at(100)).unwrap();
    }

    #[test]
    fn who_is_silent_is_forgotten_when_there_are_many() {
        let rates = rates(1);
        for number in 0..limits::CALLERS_COUNTED_MAX {
            rates.count(&user(&format!("u{number}")), BootTime::from_us(0)).unwrap();
        }
        let later = BootTime::from_us(5_000_000);
        rates.count(&user("late"), later).unwrap();
        assert_eq!(rates.taken.lock().unwrap().len(), 1);
    }

    proptest! {
        /// In no stretch of time are more calls let through than its seconds and the burst allow, and whoever stays
        /// below its quota is never refused.
        #[test]
        fn no_more_than_the_quota_and_no_fewer(
            pauses in prop::collection::vec(0_i64..400_000, 1..200), most in 1_u32..50,
        ) {
            let rates = rates(most);
            let (mut now, mut passed) = (0_i64, Vec::new());
            for pause in &pauses {
                now += pause;
                if rates.count(&user("a"), BootTime::from_us(now)).is_ok() {
                    passed.push(now);
                } else {
                    prop_assert!(*pause < 1_000_000 / i64::from(most));
                }
            }
            for (from, first) in passed.iter().enumerate() {
                for (count, last) in passed[from..].iter().enumerate() {
                    let share = 1_000_000 / i64::from(most);
                    let allowed = (last - first + limits::CALLS_BURST.as_us()) / share + 1;
                    prop_assert!(i64::try_from(count).unwrap() < allowed + 1);
                }
            }
        }
    }
}
