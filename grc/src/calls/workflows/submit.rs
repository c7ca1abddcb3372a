//! One workflow from its arrival to its outcome: it is planned and tried. When an RM refuses a try, the workflow is
//! planned again on the facts that came with the refusal, a bounded number of times.

use coalloc_common::{InvalidField, Refusal, ReservationId};
use coalloc_net::convert::{user_name, workflow_options};
use coalloc_net::traces::Span as Traced;
use coalloc_net::{machine, status, traces};
use coalloc_proto::v1;
use coalloc_protocol::conversation::{PlanJob, Planned};
use coalloc_protocol::coordinator::{Coordinator, Reservation, Ticket};
use tonic::Status;

use crate::admission::{digest, request_id};
use crate::calls::service::{GrcService, stands};
use crate::calls::workflows::planning::RefusedPlan;
use crate::node::conversation::{JobPlanner, converse};
use crate::views::kept;
use crate::views::workflow::{self, PageWanted};

impl GrcService {
    /// Handles one call.
    pub(crate) async fn submit_workflow_whole(
        &self,
        wire: v1::SubmitWorkflowRequest,
    ) -> Result<v1::SubmitWorkflowResponse, Status> {
        let ticket = ticket(&wire, &self.own_ids()).map_err(|error| status::invalid(&error))?;
        let options = workflow_options(wire.options.as_ref());
        let tries = options.map_err(|error| status::invalid(&error))?.tries;
        let id = ticket.request.clone();
        Traced::current().set("coalloc.request", &id);
        let _followed = traces::follow(&id);
        let mut planner = WorkflowJobs { service: self, wire: &wire, tries };
        let end = converse(self.conversation(), ticket, &mut planner).await?;
        let known = stands(end, id.as_str())?;
        if !workflow::is_workflow(&known.notes) {
            return Err(status::other_content("request", id.as_str()));
        }
        tracing::info!(
            reservation = %known.id,
            state = ?known.state,
            attempts = known.attempts,
            "workflow reported"
        );
        self.first_page(*known).await
    }

    /// The present state of a workflow that has no outcome yet.
    pub(crate) async fn workflow_still(
        &self,
        id: &str,
    ) -> Result<v1::SubmitWorkflowResponse, Status> {
        let wanted = id.to_owned();
        let look = move |coordinator: &Coordinator| match coordinator.find(&wanted) {
            Some(found) => Some(Ok(found.clone())),
            None => coordinator.planning(&wanted).map(|ticket| Err(ticket.clone())),
        };
        match self.handle.read(look).await? {
            Some(Ok(found)) => self.first_page(found).await,
            Some(Err(ticket)) => Ok(v1::SubmitWorkflowResponse {
                workflow: Some(workflow::planning(&ticket)),
                next_page_token: String::new(),
            }),
            None => Err(status::not_found("workflow", id)),
        }
    }

    async fn first_page(&self, known: Reservation) -> Result<v1::SubmitWorkflowResponse, Status> {
        let read = move || workflow::page(&known, &PageWanted::first());
        let page = machine::off_the_runtime(self.handle.host(), read).await;
        let page = page.ok_or_else(status::stopping)?;
        let (receipt, next_page_token) = page.map_err(|error| status::invalid(&error))?;
        Ok(v1::SubmitWorkflowResponse { workflow: Some(receipt), next_page_token })
    }

    async fn first_workflow_plan(
        &self,
        wire: &v1::SubmitWorkflowRequest,
        tries: u32,
    ) -> Result<Planned, Status> {
        let (asked, options) = (wire.workflow.as_ref(), wire.options.as_ref());
        let activities = asked.map_or(0, |workflow| workflow.activities.len());
        let planned = self.plan_workflow_now(asked, options, None).await?;
        Ok(match planned.candidate {
            Ok(candidate) => Planned {
                outcome: Ok(vec![candidate]),
                replans: Some(tries - 1),
                notes: workflow::notes(activities, None),
            },
            Err(refusal) => {
                let notes = workflow::notes(activities, Some(&planned.answer));
                Planned { outcome: Err(refusal), replans: None, notes }
            }
        })
    }

    /// The plan that was tried last, with the refusal that it got.
    async fn refused_plan(
        &self,
        reservation: &ReservationId,
        refusal: Option<&Refusal>,
    ) -> Result<Option<RefusedPlan>, Status> {
        let id = reservation.to_string();
        let look = move |coordinator: &Coordinator| {
            let candidate = coordinator.find(&id)?.candidate.as_ref()?;
            Some(candidate.details.text())
        };
        let text = self.handle.read(look).await?;
        let plan = text.as_deref().and_then(kept::whole_workflow);
        let tried = plan.zip(refusal.cloned());
        Ok(tried.map(|(plan, refusal)| RefusedPlan { plan, refusal }))
    }

    /// Plans again after a refusal. What the refusal does not touch stays as it was planned.
    async fn plan_workflow_again(
        &self,
        wire: &v1::SubmitWorkflowRequest,
        reservation: &ReservationId,
        refusals: &[Refusal],
    ) -> Result<Planned, Status> {
        if let Some(refusal) = refusals.last() {
            tracing::info!(
                %reservation,
                attempt = refusals.len(),
                rm = refusal.rm.as_ref().map(tracing::field::display),
                resource = refusal.resource.as_ref().map(tracing::field::display),
                reason = refusal.reason.word(),
                "a workflow's plan was refused"
            );
        }
        let (asked, options) = (wire.workflow.as_ref(), wire.options.as_ref());
        let refused = self.refused_plan(reservation, refusals.last()).await?;
        let planned = self.plan_workflow_now(asked, options, refused).await?;
        Ok(planned.candidate.map(|candidate| vec![candidate]).into())
    }
}

/// The ticket of a submission, like that of a reserve call. `own_ids` is the prefix of the ids of this coordinator's
/// reservations.
///
/// # Errors
/// [`InvalidField`] when the id or the user is not a name, or the id begins with `own_ids`.
fn ticket(wire: &v1::SubmitWorkflowRequest, own_ids: &str) -> Result<Ticket, InvalidField> {
    let user = wire.workflow.as_ref().map_or("", |workflow| workflow.user.as_str());
    Ok(Ticket {
        request: request_id(&wire.request_id, own_ids)?,
        user: user_name("workflow.user", user)?,
        // The prefix makes it differ from the digest of every other request.
        content: format!("workflow-{}", digest(wire)),
    })
}

/// Plans the jobs of a workflow. There is a random backoff before each later planning (the default of [`JobPlanner`]).
struct WorkflowJobs<'a> {
    service: &'a GrcService,
    wire: &'a v1::SubmitWorkflowRequest,
    tries: u32,
}

impl JobPlanner for WorkflowJobs<'_> {
    async fn plan(&mut self, job: &PlanJob) -> Result<Planned, Status> {
        match job.reservation() {
            None => self.service.first_workflow_plan(self.wire, self.tries).await,
            Some(id) => self.service.plan_workflow_again(self.wire, id, &job.refusals).await,
        }
    }
}
