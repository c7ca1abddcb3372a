//! The threads on which outside solvers run, and what happens to a solver that overruns its time.
//!
//! A solver library cannot be interrupted. So each call of one has a thread of its own, and the caller waits no longer
//! than the request has time. A call that has not ended by then is left behind: its thread goes on with the lowest
//! priority until the library returns, and its answer is thrown away. At most [`limits::LIBRARIES_LEFT_MAX`] calls may
//! be left behind. While there are as many, no library is called, and frames that need one are answered as if their
//! time were over. The metric `coalloc_grc_libraries_left` shows the number.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coalloc_common::{Span, limits};
use coalloc_net::metrics;
use coalloc_plan::ip::mip::aside::{DetachedMip, LibraryHost, LibraryJob};

/// The threads of outside solvers. `None`: they run on the threads of their callers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Libraries(Option<Arc<Threads>>);

#[derive(Debug)]
struct Threads {
    /// Most calls that somebody waits for at the same time.
    most: usize,
    /// Runs first on every thread.
    begin: fn(),
    calls: Mutex<Calls>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Calls {
    /// Calls that somebody waits for.
    waited_for: usize,
    /// Calls that were left behind: nobody waits for them any more.
    left: usize,
}

/// The stage of one call. It changes only while the lock on all calls is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Somebody waits for the call.
    #[default]
    WaitedFor,
    /// Nobody waits for the call any more.
    Left,
    Ended,
}

/// One call under way. It is dropped when the library has ended, and its place is given back then.
struct LibraryCall {
    threads: Arc<Threads>,
    stage: Arc<Mutex<Stage>>,
}

impl Drop for LibraryCall {
    fn drop(&mut self) {
        let mut calls = self.threads.calls();
        match std::mem::replace(&mut *lock(&self.stage), Stage::Ended) {
            Stage::WaitedFor => calls.waited_for -= 1,
            Stage::Left => calls.left -= 1,
            // A call ends once.
            Stage::Ended => {}
        }
        metrics::grc().libraries_left.set(gauge(calls.left));
        self.threads.ended.notify_one();
    }
}

impl Libraries {
    /// At most `most` calls at once, each on a thread that first runs `begin`.
    #[must_use]
    pub fn new(most: usize, begin: fn()) -> Self {
        let (calls, ended) = (Mutex::default(), Condvar::new());
        Self(Some(Arc::new(Threads { most: most.max(1), begin, calls, ended })))
    }

    /// Runs libraries on the threads of their callers, for as long as they take.
    #[must_use]
    pub const fn at_once() -> Self {
        Self(None)
    }

    /// Runs the libraries of one piece of planning, which has time until `end`.
    #[must_use]
    pub fn until(&self, end: Instant) -> LibraryHost {
        match &self.0 {
            None => DetachedMip::here(),
            Some(threads) => {
                let threads = Arc::clone(threads);
                Arc::new(move |work, time| {
                    threads.run(work, end.min(Instant::now() + time.to_std()))
                })
            }
        }
    }
}

impl Threads {
    /// Runs a library until `end` at the latest, and leaves it behind then.
    fn run(self: &Arc<Self>, work: LibraryJob, end: Instant) {
        let Some(call) = self.begin_call(end) else { return };
        let stage = Arc::clone(&call.stage);
        let (done, ended) = sync_channel::<()>(1);
        let begin = self.begin;
        let time = end.saturating_duration_since(Instant::now());
        let thread = std::thread::Builder::new().name("library".to_owned()).spawn(move || {
            begin();
            work(told(time));
            drop(call);
            // The caller may be gone.
            let _ = done.try_send(());
        });
        if let Err(error) = thread {
            // The call was dropped with the closure, so its place is given back.
            tracing::warn!(%error, "the system gives no thread for an outside solver");
            return;
        }
        // If the channel closes without a message, the library panicked, which has been reported already.
        if ended.recv_timeout(end.saturating_duration_since(Instant::now()))
            == Err(RecvTimeoutError::Timeout)
        {
            self.leave(&stage);
        }
    }

    /// A place for a call, once one is free; `None` when `end` comes first, or when too many calls are left behind.
    fn begin_call(self: &Arc<Self>, end: Instant) -> Option<LibraryCall> {
        let mut calls = self.calls();
        loop {
            let now = Instant::now();
            if calls.left >= limits::LIBRARIES_LEFT_MAX || now >= end {
                return None;
            }
            if calls.waited_for < self.most {
                calls.waited_for += 1;
                return Some(LibraryCall { threads: Arc::clone(self), stage: Arc::default() });
            }
            let waited = self.ended.wait_timeout(calls, end - now);
            calls = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Marks a call as left behind, unless it has just ended.
    fn leave(&self, stage: &Mutex<Stage>) {
        let mut calls = self.calls();
        let mut stage = lock(stage);
        if *stage == Stage::Ended {
            return;
        }
        *stage = Stage::Left;
        calls.waited_for -= 1;
        calls.left += 1;
        metrics::grc().libraries_left.set(gauge(calls.left));
        tracing::warn!(
            left = calls.left,
            "an outside solver exceeded its time; nobody waits for it any more"
        );
        self.ended.notify_one();
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        lock(&self.calls)
    }
}

/// Locks a mutex. Nothing panics while it holds one of these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The time limit that a library gets: a little less than its caller waits, so that an answer at the limit counts.
fn told(time: Duration) -> Span {
    Span::from_us(i64::try_from((time * 9 / 10).as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A library that works until it is released through the returned sender, and reports when it has begun.
    fn stubborn(begun: &Sender<()>) -> (LibraryJob, Sender<()>) {
        let (back, told): (Sender<()>, Receiver<()>) = channel();
        let begun = begun.clone();
        let work = move |_: Span| {
            begun.send(()).unwrap();
            let _ = told.recv();
        };
        (Box::new(work), back)
    }

    const MOMENT: Span = Span::from_millis(1);

    #[test]
    fn who_waits_gets_what_ends_in_time_and_no_call_works_before_there_is_a_place() {
        let libraries = Libraries::new(1, || ());
        let call = libraries.until(Instant::now() + Duration::from_secs(60));
        let (at_work, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let done = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let (call, at_work, most) = (call.clone(), at_work.clone(), most.clone());
                let done = done.clone();
                scope.spawn(move || {
                    let work = move |_: Span| {
                        most.fetch_max(
                            at_work.fetch_add(1, Ordering::SeqCst) + 1,
                            Ordering::SeqCst,
                        );
                        done.fetch_add(1, Ordering::SeqCst);
                        at_work.fetch_sub(1, Ordering::SeqCst);
                    };
                    call(Box::new(work), Span::from_secs(60));
                });
            }
        });
        assert_eq!((done.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (8, 1));
    }

    #[test]
    fn what_does_not_end_in_time_is_left_behind_and_counted_until_it_comes_back() {
        let libraries = Libraries::new(1, || ());
        let threads = libraries.0.clone().unwrap();
        let call = libraries.until(Instant::now() + Duration::from_secs(3_600));
        let (begun, has_begun) = channel();
        let mut all = Vec::new();
        for left in 1..=limits::LIBRARIES_LEFT_MAX {
            // Each call returns to its caller although the library has not ended, and the next call finds a place. On a
            // very slow machine the time may be over before a call begins; then it is tried again.
            while threads.calls().left < left {
                let (work, back) = stubborn(&begun);
                call(work, MOMENT);
                all.push(back);
            }
            has_begun.recv().unwrap();
            let calls = threads.calls();
            assert_eq!((calls.left, calls.waited_for), (left, 0));
        }
        let (work, _back) = stubborn(&begun);
        call(work, Span::from_secs(3_600));
        assert!(has_begun.try_recv().is_err(), "one more was not begun");
        drop(all);
        let mut calls = threads.calls();
        while calls.left > 0 {
            calls = threads.ended.wait(calls).unwrap();
        }
        drop(calls);
        let (told, was_told) = channel();
        call(Box::new(move |time| told.send(time).unwrap()), Span::from_secs(60));
        let time = was_told.recv().unwrap();
        assert!(time > Span::ZERO && time <= Span::from_secs(54), "{time}");
    }

    #[test]
    fn nothing_is_begun_after_the_end_and_a_panic_gives_its_place_back() {
        let libraries = Libraries::new(1, || ());
        let threads = libraries.0.clone().unwrap();
        let (begun, has_begun) = channel::<()>();
        let over = libraries.until(Instant::now());
        over(Box::new(move |_| begun.send(()).unwrap()), Span::from_secs(60));
        assert!(has_begun.recv().is_err(), "it was dropped");
        let call = libraries.until(Instant::now() + Duration::from_secs(3_600));
        call(Box::new(|_| panic!("a library that breaks")), Span::from_secs(60));
        let mut calls = threads.calls();
        while calls.waited_for > 0 {
            calls = threads.ended.wait(calls).unwrap();
        }
        assert_eq!(calls.left, 0);
    }
}
