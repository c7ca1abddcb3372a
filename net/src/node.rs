//! A running core in a daemon: its ledger, which is opened and replayed, its running owner, and the handle by
//! which RPC handlers post inputs to it, wait for its answers, and read it.
//!
//! Left out: what a core decides (`protocol`), and how its effects are carried out (the shells in `rm` and
//! `grc`).

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use coalloc_common::{DiskSpace, Now, limits};
use coalloc_ledger::owner::{Owner, PostError};
use coalloc_ledger::sqlite::SqliteLedger;
use coalloc_ledger::tip::Tip;
use coalloc_ledger::{CoreFold, Identity, Ledger, LedgerError, snapshot_if_due};
use coalloc_protocol::message::Token;
use coalloc_protocol::{CausedRecord, Causer, ChangedPart, Core, Log, Snapshot};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{oneshot, watch};
use tonic::Status;

use crate::authorization::Caller;
use crate::daemon::DaemonError;
use crate::disk_space::DiskSpaceWatch;
use crate::machine::{Host, OwnerFinished};
use crate::metrics::records::Observed;
use crate::metrics::{self, scrape};
use crate::traces::Span;
use crate::turn::{Turn, Turns};
use crate::waiters::Waiters;
use crate::watch::{Events, Feed, Watch, WatcherSlot};
use crate::{status, traces};

/// Opens a node's ledger file, or makes a new one, and replays the ledger into the core.
///
/// # Errors
/// [`DaemonError::Ledger`] with one sentence that names the file and says what an operator can do.
pub fn open_ledger<C: Snapshot>(
    path: &Path,
    kind: &str,
    name: &str,
    core: &mut C,
) -> Result<SqliteLedger<C::Record>, DaemonError>
where
    C::Record: Serialize + DeserializeOwned + Observed,
{
    let identity = Identity { kind: kind.to_owned(), name: name.to_owned() };
    let new_id = || uuid::Uuid::new_v4().simple().to_string();
    let mut open = || {
        let noticed = |_, record: &C::Record| record.count();
        let mut fold = CoreFold { core, noticed };
        let mut ledger = SqliteLedger::open_into(path, &identity, new_id, &mut fold)?;
        // A ledger that had no snapshot yet may have much to write. Nobody waits for an answer yet.
        let room = ledger.room()?;
        snapshot_if_due(fold.core, &mut ledger, room)?;
        Ok(ledger)
    };
    open().map_err(|error: LedgerError| {
        DaemonError::Ledger(coalloc_ledger::error::chain_text(&error))
    })
}

/// A running core. `A` is the type of its answers to callers.
pub struct Node<C: Core> {
    /// The handle for RPC handlers.
    pub handle: Handle<C>,
    /// Reads the values that exist only at a moment, for a scrape of metrics.
    pub reader: scrape::Reader,
    /// Whether its disk has space for anything new.
    pub room: DiskSpaceWatch,
    ended: OwnerFinished,
}

impl<C> Node<C>
where
    C: Snapshot + Send + 'static,
    C::Input: Send,
    C::Record: Send + Observed + 'static,
    C::Effect: Send,
{
    /// Starts the owner of a core and its ledger. `on_effect` runs on the owner's thread and must not wait;
    /// it gives callers their answers through the waiters that it is passed. The process ends when the ledger
    /// or the state can no longer be trusted.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn start<L: Ledger<Record = C::Record>>(
        name: &str,
        host: &Host,
        core: C,
        ledger: L,
        mut on_effect: impl FnMut(C::Effect, &Waiters) + Send + 'static,
    ) -> Result<Self, DaemonError> {
        let turns = Turns::default();
        let waiters = Waiters::new(turns.clone());
        let completed = waiters.clone();
        let size = ledger.size();
        let (announce, feed) = Feed::of(&ledger);
        let (tell_room, room) = watch::channel(DiskSpace::Enough);
        let ledger = announce.around(Metered::new(name, ledger, turns.clone(), tell_room));
        let clock = Arc::clone(host);
        let (owner, driven) = coalloc_ledger::owner::owner(
            core,
            ledger,
            move || {
                turns.begin();
                clock.now()
            },
            move |effect| on_effect(effect, &completed),
        );
        let ended = host.drive(name, Box::new(driven))?;
        let reader = reader(name, size, owner.clone());
        let (refused, host) = (metrics::ledger().refused.with([name]), Arc::clone(host));
        Ok(Self { handle: Handle { owner, waiters, feed, refused, host }, reader, room, ended })
    }

    /// Lets the owner finish what was posted, ends the owner, and releases all callers that still wait.
    pub async fn stop(self) {
        self.handle.owner.stop();
        self.ended.await;
        self.handle.waiters.close();
    }
}

/// A reader for the owner's inbox and the size of its ledger.
fn reader<C: Core + Send + 'static>(
    name: &str,
    size: impl Fn() -> u64 + Send + Sync + 'static,
    owner: Owner<C>,
) -> scrape::Reader
where
    C::Input: Send,
{
    let (inbox, bytes) =
        (metrics::ledger().inbox.with([name]), metrics::ledger().size.with([name]));
    scrape::reader(move || {
        inbox.set(i64::try_from(owner.waiting()).unwrap_or(i64::MAX));
        bytes.set(i64::try_from(size()).unwrap_or(i64::MAX));
        std::future::ready(())
    })
}

/// A ledger whose appends are timed and whose records are counted once they are durable.
struct Metered<L> {
    ledger: L,
    turns: Turns,
    seconds: Histogram,
    snapshot_seconds: Histogram,
    batch: Histogram,
    records: Counter,
    room: Gauge,
    room_bytes: Gauge,
    tell_room: watch::Sender<DiskSpace>,
}

impl<L: Ledger> Metered<L> {
    fn new(name: &str, ledger: L, turns: Turns, tell_room: watch::Sender<DiskSpace>) -> Self {
        let metrics = metrics::ledger();
        let records = metrics.records.with([name]);
        records.inc_by(ledger.last_sequence());
        let seconds = metrics.sync_seconds.with([name]);
        let snapshot_seconds = metrics.snapshot_seconds.with([name]);
        let (room, room_bytes) = (metrics.has_room.with([name]), metrics.room_bytes.with([name]));
        let batch = metrics.batch_records.with([name]);
        Self {
            ledger,
            turns,
            seconds,
            snapshot_seconds,
            batch,
            records,
            room,
            room_bytes,
            tell_room,
        }
    }
}

impl<L: Ledger<Record: Observed>> Log for Metered<L> {
    type Record = L::Record;
    type Error = L::Error;

    fn append_caused(&mut self, records: &[CausedRecord<'_, L::Record>]) -> Result<(), L::Error> {
        let begun = Instant::now();
        self.ledger.append_caused(records)?;
        let ended = Instant::now();
        self.turns.synced((begun, ended));
        let took = ended - begun;
        if took >= limits::SLOW_SYNC.to_std() {
            tracing::warn!(
                ledger = self.ledger.place(),
                seconds = took.as_secs_f64(),
                records = records.len(),
                "the disk is slow: everything that arrived meanwhile waited for this sync"
            );
        }
        self.seconds.observe(took.as_secs_f64());
        // A batch has at most `GROUP_COMMIT_MAX` inputs, each of which makes a few records.
        self.batch.observe(records.len() as f64);
        self.records.inc_by(records.len() as u64);
        for CausedRecord { record, .. } in records {
            record.count();
            if traces::is_on() {
                record.trace(&(begun, ended));
            }
        }
        Ok(())
    }

    fn snapshot_is_due(&self, changed: usize) -> bool {
        self.ledger.snapshot_is_due(changed)
    }

    fn write_snapshot<P: Serialize>(&mut self, changed: &[ChangedPart<P>]) -> Result<(), L::Error> {
        let begun = Instant::now();
        self.ledger.write_snapshot(changed)?;
        let took = begun.elapsed();
        self.snapshot_seconds.observe(took.as_secs_f64());
        tracing::debug!(parts = changed.len(), seconds = took.as_secs_f64(), "snapshot written");
        Ok(())
    }

    fn room(&mut self) -> Result<DiskSpace, L::Error> {
        let room = self.ledger.room()?;
        self.room.set(i64::from(!room.is_low()));
        self.room_bytes.set(i64::try_from(self.ledger.room_bytes()).unwrap_or(i64::MAX));
        self.tell_room.send_if_modified(|known| std::mem::replace(known, room) != room);
        Ok(room)
    }
}

/// How RPC handlers, and a shell's own tasks, reach a running core.
#[derive(Debug)]
pub struct Handle<C: Core> {
    owner: Owner<C>,
    waiters: Waiters,
    feed: Feed<C::Record>,
    refused: Counter,
    host: Host,
}

// Not derived: a derive would ask for `C: Clone`.
impl<C: Core> Clone for Handle<C> {
    fn clone(&self) -> Self {
        let (owner, waiters) = (self.owner.clone(), self.waiters.clone());
        let (feed, refused) = (self.feed.clone(), self.refused.clone());
        Self { owner, waiters, feed, refused, host: Arc::clone(&self.host) }
    }
}

impl<C: Core> Handle<C> {
    /// The machine that the node runs on.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Reads both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        self.host.now()
    }

    /// Posts an input that the node itself causes, and that nobody waits for. False when it was not accepted: the
    /// core then does not know of it, and the caller relies on the core's own alarms.
    pub fn tell(&self, input: C::Input) -> bool {
        self.tell_from(Causer::Itself, input)
    }

    /// The same for an input that a peer has caused, such as its answer.
    pub fn tell_from(&self, by: Causer, input: C::Input) -> bool {
        let taken = self.owner.post(input, by);
        if let Err(error) = taken {
            tracing::warn!(%error, "an input was not accepted");
            self.refused.inc();
        }
        taken.is_ok()
    }

    /// Whether the node is being stopped. If so, it accepts no inputs any more.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.owner.is_stopping()
    }

    /// Posts an input of this causer that carries a token. The answer arrives through the receiver.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when too many inputs wait already, UNAVAILABLE when the node is stopping.
    pub fn post<A: Send + 'static>(
        &self,
        by: &Causer,
        input: impl FnOnce(Token<A>) -> C::Input,
    ) -> Result<oneshot::Receiver<A>, Status> {
        let (token, answer) = self.waiters.register();
        if let Err(error) = self.owner.post(input(token), by.clone()) {
            self.waiters.forget(token);
            self.refused.inc();
            return Err(post_status(error));
        }
        Ok(answer)
    }

    /// Posts an input of this causer that carries a token, and waits for the answer.
    ///
    /// # Errors
    /// As [`Handle::post`]. Also UNAVAILABLE when the node stopped before it answered; it is then not known
    /// whether the input took effect.
    pub async fn call<A: Send + 'static>(
        &self,
        by: &Causer,
        input: impl FnOnce(Token<A>) -> C::Input,
    ) -> Result<A, Status> {
        let span = Span::current();
        if !span.is_on() {
            return self.post(by, input)?.await.map_err(|_| status::answer_lost());
        }
        let posted = Instant::now();
        let mut turn = None;
        let waiting = self.post(by, |token| {
            turn = self.waiters.watch(token);
            input(token)
        })?;
        let answer = waiting.await.map_err(|_| status::answer_lost())?;
        if let Some(turn) = turn.as_ref().and_then(|turn| turn.get()) {
            show(&span, posted, turn);
        }
        Ok(answer)
    }

    /// Reads the core at a moment when everything in it is durable.
    ///
    /// # Errors
    /// As [`Handle::post`].
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&C) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let (sender, seen) = oneshot::channel();
        let look = move |core: &C| {
            // The caller may be gone.
            let _ = sender.send(look(core));
        };
        self.owner.read(look).map_err(post_status)?;
        seen.await.map_err(|_| status::stopping())
    }
}

impl<C> Handle<C>
where
    C: Core + Send + 'static,
    C::Input: Send,
    C::Record: Send + Sync + 'static,
{
    /// A stream of everything that becomes durable after a resume token, as `events` describes it, for as
    /// long as the client and this daemon live. See [`crate::watch`].
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a text that is no token, FAILED_PRECONDITION for a token of another history,
    /// RESOURCE_EXHAUSTED when there are too many watches already, UNAVAILABLE when the node is stopping.
    pub async fn watch<E: Events<C>>(
        &self,
        caller: &Caller,
        token: &str,
        events: E,
    ) -> Result<Watch<E::Message>, Status> {
        self.feed.watch(self.clone(), caller, token, events).await
    }

    /// A stream of everything that becomes durable from now on, for the daemon itself. It has one of the few places that the
    /// daemon keeps for itself, so callers take none from it and lose none to it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when the daemon has too many such watches, UNAVAILABLE when the node is stopping.
    pub async fn watch_itself<E: Events<C>>(&self, events: E) -> Result<Watch<E::Message>, Status> {
        self.feed.watch_itself(self.clone(), events).await
    }

    /// The number and hash of the ledger's last durable record, and the id with which its chain begins.
    ///
    /// # Errors
    /// DATA_LOSS when the ledger cannot be read.
    pub async fn tip(&self) -> Result<Tip, Status> {
        self.feed.tip(&self.host).await
    }

    /// A place among the watchers, without a stream of records.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when there are too many watches already, UNAVAILABLE when the node is stopping.
    pub fn follow(&self, caller: &Caller) -> Result<WatcherSlot, Status> {
        self.feed.follow(caller)
    }

    /// Ends every watch. The clients resume elsewhere, or here after the restart.
    pub fn end_watches(&self) {
        self.feed.end();
    }
}

/// Adds the phases of an input (inbox, step, sync) to the span of its call.
fn show(span: &Span, posted: Instant, turn: &Turn) {
    let begun = turn.begun.max(posted);
    let stepped = turn.synced.map_or(turn.completed, |(from, _)| from).max(begun);
    span.past("inbox", posted, begun, Vec::new());
    span.past("step", begun, stepped, Vec::new());
    if let Some((from, until)) = turn.synced {
        span.past("sync", from, until, Vec::new());
    }
}

fn post_status(error: PostError) -> Status {
    match error {
        PostError::Busy => status::busy(),
        PostError::Stopped => status::stopping(),
    }
}
