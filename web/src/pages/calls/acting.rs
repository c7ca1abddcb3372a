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

    /// Makes a secret address of the calendar of a user.
    pub(in crate::pages) async fn make_calendar_address(
        &mut self,
        user: &str,
    ) -> Result<v1::MakeCalendarAddressResponse, Status> {
        let request = v1::MakeCalendarAddressRequest { user: user.to_owned(), valid_for: None };
        Ok(self.coordinator.make_calendar_address(request).await?.into_inner())
    }

    /// Ends the secret address of the calendar of a user.
    pub(in crate::pages) async fn revoke_calendar_address(
        &mut self,
        user: &str,
    ) -> Result<(), Status> {
        let request = v1::RevokeCalendarAddressRequest { user: user.to_owned() };
        self.coordinator.revoke_calendar_address(request).await.map(drop)
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
