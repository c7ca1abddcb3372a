//! Leads a planning conversation with the coordinator core from its subject to its outcome. The subject is a reserve
//! call, a change, a parent's hold or a task. All of them are led the same way, each with a planner of its own.
//!
//! A handler that the core asks to plan must report the result. Until it does, every other caller that sends the same
//! subject waits. A handler that panics or is dropped before that drops its [`JobGuard`], which reports to the core
//! that the planning broke off.
//!
//! The conversation itself is `coalloc_protocol::conversation`. Left out: what is planned, which the callers decide.

use std::collections::BTreeMap;

use coalloc_common::{
    Reason, Refusal, ResourceId, ResourceKind, ResourceKinds, RmName, Segment, Topology, limits,
};
use coalloc_net::{metrics, needs, status};
use coalloc_protocol::Causer;
use coalloc_protocol::capability::Capability;
use coalloc_protocol::conversation::{
    ConversationInput, Next, PlanJob, PlanTarget, Planned, Subject,
};
use coalloc_protocol::coordinator::Candidate;
use tonic::Status;

use crate::availability::federation::{Federation, Snapshot};
use crate::node::pauses::Pauses;
use crate::node::shell::Handle;

/// Plans the jobs of one conversation.
pub(crate) trait JobPlanner: Send {
    /// Plans a job. Where the refusals of the job's earlier attempts leave less than the resource managers report as
    /// free, the refusals count.
    ///
    /// # Errors
    /// If this is the first planning of the subject, the caller gets this status. If it is a later one,
    /// RESOURCE_EXHAUSTED means "busy", and the job is planned again after a moment. Any other status becomes a
    /// refusal.
    fn plan(&mut self, job: &PlanJob) -> impl Future<Output = Result<Planned, Status>> + Send;

    /// Is there a random backoff before each later planning? A request that competes with others for the same
    /// resources needs it: without a backoff they would collide again at once.
    fn backs_off(&self) -> bool {
        true
    }
}

/// What every conversation of a call needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConversationParts<'a> {
    /// The coordinator core.
    pub(crate) handle: &'a Handle,
    /// Who has made the call: everything is recorded as caused by it.
    pub(crate) by: &'a Causer,
    /// Draws the backoff before planning again.
    pub(crate) pauses: &'a Pauses,
    /// The resource managers, for the kinds of what is planned.
    pub(crate) federation: &'a Federation,
}

/// Opens the conversation about a subject and plans every job that the coordinator core wants planned, until there is
/// an outcome.
///
/// # Errors
/// As [`Handle::call`]; and the planner's status when the first planning fails.
pub(crate) async fn converse<S>(
    ConversationParts { handle, by, pauses, federation }: ConversationParts<'_>,
    subject: S,
    planner: &mut impl JobPlanner,
) -> Result<S::End, Status>
where
    S: Subject + Send,
    S::End: Send + 'static,
{
    let open = |token| ConversationInput::Open(subject.open(token)).into();
    let mut next: Next<S::End> = handle.call(by, open).await?;
    let mut replans = 0;
    loop {
        let job = match next {
            Next::Done(end) => return Ok(end),
            Next::Plan(job) => job,
        };
        let guard = JobGuard::new(handle, job.clone());
        let mut planned = match job.reservation() {
            None => planner.plan(&job).await?,
            Some(reservation) => {
                replans += 1;
                if planner.backs_off() {
                    pauses.wait(replans).await;
                }
                tracing::info!(%reservation, "refused; planning again");
                metrics::grc().replans.inc();
                plan_again(planner, &job).await
            }
        };
        let snapshot = federation.snapshot();
        if let Ok(candidates) = &mut planned.outcome {
            note_kinds(&snapshot.topology, candidates);
        }
        leave_out_unsupported(&snapshot, &job, &mut planned);
        let answer = loop {
            let (job, planned) = (job.clone(), planned.clone());
            let input = |token| {
                let caller = S::caller(token);
                ConversationInput::Planned { job, planned, caller }.into()
            };
            match handle.post(by, input) {
                Ok(answer) => break answer,
                Err(status) if guard.is_first() => return Err(status),
                // Earlier attempts were made for this subject, so it is not turned away because the core is busy.
                Err(status) if is_busy(&status) => wait_while_busy().await,
                Err(_) => return Err(status::answer_lost()),
            }
        };
        guard.settled();
        next = answer.await.map_err(|_| status::answer_lost())?;
    }
}

/// Says in each candidate which kinds its resources are of: the core counts users' quotas by kind.
fn note_kinds(topology: &Topology, candidates: &mut [Candidate]) {
    let mut of_sites: BTreeMap<(&RmName, &ResourceId), ResourceKind> = BTreeMap::new();
    for (_, vertex, _) in topology.sites() {
        of_sites.extend(vertex.resources().map(|of| ((of.rm, of.resource), of.kind)));
    }
    let kind = |rm: &RmName, resource: &ResourceId| {
        of_sites.get(&(rm, resource)).copied().unwrap_or(ResourceKind::Bandwidth)
    };
    for candidate in candidates {
        for (rm, segments) in &candidate.segments {
            let Some(first) = segments.first() else { continue };
            let mut kinds = ResourceKinds::all(kind(rm, &first.resource));
            for Segment { resource, .. } in segments {
                kinds.name(resource.clone(), kind(rm, resource));
            }
            candidate.kinds.insert(rm.clone(), kinds);
        }
    }
}

/// Leaves out the candidates that the release of some RM would not carry out as they are meant. With none left, nothing is tried,
/// and the refusal says why.
fn leave_out_unsupported(snapshot: &Snapshot, job: &PlanJob, planned: &mut Planned) {
    let Ok(candidates) = &mut planned.outcome else { return };
    let mut refusal = None;
    candidates.retain(|candidate| match unsupported(snapshot, job, candidate) {
        None => true,
        Some(found) => {
            refusal.get_or_insert(found);
            false
        }
    });
    if candidates.is_empty()
        && let Some(refusal) = refusal
    {
        planned.outcome = Err(refusal);
    }
}

/// Why some RM would not carry out a candidate as it is meant; `None` if all would.
fn unsupported(snapshot: &Snapshot, job: &PlanJob, candidate: &Candidate) -> Option<Refusal> {
    let is_change = match &job.target {
        PlanTarget::Change(_) => true,
        PlanTarget::ParentHold(order) => order.replaces.is_some(),
        PlanTarget::Request(_) | PlanTarget::Again(_) => false,
    };
    candidate.segments.iter().find_map(|(rm, segments)| {
        let all = [
            (candidate.one_way, Capability::OneWay),
            (candidate.servers.contains_key(rm), Capability::Servers),
            (candidate.manual_provision && !segments.is_empty(), Capability::ManualProvision),
            (is_change, Capability::Replaces),
            (is_change, Capability::KeepsOld),
        ];
        let mut needed = all.into_iter().filter_map(|(is_needed, what)| is_needed.then_some(what));
        // Most candidates need nothing.
        let first = needed.next()?;
        let (_, said) = snapshot.members.get(rm)?;
        let version = needs::version_from_wire(said.version.as_ref());
        let lacking = std::iter::once(first).chain(needed).find(|what| !version.knows(*what))?;
        let text = format!("it is {version}, which does not know {}", lacking.noun());
        Some(Refusal::new(Reason::Unsupported, text).at(rm))
    })
}

/// Plans again for a reservation that has had an attempt already. A failure becomes a refusal, which is an outcome.
async fn plan_again(planner: &mut impl JobPlanner, job: &PlanJob) -> Planned {
    loop {
        match planner.plan(job).await {
            Ok(planned) => return planned,
            Err(status) if is_busy(&status) => wait_while_busy().await,
            Err(status) => return Err(planning_failed(&status)).into(),
        }
    }
}

fn is_busy(status: &Status) -> bool {
    status.code() == tonic::Code::ResourceExhausted
}

async fn wait_while_busy() {
    tokio::time::sleep(limits::BUSY_PAUSE.to_std()).await;
}

/// The refusal that stands for a later planning that failed for another reason than a lack of resources.
fn planning_failed(status: &Status) -> Refusal {
    let reason = match status.code() {
        // What was asked for was possible when it was admitted and no longer is: time has passed.
        tonic::Code::InvalidArgument | tonic::Code::FailedPrecondition => Reason::OutsideHorizon,
        tonic::Code::Internal => Reason::BudgetExhausted,
        _ => Reason::Unreachable,
    };
    Refusal::new(reason, status.message())
}

/// A job that is being planned. If it is dropped before it is [settled](JobGuard::settled), the core gets the report
/// that the planning broke off.
#[must_use = "dropped, it tells the core that the planning broke off"]
struct JobGuard {
    handle: Handle,
    job: Option<PlanJob>,
}

impl JobGuard {
    fn new(handle: &Handle, job: PlanJob) -> Self {
        Self { handle: handle.clone(), job: Some(job) }
    }

    /// Is this the first planning of its subject?
    fn is_first(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.reservation().is_none())
    }

    /// The result of the planning has been posted, so the guard has nothing to report.
    fn settled(mut self) {
        self.job = None;
    }
}

impl Drop for JobGuard {
    fn drop(&mut self) {
        let Some(job) = self.job.take() else { return };
        let broken_off = move || ConversationInput::BrokenOff(job.clone()).into();
        if self.handle.tell(broken_off()) {
            return;
        }
        // The core is busy or stopping, so it is tried again later. If the tokio runtime has ended, so has the core.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let handle = self.handle.clone();
        runtime.spawn(async move {
            while !handle.is_stopping() && !handle.tell(broken_off()) {
                wait_while_busy().await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use coalloc_common::{Amount, RequestId, Span, Time, TransactionId, UserName, Window};
    use coalloc_net::client::Dialer;
    use coalloc_net::machine::System;
    use coalloc_net::waiters::Waiters;
    use coalloc_protocol::conversation::{Opening, RequestEnd};
    use coalloc_protocol::coordinator::{
        Coordinator, CoordinatorConfig, CoordinatorEffect, CoordinatorInput, MessageKind, State,
        Ticket,
    };
    use coalloc_protocol::message::{Answer, Delivery};

    use super::*;
    use crate::node::shell::{self, Node};

    type Sent = (RmName, TransactionId, MessageKind);

    /// A coordinator whose messages go to the returned receiver and to no RM.
    fn node(folder: &tempfile::TempDir) -> (Node, mpsc::Receiver<Sent>) {
        let name = coalloc_common::CoordinatorName::composed("grc");
        let config = CoordinatorConfig { name, tag: "t".to_owned(), hold_for: None, forgets: None };
        let (path, mut core) = (folder.path().join("grc.ledger"), Coordinator::new(config));
        let ledger = coalloc_net::node::open_ledger(&path, "grc", "grc", &mut core).unwrap();
        let (sender, sent) = mpsc::channel();
        let on_effect = move |effect, waiters: &Waiters| match effect {
            CoordinatorEffect::Reply(reply) => shell::complete(waiters, reply),
            CoordinatorEffect::Send { rm, txn, message, .. } => {
                let _ = sender.send((rm, txn, message.kind()));
            }
            CoordinatorEffect::AskParent { .. } => {}
        };
        let node = Node::start(
            "coordinator",
            &System::host(Dialer::plain_text()),
            core,
            ledger,
            on_effect,
        )
        .unwrap();
        node.handle.tell(CoordinatorInput::Start);
        (node, sent)
    }

    fn ticket(request: &str) -> Ticket {
        let request = RequestId::composed(request);
        Ticket { request, user: UserName::composed("u"), content: "c".to_owned() }
    }

    async fn open(handle: &Handle, request: &str) -> Next<RequestEnd> {
        let opening = |token| Opening::Request(ticket(request), token);
        let open = |token| ConversationInput::Open(opening(token)).into();
        handle.call(&Causer::Itself, open).await.unwrap()
    }

    fn candidate() -> Candidate {
        let start = Time::from_us(coalloc_net::clock::now().wall.as_us())
            .saturating_add(Span::from_secs(3_600));
        let segment = Segment {
            resource: ResourceId::composed("A"),
            amount: Amount(1),
            window: Window::starting(start, Span::from_secs(60)).unwrap(),
        };
        let segments = BTreeMap::from([(RmName::composed("crm"), vec![segment])]);
        Candidate { segments, ..Candidate::default() }
    }

    /// Plans this many jobs, and panics at the next.
    struct Breaks(u32);

    impl JobPlanner for Breaks {
        async fn plan(&mut self, _: &PlanJob) -> Result<Planned, Status> {
            assert!(self.0 > 0, "a planner that breaks");
            self.0 -= 1;
            Ok(Ok(vec![candidate()]).into())
        }
    }

    fn reserve(handle: &Handle, plans: u32) -> tokio::task::JoinHandle<Result<RequestEnd, Status>> {
        let handle = handle.clone();
        tokio::spawn(async move {
            let (pauses, mut planner) = (Pauses::of_ledger("t"), Breaks(plans));
            let federation = Federation::new(&BTreeMap::new(), &System::host(Dialer::plain_text()));
            let (by, federation) = (&Causer::Itself, &federation);
            let parts = ConversationParts { handle: &handle, by, pauses: &pauses, federation };
            converse(parts, ticket("r1"), &mut planner).await
        })
    }

    fn is_planned_first(next: &Next<RequestEnd>) -> bool {
        matches!(next, Next::Plan(job) if job.reservation().is_none())
    }

    /// After a planner has panicked, the request id can be used by whoever sends it again.
    #[tokio::test]
    async fn a_panic_while_it_is_planned_leaves_the_id_usable() {
        let folder = tempfile::tempdir().unwrap();
        let (node, _sent) = node(&folder);
        let handle = node.handle.clone();
        let planning = reserve(&handle, 0);
        assert!(planning.await.unwrap_err().is_panic());
        let Next::Plan(job) = open(&handle, "r1").await else { panic!("not planned") };
        let waiting = tokio::spawn({
            let handle = handle.clone();
            async move { open(&handle, "r1").await }
        });
        drop(JobGuard::new(&handle, job));
        // The second caller waited and gets the report, or it came after the report and plans.
        let next = waiting.await.unwrap();
        let broken_off = next == Next::Done(RequestEnd::BrokenOff);
        assert!(broken_off || is_planned_first(&next), "{next:?}");
        node.stop().await;
    }

    /// A guard that is dropped before it is settled reports that the planning broke off; a settled one does not.
    #[tokio::test]
    async fn what_is_settled_is_not_broken_off() {
        let folder = tempfile::tempdir().unwrap();
        let (node, _sent) = node(&folder);
        let handle = node.handle.clone();
        let Next::Plan(job) = open(&handle, "r1").await else { panic!("not planned") };
        JobGuard::new(&handle, job.clone()).settled();
        assert!(handle.read(|core| core.planning("r1").is_some()).await.unwrap());
        drop(JobGuard::new(&handle, job));
        assert!(handle.read(|core| core.planning("r1").is_none()).await.unwrap());
        node.stop().await;
    }

    /// A panic in a later planning ends the reservation, so that whoever sends the request again gets an outcome.
    #[tokio::test]
    async fn a_panic_while_it_is_planned_again_ends_the_reservation() {
        let folder = tempfile::tempdir().unwrap();
        let (node, sent) = node(&folder);
        let handle = node.handle.clone();
        let planning = reserve(&handle, 1);
        let sent = tokio::task::spawn_blocking(move || sent.recv().unwrap());
        let (rm, txn, kind) = sent.await.unwrap();
        assert_eq!(kind, MessageKind::Hold);
        let refusal = Refusal::new(Reason::InsufficientCapacity, "others were faster");
        let delivery = Delivery::Answered(Answer::Refused(refusal));
        handle.tell(CoordinatorInput::Delivered { rm, txn, kind, delivery });
        assert!(planning.await.unwrap_err().is_panic());
        let Next::Done(RequestEnd::Stands(known)) = open(&handle, "r1").await else {
            panic!("no outcome")
        };
        assert_eq!(known.state, State::Failed);
        assert!(known.refusal.unwrap().detail.contains("broke off"));
        node.stop().await;
    }
}
