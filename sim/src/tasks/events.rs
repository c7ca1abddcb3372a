//! The events of the tasks' world, and what they carry. Left out: what an event does, see `world`.

use std::rc::Rc;

use coalloc_common::{Amount, Span, TransactionId, Window};
use coalloc_protocol::message::{Answer, Message, MessageKind, Resolution};
use coalloc_protocol::update::Update;

/// Names an attempt: the number of the task, and how often it had been planned before.
pub(super) type Attempt = (u32, u32);

/// An event of the queue.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// The next task arrives.
    Arrive,
    /// A scheduler plans a task.
    Plan(u32),
    /// The message of a one-way attempt arrives at the controller of a piece.
    Meet(Attempt, usize),
    /// The answer of that controller arrives at the scheduler.
    Heard(Attempt, usize, Box<Answered>),
    /// The message that a piece is not needed any more arrives at its controller.
    Release(Attempt, usize),
    /// A coordinator's message arrives at a controller.
    Order(Box<CoordinatorMessage<Message>>),
    /// The answer to a coordinator's message arrives at the coordinator.
    Replied(Box<CoordinatorMessage<CoordinatorReply>>),
    /// A controller's question (Resolve) arrives at the coordinator.
    Asks(Box<CoordinatorMessage<()>>),
    /// The answer to a controller's question arrives at the controller.
    Resolved(Box<CoordinatorMessage<Resolution>>),
    /// The wake-up of this coordinator is due.
    WakeCoordinator(u32),
    /// The wake-up of this controller is due.
    WakeController(u32),
    /// The run of a task is over.
    End(u32),
    /// A subscriber's turn at a place.
    Turn { place: u32, scheduler: u32 },
    /// An update arrives at a scheduler.
    Update { place: u32, scheduler: u32, update: Rc<Update> },
}

/// The answer of a controller.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    pub(super) yes: bool,
    pub(super) facts: Option<Update>,
    pub(super) revision: u64,
}

/// A message of a coordinator on its way to a controller, or the outcome on its way back.
#[derive(Debug, Clone)]
pub(super) struct CoordinatorMessage<T> {
    pub(super) scheduler: usize,
    pub(super) place: usize,
    pub(super) txn: TransactionId,
    /// The attempt at its task that it belongs to.
    pub(super) attempt: Attempt,
    pub(super) content: T,
}

/// A controller's answer to a message, and what its scheduler learns from it.
#[derive(Debug, Clone)]
pub(super) struct CoordinatorReply {
    pub(super) kind: MessageKind,
    pub(super) answer: Answer,
    pub(super) learned: Answered,
}

/// One piece of a plan: a link for the data, or CPUs for the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) resource: usize,
    pub(super) window: Window,
    pub(super) amount: Amount,
    /// Travel time of messages between scheduler and controller.
    pub(super) away: Span,
    /// With `one-way`: the transaction that has booked the piece.
    pub(super) kept: Option<TransactionId>,
}

impl Piece {
    pub(super) const fn new(resource: usize, window: Window, amount: Amount, away: Span) -> Self {
        Self { resource, window, amount, away, kept: None }
    }
}
