//! Whether the user of a reservation may use its equipment: what Provision and Deprovision do.
//!
//! Both are changes of the reservation ([`ChangeTicket`]): the new version has the segments of the old one and another
//! [`Candidate::manual_provision`]. So all resource managers take it over or none does, a lost message is sent again, a message
//! that comes again does nothing again, and a restart loses nothing. Nothing is planned.
//!
//! Left out: what follows at the equipment, see `protocol::participant::equipment`. Source: the provision state machine of NSI
//! Connection Service 2.1; docs/adr/0055-provision.md.

use coalloc_common::{InvalidField, RequestId, ReservationId};
use coalloc_net::convert::user_name;
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_protocol::conversation::{PlanJob, Planned};
use coalloc_protocol::coordinator::{Candidate, ChangeTicket, Coordinator};
use tonic::Status;

use crate::admission;
use crate::calls::service::GrcService;
use crate::node::conversation::{JobPlanner, converse};
use crate::views::view;

/// A Provision or Deprovision call.
#[derive(Debug, Clone)]
pub(crate) struct ProvisionCall {
    /// The id of the reservation or of its request.
    pub(crate) id: String,
    /// The id of the change.
    pub(crate) change: String,
    /// The user of the reservation.
    pub(crate) user: String,
    /// May the user use it?
    pub(crate) is_provisioned: bool,
}

impl GrcService {
    /// Handles one Provision or Deprovision call.
    pub(crate) async fn provision_whole(
        &self,
        call: ProvisionCall,
    ) -> Result<v1::Reservation, Status> {
        let standing = self.standing(&call.id).await?;
        let user = user_name("user", &call.user).map_err(|error| status::invalid(&error))?;
        if user != *standing.user() {
            return Err(status::denied(format!("{} is not a reservation of user {user}", call.id)));
        }
        let change = RequestId::parse("change_id", &call.change);
        let change = change.map_err(|error: InvalidField| status::invalid(&error))?;
        let id = standing.id().clone();
        let ticket = ChangeTicket {
            reservation: id.clone(),
            change: change.clone(),
            content: call.digest(&id),
        };
        let mut planner = ProvisionPlanner { service: self, id: &id, call: &call };
        let end = converse(self.conversation(), ticket, &mut planner).await?;
        let known = self.change_end(end, &id, &change)?;
        Ok(self.shown(&known))
    }
}

impl ProvisionCall {
    /// The digest of the content of the change. No Modify has this content: a new version has sites.
    fn digest(&self, id: &ReservationId) -> String {
        let request = v1::CoAllocationRequest {
            user: self.user.clone(),
            manual_provision: Some(!self.is_provisioned),
            ..Default::default()
        };
        admission::digest(&v1::ModifyRequest {
            id: id.to_string(),
            change_id: self.change.clone(),
            request: Some(request),
            ..Default::default()
        })
    }
}

/// Makes the new version.
struct ProvisionPlanner<'a> {
    service: &'a GrcService,
    id: &'a ReservationId,
    call: &'a ProvisionCall,
}

impl JobPlanner for ProvisionPlanner<'_> {
    async fn plan(&mut self, _: &PlanJob) -> Result<Planned, Status> {
        let id = self.id.clone();
        let look = move |coordinator: &Coordinator| {
            let known = coordinator.find(id.as_str())?;
            Some((known.candidate.clone()?, known.notes.clone()))
        };
        let booked = self.service.handle.read(look).await?;
        let Some((booked, notes)) = booked else {
            return Err(status::not_found("reservation", self.id.as_str()));
        };
        let now = self.service.handle.now().wall;
        let ends = booked.segments.values().flatten().map(|segment| segment.window.end());
        if let Some(end) = ends.max().filter(|end| *end <= now) {
            let text = format!("{} is over since {end}; nothing was done", self.id);
            return Err(status::precondition("passed_end_time", self.id.as_str(), text));
        }
        let request = view::request(&notes).map(|request| v1::CoAllocationRequest {
            manual_provision: Some(!self.call.is_provisioned),
            ..request
        });
        let notes = view::notes(&[], request.as_ref(), view::options(&notes).as_ref());
        Ok(Planned { outcome: Ok(vec![self.version(booked)]), replans: None, notes })
    }
}

impl ProvisionPlanner<'_> {
    /// The new version of what is booked. A change keeps the servers of the version that it replaces.
    fn version(&self, booked: Candidate) -> Candidate {
        let Candidate { segments, details, kinds, .. } = booked;
        let manual_provision = !self.call.is_provisioned;
        Candidate { segments, details, kinds, manual_provision, ..Candidate::default() }
    }
}
