//! `/`: what is booked and held over time, a row for each site and each path.
//!
//! Bars of one row that overlap are below one another. What is booked is solid, what is only held is dashed, and what is over
//! is pale. The table below the drawing says the same.
//!
//! Positions across the page are in percent, so that the drawing is as wide as the page and its letters are never scaled.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use coalloc_common::{Span, Time, Window, limits};
use coalloc_net::convert::window_from_wire;
use coalloc_proto::v1;
use http::{Response, StatusCode};
use maud::{Markup, html};

use super::calls::PageCalls;
use super::drawn::DrawnReservations;
use super::frame::{Frame, respond};
use super::inventory::Inventory;
use super::visitor::{self, Visitor};
use super::{PageState, words};

/// Heights, in pixels: of a row's name, of a bar with the gap below it, of a bar, and of the times above the rows.
const NAME: usize = 20;
const LANE: usize = 22;
const BAR: usize = 18;
const HEAD: usize = 22;

/// Bars that are at least this wide, in percent of the page, have the id of their reservation.
const NAMED_PERCENT: f64 = 2.0;

/// How much time is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Scale {
    Hour,
    #[default]
    Day,
    Week,
}

impl Scale {
    const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    const fn word(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    const fn length(self) -> Span {
        Span::from_secs(match self {
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
        })
    }

    /// From one mark to the next, in seconds, and the format of a mark.
    const fn marks(self) -> (i64, &'static str) {
        match self {
            Self::Hour => (600, "%H:%M"),
            Self::Day => (4 * 3_600, "%H:%M"),
            Self::Week => (86_400, "%m-%d"),
        }
    }

    /// Where the drawing begins if the visitor has chosen no time: a little before now, at a full hour or a full day.
    fn around(self, now: Time) -> Time {
        let floor = |unit: i64| now.as_us().div_euclid(unit * 1_000_000).saturating_mul(unit);
        let start_s = match self {
            Self::Hour => floor(600) - 600,
            Self::Day => floor(3_600) - 2 * 3_600,
            Self::Week => floor(86_400) - 86_400,
        };
        Time::from_us(start_s.saturating_mul(1_000_000))
    }
}

/// What is drawn.
#[derive(Debug, Clone, Copy)]
struct View {
    scale: Scale,
    /// The start that the visitor has chosen.
    chosen: Option<Time>,
    now: Time,
}

impl View {
    fn of(query: Option<&str>, now: Time) -> Self {
        let mut view = Self { scale: Scale::default(), chosen: None, now };
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "for" => {
                    let known = Scale::ALL.into_iter().find(|scale| scale.word() == value);
                    view.scale = known.unwrap_or_default();
                }
                "at" => view.chosen = words::instant_of(&value),
                // Other programs may add what they like to an address.
                _ => {}
            }
        }
        view
    }

    fn window(&self) -> Option<Window> {
        let start = self.chosen.unwrap_or_else(|| self.scale.around(self.now));
        Window::starting(start, self.scale.length())
    }

    /// The address of another view.
    fn address(scale: Scale, start: Option<Time>) -> String {
        let at = start.map(|start| format!("&at={}", words::utc(start, "%Y-%m-%dT%H:%M:%SZ")));
        format!("/?for={}{}", scale.word(), at.unwrap_or_default())
    }
}

/// A reservation in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bar {
    row: usize,
    /// The place of the reservation among all that are drawn.
    of: usize,
    window: Window,
    amounts: Vec<String>,
    /// How many bars are above it in its row.
    lane: usize,
}

/// `GET /`.
pub(super) async fn show(
    State(state): State<PageState>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    let frame = Frame { title: "Timeline", here: "/", is_live: true };
    let view = View::of(query.as_deref(), words::now());
    match content(&state, &visitor, view).await {
        Ok(content) => respond(&visitor, StatusCode::OK, frame, &content),
        Err(status) => visitor::failed(&visitor, frame.here, &status),
    }
}

async fn content(
    state: &PageState,
    visitor: &Visitor,
    view: View,
) -> Result<Markup, tonic::Status> {
    let mut calls = PageCalls::new(state, visitor);
    let wrong = || tonic::Status::invalid_argument("at: allowed: a time from 1970 to 2255");
    let window = view.window().ok_or_else(wrong)?;
    let inventory = Inventory::of(&calls.federation().await?);
    let drawn = DrawnReservations::read(&mut calls, window).await?;
    Ok(markup(view, window, &inventory, &drawn))
}

/// The bars in a window, row by row.
fn bars(inventory: &Inventory, all: &[v1::Reservation], window: Window) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for (of, one) in all.iter().enumerate() {
        let first = bars.len();
        for segment in one.plan.iter().flat_map(|plan| &plan.segments) {
            let Ok(own) = window_from_wire("", segment.window.as_ref()) else { continue };
            let Some(row) = inventory.row(segment).filter(|_| own.overlaps(window)) else {
                continue;
            };
            let amount = inventory.amount(segment);
            let same = bars[first..].iter_mut().find(|bar| bar.row == row && bar.window == own);
            match same {
                Some(bar) => bar.amounts.push(amount),
                None => bars.push(Bar { row, of, window: own, amounts: vec![amount], lane: 0 }),
            }
        }
    }
    bars.sort_by_key(|bar| (bar.row, bar.window.start(), bar.window.end(), bar.of));
    let mut ends: Vec<Time> = Vec::new();
    let mut row = usize::MAX;
    for bar in &mut bars {
        if bar.row != row {
            row = bar.row;
            ends.clear();
        }
        let free = ends.iter().position(|end| *end <= bar.window.start());
        bar.lane = free.unwrap_or(ends.len());
        match ends.get_mut(bar.lane) {
            Some(end) => *end = bar.window.end(),
            None => ends.push(bar.window.end()),
        }
    }
    bars
}

fn markup(view: View, window: Window, inventory: &Inventory, drawn: &DrawnReservations) -> Markup {
    let mut bars = bars(inventory, &drawn.all, window);
    let left_out = bars.len().saturating_sub(limits::WEB_BARS_MAX);
    bars.truncate(limits::WEB_BARS_MAX);
    html! {
        (controls(view, window))
        (drawn.note())
        @if left_out > 0 {
            p class="trouble" { (words::count(left_out, "bar")) " are left out: choose a shorter time." }
        }
        @if inventory.rows.is_empty() {
            p { "No resource manager has described anything yet. " a href="/health" { "Health" } " says why." }
        } @else {
            (drawing(view.now, window, view.scale, inventory, &drawn.all, &bars))
            (legend())
            (table(inventory, &drawn.all, &bars))
        }
    }
}

fn controls(view: View, window: Window) -> Markup {
    let scale = view.scale;
    let before = window.start().saturating_sub(scale.length());
    html! {
        div class="controls" {
            div role="group" aria-label="Length" class="choice" {
                @for one in Scale::ALL {
                    a href=(View::address(one, view.chosen)) aria-current=[(one == scale).then_some("true")] { (one.word()) }
                }
            }
            div role="group" aria-label="Time" class="choice" {
                a href=(View::address(scale, Some(before))) rel="prev" { "← previous" }
                a href=(View::address(scale, None)) { "now" }
                a href=(View::address(scale, Some(window.end()))) rel="next" { "next →" }
            }
            p class="span" { (words::window(window)) }
        }
    }
}

/// Where an instant is across the page, in percent.
fn across(window: Window, at: Time) -> f64 {
    let length = window.length().as_us().max(1) as f64;
    (at.since(window.start()).as_us() as f64 / length * 100.0).clamp(0.0, 100.0)
}

fn percent(value: f64) -> String {
    format!("{value:.3}%")
}

fn drawing(
    now: Time,
    window: Window,
    scale: Scale,
    inventory: &Inventory,
    all: &[v1::Reservation],
    bars: &[Bar],
) -> Markup {
    let lanes = |row: usize| {
        let of_row = bars.iter().filter(|bar| bar.row == row);
        of_row.map(|bar| bar.lane + 1).max().unwrap_or(0)
    };
    let mut top = HEAD;
    let mut tops = Vec::new();
    for row in 0..inventory.rows.len() {
        tops.push(top);
        top += NAME + lanes(row).max(1) * LANE + 4;
    }
    let (step, format) = scale.marks();
    let length_s = window.length().as_us() / 1_000_000;
    let mark = |at: i64| window.start().saturating_add(Span::from_secs(at));
    let has_now = window.start() <= now && now < window.end();
    html! {
        // The table below says the same to whoever does not see the drawing.
        svg class="timeline" width="100%" height=(top) role="group"
            aria-label="What is booked and held, a row for each site and each path; the table below says the same" {
            @for at in (0..length_s).step_by(step as usize) {
                @let x = percent(across(window, mark(at)));
                line class="mark" x1=(x) x2=(x) y1="16" y2=(top) {}
                text class="mark" x=(x) dx="3" y="12" data-time=(mark(at)) data-form=(scale.word()) { (words::utc(mark(at), format)) }
            }
            @for (row, top) in inventory.rows.iter().zip(&tops) {
                line class="row" x1="0" x2="100%" y1=(top) y2=(top) {}
                text class="row" x="2" y=(top + 15) {
                    (words::text(&row.name)) " "
                    tspan class="amount" { (row.capacity_text()) }
                }
            }
            @for bar in bars {
                @let one = &all[bar.of];
                @let (from, to) = (across(window, bar.window.start()), across(window, bar.window.end()));
                a href=(words::page_of(one)) class={ "bar " (look(one.state())) } {
                    title { (title(inventory, one, bar)) }
                    svg x=(percent(from)) width=(percent((to - from).max(0.2))) y=(tops[bar.row] + NAME + bar.lane * LANE) height=(BAR) {
                        rect width="100%" height="100%" rx="3" {}
                        @if to - from >= NAMED_PERCENT { text x="4" y="13" { (words::text(words::own_id(one))) } }
                    }
                }
            }
            @if has_now {
                @let x = percent(across(window, now));
                line class="now" x1=(x) x2=(x) y1="0" y2=(top) { title { "now" } }
            }
        }
    }
}

/// How a bar looks.
const fn look(state: v1::ReservationState) -> &'static str {
    if words::has_ended(state) {
        "over"
    } else if words::is_held(state) {
        "held"
    } else {
        "booked"
    }
}

fn title(inventory: &Inventory, one: &v1::Reservation, bar: &Bar) -> String {
    let name = inventory.rows.get(bar.row).map_or("", |row| row.name.as_str());
    format!(
        "{} of {}, {}: {} at {}, {} to {}",
        words::text(words::own_id(one)),
        words::text(&one.user),
        words::state(one.state()),
        bar.amounts.join(", "),
        words::text(name),
        words::utc(bar.window.start(), "%Y-%m-%d %H:%M"),
        words::utc(bar.window.end(), "%Y-%m-%d %H:%M UTC"),
    )
}

fn legend() -> Markup {
    html! {
        ul class="legend" {
            @for (look, word) in [("booked", "booked"), ("held", "held, not booked yet"), ("over", "over")] {
                li {
                    svg width="22" height="12" aria-hidden="true" class={ "bar " (look) } {
                        rect x="1" y="1" width="20" height="10" rx="3" {}
                    }
                    " " (word)
                }
            }
            li { svg width="22" height="12" aria-hidden="true" { line class="now" x1="11" x2="11" y1="0" y2="12" {} } " now" }
        }
    }
}

fn table(inventory: &Inventory, all: &[v1::Reservation], bars: &[Bar]) -> Markup {
    html! {
        details id="as-table" {
            summary { "The same as a table (" (words::count(bars.len(), "row")) ")" }
            div class="scroll" role="region" aria-label="The same as a table" tabindex="0" {
                table class="cards" {
                    thead { tr {
                        th scope="col" { "Where" } th scope="col" { "Reservation" } th scope="col" { "User" }
                        th scope="col" { "State" } th scope="col" { "Amount" } th scope="col" { "Window" }
                    } }
                    tbody { @for bar in bars {
                        @let one = &all[bar.of];
                        tr {
                            td data-label="Where" { (inventory.rows.get(bar.row).map(|row| words::text(&row.name)).unwrap_or_default()) }
                            td data-label="Reservation" { (words::link(one)) }
                            td data-label="User" { (words::text(&one.user)) }
                            td data-label="State" { (words::badge(one.state())) }
                            td data-label="Amount" { (bar.amounts.join(", ")) }
                            td data-label="Window" { (words::window(bar.window)) }
                        }
                    } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use coalloc_net::convert::window_to_wire;

    use super::*;
    use crate::pages::inventory::example;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    fn hours(from: i64, to: i64) -> Window {
        let at = |hours: i64| NOON.saturating_add(Span::from_secs(hours * 3_600));
        Window::new(at(from), at(to)).unwrap()
    }

    fn reservation(id: &str, resources: &[(&str, &str)], window: Window) -> v1::Reservation {
        let segment = |(manager, resource): &(&str, &str)| v1::Segment {
            resource: (*resource).into(),
            resource_manager: (*manager).into(),
            amount: 4,
            window: Some(window_to_wire(window)),
        };
        let plan = v1::Plan {
            window: Some(window_to_wire(window)),
            segments: resources.iter().map(segment).collect(),
            ..Default::default()
        };
        v1::Reservation {
            id: id.into(),
            state: v1::ReservationState::Confirmed.into(),
            plan: Some(plan),
            ..Default::default()
        }
    }

    #[test]
    fn bars_that_overlap_are_below_one_another_and_one_that_fits_goes_up() {
        let inventory = Inventory::of(&example("B"));
        let all = [
            reservation("a", &[("crm", "A"), ("crm", "A:storage")], hours(0, 2)),
            reservation("b", &[("crm", "A"), ("nrm", "A-B:ab")], hours(1, 3)),
            reservation("c", &[("crm", "A")], hours(2, 4)),
            reservation("far", &[("crm", "A")], hours(50, 51)),
            reservation("unknown", &[("crm", "gone")], hours(0, 1)),
        ];
        let bars = bars(&inventory, &all, hours(-2, 22));
        let places: Vec<_> = bars.iter().map(|bar| (bar.row, bar.of, bar.lane)).collect();
        assert_eq!(places, [(0, 0, 0), (0, 1, 1), (0, 2, 0), (2, 1, 0)]);
        assert_eq!(bars[0].amounts, ["4 CPUs", "4 GB of storage"]);
    }

    #[test]
    fn the_drawing_and_its_table_have_the_same_and_names_stay_text() {
        let evil = "\"><script>";
        let inventory = Inventory::of(&example(evil));
        let mut one = reservation(evil, &[("crm", "A"), ("crm", evil)], hours(-3, 2));
        one.user = evil.into();
        one.state = v1::ReservationState::Held.into();
        let view = View::of(Some("for=day"), NOON);
        let window = view.window().unwrap();
        assert_eq!(window, hours(-2, 22));
        let drawn = DrawnReservations { all: vec![one], ..Default::default() };
        let text = markup(view, window, &inventory, &drawn).into_string();
        assert!(!text.contains("<script"), "{text}");
        assert!(!text.contains(" style="), "{text}");
        assert_eq!(
            text.matches("class=\"bar held\"").count(),
            3,
            "two bars and the legend: {text}"
        );
        assert_eq!(text.matches("<td data-label=\"Where\">").count(), 2, "{text}");
        assert!(text.contains("class=\"now\" x1=\"8.333%\""), "{text}");
        // What began before the drawing begins at its edge.
        assert!(text.contains("<svg x=\"0.000%\" width=\"16.667%\""), "{text}");
    }

    #[test]
    fn previous_and_next_are_one_length_away() {
        let view = View::of(Some("for=hour&at=2026-11-21T12:00"), NOON);
        let text = controls(view, view.window().unwrap()).into_string();
        for at in ["2026-11-21T11:00:00Z", "2026-11-21T13:00:00Z"] {
            assert!(text.contains(&format!("/?for=hour&amp;at={at}")), "{text}");
        }
        assert_eq!(View::of(Some("for=century&at=never"), NOON).window().unwrap(), hours(-2, 22));
    }
}
