//! A task planned whole: with the way of its results, when these travel on. What shells ask for.

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
    /// What it computes stays where it ran.
    Stays(TaskPlan),
    /// It travels on.
    Travels(Box<Delivery>),
}

/// What a planner says of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPlanning {
    /// Plans, best first and at least one, or why there is none.
    pub outcome: Result<Vec<WholePlan>, Box<TaskRefusal>>,
    /// What it took.
    pub effort: Effort,
}

/// Plans a task, and the way of its results if there is one: of that there is one plan.
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
    /// The plan of its run, and of the way there.
    #[must_use]
    pub const fn plan(&self) -> &TaskPlan {
        match self {
            Self::Stays(plan) => plan,
            Self::Travels(delivery) => &delivery.plan,
        }
    }

    /// Is it proven that no plan on this picture is better?
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        match self {
            Self::Stays(plan) => plan.proven,
            Self::Travels(delivery) => delivery.proven,
        }
    }

    /// As [`TaskPlan::segments`].
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

    /// Whose resources the data meet, in their order: those of the paths, the cluster's, those of the
    /// results' paths; each once, where it is met first.
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
