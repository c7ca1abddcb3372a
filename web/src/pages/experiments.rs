//! `/experiments`: the reports of experiments, and `/experiments/NAME`: one of them, with its plots, as `coalloc sim run --out` has
//! written it.
//!
//! They are files on the coordinator's machine that its operator has chosen to show (`web_experiments`), and belong to nobody in
//! particular: whoever may see the topology may read them.
//!
//! * `folder`: what is read of the files, within bounds.
//! * `report`: a report as markup.
//!
//! Left out: to run experiments, and runs and results, which notebooks read (`results.csv`).

pub(super) mod folder;
mod report;

use axum::body::Body;
use axum::extract::{Path, State};
use coalloc_common::limits;
use http::{Response, StatusCode};
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tonic::Status;

use self::folder::{ExperimentFolders, ExperimentList};
use self::report::Report;
use super::PageState;
use super::calls::PageCalls;
use super::frame::{EXPERIMENTS, Frame, drawing, respond};
use super::visitor::{self, Visitor};
use super::words;

/// `GET /experiments`.
pub(super) async fn list(State(state): State<PageState>, visitor: Visitor) -> Response<Body> {
    let read = async { folders(&state, &visitor).await?.list().await };
    match read.await {
        Ok(all) => {
            let frame = Frame { title: "Experiments", here: EXPERIMENTS, is_live: false };
            respond(&visitor, StatusCode::OK, frame, &list_markup(&all))
        }
        Err(status) => visitor::failed(&visitor, EXPERIMENTS, &status),
    }
}

/// `GET /experiments/NAME`.
pub(super) async fn show(
    State(state): State<PageState>,
    visitor: Visitor,
    Path(name): Path<String>,
) -> Response<Body> {
    let read = async { folders(&state, &visitor).await?.report(&name).await };
    match read.await {
        Ok((text, written)) => {
            let report = Report::of(&text, |plot| plot_address(&name, plot));
            let title = report.title.as_deref().unwrap_or(&name);
            let title = words::text(title);
            let frame = Frame { title: &title, here: EXPERIMENTS, is_live: false };
            let content = html! {
                p class="note" {
                    a href=(EXPERIMENTS) { "All experiments" } ". "
                    "Folder " (words::text(&name)) ", written " (words::instant(written)) "."
                }
                div class="report" { (report.body) }
            };
            respond(&visitor, StatusCode::OK, frame, &content)
        }
        Err(status) => visitor::failed(&visitor, EXPERIMENTS, &status),
    }
}

/// `GET /experiments/NAME/PLOT`.
pub(super) async fn plot(
    State(state): State<PageState>,
    visitor: Visitor,
    Path((name, plot)): Path<(String, String)>,
) -> Response<Body> {
    let read = async { folders(&state, &visitor).await?.plot(&name, &plot).await };
    match read.await {
        Ok(content) => drawing(content),
        Err(status) => visitor::failed(&visitor, EXPERIMENTS, &status),
    }
}

/// The folders, if the visitor may see what is in them.
async fn folders(state: &PageState, visitor: &Visitor) -> Result<ExperimentFolders, Status> {
    PageCalls::new(state, visitor).may_see_topology().await?;
    let none = || Status::not_found("this coordinator shows no experiments");
    state.experiments.clone().ok_or_else(none)
}

fn plot_address(name: &str, plot: &str) -> String {
    let folder = words::path("experiments", name);
    format!("{folder}/{}", utf8_percent_encode(plot, NON_ALPHANUMERIC))
}

fn list_markup(list: &ExperimentList) -> Markup {
    html! {
        p { "Reports of simulated experiments, which this coordinator's operator has put here." }
        @if list.all.is_empty() {
            p { "There are none yet. " code { "coalloc sim run" } " writes them." }
        } @else {
            div class="scroll" role="region" aria-label="Experiments" tabindex="0" {
                table class="cards" {
                    thead { tr {
                        th scope="col" { "Report" } th scope="col" { "Folder" } th scope="col" { "Written" }
                    } }
                    tbody { @for one in &list.all { tr {
                        td data-label="Report" {
                            a href=(words::path("experiments", &one.name)) {
                                (words::text(one.title.as_deref().unwrap_or(&one.name)))
                            }
                        }
                        td data-label="Folder" { (words::text(&one.name)) }
                        td data-label="Written" { (words::instant(one.written)) }
                    } } }
                }
            }
        }
        @if list.is_cut {
            p class="note" {
                "There is more: " (limits::WEB_EXPERIMENTS_MAX) " reports are listed at most, of the first "
                (limits::WEB_FOLDER_ENTRIES_MAX) " entries of the folder."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::Time;

    use super::folder::ExperimentSummary;
    use super::*;

    #[test]
    fn names_and_titles_stay_text_and_addresses_are_encoded() {
        let evil = "<script>\u{202e}\"";
        let one = ExperimentSummary {
            name: evil.into(),
            title: Some(evil.into()),
            written: Time::from_us(0),
        };
        let mut list = ExperimentList { all: vec![one], is_cut: false };
        let text = list_markup(&list).into_string();
        assert!(!text.contains("<script") && !text.contains('\u{202e}'), "{text}");
        assert!(text.contains("href=\"/experiments/%3Cscript%3E"), "{text}");
        assert!(!text.contains("There is more"), "{text}");
        list.is_cut = true;
        assert!(list_markup(&list).into_string().contains("200 reports are listed at most"));
        let none = list_markup(&ExperimentList::default()).into_string();
        assert!(none.contains("There are none yet"), "{none}");
        assert_eq!(plot_address("a b", "c\".svg"), "/experiments/a%20b/c%22%2Esvg");
    }
}
