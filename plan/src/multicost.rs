//! Multi-cost scheduling of tasks. The input data of one task travel to a cluster, where the task
//! then runs. Path, cluster and both start times are chosen together, in advance.
//!
//! Sources: Christodoulopoulos 2008 ("joint scheduling") and Stevens 2009 ("multi-cost"), whose
//! algorithms these are. A scheduler knows a [`BelievedNetwork`]: availability vectors of all links
//! and clusters (`coalloc_common::vector`). A [`TaskInstance`] is a [`Task`] on such a picture.
//! Every [`TaskPlanner`] returns [`TaskPlan`]s for it, the best one first, or a [`TaskRefusal`]
//! that names what binds.
//!
//! | planner | chooses | looks at |
//! |---|---|---|
//! | `mc-t` ([`McT::optimal`]) | the best path, cluster and starts | everything; proves the optimum |
//! | `mc-t-printed` ([`McT::printed`]) | the same, by the printed relation, which can miss the optimum | everything |
//! | `awmc-t` ([`McT::available_weight`]) | the same, by the weights of paths: polynomial | everything |
//! | `mc-b` ([`McB`]) | the cluster at which data arrive first | links |
//! | `ect` ([`Ect`]) | the cluster that completes first over its shortest path | that path, clusters |
//! | `ect-first-link` ([`Ect`]) | the same | the first link of that path, clusters |
//! | `samcra` ([`Samcra`]) | delay and load together, to begin at once | what is free now |
//! | `samcra-hbh` ([`Samcra`]) | the same, again at every vertex of the route | what is free now |
//!
//! The modules, in the order in which to read them:
//!
//! * `task`, `picture` and `answer` define the types.
//! * `frame` counts them in slots.
//! * `search` finds paths (phase 1). `choice` pairs paths with clusters and takes the best pair
//!   (phases 2 and 3). `mct`, `mcb` and `ect` put these together, and `refuse` says why there is no
//!   plan.
//! * [`check`] verifies any plan against its picture, independently of the planners.
//! * `federation` makes pictures of topologies and segments of plans.
//! * `whole` plans a task together with the transfer of its results.
//!
//! A plan is a hint. It is right for the picture it was made from, which may be out of date; the
//! resource managers decide. The transfer of the results is a second leg, see [`deliver`]. Left
//! out: how the vectors of a picture come about, tasks that run in several clusters, and clocks.
//! `docs/adr/0013-multi-cost.md` says which readings of the papers were chosen, and why.

mod answer;
pub mod check;
mod choice;
mod ect;
mod federation;
mod frame;
mod mcb;
mod mct;
mod output;
mod picture;
mod refuse;
pub mod samcra;
mod search;
mod task;
mod whole;

pub use answer::{Effort, Leg, TaskAnswer, TaskOutcome, TaskPlan, TaskRefusal};
pub use ect::Ect;
pub use federation::{ClusterState, Knowledge, VectorGrid};
pub use frame::Entries;
pub use mcb::McB;
pub use mct::McT;
pub use output::{Delivery, Output, deliver};
pub use picture::{BelievedNetwork, ClusterView, LinkView, PictureSize};
pub use samcra::Samcra;
pub use search::Dominance;
pub use task::{Signalling, Task, TaskInstance, TaskObjective};
pub use whole::{TaskPlanning, WholePlan, whole};

use crate::Budget;

/// Memory that a planner reuses from task to task. No plan depends on its contents. Each planning
/// thread has its own.
#[derive(Debug, Default)]
pub struct Scratch {
    tables: frame::Tables,
    arena: search::Arena,
}

/// A planner of tasks.
pub trait TaskPlanner: Send + Sync {
    /// The name by which users choose it, for instance `mc-t` or `ect`.
    fn name(&self) -> &'static str;

    /// Plans of the task, the best one first, or why there is none. The answer depends on the
    /// instance and the budget, and not on what `scratch` was used for before. [`Budget::nodes`]
    /// bounds the number of paths in each search.
    fn plan(
        &self,
        instance: &TaskInstance<'_>,
        budget: &Budget<'_>,
        scratch: &mut Scratch,
    ) -> TaskAnswer;
}
