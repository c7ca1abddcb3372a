//! A reservation: what the user got, its attempts, its life cycle.

use coalloc_common::{Refusal, ReservationId, Time, TransactionId};
use serde::{Deserialize, Serialize};

use super::{Candidate, Ticket};

/// Life cycle, after NSI Connection Service 2.1 where it has the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Being held, or between two attempts.
    Checking,
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
    /// The last attempt.
    pub transaction: Option<TransactionId>,
    /// What the last attempt tried, or has booked.
    pub candidate: Option<Candidate>,
    /// Attempts made.
    pub attempts: u32,
    /// Why it failed.
    pub refusal: Option<Refusal>,
    /// Why each attempt failed, oldest first.
    pub attempt_refusals: Vec<Refusal>,
    /// What the shell wanted remembered.
    pub notes: String,
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
        }
    }

    /// Will the state stay as it is unless somebody asks for a change?
    #[must_use]
    pub const fn is_definite(&self) -> bool {
        matches!(self.state, State::Confirmed | State::Failed | State::Terminated)
    }

    /// Is there nothing left to release?
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Failed | State::Terminated)
    }
}
