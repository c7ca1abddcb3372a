//! Plans a whole task: the run and, if the results travel on, the transfer of the results. Shells
//! use this function.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{InvalidField, RmName, Segment, Topology};

use super::{
    BelievedNetwork, Delivery, Effort, Leg, Output, Scratch, Task, TaskInstance, TaskOutcome,
    TaskPlan, TaskPlanner, TaskRefusal, deliver,
};
use crate::Budget;

/// A plan of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WholePlan {
    /// The results stay at the cluster.
    Stays(TaskPlan),
    /// The results travel on.
    Travels(Box<Delivery>),
}

/// The answer of a planner for a whole task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPlanning {
    /// At least one plan, the best one first; or why there is none.
    pub outcome: Result<Vec<WholePlan>, Box<TaskRefusal>>,
    /// The work it took.
    pub effort: Effort,
}

/// Plans a task and, with `output`, the transfer of its results. With a transfer there is at most
/// one plan.
///
/// # Errors
/// As [`deliver`].
pub fn whole(
    planner: &dyn TaskPlanner,
    instance: &TaskInstance<'_>,
    output: Option<Output>,
    budget: &Budget<'_>,
    scratch: &mut Scratch,
) -> Result<TaskPlanning, InvalidField> {
    if let Some(output) = output {
        let (outcome, effort) = deliver(planner, instance, output, budget, scratch)?;
        let outcome = outcome.map(|delivery| vec![WholePlan::Travels(Box::new(delivery))]);
        return Ok(TaskPlanning { outcome, effort });
    }
    let answer = planner.plan(instance, budget, scratch);
    let outcome = match answer.outcome {
        TaskOutcome::Planned(plans) => Ok(plans.into_iter().map(WholePlan::Stays).collect()),
        TaskOutcome::Refused(refusal) => Err(refusal),
    };
    Ok(TaskPlanning { outcome, effort: answer.effort })
}

impl WholePlan {
    /// The plan of the run and of the path of its input data.
    #[must_use]
    pub const fn plan(&self) -> &TaskPlan {
        match self {
            Self::Stays(plan) => plan,
            Self::Travels(delivery) => &delivery.plan,
        }
    }

    /// Whether it is proven that no plan on this picture is better.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        match self {
            Self::Stays(plan) => plan.proven,
            Self::Travels(delivery) => delivery.proven,
        }
    }

    /// What has to be held, as [`TaskPlan::segments`], with the transfer of the results.
    #[must_use]
    pub fn segments(
        &self,
        topology: &Topology,
        picture: &BelievedNetwork,
        task: &Task,
    ) -> BTreeMap<RmName, Vec<Segment>> {
        match self {
            Self::Stays(plan) => plan.segments(topology, picture, task),
            Self::Travels(delivery) => delivery.segments(topology, picture, task),
        }
    }

    /// The owners of the resources in the order in which the data meet them: those of the path to
    /// the cluster, of the cluster, and of the path of the results. Each is listed once, where it
    /// is met first.
    #[must_use]
    pub fn way(&self, topology: &Topology, picture: &BelievedNetwork) -> Vec<RmName> {
        let owner = |leg: &Leg| picture.edge_of(topology, leg).map(|(edge, _)| edge.rm.clone());
        let plan = self.plan();
        let cluster = picture.compute_of(topology, plan).map(|compute| compute.rm.clone());
        let back: &[Leg] = match self {
            Self::Stays(_) => &[],
            Self::Travels(delivery) => &delivery.legs,
        };
        let there = plan.legs.iter().filter_map(owner);
        let met = there.chain(cluster).chain(back.iter().filter_map(owner));
        let mut seen = BTreeSet::new();
        met.filter(|rm| seen.insert(rm.clone())).collect()
    }
}
