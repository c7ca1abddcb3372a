//! The planning of workflows in the coordinators' shells, by the real planners.
//!
//! A workflow is planned on scratch timetables. They have what the RMs have now, or had when somebody last looked:
//! each RM's part of the picture is made anew only now and then. What the reservation has booked itself is always
//! in them. A plan becomes one candidate, whose details are the index of the version in a table of the world; so
//! a version is found again from what a ledger has kept, by any process.
//!
//! A new version follows from the booked one and from reports about it (`plan::workflow::revise`); who asks for it
//! is in [`reports`](super::reports). Left out: how pictures are fetched, budgets by the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use coalloc_common::workflow::{
    ActivityEvent, ActivityReport, ReportedProgress, Workflow, WorkflowGraph,
};
use coalloc_common::{
    Reason, Refusal, ReservationId, RmName, Segment, Span, Time, Topology, TransactionId,
    VertexName, limits,
};
use coalloc_plan::workflow::revise::{BookedWorkflow, Revision, RevisionOrder};
use coalloc_plan::workflow::{
    KeptPart, RefusedSegment, Schedule, ScratchTimetables, WorkflowInstance, WorkflowOptions,
};
use coalloc_plan::{Budget, WorkflowPlannerName};
use coalloc_protocol::conversation::{PlanJob, Planned};
use coalloc_protocol::coordinator::{Candidate, Report, Reservation};
use coalloc_protocol::participant::Phase;

use super::World;

/// Segments by resource manager.
pub type SegmentsByRm = BTreeMap<RmName, Vec<Segment>>;

/// So many times in a thousand, a planner sees what an RM has now. Otherwise it sees what it saw last.
const FRESH: u64 = 600;
/// Placements that one planning may try.
const PLACEMENTS_MAX: u64 = 2_000;
/// Until when pictures reach, after the present.
const KNOWN: Span = Span::from_secs(20_000);

/// What a user wants planned instead of fixed candidates.
#[derive(Debug, Clone)]
pub struct WantedWorkflow {
    pub workflow: Workflow,
    pub planner: WorkflowPlannerName,
}

/// One version of a workflow that was planned.
#[derive(Debug, Clone)]
pub struct WorkflowVersion {
    /// The workflow as it was planned: with the sites that are avoided.
    pub workflow: Workflow,
    pub schedule: Schedule,
    /// What placements that were given up have taken until then.
    pub past: SegmentsByRm,
    /// How many reports of the reservation it follows from.
    pub reports: usize,
    /// The version that it is to replace.
    pub base: Option<usize>,
    /// When it was planned, by the coordinator's clock.
    pub now: Time,
    /// Nothing that is placed anew begins before, and nothing is given back before.
    pub cut: Time,
}

/// What the shells of all coordinators know about workflows.
#[derive(Debug, Default)]
pub struct Workflows {
    /// The sites and paths of the world's RMs. Empty in a world without workflows.
    pub topology: Topology,
    pub(super) versions: Vec<WorkflowVersion>,
    /// What each RM had of each transaction when a planner last looked.
    picture: BTreeMap<usize, Vec<(TransactionId, Vec<Segment>)>>,
}

impl Workflows {
    /// The index of the version that a candidate books; `None` when it books no workflow.
    pub fn version_of(&self, candidate: &Candidate) -> Option<usize> {
        let index: usize = candidate.details.text().parse().ok()?;
        (index < self.versions.len()).then_some(index)
    }
}

/// The first slot that begins at an instant or later.
pub fn slot_from(at: Time) -> Time {
    let slot = limits::WORKFLOW_SLOT.as_us();
    Time::from_us(
        at.as_us().div_euclid(slot) * slot + (at.as_us().rem_euclid(slot)).signum() * slot,
    )
}

/// The text of a report as a shell keeps it.
pub fn report_text(report: &ActivityReport) -> String {
    serde_json::to_string(report).expect("a report is written")
}

/// The reports of activities among these reports.
pub fn activity_reports(reports: &[Report]) -> Vec<ActivityReport> {
    let read = |report: &Report| serde_json::from_str(&report.text).ok();
    reports.iter().filter_map(read).collect()
}

impl World {
    /// What is free for a planner of this coordinator. `own` is the reservation that is planned, with what it
    /// has booked.
    fn scratch(&mut self, own: Option<(&ReservationId, &SegmentsByRm)>) -> ScratchTimetables {
        let mut scratch = ScratchTimetables::new(&self.workflows.topology);
        for (rm, segments) in own.iter().flat_map(|(_, booked)| *booked) {
            let booked = scratch.book(rm, segments);
            debug_assert_eq!(booked, Ok(()), "what is booked fits");
        }
        let prefix = own.map(|(id, _)| format!("{id}/"));
        for rm in 0..self.rms.len() {
            if !self.workflows.picture.contains_key(&rm) || self.dice.per_mille(FRESH) {
                let taken = self.taken_at(rm);
                self.workflows.picture.insert(rm, taken);
            }
            let name = RmName::composed(&*self.rms[rm].name);
            for (txn, segments) in &self.workflows.picture[&rm] {
                if prefix.as_ref().is_some_and(|own| txn.as_str().starts_with(own)) {
                    continue;
                }
                for segment in segments {
                    // A booking and its new version are both seen, and together they may exceed the capacity.
                    let _ = scratch.book(&name, std::slice::from_ref(segment));
                }
            }
        }
        scratch
    }

    /// What an RM has held or booked.
    fn taken_at(&self, rm: usize) -> Vec<(TransactionId, Vec<Segment>)> {
        let entries = self.rms[rm].shadow.entries().iter();
        let live = entries.filter(|(_, of)| matches!(of.phase, Phase::Held(_) | Phase::Booked));
        let taken = live.filter_map(|(txn, of)| Some((txn.clone(), of.order.as_ref()?)));
        taken.map(|(txn, order)| (txn, order.segments.clone())).collect()
    }

    /// What a coordinator's own clock shows.
    fn wall(&self, grc: usize) -> Time {
        self.grcs[grc].now(self.now_us).wall
    }

    /// A shell plans a user's workflow, for the first time or again after refusals.
    pub(super) fn plan_workflow(&mut self, grc: usize, demand: usize, job: &PlanJob) -> Planned {
        let Some(wanted) = self.clients.demands[demand].workflow.clone() else {
            return Err(nothing("it is no workflow")).into();
        };
        let from = slot_from(self.wall(grc).saturating_add(limits::WORKFLOW_LEAD));
        let ready = wanted.workflow.ready.max(from);
        let workflow = Workflow { ready, ..wanted.workflow };
        if ready >= workflow.deadline {
            return Err(nothing("the deadline has passed")).into();
        }
        let graph = WorkflowGraph::new(&workflow).expect("a workflow that was checked");
        let topology = self.workflows.topology.clone();
        let instance = instance(&topology, &workflow, &graph);
        let mut scratch = self.scratch(None);
        let kept = self.kept_before(grc, job, &instance).filter(|kept| {
            let mut booked = scratch.clone();
            let segments = kept.segments(&instance);
            let fits = segments.iter().all(|(rm, segments)| booked.book(rm, segments).is_ok());
            if fits {
                scratch = booked;
            }
            fits
        });
        let instance = WorkflowInstance { kept: kept.as_ref(), ..instance };
        let stop = AtomicBool::new(false);
        let planner = wanted.planner.planner();
        match planner.plan(&instance, &mut scratch, &budget(&stop)).outcome {
            Ok(schedule) => {
                self.counts.workflows += 1;
                let (past, now, cut) = (SegmentsByRm::new(), self.wall(grc), workflow.ready);
                self.candidate_of(WorkflowVersion {
                    workflow,
                    schedule,
                    past,
                    reports: 0,
                    base: None,
                    now,
                    cut,
                })
            }
            Err(refused) => Err(refused.refusal).into(),
        }
    }

    /// What stays of the last attempt when an RM has refused a part of it.
    fn kept_before(
        &self,
        grc: usize,
        job: &PlanJob,
        instance: &WorkflowInstance<'_>,
    ) -> Option<KeptPart> {
        let refused = job.refusals.last()?;
        let known = self.grcs[grc].core.as_ref()?.find(job.reservation()?.as_str())?;
        let last = self.workflows.version_of(known.candidate.as_ref()?)?;
        let schedule = &self.workflows.versions[last].schedule;
        let refused = RefusedSegment {
            rm: refused.rm.as_ref()?,
            resource: refused.resource.as_ref(),
            window: refused.window,
        };
        let kept = KeptPart::before(instance, schedule, refused)?;
        let ready = instance.workflow.ready;
        let mut starts = kept.activities.iter().flatten().map(|placed| placed.window.start());
        let journeys = kept.transfers.iter().map(|journey| journey.window.start());
        starts.all(|start| start >= ready).then_some(())?;
        journeys.min().is_none_or(|start| start >= ready).then_some(kept)
    }

    /// A shell plans the next version of a booked workflow, from the first so many reports. `None`: nothing
    /// changes.
    pub(super) fn plan_revision(
        &mut self,
        grc: usize,
        reservation: &ReservationId,
        reports: usize,
        avoid: &BTreeSet<VertexName>,
    ) -> Option<Planned> {
        let core = self.grcs[grc].core.as_ref()?;
        let known = core.find(reservation.as_str())?.clone();
        let said = activity_reports(core.reports(reservation).get(..reports)?);
        let base = self.workflows.version_of(known.candidate.as_ref()?)?;
        let planner = self.planner_of(grc, &known)?;
        let version = self.workflows.versions[base].clone();
        let WorkflowVersion { workflow, schedule, past, .. } = &version;
        let graph = WorkflowGraph::new(workflow).expect("a workflow that was checked");
        let topology = self.workflows.topology.clone();
        let instance = instance(&topology, workflow, &graph);
        let of = |index: usize| {
            let name = &workflow.activities[index].name;
            let own = said.iter().filter(|report| report.activity == *name);
            ReportedProgress::of(own, schedule.activities[index].window)
        };
        let reported: Vec<ReportedProgress> = (0..workflow.activities.len()).map(of).collect();
        let now = self.wall(grc);
        let order = RevisionOrder {
            now,
            cut: slot_from(now.saturating_add(limits::WORKFLOW_LEAD)),
            excluded: avoid.clone(),
            excluded_of: excluded_of(workflow, schedule, &said),
            again: BTreeSet::new(),
        };
        let booked = BookedWorkflow { schedule, past, reported: &reported };
        let revision = match Revision::new(&instance, &booked, &order) {
            Ok(revision) if revision.is_empty() => return None,
            Ok(revision) => revision,
            Err(error) => {
                self.counts.contradictions += 1;
                return Some(Err(nothing(&error.to_string())).into());
            }
        };
        let mut own = schedule.segments(&topology, workflow);
        add(&mut own, past);
        let mut scratch = self.scratch(Some((reservation, &own)));
        let stop = AtomicBool::new(false);
        let until = now.saturating_add(KNOWN);
        let planner = planner.planner();
        let budget = budget(&stop);
        let answer = revision.plan(planner.as_ref(), &instance, &mut scratch, until, &budget);
        match answer.outcome {
            Ok(schedule) => {
                self.counts.revisions += 1;
                Some(self.candidate_of(WorkflowVersion {
                    schedule,
                    workflow: revision.workflow,
                    past: revision.past,
                    reports,
                    base: Some(base),
                    now,
                    cut: order.cut,
                }))
            }
            Err(refused) => {
                self.counts.unrevised += 1;
                Some(Err(refused.refusal).into())
            }
        }
    }

    /// Which planner plans a reservation: the one that its user has chosen.
    fn planner_of(&self, grc: usize, known: &Reservation) -> Option<WorkflowPlannerName> {
        let demand = self.demand_of(grc, known)?;
        self.clients.demands[demand].workflow.as_ref().map(|wanted| wanted.planner)
    }

    /// The candidate that books a version, which joins the table.
    fn candidate_of(&mut self, version: WorkflowVersion) -> Planned {
        let index = self.workflows.versions.len();
        let mut segments = version.schedule.segments(&self.workflows.topology, &version.workflow);
        add(&mut segments, &version.past);
        self.workflows.versions.push(version);
        let details = index.to_string().into();
        Ok(vec![Candidate { segments, details, ..Candidate::default() }]).into()
    }
}

fn instance<'a>(
    topology: &'a Topology,
    workflow: &'a Workflow,
    graph: &'a WorkflowGraph,
) -> WorkflowInstance<'a> {
    let (slot, options) = (limits::WORKFLOW_SLOT, WorkflowOptions::default());
    WorkflowInstance { topology, workflow, graph, slot, options, kept: None }
}

const fn budget(stop: &AtomicBool) -> Budget<'_> {
    Budget { nodes: PLACEMENTS_MAX, solver_time: Span::ZERO, stop }
}

fn nothing(why: &str) -> Refusal {
    Refusal::new(Reason::NoRoute, why)
}

fn add(all: &mut SegmentsByRm, more: &SegmentsByRm) {
    for (rm, segments) in more {
        all.entry(rm.clone()).or_default().extend(segments.iter().cloned());
    }
}

/// The sites that failures of the present placements exclude.
fn excluded_of(
    workflow: &Workflow,
    schedule: &Schedule,
    said: &[ActivityReport],
) -> BTreeMap<usize, BTreeSet<VertexName>> {
    let mut excluded: BTreeMap<usize, BTreeSet<VertexName>> = BTreeMap::new();
    for report in said.iter().filter(|report| report.event == ActivityEvent::Failed) {
        let Some(index) = workflow.find_activity(report.activity.as_str()) else { continue };
        if report.at >= schedule.activities[index].window.start() {
            excluded.entry(index).or_default().extend(report.excluded.iter().cloned());
        }
    }
    excluded
}
