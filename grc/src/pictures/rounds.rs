//! Mode `central`: every RM is asked for a snapshot of its profiles, for each task anew. While one round of snapshots
//! is under way, new tasks gather and share the next round. So a task is never planned on what was asked for before the
//! task came.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_common::{Amount, ResourceId, RmName, Window, limits};
use coalloc_net::convert::update_from_wire;
use coalloc_net::machine::Host;
use coalloc_net::metrics;
use coalloc_proto::v1;
use coalloc_protocol::update::{Picture, UpdateKind};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::believed::{BelievedProfiles, MissingProfiles, inventories, why, word};
use crate::availability::federation::{Federation, RmClient};

/// Asks all RMs for snapshots, in rounds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Rounds(Arc<Asker>);

#[derive(Debug)]
struct Asker {
    coordinator: String,
    federation: Federation,
    host: Host,
    line: Mutex<RoundBatch>,
}

/// The tasks that wait for the next round, and whether a round is under way.
#[derive(Debug, Default)]
struct RoundBatch {
    waiting: Vec<oneshot::Sender<Arc<Round>>>,
    in_flight: bool,
}

/// The result of one round.
#[derive(Debug, Default)]
struct Round {
    /// One picture for each RM that answered.
    pictures: Vec<Picture>,
    missing: BTreeMap<RmName, MissingProfiles>,
}

impl Rounds {
    /// Asks in the name of this coordinator.
    #[must_use]
    pub fn new(coordinator: &str, federation: Federation, host: &Host) -> Self {
        let (coordinator, host) = (coordinator.to_owned(), Arc::clone(host));
        Self(Arc::new(Asker { coordinator, federation, host, line: Mutex::default() }))
    }

    /// What all RMs have free over a window, asked for after this call. Must be called within a tokio runtime.
    pub async fn ask(&self, window: Window) -> BelievedProfiles {
        let (answer, answered) = oneshot::channel();
        {
            let mut line = self.line();
            line.waiting.push(answer);
            if !line.in_flight {
                line.in_flight = true;
                tokio::spawn(self.clone().ask_all());
            }
        }
        // If the round panicked, nothing is known.
        let round = answered.await.unwrap_or_default();
        let now = self.0.host.now().wall;
        let silent = |_: &RmName| MissingProfiles::silent("did not send its profiles".to_owned());
        let parts = round.pictures.iter();
        let parts = parts.map(|picture| BelievedProfiles::of(picture, window, now, silent));
        parts
            .fold(BelievedProfiles::default(), BelievedProfiles::and)
            .without(round.missing.clone())
    }

    /// Runs rounds until no task waits.
    async fn ask_all(self) {
        let mut place = RoundPermit { line: &self.0.line, taken: true };
        while let Some(company) = place.next() {
            let round = Arc::new(self.round().await);
            metrics::tasks().rounds.inc();
            for one in company {
                // A task that has stopped waiting needs no answer.
                let _ = one.send(Arc::clone(&round));
            }
        }
    }

    /// Asks every RM, all at once.
    async fn round(&self) -> Round {
        let snapshot = self.0.federation.settled().await;
        let mut round = Round::default();
        for rm in &snapshot.missing {
            let why = MissingProfiles::silent("has not described itself".to_owned());
            round.missing.insert(rm.clone(), why);
        }
        let mut asked = JoinSet::new();
        for (rm, resources) in inventories(&snapshot) {
            let Some((client, _)) = snapshot.members.get(&rm) else { continue };
            let (asker, client) = (self.clone(), client.clone());
            asked.spawn(async move {
                let patience = limits::QUERY_PATIENCE.to_std();
                let told = tokio::time::timeout(patience, asker.snapshot(&rm, client, resources));
                let told = told.await.unwrap_or_else(|_| {
                    Err(MissingProfiles::silent("did not send its profiles in time".to_owned()))
                });
                (rm, told)
            });
        }
        while let Some(done) = asked.join_next().await {
            match done {
                Ok((_, Ok(picture))) => round.pictures.push(picture),
                Ok((rm, Err(why))) => {
                    if !why.denied {
                        self.0.federation.doubt(&rm, &why.text);
                    }
                    round.missing.insert(rm, why);
                }
                // Only a panic leads here. The RM's resources then count as taken.
                Err(error) => tracing::error!(%error, "a query for profiles failed"),
            }
        }
        round
    }

    /// Asks one RM: reads its stream of updates to the end of the snapshot with which it begins.
    async fn snapshot(
        &self,
        rm: &RmName,
        mut client: RmClient,
        resources: Vec<(ResourceId, Amount)>,
    ) -> Result<Picture, MissingProfiles> {
        let coordinator = self.0.coordinator.clone();
        let request = v1::WatchProfilesRequest { coordinator, ..Default::default() };
        let mut news = client.watch_profiles(request).await.map_err(|error| why(&error))?;
        let mut picture = Picture::default();
        picture.expect(rm, resources);
        let bad = |text: String| MissingProfiles::silent(format!("sends nonsense: {text}"));
        loop {
            let update = news.get_mut().message().await.map_err(|error| why(&error))?;
            let Some(update) = update.and_then(|response| response.update) else {
                return Err(MissingProfiles::silent(
                    "sends no profiles: its stream ended".to_owned(),
                ));
            };
            let bytes = prost::Message::encoded_len(&update) as u64;
            let update =
                update_from_wire("update", &update).map_err(|error| bad(error.to_string()))?;
            let metrics = metrics::tasks();
            picture.merge(rm, &update, self.0.host.now()).map_err(|ignored| {
                metrics.ignored.with([rm.as_str(), ignored.word()]).inc();
                bad(ignored.to_string())
            })?;
            metrics.updates.with([rm.as_str(), word(&update)]).inc();
            metrics.update_bytes.with([rm.as_str()]).inc_by(bytes);
            if matches!(update.kind, UpdateKind::Snapshot { more: false, .. }) {
                return Ok(picture);
            }
        }
    }

    fn line(&self) -> MutexGuard<'_, RoundBatch> {
        self.0.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A permit to have a round under way. It is given back even when the round panics.
struct RoundPermit<'a> {
    line: &'a Mutex<RoundBatch>,
    taken: bool,
}

impl RoundPermit<'_> {
    /// The tasks that share the next round. If there are none, the permit is given back under the same lock.
    fn next(&mut self) -> Option<Vec<oneshot::Sender<Arc<Round>>>> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let mut company = std::mem::take(&mut line.waiting);
        company.retain(|one| !one.is_closed());
        if company.is_empty() {
            line.in_flight = false;
            self.taken = false;
            return None;
        }
        Some(company)
    }
}

impl Drop for RoundPermit<'_> {
    fn drop(&mut self) {
        if self.taken {
            let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            line.in_flight = false;
            // The round panicked: the tasks that wait for the next one are answered as well, with nothing known.
            line.waiting.clear();
        }
    }
}
