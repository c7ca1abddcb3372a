//! The resource managers of the federation: who they are, how they describe themselves, and whether they answer.
//!
//! Each RM is asked to Describe itself until it does, and every two seconds after that. All are asked once more before
//! a request is refused for good, see [`Federation::younger_than`]. The topology is built from the descriptions so far,
//! and a request is planned on the topology of its moment. Just after the start, a request waits for RMs that have not
//! answered yet, see [`Federation::settled`].
//!
//! Resource managers need not trust each other. Whose a name is that several of them describe is settled by
//! [`Claims`]; the claims of the others are ignored, and told in the log, in a metric and in DescribeFederation.
//!
//! Left out: what is free, see [`mod@super::query`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use coalloc_common::suggest::did_you_mean;
use coalloc_common::{InvalidField, Owners, RmName, Time, Topology, VertexName, limits};
use coalloc_net::convert::{Claims, Described, own_part, time_to_wire, topology_of_descriptions};
use coalloc_net::latest::LatestValue;
use coalloc_net::machine::Host;
use coalloc_net::status;
use coalloc_net::traces::Span;
use coalloc_proto::v1;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Status;
use tonic::transport::Channel;

use super::inquiry::Inquiry;
use crate::meters;
use coalloc_net::client::{Destination, ShownCertificate};

/// A client to one RM, with a limit on the size of answers.
pub type RmClient = ResourceManagerClient<Channel>;

/// When a round of Describe calls to all RMs began, and which RMs did not answer.
type QuestionRound = (Instant, Vec<RmName>);

/// What is known of one RM.
#[derive(Debug, Clone)]
struct KnownRm {
    address: String,
    /// The certificate that the RM has shown.
    shown: ShownCertificate,
    client: RmClient,
    /// Asks the RM for its availability.
    inquiry: Inquiry,
    /// The RM's last description; `None` also when another daemon answers at its address now.
    description: Option<Arc<v1::DescribeResponse>>,
    /// When the RM has last said what its description says.
    described: Option<Time>,
    /// The RM's last description, even when another daemon answers at its address now: its names stay its own.
    names: Option<Arc<v1::DescribeResponse>>,
    /// The names in its description that belong to others. They are not used.
    foreign: Vec<v1::ForeignName>,
    /// Why nothing of its description is used, because it describes too much; `None` if there is room.
    crowded_out: Option<String>,
    /// Those whose names it has described so far. Each is told in the log once.
    told: BTreeSet<String>,
    /// Why the RM cannot be used now; empty when it can.
    problem: String,
    /// The problems that are in the log since it was usable last.
    logged: BTreeSet<String>,
    /// Wakes the task that keeps asking the RM to describe itself.
    doubt: Arc<Notify>,
    /// Notified at a new contact: the RM answers for the first time, after a failure, or as another process.
    contact: Arc<Notify>,
}

impl Snapshot {
    /// Checks that a site is one of the federation.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when it is not; UNAVAILABLE when it may belong to an RM that has not described itself.
    pub fn check_site(&self, field: &str, site: &VertexName) -> Result<(), Status> {
        let found = self.topology.find_vertex(site);
        if found.is_some_and(|index| self.topology.vertex(index).compute.is_some()) {
            return Ok(());
        }
        let names = self.topology.sites().map(|(_, vertex, _)| vertex.name.as_str());
        let guess = did_you_mean(site.as_str(), names);
        let allowed = format!("a site of the federation{guess}");
        let error = InvalidField::new(field, InvalidField::quoted(site.as_str()), allowed);
        let missing: Vec<&str> = self.missing.iter().map(|rm| rm.as_str()).collect();
        Err(match missing.is_empty() {
            true => status::invalid(&error),
            false => status::not_known_yet(&error, &missing),
        })
    }
}

/// The federation at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// The graph of all RMs that have described themselves.
    pub topology: Arc<Topology>,
    /// The RMs that have described themselves, with a client and the description of each.
    pub members: BTreeMap<RmName, (RmClient, Arc<v1::DescribeResponse>)>,
    /// The RMs that have never described themselves, or whose address answered under another name.
    pub missing: Vec<RmName>,
}

/// All configured RMs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Federation {
    known: Arc<RwLock<BTreeMap<RmName, KnownRm>>>,
    snapshot: LatestValue<Arc<Snapshot>>,
    /// When this coordinator began to ask.
    began: Instant,
    /// The last round in which all RMs were asked because a request was about to be refused for good.
    asked_anew: Arc<Mutex<Option<QuestionRound>>>,
    /// This coordinator, first, and its parents. None of them may be a child of a member: that would be a cycle.
    lineage: Arc<Vec<String>>,
    owners: Arc<Owners>,
    /// Has the clock by which descriptions grow old.
    host: Host,
}

impl Federation {
    /// A federation in which only the names of the configured RMs are known. Connects from the machine `host`.
    #[must_use]
    pub fn new(peers: &BTreeMap<RmName, Destination>, host: &Host) -> Self {
        let known = |(name, peer): (&RmName, &Destination)| {
            let client = ResourceManagerClient::new(host.connect(peer))
                .max_decoding_message_size(limits::ANSWER_MAX_BYTES);
            let known = KnownRm {
                address: peer.address.clone(),
                shown: peer.shown.clone(),
                inquiry: inquiry(name, &client),
                client,
                description: None,
                described: None,
                names: None,
                foreign: Vec::new(),
                crowded_out: None,
                told: BTreeSet::new(),
                problem: "has not answered yet".to_owned(),
                logged: BTreeSet::new(),
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
            owners: Arc::default(),
            host: Arc::clone(host),
        }
    }

    /// Sets this coordinator's name, first, and those of its parents, so that a cycle is noticed.
    #[must_use]
    pub fn of(self, lineage: Vec<String>) -> Self {
        Self { lineage: Arc::new(lineage), ..self }
    }

    /// Sets whose the names of sites, exchange points and paths are.
    #[must_use]
    pub fn with_owners(self, owners: Owners) -> Self {
        Self { owners: Arc::new(owners), ..self }
    }

    /// Keeps asking every RM to describe itself, each in a task of its own, for as long as the runtime lives.
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
                    // A doubt ends the pause early. If there is none, the pause just ends.
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

    /// Waits for the next snapshot after `known`.
    pub async fn after(&self, known: &Arc<Snapshot>) -> Arc<Snapshot> {
        let next = self.snapshot.wait_for(|snapshot| !Arc::ptr_eq(snapshot, known)).await;
        next.unwrap_or_else(|| self.snapshot())
    }

    /// When this coordinator began to ask.
    #[must_use]
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// The names of all configured RMs.
    #[must_use]
    pub fn names(&self) -> Vec<RmName> {
        self.read_known(|known| known.keys().cloned().collect())
    }

    /// The federation once every RM has described itself, or [`limits::DESCRIBE_PATIENCE`] after the start at the
    /// latest. So a request that comes while everything is starting is planned on the whole federation.
    pub async fn settled(&self) -> Arc<Snapshot> {
        let complete = self.snapshot.wait_for(|snapshot| snapshot.missing.is_empty());
        let until = self.began + limits::DESCRIBE_PATIENCE.to_std();
        // After the timeout, the federation is what is known by then.
        let _ = tokio::time::timeout_at(until, complete).await;
        self.snapshot()
    }

    /// The federation by descriptions that were asked for after `instant`, and the RMs that gave none. A request is
    /// refused for good only on such descriptions. Requests that are refused at the same time share one round of
    /// Describe calls.
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

    /// The queue of availability queries to an RM; `None` if the RM is not configured.
    #[must_use]
    pub fn inquiry(&self, rm: &RmName) -> Option<Inquiry> {
        self.read_known(|known| known.get(rm).map(|known| known.inquiry.clone()))
    }

    /// Notified at a new contact: the RM answers for the first time, after a failure, or as another process.
    /// `None` if the RM is not configured.
    #[must_use]
    pub fn contact(&self, rm: &RmName) -> Option<Arc<Notify>> {
        self.read_known(|known| known.get(rm).map(|known| Arc::clone(&known.contact)))
    }

    /// A client to an RM; `None` if it is not configured.
    #[must_use]
    pub fn client(&self, rm: &RmName) -> Option<RmClient> {
        self.read_known(|known| known.get(rm).map(|known| known.client.clone()))
    }

    /// The certificate that was shown at an RM's address; none if the RM is not configured.
    #[must_use]
    pub fn shown(&self, rm: &RmName) -> ShownCertificate {
        self.read_known(|known| known.get(rm).map(|known| known.shown.clone())).unwrap_or_default()
    }

    /// Marks an RM as unreachable after it failed to answer another call, until it describes itself again.
    pub fn doubt(&self, rm: &RmName, problem: &str) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = known.get_mut(rm).filter(|entry| entry.problem != problem) else {
            return;
        };
        if is_news(&mut entry.logged, problem) {
            tracing::warn!(%rm, address = %entry.address, problem, "RM not usable");
        }
        if entry.problem.is_empty() {
            entry.doubt.notify_one();
        }
        problem.clone_into(&mut entry.problem);
    }

    /// Which of these RMs cannot be used now: they do not answer, or are not configured any more.
    pub fn unusable<'a>(&self, rms: impl IntoIterator<Item = &'a RmName>) -> Vec<RmName> {
        self.read_known(|known| {
            let usable =
                |rm: &&RmName| known.get(*rm).is_some_and(|known| known.problem.is_empty());
            rms.into_iter().filter(|rm| !usable(rm)).cloned().collect()
        })
    }

    /// The status of every configured RM.
    #[must_use]
    pub fn statuses(&self) -> Vec<v1::ResourceManagerStatus> {
        self.read_known(|known| {
            let status = |(name, known): (&RmName, &KnownRm)| v1::ResourceManagerStatus {
                name: name.to_string(),
                address: known.address.clone(),
                reachable: known.problem.is_empty(),
                problem: known.problem.clone(),
                description: known
                    .description
                    .as_deref()
                    .filter(|_| known.crowded_out.is_none())
                    .map(|said| own_part(said, &known.foreign)),
                not_used: known.crowded_out.clone().unwrap_or_default(),
                certificate: known.shown.get().map(|shown| v1::CertificateLife {
                    not_before: Some(time_to_wire(shown.not_before)),
                    not_after: Some(time_to_wire(shown.not_after)),
                }),
                foreign_names: shown_of(&known.foreign),
                foreign_names_total: u32::try_from(known.foreign.len()).unwrap_or(u32::MAX),
                denies: known.description.as_deref().is_some_and(|said| self.is_denied(said)),
                described: known
                    .described
                    .filter(|_| known.description.is_some())
                    .map(time_to_wire),
                ..v1::ResourceManagerStatus::default()
            };
            known.iter().map(status).collect()
        })
    }

    /// Asks one RM to describe itself. Returns whether the RM is usable.
    async fn describe(&self, name: &RmName) -> bool {
        let Some(mut client) = self.client(name) else { return false };
        let mut request = tonic::Request::new(v1::DescribeRequest {});
        request.set_timeout(limits::QUERY_PATIENCE.to_std());
        match client.describe(request).await {
            // How its equipment is does not belong to its description. In plain text, everybody is told.
            Ok(answer) => match accept(name, &self.lineage, without_equipment(answer)) {
                Ok(description) => match topology_of_descriptions([(name, &description)]) {
                    Ok(_) => {
                        self.learn(name, description);
                        true
                    }
                    Err(error) => {
                        // What it described before stays in use as far as others go; new plans do without it.
                        self.doubt(name, &format!("describes what cannot be: {error}"));
                        false
                    }
                },
                Err(problem) => self.disown(name, &problem),
            },
            Err(status) => {
                self.doubt(name, &format!("does not answer: {}", status.message()));
                false
            }
        }
    }

    /// Forgets an RM's description, because another daemon answers at its address.
    fn disown(&self, name: &RmName, problem: &str) -> bool {
        self.doubt(name, problem);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let had = known.get_mut(name).and_then(|entry| entry.description.take());
        if had.is_some() {
            self.rebuild(&mut known);
        }
        false
    }

    /// Records an RM's description, and rebuilds the topology if it has changed.
    fn learn(&self, name: &RmName, description: v1::DescribeResponse) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = known.get_mut(name) else { return };
        let old = entry.description.as_deref();
        let process = |said: &v1::DescribeResponse| (said.ledger_id.clone(), said.started);
        if !entry.problem.is_empty() || old.map(process) != Some(process(&description)) {
            // A listener compares bookings with the RM; it finds out by itself whether the RM can be used.
            entry.contact.notify_one();
        }
        entry.problem.clear();
        entry.logged.clear();
        entry.described = Some(self.host.now().wall);
        if old == Some(&description) {
            return;
        }
        if let Some(old) = old
            && old.ledger_id != description.ledger_id
        {
            let (was, is) = (&old.ledger_id, &description.ledger_id);
            tracing::warn!(rm = %name, was, is, "this RM has another ledger than before");
        }
        let description = Arc::new(description);
        entry.names = Some(Arc::clone(&description));
        entry.description = Some(description);
        let snapshot = self.rebuild(&mut known);
        let rms = snapshot.members.len();
        let (sites, paths) = (snapshot.topology.sites().count(), snapshot.topology.edges().len());
        tracing::info!(rm = %name, rms, sites, paths, "RM described itself");
        self.tell_denied(name, &known);
    }

    /// Settles what all RMs describe, and takes over the topology that follows.
    fn rebuild(&self, known: &mut BTreeMap<RmName, KnownRm>) -> Arc<Snapshot> {
        let described = known.iter().filter_map(|(rm, known)| {
            let said = known.names.as_deref()?;
            Some(Described { rm, said, present: known.description.is_some() })
        });
        let described: Vec<Described<'_>> = described.collect();
        let Claims { topology, mut foreign, mut crowded_out } =
            Claims::of(&described, &self.owners);
        for (rm, known) in known.iter_mut() {
            known.foreign = foreign.remove(rm).unwrap_or_default();
            let crowded_out = crowded_out.remove(rm);
            if known.crowded_out != crowded_out {
                known.crowded_out = crowded_out;
                match &known.crowded_out {
                    Some(problem) => tracing::warn!(%rm, problem, "RM not used"),
                    None => tracing::info!(%rm, "there is room for this RM again"),
                }
            }
            tell_foreign(rm, known);
        }
        let missing = known.iter().filter(|(_, known)| known.description.is_none());
        let snapshot = Arc::new(Snapshot {
            topology: Arc::new(topology),
            members: known.iter().filter_map(member).collect(),
            missing: missing.map(|(name, _)| name.clone()).collect(),
        });
        self.snapshot.update(|known| *known = Arc::clone(&snapshot));
        snapshot
    }

    /// Does an RM with this description refuse every hold of this coordinator?
    fn is_denied(&self, said: &v1::DescribeResponse) -> bool {
        let own = self.lineage.first();
        !said.coordinators.is_empty() && own.is_some_and(|own| !said.coordinators.contains(own))
    }

    /// Logs that an RM does not accept this coordinator, and if so, that none does.
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
                "no RM accepts this coordinator: it can plan, but not reserve"
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
        let text = "cycle: it has this coordinator, or a parent of it, as its child:";
        return Err(format!("{text} {own}"));
    }
    if said.name == name.as_str() {
        Ok(said)
    } else {
        Err(format!("calls itself {:?}; wrong address, or wrong federation", said.name))
    }
}

/// An RM whose description is used.
fn member(
    (rm, known): (&RmName, &KnownRm),
) -> Option<(RmName, (RmClient, Arc<v1::DescribeResponse>))> {
    let said = known.description.as_ref().filter(|_| known.crowded_out.is_none())?;
    Some((rm.clone(), (known.client.clone(), Arc::clone(said))))
}

/// The names of others that are told one by one.
fn shown_of(foreign: &[v1::ForeignName]) -> Vec<v1::ForeignName> {
    foreign.iter().take(limits::CLAIMS_SHOWN_MAX).cloned().collect()
}

/// Is a problem of an RM to be logged? Several calls fail in turn, each in words of its own, as long as the RM is away.
fn is_news(logged: &mut BTreeSet<String>, problem: &str) -> bool {
    logged.len() < limits::PROBLEMS_LOGGED_MAX && logged.insert(problem.to_owned())
}

/// Logs that an RM describes names that belong to others: once for each of these others, so that an RM which describes
/// other names every two seconds cannot fill the log.
fn tell_foreign(rm: &RmName, known: &mut KnownRm) {
    for name in &known.foreign {
        if known.told.contains(&name.owner) {
            continue;
        }
        known.told.insert(name.owner.clone());
        let same = known.foreign.iter().filter(|other| other.owner == name.owner).count();
        let v1::ForeignName { site, path, owner } = name;
        tracing::warn!(%rm, owner, site, path, names = same, "RM describes what is another's; ignored");
    }
}

/// The queue of availability queries to an RM, through this client.
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

fn without_equipment(answer: tonic::Response<v1::DescribeResponse>) -> v1::DescribeResponse {
    v1::DescribeResponse { equipment: None, ..answer.into_inner() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_logged_once_and_few_of_them() {
        let mut logged = BTreeSet::new();
        assert!(is_news(&mut logged, "does not answer"));
        assert!(is_news(&mut logged, "gives no availability"));
        assert!(!is_news(&mut logged, "does not answer"));
        // Part of the words is the RM's own.
        let news =
            (0..100).filter(|number| is_news(&mut logged, &format!("failed {number} times")));
        assert_eq!(news.count() + 2, limits::PROBLEMS_LOGGED_MAX);
    }
}
