//! One plan of a task. What is believed is cut into vectors and searched on the planners' threads, under a budget. The
//! plan becomes the candidate that the coordinator of `protocol` tries.
//!
//! A short search comes first, on the threads for quick planning. What it leaves open is searched to the end on the
//! threads of lowest priority. Every thread reuses its memory from task to task. If a plan is ready only after its
//! first segment should have begun, the task is planned again with a longer lead.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use coalloc_common::{InvalidField, Reason, RmName, Span, Time, Window, limits};
use coalloc_net::convert::{effort_to_wire, found_to_wire, whole_to_wire};
use coalloc_net::{metrics, status, traces};
use coalloc_plan::Budget;
use coalloc_plan::TaskPlannerName;
use coalloc_plan::multicost::{
    BelievedNetwork, Output, Scratch, Task, TaskInstance, TaskPlanning, WholePlan, whole,
};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::Candidate;
use tonic::Status;

use super::admission::{AdmittedTask, admit};
use crate::availability::federation::Snapshot;
use crate::calls::service::GrcService;
use crate::pictures::believed::BelievedProfiles;
use crate::planning::Depth;
use crate::views::receipt;

thread_local! {
    /// Memory that this thread's searches reuse. It holds nothing that a plan depends on.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The result of planning a task.
#[derive(Debug)]
pub struct PlannedTask {
    /// The federation that it was planned on.
    pub federation: Arc<Snapshot>,
    /// The task as planners got it.
    pub task: Task,
    /// The network as planners saw it.
    pub picture: BelievedNetwork,
    /// The planners' result. A refusal names the RMs of which nothing was known.
    pub whole: TaskPlanning,
    /// For each known RM, the age of what was known of it.
    pub ages: BTreeMap<RmName, Span>,
}

impl PlannedTask {
    /// The result in the schema.
    #[must_use]
    pub fn to_wire(&self) -> v1::TaskPlanResponse {
        whole_to_wire(&self.federation.topology, &self.picture, &self.task, &self.whole)
    }

    /// The best plan as a candidate, with what the ledger keeps of it. `tried` has one entry for each earlier try: the
    /// age of what was known of the RM that refused it.
    #[must_use]
    pub fn candidate(&self, found: &WholePlan, one_way: bool, tried: &[Option<Span>]) -> Candidate {
        let topology = &self.federation.topology;
        let wire = found_to_wire(topology, &self.picture, &self.task, found);
        let effort = effort_to_wire(self.whole.effort);
        Candidate {
            segments: found.segments(topology, &self.picture, &self.task),
            order: if one_way { found.way(topology, &self.picture) } else { Vec::new() },
            one_way,
            details: receipt::details(&wire, effort, &self.ages, tried).into(),
            ..Candidate::default()
        }
    }

    /// Does any plan have a leg or a run that begins before `now`?
    fn begins_before(&self, now: Time) -> bool {
        let Ok(found) = &self.whole.outcome else { return false };
        let begins = |found: &WholePlan| {
            let plan = found.plan();
            let legs = plan.legs.iter().map(|leg| leg.window.start());
            legs.chain([plan.run.start()]).min()
        };
        found.iter().filter_map(begins).any(|begin| begin < now)
    }
}

impl GrcService {
    /// Plans a task on what is believed now.
    ///
    /// # Errors
    /// As [`admit`]; RESOURCE_EXHAUSTED when too much is being planned already, or when plans were ready too late more
    /// than [`limits::TASK_LATE_MAX`] times.
    pub(crate) async fn plan_task_now(
        &self,
        request: Option<&v1::TaskRequest>,
        options: Option<&v1::TaskOptions>,
    ) -> Result<PlannedTask, Status> {
        let mut lead = self.pictures.settings().lead;
        let mut late = 0;
        loop {
            let begun = Instant::now();
            let federation = self.federation.settled().await;
            let soonest = self.handle.now().wall.saturating_add(lead);
            let settings = self.pictures.settings();
            // Errors of the request are reported before any RM is asked.
            let admission = traces::part("admission");
            let admitted = admit(request, options, settings, &federation, soonest)?;
            drop(admission);
            let picture = traces::part("picture");
            let believed = self.pictures.believed(window(&admitted)?).await;
            drop(picture);
            // Asking has taken time, so the task is admitted again at a later time.
            let now = self.handle.now().wall;
            let soonest = now.saturating_add(lead);
            let admitted = admit(request, options, settings, &federation, soonest)?;
            let planning = traces::part("planning");
            let planned = self.planned_on(federation, admitted, believed).await?;
            planning.set("coalloc.plans", planned.whole.outcome.as_ref().map_or(0, Vec::len));
            drop(planning);
            let now = self.handle.now().wall;
            metrics::tasks().planning_seconds.observe(metrics::seconds(begun.elapsed()));
            if planned.begins_before(now) {
                if late == limits::TASK_LATE_MAX {
                    return Err(status::busy());
                }
                late += 1;
                let took = Span::from_us(i64::try_from(begun.elapsed().as_micros()).unwrap_or(0));
                lead = lead.max(took).saturating_mul(2).min(limits::LATENCY_MAX);
                tracing::info!(%lead, "a plan was too late to start; planning with a longer lead");
                continue;
            }
            planned.observe_age();
            return Ok(planned);
        }
    }

    async fn planned_on(
        &self,
        federation: Arc<Snapshot>,
        admitted: AdmittedTask,
        believed: BelievedProfiles,
    ) -> Result<PlannedTask, Status> {
        let ages = believed.ages().clone();
        let planner = admitted.options.planner;
        let (snapshot, known) = (Arc::clone(&federation), believed.clone());
        let quick = move |stop: &AtomicBool| {
            let desk = TaskSearch::new(&snapshot, &admitted, &known)?;
            let found = desk.search(limits::QUICK_NODES, stop)?;
            Ok((desk, found))
        };
        let time = limits::TASK_PLANNING_MAX;
        let quick = self.planners.search(Depth::Short, time, quick).await?;
        let (mut desk, mut whole) = quick.map_err(|error: InvalidField| status::invalid(&error))?;
        if is_open(planner, &whole) {
            let long = move |stop: &AtomicBool| {
                let found = desk.search(limits::PLANNING_NODES_MAX, stop)?;
                Ok((desk, found))
            };
            let long = self.planners.search(Depth::Whole, time, long).await?;
            let (back, found) = long.map_err(|error: InvalidField| status::invalid(&error))?;
            desk = back;
            // The long search may have been stopped before it found what the short one has.
            if found.outcome.is_ok() || whole.outcome.is_err() {
                whole = found;
            }
        }
        if let Err(refused) = &mut whole.outcome {
            refused.refusal = believed.blame(refused.refusal.clone());
        }
        let TaskSearch { task, picture, .. } = desk;
        Ok(PlannedTask { federation, task, picture, whole, ages })
    }
}

/// One task's search: the task, and the network that is believed.
struct TaskSearch {
    planner: TaskPlannerName,
    task: Task,
    picture: BelievedNetwork,
    output: Option<Output>,
}

impl TaskSearch {
    /// Cuts what is believed into vectors.
    fn new(
        federation: &Snapshot,
        AdmittedTask { asked, options }: &AdmittedTask,
        believed: &BelievedProfiles,
    ) -> Result<Self, InvalidField> {
        let picture =
            BelievedNetwork::cut(&federation.topology, &asked.task, options.cut, believed)?;
        let unknown = || InvalidField::new("task.cluster", "it", "a site of the federation");
        let cluster = asked.cluster.map(|at| picture.cluster_at(at).ok_or_else(unknown));
        let task = Task { cluster: cluster.transpose()?, plans: options.plans, ..asked.task };
        Ok(Self { planner: options.planner, task, picture, output: asked.output })
    }

    fn search(&self, nodes: u64, stop: &AtomicBool) -> Result<TaskPlanning, InvalidField> {
        let budget = Budget { nodes, solver_time: Span::ZERO, stop };
        let instance = TaskInstance::new(&self.task, &self.picture)?;
        let planner = self.planner.planner();
        SCRATCH.with_borrow_mut(|scratch| {
            whole(planner.as_ref(), &instance, self.output, &budget, scratch)
        })
    }
}

impl PlannedTask {
    /// Records, as a metric, the age of the oldest part of the picture that the best plan rests on.
    fn observe_age(&self) {
        let Ok(found) = &self.whole.outcome else { return };
        let Some(best) = found.first() else { return };
        let rms = best.way(&self.federation.topology, &self.picture);
        let oldest = rms.iter().filter_map(|rm| self.ages.get(rm)).max();
        if let Some(age) = oldest {
            metrics::tasks().picture_age.observe(age.as_us() as f64 / 1e6);
        }
    }
}

/// Could a longer search give a better answer? Only mc-t proves that its plan is the best.
fn is_open(planner: TaskPlannerName, whole: &TaskPlanning) -> bool {
    match &whole.outcome {
        Ok(found) => {
            planner == TaskPlannerName::McT && found.first().is_some_and(|best| !best.is_proven())
        }
        Err(refused) => refused.refusal.reason == Reason::BudgetExhausted,
    }
}

/// The window over which profiles have to be known to plan a task.
fn window(admitted: &AdmittedTask) -> Result<Window, Status> {
    let cut = admitted.options.cut;
    let slot = cut.link_grid.slot().max(cut.cluster_grid.slot());
    let start = admitted.asked.task.ready.saturating_sub(slot);
    let length = cut.horizon.saturating_add(slot.saturating_mul(3));
    Window::starting(start, length).ok_or_else(|| {
        let allowed = "one that ends before 2255-06-05";
        status::invalid(&InvalidField::new("options.horizon", cut.horizon, allowed))
    })
}
