//! The moments of an owner's turn, as traces show them: when it began to step what had gathered, and
//! when that was made durable. The owner knows nothing of this: it is noted where it reads its clock,
//! appends to its ledger, and releases its effects, all on its own thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// One turn, as it was when an answer left it.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// The clock was read: from here on inputs are stepped.
    pub begun: Instant,
    /// Records were made durable, from when to when; `None` when there were none.
    pub synced: Option<(Instant, Instant)>,
    /// The answer left.
    pub completed: Instant,
}

/// The owner's running turn. Nobody else writes it, and it is read for traced calls alone.
#[derive(Debug, Clone, Default)]
pub struct Turns(Arc<Mutex<Moments>>);

#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    begun: Option<Instant>,
    synced: Option<(Instant, Instant)>,
}

impl Turns {
    /// The owner reads its clock: before each turn, and before it waits.
    pub(crate) fn begin(&self) {
        *self.lock() = Moments { begun: Some(Instant::now()), synced: None };
    }

    /// Records were made durable.
    pub(crate) fn synced(&self, sync: (Instant, Instant)) {
        self.lock().synced = Some(sync);
    }

    /// The running turn, at an answer.
    pub(crate) fn now(&self) -> Turn {
        let Moments { begun, synced } = *self.lock();
        let completed = Instant::now();
        Turn { begun: begun.unwrap_or(completed), synced, completed }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Moments> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
