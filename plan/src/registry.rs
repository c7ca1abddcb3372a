//! All planners by the names that users choose them by: solvers of co-allocations ([`Solver`]),
//! planners of tasks ([`TaskPlannerName`]) and planners of workflows ([`WorkflowPlannerName`]). The coordinator, the command line and the simulator read this
//! table, and a test compares it with the schema and the guide.
//!
//! A new planner is a module of its own that implements [`FramePlanner`] or [`TaskPlanner`], a variant and
//! one entry here, and its name in the comment of `PlanOptions.solver` or `TaskOptions.planner` in the
//! schema and in the table of the guide. `CONTRIBUTING.md` has an example.
//!
//! Left out: solvers that are programs ([`Program`](crate::ip::Program)). Only the simulator starts them.

use coalloc_common::suggest::did_you_mean;
use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Refusal, RmName, Span, Topology, limits};

use crate::baseline::{Backtrack, SlidingWindow, order};
use crate::ip::mip::aside::{DetachedMip, LibraryHost};
use crate::ip::{Exact, HandoverPlanner, IpOptions, Mip, MipBackend};
use crate::multicost::{Ect, McB, McT, Samcra, TaskPlanner};
use crate::workflow::{HeftSync, PrintedBacktracking, SetSearch, WorkflowPlanner};
use crate::{FramePlanner, Plan, explain};

/// Something that users choose by its name.
pub trait Named: Copy + Send + Sync + 'static {
    /// What it is, as a message says it: `not a solver`.
    const WHAT: &'static str;
    /// All there are, in the order in which they are listed to users.
    const ALL: &'static [Self];

    /// The name by which users choose it.
    fn name(self) -> &'static str;

    /// What it is, as one line of a help text.
    fn about(self) -> &'static str;

    /// The one of this name.
    #[must_use]
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|choice| choice.name() == name)
    }

    /// All names, as a text for people: `"exact", "mip" or "backtrack"`.
    #[must_use]
    fn names() -> String {
        let quoted: Vec<String> =
            Self::ALL.iter().map(|choice| format!("{:?}", choice.name())).collect();
        match quoted.as_slice() {
            [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            _ => quoted.concat(),
        }
    }

    /// What is allowed instead of a wrong name: all names, and the nearest of them.
    #[must_use]
    fn instead_of(wrong: &str) -> String {
        let guess = did_you_mean(wrong, Self::ALL.iter().map(|choice| choice.name()));
        Self::names() + &guess
    }
}

/// A solver of co-allocations that users can choose.
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

/// What a solver's refusal of a frame says, unless its budget ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusals {
    /// The frame has no plan.
    Proven,
    /// The solver found none. The frame may have one.
    Unproven,
}

/// What a shell has to know of a solver.
#[derive(Debug, Clone, Copy)]
struct SolverEntry {
    name: &'static str,
    about: &'static str,
    /// Makes the planner; see [`Solver::planner`].
    make: fn(IpOptions, Option<LibraryHost>) -> Box<dyn FramePlanner>,
    /// Whether it works in an outside library, which cannot be told to stop.
    is_outside: bool,
    /// Whether it plans frames one after the other, and stops at the first that fits.
    slides: bool,
    refusals: Refusals,
    /// Whether its plan is held at one resource manager after the other.
    reserves_as_it_searches: bool,
}

impl SolverEntry {
    /// What holds of most solvers. An entry names what differs.
    const fn new(
        name: &'static str,
        about: &'static str,
        refusals: Refusals,
        make: fn(IpOptions, Option<LibraryHost>) -> Box<dyn FramePlanner>,
    ) -> Self {
        Self {
            name,
            about,
            make,
            is_outside: false,
            slides: false,
            refusals,
            reserves_as_it_searches: false,
        }
    }
}

impl Solver {
    /// The table of solvers.
    const fn entry(self) -> SolverEntry {
        match self {
            Self::Exact => SolverEntry::new(
                "exact",
                "Our branch and bound",
                Refusals::Proven,
                |options, host| match host {
                    Some(host) => {
                        let nodes = limits::EXACT_NODES_MAX;
                        let backend = MipBackend::default();
                        Box::new(HandoverPlanner::new(options, backend, nodes, host))
                    }
                    None => Box::new(Exact::new(options)),
                },
            ),
            Self::Mip => SolverEntry {
                is_outside: true,
                ..SolverEntry::new("mip", "A MIP library", Refusals::Proven, |options, host| {
                    let mip = Mip::new(options, MipBackend::default());
                    match host {
                        Some(elsewhere) => Box::new(DetachedMip { mip, elsewhere }),
                        None => Box::new(mip),
                    }
                })
            },
            Self::Backtrack => SolverEntry {
                reserves_as_it_searches: true,
                ..SolverEntry::new(
                    "backtrack",
                    "A baseline: the first plan that fits, whatever it costs, held at one manager \
                     after the other",
                    Refusals::Proven,
                    |options, _| Box::new(Backtrack { options }),
                )
            },
            Self::SlidingWindow => SolverEntry {
                slides: true,
                ..SolverEntry::new(
                    "sliding-window",
                    "A baseline: start by start, computers first, then paths between them; the \
                     first start that fits",
                    Refusals::Unproven,
                    |options, _| Box::new(SlidingWindow { options }),
                )
            },
        }
    }

    /// Whether it works in an outside library, which cannot be told to stop.
    #[must_use]
    pub const fn is_outside(self) -> bool {
        self.entry().is_outside
    }

    /// Whether it plans frames one after the other, the earliest first, and stops at the first that
    /// fits. The other solvers plan every frame by itself.
    #[must_use]
    pub const fn slides(self) -> bool {
        self.entry().slides
    }

    /// Whether a frame that it refuses is proven to have no plan, unless its budget ended.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        matches!(self.entry().refusals, Refusals::Proven)
    }

    /// Whether its plan is held at one resource manager after the other, and a refusal makes it
    /// search for the next choice.
    #[must_use]
    pub const fn reserves_as_it_searches(self) -> bool {
        self.entry().reserves_as_it_searches
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
        (self.entry().make)(options, elsewhere)
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

impl Named for Solver {
    const WHAT: &'static str = "a solver";
    const ALL: &'static [Self] = &[Self::Exact, Self::Mip, Self::Backtrack, Self::SlidingWindow];

    fn name(self) -> &'static str {
        self.entry().name
    }

    fn about(self) -> &'static str {
        self.entry().about
    }
}

/// A planner of tasks that users can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TaskPlannerName {
    /// Chooses path, cluster and both starts together, and proves the optimum.
    #[default]
    McT,
    /// The same, by the weights of paths.
    AwmcT,
    /// Chooses the cluster at which data arrive first.
    McB,
    /// Chooses the cluster that completes first over its shortest path.
    Ect,
    /// The same, looking only at the first link of the path.
    EctFirstLink,
    /// Chooses by the delay and load of this moment.
    Samcra,
    /// The same, decided again at every vertex.
    SamcraHbh,
    /// `mc-t` with the relation as the papers print it.
    McTPrinted,
}

/// What a shell has to know of a planner of tasks.
#[derive(Debug, Clone, Copy)]
struct TaskPlannerEntry {
    name: &'static str,
    about: &'static str,
    make: fn() -> Box<dyn TaskPlanner>,
}

impl TaskPlannerName {
    /// The table of planners of tasks.
    const fn entry(self) -> TaskPlannerEntry {
        match self {
            Self::McT => TaskPlannerEntry {
                name: "mc-t",
                about: "Path, cluster and both starts together, proven best",
                make: || Box::new(McT::optimal()),
            },
            Self::AwmcT => TaskPlannerEntry {
                name: "awmc-t",
                about: "The same, judging paths by how much is free: polynomial, not proven best",
                make: || Box::new(McT::available_weight()),
            },
            Self::McB => TaskPlannerEntry {
                name: "mc-b",
                about: "The cluster at which data arrive first",
                make: || Box::new(McB::default()),
            },
            Self::Ect => TaskPlannerEntry {
                name: "ect",
                about: "The cluster that completes first over its shortest path",
                make: || Box::new(Ect { first_link_only: false }),
            },
            Self::EctFirstLink => TaskPlannerEntry {
                name: "ect-first-link",
                about: "The same, looking only at the first path of the route",
                make: || Box::new(Ect { first_link_only: true }),
            },
            Self::Samcra => TaskPlannerEntry {
                name: "samcra",
                about: "Least delay and load at this moment together, to begin at once",
                make: || Box::new(Samcra::new(false)),
            },
            Self::SamcraHbh => TaskPlannerEntry {
                name: "samcra-hbh",
                about: "The same, decided again at every point of the route",
                make: || Box::new(Samcra::new(true)),
            },
            Self::McTPrinted => TaskPlannerEntry {
                name: "mc-t-printed",
                about: "mc-t by the papers' relation as it is printed, which can miss the best",
                make: || Box::new(McT::printed()),
            },
        }
    }

    /// Whether it begins at once, so that it need not know how long anything takes.
    #[must_use]
    pub const fn begins_at_once(self) -> bool {
        matches!(self, Self::Samcra | Self::SamcraHbh)
    }

    /// The planner.
    #[must_use]
    pub fn planner(self) -> Box<dyn TaskPlanner> {
        (self.entry().make)()
    }

    /// The planner as its paper has it, for experiments that count what the papers counted. It
    /// differs from [`TaskPlannerName::planner`] where that one asks another planner for help.
    #[must_use]
    pub fn alone(self) -> Box<dyn TaskPlanner> {
        match self {
            Self::AwmcT => Box::new(McT::available_weight_alone()),
            _ => self.planner(),
        }
    }
}

impl Named for TaskPlannerName {
    const WHAT: &'static str = "a task planner";
    const ALL: &'static [Self] = &[
        Self::McT,
        Self::AwmcT,
        Self::McB,
        Self::Ect,
        Self::EctFirstLink,
        Self::Samcra,
        Self::SamcraHbh,
        Self::McTPrinted,
    ];

    fn name(self) -> &'static str {
        self.entry().name
    }

    fn about(self) -> &'static str {
        self.entry().about
    }
}

/// A planner of workflows that users can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum WorkflowPlannerName {
    /// Every set in the window that ends first, and other sites for earlier nodes when a later one
    /// misses the deadline.
    #[default]
    HeftSyncBt,
    /// Greedy; a synchronous set goes on along time until it fits.
    HeftSyncAlong,
    /// Greedy, as the paper prints it.
    HeftSync,
    /// Sets by best-first backtracking, as the paper prints it.
    HeftSyncBtPrinted,
}

impl WorkflowPlannerName {
    /// The planner of this name.
    #[must_use]
    pub fn planner(self) -> Box<dyn WorkflowPlanner> {
        match self {
            Self::HeftSyncBt => Box::new(SetSearch),
            Self::HeftSyncAlong => Box::new(HeftSync::along()),
            Self::HeftSync => Box::new(HeftSync::printed()),
            Self::HeftSyncBtPrinted => Box::new(PrintedBacktracking),
        }
    }
}

impl Named for WorkflowPlannerName {
    const WHAT: &'static str = "a planner of workflows";
    const ALL: &'static [Self] =
        &[Self::HeftSyncBt, Self::HeftSyncAlong, Self::HeftSync, Self::HeftSyncBtPrinted];

    fn name(self) -> &'static str {
        match self {
            Self::HeftSyncBt => "heft-sync-bt",
            Self::HeftSyncAlong => "heft-sync-along",
            Self::HeftSync => "heft-sync",
            Self::HeftSyncBtPrinted => "heft-sync-bt-printed",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::HeftSyncBt => {
                "Every set where it ends first, proven; moves earlier activities for a deadline"
            }
            Self::HeftSyncAlong => "Greedy; a synchronous set goes on along time until it fits",
            Self::HeftSync => "Greedy, as the paper prints it: a set has one window to fit in",
            Self::HeftSyncBtPrinted => {
                "Backtracking inside sets, as the paper prints it: exponential, for comparison"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_solver_is_found_by_its_name_and_its_planner_bears_it() {
        for solver in Solver::ALL.iter().copied() {
            assert_eq!(Solver::named(solver.name()), Some(solver));
            for elsewhere in [None, Some(DetachedMip::here())] {
                let planner = solver.planner(IpOptions::default(), elsewhere);
                assert_eq!(planner.name(), solver.name());
            }
        }
        assert_eq!(Solver::named("Exact"), None);
        let all = Solver::names();
        assert!(all.starts_with(r#""exact", "mip", "#) && all.contains(r#"" or ""#), "{all}");
    }

    #[test]
    fn every_task_planner_is_found_by_its_name_and_bears_it() {
        for name in TaskPlannerName::ALL.iter().copied() {
            assert_eq!(TaskPlannerName::named(name.name()), Some(name));
            assert_eq!(name.planner().name(), name.name());
        }
        assert_eq!(TaskPlannerName::named("MC-T"), None);
        let all = TaskPlannerName::names();
        assert!(all.starts_with("\"mc-t\", \"awmc-t\"") && all.ends_with("or \"mc-t-printed\""));
    }

    #[test]
    fn every_workflow_planner_is_found_by_its_name_and_bears_it() {
        for name in WorkflowPlannerName::ALL.iter().copied() {
            assert_eq!(WorkflowPlannerName::named(name.name()), Some(name));
            assert_eq!(name.planner().name(), name.name());
        }
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
