//! Turns the participant's records into events for those who watch bookings: one record is at most one event.
//!
//! The mapping is pure and independent of the present state: an event that is sent a year later is the same
//! event. What a record does not say (such as the segments of a booking that is released) is in the order of
//! its transaction, which never changes once it is held.

use std::collections::BTreeMap;

use coalloc_common::{CoordinatorName, Identity, ResourceId, Role, TransactionId};
use coalloc_ledger::Entry;
use coalloc_net::convert::{booking_to_wire, data_plane_to_wire, span_to_wire};
use coalloc_net::resource_manager::{BookingChange, progress};
use coalloc_net::watch::Events;
use coalloc_proto::v1;
use coalloc_protocol::ProvenPeer;
use coalloc_protocol::message::{Cause, GrantedServers, HoldOrder};
use coalloc_protocol::participant::equipment::EquipmentState;
use coalloc_protocol::participant::{
    Participant, ParticipantRecord, TransactionEnd, granted_servers,
};

/// Events for every state change of every transaction.
#[derive(Debug, Clone, Copy)]
pub struct BookingEvents;

/// What was held, by transaction. A transaction that was never held has nothing.
pub type Orders = BTreeMap<TransactionId, (HoldOrder, Vec<GrantedServers>)>;

impl Events<Participant> for BookingEvents {
    type Message = v1::WatchBookingsResponse;
    type Facts = Orders;

    fn needs_facts(record: &ParticipantRecord) -> bool {
        unsaid(record).is_some()
    }

    fn facts(records: &[Entry<ParticipantRecord>], core: &Participant) -> Orders {
        let unsaid = records.iter().filter_map(|entry| unsaid(&entry.record));
        let order = |txn: &TransactionId| {
            let entry = core.entries().get(txn)?;
            Some((txn.clone(), (entry.order.clone()?, entry.granted_servers())))
        };
        unsaid.filter_map(order).collect()
    }

    fn event(
        &self,
        entry: &Entry<ParticipantRecord>,
        orders: &Orders,
        token: &dyn Fn() -> String,
    ) -> Option<v1::WatchBookingsResponse> {
        let mut change = change(&entry.record, orders)?;
        if let Some(operator) = entry.from.as_ref().and_then(operator) {
            change.cause = operator;
        }
        Some(change.into_event(entry.sequence, token()))
    }

    fn progress(&self, resume_token: String) -> v1::WatchBookingsResponse {
        progress(resume_token)
    }
}

/// Events of the equipment, for the coordinator of the bookings.
#[derive(Debug, Clone)]
pub struct EquipmentEvents {
    /// Only what is of its bookings.
    pub coordinator: CoordinatorName,
}

impl Events<Participant> for EquipmentEvents {
    type Message = v1::WatchEquipmentResponse;
    /// The coordinators of transactions.
    type Facts = BTreeMap<TransactionId, CoordinatorName>;

    fn needs_facts(record: &ParticipantRecord) -> bool {
        matches!(record, ParticipantRecord::Equipped { .. })
    }

    fn facts(records: &[Entry<ParticipantRecord>], core: &Participant) -> Self::Facts {
        let of = |entry: &Entry<ParticipantRecord>| match &entry.record {
            ParticipantRecord::Equipped { txn, .. } => {
                Some((txn.clone(), core.entries().get(txn)?.coordinator.clone()))
            }
            _ => None,
        };
        records.iter().filter_map(of).collect()
    }

    fn event(
        &self,
        entry: &Entry<ParticipantRecord>,
        coordinators: &Self::Facts,
        _: &dyn Fn() -> String,
    ) -> Option<v1::WatchEquipmentResponse> {
        let ParticipantRecord::Equipped { key, txn, state, .. } = &entry.record else {
            return None;
        };
        let is_own = coordinators.get(txn) == Some(&self.coordinator);
        let found = is_own.then(|| booking_data_plane(&key.resource, txn, state.as_ref()))?;
        let what = v1::watch_equipment_response::What::DataPlane(found);
        Some(v1::WatchEquipmentResponse { what: Some(what) })
    }

    fn progress(&self, resume_token: String) -> v1::WatchEquipmentResponse {
        let progress = v1::WatchProgress { resume_token };
        let what = v1::watch_equipment_response::What::Progress(progress);
        v1::WatchEquipmentResponse { what: Some(what) }
    }
}

/// All that the equipment has of the bookings of a coordinator.
pub(crate) fn equipment_of(
    participant: &Participant,
    coordinator: &CoordinatorName,
) -> Vec<v1::BookingDataPlane> {
    let states = participant.equipment_states().iter();
    let own = states.filter(|(_, state)| {
        let entry = participant.entries().get(&state.version);
        entry.is_some_and(|entry| entry.coordinator == *coordinator)
    });
    own.map(|(key, state)| booking_data_plane(&key.resource, &state.version, Some(state))).collect()
}

fn booking_data_plane(
    resource: &ResourceId,
    txn: &TransactionId,
    state: Option<&EquipmentState>,
) -> v1::BookingDataPlane {
    let nothing = || v1::DataPlane { resource: resource.to_string(), ..v1::DataPlane::default() };
    let has = |state| data_plane_to_wire(resource, txn, Some(state));
    v1::BookingDataPlane {
        transaction: txn.to_string(),
        data_plane: Some(state.map_or_else(nothing, has)),
    }
}

/// The cause of a change that an operator has made in the name of a coordinator (I21).
fn operator(from: &ProvenPeer) -> Option<String> {
    let identity = Identity::parse("peer", &from.peer).ok()?;
    (identity.role == Role::Operator).then(|| format!("operator {identity}"))
}

/// The transaction whose order an event needs and the record leaves out.
const fn unsaid(record: &ParticipantRecord) -> Option<&TransactionId> {
    match record {
        ParticipantRecord::Booked { txn, .. }
        | ParticipantRecord::Ended { txn, .. }
        | ParticipantRecord::ClaimRefused { txn, .. }
        | ParticipantRecord::Equipped { txn, .. } => Some(txn),
        ParticipantRecord::Opened { .. }
        | ParticipantRecord::Moved { .. }
        | ParticipantRecord::Held { .. }
        | ParticipantRecord::Refused { .. }
        | ParticipantRecord::Claimed { .. }
        | ParticipantRecord::LeaderChanged { .. }
        | ParticipantRecord::Forgotten { .. } => None,
    }
}

/// The state change that a record describes; `None` when it is not about a transaction's state.
fn change(record: &ParticipantRecord, orders: &Orders) -> Option<BookingChange> {
    use v1::BookingState as S;
    let of_coordinator = |order: &HoldOrder, servers: &[GrantedServers], state| {
        let booking = booking_to_wire(&order.txn, &order.coordinator, Some(order), servers, state);
        (booking, cause(&Cause::Coordinator(order.coordinator.clone())))
    };
    // What is booked or claimed was held before, so there is an order, which names the coordinator.
    let of = |order: Option<&HoldOrder>| {
        let coordinator = order.map(|order| order.coordinator.clone());
        coordinator.unwrap_or_else(|| CoordinatorName::composed(""))
    };
    Some(match record {
        // How a booking is routed over the inner network is not disclosed; and what is forgotten had ended before. That a
        // hold is claimed is no news to those who know that it is held.
        ParticipantRecord::Opened { .. }
        | ParticipantRecord::Claimed { .. }
        | ParticipantRecord::Moved { .. }
        | ParticipantRecord::LeaderChanged { .. }
        | ParticipantRecord::Forgotten { .. } => return None,
        ParticipantRecord::Held { order, hard, at, servers, .. } => {
            let servers = granted_servers(&order.segments, servers);
            let (booking, cause) = of_coordinator(order, &servers, S::Held);
            let booking = v1::Booking { expires_in: Some(span_to_wire(*hard)), ..booking };
            BookingChange { booking, cause, refusal: None, data_plane: None, at: *at }
        }
        ParticipantRecord::Refused { order, refusal, at, .. } => {
            let (booking, cause) = of_coordinator(order, &[], S::Refused);
            let refusal = Some(refusal.clone());
            BookingChange { booking, cause, refusal, data_plane: None, at: *at }
        }
        ParticipantRecord::Booked { txn, by, at } => {
            let (order, servers) = held(orders, txn);
            let booking = booking_to_wire(txn, &of(order), order, servers, S::Booked);
            BookingChange { booking, cause: cause(by), refusal: None, data_plane: None, at: *at }
        }
        ParticipantRecord::ClaimRefused { txn, refusal, at } => {
            let (order, servers) = held(orders, txn);
            let booking = booking_to_wire(txn, &of(order), order, servers, S::Refused);
            let (cause, refusal) = ("equipment".to_owned(), Some(refusal.clone()));
            BookingChange { booking, cause, refusal, data_plane: None, at: *at }
        }
        ParticipantRecord::Equipped { key, txn, state, at } => {
            let (order, servers) = held(orders, txn);
            let booking = booking_to_wire(txn, &of(order), order, servers, S::Unspecified);
            let data_plane = Some(data_plane_to_wire(&key.resource, txn, state.as_ref()));
            let cause = "equipment".to_owned();
            BookingChange { booking, cause, refusal: None, data_plane, at: *at }
        }
        ParticipantRecord::Ended { txn, coordinator, ending, by, at } => {
            let (order, servers) = held(orders, txn);
            let booking = booking_to_wire(txn, coordinator, order, servers, ended(*ending));
            BookingChange { booking, cause: cause(by), refusal: None, data_plane: None, at: *at }
        }
    })
}

/// What a transaction has held, and its servers.
fn held<'a>(
    orders: &'a Orders,
    txn: &TransactionId,
) -> (Option<&'a HoldOrder>, &'a [GrantedServers]) {
    orders.get(txn).map_or((None, &[]), |(order, servers)| (Some(order), servers))
}

/// The state of a booking that has ended.
pub(crate) const fn ended(ending: TransactionEnd) -> v1::BookingState {
    match ending {
        TransactionEnd::Aborted => v1::BookingState::Aborted,
        TransactionEnd::Expired => v1::BookingState::Expired,
        TransactionEnd::Released => v1::BookingState::Released,
        TransactionEnd::Replaced => v1::BookingState::Replaced,
    }
}

/// Who caused a change, in the words of the schema.
fn cause(cause: &Cause) -> String {
    match cause {
        Cause::Coordinator(name) => format!("coordinator {name}"),
        Cause::Resolve(name) => format!("coordinator {name}, when it was asked"),
        Cause::ResourceManager(name) => format!("resource manager {name}"),
        Cause::User(name) => format!("user {name}"),
        Cause::Expiry => "expiry".to_owned(),
        Cause::Restart => "restart".to_owned(),
    }
}
