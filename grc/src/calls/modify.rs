//! A change of a reservation: what its new version may be, the plans for it, and how a modify call is handled.
//!
//! A modify request contains the whole new version. Sites that both versions have are pinned to where they are, unless
//! they may move. Availability is queried with the old booking counted as free. Then the new version is held and booked
//! beside the old one, like any other (`protocol::coordinator`). A reservation that has begun keeps its booking until
//! [`cut`], and only the time after that is planned anew ([`rest`]). [`release_rest`] is the change that ends it then.
//!
//! Left out: changing the start of a reservation that has begun, changing the past, and holding one RM after the
//! other: with every solver, a change is held at all resource managers at once.

mod release_rest;
mod rest;

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{
    InvalidField, Refusal, RequestId, ReservationId, ResourceId, RmName, Segment, Span, Time,
    TransactionId, UserName, Window, limits,
};
use coalloc_net::convert::{
    plan_to_wire, span_from_wire, span_to_wire, time_from_wire, time_to_wire, user_name,
    window_from_wire,
};
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_protocol::conversation::{ChangeEnd, PlanJob, Planned};
use coalloc_protocol::coordinator::{
    Candidate, ChangeTicket, Coordinator, Reservation, UnusableParts,
};
use coalloc_protocol::message::ServerWish;
use tonic::Status;

use crate::admission;
use crate::availability::Replaced;
use crate::calls::modify::rest::Rest;
use crate::calls::reserve::Candidates;
use crate::calls::service::GrcService;
use crate::node::conversation::{JobPlanner, converse};
use crate::planning::ExplainedFrames;
use crate::views::kept;
use crate::views::receipt;
use crate::views::view;
use crate::views::workflow;

/// The current booking of a reservation that is to be changed.
#[derive(Debug, Clone)]
pub(crate) struct CurrentBooking {
    id: ReservationId,
    user: UserName,
    transaction: Option<TransactionId>,
    segments: BTreeMap<RmName, Vec<Segment>>,
    plan: Option<v1::Plan>,
    /// The request that it was planned for. Ledgers of older releases may not have it.
    request: Option<v1::CoAllocationRequest>,
    /// The planning options with which it was planned.
    options: v1::PlanOptions,
    /// Its user may not use it yet.
    manual_provision: bool,
}

impl CurrentBooking {
    pub(crate) const fn id(&self) -> &ReservationId {
        &self.id
    }

    pub(crate) const fn user(&self) -> &UserName {
        &self.user
    }

    /// The series to which it belongs; empty: none.
    fn series(&self) -> &str {
        self.request.as_ref().map_or("", |request| &request.series)
    }

    fn of(reservation: &Reservation) -> Self {
        let candidate = reservation.candidate.as_ref();
        Self {
            id: reservation.id.clone(),
            user: reservation.ticket.user.clone(),
            transaction: reservation.transaction.clone(),
            segments: candidate.map(|candidate| candidate.segments.clone()).unwrap_or_default(),
            plan: view::plan(candidate),
            request: view::request(&reservation.notes),
            options: view::options(&reservation.notes).unwrap_or_default(),
            manual_provision: candidate.is_some_and(|candidate| candidate.manual_provision),
        }
    }

    /// The planning options for a new version: those of the call, and for the rest those of the current booking.
    fn options(&self, asked: Option<&v1::PlanOptions>) -> v1::PlanOptions {
        let (own, asked) = (self.options.clone(), asked.cloned().unwrap_or_default());
        v1::PlanOptions {
            frames: asked.frames.or(own.frames),
            max_paths_per_link: asked.max_paths_per_link.or(own.max_paths_per_link),
            solver: asked.solver.or(own.solver),
            objectives: if asked.objectives.is_empty() { own.objectives } else { asked.objectives },
            plans: asked.plans.or(own.plans),
            alternatives: None,
        }
    }
}

/// What a new version is planned for.
#[derive(Debug, Clone, PartialEq)]
struct Version {
    /// The request, with its start set, and with pins for sites that stay where they are.
    request: v1::CoAllocationRequest,
    /// For a reservation that has begun: the whole window, and the instant from which it is planned anew.
    active: Option<(Window, Time)>,
}

/// Which sites of a reservation stay where they are.
#[derive(Debug, Clone, Copy)]
enum Stays {
    All,
    /// Those at RMs whose equipment can be used.
    Usable,
    Nothing,
}

/// Is a place, by its name, one of an RM that something is to be moved off?
fn is_at(place: &str, off: &UnusableParts, booked: &BTreeMap<RmName, Vec<Segment>>) -> bool {
    off.keys().filter_map(|rm| booked.get(rm)).flatten().any(|of| of.resource.as_str() == place)
}

/// The earliest instant from which a reservation that has begun can be changed. The change itself takes some time. The
/// instant is never after the end of the old version, because nothing is left to keep then.
fn cut(old: Window, now: Time) -> Time {
    now.saturating_add(limits::SOONEST_LEAD).next_second().min(old.end())
}

/// The new version of a current booking. Sites of both versions stay at those of their places that `stays` is true of. One that
/// has begun is planned anew from `cut` on.
fn version(
    wire: &v1::CoAllocationRequest,
    old: Window,
    plan: &v1::Plan,
    stays: &dyn Fn(&str) -> bool,
    (now, cut): (Time, Time),
) -> Result<Version, InvalidField> {
    let mut request = wire.clone();
    pin(&mut request, plan, stays)?;
    let start = match &request.earliest_start {
        None => old.start(),
        Some(start) => time_from_wire("earliest_start", start)?,
    };
    request.earliest_start = Some(time_to_wire(start));
    if old.start() > now {
        return Ok(Version { request, active: None });
    }
    let latest = match &request.latest_start {
        None => start,
        Some(latest) => time_from_wire("latest_start", latest)?,
    };
    for (field, at) in [("earliest_start", start), ("latest_start", latest)] {
        if at != old.start() {
            let allowed = format!("{}, when it began", old.start());
            return Err(InvalidField::new(field, at, allowed));
        }
    }
    let duration = request.duration.as_ref();
    let duration = duration.map_or(Ok(Span::ZERO), |wire| span_from_wire("duration", wire))?;
    let whole = Window::starting(start, duration).filter(|whole| whole.end() > cut);
    let Some(whole) = whole else {
        let allowed = format!(
            "more than {}: it has begun, and can be changed from {cut} on",
            cut.since(start)
        );
        return Err(InvalidField::new("duration", duration, allowed));
    };
    Ok(Version { request, active: Some((whole, cut)) })
}

/// Pins the sites that both versions have to where they are, if that is a place at which sites stay.
fn pin(
    request: &mut v1::CoAllocationRequest,
    plan: &v1::Plan,
    stays: &dyn Fn(&str) -> bool,
) -> Result<(), InvalidField> {
    for (index, site) in request.sites.iter_mut().enumerate() {
        let old = plan.placements.iter().find(|old| old.site == site.name);
        let Some(old) = old.filter(|old| stays(&old.at)) else { continue };
        match &site.pinned_to {
            Some(pinned) if *pinned != old.at => {
                let allowed = format!("{}, where it is, unless `may_move` is set", old.at);
                return Err(InvalidField::new(
                    format!("sites[{index}].pinned_to"),
                    InvalidField::quoted(pinned),
                    allowed,
                ));
            }
            _ => site.pinned_to = Some(old.at.clone()),
        }
    }
    Ok(())
}

/// The old version until `cut`, and the new one from then on. What goes on with the same amount is one segment. At the RMs in
/// `left`, nothing of the old version is kept: what it has there cannot be used.
pub(crate) fn joined(
    old: &BTreeMap<RmName, Vec<Segment>>,
    cut: Time,
    new: BTreeMap<RmName, Vec<Segment>>,
    left: &UnusableParts,
) -> BTreeMap<RmName, Vec<Segment>> {
    let mut all = merged(new);
    for (rm, segments) in old.iter().filter(|(rm, _)| !left.contains_key(*rm)) {
        for segment in segments {
            let window = segment.window;
            let Some(kept) = Window::new(window.start(), window.end().min(cut)) else { continue };
            let of_rm = all.entry(rm.clone()).or_default();
            let next = of_rm.iter_mut().find(|next| {
                (&next.resource, next.amount) == (&segment.resource, segment.amount)
                    && next.window.start() == kept.end()
            });
            let whole = next.as_ref().and_then(|next| Window::new(kept.start(), next.window.end()));
            match next.zip(whole) {
                Some((next, whole)) => next.window = whole,
                None => of_rm.push(Segment { window: kept, ..segment.clone() }),
            }
        }
    }
    for segments in all.values_mut() {
        segments.sort_by_key(|segment| (segment.resource.clone(), segment.window));
    }
    all
}

/// Merges adjacent segments of the same resource and amount into one.
pub(crate) fn merged(mut all: BTreeMap<RmName, Vec<Segment>>) -> BTreeMap<RmName, Vec<Segment>> {
    for segments in all.values_mut() {
        segments.sort_by_key(|segment| (segment.resource.clone(), segment.window));
        let mut merged: Vec<Segment> = Vec::with_capacity(segments.len());
        for segment in segments.drain(..) {
            // Segments of one resource may overlap, so the one before need not be the last.
            let before = merged.iter_mut().rev().find(|before| {
                (&before.resource, before.amount) == (&segment.resource, segment.amount)
                    && before.window.end() == segment.window.start()
            });
            if let Some(before) = before
                && let Some(window) = Window::new(before.window.start(), segment.window.end())
            {
                before.window = window;
            } else {
                merged.push(segment);
            }
        }
        *segments = merged;
    }
    all
}

impl GrcService {
    /// Handles one modify call.
    pub(crate) async fn modify_whole(
        &self,
        wire: v1::ModifyRequest,
    ) -> Result<v1::Reservation, Status> {
        let standing = self.standing(&wire.id).await?;
        let ticket = ticket(&wire, &standing)?;
        check_series(&wire, &standing).map_err(|error| status::invalid(&error))?;
        let (id, change) = (ticket.reservation.clone(), ticket.change.clone());
        let mut planner = ChangePlanner { service: self, wire: &wire, id: &id, off: None };
        let end = converse(self.conversation(), ticket, &mut planner).await?;
        let known = self.change_end(end, &id, &change)?;
        Ok(self.shown(&known))
    }

    /// Moves a reservation off equipment that cannot be used, by a change of this id that wants what the reservation has.
    /// Sites stay where they are if there is other equipment for them there. Otherwise the sites at RMs in `off` may move, and
    /// if that does not help, all of them. Returns the reservation with the outcome of the change.
    pub(crate) async fn relocate(
        &self,
        id: &str,
        change: &str,
        off: &UnusableParts,
    ) -> Result<v1::Reservation, Status> {
        let standing = self.standing(id).await?;
        let (window, _) = booked(&standing)?;
        let Some(mut request) = standing.request.clone() else {
            let text = format!("the request of {id} is not known, so it cannot be planned anew");
            return Err(status::precondition("no_request", id, text));
        };
        request.user = standing.user.to_string();
        request.manual_provision = None;
        request.earliest_start = Some(time_to_wire(window.start()));
        request.latest_start = None;
        request.duration = Some(span_to_wire(window.length()));
        let (change_id, id) = (change.to_owned(), standing.id.to_string());
        let wire =
            v1::ModifyRequest { id, change_id, request: Some(request), ..Default::default() };
        let ticket = ticket(&wire, &standing)?;
        let (id, change) = (ticket.reservation.clone(), ticket.change.clone());
        let mut planner = ChangePlanner { service: self, wire: &wire, id: &id, off: Some(off) };
        let end = converse(self.conversation(), ticket, &mut planner).await?;
        let known = self.change_end(end, &id, &change)?;
        Ok(self.shown(&known))
    }

    /// The current booking under an id, which is the reservation's or its request's.
    pub(crate) async fn standing(&self, id: &str) -> Result<CurrentBooking, Status> {
        let wanted = id.to_owned();
        let look = move |coordinator: &Coordinator| {
            let found = coordinator.find(&wanted);
            let above = found.is_some_and(|found| found.parent_transaction.is_some());
            let kind = found.and_then(|found| unchangeable(&found.notes));
            (found.map(CurrentBooking::of), coordinator.planning(&wanted).is_some(), (above, kind))
        };
        match self.handle.read(look).await? {
            (_, _, (true, _)) => {
                let text = "it belongs to a parent coordinator; only that one may change it";
                Err(status::denied(text))
            }
            (_, _, (_, Some((kind, text)))) => Err(status::precondition(kind, id, text)),
            (Some(standing), ..) => Ok(standing),
            (None, true, _) => {
                let text = format!("{id} is still being planned; nothing was done, ask again");
                Err(status::precondition("checking", id, text))
            }
            (None, false, _) => Err(status::not_found("reservation", id)),
        }
    }

    /// The RMs that did not answer, and the candidates for the new version, best first, or why there are none.
    async fn change_candidates(
        &self,
        wire: &v1::ModifyRequest,
        standing: &CurrentBooking,
        (off, stays): (Option<&UnusableParts>, Stays),
        refusals: &[Refusal],
    ) -> Result<(Vec<RmName>, Candidates), Status> {
        let now = self.handle.now().wall;
        let (old, plan) = booked(standing)?;
        // What cannot be used is not kept a moment longer.
        let cut = match off {
            None => cut(old, now),
            Some(_) => {
                now.saturating_sub(limits::RELOCATION_BACKDATE).next_second().max(old.start())
            }
        };
        let nothing = UnusableParts::new();
        let stays = |place: &str| match stays {
            Stays::All => true,
            Stays::Usable => !is_at(place, off.unwrap_or(&nothing), &standing.segments),
            Stays::Nothing => false,
        };
        if old.end() <= now {
            let text = format!("{} is over since {}; nothing was done", standing.id, old.end());
            return Err(status::precondition("passed_end_time", standing.id.as_str(), text));
        }
        let request = wire.request.as_ref();
        let missing = || InvalidField::missing("request", "the whole new version");
        let request = request.ok_or_else(|| status::invalid(&missing()))?;
        let version = version(request, old, plan, &stays, (now, cut))
            .map_err(|error| status::invalid(&error.within("request")))?;
        let options = standing.options(wire.options.as_ref());
        let (mut federation, mut admitted) =
            self.admitted(Some(&version.request), Some(&options)).await?;
        let rest = match version.active {
            None => None,
            Some((whole, cut)) => {
                let old = standing.request.as_ref();
                let new = &version.request;
                let rest = Rest::of(admitted.request.clone(), new, old, plan, whole, cut)
                    .map_err(|error| status::invalid(&error.within("request")))?;
                admitted.request = rest.request.clone();
                Some(rest)
            }
        };
        let replaces = Replaced { transaction: standing.transaction.as_ref(), avoided: off };
        let planned = self
            .plan_admitted(&mut federation, &admitted, replaces, refusals, ExplainedFrames::Closest)
            .await?;
        tracing::info!(
            reservation = %standing.id,
            change = wire.change_id,
            plans = planned.plans.len(),
            active = version.active.is_some(),
            "planned a change"
        );
        if planned.plans.is_empty() {
            let refusal = planned.refusal();
            return Ok((planned.unreachable, Err(refusal)));
        }
        let off = off.unwrap_or(&nothing);
        let (topology, booked) = (&federation.topology, &standing.segments);
        let candidates = planned.plans.iter().map(|judged| {
            let (wire, segments) = match &rest {
                Some(rest) => rest.with_past(topology, judged, plan, booked, off),
                None => {
                    let wire = plan_to_wire(topology, &admitted.request, judged);
                    (wire, judged.plan.segments(topology, &admitted.request))
                }
            };
            let details = kept::co_allocation(&wire).into();
            let servers = avoiding(off, &segments);
            Candidate { segments, details, servers, ..Candidate::default() }
        });
        let candidates = candidates.collect();
        Ok((planned.unreachable, Ok(candidates)))
    }

    /// Alternatives to a change that was refused, with what is booked counted as free. `None` for a reservation that has begun:
    /// only its end can be changed, and a later start is none of its alternatives.
    pub(crate) async fn alternatives_to_change(
        &self,
        wire: &v1::ModifyRequest,
    ) -> Option<v1::Alternatives> {
        let now = self.handle.now().wall;
        let current = self.standing(&wire.id).await.ok()?;
        let (old, plan) = booked(&current).ok()?;
        let stays = |_: &str| !wire.may_move;
        let request = wire.request.as_ref()?;
        let version = version(request, old, plan, &stays, (now, cut(old, now))).ok()?;
        let request = Some(&version.request).filter(|_| version.active.is_none())?;
        let options = current.options(wire.options.as_ref());
        let (mut federation, admitted) = self.admitted(Some(request), Some(&options)).await.ok()?;
        let replaces = Replaced::from(current.transaction.as_ref());
        let frames = ExplainedFrames::Closest;
        let planned = self.plan_admitted(&mut federation, &admitted, replaces, &[], frames);
        let mut planned = planned.await.ok()?;
        if !planned.plans.is_empty() {
            return None;
        }
        self.alternatives(&federation, request, &admitted, replaces, &mut planned).await
    }

    /// The reservation that a conversation about a change ends with.
    ///
    /// # Errors
    /// The status that the call ends with.
    pub(crate) fn change_end(
        &self,
        end: ChangeEnd,
        id: &ReservationId,
        change: &RequestId,
    ) -> Result<Box<Reservation>, Status> {
        Err(match end {
            ChangeEnd::Stands(known) => return Ok(known),
            ChangeEnd::OtherContent => status::other_content("change", change.as_str()),
            ChangeEnd::DiskFull => status::disk_full("nothing was changed"),
            ChangeEnd::BrokenOff => status::broken_off("the planning of this change"),
            ChangeEnd::Unknown => status::not_found("reservation", id.as_str()),
            ChangeEnd::UnderWay(other) => {
                let text =
                    format!("change {other} of {id} is under way; nothing was done, ask again");
                status::precondition("changing", id.as_str(), text)
            }
            ChangeEnd::Spent => {
                let most = limits::CHANGES_MAX;
                let text = format!(
                    "{id} was changed {most} times already, refused changes included, and may not be \
                     changed more often; it stays as it is, nothing was done"
                );
                status::precondition("changes_spent", id.as_str(), text)
            }
            ChangeEnd::NotConfirmed(known) => {
                let state = view::reservation(&known, self.handle.now().wall).state();
                let state = state.as_str_name().trim_start_matches("RESERVATION_STATE_");
                let state = state.to_lowercase();
                let text = format!(
                    "{id} is {state}; only what is confirmed can be changed, nothing was done"
                );
                status::precondition(&state, id.as_str(), text)
            }
        })
    }
}

/// Plans a change.
struct ChangePlanner<'a> {
    service: &'a GrcService,
    wire: &'a v1::ModifyRequest,
    id: &'a ReservationId,
    /// The equipment that the reservation is to be moved off; `None`: it is changed by its user.
    off: Option<&'a UnusableParts>,
}

impl JobPlanner for ChangePlanner<'_> {
    async fn plan(&mut self, job: &PlanJob) -> Result<Planned, Status> {
        let (service, wire) = (self.service, self.wire);
        // The booking is read again each time. No other change can come between once the first planning has begun.
        let current = service.standing(self.id.as_str()).await?;
        let refusals = &job.refusals;
        let tries: &[Stays] = match (self.off, wire.may_move) {
            (None, false) => &[Stays::All],
            (None, true) => &[Stays::Nothing],
            // As little moves as can be.
            (Some(_), _) => &[Stays::All, Stays::Usable, Stays::Nothing],
        };
        let (mut unreachable, mut outcome) = (Vec::new(), Ok(Vec::new()));
        for stays in tries {
            (unreachable, outcome) =
                service.change_candidates(wire, &current, (self.off, *stays), refusals).await?;
            if outcome.is_ok() {
                break;
            }
        }
        let options = current.options(wire.options.as_ref());
        let asked = wire.request.as_ref().and_then(|request| request.manual_provision);
        let manual_provision = asked.unwrap_or(current.manual_provision);
        let provisioned = |candidate| Candidate { manual_provision, ..candidate };
        let outcome = outcome.map(|all| all.into_iter().map(provisioned).collect());
        let request = wire.request.clone().map(|request| v1::CoAllocationRequest {
            manual_provision: asked.or(manual_provision.then_some(true)),
            series: current.series().to_owned(),
            ..request
        });
        let notes = view::notes(&unreachable, request.as_ref(), Some(&options));
        Ok(Planned { outcome, replans: None, notes })
    }
}

/// The wishes of a change at RMs with servers that cannot be used: any others.
fn avoiding(
    off: &UnusableParts,
    segments: &BTreeMap<RmName, Vec<Segment>>,
) -> BTreeMap<RmName, ServerWish> {
    let wish = |(rm, unusable): (&RmName, &BTreeSet<ResourceId>)| {
        let segments = segments.get(rm)?;
        let is_server = |name: &&ResourceId| segments.iter().all(|of| of.resource != **name);
        let avoided: Vec<ResourceId> = unusable.iter().filter(is_server).cloned().collect();
        let wish = ServerWish { avoided, ..ServerWish::default() };
        (!wish.avoided.is_empty()).then(|| (rm.clone(), wish))
    };
    off.iter().filter_map(wish).collect()
}

/// What a reservation is that cannot be changed, by its notes, and what to do instead.
pub(crate) fn unchangeable(notes: &str) -> Option<(&'static str, &'static str)> {
    if receipt::is_task(notes) {
        let text = "it is a task, and tasks are not changed: release it and submit another";
        return Some(("task", text));
    }
    if workflow::is_workflow(notes) {
        let text = "it is a workflow: report what happens to its activities, or revise it (ReviseWorkflow)";
        return Some(("workflow", text));
    }
    let text = "it is an allocation of servers, and allocations are not changed: release it and allocate again";
    view::is_allocation(notes).then_some(("allocation", text))
}

/// Checks who wants which change. These are the first checks of a modify call.
fn ticket(wire: &v1::ModifyRequest, standing: &CurrentBooking) -> Result<ChangeTicket, Status> {
    let user = wire.request.as_ref().map_or("", |request| request.user.as_str());
    let user = user_name("request.user", user).map_err(|error| status::invalid(&error))?;
    if user != standing.user {
        let text = format!("{} is not a reservation of user {user}", wire.id);
        return Err(status::denied(text));
    }
    let change = RequestId::parse("change_id", &wire.change_id);
    // The reservation may be named by either of its ids; the digest of the change must be the same.
    let same = v1::ModifyRequest { id: standing.id.to_string(), ..wire.clone() };
    Ok(ChangeTicket {
        reservation: standing.id.clone(),
        change: change.map_err(|error| status::invalid(&error))?,
        content: admission::digest(&same),
    })
}

/// Checks that a change leaves the reservation in its series.
fn check_series(wire: &v1::ModifyRequest, standing: &CurrentBooking) -> Result<(), InvalidField> {
    let (asked, own) =
        (wire.request.as_ref().map_or("", |request| &request.series), standing.series());
    if asked.is_empty() || asked == own {
        return Ok(());
    }
    let allowed = match own {
        "" => "none: the reservation belongs to no series, and stays so".to_owned(),
        own => format!("{own}, to which the reservation belongs"),
    };
    Err(InvalidField::new("request.series", InvalidField::quoted(asked), allowed))
}

/// The window and the plan of a current booking.
fn booked(standing: &CurrentBooking) -> Result<(Window, &v1::Plan), Status> {
    let unknown = || {
        let text = format!("the plan of {} cannot be read, so it cannot be changed", standing.id);
        Status::internal(text)
    };
    let plan = standing.plan.as_ref().ok_or_else(unknown)?;
    let window = window_from_wire("window", plan.window.as_ref()).map_err(|_| unknown())?;
    Ok((window, plan))
}

#[cfg(test)]
mod tests;
