//! Compares the bookings that this coordinator counts on with those that each RM has for it, and keeps the differences.
//!
//! A comparison is made at every new contact with an RM, and once an hour; the hourly ones are spread over the hour.
//! The coordinator sends a summary of each part of its bookings ([`coalloc_protocol::digest`]), the RM lists the parts
//! that differ from its own, and the coordinator's core judges them. If something differs, the comparison is repeated
//! after [`limits::RECONCILE_AGAIN`]. Only differences that both show are kept, logged, recorded and counted, because
//! messages under way make bookings differ for a moment. Nothing is repaired here, see `calls::repair`.

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

/// How many differences of one comparison are logged one by one; the others are only counted.
const LOGGED: usize = 10;
const KINDS: [Differs; 3] = [Differs::MissingThere, Differs::UnknownHere, Differs::OtherContent];

/// The result of the last comparison with one RM.
#[derive(Debug, Clone, Default)]
pub struct ComparisonResult {
    /// When the last successful comparison was made; `None` if there was none.
    pub at: Option<Time>,
    /// Why the last comparison failed; empty if it succeeded.
    pub problem: String,
    /// The differences that the last successful comparison found.
    pub differences: Vec<Difference>,
}

/// Compares bookings with every RM. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reconciler(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: CoordinatorName,
    began: Time,
    federation: Federation,
    handle: Handle,
    compared: RwLock<BTreeMap<RmName, ComparisonResult>>,
    /// Serialises comparisons: at most one at a time with each RM.
    turns: BTreeMap<RmName, Mutex<()>>,
    /// Wakes the task of an RM for a comparison outside the hourly schedule.
    wanted: BTreeMap<RmName, Notify>,
}

impl Reconciler {
    /// A reconciler that has not compared with any RM yet.
    #[must_use]
    pub fn new(name: &CoordinatorName, federation: &Federation, handle: &Handle) -> Self {
        let names = federation.names();
        for rm in &names {
            for kind in KINDS {
                // Every label exists from the start, so that the first difference shows as a step from zero.
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

    /// When this process started.
    #[must_use]
    pub fn began(&self) -> Time {
        self.0.began
    }

    /// Keeps comparing with every RM, each in a task of its own, for as long as the runtime lives.
    pub fn watch(&self) {
        let names = self.0.federation.names();
        let count = i64::try_from(names.len()).unwrap_or(i64::MAX).max(1);
        for (place, rm) in (1..).zip(names) {
            let every = limits::RECONCILE_EVERY.as_us();
            // The first hourly comparison comes earlier, depending on the RM's position, so that not all come at once.
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

    /// Asks for a comparison soon, because something was repaired.
    pub fn compare_soon(&self, rm: &RmName) {
        if let Some(wanted) = self.0.wanted.get(rm) {
            wanted.notify_one();
        }
    }

    /// Compares with all of these RMs now, in parallel.
    pub async fn compare_all(&self, rms: Vec<RmName>) {
        let mut all = JoinSet::new();
        for rm in rms {
            let one = self.clone();
            all.spawn(async move { one.compare(&rm).await });
        }
        while all.join_next().await.is_some() {}
    }

    /// The result of the last comparison with an RM.
    #[must_use]
    pub fn compared(&self, rm: &RmName) -> ComparisonResult {
        let compared = self.0.compared.read().unwrap_or_else(PoisonError::into_inner);
        compared.get(rm).cloned().unwrap_or_default()
    }

    /// Adds to each RM's status the number of differences with that RM.
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

    /// Compares with one RM, and once more if something differs. Returns whether the comparison succeeded.
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
            let by = self.0.federation.shown(&rm).causer();
            self.0.handle.tell_from(by, CoordinatorInput::Compared { rm, differences });
        }
        let outcome = outcome.map(|differences| (differences, self.0.handle.now().wall));
        let done = outcome.is_ok();
        self.note(rm, outcome);
        done
    }

    /// One comparison: sends the summaries page by page, and judges the parts that the RM lists as different.
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
                // Each page must begin after the one before, whatever the RM answers, so that the loop ends.
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
            tracing::warn!(%rm, %txn, differs = differs.word(), "a booking of the RM differs");
        }
        if !new.is_empty() {
            let (all, new) = (differences.len(), new.len());
            tracing::warn!(%rm, all, new, "differences; `coalloc repair` says what can be done");
        } else if differences.is_empty() && !known.is_empty() {
            tracing::info!(%rm, "the RM's bookings agree again");
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
