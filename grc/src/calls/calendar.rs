//! The secret address of a user's calendar: made, shown, revoked, and read by whoever knows its secret.
//!
//! A reading asks three things: whether the secret is somebody's now, whether that user may still list its reservations, and
//! whether it makes too many calls. To the first two there is only one answer, so that nobody learns which one failed.
//!
//! Left out: the calendar itself, which the web listener writes. Source: docs/adr/0059-calendar-addresses.md.

use std::sync::Arc;

use coalloc_common::invalid::check_range;
use coalloc_common::limits;
use coalloc_net::authorization::absent::{AbsentRight, AbsentUsers};
use coalloc_net::authorization::{Caller, Proof};
use coalloc_net::convert::{span_from_wire, time_to_wire, user_name};
use coalloc_net::identity::settings::Access;
use coalloc_net::secret::Secret;
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_proto::v1::ReservationState as State;
use coalloc_protocol::Causer;
use coalloc_protocol::coordinator::{
    CalendarAddress, CalendarInput, CalendarReply, Coordinator, CoordinatorInput, OwnerProof,
};
use tokio::sync::Semaphore;
use tonic::Status;

use crate::calls::quota::seen_user;
use crate::calls::service::GrcService;
use crate::views::listing;

/// What the owner of an address has to be allowed.
const LIST: &str = "/coalloc.v1.Coordinator/List";
/// The states of what a calendar shows. What is in none of these never was booked, or is not known.
const STATES: [State; 7] = [
    State::Held,
    State::Committing,
    State::Confirmed,
    State::Active,
    State::Terminating,
    State::Terminated,
    State::PassedEndTime,
];

/// Judges who may read calendars by their secret addresses.
#[derive(Debug, Clone)]
pub struct CalendarReaders {
    owners: AbsentUsers,
    /// One permit for each secret that is being looked up: strangers must not fill the queue of the core.
    lookups: Arc<Semaphore>,
}

impl CalendarReaders {
    /// Readers of the calendars of a server.
    #[must_use]
    pub fn of(access: &Access) -> Self {
        let lookups = Arc::new(Semaphore::new(limits::CALENDAR_LOOKUPS_MAX));
        Self { owners: AbsentUsers::of(access), lookups }
    }
}

impl GrcService {
    /// Makes the address of the caller's calendar.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a wrong field, PERMISSION_DENIED for another user, FAILED_PRECONDITION when there are too many
    /// addresses or the caller's certificates are too large, RESOURCE_EXHAUSTED when the disk is nearly full.
    pub(crate) async fn calendar_made(
        &self,
        caller: &Caller,
        wire: &v1::MakeCalendarAddressRequest,
    ) -> Result<v1::MakeCalendarAddressResponse, Status> {
        let (user, proof) = match caller.proof() {
            Proof::PlainText => {
                let user =
                    user_name("user", &wire.user).map_err(|error| status::invalid(&error))?;
                (user, OwnerProof::PlainText)
            }
            _ => caller.kept_proof().ok_or_else(|| {
                let most = limits::CALENDAR_PROOF_MAX;
                let text = format!(
                    "the certificates have more than {most} characters in base64; nothing was made"
                );
                status::precondition("certificate", "user", text)
            })?,
        };
        if !wire.user.is_empty() {
            caller.check_acts_for("user", &wire.user)?;
        }
        let valid_for = match &wire.valid_for {
            None => limits::CALENDAR_VALID_DEFAULT,
            Some(wire) => {
                let allowed = limits::CALENDAR_VALID_MIN..=limits::CALENDAR_VALID_MAX;
                let span = span_from_wire("valid_for", wire);
                let span = span.and_then(|span| check_range("valid_for", span, allowed, ""));
                span.map_err(|error| status::invalid(&error))?
            }
        };
        let (secret, made) = (Secret::draw()?, self.handle.now().wall);
        let expires = made.saturating_add(valid_for);
        let address = CalendarAddress { digest: secret.digest(), made, expires, proof };
        let subject = user.to_string();
        let input =
            |token| CoordinatorInput::Calendar(CalendarInput::Make { user, address, token });
        match self.handle.call(&self.causer, input).await? {
            CalendarReply::Done | CalendarReply::NothingToRevoke => {}
            CalendarReply::Full => {
                let most = limits::CALENDARS_MAX;
                let text = format!(
                    "there are {most} addresses of calendars, and no more are made until one is revoked or ends"
                );
                return Err(status::not_now("calendar", &subject, text));
            }
            CalendarReply::DiskFull => return Err(status::disk_full("nothing was made")),
        }
        tracing::info!(user = subject, until = %expires, "the calendar of a user has a new address");
        let secret = secret.into_text();
        let path = format!("/calendar/{secret}.ics");
        Ok(v1::MakeCalendarAddressResponse { secret, path, expires: Some(time_to_wire(expires)) })
    }

    /// Whether a user has an address, and until when.
    ///
    /// # Errors
    /// As [`GrcService::quota`].
    pub(crate) async fn calendar_address(
        &self,
        caller: &Caller,
        wire: &v1::GetCalendarAddressRequest,
    ) -> Result<v1::GetCalendarAddressResponse, Status> {
        let user = seen_user(caller, &wire.user)?;
        let (wanted, now) = (user.clone(), self.handle.now().wall);
        let times = move |core: &Coordinator| {
            core.calendar_of(&wanted, now).map(|address| (address.made, address.expires))
        };
        let times = self.handle.read(times).await?;
        Ok(v1::GetCalendarAddressResponse {
            user: user.to_string(),
            made: times.map(|(made, _)| time_to_wire(made)),
            expires: times.map(|(_, expires)| time_to_wire(expires)),
        })
    }

    /// Ends the address of a user's calendar.
    ///
    /// # Errors
    /// As [`GrcService::quota`].
    pub(crate) async fn calendar_revoked(
        &self,
        caller: &Caller,
        wire: &v1::RevokeCalendarAddressRequest,
    ) -> Result<v1::RevokeCalendarAddressResponse, Status> {
        let user = seen_user(caller, &wire.user)?;
        let shown = user.clone();
        let input =
            |token| CoordinatorInput::Calendar(CalendarInput::Revoke { user, digest: None, token });
        let revoked = self.handle.call(&self.causer, input).await? == CalendarReply::Done;
        if revoked {
            tracing::info!(user = %shown, "the address of a calendar was revoked");
        }
        Ok(v1::RevokeCalendarAddressResponse { revoked })
    }

    /// What the owner of a secret has reserved.
    ///
    /// # Errors
    /// NOT_FOUND when the secret shows nothing to anybody, RESOURCE_EXHAUSTED when its owner makes too many calls.
    pub(crate) async fn calendar(
        &self,
        wire: v1::ReadCalendarRequest,
    ) -> Result<v1::ReadCalendarResponse, Status> {
        let v1::ReadCalendarRequest { secret, page_token } = wire;
        // Whoever guesses is held up as whoever is denied, and all for the same time.
        let denied_at = tokio::time::Instant::now() + limits::DENIAL_PAUSE.to_std();
        let Some(user) = self.calendar_owner(&secret).await? else {
            tokio::time::sleep_until(denied_at).await;
            return Err(status::no_calendar());
        };
        let states = STATES.into_iter().map(Into::into).collect();
        let page_size = Some(limits::PAGE_MAX);
        let list = v1::ListRequest { user, states, page_size, page_token, ..Default::default() };
        let page = listing::page(&self.handle, list, true).await?;
        Ok(v1::ReadCalendarResponse {
            reservations: page.reservations.into_iter().map(for_calendar).collect(),
            next_page_token: page.next_page_token,
        })
    }

    /// The user whose calendar a secret shows now, if it may still list its reservations.
    async fn calendar_owner(&self, secret: &str) -> Result<Option<String>, Status> {
        let Some(secret) = Secret::shown(secret) else { return Ok(None) };
        let (digest, now) = (secret.digest(), self.handle.now().wall);
        let CalendarReaders { owners, lookups } = &self.calendar_readers;
        // The semaphore is never closed.
        let permit = Arc::clone(lookups).acquire_owned().await.map_err(|_| status::stopping())?;
        let look = move |core: &Coordinator| {
            // The caller may be gone by now. The turn that it takes still counts.
            let _permit = permit;
            let (user, address) = core.calendar_by_digest(&digest, now)?;
            Some((user.clone(), address.clone()))
        };
        let Some((user, address)) = self.handle.read(look).await? else { return Ok(None) };
        match owners.judge(LIST, &user, &address.proof, address.made) {
            AbsentRight::Granted => {}
            AbsentRight::Denied => return Ok(None),
            AbsentRight::Revoked => {
                // A list forgets what has ended long ago. So the address must not wait for that.
                let digest = Some(address.digest);
                let input = |token| {
                    CoordinatorInput::Calendar(CalendarInput::Revoke { user, digest, token })
                };
                self.handle.call(&Causer::Itself, input).await?;
                return Ok(None);
            }
        }
        owners.count(&user)?;
        Ok(Some(user.to_string()))
    }
}

/// What a calendar needs of a reservation: an address passes through many programs, so it shows no more.
fn for_calendar(one: v1::Reservation) -> v1::Reservation {
    let placement = |of: v1::Placement| v1::Placement {
        site: of.site,
        at: of.at,
        cpus: of.cpus,
        ..Default::default()
    };
    let route = |of: v1::Route| v1::Route {
        from: of.from,
        to: of.to,
        bandwidth_bps: of.bandwidth_bps,
        ..Default::default()
    };
    let plan = one.plan.map(|plan| v1::Plan {
        window: plan.window,
        placements: plan.placements.into_iter().map(placement).collect(),
        routes: plan.routes.into_iter().map(route).collect(),
        ..Default::default()
    });
    let workflow = one.workflow.map(|of| v1::WorkflowSummary {
        activities: of.activities,
        sites: of.sites,
        ..Default::default()
    });
    v1::Reservation {
        id: one.id,
        request_id: one.request_id,
        user: one.user,
        state: one.state,
        plan,
        created: one.created,
        version: one.version,
        workflow,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calendar_shows_when_and_where_and_nothing_of_the_request() {
        let plan = v1::Plan {
            digest: "d".into(),
            window: Some(v1::Window::default()),
            placements: vec![v1::Placement {
                cpus: 4,
                others: vec![v1::KindAmount::default()],
                ..Default::default()
            }],
            routes: vec![v1::Route {
                bandwidth_bps: 7,
                via: vec!["X1".into()],
                paths: vec!["A-X1".into()],
                ..Default::default()
            }],
            segments: vec![v1::Segment::default()],
            ..Default::default()
        };
        let whole = v1::Reservation {
            id: "grc-1".into(),
            user: "alice".into(),
            transaction: "grc-1/1".into(),
            version: 2,
            request: Some(v1::CoAllocationRequest::default()),
            servers: vec![v1::GrantedServers::default()],
            workflow: Some(v1::WorkflowSummary {
                activities: 3,
                transfers: 2,
                ..Default::default()
            }),
            equipment_trouble: vec![v1::EquipmentTrouble::default()],
            plan: Some(plan),
            ..Default::default()
        };
        let expected = v1::Reservation {
            id: "grc-1".into(),
            user: "alice".into(),
            version: 2,
            plan: Some(v1::Plan {
                window: Some(v1::Window::default()),
                placements: vec![v1::Placement { cpus: 4, ..Default::default() }],
                routes: vec![v1::Route { bandwidth_bps: 7, ..Default::default() }],
                ..Default::default()
            }),
            workflow: Some(v1::WorkflowSummary { activities: 3, ..Default::default() }),
            ..Default::default()
        };
        assert_eq!(for_calendar(whole), expected);
    }
}
