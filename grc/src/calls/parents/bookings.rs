//! The transactions of parent coordinators as bookings: listed in their present state, and their changes reported to
//! those who watch, as an RM lists and reports its own.
//!
//! One record of the coordinator makes at most one event. An event also needs facts that its record does not hold:
//! whose transaction it is, what was wanted, and of a transaction that failed, why, and whether it was ever promised.
//! These facts never change once the record is written.

use std::collections::BTreeMap;

use coalloc_common::{
    BootTime, CoordinatorName, Now, Reason, Refusal, Span, TransactionId, Window,
};
use coalloc_ledger::Entry;
use coalloc_net::convert;
use coalloc_net::resource_manager::{BookingChange, progress};
use coalloc_net::watch::Events;
use coalloc_plan::abstracted::refused::outward;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{
    Coordinator, CoordinatorRecord, ParentEntry, Reservation, State,
};
use coalloc_protocol::message::{GrantedServers, HoldOrder};

use super::led;
use crate::views::view;

/// One transaction of a parent in its present state, as the core's thread copies it for a listing.
pub(super) struct ListedTransaction {
    txn: TransactionId,
    coordinator: CoordinatorName,
    /// The Hold of the transaction; `None` for a tombstone.
    order: Option<HoldOrder>,
    /// The servers that it has.
    servers: Vec<GrantedServers>,
    state: v1::BookingState,
    live: bool,
    /// When the promise to the parent ends; `None` if there is none now.
    until: Option<BootTime>,
}

impl ListedTransaction {
    pub(super) fn of(core: &Coordinator, txn: &TransactionId, entry: &ParentEntry) -> Option<Self> {
        let (txn, coordinator) = (txn.clone(), entry.coordinator.clone());
        let Some((order, id)) = &entry.order else {
            let state = v1::BookingState::Aborted;
            let (order, servers, live, until) = (None, Vec::new(), false, None);
            return Some(Self { txn, coordinator, order, servers, state, live, until });
        };
        let known = core.find(id.as_str())?;
        let (live, state) = match known.state {
            State::Checking | State::Held | State::Aborting => (true, v1::BookingState::Held),
            State::Committing | State::Confirmed | State::Terminating => {
                (true, v1::BookingState::Booked)
            }
            State::Terminated => (false, ended(known)),
            State::Failed => (false, failed(known, core.was_promised(known))),
        };
        let (order, until) = (Some(order.clone()), core.promised_until(known));
        let servers = known.servers.values().flatten().cloned().collect();
        Some(Self { txn, coordinator, order, servers, state, live, until })
    }

    /// Is anything held or booked for the transaction?
    pub(super) const fn is_live(&self) -> bool {
        self.live
    }

    /// The windows of the transaction's segments.
    pub(super) fn windows(&self) -> impl Iterator<Item = Window> {
        self.order.iter().flat_map(|order| &order.segments).map(|segment| segment.window)
    }

    /// The transaction as a listing shows it.
    pub(super) fn shown(&self, now: Now) -> v1::Booking {
        let left = self.until.map(|until| until.since(now.boot).max(Span::ZERO));
        let order = self.order.as_ref();
        let (coordinator, servers) = (&self.coordinator, &self.servers);
        let shown = convert::booking_to_wire(&self.txn, coordinator, order, servers, self.state);
        v1::Booking { expires_in: left.map(convert::span_to_wire), ..shown }
    }
}

fn reason(known: &Reservation) -> Option<Reason> {
    known.refusal.as_ref().map(|refusal| refusal.reason)
}

/// The final state of a transaction that was booked.
fn ended(known: &Reservation) -> v1::BookingState {
    match reason(known) {
        Some(Reason::Replaced) => v1::BookingState::Replaced,
        _ => v1::BookingState::Released,
    }
}

/// The final state of a transaction that was never booked everywhere.
fn failed(known: &Reservation, was_promised: bool) -> v1::BookingState {
    match reason(known) {
        Some(Reason::Expired) => v1::BookingState::Expired,
        Some(Reason::Aborted) => v1::BookingState::Aborted,
        _ if was_promised => v1::BookingState::Aborted,
        _ => v1::BookingState::Refused,
    }
}

/// Every state change of every transaction of parents, as events.
#[derive(Debug, Clone)]
pub(super) struct ParentEvents {
    /// The name of this coordinator.
    pub(super) name: String,
}

/// The facts about a parent's transaction that its records do not hold.
#[derive(Debug, Clone)]
pub(super) struct TransactionFacts {
    order: HoldOrder,
    servers: Vec<GrantedServers>,
    refusal: Option<Refusal>,
    plan: Option<v1::Plan>,
    /// Its final state, if it has failed.
    failed: v1::BookingState,
    /// Whether the attempt that the record is about was aborted.
    aborted: bool,
}

impl TransactionFacts {
    /// Whether a newer version has taken its place. That was an event of its own.
    fn is_replaced(&self) -> bool {
        self.refusal.as_ref().is_some_and(|why| why.reason == Reason::Replaced)
    }
}

/// The attempt or reservation that a record is about, if the record may be an event.
fn subject(record: &CoordinatorRecord) -> Option<String> {
    match record {
        CoordinatorRecord::Prepared { txn, .. }
        | CoordinatorRecord::Finished { txn, .. }
        | CoordinatorRecord::Settled { txn, .. } => Some(txn.to_string()),
        CoordinatorRecord::Concluded { reservation, .. }
        | CoordinatorRecord::ReplacedForParent { reservation, .. } => Some(reservation.to_string()),
        CoordinatorRecord::Refused { .. }
        | CoordinatorRecord::Opened { .. }
        | CoordinatorRecord::Intent { .. }
        | CoordinatorRecord::Decided { .. }
        | CoordinatorRecord::Mixed { .. }
        | CoordinatorRecord::Split { .. }
        | CoordinatorRecord::Releasing { .. }
        | CoordinatorRecord::ChangeOpened { .. }
        | CoordinatorRecord::ChangeRefused { .. }
        | CoordinatorRecord::Reported { .. }
        | CoordinatorRecord::UsageChanged { .. }
        | CoordinatorRecord::ParentHoldOpened { .. }
        | CoordinatorRecord::Superseded { .. }
        | CoordinatorRecord::Disowned { .. }
        | CoordinatorRecord::DisownEnded { .. }
        | CoordinatorRecord::Differs { .. }
        | CoordinatorRecord::GaveUp { .. }
        | CoordinatorRecord::RetentionEnded { .. }
        | CoordinatorRecord::LeaderElected { .. }
        | CoordinatorRecord::CalendarChanged { .. }
        | CoordinatorRecord::ParentLeaderChanged { .. }
        | CoordinatorRecord::Forgotten { .. }
        | CoordinatorRecord::ParentTombstone { .. } => None,
    }
}

/// The reservation that a record is about, and whether the record's attempt was aborted.
fn found<'a>(core: &'a Coordinator, record: &CoordinatorRecord) -> Option<(&'a Reservation, bool)> {
    match record {
        CoordinatorRecord::Prepared { txn, .. }
        | CoordinatorRecord::Finished { txn, .. }
        | CoordinatorRecord::Settled { txn, .. } => {
            Some((core.reservation_of(txn)?, core.is_aborted(txn)))
        }
        CoordinatorRecord::Concluded { reservation, .. }
        | CoordinatorRecord::ReplacedForParent { reservation, .. } => {
            Some((core.find(reservation.as_str())?, false))
        }
        _ => None,
    }
}

impl Events<Coordinator> for ParentEvents {
    type Message = v1::WatchBookingsResponse;
    type Facts = BTreeMap<String, TransactionFacts>;

    fn needs_facts(record: &CoordinatorRecord) -> bool {
        subject(record).is_some()
    }

    fn facts(records: &[Entry<CoordinatorRecord>], core: &Coordinator) -> Self::Facts {
        let told = |entry: &Entry<CoordinatorRecord>| {
            let id = subject(&entry.record)?;
            let (known, aborted) = found(core, &entry.record)?;
            let told = TransactionFacts {
                order: core.parent_order(known)?.clone(),
                servers: known.servers.values().flatten().cloned().collect(),
                refusal: known.refusal.clone(),
                plan: view::plan(known.candidate.as_ref()),
                failed: failed(known, core.was_promised(known)),
                aborted,
            };
            Some((id, told))
        };
        records.iter().filter_map(told).collect()
    }

    fn event(
        &self,
        entry: &Entry<CoordinatorRecord>,
        facts: &Self::Facts,
        token: &dyn Fn() -> String,
    ) -> Option<v1::WatchBookingsResponse> {
        Some(self.change(&entry.record, facts)?.into_event(entry.sequence, token()))
    }

    fn progress(&self, resume_token: String) -> v1::WatchBookingsResponse {
        progress(resume_token)
    }
}

impl ParentEvents {
    fn change(
        &self,
        record: &CoordinatorRecord,
        facts: &BTreeMap<String, TransactionFacts>,
    ) -> Option<BookingChange> {
        use v1::BookingState as S;
        if let CoordinatorRecord::ParentTombstone { txn, coordinator, at } = record {
            let booking = convert::booking_to_wire(txn, coordinator, None, &[], S::Aborted);
            let cause = format!("coordinator {coordinator}");
            return Some(BookingChange {
                booking,
                cause,
                refusal: None,
                data_plane: None,
                at: *at,
            });
        }
        let told = facts.get(&subject(record)?)?;
        let (state, at) = match record {
            CoordinatorRecord::Prepared { at, .. } => (S::Held, at),
            CoordinatorRecord::Finished { state: State::Confirmed, at, .. } if !told.aborted => {
                (S::Booked, at)
            }
            CoordinatorRecord::Finished { state: State::Terminated, at, .. }
            | CoordinatorRecord::Settled { state: State::Terminated, at, .. }
                if !told.is_replaced() =>
            {
                (S::Released, at)
            }
            CoordinatorRecord::Finished { state: State::Failed, at, .. }
            | CoordinatorRecord::Concluded { state: State::Failed, at, .. } => (told.failed, at),
            CoordinatorRecord::ReplacedForParent { at, .. } => (S::Replaced, at),
            // The record changes nothing that the parent knows.
            _ => return None,
        };
        let order = &told.order;
        let coordinator = &order.coordinator;
        let (txn, servers) = (&order.txn, &told.servers);
        let mut booking = convert::booking_to_wire(txn, coordinator, Some(order), servers, state);
        if let CoordinatorRecord::Prepared { expires_in, .. } = record {
            booking.expires_in = Some(convert::span_to_wire(*expires_in));
        }
        let why =
            told.refusal.as_ref().filter(|_| matches!(state, S::Refused | S::Aborted | S::Expired));
        let cause = match why.map(|why| why.reason) {
            Some(Reason::Expired) => "expiry".to_owned(),
            Some(Reason::CoordinatorRestarted) => "restart".to_owned(),
            _ => format!("coordinator {coordinator}"),
        };
        let refusal = why.filter(|_| state == S::Refused);
        let told = |why| outward(&self.name, why, &order.segments, &led(told.plan.as_ref()));
        let refusal = refusal.map(told);
        Some(BookingChange { booking, cause, refusal, data_plane: None, at: *at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coalloc_common::{ReservationId, Time, UserName};

    fn at() -> Now {
        Now { wall: Time::from_us(1_000_000), boot: BootTime::from_us(0) }
    }

    fn told(failed: v1::BookingState, refusal: Option<Refusal>) -> TransactionFacts {
        let order = HoldOrder {
            txn: TransactionId::composed("top-1/1"),
            coordinator: CoordinatorName::composed("top"),
            user: UserName::composed("alice"),
            segments: Vec::new(),
            hold_for: None,
            replaces: Some(TransactionId::composed("top-1/0")),
            keeps_old: false,
            one_way: false,
            servers: None,
            manual_provision: false,
        };
        let servers = Vec::new();
        TransactionFacts { order, servers, refusal, plan: None, failed, aborted: false }
    }

    fn change(
        record: &CoordinatorRecord,
        told: TransactionFacts,
    ) -> Option<(v1::BookingState, String, bool)> {
        let facts = BTreeMap::from([(subject(record).unwrap(), told)]);
        let change = ParentEvents { name: "grc-1".into() }.change(record, &facts)?;
        assert_eq!(change.booking.transaction, "top-1/1", "as the one above calls it");
        assert_eq!(change.booking.replaces, "top-1/0");
        Some((change.booking.state(), change.cause, change.refusal.is_some()))
    }

    #[test]
    fn what_the_one_above_was_told_is_told() {
        use v1::BookingState as S;
        let txn = TransactionId::composed("grc-1-t-1/1");
        let reservation = ReservationId::composed("grc-1-t-1");
        let finished = |state| CoordinatorRecord::Finished {
            txn: txn.clone(),
            state,
            version: 1,
            active: false,
            at: at(),
        };
        let top = || "coordinator top".to_owned();
        let none = || told(S::Refused, None);
        let prepared = CoordinatorRecord::Prepared {
            txn: txn.clone(),
            expires_in: Span::from_secs(60),
            boot: String::new(),
            servers: BTreeMap::new(),
            at: at(),
        };
        assert_eq!(change(&prepared, none()), Some((S::Held, top(), false)));
        assert_eq!(change(&finished(State::Confirmed), none()), Some((S::Booked, top(), false)));
        let late = TransactionFacts { aborted: true, ..none() };
        assert_eq!(
            change(&finished(State::Confirmed), late),
            None,
            "the end of an earlier attempt"
        );
        let released = change(&finished(State::Terminated), none());
        assert_eq!(released, Some((S::Released, top(), false)));
        assert_eq!(change(&finished(State::Aborting), none()), None);
        let replaced = CoordinatorRecord::ReplacedForParent {
            reservation: reservation.clone(),
            by: txn.clone(),
            at: at(),
        };
        assert_eq!(change(&replaced, none()), Some((S::Replaced, top(), false)));
        let why = |reason| Some(Refusal::new(reason, "because"));
        let no = why(Reason::InsufficientCapacity);
        let concluded = |state| CoordinatorRecord::Concluded {
            reservation: reservation.clone(),
            refusal: Refusal::new(Reason::NoRoute, "because"),
            notes: None,
            state,
            at: at(),
        };
        let refused = change(&concluded(State::Failed), told(S::Refused, no.clone()));
        assert_eq!(refused, Some((S::Refused, top(), true)));
        assert_eq!(change(&concluded(State::Aborting), told(S::Refused, no)), None, "not yet");
        let expired = told(S::Expired, why(Reason::Expired));
        let expired = change(&finished(State::Failed), expired);
        assert_eq!(expired, Some((S::Expired, "expiry".to_owned(), false)));
    }
}
