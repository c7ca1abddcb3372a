//! Refusals, from and to the wire.

use coalloc_common::{
    Amount, Bottleneck, BottleneckKind, CoordinatorName, Reason, Refusal, ResourceId, ResourceKind,
    RmName, TransactionId,
};
use coalloc_proto::v1;

use super::{window_from_wire, window_to_wire};

const REASONS: [(Reason, v1::Reason); 22] = [
    (Reason::InsufficientCapacity, v1::Reason::InsufficientCapacity),
    (Reason::BeyondCapacity, v1::Reason::BeyondCapacity),
    (Reason::UnknownResource, v1::Reason::UnknownResource),
    (Reason::OutsideHorizon, v1::Reason::OutsideHorizon),
    (Reason::NoRoute, v1::Reason::NoRoute),
    (Reason::BudgetExhausted, v1::Reason::BudgetExhausted),
    (Reason::Unreachable, v1::Reason::Unreachable),
    (Reason::Aborted, v1::Reason::Aborted),
    (Reason::Expired, v1::Reason::Expired),
    (Reason::Released, v1::Reason::Released),
    (Reason::NotHeld, v1::Reason::NotHeld),
    (Reason::CoordinatorRestarted, v1::Reason::CoordinatorRestarted),
    (Reason::TimedOut, v1::Reason::TimedOut),
    (Reason::Mixed, v1::Reason::Mixed),
    (Reason::Denied, v1::Reason::Denied),
    (Reason::PlanOutdated, v1::Reason::PlanOutdated),
    (Reason::ServiceLevel, v1::Reason::ServiceLevel),
    (Reason::Replaced, v1::Reason::Replaced),
    (Reason::DiskFull, v1::Reason::DiskFull),
    (Reason::Quota, v1::Reason::Quota),
    (Reason::Unsupported, v1::Reason::Unsupported),
    (Reason::Equipment, v1::Reason::Equipment),
];

const KINDS: [(BottleneckKind, v1::BottleneckKind); 9] = [
    (BottleneckKind::Site, v1::BottleneckKind::Site),
    (BottleneckKind::Sites, v1::BottleneckKind::Sites),
    (BottleneckKind::Path, v1::BottleneckKind::Path),
    (BottleneckKind::Cut, v1::BottleneckKind::Cut),
    (BottleneckKind::Length, v1::BottleneckKind::Length),
    (BottleneckKind::Latency, v1::BottleneckKind::Latency),
    (BottleneckKind::Paths, v1::BottleneckKind::Paths),
    (BottleneckKind::Packing, v1::BottleneckKind::Packing),
    (BottleneckKind::Combination, v1::BottleneckKind::Combination),
];

fn bottleneck_to_wire(bottleneck: &Bottleneck) -> v1::Bottleneck {
    let kind = KINDS.iter().find(|(ours, _)| *ours == bottleneck.kind);
    v1::Bottleneck {
        kind: kind.map_or(v1::BottleneckKind::Unspecified, |(_, wire)| *wire).into(),
        demands: bottleneck.demands.clone(),
        resources: bottleneck.resources.clone(),
        requested: bottleneck.requested,
        available: bottleneck.available,
        resource_kind: bottleneck.resource_kind.map_or("", ResourceKind::word).to_owned(),
    }
}

/// Reads a bottleneck. If this version does not know its kind, the refusal counts without the bottleneck.
fn bottleneck_from_wire(wire: &v1::Bottleneck) -> Option<Box<Bottleneck>> {
    let (kind, _) = KINDS.iter().find(|(_, theirs)| i32::from(*theirs) == wire.kind)?;
    Some(Box::new(Bottleneck {
        kind: *kind,
        demands: wire.demands.clone(),
        resources: wire.resources.clone(),
        requested: wire.requested,
        available: wire.available,
        resource_kind: match wire.resource_kind.as_str() {
            "" => None,
            // The numbers of a kind that this version does not know would be shown in the wrong unit.
            word => Some(ResourceKind::parse_other("resource_kind", word).ok()?),
        },
    }))
}

/// The wire form of a refusal.
#[must_use]
pub fn refusal_to_wire(refusal: &Refusal) -> v1::Refusal {
    let reason = REASONS
        .iter()
        .find(|(ours, _)| *ours == refusal.reason)
        .map_or(v1::Reason::Unspecified, |(_, wire)| *wire);
    v1::Refusal {
        reason: reason.into(),
        resource_manager: refusal.rm.as_ref().map(ToString::to_string).unwrap_or_default(),
        resource: refusal.resource.as_ref().map(ToString::to_string).unwrap_or_default(),
        window: refusal.window.map(window_to_wire),
        requested: refusal.requested.map(|amount| amount.0),
        available: refusal.available.map(|amount| amount.0),
        detail: refusal.detail.clone(),
        transient: refusal.reason.transient(),
        nsi_error: refusal
            .reason
            .nsi_error()
            .map(|error| error.number_and_name().0.to_owned())
            .unwrap_or_default(),
        bottleneck: refusal.bottleneck.as_deref().map(bottleneck_to_wire),
    }
}

/// The refusal of a message about a transaction that this coordinator may not send.
#[must_use]
pub fn denial(rm: &str, txn: &TransactionId, coordinator: &CoordinatorName) -> v1::Refusal {
    let detail = format!(
        "coordinator {coordinator} may not act on {txn} here: it is not configured here, or the \
         transaction is not its own (an id is COORDINATOR-TAG-NUMBER/ATTEMPT); nothing is held or \
         booked for it here under this id"
    );
    let refusal = Refusal::new(Reason::Denied, detail);
    v1::Refusal { resource_manager: rm.to_owned(), ..refusal_to_wire(&refusal) }
}

/// Reads a refusal from another daemon. It stays a refusal whatever it says: a reason that this version does
/// not know becomes [`Reason::Unknown`], and an invalid name or window is left out.
#[must_use]
pub fn refusal_from_wire(wire: &v1::Refusal) -> Refusal {
    let known = REASONS.iter().find(|(_, theirs)| i32::from(*theirs) == wire.reason);
    let reason = known.map_or(Reason::Unknown, |(ours, _)| *ours);
    let rm = RmName::parse("refused.resource_manager", &wire.resource_manager).ok();
    let resource = ResourceId::parse("refused.resource", &wire.resource).ok();
    let window = window_from_wire("refused.window", wire.window.as_ref()).ok();
    Refusal {
        reason,
        rm,
        resource,
        window,
        requested: wire.requested.map(Amount),
        available: wire.available.map(Amount),
        detail: wire.detail.chars().take(1_000).collect(),
        bottleneck: wire.bottleneck.as_ref().and_then(bottleneck_from_wire),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bottleneck_goes_there_and_back_with_its_nsi_number() {
        for (kind, wire_kind) in KINDS {
            let bottleneck = Bottleneck {
                kind,
                demands: vec!["a-b".to_owned()],
                resources: vec!["A-X1".to_owned(), "X1-B".to_owned()],
                requested: 2,
                available: 1,
                resource_kind: Some(ResourceKind::Storage),
            };
            let refusal = Refusal {
                bottleneck: Some(Box::new(bottleneck)),
                ..Refusal::new(Reason::NoRoute, "because")
            };
            let wire = refusal_to_wire(&refusal);
            assert_eq!(wire.nsi_error, "00710");
            assert_eq!(wire.bottleneck.as_ref().unwrap().kind(), wire_kind);
            assert_eq!(refusal_from_wire(&wire), refusal);
        }
        assert!(v1::BottleneckKind::try_from(KINDS.len() as i32).is_ok());
        assert!(v1::BottleneckKind::try_from(KINDS.len() as i32 + 1).is_err());
    }

    #[test]
    fn a_refusal_that_is_not_understood_is_a_refusal() {
        let newer = v1::Refusal {
            reason: 4_711,
            resource_manager: "not a name".to_owned(),
            resource: "neither".repeat(100),
            window: Some(v1::Window::default()),
            detail: "because of something new".to_owned(),
            ..v1::Refusal::default()
        };
        let taken = refusal_from_wire(&newer);
        assert_eq!(taken, Refusal::new(Reason::Unknown, "because of something new"));
        assert_eq!(refusal_to_wire(&taken).reason(), v1::Reason::Unspecified);
    }

    #[test]
    fn every_reason_goes_there_and_back() {
        for (reason, _) in REASONS {
            let refusal = Refusal {
                requested: Some(Amount(8)),
                available: Some(Amount(0)),
                ..Refusal::new(reason, "because")
            };
            assert_eq!(refusal_from_wire(&refusal_to_wire(&refusal)), refusal);
        }
        // All values of the schema except UNSPECIFIED are in the table.
        assert!(v1::Reason::try_from(REASONS.len() as i32).is_ok());
        assert!(v1::Reason::try_from(REASONS.len() as i32 + 1).is_err());
    }
}
