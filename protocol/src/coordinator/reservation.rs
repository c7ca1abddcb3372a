//! A reservation: what the user got, its attempts, its life cycle.

use coalloc_common::{Refusal, ReservationId, Time, TransactionId};
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::giving_up::GivenUp;
use super::{Candidate, Ticket};

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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    pub transaction: Option<TransactionId>,
    /// What the last attempt tried, or has booked. It lists every RM of that transaction; the list is empty for
    /// an RM where the attempt needs nothing, or nothing any more.
    pub candidate: Option<Candidate>,
    /// How many attempts were made.
    pub attempts: u32,
    /// Why the reservation failed.
    pub refusal: Option<Refusal>,
    /// Why each attempt failed, oldest first.
    pub attempt_refusals: Vec<Refusal>,
    /// What the shell wanted remembered.
    pub notes: String,
    /// 1 when it is made, and one more after each change that is booked.
    pub version: u32,
    /// The last change. The coordinator keeps earlier ones elsewhere, so that a reservation's description does
    /// not grow with the number of its changes.
    pub change: Option<Change>,
    /// How many changes were ever opened.
    pub changes: usize,
    /// How many transactions were opened so far, those of changes included. The next transaction's number is
    /// one more.
    pub(super) opened: u32,
    /// The parent coordinator's transaction that it serves; `None` for a reservation of a user of this
    /// coordinator.
    pub parent_transaction: Option<TransactionId>,
    /// RMs that an operator has given up on, and that may still have something of it.
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
