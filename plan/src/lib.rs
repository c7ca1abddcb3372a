//! The planners: from a request and what is free, to plans, best first.
//!
//! A planner is a pure function. It never reads a clock, never talks to anyone and never keeps state
//! between requests; its time ends when its [`Budget`] says so. A plan is a hint: only the RMs
//! decide, at Hold.
//!
//! Rooms: [`ip`] is the 0-1 integer program of Takefusa 2010, section 3.2 and 3.3, with two solvers,
//! [`ip::exact`] (our branch and bound) and [`ip::mip`] (a MIP library).

pub mod ip;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    Amount, BitsPerSecond, CoAllocation, EdgeIndex, Refusal, ResourceId, RmName, Segment, Span,
    Topology, Value, VertexIndex, Window,
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
    /// The objective, Eq. (3).
    pub cost: Value,
    /// No plan of this frame costs less than this. Equal to `cost` when the optimum is proven.
    pub lower_bound: Value,
}

impl Plan {
    /// Is it proven that no plan of this frame is cheaper?
    #[must_use]
    pub fn is_proven_optimal(&self) -> bool {
        self.lower_bound >= self.cost
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
            if let Some(compute) = &topology.vertex(*vertex).compute {
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

/// A planner for one frame of a co-allocation.
pub trait FramePlanner: Send + Sync {
    /// The name users give to choose it: `exact`, `mip`.
    fn name(&self) -> &'static str;

    /// Plans `request` in `view.window`. `request` has passed [`CoAllocation::check`], its pins and
    /// exclusions name vertices of `topology`, and `view` is indexed like `topology`.
    fn plan(
        &self,
        topology: &Topology,
        request: &CoAllocation,
        view: &FrameView,
        budget: &Budget<'_>,
    ) -> Outcome;
}

/// Adds up what a route costs one link of this rate.
#[must_use]
pub fn route_cost(topology: &Topology, route: &Route, rate: BitsPerSecond) -> Value {
    route.iter().fold(Value::ZERO, |sum, (edge, _)| {
        sum.saturating_add(topology.edge(*edge).unit_value.of_rate(rate))
    })
}
