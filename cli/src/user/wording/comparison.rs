//! Compares several plans: one line per plan, one column for every objective that is in use.

use coalloc_proto::v1;

use crate::kit::text;

/// Digits of a digest that are shown: as many as are needed to reserve the plan by its digest.
const DIGEST_SHOWN: usize = coalloc_common::limits::DIGEST_PREFIX_MIN;

/// The word for an objective.
fn word(objective: v1::Objective) -> &'static str {
    match objective {
        v1::Objective::Unspecified => "unknown",
        v1::Objective::Start => "start",
        v1::Objective::Price => "price",
        v1::Objective::Quality => "quality loss",
        v1::Objective::Load => "load",
        v1::Objective::Preference => "preference",
    }
}

/// The objectives that are shown, in the order of ranking.
///
/// An objective counts if it comes before the last of start and preference, which always count. An
/// objective that was asked for is also shown, and so is any price that is not zero.
fn columns(plans: &[v1::Plan], asked: &[i32]) -> Vec<v1::Objective> {
    let Some(first) = plans.first() else { return Vec::new() };
    let order: Vec<v1::Objective> = first.values.iter().map(|v| v.objective()).collect();
    let always = [v1::Objective::Start, v1::Objective::Preference];
    let counting = order.iter().rposition(|o| always.contains(o)).map_or(0, |last| last + 1);
    let costs = |objective| plans.iter().any(|plan| value(plan, objective) != Some(0));
    let shown = order.iter().enumerate().filter(|(at, objective)| {
        let asked = asked.contains(&i32::from(**objective));
        let priced = **objective == v1::Objective::Price && costs(**objective);
        // The start is not shown, because the window shows it.
        **objective != v1::Objective::Start && (*at < counting || asked || priced)
    });
    shown.map(|(_, objective)| *objective).collect()
}

fn value(plan: &v1::Plan, objective: v1::Objective) -> Option<u64> {
    plan.values.iter().find(|value| value.objective() == objective).map(|value| value.value)
}

/// A value for people, in points or in the unit of the objective.
fn shown(plan: &v1::Plan, objective: v1::Objective) -> String {
    let Some(value) = value(plan, objective) else { return "-".to_owned() };
    match objective {
        v1::Objective::Quality | v1::Objective::Start => value.to_string(),
        _ => text::points(value),
    }
}

/// What the plan costs by the price schedules; `None` if it is free.
#[must_use]
pub fn price(plan: &v1::Plan) -> Option<String> {
    value(plan, v1::Objective::Price).filter(|price| *price > 0).map(text::points)
}

/// The plans, one line each; empty if there is nothing to compare.
///
/// `asked` are the objectives that the caller named.
#[must_use]
pub fn table(plans: &[v1::Plan], asked: &[i32]) -> String {
    if plans.len() < 2 && asked.is_empty() || plans.is_empty() {
        return String::new();
    }
    let columns = columns(plans, asked);
    let mut header = vec!["plan", "when"];
    header.extend(columns.iter().map(|objective| word(*objective)));
    header.push("digest");
    let mut table = text::table(&header);
    for (index, plan) in plans.iter().enumerate() {
        let mut row = vec![(index + 1).to_string(), text::window(plan.window.as_ref())];
        row.extend(columns.iter().map(|objective| shown(plan, *objective)));
        row.push(plan.digest.get(..DIGEST_SHOWN).unwrap_or_default().to_owned());
        table.add_row(row);
    }
    let numbers: Vec<usize> = (2..2 + columns.len()).collect();
    text::align_right(&mut table, &numbers);
    text::finish(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(values: &[(v1::Objective, u64)], digest: &str) -> v1::Plan {
        let value = |(objective, value): &(v1::Objective, u64)| v1::ObjectiveValue {
            objective: (*objective).into(),
            value: *value,
        };
        v1::Plan {
            values: values.iter().map(value).collect(),
            digest: digest.repeat(64),
            ..v1::Plan::default()
        }
    }

    #[test]
    fn objectives_in_use_have_a_column_in_their_order() {
        use v1::Objective::{Load, Preference, Price, Quality, Start};
        let values = [(Load, 1_500), (Start, 7), (Preference, 13_000), (Price, 0), (Quality, 9)];
        let plans = [plan(&values, "a"), plan(&values, "b")];
        let text = table(&plans, &[]);
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["plan", "when", "load", "preference", "digest"]);
        assert_eq!(lines[2], ["2", "-", "1.5", "13", "bbbbbbbbbbbb"]);
        let text = table(&plans[..1], &[Quality.into(), Price.into()]);
        assert!(text.contains("load  preference  price  quality loss  digest"), "{text}");
        assert_eq!(table(&plans[..1], &[]), "", "one plan needs no table");
    }
}
