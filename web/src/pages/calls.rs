//! The coordinator's own methods, called with the visitor's rights.

mod acting;

use coalloc_common::limits;
use coalloc_net::server::local::LocalChannel;
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use coalloc_proto::v1::workflows_client::WorkflowsClient;
use tonic::Status;

use super::PageState;
use super::visitor::Visitor;

/// Calls on behalf of one visitor.
pub(super) struct PageCalls {
    channel: LocalChannel,
    coordinator: CoordinatorClient<LocalChannel>,
}

impl PageCalls {
    pub(super) fn new(state: &PageState, visitor: &Visitor) -> Self {
        Self::on(visitor.channel(state))
    }

    /// Calls of somebody who shows nothing.
    pub(super) fn of_nobody(state: &PageState) -> Self {
        Self::on(state.services.channel(None, None))
    }

    fn on(channel: LocalChannel) -> Self {
        let coordinator =
            CoordinatorClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
        Self { channel, coordinator }
    }

    /// Is the visitor somebody? The call itself has no other use here.
    pub(super) async fn who(&mut self) -> Result<(), Status> {
        self.coordinator.get_quota(v1::GetQuotaRequest::default()).await.map(drop)
    }

    /// The federation as its resource managers describe it.
    pub(super) async fn federation(&mut self) -> Result<v1::DescribeFederationResponse, Status> {
        let answer = self.coordinator.describe_federation(v1::DescribeFederationRequest {}).await?;
        Ok(answer.into_inner())
    }

    /// May the visitor see the topology, and what is for everybody who may? It counts as a call.
    pub(super) async fn may_see_topology(&self) -> Result<(), Status> {
        self.channel.caller("/coalloc.v1.Coordinator/DescribeFederation").await.map(drop)
    }

    /// One page of a list.
    pub(super) async fn list(
        &mut self,
        request: v1::ListRequest,
    ) -> Result<v1::ListResponse, Status> {
        Ok(self.coordinator.list(request).await?.into_inner())
    }

    /// One page of the calendar of whoever has made a secret.
    pub(super) async fn calendar(
        &mut self,
        request: v1::ReadCalendarRequest,
    ) -> Result<v1::ReadCalendarResponse, Status> {
        Ok(self.coordinator.read_calendar(request).await?.into_inner())
    }

    /// Whether a user has a secret address of its calendar.
    pub(super) async fn calendar_address(
        &mut self,
        user: &str,
    ) -> Result<v1::GetCalendarAddressResponse, Status> {
        let request = v1::GetCalendarAddressRequest { user: user.to_owned() };
        Ok(self.coordinator.get_calendar_address(request).await?.into_inner())
    }

    /// Plans a request, and holds nothing.
    pub(super) async fn plan(
        &mut self,
        request: v1::PlanRequest,
    ) -> Result<v1::PlanResponse, Status> {
        Ok(self.coordinator.plan(request).await?.into_inner())
    }

    /// What the coordinator believes of profiles.
    pub(super) async fn picture(
        &mut self,
        request: v1::ReadPictureRequest,
    ) -> Result<v1::ReadPictureResponse, Status> {
        Ok(self.coordinator.read_picture(request).await?.into_inner())
    }

    /// What the last comparisons of bookings have found.
    pub(super) async fn differences(&mut self) -> Result<v1::ListDifferencesResponse, Status> {
        let request = v1::ListDifferencesRequest::default();
        Ok(self.coordinator.list_differences(request).await?.into_inner())
    }

    /// One reservation.
    pub(super) async fn get(&mut self, id: &str) -> Result<v1::Reservation, Status> {
        let answer = self.coordinator.get(v1::GetRequest { id: id.to_owned() }).await?;
        answer.into_inner().reservation.ok_or_else(empty)
    }

    /// What the equipment has of a reservation.
    pub(super) async fn data_plane(
        &mut self,
        id: &str,
    ) -> Result<v1::GetDataPlaneResponse, Status> {
        let request = v1::GetDataPlaneRequest { id: id.to_owned() };
        Ok(self.coordinator.get_data_plane(request).await?.into_inner())
    }

    /// Ends a reservation.
    pub(super) async fn release(&mut self, id: &str) -> Result<v1::Reservation, Status> {
        // Without a user it is the reservation's own, if the visitor may act for that one.
        let request = v1::ReleaseReservationRequest { id: id.to_owned(), user: String::new() };
        let answer = self.coordinator.release(request).await?;
        answer.into_inner().reservation.ok_or_else(empty)
    }

    /// A workflow with its whole plan, and its reservation.
    pub(super) async fn workflow(
        &self,
        id: &str,
    ) -> Result<(v1::Reservation, v1::WorkflowReceipt), Status> {
        let mut client =
            WorkflowsClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        let page_size = Some(limits::PAGE_MAX);
        let mut request =
            v1::GetWorkflowRequest { id: id.to_owned(), page_size, ..Default::default() };
        let first = client.get_workflow(request.clone()).await?.into_inner();
        let reservation = first.reservation.ok_or_else(empty)?;
        let mut workflow = first.workflow.ok_or_else(empty)?;
        request.page_token = first.next_page_token;
        while !request.page_token.is_empty() {
            let page = client.get_workflow(request.clone()).await?.into_inner();
            let more = page.workflow.and_then(|workflow| workflow.plan).unwrap_or_default();
            let plan = workflow.plan.get_or_insert_default();
            plan.activities.extend(more.activities);
            plan.transfers.extend(more.transfers);
            plan.channels.extend(more.channels);
            plan.segments.extend(more.segments);
            request.page_token = page.next_page_token;
        }
        Ok((reservation, workflow))
    }

    /// All segments of a workflow.
    pub(super) async fn workflow_segments(&self, id: &str) -> Result<Vec<v1::Segment>, Status> {
        let (_, workflow) = self.workflow(id).await?;
        Ok(workflow.plan.unwrap_or_default().segments)
    }
}

fn empty() -> Status {
    Status::internal("the coordinator sent an answer without content")
}
