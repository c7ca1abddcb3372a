//! One plan of a workflow. What is believed to be free becomes timetables, in which a planner of `coalloc_plan` tries
//! placements on the planners' threads, under a budget. The plan becomes the candidate that the coordinator of
//! `protocol` tries.
//!
//! A short search comes first, on the threads for quick planning. If its budget does not suffice, the workflow is
//! planned on the threads of lowest priority.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use coalloc_common::invalid::InvalidField;
use coalloc_common::{
    Amount, Reason, Refusal, RmName, Segment, Span, Time, Topology, Window, limits,
};
use coalloc_net::convert::{
    ParsedWorkflow, ParsedWorkflowOptions, schedule_from_wire, time_to_wire, user_name,
    workflow_answer_to_wire, workflow_from_wire, workflow_options,
};
use coalloc_net::{status, traces};
use coalloc_plan::workflow::{
    KeptPart, RefusedSegment, ScratchTimetables, WorkflowAnswer, WorkflowInstance, WorkflowRefusal,
};
use coalloc_plan::{Budget, Named as _};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::Candidate;
use tonic::Status;

use crate::availability::federation::Snapshot;
use crate::calls::service::GrcService;
use crate::pictures::believed::BelievedProfiles;
use crate::planning::Depth;
use crate::views::kept::{self, KeptRequest};

/// The result of planning a workflow.
#[derive(Debug)]
pub struct PlannedWorkflow {
    /// The answer in the schema.
    pub answer: v1::PlanWorkflowResponse,
    /// The plan as a candidate, with what the ledger keeps of it; or why there is none.
    pub candidate: Result<Candidate, Refusal>,
}

/// An admitted workflow.
#[derive(Debug, Clone)]
pub struct AdmittedWorkflow {
    parsed: ParsedWorkflow,
    options: ParsedWorkflowOptions,
    /// What revisions will need.
    request: KeptRequest,
}

/// A plan that a resource manager has refused.
#[derive(Debug, Clone)]
pub struct RefusedPlan {
    /// The plan.
    pub plan: v1::WorkflowPlan,
    /// The refusal.
    pub refusal: Refusal,
}

/// Admits a workflow. Nothing of it begins before `soonest`.
///
/// # Errors
/// INVALID_ARGUMENT naming field, value and allowed range; UNAVAILABLE when no RM has described itself yet, or when a
/// site is unknown while some RM has not described itself, because the site may belong to that RM.
pub fn admit(
    request: Option<&v1::Workflow>,
    options: Option<&v1::WorkflowOptions>,
    federation: &Snapshot,
    soonest: Time,
) -> Result<AdmittedWorkflow, Status> {
    let missing: Vec<&str> = federation.missing.iter().map(|rm| rm.as_str()).collect();
    if federation.members.is_empty() && !missing.is_empty() {
        return Err(status::nobody_heard(&missing));
    }
    let inner = || {
        let none = || InvalidField::missing("workflow", "what is wanted");
        let wire = request.ok_or_else(none)?;
        user_name("workflow.user", &wire.user)?;
        let within = |error: InvalidField| error.within("workflow");
        let topology = Some(federation.topology.as_ref());
        let mut parsed = workflow_from_wire(topology, wire, soonest).map_err(within)?;
        // Nothing begins in the past, even if the workflow was ready then.
        parsed.workflow.ready = parsed.workflow.ready.max(soonest);
        let (ready, deadline) = (parsed.workflow.ready, parsed.workflow.deadline);
        if deadline <= ready {
            let allowed = format!("later than the earliest start that can be planned, {ready}");
            return Err(InvalidField::new("workflow.deadline", deadline, allowed));
        }
        let request = KeptRequest {
            workflow: v1::Workflow {
                ready: Some(time_to_wire(ready)),
                deadline: Some(time_to_wire(deadline)),
                ..wire.clone()
            },
            options: options.cloned(),
            excluded: BTreeMap::new(),
            past: Vec::new(),
        };
        Ok(AdmittedWorkflow { parsed, options: workflow_options(options)?, request })
    };
    inner().map_err(|error: InvalidField| {
        let is_place = error.allowed.contains("of the federation");
        match missing.is_empty() || !is_place {
            true => status::invalid(&error),
            false => status::not_known_yet(&error, &missing),
        }
    })
}

impl GrcService {
    /// Plans a workflow on what is believed now. Of a plan that was refused, the part stays that ranks before the
    /// first node which takes something of what was refused.
    ///
    /// # Errors
    /// As [`admit`]; RESOURCE_EXHAUSTED when too much is being planned already.
    pub(crate) async fn plan_workflow_now(
        &self,
        request: Option<&v1::Workflow>,
        options: Option<&v1::WorkflowOptions>,
        refused: Option<RefusedPlan>,
    ) -> Result<PlannedWorkflow, Status> {
        let federation = self.federation.settled().await;
        let lead = self.pictures.settings().lead.max(limits::WORKFLOW_LEAD);
        let soonest = self.handle.now().wall.saturating_add(lead).next_second();
        // Errors of the request are reported before any RM is asked.
        let admission = traces::part("admission");
        let admitted = admit(request, options, &federation, soonest)?;
        drop(admission);
        let picture = traces::part("picture");
        let window = admitted.window()?;
        let believed = self.pictures.believed(window).await;
        drop(picture);
        let planning = traces::part("planning");
        let again = refused.map(|refused| (refused, self.handle.now().wall));
        let search = move || WorkflowSearch::new(federation, admitted, believed, window, again);
        let planned = self.searched_workflow(search).await?;
        planning.set("coalloc.plans", usize::from(planned.candidate.is_ok()));
        Ok(planned)
    }

    async fn searched_workflow(
        &self,
        search: impl FnOnce() -> WorkflowSearch + Send + 'static,
    ) -> Result<PlannedWorkflow, Status> {
        let time = limits::WORKFLOW_PLANNING_MAX;
        let quick = move |stop: &AtomicBool| {
            let mut search = search();
            let answer = search.search(limits::WORKFLOW_QUICK_PLACEMENTS, stop);
            let is_open = is_exhausted(&answer);
            let planned = (!is_open).then(|| search.planned(answer));
            (search, planned)
        };
        let (mut search, planned) = self.planners.search(Depth::Short, time, quick).await?;
        if let Some(planned) = planned {
            return Ok(planned);
        }
        let long = move |stop: &AtomicBool| {
            let answer = search.search(limits::PLANNING_NODES_MAX, stop);
            search.planned(answer)
        };
        self.planners.search(Depth::Whole, time, long).await
    }
}

impl AdmittedWorkflow {
    /// The workflow for planners.
    fn instance<'a>(&'a self, topology: &'a Topology) -> WorkflowInstance<'a> {
        WorkflowInstance {
            topology,
            workflow: &self.parsed.workflow,
            graph: &self.parsed.graph,
            slot: limits::WORKFLOW_SLOT,
            options: self.options.options,
            kept: None,
        }
    }

    /// The window over which profiles have to be known. It goes on after the deadline, so that a refusal can say when
    /// the workflow could end.
    fn window(&self) -> Result<Window, Status> {
        let (ready, deadline) = (self.parsed.workflow.ready, self.parsed.workflow.deadline);
        let start = ready.saturating_sub(limits::WORKFLOW_SLOT);
        Window::new(start, deadline.saturating_add(limits::WORKFLOW_DEADLINE_DEFAULT)).ok_or_else(
            || {
                let allowed = "later than `ready`";
                status::invalid(&InvalidField::new("workflow.deadline", deadline, allowed))
            },
        )
    }
}

pub(super) fn is_exhausted(answer: &WorkflowAnswer) -> bool {
    let refused = answer.outcome.as_ref().err();
    refused.is_some_and(|refused| refused.refusal.reason == Reason::BudgetExhausted)
}

/// One workflow's search: the workflow, and the timetables that are believed.
struct WorkflowSearch {
    federation: Arc<Snapshot>,
    admitted: AdmittedWorkflow,
    believed: BelievedProfiles,
    timetables: ScratchTimetables,
    /// The window over which profiles are believed.
    window: Window,
    /// What stays of a plan that was refused.
    kept: Option<KeptPart>,
}

impl WorkflowSearch {
    fn new(
        federation: Arc<Snapshot>,
        admitted: AdmittedWorkflow,
        believed: BelievedProfiles,
        window: Window,
        again: Option<(RefusedPlan, Time)>,
    ) -> Self {
        let mut timetables = ScratchTimetables::new(&federation.topology);
        believed.limit(&mut timetables, window);
        let mut search = Self { federation, admitted, believed, timetables, window, kept: None };
        if let Some((refused, now)) = again {
            search.keep_part_of(&refused, now);
        }
        search
    }

    /// Keeps what the refusal does not touch, unless it begins too soon to be held again, or is not free any more.
    fn keep_part_of(&mut self, refused: &RefusedPlan, now: Time) {
        let (topology, parsed) = (&self.federation.topology, &self.admitted.parsed);
        let Some(schedule) = schedule_from_wire(topology, parsed, &refused.plan) else { return };
        let RefusedPlan { refusal, .. } = refused;
        let Some(rm) = &refusal.rm else { return };
        let what =
            RefusedSegment { rm, resource: refusal.resource.as_ref(), window: refusal.window };
        let instance = self.admitted.instance(topology);
        let Some(kept) = KeptPart::before(&instance, &schedule, what) else { return };
        let segments = kept.segments(&instance);
        let soonest = now.saturating_add(limits::WORKFLOW_KEPT_LEAD);
        let begins = |segment: &Segment| segment.window.start() >= soonest;
        if !segments.values().flatten().all(begins) {
            return;
        }
        let mut timetables = self.timetables.clone();
        let is_free = segments.iter().all(|(rm, segments)| timetables.book(rm, segments).is_ok());
        if is_free {
            (self.timetables, self.kept) = (timetables, Some(kept));
        }
    }

    fn search(&mut self, nodes: u64, stop: &AtomicBool) -> WorkflowAnswer {
        let Self { federation, admitted, timetables, kept, .. } = self;
        let planner = admitted.options.planner.planner();
        let budget = Budget { nodes, solver_time: Span::ZERO, stop };
        let instance =
            WorkflowInstance { kept: kept.as_ref(), ..admitted.instance(&federation.topology) };
        let answer = planner.plan(&instance, timetables, &budget);
        if answer.outcome.is_ok() || is_exhausted(&answer) || kept.is_none() {
            return answer;
        }
        // Perhaps there is a plan without the part that was to stay.
        (self.kept, self.timetables) = (None, ScratchTimetables::new(&self.federation.topology));
        self.believed.limit(&mut self.timetables, self.window);
        self.search(nodes, stop)
    }

    fn planned(&self, answer: WorkflowAnswer) -> PlannedWorkflow {
        let AdmittedWorkflow { parsed, options, request } = &self.admitted;
        let topology = &self.federation.topology;
        let refuse = |refused: Box<WorkflowRefusal>| {
            let refusal = self.believed.blame(refused.refusal.clone());
            Box::new(WorkflowRefusal { refusal, ..*refused })
        };
        let outcome = answer.outcome.map_err(refuse).and_then(|schedule| {
            let segments = schedule.segments(topology, &parsed.workflow);
            too_many(&segments).map_or(Ok((schedule, segments)), Err)
        });
        let (outcome, segments) = match outcome {
            Ok((schedule, segments)) => (Ok(schedule), segments),
            Err(refused) => (Err(refused), BTreeMap::new()),
        };
        let answer = WorkflowAnswer { outcome, effort: answer.effort };
        let wire = workflow_answer_to_wire(topology, parsed, options.planner.name(), &answer);
        let candidate = match (&wire.plan, answer.outcome) {
            (_, Err(refused)) => Err(in_words(refused.as_ref())),
            (None, Ok(_)) => Err(Refusal::new(Reason::NoRoute, "the planner found nothing to try")),
            (Some(plan), Ok(_)) => Ok(Candidate {
                segments,
                details: kept::workflow(plan, wire.effort.unwrap_or_default(), None, Some(request))
                    .into(),
                ..Candidate::default()
            }),
        };
        PlannedWorkflow { answer: wire, candidate }
    }
}

/// The refusal of a plan that has more segments at one RM than fit into one Hold.
pub(super) fn too_many(segments: &BTreeMap<RmName, Vec<Segment>>) -> Option<Box<WorkflowRefusal>> {
    let most = limits::HOLD_SEGMENTS_MAX;
    let (rm, all) = segments.iter().find(|(_, all)| all.len() > most)?;
    let count = all.len();
    let detail = format!(
        "the plan has {count} segments at {rm}, more than the {most} that fit into one Hold; split the workflow, or \
         let its activities run at more sites"
    );
    let refusal = Refusal {
        rm: Some(rm.clone()),
        requested: Some(Amount(count as u64)),
        available: Some(Amount(most as u64)),
        ..Refusal::new(Reason::BeyondCapacity, detail)
    };
    Some(Box::new(WorkflowRefusal { activities: Vec::new(), refusal, earliest_finish: None }))
}

/// A refusal with its earliest finish in words: the ledger keeps nothing else of a later planning.
pub(super) fn in_words(refused: &WorkflowRefusal) -> Refusal {
    let refusal = refused.refusal.clone();
    match refused.earliest_finish {
        Some(end) if !refusal.detail.contains(&end.to_string()) => {
            Refusal { detail: format!("{}; it could end at {end}", refusal.detail), ..refusal }
        }
        _ => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coalloc_common::ResourceId;

    #[test]
    fn what_does_not_fit_into_one_hold_is_refused_and_named() {
        let segment = |at: i64| Segment {
            resource: ResourceId::composed("A"),
            amount: Amount(1),
            window: Window::starting(Time::from_us(at), Span::from_secs(1)).unwrap(),
        };
        let of = |count: usize| {
            let all: Vec<Segment> = (0..count as i64).map(segment).collect();
            BTreeMap::from([(RmName::composed("crm-A"), all)])
        };
        assert_eq!(too_many(&of(limits::HOLD_SEGMENTS_MAX)), None);
        let refused = too_many(&of(limits::HOLD_SEGMENTS_MAX + 1)).unwrap();
        assert_eq!(refused.refusal.rm, Some(RmName::composed("crm-A")));
        assert!(refused.refusal.detail.contains("4097 segments at crm-A"), "{refused:?}");
    }
}
