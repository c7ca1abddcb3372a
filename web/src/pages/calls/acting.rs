//! Calls that plan, reserve and change.

use coalloc_proto::v1;
use tonic::Status;

use super::PageCalls;

impl PageCalls {
    /// Plans a request, and holds nothing.
    pub(in crate::pages) async fn plan(
        &mut self,
        request: v1::PlanRequest,
    ) -> Result<v1::PlanResponse, Status> {
        Ok(self.coordinator.plan(request).await?.into_inner())
    }

    /// Reserves a request.
    pub(in crate::pages) async fn reserve(
        &mut self,
        request: v1::ReserveRequest,
    ) -> Result<v1::ReserveResponse, Status> {
        Ok(self.coordinator.reserve(request).await?.into_inner())
    }
}
