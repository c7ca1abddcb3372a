//! Plans side by side: what all of them have, and what differs, each with its button; and what there is instead of a plan.
//!
//! Left out: what differs ([`comparison`]), which `coalloc plan` shows by the same rules.

use coalloc_common::{BitsPerSecond, Cpus, Span, limits};
use coalloc_net::comparison;
use coalloc_net::convert::window_from_wire;
use coalloc_proto::v1;
use maud::{Markup, html};

use super::request::fields::RequestFields;
use super::reservation::of_kind;
use super::words;

/// Refused frames that are listed; the rest is counted.
const FRAMES_SHOWN: usize = 12;

/// The plans within a form: each has a button with its digest. `requested` are the objectives that were asked for.
pub(super) fn compared(plans: &[v1::Plan], requested: &[i32]) -> Markup {
    let columns = comparison::columns(plans, requested);
    let cells = |cell: &dyn Fn(&v1::Plan) -> String| -> Option<Vec<String>> {
        comparison::differing(plans.iter().map(cell))
    };
    let texts = [
        ("Optimal", cells(&comparison::optimality_cell)),
        ("Sites", cells(&|plan| comparison::differing_sites(plan, plans))),
        ("Paths", cells(&|plan| comparison::differing_paths(plan, plans))),
    ];
    let texts: Vec<(&str, Vec<String>)> =
        texts.into_iter().filter_map(|(head, cells)| Some((head, cells?))).collect();
    html! {
        h2 { @if plans.len() > 1 { "What all plans have" } @else { "The plan" } }
        (common(plans))
        @if plans.len() > 1 { h2 { "What differs" } }
        div class="scroll" role="region" aria-label="Plans" tabindex="0" {
            table class="cards plans" {
                thead { tr {
                    th scope="col" { "Start" }
                    @for objective in &columns { th scope="col" class="number" { (head(*objective)) } }
                    @for (head, _) in &texts { th scope="col" { (head) } }
                    th scope="col" { "Reserve" }
                } }
                tbody { @for (number, plan) in plans.iter().enumerate() { tr {
                    td data-label="Start" {
                        (words::wire_instant(plan.window.as_ref().and_then(|window| window.start.as_ref())))
                    }
                    @for objective in &columns {
                        td data-label=(head(*objective)) class="number" {
                            (comparison::value_cell(plan, *objective))
                        }
                    }
                    @for (head, cells) in &texts { td data-label=(head) { (words::text(&cells[number])) } }
                    td data-label="Reserve" {
                        button type="submit" name="plan" value=(plan.digest) { "Reserve this" }
                        " " small { code { (plan.digest.get(..limits::DIGEST_PREFIX_MIN).unwrap_or_default()) } }
                    }
                } } }
            }
        }
    }
}

/// The head of an objective's column.
fn head(objective: v1::Objective) -> String {
    let word = comparison::objective_word(objective);
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

/// What is the same in all plans. A part that is elsewhere in some plan has no place here.
fn common(plans: &[v1::Plan]) -> Markup {
    let Some(first) = plans.first() else { return html! {} };
    let same = |cell: &dyn Fn(&v1::Plan) -> Option<String>| {
        comparison::differing(plans.iter().map(cell)).is_none()
    };
    let window = window_from_wire("", first.window.as_ref()).ok();
    let length = window.map_or(Span::ZERO, |window| window.end().since(window.start()));
    let optimal = same(&|plan| Some(comparison::optimality_cell(plan)));
    html! {
        ul {
            @for (at, site) in first.placements.iter().enumerate() {
                li {
                    b { (words::text(&site.site)) } ": " (Cpus(site.cpus))
                    @for other in &site.others { ", " (of_kind(&other.kind, other.amount)) }
                    @if same(&|plan| Some(plan.placements.get(at)?.at.clone())) { " at " (words::text(&site.at)) }
                }
            }
            @for (at, route) in first.routes.iter().enumerate() {
                li {
                    b { (words::text(&route.from)) " → " (words::text(&route.to)) } ": " (BitsPerSecond(route.bandwidth_bps))
                    @if same(&|plan| Some(plan.routes.get(at)?.paths.join(","))) {
                        " over " (words::text(&route.via.join(" – "))) " by " (words::text(&route.paths.join(", ")))
                    }
                }
            }
            li {
                "for " (length)
                @if optimal {
                    ", " @match comparison::optimality(first) {
                        comparison::Optimality::Proven => { "proven optimal" }
                        _ => { "not proven optimal" }
                    }
                }
            }
        }
    }
}

/// Why times have no plan, and who was not asked. `is_answered`: a refusal stands above already.
pub(super) fn without_plan(response: &v1::PlanResponse, is_answered: bool) -> Markup {
    let refused = &response.refused;
    html! {
        @if response.plans.is_empty() && !is_answered {
            p class="trouble" role="alert" {
                "There is no plan"
                @if let Some(why) = refused.first().and_then(|frame| frame.refusal.as_ref()) { ": " (words::refusal(why)) }
                ". Nothing is held."
            }
        }
        @if !refused.is_empty() {
            details {
                summary { (words::count(refused.len(), "start")) " without a plan" }
                ul {
                    @for frame in refused.iter().take(FRAMES_SHOWN) {
                        li {
                            (words::wire_window(frame.window.as_ref())) ": "
                            @match &frame.refusal { Some(why) => { (words::refusal(why)) } None => { "no reason was given" } }
                        }
                    }
                    @if refused.len() > FRAMES_SHOWN { li { (refused.len() - FRAMES_SHOWN) " more" } }
                }
            }
        }
        @if !response.unreachable.is_empty() {
            p class="note" {
                "Did not answer, so what they have counted as taken: " (words::text(&response.unreachable.join(", ")))
            }
        }
    }
}

/// What could be asked for instead: each fills the form in.
pub(super) fn alternatives(fields: &RequestFields, found: &v1::Alternatives) -> Markup {
    let nearest = window_from_wire("", found.nearest_window.as_ref()).ok();
    html! {
        h2 { "What would fit" }
        ul class="plain offers" {
            @match (nearest, &found.searched_until) {
                (Some(window), _) => {
                    li {
                        a class="button" href=(fields.starting(window.start()).address()) { "Ask for this time" }
                        " The same, later: " (words::window(window))
                    }
                }
                (None, Some(until)) if found.complete => {
                    li { "The same fits at no start until " (words::wire_instant(Some(until))) "." }
                }
                (None, Some(until)) => {
                    li {
                        "The same fits at no start before " (words::wire_instant(Some(until)))
                        "; the search ended there, so a later start may fit."
                    }
                }
                (None, None) => { li { "The same fits at no time, also if nothing is booked." } }
            }
            @for smaller in &found.smaller {
                @if let Some(request) = &smaller.request {
                    li {
                        a class="button" href=(fields.with_request(request).address()) { "Ask for less" }
                        " " (words::text(&smaller.change))
                        @if let Some(plan) = &smaller.plan { ": " (words::wire_window(plan.window.as_ref())) }
                    }
                }
            }
            @if found.smaller.is_empty() { li { "No smaller amounts were found that fit at the time that you want." } }
        }
    }
}

#[cfg(test)]
mod tests;
