//! A reservation: what the user got, its attempts, its life cycle.

use coalloc_common::{Refusal, ReservationId, Time, TransactionId};
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::giving_up::GivenUp;
use super::{Candidate, Ticket};

/// Life cycle, after NSI Connection Service 2.1 where it has the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Being held, or between two attempts.
    Checking,
    /// Every RM holds; the coordinator above decides.
    Held,
    /// Decided: it will be booked.
    Committing,
    /// Booked everywhere, durably.
    Confirmed,
    /// It will not be; holds or bookings are being dropped.
    Aborting,
    /// Nothing is reserved.
    Failed,
    /// Being released.
    Terminating,
    /// Released.
    Terminated,
}

/// One reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Given by the coordinator.
    pub id: ReservationId,
    /// Who asked for what.
    pub ticket: Ticket,
    /// When it was opened.
    pub created: Time,
    /// Where it stands.
    pub state: State,
    /// The last attempt; of what is confirmed, the one that is booked.
    pub transaction: Option<TransactionId>,
    /// What the last attempt tried, or has booked; every RM of that transaction, those of which it wants
    /// nothing (any more) with an empty list.
    pub candidate: Option<Candidate>,
    /// Attempts made.
    pub attempts: u32,
    /// Why it failed.
    pub refusal: Option<Refusal>,
    /// Why each attempt failed, oldest first.
    pub attempt_refusals: Vec<Refusal>,
    /// What the shell wanted remembered.
    pub notes: String,
    /// 1 when it was made, one more after each change that was booked.
    pub version: u32,
    /// The last change. Those before it are the coordinator's: what is told of a reservation does not grow
    /// with how often it was changed.
    pub change: Option<Change>,
    /// Changes that were ever begun.
    pub changes: usize,
    /// Transactions opened so far, those of changes included: the next one's number is one more.
    pub(super) opened: u32,
    /// The transaction of the coordinator above that it serves; `None` for a user's own.
    pub parent_transaction: Option<TransactionId>,
    /// RMs that an operator has given up on, which may still have something of it.
    pub given_up: Vec<GivenUp>,
}

impl Reservation {
    pub(super) const fn new(
        id: ReservationId,
        ticket: Ticket,
        notes: String,
        created: Time,
    ) -> Self {
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
        }
    }

    /// The version that is booked, or was when it was released; 0 when none is.
    pub(super) const fn booked_version(&self) -> u32 {
        match self.state {
            State::Confirmed | State::Terminating | State::Terminated => self.version,
            State::Checking | State::Held | State::Committing | State::Aborting | State::Failed => {
                0
            }
        }
    }

    /// Will the state stay as it is unless somebody asks for a change?
    #[must_use]
    pub fn is_definite(&self) -> bool {
        self.has_outcome() && !self.is_changing()
    }

    /// Has the request that made it an outcome? A change of it does not take that away.
    #[must_use]
    pub const fn has_outcome(&self) -> bool {
        matches!(self.state, State::Confirmed | State::Failed | State::Terminated)
    }

    /// Why the last attempt that failed did: at its change while there is one, else at itself.
    pub(super) fn last_refusal(&self) -> Option<Refusal> {
        match self.change.as_ref().filter(|change| change.is_under_way()) {
            Some(change) => change.refusal.clone(),
            None => self.attempt_refusals.last().cloned(),
        }
    }

    /// Why the attempts failed that were made so far: at its change while there is one, else at itself.
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
