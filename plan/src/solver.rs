//! The solvers, by the names that users choose them by. Only this module knows which solvers there
//! are, and what a shell has to know about each.
//!
//! A new solver needs a variant here, a line in each `match`, and its name in the comment of
//! `PlanOptions.solver` in the schema.

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Refusal, RmName, Span, Topology, limits};

use crate::baseline::{Backtrack, SlidingWindow, order};
use crate::ip::mip::aside::{DetachedMip, LibraryHost};
use crate::ip::{Exact, HandoverPlanner, IpOptions, Mip, MipBackend};
use crate::{FramePlanner, Plan, explain};

/// A solver that users can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Solver {
    /// Our branch and bound.
    #[default]
    Exact,
    /// A MIP library.
    Mip,
    /// A baseline: the first plan that fits, held at one resource manager after the other.
    Backtrack,
    /// A baseline: tries one start after the other, and chooses computers first and paths second.
    SlidingWindow,
}

impl Solver {
    /// All solvers, in the order in which they are listed to users.
    pub const ALL: [Self; 4] = [Self::Exact, Self::Mip, Self::Backtrack, Self::SlidingWindow];

    /// The name by which users choose it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Mip => "mip",
            Self::Backtrack => "backtrack",
            Self::SlidingWindow => "sliding-window",
        }
    }

    /// What the solver is, as one line of a help text.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Exact => "Our branch and bound",
            Self::Mip => "A MIP library",
            Self::Backtrack => {
                "A baseline: the first plan that fits, whatever it costs, held at one manager \
                 after the other"
            }
            Self::SlidingWindow => {
                "A baseline: start by start, computers first, then paths between them; the first start that fits"
            }
        }
    }

    /// The solver of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|solver| solver.name() == name)
    }

    /// All names, as a text for people: `"exact", "mip" or "backtrack"`.
    #[must_use]
    pub fn names() -> String {
        let quoted = Self::ALL.map(|solver| format!("{:?}", solver.name()));
        let [first @ .., last] = &quoted;
        format!("{} or {last}", first.join(", "))
    }

    /// Whether it works in an outside library, which cannot be told to stop.
    #[must_use]
    pub const fn is_outside(self) -> bool {
        matches!(self, Self::Mip)
    }

    /// Whether it plans frames one after the other, the earliest first, and stops at the first that
    /// fits. The other solvers plan every frame by itself.
    #[must_use]
    pub const fn slides(self) -> bool {
        matches!(self, Self::SlidingWindow)
    }

    /// Whether a frame that it refuses is proven to have no plan, unless its budget ended.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        !matches!(self, Self::SlidingWindow)
    }

    /// Whether its plan is held at one resource manager after the other, and a refusal makes it
    /// search for the next choice.
    #[must_use]
    pub const fn reserves_as_it_searches(self) -> bool {
        matches!(self, Self::Backtrack)
    }

    /// The order in which the resource managers of a plan get their Hold: each one after the one
    /// before has said yes. Empty means all at once.
    #[must_use]
    pub fn hold_order(
        self,
        topology: &Topology,
        request: &CoAllocation,
        plan: &Plan,
    ) -> Vec<RmName> {
        if self.reserves_as_it_searches() { order(topology, request, plan) } else { Vec::new() }
    }

    /// How much of one frame's share of the time an outside library may take. For `exact` it is
    /// what its own search leaves over, or zero if that is too little.
    #[must_use]
    pub fn outside_time(self, share: Span) -> Span {
        if self.is_outside() {
            return share.max(limits::SOLVER_TIME_MIN);
        }
        let left = Span::from_us(share.as_us() - limits::EXACT_TIME.as_us());
        if left < limits::SOLVER_TIME_MIN { Span::ZERO } else { left }
    }

    /// The planner of this solver. `exact` hands what its search leaves open to a library at
    /// `elsewhere`. With `None`, `exact` hands over nothing, and the library of `mip` works on the
    /// calling thread.
    #[must_use]
    pub fn planner(
        self,
        options: IpOptions,
        elsewhere: Option<LibraryHost>,
    ) -> Box<dyn FramePlanner> {
        let backend = MipBackend::default();
        match (self, elsewhere) {
            (Self::Exact, Some(elsewhere)) => {
                Box::new(HandoverPlanner::new(options, backend, limits::EXACT_NODES_MAX, elsewhere))
            }
            (Self::Exact, None) => Box::new(Exact::new(options)),
            (Self::Mip, Some(elsewhere)) => {
                Box::new(DetachedMip { mip: Mip::new(options, backend), elsewhere })
            }
            (Self::Mip, None) => Box::new(Mip::new(options, backend)),
            (Self::Backtrack, _) => Box::new(Backtrack { options }),
            (Self::SlidingWindow, _) => Box::new(SlidingWindow { options }),
        }
    }

    /// Adds to a refusal of this solver what binds, see [`explain`]. For a frame that the solver
    /// has not proven to have no plan, it adds only what [`explain`] can prove by itself.
    #[must_use]
    pub fn explain(
        self,
        topology: &Topology,
        request: &CoAllocation,
        view: &FrameView,
        options: &IpOptions,
        refusal: Refusal,
    ) -> Refusal {
        let explained = explain::explain(topology, request, view, options, refusal.clone());
        if self.is_complete() || explained.bottleneck.is_some() { explained } else { refusal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_solver_is_found_by_its_name_and_its_planner_bears_it() {
        for solver in Solver::ALL {
            assert_eq!(Solver::named(solver.name()), Some(solver));
            for elsewhere in [None, Some(DetachedMip::here())] {
                let planner = solver.planner(IpOptions::default(), elsewhere);
                assert_eq!(planner.name(), solver.name());
            }
        }
        assert_eq!(Solver::named("Exact"), None);
        assert_eq!(Solver::names(), r#""exact", "mip", "backtrack" or "sliding-window""#);
    }

    #[test]
    fn only_a_library_is_given_time_without_a_search_of_ours_before_it() {
        let share = Span::from_millis(650);
        assert_eq!(Solver::Mip.outside_time(share), share);
        assert_eq!(Solver::Mip.outside_time(Span::ZERO), limits::SOLVER_TIME_MIN);
        assert_eq!(Solver::Exact.outside_time(share), Span::ZERO, "50 ms are too few");
        let long = Span::from_millis(1_600);
        assert_eq!(Solver::Exact.outside_time(long), Span::from_millis(1_000));
    }
}
