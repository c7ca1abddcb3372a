//! Compares what this coordinator counts on with what each RM has booked for it, and keeps what differs.
//!
//! At every new contact with an RM, and once an hour, spread over it: what is counted on is summed up
//! ([`coalloc_protocol::digest`]), the RM lists the parts that it has otherwise, and the coordinator's core judges
//! them. What differs is looked at once more after [`limits::RECONCILE_AGAIN`]; only what both looks show is
//! kept, logged, recorded and counted, since what is under way differs for a moment. Nothing is repaired here, see
//! [`crate::calls::repair`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use coalloc_common::{CoordinatorName, RmName, Span, Time, limits};
use coalloc_net::convert::{compare_to_wire, compared_from_wire};
use coalloc_net::metrics::grc;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{Coordinator, CoordinatorInput, Difference, Differs};
use coalloc_protocol::digest::{Listed, Part};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;

use crate::availability::federation::Federation;
use crate::node::shell::Handle;

/// Differences that are logged one by one; the others are counted.
const LOGGED: usize = 10;
const KINDS: [Differs; 3] = [Differs::MissingThere, Differs::UnknownHere, Differs::OtherContent];

/// What the last comparison with one RM came to.
#[derive(Debug, Clone, Default)]
pub struct ComparisonResult {
    /// When it was made.
    pub at: Option<Time>,
    /// Why the last try failed; empty when it did not.
    pub problem: String,
    /// What differs.
    pub differences: Vec<Difference>,
}

/// Compares with every RM. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reconciler(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: CoordinatorName,
    began: Time,
    federation: Federation,
    handle: Handle,
    compared: RwLock<BTreeMap<RmName, ComparisonResult>>,
    /// One comparison at a time with each RM.
    turns: BTreeMap<RmName, Mutex<()>>,
    /// Asks for one out of turn.
    wanted: BTreeMap<RmName, Notify>,
}

impl Reconciler {
    /// Has compared with nobody.
    #[must_use]
    pub fn new(name: &CoordinatorName, federation: &Federation, handle: &Handle) -> Self {
        let names = federation.names();
        for rm in &names {
            for kind in KINDS {
                // From the start, so that a first difference is seen as a step from zero.
                grc().differences.with([rm.as_str(), label(kind)]).set(0);
            }
            for outcome in ["equal", "differ", "failed"] {
                grc().comparisons.with([rm.as_str(), outcome]);
            }
        }
        Self(Arc::new(Inner {
            name: name.clone(),
            began: handle.now().wall,
            federation: federation.clone(),
            handle: handle.clone(),
            compared: RwLock::default(),
            turns: names.iter().map(|rm| (rm.clone(), Mutex::default())).collect(),
            wanted: names.into_iter().map(|rm| (rm, Notify::new())).collect(),
        }))
    }

    /// When this process began.
    #[must_use]
    pub fn began(&self) -> Time {
        self.0.began
    }

    /// Keeps comparing with every RM, each on its own, for as long as the runtime lives.
    pub fn watch(&self) {
        let names = self.0.federation.names();
        let count = i64::try_from(names.len()).unwrap_or(i64::MAX).max(1);
        for (place, rm) in (1..).zip(names) {
            let every = limits::RECONCILE_EVERY.as_us();
            // The first of the hourly ones comes earlier by the RM's place, so that not all are compared at once.
            let first = Span::from_us(every / count * place);
            tokio::spawn(self.clone().keep_comparing(rm, first));
        }
    }

    async fn keep_comparing(self, rm: RmName, first: Span) {
        let Some(contact) = self.0.federation.contact(&rm) else { return };
        let Some(wanted) = self.0.wanted.get(&rm) else { return };
        contact.notified().await;
        let mut pause = first;
        loop {
            if self.0.handle.is_stopping() {
                return;
            }
            let after = match self.compare(&rm).await {
                true => std::mem::replace(&mut pause, limits::RECONCILE_EVERY),
                false => limits::RECONCILE_RETRY,
            };
            tokio::select! {
                () = contact.notified() => {}
                () = wanted.notified() => {}
                () = tokio::time::sleep(after.to_std()) => {}
            }
        }
    }

    /// Wants a comparison soon: something was repaired.
    pub fn compare_soon(&self, rm: &RmName) {
        if let Some(wanted) = self.0.wanted.get(rm) {
            wanted.notify_one();
        }
    }

    /// Compares with these RMs now, with all at once.
    pub async fn compare_all(&self, rms: Vec<RmName>) {
        let mut all = JoinSet::new();
        for rm in rms {
            let one = self.clone();
            all.spawn(async move { one.compare(&rm).await });
        }
        while all.join_next().await.is_some() {}
    }

    /// What the last comparison with an RM came to.
    #[must_use]
    pub fn compared(&self, rm: &RmName) -> ComparisonResult {
        let compared = self.0.compared.read().unwrap_or_else(PoisonError::into_inner);
        compared.get(rm).cloned().unwrap_or_default()
    }

    /// How many differences there are with each, beside how it is.
    #[must_use]
    pub fn noted(
        &self,
        statuses: Vec<v1::ResourceManagerStatus>,
    ) -> Vec<v1::ResourceManagerStatus> {
        let compared = self.0.compared.read().unwrap_or_else(PoisonError::into_inner);
        let noted = |status: v1::ResourceManagerStatus| {
            let known = compared.get(status.name.as_str());
            let count = known.map_or(0, |compared| compared.differences.len());
            let differences = u32::try_from(count).unwrap_or(u32::MAX);
            v1::ResourceManagerStatus { differences, ..status }
        };
        statuses.into_iter().map(noted).collect()
    }

    /// Compares with one RM, twice where something differs; did it come to something?
    async fn compare(&self, rm: &RmName) -> bool {
        let Some(turn) = self.0.turns.get(rm) else { return true };
        let _mine = turn.lock().await;
        let outcome = match self.look(rm).await {
            Ok(first) if first.is_empty() => Ok(first),
            Ok(first) => {
                tokio::time::sleep(limits::RECONCILE_AGAIN.to_std()).await;
                let both = |second: Vec<Difference>| {
                    let first: BTreeSet<&Difference> = first.iter().collect();
                    second.into_iter().filter(|one| first.contains(one)).collect()
                };
                self.look(rm).await.map(both)
            }
            Err(problem) => Err(problem),
        };
        if let Ok(differences) = &outcome {
            let (rm, differences) = (rm.clone(), differences.clone());
            self.0.handle.tell(CoordinatorInput::Compared { rm, differences });
        }
        let outcome = outcome.map(|differences| (differences, self.0.handle.now().wall));
        let done = outcome.is_ok();
        self.note(rm, outcome);
        done
    }

    /// One look: sums it up, asks, and judges what the RM has otherwise.
    async fn look(&self, rm: &RmName) -> Result<Vec<Difference>, String> {
        let Inner { name, federation, handle, .. } = &*self.0;
        let mut client = federation.client(rm).ok_or("it is not configured")?;
        let mut from = Part::first(handle.now().wall);
        let mut listed = Vec::new();
        for _ in 0..limits::RECONCILE_PAGES_MAX {
            let own = rm.clone();
            let sum = move |core: &Coordinator| {
                core.counted_on_at(&own).map(|set| set.summaries(from..)).unwrap_or_default()
            };
            let ours = handle.read(sum).await.map_err(|status| status.message().to_owned())?;
            let message = compare_to_wire(name.as_str(), rm.as_str(), from, &ours);
            let mut request = tonic::Request::new(message);
            request.set_timeout(limits::MESSAGE_PATIENCE.to_std());
            let answer = client.compare_bookings(request).await;
            let answer = answer.map_err(|status| status.message().to_owned())?.into_inner();
            let parts = compared_from_wire(&answer).map_err(|error| error.to_string())?;
            let last = parts.last().map(|listed| listed.part);
            listed.extend(parts);
            match last.filter(|_| answer.more) {
                // Each page begins after the one before, whatever the RM says.
                Some(last) if last.next() > from => from = last.next(),
                _ => return self.judge(rm, listed).await,
            }
        }
        Err(format!("it lists more than {} pages", limits::RECONCILE_PAGES_MAX))
    }

    async fn judge(&self, rm: &RmName, listed: Vec<Listed>) -> Result<Vec<Difference>, String> {
        if listed.is_empty() {
            return Ok(Vec::new());
        }
        let (own, now) = (rm.clone(), self.0.handle.now().wall);
        let judge = move |core: &Coordinator| core.differences(&own, &listed, now);
        self.0.handle.read(judge).await.map_err(|status| status.message().to_owned())
    }

    fn note(&self, rm: &RmName, outcome: Result<(Vec<Difference>, Time), String>) {
        let mut compared = self.0.compared.write().unwrap_or_else(PoisonError::into_inner);
        let compared = compared.entry(rm.clone()).or_default();
        let (differences, at) = match outcome {
            Ok(found) => found,
            Err(problem) => {
                grc().comparisons.with([rm.as_str(), "failed"]).inc();
                if compared.problem != problem {
                    tracing::warn!(%rm, problem, "bookings could not be compared");
                }
                compared.problem = problem;
                return;
            }
        };
        let outcome = if differences.is_empty() { "equal" } else { "differ" };
        grc().comparisons.with([rm.as_str(), outcome]).inc();
        for kind in KINDS {
            let count = differences.iter().filter(|one| one.differs == kind).count();
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            grc().differences.with([rm.as_str(), label(kind)]).set(count);
        }
        let known: BTreeSet<&Difference> = compared.differences.iter().collect();
        let new: Vec<&Difference> = differences.iter().filter(|one| !known.contains(one)).collect();
        for Difference { txn, differs, .. } in new.iter().take(LOGGED) {
            tracing::warn!(%rm, %txn, differs = differs.word(), "the RM has other bookings");
        }
        if !new.is_empty() {
            let (all, new) = (differences.len(), new.len());
            tracing::warn!(%rm, all, new, "differences; `coalloc repair` says what can be done");
        } else if differences.is_empty() && !known.is_empty() {
            tracing::info!(%rm, "the RM's bookings are what is counted on again");
        }
        *compared = ComparisonResult { at: Some(at), problem: String::new(), differences };
    }
}

const fn label(kind: Differs) -> &'static str {
    match kind {
        Differs::MissingThere => "missing_there",
        Differs::UnknownHere => "unknown_here",
        Differs::OtherContent => "other_content",
    }
}
