//! What a multi-cost planner answers: plans best first or a refusal, and what it took.

use coalloc_common::{Refusal, Span, Time, Window};

/// One link of a plan's path, and when the data are on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// Index in [`super::BelievedNetwork::links`].
    pub link: usize,
    /// From when to when it is taken: as long on each link, later by the delay of those before,
    /// with the picture's guard before it.
    pub window: Window,
}

/// Where and when one task runs, and how its data get there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPlan {
    /// The path, from the source on. Empty when the cluster is where the data are.
    pub legs: Vec<Leg>,
    /// The wavelength of every leg, an index in [`super::LinkView::free`].
    pub wavelength: usize,
    /// Index in [`super::BelievedNetwork::clusters`].
    pub cluster: usize,
    /// When the run has its CPUs.
    pub run: Window,
    /// When data begin to leave the source (`TO_path`). Without a path: the arrival.
    pub departure: Time,
    /// When the last data are at the cluster. Without a path: when the task is ready, and its lead
    /// over.
    pub arrival: Time,
    /// How long data travel, in whole slots.
    pub delay: Span,
    /// Legs that were found free, from the first on: all but for planners that do not look at all.
    pub vouched: usize,
    /// Is it proven that no plan on this picture is better by the objective? Only `mc-t` proves.
    pub proven: bool,
    /// The planner that made it.
    pub planner: &'static str,
}

impl TaskPlan {
    /// When the run ends.
    #[must_use]
    pub const fn completion(&self) -> Time {
        self.run.end()
    }
}

/// Why a task cannot be done as asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRefusal {
    /// The reason; names the resource that binds, and when it was short.
    pub refusal: Refusal,
    /// What this planner would do without the deadline: its run is the nearest window that would do.
    pub nearest: Option<TaskPlan>,
}

/// Plans, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// At least one, best first by the objective; each is of another path, wavelength or cluster.
    Planned(Vec<TaskPlan>),
    /// None.
    Refused(Box<TaskRefusal>),
}

/// What a plan took, as the papers count it (Stevens 2009, section 5.1; Christodoulopoulos 2008,
/// section 7): whatever the words of our kernels do, an operation is one on one entry of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// Additions, Boolean operations and comparisons: one for each entry of a vector that an operation
    /// looks at (a comparison of vectors looks until it is decided), one for each of other costs.
    pub operations: u64,
    /// Paths that no other path dominates: the size of `P_n-d` of phase 1.
    pub paths: u64,
    /// Paths looked at in all: those that were dominated, and those of a proof, too.
    pub tried: u64,
}

/// A planner's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskAnswer {
    /// Plans, or why there is none.
    pub outcome: TaskOutcome,
    /// What it took.
    pub effort: Effort,
}

impl TaskAnswer {
    /// The best plan, if there is one.
    #[must_use]
    pub fn best(&self) -> Option<&TaskPlan> {
        match &self.outcome {
            TaskOutcome::Planned(plans) => plans.first(),
            TaskOutcome::Refused(_) => None,
        }
    }
}
