//! CPLEX LP: columns `x0`, `x1`, .. in the order of the model. Each column is in the objective, so
//! that programs which number columns as they meet them number them as we do.

use std::fmt::Write as _;

use crate::ip::mip::model::{Model, Row};

/// Terms in one line, because readers limit the length of a line.
const TERMS_A_LINE: usize = 8;

/// The model as text.
pub(super) fn write(model: &Model) -> String {
    let mut text = String::from("\\ Takefusa 2010, Eq. (1) to (11), of one frame\nMinimize\n obj:");
    let costs = model.costs.iter().enumerate();
    terms(&mut text, costs.map(|(column, cost)| (column, false, cost.to_string())));
    text += "\nSubject To\n";
    for (number, row) in model.rows.iter().enumerate() {
        let (low, high) = row.float_bounds();
        if row.low == row.high {
            constraint(&mut text, &format!("r{number}"), row, "=", low);
            continue;
        }
        constraint(&mut text, &format!("r{number}"), row, "<=", high);
        // Sums of binary columns are not negative.
        if row.low > 0 {
            constraint(&mut text, &format!("l{number}"), row, ">=", low);
        }
    }
    text += "Binary\n";
    for columns in (0..model.costs.len()).collect::<Vec<_>>().chunks(TERMS_A_LINE) {
        for column in columns {
            // Writing to a String cannot fail, here and below.
            let _ = write!(text, " x{column}");
        }
        text.push('\n');
    }
    text + "End\n"
}

fn constraint(text: &mut String, name: &str, row: &Row, relation: &str, bound: f64) {
    let _ = write!(text, " {name}:");
    // A float's text is read back as the same float.
    terms(text, row.float_terms().map(|(column, by)| (column, by < 0.0, by.abs().to_string())));
    let _ = writeln!(text, " {relation} {bound}");
}

/// Writes terms: the column, whether it is subtracted, and its coefficient without a sign.
fn terms(text: &mut String, terms: impl Iterator<Item = (usize, bool, String)>) {
    for (at, (column, negative, by)) in terms.enumerate() {
        if at > 0 && at % TERMS_A_LINE == 0 {
            text.push_str("\n  ");
        }
        let sign = if negative { '-' } else { '+' };
        let _ = write!(text, " {sign} {by} x{column}");
    }
}
