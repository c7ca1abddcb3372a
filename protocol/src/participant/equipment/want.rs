//! What equipment is to have, what is known of it, and what a look at it shows: the words that the participant, the
//! reconciler and the drivers share.
//!
//! Left out: how what is wanted follows from bookings, see [`super`].

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{
    Amount, CoordinatorName, Refusal, ResourceId, Time, TransactionId, UserName, Window,
};
use serde::{Deserialize, Serialize};

/// Names what the equipment has of one resource for one booking, through all versions of the booking.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EquipmentKey {
    /// The first transaction of the chain in which each version replaces the one before.
    pub chain: TransactionId,
    /// The resource, by the name that it has in the configuration.
    pub resource: ResourceId,
}

impl EquipmentKey {
    /// The first key that a chain can have: no name comes before `0`.
    pub(super) fn first_of(chain: &TransactionId) -> Self {
        Self { chain: chain.clone(), resource: ResourceId::composed("0") }
    }
}

/// How far a booking is at the equipment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It is certain, and the user cannot use it.
    Claimed,
    /// The user may use it in its windows, none of which is now.
    Granted,
    /// The user may use this much now. In CPUs or bit/s.
    Active(Amount),
}

/// What a version takes of a resource over one window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The window; it ends later than now.
    pub window: Window,
    /// The amount, in CPUs or bit/s.
    pub amount: Amount,
    /// The whole names of its servers; empty when the resource is not a by-server site.
    pub servers: Vec<ResourceId>,
    /// The inner links of its route; empty when there is no inner network.
    pub route: Vec<ResourceId>,
}

/// One version of a booking: what it takes of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedVersion {
    /// Its transaction.
    pub txn: TransactionId,
    /// Is it booked? If not, it must be certain, but the user may not use it.
    pub is_booked: bool,
    /// May the user use it in its windows? Not before it is booked and provisioned.
    pub is_granted: bool,
    /// What it takes, in the order of its segments.
    pub shares: Vec<Share>,
}

/// What the equipment is to have under one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// How far it is.
    pub stage: Stage,
    /// The user for whom it is.
    pub user: UserName,
    /// The coordinator of the booking.
    pub coordinator: CoordinatorName,
    /// The versions that are alive, the oldest first: the booked one, the hold that is to replace it, and before them
    /// what is kept of an older one. At each instant the equipment must have enough for the largest of them.
    pub versions: Vec<WantedVersion>,
    /// How the driver has named it at the equipment, if it was made before.
    pub reference: Option<String>,
}

/// What is known of the equipment under one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EquipmentState {
    /// How far it is known to be; `None` when nothing is known to be there.
    pub stage: Option<Stage>,
    /// The newest version that the equipment has.
    pub version: TransactionId,
    /// How the driver names it at the equipment. A user or an operator finds it there by this name. Empty when
    /// nothing was ever made.
    pub reference: String,
    /// Why the equipment does not have what it should have; `None` when it has.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trouble: Option<String>,
    /// What of it cannot be used now: whole names of servers, or the resource itself. Only other equipment mends it.
    #[serde(skip_serializing_if = "BTreeSet::is_empty", default)]
    pub unusable: BTreeSet<ResourceId>,
    /// Since when all of this is so.
    pub since: Time,
}

/// Why the equipment has not done what it was told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EquipmentTrouble {
    /// It says no, and has changed nothing.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// Nobody knows whether it was done.
    #[error("{0}")]
    Lost(String),
    /// It cannot be reached, and has changed nothing.
    #[error("{0}")]
    Down(String),
}

/// Whether a hold is certain at the equipment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// It needs no claim: the RM had no driver when it was held.
    #[default]
    NotNeeded,
    /// Not yet.
    Open,
    /// It is.
    Made,
}

impl Claim {
    pub(in super::super) const fn is_not_needed(&self) -> bool {
        matches!(self, Self::NotNeeded)
    }
}

/// What a look at the equipment has shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// What is there of what is wanted.
    pub present: BTreeMap<EquipmentKey, Presence>,
    /// The references of what bears this RM's name and is not wanted.
    pub orphans: BTreeSet<String>,
    /// What is there of others and may be in the way: one sentence each. It is reported, and never touched.
    pub intruders: Vec<String>,
    /// What cannot be used now, whether anything is booked of it or not: the whole names of servers, such as nodes
    /// that are down, and the names of resources, such as links that fail.
    pub unusable: BTreeMap<ResourceId, Unusable>,
}

/// Why something cannot be used now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// What is wrong with it and what to do, in a sentence.
    pub sentence: String,
    /// It takes nothing new, but what runs on it now goes on, as on a node that is draining.
    pub goes_on: bool,
}

/// What is there of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presence {
    /// How the driver names it.
    pub reference: String,
    /// In what it is not as wanted, in one sentence for people; `None` when it is as wanted. What differs is made again.
    pub differs: Option<String>,
    /// What is wrong with it and cannot be mended by making it again, such as a node that is down; `None` when nothing is.
    pub trouble: Option<String>,
}
