//! Sends updates of profiles to coordinators that may watch them.
//!
//! A subscriber is a cursor into the participant's ring of changes, and a strategy; see
//! [`coalloc_protocol::update`]. Each subscriber has a task. The task sleeps until a record becomes durable,
//! or until its strategy has something due:
//!
//! ```text
//!   owner: append, fsync ──announces 1042──┐
//!                                          v
//!   subscriber's task: a place in its stream is free ── what is due? ── read it in slices ── send ── sleep
//!                      (else: wait, and change nothing)   one short look at the owner's thread each
//! ```
//!
//! So nothing is sent that a crash could undo, no hold waits for a snapshot, and a slow subscriber costs only
//! its cursor and what its stream keeps ([`limits::WATCH_BUFFER`] updates), however much changes meanwhile.
//! What it missed is sent once, with the values at the time of sending. A subscriber whose cursor has fallen
//! off the ring gets a snapshot. One that reads nothing for [`limits::WATCH_STALL_MAX`] loses its place.
//!
//! A revision is a number of records, so a subscriber can go on from its revision after a restart. An epoch
//! stands for the ledger (which gets another identity when a restored copy of it is accepted), for the
//! inventory and for the levels of coordinators. A coordinator is shown the share of what is free that its best level
//! allows. What is read in several slices may be newer than the revision that it is sent under; the next
//! delta then repeats everything that changed since that revision. A delta in several pieces is sent as
//! facts, with a delta as the last piece.
//!
//! Left out: a ledger that was put back together with its tip, which the ledger cannot detect either. A
//! subscriber with a higher revision then gets a snapshot, but one that returns after the ledger has grown
//! past its revision does not notice. Source: docs/adr/0022-updates.md, 0023-publisher.md.

mod delayed_sender;

use std::sync::Arc;

use coalloc_common::{
    CoordinatorName, Now, Requester, ResourceId, Segment, ServiceLevels, Span, Time, limits,
};
use coalloc_net::authorization::Caller;
use coalloc_net::watch::{Watch, WatcherSlot};
use coalloc_net::{convert, metrics, status};
use coalloc_proto::v1;
use coalloc_protocol::participant::{Disclosure, Participant};
use coalloc_protocol::update::{DueUpdate, Part, Strategy, Subscription, Update, UpdateKind};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Status};

use self::delayed_sender::{DelayedSender, UpdateSlot};
use crate::config::{Profiles, RmConfig};
use crate::shell::Handle;

/// Sends updates of what is free to subscribers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Publisher {
    handle: Handle,
    told: Arc<PublisherConfig>,
}

/// What does not change while the process lives.
#[derive(Debug)]
struct PublisherConfig {
    profiles: Profiles,
    levels: ServiceLevels,
    epoch: u64,
    resources: Vec<ResourceId>,
}

impl Publisher {
    /// The publisher of a resource manager whose ledger has this identity.
    #[must_use]
    pub fn new(handle: Handle, config: &RmConfig, ledger_id: &str) -> Self {
        let told = PublisherConfig {
            profiles: config.profiles.clone(),
            levels: config.levels.clone(),
            epoch: epoch(config, ledger_id),
            resources: config.resources.iter().map(|(resource, _)| resource.clone()).collect(),
        };
        Self { handle, told: Arc::new(told) }
    }

    /// The share of what is free that a coordinator may know, in percent.
    #[must_use]
    pub fn best(&self, coordinator: &CoordinatorName) -> u32 {
        self.told.levels.best(&Requester::Coordinator(coordinator.clone()))
    }

    /// Whether this coordinator has the permission to watch profiles.
    #[must_use]
    pub fn may_watch(&self, coordinator: &CoordinatorName) -> bool {
        self.told.profiles.coordinators.contains(coordinator)
    }

    /// Checks that a coordinator may see what is free over time.
    ///
    /// # Errors
    /// PERMISSION_DENIED when it may not.
    pub fn check_may_watch(&self, coordinator: &CoordinatorName) -> Result<(), Status> {
        if self.may_watch(coordinator) {
            return Ok(());
        }
        tracing::warn!(%coordinator, "may not watch profiles here");
        Err(status::denied(format!(
            "coordinator {coordinator} may not watch profiles here, nor search servers: \
             `profiles.coordinators` of the resource manager's configuration does not list it"
        )))
    }

    /// A stream of updates for as long as the client and this daemon live.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a bad name or policy, PERMISSION_DENIED without the permission,
    /// RESOURCE_EXHAUSTED when there are too many watches already, UNAVAILABLE when the node is stopping.
    pub fn watch(
        &self,
        caller: &Caller,
        wire: &v1::WatchProfilesRequest,
    ) -> Result<Watch<v1::WatchProfilesResponse>, Status> {
        let coordinator = CoordinatorName::parse("coordinator", &wire.coordinator);
        let coordinator = coordinator.map_err(|error| status::invalid(&error))?;
        caller.check_is_coordinator("coordinator", &coordinator)?;
        self.check_may_watch(&coordinator)?;
        let asked = wire.policy.as_ref();
        let asked = asked.map(|wire| convert::update_policy_from_wire("policy", wire)).transpose();
        let asked = asked.map_err(|error| status::invalid(&error))?;
        let setting = self.told.profiles.updates;
        let policy = asked.map_or(setting, |asked| setting.at_fastest(asked));
        let following = self.handle.follow(caller)?;
        let resumed = (wire.epoch == self.told.epoch).then_some(wire.revision);
        tracing::info!(%coordinator, ?resumed, ?policy, "watches profiles");
        let (way, stream) = DelayedSender::new(policy.delay, following.last_status());
        let teller = SubscriberTask {
            publisher: self.clone(),
            best: self.best(&coordinator),
            following,
            // Every change, whatever the strategy: a subscriber that returns gets what it missed at once.
            subscription: Subscription::new(Strategy::EveryChange, resumed, self.handle.now().boot),
            strategy: policy.strategy,
            told: None,
            _counted: SubscriberGuard::new(),
        };
        tokio::spawn(async move {
            teller.run(way).await;
            tracing::info!(%coordinator, "stopped watching profiles");
        });
        Ok(stream)
    }

    /// What is free now over the windows of these segments, as facts for a coordinator, at most as much as fits in one
    /// update. `None` when the participant is too busy or stopping: an answer to Hold does not wait for this.
    pub async fn fresh(
        &self,
        coordinator: &CoordinatorName,
        segments: Vec<Segment>,
    ) -> Option<v1::ProfileUpdate> {
        let (epoch, at) = (self.told.epoch, self.handle.now().wall);
        let best = self.best(coordinator);
        let look = move |participant: &Participant| {
            let mut around = participant.around(&segments);
            participant.disclose(&mut around);
            let (revision, parts) = (participant.changes().revision(), shown(around.take(), best));
            Update { epoch, kind: UpdateKind::Facts, revision, at, parts }
        };
        let update = convert::update_to_wire(&self.handle.read(look).await.ok()?);
        count("facts", &update);
        Some(update)
    }
}

/// Parts as somebody is shown them who may know a share of what is free, in percent.
fn shown(parts: Vec<Part>, best: u32) -> Vec<Part> {
    parts.into_iter().map(|part| part.at_most(best)).collect()
}

/// The epoch, which stands for a ledger and an inventory, and for the levels of coordinators: 64 bits of a hash, so two are equal by accident
/// once in 10^19 times. It is never 0, which on the wire means that there is none.
fn epoch(config: &RmConfig, ledger_id: &str) -> u64 {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    add(ledger_id.as_bytes());
    for (resource, capacity) in &config.resources {
        add(resource.as_str().as_bytes());
        add(&capacity.0.to_be_bytes());
    }
    // The inner routes decide what paths can carry, so the end points and latencies of paths count, too.
    if let Some(inner) = &config.inner {
        add(&inner.encode_to_vec());
        config.description.paths.iter().for_each(|path| add(&path.encode_to_vec()));
    }
    // A coordinator whose level changes needs a new picture.
    for (coordinator, of) in &config.levels.coordinators {
        add(coordinator.as_str().as_bytes());
        add(&of.best.to_be_bytes());
    }
    let digest = hash.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(first).max(1)
}

fn count(kind: &str, update: &v1::ProfileUpdate) {
    let rm = metrics::rm();
    rm.updates.with([kind]).inc();
    rm.update_bytes.inc_by(update.encoded_len() as u64);
    rm.update_steps.inc_by(update.parts.iter().map(|part| part.free.len() as u64).sum());
}

/// Counts one subscriber in the gauge while it lives.
struct SubscriberGuard;

impl SubscriberGuard {
    fn new() -> Self {
        metrics::rm().subscribers.inc();
        Self
    }
}

impl Drop for SubscriberGuard {
    fn drop(&mut self) {
        metrics::rm().subscribers.dec();
    }
}

/// One running subscriber.
struct SubscriberTask {
    publisher: Publisher,
    /// The share of what is free that the subscriber may know, in percent.
    best: u32,
    following: WatcherSlot,
    subscription: Subscription,
    /// The strategy that counts after the first update.
    strategy: Strategy,
    /// When something was last sent, and up to which time (by this machine's clock) everything at the
    /// subscription's revision was true; `None` before the first update.
    told: Option<(Instant, Time)>,
    _counted: SubscriberGuard,
}

/// The result of one look at the participant.
enum ProfileReading {
    /// There is an update to send: changes after the revision `from`, or everything.
    News { from: Option<u64>, revision: u64, disclosure: Disclosure },
    /// Nothing is due now. Something may be due at the instant `at`, if nothing changes before.
    /// `behind`: there are changes that the subscriber has not been sent.
    Nothing { at: Option<Instant>, behind: bool },
}

impl SubscriberTask {
    async fn run(mut self, way: DelayedSender) {
        let mut place = None;
        loop {
            let free = match place.take() {
                Some(place) => place,
                None => match way.place(&mut self.following).await {
                    Some(place) => place,
                    None => return,
                },
            };
            let looked = Instant::now();
            let seen = self.following.durable();
            let news = match self.look().await {
                Some(news) => news,
                None => return,
            };
            let mut wake = None;
            match news {
                ProfileReading::News { from, revision, disclosure } => {
                    if self.tell(&way, free, from, revision, disclosure).await.is_none() {
                        return;
                    }
                }
                ProfileReading::Nothing { at, behind } => {
                    wake = at;
                    place = self.sign_of_life(free, behind);
                }
            }
            // A period decides by itself when it is over; a new record does not end it.
            let waits = wake.is_some() && matches!(self.strategy, Strategy::Periodic(_));
            if !self.sleep(&way, if waits { u64::MAX } else { seen }, wake, looked).await {
                return;
            }
        }
    }

    /// Asks the participant what is due; `None` when the daemon stops.
    async fn look(&mut self) -> Option<ProfileReading> {
        let now = self.publisher.handle.now();
        let mut subscription = self.subscription.clone();
        let look = move |participant: &Participant| {
            let (changes, resources) = (participant.changes(), &participant.config().resources);
            let capacity = |number: u32| resources[number as usize].1;
            let revision = changes.revision();
            // What is over counts as well: if a clock that was ahead is set back, it becomes current again
            // (I18).
            let ever = Now { wall: Time::from_us(0), ..now };
            let due = subscription.due(changes, capacity, ever);
            let behind = subscription.revision().is_none_or(|had| changes.is_behind(had));
            let (from, mut disclosure) = match due {
                DueUpdate::Snapshot => (None, participant.everything(now.wall)),
                DueUpdate::Delta { from, touched } => {
                    let windows = touched.into_iter().flat_map(|(number, of)| {
                        of.windows.into_iter().map(move |window| (number, window))
                    });
                    (Some(from), Disclosure::of(windows))
                }
                DueUpdate::At(at) => {
                    let pause = at.since(now.boot).to_std();
                    let at = Some(Instant::now() + pause);
                    return (subscription, ProfileReading::Nothing { at, behind });
                }
                DueUpdate::Nothing => {
                    return (subscription, ProfileReading::Nothing { at: None, behind });
                }
            };
            participant.disclose(&mut disclosure);
            (subscription, ProfileReading::News { from, revision, disclosure })
        };
        let (subscription, seen) = self.read(look).await?;
        self.subscription = subscription;
        if let ProfileReading::News { .. } = seen {
            self.told = Some((Instant::now(), now.wall));
        }
        Some(seen)
    }

    /// Sends an update piece by piece; `None` when the stream is over.
    async fn tell(
        &mut self,
        way: &DelayedSender,
        mut place: UpdateSlot,
        from: Option<u64>,
        revision: u64,
        mut disclosure: Disclosure,
    ) -> Option<()> {
        let at = self.told.map_or(Time::from_us(0), |(_, at)| at);
        let mut resources = self.publisher.told.resources.clone();
        loop {
            while !(disclosure.is_read() || disclosure.is_full()) {
                disclosure = self
                    .read(move |participant| {
                        participant.disclose(&mut disclosure);
                        disclosure
                    })
                    .await?;
            }
            let (parts, more) = (shown(disclosure.take(), self.best), !disclosure.is_read());
            let kind = match from {
                None => UpdateKind::Snapshot { resources: std::mem::take(&mut resources), more },
                Some(_) if more => UpdateKind::Facts,
                Some(from) => UpdateKind::Delta { from },
            };
            let word = if from.is_none() { "snapshot" } else { "delta" };
            self.send(place, word, Update { epoch: self.epoch(), kind, revision, at, parts });
            if !more {
                break;
            }
            place = way.place(&mut self.following).await?;
        }
        let boot = self.publisher.handle.now().boot;
        self.subscription = Subscription::new(self.strategy, Some(revision), boot);
        Some(())
    }

    /// When nothing was sent for a while, sends a sign of life: nothing has changed, or nothing is due yet.
    /// Returns the place when it is too early for that.
    fn sign_of_life(&mut self, place: UpdateSlot, behind: bool) -> Option<UpdateSlot> {
        let now = self.publisher.handle.now();
        let Some(revision) = self.subscription.revision() else { return Some(place) };
        let at = match self.told {
            Some((when, _)) if when.elapsed() < limits::UPDATE_PROGRESS.to_std() => {
                return Some(place);
            }
            // Changes wait to be sent, so nothing newer is known to be true than what was sent last.
            Some((_, at)) if behind => at,
            _ => now.wall,
        };
        if self.told.replace((Instant::now(), at)).is_none() {
            // The subscriber has returned, and has missed nothing.
            self.subscription = Subscription::new(self.strategy, Some(revision), now.boot);
        }
        let kind = UpdateKind::Delta { from: revision };
        let update = Update { epoch: self.epoch(), kind, revision, at, parts: Vec::new() };
        self.send(place, "alive", update);
        None
    }

    fn send(&self, place: UpdateSlot, word: &str, update: Update) {
        let steps = update.parts.iter().map(|part| part.steps.len()).sum();
        let update = convert::update_to_wire(&update);
        count(word, &update);
        place.send(v1::WatchProfilesResponse { update: Some(update) }, steps);
    }

    fn epoch(&self) -> u64 {
        self.publisher.told.epoch
    }

    /// Waits for a record after `seen`, for the instant `wake`, or for the next sign of life; false when the
    /// stream is over.
    async fn sleep(
        &mut self,
        way: &DelayedSender,
        seen: u64,
        wake: Option<Instant>,
        looked: Instant,
    ) -> bool {
        let told = self.told.map_or(looked, |(when, _)| when);
        let quiet = told + limits::UPDATE_PROGRESS.to_std();
        let wake = wake.map_or(quiet, |wake| wake.min(quiet));
        tokio::select! {
            biased;
            () = way.closed() => return false,
            alive = self.following.beyond(seen) => if !alive { return false },
            () = sleep_until(wake) => {}
        }
        // With a threshold, each look costs as much as has changed since the last update, so looks are less
        // frequent.
        let pause = match self.strategy {
            Strategy::Threshold { period, .. } => {
                let share = Span::from_us(period.as_us() / limits::THRESHOLD_LOOKS);
                share.clamp(limits::UPDATE_PAUSE, limits::THRESHOLD_PAUSE_MAX)
            }
            Strategy::EveryChange | Strategy::Periodic(_) => limits::UPDATE_PAUSE,
        };
        tokio::select! {
            biased;
            () = way.closed() => return false,
            () = sleep_until(looked + pause.to_std()) => {}
        }
        true
    }

    /// Reads the participant; `None` when the daemon stops.
    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Participant) -> T + Clone + Send + 'static,
    ) -> Option<T> {
        loop {
            match self.publisher.handle.read(look.clone()).await {
                Ok(seen) => return Some(seen),
                Err(status) if status.code() == Code::ResourceExhausted => {
                    tokio::time::sleep(limits::BUSY_PAUSE.to_std()).await;
                }
                Err(_) => return None,
            }
        }
    }
}
