//! Which bookings share a class, and which class that is. Pure.
//!
//! Traffic is told apart by its addresses alone. So all bookings of one user on one resource are a group with one
//! class: its rate is the sum of those that are in their window. Each booking has a reference of its own, which names
//! the group's class, so the groups are known again after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use coalloc_common::ResourceId;
use coalloc_protocol::participant::equipment::{EquipmentKey, Stage, Want};

use super::kernel::ClassId;
use super::settings::TrafficOwner;

/// The minors of booked classes. Smaller ones are the driver's own, and the kernel reserves the largest.
const MINORS: std::ops::RangeInclusive<u16> = 0x10..=0xffef;

/// How a booking is named: `co-0123abcd-0123456789abcdef 5a3c:1a`, its name and its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// The name of the booking.
    pub(super) name: String,
    /// The class of its group.
    pub(super) class: ClassId,
}

impl Reference {
    /// Reads a reference.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, class) = text.split_once(' ')?;
        Some(Self { name: name.into(), class: ClassId::parse(class)? })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.name, self.class)
    }
}

/// The bookings that share a class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    /// The user whose traffic it is.
    pub(super) owner: TrafficOwner,
    /// The resource on whose interfaces the class is.
    pub(super) resource: ResourceId,
}

/// One booking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// The name of its reference.
    pub(super) name: String,
    /// With which others it shares a class.
    pub(super) group: Group,
    /// The minor of that class.
    pub(super) minor: u16,
    /// What it adds to the rate now, in bit/s; `None` outside its windows.
    pub(super) active: Option<u64>,
}

/// All bookings.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    by_key: BTreeMap<EquipmentKey, Member>,
}

impl Members {
    /// The bookings that are wanted and that were made before: the reference says so, or this list did.
    ///
    /// Where references disagree because the configuration has changed, a group has the minor of its first member, and
    /// a minor belongs to the first group that has it.
    pub(super) fn of_wants(
        &self,
        wanted: &BTreeMap<EquipmentKey, Want>,
        name: impl Fn(&EquipmentKey) -> String,
        group: impl Fn(&EquipmentKey, &Want) -> Group,
        taken: &BTreeSet<u16>,
    ) -> Self {
        let mut members = Self::default();
        let (mut of_group, mut owner) = (BTreeMap::new(), BTreeMap::new());
        let mut undecided = Vec::new();
        for (key, want) in wanted {
            let written = want.reference.as_deref();
            let written = written.and_then(Reference::parse).map(|it| it.class.minor);
            let minor = written.or_else(|| Some(self.by_key.get(key)?.minor));
            if minor.is_none() && want.reference.is_none() {
                continue;
            }
            let group = group(key, want);
            match minor.filter(|minor| MINORS.contains(minor)) {
                Some(minor) if !of_group.contains_key(&group) && !owner.contains_key(&minor) => {
                    of_group.insert(group.clone(), minor);
                    owner.insert(minor, group.clone());
                }
                _ => undecided.push(group.clone()),
            }
            let member = Member { name: name(key), group, minor: 0, active: active(want) };
            members.by_key.insert(key.clone(), member);
        }
        for group in undecided {
            let is_free = |minor: &u16| !owner.contains_key(minor) && !taken.contains(minor);
            if of_group.contains_key(&group) {
                continue;
            }
            let Some(minor) = MINORS.into_iter().find(is_free) else { continue };
            of_group.insert(group.clone(), minor);
            owner.insert(minor, group);
        }
        for member in members.by_key.values_mut() {
            member.minor = of_group.get(&member.group).copied().unwrap_or_default();
        }
        // There are more bookings than minors; the rest counts as not made.
        members.by_key.retain(|_, member| member.minor != 0);
        members
    }

    /// The bookings with this one as it is wanted now. `None`: no minor is free.
    pub(super) fn with(
        &self,
        key: &EquipmentKey,
        want: &Want,
        name: String,
        group: Group,
        taken: &BTreeSet<u16>,
    ) -> Option<(Self, Member)> {
        let mut members = self.clone();
        members.by_key.remove(key);
        let used: BTreeSet<u16> = members.by_key.values().map(|one| one.minor).collect();
        let shared = members.by_key.values().find(|one| one.group == group);
        let own = self.by_key.get(key).filter(|old| old.group == group);
        let written = want.reference.as_deref().and_then(Reference::parse);
        let written = written.map(|it| it.class.minor);
        let written = written.filter(|minor| MINORS.contains(minor) && !used.contains(minor));
        let is_free = |minor: &u16| !used.contains(minor) && !taken.contains(minor);
        let minor = shared.or(own).map(|one| one.minor).or(written);
        let minor = minor.or_else(|| MINORS.into_iter().find(is_free))?;
        let member = Member { name, group, minor, active: active(want) };
        members.by_key.insert(key.clone(), member.clone());
        Some((members, member))
    }

    /// The bookings without the one of this name, and that one.
    pub(super) fn without(&self, name: &str) -> (Self, Option<Member>) {
        let mut members = self.clone();
        let key = members.by_key.iter().find(|(_, one)| one.name == name).map(|(key, _)| key);
        let removed = key.cloned().and_then(|key| members.by_key.remove(&key));
        (members, removed)
    }

    /// The rate of a group in bit/s; `None` when no member is in its window.
    pub(super) fn rate(&self, group: &Group) -> Option<u64> {
        let of_group = self.by_key.values().filter(|one| one.group == *group);
        of_group.filter_map(|one| one.active).reduce(u64::saturating_add)
    }

    /// The group whose class has this minor.
    pub(super) fn group(&self, minor: u16) -> Option<&Group> {
        self.by_key.values().find(|one| one.minor == minor).map(|one| &one.group)
    }

    /// Is this booking among them?
    pub(super) fn contains(&self, key: &EquipmentKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// All bookings, by their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&EquipmentKey, &Member)> {
        self.by_key.iter()
    }
}

const fn active(want: &Want) -> Option<u64> {
    match want.stage {
        Stage::Active(amount) => Some(amount.0),
        Stage::Claimed | Stage::Granted => None,
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::{Amount, CoordinatorName, TransactionId, UserName};

    use super::*;

    fn key(chain: &str, resource: &str) -> EquipmentKey {
        EquipmentKey {
            chain: TransactionId::composed(chain),
            resource: ResourceId::composed(resource),
        }
    }

    fn want(user: &str, stage: Stage, reference: Option<&str>) -> Want {
        let reference = reference.map(|class| format!("name {class}"));
        let (user, coordinator) = (UserName::composed(user), CoordinatorName::composed("grc"));
        Want { stage, user, coordinator, versions: Vec::new(), reference }
    }

    fn group(key: &EquipmentKey, want: &Want) -> Group {
        Group { owner: (want.user.clone(), None), resource: key.resource.clone() }
    }

    fn minors(members: &Members) -> Vec<u16> {
        members.iter().map(|(_, one)| one.minor).collect()
    }

    fn add(members: &Members, key: &EquipmentKey, want: &Want, taken: &[u16]) -> Members {
        let taken = taken.iter().copied().collect();
        let name = key.chain.to_string();
        members.with(key, want, name, group(key, want), &taken).unwrap().0
    }

    const ACTIVE: Stage = Stage::Active(Amount(100));

    #[test]
    fn bookings_of_a_user_on_a_resource_share_a_class_with_the_sum() {
        let (first, second, other) =
            (key("t-1", "N0-N1"), key("t-2", "N0-N1"), key("t-3", "N0-N2"));
        let members = add(&Members::default(), &first, &want("alice", ACTIVE, None), &[0x10]);
        let members = add(&members, &second, &want("alice", Stage::Claimed, None), &[]);
        let members = add(&members, &other, &want("alice", ACTIVE, None), &[0x10]);
        assert_eq!(minors(&members), [0x11, 0x11, 0x12]);
        let group = group(&first, &want("alice", ACTIVE, None));
        assert_eq!(members.rate(&group), Some(100));
        let members = add(&members, &second, &want("alice", Stage::Active(Amount(50)), None), &[]);
        assert_eq!(members.rate(&group), Some(150));
        let (members, removed) = members.without("t-1");
        assert_eq!(removed.unwrap().minor, 0x11);
        assert_eq!((members.rate(&group), members.group(0x11)), (Some(50), Some(&group)));
        let members = add(&members, &second, &want("alice", Stage::Granted, None), &[]);
        assert_eq!(members.rate(&group), None);
        assert!(members.without("t-9").1.is_none());
    }

    #[test]
    fn references_bring_the_minors_back_after_a_restart() {
        let wanted = BTreeMap::from([
            (key("t-1", "N0-N1"), want("alice", ACTIVE, Some("5a3c:30"))),
            (key("t-2", "N0-N1"), want("bob", ACTIVE, Some("5a3c:10"))),
            (key("t-3", "N0-N1"), want("carol", ACTIVE, None)),
        ]);
        let restarted = |members: &Members| {
            members.of_wants(&wanted, |key| key.chain.to_string(), group, &BTreeSet::new())
        };
        let members = restarted(&Members::default());
        assert_eq!(minors(&members), [0x30, 0x10]);
        // A claim that was made, and whose reference is not recorded yet, keeps its minor.
        let third = key("t-3", "N0-N1");
        let members = add(&members, &third, &want("carol", Stage::Claimed, None), &[]);
        assert_eq!(minors(&restarted(&members)), [0x30, 0x10, 0x11]);
    }

    #[test]
    fn references_that_disagree_are_settled_the_same_way_each_time() {
        let wanted = BTreeMap::from([
            (key("t-1", "N0-N1"), want("alice", ACTIVE, Some("5a3c:30"))),
            (key("t-2", "N0-N1"), want("alice", ACTIVE, Some("5a3c:31"))),
            (key("t-3", "N0-N1"), want("bob", ACTIVE, Some("5a3c:30"))),
            (key("t-4", "N0-N1"), want("carol", ACTIVE, Some("nonsense"))),
            (key("t-5", "N0-N1"), want("dave", ACTIVE, Some("5a3c:2"))),
        ]);
        let taken = BTreeSet::from([0x11]);
        let members =
            Members::default().of_wants(&wanted, |key| key.chain.to_string(), group, &taken);
        assert_eq!(minors(&members), [0x30, 0x30, 0x10, 0x12, 0x13]);
    }

    #[test]
    fn references_are_read_back() {
        let text = "co-0123abcd-0123456789abcdef 5a3c:1a";
        assert_eq!(Reference::parse(text).unwrap().to_string(), text);
        assert_eq!(Reference::parse("co-0123abcd-0123456789abcdef"), None);
        assert_eq!(Reference::parse("a 5a3c:xyz"), None);
    }
}
