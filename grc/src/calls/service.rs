//! What all calls share: the parts of the coordinator's process, reservations as callers see them, and how long a call
//! may wait.
//!
//! Left out: the calls themselves, see [`crate::calls`].

use std::sync::Arc;

use coalloc_common::{InvalidField, limits};
use coalloc_net::authorization::Caller;
use coalloc_net::authorization::call_rates::CallQuotas;
use coalloc_net::convert::RequestOptions;
use coalloc_net::status;
use coalloc_net::traces::Span as Traced;
use coalloc_proto::v1;
use coalloc_protocol::Causer;
use coalloc_protocol::conversation::RequestEnd;
use coalloc_protocol::coordinator::{Coordinator, Reservation};
use tonic::Status;

use crate::availability::federation::Federation;
use crate::calls::calendar::CalendarReaders;
use crate::calls::relocation::RepairPolicy;
use crate::calls::workflows::report::RevisionQueue;
use crate::node::conversation::ConversationParts;
use crate::node::pauses::Pauses;
use crate::node::reconcile::Reconciler;
use crate::node::shell::{self, Handle};
use crate::pictures::Pictures;
use crate::planning::Planners;
use crate::planning::plan_cache::PlanCache;
use crate::views::view::{self, RunningState};

/// The handlers of all calls. Cheap to clone.
#[derive(Debug, Clone)]
pub struct GrcService {
    /// The coordinator's name.
    pub name: String,
    /// Identity of the coordinator's ledger.
    pub ledger_id: String,
    /// The options for the search of plans, used where a request does not set them.
    pub defaults: RequestOptions,
    /// The resource managers.
    pub federation: Federation,
    /// The planners' threads.
    pub planners: Planners,
    /// The handle of the coordinator core.
    pub handle: Handle,
    /// The plans that were shown to clients.
    pub plans: PlanCache,
    /// Draws the backoff before planning again.
    pub pauses: Arc<Pauses>,
    /// What is believed of profiles, and the settings for planning tasks.
    pub pictures: Pictures,
    /// The differences between the RMs' bookings and those that the coordinator counts on.
    pub reconciler: Reconciler,
    /// Who moves reservations off equipment that cannot be used.
    pub repair_policy: RepairPolicy,
    /// Who waits for the revision of which workflow.
    pub revisions: RevisionQueue,
    /// How many calls a second users may make; `None` in plain text, where nobody counts them.
    pub calls: Option<Arc<CallQuotas>>,
    /// Who may read calendars by their secret addresses.
    pub calendar_readers: CalendarReaders,
    /// Who has made the call that this copy of the handlers handles (I20).
    pub causer: Causer,
}

impl GrcService {
    /// The handlers of one call. What they post to the core is recorded as caused by its caller.
    pub(crate) fn for_caller(&self, caller: &Caller) -> Self {
        Self { causer: caller.causer(), ..self.clone() }
    }

    /// A reservation in the schema, as its caller sees it now. Also logs its state.
    pub(crate) fn shown(&self, reservation: &Reservation) -> v1::Reservation {
        let shown = view::reservation(reservation, self.handle.now().wall);
        tracing::info!(
            reservation = %reservation.id,
            txn = shown.transaction,
            state = ?reservation.state,
            attempts = reservation.attempts,
            "reservation reported"
        );
        shown
    }

    /// The present state of a request or reservation that has no outcome yet.
    pub(crate) async fn still(&self, id: &str) -> Result<v1::Reservation, Status> {
        self.find(id).await?.ok_or_else(|| status::not_found("reservation", id))
    }

    /// The reservation with this id, or with this id of its request. A request that is being planned has no reservation
    /// id yet.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<v1::Reservation>, Status> {
        let id = id.to_owned();
        // The texts of the reservation are read here and not on the core's thread.
        let look = move |coordinator: &Coordinator| match coordinator.find(&id) {
            Some(found) => Some(Ok((found.clone(), RunningState::of(coordinator, found)))),
            None => coordinator.planning(&id).map(|ticket| Err(ticket.clone())),
        };
        let found = self.handle.read(look).await?;
        let now = self.handle.now();
        Ok(found.map(|found| match found {
            Ok((reservation, running)) => view::shown(&reservation, &running, now),
            Err(ticket) => view::planning(&ticket),
        }))
    }

    /// Checks that a caller may see what an id names: a user what it has asked for itself, and whoever reads all
    /// everything. What is reserved for a parent coordinator belongs to none of our users, whatever its user is called.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for an empty id; otherwise NOT_FOUND, as if there were nothing of this id.
    pub(crate) async fn check_sees(
        &self,
        caller: &Caller,
        kind: &str,
        id: &str,
    ) -> Result<(), Status> {
        if id.is_empty() {
            let missing = InvalidField::missing("id", format!("the id of a {kind}"));
            return Err(status::invalid(&missing));
        }
        if caller.reads_all() {
            return Ok(());
        }
        let wanted = id.to_owned();
        let owner = move |core: &Coordinator| match core.find(&wanted) {
            Some(found) if found.parent_transaction.is_some() => None,
            Some(found) => Some(found.ticket.user.clone()),
            None => core.planning(&wanted).map(|ticket| ticket.user.clone()),
        };
        let owner = self.handle.read(owner).await?;
        let sees = owner.is_some_and(|owner| caller.sees(owner.as_str()));
        if sees { Ok(()) } else { Err(status::not_found(kind, id)) }
    }

    /// What conversations of this call need.
    pub(crate) fn conversation(&self) -> ConversationParts<'_> {
        let Self { handle, pauses, causer: by, federation, .. } = self;
        ConversationParts { handle, by, pauses, federation }
    }

    /// The prefix of the ids of this coordinator's reservations.
    pub(crate) fn own_ids(&self) -> String {
        format!("{}-{}-", self.name, shell::tag(&self.ledger_id))
    }
}

/// The reservation that a conversation about a request ends with, or the status that the call ends with.
pub(crate) fn stands(end: RequestEnd, id: &str) -> Result<Box<Reservation>, Status> {
    match end {
        RequestEnd::Stands(known) => Ok(known),
        RequestEnd::OtherContent => Err(status::other_content("request", id)),
        RequestEnd::DiskFull => Err(status::disk_full("nothing was reserved")),
        RequestEnd::BrokenOff => Err(status::broken_off("the planning of this request")),
    }
}

/// What a call is about: the kind of thing ("request", "reservation", ...), and the id to ask for it with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallSubject<'a>(pub(crate) &'static str, pub(crate) &'a str);

impl CallSubject<'_> {
    fn unknown(self) -> Status {
        status::outcome_unknown(self.0, self.1)
    }

    /// This status, unless the outcome is unknown; then a status that names what the call was about.
    fn unless_known(self, status: Status) -> Status {
        if status::is_unknown(&status) { self.unknown() } else { status }
    }

    /// The present state of something that is still under way. If it cannot be read, the outcome is unknown.
    pub(crate) fn still<T>(self, found: Result<T, Status>) -> Result<T, Status> {
        let known = |status: &Status| status.code() == tonic::Code::NotFound;
        found.map_err(|status| if known(&status) { status } else { self.unknown() })
    }
}

/// Waits for a call as long as a call may wait. `None` when it takes longer; the call then goes on by itself. A call
/// that breaks off, or whose answer is lost, may have taken effect; the error then says with which id to ask for it.
pub(crate) async fn patient<T>(
    about: CallSubject<'_>,
    call: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<Option<T>, Status>
where
    T: Send + 'static,
{
    let task = tokio::spawn(Traced::current().carry(call));
    match tokio::time::timeout(limits::RESERVE_PATIENCE.to_std(), task).await {
        Ok(Ok(ended)) => ended.map(Some).map_err(|status| about.unless_known(status)),
        Ok(Err(broken)) => {
            tracing::error!(%broken, kind = about.0, id = about.1, "a call broke off");
            Err(about.unknown())
        }
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_breaks_off_is_never_told_as_if_nothing_was_done() {
        let about = CallSubject("request", "r7");
        let broken = patient::<()>(about, async { panic!("after a Hold has left") }).await;
        let lost = patient::<()>(about, async { Err(status::answer_lost()) }).await;
        for status in [broken.unwrap_err(), lost.unwrap_err()] {
            assert!(status::is_unknown(&status), "{status:?}");
            let text = status.message();
            assert!(text.contains("\"r7\"") && !text.contains("nothing was done"), "{text}");
        }
        // A status that is certain is passed on unchanged.
        let busy = patient::<()>(about, async { Err(status::busy()) }).await.unwrap_err();
        assert_eq!(busy.code(), tonic::Code::ResourceExhausted);
        assert!(!status::is_unknown(&busy));
        // While the call goes on, "busy" must not be taken to mean that nothing was done.
        let still = about.still::<()>(Err(status::busy())).unwrap_err();
        assert!(status::is_unknown(&still), "{still:?}");
    }
}
