//! `/request`: a form for a co-allocation, the plans for it, and `/reserve`, which reserves the plan that was chosen.
//!
//! * `fields`: what was typed, and what it means. `inputs`: the inputs of the form.
//!
//! Showing plans holds nothing. The page with the plans has the request with the times that were read, and an id that was
//! made for this page. So a plan that is chosen twice, by a double click or a reload, is one request with one answer.
//!
//! Left out: series, tasks and workflows; places that are excluded and windows of parts, which a file says.

pub(in crate::pages) mod fields;
pub(in crate::pages) mod inputs;

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use coalloc_common::limits;
use coalloc_plan::{Named as _, Solver};
use coalloc_proto::v1;
use http::{Response, StatusCode};
use maud::{Markup, html};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use uuid::Uuid;

use self::fields::{Mistakes, ParsedFields, RequestFields};
use self::inputs::{Input, hidden, link_row, said_of, select, site_row, summary};
use super::calls::PageCalls;
use super::form::Form;
use super::frame::{Frame, redirect, respond};
use super::visitor::{self, Visitor};
use super::{PageState, plans, words};

const HERE: &str = "/request";
/// Rows of a form that nobody has filled in yet.
const SITE_ROWS: usize = 2;
const LINK_ROWS: usize = 1;

/// `GET /request`. A query fills the form in.
pub(super) async fn show(
    State(state): State<PageState>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    let pairs: Vec<_> =
        form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut fields = RequestFields::of(pairs);
    let mistakes = fields.bounded();
    form_page(&state, &visitor, &fields, &mistakes).await
}

/// `POST /request`: one more row, or the plans.
pub(super) async fn submit(
    State(state): State<PageState>,
    visitor: Visitor,
    request: Request,
) -> Response<Body> {
    let form = match Form::read(&visitor, request).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let mut fields = RequestFields::of(form.pairs());
    let mistakes = fields.bounded();
    match form.field("do") {
        "site" => fields.sites.resize_with(fields.sites.len().max(SITE_ROWS) + 1, Default::default),
        "link" => fields.links.resize_with(fields.links.len().max(LINK_ROWS) + 1, Default::default),
        _ if mistakes.0.is_empty() => return plan(&state, &visitor, &fields, None).await,
        _ => {}
    }
    // One more than is allowed stays away.
    fields.sites.truncate(limits::REQUEST_SITES_MAX);
    fields.links.truncate(limits::REQUEST_LINKS_MAX);
    form_page(&state, &visitor, &fields, &mistakes).await
}

/// `POST /reserve`: reserves the plan of this digest.
pub(super) async fn reserve(
    State(state): State<PageState>,
    visitor: Visitor,
    request: Request,
) -> Response<Body> {
    let form = match Form::read(&visitor, request).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let mut fields = RequestFields::of(form.pairs());
    let mut mistakes = fields.bounded();
    let parsed = fields.read(words::now()).unwrap_or_else(|wrong| {
        mistakes.0.extend(wrong.0);
        ParsedFields::default()
    });
    if !mistakes.0.is_empty() {
        return form_page(&state, &visitor, &fields, &mistakes).await;
    }
    let choice = Choice { id: form.field("id").to_owned(), digest: form.field("plan").to_owned() };
    let wanted = v1::ReserveRequest {
        request_id: choice.id.clone(),
        request: Some(parsed.request.clone()),
        options: Some(v1::PlanOptions { alternatives: Some(true), ..parsed.options.clone() }),
        plan_digest: choice.digest.clone(),
    };
    match PageCalls::new(&state, &visitor).reserve(wanted).await {
        Ok(answer) => reserved(&visitor, &fields, &parsed, answer),
        Err(status) => not_reserved(&state, &visitor, &fields, &parsed, &choice, &status).await,
    }
}

/// The plan that was chosen, and the id of the request for it.
struct Choice {
    id: String,
    digest: String,
}

/// What follows an answer: the reservation's own page, or why there is none and what there could be.
fn reserved(
    visitor: &Visitor,
    fields: &RequestFields,
    parsed: &ParsedFields,
    answer: v1::ReserveResponse,
) -> Response<Body> {
    let Some(one) = answer.reservation else {
        let empty = Status::internal("the coordinator sent an answer without content");
        return visitor::failed(visitor, HERE, &empty);
    };
    if one.state() != v1::ReservationState::Failed || !one.definite {
        return redirect(&words::page_of(&one));
    }
    // A refused request keeps its id, so another one needs another name.
    let fields = RequestFields { name: String::new(), ..fields.clone() };
    let response = v1::PlanResponse {
        plans: answer.fresh_plans,
        unreachable: one.unreachable.clone(),
        alternatives: one.alternatives.clone(),
        ..Default::default()
    };
    let notice = html! {
        p class="trouble" role="alert" {
            "Not reserved: "
            @match &one.refusal { Some(why) => { (words::refusal(why)) } None => { "no reason was given" } }
            ". Nothing is held."
        }
        @if !response.plans.is_empty() { p { "These plans can be made now:" } }
    };
    plans_page(visitor, &fields, parsed, &response, Some(&notice))
}

/// What follows a call that has failed.
async fn not_reserved(
    state: &PageState,
    visitor: &Visitor,
    fields: &RequestFields,
    parsed: &ParsedFields,
    choice: &Choice,
    status: &Status,
) -> Response<Body> {
    match status.code() {
        Code::InvalidArgument => {
            if names_plan(status) {
                // The digest is not known (any more): the plans are made anew.
                let notice = html! {
                    p class="trouble" role="alert" {
                        "This plan is not known any more, so nothing was reserved. These can be made now:"
                    }
                };
                return plan(state, visitor, fields, Some(&notice)).await;
            }
            form_page(state, visitor, fields, &mistakes_of(status, parsed)).await
        }
        Code::AlreadyExists if fields.name.is_empty() => {
            let body = html! {
                p class="trouble" role="alert" { "Another plan of this page was chosen before, so this one was not." }
                p { a href=(words::path("reservations", &choice.id)) { "What was made of the first choice" } }
                p { a href=(fields.address()) { "Ask again" } }
            };
            let frame = Frame { title: "Reserved before", here: HERE, is_live: false };
            respond(visitor, StatusCode::CONFLICT, frame, &body)
        }
        Code::AlreadyExists => {
            let mut mistakes = Mistakes::default();
            let text = format!(
                "`{}` is the name of another request; allowed: another name, or none",
                fields.name
            );
            mistakes.0.insert("name".to_owned(), text);
            form_page(state, visitor, fields, &mistakes).await
        }
        Code::Unauthenticated | Code::PermissionDenied | Code::ResourceExhausted => {
            visitor::failed(visitor, HERE, status)
        }
        // The request may be going on.
        _ => {
            let frame = Frame { title: "The answer was lost", here: HERE, is_live: false };
            let code = crate::error::http_status(status.code());
            respond(visitor, code, frame, &lost(visitor, fields, choice, status))
        }
    }
}

fn lost(visitor: &Visitor, fields: &RequestFields, choice: &Choice, status: &Status) -> Markup {
    html! {
        p class="trouble" role="alert" { (words::text(status.message())) }
        p {
            "The reservation may have been made, or be going on: "
            a href=(words::path("reservations", &choice.id)) { "look for it" }
            ". To send the same request once more makes no second reservation."
        }
        form method="post" action="/reserve" data-once="yes" {
            (Form::hidden(visitor))
            (hidden(fields))
            input type="hidden" name="id" value=(choice.id);
            button type="submit" name="plan" value=(choice.digest) { "Send it once more" }
        }
    }
}

/// The page with the plans, or with what is wrong with the request.
async fn plan(
    state: &PageState,
    visitor: &Visitor,
    fields: &RequestFields,
    notice: Option<&Markup>,
) -> Response<Body> {
    let parsed = match fields.read(words::now()) {
        Ok(parsed) => parsed,
        Err(mistakes) => return form_page(state, visitor, fields, &mistakes).await,
    };
    let wanted = v1::PlanRequest {
        request: Some(parsed.request.clone()),
        options: Some(parsed.options.clone()),
    };
    match PageCalls::new(state, visitor).plan(wanted).await {
        Ok(response) => plans_page(visitor, fields, &parsed, &response, notice),
        Err(status) => {
            let mistakes = mistakes_of(&status, &parsed);
            if mistakes.0.is_empty() {
                return visitor::failed(visitor, HERE, &status);
            }
            form_page(state, visitor, fields, &mistakes).await
        }
    }
}

fn plans_page(
    visitor: &Visitor,
    fields: &RequestFields,
    parsed: &ParsedFields,
    response: &v1::PlanResponse,
    notice: Option<&Markup>,
) -> Response<Body> {
    let id = match fields.name.as_str() {
        "" => Uuid::new_v4().to_string(),
        name => name.to_owned(),
    };
    let title = match (response.plans.len(), notice) {
        (0, Some(_)) => "Not reserved",
        (0, None) => "No plan",
        (1, _) => "One plan",
        _ => "Plans",
    };
    let body = html! {
        @if let Some(notice) = notice { (notice) }
        (asked(fields, parsed))
        @if !response.plans.is_empty() {
            form method="post" action="/reserve" data-once="yes" {
                (Form::hidden(visitor))
                (hidden(&fields.fixed(parsed)))
                input type="hidden" name="id" value=(id);
                (plans::compared(&response.plans, &parsed.options.objectives))
            }
            p class="note" { "Nothing is held until you reserve. Who is faster gets it; then you are told." }
        }
        (plans::without_plan(response, notice.is_some()))
        @if let Some(found) = &response.alternatives { (plans::alternatives(&fields.fixed(parsed), found)) }
    };
    let frame = Frame { title, here: HERE, is_live: false };
    respond(visitor, StatusCode::OK, frame, &body)
}

/// What is wanted, and the way back to the form.
fn asked(fields: &RequestFields, parsed: &ParsedFields) -> Markup {
    let request = &parsed.request;
    let fixed = fields.fixed(parsed);
    html! {
        dl class="facts" {
            dt { "Wanted" }
            dd {
                @for (number, site) in request.sites.iter().enumerate() {
                    @if number > 0 { "; " }
                    b { (words::text(&site.name)) } ": " (coalloc_common::Cpus(site.cpus))
                    @for other in &site.others { ", " (super::reservation::of_kind(&other.kind, other.amount)) }
                    @if let Some(place) = &site.pinned_to { " at " (words::text(place)) }
                }
                @for link in &request.links {
                    "; " b { (words::text(&link.from)) " → " (words::text(&link.to)) } ": "
                    (coalloc_common::BitsPerSecond(link.bandwidth_bps))
                }
            }
            dt { "When" }
            dd {
                (fixed.length) " between " (words::wire_instant(request.earliest_start.as_ref())) " and "
                (words::wire_instant(end_of(request).as_ref()))
                @for reading in &parsed.readings { " (" (words::text(reading)) ")" }
            }
        }
        p { a href=(fields.address()) { "Change the request" } }
    }
}

/// The latest end.
fn end_of(request: &v1::CoAllocationRequest) -> Option<coalloc_proto::Timestamp> {
    let latest = words::wire_time(request.latest_start.as_ref())?;
    let length = coalloc_net::convert::span_from_wire("", request.duration.as_ref()?).ok()?;
    Some(coalloc_net::convert::time_to_wire(latest.saturating_add(length)))
}

/// What the coordinator finds wrong with the request, by the inputs of the form; empty if it is something else that failed.
pub(super) fn mistakes_of(status: &Status, parsed: &ParsedFields) -> Mistakes {
    let mut mistakes = Mistakes::default();
    if status.code() == Code::InvalidArgument {
        let details = status.get_details_bad_request();
        for one in details.map(|details| details.field_violations).unwrap_or_default() {
            mistakes.0.insert(parsed.input_of(&one.field), one.description);
        }
    }
    mistakes
}

/// Is the digest of the plan what the coordinator finds wrong?
fn names_plan(status: &Status) -> bool {
    let details = status.get_details_bad_request();
    let mut violations = details.map(|details| details.field_violations).unwrap_or_default();
    violations.retain(|one| one.field == "plan_digest");
    !violations.is_empty()
}

/// The form; with mistakes, it says that nothing was done.
async fn form_page(
    state: &PageState,
    visitor: &Visitor,
    fields: &RequestFields,
    mistakes: &Mistakes,
) -> Response<Body> {
    let places = match PageCalls::new(state, visitor).federation().await {
        Ok(answer) => places(answer),
        Err(status) if status.code() == Code::Unauthenticated => {
            return visitor::failed(visitor, HERE, &status);
        }
        // Not everybody may see the topology. A place can be typed all the same.
        Err(_) => Vec::new(),
    };
    if visitor.is_stranger() {
        return visitor::unknown(visitor, "sign in first");
    }
    let code = if mistakes.0.is_empty() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let frame = Frame { title: "Request", here: HERE, is_live: false };
    respond(visitor, code, frame, &form(visitor, fields, mistakes, &places))
}

/// The names of the federation's sites.
fn places(answer: v1::DescribeFederationResponse) -> Vec<String> {
    let all = answer.resource_managers.into_iter().filter_map(|one| one.description);
    let mut places: Vec<_> = all.flat_map(|one| one.sites).map(|site| site.name).collect();
    places.sort_unstable();
    places
}

fn form(
    visitor: &Visitor,
    fields: &RequestFields,
    mistakes: &Mistakes,
    places: &[String],
) -> Markup {
    let mut fields = fields.clone();
    fields.sites.resize_with(fields.sites.len().max(SITE_ROWS), Default::default);
    fields.links.resize_with(fields.links.len().max(LINK_ROWS), Default::default);
    html! {
        (summary(mistakes))
        p { "Computers at sites, and the network between them, for one time. Rows that are empty do not count." }
        form method="post" action="/request" class="ask" {
            (Form::hidden(visitor))
            // A browser presses the first button of a form for Enter.
            button type="submit" name="do" value="plan" class="skip" tabindex="-1" aria-hidden="true" { "Show plans" }
            h2 id="sites" { "Sites" }
            (said_of(mistakes, "sites"))
            @for (row, site) in fields.sites.iter().enumerate() { (site_row(row, site, mistakes)) }
            datalist id="places" { @for place in places { option value=(place) {} } }
            p { button type="submit" name="do" value="site" class="quiet" { "Add a site" } }
            h2 id="links" { "Links" }
            (said_of(mistakes, "links"))
            @for (row, link) in fields.links.iter().enumerate() { (link_row(row, link, mistakes)) }
            p { button type="submit" name="do" value="link" class="quiet" { "Add a link" } }
            h2 { "Time" }
            (times(&fields, mistakes))
            (more(&fields, mistakes))
            (said_of(mistakes, "form"))
            p { button type="submit" name="do" value="plan" { "Show plans" } " Nothing is held yet." }
        }
    }
}

fn times(fields: &RequestFields, mistakes: &Mistakes) -> Markup {
    html! {
        div class="row" {
            (Input::new("for", "for", "Duration", &fields.length, "1h30").markup(mistakes))
            (Input::new("after", "after", "Earliest start", &fields.after, "as soon as possible").markup(mistakes))
            (Input::new("before", "before", "Latest end", &fields.before, "starts within 24 h").markup(mistakes))
            div class="field" data-zone=[fields.zone.is_empty().then_some("yes")] {
                (Input::new("zone", "zone", "Times are in", if fields.zone.is_empty() { "UTC" } else { &fields.zone }, "UTC").markup(mistakes))
            }
        }
        p class="note" {
            "A time: " code { "tomorrow 9:00" } ", " code { "Mon 14:30" } ", " code { "+2h" } ", "
            code { "2026-12-24 14:00" } ". A length: " code { "1h30" } ", " code { "90min" } ", " code { "2d" } "."
        }
    }
}

/// What most requests leave as it is.
fn more(fields: &RequestFields, mistakes: &Mistakes) -> Markup {
    let setting = |text: &str| ("", text.to_owned());
    let objectives = |first: &str| {
        let words = ["start", "price", "quality", "load", "preference"];
        let about = [
            "an early start",
            "a low price",
            "full quality",
            "little used resources",
            "preferred resource managers",
        ];
        let words = words.into_iter().zip(about.map(str::to_owned));
        [setting(first)].into_iter().chain(words).collect::<Vec<_>>()
    };
    let solvers =
        Solver::ALL.iter().map(|one| (one.name(), format!("{}: {}", one.name(), one.about())));
    let solvers: Vec<_> =
        [setting("the coordinator's setting")].into_iter().chain(solvers).collect();
    let [first, second] = &fields.objectives;
    let is_used = !(fields.name.is_empty()
        && fields.user.is_empty()
        && fields.solver.is_empty()
        && first.is_empty()
        && second.is_empty()
        && fields.frames.is_empty()
        && fields.manual.is_empty());
    let is_wrong = ["name", "user", "solver", "first", "second", "frames"]
        .into_iter()
        .any(|input| mistakes.of(input).is_some());
    html! {
        details open[is_used || is_wrong] {
            summary { "Name and options" }
            div class="row" {
                (Input::new("name", "name", "Name of the reservation", &fields.name, "made by the page").markup(mistakes))
                (Input::new("user", "user", "For the user", &fields.user, "you").markup(mistakes))
                (select("first", "What matters most", first, &objectives("the coordinator's setting"), mistakes))
                (select("second", "And next", second, &objectives("nothing more"), mistakes))
                (select("solver", "Solver", &fields.solver, &solvers, mistakes))
                (Input::new("frames", "frames", "Starts to try", &fields.frames, "10").markup(mistakes))
            }
            p class="check" {
                input id="manual" type="checkbox" name="manual" value="yes" checked[!fields.manual.is_empty()];
                label for="manual" { " Let nobody in at the equipment before I provision it" }
            }
        }
    }
}

#[cfg(test)]
mod tests;
