//! `/workflows`: the workflows that the visitor may see, the newest first.
//!
//! The coordinator has no list of workflows alone, so the list of all reservations is read, within bounds. A workflow that was
//! refused before it had a plan is only among the reservations.

use axum::body::Body;
use axum::extract::State;
use coalloc_common::limits;
use coalloc_proto::v1;
use http::{Response, StatusCode};
use maud::{Markup, html};
use tonic::Status;

use super::PageState;
use super::calls::PageCalls;
use super::frame::{Frame, respond};
use super::visitor::{self, Visitor};
use super::words;

/// `GET /workflows`.
pub(super) async fn show(State(state): State<PageState>, visitor: Visitor) -> Response<Body> {
    let frame = Frame { title: "Workflows", here: "/workflows", is_live: true };
    match Workflows::read(&mut PageCalls::new(&state, &visitor)).await {
        Ok(workflows) => respond(&visitor, StatusCode::OK, frame, &workflows.markup()),
        Err(status) => visitor::failed(&visitor, frame.here, &status),
    }
}

/// The workflows of the list.
#[derive(Debug, Default)]
struct Workflows {
    /// In the order in which they were made.
    all: Vec<v1::Reservation>,
    /// Were there more reservations than are looked at?
    is_cut: bool,
}

impl Workflows {
    async fn read(calls: &mut PageCalls) -> Result<Self, Status> {
        let mut request = v1::ListRequest::default();
        let mut workflows = Self::default();
        let mut looked_at = 0;
        loop {
            let page = calls.list(request.clone()).await?;
            looked_at += page.reservations.len();
            workflows
                .all
                .extend(page.reservations.into_iter().filter(|one| one.workflow.is_some()));
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return Ok(workflows);
            }
            if looked_at >= limits::WEB_DRAWN_MAX {
                workflows.is_cut = true;
                return Ok(workflows);
            }
        }
    }

    fn markup(&self) -> Markup {
        let shown = self.all.iter().rev().take(limits::WEB_LIST_ROWS as usize);
        let left_out = self.all.len() - shown.len();
        html! {
            @if self.all.is_empty() {
                p { "There are no workflows. " code { "coalloc workflow submit" } " reserves one." }
            } @else {
                div class="scroll" role="region" aria-label="Workflows" tabindex="0" {
                    table class="cards" {
                        thead { tr {
                            th scope="col" { "Id" } th scope="col" { "User" } th scope="col" { "State" }
                            th scope="col" { "Window" } th scope="col" { "Activities" } th scope="col" { "Where" }
                        } }
                        tbody { @for one in shown { (row(one)) } }
                    }
                }
                p {
                    (words::count(self.all.len(), "workflow")) ", the newest first."
                    @if left_out > 0 { " The " (left_out) " oldest are not shown." }
                }
            }
            @if self.is_cut {
                p class="trouble" { "Only the first " (limits::WEB_DRAWN_MAX) " reservations were looked at." }
            }
        }
    }
}

fn row(one: &v1::Reservation) -> Markup {
    let window = one.plan.as_ref().and_then(|plan| plan.window.as_ref());
    let activities = one.workflow.as_ref().map_or(0, |summary| summary.activities);
    html! { tr {
        td data-label="Id" { a href=(words::path("workflows", &one.id)) { (words::text(words::own_id(one))) } }
        td data-label="User" { (words::text(&one.user)) }
        td data-label="State" { (words::badge(one.state())) }
        td data-label="Window" { (words::wire_window(window)) }
        td data-label="Activities" { (activities) }
        td data-label="Where" { (words::places(one)) }
    } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_text_and_the_newest_is_first() {
        let of = |id: &str| v1::Reservation {
            id: id.into(),
            request_id: format!("<b>{id}"),
            workflow: Some(v1::WorkflowSummary { activities: 7, ..Default::default() }),
            ..Default::default()
        };
        let workflows = Workflows { all: vec![of("grc-1"), of("grc-2")], is_cut: true };
        let text = workflows.markup().into_string();
        assert!(!text.contains("<b>"), "{text}");
        let at =
            |id: &str| text.find(&format!("/workflows/grc%2D{id}\">&lt;b&gt;grc-{id}<")).unwrap();
        assert!(at("2") < at("1"), "{text}");
        assert!(text.contains("2 workflows") && text.contains("Only the first 10000"), "{text}");
        assert!(Workflows::default().markup().into_string().contains("There are no workflows"));
    }
}
