//! Callers that wait for a core's answer. A handler posts its input with a token and waits here; the owner's
//! effect completes the token. If the caller goes away, the answer to its token is dropped; the change of
//! state has happened all the same.
//!
//! Left out: timeouts. A caller that no longer wants to wait drops its receiver.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use coalloc_protocol::message::Token;
use tokio::sync::oneshot;

use crate::turn::{Turn, Turns};

/// A set of waiting callers, shared by the handlers and the owner's effects. Each waits for an answer of the type of
/// its token.
#[derive(Debug, Clone)]
pub struct Waiters {
    next: Arc<AtomicU64>,
    waiting: Arc<Mutex<BTreeMap<u64, Waiter>>>,
    turns: Turns,
}

/// One caller. If its call is traced, also the place where the turn of its answer is to be written.
#[derive(Debug)]
struct Waiter {
    /// A `oneshot::Sender` of the type of answer that its token has.
    sender: Box<dyn Any + Send>,
    turn: Option<Arc<OnceLock<Turn>>>,
}

impl Default for Waiters {
    fn default() -> Self {
        Self::new(Turns::default())
    }
}

impl Waiters {
    /// An empty set. The answers come from turns that `turns` records.
    #[must_use]
    pub fn new(turns: Turns) -> Self {
        Self { next: Arc::new(AtomicU64::new(1)), waiting: Arc::default(), turns }
    }

    /// A new token, and the receiver of its answer.
    #[must_use]
    pub fn register<A: Send + 'static>(&self) -> (Token<A>, oneshot::Receiver<A>) {
        let token = Token::new(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel::<A>();
        self.lock().insert(token.number(), Waiter { sender: Box::new(sender), turn: None });
        (token, receiver)
    }

    /// For a trace: where the turn that answers a waiting token will be written. `None` when the token is not
    /// waiting.
    #[must_use]
    pub fn watch<A>(&self, token: Token<A>) -> Option<Arc<OnceLock<Turn>>> {
        let mut waiting = self.lock();
        let waiter = waiting.get_mut(&token.number())?;
        Some(Arc::clone(waiter.turn.get_or_insert_default()))
    }

    /// Gives a token its answer. The caller may be gone.
    pub fn complete<A: Send + 'static>(&self, token: Token<A>, answer: A) {
        let waiter = self.lock().remove(&token.number());
        if let Some(Waiter { sender, turn }) = waiter {
            if let Some(turn) = turn {
                let _ = turn.set(self.turns.now());
            }
            // A token has the type that it was registered with.
            if let Ok(sender) = sender.downcast::<oneshot::Sender<A>>() {
                let _ = sender.send(answer);
            }
        }
    }

    /// Removes a token whose input was never posted.
    pub fn forget<A>(&self, token: Token<A>) {
        self.lock().remove(&token.number());
    }

    /// Releases everybody who still waits: no answer will come any more.
    pub fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Waiter>> {
        // No code panics while it holds the lock. Even if it did, the map would still be whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
