//! The quotas of users in a GRC's configuration.
//!
//! Left out: what counts, which is in `protocol`'s coordinator and in [`coalloc_net::authorization::call_rates`].
//! Source: docs/adr/0043-quotas.md.

use std::collections::BTreeMap;

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, UserName, limits};
use coalloc_net::authorization::call_rates::CallQuotas;
use coalloc_net::convert::HoursFields;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{ReservationQuota, ReservationQuotas};

/// How much each user may have reserved, and how many calls it may make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserQuotas {
    /// What users may have reserved.
    pub reservations: ReservationQuotas,
    /// How many calls they may make.
    pub calls: CallQuotas,
}

/// The quota of one user.
#[derive(Clone)]
struct OneQuota {
    reservations: ReservationQuota,
    calls_per_second: u32,
}

impl UserQuotas {
    /// Reads what the configuration says of quotas.
    pub(super) fn parse(wire: Option<&v1::UserQuotas>) -> Result<Self, InvalidField> {
        let mut quotas = Self::default();
        let Some(wire) = wire else { return Ok(quotas) };
        let default = OneQuota {
            reservations: ReservationQuota::default(),
            calls_per_second: limits::CALLS_PER_USER,
        };
        let each = one("quotas.user", wire.user.as_ref(), &default)?;
        let (mut reservations, mut calls) = (BTreeMap::new(), BTreeMap::new());
        for (index, named) in wire.users.iter().enumerate() {
            let at = format!("quotas.users[{index}]");
            let field = format!("{at}.user");
            let user = UserName::parse(&field, &named.user)?;
            let own = one(&format!("{at}.quota"), named.quota.as_ref(), &each)?;
            calls.insert(user.clone(), own.calls_per_second);
            if reservations.insert(user, own.reservations).is_some() {
                return Err(InvalidField::new(field, &named.user, "each user once"));
            }
        }
        quotas.reservations = ReservationQuotas { each: each.reservations, users: reservations };
        quotas.calls = CallQuotas { each: each.calls_per_second, users: calls };
        Ok(quotas)
    }
}

fn one(
    at: &str,
    wire: Option<&v1::UserQuota>,
    general: &OneQuota,
) -> Result<OneQuota, InvalidField> {
    let mut quota = general.clone();
    let Some(wire) = wire else { return Ok(quota) };
    if let Some(live) = wire.reservations {
        let (field, allowed) = (format!("{at}.reservations"), 1..=limits::RESERVATIONS_QUOTA_MAX);
        quota.reservations.live = check_range(&field, live, allowed, "reservations")?;
    }
    let v1::UserQuota { cpu_hours, gb_hours, gbit_hours, .. } = *wire;
    let hours = HoursFields { cpu_hours, gb_hours, gbit_hours };
    quota.reservations.ahead.extend(hours.parse(at, None)?);
    if let Some(calls) = wire.calls_per_second {
        let (field, allowed) = (format!("{at}.calls_per_second"), 1..=limits::CALLS_QUOTA_MAX);
        quota.calls_per_second = check_range(&field, calls, allowed, "calls a second")?;
    }
    Ok(quota)
}

#[cfg(test)]
mod tests {
    use coalloc_common::{AmountTime, ResourceKind};

    use super::*;

    fn quota(reservations: Option<u32>, cpu_hours: Option<u64>) -> Option<v1::UserQuota> {
        Some(v1::UserQuota { reservations, cpu_hours, ..v1::UserQuota::default() })
    }

    fn named(user: &str, quota: Option<v1::UserQuota>) -> v1::NamedUserQuota {
        v1::NamedUserQuota { user: user.to_owned(), quota }
    }

    #[test]
    fn what_is_unset_is_as_for_all() {
        let calls = Some(v1::UserQuota { calls_per_second: Some(3), ..v1::UserQuota::default() });
        let wire = v1::UserQuotas {
            user: quota(Some(5), Some(7)),
            users: vec![named("alice", quota(Some(8), None)), named("south/bob", calls)],
        };
        let quotas = UserQuotas::parse(Some(&wire)).unwrap();
        let [alice, bob, eve] = ["alice", "south/bob", "eve"].map(UserName::composed);
        let cpus = AmountTime::from_hours(ResourceKind::Cpus, 7);
        let of = |live| ReservationQuota { live, ahead: [(ResourceKind::Cpus, cpus)].into() };
        let reservations = &quotas.reservations;
        assert_eq!(*reservations.of(&alice), of(8));
        assert_eq!(*reservations.of(&bob), of(5));
        assert_eq!(*reservations.of(&eve), of(5));
        let calls = [&alice, &bob, &eve].map(|user| quotas.calls.of(user));
        assert_eq!(calls, [limits::CALLS_PER_USER, 3, limits::CALLS_PER_USER]);
        assert_eq!(UserQuotas::parse(None).unwrap(), UserQuotas::default());
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        let general = |user| v1::UserQuotas { user, users: Vec::new() };
        let users = |users| v1::UserQuotas { user: None, users };
        let calls = |calls| v1::UserQuota { calls_per_second: Some(calls), ..Default::default() };
        let cases = [
            ("quotas.user.reservations", general(quota(Some(0), None)), "1 to 1000000"),
            ("quotas.user.reservations", general(quota(Some(1_000_001), None)), "1 to 1000000"),
            ("quotas.user.cpu_hours", general(quota(None, Some(0))), "CPU-hours"),
            ("quotas.user.calls_per_second", general(Some(calls(0))), "1 to 1000000"),
            ("quotas.users[0].user", users(vec![named("no name!\n", None)]), ""),
            ("quotas.users[1].user", users(vec![named("a", None), named("a", None)]), "once"),
            (
                "quotas.users[0].quota.reservations",
                users(vec![named("a", quota(Some(0), None))]),
                "",
            ),
        ];
        for (field, wire, allowed) in cases {
            let error = UserQuotas::parse(Some(&wire)).unwrap_err();
            assert_eq!(error.field, field, "{error}");
            assert!(error.allowed.contains(allowed), "{error}");
        }
    }
}
