//! Service levels: the share of what is free that a user may take. Whoever owns resources, or sells those of others,
//! counts alike.
//!
//! Left out: which user has which level. Source: Takefusa 2010, section 3.4, option C.

use std::collections::BTreeMap;

use crate::{Amount, UserName};

/// The whole of what is free, in percent.
pub const WHOLE: u32 = 100;

/// How much of what is free a user may take, in percent. An unknown user gets the lowest level that anybody has, so
/// that nobody gets more under another name. Without levels everybody may take everything.
#[must_use]
pub fn share(levels: &BTreeMap<UserName, u32>, user: &UserName) -> u32 {
    let share = levels.get(user).or_else(|| levels.values().min());
    share.copied().unwrap_or(WHOLE).min(WHOLE)
}

/// This share of an amount, rounded down.
#[must_use]
pub fn part(share: u32, free: u128) -> Amount {
    let part = free * u128::from(share) / u128::from(WHOLE);
    Amount(u64::try_from(part).unwrap_or(u64::MAX))
}

/// The most that may be taken: never less than what is one's own already, and otherwise a share of what is free.
/// Whether one's own counts as free is up to the caller.
#[must_use]
pub fn most(own: Amount, free: Amount, share: u32) -> Amount {
    own.max(part(share, u128::from(free.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_may_take_the_share_and_never_less_than_ones_own() {
        let of = |own, free, share| most(Amount(own), Amount(free), share).0;
        assert_eq!((of(0, 7, 50), of(5, 7, 50), of(0, 7, 100)), (3, 5, 7));
        assert_eq!(of(0, u64::MAX, 100), u64::MAX);
    }

    #[test]
    fn who_has_no_level_gets_the_lowest() {
        let (alice, eve) = (UserName::composed("alice"), UserName::composed("eve"));
        let levels = BTreeMap::from([(alice.clone(), 80), (UserName::composed("bob"), 50)]);
        assert_eq!((share(&levels, &alice), share(&levels, &eve)), (80, 50));
        assert_eq!(share(&BTreeMap::new(), &eve), WHOLE);
    }
}
