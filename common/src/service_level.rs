//! Service levels: the share of what is free that a user of a coordinator may take. Whoever owns resources, or sells
//! those of others, counts alike.
//!
//! A resource manager has a user's name from the coordinator alone. So each coordinator may have a best level, and no
//! user is better off through it than that, whatever name the coordinator claims.
//!
//! Left out: reading levels from files. Sources: Takefusa 2010, section 3.4, option C; docs/adr/0044-coordinator-levels.md.

use std::collections::BTreeMap;

use crate::{Amount, CoordinatorName, UserName};

/// The whole of what is free, in percent.
pub const WHOLE: u32 = 100;

/// Whoever wants to know what may be taken, or to take it, for a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requester {
    /// This coordinator, as its certificate or its message says.
    Coordinator(CoordinatorName),
    /// An operator or an auditor of the resource manager, who may know everything.
    Staff,
    /// Nobody that is known. It is shown no more than the coordinator that is shown least.
    Unknown,
}

/// The levels of one coordinator and of its users, in percent, 1 to 100.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorLevels {
    /// The best level: no user of this coordinator has a better one.
    pub best: u32,
    /// The level of its users who are not in `users`. `None`: the lowest in `users`, or, if there is none, the level that
    /// the user has at every coordinator.
    pub each_user: Option<u32>,
    /// Users with levels of their own at this coordinator.
    pub users: BTreeMap<UserName, u32>,
}

/// The levels of all users and coordinators, in percent, 1 to 100.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceLevels {
    /// The levels that users have at every coordinator that says nothing else.
    pub users: BTreeMap<UserName, u32>,
    /// Coordinators with levels of their own. If there are any, the best level of every other coordinator is the lowest
    /// of theirs.
    pub coordinators: BTreeMap<CoordinatorName, CoordinatorLevels>,
}

impl ServiceLevels {
    /// Levels of users only, which they have at every coordinator.
    #[must_use]
    pub fn of_users(users: BTreeMap<UserName, u32>) -> Self {
        Self { users, coordinators: BTreeMap::new() }
    }

    /// Whether everybody may take everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.coordinators.is_empty()
    }

    /// The best level that any user may have through this requester, in percent.
    #[must_use]
    pub fn best(&self, requester: &Requester) -> u32 {
        let own = match requester {
            Requester::Staff => Some(WHOLE),
            Requester::Coordinator(name) => self.coordinators.get(name).map(|one| one.best),
            Requester::Unknown => None,
        };
        let lowest = || self.coordinators.values().map(|one| one.best).min();
        own.or_else(lowest).unwrap_or(WHOLE).min(WHOLE)
    }

    /// How much of what is free a user may take through this requester, in percent: never more than the best level of the
    /// requester.
    #[must_use]
    pub fn share(&self, requester: &Requester, user: &UserName) -> u32 {
        let own = match requester {
            Requester::Coordinator(name) => self.coordinators.get(name),
            Requester::Staff | Requester::Unknown => None,
        };
        let of_own = own.and_then(|own| {
            let lowest = || own.users.values().min().copied();
            own.users.get(user).copied().or(own.each_user).or_else(lowest)
        });
        of_own.unwrap_or_else(|| share(&self.users, user)).min(self.best(requester))
    }
}

/// How much of what is free a user may take, in percent. An unknown user gets the lowest level that anybody has, so
/// that nobody gets more under another name. Without levels everybody may take everything.
fn share(levels: &BTreeMap<UserName, u32>, user: &UserName) -> u32 {
    let share = levels.get(user).or_else(|| levels.values().min());
    share.copied().unwrap_or(WHOLE).min(WHOLE)
}

/// This share of an amount, rounded down.
#[must_use]
pub fn part(share: u32, free: u128) -> Amount {
    let part = free * u128::from(share) / u128::from(WHOLE);
    Amount(u64::try_from(part).unwrap_or(u64::MAX))
}

/// This share of so many things, rounded down.
#[must_use]
pub fn share_of_count(share: u32, count: usize) -> usize {
    // Never more than the count, which fits.
    usize::try_from(part(share.min(WHOLE), count as u128).0).unwrap_or(count)
}

/// The most that may be taken: never less than what is one's own already, and otherwise a share of what is free.
/// Whether one's own counts as free is up to the caller.
#[must_use]
pub fn most(own: Amount, free: Amount, share: u32) -> Amount {
    own.max(part(share, u128::from(free.0)))
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn user(name: &str) -> UserName {
        UserName::composed(name)
    }

    fn coordinator(name: &str) -> CoordinatorName {
        CoordinatorName::composed(name)
    }

    fn users(all: &[(&str, u32)]) -> BTreeMap<UserName, u32> {
        all.iter().map(|(name, share)| (user(name), *share)).collect()
    }

    #[test]
    fn a_coordinator_has_a_best_level_and_may_have_levels_of_its_own() {
        let own = |best, each_user, own: &[(&str, u32)]| CoordinatorLevels {
            best,
            each_user,
            users: users(own),
        };
        let coordinators = BTreeMap::from([
            (coordinator("grc"), own(100, None, &[])),
            (coordinator("south"), own(30, None, &[])),
            (coordinator("east"), own(90, Some(20), &[("alice", 60)])),
            (coordinator("west"), own(90, None, &[("alice", 60), ("bob", 95)])),
        ]);
        let levels = ServiceLevels { users: users(&[("alice", 80), ("eve", 10)]), coordinators };
        let of = |name, who| levels.share(&Requester::Coordinator(coordinator(name)), &user(who));
        // Without levels of its own: those that users have everywhere, and never a better one than its best.
        assert_eq!((of("grc", "alice"), of("grc", "bob")), (80, 10));
        assert_eq!((of("south", "alice"), of("south", "bob")), (30, 10));
        // With levels of its own, only these count.
        assert_eq!((of("east", "alice"), of("east", "bob")), (60, 20));
        assert_eq!((of("west", "alice"), of("west", "bob"), of("west", "eve")), (60, 90, 60));
        // Whoever is not listed, or not known, has the lowest best level.
        assert_eq!((of("north", "alice"), of("north", "eve")), (30, 10));
        assert_eq!(levels.share(&Requester::Unknown, &user("alice")), 30);
        assert_eq!(levels.share(&Requester::Staff, &user("alice")), 80);
        assert!(!levels.is_empty() && ServiceLevels::default().is_empty());
        assert_eq!(ServiceLevels::default().share(&Requester::Unknown, &user("eve")), WHOLE);
    }

    fn any_users() -> impl Strategy<Value = BTreeMap<UserName, u32>> {
        btree_map("[a-d]", 1..=WHOLE, 0..4)
            .prop_map(|all| all.iter().map(|(name, share)| (user(name), *share)).collect())
    }

    fn any_levels() -> impl Strategy<Value = ServiceLevels> {
        let one = (1..=WHOLE, option::of(1..=WHOLE), any_users())
            .prop_map(|(best, each_user, users)| CoordinatorLevels { best, each_user, users });
        (any_users(), btree_map("[k-n]", one, 0..4)).prop_map(|(users, all)| {
            let coordinators = all.into_iter().map(|(name, one)| (coordinator(&name), one));
            ServiceLevels { users, coordinators: coordinators.collect() }
        })
    }

    proptest! {
        #[test]
        fn no_user_is_better_off_than_the_best_of_the_coordinator(
            levels in any_levels(), name in "[k-o]", who in "[a-e]", free in any::<u64>(),
        ) {
            let requester = Requester::Coordinator(coordinator(&name));
            let (share, best) = (levels.share(&requester, &user(&who)), levels.best(&requester));
            prop_assert!((1..=best).contains(&share) && best <= WHOLE);
            prop_assert!(part(share, u128::from(free)) <= part(best, u128::from(free)));
            if let Some(own) = levels.coordinators.get(&coordinator(&name)) {
                prop_assert_eq!(best, own.best);
            } else {
                // No name of a coordinator helps that has no level.
                prop_assert!(levels.coordinators.values().all(|one| best <= one.best));
            }
            prop_assert!(levels.best(&Requester::Unknown) <= best);
        }
    }

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
