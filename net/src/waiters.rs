//! Callers that wait for a core's answer. A handler posts its input with a token and waits here; the
//! owner's effect completes the token. A caller that goes away leaves nothing behind but its token's
//! answer, which then falls on the floor: the transition has happened all the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// A set of waiting callers, shared by the handlers and the owner's effects.
#[derive(Debug)]
pub struct Waiters<T> {
    next: Arc<AtomicU64>,
    waiting: Arc<Mutex<BTreeMap<u64, oneshot::Sender<T>>>>,
}

impl<T> Clone for Waiters<T> {
    fn clone(&self) -> Self {
        Self { next: Arc::clone(&self.next), waiting: Arc::clone(&self.waiting) }
    }
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Self { next: Arc::new(AtomicU64::new(1)), waiting: Arc::default() }
    }
}

impl<T> Waiters<T> {
    /// A new token and where its answer will come.
    #[must_use]
    pub fn register(&self) -> (u64, oneshot::Receiver<T>) {
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(token, sender);
        (token, receiver)
    }

    /// Gives a token its answer. Nobody may be there any more to hear it.
    pub fn complete(&self, token: u64, answer: T) {
        if let Some(sender) = self.lock().remove(&token) {
            let _ = sender.send(answer);
        }
    }

    /// Takes a token back whose input was never posted.
    pub fn forget(&self, token: u64) {
        self.lock().remove(&token);
    }

    /// Lets everybody go who still waits: no answer will come any more.
    pub fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, oneshot::Sender<T>>> {
        // Nothing panics while it holds the lock; were it so, the map would still be whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
