//! Solver `mip`: Eq. (1) to (11) of Takefusa 2010 as a model for a MIP library.
//!
//! The library is a [`MipBackend`]: microlp, which is pure Rust, or HiGHS with cargo feature
//! `highs`. It works in floating point and measures its own time, and its answers are not trusted.
//! Placements and routes are read from its answer and cycles of zero value dropped; the value is
//! added up in integers, and [`super::verify`] checks the plan. Models use small whole numbers
//! where rates and latencies allow (see [`model`]). Where they do not, capacities are rounded up;
//! an answer that exceeds one is excluded by a cut, and the model is solved again.
//!
//! The caller's stop takes effect before a solve and between solves, not during one. `solver_time`
//! bounds a solve as well as the library keeps to it; [`aside`] leaves a library behind that does
//! not. `nodes` is not used. [`super::outside`] gives the same models to programs.

pub mod aside;
mod decode;
#[cfg(feature = "highs")]
mod highs;
mod microlp;
pub(super) mod model;

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Refusal, Span, Topology};

use self::model::Model;
use super::{IpOptions, admit, verify};
use crate::{Budget, FramePlanner, Instance, Outcome, Plan};

/// How often a model with rounded capacities is solved at most. Each excluded answer costs one
/// solve.
const ROUNDS_MAX: i64 = 16;
/// While a cost is below this many units of the objective, one unit is clearly larger than every
/// tolerance.
const CLEAR_UNITS: u64 = 100_000_000;

/// The library that solves the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MipBackend {
    /// microlp: pure Rust, always available.
    #[default]
    Microlp,
    /// HiGHS: C++, an order of magnitude faster on large models.
    #[cfg(feature = "highs")]
    Highs,
}

/// The planner `mip`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mip {
    /// N_max and Eq. (10).
    pub options: IpOptions,
    /// The library that solves the models.
    pub backend: MipBackend,
}

/// A solver's answer, in the model's units.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// The values of the columns, a lower bound of every solution, and whether optimality was
    /// proven.
    Solved { values: Vec<f64>, bound: f64, optimal: bool },
    /// It is proven that there is no solution.
    Infeasible,
    /// Neither a solution nor a proof within the time.
    OutOfTime,
    /// The solver gave up; the text is what it reported.
    Failed(String),
}

/// A solver of models.
pub(super) trait Solve {
    /// The name of the solver in plans: the planner's name.
    fn name(&self) -> &'static str;
    /// The name of the solver in a refusal.
    fn called(&self) -> &'static str;
    /// Solves one model. `time` is positive.
    fn solve(&self, model: &Model, time: Span) -> Answer;
}

impl Mip {
    /// The planner with these options and this library.
    #[must_use]
    pub const fn new(options: IpOptions, backend: MipBackend) -> Self {
        Self { options, backend }
    }
}

impl Solve for MipBackend {
    fn name(&self) -> &'static str {
        "mip"
    }

    fn called(&self) -> &'static str {
        "the MIP library"
    }

    fn solve(&self, model: &Model, time: Span) -> Answer {
        match self {
            Self::Microlp => microlp::solve(model, time),
            #[cfg(feature = "highs")]
            Self::Highs => highs::solve(model, time),
        }
    }
}

impl FramePlanner for Mip {
    fn name(&self) -> &'static str {
        "mip"
    }

    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome {
        self.plan_by(&self.backend, instance, budget)
    }
}

/// The outcome of all solves of one model.
pub(super) enum Attempt {
    Planned(Plan),
    /// It is proven that there is no solution.
    Infeasible,
    /// Neither a solution nor a proof within the time.
    OutOfTime,
    /// Neither a solution nor a proof, and the reason.
    Failed(String),
}

impl Mip {
    fn plan_by(&self, by: &dyn Solve, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome {
        let Instance { topology, request, view, .. } = instance;
        let candidates = match admit::candidates(topology, request, view) {
            Ok(candidates) => candidates,
            Err(refusal) => return Outcome::Refused(*refusal),
        };
        // Building a model takes time too, and a search for a smaller request plans many times in a
        // row.
        if budget.stopped() {
            let what = "the MIP library timed out";
            return Outcome::Refused(admit::exhausted(view, budget, what));
        }
        let model = Model::new(instance, &self.options, &candidates);
        match attempt(by, &self.options, model, instance, budget) {
            Attempt::Planned(plan) => Outcome::Planned(plan),
            Attempt::Infeasible => Outcome::Refused(self.no_route(topology, request, view)),
            Attempt::OutOfTime => {
                let what = "the MIP library timed out";
                Outcome::Refused(admit::exhausted(view, budget, what))
            }
            Attempt::Failed(what) => Outcome::Refused(admit::exhausted(view, budget, &what)),
        }
    }

    /// A plan that is cheaper than `plan`; otherwise `plan` itself, with the best lower bound known
    /// now.
    fn improve_by(
        &self,
        by: &dyn Solve,
        instance: &Instance<'_>,
        budget: &Budget<'_>,
        plan: Plan,
    ) -> Plan {
        let Instance { topology, request, view, .. } = instance;
        let Ok(candidates) = admit::candidates(topology, request, view) else { return plan };
        let mut model = Model::new(instance, &self.options, &candidates);
        // Where one unit of the objective is lost in the tolerances, "no solution" would prove
        // nothing.
        let clear = plan.cost / model.unit < CLEAR_UNITS;
        if clear && !model.beat(plan.cost) {
            return Plan { lower_bound: plan.cost, ..plan };
        }
        match attempt(by, &self.options, model, instance, budget) {
            Attempt::Planned(other) if other.cost < plan.cost => Plan {
                lower_bound: other.lower_bound.max(plan.lower_bound).min(other.cost),
                ..other
            },
            // Without the added row, the bound of this answer holds for every plan.
            Attempt::Planned(other) => {
                Plan { lower_bound: other.lower_bound.max(plan.lower_bound).min(plan.cost), ..plan }
            }
            Attempt::Infeasible if clear => Plan { lower_bound: plan.cost, ..plan },
            Attempt::Infeasible | Attempt::OutOfTime | Attempt::Failed(_) => plan,
        }
    }

    fn no_route(&self, topology: &Topology, request: &CoAllocation, view: &FrameView) -> Refusal {
        admit::no_route(topology, request, view, &self.options)
    }
}

/// Solves a model. While rounded rows let a plan exceed a capacity, adds cuts and solves again.
pub(super) fn attempt(
    by: &dyn Solve,
    options: &IpOptions,
    mut model: Model,
    instance: &Instance<'_>,
    budget: &Budget<'_>,
) -> Attempt {
    let Instance { topology, request, view, .. } = instance;
    let rounds = if model.rounded { ROUNDS_MAX } else { 1 };
    let time = Span::from_us(budget.solver_time.as_us() / rounds);
    let failed = |what: &str| Attempt::Failed(format!("{} {what}", by.called()));
    if time <= Span::ZERO {
        return Attempt::OutOfTime;
    }
    for _ in 0..rounds {
        if budget.stopped() {
            return failed("was stopped");
        }
        let (values, bound, optimal) = match by.solve(&model, time) {
            Answer::Solved { values, bound, optimal } => (values, bound, optimal),
            Answer::Infeasible => return Attempt::Infeasible,
            Answer::OutOfTime => return Attempt::OutOfTime,
            Answer::Failed(what) => return failed(&format!("gave up ({what})")),
        };
        let Some(mut plan) = decode::plan(&model, instance, &values, by.name()) else {
            return failed("answered with sites that no route joins");
        };
        plan.lower_bound = lower_bound(&model, plan.cost, bound, optimal);
        let rounded = model.rounded;
        let cuts = if rounded { model.overstepped(topology, request, view, &plan) } else { 0 };
        if cuts == 0 {
            return match verify(instance, options, &plan) {
                Ok(()) => Attempt::Planned(plan),
                Err(what) => failed(&format!("gave a wrong plan ({what})")),
            };
        }
    }
    failed("exceeded rounded capacities")
}

/// The library's bound as an integer. A plan costs a whole number of the model's units, so a proven
/// optimum is exact as long as a unit is far larger than the tolerances. Otherwise the bound is
/// lowered by more than the tolerances and then rounded up to the next whole unit.
fn lower_bound(model: &Model, cost: u64, bound: f64, optimal: bool) -> u64 {
    if optimal && cost / model.unit < CLEAR_UNITS {
        return cost;
    }
    let safe = bound - (1e-6 * bound.abs()).max(1e-3);
    if !safe.is_finite() || safe <= 0.0 {
        return 0;
    }
    // The cast saturates, and the result is capped at the plan's own cost.
    let units = safe.ceil() as u64;
    units.saturating_mul(model.unit).min(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_the_library_are_taken_down_before_they_are_rounded_up() {
        let mut model = Model::default();
        model.unit = 1_000;
        let cost = 20_000;
        let bound = |bound, optimal| lower_bound(&model, cost, bound, optimal);
        assert_eq!(bound(12.4, false), 13_000);
        assert_eq!(bound(12.000_5, false), 12_000, "within the tolerance of 12");
        assert_eq!(bound(20.000_000_1, false), 20_000);
        assert_eq!(bound(f64::NEG_INFINITY, false), 0);
        assert_eq!(bound(f64::NAN, false), 0);
        assert_eq!(bound(19.999_999, true), 20_000);
    }
}
