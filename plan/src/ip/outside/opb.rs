//! OPB, the format of the pseudo-Boolean competitions: variables `x1`, `x2`, .. in the order of the
//! model's columns, with whole coefficients and only `>=` and `=`.
//!
//! A row is written exactly as long as its coefficients add up to less than [`SUM_MAX`], even when
//! floating point would need it rounded. The bound is there because the programs calculate in 32
//! bits. Above it, the coefficients and the bound of the row are divided and rounded down. Such a
//! row may be wider than the exact one, as [`crate::ip::mip::model`] allows. Costs are divided in
//! the same way, and a bound on them is in that coarser unit.

use std::fmt::Write as _;

use crate::ip::mip::model::{Model, Row};

/// Bound on the sum of the coefficients of one constraint or of the objective: half of what 32
/// signed bits hold.
const SUM_MAX: u128 = 1 << 30;

/// The model as text, and how many of the model's units of cost make one unit of the text.
pub(super) fn write(model: &Model) -> (String, u64) {
    let unit = unit(model.costs.iter().copied());
    let equal = |row: &&Row| row.low == row.high;
    let lows = model.rows.iter().filter(|row| row.low > 0 && !equal(row)).count();
    let mut text = format!(
        "* #variable= {} #constraint= {}\nmin:",
        model.costs.len(),
        model.rows.len() + lows
    );
    for (column, cost) in model.costs.iter().enumerate() {
        // A cost below the unit is written as no cost.
        if cost / unit > 0 {
            // Writing to a String cannot fail, here and below.
            let _ = write!(text, " +{} x{}", cost / unit, column + 1);
        }
    }
    text += " ;\n";
    for row in &model.rows {
        constraint(&mut text, row);
    }
    (text, unit)
}

fn constraint(text: &mut String, row: &Row) {
    let unit = unit(row.terms.iter().map(|(_, by)| by.unsigned_abs()));
    // Rows with negative coefficients are never divided: Eq. (9) has only ones.
    let by = i64::try_from(unit).unwrap_or(i64::MAX);
    let sum = |text: &mut String, sign: i64| {
        for (column, coefficient) in &row.terms {
            if coefficient / by != 0 {
                let _ = write!(text, "{:+} x{} ", sign * coefficient / by, column + 1);
            }
        }
    };
    if row.low == row.high {
        sum(text, 1);
        let _ = writeln!(text, "= {} ;", row.low / by);
        return;
    }
    sum(text, -1);
    let _ = writeln!(text, ">= {} ;", -(row.high / by));
    if row.low > 0 {
        sum(text, 1);
        let _ = writeln!(text, ">= {} ;", row.low);
    }
}

/// The divisor that keeps the sum of the coefficients below [`SUM_MAX`]: 1 as long as it is.
pub(super) fn unit(coefficients: impl Iterator<Item = u64>) -> u64 {
    let sum: u128 = coefficients.map(u128::from).sum();
    // At most the sum of a few thousand 64-bit numbers divided by 2^30.
    u64::try_from(sum / SUM_MAX + 1).unwrap_or(u64::MAX)
}
