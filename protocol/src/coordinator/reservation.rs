//! What a coordinator keeps of a reservation: what was asked, the plan that is tried or booked, its states, its
//! change, and the RMs that were given up on. Only types and what can be read of one; what happens to a
//! reservation is in the other files.

use std::collections::BTreeMap;

use coalloc_common::{
    Refusal, RequestId, ReservationId, ResourceKinds, RmName, Segment, Time, TransactionId,
    UserName,
};
use serde::{Deserialize, Serialize};

use super::details::Details;
use super::usage::Usage;
use crate::message::{GrantedServers, ServerWish};

/// One plan to try: one transaction at all of its RMs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// What to hold at each RM; never empty.
    pub segments: BTreeMap<RmName, Vec<Segment>>,
    /// The order in which the RMs are sent Hold, each only after the one before it has said yes. RMs that are
    /// not named come last and are sent Hold together. Empty: all RMs at once.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub order: Vec<RmName>,
    /// One-way reservation: the RMs book with the Hold message itself, in this order, and no Commit is sent.
    /// When one refuses, what was booked before it is ended.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub one_way: bool,
    /// The plan as the shell shows it. The coordinator keeps it and returns it, and never looks at it.
    pub details: Details,
    /// Which servers to take at the by-server sites of an RM; an RM that is not named chooses.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub servers: BTreeMap<RmName, ServerWish>,
    /// Which kinds the resources of each RM are of, as far as segments take them. An RM that is not named is not counted
    /// in the hours of a user's quota.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub kinds: BTreeMap<RmName, ResourceKinds>,
    /// With a change: RMs of the version before that take no part in it. The new version needs nothing of them,
    /// and they do not answer now. Once the new version is booked, they are sent Release of the old one until
    /// they acknowledge it. An RM with segments takes part all the same.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<RmName>,
    /// The user may not use what is booked before a later version says so.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub manual_provision: bool,
}

/// The servers that a transaction has at each RM, as the RMs have answered to Hold.
pub type ServersByRm = BTreeMap<RmName, Vec<GrantedServers>>;

/// Who requests what, and how the same request is recognised when it is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The client's id of the request.
    pub request: RequestId,
    /// The user for whom the coordinator reserves.
    pub user: UserName,
    /// Digest of the request's content: the same id with another digest is another request (I8).
    pub content: String,
}

impl Ticket {
    /// Whether the reservation is made for a parent coordinator. Such a ticket has no content, because its message is
    /// the parent's Hold.
    #[must_use]
    pub fn is_of_parent(&self) -> bool {
        self.content.is_empty()
    }
}

/// The state of a reservation, named as in NSI Connection Service 2.1 where that has the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its candidates are being held, or it is between two attempts.
    Checking,
    /// Every RM holds. The parent coordinator decides.
    Held,
    /// Commit is decided; it will be booked.
    Committing,
    /// Booked everywhere, durably.
    Confirmed,
    /// It will not be booked; its holds or bookings are being ended.
    Aborting,
    /// Nothing is reserved.
    Failed,
    /// Being released.
    Terminating,
    /// Released.
    Terminated,
}

/// One reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The id that the coordinator has given it.
    pub id: ReservationId,
    /// Who requested what.
    pub ticket: Ticket,
    /// When it was opened.
    pub created: Time,
    /// The state of the reservation.
    pub state: State,
    /// The transaction of the last attempt; for a confirmed reservation, the one that is booked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transaction: Option<TransactionId>,
    /// What the last attempt tried, or has booked. It lists every RM of that transaction; the list is empty for
    /// an RM where the attempt needs nothing, or nothing any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub candidate: Option<Candidate>,
    /// How many attempts were made.
    pub attempts: u32,
    /// Why the reservation failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refusal: Option<Refusal>,
    /// Why each attempt failed, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub attempt_refusals: Vec<Refusal>,
    /// What the shell wanted remembered.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub notes: String,
    /// 1 when it is made, and one more after each change that is booked.
    pub version: u32,
    /// The last change. The coordinator keeps earlier ones elsewhere, so that a reservation's description does
    /// not grow with the number of its changes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub change: Option<Change>,
    /// How many changes were ever opened.
    pub changes: usize,
    /// How many transactions were opened so far, those of changes included.
    pub(super) opened: u32,
    /// The parent coordinator's transaction that it serves; `None` for a reservation of a user of this
    /// coordinator.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent_transaction: Option<TransactionId>,
    /// RMs that an operator has given up on, and that may still have something of it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub given_up: Vec<GivenUp>,
    /// The servers of the version that is booked, or was before the release; before that, of the attempt that is
    /// being committed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub servers: ServersByRm,
    /// What its user can do with it, while it is booked.
    #[serde(skip_serializing_if = "Usage::is_new", default)]
    pub usage: Usage,
    /// Since when nothing of it is under way. `None` before that, and in what was stored by earlier releases.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) at_rest_since: Option<Time>,
    /// It was booked until its retention ended. From then on it is released and forgotten.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(super) retention_ended: bool,
}

impl Reservation {
    pub(super) fn new(id: ReservationId, ticket: Ticket, notes: String, created: Time) -> Self {
        Self {
            id,
            ticket,
            created,
            state: State::Checking,
            transaction: None,
            candidate: None,
            attempts: 0,
            refusal: None,
            attempt_refusals: Vec::new(),
            notes,
            version: 1,
            change: None,
            changes: 0,
            opened: 0,
            parent_transaction: None,
            given_up: Vec::new(),
            servers: ServersByRm::new(),
            usage: Usage::default(),
            at_rest_since: None,
            retention_ended: false,
        }
    }

    /// The version that is booked, or was booked when the reservation was released; 0 if none is.
    pub(super) const fn booked_version(&self) -> u32 {
        match self.state {
            State::Confirmed | State::Terminating | State::Terminated => self.version,
            State::Checking | State::Held | State::Committing | State::Aborting | State::Failed => {
                0
            }
        }
    }

    /// Will the state stay as it is unless somebody releases or changes the reservation?
    #[must_use]
    pub fn is_definite(&self) -> bool {
        self.has_outcome() && !self.is_changing()
    }

    /// Does the request that made it have an outcome? A change of the reservation does not take that outcome
    /// away.
    #[must_use]
    pub const fn has_outcome(&self) -> bool {
        matches!(self.state, State::Confirmed | State::Failed | State::Terminated)
    }

    /// Why the last failed attempt failed: an attempt at its change while one is under way, else at the
    /// reservation.
    pub(super) fn last_refusal(&self) -> Option<Refusal> {
        match self.change.as_ref().filter(|change| change.is_under_way()) {
            Some(change) => change.refusal.clone(),
            None => self.attempt_refusals.last().cloned(),
        }
    }

    /// Why each attempt so far failed: attempts at its change while one is under way, else at the reservation.
    pub(super) fn refusals_so_far(&self) -> Vec<Refusal> {
        match self.change.as_ref().filter(|change| change.is_under_way()) {
            Some(change) => change.attempt_refusals.clone(),
            None => self.attempt_refusals.clone(),
        }
    }

    /// Is there nothing left to release?
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Failed | State::Terminated)
    }
}

/// Which change of which reservation, and how the same change is recognised when it is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeTicket {
    /// The reservation to change.
    pub reservation: ReservationId,
    /// The client's id of the change.
    pub change: RequestId,
    /// Digest of the change's content: the same id with another digest is another change (I8).
    pub content: String,
}

/// The state of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeState {
    /// Its candidates are being held, or it is between two attempts. The old version is intact.
    Checking,
    /// Commit is decided; it will be booked.
    Committing,
    /// Booked everywhere; the old version is gone.
    Done,
    /// The change was refused and nothing has changed; its holds are being dropped.
    Aborting,
    /// The change was refused, and nothing has changed.
    Refused,
}

/// A change of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The client's id of the change.
    pub id: RequestId,
    /// Digest of the change's content.
    pub content: String,
    /// The state of the change.
    pub state: ChangeState,
    /// The transaction of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transaction: Option<TransactionId>,
    /// What the last attempt tries; `None` once the change is over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub candidate: Option<Candidate>,
    /// How many attempts were made.
    pub attempts: u32,
    /// Why the change was refused; while it is under way, why the last attempt that has failed did so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refusal: Option<Refusal>,
    /// Why each attempt failed, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub attempt_refusals: Vec<Refusal>,
    /// What the shell wants remembered with the new version; empty once the change is over.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub notes: String,
}

impl Change {
    /// Is its outcome still open, or its refusal not yet final?
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        !matches!(self.state, ChangeState::Done | ChangeState::Refused)
    }

    /// Refuses the change: from now on only the reason is kept.
    pub(super) fn refuse(&mut self, refusal: &Refusal) {
        self.refusal = Some(refusal.clone());
        self.candidate = None;
        self.notes.clear();
    }
}

impl Reservation {
    /// Is a change of it under way?
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.change.as_ref().is_some_and(Change::is_under_way)
    }

    /// Does this attempt belong to the change that is under way?
    pub(super) fn is_of_change(&self, txn: &TransactionId) -> bool {
        let change = self.change.as_ref().filter(|change| change.is_under_way());
        change.is_some_and(|change| change.transaction.as_ref() == Some(txn))
    }
}

/// An RM that was given up on, for one transaction of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// The RM.
    pub rm: RmName,
    /// The transaction that the RM was to end.
    pub txn: TransactionId,
    /// The operator who gave up on it.
    pub by: UserName,
    /// The operator's reason.
    pub why: String,
    /// When the operator gave up on it.
    pub at: Time,
    /// The RM may have the transaction booked until this time; `None` if it was to have nothing of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Time>,
    /// When the RM has acknowledged the end after all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended: Option<Time>,
}
