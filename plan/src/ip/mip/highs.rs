//! HiGHS, with one thread and no gap accepted, so that comparisons measure what it proves.

use coalloc_common::Span;
use highs::{
    HighsModelStatus, HighsSolutionStatus, HighsStatus, RowProblem, Sense, TrySetOptionError,
};

use super::Answer;
use super::model::Model;

pub(super) fn solve(model: &Model, time: Span) -> Answer {
    let mut problem = RowProblem::default();
    let columns: Vec<_> =
        model.costs.iter().map(|cost| problem.add_integer_column(*cost as f64, 0..=1)).collect();
    for row in &model.rows {
        let terms: Vec<_> = row.float_terms().map(|(column, by)| (columns[column], by)).collect();
        let (low, high) = row.float_bounds();
        problem.add_row(low..=high, terms);
    }
    // Sums of binary columns with positive coefficients are not negative, so a lower bound of 0
    // does not bind.
    let mut library = match problem.try_optimise(Sense::Minimise) {
        Ok(library) => library,
        Err(status) => return Answer::Failed(format!("{status:?}")),
    };
    let seconds = time.to_std().as_secs_f64();
    let set = |library: &mut highs::Model| -> Result<(), TrySetOptionError> {
        library.try_set_option("time_limit", seconds)?;
        library.try_set_option("threads", 1)?;
        library.try_set_option("parallel", "off")?;
        library.try_set_option("mip_rel_gap", 0.0)?;
        library.try_set_option("mip_abs_gap", 1e-6)
    };
    if set(&mut library).is_err() {
        return Answer::Failed("it does not know an option".into());
    }
    match library.try_solve() {
        Ok(solved) => read(&solved),
        Err(status) => Answer::Failed(format!("{status:?}")),
    }
}

fn read(solved: &highs::SolvedModel) -> Answer {
    let bound: Result<f64, HighsStatus> = solved.double_info_value(c"mip_dual_bound");
    let found = |optimal| Answer::Solved {
        values: solved.get_solution().columns().to_vec(),
        bound: bound.unwrap_or(f64::NEG_INFINITY),
        optimal,
    };
    match solved.status() {
        HighsModelStatus::Optimal => found(true),
        // All columns are binary, so nothing is unbounded.
        HighsModelStatus::Infeasible | HighsModelStatus::UnboundedOrInfeasible => {
            Answer::Infeasible
        }
        HighsModelStatus::ReachedTimeLimit
            if solved.primal_solution_status() == HighsSolutionStatus::Feasible =>
        {
            found(false)
        }
        HighsModelStatus::ReachedTimeLimit => Answer::OutOfTime,
        other => Answer::Failed(format!("{other:?}")),
    }
}
