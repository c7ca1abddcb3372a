//! The kinds of resources: what is counted, in which unit, up to which amount, and how it combines along a path.
//!
//! This file is the register of kinds. Whoever adds a kind adds a variant and a row to each table
//! here; the compiler names what is missing. Planners ask [`SiteDemand`](crate::SiteDemand)
//! and [`FrameView`](crate::topology::FrameView) what is wanted and what is free, and the protocol
//! counts [`Amount`]s whatever they are of.
//!
//! Left out: how much there is of a kind (the topology) and how much is wanted (the request). Source:
//! ADR 35; storage is the "SRM" of Takefusa 2010, section 2, which the paper names and does not build.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::amount::{Amount, BitsPerSecond, Cpus, UnitValue, Value};
use crate::id::ResourceId;
use crate::invalid::{InvalidField, check_range};
use crate::limits;
use crate::suggest::did_you_mean;

/// A kind of resource. Kinds are listed, disclosed and compared in the order of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// CPUs at a site.
    Cpus,
    /// Storage at a site, in GB (10^9 bytes).
    Storage,
    /// Bandwidth of a path, in bit/s.
    Bandwidth,
}

/// How the amounts of a kind combine along a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combination {
    /// The kind is no part of a path: a demand takes its whole amount at the one site where it is placed.
    AtOneSite,
    /// A demand takes its whole amount on every path of its route, so the narrowest path decides.
    OnEveryPath,
}

impl ResourceKind {
    /// All kinds, in their order.
    pub const ALL: [Self; 3] = [Self::Cpus, Self::Storage, Self::Bandwidth];

    /// The word for the kind in files, requests and names of resources.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cpus => "cpus",
            Self::Storage => "storage",
            Self::Bandwidth => "bandwidth",
        }
    }

    /// The kind as people say it in a sentence: "enough CPUs and storage".
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Cpus => "CPUs",
            Self::Storage => "storage",
            Self::Bandwidth => "bandwidth",
        }
    }

    /// The unit of its amounts.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Cpus => "CPUs",
            Self::Storage => "GB",
            Self::Bandwidth => "bit/s",
        }
    }

    /// The unit of an amount over a time, as people say it, and how many units of an amount it has for an hour.
    #[must_use]
    pub const fn hours(self) -> (&'static str, u64) {
        match self {
            Self::Cpus => ("CPU-hours", 1),
            Self::Storage => ("GB-hours", 1),
            Self::Bandwidth => ("Gbit/s-hours", 1_000_000_000),
        }
    }

    /// The unit as metrics write it.
    #[must_use]
    pub const fn metric_unit(self) -> &'static str {
        match self {
            Self::Cpus => "cpu",
            Self::Storage => "gigabyte",
            Self::Bandwidth => "bit_per_second",
        }
    }

    /// The greatest amount that one resource may have and one demand may want. The least is 1.
    #[must_use]
    pub const fn most(self) -> u64 {
        match self {
            Self::Cpus => limits::CPUS_MAX,
            Self::Storage => limits::STORAGE_MAX_GB,
            Self::Bandwidth => limits::BANDWIDTH_MAX_BPS,
        }
    }

    /// How its amounts combine along a path.
    #[must_use]
    pub const fn combination(self) -> Combination {
        match self {
            Self::Cpus | Self::Storage => Combination::AtOneSite,
            Self::Bandwidth => Combination::OnEveryPath,
        }
    }

    /// An amount with its unit, as text for people. The text says which kind it is of.
    #[must_use]
    pub fn show(self, amount: Amount) -> String {
        match self {
            Self::Cpus => Cpus(amount.0).to_string(),
            Self::Storage => format!("{amount} GB of storage"),
            Self::Bandwidth => BitsPerSecond(amount.0).to_string(),
        }
    }

    /// The further kinds at a site: those that a site may have besides its CPUs.
    pub fn others() -> impl Iterator<Item = Self> {
        let at_site = |kind: &Self| kind.combination() == Combination::AtOneSite;
        Self::ALL.into_iter().filter(at_site).filter(|kind| *kind != Self::Cpus)
    }

    /// The value of an amount at this value of one unit: Eq. (3) of Takefusa 2010 for any kind.
    #[must_use]
    pub const fn value(self, unit_value: UnitValue, amount: Amount) -> Value {
        match self.combination() {
            Combination::AtOneSite => unit_value.of_cpus(Cpus(amount.0)),
            Combination::OnEveryPath => unit_value.of_rate(BitsPerSecond(amount.0)),
        }
    }

    /// The further kind with this word.
    ///
    /// # Errors
    /// [`InvalidField`] that lists the kinds, when none of them has this word.
    pub fn parse_other(field: &str, word: &str) -> Result<Self, InvalidField> {
        Self::others().find(|kind| kind.word() == word).ok_or_else(|| {
            let words: Vec<&str> = Self::others().map(Self::word).collect();
            let guess = did_you_mean(word, words.iter().copied());
            let allowed = format!("a further kind of resource: {}{guess}", words.join(", "));
            InvalidField::new(field, InvalidField::quoted(word), allowed)
        })
    }

    /// An amount of this kind, from outside.
    ///
    /// # Errors
    /// [`InvalidField`] when it is zero, or more than [`Self::most`].
    pub fn parse_amount(self, field: &str, amount: u64) -> Result<Amount, InvalidField> {
        check_range(field, amount, 1..=self.most(), self.unit()).map(Amount)
    }

    /// The name of the resource of this kind at a site: the site's own name for its CPUs, `SITE:KIND` for a
    /// further kind.
    ///
    /// # Errors
    /// [`InvalidField`] when the name is too long.
    pub fn resource_at(self, field: &str, site: &str) -> Result<ResourceId, InvalidField> {
        match self {
            Self::Cpus => ResourceId::parse(field, site),
            _ => ResourceId::parse(field, &format!("{site}:{}", self.word())),
        }
    }

    /// The site and the kind of a resource at a site, from its name.
    #[must_use]
    pub fn of_site_resource(resource: &str) -> (&str, Self) {
        let further = Self::others().find_map(|kind| {
            let site = resource.strip_suffix(kind.word())?.strip_suffix(':')?;
            Some((site, kind))
        });
        further.unwrap_or((resource, Self::Cpus))
    }
}

/// Which kind each resource of one RM is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceKinds {
    usual: ResourceKind,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    further: BTreeMap<ResourceId, ResourceKind>,
}

impl ResourceKinds {
    /// Every resource is of this kind, except those that are named with [`Self::with`].
    #[must_use]
    pub const fn all(usual: ResourceKind) -> Self {
        Self { usual, further: BTreeMap::new() }
    }

    /// The same kinds, with these further resources.
    #[must_use]
    pub fn with(mut self, further: impl IntoIterator<Item = (ResourceId, ResourceKind)>) -> Self {
        further.into_iter().for_each(|(resource, kind)| self.name(resource, kind));
        self
    }

    /// Says which kind a resource is of.
    pub fn name(&mut self, resource: ResourceId, kind: ResourceKind) {
        if kind != self.usual {
            self.further.insert(resource, kind);
        }
    }

    /// The kind of a resource.
    #[must_use]
    pub fn of(&self, resource: &ResourceId) -> ResourceKind {
        self.further.get(resource).copied().unwrap_or(self.usual)
    }
}

impl From<ResourceKind> for ResourceKinds {
    fn from(usual: ResourceKind) -> Self {
        Self::all(usual)
    }
}

/// Amounts of several kinds as text for people: `4 CPUs and 500 GB of storage`.
#[must_use]
pub fn show_all(amounts: impl IntoIterator<Item = (ResourceKind, Amount)>) -> String {
    let shown = amounts.into_iter().map(|(kind, amount)| kind.show(amount));
    shown.collect::<Vec<_>>().join(" and ")
}

// `ALL` has every kind: the last variant stands at its end.
const _: () = assert!(ResourceKind::ALL.len() == ResourceKind::Bandwidth as usize + 1);
// The most expensive plan fits 64 bits: every kind at every site and every edge of every link at the highest value
// (milli-points: value per unit at a site x 1000, value per Gbit/s x Mbit/s).
const _: () = {
    let (mut at_site, mut next) = (0, 0);
    while next < ResourceKind::ALL.len() {
        if matches!(ResourceKind::ALL[next].combination(), Combination::AtOneSite) {
            at_site += ResourceKind::ALL[next].most() as u128;
        }
        next += 1;
    }
    let sites =
        (limits::REQUEST_SITES_MAX as u128) * at_site * (limits::UNIT_VALUE_MAX as u128) * 1000;
    let links = (limits::REQUEST_LINKS_MAX as u128)
        * (limits::ROUTE_EDGES_MAX as u128)
        * (limits::BANDWIDTH_MAX_BPS as u128 / 1_000_000)
        * (limits::UNIT_VALUE_MAX as u128);
    assert!(sites + links < i64::MAX as u128);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_words_of_its_own_and_a_range() {
        for kind in ResourceKind::ALL {
            let same = |other: &&ResourceKind| {
                other.word() == kind.word() || other.metric_unit() == kind.metric_unit()
            };
            assert_eq!(ResourceKind::ALL.iter().filter(same).count(), 1, "{kind:?}");
            assert!(kind.most() >= 1 && kind.most() <= limits::BANDWIDTH_MAX_BPS, "{kind:?}");
            assert!(kind.show(Amount(7)).contains('7'), "{kind:?}");
        }
        assert!(ResourceKind::ALL.is_sorted());
        assert_eq!(ResourceKind::Storage.show(Amount(500)), "500 GB of storage");
    }

    #[test]
    fn the_name_of_a_further_resource_says_site_and_kind() {
        for kind in ResourceKind::others().chain([ResourceKind::Cpus]) {
            let resource = kind.resource_at("name", "A").unwrap();
            assert_eq!(ResourceKind::of_site_resource(resource.as_str()), ("A", kind));
        }
        assert_eq!(ResourceKind::of_site_resource("A").1, ResourceKind::Cpus);
        let long = "x".repeat(125);
        assert!(ResourceKind::Storage.resource_at("name", &long).is_err());
    }

    #[test]
    fn an_unknown_kind_is_answered_with_those_there_are() {
        let error = ResourceKind::parse_other("others[0].kind", "storag").unwrap_err();
        assert!(error.to_string().contains("storage"), "{error}");
        for word in ["cpus", "bandwidth", ""] {
            assert!(ResourceKind::parse_other("kind", word).is_err(), "{word}");
        }
        assert_eq!(ResourceKind::parse_other("kind", "storage"), Ok(ResourceKind::Storage));
        for amount in [0, limits::STORAGE_MAX_GB + 1] {
            let error = ResourceKind::Storage.parse_amount("amount", amount).unwrap_err();
            assert_eq!(error.allowed, "1 to 100000000 GB");
        }
    }

    #[test]
    fn an_rm_knows_the_kind_of_each_of_its_resources() {
        let resource = ResourceKind::Storage.resource_at("name", "A").unwrap();
        let kinds = ResourceKinds::all(ResourceKind::Cpus)
            .with([(resource.clone(), ResourceKind::Storage)]);
        assert_eq!(kinds.of(&resource), ResourceKind::Storage);
        assert_eq!(kinds.of(&ResourceId::composed("A")), ResourceKind::Cpus);
    }
}
