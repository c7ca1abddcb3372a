//! What this coordinator believes of everybody's profiles: the one picture that updates and the facts of
//! answers move, or none, when every task asks anew.
//!
//! The picture itself is `coalloc_protocol::update::Picture`, behind a lock that nobody holds for longer than a
//! merge or a copy. What is ignored is counted each time and logged once for each RM and kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_common::topology::Direction;
use coalloc_common::{Amount, Now, ResourceId, RmName, Time, Window, limits};
use coalloc_net::convert::update_from_wire;
use coalloc_net::latest::LatestValue;
use coalloc_net::machine::Host;
use coalloc_net::metrics;
use coalloc_proto::v1;
use coalloc_protocol::update::{Picture, Update, UpdateKind};
use prost::Message as _;

use super::believed::{BelievedProfiles, MissingProfiles};
use super::rounds::Rounds;
use crate::availability::federation::{Federation, Snapshot};
use crate::config::tasks::{Mode, TaskSettings};

/// The keeper of the picture. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pictures(pub(super) Arc<PictureStore>);

/// What all clones share.
#[derive(Debug)]
pub(super) struct PictureStore {
    pub(super) coordinator: String,
    pub(super) settings: TaskSettings,
    pub(super) federation: Federation,
    pub(super) host: Host,
    pub(super) rounds: Rounds,
    state: Mutex<State>,
    /// How often somebody was heard of for the first time.
    heard: LatestValue<u64>,
}

/// What the lock is for.
#[derive(Debug, Default)]
struct State {
    picture: Picture,
    /// The federation that the picture expects.
    expected: Option<Arc<Snapshot>>,
    /// Why nothing is heard of an RM.
    problems: BTreeMap<RmName, MissingProfiles>,
    /// Bytes of what was merged.
    bytes: BTreeMap<RmName, u64>,
    /// What was complained of already.
    logged: BTreeSet<(RmName, &'static str)>,
    swept: Option<Time>,
}

/// What became of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// It counts.
    Merged,
    /// It does not, and the picture is of no less use.
    Ignored,
    /// It does not, and only a snapshot helps.
    NeedsSnapshot,
}

impl Pictures {
    /// Knows nobody yet.
    #[must_use]
    pub fn new(
        coordinator: &str,
        settings: TaskSettings,
        federation: Federation,
        host: &Host,
    ) -> Self {
        Self(Arc::new(PictureStore {
            coordinator: coordinator.to_owned(),
            settings,
            rounds: Rounds::new(coordinator, federation.clone(), host),
            federation,
            host: Arc::clone(host),
            state: Mutex::default(),
            heard: LatestValue::new(0),
        }))
    }

    /// How tasks are planned.
    #[must_use]
    pub fn settings(&self) -> &TaskSettings {
        &self.0.settings
    }

    /// Keeps following every RM, for as long as the runtime lives; only of use in mode distributed.
    pub fn watch(&self) {
        if self.settings().mode == Mode::Distributed {
            super::follow::all(self);
        }
    }

    /// What is believed of a window now.
    pub async fn believed(&self, window: Window) -> BelievedProfiles {
        match self.settings().mode {
            Mode::Central => self.0.rounds.ask(window).await,
            Mode::Distributed => {
                self.settled().await;
                let now = self.0.host.now().wall;
                let state = self.state();
                let why = |rm: &RmName| state.why(rm);
                let believed = BelievedProfiles::of(&state.picture, window, now, why);
                let snapshot = self.0.federation.snapshot();
                let silent = snapshot.missing.iter();
                let silent = silent.filter(|rm| state.picture.known(rm).is_none());
                let why = || MissingProfiles::silent("has not described itself".to_owned());
                believed.without(silent.map(|rm| (rm.clone(), why())))
            }
        }
    }

    /// The facts of an answer, if they are any.
    pub fn learn(&self, rm: &RmName, facts: &v1::ProfileUpdate) {
        if self.settings().mode == Mode::Distributed {
            self.take(rm, facts);
        }
    }

    /// Reads the picture.
    pub fn look<T>(&self, look: impl FnOnce(&Picture, &BTreeMap<RmName, u64>) -> T) -> T {
        let state = self.state();
        look(&state.picture, &state.bytes)
    }

    /// Just after the start: until everybody who described itself was heard of, or has had time for it.
    async fn settled(&self) {
        let all_heard = |_: &u64| {
            let state = self.state();
            state.picture.members().all(|(rm, known, _)| {
                known.is_some() || state.problems.get(rm).is_some_and(|why| why.denied)
            })
        };
        let until = self.0.federation.began() + limits::DESCRIBE_PATIENCE.to_std();
        // Over is over: what is known by then is what there is.
        let _ = tokio::time::timeout_at(until, self.0.heard.wait_for(all_heard)).await;
    }

    /// Expects what the federation's topology says that everybody has.
    pub(super) fn expect(&self, snapshot: &Arc<Snapshot>) {
        let mut state = self.state();
        if state.expected.as_ref().is_some_and(|known| Arc::ptr_eq(known, snapshot)) {
            return;
        }
        for (rm, resources) in inventories(snapshot) {
            state.picture.expect(&rm, resources);
        }
        state.expected = Some(Arc::clone(snapshot));
    }

    /// Where to go on from at an RM; nothing known: zeros.
    pub(super) fn cursor(&self, rm: &RmName) -> (u64, u64) {
        self.state().picture.cursor(rm).unwrap_or_default()
    }

    /// Why nothing is heard of an RM.
    pub(super) fn problem(&self, rm: &RmName, why: MissingProfiles) {
        let mut state = self.state();
        if state.problems.get(rm) != Some(&why) {
            tracing::warn!(%rm, problem = why.text, "no profiles");
            state.problems.insert(rm.clone(), why);
        }
        drop(state);
        self.0.heard.update(|heard| *heard += 1);
    }

    /// Takes news of an RM.
    pub(super) fn take(&self, rm: &RmName, wire: &v1::ProfileUpdate) -> UpdateOutcome {
        let metrics = metrics::tasks();
        let update = match update_from_wire("update", wire) {
            Ok(update) => update,
            Err(error) => {
                metrics.ignored.with([rm.as_str(), "malformed"]).inc();
                self.state().complain(rm, "malformed", &error.to_string());
                return UpdateOutcome::NeedsSnapshot;
            }
        };
        let now = self.0.host.now();
        let mut state = self.state();
        let known_before = state.picture.known(rm).is_some();
        let taken = match state.picture.merge(rm, &update, now) {
            Ok(()) => {
                metrics.updates.with([rm.as_str(), word(&update)]).inc();
                let bytes = wire.encoded_len() as u64;
                metrics.update_bytes.with([rm.as_str()]).inc_by(bytes);
                *state.bytes.entry(rm.clone()).or_default() += bytes;
                state.problems.remove(rm);
                UpdateOutcome::Merged
            }
            Err(ignored) => {
                metrics.ignored.with([rm.as_str(), ignored.word()]).inc();
                state.complain(rm, ignored.word(), &ignored.to_string());
                // Facts are beside the stream: what they lack it brings.
                let facts = update.kind == UpdateKind::Facts;
                match ignored.needs_snapshot() && !facts {
                    true => UpdateOutcome::NeedsSnapshot,
                    false => UpdateOutcome::Ignored,
                }
            }
        };
        state.sweep(now);
        let heard = !known_before && state.picture.known(rm).is_some();
        drop(state);
        if heard {
            tracing::info!(%rm, revision = update.revision, "profiles are known");
            self.0.heard.update(|heard| *heard += 1);
        }
        taken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A merge takes all of an update or nothing; were there a panic, the picture is still one.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn why(&self, rm: &RmName) -> MissingProfiles {
        let silent = || MissingProfiles::silent("has not told its profiles yet".to_owned());
        self.problems.get(rm).cloned().unwrap_or_else(silent)
    }

    /// Says once of each RM and kind what is wrong.
    fn complain(&mut self, rm: &RmName, kind: &'static str, text: &str) {
        if self.logged.insert((rm.clone(), kind)) {
            tracing::warn!(%rm, kind, text, "update ignored; more of its kind are only counted");
        }
    }

    /// Forgets the past from time to time, so that profiles do not grow with it.
    fn sweep(&mut self, now: Now) {
        let due = |last: Time| now.wall >= last.saturating_add(limits::PICTURE_SWEEP);
        if self.swept.is_none_or(due) {
            self.picture.forget_before(now.wall);
            self.swept = Some(now.wall);
        }
    }
}

/// What an update is, for counters.
pub(super) const fn word(update: &Update) -> &'static str {
    match &update.kind {
        UpdateKind::Snapshot { .. } => "snapshot",
        UpdateKind::Delta { .. } if update.parts.is_empty() => "progress",
        UpdateKind::Delta { .. } => "delta",
        UpdateKind::Facts => "facts",
    }
}

/// What everybody has, as the topology says it.
pub(super) fn inventories(snapshot: &Snapshot) -> BTreeMap<RmName, Vec<(ResourceId, Amount)>> {
    let mut all: BTreeMap<RmName, Vec<(ResourceId, Amount)>> = BTreeMap::new();
    for rm in snapshot.members.keys() {
        all.entry(rm.clone()).or_default();
    }
    for (_, _, compute) in snapshot.topology.sites() {
        let resource = (compute.resource.clone(), Amount::from(compute.capacity));
        all.entry(compute.rm.clone()).or_default().push(resource);
    }
    for edge in snapshot.topology.edges() {
        for direction in [Direction::AToB, Direction::BToA] {
            // Of a shared path both are one; the picture knows each once.
            let resource = (edge.resource(direction).clone(), Amount::from(edge.capacity));
            all.entry(edge.rm.clone()).or_default().push(resource);
        }
    }
    all
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
