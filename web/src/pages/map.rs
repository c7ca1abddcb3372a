//! `/map`: sites, exchange points and paths, coloured and labelled by what is taken of them at one time, which a slider moves
//! through a week. The slider is a form: without the script a button sends it.
//!
//! The list below the map says the same, and names the reservations of each site and each path.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use coalloc_common::{Amount, ResourceKind, Span, Time, Window, map_places};
use coalloc_net::convert::window_from_wire;
use coalloc_proto::v1;
use http::{Response, StatusCode};
use maud::{Markup, html};

use super::calls::PageCalls;
use super::drawn::DrawnReservations;
use super::frame::{Frame, respond};
use super::inventory::{Inventory, InventoryRow};
use super::labels::{Area, LINE_HEIGHT, LabelledPoint, place_labels};
use super::visitor::{self, Visitor};
use super::{PageState, words};

/// The length of a path on the map, where nothing else pulls, and the space around the map, in pixels.
const PATH_LENGTH: f64 = 210.0;
const MARGIN: f64 = 70.0;
/// Up to this many paths each one has its share on the map. On other maps only those that are taken have it.
const LABELLED_PATHS_MAX: usize = 12;
/// The shortest time that reservations can take something for.
const INSTANT: Span = Span::from_us(1);

/// Hours that the slider goes through.
const SLIDER_HOURS: i64 = 168;

/// The time of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment {
    at: Time,
    /// Where the slider begins; never after `at`, and at most [`SLIDER_HOURS`] before it.
    base: Time,
    /// Has the visitor chosen the time?
    is_chosen: bool,
}

impl Moment {
    /// By `at`, or by `hours` of the slider after `from`; otherwise now.
    fn of(query: Option<&str>, now: Time) -> Self {
        let (mut at, mut from, mut hours) = (None, None, None);
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "at" => at = words::instant_of(&value),
                "from" => from = words::instant_of(&value),
                "hours" => {
                    hours = value.parse().ok().filter(|hours| (0..=SLIDER_HOURS).contains(hours))
                }
                // Other programs may add what they like to an address.
                _ => {}
            }
        }
        if let (Some(base), Some(hours)) = (from, hours) {
            let at = base.saturating_add(Span::from_secs(hours * 3_600));
            return Self { at, base, is_chosen: true };
        }
        let is_chosen = at.is_some();
        let at = at.unwrap_or(now);
        // The slider begins at midnight UTC.
        let day_us = 86_400_000_000;
        let base = Time::from_us(at.as_us().div_euclid(day_us) * day_us);
        Self { at, base, is_chosen }
    }

    /// Where the slider is.
    fn hours(self) -> i64 {
        self.at.since(self.base).as_us() / 3_600_000_000
    }
}

/// What is taken of a site or a path at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RowUse {
    /// Of a path of two directions, that of the direction of which more is taken.
    taken: u64,
    /// The places of the reservations among all that are drawn, each with its amounts.
    by: Vec<(usize, Vec<String>)>,
}

/// `GET /map`.
pub(super) async fn show(
    State(state): State<PageState>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    let frame = Frame { title: "Map", here: "/map", is_live: true };
    let moment = Moment::of(query.as_deref(), words::now());
    match content(&state, &visitor, moment).await {
        Ok(content) => respond(&visitor, StatusCode::OK, frame, &content),
        Err(status) => visitor::failed(&visitor, frame.here, &status),
    }
}

async fn content(
    state: &PageState,
    visitor: &Visitor,
    moment: Moment,
) -> Result<Markup, tonic::Status> {
    let mut calls = PageCalls::new(state, visitor);
    let wrong = || tonic::Status::invalid_argument("at: allowed: a time from 1970 to 2255");
    let window = Window::starting(moment.at, INSTANT).ok_or_else(wrong)?;
    let federation = calls.federation().await?;
    let drawn = DrawnReservations::read(&mut calls, window).await?;
    Ok(markup(moment, &federation, &drawn))
}

/// What is taken of each row at a time.
fn uses(inventory: &Inventory, all: &[v1::Reservation], at: Time) -> Vec<RowUse> {
    let mut uses = vec![RowUse::default(); inventory.rows.len()];
    let mut directions = vec![[0_u64; 2]; inventory.rows.len()];
    for (of, one) in all.iter().enumerate() {
        for segment in one.plan.iter().flat_map(|plan| &plan.segments) {
            let own = window_from_wire("", segment.window.as_ref());
            let takes = own.is_ok_and(|own| own.start() <= at && at < own.end());
            let Some(row) = inventory.row(segment).filter(|_| takes) else { continue };
            if inventory.is_counted(segment) {
                let direction =
                    &mut directions[row][usize::from(segment.resource.ends_with(":ba"))];
                *direction = direction.saturating_add(segment.amount);
            }
            let amount = inventory.amount(segment);
            match uses[row].by.last_mut() {
                Some((last, amounts)) if *last == of => amounts.push(amount),
                _ => uses[row].by.push((of, vec![amount])),
            }
        }
    }
    for ((one, row), [ab, ba]) in uses.iter_mut().zip(&inventory.rows).zip(directions) {
        one.taken = if row.is_full_duplex { ab.max(ba) } else { ab.saturating_add(ba) };
    }
    uses
}

/// How much is taken, in percent, rounded up so that nothing that is taken looks free.
fn share(row: &InventoryRow, taken: u64) -> u128 {
    (u128::from(taken) * 100).div_ceil(u128::from(row.capacity.max(1)))
}

/// The class of a share, which has its colour.
const fn look(percent: u128) -> &'static str {
    match percent {
        0 => "use free",
        1..=50 => "use some",
        51..=90 => "use much",
        _ => "use full",
    }
}

fn markup(
    moment: Moment,
    federation: &v1::DescribeFederationResponse,
    drawn: &DrawnReservations,
) -> Markup {
    let inventory = Inventory::of(federation);
    let uses = uses(&inventory, &drawn.all, moment.at);
    html! {
        (controls(moment))
        (drawn.note())
        @if inventory.rows.is_empty() {
            p { "No resource manager has described anything yet. " a href="/health" { "Health" } " says why." }
        } @else {
            (drawing(&inventory, &uses))
            ul class="legend" {
                @for (percent, word) in [(0, "free"), (1, "up to 50 %"), (51, "up to 90 %"), (91, "more")] {
                    li {
                        svg width="22" height="12" aria-hidden="true" class=(look(percent)) { line x1="1" x2="21" y1="6" y2="6" {} }
                        " " (word)
                    }
                }
            }
            (list(&inventory, &uses, &drawn.all))
        }
    }
}

fn controls(moment: Moment) -> Markup {
    let Moment { at, base, is_chosen } = moment;
    let hours = |hours: i64| {
        let to = at.saturating_add(Span::from_secs(hours * 3_600));
        format!("/map?at={}", words::utc(to, "%Y-%m-%dT%H:%M:%SZ"))
    };
    html! {
        div class="controls" {
            form method="get" action="/map" class="filters" {
                div {
                    label for="at" { "Time (UTC)" }
                    input id="at" type="datetime-local" name="at" value=(words::utc(at, "%Y-%m-%dT%H:%M")) required;
                }
                button type="submit" { "Show" }
            }
            div role="group" aria-label="Time" class="choice" {
                a href=(hours(-24)) { "− 1 day" }
                a href=(hours(-1)) { "− 1 h" }
                a href="/map" aria-current=[(!is_chosen).then_some("true")] { "now" }
                a href=(hours(1)) { "+ 1 h" }
                a href=(hours(24)) { "+ 1 day" }
            }
            p class="span" { "At " (words::instant(at)) }
        }
        form method="get" action="/map" class="slider" data-slides {
            input type="hidden" name="from" value=(words::utc(base, "%Y-%m-%dT%H:%M"));
            label for="hours" { "Through the week from " (words::instant(base)) }
            input id="hours" type="range" name="hours" min="0" max=(SLIDER_HOURS) step="1" value=(moment.hours()) list="days";
            datalist id="days" { @for day in (0..=SLIDER_HOURS).step_by(24) { option value=(day) {} } }
            output for="hours" data-base=(base) {}
            button type="submit" class="quiet" { "Go there" }
        }
    }
}

/// The points of a map: sites, and where else paths end.
fn points(inventory: &Inventory) -> Vec<&str> {
    let mut points: Vec<&str> = Vec::new();
    let sites = inventory.rows.iter().filter(|row| row.ends.is_none()).map(|row| &row.name);
    let ends = inventory.rows.iter().flat_map(|row| row.ends.iter().flatten());
    for name in sites.chain(ends) {
        if !points.contains(&name.as_str()) {
            points.push(name);
        }
    }
    points
}

fn drawing(inventory: &Inventory, uses: &[RowUse]) -> Markup {
    let points = points(inventory);
    let place = |name: &str| points.iter().position(|point| *point == name).unwrap_or(0);
    let ends = |row: &InventoryRow| row.ends.as_ref().map(|[a, b]| (place(a), place(b)));
    let paths: Vec<_> = inventory.rows.iter().filter_map(ends).collect();
    let places = map_places::of_network(points.len(), &paths);
    let least = |of: fn(&map_places::MapPlace) -> f64| places.iter().map(of).fold(0.0, f64::min);
    let most = |of: fn(&map_places::MapPlace) -> f64| places.iter().map(of).fold(0.0, f64::max);
    let (left, top) = (least(|at| at.0), least(|at| at.1));
    let width = (most(|at| at.0) - left) * PATH_LENGTH + 2.0 * MARGIN;
    let height = (most(|at| at.1) - top) * PATH_LENGTH + 2.0 * MARGIN;
    let at = |point: usize| {
        let (x, y) = places[point];
        ((x - left) * PATH_LENGTH + MARGIN, (y - top) * PATH_LENGTH + MARGIN)
    };
    let shared_by = |a: usize, b: usize| {
        let (from, to) = (at(a), at(b));
        (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1))
    };
    let site =
        |name: &str| inventory.rows.iter().position(|row| row.ends.is_none() && row.name == name);
    let is_labelled = |percent| percent > 0 || paths.len() <= LABELLED_PATHS_MAX;
    let lines: Vec<_> = paths.iter().map(|(a, b)| [at(*a), at(*b)]).collect();
    let rows = inventory.rows.iter().zip(uses);
    let of_paths = rows.filter_map(|(row, one)| {
        let (a, b) = ends(row)?;
        let percent = share(row, one.taken);
        let label = format!("{percent} %");
        is_labelled(percent).then(|| Area::of_text(shared_by(a, b), label.chars().count()))
    });
    let of_paths: Vec<_> = of_paths.collect();
    let labelled = points.iter().enumerate().map(|(index, name)| {
        let characters = words::text(name).chars().count();
        match site(name) {
            // "100 %" is the longest share.
            Some(_) => LabelledPoint {
                at: at(index),
                radius: 11.0,
                characters: characters.max(5),
                lines: 2,
            },
            None => LabelledPoint { at: at(index), radius: 6.0, characters, lines: 1 },
        }
    });
    let labelled: Vec<_> = labelled.collect();
    let labels = place_labels(&labelled, &lines, &of_paths, (width, height));
    let number = |value: f64| format!("{value:.1}");
    html! {
        div class="scroll" role="region" aria-label="Map, which may be wider than the page" tabindex="0" {
            svg class="map" width=(number(width)) height=(number(height)) viewBox={ "0 0 " (number(width)) " " (number(height)) }
                role="group" aria-label="Sites and paths by what is taken of them; the list below says the same" {
                @for ((index, row), one) in inventory.rows.iter().enumerate().zip(uses) {
                    @if let Some((a, b)) = ends(row) {
                        @let (from, to) = (at(a), at(b));
                        @let (x, y) = shared_by(a, b);
                        @let percent = share(row, one.taken);
                        a href={ "#row-" (index) } class=(look(percent)) {
                            title { (sentence(row, one)) }
                            line x1=(number(from.0)) y1=(number(from.1)) x2=(number(to.0)) y2=(number(to.1)) {}
                            @if is_labelled(percent) {
                                text x=(number(x)) y=(number(y + 4.0)) class="share" { (percent) " %" }
                            }
                        }
                    }
                }
                @for ((index, name), label) in points.iter().enumerate().zip(&labels) {
                    @let (x, y) = at(index);
                    @let side = label.side.class();
                    @match site(name) {
                        Some(row) => {
                            @let percent = share(&inventory.rows[row], uses[row].taken);
                            a href={ "#row-" (row) } class=(look(percent)) {
                                title { (sentence(&inventory.rows[row], &uses[row])) }
                                circle cx=(number(x)) cy=(number(y)) r="11" {}
                                text x=(number(label.x)) y=(number(label.y)) class={ "name " (side) } { (words::text(name)) }
                                text x=(number(label.x)) y=(number(label.y + LINE_HEIGHT)) class={ "share " (side) } { (percent) " %" }
                            }
                        }
                        None => {
                            circle class="exchange" cx=(number(x)) cy=(number(y)) r="6" {}
                            text x=(number(label.x)) y=(number(label.y)) class={ "name " (side) } { (words::text(name)) }
                        }
                    }
                }
            }
        }
    }
}

/// What is taken of a site or a path, as a sentence.
fn sentence(row: &InventoryRow, one: &RowUse) -> String {
    let kind = if row.ends.is_some() { ResourceKind::Bandwidth } else { ResourceKind::Cpus };
    format!(
        "{}: {} of {} taken by {}",
        words::text(&row.name),
        kind.show(Amount(one.taken)),
        row.capacity_text(),
        words::count(one.by.len(), "reservation"),
    )
}

fn list(inventory: &Inventory, uses: &[RowUse], all: &[v1::Reservation]) -> Markup {
    html! {
        h2 { "Sites and paths" }
        div class="scroll" role="region" aria-label="Sites and paths" tabindex="0" {
            table class="cards" {
                thead { tr {
                    th scope="col" { "Name" } th scope="col" { "Between" } th scope="col" { "Taken" }
                    th scope="col" { "Share" } th scope="col" { "Reservations" }
                } }
                tbody { @for ((index, row), one) in inventory.rows.iter().enumerate().zip(uses) {
                    @let kind = if row.ends.is_some() { ResourceKind::Bandwidth } else { ResourceKind::Cpus };
                    tr id={ "row-" (index) } {
                        td data-label="Name" { (words::text(&row.name)) }
                        td data-label="Between" {
                            @match &row.ends {
                                Some([a, b]) => { (words::text(a)) " – " (words::text(b)) }
                                None => { "site" }
                            }
                        }
                        td data-label="Taken" { (kind.show(Amount(one.taken))) " of " (row.capacity_text()) }
                        td data-label="Share" { (share(row, one.taken)) " %" }
                        td data-label="Reservations" {
                            @if one.by.is_empty() { "none" }
                            @for (number, (of, amounts)) in one.by.iter().enumerate() {
                                @if number > 0 { ", " }
                                (words::link(&all[*of])) " (" (amounts.join(", "))
                                @if words::is_held(all[*of].state()) { ", held" }
                                ")"
                            }
                        }
                    }
                } }
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

    fn taking(id: &str, parts: &[(&str, &str, u64)]) -> v1::Reservation {
        let window = Window::starting(NOON, Span::from_secs(3_600)).map(window_to_wire);
        let segment = |(manager, resource, amount): &(&str, &str, u64)| v1::Segment {
            resource: (*resource).into(),
            resource_manager: (*manager).into(),
            amount: *amount,
            window,
        };
        let segments = parts.iter().map(segment).collect();
        let plan = Some(v1::Plan { window, segments, ..Default::default() });
        v1::Reservation { id: id.into(), plan, ..Default::default() }
    }

    #[test]
    fn use_is_that_of_the_instant_and_of_the_fuller_direction() {
        let inventory = Inventory::of(&example("B"));
        let all = [
            taking(
                "a",
                &[("crm", "A", 3), ("crm", "A:storage", 9), ("nrm", "A-B:ab", 600_000_000)],
            ),
            taking("b", &[("crm", "A", 2), ("nrm", "A-B:ba", 950_000_000)]),
        ];
        let now = uses(&inventory, &all, NOON);
        assert_eq!((now[0].taken, now[1].taken, now[2].taken), (5, 0, 950_000_000));
        assert_eq!(now[0].by.len(), 2);
        assert_eq!(now[0].by[0].1, ["3 CPUs", "9 GB of storage"]);
        let after = uses(&inventory, &all, NOON.saturating_add(Span::from_secs(3_600)));
        assert!(after.iter().all(|one| *one == RowUse::default()));
        assert_eq!(share(&inventory.rows[0], 1), 13);
        assert_eq!([0, 1, 50, 51, 90, 91, 200].map(look).len(), 7);
        assert_eq!((look(50), look(51), look(100)), ("use some", "use much", "use full"));
    }

    #[test]
    fn the_slider_goes_through_a_week_and_stays_where_it_was_put() {
        let hour = |hours: i64| NOON.saturating_add(Span::from_secs(hours * 3_600));
        let now = Moment::of(None, hour(1));
        assert_eq!((now.base, now.hours(), now.is_chosen), (hour(-12), 13, false));
        let moved = Moment::of(Some("from=2026-11-21T00:00&hours=168"), NOON);
        assert_eq!((moved.at, moved.base, moved.hours()), (hour(156), hour(-12), 168));
        assert!(controls(moved).into_string().contains("value=\"168\" list=\"days\""));
        for wrong in
            ["from=2026-11-21T00:00&hours=169", "hours=3", "from=x&hours=3", "hours=-1&at=x"]
        {
            assert_eq!(Moment::of(Some(wrong), NOON), Moment::of(None, NOON), "{wrong}");
        }
    }

    #[test]
    fn names_stay_text_on_the_map_and_in_its_list() {
        let evil = "\"><script>";
        let federation = example(evil);
        let drawn = DrawnReservations {
            all: vec![taking(evil, &[("crm", evil, 8)])],
            ..Default::default()
        };
        let text = markup(Moment::of(None, NOON), &federation, &drawn).into_string();
        assert!(!text.contains("<script") && !text.contains(" style="), "{text}");
        assert!(text.contains("100 %") && text.contains("class=\"use full\""), "{text}");
        assert!(text.contains("id=\"row-2\"") && text.contains("href=\"#row-2\""), "{text}");
        let none = v1::DescribeFederationResponse::default();
        let none =
            markup(Moment::of(None, NOON), &none, &DrawnReservations::default()).into_string();
        assert!(none.contains("No resource manager"), "{none}");
    }
}
