//! `/`: what is booked and held over time, a row for each site and each path.
//!
//! Bars of one row that overlap are below one another. What is booked is solid, what is only held is dashed, what is over is
//! pale, and what is otherwise taken is grey. Where there are too many bars to tell apart, a row shows how much of it is taken
//! instead (`stepped`). The table below the drawing says the same.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use coalloc_common::{Amount, ResourceKind, Time, Window, limits};
use coalloc_net::convert::window_from_wire;
use coalloc_proto::v1;
use http::{Response, StatusCode};
use maud::{Markup, html};

use super::calls::PageCalls;
use super::drawn::DrawnReservations;
use super::frame::{Frame, respond};
use super::ground::{BAR, Ground, LANE, NAME, Scale, across, percent};
use super::inventory::Inventory;
use super::otherwise::OtherwiseTaken;
use super::visitor::{self, Visitor};
use super::{PageState, servers, stepped, words};

/// Bars that are at least this wide, in percent of the page, have the id of their reservation.
const NAMED_PERCENT: f64 = 2.0;

/// Columns into which a drawing cuts what is otherwise taken, with frames that are all of the same length.
const FRAME_COLUMNS: usize = 24;

/// What is drawn.
#[derive(Debug, Clone, Copy)]
struct View {
    scale: Scale,
    /// The start that the visitor has chosen.
    chosen: Option<Time>,
    /// Does the visitor want to see what is otherwise taken?
    has_others: bool,
    now: Time,
}

impl View {
    fn of(query: Option<&str>, now: Time) -> Self {
        let mut view = Self { scale: Scale::default(), chosen: None, has_others: false, now };
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "for" => {
                    let known = Scale::ALL.into_iter().find(|scale| scale.word() == value);
                    view.scale = known.unwrap_or_default();
                }
                "at" => view.chosen = words::instant_of(&value),
                "others" => view.has_others = value == "yes",
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

    const fn ground(self, window: Window, inventory: &Inventory) -> Ground<'_> {
        Ground { window, scale: self.scale, now: self.now, inventory }
    }

    /// Its address.
    fn address(&self) -> String {
        let at = self.chosen.map(|start| words::utc(start, "&at=%Y-%m-%dT%H:%M:%SZ"));
        let others = if self.has_others { "&others=yes" } else { "" };
        format!("/?for={}{}{others}", self.scale.word(), at.unwrap_or_default())
    }

    /// The address of the view at another time, or around now.
    fn address_at(self, chosen: Option<Time>) -> String {
        Self { chosen, ..self }.address()
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
    let others = if view.has_others {
        OtherwiseTaken::read(&mut calls, &inventory, &drawn.all, window, view.now).await
    } else {
        OtherwiseTaken::default()
    };
    Ok(markup(view, window, &inventory, &drawn, &others))
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

fn markup(
    view: View,
    window: Window,
    inventory: &Inventory,
    drawn: &DrawnReservations,
    others: &OtherwiseTaken,
) -> Markup {
    let bars = bars(inventory, &drawn.all, window);
    html! {
        (controls(view, window))
        (drawn.note())
        (others.note())
        @if inventory.rows.is_empty() {
            p { "No resource manager has described anything yet. " a href="/health" { "Health" } " says why." }
        } @else if bars.len() > limits::WEB_BARS_MAX {
            p class="note" {
                (words::count(bars.len(), "bar")) " would be too many to tell apart: each row shows how much of it is taken. "
                "A shorter time shows the reservations."
            }
            (stepped::drawing(view.ground(window, inventory), &drawn.all, others))
            (legend(others.is_wanted, false))
            (stepped::table(inventory, &drawn.all, window, others))
        } @else {
            (drawing(view.ground(window, inventory), &drawn.all, &bars, others))
            (legend(others.is_wanted, true))
            (table(inventory, &drawn.all, &bars, others))
            (servers::section(view.ground(window, inventory), &drawn.all))
        }
    }
}

fn controls(view: View, window: Window) -> Markup {
    let before = window.start().saturating_sub(view.scale.length());
    html! {
        div class="controls" {
            div role="group" aria-label="Length" class="choice" {
                @for scale in Scale::ALL {
                    @let is_chosen = (scale == view.scale).then_some("true");
                    a href=(View { scale, ..view }.address()) aria-current=[is_chosen] { (scale.word()) }
                }
            }
            div role="group" aria-label="Time" class="choice" {
                a href=(view.address_at(Some(before))) rel="prev" { "← previous" }
                a href=(view.address_at(None)) { "now" }
                a href=(view.address_at(Some(window.end()))) rel="next" { "next →" }
            }
            div role="group" aria-label="Whose" class="choice" {
                @for (has_others, word) in [(false, "what you may see"), (true, "and what is otherwise taken")] {
                    @let is_chosen = (has_others == view.has_others).then_some("true");
                    a href=(View { has_others, ..view }.address()) aria-current=[is_chosen] { (word) }
                }
            }
            p class="span" { (words::window(window)) }
        }
    }
}

fn drawing(
    ground: Ground<'_>,
    all: &[v1::Reservation],
    bars: &[Bar],
    others: &OtherwiseTaken,
) -> Markup {
    let Ground { window, inventory, .. } = ground;
    let lanes = |row: usize| {
        let of_row = bars.iter().filter(|bar| bar.row == row);
        of_row.map(|bar| bar.lane + 1).max().unwrap_or(0)
    };
    let has_others = |row: usize| others.frames.iter().any(|frame| frame.row == row);
    let rows: Vec<_> = (0..inventory.rows.len()).map(|row| (lanes(row), has_others(row))).collect();
    let heights =
        rows.iter().map(|(lanes, has_others)| (lanes + usize::from(*has_others)).max(1) * LANE);
    let (tops, end) = Ground::tops(heights);
    html! {
        // The table below says the same to whoever does not see the drawing.
        svg class="timeline" width="100%" height=(end) role="group"
            aria-label="What is booked and held, a row for each site and each path; the table below says the same" {
            (ground.behind(&tops, end))
            @for one in bars {
                @let y = tops[one.row] + NAME + one.lane * LANE;
                (bar(window, &all[one.of], one.window, y, &title(inventory, &all[one.of], one)))
            }
            @for (row, (lanes, _)) in rows.iter().enumerate().filter(|(_, (_, has_others))| *has_others) {
                @let taken = others.columns(row, window, FRAME_COLUMNS);
                @let area = stepped::Area { y: tops[row] + NAME + lanes * LANE, height: BAR, columns: FRAME_COLUMNS };
                (area.between("others", &[0; FRAME_COLUMNS], &taken, inventory.rows[row].capacity, "otherwise taken"))
            }
            (ground.before(end))
        }
    }
}

/// A bar for a reservation, at a height.
pub(super) fn bar(
    window: Window,
    one: &v1::Reservation,
    own: Window,
    y: usize,
    title: &str,
) -> Markup {
    let (from, to) = (across(window, own.start()), across(window, own.end()));
    html! {
        a href=(words::page_of(one)) class={ "bar " (look(one.state())) } {
            title { (title) }
            svg x=(percent(from)) width=(percent((to - from).max(0.2))) y=(y) height=(BAR) {
                rect width="100%" height="100%" rx="3" {}
                @if to - from >= NAMED_PERCENT { text x="4" y="13" { (words::text(words::own_id(one))) } }
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

fn legend(has_others: bool, has_over: bool) -> Markup {
    let looks = [
        ("bar booked", "booked", true),
        ("bar held", "held, not booked yet", true),
        ("bar over", "over", has_over),
        ("bar others", "otherwise taken", has_others),
    ];
    html! {
        ul class="legend" {
            @for (look, word, _) in looks.iter().filter(|(_, _, is_drawn)| *is_drawn) {
                li {
                    svg width="22" height="12" aria-hidden="true" class=(look) {
                        rect x="1" y="1" width="20" height="10" rx="3" {}
                    }
                    " " (word)
                }
            }
            li { svg width="22" height="12" aria-hidden="true" { line class="now" x1="11" x2="11" y1="0" y2="12" {} } " now" }
        }
    }
}

fn table(
    inventory: &Inventory,
    all: &[v1::Reservation],
    bars: &[Bar],
    others: &OtherwiseTaken,
) -> Markup {
    let name =
        |row: usize| inventory.rows.get(row).map(|row| words::text(&row.name)).unwrap_or_default();
    html! {
        details id="as-table" {
            summary { "The same as a table (" (words::count(bars.len() + others.frames.len(), "row")) ")" }
            div class="scroll" role="region" aria-label="The same as a table" tabindex="0" {
                table class="cards" {
                    thead { tr {
                        th scope="col" { "Where" } th scope="col" { "Reservation" } th scope="col" { "User" }
                        th scope="col" { "State" } th scope="col" { "Amount" } th scope="col" { "Window" }
                    } }
                    tbody {
                        @for bar in bars {
                            @let one = &all[bar.of];
                            tr {
                                td data-label="Where" { (name(bar.row)) }
                                td data-label="Reservation" { (words::link(one)) }
                                td data-label="User" { (words::text(&one.user)) }
                                td data-label="State" { (words::badge(one.state())) }
                                td data-label="Amount" { (bar.amounts.join(", ")) }
                                td data-label="Window" { (words::window(bar.window)) }
                            }
                        }
                        @for frame in &others.frames {
                            tr {
                                td data-label="Where" { (name(frame.row)) }
                                td data-label="Reservation" { "-" }
                                td data-label="User" { "-" }
                                td data-label="State" { span class="badge" { "otherwise taken" } }
                                td data-label="Amount" { "at least " (ResourceKind::Cpus.show(Amount(frame.amount))) }
                                td data-label="Window" { (words::window(frame.window)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::Span;
    use coalloc_net::convert::window_to_wire;

    use super::*;
    use crate::pages::inventory::example;
    use crate::pages::otherwise::TakenFrame;

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
        let frame = TakenFrame { row: 1, window: hours(2, 3), amount: 4 };
        let others =
            OtherwiseTaken { frames: vec![frame], is_wanted: true, ..OtherwiseTaken::default() };
        let text = markup(view, window, &inventory, &drawn, &others).into_string();
        assert!(!text.contains("<script"), "{text}");
        assert!(!text.contains(" style="), "{text}");
        assert_eq!(
            text.matches("class=\"bar held\"").count(),
            3,
            "two bars and the legend: {text}"
        );
        assert_eq!(text.matches("<td data-label=\"Where\">").count(), 3, "{text}");
        // Four of eight CPUs, in the fifth of 24 hours.
        assert!(
            text.contains("d=\"M4 50H5V100H4Z\"") && text.contains("at least 4 CPUs"),
            "{text}"
        );
        assert!(text.contains("class=\"now\" x1=\"8.333%\""), "{text}");
        // What began before the drawing begins at its edge.
        assert!(text.contains("<svg x=\"0.000%\" width=\"16.667%\""), "{text}");
    }

    #[test]
    fn ten_thousand_bookings_of_a_federation_are_no_larger_than_two_thousand() {
        let mut federation = v1::DescribeFederationResponse::default();
        let site = |number: usize| v1::Site {
            name: format!("site-{number}"),
            cpus: 64,
            ..v1::Site::default()
        };
        let sites = (0..20).map(site).collect();
        let description = Some(v1::DescribeResponse { sites, ..Default::default() });
        let crm =
            v1::ResourceManagerStatus { name: "crm".into(), description, ..Default::default() };
        federation.resource_managers.push(crm);
        let inventory = Inventory::of(&federation);
        let all: Vec<_> = (0..10_000_i64)
            .map(|number| {
                let start = NOON.saturating_add(Span::from_secs(number * 8 % 79_000));
                let window =
                    Window::starting(start, Span::from_secs(1_800 + number % 977)).unwrap();
                let site = format!("site-{}", number % 20);
                reservation(&format!("booking-{number}"), &[("crm", &site)], window)
            })
            .collect();
        let view = View::of(Some("for=day"), NOON);
        let size = |all: Vec<v1::Reservation>| {
            let drawn = DrawnReservations { all, ..Default::default() };
            let others = OtherwiseTaken::default();
            markup(view, view.window().unwrap(), &inventory, &drawn, &others).into_string().len()
        };
        let (some, many) = (size(all[..2_000].to_vec()), size(all));
        println!("2,000 bookings: {some} bytes as bars; 10,000: {many} bytes as steps");
        assert!(many < some, "{many} bytes, but {some}");
        assert!(many < 300_000, "{many}");
    }

    #[test]
    fn previous_and_next_are_one_length_away() {
        let view = View::of(Some("for=hour&at=2026-11-21T12:00"), NOON);
        let text = controls(view, view.window().unwrap()).into_string();
        for at in ["2026-11-21T11:00:00Z", "2026-11-21T13:00:00Z"] {
            assert!(text.contains(&format!("/?for=hour&amp;at={at}")), "{text}");
        }
        assert_eq!(View::of(Some("for=century&at=never"), NOON).window().unwrap(), hours(-2, 22));
        let view = View::of(Some("for=week&others=yes"), NOON);
        assert_eq!(view.address_at(None), "/?for=week&others=yes");
    }
}
