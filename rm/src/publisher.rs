//! Updates of profiles, to coordinators that may watch them.
//!
//! A subscriber is a cursor into the participant's ring of changes and a strategy, see
//! [`coalloc_protocol::update`]. Each has a task, which sleeps until a record becomes durable or its strategy has
//! something due:
//!
//! ```text
//!   owner: append, fsync ──announces 1042──┐
//!                                          v
//!   subscriber's task: a place in its stream is free ── what is due? ── read it in slices ── send ── sleep
//!                      (else: wait, and change nothing)   one short look at the owner's thread each
//! ```
//!
//! So nothing is told that a crash could undo, no hold waits for a snapshot, and a slow subscriber costs its
//! cursor and what its stream keeps ([`limits::WATCH_BUFFER`] updates), whatever changes meanwhile: what it
//! missed is told once, as it is by then. One that has fallen off the ring gets a snapshot; one that takes
//! nothing for [`limits::WATCH_STALL_MAX`] loses its place.
//!
//! A revision is a number of records, so that a subscriber goes on from where it was across a restart. An
//! epoch stands for the ledger (with another identity once a restored copy of it was accepted) and for the
//! inventory. What is read in several slices may be younger than the revision that it is sent under: the next
//! delta says all that changed since that revision again. A delta of more than one piece is facts, and a delta
//! with the last of it.
//!
//! Left out: a copy of ledger and tip put back together, which the ledger cannot see either; a subscriber that has a
//! higher revision gets a snapshot then, one that comes back after the ledger has grown past it does not notice.
//! Who a coordinator really is comes with identity. Source: docs/adr/0022-updates.md, 0023-publisher.md.

mod delayed_sender;

use std::sync::Arc;

use coalloc_common::{CoordinatorName, Now, ResourceId, Segment, Span, Time, limits};
use coalloc_net::watch::{Watch, WatcherSlot};
use coalloc_net::{convert, metrics, status};
use coalloc_proto::v1;
use coalloc_protocol::participant::{Disclosure, Participant};
use coalloc_protocol::update::{DueUpdate, Strategy, Subscription, Update, UpdateKind};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Status};

use self::delayed_sender::{DelayedSender, UpdateSlot};
use crate::config::{Profiles, RmConfig};
use crate::shell::Handle;

/// Tells subscribers what is free. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Publisher {
    handle: Handle,
    told: Arc<PublisherConfig>,
}

/// What never changes while the process lives.
#[derive(Debug)]
struct PublisherConfig {
    profiles: Profiles,
    epoch: u64,
    resources: Vec<ResourceId>,
}

impl Publisher {
    /// Of a resource manager with this ledger.
    #[must_use]
    pub fn new(handle: Handle, config: &RmConfig, ledger_id: &str) -> Self {
        let told = PublisherConfig {
            profiles: config.profiles.clone(),
            epoch: epoch(config, ledger_id),
            resources: config.resources.iter().map(|(resource, _)| resource.clone()).collect(),
        };
        Self { handle, told: Arc::new(told) }
    }

    /// Has this coordinator the permission?
    #[must_use]
    pub fn may_watch(&self, coordinator: &CoordinatorName) -> bool {
        self.told.profiles.coordinators.contains(coordinator)
    }

    /// A stream of updates for as long as the client and this daemon live.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a bad name or policy, PERMISSION_DENIED without the permission, RESOURCE_EXHAUSTED
    /// when too many watch already, UNAVAILABLE when the node is stopping.
    pub fn watch(
        &self,
        wire: &v1::WatchProfilesRequest,
    ) -> Result<Watch<v1::WatchProfilesResponse>, Status> {
        let coordinator = CoordinatorName::parse("coordinator", &wire.coordinator);
        let coordinator = coordinator.map_err(|error| status::invalid(&error))?;
        if !self.may_watch(&coordinator) {
            tracing::warn!(%coordinator, "may not watch profiles here");
            return Err(status::denied(format!(
                "coordinator {coordinator} may not watch profiles here: `profiles.coordinators` of the \
                 resource manager's configuration does not have it"
            )));
        }
        let asked = wire.policy.as_ref();
        let asked = asked.map(|wire| convert::update_policy_from_wire("policy", wire)).transpose();
        let asked = asked.map_err(|error| status::invalid(&error))?;
        let setting = self.told.profiles.updates;
        let policy = asked.map_or(setting, |asked| setting.at_fastest(asked));
        let following = self.handle.follow()?;
        let resumed = (wire.epoch == self.told.epoch).then_some(wire.revision);
        tracing::info!(%coordinator, ?resumed, ?policy, "watches profiles");
        let (way, stream) = DelayedSender::new(policy.delay);
        let teller = SubscriberTask {
            publisher: self.clone(),
            following,
            // Whatever the strategy: who comes back is told at once what it missed.
            subscription: Subscription::new(Strategy::EveryChange, resumed, self.handle.now().boot),
            strategy: policy.strategy,
            told: None,
            _counted: SubscriberGuard::new(),
        };
        tokio::spawn(async move {
            teller.run(way).await;
            tracing::info!(%coordinator, "watches no more");
        });
        Ok(stream)
    }

    /// What is free over the windows of these segments at this moment, as facts; at most what one update says.
    /// `None` when the participant is too busy or stopping: an answer does not wait for it.
    pub async fn fresh(&self, segments: Vec<Segment>) -> Option<v1::ProfileUpdate> {
        let (epoch, at) = (self.told.epoch, self.handle.now().wall);
        let look = move |participant: &Participant| {
            let mut around = participant.around(&segments);
            participant.disclose(&mut around);
            let (revision, parts) = (participant.changes().revision(), around.take());
            Update { epoch, kind: UpdateKind::Facts, revision, at, parts }
        };
        let update = convert::update_to_wire(&self.handle.read(look).await.ok()?);
        count("facts", &update);
        Some(update)
    }
}

/// Stands for a ledger and an inventory: 64 bits of a hash, so that two are the same by accident once in
/// 10^19 times. Never 0, which on the wire says that there is none.
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
    // Which routes there are inside decides what paths can carry: ends and latencies, too.
    if let Some(inner) = &config.inner {
        add(&inner.encode_to_vec());
        config.description.paths.iter().for_each(|path| add(&path.encode_to_vec()));
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

/// One subscriber in the gauge.
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

/// One subscriber at work.
struct SubscriberTask {
    publisher: Publisher,
    following: WatcherSlot,
    subscription: Subscription,
    /// From the first update on.
    strategy: Strategy,
    /// When something was last sent, and when everything up to the subscription's revision was true by the
    /// clock of this machine; nothing before the first update.
    told: Option<(Instant, Time)>,
    _counted: SubscriberGuard,
}

/// What one look at the participant saw.
enum ProfileReading {
    /// There is something to tell: from that revision, or everything.
    News { from: Option<u64>, revision: u64, disclosure: Disclosure },
    /// Nothing now; perhaps at that instant, if nothing changes before.
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
                    if self.tell(&way, free, (from, revision), disclosure).await.is_none() {
                        return;
                    }
                }
                ProfileReading::Nothing { at, behind } => {
                    wake = at;
                    place = self.sign_of_life(free, behind);
                }
            }
            // A period says by itself when it is over.
            let waits = wake.is_some() && matches!(self.strategy, Strategy::Periodic(_));
            if !self.sleep(&way, if waits { u64::MAX } else { seen }, wake, looked).await {
                return;
            }
        }
    }

    /// What is due; `None` when the daemon stops.
    async fn look(&mut self) -> Option<ProfileReading> {
        let now = self.publisher.handle.now();
        let mut subscription = self.subscription.clone();
        let look = move |participant: &Participant| {
            let (changes, resources) = (participant.changes(), &participant.config().resources);
            let capacity = |number: u32| resources[number as usize].1;
            let revision = changes.revision();
            // Also of what is over: a clock that was ahead and is set back makes it to come again (I18).
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

    /// Sends news piece by piece; `None` when the stream is over.
    async fn tell(
        &mut self,
        way: &DelayedSender,
        mut place: UpdateSlot,
        (from, revision): (Option<u64>, u64),
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
            let (parts, more) = (disclosure.take(), !disclosure.is_read());
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

    /// Says that nothing has changed, or that it is not due, when nothing was said for long. Gives the place
    /// back when it is too early.
    fn sign_of_life(&mut self, place: UpdateSlot, behind: bool) -> Option<UpdateSlot> {
        let now = self.publisher.handle.now();
        let Some(revision) = self.subscription.revision() else { return Some(place) };
        let at = match self.told {
            Some((when, _)) if when.elapsed() < limits::UPDATE_PROGRESS.to_std() => {
                return Some(place);
            }
            // What was told last is all that is known to be true of then.
            Some((_, at)) if behind => at,
            _ => now.wall,
        };
        if self.told.replace((Instant::now(), at)).is_none() {
            // Back, and nothing was missed.
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

    /// Waits for another record than `seen`, an instant, or the time for a sign of life; false when it is over.
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
        // Each look of a threshold costs what has changed since the last telling.
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

    /// Looks at the participant; `None` when the daemon stops.
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
