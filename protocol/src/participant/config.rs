//! What a participant is told once, and what it tells of its timetables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coalloc_common::timetable::Overcommitment;
use coalloc_common::{Amount, CoordinatorName, ResourceId, RmName, Span, Unit, UserName, limits};

use super::inner::InnerRouter;

/// How long holds last here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldPolicy {
    /// Ask the coordinator after this long, unless the hold says otherwise.
    pub soft: Span,
    /// Drop the hold after this long when the coordinator cannot be reached.
    pub hard: Span,
    /// Book at most this far ahead.
    pub horizon: Span,
}

impl Default for HoldPolicy {
    fn default() -> Self {
        Self {
            soft: limits::HOLD_SOFT_DEFAULT,
            hard: limits::HOLD_HARD_DEFAULT,
            horizon: limits::HORIZON_DEFAULT,
        }
    }
}

/// What a participant is told once.
#[derive(Debug, Clone)]
pub struct ParticipantConfig {
    /// Its name in the federation.
    pub name: RmName,
    /// What it owns, in the order it discloses it.
    pub resources: Vec<(ResourceId, Amount)>,
    /// What its amounts count, for sentences.
    pub unit: Unit,
    /// Who may hold here.
    pub coordinators: BTreeSet<CoordinatorName>,
    /// How long holds last.
    pub policy: HoldPolicy,
    /// Service levels: percent of what is free, 1 to 100, that a user may take. Who is not here may take the
    /// least of them; without any, everybody may take all.
    pub levels: BTreeMap<UserName, u32>,
    /// What its paths are routed over; `None` when each is its own link.
    pub inside: Option<Arc<dyn InnerRouter>>,
}

/// What there is of one resource, and what is taken of it, at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// What there is.
    pub capacity: Amount,
    /// By holds.
    pub held: Amount,
    /// By bookings.
    pub booked: Amount,
}

/// More of one resource is promised than there is: the inventory has shrunk since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overcommitted {
    /// Which; it may be one that is no longer configured.
    pub resource: ResourceId,
    /// The first instant, and by how much at most.
    pub by: Overcommitment,
}
