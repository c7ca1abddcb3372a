//! Depth-first search for the first plan that fits: sites in the order of the request, and vertices
//! in the order of the federation. Each link is routed as soon as both its ends are placed, by the
//! route with the fewest paths first.
//!
//! The algorithm is that of Ando and Aida. As Takefusa 2010, section 5, describes it, it "reserves
//! computers and the related network paths incrementally, releases the reserved resources when the
//! next required resource could not be discovered, and then finds the next candidate". Here it is
//! split into two halves. [`Backtrack`] is the search, over what is reported as free. A coordinator
//! that uses it holds the plan at one resource manager after the other, in the order of the search
//! (see [`order`]). After a refusal it releases what it holds and searches again with what the
//! refusal said, which leads to the next candidate of the same search (docs/adr/0012-one-by-one.md
//! says what differs from the original, and why).

use coalloc_common::{CoAllocation, RmName, Topology};

use super::search::{Search, Step};
use crate::ip::{IpOptions, admit};
use crate::{Budget, FramePlanner, Instance, Outcome, Plan};

/// The planner `backtrack`. It finds a plan whenever there is one, and ignores costs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backtrack {
    /// N_max, as for the integer program.
    pub options: IpOptions,
}

impl FramePlanner for Backtrack {
    fn name(&self) -> &'static str {
        "backtrack"
    }

    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome {
        let Instance { topology, request, view, .. } = instance;
        let candidates = match admit::candidates(topology, request, view) {
            Ok(candidates) => candidates,
            Err(refusal) => return Outcome::Refused(*refusal),
        };
        let steps = steps(request);
        let mut search =
            Search::new(instance, self.options, budget, &candidates, Vec::new(), steps);
        search.run(self.name()).unwrap_or_else(|| {
            Outcome::Refused(match search.is_over() {
                true => admit::exhausted(view, budget, "the search used up its budget"),
                false => admit::no_route(topology, request, view, &self.options),
            })
        })
    }
}

/// The steps of the search: each site, followed by the links whose ends are both placed by then.
fn steps(request: &CoAllocation) -> Vec<Step> {
    let mut steps = Vec::with_capacity(request.sites.len() + request.links.len());
    for site in 0..request.sites.len() {
        steps.push(Step::Site(site));
        let links = request.links.iter().enumerate();
        let ready = links.filter(|(_, link)| link.from.max(link.to) == site);
        steps.extend(ready.map(|(link, _)| Step::Link(link)));
    }
    steps
}

/// The resource managers of a plan in the order in which the search needs them, each one once.
///
/// `topology` and `request` are those that the plan was made for.
#[must_use]
pub fn order(topology: &Topology, request: &CoAllocation, plan: &Plan) -> Vec<RmName> {
    let mut order: Vec<RmName> = Vec::new();
    let mut need = |rm: &RmName| {
        if !order.contains(rm) {
            order.push(rm.clone());
        }
    };
    for step in steps(request) {
        match step {
            Step::Site(site) => {
                let compute = topology.vertex(plan.placements[site]).compute.as_ref();
                // A site that wants nothing needs no hold.
                if let Some(compute) = compute.filter(|_| !request.sites[site].wants_nothing()) {
                    need(&compute.rm);
                }
            }
            Step::Link(link) => {
                plan.routes[link].iter().for_each(|(edge, _)| need(&topology.edge(*edge).rm));
            }
        }
    }
    order
}
