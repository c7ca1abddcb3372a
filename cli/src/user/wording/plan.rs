//! A plan as people read it: one line about the whole, and one for each part.

use std::fmt::Write as _;

use coalloc_common::{Span, Window};
use coalloc_net::convert::{span_from_wire, window_to_wire};
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

/// The RM of each site and the path of each link, one line each, in columns. A site whose kinds are taken at different
/// times has a line for each kind.
#[must_use]
pub fn body(plan: &v1::Plan) -> String {
    let mut lines: Vec<[String; 3]> = Vec::new();
    for placement in &plan.placements {
        let at = |when: &str| format!("at {}{when}", placement.at);
        let kinds = kinds(plan, placement);
        let first = kinds.first().map_or("", |(_, when)| when);
        if kinds.iter().all(|(_, when)| when == first) {
            let amounts = text::amounts(placement.cpus, &placement.others);
            lines.push([placement.site.clone(), amounts, at(first)]);
            continue;
        }
        for (amount, when) in &kinds {
            lines.push([placement.site.clone(), amount.clone(), at(when)]);
        }
    }
    for route in &plan.routes {
        let ends = format!("{} -> {}", route.from, route.to);
        let way = way(route) + &when(route.window.as_ref());
        lines.push([ends, text::rate(route.bandwidth_bps), way]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let (names, amounts) = (width(0), width(1));
    let mut out = String::new();
    for [name, amount, place] in &lines {
        let _ = writeln!(out, "  {name:names$}  {amount:amounts$}  {place}");
    }
    out
}

/// What is taken at a site, kind by kind, and when, if it is not for the whole of the plan.
fn kinds(plan: &v1::Plan, placement: &v1::Placement) -> Vec<(String, String)> {
    let start = plan.window.as_ref().and_then(|window| text::time(window.start.as_ref()));
    let own = |one: &v1::KindAmount| {
        let offset = span_from_wire("offset", one.offset.as_ref()?).ok()?;
        let length = span_from_wire("length", one.length.as_ref()?).ok()?;
        let window = Window::starting(start?.saturating_add(offset), length)?;
        Some(window_to_wire(window)).filter(|window| Some(window) != plan.window.as_ref())
    };
    let others = placement.others.iter().map(|one| {
        let window = match one.offset.is_some() || one.length.is_some() {
            true => own(one),
            false => placement.window,
        };
        (text::amount_of(&one.kind, one.amount), when(window.as_ref()))
    });
    let cpus = (text::amount_of("", placement.cpus), when(placement.window.as_ref()));
    std::iter::once(cpus).chain(others).collect()
}

/// The window of a part, behind the rest of its line; nothing for a part that has the window of the plan.
fn when(window: Option<&v1::Window>) -> String {
    window.map_or_else(String::new, |window| format!(", {}", text::window(Some(window))))
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
