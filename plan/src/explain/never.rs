//! Whether a refused request is beyond the federation even when nothing is booked.
//!
//! Only such a request is refused for good; a client that is told to try again would otherwise try
//! for ever. The proof is a statement of what binds in the empty federation or, where only all
//! parts together never fit, a search of the empty federation. A search that ends early proves
//! nothing.

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Reason, Refusal, Topology, Window, limits};

use super::{Case, bottleneck, tell, words};
use crate::ip::{Exact, IpOptions};
use crate::{Budget, FramePlanner, Instance, Outcome};

/// The refusal for good of a request that has no plan in the empty federation. `None` when it has
/// one, or when the budget ended before that was known.
#[must_use]
pub fn never(
    topology: &Topology,
    request: &CoAllocation,
    window: Window,
    options: &IpOptions,
    budget: &Budget<'_>,
) -> Option<Refusal> {
    let empty = FrameView::empty_federation(topology, window);
    if let Some(found) = bottleneck(topology, request, &empty, options) {
        let refused = Refusal::new(Reason::NoRoute, words::never(request));
        let case = Case::new(topology, request, &empty, options);
        let told = tell(&case, refused, found, true);
        return Some(Refusal { reason: Reason::BeyondCapacity, ..told });
    }
    let (instance, planner) = (Instance::new(topology, request, &empty), Exact::new(*options));
    // Any plan is enough. A search for a better plan is stopped soon; one that has found no plan
    // yet goes on.
    for nodes in [limits::QUICK_NODES.min(budget.nodes), budget.nodes] {
        let Outcome::Refused(why) = planner.plan(&instance, &Budget { nodes, ..*budget }) else {
            return None;
        };
        match why.reason {
            Reason::BudgetExhausted => {}
            Reason::BeyondCapacity => return Some(why),
            _ => return Some(Refusal::new(Reason::BeyondCapacity, words::never(request))),
        }
    }
    None
}
