//! Drives a planning conversation with the coordinator core from a subject to its outcome: a reserve call, a change,
//! a hold of a parent and a task all go this way, each with a planner of its own.
//!
//! Whoever is told to plan has to say what came of it: until then everybody who sends the same subject again waits.
//! A handler that panics on its way, or is dropped, says "broken off" by dropping its [`JobGuard`].
//!
//! The conversation itself is `coalloc_protocol::conversation`. Left out: what is planned, which is the callers'.

use coalloc_common::{Reason, Refusal, limits};
use coalloc_net::{metrics, status};
use coalloc_protocol::conversation::{ConversationInput, Next, PlanJob, Planned, Subject};
use tonic::Status;

use crate::node::pauses::Pauses;
use crate::node::shell::Handle;

/// Plans the jobs of one conversation.
pub(crate) trait JobPlanner: Send {
    /// Plans a job, believing its refusals where these say less than the resource managers do.
    ///
    /// # Errors
    /// What the caller is answered with when the first planning comes to nothing. RESOURCE_EXHAUSTED means "busy": a
    /// job that is planned again is tried later.
    fn plan(&mut self, job: &PlanJob) -> impl Future<Output = Result<Planned, Status>> + Send;

    /// Is a random backoff awaited before planning again? Whoever wants the same as others again should: at once they
    /// would meet again.
    fn backs_off(&self) -> bool {
        true
    }
}

/// Opens the conversation about a subject and plans whatever the coordinator wants planned, until there is an
/// outcome.
///
/// # Errors
/// As [`Handle::call`]; and what the planner answers when the first planning comes to nothing.
pub(crate) async fn converse<S>(
    handle: &Handle,
    pauses: &Pauses,
    subject: S,
    planner: &mut impl JobPlanner,
) -> Result<S::End, Status>
where
    S: Subject + Send,
    S::End: Send + 'static,
{
    let open = |token| ConversationInput::Open(subject.open(token)).into();
    let mut next: Next<S::End> = handle.call(open).await?;
    let mut replans = 0;
    loop {
        let job = match next {
            Next::Done(end) => return Ok(end),
            Next::Plan(job) => job,
        };
        let guard = JobGuard::new(handle, job.clone());
        let planned = match job.reservation() {
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
        let answer = loop {
            let (job, planned) = (job.clone(), planned.clone());
            let input = |token| {
                let caller = S::caller(token);
                ConversationInput::Planned { job, planned, caller }.into()
            };
            match handle.post(input) {
                Ok(answer) => break answer,
                Err(status) if guard.is_first() => return Err(status),
                // Something was tried before: it is not refused because the core is busy.
                Err(status) if is_busy(&status) => wait_while_busy().await,
                Err(_) => return Err(status::answer_lost()),
            }
        };
        guard.settled();
        next = answer.await.map_err(|_| status::answer_lost())?;
    }
}

/// Plans for a reservation that is half way through: whatever comes of it is an outcome.
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

/// Why planning again came to nothing, when that is not for want of anything.
fn planning_failed(status: &Status) -> Refusal {
    let reason = match status.code() {
        // What could be asked for when it was admitted cannot any more: time has passed.
        tonic::Code::InvalidArgument | tonic::Code::FailedPrecondition => Reason::OutsideHorizon,
        tonic::Code::Internal => Reason::BudgetExhausted,
        _ => Reason::Unreachable,
    };
    Refusal::new(reason, status.message())
}

/// A job that is being planned. Dropped before it is [settled](JobGuard::settled), it tells the core that the
/// planning broke off.
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

    /// What came of the planning was posted.
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
        // Busy, or stopping; a runtime that has ended stops, too.
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
    use std::collections::BTreeMap;
    use std::sync::mpsc;

    use coalloc_common::{
        Amount, RequestId, ResourceId, RmName, Segment, Span, Time, TransactionId, UserName, Window,
    };
    use coalloc_net::machine::System;
    use coalloc_net::waiters::Waiters;
    use coalloc_protocol::conversation::{Opening, RequestEnd};
    use coalloc_protocol::coordinator::{
        Candidate, Coordinator, CoordinatorConfig, CoordinatorEffect, CoordinatorInput,
        MessageKind, State, Ticket,
    };
    use coalloc_protocol::message::{Answer, Delivery};

    use super::*;
    use crate::node::shell::{self, Node};

    type Sent = (RmName, TransactionId, MessageKind);

    /// A coordinator whose messages go nowhere but here.
    fn node(folder: &tempfile::TempDir) -> (Node, mpsc::Receiver<Sent>) {
        let name = coalloc_common::CoordinatorName::composed("grc");
        let config = CoordinatorConfig { name, tag: "t".to_owned(), hold_for: None };
        let (path, mut core) = (folder.path().join("grc.ledger"), Coordinator::new(config));
        let ledger = coalloc_net::node::open_ledger(&path, "grc", "grc", &mut core).unwrap();
        let (sender, sent) = mpsc::channel();
        let on_effect = move |effect, waiters: &Waiters| match effect {
            CoordinatorEffect::Reply(reply) => shell::complete(waiters, reply),
            CoordinatorEffect::Send { rm, txn, message } => {
                let _ = sender.send((rm, txn, message.kind()));
            }
            CoordinatorEffect::AskParent { .. } => {}
        };
        let node = Node::start("coordinator", &System::host(), core, ledger, on_effect).unwrap();
        node.handle.tell(CoordinatorInput::Start);
        (node, sent)
    }

    fn ticket(request: &str) -> Ticket {
        let request = RequestId::composed(request);
        Ticket { request, user: UserName::composed("u"), content: "c".to_owned() }
    }

    async fn open(handle: &Handle, request: &str) -> Next<RequestEnd> {
        let opening = |token| Opening::Request(ticket(request), token);
        handle.call(|token| ConversationInput::Open(opening(token)).into()).await.unwrap()
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
        Candidate { segments, order: Vec::new(), one_way: false, details: String::new().into() }
    }

    /// Plans so many jobs, and breaks at the next.
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
            converse(&handle, &pauses, ticket("r1"), &mut planner).await
        })
    }

    fn is_planned_first(next: &Next<RequestEnd>) -> bool {
        matches!(next, Next::Plan(job) if job.reservation().is_none())
    }

    /// A planner that panics leaves its id to whoever sends it again.
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
        // Who has waited hears of it, or came after it and plans.
        let next = waiting.await.unwrap();
        let broken_off = next == Next::Done(RequestEnd::BrokenOff);
        assert!(broken_off || is_planned_first(&next), "{next:?}");
        node.stop().await;
    }

    /// A handler that is dropped before it is settled says that the planning broke off; one that is settled does not.
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

    /// Planning again that panics ends what is half way through, so that whoever asks gets an outcome.
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
