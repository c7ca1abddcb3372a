//! Planners of workflows: each activity gets a site and a window, each data item a route on which it
//! arrives in time, and each synchronous set one window and joint routes for its channels.
//!
//! Source: Decker 2007. A [`WorkflowInstance`] is a checked workflow on a federation; what is free is in
//! [`ScratchTimetables`], in which a planner tries placements and takes them back. Nothing is held at a
//! resource manager while a planner searches.
//!
//! | planner | chooses |
//! |---|---|
//! | `heft-sync` | greedily, as section IV-B prints it: a set that does not fit at its first window rejects the workflow |
//! | `heft-sync-along` | the same, and goes on along time, as the paper's outlook proposes |
//! | `heft-sync-bt-printed` | sets by best-first backtracking, as section IV-C prints it; exponential |
//! | `heft-sync-bt` | the same placements of sets without the exponent, and other sites for earlier sets when a later node misses the deadline |
//!
//! All of them place nodes (single activities and whole sets) by falling [`rank`]. The modules, in the
//! order in which to read them:
//!
//! * `answer` has what a planner returns.
//! * `scratch` has the timetables with their undo log, `network` finds routes for transfers.
//! * [`rank`] orders the nodes; `kept` says which of them are placed already; `partial` is a schedule in the making, which places data and single activities.
//! * `heft_sync`, `backtracking` and `set_search` (with `set_frames` and `set_refusal`) place sets.
//! * [`check`] verifies any schedule, independently of the planners.
//! * [`revise`] changes a schedule that is booked, when activities end early or late or fail.
//! * [`critical`] says what the end of a schedule waits for.
//!
//! All times of a schedule are multiples of the instance's slot. A plan is a hint; the resource managers
//! decide. Left out: how timetables come about, the latency of a transfer (it is far below a slot),
//! storage for data that wait for a consumer, and clocks. `docs/adr/0039-workflows.md` says which
//! readings of the paper were chosen, and why.

mod answer;
mod backtracking;
pub mod check;
pub mod critical;
mod heft_sync;
mod kept;
mod network;
mod partial;
pub mod rank;
pub mod revise;
mod scratch;
mod set_frames;
mod set_refusal;
mod set_search;

pub use answer::{
    PlacedActivity, Schedule, Transfer, WorkflowAnswer, WorkflowEffort, WorkflowRefusal,
};
pub use backtracking::PrintedBacktracking;
pub use heft_sync::HeftSync;
pub use kept::{KeptPart, RefusedSegment};
pub use scratch::{ResourceNumber, ScratchTimetables};
pub use set_search::SetSearch;

use coalloc_common::workflow::{Workflow, WorkflowGraph};
use coalloc_common::{Span, Topology, limits};

use crate::Budget;

/// What a planner of workflows may vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkflowOptions {
    /// How many edges a route may have (N_max), 1 to [`limits::ROUTE_EDGES_MAX`].
    pub route_edges_max: u32,
    /// How often `heft-sync-bt` may give an earlier node its next site because a later one misses the
    /// deadline, at most [`limits::DISCREPANCIES_MAX`].
    pub discrepancies: u32,
}

impl WorkflowOptions {
    /// N_max, within its bounds.
    #[must_use]
    pub fn route_edges(&self) -> usize {
        self.route_edges_max.clamp(1, limits::ROUTE_EDGES_MAX) as usize
    }
}

impl Default for WorkflowOptions {
    fn default() -> Self {
        Self {
            route_edges_max: limits::ROUTE_EDGES_DEFAULT,
            discrepancies: limits::DISCREPANCIES_DEFAULT,
        }
    }
}

/// One workflow on one federation: everything that a planner gets to know besides what is free.
#[derive(Debug, Clone, Copy)]
pub struct WorkflowInstance<'a> {
    /// The federation.
    pub topology: &'a Topology,
    /// The workflow.
    pub workflow: &'a Workflow,
    /// Its graph.
    pub graph: &'a WorkflowGraph,
    /// All starts and durations are rounded up to multiples of this span; positive.
    pub slot: Span,
    /// What the planner may vary.
    pub options: WorkflowOptions,
    /// What is placed already and stays so; the planner places the rest. `None`: nothing is.
    pub kept: Option<&'a KeptPart>,
}

/// A planner of workflows.
pub trait WorkflowPlanner: Send + Sync {
    /// The name by which users choose it, for instance `heft-sync-bt`.
    fn name(&self) -> &'static str;

    /// Plans a workflow on what is free in `scratch`, and leaves `scratch` as it was.
    /// [`Budget::nodes`] bounds the placements that are tried.
    fn plan(
        &self,
        instance: &WorkflowInstance<'_>,
        scratch: &mut ScratchTimetables,
        budget: &Budget<'_>,
    ) -> WorkflowAnswer;
}
