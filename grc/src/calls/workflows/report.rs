//! Reports of a workflow's activities: recorded first, then followed by a revision of the workflow.
//!
//! A report is acknowledged once it is durable. What follows from it is a change of the reservation whose id begins with
//! [`REPORTS`]. One task for each workflow makes these changes, one after the other, and each of them follows all reports
//! that are there by then. When another change is under way, or planning is busy, the task tries again after a backoff.
//! A restart of the coordinator looks at every booked workflow with reports once more ([`GrcService::follow_reports`]).
//!
//! A revision that was refused because somebody did not answer is tried again by the same task. One that was refused for
//! another reason is not tried again before something new is reported, or somebody asks for it.
//!
//! Left out: what a revision changes, see [`super::revision`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_common::workflow::{ActivityEvent, ActivityReport};
use coalloc_common::{
    ActivityName, InvalidField, Reason, RequestId, ReservationId, Span, Time, UserName, limits,
};
use coalloc_net::convert::{
    refusal_from_wire, refusal_to_wire, time_from_wire, user_name, window_from_wire,
};
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_protocol::conversation::ChangeEnd;
use coalloc_protocol::coordinator::{
    Change, ChangeState, ChangeTicket, Coordinator, CoordinatorInput, Report, ReportEnd,
    Reservation,
};
use tokio::sync::{Notify, oneshot};
use tonic::Status;

use super::revision::{RevisionJobs, RevisionWish};
use super::version::BookedVersion;
use crate::admission::digest;
use crate::calls::service::GrcService;
use crate::node::conversation::converse;
use crate::views::workflow;

/// The ids of changes that follow reports begin with this; clients may not use such ids.
pub(crate) const REPORTS: &str = "reports-";

/// Reasons of refusals that pass by themselves: a resource manager did not answer, its disk was full, or a process was
/// restarted.
const PASSING: [Reason; 5] = [
    Reason::CoordinatorRestarted,
    Reason::TimedOut,
    Reason::Unreachable,
    Reason::Expired,
    Reason::DiskFull,
];

/// Who waits for the revision of which workflow. An entry is there while a task revises that workflow.
#[derive(Debug, Clone, Default)]
pub struct RevisionQueue {
    entries: Arc<Mutex<BTreeMap<ReservationId, RevisionEntry>>>,
}

#[derive(Debug, Default)]
struct RevisionEntry {
    waiting: Vec<oneshot::Sender<v1::WorkflowRevision>>,
    /// Ends the backoff of the task.
    wake: Arc<Notify>,
}

impl RevisionQueue {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<ReservationId, RevisionEntry>> {
        // Every change below leaves the map consistent, so a panic elsewhere does not matter.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one that waits. True: nobody revises this workflow yet, so the caller has to.
    fn join(&self, id: &ReservationId, waiter: oneshot::Sender<v1::WorkflowRevision>) -> bool {
        let mut entries = self.entries();
        let is_new = !entries.contains_key(id);
        let entry = entries.entry(id.clone()).or_default();
        entry.waiting.push(waiter);
        entry.wake.notify_one();
        is_new
    }

    /// Takes those that wait.
    fn take(&self, id: &ReservationId) -> Vec<oneshot::Sender<v1::WorkflowRevision>> {
        let mut entries = self.entries();
        entries.get_mut(id).map(|entry| std::mem::take(&mut entry.waiting)).unwrap_or_default()
    }

    /// Removes the entry, unless somebody waits again. True: it is gone.
    fn end(&self, id: &ReservationId) -> bool {
        let mut entries = self.entries();
        let is_idle = entries.get(id).is_none_or(|entry| entry.waiting.is_empty());
        if is_idle {
            entries.remove(id);
        }
        is_idle
    }

    /// Waits until somebody joins, or for this long.
    async fn pause(&self, id: &ReservationId, pause: Span) {
        let wake = self.entries().get(id).map(|entry| Arc::clone(&entry.wake));
        let joined = async {
            if let Some(wake) = wake {
                wake.notified().await;
            }
        };
        // Whether somebody joined or the time is over makes no difference.
        let _ = tokio::time::timeout(pause.to_std(), joined).await;
    }
}

/// Removes the entry of a task that breaks off, so that the next report begins another one.
struct EntryGuard<'a> {
    queue: &'a RevisionQueue,
    id: &'a ReservationId,
    /// The task has ended, and has removed the entry itself.
    ended: bool,
}

impl Drop for EntryGuard<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.queue.entries().remove(self.id);
        }
    }
}

/// A report that was read and checked.
struct ParsedReport {
    reservation: ReservationId,
    report: Report,
    by: UserName,
}

impl GrcService {
    /// Handles one report.
    pub(crate) async fn report_whole(
        &self,
        wire: v1::ReportActivityRequest,
    ) -> Result<v1::ReportActivityResponse, Status> {
        let ParsedReport { reservation, report, by } = self.parse_report(&wire).await?;
        let (id, own) = (report.id.clone(), reservation.clone());
        let input = |token| CoordinatorInput::Report { reservation: own, report, by, token };
        let number = match self.handle.call(&self.causer, input).await? {
            ReportEnd::Recorded(number) => number,
            ReportEnd::OtherContent => return Err(status::other_content("report", id.as_str())),
            ReportEnd::Unknown => return Err(status::not_found("workflow", &wire.id)),
            ReportEnd::NotConfirmed(_) => {
                let text = format!("{} is not booked any more; nothing was recorded", wire.id);
                return Err(status::precondition("ended", &wire.id, text));
            }
            ReportEnd::Spent => {
                let most = limits::REPORTS_MAX;
                let text = format!("{} has {most} reports, and no more are taken", wire.id);
                return Err(status::precondition("reports_spent", &wire.id, text));
            }
            ReportEnd::DiskFull => return Err(status::disk_full("nothing was recorded")),
        };
        tracing::info!(%reservation, report = %id, number, "report recorded");
        let revision = self.revise_soon(&reservation).await.ok();
        let answer = self.reported(reservation.as_str(), revision).await?;
        let is_nothing =
            |revision: &v1::WorkflowRevision| revision.state() == v1::RevisionState::Nothing;
        if answer.revision.as_ref().is_some_and(is_nothing)
            && let Some(earlier) = self.revision_after(&reservation, number).await?
        {
            // The report was sent again: it gets the answer that it had.
            return Ok(v1::ReportActivityResponse { revision: Some(earlier), ..answer });
        }
        Ok(answer)
    }

    /// The answer to a report that is recorded. `revision` is what came of it; `None`: that is not known yet.
    pub(crate) async fn reported(
        &self,
        id: &str,
        revision: Option<v1::WorkflowRevision>,
    ) -> Result<v1::ReportActivityResponse, Status> {
        let wanted = id.to_owned();
        let look = move |coordinator: &Coordinator| coordinator.find(&wanted).cloned();
        let known = self.handle.read(look).await?;
        let known = known.ok_or_else(|| status::not_found("workflow", id))?;
        let under_way = || v1::WorkflowRevision {
            state: v1::RevisionState::UnderWay.into(),
            ..v1::WorkflowRevision::default()
        };
        Ok(v1::ReportActivityResponse {
            reservation: known.id.to_string(),
            revision: Some(revision.unwrap_or_else(under_way)),
            version: known.version,
        })
    }

    /// What came of the last revision, if it followed the report of this number or a later one.
    async fn revision_after(
        &self,
        id: &ReservationId,
        number: usize,
    ) -> Result<Option<v1::WorkflowRevision>, Status> {
        let id = id.clone();
        let look = move |coordinator: &Coordinator| coordinator.find(id.as_str()).cloned();
        let known = self.handle.read(look).await?;
        let known = known.filter(|known| workflow::reports_followed(known) >= number);
        Ok(known.as_ref().and_then(workflow::revision))
    }

    /// Reads a report. One that is known is taken as it is: what it says was right when it came.
    async fn parse_report(&self, wire: &v1::ReportActivityRequest) -> Result<ParsedReport, Status> {
        let invalid = |error: InvalidField| status::invalid(&error);
        let id = RequestId::parse("report_id", &wire.report_id).map_err(invalid)?;
        let by = user_name("user", &wire.user).map_err(invalid)?;
        let wanted = wire.id.clone();
        let look = move |coordinator: &Coordinator| {
            let found = coordinator.find(&wanted)?;
            Some((found.clone(), coordinator.reports(&found.id).to_vec()))
        };
        let found = self.handle.read(look).await?;
        let found = found.filter(|(found, _)| workflow::is_workflow(&found.notes));
        let (found, reports) = found.ok_or_else(|| status::not_found("workflow", &wire.id))?;
        if by != found.ticket.user {
            return Err(status::denied(format!("{} is not a workflow of user {by}", wire.id)));
        }
        let reservation = found.id.clone();
        // The workflow may be named by either of its ids; the digest must be the same.
        let content =
            digest(&v1::ReportActivityRequest { id: reservation.to_string(), ..wire.clone() });
        if let Some(known) = reports.iter().find(|known| known.id == id) {
            let report = Report { content, ..known.clone() };
            return Ok(ParsedReport { reservation, report, by });
        }
        let version = self.booked_version(&wire.id).await?;
        let now = self.handle.now().wall;
        let report = activity_report(wire, &version, now).map_err(invalid)?;
        let excluded = self.site_names("excluded", &wire.excluded).await?;
        let report = ActivityReport { excluded, ..report };
        let text = serde_json::to_string(&report);
        let text = text.map_err(|error| status::internal(error.to_string()))?;
        Ok(ParsedReport { reservation, report: Report { id, content, text }, by })
    }

    /// Has a workflow revised by its reports, and waits for what comes of it.
    async fn revise_soon(
        &self,
        id: &ReservationId,
    ) -> Result<v1::WorkflowRevision, oneshot::error::RecvError> {
        let (sender, outcome) = oneshot::channel();
        if self.revisions.join(id, sender) {
            let (service, id) = (self.clone(), id.clone());
            tokio::spawn(async move { service.revise_until_done(&id).await });
        }
        outcome.await
    }

    /// Revises a workflow by its reports until nobody waits for that any more. A revision that was refused for a cause
    /// that passes is tried again, with a growing backoff, until it has another outcome or the workflow is over.
    async fn revise_until_done(&self, id: &ReservationId) {
        let mut guard = EntryGuard { queue: &self.revisions, id, ended: false };
        let mut pause = limits::REVISION_RETRY;
        loop {
            let waiting = self.revisions.take(id);
            let revision = self.revise_by_reports(id).await;
            for waiter in waiting {
                // The caller may be gone.
                let _ = waiter.send(revision.clone());
            }
            if will_pass(&revision) && !self.is_over(id).await {
                self.revisions.pause(id, pause).await;
                pause = pause.saturating_mul(2).min(limits::REVISION_RETRY_MAX);
                continue;
            }
            pause = limits::REVISION_RETRY;
            if self.revisions.end(id) {
                guard.ended = true;
                return;
            }
        }
    }

    /// Is a workflow over, or not booked, or this process stopping?
    async fn is_over(&self, id: &ReservationId) -> bool {
        let version = self.booked_version(id.as_str()).await;
        let window = version.ok().and_then(|version| version.plan.window);
        let window = window_from_wire("window", window.as_ref()).ok();
        self.handle.is_stopping()
            || window.is_none_or(|window| window.end() <= self.handle.now().wall)
    }

    /// After a start: looks once more at all booked workflows with reports.
    pub(crate) async fn follow_reports(&self) {
        let look = |coordinator: &Coordinator| {
            let open = coordinator.reservations().filter(|known| {
                workflow::is_booked(known) && !coordinator.reports(&known.id).is_empty()
            });
            open.map(|known| known.id.clone()).collect::<Vec<_>>()
        };
        let Ok(open) = self.handle.read(look).await else { return };
        for id in open {
            // One after the other: a start is no moment for a crowd.
            let _ = self.revise_soon(&id).await;
        }
    }

    /// Follows all reports of a workflow that are there. Returns what came of it.
    async fn revise_by_reports(&self, id: &ReservationId) -> v1::WorkflowRevision {
        let mut pause = limits::REVISION_PAUSE;
        let mut tried = None;
        loop {
            match self.try_to_revise(id, &mut tried).await {
                Ok(Some(revision)) => return revision,
                // This change or another one is under way.
                Ok(None) => {}
                Err(status) if is_passing(&status) && !self.handle.is_stopping() => {
                    tracing::info!(reservation = %id, %status, "revising a workflow is tried again");
                }
                Err(status) => {
                    tracing::warn!(reservation = %id, %status, "a workflow cannot be revised");
                    let text = status.message();
                    let refusal = coalloc_common::Refusal::new(Reason::Unreachable, text);
                    return refused(refusal_to_wire(&refusal), String::new());
                }
            }
            tokio::time::sleep(pause.to_std()).await;
            pause = pause.saturating_mul(2).min(limits::REVISION_PAUSE_MAX);
        }
    }

    /// Tries once, or looks what has become of the change that was tried. `None`: a change is under way.
    async fn try_to_revise(
        &self,
        id: &ReservationId,
        tried: &mut Option<RequestId>,
    ) -> Result<Option<v1::WorkflowRevision>, Status> {
        let nothing = v1::WorkflowRevision {
            state: v1::RevisionState::Nothing.into(),
            ..v1::WorkflowRevision::default()
        };
        let version = match self.booked_version(id.as_str()).await {
            Ok(version) => version,
            // It was released meanwhile.
            Err(status) if status.code() == tonic::Code::FailedPrecondition => {
                return Ok(Some(nothing));
            }
            Err(status) => return Err(status),
        };
        let round = format!("{REPORTS}{}.", version.reports.len());
        if let Some(change) =
            version.change.as_ref().filter(|one| one.id.as_str().starts_with(&round))
        {
            if change.is_under_way() {
                return Ok(None);
            }
            let was_tried = tried.as_ref() == Some(&change.id);
            if let Some(refused) = refusal_of(change).filter(|one| was_tried || !will_pass(one)) {
                return Ok(Some(refused));
            }
        }
        let wish = RevisionWish::default();
        if !self.has_to_change(&version, &wish).await? {
            return Ok(Some(nothing));
        }
        let change = RequestId::composed(format!("{round}{}", version.changes + 1));
        let ticket = ChangeTicket {
            reservation: id.clone(),
            change: change.clone(),
            content: "follows the reports".to_owned(),
        };
        *tried = Some(change.clone());
        let mut jobs = RevisionJobs::new(self, id, &wish);
        match converse(self.conversation(), ticket, &mut jobs).await? {
            ChangeEnd::UnderWay(_) => Ok(None),
            ChangeEnd::NotConfirmed(_) | ChangeEnd::Unknown => Ok(Some(nothing)),
            end => {
                let known: Box<Reservation> = self.change_end(end, id, &change)?;
                let revision = workflow::revision(&known).unwrap_or(nothing);
                // While somebody has not acknowledged the end of an attempt, there is no outcome yet.
                Ok(Some(revision).filter(|one| one.state() != v1::RevisionState::UnderWay))
            }
        }
    }
}

/// Is this a failure that passes by itself?
fn is_passing(status: &Status) -> bool {
    matches!(status.code(), tonic::Code::Unavailable | tonic::Code::ResourceExhausted)
}

fn refused(refusal: v1::Refusal, change_id: String) -> v1::WorkflowRevision {
    v1::WorkflowRevision {
        state: v1::RevisionState::Refused.into(),
        change_id,
        refusal: Some(v1::WorkflowRefusal {
            refusal: Some(refusal),
            ..v1::WorkflowRefusal::default()
        }),
        ..v1::WorkflowRevision::default()
    }
}

/// The outcome of a change that was refused; `None` for all other changes.
fn refusal_of(change: &Change) -> Option<v1::WorkflowRevision> {
    let refusal = change.refusal.as_ref().filter(|_| change.state == ChangeState::Refused)?;
    Some(refused(refusal_to_wire(refusal), change.id.to_string()))
}

/// Was a revision refused for a cause that passes by itself?
fn will_pass(revision: &v1::WorkflowRevision) -> bool {
    let refusal = revision.refusal.as_ref().and_then(|refused| refused.refusal.as_ref());
    refusal.is_some_and(|refusal| PASSING.contains(&refusal_from_wire(refusal).reason))
}

/// A report, checked against the version that is booked, but for the sites that it excludes.
fn activity_report(
    wire: &v1::ReportActivityRequest,
    version: &BookedVersion,
    now: Time,
) -> Result<ActivityReport, InvalidField> {
    let activity = ActivityName::parse("activity", &wire.activity)?;
    let planned = version.plan.activities.iter().find(|one| one.name == wire.activity);
    let planned = planned.ok_or_else(|| {
        let names = version.plan.activities.iter().map(|one| one.name.as_str());
        let guess = coalloc_common::suggest::did_you_mean(&wire.activity, names);
        let allowed = format!("an activity of the workflow{guess}");
        InvalidField::new("activity", InvalidField::quoted(&wire.activity), allowed)
    })?;
    let window = window_from_wire("window", planned.window.as_ref())?;
    let at = match &wire.time {
        Some(time) => time_from_wire("time", time)?,
        None => now,
    };
    if at < window.start() || at > now {
        let start = window.start();
        let allowed = match start > now {
            true => format!(
                "nothing is reported of {activity} before its window begins, at {start}; to place it elsewhere, \
                 revise the workflow"
            ),
            false => {
                format!("from {start}, when the window of {activity} begins, until now, {now}")
            }
        };
        return Err(InvalidField::new("time", at, allowed));
    }
    let event = match wire.event() {
        v1::ActivityEvent::Unspecified => {
            let allowed = "STARTED, FINISHED, FAILED or NEEDS_UNTIL";
            return Err(InvalidField::new("event", wire.event, allowed));
        }
        v1::ActivityEvent::Started => ActivityEvent::Started,
        v1::ActivityEvent::Finished => ActivityEvent::Finished,
        v1::ActivityEvent::Failed => ActivityEvent::Failed,
        v1::ActivityEvent::NeedsUntil => {
            let least = format!("later than `time`, {at}, by at most {}", limits::DURATION_MAX);
            let missing = || InvalidField::missing("until", least.clone());
            let until = time_from_wire("until", wire.until.as_ref().ok_or_else(missing)?)?;
            if until <= at || until.since(at) > limits::DURATION_MAX {
                return Err(InvalidField::new("until", until, least));
            }
            ActivityEvent::NeedsUntil(until)
        }
    };
    if wire.until.is_some() && !matches!(event, ActivityEvent::NeedsUntil(_)) {
        let allowed = "nothing, unless `event` is NEEDS_UNTIL";
        return Err(InvalidField::new("until", "a time", allowed));
    }
    if !wire.excluded.is_empty() && event != ActivityEvent::Failed {
        let allowed = "nothing, unless `event` is FAILED";
        return Err(InvalidField::new("excluded", wire.excluded.len(), allowed));
    }
    Ok(ActivityReport { activity, event, at, excluded: BTreeSet::new() })
}
