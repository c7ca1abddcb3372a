//! One task from its arrival to its outcome: it is planned and tried. When an RM refuses a try, the task is planned
//! again on the facts that came with the refusal, a bounded number of times.

use coalloc_common::topology::Direction;
use coalloc_common::{Reason, Refusal, ReservationId, Topology};
use coalloc_net::traces::Span as Traced;
use coalloc_net::{metrics, status, traces};
use coalloc_proto::v1;
use coalloc_protocol::conversation::{PlanJob, Planned};
use coalloc_protocol::coordinator::{Candidate, Coordinator, Reservation};
use tonic::Status;

use super::admission::{self, ReservationMode};
use super::planning::PlannedTask;
use crate::calls::service::{GrcService, stands};
use crate::node::conversation::{JobPlanner, converse};
use crate::views::receipt;

impl GrcService {
    /// Handles one task call.
    pub(crate) async fn submit_whole(
        &self,
        wire: v1::SubmitTaskRequest,
    ) -> Result<v1::TaskReceipt, Status> {
        let ticket = admission::ticket(&wire, &self.own_ids());
        let ticket = ticket.map_err(|error| status::invalid(&error))?;
        let manner = admission::manner(&wire, self.pictures.settings());
        let manner = manner.map_err(|error| status::invalid(&error))?;
        let id = ticket.request.clone();
        Traced::current().set("coalloc.request", &id);
        let _followed = traces::follow(&id);
        // There is a random backoff before planning again (the default of `JobPlanner`): tasks that collided plan on
        // the same facts, and without it would collide again at once.
        let mut planner = TaskPlanner { service: self, wire: &wire, manner, was_new: false };
        let end = converse(self.conversation(), ticket, &mut planner).await?;
        let known = stands(end, id.as_str())?;
        if !receipt::is_task(&known.notes) {
            return Err(status::other_content("request", id.as_str()));
        }
        self.log_stands(&known);
        let receipt = receipt::of(&known);
        if planner.was_new {
            self.count(&receipt);
        }
        Ok(receipt)
    }

    async fn first_plan(
        &self,
        wire: &v1::SubmitTaskRequest,
        manner: ReservationMode,
    ) -> Result<Planned, Status> {
        let planned = self.plan_task_now(wire.task.as_ref(), wire.options.as_ref()).await?;
        Ok(match best(&planned, manner, &[]) {
            Ok(candidate) => Planned {
                outcome: Ok(vec![candidate]),
                replans: Some(manner.tries - 1),
                notes: receipt::notes(wire, None),
            },
            Err(refusal) => {
                let notes = receipt::notes(wire, Some(&planned.to_wire()));
                Planned { outcome: Err(refusal), replans: None, notes }
            }
        })
    }

    /// Plans again after a refusal.
    async fn plan_again(
        &self,
        wire: &v1::SubmitTaskRequest,
        manner: ReservationMode,
        reservation: ReservationId,
    ) -> Result<Planned, Status> {
        let id = reservation.clone();
        let look = move |coordinator: &Coordinator| {
            let found = coordinator.find(reservation.as_str())?;
            Some((receipt::tried(found), found.attempt_refusals.last().cloned()))
        };
        let (tried, last) = self.handle.read(look).await?.unwrap_or_default();
        if let Some(refusal) = &last {
            let age = tried.last().copied().flatten();
            tracing::info!(
                reservation = %id,
                attempt = tried.len(),
                rm = refusal.rm.as_ref().map(tracing::field::display),
                resource = refusal.resource.as_ref().map(tracing::field::display),
                reason = refusal.reason.word(),
                believed_age = age.map(tracing::field::display),
                "a task's plan was refused"
            );
        }
        let planned = self.plan_task_now(wire.task.as_ref(), wire.options.as_ref()).await?;
        let nearest = planned.to_wire().nearest;
        let candidate = best(&planned, manner, &tried);
        let outcome = candidate.map(|candidate| vec![candidate]);
        let outcome = outcome.map_err(|refusal| receipt::with_nearest(refusal, nearest.as_ref()));
        Ok(outcome.into())
    }

    fn log_stands(&self, reservation: &Reservation) {
        tracing::info!(
            reservation = %reservation.id,
            state = ?reservation.state,
            attempts = reservation.attempts,
            "task reported"
        );
    }

    /// The present state of a task that has no outcome yet.
    pub(crate) async fn task_still(&self, id: &str) -> Result<v1::TaskReceipt, Status> {
        let wanted = id.to_owned();
        let look = move |coordinator: &Coordinator| match coordinator.find(&wanted) {
            Some(found) => Some(receipt::of(found)),
            None => coordinator.planning(&wanted).map(receipt::planning),
        };
        let found = self.handle.read(look).await?;
        found.ok_or_else(|| status::not_found("task", id))
    }

    /// Counts the outcome of a task and of its tries.
    fn count(&self, receipt: &v1::TaskReceipt) {
        let metrics = metrics::tasks();
        let refused_at_all =
            receipt.tries.last().is_some_and(|last| last.resource_manager.is_empty());
        let outcome = match (receipt.confirmed, refused_at_all) {
            (true, _) => "booked",
            (false, true) => "no_plan",
            (false, false) => "refused",
        };
        metrics.ended.with([outcome]).inc();
        let federation = self.federation.snapshot();
        for one in receipt.tries.iter().filter(|one| !one.resource_manager.is_empty()) {
            let refusal = one.refusal.as_ref();
            let resource = refusal.map_or("", |refusal| refusal.resource.as_str());
            let rm = one.resource_manager.as_str();
            metrics.refused.with([kind(&federation.topology, rm, resource)]).inc();
        }
    }
}

/// Plans a task.
struct TaskPlanner<'a> {
    service: &'a GrcService,
    wire: &'a v1::SubmitTaskRequest,
    manner: ReservationMode,
    /// Whether this call has planned the task, and not an earlier one.
    was_new: bool,
}

impl JobPlanner for TaskPlanner<'_> {
    async fn plan(&mut self, job: &PlanJob) -> Result<Planned, Status> {
        self.was_new = true;
        match job.reservation() {
            None => self.service.first_plan(self.wire, self.manner).await,
            Some(id) => self.service.plan_again(self.wire, self.manner, id.clone()).await,
        }
    }
}

/// The candidate that is tried: the best plan.
fn best(
    planned: &PlannedTask,
    manner: ReservationMode,
    tried: &[Option<coalloc_common::Span>],
) -> Result<Candidate, Refusal> {
    match &planned.whole.outcome {
        Ok(found) => {
            let none = || Refusal::new(Reason::NoRoute, "the planner found nothing to try");
            let best = found.first().ok_or_else(none)?;
            Ok(planned.candidate(best, manner.one_way, tried))
        }
        Err(refused) => Err(refused.refusal.clone()),
    }
}

/// Where a try was refused. The papers speak of a conflict at a cluster, and of blocking at a path.
fn kind(topology: &Topology, rm: &str, resource: &str) -> &'static str {
    let is_site = |rm_name: &str, name: &str| rm_name == rm && name == resource;
    let mut sites = topology.sites();
    if sites.any(|(_, _, compute)| is_site(compute.rm.as_str(), compute.resource.as_str())) {
        return "conflict";
    }
    let directions = [Direction::AToB, Direction::BToA];
    let mut paths = topology.edges().iter().flat_map(|edge| directions.map(|way| (edge, way)));
    if paths.any(|(edge, way)| is_site(edge.rm.as_str(), edge.resource(way).as_str())) {
        return "blocking";
    }
    "other"
}
