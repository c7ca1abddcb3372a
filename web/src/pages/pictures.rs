//! `/pictures`: what the coordinator believes of resource managers' profiles when it plans tasks, how old each part of it is,
//! and where that differs from what is so.
//!
//! A picture answers when an amount is free. Beside each answer stands what the coordinator's reservations leave free of the
//! resource. A picture that is out of date believes free what is booked, or taken what was released. What other coordinators
//! have booked is in the picture only, so "believed taken" alone proves no error.
//!
//! Left out: the pictures of other schedulers, which only those know, and the age of descriptions, which the coordinator does
//! not tell. Source: `coalloc picture`.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use coalloc_common::{Amount, ResourceKind, Span, Time, Window, limits};
use coalloc_net::convert::{span_from_wire, span_to_wire, time_to_wire};
use coalloc_proto::{Duration, v1};
use http::{Response, StatusCode};
use maud::{Markup, html};
use tonic::{Code, Status};

use super::calls::PageCalls;
use super::drawn::DrawnReservations;
use super::frame::{Frame, respond};
use super::inventory::Inventory;
use super::stepped::Area;
use super::visitor::{self, Visitor};
use super::{PageState, steps, words};

/// A day in slots of a quarter of an hour.
const SLOTS: usize = 96;
const SLOT_S: i64 = 900;
/// The height of a bar, in pixels.
const BAR: usize = 12;

/// What the visitor wants to know of the picture: when so much is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Amounts {
    cpus: u64,
    /// In Mbit/s.
    rate_mbps: u64,
}

impl Amounts {
    fn of(query: Option<&str>) -> Self {
        let mut amounts = Self { cpus: 1, rate_mbps: 100 };
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let Ok(value) = value.trim().parse() else { continue };
            match &*name {
                "cpus" => amounts.cpus = value,
                "mbps" => amounts.rate_mbps = value,
                // Other programs may add what they like to an address.
                _ => {}
            }
        }
        amounts
    }

    const fn rate_bps(self) -> u64 {
        self.rate_mbps.saturating_mul(1_000_000)
    }

    /// Of a resource of this kind.
    const fn of_kind(self, kind: ResourceKind) -> u64 {
        match kind {
            ResourceKind::Bandwidth => self.rate_bps(),
            _ => self.cpus,
        }
    }
}

/// What a picture believes of a resource, beside what is so, slot by slot.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Belief {
    resource: String,
    believed_free: Vec<bool>,
    /// Left free by the coordinator's reservations; `None` if the resource is not described.
    left_free: Option<Vec<bool>>,
}

impl Belief {
    fn of(
        vector: &v1::PictureVector,
        manager: &str,
        inventory: &Inventory,
        all: &[v1::Reservation],
        (amounts, window): (Amounts, Window),
    ) -> Self {
        let believed_free: Vec<bool> = vector.free.chars().map(|bit| bit == '1').collect();
        let slots = believed_free.len();
        let left_free = inventory.described(manager, &vector.resource).map(|(row, kind)| {
            let taken = steps::of_resource(all, (manager, &vector.resource), window, slots);
            let capacity = row.capacity;
            let fits = |taken: u64| capacity.saturating_sub(taken) >= amounts.of_kind(kind);
            taken.into_iter().map(fits).collect()
        });
        Self { resource: vector.resource.clone(), believed_free, left_free }
    }

    /// Slots believed free that are taken, and slots believed taken that the reservations leave free.
    fn differences(&self) -> (usize, usize) {
        let Some(left) = &self.left_free else { return (0, 0) };
        let both = || self.believed_free.iter().zip(left);
        let too_free = both().filter(|(believed, left)| **believed && !**left).count();
        let too_taken = both().filter(|(believed, left)| !**believed && **left).count();
        (too_free, too_taken)
    }
}

/// `GET /pictures`.
pub(super) async fn show(
    State(state): State<PageState>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    let frame = Frame { title: "Pictures", here: "/pictures", is_live: true };
    let amounts = Amounts::of(query.as_deref());
    match content(&state, &visitor, amounts).await {
        Ok(content) => respond(&visitor, StatusCode::OK, frame, &content),
        Err(status) => visitor::failed(&visitor, frame.here, &status),
    }
}

async fn content(state: &PageState, visitor: &Visitor, amounts: Amounts) -> Result<Markup, Status> {
    let mut calls = PageCalls::new(state, visitor);
    let wrong = || Status::internal("the clock of the coordinator is beyond its calendar");
    let window = day_from(words::now()).ok_or_else(wrong)?;
    let federation = calls.federation().await?;
    let request = v1::ReadPictureRequest {
        bandwidth_bps: amounts.rate_bps(),
        cpus: amounts.cpus,
        from: Some(time_to_wire(window.start())),
        slot: Some(span_to_wire(Span::from_secs(SLOT_S))),
        slots: SLOTS as u32,
    };
    match calls.picture(request).await {
        Ok(picture) => {
            let drawn = DrawnReservations::read(&mut calls, window).await?;
            let inventory = Inventory::of(&federation);
            Ok(markup(&picture, &inventory, &drawn, amounts, window))
        }
        // The coordinator keeps none, or does not show it to this visitor, or cannot read the amounts.
        Err(status) => match status.code() {
            Code::FailedPrecondition | Code::PermissionDenied | Code::InvalidArgument => {
                Ok(without(&status, &federation, amounts))
            }
            _ => Err(status),
        },
    }
}

/// A day from the next quarter of an hour on: nothing is believed of what is over.
fn day_from(now: Time) -> Option<Window> {
    let start = (now.as_us().div_euclid(SLOT_S * 1_000_000) + 1) * SLOT_S * 1_000_000;
    Window::starting(Time::from_us(start), Span::from_secs(SLOT_S * SLOTS as i64))
}

fn controls(amounts: Amounts) -> Markup {
    html! {
        form method="get" action="/pictures" class="filters" {
            div {
                label for="cpus" { "CPUs" }
                input id="cpus" type="number" name="cpus" min="1" max=(limits::CPUS_MAX) value=(amounts.cpus) required;
            }
            div {
                label for="mbps" { "Mbit/s" }
                input id="mbps" type="number" name="mbps" min="1" max=(limits::BANDWIDTH_MAX_BPS / 1_000_000) value=(amounts.rate_mbps) required;
            }
            button type="submit" { "When is that free?" }
        }
    }
}

/// What can be said without a picture.
fn without(
    status: &Status,
    federation: &v1::DescribeFederationResponse,
    amounts: Amounts,
) -> Markup {
    html! {
        @if status.code() == Code::InvalidArgument {
            (controls(amounts))
            p class="trouble" role="alert" { (words::text(status.message())) }
        } @else if status.code() == Code::PermissionDenied {
            p { "What the coordinator believes is shown to operators and auditors: it is made of everybody's bookings." }
        } @else {
            p { "There is no picture: this coordinator asks resource managers anew for each task (" code { "tasks.mode" } " of its configuration)." }
        }
        p class="note" {
            "Co-allocations are planned on answers to questions, not on pictures. What a resource manager has described last is on the "
            a href="/health" { "health" } " page, which says how old each of them is."
        }
        @if status.code() != Code::InvalidArgument {
            ul {
                @for one in &federation.resource_managers {
                    li {
                        (words::text(&one.name)) ": "
                        @match (&one.description, one.reachable) {
                            (None, _) => "has described nothing yet",
                            (Some(_), true) => "answers, so its description is as it says now",
                            (Some(_), false) => "does not answer; its description is that of its last answer",
                        }
                    }
                }
            }
        }
    }
}

fn markup(
    picture: &v1::ReadPictureResponse,
    inventory: &Inventory,
    drawn: &DrawnReservations,
    amounts: Amounts,
    window: Window,
) -> Markup {
    let at = words::wire_instant(picture.at.as_ref());
    html! {
        p { "What the coordinator plans tasks on, as it was at " (at) ": when " (ResourceKind::Cpus.show(Amount(amounts.cpus))) " at a site, or "
            (ResourceKind::Bandwidth.show(Amount(amounts.rate_bps()))) " on a path, is free." }
        (controls(amounts))
        p class="span" { (words::window(window)) }
        ul class="legend" {
            @for (look, word) in [("bar believed", "believed free"), ("bar left", "left free by the reservations of this coordinator"), ("bar wrong", "believed free, but taken")] {
                li {
                    svg width="22" height="12" aria-hidden="true" class=(look) { rect x="1" y="1" width="20" height="10" {} }
                    " " (word)
                }
            }
        }
        (ages(picture))
        (beliefs(picture, inventory, &drawn.all, (amounts, window)))
        p class="note" {
            "A resource that is believed taken although reservations leave it free may be booked by another coordinator."
        }
    }
}

/// How old each part is, and what it is made of.
fn ages(picture: &v1::ReadPictureResponse) -> Markup {
    html! {
        h2 { "Age of its parts" }
        div class="scroll" role="region" aria-label="Age of its parts" tabindex="0" {
            table class="cards" {
                thead { tr {
                    th scope="col" { "Resource manager" } th scope="col" { "Age" } th scope="col" { "Revision" }
                    th scope="col" { "Updates" } th scope="col" { "Ignored" }
                } }
                tbody { @for part in &picture.parts { tr {
                    td data-label="Name" { (words::text(&part.resource_manager)) }
                    td data-label="Age" { (age(part.age.as_ref())) }
                    td data-label="Revision" { (part.revision) }
                    td data-label="Updates" { (part.updates) " of " (part.bytes) " bytes" }
                    td data-label="Ignored" { (part.ignored) }
                } } }
            }
        }
    }
}

/// In seconds, which are enough for people.
fn age(wire: Option<&Duration>) -> String {
    match wire.map(|age| (age, span_from_wire("", age))) {
        None => "nothing received yet".to_owned(),
        Some((_, Ok(age))) if age < Span::from_secs(1) => "less than a second".to_owned(),
        Some((age, _)) => words::wire_span(age),
    }
}

/// What is believed of each resource.
fn beliefs(
    picture: &v1::ReadPictureResponse,
    inventory: &Inventory,
    all: &[v1::Reservation],
    asked: (Amounts, Window),
) -> Markup {
    html! {
        h2 { "What it believes" }
        div class="scroll" role="region" aria-label="What it believes" tabindex="0" {
            table class="cards" {
                thead { tr {
                    th scope="col" { "Resource" } th scope="col" { "Resource manager" } th scope="col" class="wide" { "Over a day" }
                    th scope="col" { "Believed free" } th scope="col" { "Left free" } th scope="col" { "Difference" }
                } }
                tbody { @for part in &picture.parts { @for vector in &part.vectors {
                    @let manager = part.resource_manager.as_str();
                    (row(manager, &Belief::of(vector, manager, inventory, all, asked)))
                } } }
            }
        }
    }
}

fn row(manager: &str, belief: &Belief) -> Markup {
    let hours = |slots: usize| format!("{} h", slots as f64 * SLOT_S as f64 / 3_600.0);
    let count = |slots: &[bool]| slots.iter().filter(|free| **free).count();
    let (too_free, too_taken) = belief.differences();
    html! {
        tr {
            td data-label="Resource" { (words::text(&belief.resource)) }
            td data-label="Of" { (words::text(manager)) }
            td data-label="Over a day" { (drawing(belief)) }
            td data-label="Believed free" { (hours(count(&belief.believed_free))) }
            td data-label="Left free" {
                @match &belief.left_free {
                    Some(left) => { (hours(count(left))) }
                    None => "not described",
                }
            }
            td data-label="Difference" {
                @if (too_free, too_taken) == (0, 0) { "none" }
                @if too_free > 0 { b { (hours(too_free)) " believed free, but taken" } }
                @if too_free > 0 && too_taken > 0 { "; " }
                @if too_taken > 0 { (hours(too_taken)) " believed taken" }
            }
        }
    }
}

/// What is believed above what is so.
fn drawing(belief: &Belief) -> Markup {
    let columns = belief.believed_free.len();
    let none = vec![0; columns];
    let believed: Vec<u64> = belief.believed_free.iter().map(|free| u64::from(*free)).collect();
    let left: Vec<u64> = belief.left_free.iter().flatten().map(|free| u64::from(*free)).collect();
    let wrong: Vec<u64> =
        believed.iter().zip(&left).map(|(believed, left)| believed & (1 - left)).collect();
    let above = Area { y: 0, height: BAR, columns };
    let below = Area { y: BAR + 2, height: BAR, columns };
    html! {
        svg class="belief" width="100%" height=(2 * BAR + 2) aria-hidden="true" {
            (above.between("believed", &none, &believed, 1, "believed free"))
            (above.between("wrong", &none, &wrong, 1, "believed free, but taken"))
            (below.between("left", &none, &left, 1, "left free by the reservations"))
        }
    }
}

#[cfg(test)]
mod tests {
    use coalloc_net::convert::window_to_wire;

    use super::*;
    use crate::pages::inventory::example;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    fn free(slots: std::ops::Range<usize>) -> String {
        (0..SLOTS).map(|slot| if slots.contains(&slot) { '1' } else { '0' }).collect()
    }

    /// Six of eight CPUs at `A` for the first hour.
    fn booked() -> DrawnReservations {
        let window = Window::starting(NOON, Span::from_secs(3_600)).map(window_to_wire);
        let segment =
            v1::Segment { resource: "A".into(), resource_manager: "crm".into(), amount: 6, window };
        let plan = Some(v1::Plan { window, segments: vec![segment], ..Default::default() });
        DrawnReservations {
            all: vec![v1::Reservation { plan, ..Default::default() }],
            ..Default::default()
        }
    }

    fn picture(resource: &str, free: String) -> v1::ReadPictureResponse {
        let part = v1::PicturePart {
            resource_manager: "crm".into(),
            age: Some(span_to_wire(Span::from_secs(42))),
            updates: 1,
            vectors: vec![v1::PictureVector { resource: resource.into(), free }],
            ..Default::default()
        };
        v1::ReadPictureResponse { parts: vec![part], ..Default::default() }
    }

    #[test]
    fn an_outdated_picture_believes_free_what_is_taken() {
        let inventory = Inventory::of(&example("B"));
        let window = day_from(NOON.saturating_add(Span::from_secs(-70))).unwrap();
        assert_eq!(window.start(), NOON);
        let amounts = Amounts::of(Some("cpus=4&mbps=x"));
        assert_eq!(amounts, Amounts { cpus: 4, rate_mbps: 100 });
        let drawn = booked();
        let belief = |free: String| {
            let vector = v1::PictureVector { resource: "A".into(), free };
            Belief::of(&vector, "crm", &inventory, &drawn.all, (amounts, window))
        };
        assert_eq!(belief(free(4..SLOTS)).differences(), (0, 0));
        assert_eq!(belief(free(0..SLOTS)).differences(), (4, 0));
        assert_eq!(belief(free(3..8)).differences(), (1, SLOTS - 8));
        let text = markup(&picture("A", free(0..SLOTS)), &inventory, &drawn, amounts, window);
        let text = text.into_string();
        assert!(
            text.contains(">42 s</td>") && text.contains("1 h believed free, but taken"),
            "{text}"
        );
    }

    #[test]
    fn names_stay_text_and_what_is_not_described_is_compared_with_nothing() {
        let evil = "\"><script>";
        let inventory = Inventory::of(&example("B"));
        let window = day_from(NOON.saturating_add(Span::from_secs(-1))).unwrap();
        let picture = picture(evil, free(0..1));
        let text = markup(&picture, &inventory, &booked(), Amounts::of(None), window).into_string();
        assert!(!text.contains("<script") && text.contains("not described"), "{text}");
        let status = Status::failed_precondition("it keeps no picture");
        let text = without(&status, &example(evil), Amounts::of(None)).into_string();
        assert!(text.contains("crm: answers") && text.contains("tasks.mode"), "{text}");
        let denied = Status::permission_denied("no");
        let text = without(&denied, &example(evil), Amounts::of(None)).into_string();
        assert!(text.contains("operators and auditors"), "{text}");
    }
}
