//! Holds and their answers, and transactions as bookings, from and to the wire.
//!
//! Left out: what a resource manager does with a Hold. Source: the ResourceManager service in `coalloc_proto`.

use coalloc_common::{CoordinatorName, InvalidField, ResourceId, RmName, TransactionId, limits};
use coalloc_proto::v1;
use coalloc_protocol::message::{Answer, GrantedServers, HoldOrder};
use coalloc_protocol::participant::equipment::{EquipmentState, Stage};

use super::{
    granted_from_wire, granted_to_wire, refusal_from_wire, segments_from_wire, segments_to_wire,
    span_from_wire, span_to_wire, time_to_wire, user_name, wish_from_wire, wish_to_wire,
};

/// Reads a Hold.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong.
pub fn hold_from_wire(wire: &v1::HoldRequest) -> Result<HoldOrder, InvalidField> {
    let hold_for = wire.hold_for.as_ref();
    let hold_for = hold_for.map(|span| span_from_wire("hold_for", span)).transpose()?;
    let (low, high) = (limits::HOLD_SOFT_MIN, limits::HOLD_SOFT_MAX);
    if let Some(span) = hold_for.filter(|span| !(low..=high).contains(span)) {
        return Err(InvalidField::new("hold_for", span, format!("{low} to {high}")));
    }
    let replaces = replaced_from_wire(&wire.replaces)?;
    if wire.one_way && replaces.is_some() {
        let allowed = "false with `replaces`: a change is held, then committed";
        return Err(InvalidField::new("one_way", true, allowed));
    }
    if wire.keeps_old && replaces.is_none() {
        let allowed = "false without `replaces`: there is nothing old to keep";
        return Err(InvalidField::new("keeps_old", true, allowed));
    }
    let segments = match (&replaces, wire.segments.is_empty()) {
        // The new version needs nothing here any more.
        (Some(_), true) => Vec::new(),
        _ => segments_from_wire("segments", &wire.segments)?,
    };
    let txn = TransactionId::parse("transaction", &wire.transaction)?;
    // The attempt of the Hold itself is open.
    let attempt = txn.counted().map_or(0, |(_, attempt)| attempt);
    if wire.oldest_open > attempt {
        let allowed = format!("0 to {attempt}, the attempt of `transaction`");
        return Err(InvalidField::new("oldest_open", wire.oldest_open, allowed));
    }
    Ok(HoldOrder {
        txn,
        coordinator: CoordinatorName::parse("coordinator", &wire.coordinator)?,
        user: user_name("user", &wire.user)?,
        segments,
        hold_for,
        replaces,
        keeps_old: wire.keeps_old,
        one_way: wire.one_way,
        servers: wish_from_wire("servers", wire.servers.as_ref())?,
        manual_provision: wire.manual_provision,
    })
}

/// The Hold that goes to this resource manager, with the oldest open attempt of its coordinator, and the epoch in which its
/// sender leads.
#[must_use]
pub fn hold_to_wire(
    rm: &RmName,
    order: &HoldOrder,
    oldest_open: u64,
    coordinator_epoch: u64,
) -> v1::HoldRequest {
    v1::HoldRequest {
        transaction: order.txn.to_string(),
        coordinator: order.coordinator.to_string(),
        user: order.user.to_string(),
        segments: segments_to_wire(None, &order.segments),
        hold_for: order.hold_for.map(span_to_wire),
        resource_manager: rm.to_string(),
        replaces: order.replaces.as_ref().map(ToString::to_string).unwrap_or_default(),
        keeps_old: order.keeps_old,
        one_way: order.one_way,
        servers: order.servers.as_ref().map(wish_to_wire),
        oldest_open,
        coordinator_epoch,
        manual_provision: order.manual_provision,
    }
}

/// Reads the transaction that a hold or a query replaces; an empty text means none.
///
/// # Errors
/// [`InvalidField`] when the text is no transaction.
pub fn replaced_from_wire(wire: &str) -> Result<Option<TransactionId>, InvalidField> {
    match wire {
        "" => Ok(None),
        wire => TransactionId::parse("replaces", wire).map(Some),
    }
}

/// Reads the answer to a Hold; `None` when it says nothing that can be read.
#[must_use]
pub fn hold_answer_from_wire(wire: v1::HoldResponse) -> Option<Answer> {
    use v1::hold_response::Answer as Wire;
    match wire.answer? {
        Wire::Held(held) => {
            let expires_in = span_from_wire("expires_in", &held.expires_in?).ok()?;
            let servers = granted_from_wire("servers", &held.servers).ok()?;
            Some(Answer::Held { expires_in, servers })
        }
        Wire::Refused(refusal) => Some(end_answer_from_wire(Some(&refusal))),
    }
}

/// Reads the answer to Commit, Abort or Release: nothing, or a refusal.
#[must_use]
pub fn end_answer_from_wire(refused: Option<&v1::Refusal>) -> Answer {
    match refused {
        None => Answer::Done,
        Some(refusal) if refusal.reason() == v1::Reason::Denied => Answer::Denied,
        // Any other answer is a refusal, even if this version does not know its reason.
        Some(refusal) => Answer::Refused(refusal_from_wire(refusal)),
    }
}

/// The wire form of a transaction as a booking. `order` is its Hold; `None` if no Hold was accepted. `servers` are
/// those that it has at by-server sites.
#[must_use]
pub fn booking_to_wire(
    txn: &TransactionId,
    coordinator: &CoordinatorName,
    order: Option<&HoldOrder>,
    servers: &[GrantedServers],
    state: v1::BookingState,
) -> v1::Booking {
    let replaces = order.and_then(|order| order.replaces.as_ref());
    let segments = order.map(|order| segments_to_wire(None, &order.segments));
    v1::Booking {
        transaction: txn.to_string(),
        coordinator: coordinator.to_string(),
        user: order.map(|order| order.user.to_string()).unwrap_or_default(),
        state: state.into(),
        segments: segments.unwrap_or_default(),
        expires_in: None,
        replaces: replaces.map(ToString::to_string).unwrap_or_default(),
        servers: granted_to_wire(None, servers),
        data_plane: Vec::new(),
    }
}

/// What the equipment has of a resource for a booking. `of` is the version of the booking that is shown, and `state` is `None` when nothing
/// is there any more.
#[must_use]
pub fn data_plane_to_wire(
    resource: &ResourceId,
    of: &TransactionId,
    state: Option<&EquipmentState>,
) -> v1::DataPlane {
    use v1::ProvisionState as P;
    let stage = state.and_then(|state| state.stage);
    let has_trouble = state.is_some_and(|state| state.trouble.is_some());
    let (provision_state, amount) = match stage {
        Some(Stage::Claimed) => (P::Released, None),
        Some(Stage::Granted) => (P::Provisioned, None),
        Some(Stage::Active(amount)) => (P::Provisioned, Some(amount)),
        None if has_trouble => (P::Provisioning, None),
        None => (P::Released, None),
    };
    let version = state.map_or(of, |state| &state.version);
    v1::DataPlane {
        resource: resource.to_string(),
        provision_state: provision_state.into(),
        active: amount.is_some(),
        amount: amount.map_or(0, |amount| amount.0),
        version: version.to_string(),
        version_consistent: version == of,
        handle: state.map(|state| state.reference.clone()).unwrap_or_default(),
        trouble: state.and_then(|state| state.trouble.clone()).unwrap_or_default(),
        since: state.map(|state| time_to_wire(state.since)),
        resource_manager: String::new(),
        unusable: state
            .map(|state| state.unusable.iter().map(ToString::to_string).collect())
            .unwrap_or_default(),
    }
}
