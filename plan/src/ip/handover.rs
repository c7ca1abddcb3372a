//! Planner `exact` with `mip` behind it: what the one leaves open when its nodes end, the other goes on
//! with.
//!
//! The incumbent goes along as a bound that the library's answer must beat (microlp takes no solution
//! to start from); "no solution" then proves the incumbent. The answer is the better plan of both with
//! the tighter bound of both. Nothing is handed over when the caller allows no [`Budget::solver_time`].

use coalloc_common::{Reason, Refusal};

use super::{Exact, IpOptions, Mip, MipBackend};
use crate::{Budget, FramePlanner, Instance, Outcome};

/// Where the library runs: calls what it is given once, and comes back when that has ended.
pub type Elsewhere = Box<dyn Fn(&mut (dyn FnMut() + Send)) + Send + Sync>;

/// The planner `exact`, handing over.
pub struct Handover {
    exact: Exact,
    mip: Mip,
    /// Nodes that `exact` gets when something may be handed over.
    nodes: u64,
    elsewhere: Elsewhere,
}

impl Handover {
    /// `exact` for `nodes` nodes of the budget, then a library; `elsewhere` says on which thread that
    /// one works.
    #[must_use]
    pub fn new(options: IpOptions, backend: MipBackend, nodes: u64, elsewhere: Elsewhere) -> Self {
        Self { exact: Exact::new(options), mip: Mip::new(options, backend), nodes, elsewhere }
    }

    /// The same on the calling thread.
    #[must_use]
    pub fn here(options: IpOptions, backend: MipBackend, nodes: u64) -> Self {
        Self::new(options, backend, nodes, Box::new(|work| work()))
    }
}

impl FramePlanner for Handover {
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
        let mut answer = None;
        (self.elsewhere)(&mut || {
            answer = Some(match &own {
                Outcome::Planned(plan) => {
                    Outcome::Planned(self.mip.improve(instance, budget, plan.clone()))
                }
                Outcome::Refused(_) => self.mip.plan(instance, budget),
            });
        });
        match answer {
            // Neither came to an end: what ours says of its budget stands.
            Some(Outcome::Refused(refusal)) if is_open(&refusal) => own,
            Some(answer) => answer,
            None => own,
        }
    }
}

fn is_open(refusal: &Refusal) -> bool {
    refusal.reason == Reason::BudgetExhausted
}
