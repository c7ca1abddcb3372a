//! microlp: simplex, and branch and bound, in pure Rust.

use coalloc_common::Span;
use microlp::{ComparisonOp, Error, OptimizationDirection, Problem, SolutionStatus, SolveOptions};

use super::Answer;
use super::model::Model;

pub(super) fn solve(model: &Model, time: Span) -> Answer {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    // Above 2^53 this is the nearest float, which `lower_bound` allows for.
    let columns: Vec<_> =
        model.costs.iter().map(|cost| problem.add_binary_var(*cost as f64)).collect();
    for row in &model.rows {
        let terms = || row.float_terms().map(|(column, by)| (columns[column], by));
        let (low, high) = row.float_bounds();
        if row.low == row.high {
            problem.add_constraint(terms(), ComparisonOp::Eq, low);
            continue;
        }
        problem.add_constraint(terms(), ComparisonOp::Le, high);
        // Sums of binary columns are not negative.
        if row.low > 0 {
            problem.add_constraint(terms(), ComparisonOp::Ge, low);
        }
    }
    let mut options = SolveOptions::default();
    options.time_limit = Some(time.to_std());
    match problem.solve_with(options).map(microlp::SolveOutcome::into_solution) {
        Ok(Ok(solution)) => Answer::Solved {
            values: columns.iter().map(|column| solution.var_value(*column)).collect(),
            bound: solution.stats().best_bound.unwrap_or(f64::NEG_INFINITY),
            optimal: solution.status() == SolutionStatus::Optimal,
        },
        Ok(Err(_)) => Answer::OutOfTime,
        Err(Error::Infeasible) => Answer::Infeasible,
        Err(error) => Answer::Failed(error.to_string()),
    }
}
