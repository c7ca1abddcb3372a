//! A plan as people read it: one line about the whole, and one for each part.

use std::fmt::Write as _;

use coalloc_common::Span;
use coalloc_proto::v1;

use super::comparison;
use crate::kit::text;

/// When the plan runs, what it costs, and how close to the optimum it is.
#[must_use]
pub fn headline(plan: &v1::Plan) -> String {
    let quality = if plan.proven_optimal {
        "proven optimal".to_owned()
    } else if !plan.coarse.is_empty() {
        "not proven optimal: too many objectives for exact sums".to_owned()
    } else if plan.lower_bound_millipoints == 0 {
        "not proven optimal".to_owned()
    } else {
        let bound = text::points(plan.lower_bound_millipoints);
        format!("not proven optimal: no plan costs less than {bound} (gap {})", gap(plan))
    };
    format!("{}, {quality}", when_and_cost(plan))
}

/// When the plan runs, and what it costs.
#[must_use]
pub fn when_and_cost(plan: &v1::Plan) -> String {
    let window = text::window(plan.window.as_ref());
    let length = text::length(plan.window.as_ref()).unwrap_or(Span::ZERO);
    let cost = text::points(plan.cost_millipoints);
    let price =
        comparison::price(plan).map_or_else(String::new, |price| format!(", price {price} points"));
    format!("{window} ({length}){price}, cost {cost} points")
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

/// The RM of each site and the path of each link, one line each, in columns.
#[must_use]
pub fn body(plan: &v1::Plan) -> String {
    let mut lines: Vec<[String; 3]> = Vec::new();
    for placement in &plan.placements {
        let amounts = text::amounts(placement.cpus, &placement.others);
        lines.push([placement.site.clone(), amounts, format!("at {}", placement.at)]);
    }
    for route in &plan.routes {
        let ends = format!("{} -> {}", route.from, route.to);
        lines.push([ends, text::rate(route.bandwidth_bps), way(route)]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let (names, amounts) = (width(0), width(1));
    let mut out = String::new();
    for [name, amount, place] in &lines {
        let _ = writeln!(out, "  {name:names$}  {amount:amounts$}  {place}");
    }
    out
}

fn way(route: &v1::Route) -> String {
    let via = route.via.join(" -> ");
    let paths = route.paths.join(", ");
    let latency = match &route.latency {
        Some(latency) if latency.seconds != 0 || latency.nanos != 0 => {
            format!(", {}", text::span(Some(latency)))
        }
        _ => String::new(),
    };
    format!("{via} (by {paths}{latency})")
}
