//! What differs between several plans, for whoever shows them: `coalloc plan`, and the coordinator's page.
//!
//! Left out: how it is laid out.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::Value;
use coalloc_proto::v1;

/// How close a plan is to the best of its frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Optimality {
    /// No plan of the frame is better.
    Proven,
    /// The sums were too long to be exact.
    Coarse,
    /// Nothing is proven.
    Unknown,
    /// No plan of the frame costs less than by this share, in percent.
    Within(String),
}

/// How close the plan is to the best of its frame.
#[must_use]
pub fn optimality(plan: &v1::Plan) -> Optimality {
    if plan.proven_optimal {
        Optimality::Proven
    } else if !plan.coarse.is_empty() {
        Optimality::Coarse
    } else if plan.lower_bound_millipoints == 0 {
        Optimality::Unknown
    } else {
        Optimality::Within(gap(plan))
    }
}

/// The same in a cell of a table.
#[must_use]
pub fn optimality_cell(plan: &v1::Plan) -> String {
    match optimality(plan) {
        Optimality::Proven => "proven".to_owned(),
        Optimality::Coarse | Optimality::Unknown => "not proven".to_owned(),
        Optimality::Within(gap) => format!("gap {gap}"),
    }
}

/// Returns by how much, at most, the cheapest plan could be cheaper than this one, in percent of this
/// plan's cost.
///
/// The result is rounded up, so that an open gap is never shown as closed.
fn gap(plan: &v1::Plan) -> String {
    let cost = u128::from(plan.cost_millipoints.max(1));
    let open = u128::from(plan.cost_millipoints.saturating_sub(plan.lower_bound_millipoints));
    let hundredths = (open * 10_000).div_ceil(cost);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// The word for an objective in the head of a column.
#[must_use]
pub const fn objective_word(objective: v1::Objective) -> &'static str {
    match objective {
        v1::Objective::Unspecified => "unknown",
        v1::Objective::Start => "start",
        v1::Objective::Price => "price",
        v1::Objective::Quality => "quality loss",
        v1::Objective::Load => "load",
        // People read it as the cost of the plan.
        v1::Objective::Preference => "cost",
    }
}

/// The objectives that are shown, in the order of ranking. `requested` are those that the caller named.
///
/// An objective counts if it comes before the last of start and preference, which always count. An
/// objective that was requested is also shown, and so is any price that is not zero.
#[must_use]
pub fn columns(plans: &[v1::Plan], requested: &[i32]) -> Vec<v1::Objective> {
    let Some(first) = plans.first() else { return Vec::new() };
    let order: Vec<v1::Objective> = first.values.iter().map(|v| v.objective()).collect();
    let always = [v1::Objective::Start, v1::Objective::Preference];
    let counting = order.iter().rposition(|o| always.contains(o)).map_or(0, |last| last + 1);
    let costs = |objective| plans.iter().any(|plan| value(plan, objective) != Some(0));
    let shown = order.iter().enumerate().filter(|(at, objective)| {
        let requested = requested.contains(&i32::from(**objective));
        let priced = **objective == v1::Objective::Price && costs(**objective);
        // The start is not shown, because the window shows it.
        **objective != v1::Objective::Start && (*at < counting || requested || priced)
    });
    shown.map(|(_, objective)| *objective).collect()
}

/// The value of a plan by an objective, in the unit of the objective; `None` if the plan does not say it.
#[must_use]
pub fn value(plan: &v1::Plan, objective: v1::Objective) -> Option<u64> {
    plan.values.iter().find(|value| value.objective() == objective).map(|value| value.value)
}

/// The same for people, in points or in the unit of the objective.
#[must_use]
pub fn value_cell(plan: &v1::Plan, objective: v1::Objective) -> String {
    let Some(value) = value(plan, objective) else { return "-".to_owned() };
    match objective {
        v1::Objective::Quality | v1::Objective::Start => value.to_string(),
        _ => Value { milli: value }.to_string(),
    }
}

/// The values, if they are not all the same.
pub fn differing<T: PartialEq>(values: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let values: Vec<T> = values.collect();
    values.windows(2).any(|pair| pair[0] != pair[1]).then_some(values)
}

/// The sites of a plan that differ between the plans: `a N0, b N1`.
#[must_use]
pub fn differing_sites(plan: &v1::Plan, plans: &[v1::Plan]) -> String {
    let here = plan.placements.iter().enumerate().filter(|(number, _)| {
        differing(plans.iter().map(|plan| plan.placements.get(*number).map(|one| &one.at)))
            .is_some()
    });
    let here: Vec<String> = here.map(|(_, one)| format!("{} {}", one.site, one.at)).collect();
    here.join(", ")
}

/// The paths of a plan that differ between the plans, link by link, and that its sites do not tell.
#[must_use]
pub fn differing_paths(plan: &v1::Plan, plans: &[v1::Plan]) -> String {
    let here = plan.routes.iter().enumerate().filter(|(number, _)| {
        let all = plans.iter().filter_map(|plan| plan.routes.get(*number));
        differing(all.clone().map(|route| &route.paths)).is_some() && !told_by_sites(all)
    });
    let shown =
        here.map(|(_, route)| format!("{}-{} by {}", route.from, route.to, route.paths.join(", ")));
    shown.collect::<Vec<String>>().join("; ")
}

/// Is each of the routes of a link one path, and the only one that some plan takes between its two sites?
fn told_by_sites<'a>(routes: impl Iterator<Item = &'a v1::Route>) -> bool {
    let mut between: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for route in routes {
        if route.paths.len() > 1 {
            return false;
        }
        between.entry(&route.via).or_default().insert(&route.paths);
    }
    between.values().all(|paths| paths.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(sites: [&str; 2], paths: &[&str]) -> v1::Plan {
        let placement = |site: &str, at: &str| v1::Placement {
            site: site.to_owned(),
            at: at.to_owned(),
            ..Default::default()
        };
        let route = v1::Route {
            from: "a".to_owned(),
            to: "b".to_owned(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            via: sites.iter().map(|site| (*site).to_owned()).collect(),
            ..Default::default()
        };
        v1::Plan {
            placements: vec![placement("a", sites[0]), placement("b", sites[1])],
            routes: vec![route],
            ..Default::default()
        }
    }

    #[test]
    fn paths_are_told_only_where_sites_do_not_tell_them() {
        let plans = [placed(["N0", "N1"], &["N0-N1"]), placed(["N0", "N2"], &["N0-N2"])];
        assert_eq!(differing_sites(&plans[1], &plans), "b N2");
        assert_eq!(differing_paths(&plans[1], &plans), "");
        let plans = [placed(["N0", "N1"], &["N0-N1"]), placed(["N0", "N1"], &["N0-X", "X-N1"])];
        assert_eq!(differing_sites(&plans[1], &plans), "");
        assert_eq!(differing_paths(&plans[1], &plans), "a-b by N0-X, X-N1");
    }

    #[test]
    fn an_open_gap_is_never_shown_as_closed() {
        let plan = |cost, bound| v1::Plan {
            cost_millipoints: cost,
            lower_bound_millipoints: bound,
            ..Default::default()
        };
        assert_eq!(optimality(&plan(1_000_000, 999_999)), Optimality::Within("0.01 %".to_owned()));
        assert_eq!(optimality(&plan(1_000, 0)), Optimality::Unknown);
    }
}
