//! The answer of a multi-cost planner: plans, the best one first, or a refusal; and the work it
//! took.

use coalloc_common::{Refusal, Span, Time, Window};

/// One link of a plan's path, and when data are on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// Index in [`super::BelievedNetwork::links`].
    pub link: usize,
    /// The time for which the link is taken. It is equally long on each link, later by the delays
    /// of the links before, and includes the picture's guard at its beginning.
    pub window: Window,
}

/// Where and when one task runs, and how its data get there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPlan {
    /// The links of the path, from the source on. Empty when the data are at the cluster already.
    pub legs: Vec<Leg>,
    /// The wavelength of every leg, as an index in [`super::LinkView::free`].
    pub wavelength: usize,
    /// Index in [`super::BelievedNetwork::clusters`].
    pub cluster: usize,
    /// The time for which the run has its CPUs.
    pub run: Window,
    /// When data begin to leave the source (`TO_path`). Without a path it equals the arrival.
    pub departure: Time,
    /// When the last data are at the cluster. Without a path: when the task is ready and its lead
    /// is over.
    pub arrival: Time,
    /// How long data travel, in whole slots.
    pub delay: Span,
    /// How many legs, from the first on, were checked to be free: all of them, except for planners
    /// that do not check every link.
    pub vouched: usize,
    /// Whether it is proven that no plan on this picture is better by the objective. Only `mc-t`
    /// proves this.
    pub proven: bool,
    /// The planner that made the plan.
    pub planner: &'static str,
}

impl TaskPlan {
    /// The end of the run.
    #[must_use]
    pub const fn completion(&self) -> Time {
        self.run.end()
    }
}

/// Why a task cannot be planned as requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRefusal {
    /// The reason. It names the resource that binds, and when it was short.
    pub refusal: Refusal,
    /// The plan of this planner without the deadline. Its run is the nearest window that would do.
    pub nearest: Option<TaskPlan>,
}

/// Plans, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// At least one plan, the best by the objective first. Each has another path, wavelength or
    /// cluster.
    Planned(Vec<TaskPlan>),
    /// There is no plan.
    Refused(Box<TaskRefusal>),
}

/// The work of a planner as the papers count it (Stevens 2009, section 5.1; Christodoulopoulos
/// 2008, section 7). An operation is one on one entry of a vector, even where our kernels work on
/// whole words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// Additions, Boolean operations and comparisons: one for each entry of a vector that an
    /// operation reads (a comparison of vectors reads until it is decided), and one for each other
    /// cost.
    pub operations: u64,
    /// Paths that no other path dominates: the size of `P_n-d` of phase 1.
    pub paths: u64,
    /// All paths that were examined, including dominated ones and those of a proof.
    pub tried: u64,
}

/// A planner's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskAnswer {
    /// Plans, or why there is none.
    pub outcome: TaskOutcome,
    /// The work it took.
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
