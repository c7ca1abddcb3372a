//! The moments of an owner's turn, for traces: when the owner began to step the inputs that had gathered, and
//! when their records were made durable. The owner knows nothing of traces. The moments are noted where it
//! reads its clock, appends to its ledger, and releases its effects, all on its own thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// One turn, as it was when one of its answers was sent.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// When the clock was read; from then on inputs were stepped.
    pub begun: Instant,
    /// From when to when records were made durable; `None` when there were none.
    pub synced: Option<(Instant, Instant)>,
    /// When the answer was sent.
    pub completed: Instant,
}

/// The owner's current turn. Only the owner writes it, and it is read only for traced calls.
#[derive(Debug, Clone, Default)]
pub struct Turns(Arc<Mutex<Moments>>);

#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    begun: Option<Instant>,
    synced: Option<(Instant, Instant)>,
}

impl Turns {
    /// Notes that the owner reads its clock: before each turn, and before it waits.
    pub(crate) fn begin(&self) {
        *self.lock() = Moments { begun: Some(Instant::now()), synced: None };
    }

    /// Notes when records were made durable.
    pub(crate) fn synced(&self, sync: (Instant, Instant)) {
        self.lock().synced = Some(sync);
    }

    /// The current turn, at the moment of an answer.
    pub(crate) fn now(&self) -> Turn {
        let Moments { begun, synced } = *self.lock();
        let completed = Instant::now();
        Turn { begun: begun.unwrap_or(completed), synced, completed }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Moments> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
