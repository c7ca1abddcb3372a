//! Multi-cost scheduling: one task, whose input data travel to a cluster and are then computed on;
//! path, cluster and both start times are chosen together, in advance.
//!
//! Source: Christodoulopoulos 2008 ("joint scheduling") and Stevens 2009 ("multi-cost"), whose
//! algorithms these are. What a scheduler sees is a [`BelievedNetwork`]: availability vectors of all links and
//! clusters (`coalloc_common::vector`). A [`Task`] on a picture is a [`TaskInstance`]; every
//! [`TaskPlanner`] makes [`TaskPlan`]s of it, best first, or a [`TaskRefusal`] that names what binds.
//!
//! | planner | chooses | looks at |
//! |---|---|---|
//! | `mc-t` ([`McT::optimal`]) | the best path, cluster and starts | everything; proves it |
//! | `mc-t-printed` ([`McT::printed`]) | the same by the relation as it is printed, which can miss it | everything |
//! | `awmc-t` ([`McT::available_weight`]) | the same by paths' weights: polynomial | everything |
//! | `mc-b` ([`McB`]) | the cluster at which data arrive first | links |
//! | `ect` ([`Ect`]) | the cluster that completes first over its shortest path | that path, clusters |
//! | `ect-first-link` ([`Ect`]) | the same | the first link of it, clusters |
//! | `samcra` ([`Samcra`]) | delay and load together, to begin at once | what is free now |
//! | `samcra-hbh` ([`Samcra`]) | the same, again at every vertex on the way | what is free now |
//!
//! In the order of reading: `task`, `picture` and `answer` are the words; `frame` counts them in
//! slots; `search` finds paths (phase 1), `choice` pairs them with clusters and takes the best
//! (phases 2, 3), `mct`, `mcb` and `ect` put these together, `refuse` says why not. [`check`]
//! verifies any plan against its picture, by itself; `registry` has their names; `federation` makes pictures of topologies and
//! segments of plans; `whole` plans with the way of the results.
//!
//! A plan is a hint. It is right on the picture it was made on, which may be out of date; the
//! resource managers decide. Results that travel on are a second leg, see [`deliver`]. Left out:
//! the vectors that pictures are made of, tasks that run in several clusters, clocks. Which
//! readings of the papers were taken and why: `docs/adr/0013-multi-cost.md`.

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
mod registry;
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
pub use registry::TaskPlannerName;
pub use samcra::Samcra;
pub use search::Dominance;
pub use task::{Signalling, Task, TaskInstance, TaskObjective};
pub use whole::{TaskPlanning, WholePlan, whole};

use crate::Budget;

/// Memory that planners use again from task to task. It holds nothing that a plan depends on; each
/// thread that plans has its own.
#[derive(Debug, Default)]
pub struct Scratch {
    tables: frame::Tables,
    arena: search::Arena,
}

/// A planner of tasks.
pub trait TaskPlanner: Send + Sync {
    /// The name users give to choose it: `mc-t`, `ect`.
    fn name(&self) -> &'static str;

    /// Plans of the task, best first, or why there is none. The same instance has the same answer
    /// whatever `scratch` was used for before. [`Budget::nodes`] bounds the paths of each search.
    fn plan(
        &self,
        instance: &TaskInstance<'_>,
        budget: &Budget<'_>,
        scratch: &mut Scratch,
    ) -> TaskAnswer;
}
