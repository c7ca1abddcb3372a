//! The latest value of something, for tasks that wait until it changes.
//!
//! It is like `tokio::sync::watch`, but waiting tasks wake in the order in which they began to wait. Tokio
//! chooses the order at random, and then no run of a simulation could be repeated.
//!
//! Left out: a history of values. A task that is slow sees only the latest.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A value that changes. Clones share the same value.
#[derive(Debug)]
pub struct LatestValue<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    moved: Notify,
}

#[derive(Debug)]
struct State<T> {
    value: T,
    closed: bool,
}

impl<T> Clone for LatestValue<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> LatestValue<T> {
    /// A value that begins as `value`.
    #[must_use]
    pub fn new(value: T) -> Self {
        let state = Mutex::new(State { value, closed: false });
        Self(Arc::new(Shared { state, moved: Notify::new() }))
    }

    /// The value now.
    #[must_use]
    pub fn get(&self) -> T {
        self.lock().value.clone()
    }

    /// Changes the value, and wakes the tasks that wait.
    pub fn update(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.lock().value);
        self.0.moved.notify_waiters();
    }

    /// Says that the value will not change any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.0.moved.notify_waiters();
    }

    /// Waits until the value is as wanted; `None` when it never will be.
    pub async fn wait_for(&self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut moved = pin!(self.0.moved.notified());
        loop {
            // Before the value is read, so that no change between reading and waiting is missed.
            moved.as_mut().enable();
            {
                let state = self.lock();
                if wanted(&state.value) {
                    return Some(state.value.clone());
                }
                if state.closed {
                    return None;
                }
            }
            moved.as_mut().await;
            moved.set(self.0.moved.notified());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // If a change panicked, the value is what it left; nothing here depends on the value.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_wakes_in_the_order_they_came_and_is_let_go_at_the_end() {
        let level = LatestValue::new(0);
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for number in 0..20 {
            let (level, woken) = (level.clone(), Arc::clone(&woken));
            waiting.push(tokio::spawn(async move {
                let got = level.wait_for(|level| *level > 1).await;
                woken.lock().unwrap().push((number, got));
            }));
        }
        tokio::task::yield_now().await;
        level.update(|level| *level = 1);
        tokio::task::yield_now().await;
        assert!(woken.lock().unwrap().is_empty());
        level.update(|level| *level = 2);
        for one in waiting {
            one.await.unwrap();
        }
        let expected: Vec<_> = (0..20).map(|number| (number, Some(2))).collect();
        assert_eq!(*woken.lock().unwrap(), expected);
        level.close();
        assert_eq!(level.wait_for(|level| *level > 2).await, None);
        assert_eq!(level.wait_for(|level| *level == 2).await, Some(2));
    }
}
