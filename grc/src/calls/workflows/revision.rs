//! One revision of a booked workflow: what has to be placed anew, a plan for it, and the change that books the new
//! version in place of the old one.
//!
//! What stays and what moves is decided by [`coalloc_plan::workflow::revise`]; this module gives it the booked version,
//! its reports and what is believed to be free. The new version is a change like any other: all or nothing, held beside
//! the old one.
//!
//! Left out: who wants the revision, see [`super::report`] and [`super::revise`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use coalloc_common::{
    Reason, Refusal, ReservationId, ResourceId, RmName, Segment, Span, Time, VertexName, Window,
    limits,
};
use coalloc_net::convert::{
    plan_digest, segments_to_wire, time_to_wire, workflow_effort_to_wire, workflow_refusal_to_wire,
    workflow_version_to_wire,
};
use coalloc_net::status;
use coalloc_plan::workflow::revise::{Revision, RevisionError, RevisionOrder};
use coalloc_plan::workflow::{Schedule, ScratchTimetables, WorkflowInstance, WorkflowRefusal};
use coalloc_plan::{Budget, Named as _};
use coalloc_proto::v1;
use coalloc_protocol::conversation::{PlanJob, Planned};
use coalloc_protocol::coordinator::{Candidate, Coordinator, UnusableParts};
use tonic::Status;

use super::planning::{in_words, is_exhausted, too_many};
use super::version::{BookedVersion, ParsedVersion};
use crate::availability::federation::Snapshot;
use crate::calls::modify::joined;
use crate::calls::service::GrcService;
use crate::node::conversation::JobPlanner;
use crate::pictures::believed::BelievedProfiles;
use crate::planning::Depth;
use crate::views::kept::{self, KeptRequest, RevisedActivities};
use crate::views::workflow;

/// What a revision is to do besides following the reports, checked against the workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RevisionWish {
    /// Sites at which nothing may run that has not begun.
    pub excluded: BTreeSet<VertexName>,
    /// Activities that are placed anew unless they have begun, by their places in the workflow.
    pub again: BTreeSet<usize>,
    /// A new deadline.
    pub deadline: Option<Time>,
}

/// A revision that was planned.
#[derive(Debug)]
pub(super) struct PlannedRevision {
    /// The activities that it changes. Empty: nothing is to be changed.
    pub revised: RevisedActivities,
    /// The plan of the new version, unless it is refused.
    pub plan: Option<v1::WorkflowPlan>,
    /// Why there is no new version.
    pub refusal: Option<v1::WorkflowRefusal>,
    /// The effort of the search.
    pub effort: v1::WorkflowEffort,
    /// The new version as a candidate, or why there is none.
    pub candidate: Result<Candidate, Refusal>,
}

impl GrcService {
    /// The booked version of a workflow, by the id of its reservation or of its request.
    ///
    /// # Errors
    /// NOT_FOUND when there is none, or when it is no workflow; FAILED_PRECONDITION when it is not booked.
    pub(super) async fn booked_version(&self, id: &str) -> Result<BookedVersion, Status> {
        let wanted = id.to_owned();
        let look = move |coordinator: &Coordinator| {
            let found = coordinator.find(&wanted)?;
            Some((found.clone(), coordinator.reports(&found.id).to_vec()))
        };
        let found = self.handle.read(look).await?;
        let found = found.filter(|(found, _)| workflow::is_workflow(&found.notes));
        let (found, reports) = found.ok_or_else(|| status::not_found("workflow", id))?;
        let booked = workflow::is_booked(&found).then(|| BookedVersion::read(&found, &reports));
        match booked {
            Some(Some(version)) => Ok(version),
            Some(None) => {
                let text = format!(
                    "{id} was submitted to an older release, which kept no workflow to revise"
                );
                Err(status::precondition("workflow", id, text))
            }
            None => Err(not_booked(id, self.handle.now().wall, &found)),
        }
    }

    /// Would a revision of this version change anything?
    ///
    /// # Errors
    /// UNAVAILABLE when resource managers of the version have not described themselves; FAILED_PRECONDITION when a
    /// site or path of it is gone.
    pub(super) async fn has_to_change(
        &self,
        version: &BookedVersion,
        wish: &RevisionWish,
    ) -> Result<bool, Status> {
        let federation = self.federation.settled().await;
        let parsed = on_federation(version, &federation)?;
        let search =
            RevisionSearch::new(federation, version.clone(), parsed, wish, self.revision_times());
        let first = search.revision();
        // A contradiction is told as the refusal of a change.
        Ok(wish.deadline.is_some() || first.is_err() || first.is_ok_and(|first| !first.is_empty()))
    }

    /// Plans a revision on what is believed now.
    ///
    /// # Errors
    /// As [`GrcService::has_to_change`]; RESOURCE_EXHAUSTED when too much is being planned already.
    pub(super) async fn plan_revision(
        &self,
        version: BookedVersion,
        wish: &RevisionWish,
    ) -> Result<PlannedRevision, Status> {
        let federation = self.federation.settled().await;
        let parsed = on_federation(&version, &federation)?;
        let times = self.revision_times();
        let mut search = RevisionSearch::new(federation, version, parsed, wish, times);
        let window = search.window()?;
        let believed = self.pictures.believed(window).await;
        // Asking for profiles shows who is silent.
        search.silent = self.federation.unusable(search.version.segments.keys());
        let time = limits::WORKFLOW_PLANNING_MAX;
        let quick = move |stop: &AtomicBool| {
            let planned =
                search.planned(&believed, window, limits::WORKFLOW_QUICK_PLACEMENTS, stop);
            (search, believed, planned)
        };
        let (search, believed, planned) = self.planners.search(Depth::Short, time, quick).await?;
        if let Some(planned) = planned {
            return Ok(planned);
        }
        let long = move |stop: &AtomicBool| {
            search
                .planned(&believed, window, limits::PLANNING_NODES_MAX, stop)
                .unwrap_or_else(|| search.exhausted())
        };
        self.planners.search(Depth::Whole, time, long).await
    }

    /// The present time, and the first instant that a revision may change.
    fn revision_times(&self) -> (Time, Time) {
        let now = self.handle.now().wall;
        let lead = self.pictures.settings().lead.max(limits::WORKFLOW_LEAD);
        (now, now.saturating_add(lead).next_second())
    }
}

/// The error for a workflow that is not booked, or no longer.
fn not_booked(id: &str, now: Time, found: &coalloc_protocol::coordinator::Reservation) -> Status {
    let state = crate::views::view::reservation(found, now).state();
    let state = state.as_str_name().trim_start_matches("RESERVATION_STATE_").to_lowercase();
    let text = format!("{id} is {state}; only what is booked can be revised, nothing was done");
    status::precondition(&state, id, text)
}

/// The version on the federation of now.
fn on_federation(version: &BookedVersion, federation: &Snapshot) -> Result<ParsedVersion, Status> {
    version.on(&federation.topology).map_err(|error| {
        let missing: Vec<&str> = federation.missing.iter().map(|rm| rm.as_str()).collect();
        match missing.is_empty() {
            false => status::not_known_yet(&error, &missing),
            true => {
                let text = format!("{} cannot be revised: {error}", version.id);
                status::precondition("federation", version.id.as_str(), text)
            }
        }
    })
}

/// One revision's search.
struct RevisionSearch {
    federation: Arc<Snapshot>,
    version: BookedVersion,
    parsed: ParsedVersion,
    order: RevisionOrder,
    /// Resource managers of the version that do not answer now.
    silent: Vec<RmName>,
}

impl RevisionSearch {
    fn new(
        federation: Arc<Snapshot>,
        version: BookedVersion,
        mut parsed: ParsedVersion,
        wish: &RevisionWish,
        (now, cut): (Time, Time),
    ) -> Self {
        if let Some(deadline) = wish.deadline {
            parsed.parsed.workflow.deadline = deadline;
        }
        let order = RevisionOrder {
            now,
            cut,
            excluded: wish.excluded.clone(),
            excluded_of: parsed.excluded_of.clone(),
            again: wish.again.clone(),
        };
        Self { federation, version, parsed, order, silent: Vec::new() }
    }

    fn instance(&self) -> WorkflowInstance<'_> {
        let ParsedVersion { parsed, options, .. } = &self.parsed;
        WorkflowInstance {
            topology: &self.federation.topology,
            workflow: &parsed.workflow,
            graph: &parsed.graph,
            slot: limits::WORKFLOW_SLOT,
            options: options.options,
            kept: None,
        }
    }

    fn revision(&self) -> Result<Revision, RevisionError> {
        Revision::new(&self.instance(), &self.parsed.booked(), &self.order)
    }

    /// The window over which profiles have to be known: from now on, and beyond the deadline, so that a refusal can
    /// say by how much it is missed.
    fn window(&self) -> Result<Window, Status> {
        let start = self.order.now.saturating_sub(limits::WORKFLOW_SLOT);
        let deadline = self.parsed.parsed.workflow.deadline.max(self.order.cut);
        let end = deadline.saturating_add(limits::WORKFLOW_DEADLINE_DEFAULT);
        Window::new(start, end).ok_or_else(|| status::internal("the deadline is no instant"))
    }

    /// Plans the revision. `None` when the budget is not enough.
    fn planned(
        &self,
        believed: &BelievedProfiles,
        window: Window,
        nodes: u64,
        stop: &AtomicBool,
    ) -> Option<PlannedRevision> {
        let revision = match self.revision() {
            Ok(revision) => revision,
            Err(error) => {
                return Some(self.refused(contradiction(&error), &RevisedActivities::default()));
            }
        };
        let mut timetables = ScratchTimetables::new(&self.federation.topology);
        believed.limit(&mut timetables, window);
        let budget = Budget { nodes, solver_time: Span::ZERO, stop };
        let planner = self.parsed.options.planner.planner();
        let instance = self.instance();
        let answer =
            revision.plan(planner.as_ref(), &instance, &mut timetables, window.end(), &budget);
        if is_exhausted(&answer) {
            return None;
        }
        let revised = self.revised(&revision);
        let effort = workflow_effort_to_wire(answer.effort);
        let planned = match answer.outcome {
            Ok(schedule) => self.new_version(&revision, &schedule, &revised, effort),
            Err(refused) => {
                let refusal = believed.blame(refused.refusal.clone());
                self.refused(WorkflowRefusal { refusal, ..*refused }, &revised)
            }
        };
        Some(PlannedRevision { effort, ..planned })
    }

    /// The revision whose search has used up its whole budget.
    fn exhausted(&self) -> PlannedRevision {
        let text = "the search for a new version has used up its budget";
        let refusal = Refusal::new(Reason::BudgetExhausted, text);
        let refused = WorkflowRefusal { activities: Vec::new(), refusal, earliest_finish: None };
        self.refused(refused, &RevisedActivities::default())
    }

    fn refused(&self, refused: WorkflowRefusal, revised: &RevisedActivities) -> PlannedRevision {
        PlannedRevision {
            revised: revised.clone(),
            plan: None,
            refusal: Some(workflow_refusal_to_wire(&self.parsed.parsed, &refused)),
            effort: v1::WorkflowEffort::default(),
            candidate: Err(in_words(&refused)),
        }
    }

    fn revised(&self, revision: &Revision) -> RevisedActivities {
        let name = |index: usize| self.parsed.parsed.workflow.activities[index].name.to_string();
        RevisedActivities {
            moved: revision.moved().map(name).collect(),
            resized: revision.resized.iter().copied().map(name).collect(),
            reports: self.version.reports.len(),
        }
    }

    fn new_version(
        &self,
        revision: &Revision,
        schedule: &Schedule,
        revised: &RevisedActivities,
        effort: v1::WorkflowEffort,
    ) -> PlannedRevision {
        let topology = &self.federation.topology;
        let mut segments = schedule.segments(topology, &revision.workflow);
        for (rm, past) in &revision.past {
            segments.entry(rm.clone()).or_default().extend(past.iter().cloned());
        }
        let mut segments = with_booked_past(&self.version.segments, self.order.now, segments);
        let left_out = self.leave_out(&mut segments);
        if let Some(refused) = too_many(&segments) {
            return self.refused(*refused, revised);
        }
        let parsed = &self.parsed.parsed;
        let planner = self.parsed.options.planner.name();
        let plan = workflow_version_to_wire(topology, parsed, planner, schedule, &segments);
        debug_assert_eq!(plan.digest, plan_digest(&segments), "the digest is of all segments");
        let request = self.kept_request(revision, &left_out);
        let details = kept::workflow(&plan, effort, Some(revised.clone()), Some(&request)).into();
        let candidate = Candidate { segments, details, left_out, ..Candidate::default() };
        PlannedRevision {
            revised: revised.clone(),
            plan: Some(plan),
            refusal: None,
            effort,
            candidate: Ok(candidate),
        }
    }

    /// Leaves out resource managers that do not answer and of which nothing is needed any more. What they have is
    /// released once they answer.
    fn leave_out(&self, segments: &mut BTreeMap<RmName, Vec<Segment>>) -> Vec<RmName> {
        let is_over = |segment: &Segment| segment.window.end() <= self.order.cut;
        let is_needed =
            |rm: &RmName| segments.get(rm).is_some_and(|segments| !segments.iter().all(is_over));
        let left_out: Vec<RmName> =
            self.silent.iter().filter(|rm| !is_needed(rm)).cloned().collect();
        segments.retain(|rm, _| !left_out.contains(rm));
        left_out
    }

    /// What later revisions need.
    fn kept_request(&self, revision: &Revision, left_out: &[RmName]) -> KeptRequest {
        let old = &self.version.request;
        let deadline = Some(time_to_wire(revision.workflow.deadline));
        let own = self.parsed.parsed.workflow.activities.iter().zip(&old.workflow.activities);
        let all = revision.workflow.activities.iter().zip(own);
        let excluded = all.filter_map(|(new, (_, wire))| {
            let further = new.excluded.iter().map(ToString::to_string);
            let further: BTreeSet<String> =
                further.filter(|site| !wire.excluded.contains(site)).collect();
            (!further.is_empty()).then(|| (new.name.to_string(), further))
        });
        let past = revision.past.iter().filter(|(rm, _)| !left_out.contains(rm));
        let past = past.flat_map(|(rm, segments)| segments_to_wire(Some(rm), segments));
        KeptRequest {
            workflow: v1::Workflow { deadline, ..old.workflow.clone() },
            options: old.options.clone(),
            excluded: excluded.collect(),
            past: past.collect(),
        }
    }
}

/// The refusal for reports that contradict each other or come too late.
fn contradiction(error: &RevisionError) -> WorkflowRefusal {
    let refusal = Refusal::new(Reason::OutsideHorizon, error.to_string());
    WorkflowRefusal { activities: Vec::new(), refusal, earliest_finish: None }
}

/// A new version in which nothing differs from the booked one before `now`. It does not by itself, unless a resource
/// manager had lost its booking, and has it again without what was over by then.
fn with_booked_past(
    booked: &BTreeMap<RmName, Vec<Segment>>,
    now: Time,
    mut new: BTreeMap<RmName, Vec<Segment>>,
) -> BTreeMap<RmName, Vec<Segment>> {
    let nothing = Vec::new();
    let past = |all: &'_ BTreeMap<RmName, Vec<Segment>>, rm: &RmName| {
        past_of(all.get(rm).unwrap_or(&nothing), now)
    };
    let all = booked.keys().chain(new.keys());
    let differ = all.filter(|rm| past(booked, rm) != past(&new, rm));
    let differ: BTreeSet<RmName> = differ.cloned().collect();
    for rm in differ {
        let rest = new.remove(&rm).unwrap_or_default().into_iter().filter_map(|segment| {
            let window = Window::new(segment.window.start().max(now), segment.window.end())?;
            Some(Segment { window, ..segment })
        });
        let rest = BTreeMap::from([(rm.clone(), rest.collect())]);
        let old = booked.get(&rm).cloned().unwrap_or_default();
        let nothing = UnusableParts::new();
        new.extend(joined(&BTreeMap::from([(rm, old)]), now, rest, &nothing));
    }
    // A resource manager that has nothing and of which nothing is needed takes no part.
    new.retain(|rm, segments| booked.contains_key(rm) || !segments.is_empty());
    new
}

/// What segments take before an instant: by how much the amount of each resource changes, and when.
fn past_of(segments: &[Segment], until: Time) -> BTreeMap<(ResourceId, Time), i128> {
    let mut changes: BTreeMap<(ResourceId, Time), i128> = BTreeMap::new();
    for Segment { resource, amount, window } in segments {
        if window.start() < until {
            let end = window.end().min(until);
            *changes.entry((resource.clone(), window.start())).or_default() += i128::from(amount.0);
            *changes.entry((resource.clone(), end)).or_default() -= i128::from(amount.0);
        }
    }
    changes.retain(|_, change| *change != 0);
    changes
}

/// Plans the jobs of a change that revises a workflow.
pub(super) struct RevisionJobs<'a> {
    service: &'a GrcService,
    id: &'a ReservationId,
    wish: &'a RevisionWish,
}

impl<'a> RevisionJobs<'a> {
    pub(super) const fn new(
        service: &'a GrcService,
        id: &'a ReservationId,
        wish: &'a RevisionWish,
    ) -> Self {
        Self { service, id, wish }
    }
}

impl JobPlanner for RevisionJobs<'_> {
    async fn plan(&mut self, _: &PlanJob) -> Result<Planned, Status> {
        // The version and its reports are read again each time. No other change can come between.
        let version = self.service.booked_version(self.id.as_str()).await?;
        let activities = version.plan.activities.len();
        let planned = self.service.plan_revision(version, self.wish).await?;
        tracing::info!(
            reservation = %self.id,
            moved = planned.revised.moved.len(),
            resized = planned.revised.resized.len(),
            refused = planned.refusal.is_some(),
            "planned a revision"
        );
        let outcome = planned.candidate.map(|candidate| vec![candidate]);
        Ok(Planned { outcome, replans: None, notes: workflow::notes(activities, None) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coalloc_common::Amount;

    fn at(s: i64) -> Time {
        Time::from_us(s * 1_000_000)
    }

    fn all(segments: &[(&str, &str, u64, i64, i64)]) -> BTreeMap<RmName, Vec<Segment>> {
        let mut all: BTreeMap<RmName, Vec<Segment>> = BTreeMap::new();
        for (rm, resource, amount, start, end) in segments {
            let window = Window::new(at(*start), at(*end)).unwrap();
            let (resource, amount) = (ResourceId::composed(*resource), Amount(*amount));
            let of = all.entry(RmName::composed(*rm)).or_default();
            of.push(Segment { resource, amount, window });
        }
        all
    }

    #[test]
    fn a_version_with_the_same_past_is_held_as_it_is() {
        // One of two activities ends early, in other segments than before.
        let booked = all(&[("crm", "A", 2, 0, 100)]);
        let new = all(&[("crm", "A", 1, 0, 100), ("crm", "A", 1, 0, 60), ("nrm", "L", 5, 70, 80)]);
        assert_eq!(with_booked_past(&booked, at(50), new.clone()), new);
    }

    #[test]
    fn what_was_repaired_keeps_the_past_that_it_has() {
        // The resource manager had lost its booking, and has it again since 30.
        let booked = all(&[("crm", "A", 2, 30, 100), ("nrm", "L", 5, 0, 100)]);
        let new = all(&[("crm", "A", 2, 0, 60), ("nrm", "L", 5, 0, 100)]);
        let held = all(&[("crm", "A", 2, 30, 60), ("nrm", "L", 5, 0, 100)]);
        assert_eq!(with_booked_past(&booked, at(50), new), held);
        // Of what is over there, nothing is held any more.
        let gone = all(&[("nrm", "L", 5, 0, 100)]);
        let new = all(&[("crm", "A", 2, 0, 40), ("nrm", "L", 5, 0, 100)]);
        assert_eq!(with_booked_past(&gone, at(50), new), gone);
    }
}
