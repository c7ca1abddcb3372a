//! Quotas of hours: amounts times time, by kind, from the three fields that a file has for them, and back.
//!
//! Left out: whose quota it is, and how many things it allows (the configurations of `rm` and `grc`).

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::invalid::check_range;
use coalloc_common::{AmountTime, InvalidField, ResourceKind, limits};
use coalloc_proto::v1;

/// The hours of a quota as a file has them, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HoursFields {
    /// CPUs times hours.
    pub cpu_hours: Option<u64>,
    /// GB times hours.
    pub gb_hours: Option<u64>,
    /// Gbit/s times hours.
    pub gbit_hours: Option<u64>,
}

impl HoursFields {
    /// The hours that are set. `at` is the path of the quota. With `kinds`, only these may be limited.
    ///
    /// # Errors
    /// [`InvalidField`] when hours are out of range, or of a kind that there is not.
    pub fn parse(
        self,
        at: &str,
        kinds: Option<&BTreeSet<ResourceKind>>,
    ) -> Result<BTreeMap<ResourceKind, AmountTime>, InvalidField> {
        let mut parsed = BTreeMap::new();
        for kind in ResourceKind::ALL {
            let (name, hours) = match kind {
                ResourceKind::Cpus => ("cpu_hours", self.cpu_hours),
                ResourceKind::Storage => ("gb_hours", self.gb_hours),
                ResourceKind::Bandwidth => ("gbit_hours", self.gbit_hours),
            };
            let Some(hours) = hours else { continue };
            let field = format!("{at}.{name}");
            let (unit, _) = kind.hours();
            check_range(&field, hours, 1..=limits::HELD_HOURS_MAX, unit)?;
            if let Some(kinds) = kinds.filter(|kinds| !kinds.contains(&kind)) {
                let nouns: Vec<&str> = kinds.iter().map(|kind| kind.noun()).collect();
                let allowed = format!("unset: the inventory has only {}", nouns.join(" and "));
                return Err(InvalidField::new(field, hours, allowed));
            }
            parsed.insert(kind, AmountTime::from_hours(kind, hours));
        }
        Ok(parsed)
    }
}

/// What is reserved of a kind, and the most that may be.
#[must_use]
pub fn hours_to_wire(
    kind: ResourceKind,
    reserved: AmountTime,
    most: Option<AmountTime>,
) -> v1::HoursQuota {
    v1::HoursQuota {
        kind: kind.word().to_owned(),
        unit: kind.hours().0.to_owned(),
        reserved_thousandths: reserved.thousandths_up(kind),
        max_thousandths: most.map(|most| most.thousandths_down(kind)),
    }
}
