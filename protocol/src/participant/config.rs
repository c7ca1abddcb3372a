//! The configuration of a participant, and what it reports of its timetables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coalloc_common::timetable::Overcommitment;
use coalloc_common::{
    Amount, AmountTime, CoordinatorName, ResourceId, ResourceKind, ResourceKinds, RmName,
    ServiceLevels, Span, UserName, limits,
};

use super::inner::InnerRouter;
use super::servers::SiteServers;

/// How long holds last at this RM, how far ahead it books, and how often it forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldPolicy {
    /// The soft expiry: a hold asks its coordinator after this long, unless its Hold says otherwise.
    pub soft: Span,
    /// The hard expiry: a hold ends by itself after this long.
    pub hard: Span,
    /// The horizon: how far ahead anything may be booked.
    pub horizon: Span,
    /// How often it is looked what can be forgotten.
    pub forget_every: Span,
}

impl Default for HoldPolicy {
    fn default() -> Self {
        Self {
            soft: limits::HOLD_SOFT_DEFAULT,
            hard: limits::HOLD_HARD_DEFAULT,
            horizon: limits::HORIZON_DEFAULT,
            forget_every: limits::FORGET_EVERY,
        }
    }
}

/// How much may be held at a time, and not be booked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldQuota {
    /// The most holds.
    pub holds: u32,
    /// The most that they may take, amount times time, by kind. A kind that is not listed has no quota.
    pub held: BTreeMap<ResourceKind, AmountTime>,
}

/// The quotas of one coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorQuotas {
    /// For all of its users together.
    pub all: HoldQuota,
    /// For each of its users who is not in `users`.
    pub each_user: HoldQuota,
    /// For users with quotas of their own.
    pub users: BTreeMap<UserName, HoldQuota>,
}

impl CoordinatorQuotas {
    /// The quota of a user.
    #[must_use]
    pub fn of_user(&self, user: &UserName) -> &HoldQuota {
        self.users.get(user).unwrap_or(&self.each_user)
    }
}

impl Default for CoordinatorQuotas {
    fn default() -> Self {
        let quota = |holds| HoldQuota { holds, held: BTreeMap::new() };
        Self {
            all: quota(limits::HOLDS_PER_COORDINATOR),
            each_user: quota(limits::HOLDS_PER_USER),
            users: BTreeMap::new(),
        }
    }
}

/// The quotas of all coordinators.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HoldQuotas {
    /// For each coordinator that is not in `coordinators`.
    pub each: CoordinatorQuotas,
    /// For coordinators with quotas of their own.
    pub coordinators: BTreeMap<CoordinatorName, CoordinatorQuotas>,
}

impl HoldQuotas {
    /// The quotas of a coordinator.
    #[must_use]
    pub fn of(&self, coordinator: &CoordinatorName) -> &CoordinatorQuotas {
        self.coordinators.get(coordinator).unwrap_or(&self.each)
    }
}

/// The configuration of a participant, which stays the same while the process lives.
#[derive(Debug, Clone)]
pub struct ParticipantConfig {
    /// The name of the RM in the federation.
    pub name: RmName,
    /// The resources of the RM and their capacities, in the order in which it discloses them.
    pub resources: Vec<(ResourceId, Amount)>,
    /// The kind of each resource, for texts. Nothing else here knows kinds.
    pub kinds: ResourceKinds,
    /// The coordinators that may hold resources here.
    pub coordinators: BTreeSet<CoordinatorName>,
    /// How long holds last, and how far ahead the RM books.
    pub policy: HoldPolicy,
    /// Service levels: the share of the free amounts that each user of each coordinator may take.
    pub levels: ServiceLevels,
    /// How much each coordinator and each of its users may hold at a time.
    pub quotas: HoldQuotas,
    /// The router of the inner network; `None` when there is none, and each path is a link of its own.
    pub inside: Option<Arc<dyn InnerRouter>>,
    /// The by-server sites; each is one of `resources`, with the CPUs of all of its servers as its capacity. Empty
    /// for an NRM.
    pub servers: BTreeMap<ResourceId, SiteServers>,
}

/// The capacity of one resource, and what is taken of it at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// The capacity.
    pub capacity: Amount,
    /// How much is held.
    pub held: Amount,
    /// How much is booked.
    pub booked: Amount,
}

/// More of one resource is promised than there is, because the inventory has shrunk since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overcommitted {
    /// The resource; it may be one that is no longer configured.
    pub resource: ResourceId,
    /// The first instant at which this is so, and by how much at most.
    pub by: Overcommitment,
}
