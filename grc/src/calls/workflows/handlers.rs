//! The Workflows service of gRPC. A handler checks its message and passes it to the module of its call.

use coalloc_common::InvalidField;
use coalloc_net::authorization::Caller;
use coalloc_net::{machine, status};
use coalloc_proto::v1;
use coalloc_proto::v1::workflows_server::Workflows as WorkflowsRpc;
use coalloc_protocol::coordinator::Coordinator;
use tonic::{Request, Response, Status};

use crate::calls::service::{CallSubject, GrcService, patient};
use crate::views::view::{self, RunningState};
use crate::views::workflow::{self, PageWanted};

#[tonic::async_trait]
impl WorkflowsRpc for GrcService {
    async fn plan_workflow(
        &self,
        request: Request<v1::PlanWorkflowRequest>,
    ) -> Result<Response<v1::PlanWorkflowResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let v1::PlanWorkflowRequest { mut workflow, options } = request.into_inner();
        if let Some(workflow) = &mut workflow {
            caller.acts_for("workflow.user", &mut workflow.user)?;
        }
        let planned = self.plan_workflow_now(workflow.as_ref(), options.as_ref(), None).await?;
        Ok(Response::new(planned.answer))
    }

    async fn submit_workflow(
        &self,
        request: Request<v1::SubmitWorkflowRequest>,
    ) -> Result<Response<v1::SubmitWorkflowResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let service = self.for_caller(&caller);
        let mut wire = request.into_inner();
        if let Some(workflow) = &mut wire.workflow {
            caller.acts_for("workflow.user", &mut workflow.user)?;
        }
        let id = wire.request_id.clone();
        let about = CallSubject("request", &id);
        let whole = async move { service.submit_workflow_whole(wire).await };
        let answer = match patient(about, whole).await? {
            Some(answer) => answer,
            None => {
                self.check_sees(&caller, "request", &id).await?;
                about.still(self.workflow_still(&id).await)?
            }
        };
        Ok(Response::new(answer))
    }

    async fn get_workflow(
        &self,
        request: Request<v1::GetWorkflowRequest>,
    ) -> Result<Response<v1::GetWorkflowResponse>, Status> {
        let (caller, wire) = (Caller::of_request(&request)?, request.into_inner());
        let wanted = PageWanted::parse(&wire).map_err(|error| status::invalid(&error))?;
        self.check_sees(&caller, "workflow", &wire.id).await?;
        let id = wire.id.clone();
        let look = move |coordinator: &Coordinator| match coordinator.find(&id) {
            Some(found) => {
                let reports = coordinator.reports(&found.id).to_vec();
                Some(Ok((found.clone(), RunningState::of(coordinator, found), reports)))
            }
            None => coordinator.planning(&id).map(|ticket| Err(ticket.clone())),
        };
        let none = || status::not_found("workflow", &wire.id);
        let (found, running, reports) = match self.handle.read(look).await?.ok_or_else(none)? {
            Ok(found) => found,
            // What is being planned has no notes yet, so a task may be answered so, too.
            Err(ticket) => {
                return Ok(Response::new(v1::GetWorkflowResponse {
                    reservation: Some(view::planning(&ticket)),
                    workflow: Some(workflow::planning(&ticket)),
                    next_page_token: String::new(),
                }));
            }
        };
        if !workflow::is_workflow(&found.notes) {
            return Err(none());
        }
        let now = self.handle.now();
        let read = move || -> Result<v1::GetWorkflowResponse, InvalidField> {
            let (mut receipt, next_page_token) = workflow::page(&found, &wanted)?;
            workflow::add_progress(&mut receipt, &reports, now.wall);
            let reservation = Some(view::shown(&found, &running, now));
            Ok(v1::GetWorkflowResponse { reservation, workflow: Some(receipt), next_page_token })
        };
        // A plan can be some megabytes of text.
        let page = machine::off_the_runtime(self.handle.host(), read).await;
        let page = page.ok_or_else(status::stopping)?;
        page.map(Response::new).map_err(|error| status::invalid(&error))
    }

    async fn report_activity(
        &self,
        request: Request<v1::ReportActivityRequest>,
    ) -> Result<Response<v1::ReportActivityResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let (service, mut wire) = (self.for_caller(&caller), request.into_inner());
        caller.acts_for("user", &mut wire.user)?;
        self.check_sees(&caller, "workflow", &wire.id).await?;
        let (report, id) = (wire.report_id.clone(), wire.id.clone());
        let about = CallSubject("report", &report);
        let whole = async move { service.report_whole(wire).await };
        let answer = match patient(about, whole).await? {
            Some(answer) => answer,
            None => about.still(self.reported(&id, None).await)?,
        };
        Ok(Response::new(answer))
    }

    async fn revise_workflow(
        &self,
        request: Request<v1::ReviseWorkflowRequest>,
    ) -> Result<Response<v1::ReviseWorkflowResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let (service, mut wire) = (self.for_caller(&caller), request.into_inner());
        caller.acts_for("user", &mut wire.user)?;
        self.check_sees(&caller, "workflow", &wire.id).await?;
        let id = wire.id.clone();
        let about = CallSubject("workflow", &id);
        let whole = async move { service.revise_whole(wire).await };
        let answer = match patient(about, whole).await? {
            Some(answer) => answer,
            None => about.still(self.revision_still(&id).await)?,
        };
        Ok(Response::new(answer))
    }
}
