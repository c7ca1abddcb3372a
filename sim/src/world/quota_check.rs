//! No coordinator and no user has more holds at an RM than its quota, counted from the RM's entries alone.
//!
//! Holds that replace a booking are left out: those that take nothing count nothing, and one of these takes something
//! once what was kept of an older version is released. All others were admitted while there was room for them, so there
//! are never more of them than the quota allows.

use std::collections::BTreeMap;

use coalloc_common::{CoordinatorName, UserName};
use coalloc_protocol::participant::{HoldQuotas, Phase};

use super::World;

impl World {
    /// Checks the holds of an RM against its quotas.
    pub(super) fn check_quotas(&self, rm: usize) -> Result<(), String> {
        let core = &self.rms[rm].shadow;
        let quotas = &core.config().quotas;
        // Almost all worlds are far below the usual quotas, and a count looks at every entry.
        if *quotas == HoldQuotas::default() {
            return Ok(());
        }
        let mut of_users: BTreeMap<(&CoordinatorName, &UserName), u64> = BTreeMap::new();
        let mut of_all: BTreeMap<&CoordinatorName, u64> = BTreeMap::new();
        for entry in core.entries().values() {
            let (Phase::Held(_), Some(order)) = (&entry.phase, &entry.order) else { continue };
            if order.replaces.is_none() {
                *of_users.entry((&entry.coordinator, &order.user)).or_default() += 1;
                *of_all.entry(&entry.coordinator).or_default() += 1;
            }
        }
        let name = &self.rms[rm].name;
        for (coordinator, count) in of_all {
            let most = quotas.of(coordinator).all.holds;
            if count > u64::from(most) {
                return Err(format!("quota: {coordinator} has {count} of {most} holds at {name}"));
            }
        }
        for ((coordinator, user), count) in of_users {
            let most = quotas.of(coordinator).of_user(user).holds;
            if count > u64::from(most) {
                return Err(format!(
                    "quota: user {user} of {coordinator} has {count} of {most} holds at {name}"
                ));
            }
        }
        Ok(())
    }
}
