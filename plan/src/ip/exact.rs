//! Solver `exact`: our combinatorial branch and bound for the 0-1 integer program of Takefusa 2010.
//!
//! It proves its optimum. When the budget ends first, it says how far from the optimum the best
//! plan can be. There are two searches, one inside the other: [`search`] places sites, and at every
//! node [`routing`] joins the placed sites by the cheapest routes that fit together (which is no
//! work when the cheapest route of each link fits). Both are bounded by [`paths`], tables of the
//! cheapest routes within N_max edges, the latency bound and the free capacity of the frame, and by
//! [`assign`], the cheapest assignment of the remaining sites. [`order`] decides which site comes
//! next, and which symmetric plans need no search. In long searches, [`chains`] adds tables of
//! cheapest completions, for requests whose remaining links form a forest.
//!
//! A search that takes long goes on in [`rounds`]: it takes the first plan that a baseline finds,
//! looks for plans with shorter routes before longer ones, and puts off what is hard. Where links
//! compete for what is free, [`prices`] bound all of them together.
//!
//! Deterministic: equal values are ordered by index, so the same input gives the same plan. One
//! node of the budget is one vertex tried for one site, or one link routed around one resource.
//!
//! Left out: relaxations of placements. Sites spread over the federation in fractions need no links
//! at all, so their bound would say nothing.

mod assign;
mod chains;
mod fan;
pub(crate) mod kernel;
mod meter;
mod network;
mod order;
mod paths;
mod prices;
mod rounds;
mod routing;
mod search;
pub mod shared;

use coalloc_common::{SiteDemand, VertexIndex};

use self::rounds::{KnownPlan, Rounds};
use self::search::Demand;
use super::{IpOptions, admit, verify};
use crate::{Budget, FramePlanner, Instance, Outcome, Plan};

/// The planner `exact`.
#[derive(Debug, Clone, Copy)]
pub struct Exact {
    /// N_max; the other option is for [`super::Mip`].
    pub options: IpOptions,
    /// How many nodes are opened before the tables of cheapest completions are made. Small searches
    /// end before that. Tests set 0.
    #[doc(hidden)]
    pub tables_after: u64,
    /// How many nodes a search for routes takes before prices take over.
    #[doc(hidden)]
    pub prices_after: u32,
    /// How many nodes the first round takes. Most searches need no other.
    #[doc(hidden)]
    pub rounds_after: u64,
}

/// A table costs as much as a few hundred nodes; most searches of the paper's size end earlier.
const TABLES_AFTER: u64 = 200;
/// Most searches for routes end earlier.
const PRICES_AFTER: u32 = 24;
/// Most searches of the paper's size, and of some ten times that size, end earlier.
const ROUNDS_AFTER: u64 = 1_000;

impl Default for Exact {
    fn default() -> Self {
        Self::new(IpOptions::default())
    }
}

/// An answer, and the work it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchAnswer {
    /// The plan or refusal.
    pub outcome: Outcome,
    /// How many search nodes were opened.
    pub nodes: u64,
}

impl Exact {
    /// The solver with these options.
    #[must_use]
    pub const fn new(options: IpOptions) -> Self {
        Self {
            options,
            tables_after: TABLES_AFTER,
            prices_after: PRICES_AFTER,
            rounds_after: ROUNDS_AFTER,
        }
    }

    /// Plans one frame. Calls `watch` for every plan that is better than all before, as soon as it
    /// is found, with its cost and the number of search nodes opened so far.
    #[must_use]
    pub fn search(
        &self,
        instance: &Instance<'_>,
        budget: &Budget<'_>,
        watch: &mut dyn FnMut(u64, u64),
    ) -> SearchAnswer {
        let Instance { topology, request, view, costs } = instance;
        let candidates = match admit::candidates(topology, request, view) {
            Ok(candidates) => candidates,
            Err(refusal) => return SearchAnswer { outcome: Outcome::Refused(*refusal), nodes: 0 },
        };
        let (links, classes) = network::links_of(request, |rate| costs.rate_units(rate));
        let same = |site: &SiteDemand| request.sites.iter().position(|one| one.wants_as(site));
        let wants: Vec<usize> = request.sites.iter().filter_map(same).collect();
        let demand = Demand {
            candidates: &candidates,
            wants: &wants,
            tables_after: self.tables_after,
            fan_out: false,
            value: &|site, vertex| costs.site(site, VertexIndex(vertex)),
        };
        let rounds =
            Rounds { instance, exact: *self, demand: &demand, links: &links, classes: &classes };
        let found = rounds.run(budget, watch);
        let nodes = found.nodes;
        let Some(KnownPlan { placements, routes, cost }) = found.plan else {
            let refusal = match found.lower_bound {
                u64::MAX => admit::no_route(topology, request, view, &self.options),
                _ => admit::exhausted(view, budget, "the search used up its budget"),
            };
            return SearchAnswer { outcome: Outcome::Refused(refusal), nodes };
        };
        let plan = Plan {
            window: view.window,
            placements,
            routes,
            cost,
            lower_bound: found.lower_bound,
            solver: "exact",
        };
        debug_assert_eq!(verify(instance, &self.options, &plan), Ok(()));
        SearchAnswer { outcome: Outcome::Planned(plan), nodes }
    }
}

impl FramePlanner for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome {
        self.search(instance, budget, &mut |_, _| {}).outcome
    }
}
