//! The quotas of holds in an RM's configuration: from the most general to the quotas of one user of one coordinator.
//!
//! A field that is unset has the value of the next more general quota. Left out: what a quota counts, which is in
//! `protocol`'s participant. Source: docs/adr/0043-quotas.md.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::invalid::check_range;
use coalloc_common::suggest::did_you_mean;
use coalloc_common::{
    Amount, AmountTime, CoordinatorName, InvalidField, ResourceId, ResourceKind, ResourceKinds,
    Span, UserName, limits,
};
use coalloc_net::convert::HoursFields;
use coalloc_proto::v1;
use coalloc_protocol::participant::{CoordinatorQuotas, HoldQuota, HoldQuotas};

/// What quotas may be about at one RM.
pub(super) struct QuotaReader<'a> {
    /// The kinds of its resources.
    pub(super) kinds: BTreeSet<ResourceKind>,
    /// Its coordinators.
    pub(super) coordinators: BTreeSet<&'a CoordinatorName>,
}

/// The quotas of an RM whose configuration says nothing about them.
pub(super) fn default_quotas(
    resources: &[(ResourceId, Amount)],
    kinds: &ResourceKinds,
    horizon: Span,
    coordinators: usize,
) -> HoldQuotas {
    let mut quotas = HoldQuotas::default();
    // A single coordinator has nobody to leave anything to.
    if coordinators > 1 {
        for (resource, capacity) in resources {
            let share = u128::from(limits::HELD_SHARE_PERCENT);
            let whole = u128::from(capacity.0) * u128::from(horizon.as_us().unsigned_abs());
            let most = quotas.each.all.held.entry(kinds.of(resource)).or_default();
            *most = most.saturating_add(AmountTime(whole * share / 100));
        }
    }
    quotas
}

impl QuotaReader<'_> {
    /// The quotas that a configuration sets, over `defaults`.
    pub(super) fn read(
        &self,
        wire: &v1::HoldQuotas,
        defaults: HoldQuotas,
    ) -> Result<HoldQuotas, InvalidField> {
        let CoordinatorQuotas { all, each_user, .. } = defaults.each;
        let all = self.quota("quotas.coordinator", wire.coordinator.as_ref(), &all)?;
        let each_user = self.quota("quotas.user", wire.user.as_ref(), &each_user)?;
        let users = self.users("quotas.users", &wire.users, &each_user)?;
        let each = CoordinatorQuotas { all, each_user, users };
        let mut coordinators = BTreeMap::new();
        for (index, one) in wire.coordinators.iter().enumerate() {
            let at = format!("quotas.coordinators[{index}]");
            let field = format!("{at}.name");
            let name = CoordinatorName::parse(&field, &one.name)?;
            if !self.coordinators.contains(&name) {
                let known = self.coordinators.iter().map(|name| name.as_str());
                let guess = did_you_mean(name.as_str(), known);
                let allowed = format!("one of `coordinators`{guess}");
                return Err(InvalidField::new(field, name, allowed));
            }
            let own = self.coordinator(&at, one, &each, &wire.users)?;
            if coordinators.insert(name, own).is_some() {
                return Err(InvalidField::new(field, &one.name, "each coordinator once"));
            }
        }
        Ok(HoldQuotas { each, coordinators })
    }

    /// The quotas of one coordinator, where `each` are those of the others and `general` the users that they have in
    /// common.
    fn coordinator(
        &self,
        at: &str,
        wire: &v1::CoordinatorHoldQuotas,
        each: &CoordinatorQuotas,
        general: &[v1::UserHoldQuota],
    ) -> Result<CoordinatorQuotas, InvalidField> {
        let all = self.quota(&format!("{at}.coordinator"), wire.coordinator.as_ref(), &each.all)?;
        let each_user = self.quota(&format!("{at}.user"), wire.user.as_ref(), &each.each_user)?;
        let mut users = self.users("quotas.users", general, &each_user)?;
        users.extend(self.users(&format!("{at}.users"), &wire.users, &each_user)?);
        Ok(CoordinatorQuotas { all, each_user, users })
    }

    fn users(
        &self,
        at: &str,
        wire: &[v1::UserHoldQuota],
        each: &HoldQuota,
    ) -> Result<BTreeMap<UserName, HoldQuota>, InvalidField> {
        let mut users = BTreeMap::new();
        for (index, one) in wire.iter().enumerate() {
            let field = format!("{at}[{index}].user");
            let user = UserName::parse(&field, &one.user)?;
            let quota = self.quota(&format!("{at}[{index}].quota"), one.quota.as_ref(), each)?;
            if users.insert(user, quota).is_some() {
                return Err(InvalidField::new(field, &one.user, "each user once"));
            }
        }
        Ok(users)
    }

    fn quota(
        &self,
        at: &str,
        wire: Option<&v1::HoldQuota>,
        general: &HoldQuota,
    ) -> Result<HoldQuota, InvalidField> {
        let mut quota = general.clone();
        let Some(wire) = wire else { return Ok(quota) };
        if let Some(holds) = wire.holds {
            let allowed = 1..=limits::HOLDS_QUOTA_MAX;
            quota.holds = check_range(&format!("{at}.holds"), holds, allowed, "holds")?;
        }
        let fields = HoursFields {
            cpu_hours: wire.cpu_hours,
            gb_hours: wire.gb_hours,
            gbit_hours: wire.gbit_hours,
        };
        quota.held.extend(fields.parse(at, Some(&self.kinds))?);
        Ok(quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(holds: Option<u32>, cpu_hours: Option<u64>) -> Option<v1::HoldQuota> {
        Some(v1::HoldQuota { holds, cpu_hours, ..v1::HoldQuota::default() })
    }

    fn user(user: &str, quota: Option<v1::HoldQuota>) -> v1::UserHoldQuota {
        v1::UserHoldQuota { user: user.to_owned(), quota }
    }

    fn read(wire: &v1::HoldQuotas) -> Result<HoldQuotas, InvalidField> {
        let names = ["grc", "south"].map(CoordinatorName::composed);
        let kinds = [ResourceKind::Cpus].into();
        let reader = QuotaReader { kinds, coordinators: names.iter().collect() };
        reader.read(wire, HoldQuotas::default())
    }

    #[test]
    fn what_is_unset_is_as_for_all() {
        let own = v1::CoordinatorHoldQuotas {
            name: "south".to_owned(),
            coordinator: quota(None, Some(9)),
            user: quota(Some(4), None),
            users: vec![user("bob", quota(None, Some(2)))],
        };
        let wire = v1::HoldQuotas {
            coordinator: quota(Some(50), None),
            user: quota(None, Some(7)),
            users: vec![user("alice", quota(Some(8), None)), user("bob", None)],
            coordinators: vec![own],
        };
        let quotas = read(&wire).unwrap();
        let of = |holds, hours: Option<u64>| {
            let held =
                |hours| (ResourceKind::Cpus, AmountTime::from_hours(ResourceKind::Cpus, hours));
            HoldQuota { holds, held: hours.map(held).into_iter().collect() }
        };
        let [grc, south] = ["grc", "south"].map(CoordinatorName::composed);
        let [alice, bob, eve] = ["alice", "bob", "eve"].map(UserName::composed);
        let grc = quotas.of(&grc);
        assert_eq!(grc.all, of(50, None));
        assert_eq!(*grc.of_user(&eve), of(limits::HOLDS_PER_USER, Some(7)));
        assert_eq!(*grc.of_user(&alice), of(8, Some(7)));
        assert_eq!(*grc.of_user(&bob), *grc.of_user(&eve));
        let south = quotas.of(&south);
        assert_eq!(south.all, of(50, Some(9)));
        assert_eq!(*south.of_user(&eve), of(4, Some(7)));
        assert_eq!(*south.of_user(&alice), of(8, Some(7)));
        assert_eq!(*south.of_user(&bob), of(4, Some(2)));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        let over = u64::from(limits::HOLDS_QUOTA_MAX) + 1;
        let general = |coordinator| v1::HoldQuotas { coordinator, ..v1::HoldQuotas::default() };
        let gbit = v1::HoldQuota { gbit_hours: Some(5), ..v1::HoldQuota::default() };
        let users = |users| v1::HoldQuotas { users, ..v1::HoldQuotas::default() };
        let own = |names: &[&str]| v1::HoldQuotas {
            coordinators: names
                .iter()
                .map(|name| v1::CoordinatorHoldQuotas {
                    name: (*name).to_owned(),
                    ..v1::CoordinatorHoldQuotas::default()
                })
                .collect(),
            ..v1::HoldQuotas::default()
        };
        let cases = [
            ("quotas.coordinator.holds", general(quota(Some(0), None)), "1 to 1000000 holds"),
            (
                "quotas.coordinator.holds",
                general(quota(Some(u32::try_from(over).unwrap()), None)),
                "1 to 1000000 holds",
            ),
            (
                "quotas.coordinator.cpu_hours",
                general(quota(None, Some(0))),
                "1 to 1000000000000 CPU-hours",
            ),
            ("quotas.coordinator.gbit_hours", general(Some(gbit)), "only CPUs"),
            ("quotas.users[0].user", users(vec![user("no name!\n", None)]), ""),
            ("quotas.users[1].user", users(vec![user("a", None), user("a", None)]), "once"),
            ("quotas.users[0].quota.holds", users(vec![user("a", quota(Some(0), None))]), "1 to"),
            ("quotas.coordinators[0].name", own(&["sout"]), "south"),
            ("quotas.coordinators[1].name", own(&["grc", "grc"]), "once"),
        ];
        for (field, wire, allowed) in cases {
            let error = read(&wire).unwrap_err();
            assert_eq!(error.field, field, "{error}");
            assert!(error.allowed.contains(allowed), "{error}");
        }
    }

    #[test]
    fn several_coordinators_leave_half_to_one_another_unless_the_file_says_otherwise() {
        let resources =
            [("A", 100), ("B", 50)].map(|(name, cpus)| (ResourceId::composed(name), Amount(cpus)));
        let kinds = ResourceKinds::all(ResourceKind::Cpus);
        let day = Span::from_secs(86_400);
        let one = default_quotas(&resources, &kinds, day, 1);
        assert_eq!(one, HoldQuotas::default());
        let two = default_quotas(&resources, &kinds, day, 2);
        let half = AmountTime::from_hours(ResourceKind::Cpus, 75 * 24);
        assert_eq!(two.each.all.held, [(ResourceKind::Cpus, half)].into());
        assert!(two.each.each_user.held.is_empty());
    }
}
