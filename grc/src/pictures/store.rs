//! What this coordinator believes of every RM's profiles. In mode `distributed` that is one picture, which updates and
//! the facts in answers keep up to date. In mode `central` there is none: the profiles are queried anew for every task.
//!
//! The picture itself is `coalloc_protocol::update::Picture`, behind a lock that is never held for longer than a merge
//! or a copy. An update that is ignored is counted each time, and logged once for each RM and kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_common::{Now, RmName, Time, Window, limits};
use coalloc_net::convert::update_from_wire;
use coalloc_net::latest::LatestValue;
use coalloc_net::machine::Host;
use coalloc_net::metrics;
use coalloc_proto::v1;
use coalloc_protocol::update::{Picture, UpdateKind};
use prost::Message as _;

use super::believed::{BelievedProfiles, MissingProfiles, inventories, word};
use super::rounds::Rounds;
use crate::availability::federation::{Federation, Snapshot};
use crate::config::tasks::{Mode, TaskSettings};

/// The pictures of one coordinator. Cheap to clone.
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
    /// Counts when an RM's profiles become known for the first time, and when they cannot be had.
    heard: LatestValue<u64>,
}

/// What the lock protects.
#[derive(Debug, Default)]
struct State {
    picture: Picture,
    /// The federation whose resources the picture expects.
    expected: Option<Arc<Snapshot>>,
    /// Why there are no profiles of an RM.
    problems: BTreeMap<RmName, MissingProfiles>,
    /// Bytes of the updates that were merged.
    bytes: BTreeMap<RmName, u64>,
    /// The RMs and kinds of ignored updates that were logged already.
    logged: BTreeSet<(RmName, &'static str)>,
    swept: Option<Time>,
}

/// What became of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// It is part of the picture now.
    Merged,
    /// It was ignored, and the picture is as useful as before.
    Ignored,
    /// It was ignored, and the picture needs a snapshot to go on.
    NeedsSnapshot,
}

impl Pictures {
    /// A picture without any RM yet.
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

    /// The settings for planning tasks.
    #[must_use]
    pub fn settings(&self) -> &TaskSettings {
        &self.0.settings
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

    /// Merges the facts of an answer to Hold. In mode `central` it does nothing.
    pub fn learn(&self, rm: &RmName, facts: &v1::ProfileUpdate) {
        if self.settings().mode == Mode::Distributed {
            self.take(rm, facts);
        }
    }

    /// Reads the picture and the bytes merged from each RM. `look` runs under the lock.
    pub fn look<T>(&self, look: impl FnOnce(&Picture, &BTreeMap<RmName, u64>) -> T) -> T {
        let state = self.state();
        look(&state.picture, &state.bytes)
    }

    /// Just after the start: waits until the profiles of every RM that described itself are known or denied, or until
    /// the time for it is over.
    async fn settled(&self) {
        let all_heard = |_: &u64| {
            let state = self.state();
            state.picture.members().all(|(rm, known, _)| {
                known.is_some() || state.problems.get(rm).is_some_and(|why| why.denied)
            })
        };
        let until = self.0.federation.began() + limits::DESCRIBE_PATIENCE.to_std();
        // After the timeout, the picture is what is known by then.
        let _ = tokio::time::timeout_at(until, self.0.heard.wait_for(all_heard)).await;
    }

    /// Makes the picture expect the resources that the federation's topology gives each RM.
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

    /// The epoch and revision from which to resume an RM's stream; zeros if nothing is known of it.
    pub(super) fn cursor(&self, rm: &RmName) -> (u64, u64) {
        self.state().picture.cursor(rm).unwrap_or_default()
    }

    /// Records why there are no profiles of an RM.
    pub(super) fn problem(&self, rm: &RmName, why: MissingProfiles) {
        let mut state = self.state();
        if state.problems.get(rm) != Some(&why) {
            tracing::warn!(%rm, problem = why.text, "no profiles");
            state.problems.insert(rm.clone(), why);
        }
        drop(state);
        self.0.heard.update(|heard| *heard += 1);
    }

    /// Takes in an update of an RM.
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
                // Facts come beside the stream of updates, which brings whatever they lack.
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
        // A merge takes in all of an update or nothing, so the picture is consistent even after a panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn why(&self, rm: &RmName) -> MissingProfiles {
        let silent = || MissingProfiles::silent("has not sent its profiles yet".to_owned());
        self.problems.get(rm).cloned().unwrap_or_else(silent)
    }

    /// Logs why an update was ignored, once for each RM and kind.
    fn complain(&mut self, rm: &RmName, kind: &'static str, text: &str) {
        if self.logged.insert((rm.clone(), kind)) {
            tracing::warn!(%rm, kind, text, "update ignored; more of its kind are only counted");
        }
    }

    /// Forgets the past from time to time, so that profiles do not keep growing.
    fn sweep(&mut self, now: Now) {
        let due = |last: Time| now.wall >= last.saturating_add(limits::PICTURE_SWEEP);
        if self.swept.is_none_or(due) {
            self.picture.forget_before(now.wall);
            self.swept = Some(now.wall);
        }
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
