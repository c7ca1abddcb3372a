//! The events that the coordinator's records are for clients that watch: one record makes at most one event.
//!
//! The mapping is pure and does not depend on the present: an event that is reported a year later is the same event. A
//! record does not say to whose reservation its attempt belongs, but that never changes. The state of a reservation
//! after a record is in the record, or follows from its kind.

use std::collections::BTreeMap;

use coalloc_common::workflow::{ActivityEvent, ActivityReport};
use coalloc_common::{Now, Refusal, ReservationId, RmName, Span, TransactionId};
use coalloc_ledger::Entry;
use coalloc_net::convert::{refusal_to_wire, span_to_wire, time_to_wire};
use coalloc_net::watch::Events;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{
    Coordinator, CoordinatorRecord, Differs, MendTarget, State, Ticket, Usage, UsagePhase,
};
use coalloc_protocol::message::Decision;
use coalloc_web::changes::{ChangeMark, ChangedReservation};

use crate::views::view;

/// The state changes of those reservations that a client watches.
#[derive(Debug, Clone, Default)]
pub struct ReservationEvents {
    /// Only the reservation with this id or with this request id; `None`: all.
    pub id: Option<String>,
    /// Only the reservations of this user; `None`: of every user.
    pub user: Option<String>,
    /// Only what was asked for here, and not what is reserved for a parent coordinator.
    pub own: bool,
}

/// The owner of an attempt or a reservation, and facts about the attempt that its records do not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOwner {
    reservation: ReservationId,
    request_id: String,
    user: String,
    /// Whether it is reserved for a parent coordinator.
    of_parent: bool,
    /// Whether the attempt was aborted.
    aborted: bool,
    /// Whether an RM was given up on for the attempt. Then finishing the attempt changes nothing any more.
    given_up: bool,
}

/// Owners by the id of the attempt or of the reservation.
pub type Owners = BTreeMap<String, AttemptOwner>;

impl Events<Coordinator> for ReservationEvents {
    type Message = v1::WatchResponse;
    type Facts = Owners;

    fn needs_facts(record: &CoordinatorRecord) -> bool {
        !matches!(subject(record), Subject::Ticket(..) | Subject::Nothing)
    }

    fn facts(records: &[Entry<CoordinatorRecord>], core: &Coordinator) -> Owners {
        let owner = |entry: &Entry<CoordinatorRecord>| {
            let (id, found, (aborted, given_up)) = match subject(&entry.record) {
                Subject::Ticket(..) | Subject::Nothing => return None,
                Subject::Reservation(id) => {
                    (id.to_string(), core.find(id.as_str())?, (false, false))
                }
                Subject::Transaction(txn) => {
                    let found = core.reservation_of(txn)?;
                    let given_up = found.given_up.iter().any(|one| one.txn == *txn);
                    (txn.to_string(), found, (core.is_aborted(txn), given_up))
                }
            };
            Some((
                id,
                AttemptOwner { aborted, given_up, ..AttemptOwner::of(&found.id, &found.ticket) },
            ))
        };
        records.iter().filter_map(owner).collect()
    }

    fn event(
        &self,
        entry: &Entry<CoordinatorRecord>,
        owners: &Owners,
        token: &dyn Fn() -> String,
    ) -> Option<v1::WatchResponse> {
        let record = &entry.record;
        let whose = owner(record, owners)?;
        if !self.wants(&whose) {
            return None;
        }
        let change = change(record, &whose);
        let unknown = v1::ReservationState::Unspecified;
        let state = change.state.map_or(unknown, |state| view::state(state, change.phase));
        let event = v1::ReservationEvent {
            sequence: entry.sequence,
            resume_token: token(),
            time: Some(time_to_wire(change.at.wall)),
            reservation: whose.reservation.to_string(),
            request_id: whose.request_id,
            user: whose.user,
            state: state.into(),
            version: change.version,
            what: change.what,
            transaction: change.txn.map(ToString::to_string).unwrap_or_default(),
            refusal: change.refusal.map(refusal_to_wire),
            expires_in: change.expires_in.map(span_to_wire),
            equipment_trouble: change.usage.map(view::troubles).unwrap_or_default(),
        };
        Some(v1::WatchResponse { what: Some(v1::watch_response::What::Event(event)) })
    }

    fn progress(&self, resume_token: String) -> v1::WatchResponse {
        let progress = v1::WatchProgress { resume_token };
        v1::WatchResponse { what: Some(v1::watch_response::What::Progress(progress)) }
    }
}

/// Whose reservation a record is about, if it is about one that is remembered.
fn owner(record: &CoordinatorRecord, owners: &Owners) -> Option<AttemptOwner> {
    match subject(record) {
        Subject::Ticket(id, ticket) => Some(AttemptOwner::of(id, ticket)),
        Subject::Reservation(id) => owners.get(id.as_str()).cloned(),
        Subject::Transaction(txn) => owners.get(txn.as_str()).cloned(),
        Subject::Nothing => None,
    }
}

/// Whose reservations have changed, and not how: for pages, which then read what their visitors may see.
#[derive(Debug, Clone, Copy)]
pub struct ChangeMarks;

impl Events<Coordinator> for ChangeMarks {
    type Message = ChangeMark;
    type Facts = Owners;

    fn needs_facts(record: &CoordinatorRecord) -> bool {
        <ReservationEvents as Events<Coordinator>>::needs_facts(record)
    }

    fn facts(records: &[Entry<CoordinatorRecord>], core: &Coordinator) -> Owners {
        <ReservationEvents as Events<Coordinator>>::facts(records, core)
    }

    fn event(
        &self,
        entry: &Entry<CoordinatorRecord>,
        owners: &Owners,
        token: &dyn Fn() -> String,
    ) -> Option<ChangeMark> {
        let whose = owner(&entry.record, owners)?;
        let user = Some(whose.user).filter(|_| !whose.of_parent);
        Some(ChangeMark { token: token(), change: Some(ChangedReservation { user }) })
    }

    fn progress(&self, token: String) -> ChangeMark {
        ChangeMark { token, change: None }
    }
}

impl ReservationEvents {
    fn wants(&self, whose: &AttemptOwner) -> bool {
        let id = |id: &String| whose.reservation.as_str() == id || whose.request_id == *id;
        !(self.own && whose.of_parent)
            && self.id.as_ref().is_none_or(id)
            && self.user.as_ref().is_none_or(|user| whose.user == *user)
    }
}

impl AttemptOwner {
    fn of(id: &ReservationId, ticket: &Ticket) -> Self {
        Self {
            reservation: id.clone(),
            request_id: ticket.request.to_string(),
            user: ticket.user.to_string(),
            of_parent: ticket.is_of_parent(),
            aborted: false,
            given_up: false,
        }
    }
}

/// What a record is about, as far as the record itself says.
enum Subject<'a> {
    Ticket(&'a ReservationId, &'a Ticket),
    Reservation(&'a ReservationId),
    Transaction(&'a TransactionId),
    /// No reservation that is still remembered.
    Nothing,
}

const fn subject(record: &CoordinatorRecord) -> Subject<'_> {
    match record {
        CoordinatorRecord::Refused { reservation, ticket, .. }
        | CoordinatorRecord::Opened { reservation, ticket, .. } => {
            Subject::Ticket(reservation, ticket)
        }
        CoordinatorRecord::Intent { reservation, .. }
        | CoordinatorRecord::ChangeRefused { reservation, .. }
        | CoordinatorRecord::Reported { reservation, .. }
        | CoordinatorRecord::ParentHoldOpened { reservation, .. }
        | CoordinatorRecord::ReplacedForParent { reservation, .. }
        | CoordinatorRecord::Superseded { reservation, .. }
        | CoordinatorRecord::Concluded { reservation, .. } => Subject::Reservation(reservation),
        CoordinatorRecord::ChangeOpened { ticket, .. } => Subject::Reservation(&ticket.reservation),
        CoordinatorRecord::Forgotten { .. }
        | CoordinatorRecord::LeaderElected { .. }
        | CoordinatorRecord::CalendarChanged { .. }
        | CoordinatorRecord::ParentLeaderChanged { .. } => Subject::Nothing,
        // A tombstone has no transaction of this coordinator, so it makes no event.
        CoordinatorRecord::ParentTombstone { txn, .. }
        | CoordinatorRecord::Prepared { txn, .. }
        | CoordinatorRecord::Decided { txn, .. }
        | CoordinatorRecord::Mixed { txn, .. }
        | CoordinatorRecord::Split { txn, .. }
        | CoordinatorRecord::Releasing { txn, .. }
        | CoordinatorRecord::RetentionEnded { txn, .. }
        | CoordinatorRecord::UsageChanged { txn, .. }
        | CoordinatorRecord::Disowned { txn, .. }
        | CoordinatorRecord::DisownEnded { txn, .. }
        | CoordinatorRecord::Differs { txn, .. }
        | CoordinatorRecord::Settled { txn, .. }
        | CoordinatorRecord::GaveUp { txn, .. }
        | CoordinatorRecord::Finished { txn, .. } => Subject::Transaction(txn),
    }
}

/// A state change of a reservation.
struct Change<'a> {
    /// The new state. `None` if the record does not say it.
    state: Option<State>,
    /// How far its use is, if it is booked.
    phase: UsagePhase,
    /// What its user can do with it, if that has changed.
    usage: Option<&'a Usage>,
    version: u32,
    what: String,
    txn: Option<&'a TransactionId>,
    refusal: Option<&'a Refusal>,
    expires_in: Option<Span>,
    at: Now,
}

impl Change<'_> {
    const fn new(state: State, what: String, at: Now) -> Self {
        let version = match state {
            State::Confirmed | State::Terminating | State::Terminated => 1,
            State::Checking | State::Held | State::Committing | State::Aborting | State::Failed => {
                0
            }
        };
        Self {
            state: Some(state),
            phase: UsagePhase::Ahead,
            usage: None,
            version,
            what,
            txn: None,
            refusal: None,
            expires_in: None,
            at,
        }
    }

    /// The end of an attempt that is no current one: its reservation keeps its state, which the record does not say.
    fn over(what: String, at: Now) -> Self {
        Self { state: None, ..Self::new(State::Terminated, what, at) }
    }

    /// Sets the version that is booked.
    fn booked(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// Sets whether it is in use, if it is booked.
    fn used(self, active: bool) -> Self {
        Self { phase: if active { UsagePhase::Active } else { UsagePhase::Ahead }, ..self }
    }
}

/// What a user can do with a booked reservation, for people.
fn can_be_used(usage: &Usage) -> String {
    let told = usage.trouble.iter().map(|(rm, trouble)| format!("{rm}: {trouble}"));
    let told = told.collect::<Vec<_>>().join("; ");
    match (usage.phase, told.is_empty()) {
        (UsagePhase::Ahead, true) => "it cannot be used now; nothing is wrong with it".to_owned(),
        (UsagePhase::Ahead, false) => format!("something is wrong with it: {told}"),
        (UsagePhase::Active, true) => "it can be used".to_owned(),
        (UsagePhase::Active, false) => format!("it can be used, but something is wrong: {told}"),
        (UsagePhase::Over, _) => "its time is over".to_owned(),
    }
}

/// What a report says, for people.
fn reported(text: &str) -> String {
    let Ok(report) = serde_json::from_str::<ActivityReport>(text) else {
        return "a report of another release".to_owned();
    };
    let ActivityReport { activity, event, at, excluded } = report;
    let what = match event {
        ActivityEvent::Started => "has begun".to_owned(),
        ActivityEvent::Finished => "has ended".to_owned(),
        ActivityEvent::Failed => "has failed".to_owned(),
        ActivityEvent::NeedsUntil(until) => format!("needs until {until}"),
    };
    let sites: Vec<&str> = excluded.iter().map(|site| site.as_str()).collect();
    let not_at = match sites.is_empty() {
        true => String::new(),
        false => format!(", and must not run again at {}", sites.join(", ")),
    };
    format!("{activity} {what} ({at}){not_at}")
}

/// The state change that a record makes, for an attempt or reservation of this owner.
fn change<'a>(record: &'a CoordinatorRecord, whose: &AttemptOwner) -> Change<'a> {
    match record {
        CoordinatorRecord::Refused { refusal, at, .. } => {
            let new = Change::new(State::Failed, "there is no plan".into(), *at);
            Change { refusal: Some(refusal), ..new }
        }
        CoordinatorRecord::Opened { at, .. } => {
            Change::new(State::Checking, "planned; about to be held".into(), *at)
        }
        CoordinatorRecord::Intent {
            txn, candidate, replaces, mends, version, active, at, ..
        } => {
            let rms: Vec<&str> = candidate.segments.keys().map(RmName::as_str).collect();
            let (state, kind) = match (replaces, mends) {
                (_, Some(MendTarget::New)) => (State::Confirmed, " the new version everywhere"),
                (_, Some(MendTarget::Old)) => (State::Confirmed, " the old version everywhere"),
                (Some(_), None) => (State::Confirmed, " a new version"),
                (None, None) => (State::Checking, ""),
            };
            let what = format!("asking {} to hold{kind}", rms.join(", "));
            let new = Change::new(state, what, *at).booked(*version).used(*active);
            Change { txn: Some(txn), ..new }
        }
        CoordinatorRecord::ChangeOpened { ticket, version, active, at, .. } => {
            let what = format!("change {} planned; about to be held", ticket.change);
            Change::new(State::Confirmed, what, *at).booked(*version).used(*active)
        }
        CoordinatorRecord::ChangeRefused { refusal, version, active, at, .. } => {
            let what = "the change is refused; the version that was booked stays".into();
            let new = Change::new(State::Confirmed, what, *at).booked(*version).used(*active);
            Change { refusal: Some(refusal), ..new }
        }
        CoordinatorRecord::Reported { report, by, version, active, at, .. } => {
            let what = format!("{by} reports: {}", reported(&report.text));
            Change::new(State::Confirmed, what, *at).booked(*version).used(*active)
        }
        CoordinatorRecord::Decided {
            txn,
            decision,
            refusal,
            state,
            expires_in,
            version,
            active,
            at,
            ..
        } => {
            let what = match decision {
                Decision::Commit => "all hold; it will be booked",
                Decision::Abort => "this attempt is over; its holds are dropped",
            };
            let new = Change::new(*state, what.into(), *at).booked(*version).used(*active);
            Change { txn: Some(txn), refusal: refusal.as_ref(), expires_in: *expires_in, ..new }
        }
        CoordinatorRecord::ParentHoldOpened { order, at, .. } => {
            let what = format!("parent {} asks to hold it", order.coordinator);
            Change::new(State::Checking, what, *at)
        }
        CoordinatorRecord::Prepared { txn, expires_in, at, .. } => {
            let new = Change::new(State::Held, "all hold; the parent decides".into(), *at);
            Change { txn: Some(txn), expires_in: Some(*expires_in), ..new }
        }
        CoordinatorRecord::ParentTombstone { at, .. } => {
            Change::new(State::Failed, "nothing was held for the parent".into(), *at)
        }
        CoordinatorRecord::Mixed { txn, rm, refusal, at } => {
            let what = format!("{rm} did not book; the other bookings are released");
            let new = Change::new(State::Aborting, what, *at);
            Change { txn: Some(txn), refusal: Some(refusal), ..new }
        }
        CoordinatorRecord::Split { txn, refused, state, active, at } => {
            let late: Vec<&str> = refused.keys().map(RmName::as_str).collect();
            let late = late.join(", ");
            let what = format!("{late} did not book the new version; nothing is released");
            let new = Change::new(*state, what, *at).used(*active);
            Change { txn: Some(txn), refusal: refused.values().next(), ..new }
        }
        CoordinatorRecord::Releasing { txn, by, version, at } => {
            let new = Change::new(State::Terminating, format!("released by {by}"), *at);
            Change { txn: Some(txn), ..new.booked(*version) }
        }
        CoordinatorRecord::RetentionEnded { txn, version, at } => {
            let what = "long over: every resource manager is told to release it".into();
            let new = Change::new(State::Terminating, what, *at);
            Change { txn: Some(txn), ..new.booked(*version) }
        }
        CoordinatorRecord::UsageChanged { txn, usage, state, version, at } => {
            let new = Change::new(*state, can_be_used(usage), *at).booked(*version);
            Change { txn: Some(txn), usage: Some(usage), phase: usage.phase, ..new }
        }
        CoordinatorRecord::LeaderElected { member, at, .. } => {
            Change::over(format!("{member} leads"), *at)
        }
        CoordinatorRecord::ParentLeaderChanged { ledger, at, .. } => {
            Change::over(format!("another process leads {ledger}"), *at)
        }
        CoordinatorRecord::CalendarChanged { at, .. } => {
            Change::over("the address of a calendar has changed".into(), *at)
        }
        CoordinatorRecord::Forgotten { at, .. } => Change::over("forgotten".into(), *at),
        CoordinatorRecord::Finished { txn, state, version, active, at } => {
            let what = match state {
                _ if whose.given_up => "all other resource managers have ended it",
                _ if whose.aborted => "the holds of this attempt are dropped",
                State::Confirmed => "booked everywhere",
                State::Terminated | State::Failed => "nothing is booked any more",
                State::Checking
                | State::Held
                | State::Committing
                | State::Aborting
                | State::Terminating => {
                    "every resource manager has acknowledged; an earlier attempt is not over yet"
                }
            };
            let new = Change::new(*state, what.into(), *at);
            Change { txn: Some(txn), ..new.booked(*version).used(*active) }
        }
        CoordinatorRecord::ReplacedForParent { by, at, .. } => {
            let what = format!("{by} of the parent has replaced it");
            Change::new(State::Terminated, what, *at)
        }
        CoordinatorRecord::Superseded { at, .. } => {
            Change::over("the parent no longer needs the old version".into(), *at)
        }
        CoordinatorRecord::Settled { txn, state, version, active, at } => {
            let what = "no resource manager keeps anything of an earlier version".to_owned();
            let new = Change::new(*state, what, *at);
            Change { txn: Some(txn), ..new.booked(*version).used(*active) }
        }
        CoordinatorRecord::Disowned { txn, rm, by, why, at } => {
            let what = format!("{rm} still has a booking of it; {by} has that released: {why}");
            Change { txn: Some(txn), ..Change::over(what, *at) }
        }
        CoordinatorRecord::GaveUp { txn, rm, by, why, until, state, version, active, at } => {
            let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
            let what = format!(
                "{rm} was given up on by {by} ({why}): it may still have it{until}, and is told to end it when it \
                 returns"
            );
            let new = Change::new(*state, what, *at);
            Change { txn: Some(txn), ..new.booked(*version).used(*active) }
        }
        CoordinatorRecord::Differs { txn, rm, differs, state, version, active, at } => {
            let what = match differs {
                Some(Differs::MissingThere) => format!("{rm} has lost its booking"),
                Some(Differs::OtherContent) => format!("{rm} has booked something else for it"),
                Some(Differs::UnknownHere) => format!("{rm} still has a booking of it"),
                None => format!("{rm} has the right booking again"),
            };
            let new = Change::new(*state, what, *at);
            Change { txn: Some(txn), ..new.booked(*version).used(*active) }
        }
        CoordinatorRecord::DisownEnded { txn, rm, state, at } => {
            let what = format!("{rm} has nothing of it any more");
            Change { state: *state, txn: Some(txn), ..Change::over(what, *at) }
        }
        CoordinatorRecord::Concluded { refusal, state, at, .. } => {
            let new = Change::new(*state, "given up".into(), *at);
            Change { refusal: Some(refusal), ..new }
        }
    }
}
