//! Why something was not reserved. A refusal is an answer and not an error: it is recorded, replayed
//! and sent like any other value, and the same request always gets the same refusal.
//!
//! Left out: the sentences, which those who refuse write, and errors of bad input, see
//! [`InvalidField`](crate::InvalidField).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::id::{ResourceId, RmName};
use crate::kind::ResourceKind;
use crate::time::Window;

/// The kind of a refusal. The enum is closed, so that every place that answers must handle every
/// reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// At some instant of the window, less is free than was asked for.
    InsufficientCapacity,
    /// More was asked for than the resource, or the whole federation, has when nothing is booked.
    BeyondCapacity,
    /// The RM has no resource of that name.
    UnknownResource,
    /// The window starts in the past or ends beyond the RM's horizon.
    OutsideHorizon,
    /// Every site fits, but no paths join the sites at the requested rates, latencies and lengths.
    NoRoute,
    /// The planner's budget ended before it found a plan or proved that there is none.
    BudgetExhausted,
    /// RMs that the request needs did not answer in time.
    Unreachable,
    /// The transaction was aborted before (a tombstone): a late Hold or Commit gets this reason.
    Aborted,
    /// The hold expired before the Commit arrived.
    Expired,
    /// The booking was released.
    Released,
    /// The RM knows no hold of that transaction.
    NotHeld,
    /// The coordinator stopped before it decided; nothing is reserved.
    CoordinatorRestarted,
    /// Not all holds came in time, or some expired before the decision.
    TimedOut,
    /// Some bookings were made and others were refused; those that were made have been released.
    Mixed,
    /// The RM does not accept messages from this coordinator.
    Denied,
    /// The plan with the requested digest can no longer be made.
    PlanOutdated,
    /// Enough is free, but the service level of the user allows only a share of it.
    ServiceLevel,
    /// A newer version has replaced the booking.
    Replaced,
    /// The disk of the node that refuses is nearly full: the remaining space is reserved for what has
    /// begun (I17).
    DiskFull,
    /// A quota of the coordinator or of the user is used up. The detail names the quota, and what is used and
    /// left of it.
    Quota,
    /// An RM that the plan needs runs a release that would not carry out the request as it is meant.
    Unsupported,
    /// The equipment behind the RM says no, or cannot be reached.
    Equipment,
    /// A newer release refused for a reason that this release does not know; the refusal's sentence
    /// states it.
    Unknown,
}

impl Reason {
    /// The word for this reason in records and in metrics.
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
            Self::Quota => "quota",
            Self::Unsupported => "unsupported",
            Self::Equipment => "equipment",
            Self::Unknown => "unknown",
        }
    }

    /// Could the same request, sent later under a new id, succeed?
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
            | Self::DiskFull
            | Self::Unsupported
            | Self::Equipment
            | Self::Quota => true,
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

/// An error of the NSI Connection Service 2.1, by its number in GFD.235, "Error Handling in NSI CS
/// 2.1".
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
    /// All of these errors, in the order of their numbers. Errors of GFD.235 that Coalloc never uses
    /// are left out.
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

    /// Number and name, as GFD.235 prints them.
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
    /// The NSI error with the same meaning.
    #[must_use]
    pub const fn nsi_error(self) -> Option<NsiError> {
        Some(match self {
            Self::InsufficientCapacity | Self::BeyondCapacity | Self::ServiceLevel => {
                NsiError::CapacityUnavailable
            }
            Self::UnknownResource => NsiError::UnknownStp,
            Self::OutsideHorizon | Self::Unsupported => NsiError::UnsupportedParameter,
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
            Self::PlanOutdated | Self::DiskFull | Self::Quota | Self::Equipment | Self::Unknown => {
                NsiError::GenericResourceUnavailable
            }
        })
    }
}

/// Which kind of resource was short, and so what the numbers of a [`Bottleneck`] count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BottleneckKind {
    /// One site, to which the request is pinned. The numbers are CPUs, or amounts of
    /// [`Bottleneck::resource_kind`].
    Site,
    /// Several demands, each of which needs a site of its own: fewer sites have enough for them.
    /// Both numbers count sites.
    Sites,
    /// One path, which all of the demands have to take. The numbers are bit/s.
    Path,
    /// Several paths that together separate the ends of the demands; `available` is their sum. The
    /// numbers are bit/s.
    Cut,
    /// No chain of paths has few enough paths. Both numbers count paths.
    Length,
    /// No chain of paths has a low enough latency. The numbers are microseconds.
    Latency,
    /// Several paths, one of which must carry the whole demand; `available` is the widest of them. The
    /// numbers are bit/s.
    Paths,
    /// Several paths that together can carry too few of the demands, because a link cannot be split.
    /// Both numbers count demands, each taken at the rate of the smallest. Rates are in bit/s.
    Packing,
    /// Each demand fits alone, but all of them together do not. If the resources had what is requested
    /// of them, the request would fit. The numbers are sums, in bit/s.
    Combination,
}

/// What was short in one frame: the `demands` need `requested` of the `resources`, and only
/// `available`, which is less, is there. `plan::explain::check` proves or disproves a bottleneck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// The kind of resource that is short, which says what the numbers count.
    pub kind: BottleneckKind,
    /// The request's sites or links (`a`, `a-b`) that cannot be served.
    pub demands: Vec<String>,
    /// The resources that are short: sites or paths.
    pub resources: Vec<String>,
    /// How much the demands need of them.
    pub requested: u64,
    /// How much of them is free.
    pub available: u64,
    /// The further kind of resource that sites are short of. `None`: what `kind` says, or several kinds together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resource_kind: Option<ResourceKind>,
}

/// Why something was refused, with the facts that a person needs to act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The kind of the refusal.
    pub reason: Reason,
    /// The RM that refused; `None` when the planner did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rm: Option<RmName>,
    /// The resource that was short.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resource: Option<ResourceId>,
    /// The window in which it was short.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub window: Option<Window>,
    /// The requested amount, in the resource's unit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requested: Option<Amount>,
    /// The amount that was free, in the resource's unit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub available: Option<Amount>,
    /// One sentence for people.
    pub detail: String,
    /// What was short, if it was proven.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bottleneck: Option<Box<Bottleneck>>,
}

impl Refusal {
    /// A refusal with a reason and a sentence for people. Callers add the facts with struct update
    /// syntax.
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

    /// The same refusal, marked as coming from an RM.
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
            resource_kind: None,
        };
        let new = Refusal { bottleneck: Some(Box::new(bottleneck)), ..read };
        let text = serde_json::to_string(&new).unwrap();
        assert_eq!(serde_json::from_str::<Refusal>(&text).unwrap(), new);
    }
}
