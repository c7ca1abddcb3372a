//! The planners: from a request and what is free, to plans, best first.
//!
//! A planner is a pure function. It never reads a clock, never talks to anyone and never keeps state
//! between requests; its time ends when its [`Budget`] says so. A plan is a hint: only the RMs
//! decide, at Hold.
//!
//! Rooms: [`ip`] is the 0-1 integer program of Takefusa 2010, section 3.2 and 3.3, with two solvers,
//! [`ip::exact`] (our branch and bound) and [`ip::mip`] (a MIP library). [`baseline`] has what the paper
//! compares itself with. [`Solver`] knows them all by name. [`explain`] proves what binds when there is no plan; [`nearest`] and
//! [`smaller`] look for what would do instead, with any planner. [`inner`] routes inside one network
//! domain, for the NRM that owns it; [`abstracted`] shows a federation to a coordinator above; [`learned`] keeps what
//! refusals said for planning again.
//! [`multicost`] plans tasks, whose data travel to a cluster and are computed on there, on availability
//! vectors: planners with a trait of their own.

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
pub mod smaller;
mod solver;

pub use costs::Costs;
pub use objectives::{Packing, RankedPlan};
pub use solver::Solver;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    Amount, CoAllocation, EdgeIndex, Refusal, ResourceId, RmName, Segment, Span, Topology, Value,
    VertexIndex, Window,
};

/// How long a planner may go on. The caller stops it from outside; the count bounds it from inside.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    /// Search nodes that may be opened (planners of our own).
    pub nodes: u64,
    /// Time that may be handed to an outside solver, which reads a clock of its own.
    pub solver_time: Span,
    /// Set by whoever holds the clock: stop now, answer with the best plan so far.
    pub stop: &'a AtomicBool,
}

impl Budget<'_> {
    /// Has the caller said stop?
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The way of one requested link: edges and directions from its start to its end.
pub type Route = Vec<(EdgeIndex, Direction)>;

/// One answer for one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// When.
    pub window: Window,
    /// Where each requested site lands, in the request's order.
    pub placements: Vec<VertexIndex>,
    /// The way each requested link takes, in the request's order.
    pub routes: Vec<Route>,
    /// What it costs by the [`Costs`] it was planned for: what the planner minimised.
    pub cost: u64,
    /// No plan of this frame costs less than this. Equal to `cost` when the optimum is proven.
    pub lower_bound: u64,
    /// The solver that made it: the planner's name, or "mip" where `exact` handed over and the library
    /// found better.
    pub solver: &'static str,
}

impl Plan {
    /// Is it proven that no plan of this frame is cheaper?
    #[must_use]
    pub fn is_proven_optimal(&self) -> bool {
        self.lower_bound >= self.cost
    }

    /// Its value by Eq. (3), whatever it was planned for.
    #[must_use]
    pub fn preference(&self, topology: &Topology, request: &CoAllocation) -> Value {
        let costs = Costs::preference(topology, request);
        Value { milli: costs.plan(request, &self.placements, &self.routes) }
    }

    /// What has to be held, by RM: one segment a resource, links over one edge added up.
    ///
    /// `topology` and `request` are those the plan was made for.
    #[must_use]
    pub fn segments(
        &self,
        topology: &Topology,
        request: &CoAllocation,
    ) -> BTreeMap<RmName, Vec<Segment>> {
        let mut amounts: BTreeMap<(RmName, ResourceId), u64> = BTreeMap::new();
        for (site, vertex) in request.sites.iter().zip(&self.placements) {
            if let Some(compute) = &topology.vertex(*vertex).compute
                && site.cpus.0 > 0
            {
                *amounts.entry((compute.rm.clone(), compute.resource.clone())).or_default() +=
                    site.cpus.0;
            }
        }
        for (link, route) in request.links.iter().zip(&self.routes) {
            for (edge, direction) in route {
                let edge = topology.edge(*edge);
                let resource = edge.resource(*direction).clone();
                *amounts.entry((edge.rm.clone(), resource)).or_default() += link.bandwidth.0;
            }
        }
        let mut segments: BTreeMap<RmName, Vec<Segment>> = BTreeMap::new();
        for ((rm, resource), amount) in amounts {
            let segment = Segment { resource, amount: Amount(amount), window: self.window };
            segments.entry(rm).or_default().push(segment);
        }
        segments
    }
}

/// What a planner answers for one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A plan: feasible, and optimal when its bound meets its cost.
    Planned(Plan),
    /// There is none (or none was found within the budget), and why.
    Refused(Refusal),
}

/// One frame of one request: all that a planner is told.
#[derive(Debug, Clone)]
pub struct Instance<'a> {
    /// The federation.
    pub topology: &'a Topology,
    /// What is wanted; it has passed [`CoAllocation::check`], and its pins and exclusions name
    /// vertices of the topology.
    pub request: &'a CoAllocation,
    /// What is free in the frame, indexed like the topology.
    pub view: &'a FrameView,
    /// What each choice costs.
    pub costs: Costs,
}

impl<'a> Instance<'a> {
    /// A frame whose plans are to be cheapest by Eq. (3), [`Costs::preference`].
    #[must_use]
    pub fn new(topology: &'a Topology, request: &'a CoAllocation, view: &'a FrameView) -> Self {
        Self { topology, request, view, costs: Costs::preference(topology, request) }
    }
}

/// A planner for one frame of a co-allocation.
pub trait FramePlanner: Send + Sync {
    /// The name users give to choose it, see [`Solver::name`].
    fn name(&self) -> &'static str;

    /// A plan in `instance.view.window` of least cost by `instance.costs`.
    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome;
}
