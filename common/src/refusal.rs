//! Why something was not reserved. A refusal is an answer, not an error: it is recorded, replayed and
//! sent like any other value, and the same request gets the same one for ever.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::id::{ResourceId, RmName};
use crate::time::Window;

/// The kind of a refusal. Closed: every place that answers has to think of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Less is free somewhere in the window than was asked for.
    InsufficientCapacity,
    /// More was asked for than the resource, or the whole federation, has when it is empty.
    BeyondCapacity,
    /// The RM has no resource of that name.
    UnknownResource,
    /// The window starts in the past or ends beyond the RM's horizon.
    OutsideHorizon,
    /// Every site fits, but no paths join them at the rates, latencies and lengths asked for.
    NoRoute,
    /// The planner's budget ended before it found a plan or proved that there is none.
    BudgetExhausted,
    /// RMs that the request needs did not answer in time.
    Unreachable,
    /// The transaction was aborted before (a tombstone): a late Hold or Commit meets this.
    Aborted,
    /// The hold expired before the Commit came.
    Expired,
    /// The booking was released.
    Released,
    /// The RM knows no such hold.
    NotHeld,
    /// The coordinator stopped before it decided; nothing is reserved.
    CoordinatorRestarted,
    /// The holds were not all in time, or ran out before the decision.
    TimedOut,
    /// Some bookings were made and others refused; those made were released.
    Mixed,
    /// The RM does not accept messages of this coordinator.
    Denied,
    /// The plan asked for by its digest cannot be made any more.
    PlanOutdated,
    /// Enough is free, but the user's service level lets it take only a share.
    ServiceLevel,
    /// A newer version took the booking's place.
    Replaced,
}

impl Reason {
    /// As it stands in records and in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::InsufficientCapacity => "insufficient_capacity",
            Self::BeyondCapacity => "beyond_capacity",
            Self::UnknownResource => "unknown_resource",
            Self::OutsideHorizon => "outside_horizon",
            Self::NoRoute => "no_route",
            Self::BudgetExhausted => "budget_exhausted",
            Self::Unreachable => "unreachable",
            Self::Aborted => "aborted",
            Self::Expired => "expired",
            Self::Released => "released",
            Self::NotHeld => "not_held",
            Self::CoordinatorRestarted => "coordinator_restarted",
            Self::TimedOut => "timed_out",
            Self::Mixed => "mixed",
            Self::Denied => "denied",
            Self::PlanOutdated => "plan_outdated",
            Self::ServiceLevel => "service_level",
            Self::Replaced => "replaced",
        }
    }

    /// Would the same request, sent later under a new id, have a chance?
    #[must_use]
    pub const fn transient(self) -> bool {
        match self {
            Self::InsufficientCapacity
            | Self::NoRoute
            | Self::BudgetExhausted
            | Self::Unreachable
            | Self::Expired
            | Self::CoordinatorRestarted
            | Self::TimedOut
            | Self::Mixed
            | Self::PlanOutdated
            | Self::ServiceLevel => true,
            Self::BeyondCapacity
            | Self::UnknownResource
            | Self::OutsideHorizon
            | Self::Aborted
            | Self::Released
            | Self::Replaced
            | Self::Denied
            | Self::NotHeld => false,
        }
    }
}

/// Why something was refused, with what a person needs to act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The kind.
    pub reason: Reason,
    /// Who refused; `None` when it was the planner.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rm: Option<RmName>,
    /// What was short.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resource: Option<ResourceId>,
    /// When it was short.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub window: Option<Window>,
    /// How much was asked for, in the resource's unit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requested: Option<Amount>,
    /// How much was there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub available: Option<Amount>,
    /// One sentence for people.
    pub detail: String,
}

impl Refusal {
    /// A refusal of a kind with a sentence for people; the facts are added by struct update.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            rm: None,
            resource: None,
            window: None,
            requested: None,
            available: None,
            detail: detail.into(),
        }
    }

    /// The same refusal, said by an RM.
    #[must_use]
    pub fn at(mut self, rm: &RmName) -> Self {
        self.rm = Some(rm.clone());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rm) = &self.rm {
            write!(f, "{rm}: ")?;
        }
        f.write_str(&self.detail)
    }
}
