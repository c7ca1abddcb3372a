//! Turns the participant's records into events for those who watch bookings: one record is at most one event.
//!
//! The mapping is pure and independent of the present state: an event that is sent a year later is the same
//! event. What a record does not say (such as the segments of a booking that is released) is in the order of
//! its transaction, which never changes once it is held.

use std::collections::BTreeMap;

use coalloc_common::{CoordinatorName, Now, Refusal, Span, TransactionId};
use coalloc_ledger::Entry;
use coalloc_net::convert::{refusal_to_wire, segments_to_wire, span_to_wire, time_to_wire};
use coalloc_net::watch::Events;
use coalloc_proto::v1;
use coalloc_protocol::message::{Cause, HoldOrder};
use coalloc_protocol::participant::{Participant, ParticipantRecord, TransactionEnd};

/// Events for every state change of every transaction.
#[derive(Debug, Clone, Copy)]
pub struct BookingEvents;

/// The orders that were held, by transaction. A transaction that was never held has none.
pub type Orders = BTreeMap<TransactionId, HoldOrder>;

impl Events<Participant> for BookingEvents {
    type Message = v1::WatchBookingsResponse;
    type Facts = Orders;

    fn needs_facts(record: &ParticipantRecord) -> bool {
        unsaid(record).is_some()
    }

    fn facts(records: &[Entry<ParticipantRecord>], core: &Participant) -> Orders {
        let unsaid = records.iter().filter_map(|entry| unsaid(&entry.record));
        let order =
            |txn: &TransactionId| Some((txn.clone(), core.entries().get(txn)?.order.clone()?));
        unsaid.filter_map(order).collect()
    }

    fn event(
        &self,
        entry: &Entry<ParticipantRecord>,
        orders: &Orders,
        token: &dyn Fn() -> String,
    ) -> Option<v1::WatchBookingsResponse> {
        let change = change(&entry.record, orders)?;
        let event = v1::BookingEvent {
            sequence: entry.sequence,
            resume_token: token(),
            time: Some(time_to_wire(change.at.wall)),
            cause: cause(&change.cause),
            refusal: change.refusal.map(refusal_to_wire),
            booking: Some(change.booking),
        };
        let what = Some(v1::watch_bookings_response::What::Event(event));
        Some(v1::WatchBookingsResponse { what })
    }

    fn progress(&self, resume_token: String) -> v1::WatchBookingsResponse {
        let progress = v1::WatchProgress { resume_token };
        let what = Some(v1::watch_bookings_response::What::Progress(progress));
        v1::WatchBookingsResponse { what }
    }
}

/// The transaction whose order an event needs and the record leaves out.
const fn unsaid(record: &ParticipantRecord) -> Option<&TransactionId> {
    match record {
        ParticipantRecord::Booked { txn, .. } | ParticipantRecord::Ended { txn, .. } => Some(txn),
        ParticipantRecord::Opened { .. }
        | ParticipantRecord::Moved { .. }
        | ParticipantRecord::Held { .. }
        | ParticipantRecord::Refused { .. } => None,
    }
}

/// A state change.
struct Change<'a> {
    booking: v1::Booking,
    cause: Cause,
    refusal: Option<&'a Refusal>,
    at: Now,
}

/// The state change that a record describes; `None` when it is not about a transaction's state.
fn change<'a>(record: &'a ParticipantRecord, orders: &Orders) -> Option<Change<'a>> {
    use v1::BookingState as S;
    Some(match record {
        // How a booking is routed over the inner network is not disclosed.
        ParticipantRecord::Opened { .. } | ParticipantRecord::Moved { .. } => return None,
        ParticipantRecord::Held { order, hard, at, .. } => {
            let cause = Cause::Coordinator(order.coordinator.clone());
            let booking = booking(&order.txn, &order.coordinator, Some(order), S::Held);
            let booking = v1::Booking { expires_in: Some(expiry(*hard)), ..booking };
            Change { booking, cause, refusal: None, at: *at }
        }
        ParticipantRecord::Refused { order, refusal, at } => {
            let cause = Cause::Coordinator(order.coordinator.clone());
            let booking = booking(&order.txn, &order.coordinator, Some(order), S::Refused);
            Change { booking, cause, refusal: Some(refusal), at: *at }
        }
        ParticipantRecord::Booked { txn, by, at } => {
            let order = orders.get(txn);
            // What is booked was held before, so there is an order, which names the coordinator.
            let coordinator = order.map(|order| order.coordinator.clone());
            let coordinator = coordinator.unwrap_or_else(|| CoordinatorName::composed(""));
            let booking = booking(txn, &coordinator, order, S::Booked);
            Change { booking, cause: by.clone(), refusal: None, at: *at }
        }
        ParticipantRecord::Ended { txn, coordinator, ending, by, at } => {
            let state = match ending {
                TransactionEnd::Aborted => S::Aborted,
                TransactionEnd::Expired => S::Expired,
                TransactionEnd::Released => S::Released,
                TransactionEnd::Replaced => S::Replaced,
            };
            let booking = booking(txn, coordinator, orders.get(txn), state);
            Change { booking, cause: by.clone(), refusal: None, at: *at }
        }
    })
}

fn booking(
    txn: &TransactionId,
    coordinator: &CoordinatorName,
    order: Option<&HoldOrder>,
    state: v1::BookingState,
) -> v1::Booking {
    let segments = order.map(|order| segments_to_wire(None, &order.segments));
    v1::Booking {
        transaction: txn.to_string(),
        coordinator: coordinator.to_string(),
        user: order.map(|order| order.user.to_string()).unwrap_or_default(),
        state: state.into(),
        segments: segments.unwrap_or_default(),
        replaces: order
            .and_then(|order| order.replaces.as_ref())
            .map(ToString::to_string)
            .unwrap_or_default(),
        ..v1::Booking::default()
    }
}

fn expiry(hard: Span) -> coalloc_proto::Duration {
    span_to_wire(hard)
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
