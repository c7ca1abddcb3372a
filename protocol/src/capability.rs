//! Which release speaks, and what it knows.
//!
//! A receiver ignores the fields of a message that its release does not know. That must never change what the message means. So a
//! sender does two things before it relies on a field that not every release knows:
//!
//! 1. It looks at what the receiver says of itself ([`PeerVersion`], in the answers to Describe and DescribeFederation), and refuses
//!    what the receiver would not carry out as meant, before anything is held.
//! 2. It says with the message what the receiver must know ([`HoldOrder::needs`], in the call's metadata). A receiver that does
//!    not know one of these words carries out nothing: it may be another process by now than the one that described itself.
//!
//! A word is added here with each new field of that kind, and with it [`PROTOCOL_VERSION`] rises. A release that says nothing of itself is
//! from before these words, and knows those of [`Capability::BASELINE`].
//!
//! Left out: kinds of resources. Who describes a resource knows its kind, and whoever does not know a kind that is described says so and plans
//! without it. Source: docs/adr/0050-versions.md.

use std::collections::BTreeSet;

use crate::message::HoldOrder;

/// The version of the protocol that this release speaks. Version 1 is that of releases that do not say so.
pub const PROTOCOL_VERSION: u32 = 4;

/// Something that a receiver must know to carry out a message as its sender means it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Holds that book at once.
    OneWay,
    /// Holds that replace a booking.
    Replaces,
    /// Holds that keep what they do not need of the booking that they replace.
    KeepsOld,
    /// Holds that say which servers to take.
    Servers,
    /// Bookings that their users may not use yet.
    ManualProvision,
    /// Reservations that belong to a series.
    Series,
}

impl Capability {
    /// All that this release knows.
    pub const ALL: [Self; 6] = [
        Self::OneWay,
        Self::Replaces,
        Self::KeepsOld,
        Self::Servers,
        Self::ManualProvision,
        Self::Series,
    ];
    /// What a release knows that does not say what it knows.
    pub const BASELINE: [Self; 4] = [Self::OneWay, Self::Replaces, Self::KeepsOld, Self::Servers];

    /// The word for it in messages: lower-case letters and dashes.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::OneWay => "one-way",
            Self::Replaces => "replaces",
            Self::KeepsOld => "keeps-old",
            Self::Servers => "servers",
            Self::ManualProvision => "manual-provision",
            Self::Series => "series",
        }
    }

    /// What a release without it cannot do, for people.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::OneWay => "holds that book at once (one-way)",
            Self::Replaces => "holds that replace a booking",
            Self::KeepsOld => "holds that keep the rest of the booking that they replace",
            Self::Servers => "wishes for certain servers",
            Self::ManualProvision => "bookings that their users may not use yet",
            Self::Series => "series of reservations",
        }
    }

    /// The one with this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.word() == word)
    }
}

impl HoldOrder {
    /// What its receiver must know.
    #[must_use]
    pub fn needs(&self) -> BTreeSet<Capability> {
        let all = [
            (self.one_way, Capability::OneWay),
            (self.replaces.is_some(), Capability::Replaces),
            (self.keeps_old, Capability::KeepsOld),
            (self.servers.is_some(), Capability::Servers),
            (self.manual_provision, Capability::ManualProvision),
        ];
        all.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, needed)| needed).collect()
    }
}

/// What a peer says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerVersion {
    /// The version of the protocol that it speaks.
    pub protocol: u32,
    /// What it knows, of what this release knows.
    pub capabilities: BTreeSet<Capability>,
    /// Its program and release, for people; empty if it does not say.
    pub program: String,
}

impl PeerVersion {
    /// A peer that says nothing.
    #[must_use]
    pub fn baseline() -> Self {
        Self { protocol: 1, capabilities: Capability::BASELINE.into(), program: String::new() }
    }

    /// Does the peer know this?
    #[must_use]
    pub fn knows(&self, needed: Capability) -> bool {
        self.capabilities.contains(&needed)
    }
}

impl std::fmt::Display for PeerVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.program.as_str() {
            "" => write!(f, "a release that does not say which (protocol {})", self.protocol),
            program => write!(f, "{program} (protocol {})", self.protocol),
        }
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::{CoordinatorName, TransactionId, UserName};

    use super::*;

    fn order() -> HoldOrder {
        HoldOrder {
            txn: TransactionId::composed("grc-t-1/1"),
            coordinator: CoordinatorName::composed("grc"),
            user: UserName::composed("u"),
            segments: Vec::new(),
            hold_for: None,
            replaces: None,
            keeps_old: false,
            one_way: false,
            servers: None,
            manual_provision: false,
        }
    }

    #[test]
    fn a_word_names_one_thing() {
        for known in Capability::ALL {
            assert_eq!(Capability::named(known.word()), Some(known));
        }
        assert_eq!(Capability::named("teleport"), None);
        let words: BTreeSet<_> = Capability::ALL.map(Capability::word).into();
        assert_eq!(words.len(), Capability::ALL.len());
    }

    #[test]
    fn an_order_needs_what_it_uses() {
        assert_eq!(order().needs(), BTreeSet::new());
        assert_eq!(HoldOrder { one_way: true, ..order() }.needs(), [Capability::OneWay].into());
        let old = Some(TransactionId::composed("grc-t-1/1"));
        let change = HoldOrder { replaces: old, keeps_old: true, ..order() };
        assert_eq!(change.needs(), [Capability::Replaces, Capability::KeepsOld].into());
        let unprovisioned = HoldOrder { manual_provision: true, ..order() };
        assert_eq!(unprovisioned.needs(), [Capability::ManualProvision].into());
    }

    #[test]
    fn whoever_says_nothing_knows_the_baseline() {
        let silent = PeerVersion::baseline();
        assert!(Capability::BASELINE.into_iter().all(|known| silent.knows(known)));
        assert!(silent.to_string().contains("protocol 1"), "{silent}");
    }
}
