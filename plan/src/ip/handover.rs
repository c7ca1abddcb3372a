//! Planner `exact` with `mip` behind it: what the one leaves open when its nodes end, the other goes on
//! with.
//!
//! The incumbent goes along as a bound that the library's answer must beat (microlp takes no solution
//! to start from); "no solution" then proves the incumbent. The answer is the better plan of both with
//! the tighter bound of both. Nothing is handed over when the caller allows no [`Budget::solver_time`].

use coalloc_common::{Reason, Refusal};

use super::mip::aside::{DetachedMip, LibraryHost};
use super::{Exact, IpOptions, Mip, MipBackend};
use crate::{Budget, FramePlanner, Instance, Outcome};

/// The planner `exact`, handing over.
pub struct HandoverPlanner {
    exact: Exact,
    mip: DetachedMip,
    /// Nodes that `exact` gets when something may be handed over.
    nodes: u64,
}

impl HandoverPlanner {
    /// `exact` for `nodes` nodes of the budget, then a library; `elsewhere` says on which thread that
    /// one works.
    #[must_use]
    pub fn new(
        options: IpOptions,
        backend: MipBackend,
        nodes: u64,
        elsewhere: LibraryHost,
    ) -> Self {
        let mip = DetachedMip { mip: Mip::new(options, backend), elsewhere };
        Self { exact: Exact::new(options), mip, nodes }
    }

    /// The same on the calling thread.
    #[must_use]
    pub fn here(options: IpOptions, backend: MipBackend, nodes: u64) -> Self {
        Self::new(options, backend, nodes, DetachedMip::here())
    }
}

impl FramePlanner for HandoverPlanner {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome {
        if budget.solver_time.as_us() <= 0 {
            return self.exact.plan(instance, budget);
        }
        let share = Budget { nodes: budget.nodes.min(self.nodes), ..*budget };
        let own = self.exact.plan(instance, &share);
        let open = match &own {
            Outcome::Planned(plan) => !plan.is_proven_optimal(),
            Outcome::Refused(refusal) => is_open(refusal),
        };
        if !open || budget.stopped() {
            return own;
        }
        let answer = match &own {
            Outcome::Planned(plan) => {
                Outcome::Planned(self.mip.improve(instance, budget, plan.clone()))
            }
            Outcome::Refused(_) => self.mip.plan(instance, budget),
        };
        match answer {
            // Neither came to an end: what ours says of its budget stands.
            Outcome::Refused(refusal) if is_open(&refusal) => own,
            answer => answer,
        }
    }
}

fn is_open(refusal: &Refusal) -> bool {
    refusal.reason == Reason::BudgetExhausted
}
