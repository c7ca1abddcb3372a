//! A plan as people read it: one line about the whole, and one for each part.

use std::fmt::Write as _;

use coalloc_common::{Span, Window};
use coalloc_net::comparison::{Optimality, optimality};
use coalloc_net::convert::{span_from_wire, window_to_wire};
use coalloc_proto::v1;

use super::comparison;
use crate::kit::text;

/// When the plan runs, what it costs, and how close to the optimum it is.
#[must_use]
pub fn headline(plan: &v1::Plan) -> String {
    let quality = match optimality(plan) {
        Optimality::Proven => "proven optimal".to_owned(),
        Optimality::Coarse => "not proven optimal: too many objectives for exact sums".to_owned(),
        Optimality::Unknown => "not proven optimal".to_owned(),
        Optimality::Within(gap) => {
            let bound = text::points(plan.lower_bound_millipoints);
            format!("not proven optimal: no plan costs less than {bound} (gap {gap})")
        }
    };
    format!("{}, {quality}", when_and_cost(plan))
}

/// A number of points with its noun.
fn in_points(number: String) -> String {
    if number == "1" { "1 point".to_owned() } else { format!("{number} points") }
}

/// When the plan runs, and what it costs.
#[must_use]
pub fn when_and_cost(plan: &v1::Plan) -> String {
    let window = text::window(plan.window.as_ref());
    let length = text::length(plan.window.as_ref()).unwrap_or(Span::ZERO);
    let cost = in_points(text::points(plan.cost_millipoints));
    let price = comparison::price(plan).map(|price| format!(", price {}", in_points(price)));
    format!("{window} ({length}){}, cost {cost}", price.unwrap_or_default())
}

/// A part of a plan, or several kinds of a site that are taken at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanLine {
    /// The name of the site, or both of the link.
    pub name: String,
    /// What is taken.
    pub amount: String,
    /// The federation's site, or the route.
    pub place: String,
    /// The window of the part, with a comma before it; empty for that of the plan.
    pub when: String,
}

/// The RM of each site and the path of each link, one line each, in columns. A site whose kinds are taken at different
/// times has a line for each kind.
#[must_use]
pub fn body(plan: &v1::Plan) -> String {
    let shown = |window: &v1::Window| text::window(Some(window));
    in_columns(&lines(plan, &shown))
}

/// The parts of a plan. `shown` says when a part with a window of its own is taken.
#[must_use]
pub fn lines(plan: &v1::Plan, shown: &dyn Fn(&v1::Window) -> String) -> Vec<PlanLine> {
    let when = |window: Option<&v1::Window>| {
        window.map_or_else(String::new, |window| format!(", {}", shown(window)))
    };
    let mut lines: Vec<PlanLine> = Vec::new();
    for placement in &plan.placements {
        let line = |amount: String, window: Option<&v1::Window>| PlanLine {
            name: placement.site.clone(),
            amount,
            place: format!("at {}", placement.at),
            when: when(window),
        };
        let kinds = kinds(plan, placement);
        let first = kinds.first().and_then(|(_, window)| window.as_ref());
        if kinds.iter().all(|(_, window)| window.as_ref() == first) {
            lines.push(line(text::amounts(placement.cpus, &placement.others), first));
            continue;
        }
        lines.extend(kinds.iter().map(|(amount, own)| line(amount.clone(), own.as_ref())));
    }
    lines.extend(plan.routes.iter().map(|route| PlanLine {
        name: format!("{} -> {}", route.from, route.to),
        amount: text::rate(route.bandwidth_bps),
        place: way(route),
        when: when(route.window.as_ref()),
    }));
    lines
}

/// The lines, indented and in columns.
#[must_use]
pub fn in_columns(lines: &[PlanLine]) -> String {
    let names = lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
    let amounts = lines.iter().map(|line| line.amount.len()).max().unwrap_or(0);
    let mut out = String::new();
    for PlanLine { name, amount, place, when } in lines {
        let when = if place.is_empty() { when.trim_start_matches(", ") } else { when };
        let line = format!("  {name:names$}  {amount:amounts$}  {place}{when}");
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// What is taken at a site, kind by kind, and when, if it is not for the whole of the plan.
fn kinds(plan: &v1::Plan, placement: &v1::Placement) -> Vec<(String, Option<v1::Window>)> {
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
        (text::amount_of(&one.kind, one.amount), window)
    });
    let cpus = (text::amount_of("", placement.cpus), placement.window);
    std::iter::once(cpus).chain(others).collect()
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
