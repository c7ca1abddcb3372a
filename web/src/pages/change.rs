//! `/change/ID`: another window or other amounts for a reservation. First what would change is shown, and asked whether it is
//! meant.
//!
//! The new version is the last one that was asked for with what the form says. What the form does not have (windows of parts,
//! places, options) stays as it is. The form carries the version that it was made of, so that nobody changes what they have
//! not seen, and an id of the change, so that a question that is answered twice is one change.
//!
//! Left out: further sites and links, and sites that are dropped, which `coalloc modify` with a file makes.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use coalloc_common::{Span, Window};
use coalloc_net::convert::{span_to_wire, time_to_wire, window_from_wire};
use coalloc_net::written;
use coalloc_proto::v1;
use http::{Response, StatusCode};
use maud::{Markup, html};
use tonic::{Code, Status};
use uuid::Uuid;

use super::calls::PageCalls;
use super::form::Form;
use super::frame::{Frame, redirect, respond};
use super::request::fields::{
    LinkFields, Mistakes, ParsedFields, RequestFields, SiteFields, instant, zone,
};
use super::request::inputs::{Input, hidden, said_of, summary};
use super::request::mistakes_of;
use super::visitor::{self, Visitor};
use super::{PageState, words};

const HERE: &str = "/reservations";

/// Can its request be changed by a form?
pub(super) fn is_changeable(one: &v1::Reservation) -> bool {
    one.state().is_booked() && one.request.is_some()
}

/// A form for a change, as it was sent.
struct ChangeForm {
    fields: RequestFields,
    /// May sites of both versions move?
    may_move: bool,
    /// The id of the change.
    change: String,
    /// The version of the reservation that the form was made of.
    version: String,
}

impl ChangeForm {
    /// The form of a reservation as it is.
    fn of_reservation(one: &v1::Reservation) -> Self {
        let request = one.request.clone().unwrap_or_default();
        let length = window_of(one).map_or(Span::ZERO, |own| own.end().since(own.start()));
        let fields = RequestFields {
            sites: request.sites.iter().map(SiteFields::of).collect(),
            links: request.links.iter().map(LinkFields::of).collect(),
            length: written::show_span(length),
            ..Default::default()
        };
        let version = one.version.to_string();
        Self { fields, may_move: false, change: Uuid::new_v4().to_string(), version }
    }

    fn of_form(form: &Form) -> Self {
        let own = |name: &str| form.field(name).to_owned();
        Self {
            fields: RequestFields::of(form.pairs()),
            may_move: !form.field("move").is_empty(),
            change: own("change"),
            version: own("version"),
        }
    }

    /// The new version, with what it was made of in `fields` fixed, so that it is the same whenever it is read.
    fn read(&mut self, one: &v1::Reservation) -> Result<NewVersion, Mistakes> {
        let mut mistakes = Mistakes::default();
        let was = one.request.clone().unwrap_or_default();
        let mut request = was.clone();
        self.read_amounts(&mut request, &mut mistakes);
        let own = window_of(one);
        let length = mistakes.take("for", written::length(&self.fields.length));
        let zone = mistakes.take("zone", zone(&self.fields.zone));
        let mut start = None;
        let mut readings = Vec::new();
        if !self.fields.after.is_empty() {
            let read = zone.map(|zone| instant(&self.fields.after, words::now(), &zone));
            if let Some((time, reading)) = read.and_then(|read| mistakes.take("after", read)) {
                self.fields.after = time.to_string();
                start = Some(time);
                readings.extend(reading);
            }
        }
        request.earliest_start = start.map(time_to_wire);
        request.latest_start = None;
        request.duration = length.map(span_to_wire);
        // It stays as it is, also if somebody provisions the reservation meanwhile.
        request.manual_provision = None;
        request.user.clone_from(&one.user);
        let window = own.zip(length).and_then(|(own, length)| {
            Window::starting(start.unwrap_or_else(|| own.start()), length)
        });
        let is_same = request.sites == was.sites && request.links == was.links && window == own;
        if mistakes.0.is_empty() && is_same && !self.may_move {
            let text = "nothing would change; allowed: another window, or other amounts";
            mistakes.0.insert("form".to_owned(), text.to_owned());
        }
        match mistakes.0.is_empty() {
            true => Ok(NewVersion { was, request, own, window, readings }),
            false => Err(mistakes),
        }
    }

    /// Sets the amounts of the rows. Rows are those of the version that the form was made of.
    fn read_amounts(&self, request: &mut v1::CoAllocationRequest, mistakes: &mut Mistakes) {
        let rows = self.fields.sites.iter().zip(&mut request.sites).enumerate();
        for (row, (typed, site)) in rows {
            let read = typed.read(row, mistakes);
            site.cpus = read.cpus;
            // A kind that stays keeps its window.
            let kept = |one: v1::KindAmount| {
                let before = site.others.iter().find(|before| before.kind == one.kind);
                before.map_or(one.clone(), |before| v1::KindAmount {
                    amount: one.amount,
                    ..before.clone()
                })
            };
            site.others = read.others.into_iter().map(kept).collect();
        }
        for (row, (typed, link)) in self.fields.links.iter().zip(&mut request.links).enumerate() {
            let read = typed.read(row, mistakes);
            link.bandwidth_bps = read.bandwidth_bps;
            link.max_latency = read.max_latency;
        }
    }
}

/// What a form makes of a reservation.
struct NewVersion {
    was: v1::CoAllocationRequest,
    request: v1::CoAllocationRequest,
    own: Option<Window>,
    window: Option<Window>,
    readings: Vec<String>,
}

fn window_of(one: &v1::Reservation) -> Option<Window> {
    window_from_wire("", one.plan.as_ref()?.window.as_ref()).ok()
}

/// `GET /change/ID`.
pub(super) async fn show(
    State(state): State<PageState>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Response<Body> {
    match PageCalls::new(&state, &visitor).get(&id).await {
        Ok(one) => {
            let form = ChangeForm::of_reservation(&one);
            form_page(&visitor, &one, &form, &Mistakes::default(), None)
        }
        Err(status) => visitor::failed(&visitor, HERE, &status),
    }
}

/// `POST /change/ID`: asks whether it is meant (`do=ask`), or changes it (`do=change`).
pub(super) async fn submit(
    State(state): State<PageState>,
    visitor: Visitor,
    Path(id): Path<String>,
    request: Request,
) -> Response<Body> {
    let sent = match Form::read(&visitor, request).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let mut form = ChangeForm::of_form(&sent);
    let mut calls = PageCalls::new(&state, &visitor);
    let one = match calls.get(&id).await {
        Ok(one) => one,
        Err(status) => return visitor::failed(&visitor, HERE, &status),
    };
    if one.change.as_ref().is_some_and(|change| change.change_id == form.change) {
        // The same form once more.
        return redirect(&words::page_of(&one));
    }
    let request = one.request.as_ref();
    let rows = request.map_or((0, 0), |request| (request.sites.len(), request.links.len()));
    let is_current = form.version == one.version.to_string()
        && rows == (form.fields.sites.len(), form.fields.links.len());
    if !is_current {
        let notice = "The reservation has been changed since this form was made, so nothing was done. This is how it is now.";
        let fresh = ChangeForm::of_reservation(&one);
        return form_page(&visitor, &one, &fresh, &Mistakes::default(), Some(notice));
    }
    let new = match form.read(&one) {
        Ok(new) if is_changeable(&one) => new,
        Ok(_) => return form_page(&visitor, &one, &form, &Mistakes::default(), None),
        Err(mistakes) => return form_page(&visitor, &one, &form, &mistakes, None),
    };
    if sent.field("do") != "change" {
        let frame = Frame { title: "Change it like this?", here: HERE, is_live: false };
        return respond(&visitor, StatusCode::OK, frame, &question(&visitor, &one, &form, &new));
    }
    let wire = v1::ModifyRequest {
        id: one.id.clone(),
        change_id: form.change.clone(),
        request: Some(new.request.clone()),
        options: None,
        may_move: form.may_move,
    };
    match calls.modify(wire).await {
        Ok(changed) => outcome(&visitor, &changed, &form),
        Err(status) => failed(&visitor, &one, &form, &new, &status),
    }
}

/// What follows an answer: the reservation, or why it is as it was.
fn outcome(visitor: &Visitor, one: &v1::Reservation, form: &ChangeForm) -> Response<Body> {
    let own = one.change.as_ref().filter(|change| change.change_id == form.change);
    let Some(change) = own.filter(|change| change.state() == v1::ChangeState::Refused) else {
        return redirect(&words::page_of(one));
    };
    let body = html! {
        p class="trouble" role="alert" {
            "Refused: "
            @match &change.refusal { Some(why) => { (words::refusal(why)) } None => { "no reason was given" } }
            ". The reservation is as it was."
        }
        p { a href=(words::path("change", &one.id)) { "Change it otherwise" } }
        p { a href=(words::page_of(one)) { "Back to it" } }
    };
    let frame = Frame { title: "Not changed", here: HERE, is_live: false };
    respond(visitor, StatusCode::OK, frame, &body)
}

fn failed(
    visitor: &Visitor,
    one: &v1::Reservation,
    form: &ChangeForm,
    new: &NewVersion,
    status: &Status,
) -> Response<Body> {
    let mistakes = mistakes_of(status, &ParsedFields::of_request(new.request.clone()));
    if !mistakes.0.is_empty() {
        return form_page(visitor, one, form, &mistakes, None);
    }
    let is_definite = matches!(
        status.code(),
        Code::Unauthenticated | Code::PermissionDenied | Code::FailedPrecondition | Code::NotFound
    );
    if is_definite {
        return visitor::failed(visitor, HERE, status);
    }
    let body = html! {
        p class="trouble" role="alert" { (words::text(status.message())) }
        p { "The change may have been made, or be going on. To send it once more makes no second change." }
        form method="post" action=(words::path("change", &one.id)) data-once="yes" {
            (carried(visitor, form))
            button type="submit" name="do" value="change" { "Send it once more" }
            " " a href=(words::page_of(one)) { "Look at the reservation" }
        }
    };
    let frame = Frame { title: "The answer was lost", here: HERE, is_live: false };
    respond(visitor, crate::error::http_status(status.code()), frame, &body)
}

/// The form as fields that are not seen.
fn carried(visitor: &Visitor, form: &ChangeForm) -> Markup {
    html! {
        (Form::hidden(visitor))
        (hidden(&form.fields))
        input type="hidden" name="change" value=(form.change);
        input type="hidden" name="version" value=(form.version);
        @if form.may_move { input type="hidden" name="move" value="yes"; }
    }
}

fn question(
    visitor: &Visitor,
    one: &v1::Reservation,
    form: &ChangeForm,
    new: &NewVersion,
) -> Markup {
    let (was, now) = (amounts(&new.was), amounts(&new.request));
    html! {
        p { b { (words::text(words::own_id(one))) } " of " (words::text(&one.user)) ", " (words::badge(one.state())) }
        div class="scroll" role="region" aria-label="What changes" tabindex="0" {
            table class="cards" {
                thead { tr { th scope="col" { "What" } th scope="col" { "As it is" } th scope="col" { "As it would be" } } }
                tbody {
                    @if new.own != new.window {
                        tr {
                            td data-label="What" { "Window" }
                            td data-label="As it is" class="was" { @if let Some(own) = new.own { (words::window(own)) } }
                            td data-label="As it would be" {
                                @if let Some(window) = new.window { (words::window(window)) }
                                @for reading in &new.readings { " (" (words::text(reading)) ")" }
                            }
                        }
                    }
                    @for ((name, before), (_, after)) in was.iter().zip(&now) {
                        @if before != after {
                            tr {
                                td data-label="What" { (words::text(name)) }
                                td data-label="As it is" class="was" { (words::text(before)) }
                                td data-label="As it would be" { (words::text(after)) }
                            }
                        }
                    }
                    @if form.may_move {
                        tr {
                            td data-label="What" { "Places" }
                            td data-label="As it is" class="was" { (words::places(one)) }
                            td data-label="As it would be" { "wherever it fits" }
                        }
                    }
                }
            }
        }
        p { "Either all of this is booked, or the reservation stays whole as it is." }
        form method="post" action=(words::path("change", &one.id)) data-once="yes" {
            (carried(visitor, form))
            button type="submit" name="do" value="change" { "Change it" }
            " " a href=(words::page_of(one)) { "Keep it as it is" }
        }
    }
}

/// What is asked for at each site and link, by its name.
fn amounts(request: &v1::CoAllocationRequest) -> Vec<(String, String)> {
    let sites = request.sites.iter().map(|site| {
        let others =
            site.others.iter().map(|one| super::reservation::of_kind(&one.kind, one.amount));
        let cpus = coalloc_common::Cpus(site.cpus).to_string();
        (site.name.clone(), std::iter::once(cpus).chain(others).collect::<Vec<_>>().join(", "))
    });
    let links = request.links.iter().map(|link| {
        let LinkFields { latency, .. } = LinkFields::of(link);
        let rate = coalloc_common::BitsPerSecond(link.bandwidth_bps).to_string();
        let latency = if latency.is_empty() { latency } else { format!(", at most {latency}") };
        (format!("{} → {}", link.from, link.to), rate + &latency)
    });
    sites.chain(links).collect()
}

fn form_page(
    visitor: &Visitor,
    one: &v1::Reservation,
    form: &ChangeForm,
    mistakes: &Mistakes,
    notice: Option<&str>,
) -> Response<Body> {
    let frame = Frame { title: "Change a reservation", here: HERE, is_live: false };
    let code = match (notice, mistakes.0.is_empty()) {
        (Some(_), _) => StatusCode::CONFLICT,
        (None, false) => StatusCode::BAD_REQUEST,
        (None, true) => StatusCode::OK,
    };
    let body = html! {
        @if let Some(notice) = notice { p class="trouble" role="alert" { (notice) } }
        @if is_changeable(one) {
            (inputs(visitor, one, form, mistakes))
        } @else {
            p {
                "There is nothing that a form could change: "
                (words::text(words::own_id(one))) " is " (words::state(one.state()))
                @if one.request.is_none() { ", and is no co-allocation" } "."
            }
            p { a href=(words::page_of(one)) { "Back to it" } }
        }
    };
    respond(visitor, code, frame, &body)
}

fn inputs(
    visitor: &Visitor,
    one: &v1::Reservation,
    form: &ChangeForm,
    mistakes: &Mistakes,
) -> Markup {
    let fields = &form.fields;
    html! {
        (summary(mistakes))
        p {
            b { (words::text(words::own_id(one))) } " of " (words::text(&one.user)) ", " (words::badge(one.state())) ", "
            (words::wire_window(one.plan.as_ref().and_then(|plan| plan.window.as_ref())))
        }
        form method="post" action=(words::path("change", &one.id)) {
            (Form::hidden(visitor))
            input type="hidden" name="change" value=(form.change);
            input type="hidden" name="version" value=(form.version);
            h2 { "Time" }
            div class="row" {
                (Input::new("after", "after", "Start", &fields.after, "as it is").markup(mistakes))
                (Input::new("for", "for", "Duration", &fields.length, "1h30").markup(mistakes))
                div class="field" data-zone=[fields.zone.is_empty().then_some("yes")] {
                    (Input::new("zone", "zone", "Times are in", if fields.zone.is_empty() { "UTC" } else { &fields.zone }, "UTC").markup(mistakes))
                }
            }
            h2 { "Amounts" }
            @for (row, site) in fields.sites.iter().enumerate() {
                @let ids = ["name", "cpus", "others"].map(|name| format!("site-{row}-{name}"));
                fieldset class="row" {
                    legend { "Site " (row + 1) }
                    (Input::fixed(&ids[0], "site", "Name", &site.name).markup(mistakes))
                    (Input::new(&ids[1], "cpus", "CPUs", &site.cpus, "4").markup(mistakes))
                    (Input::new(&ids[2], "others", "Further kinds", &site.others, "storage=500GB").markup(mistakes))
                }
            }
            @for (row, link) in fields.links.iter().enumerate() {
                @let ids = ["from", "to", "rate", "latency"].map(|name| format!("link-{row}-{name}"));
                fieldset class="row" {
                    legend { "Link " (row + 1) }
                    (Input::fixed(&ids[0], "from", "From site", &link.from).markup(mistakes))
                    (Input::fixed(&ids[1], "to", "To site", &link.to).markup(mistakes))
                    (Input::new(&ids[2], "rate", "Rate", &link.rate, "2G").markup(mistakes))
                    (Input::new(&ids[3], "latency", "Largest latency", &link.latency, "any").markup(mistakes))
                }
            }
            p class="check" {
                input id="move" type="checkbox" name="move" value="yes" checked[form.may_move];
                label for="move" { " Sites may move; otherwise they stay where they are" }
            }
            (said_of(mistakes, "form"))
            p {
                button type="submit" name="do" value="ask" { "See what would change" }
                " " a href=(words::page_of(one)) { "Keep it as it is" }
            }
        }
    }
}

#[cfg(test)]
mod tests;
