//! The coordinator's page: what there is and what is booked, and requests for more, for people with a browser.
//!
//! * `visitor`: who reads, by the certificate of the connection or by a token in a cookie; signing in and out.
//! * `form`: forms, and how a form of another site is told from one of ours.
//! * `frame`: what all pages have in common, and the headers that bound what a browser does with them.
//! * `calls`: the coordinator's own methods, called with the visitor's rights.
//! * `list`, `reservation`, `workflows`, `workflow`, `timeline`, `map`, `pictures`, `health`: a page each. Each one reads
//!   messages, and a plain function makes markup of them.
//! * `request`: a form for a co-allocation, and what is reserved by it. `plans`: plans side by side, and what there is instead of
//!   one.
//! * `change`: another window or other amounts for a reservation. `provision`: its user is let in to the equipment, or out.
//! * `calendar`: the reservations of the list as a file for calendar programs. `address`: a secret address of that file.
//! * `drawn`: the reservations that a drawing is made of. `inventory`: the rows of a drawing. `ground`: what is around them.
//!   `labels`: where the names on a map stand.
//!   `otherwise`: what is taken besides. `steps`: how much is taken over time, and `stepped`: a timeline of that. `servers`: single
//!   servers below a timeline.
//! * `gantt`: a workflow's plan as a chart and as a table.
//! * `live`: events, at which a page reads itself again; all visitors share one watch.
//! * `experiments`: reports of experiments with their plots, from files.
//! * `words`: values as people read them.
//!
//! Every text is escaped by `maud`, in attributes and drawings, too. The script and the style are files of their own, so the
//! policy of each page allows no others. Without the script a page is as it was when it was read.
//!
//! Left out: parts that are added or dropped, tasks, series, and reports and revisions of workflows, which have commands. Source: OWASP cheat sheets, "Cross-Site Request
//! Forgery Prevention" and "Content Security Policy".

mod address;
mod calendar;
mod calls;
mod change;
mod drawn;
mod experiments;
mod form;
mod frame;
mod gantt;
mod ground;
mod health;
mod inventory;
mod labels;
mod list;
mod live;
mod map;
mod otherwise;
mod pictures;
mod plans;
mod provision;
mod request;
mod reservation;
mod servers;
mod stepped;
mod steps;
mod timeline;
mod visitor;
mod words;
mod workflow;
mod workflows;

use axum::Router;
use axum::routing::{get, post};
use coalloc_net::server::local::LocalServices;

use self::experiments::folder::ExperimentFolders;
use crate::WebSources;
use crate::changes::SharedChanges;

/// What the pages are made from.
#[derive(Clone)]
struct PageState {
    services: LocalServices,
    /// What all pages follow.
    changes: SharedChanges,
    /// Does the listener prove who it is, and its readers who they are?
    has_tls: bool,
    /// Where reports of experiments are, if they are shown.
    experiments: Option<ExperimentFolders>,
}

/// What answers requests for pages.
pub(crate) fn router(sources: WebSources, has_tls: bool) -> Router {
    let WebSources { services, changes, experiments } = sources;
    Router::new()
        .route("/", get(timeline::show))
        .route("/map", get(map::show))
        .route("/reservations", get(list::show))
        .route("/calendar.ics", get(calendar::show))
        .route("/calendar", get(address::show).post(address::change))
        .route("/calendar/{name}", get(calendar::show_by_secret))
        .route("/reservations/{*id}", get(reservation::show))
        .route("/release/{*id}", get(reservation::ask).post(reservation::release))
        .route("/request", get(request::show).post(request::submit))
        .route("/reserve", post(request::reserve))
        .route("/change/{*id}", get(change::show).post(change::submit))
        .route("/provision/{*id}", get(provision::ask_provision).post(provision::provision))
        .route("/deprovision/{*id}", get(provision::ask_deprovision).post(provision::deprovision))
        .route("/pictures", get(pictures::show))
        .route("/workflows", get(workflows::show))
        .route("/workflows/{*id}", get(workflow::show))
        .route("/experiments", get(experiments::list))
        .route("/experiments/{name}", get(experiments::show))
        .route("/experiments/{name}/{plot}", get(experiments::plot))
        .route("/health", get(health::show))
        .route("/live", get(live::events))
        .route("/sign-in", get(visitor::ask).post(visitor::sign_in))
        .route("/sign-out", post(visitor::sign_out))
        .route("/assets/style.css", get(frame::style))
        .route("/assets/script.js", get(frame::script))
        .route("/assets/icon.svg", get(frame::icon))
        .route("/favicon.ico", get(frame::icon))
        .layer(axum::middleware::map_response(frame::bounded))
        .with_state(PageState {
            services,
            changes: SharedChanges::new(changes),
            has_tls,
            experiments: experiments.map(ExperimentFolders::new),
        })
}
