//! Revisions that a user asks for: without some sites, with some activities placed anew, for another deadline.
//!
//! Left out: the revision itself, see [`super::revision`]; revisions that follow reports, see [`super::report`].

use std::collections::BTreeSet;

use coalloc_common::suggest::did_you_mean;
use coalloc_common::{InvalidField, RequestId, ReservationId, Time, VertexName, limits};
use coalloc_net::convert::{time_from_wire, user_name};
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{ChangeTicket, Coordinator, Reservation};
use tonic::Status;

use super::report::REPORTS;
use super::revision::{RevisionJobs, RevisionWish};
use super::version::BookedVersion;
use crate::admission::digest;
use crate::calls::service::GrcService;
use crate::node::conversation::converse;
use crate::views::workflow::{self, PageWanted};

impl GrcService {
    /// Handles one call.
    pub(crate) async fn revise_whole(
        &self,
        wire: v1::ReviseWorkflowRequest,
    ) -> Result<v1::ReviseWorkflowResponse, Status> {
        let invalid = |error: InvalidField| status::invalid(&error);
        let user = user_name("user", &wire.user).map_err(invalid)?;
        let id = self.workflow_of(&wire.id, &user).await?;
        if wire.plan_only {
            return self.revision_plan(&id, &wire).await;
        }
        let change = change_id(&wire.change_id).map_err(invalid)?;
        // The workflow may be named by either of its ids; the digest must be the same.
        let same = v1::ReviseWorkflowRequest { id: id.to_string(), ..wire.clone() };
        let ticket = ChangeTicket {
            reservation: id.clone(),
            change: change.clone(),
            content: digest(&same),
        };
        let known = self.known_change(&id, &change).await?;
        let wish = match known {
            // It has its answer, or is under way: nothing is planned any more.
            true => RevisionWish::default(),
            false => {
                let version = self.booked_version(id.as_str()).await?;
                let wish = self.wish(&wire, &version).await?;
                if !self.has_to_change(&version, &wish).await? {
                    return self.unchanged(&id).await;
                }
                wish
            }
        };
        let mut jobs = RevisionJobs::new(self, &id, &wish);
        let end = converse(self.conversation(), ticket, &mut jobs).await?;
        let known = self.change_end(end, &id, &change)?;
        tracing::info!(reservation = %known.id, %change, "revision reported");
        self.revised(*known, workflow::revision).await
    }

    /// The present state of a revision that has no outcome yet.
    pub(crate) async fn revision_still(
        &self,
        id: &str,
    ) -> Result<v1::ReviseWorkflowResponse, Status> {
        let wanted = id.to_owned();
        let look = move |coordinator: &Coordinator| coordinator.find(&wanted).cloned();
        let known = self.handle.read(look).await?;
        let known = known.ok_or_else(|| status::not_found("workflow", id))?;
        let under_way = |_: &Reservation| {
            let state = v1::RevisionState::UnderWay.into();
            Some(v1::WorkflowRevision { state, ..v1::WorkflowRevision::default() })
        };
        self.revised(known, under_way).await
    }

    /// The reservation of a workflow of this user.
    async fn workflow_of(
        &self,
        id: &str,
        user: &coalloc_common::UserName,
    ) -> Result<ReservationId, Status> {
        let wanted = id.to_owned();
        let look = move |coordinator: &Coordinator| {
            let found = coordinator.find(&wanted)?;
            let is_workflow = workflow::is_workflow(&found.notes);
            is_workflow.then(|| (found.id.clone(), found.ticket.user.clone()))
        };
        let found = self.handle.read(look).await?;
        let (reservation, owner) = found.ok_or_else(|| status::not_found("workflow", id))?;
        if owner != *user {
            return Err(status::denied(format!("{id} is not a workflow of user {user}")));
        }
        Ok(reservation)
    }

    async fn known_change(&self, id: &ReservationId, change: &RequestId) -> Result<bool, Status> {
        let (id, change) = (id.clone(), change.clone());
        let look = move |coordinator: &Coordinator| {
            coordinator.find_change(&id, change.as_str()).is_some()
        };
        self.handle.read(look).await
    }

    /// What a call wants, checked against the booked version and the federation.
    async fn wish(
        &self,
        wire: &v1::ReviseWorkflowRequest,
        version: &BookedVersion,
    ) -> Result<RevisionWish, Status> {
        let now = self.handle.now().wall;
        let excluded = self.site_names("excluded", &wire.excluded).await?;
        let wish = wish(wire, version, now).map_err(|error| status::invalid(&error))?;
        Ok(RevisionWish { excluded, ..wish })
    }

    /// Sites of the federation, each of which is named once.
    pub(super) async fn site_names(
        &self,
        field: &str,
        texts: &[String],
    ) -> Result<BTreeSet<VertexName>, Status> {
        let federation = self.federation.settled().await;
        let mut names = BTreeSet::new();
        for (index, text) in texts.iter().enumerate() {
            let field = format!("{field}[{index}]");
            let name = VertexName::parse(&field, text).map_err(|error| status::invalid(&error))?;
            federation.check_site(&field, &name)?;
            if !names.insert(name) {
                let error = InvalidField::new(field, InvalidField::quoted(text), "each site once");
                return Err(status::invalid(&error));
            }
        }
        Ok(names)
    }

    /// Plans a revision and holds nothing.
    async fn revision_plan(
        &self,
        id: &ReservationId,
        wire: &v1::ReviseWorkflowRequest,
    ) -> Result<v1::ReviseWorkflowResponse, Status> {
        let version = self.booked_version(id.as_str()).await?;
        let wish = self.wish(wire, &version).await?;
        if !self.has_to_change(&version, &wish).await? {
            return self.unchanged(id).await;
        }
        let planned = self.plan_revision(version, &wish).await?;
        let state = match planned.refusal {
            Some(_) => v1::RevisionState::Refused,
            None => v1::RevisionState::Planned,
        };
        let revision = v1::WorkflowRevision {
            state: state.into(),
            change_id: String::new(),
            moved: planned.revised.moved,
            resized: planned.revised.resized,
            refusal: planned.refusal,
        };
        let receipt = v1::WorkflowReceipt {
            reservation: id.to_string(),
            plan: planned.plan,
            effort: Some(planned.effort),
            ..v1::WorkflowReceipt::default()
        };
        Ok(v1::ReviseWorkflowResponse {
            revision: Some(revision),
            workflow: Some(receipt),
            next_page_token: String::new(),
        })
    }

    /// The answer when nothing is to be changed.
    async fn unchanged(&self, id: &ReservationId) -> Result<v1::ReviseWorkflowResponse, Status> {
        let wanted = id.clone();
        let look = move |coordinator: &Coordinator| coordinator.find(wanted.as_str()).cloned();
        let known = self.handle.read(look).await?;
        let known = known.ok_or_else(|| status::not_found("workflow", id.as_str()))?;
        let nothing = |_: &Reservation| {
            let state = v1::RevisionState::Nothing.into();
            Some(v1::WorkflowRevision { state, ..v1::WorkflowRevision::default() })
        };
        self.revised(known, nothing).await
    }

    async fn revised(
        &self,
        known: Reservation,
        revision: impl FnOnce(&Reservation) -> Option<v1::WorkflowRevision> + Send + 'static,
    ) -> Result<v1::ReviseWorkflowResponse, Status> {
        let read = move || {
            let page = workflow::page(&known, &PageWanted::first());
            page.map(|page| (revision(&known), page))
        };
        let read = coalloc_net::machine::off_the_runtime(self.handle.host(), read).await;
        let read = read.ok_or_else(status::stopping)?;
        let (revision, (receipt, next)) = read.map_err(|error| status::invalid(&error))?;
        Ok(v1::ReviseWorkflowResponse { revision, workflow: Some(receipt), next_page_token: next })
    }
}

/// A client's id of a revision.
fn change_id(text: &str) -> Result<RequestId, InvalidField> {
    if text.starts_with(REPORTS) {
        let allowed = format!("an id that does not begin with {REPORTS:?}");
        return Err(InvalidField::new("change_id", InvalidField::quoted(text), allowed));
    }
    RequestId::parse("change_id", text)
}

/// What a call wants, but for the sites.
fn wish(
    wire: &v1::ReviseWorkflowRequest,
    version: &BookedVersion,
    now: Time,
) -> Result<RevisionWish, InvalidField> {
    let activities = &version.plan.activities;
    let mut again = BTreeSet::new();
    for (index, name) in wire.again.iter().enumerate() {
        let place = activities.iter().position(|one| one.name == *name).ok_or_else(|| {
            let guess = did_you_mean(name, activities.iter().map(|one| one.name.as_str()));
            let allowed = format!("an activity of the workflow{guess}");
            InvalidField::new(format!("again[{index}]"), InvalidField::quoted(name), allowed)
        })?;
        again.insert(place);
    }
    let deadline = wire.deadline.as_ref().map(|time| time_from_wire("deadline", time));
    let deadline = deadline.transpose()?;
    let end = version.plan.window.as_ref().and_then(|window| window.end.as_ref());
    let end = end.map(|end| time_from_wire("end", end)).transpose()?;
    if deadline.zip(end).is_some_and(|(deadline, end)| deadline < end) {
        // What has not begun may have to make way for the earlier deadline.
        again.extend(0..activities.len());
    }
    if let Some(deadline) = deadline
        && (deadline <= now || deadline.since(now) > limits::DURATION_MAX)
    {
        let allowed = format!("later than now, {now}, by at most {}", limits::DURATION_MAX);
        return Err(InvalidField::new("deadline", deadline, allowed));
    }
    Ok(RevisionWish { excluded: BTreeSet::new(), again, deadline })
}
