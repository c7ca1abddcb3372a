//! The resource managers of the federation: who they are, what they describe, whether they answer.
//!
//! Each is asked to Describe itself until it does, and every two seconds after that; and before a request is
//! refused for good, see [`Federation::younger_than`]. The topology is
//! built of what has been described so far; a request is planned on the topology of its moment. Just after
//! the start it waits for whoever has not been heard of, see [`Federation::settled`].

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use coalloc_common::{RmName, Topology, limits};
use coalloc_net::convert::topology_of_descriptions;
use coalloc_net::latest::LatestValue;
use coalloc_net::machine::Host;
use coalloc_net::traces::Span;
use coalloc_proto::v1;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Channel;

use super::inquiry::Inquiry;
use crate::config::RmPeer;
use crate::meters;

/// A client to one RM, with the limits of answers.
pub type RmClient = ResourceManagerClient<Channel>;

/// When a round of questions began, and who did not answer it.
type QuestionRound = (Instant, Vec<RmName>);

/// What is known of one RM.
#[derive(Debug, Clone)]
struct KnownRm {
    address: String,
    client: RmClient,
    /// Asks it for its availability.
    inquiry: Inquiry,
    /// What it said last.
    description: Option<Arc<v1::DescribeResponse>>,
    /// Why it cannot be used now; empty when it can.
    problem: String,
    /// Wakes whoever keeps asking it.
    doubt: Arc<Notify>,
    /// Told when it answers anew: at first, after a failure, or as another process.
    contact: Arc<Notify>,
}

/// The federation of one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// The graph of all that described itself.
    pub topology: Arc<Topology>,
    /// Those RMs, and what they described.
    pub members: BTreeMap<RmName, (RmClient, Arc<v1::DescribeResponse>)>,
    /// RMs that never described themselves, or as somebody else.
    pub missing: Vec<RmName>,
}

/// All configured RMs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Federation {
    known: Arc<RwLock<BTreeMap<RmName, KnownRm>>>,
    snapshot: LatestValue<Arc<Snapshot>>,
    /// When it began to ask.
    began: Instant,
    /// When all were asked last because a request was to be refused for good, and who did not answer.
    asked_anew: Arc<Mutex<Option<QuestionRound>>>,
    /// This coordinator and those above it: none of them may be below a member.
    lineage: Arc<Vec<String>>,
}

impl Federation {
    /// Knows the configured RMs by name only; connects from this machine.
    #[must_use]
    pub fn new(peers: &BTreeMap<RmName, RmPeer>, host: &Host) -> Self {
        let known = |(name, peer): (&RmName, &RmPeer)| {
            let client = ResourceManagerClient::new(host.connect(&peer.endpoint))
                .max_decoding_message_size(limits::ANSWER_MAX_BYTES);
            let known = KnownRm {
                address: peer.address.clone(),
                inquiry: inquiry(name, &client),
                client,
                description: None,
                problem: "has not answered yet".to_owned(),
                doubt: Arc::new(Notify::new()),
                contact: Arc::new(Notify::new()),
            };
            (name.clone(), known)
        };
        let known: BTreeMap<RmName, KnownRm> = peers.iter().map(known).collect();
        let snapshot = Snapshot {
            topology: Arc::new(Topology::new()),
            members: BTreeMap::new(),
            missing: known.keys().cloned().collect(),
        };
        Self {
            known: Arc::new(RwLock::new(known)),
            snapshot: LatestValue::new(Arc::new(snapshot)),
            began: Instant::now(),
            asked_anew: Arc::default(),
            lineage: Arc::default(),
        }
    }

    /// Says who this coordinator is, and who is above it, so that a cycle is noticed.
    #[must_use]
    pub fn of(self, lineage: Vec<String>) -> Self {
        Self { lineage: Arc::new(lineage), ..self }
    }

    /// Keeps asking every RM, each on its own, for as long as the runtime lives.
    pub fn watch(&self) {
        for name in self.names() {
            let federation = self.clone();
            let Some(doubt) = self.read_known(|known| Some(Arc::clone(&known.get(&name)?.doubt)))
            else {
                continue;
            };
            tokio::spawn(async move {
                loop {
                    let usable = federation.describe(&name).await;
                    let pause =
                        if usable { limits::DESCRIBE_REFRESH } else { limits::DESCRIBE_RETRY };
                    // A doubt cuts the pause short; none at all only ends it.
                    let _ = tokio::time::timeout(pause.to_std(), doubt.notified()).await;
                }
            });
        }
    }

    /// The federation as it is known now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.get()
    }

    /// The next one after `known`.
    pub async fn after(&self, known: &Arc<Snapshot>) -> Arc<Snapshot> {
        let next = self.snapshot.wait_for(|snapshot| !Arc::ptr_eq(snapshot, known)).await;
        next.unwrap_or_else(|| self.snapshot())
    }

    /// When it began to ask.
    #[must_use]
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// Every configured RM.
    #[must_use]
    pub fn names(&self) -> Vec<RmName> {
        self.read_known(|known| known.keys().cloned().collect())
    }

    /// The same, once every RM has described itself; or at once when they had [`limits::DESCRIBE_PATIENCE`]
    /// for it since the start. So a request that comes while everything starts is planned on all of it.
    pub async fn settled(&self) -> Arc<Snapshot> {
        let complete = self.snapshot.wait_for(|snapshot| snapshot.missing.is_empty());
        let until = self.began + limits::DESCRIBE_PATIENCE.to_std();
        // Over is over: what is known by then is what there is.
        let _ = tokio::time::timeout_at(until, complete).await;
        self.snapshot()
    }

    /// The federation by descriptions that are younger than an instant, and the RMs that gave none: what is
    /// refused for good is refused by these. Requests that are refused at the same time share one round of
    /// questions.
    pub async fn younger_than(&self, instant: Instant) -> (Arc<Snapshot>, Vec<RmName>) {
        let mut last = self.asked_anew.lock().await;
        if let Some((began, silent)) = &*last
            && *began >= instant
        {
            return (self.snapshot(), silent.clone());
        }
        let began = Instant::now();
        let mut asked = JoinSet::new();
        for name in self.names() {
            let federation = self.clone();
            asked.spawn(async move { (!federation.describe(&name).await).then_some(name) });
        }
        let mut silent: Vec<RmName> = asked.join_all().await.into_iter().flatten().collect();
        silent.sort();
        *last = Some((began, silent.clone()));
        (self.snapshot(), silent)
    }

    /// The way to ask an RM for its availability.
    #[must_use]
    pub fn inquiry(&self, rm: &RmName) -> Option<Inquiry> {
        self.read_known(|known| known.get(rm).map(|known| known.inquiry.clone()))
    }

    /// Told when an RM answers anew: at first, after a failure, or as another process than before.
    #[must_use]
    pub fn contact(&self, rm: &RmName) -> Option<Arc<Notify>> {
        self.read_known(|known| known.get(rm).map(|known| Arc::clone(&known.contact)))
    }

    /// A client to an RM.
    #[must_use]
    pub fn client(&self, rm: &RmName) -> Option<RmClient> {
        self.read_known(|known| known.get(rm).map(|known| known.client.clone()))
    }

    /// An RM did not answer something else: it counts as not reachable until it describes itself anew.
    pub fn doubt(&self, rm: &RmName, problem: &str) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = known.get_mut(rm).filter(|entry| entry.problem != problem) else {
            return;
        };
        tracing::warn!(%rm, address = %entry.address, problem, "RM not usable");
        if entry.problem.is_empty() {
            entry.doubt.notify_one();
        }
        problem.clone_into(&mut entry.problem);
    }

    /// Every configured RM and how it is.
    #[must_use]
    pub fn statuses(&self) -> Vec<v1::ResourceManagerStatus> {
        self.read_known(|known| {
            let status = |(name, known): (&RmName, &KnownRm)| v1::ResourceManagerStatus {
                name: name.to_string(),
                address: known.address.clone(),
                reachable: known.problem.is_empty(),
                problem: known.problem.clone(),
                description: known.description.as_deref().cloned(),
                denies: known.description.as_deref().is_some_and(|said| self.is_denied(said)),
                ..v1::ResourceManagerStatus::default()
            };
            known.iter().map(status).collect()
        })
    }

    /// Asks one RM who it is; is it usable?
    async fn describe(&self, name: &RmName) -> bool {
        let Some(mut client) = self.client(name) else { return false };
        let mut request = tonic::Request::new(v1::DescribeRequest {});
        request.set_timeout(limits::QUERY_PATIENCE.to_std());
        match client.describe(request).await {
            Ok(answer) => match accept(name, &self.lineage, answer.into_inner()) {
                Ok(description) => self.learn(name, description),
                Err(problem) => self.disown(name, &problem),
            },
            Err(status) => {
                self.doubt(name, &format!("does not answer: {}", status.message()));
                false
            }
        }
    }

    /// Whoever answers at an RM's address is somebody else: nothing is known of that RM any more.
    fn disown(&self, name: &RmName, problem: &str) -> bool {
        self.doubt(name, problem);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let had = known.get_mut(name).and_then(|entry| entry.description.take());
        if had.is_some()
            && let Ok(snapshot) = build(&known)
        {
            self.snapshot.update(|known| *known = Arc::new(snapshot));
        }
        false
    }

    /// Takes in what an RM said of itself, and rebuilds the topology when it is something new.
    fn learn(&self, name: &RmName, description: v1::DescribeResponse) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = known.get_mut(name) else { return false };
        let old = entry.description.as_deref();
        let process = |said: &v1::DescribeResponse| (said.ledger_id.clone(), said.started);
        if !entry.problem.is_empty() || old.map(process) != Some(process(&description)) {
            // Whoever hears it compares, and finds out whether it can be.
            entry.contact.notify_one();
        }
        if old == Some(&description) {
            entry.problem.clear();
            return true;
        }
        if let Some(old) = old
            && old.ledger_id != description.ledger_id
        {
            let (was, is) = (&old.ledger_id, &description.ledger_id);
            tracing::warn!(rm = %name, was, is, "this RM has another ledger than before");
        }
        let previous = entry.description.replace(Arc::new(description));
        match build(&known) {
            Ok(snapshot) => {
                let rms = snapshot.members.len();
                let (sites, paths) =
                    (snapshot.topology.sites().count(), snapshot.topology.edges().len());
                tracing::info!(rm = %name, rms, sites, paths, "RM described itself");
                self.snapshot.update(|known| *known = Arc::new(snapshot));
                if let Some(entry) = known.get_mut(name) {
                    entry.problem.clear();
                }
                self.tell_denied(name, &known);
                true
            }
            Err(error) => {
                tracing::warn!(rm = %name, %error, "RM contradicts the federation");
                if let Some(entry) = known.get_mut(name) {
                    entry.description = previous;
                    entry.problem = format!("contradicts the federation: {error}");
                }
                false
            }
        }
    }

    /// Does an RM that describes itself so let nothing of this coordinator be held?
    fn is_denied(&self, said: &v1::DescribeResponse) -> bool {
        let own = self.lineage.first();
        !said.coordinators.is_empty() && own.is_some_and(|own| !said.coordinators.contains(own))
    }

    /// Says in the log that an RM denies this coordinator, and that all do.
    fn tell_denied(&self, name: &RmName, known: &BTreeMap<RmName, KnownRm>) {
        let denies =
            |known: &KnownRm| known.description.as_deref().map(|said| self.is_denied(said));
        if known.get(name).and_then(denies) != Some(true) {
            return;
        }
        let own = self.lineage.first().map_or("", String::as_str);
        let todo = "its configuration's `coordinators` does not name this one";
        tracing::warn!(rm = %name, coordinator = own, todo, "RM does not accept this coordinator");
        if known.values().all(|known| denies(known) == Some(true)) {
            let rms = known.len();
            tracing::error!(
                coordinator = own,
                rms,
                "no RM accepts this coordinator: it can plan, and reserve nothing"
            );
        }
    }

    fn read_known<T>(&self, look: impl FnOnce(&BTreeMap<RmName, KnownRm>) -> T) -> T {
        look(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn accept(
    name: &RmName,
    lineage: &[String],
    said: v1::DescribeResponse,
) -> Result<v1::DescribeResponse, String> {
    if let Some(own) = lineage.iter().find(|own| said.coordinators_below.contains(own)) {
        let text = "cycle: it says that this coordinator, or one above it, is below it:";
        return Err(format!("{text} {own}"));
    }
    if said.name == name.as_str() {
        Ok(said)
    } else {
        Err(format!("calls itself {:?}; wrong address, or wrong federation", said.name))
    }
}

fn build(known: &BTreeMap<RmName, KnownRm>) -> Result<Snapshot, coalloc_common::InvalidField> {
    let described: Vec<(&RmName, &v1::DescribeResponse)> = known
        .iter()
        .filter_map(|(name, known)| Some((name, known.description.as_deref()?)))
        .collect();
    let topology = topology_of_descriptions(described.iter().copied())?;
    let members = known
        .iter()
        .filter_map(|(name, known)| {
            Some((name.clone(), (known.client.clone(), known.description.clone()?)))
        })
        .collect();
    let missing =
        known.iter().filter(|(_, known)| known.description.is_none()).map(|(name, _)| name.clone());
    Ok(Snapshot { topology: Arc::new(topology), members, missing: missing.collect() })
}
/// How an RM is asked for its availability.
fn inquiry(rm: &RmName, client: &RmClient) -> Inquiry {
    let (rm, client) = (rm.clone(), client.clone());
    Inquiry::new(move |request, span: Span| {
        let (rm, mut client) = (rm.clone(), client.clone());
        async move {
            let begun = std::time::Instant::now();
            let mut request = tonic::Request::new(request);
            request.set_timeout(limits::QUERY_PATIENCE.to_std());
            span.inject(request.metadata_mut());
            let answer = span.carry(client.query_availability(request)).await;
            meters::queried(&rm, begun, answer.is_ok());
            answer.map(tonic::Response::into_inner)
        }
    })
}
