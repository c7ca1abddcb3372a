//! `/workflows/ID`: the plan of one workflow, as `coalloc workflow show` has it, with its chart.
//!
//! Left out: reports of activities and revisions, which have commands.

use axum::body::Body;
use axum::extract::{Path, State};
use coalloc_net::convert::window_from_wire;
use coalloc_proto::v1;
use http::{Response, StatusCode};
use maud::{Markup, html};

use super::calls::PageCalls;
use super::frame::{Frame, respond};
use super::gantt::Gantt;
use super::visitor::{self, Visitor};
use super::{PageState, words};

/// The page of the navigation to which workflows belong.
const HERE: &str = "/workflows";

/// `GET /workflows/ID`.
pub(super) async fn show(
    State(state): State<PageState>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Response<Body> {
    match PageCalls::new(&state, &visitor).workflow(&id).await {
        Ok((one, workflow)) => {
            let title = format!("Workflow {}", words::text(words::own_id(&one)));
            let frame = Frame { title: &title, here: HERE, is_live: true };
            respond(&visitor, StatusCode::OK, frame, &markup(&one, &workflow))
        }
        Err(status) => visitor::failed(&visitor, HERE, &status),
    }
}

fn markup(one: &v1::Reservation, workflow: &v1::WorkflowReceipt) -> Markup {
    html! {
        p {
            (words::badge(one.state()))
            @if !workflow.definite { " The state is not final." }
        }
        @if let Some(why) = &workflow.refusal { (refusal("Refused: ", why)) }
        @if let Some(revision) = &workflow.revision { (revised(revision)) }
        dl class="facts" {
            @if let Some(plan) = &workflow.plan {
                dt { "Window" } dd { (words::wire_window(plan.window.as_ref())) }
                @if let Some(makespan) = &plan.makespan {
                    dt { "Makespan" } dd { (words::wire_span(makespan)) " from when it could begin, by " (words::text(&plan.planner)) }
                }
            }
            dt { "User" } dd { (words::text(&one.user)) }
            dt { "Version" } dd { (workflow.version.max(1)) }
            dt { "Reservation" } dd { a href=(words::page_of(one)) { (words::text(&one.id)) } }
        }
        @if let Some(plan) = &workflow.plan {
            @if !plan.critical_path.is_empty() { (critical_path(&plan.critical_path)) }
            h2 { "Plan" }
            (Gantt::of(plan).markup())
        }
    }
}

/// Why there is no plan, or no new one.
fn refusal(head: &str, refused: &v1::WorkflowRefusal) -> Markup {
    html! {
        p class="trouble" {
            (head)
            @if let Some(why) = &refused.refusal { (words::refusal(why)) ". " }
            @if !refused.activities.is_empty() {
                "Planning failed at " (words::text(&refused.activities.join(", "))) ". "
            }
            @if let Some(end) = &refused.earliest_finish {
                "With a later deadline this could end at " (words::wire_instant(Some(end))) "."
            }
        }
    }
}

/// What came of the last revision.
fn revised(revision: &v1::WorkflowRevision) -> Markup {
    use v1::RevisionState as S;
    html! {
        @match revision.state() {
            S::Refused => {
                @match &revision.refusal {
                    Some(why) => { (refusal("The last revision was refused, and what was booked stays: ", why)) }
                    None => { p class="trouble" { "The last revision was refused, and what was booked stays." } }
                }
            }
            S::UnderWay => { p class="note" { "A revision is under way." } }
            S::Done => {
                p class="note" {
                    "Revised. Placed anew: " (names(&revision.moved)) ". Longer or shorter: " (names(&revision.resized)) "."
                }
            }
            S::Nothing | S::Planned | S::Unspecified => {}
        }
    }
}

fn names(all: &[String]) -> String {
    if all.is_empty() { "nothing".to_owned() } else { words::text(&all.join(", ")).into_owned() }
}

/// The steps that the end of the plan waits for, and the waits between them.
fn critical_path(steps: &[v1::CriticalStep]) -> Markup {
    let windows: Vec<_> =
        steps.iter().map(|step| window_from_wire("", step.window.as_ref()).ok()).collect();
    html! {
        h2 { "Critical path" }
        p { "What the end of the plan waits for, from the first step to the last activity." }
        ol {
            @for (index, step) in steps.iter().enumerate() {
                @let before = index.checked_sub(1).and_then(|before| windows[before]);
                li {
                    @match step.activity.as_str() {
                        "" => { b { (words::text(&step.data)) } " travels to " (words::text(&step.site)) }
                        name => { b { (words::text(name)) } " runs at " (words::text(&step.site)) }
                    }
                    @if let Some(own) = windows[index] {
                        ", " (own.length())
                        @if let Some(before) = before.filter(|before| before.end() < own.start()) {
                            ", after a wait of " (own.start().since(before.end()))
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::{Span, Time, Window};
    use coalloc_net::convert::window_to_wire;

    use super::*;

    #[test]
    fn the_critical_path_has_its_waits_and_names_stay_text() {
        let evil = "<script>";
        let at = |from_s: i64, length_s| {
            let start =
                Time::from_us(1_795_262_400_000_000).saturating_add(Span::from_secs(from_s));
            Window::starting(start, Span::from_secs(length_s)).map(window_to_wire)
        };
        let path = vec![
            v1::CriticalStep {
                data: evil.into(),
                site: evil.into(),
                window: at(0, 60),
                ..Default::default()
            },
            v1::CriticalStep { activity: evil.into(), window: at(90, 600), ..Default::default() },
        ];
        let refusal = v1::WorkflowRefusal { activities: vec![evil.into()], ..Default::default() };
        let workflow = v1::WorkflowReceipt {
            plan: Some(v1::WorkflowPlan { critical_path: path, ..Default::default() }),
            refusal: Some(refusal),
            ..Default::default()
        };
        let one = v1::Reservation { id: evil.into(), user: evil.into(), ..Default::default() };
        let text = markup(&one, &workflow).into_string();
        assert!(!text.contains("<script"), "{text}");
        assert!(text.contains("</b> travels to &lt;script&gt;, 1 min"), "{text}");
        assert!(text.contains(", 10 min, after a wait of 30 s"), "{text}");
        assert!(text.contains("Planning failed at &lt;script&gt;"), "{text}");
    }
}
