//! Planner `exact` with `mip` behind it: when the nodes of `exact` end before it has proven its
//! answer, `mip` continues.
//!
//! The best plan of `exact` is passed on as a bound that the library's answer must beat (microlp
//! takes no solution to start from). If the library then proves that there is no solution, that
//! plan is optimal. The answer is the better plan of both solvers, with the tighter of their
//! bounds. Nothing is handed over when the caller allows no [`Budget::solver_time`].

use coalloc_common::{Reason, Refusal};

use super::mip::aside::{DetachedMip, LibraryHost};
use super::{Exact, IpOptions, Mip, MipBackend};
use crate::{Budget, FramePlanner, Instance, Outcome};

/// The planner `exact`, which hands over to a library.
pub struct HandoverPlanner {
    exact: Exact,
    mip: DetachedMip,
    /// How many nodes `exact` gets when it may hand over.
    nodes: u64,
}

impl HandoverPlanner {
    /// Runs `exact` for `nodes` nodes of the budget, then a library. `elsewhere` runs the library,
    /// on a thread of its choice.
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

    /// The same planner, with the library on the calling thread.
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
            // Neither solver finished, so the refusal of `exact` is kept.
            Outcome::Refused(refusal) if is_open(&refusal) => own,
            answer => answer,
        }
    }
}

fn is_open(refusal: &Refusal) -> bool {
    refusal.reason == Reason::BudgetExhausted
}
