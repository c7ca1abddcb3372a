//! The owner of a core: one thread (in a simulation, one task) that has the core and its log. Everybody else posts
//! commands to it.
//!
//! The handler of an RPC only posts an input and waits for the effect that answers it. So a client that goes away, or
//! sets a short deadline, cancels only its own waiting and never a transition. One turn of the owner handles one
//! batch, in a fixed order:
//!
//! ```text
//!   wait ── at most until core.next_wake() ──┐
//!   take what is posted, ≤ GROUP_COMMIT_MAX  │ while the disk was busy with the last batch,
//!   read the clock, once                     │ the next one has gathered
//!   ask the log for disk space, post changes │ so that holds are refused while ends still fit (I17)
//!   tick, if its time has come               │
//!   step every input, in order               │
//!   check_invariants (debug builds)          │ before anything is written or sent
//!   sync: one append, one fsync              │ if it fails: on_failure, and no effect leaves (I16)
//!   on_effect for every effect, in order     │
//!   run reads, in order, for a while ────────┘ the remaining reads run after the next batch
//! ```
//!
//! Reads come last, although the state that they read has been in memory for some time: a read reports what it sees,
//! and nobody may learn of a booking that a crash could still undo. A read may see inputs that were posted after it;
//! they are durable, too. When reads take long, new inputs do not wait for all of them: after [`limits::READS_TIME`],
//! inputs come first again.
//!
//! The inputs of one batch share one reading of the clock, which is taken after the last of them has arrived. So no
//! expiry is judged by a time before its input came.
//!
//! The turn is split into three calls of [`OwnerTurn`], so that a driver may let time pass between them. A thread
//! ([`spawn`], [`on_thread`]) makes one call after the other. A simulation waits as long as its simulated disk takes,
//! and may crash between two calls.
//!
//! Left out: retries. After a failed append, it is unknown what is on the disk; after a panic of the core, it is
//! unknown what is in memory. Either one ends the owner for good, and the daemon with it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use coalloc_common::{DiskSpace, Now, limits};
use coalloc_protocol::{Causer, Core, Log, Snapshot, Synced, Unsynced, sync};

use crate::error::chain_text;
use crate::turn::{news_of_room, snapshot_if_due, step_all};

/// Shortest wait for a tick, so that a core whose `next_wake` stays in the past does not make the thread spin.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// Longest wait before the clock is read again. The boot-time clock runs while the machine is suspended, but the wait
/// does not: after a suspend, a tick is at most this late.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// A closure that reads the core's state between two batches.
pub type StateQuery<C> = Box<dyn FnOnce(&C) + Send>;

/// A closure that is called at every post.
pub type PostNotifier = Box<dyn Fn() + Send + Sync>;

/// A command that is posted to an owner.
pub enum Command<C: Core> {
    /// An input for the core, and who caused it.
    Input(C::Input, Causer),
    /// A closure that reads the core's state.
    Read(StateQuery<C>),
    /// Wakes the owner so that it can end; see [`Owner::stop`].
    Stop,
}

/// Why a command was not accepted. It has no effect, now or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// [`limits::INBOX_MAX`] commands are waiting already: the caller should answer "busy, try again".
    #[error("busy: {} commands are waiting already", limits::INBOX_MAX)]
    Busy,
    /// The owner was stopped, or has ended.
    #[error("stopped")]
    Stopped,
}

/// A handle to post commands to an owner. When the last handle is dropped, the owner ends as if it had been stopped.
pub struct Owner<C: Core> {
    inbox: SyncSender<Command<C>>,
    shared: Arc<Shared>,
}

/// What all handles to an owner share with it.
#[derive(Default)]
struct Shared {
    stopping: AtomicBool,
    waiting: AtomicUsize,
    bell: OnceLock<PostNotifier>,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

// Written by hand, because a derive would require `C: Clone`.
impl<C: Core> Clone for Owner<C> {
    fn clone(&self) -> Self {
        Self { inbox: self.inbox.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<C: Core> std::fmt::Debug for Owner<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stopping = self.is_stopping();
        f.debug_struct("Owner").field("stopping", &stopping).finish_non_exhaustive()
    }
}

impl<C: Core> Owner<C> {
    /// Posts an input with its causer, and never waits. The answer comes as an effect. If the owner ends before it gets to the input,
    /// the input is dropped, and with it whatever its sender waits on.
    ///
    /// # Errors
    /// [`PostError`] when the input was not accepted.
    pub fn post(&self, input: C::Input, by: Causer) -> Result<(), PostError> {
        self.send(Command::Input(input, by))
    }

    /// Posts a closure that reads the state, and never waits. It runs on the owner's thread, after everything that it
    /// can see is durable. It must be short, and must not panic, because a panic ends the owner.
    ///
    /// # Errors
    /// [`PostError`] when the read was not accepted.
    pub fn read(&self, look: impl FnOnce(&C) + Send + 'static) -> Result<(), PostError> {
        self.send(Command::Read(Box::new(look)))
    }

    /// Stops the owner: what was posted before is still handled, and what is posted later is refused. Returns at
    /// once; wait for the end with [`OwnerThread::join`].
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        // If the inbox is full, the owner is awake anyway, and sees the flag.
        let _ = self.try_send(Command::Stop);
    }

    /// How many commands are waiting; at most [`limits::INBOX_MAX`].
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    fn try_send(&self, command: Command<C>) -> Result<(), TrySendError<Command<C>>> {
        // Count first, so that the owner never takes out a command that was not counted.
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let sent = self.inbox.try_send(command);
        if sent.is_err() {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(bell) = self.shared.bell.get() {
            bell();
        }
        sent
    }

    /// Has the owner been stopped?
    pub fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    fn send(&self, command: Command<C>) -> Result<(), PostError> {
        if self.is_stopping() {
            return Err(PostError::Stopped);
        }
        self.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => PostError::Busy,
            TrySendError::Disconnected(_) => PostError::Stopped,
        })
    }
}

/// The thread of an owner. If this is dropped, the thread keeps running.
#[derive(Debug)]
pub struct OwnerThread {
    handle: JoinHandle<bool>,
}

impl OwnerThread {
    /// Waits for the end: `true` when the owner was stopped, `false` when it failed (then `on_failure` has been
    /// called).
    pub fn join(self) -> bool {
        self.handle.join().unwrap_or(false)
    }

    /// Has the thread ended?
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// Makes an owner of `core` and `log` with [`owner`] and drives it with [`on_thread`] on a thread called `name`.
///
/// # Errors
/// When the system does not provide a thread.
pub fn spawn<C, L>(
    name: &str,
    core: C,
    log: L,
    clock: impl Fn() -> Now + Send + 'static,
    on_effect: impl FnMut(C::Effect) + Send + 'static,
    on_failure: impl FnOnce(TurnError) + Send + 'static,
) -> std::io::Result<(Owner<C>, OwnerThread)>
where
    C: Snapshot + Send + 'static,
    C::Input: Send,
    C::Record: Send,
    C::Effect: Send,
    L: Log<Record = C::Record> + Send + 'static,
{
    let (owner, turner) = owner(core, log, clock, on_effect);
    Ok((owner, on_thread(name, turner, on_failure)?))
}

/// Makes an owner of `core` and `log`. The caller must drive it.
///
/// * `clock` reads both clocks.
/// * `on_effect` gets every effect after its records are durable. It runs on the thread that drives the owner, so it
///   must not wait. It may post.
pub fn owner<C, L>(
    core: C,
    log: L,
    clock: impl Fn() -> Now + Send + 'static,
    on_effect: impl FnMut(C::Effect) + Send + 'static,
) -> (Owner<C>, impl OwnerTurn + 'static)
where
    C: Snapshot + Send + 'static,
    C::Input: Send,
    C::Record: Send,
    C::Effect: Send,
    L: Log<Record = C::Record> + Send + 'static,
{
    let (sender, inbox) = mpsc::sync_channel(limits::INBOX_MAX);
    let shared = Arc::new(Shared::default());
    let turner = OwnerLoop {
        core,
        log,
        clock,
        on_effect,
        inbox,
        shared: Arc::clone(&shared),
        stepped: Vec::new(),
        synced: Vec::new(),
        reads: VecDeque::new(),
        room: DiskSpace::default(),
        last: false,
    };
    (Owner { inbox: sender, shared }, turner)
}

/// Drives an owner on a thread called `name`. `on_failure` gets the reason, once, when an append fails, when the core
/// or a callback panics, or, in debug builds, when an invariant does not hold. It is meant not to return: the daemon
/// logs the reason and aborts (I16). If it does return, the thread ends, and posts are refused.
///
/// # Errors
/// When the system does not provide a thread.
pub fn on_thread(
    name: &str,
    mut turns: impl OwnerTurn + 'static,
    on_failure: impl FnOnce(TurnError) + Send + 'static,
) -> std::io::Result<OwnerThread> {
    let handle = thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Nothing of the owner is used after a panic, so no broken state is seen.
        let end = catch_unwind(AssertUnwindSafe(|| run(&mut turns)));
        let failure = match end {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => error,
            Err(panic) => TurnError::Panic(panic_text(panic.as_ref()).to_owned()),
        };
        // The inbox is still open here: nobody gets "stopped" before the failure is known.
        on_failure(failure);
        false
    })?;
    Ok(OwnerThread { handle })
}

/// Takes turns until the owner is stopped; the error is for `on_failure`.
fn run(turns: &mut impl OwnerTurn) -> Result<(), TurnError> {
    loop {
        turns.step(turns.patience())?;
        turns.sync()?;
        if !turns.release() {
            return Ok(());
        }
    }
}

/// Why an owner ends for good.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The disk failed: the records, or a snapshot of them, are not known to be durable. Nothing may be sent any more
    /// (I16).
    #[error("{0}")]
    Disk(String),
    /// Another process may append to the log by now, see [`Log::is_replaced`]. As after [`TurnError::Disk`], nothing may
    /// be sent any more.
    #[error("{0}")]
    Replaced(String),
    /// The core, or a callback, has panicked.
    #[error("panic: {0}")]
    Panic(String),
    /// The core violates an invariant: it must not be used any more.
    #[error("invariant violated: {0}")]
    Core(String),
}

impl TurnError {
    fn of_log<L: Log>(error: &L::Error) -> Self {
        match L::is_replaced(error) {
            true => Self::Replaced(chain_text(error)),
            false => Self::Disk(chain_text(error)),
        }
    }
}

/// One turn of an owner, for the code that drives it: [`OwnerTurn::step`], [`OwnerTurn::sync`],
/// [`OwnerTurn::release`], and again. Only what was synced is released, whatever the order of the calls: see
/// [`coalloc_protocol::durable`].
pub trait OwnerTurn: Send {
    /// How long the next step should wait when nothing is posted.
    fn patience(&self) -> Duration;

    /// Waits for a command for at most `patience`, takes the other commands that are there, and steps the core
    /// through their inputs. Returns how many records wait to be synced.
    ///
    /// # Errors
    /// A snapshot that was due could not be written, the free space could not be asked for, or the core is broken.
    fn step(&mut self, patience: Duration) -> Result<usize, TurnError>;

    /// Makes the records of the steps so far durable, with one append.
    ///
    /// # Errors
    /// [`TurnError::Disk`]: the records are not known to be durable.
    fn sync(&mut self) -> Result<(), TurnError>;

    /// Releases the effects whose records are durable, then runs reads for a while. Returns `false` when this was the
    /// last turn.
    fn release(&mut self) -> bool;

    /// Sets the closure that is called at every post from now on, for a driver that does not wait in
    /// [`OwnerTurn::step`]. Only the first call has an effect.
    fn ring(&mut self, bell: PostNotifier);
}

impl<T: OwnerTurn + ?Sized> OwnerTurn for Box<T> {
    fn patience(&self) -> Duration {
        (**self).patience()
    }

    fn step(&mut self, patience: Duration) -> Result<usize, TurnError> {
        (**self).step(patience)
    }

    fn sync(&mut self) -> Result<(), TurnError> {
        (**self).sync()
    }

    fn release(&mut self) -> bool {
        (**self).release()
    }

    fn ring(&mut self, bell: PostNotifier) {
        (**self).ring(bell);
    }
}

/// The state of the code that drives an owner.
struct OwnerLoop<C: Core, L, K, F> {
    core: C,
    log: L,
    clock: K,
    on_effect: F,
    inbox: Receiver<Command<C>>,
    shared: Arc<Shared>,
    /// Steps whose records are not durable yet.
    stepped: Vec<Unsynced<C::Record, C::Effect>>,
    /// Steps whose records are durable, and whose effects have not been released.
    synced: Vec<Synced<C::Effect>>,
    /// Reads that were taken from the inbox, but have not run yet.
    reads: VecDeque<StateQuery<C>>,
    /// The disk space that was last reported to the core.
    room: DiskSpace,
    /// Nothing can be posted any more.
    last: bool,
}

impl<C, L, K, F> OwnerLoop<C, L, K, F>
where
    C: Core,
    L: Log<Record = C::Record>,
    K: Fn() -> Now,
    F: FnMut(C::Effect),
{
    /// Waits for a command, then takes the other commands that are there.
    fn gather(&mut self, patience: Duration) -> Vec<(C::Input, Causer)> {
        let mut inputs = Vec::new();
        // Reads that wait delay those who post: so the number that is taken out is bounded.
        let room = limits::GROUP_COMMIT_MAX.saturating_sub(self.reads.len());
        if room == 0 {
            return inputs;
        }
        let mut next = match self.inbox.recv_timeout(patience) {
            Ok(command) => Ok(command),
            Err(RecvTimeoutError::Timeout) => Err(TryRecvError::Empty),
            Err(RecvTimeoutError::Disconnected) => Err(TryRecvError::Disconnected),
        };
        for taken in 1.. {
            if next.is_ok() {
                self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            match next {
                Ok(Command::Input(input, by)) => inputs.push((input, by)),
                Ok(Command::Read(read)) => self.reads.push_back(read),
                Ok(Command::Stop) => {}
                Err(TryRecvError::Empty) => {
                    // Posts have been refused since the flag was set, so an empty inbox stays empty.
                    self.last = self.shared.is_stopping();
                    break;
                }
                Err(TryRecvError::Disconnected) => {
                    self.last = true;
                    break;
                }
            }
            if taken == room {
                break;
            }
            next = self.inbox.try_recv();
        }
        inputs
    }
}

impl<C, L, K, F> OwnerTurn for OwnerLoop<C, L, K, F>
where
    C: Snapshot + Send,
    C::Input: Send,
    C::Record: Send,
    C::Effect: Send,
    L: Log<Record = C::Record> + Send,
    K: Fn() -> Now + Send,
    F: FnMut(C::Effect) + Send,
{
    fn patience(&self) -> Duration {
        // A stop that found the inbox full has sent no command that could wake us; and there may be reads to run.
        if self.shared.is_stopping() || !self.reads.is_empty() {
            return Duration::ZERO;
        }
        let Some(wake) = self.core.next_wake() else {
            return WAIT_MAX;
        };
        wake.since((self.clock)().boot).to_std().clamp(WAIT_MIN, WAIT_MAX)
    }

    fn step(&mut self, patience: Duration) -> Result<usize, TurnError> {
        let inputs = self.gather(patience);
        let now = (self.clock)();
        let news = news_of_room::<C, _>(&mut self.log, &mut self.room);
        let news = news.map_err(|error| TurnError::of_log::<L>(&error))?;
        if self.stepped.is_empty() {
            // Everything is durable, and every effect of it has been released.
            let written = snapshot_if_due(&mut self.core, &mut self.log, self.room);
            written.map_err(|error| TurnError::of_log::<L>(&error))?;
        }
        let steps = step_all(&mut self.core, news, inputs, now);
        let idle = steps.is_empty() && self.reads.is_empty();
        self.stepped.extend(steps);
        if cfg!(debug_assertions) && !idle {
            self.core.check_invariants().map_err(TurnError::Core)?;
        }
        Ok(self.stepped.iter().map(|step| step.records().len()).sum())
    }

    fn sync(&mut self) -> Result<(), TurnError> {
        let steps = std::mem::take(&mut self.stepped);
        let synced = sync(steps, &mut self.log).map_err(|error| TurnError::of_log::<L>(&error))?;
        self.synced.push(synced);
        Ok(())
    }

    fn release(&mut self) -> bool {
        for effect in std::mem::take(&mut self.synced).into_iter().flat_map(Synced::into_effects) {
            (self.on_effect)(effect);
        }
        if !self.stepped.is_empty() {
            // Reads must not see what is not durable.
            return true;
        }
        let until = (!self.reads.is_empty())
            .then(|| (self.clock)().boot.saturating_add(limits::READS_TIME));
        while let Some(read) = self.reads.pop_front() {
            read(&self.core);
            if until.is_some_and(|until| (self.clock)().boot >= until) {
                break;
            }
        }
        !(self.last && self.reads.is_empty())
    }

    fn ring(&mut self, bell: PostNotifier) {
        // One driver sets one closure.
        let _ = self.shared.bell.set(bell);
    }
}

/// The message of a panic, if it has one.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}
