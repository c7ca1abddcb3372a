//! The rounds of a search that takes long.
//!
//! The first round is a whole search, and most requests need no other. If it does not end soon:
//!
//! 1. A baseline looks for any plan, with the shortest routes first. So `exact` never answers with
//!    nothing where `backtrack` has a plan within the same number of nodes.
//! 2. Searches with fewer edges a route look for better plans. There are far fewer of those routes,
//!    and most good plans have no others.
//! 3. Whole searches follow, each with more nodes than the one before. A search puts off routes that
//!    take too long, and tries other placements meanwhile; what it has put off is bounded, and
//!    comes back in the next round. A search that puts off nothing is complete.
//!
//! The best plan of all rounds is kept, and no later round looks for a dearer one. The bound is the
//! best of all whole rounds.

use coalloc_common::{VertexIndex, limits};

use super::Exact;
use super::meter::Meter;
use super::network::{Class, Link, Network, Path};
use super::routing::RoutingInput;
use super::search::exclusive::Exclusive;
use super::search::{Demand, Search, SearchResult, Watch};
use crate::baseline::Backtrack;
use crate::ip::IpOptions;
use crate::{Budget, FramePlanner, Instance, Outcome, Route};

/// Nodes of a search with fewer edges a route, and of one search for routes in it.
const LEVEL_NODES: u64 = 3_000;
const LEVEL_EFFORT: u64 = 300;
/// Nodes of the second whole search, and of one search for routes in it. Every further round has
/// this many times as many.
const ROUND_NODES: u64 = 4_096;
const ROUND_EFFORT: u64 = 512;
const ROUND_GROWTH: u64 = 4;
/// Nodes of the baseline for each number of edges a route, and then before the first of the rounds.
const BASELINE_LEVEL_NODES: u64 = 1 << 14;
const BASELINE_NODES: u64 = 1 << 17;
/// A node of the baseline takes about this fraction of the time of one of ours.
const BASELINE_SHARE: u64 = 16;
/// The numbers of edges a route with which plans are looked for before all are allowed.
const LEVELS: [u32; 6] = [1, 2, 3, 4, 6, 10];

/// A plan that a round has found.
pub(super) struct KnownPlan {
    pub(super) placements: Vec<VertexIndex>,
    pub(super) routes: Vec<Route>,
    pub(super) cost: u64,
}

/// The result of all rounds.
pub(super) struct RoundsResult {
    /// The best plan.
    pub(super) plan: Option<KnownPlan>,
    /// No plan costs less. `u64::MAX` when it is proven that there is no plan.
    pub(super) lower_bound: u64,
    /// The number of nodes opened.
    pub(super) nodes: u64,
}

/// What all rounds have in common.
pub(super) struct Rounds<'a> {
    pub(super) instance: &'a Instance<'a>,
    pub(super) exact: Exact,
    pub(super) demand: &'a Demand<'a>,
    pub(super) links: &'a [Link],
    pub(super) classes: &'a [Class],
}

/// The best of all rounds so far.
struct Progress<'a> {
    plan: Option<KnownPlan>,
    lower_bound: u64,
    meter: Meter<'a>,
}

impl Progress<'_> {
    fn cost(&self) -> u64 {
        self.plan.as_ref().map_or(u64::MAX, |plan| plan.cost)
    }

    /// Whether nothing is left to find out.
    fn is_decided(&self) -> bool {
        self.lower_bound >= self.cost()
    }
}

impl Rounds<'_> {
    /// Runs until a round is complete or the budget has ended.
    pub(super) fn run(&self, budget: &Budget<'_>, watch: &mut Watch<'_>) -> RoundsResult {
        let meter = Meter::new(budget.nodes, budget.stop);
        let mut progress = Progress { plan: None, lower_bound: 0, meter };
        let network = Network::of_instance(self.instance, self.exact.options.route_edges());
        self.search(&network, self.exact.rounds_after, u64::MAX, &mut progress, watch);
        if !progress.is_decided() && !progress.meter.is_over() {
            self.first_plans(budget, &mut progress, watch);
            self.whole(&network, budget, &mut progress, watch);
        }
        if progress.plan.is_none() && !progress.is_decided() && !budget.stopped() {
            // The nodes have ended: what the baseline finds with as many is not to be missed.
            self.baseline(
                self.exact.options.route_edges_max,
                budget.nodes,
                budget,
                &mut progress,
                watch,
            );
        }
        let Progress { plan, lower_bound, meter } = progress;
        RoundsResult { plan, lower_bound, nodes: meter.opened() }
    }

    /// Steps 1 and 2 above.
    fn first_plans(&self, budget: &Budget<'_>, progress: &mut Progress<'_>, watch: &mut Watch<'_>) {
        let most = self.exact.options.route_edges();
        let levels = || LEVELS.into_iter().filter(|edges| (*edges as usize) < most);
        for edges in levels() {
            if progress.plan.is_none() {
                self.baseline(edges, BASELINE_LEVEL_NODES, budget, progress, watch);
            }
        }
        for edges in levels() {
            if progress.meter.is_over() {
                return;
            }
            let network = Network::of_instance(self.instance, edges as usize);
            let bound = progress.lower_bound;
            self.search(&network, LEVEL_NODES, LEVEL_EFFORT, progress, watch);
            // Longer routes may be cheaper.
            progress.lower_bound = bound;
        }
    }

    /// Step 3 above.
    fn whole(
        &self,
        network: &Network,
        budget: &Budget<'_>,
        progress: &mut Progress<'_>,
        watch: &mut Watch<'_>,
    ) {
        let mut growth: u64 = 1;
        while !progress.is_decided() && !progress.meter.is_over() {
            if progress.plan.is_none() {
                let nodes = BASELINE_NODES.saturating_mul(growth);
                self.baseline(self.exact.options.route_edges_max, nodes, budget, progress, watch);
            }
            let nodes = ROUND_NODES.saturating_mul(growth);
            let effort = ROUND_EFFORT.saturating_mul(growth);
            self.search(network, nodes, effort, progress, watch);
            growth = growth.saturating_mul(ROUND_GROWTH);
        }
    }

    /// One search of ours, for a plan that is better than the best so far.
    fn search(
        &self,
        network: &Network,
        nodes: u64,
        effort: u64,
        progress: &mut Progress<'_>,
        watch: &mut Watch<'_>,
    ) {
        let ground = RoutingInput { network, classes: self.classes, links: self.links };
        let before = progress.meter.opened();
        let occupancy = Exclusive::new(network.vertices());
        let meter = progress.meter.part(nodes);
        let mut told = |cost, opened| watch(cost, before + opened);
        // The first round is short, so it goes without what takes long to prepare.
        let demand = Demand { fan_out: before > 0, ..*self.demand };
        let search = Search::new(ground, &demand, occupancy, meter, &mut told);
        let SearchResult { plan, lower_bound, nodes } =
            search.with(progress.cost(), effort, self.exact.prices_after).run();
        progress.meter.spend(nodes);
        if let Some((placed, paths, cost)) = plan {
            progress.plan = Some(KnownPlan {
                placements: placed.into_iter().map(VertexIndex).collect(),
                routes: paths.iter().map(Path::route).collect(),
                cost,
            });
        }
        progress.lower_bound = progress.lower_bound.max(lower_bound);
    }

    /// One search of the baseline, for any plan.
    fn baseline(
        &self,
        edges: u32,
        nodes: u64,
        budget: &Budget<'_>,
        progress: &mut Progress<'_>,
        watch: &mut Watch<'_>,
    ) {
        let route_edges_max = edges.clamp(1, limits::ROUTE_EDGES_MAX);
        let baseline = Backtrack { options: IpOptions { route_edges_max, ..self.exact.options } };
        let nodes = nodes.min(budget.nodes);
        let outcome = baseline.plan(self.instance, &Budget { nodes, ..*budget });
        progress.meter.spend(nodes / BASELINE_SHARE);
        if let Outcome::Planned(plan) = outcome
            && plan.cost < progress.cost()
        {
            let (placements, routes, cost) = (plan.placements, plan.routes, plan.cost);
            watch(cost, progress.meter.opened());
            progress.plan = Some(KnownPlan { placements, routes, cost });
        }
    }
}
