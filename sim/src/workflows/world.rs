//! The world: workflows arrive in order, and each is planned at its arrival on what is free then.
//!
//! One [`ScratchTimetables`] is kept for the whole run. A planner leaves it as it was; what is accepted is
//! booked; what is past is forgotten. A workflow that the planner refuses is rejected for ever, and one that is accepted
//! is never moved. In a debug build every schedule is verified against the workflow and against what is
//! free before it is booked.
//!
//! Source: Decker 2007, sections II-D and V. Left out: the time that planning takes.

use std::sync::atomic::AtomicBool;

use coalloc_common::workflow::{Workflow, WorkflowGraph};
use coalloc_common::{Reason, Span, Time, Topology, VertexIndex, Window};
use coalloc_plan::Budget;
use coalloc_plan::workflow::rank::Ranks;
use coalloc_plan::workflow::{
    Schedule, ScratchTimetables, WorkflowEffort, WorkflowInstance, WorkflowOptions,
    WorkflowPlanner, WorkflowRefusal, check,
};

use super::generator::{ArrivingWorkflow, Generator, SLOT};
use super::settings::WorkflowsSettings;
use crate::experiment::{ModelError, Trace, TraceEvent};

/// Why a workflow was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rejection {
    /// Even on empty machines it would miss its deadline.
    Deadline,
    /// A single activity cannot end by the deadline.
    Single,
    /// No machines are free for the members of a set.
    Set,
    /// No link is free for a channel of a set, or the data of a set do not arrive in time.
    Network,
    /// The planner has used up its placements.
    Budget,
    /// Any other reason.
    Other,
}

impl Rejection {
    /// All reasons.
    pub(super) const ALL: [Self; 6] =
        [Self::Deadline, Self::Single, Self::Set, Self::Network, Self::Budget, Self::Other];

    /// The word for it, in names of metrics and in traces.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Single => "single",
            Self::Set => "set",
            Self::Network => "network",
            Self::Budget => "budget",
            Self::Other => "other",
        }
    }

    fn of(refusal: &WorkflowRefusal) -> Self {
        match (refusal.refusal.reason, refusal.activities.len()) {
            (Reason::OutsideHorizon, _) => Self::Deadline,
            (Reason::BudgetExhausted, _) => Self::Budget,
            (Reason::NoRoute, _) => Self::Network,
            (Reason::InsufficientCapacity, 0 | 1) => Self::Single,
            (Reason::InsufficientCapacity, _) => Self::Set,
            _ => Self::Other,
        }
    }
}

/// What became of an accepted workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AcceptedWorkflow {
    /// The start of its first activity or transfer.
    pub(super) start: Time,
    /// The end of its last activity.
    pub(super) end: Time,
}

/// One workflow and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkflowOutcome {
    pub(super) at: Time,
    pub(super) ready: Time,
    /// The critical path with mean durations and transfers.
    pub(super) critical_path: Span,
    pub(super) activities: u64,
    pub(super) dependencies: u64,
    pub(super) synchronous: u64,
    pub(super) sets: u64,
    pub(super) channels: u64,
    /// CPUs times million instructions, over all activities.
    pub(super) cpu_mi: u128,
    pub(super) effort: WorkflowEffort,
    pub(super) outcome: Result<AcceptedWorkflow, Rejection>,
}

/// CPUs of one machine that an activity has booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BookedCpus {
    pub(super) window: Window,
    pub(super) cpus: u64,
    /// CPUs times the time that the work itself takes, microseconds.
    pub(super) working_us: u128,
}

/// Everything that happened in a run.
#[derive(Debug, Default)]
pub(super) struct WorkflowRecord {
    /// How many workflows at the beginning are not measured.
    pub(super) warm_up: usize,
    pub(super) workflows: Vec<WorkflowOutcome>,
    /// In the order of booking, with those of the warm-up.
    pub(super) booked: Vec<BookedCpus>,
}

/// The world of a run.
pub(super) struct World<'a> {
    settings: &'a WorkflowsSettings,
    planner: Box<dyn WorkflowPlanner>,
    topology: &'a Topology,
    generator: Generator<'a>,
    scratch: ScratchTimetables,
    /// Never set: a run is not stopped by a clock.
    stop: AtomicBool,
    record: WorkflowRecord,
}

impl<'a> World<'a> {
    pub(super) fn new(
        settings: &'a WorkflowsSettings,
        planner: Box<dyn WorkflowPlanner>,
        topology: &'a Topology,
        recorded: Option<&'a Workflow>,
        seed: u64,
    ) -> Self {
        // At most WORKFLOWS_MAX.
        let warm_up = settings.workload.warm_up as usize;
        Self {
            settings,
            planner,
            topology,
            generator: Generator::new(&settings.workload, recorded, seed),
            scratch: ScratchTimetables::new(topology),
            stop: AtomicBool::new(false),
            record: WorkflowRecord { warm_up, ..WorkflowRecord::default() },
        }
    }

    /// Runs all workflows.
    ///
    /// # Errors
    /// [`ModelError::Defect`], see [`super::run`].
    pub(super) fn run(mut self, trace: &mut dyn Trace) -> Result<WorkflowRecord, ModelError> {
        for request in 0..self.settings.workload.workflows {
            let arriving = self.generator.draw_next();
            self.arrive(request, arriving, trace)?;
        }
        Ok(self.record)
    }

    fn arrive(
        &mut self,
        request: u64,
        arriving: ArrivingWorkflow,
        trace: &mut dyn Trace,
    ) -> Result<(), ModelError> {
        let ArrivingWorkflow { at, mut workflow } = arriving;
        let defect = |error: &dyn std::fmt::Display| {
            ModelError::Defect(format!("workflow {request}: {error}"))
        };
        let graph = WorkflowGraph::new(&workflow).map_err(|error| defect(&error))?;
        let critical_path = Ranks::new(&self.instance(&workflow, &graph)).critical_path();
        workflow.deadline = deadline(&workflow, critical_path, self.settings);
        let us = at.as_us();
        if trace.is_wanted() {
            trace.event(TraceEvent::Arrived { at: us, request, user: "".into() });
        }
        self.scratch.forget_before(at);
        let instance = WorkflowInstance {
            topology: self.topology,
            workflow: &workflow,
            graph: &graph,
            slot: SLOT,
            options: self.options(),
            kept: None,
        };
        let budget =
            Budget { nodes: self.settings.placements, solver_time: Span::ZERO, stop: &self.stop };
        trace.event(TraceEvent::PlanningBegins { at: us, request });
        let answer = self.planner.plan(&instance, &mut self.scratch, &budget);
        let plans = u64::from(answer.outcome.is_ok());
        trace.event(TraceEvent::PlanningEnds { at: us, request, plans });
        let outcome = match answer.outcome {
            Ok(schedule) => {
                if cfg!(debug_assertions) {
                    check::verify(self.topology, &workflow, &self.scratch, &schedule)
                        .map_err(|error| defect(&error))?;
                }
                self.book(&workflow, &schedule).map_err(|error| defect(&error))?;
                if trace.is_wanted() {
                    self.report_booked(us, request, &workflow, &schedule, trace);
                }
                let (start, end) = schedule.start().zip(schedule.end()).unwrap_or((at, at));
                Ok(AcceptedWorkflow { start, end })
            }
            Err(refusal) => {
                let rejection = Rejection::of(&refusal);
                let (resource, reason) = ("".into(), rejection.word().into());
                trace.event(TraceEvent::Refused { at: us, request, resource, reason });
                Err(rejection)
            }
        };
        trace.event(TraceEvent::Ended { at: us, request, accepted: outcome.is_ok() });
        self.record.workflows.push(WorkflowOutcome {
            at,
            ready: workflow.ready,
            critical_path,
            activities: workflow.activities.len() as u64,
            dependencies: workflow.data.len() as u64,
            synchronous: workflow.sync_sets.iter().map(|set| set.len() as u64).sum(),
            sets: workflow.sync_sets.len() as u64,
            channels: workflow.channels.len() as u64,
            cpu_mi: cpu_mi(&workflow),
            effort: answer.effort,
            outcome,
        });
        Ok(())
    }

    const fn options(&self) -> WorkflowOptions {
        let WorkflowsSettings { discrepancies, route_edges, .. } = self.settings;
        WorkflowOptions { route_edges_max: *route_edges, discrepancies: *discrepancies }
    }

    const fn instance<'b>(
        &'b self,
        workflow: &'b Workflow,
        graph: &'b WorkflowGraph,
    ) -> WorkflowInstance<'b> {
        let (topology, options) = (self.topology, self.options());
        WorkflowInstance { topology, workflow, graph, slot: SLOT, options, kept: None }
    }

    /// Books a schedule for good.
    fn book(&mut self, workflow: &Workflow, schedule: &Schedule) -> Result<(), String> {
        for (rm, segments) in schedule.segments(self.topology, workflow) {
            self.scratch.book(&rm, &segments).map_err(|shortfall| format!("{rm}: {shortfall}"))?;
        }
        for (activity, placed) in workflow.activities.iter().zip(&schedule.activities) {
            let vertex = self.topology.vertex(placed.site);
            let mips = vertex.compute.as_ref().map_or(1, |compute| compute.mips);
            let working = activity.work.duration_at(&vertex.name, mips).unwrap_or(Span::ZERO);
            let cpus = activity.cpus.0;
            let working_us = u128::from(cpus) * u128::from(working.as_us().unsigned_abs());
            self.record.booked.push(BookedCpus { window: placed.window, cpus, working_us });
        }
        Ok(())
    }

    fn report_booked(
        &self,
        at: i64,
        request: u64,
        workflow: &Workflow,
        schedule: &Schedule,
        trace: &mut dyn Trace,
    ) {
        for segments in schedule.segments(self.topology, workflow).values() {
            for segment in segments {
                trace.event(TraceEvent::Reserved {
                    at,
                    request,
                    resource: segment.resource.as_str().into(),
                    amount: segment.amount.0,
                    start: segment.window.start().as_us(),
                    end: segment.window.end().as_us(),
                });
            }
        }
    }
}

/// The deadline: so many percent of the critical path after the workflow is ready.
fn deadline(workflow: &Workflow, critical_path: Span, settings: &WorkflowsSettings) -> Time {
    let percent = i128::from(settings.workload.deadline_percent);
    let us = i128::from(critical_path.as_us()) * percent / 100;
    // Settings with longer chains than DURATION_MAX are refused.
    let span = Span::from_us(i64::try_from(us).unwrap_or(i64::MAX));
    workflow.ready.saturating_add(span).max(workflow.deadline)
}

fn cpu_mi(workflow: &Workflow) -> u128 {
    let of = |activity: &coalloc_common::workflow::Activity| match activity.work {
        coalloc_common::workflow::Work::Load { mi } => u128::from(activity.cpus.0) * u128::from(mi),
        _ => 0,
    };
    workflow.activities.iter().map(of).sum()
}

/// The CPUs of all machines, and the sum of their speeds.
pub(super) fn machines(topology: &Topology) -> (u64, u64) {
    let all = topology.sites().map(|(_, _, compute): (VertexIndex, _, _)| compute);
    all.fold((0, 0), |(cpus, mips), compute| (cpus + compute.capacity.0, mips + compute.mips))
}
