//! Calls that plan, reserve and change.

use coalloc_proto::v1;
use tonic::Status;

use super::{PageCalls, empty};

impl PageCalls {
    /// Reserves a request.
    pub(in crate::pages) async fn reserve(
        &mut self,
        request: v1::ReserveRequest,
    ) -> Result<v1::ReserveResponse, Status> {
        Ok(self.coordinator.reserve(request).await?.into_inner())
    }

    /// Changes a reservation.
    pub(in crate::pages) async fn modify(
        &mut self,
        request: v1::ModifyRequest,
    ) -> Result<v1::Reservation, Status> {
        let answer = self.coordinator.modify(request).await?;
        answer.into_inner().reservation.ok_or_else(empty)
    }

    /// Lets the user of a reservation in to its equipment.
    pub(in crate::pages) async fn provision(
        &mut self,
        request: v1::ProvisionRequest,
    ) -> Result<v1::Reservation, Status> {
        let answer = self.coordinator.provision(request).await?;
        answer.into_inner().reservation.ok_or_else(empty)
    }

    /// Takes the equipment of a reservation from its user.
    pub(in crate::pages) async fn deprovision(
        &mut self,
        request: v1::DeprovisionRequest,
    ) -> Result<v1::Reservation, Status> {
        let answer = self.coordinator.deprovision(request).await?;
        answer.into_inner().reservation.ok_or_else(empty)
    }
}
