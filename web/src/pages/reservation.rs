//! `/reservations/ID`: everything about one reservation, and `/release/ID`, which ends it.
//!
//! Left out: changes, which have pages of their own (`change`, `provision`), and so has the plan of a workflow.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use coalloc_common::{BitsPerSecond, Cpus, ResourceKind, Value};
use coalloc_proto::v1;
use http::{Response, StatusCode};
use maud::{Markup, html};
use tonic::Status;

use super::calls::PageCalls;
use super::form::Form;
use super::frame::{Frame, redirect, respond};
use super::inventory::Inventory;
use super::provision::Provisioning;
use super::visitor::{self, Visitor};
use super::{PageState, change, words};

/// The page of the navigation to which reservations belong.
const HERE: &str = "/reservations";

/// `GET /reservations/ID`.
pub(super) async fn show(
    State(state): State<PageState>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Response<Body> {
    let mut calls = PageCalls::new(&state, &visitor);
    let one = match calls.get(&id).await {
        Ok(one) => one,
        Err(status) => return visitor::failed(&visitor, HERE, &status),
    };
    // Without a description amounts have no units, and the page is good all the same.
    let inventory = calls.federation().await.map(|answer| Inventory::of(&answer));
    let equipment = match one.state().is_booked() {
        true => Some(calls.data_plane(&id).await),
        false => None,
    };
    let title = format!("Reservation {}", words::text(words::own_id(&one)));
    let frame = Frame { title: &title, here: HERE, is_live: true };
    let content = markup(&one, &inventory.unwrap_or_default(), equipment.as_ref());
    respond(&visitor, StatusCode::OK, frame, &content)
}

/// `GET /release/ID`: asks whether it is meant.
pub(super) async fn ask(
    State(state): State<PageState>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Response<Body> {
    match PageCalls::new(&state, &visitor).get(&id).await {
        Ok(one) => {
            let frame = Frame { title: "Release a reservation", here: HERE, is_live: false };
            respond(&visitor, StatusCode::OK, frame, &question(&visitor, &one))
        }
        Err(status) => visitor::failed(&visitor, HERE, &status),
    }
}

/// `POST /release/ID`. A reservation ends once, however often it is released, so a form that is sent twice does no harm.
pub(super) async fn release(
    State(state): State<PageState>,
    visitor: Visitor,
    Path(id): Path<String>,
    request: Request,
) -> Response<Body> {
    if let Err(response) = Form::read(&visitor, request).await {
        return response;
    }
    match PageCalls::new(&state, &visitor).release(&id).await {
        Ok(one) => redirect(&words::page_of(&one)),
        Err(status) => visitor::failed(&visitor, HERE, &status),
    }
}

/// Can it be released?
fn is_releasable(one: &v1::Reservation) -> bool {
    use v1::ReservationState as S;
    !one.id.is_empty() && matches!(one.state(), S::Committing | S::Confirmed | S::Active | S::Held)
}

fn question(visitor: &Visitor, one: &v1::Reservation) -> Markup {
    let window = one.plan.as_ref().and_then(|plan| plan.window.as_ref());
    html! {
        p {
            b { (words::text(words::own_id(one))) } " of " (words::text(&one.user)) ", "
            (words::badge(one.state())) ", " (words::wire_window(window)) ", " (words::places(one))
        }
        @if is_releasable(one) {
            p { "What it has booked is free at once, its past included. This cannot be undone." }
            form method="post" action=(words::path("release", &one.id)) class="inline" data-once="yes" {
                (Form::hidden(visitor))
                button type="submit" class="danger" { "Release it" }
                " " a href=(words::page_of(one)) { "Keep it" }
            }
        } @else {
            p { "There is nothing to release: it is " (words::state(one.state())) "." }
            p { a href=(words::page_of(one)) { "Back to it" } }
        }
    }
}

fn markup(
    one: &v1::Reservation,
    inventory: &Inventory,
    equipment: Option<&Result<v1::GetDataPlaneResponse, Status>>,
) -> Markup {
    html! {
        p {
            (words::badge(one.state()))
            @if !one.definite { " The state is not final." }
            @if one.id.is_empty() && !words::has_ended(one.state()) { " It is being planned; nothing is held yet." }
        }
        @if let Some(left) = &one.expires_in {
            p class="note" {
                "Held: the first of its holds ends in " (words::wire_span(left)) ", unless it is booked before then."
            }
        }
        (troubles(one))
        (facts(one))
        @if let Some(plan) = &one.plan { (plan_markup(one, plan, inventory)) }
        (history(one))
        @if let Some(answer) = equipment { (equipment_markup(answer)) }
        p {
            @if change::is_changeable(one) {
                a class="button" href=(words::path("change", &one.id)) { "Change…" } " "
            }
            @if let Some(wanted) = Provisioning::of(one, has_equipment(equipment)) {
                a class="button" href=(words::path(wanted.page(), &one.id)) { (wanted.label()) "…" } " "
            }
            @if is_releasable(one) {
                a class="button danger" href=(words::path("release", &one.id)) { "Release…" }
            }
        }
    }
}

/// Has some equipment something of it?
fn has_equipment(answer: Option<&Result<v1::GetDataPlaneResponse, Status>>) -> bool {
    answer.is_some_and(|answer| answer.as_ref().is_ok_and(|told| !told.data_plane.is_empty()))
}

/// What is wrong with it.
fn troubles(one: &v1::Reservation) -> Markup {
    let may_have_it = one.given_up.iter().any(|one| one.ended.is_none());
    html! {
        @if let Some(why) = &one.refusal {
            p class="trouble" {
                "Refused: " (words::refusal(why))
                @if one.definite && !may_have_it {
                    ". Nothing is held."
                    @if why.transient { " The same request may succeed later under a new id." }
                }
            }
        }
        @for trouble in &one.equipment_trouble {
            p class="trouble" {
                "Trouble at the equipment of " (words::text(&trouble.resource_manager)) ": " (words::text(&trouble.trouble))
            }
        }
        @if one.manual_provision && one.state() == v1::ReservationState::Confirmed {
            p class="note" { "Not provisioned: its user is not let in to the equipment before that." }
        }
        @for gone in &one.given_up {
            p class="trouble" {
                (words::text(&gone.resource_manager)) " was given up on by " (words::text(&gone.by)) " ("
                (words::text(&gone.why)) ") at " (words::wire_instant(gone.time.as_ref()))
                @match (&gone.ended, &gone.booked_until) {
                    (Some(ended), _) => { "; it has had nothing of it since " (words::wire_instant(Some(ended))) }
                    (None, Some(until)) => { "; it may have it booked until " (words::wire_instant(Some(until))) }
                    (None, None) => { "; it is told to end what it still has of it when it returns" }
                }
            }
        }
    }
}

fn facts(one: &v1::Reservation) -> Markup {
    let window = one.plan.as_ref().and_then(|plan| plan.window.as_ref());
    html! {
        dl class="facts" {
            dt { "Window" } dd { (words::wire_window(window)) }
            dt { "User" } dd { (words::text(&one.user)) }
            dt { "Request" } dd { (words::text(&one.request_id)) }
            @if !one.id.is_empty() { dt { "Reservation" } dd { (words::text(&one.id)) } }
            dt { "Made" } dd { (words::wire_instant(one.created.as_ref())) }
            dt { "Version" } dd { (one.version.max(1)) ", " (words::count(one.attempts as usize, "attempt")) }
            @if let Some(summary) = &one.workflow {
                dt { "Workflow" }
                dd {
                    (summary.activities) " activities, " (words::count(summary.transfers as usize, "transfer")) "; "
                    a href=(words::path("workflows", &one.id)) { "its plan" }
                }
            }
            @if !one.transaction.is_empty() { dt { "Transaction" } dd { (words::text(&one.transaction)) } }
        }
    }
}

fn plan_markup(one: &v1::Reservation, plan: &v1::Plan, inventory: &Inventory) -> Markup {
    html! {
        h2 { "Plan" }
        @if !plan.placements.is_empty() || !plan.routes.is_empty() {
            ul {
                @for site in &plan.placements {
                    li {
                        b { (words::text(&site.site)) } ": " (Cpus(site.cpus))
                        @for other in &site.others { ", " (of_kind(&other.kind, other.amount)) }
                        " at " (words::text(&site.at))
                        @if site.window.is_some() { ", " (words::wire_window(site.window.as_ref())) }
                    }
                }
                @for route in &plan.routes {
                    li {
                        b { (words::text(&route.from)) " → " (words::text(&route.to)) } ": "
                        (BitsPerSecond(route.bandwidth_bps)) " over " (words::text(&route.via.join(" – ")))
                        @if route.window.is_some() { ", " (words::wire_window(route.window.as_ref())) }
                    }
                }
            }
        }
        @if one.workflow.is_none() {
            p {
                "Cost " (Value { milli: plan.cost_millipoints }) " points, "
                @if plan.proven_optimal { "proven optimal" } @else { "not proven optimal" } "."
            }
        }
        @for granted in &one.servers {
            p { "Servers at " (words::text(&granted.site)) ": " (words::text(&granted.servers.join(", "))) }
        }
        @if !plan.segments.is_empty() {
            h3 { "What is taken" }
            div class="scroll" role="region" aria-label="What is taken" tabindex="0" {
                table class="cards" {
                    thead { tr {
                        th scope="col" { "Resource" } th scope="col" { "Amount" }
                        th scope="col" { "Resource manager" } th scope="col" { "Window" }
                    } }
                    tbody { @for segment in &plan.segments { tr {
                        td data-label="Resource" { (words::text(&segment.resource)) }
                        td data-label="Amount" { (inventory.amount(segment)) }
                        td data-label="Resource manager" { (words::text(&segment.resource_manager)) }
                        td data-label="Window" { (words::wire_window(segment.window.as_ref())) }
                    } } }
                }
            }
        }
    }
}

/// An amount of a further kind at a site. A coordinator of a later release may know kinds that this one does not.
pub(super) fn of_kind(word: &str, amount: u64) -> String {
    let known = ResourceKind::parse_other("kind", word);
    known.map_or_else(
        |_| format!("{amount} {}", words::text(word)),
        |kind| kind.show(coalloc_common::Amount(amount)),
    )
}

/// Attempts and changes.
fn history(one: &v1::Reservation) -> Markup {
    use v1::ChangeState as C;
    let is_empty =
        one.attempt_refusals.is_empty() && one.change.is_none() && one.unreachable.is_empty();
    html! {
        @if !is_empty {
            h2 { "History" }
            ul {
                @for (number, why) in (1..).zip(&one.attempt_refusals) {
                    li { "Attempt " (number) " failed: " (words::refusal(why)) }
                }
                @if !one.unreachable.is_empty() {
                    li { "Planned without " (words::text(&one.unreachable.join(", "))) ", which did not answer" }
                }
                @if let Some(change) = &one.change {
                    li {
                        "Change " (words::text(&change.change_id)) ": "
                        @match change.state() {
                            C::Done => { "done" }
                            C::Refused => { "refused, nothing has changed" }
                            C::Committing => { "decided, being booked" }
                            C::Checking | C::Unspecified => { "being held; nothing changes until it is decided" }
                        }
                        @if let Some(why) = &change.refusal { ": " (words::refusal(why)) }
                    }
                }
            }
        }
    }
}

/// What the equipment has of it.
fn equipment_markup(answer: &Result<v1::GetDataPlaneResponse, Status>) -> Markup {
    html! {
        @match answer {
            Err(status) => {
                h2 { "Equipment" }
                p class="note" { "Not told: " (words::text(status.message())) }
            }
            Ok(answer) if answer.data_plane.is_empty() && answer.silent.is_empty() => {}
            Ok(answer) => {
                h2 { "Equipment" }
                ul {
                    @for one in &answer.data_plane {
                        li {
                            b { (words::text(&one.resource)) } " at " (words::text(&one.resource_manager)) ": " (provision(one))
                            @if !one.handle.is_empty() { " as " (words::text(&one.handle)) }
                            @if !one.version_consistent { ", with another version than the one booked" }
                            @if one.since.is_some() { " since " (words::wire_instant(one.since.as_ref())) }
                            @if !one.trouble.is_empty() { "; trouble: " (words::text(&one.trouble)) }
                        }
                    }
                    @for silent in &answer.silent {
                        li { (words::text(&silent.name)) ": no answer: " (words::text(&silent.problem)) }
                    }
                }
            }
        }
    }
}

/// What the equipment has of one resource, in the words of `coalloc show`.
fn provision(one: &v1::DataPlane) -> &'static str {
    use v1::ProvisionState as P;
    match (one.provision_state(), one.active) {
        (P::Provisioned, true) => "active",
        (P::Provisioned, false) => "granted, outside its window",
        (P::Provisioning, _) => "not there yet",
        (P::Releasing, _) => "being removed",
        (P::Released | P::Unspecified, _) if one.handle.is_empty() => "nothing is there",
        (P::Released | P::Unspecified, _) => "reserved, not granted yet",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: &str = "<script>\"'&";

    /// A reservation in which a stranger has chosen every text.
    fn strange() -> v1::Reservation {
        let evil = || EVIL.to_owned();
        let why = || v1::Refusal { detail: evil(), resource_manager: evil(), ..Default::default() };
        let placement = v1::Placement {
            site: evil(),
            at: evil(),
            others: vec![v1::KindAmount { kind: evil(), amount: 1, ..Default::default() }],
            ..Default::default()
        };
        let route =
            v1::Route { from: evil(), to: evil(), via: vec![evil(), evil()], ..Default::default() };
        let segment =
            v1::Segment { resource: evil(), resource_manager: evil(), ..Default::default() };
        let plan = v1::Plan {
            placements: vec![placement],
            routes: vec![route],
            segments: vec![segment],
            ..Default::default()
        };
        v1::Reservation {
            id: evil(),
            request_id: evil(),
            user: evil(),
            state: v1::ReservationState::Confirmed.into(),
            plan: Some(plan),
            refusal: Some(why()),
            attempt_refusals: vec![why()],
            unreachable: vec![evil()],
            transaction: evil(),
            change: Some(v1::Change {
                change_id: evil(),
                refusal: Some(why()),
                ..Default::default()
            }),
            equipment_trouble: vec![v1::EquipmentTrouble {
                resource_manager: evil(),
                trouble: evil(),
            }],
            given_up: vec![v1::GivenUp {
                resource_manager: evil(),
                by: evil(),
                why: evil(),
                ..Default::default()
            }],
            servers: vec![v1::GrantedServers {
                site: evil(),
                servers: vec![evil()],
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    #[test]
    fn no_text_of_a_stranger_is_markup() {
        let told = v1::DataPlane {
            resource: EVIL.into(),
            handle: EVIL.into(),
            trouble: EVIL.into(),
            ..Default::default()
        };
        let silent = v1::SilentResourceManager { name: EVIL.into(), problem: EVIL.into() };
        let answer = Ok(v1::GetDataPlaneResponse { data_plane: vec![told], silent: vec![silent] });
        let visitor = Visitor::with_secret("0123456789abcdef0123456789abcdef");
        let page = markup(&strange(), &Inventory::default(), Some(&answer)).into_string()
            + &question(&visitor, &strange()).into_string();
        assert!(!page.contains("<script"), "{page}");
        assert!(page.matches("&lt;script&gt;").count() > 20, "{page}");
        assert!(page.contains("href=\"/release/%3Cscript%3E%22%27%26\""), "{page}");
    }

    #[test]
    fn what_has_ended_is_not_offered_for_release() {
        let visitor = Visitor::with_secret("0123456789abcdef0123456789abcdef");
        let text = question(&visitor, &strange()).into_string();
        assert!(text.contains("name=\"secret\" value=\"0123456789abcdef"), "{text}");
        for state in [v1::ReservationState::Terminated, v1::ReservationState::Failed] {
            let one = v1::Reservation { state: state.into(), ..strange() };
            assert!(!question(&visitor, &one).into_string().contains("<form"));
            let page = markup(&one, &Inventory::default(), None).into_string();
            assert!(!page.contains("/release/"), "{page}");
        }
    }

    #[test]
    fn a_hold_says_when_it_ends() {
        let left = coalloc_proto::Duration { seconds: 42, nanos: 900_000_000 };
        let one = v1::Reservation {
            id: "grc-1".into(),
            state: v1::ReservationState::Checking.into(),
            expires_in: Some(left),
            ..Default::default()
        };
        let page = markup(&one, &Inventory::default(), None).into_string();
        assert!(page.contains("ends in 42 s,"), "{page}");
    }
}
