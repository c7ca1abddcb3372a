//! The planners. A planner takes a request and what is free, and returns plans, the best one first.
//!
//! A planner is a pure function: it never reads a clock, never sends a message and keeps no state
//! between requests. It stops when its [`Budget`] is used up. A plan is a hint: only the resource
//! managers (RMs) decide, when they answer Hold.
//!
//! * [`ip`] is the 0-1 integer program of Takefusa 2010, sections 3.2 and 3.3, with two solvers:
//!   [`ip::exact`] (our branch and bound) and [`ip::mip`] (a MIP library). [`ip::shared`] lets
//!   demands share sites.
//! * [`baseline`] has the planners with which the paper compares itself.
//! * [`registry`] lists all planners by name.
//! * [`explain`] proves what binds when there is no plan.
//! * [`nearest`] and [`smaller`] look for other requests that would fit, with any planner.
//! * [`learned`] keeps what refusals said, for planning again.
//! * [`inner`] routes inside one network domain, for the NRM that owns it.
//! * [`abstracted`] describes a federation to a parent coordinator.
//! * [`multicost`] plans tasks on availability vectors. The input data of a task travel to a
//!   cluster, and the task runs there. Its planners have a trait of their own.
//! * [`workflow`] plans workflows: activities, the data between them, and sets that run at one time.

pub mod abstracted;
pub mod baseline;
pub mod costs;
pub mod explain;
pub mod inner;
pub mod ip;
pub mod learned;
pub mod multicost;
pub mod nearest;
pub mod objectives;
pub mod registry;
pub mod smaller;
pub mod workflow;

pub use costs::Costs;
pub use objectives::{Packing, RankedPlan};
pub use registry::{Named, Solver, TaskPlannerName, WorkflowPlannerName};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    Amount, CoAllocation, EdgeIndex, PartWindow, Refusal, ResourceId, RmName, Segment, Span,
    Topology, Value, VertexIndex, Window,
};

/// How long a planner may go on. The caller can stop it through `stop`; `nodes` bounds the work by
/// itself.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    /// How many search nodes our own planners may open. Where `exact` asks `backtrack` for a plan, the
    /// nodes of `backtrack` are small, and count as a sixteenth each.
    pub nodes: u64,
    /// How long an outside solver may run. It reads its own clock.
    pub solver_time: Span,
    /// Set by the caller, who has the clock. A planner that sees it stops and answers with the best
    /// plan that it has found.
    pub stop: &'a AtomicBool,
}

impl Budget<'_> {
    /// Whether the caller has set `stop`.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The route of one requested link: edges and their directions, from the start of the link to its
/// end.
pub type Route = Vec<(EdgeIndex, Direction)>;

/// One answer for one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The reserved window.
    pub window: Window,
    /// The vertex of each requested site, in the request's order.
    pub placements: Vec<VertexIndex>,
    /// The route of each requested link, in the request's order.
    pub routes: Vec<Route>,
    /// The plan's cost by the [`Costs`] of its [`Instance`], which the planner minimised.
    pub cost: u64,
    /// No plan of this frame costs less than this. It equals `cost` when the optimum is proven.
    pub lower_bound: u64,
    /// The solver that made the plan: the planner's name, or "mip" when `exact` handed over to the
    /// library and the library found a better plan.
    pub solver: &'static str,
}

impl Plan {
    /// Whether it is proven that no plan of this frame is cheaper.
    #[must_use]
    pub fn is_proven_optimal(&self) -> bool {
        self.lower_bound >= self.cost
    }

    /// The plan's value by Eq. (3), whatever costs it was planned for.
    #[must_use]
    pub fn preference(&self, topology: &Topology, request: &CoAllocation) -> Value {
        let costs = Costs::preference(topology, request);
        Value { milli: costs.plan(request, &self.placements, &self.routes) }
    }

    /// What has to be held at each RM: one segment for each resource and each window in which it is wanted. The rates
    /// of several links over one edge in one window are added up. Segments of one resource with different windows may
    /// overlap.
    ///
    /// `topology` and `request` are those that the plan was made for.
    #[must_use]
    pub fn segments(
        &self,
        topology: &Topology,
        request: &CoAllocation,
    ) -> BTreeMap<RmName, Vec<Segment>> {
        let mut amounts: BTreeMap<(RmName, ResourceId, Window), u64> = BTreeMap::new();
        for (site, vertex) in request.sites.iter().zip(&self.placements) {
            for of in topology.vertex(*vertex).resources() {
                let wanted = site.amount(of.kind).0;
                if wanted > 0 {
                    let window = PartWindow::within(site.window(of.kind), self.window);
                    let key = (of.rm.clone(), of.resource.clone(), window);
                    *amounts.entry(key).or_default() += wanted;
                }
            }
        }
        for (link, route) in request.links.iter().zip(&self.routes) {
            let window = PartWindow::within(link.window, self.window);
            for (edge, direction) in route {
                let edge = topology.edge(*edge);
                let resource = edge.resource(*direction).clone();
                *amounts.entry((edge.rm.clone(), resource, window)).or_default() +=
                    link.bandwidth.0;
            }
        }
        let mut segments: BTreeMap<RmName, Vec<Segment>> = BTreeMap::new();
        for ((rm, resource, window), amount) in amounts {
            let segment = Segment { resource, amount: Amount(amount), window };
            segments.entry(rm).or_default().push(segment);
        }
        segments
    }
}

/// What a planner answers for one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A plan. It is feasible, and it is optimal when its lower bound equals its cost.
    Planned(Plan),
    /// There is no plan, or none was found within the budget. The refusal says why.
    Refused(Refusal),
}

/// One frame of one request: everything that a planner gets to know.
#[derive(Debug, Clone)]
pub struct Instance<'a> {
    /// The federation.
    pub topology: &'a Topology,
    /// The request. It has passed [`CoAllocation::check`], and its pins and exclusions name
    /// vertices of the topology.
    pub request: &'a CoAllocation,
    /// What is free in the frame, with the indices of the topology.
    pub view: &'a FrameView,
    /// The cost of each choice.
    pub costs: Costs,
}

impl<'a> Instance<'a> {
    /// A frame whose plans are to be the cheapest by Eq. (3), see [`Costs::preference`].
    #[must_use]
    pub fn new(topology: &'a Topology, request: &'a CoAllocation, view: &'a FrameView) -> Self {
        Self { topology, request, view, costs: Costs::preference(topology, request) }
    }
}

/// A planner for one frame of a co-allocation.
pub trait FramePlanner: Send + Sync {
    /// The name by which users choose the planner, see [`Solver`].
    fn name(&self) -> &'static str;

    /// A plan in `instance.view.window`. Solvers that prove their plans find the one with the least cost
    /// by `instance.costs`; baselines take the first that fits.
    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome;
}
