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
    /// The disk of whoever refuses is nearly full: the room that is left is for what has begun (I17).
    DiskFull,
    /// A newer release refused for a reason that this one does not know; its sentence says which.
    Unknown,
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
            Self::DiskFull => "disk_full",
            Self::Unknown => "unknown",
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
            | Self::ServiceLevel
            | Self::DiskFull => true,
            Self::BeyondCapacity
            | Self::UnknownResource
            | Self::OutsideHorizon
            | Self::Aborted
            | Self::Released
            | Self::Replaced
            | Self::Denied
            | Self::NotHeld
            | Self::Unknown => false,
        }
    }
}

/// An error of NSI Connection Service 2.1, by its number in GFD.235, "Error Handling in NSI CS 2.1".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum NsiError {
    UnsupportedParameter,
    InvalidTransition,
    ReservationNonexistent,
    Unauthorized,
    GenericMetadataError,
    GenericInternalError,
    ChildSegmentError,
    MessageDeliveryError,
    GenericResourceUnavailable,
    UnknownStp,
    CapacityUnavailable,
    NoTransportplanePathFound,
}

impl NsiError {
    /// Every error there is a use for.
    pub const ALL: [Self; 12] = [
        Self::UnsupportedParameter,
        Self::InvalidTransition,
        Self::ReservationNonexistent,
        Self::Unauthorized,
        Self::GenericMetadataError,
        Self::GenericInternalError,
        Self::ChildSegmentError,
        Self::MessageDeliveryError,
        Self::GenericResourceUnavailable,
        Self::UnknownStp,
        Self::CapacityUnavailable,
        Self::NoTransportplanePathFound,
    ];

    /// Number and name, as the document has them.
    #[must_use]
    pub const fn number_and_name(self) -> (&'static str, &'static str) {
        match self {
            Self::UnsupportedParameter => ("00102", "UNSUPPORTED_PARAMETER"),
            Self::InvalidTransition => ("00201", "INVALID_TRANSITION"),
            Self::ReservationNonexistent => ("00203", "RESERVATION_NONEXISTENT"),
            Self::Unauthorized => ("00302", "UNAUTHORIZED"),
            Self::GenericMetadataError => ("00400", "GENERIC_METADATA_ERROR"),
            Self::GenericInternalError => ("00500", "GENERIC_INTERNAL_ERROR"),
            Self::ChildSegmentError => ("00502", "CHILD_SEGMENT_ERROR"),
            Self::MessageDeliveryError => ("00503", "MESSAGE_DELIVERY_ERROR"),
            Self::GenericResourceUnavailable => ("00600", "GENERIC_RESOURCE_UNAVAILABLE"),
            Self::UnknownStp => ("00701", "UNKNOWN_STP"),
            Self::CapacityUnavailable => ("00705", "CAPACITY_UNAVAILABLE"),
            Self::NoTransportplanePathFound => ("00710", "NO_TRANSPORTPLANE_PATH_FOUND"),
        }
    }
}

impl Reason {
    /// The NSI error that says the same, where one does.
    #[must_use]
    pub const fn nsi_error(self) -> Option<NsiError> {
        Some(match self {
            Self::InsufficientCapacity | Self::BeyondCapacity | Self::ServiceLevel => {
                NsiError::CapacityUnavailable
            }
            Self::UnknownResource => NsiError::UnknownStp,
            Self::OutsideHorizon => NsiError::UnsupportedParameter,
            Self::NoRoute => NsiError::NoTransportplanePathFound,
            Self::BudgetExhausted => NsiError::GenericMetadataError,
            Self::Unreachable => NsiError::MessageDeliveryError,
            Self::Aborted | Self::Expired | Self::Released | Self::Replaced => {
                NsiError::InvalidTransition
            }
            Self::NotHeld => NsiError::ReservationNonexistent,
            Self::CoordinatorRestarted => NsiError::GenericInternalError,
            Self::TimedOut | Self::Mixed => NsiError::ChildSegmentError,
            Self::Denied => NsiError::Unauthorized,
            Self::PlanOutdated | Self::DiskFull | Self::Unknown => {
                NsiError::GenericResourceUnavailable
            }
        })
    }
}

/// What kind of thing was short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BottleneckKind {
    /// One site, which the request is pinned to. CPUs.
    Site,
    /// The sites together: fewer have as many CPUs as these demands need, each a site of its own. Both
    /// numbers count sites.
    Sites,
    /// One path, which all of the demands have to take. bit/s.
    Path,
    /// Several paths that part the demands' ends; `available` is their sum. bit/s.
    Cut,
    /// No chain of paths is short enough. Both numbers count paths.
    Length,
    /// No chain of paths is fast enough. Microseconds.
    Latency,
    /// Several paths, one of which the demand has to take whole; `available` is the widest. bit/s.
    Paths,
    /// Several paths that together can carry too few of the demands, because a link is not split: both
    /// numbers count demands at the rate of the least of them. bit/s.
    Packing,
    /// Each part fits, only all together not: were the resources to have what is requested, the
    /// request would fit. Sums, bit/s.
    Combination,
}

/// What bound in one frame: `requested` of `resources` was asked by `demands`, and only `available`,
/// which is less, is there. `plan::explain::check` proves or disproves one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Of what kind; says what the numbers count.
    pub kind: BottleneckKind,
    /// The request's sites or links (`a`, `a-b`) that cannot be served.
    pub demands: Vec<String>,
    /// The resources that bind: sites, paths.
    pub resources: Vec<String>,
    /// What is asked of them.
    pub requested: u64,
    /// What there is.
    pub available: u64,
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
    /// What bound, where that was proven.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bottleneck: Option<Box<Bottleneck>>,
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
            bottleneck: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nsi_numbers_are_those_of_gfd_235_and_each_once() {
        let numbers: Vec<&str> = NsiError::ALL.iter().map(|e| e.number_and_name().0).collect();
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(numbers, sorted, "in order, none twice");
        assert!(numbers.iter().all(|n| n.len() == 5 && n.starts_with("00")));
        let of = |reason: Reason| reason.nsi_error().map(|error| error.number_and_name());
        let cases = [
            (Reason::InsufficientCapacity, ("00705", "CAPACITY_UNAVAILABLE")),
            (Reason::NoRoute, ("00710", "NO_TRANSPORTPLANE_PATH_FOUND")),
            (Reason::UnknownResource, ("00701", "UNKNOWN_STP")),
            (Reason::Denied, ("00302", "UNAUTHORIZED")),
            (Reason::NotHeld, ("00203", "RESERVATION_NONEXISTENT")),
            (Reason::Expired, ("00201", "INVALID_TRANSITION")),
        ];
        for (reason, expected) in cases {
            assert_eq!(of(reason), Some(expected), "{reason:?}");
        }
    }

    #[test]
    fn a_refusal_of_before_there_were_bottlenecks_is_read() {
        let old = r#"{"reason":"no_route","detail":"no way"}"#;
        let read: Refusal = serde_json::from_str(old).unwrap();
        assert_eq!(read, Refusal::new(Reason::NoRoute, "no way"));
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
        let bottleneck = Bottleneck {
            kind: BottleneckKind::Path,
            demands: vec!["a-b".to_owned()],
            resources: vec!["A-B".to_owned()],
            requested: 2,
            available: 1,
        };
        let new = Refusal { bottleneck: Some(Box::new(bottleneck)), ..read };
        let text = serde_json::to_string(&new).unwrap();
        assert_eq!(serde_json::from_str::<Refusal>(&text).unwrap(), new);
    }
}
