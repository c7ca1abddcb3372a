//! The lines of a list of reservations.

use std::collections::BTreeSet;

use coalloc_common::Window;
use coalloc_proto::v1;

use super::window_of;
use crate::kit::output::csv_line;
use crate::kit::text::{self, TextTable};
use crate::kit::zone::ZoneClock;
use crate::user::wording::servers;

/// The columns of `-o csv`.
const CSV_HEAD: [&str; 10] = [
    "request_id",
    "user",
    "state",
    "start",
    "end",
    "sites",
    "cost_points",
    "reservation",
    "created",
    "note",
];

/// Makes lines of reservations, with times by one clock.
#[derive(Debug, Clone)]
pub(super) struct ReservationTable {
    clock: ZoneClock,
}

impl ReservationTable {
    pub(super) const fn new(clock: ZoneClock) -> Self {
        Self { clock }
    }

    /// A line each that fits the page, if the ids do. Users are told where there are several.
    pub(super) fn brief(&self, all: &[v1::Reservation]) -> String {
        if all.is_empty() {
            return String::new();
        }
        let several = all.iter().map(|one| &one.user).collect::<BTreeSet<_>>().len() > 1;
        let window = format!("window ({})", self.zone(all));
        let head = ["id", "user", "state", &window, "where"];
        let of_user = |column: usize| column != 1 || several;
        let head: Vec<&str> =
            (0..).zip(head).filter(|(at, _)| of_user(*at)).map(|(_, h)| h).collect();
        let mut table = text::table(&head);
        for one in all {
            let cells = [
                id(one).to_owned(),
                one.user.clone(),
                text::state(one.state()).to_owned(),
                self.window(one, ZoneClock::window),
                place_or_note(one),
            ];
            let cells = (0..).zip(cells).filter(|(at, _)| of_user(*at)).map(|(_, cell)| cell);
            table.add_row(cells);
        }
        text::finish_in_lines(table)
    }

    /// Everything, a line each of any width.
    pub(super) fn wide(&self, all: &[v1::Reservation]) -> String {
        if all.is_empty() {
            return String::new();
        }
        let zone = self.zone(all);
        let (window, made) = (format!("window ({zone})"), format!("made ({zone})"));
        let head = ["id", "user", "state", &window, "sites", "cost", "reservation", &made, "note"];
        let mut table: TextTable = text::table(&head);
        text::align_right(&mut table, &[5]);
        for one in all {
            let made = text::time(one.created.as_ref());
            table.add_row([
                id(one).to_owned(),
                one.user.clone(),
                text::state(one.state()).to_owned(),
                self.window(one, ZoneClock::exact_window),
                sites(one),
                cost(one),
                one.id.clone(),
                made.map_or_else(String::new, |made| self.clock.exact(made)),
                note(one),
            ]);
        }
        text::finish_wide(table)
    }

    /// The same as CSV, with times in UTC.
    pub(super) fn csv(&self, all: &[v1::Reservation]) -> String {
        let mut out = csv_line(&CSV_HEAD);
        for one in all {
            let window = window_of(one);
            let end = |end: fn(Window) -> coalloc_common::Time| {
                window.map_or_else(String::new, |window| end(window).to_string())
            };
            let made = text::time(one.created.as_ref());
            let fields = [
                id(one).to_owned(),
                one.user.clone(),
                text::state(one.state()).to_owned(),
                end(Window::start),
                end(Window::end),
                sites(one),
                cost(one),
                one.id.clone(),
                made.map_or_else(String::new, |made| made.to_string()),
                note(one),
            ];
            out += &csv_line(&fields.map(|field| text::line(&field).into_owned()));
        }
        out
    }

    /// The time of day, with the zone.
    pub(super) fn now(&self) -> String {
        let now = coalloc_net::clock::now().wall;
        format!("{} {}", self.clock.exact(now), self.clock.name([now]))
    }

    fn zone(&self, all: &[v1::Reservation]) -> String {
        let windows = all.iter().filter_map(window_of);
        self.clock.name(windows.flat_map(|window| [window.start(), window.end()]))
    }

    fn window(&self, one: &v1::Reservation, show: fn(&ZoneClock, Window) -> String) -> String {
        window_of(one).map_or_else(|| "-".to_owned(), |window| show(&self.clock, window))
    }
}

/// The user's own id.
fn id(one: &v1::Reservation) -> &str {
    if one.request_id.is_empty() { &one.id } else { &one.request_id }
}

fn sites(one: &v1::Reservation) -> String {
    let placements = one.plan.iter().flat_map(|plan| &plan.placements);
    let sites = placements.map(|site| servers::counted(&site.at, &one.servers));
    let of_workflow = one.workflow.iter().flat_map(|summary| summary.sites.iter().cloned());
    sites.chain(of_workflow).collect::<Vec<_>>().join(" ")
}

/// The cost in points; a workflow has none.
fn cost(one: &v1::Reservation) -> String {
    let plan = one.plan.as_ref().filter(|_| one.workflow.is_none());
    plan.map_or_else(String::new, |plan| text::points(plan.cost_millipoints))
}

/// What is wrong: a refusal, or trouble at the equipment, and where that is.
fn note(one: &v1::Reservation) -> String {
    let troubled = one.equipment_trouble.iter().map(|trouble| trouble.resource_manager.clone());
    let troubled: Vec<String> = troubled.collect();
    let trouble =
        (!troubled.is_empty()).then(|| format!("trouble at {}", text::enumerate(&troubled)));
    let refusal = one.refusal.as_ref().map(text::refusal);
    trouble.into_iter().chain(refusal).collect::<Vec<_>>().join("; ")
}

/// What is wrong, if it is refused nothing but that; otherwise where it is.
fn place_or_note(one: &v1::Reservation) -> String {
    match (note(one), one.refusal.is_some()) {
        (note, true) => note,
        (note, false) if note.is_empty() => sites(one),
        (note, false) => format!("{note}; {}", sites(one)),
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::{Span, Time};
    use coalloc_net::convert::{time_to_wire, window_to_wire};
    use jiff::tz::TimeZone;

    use super::*;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    fn table() -> ReservationTable {
        ReservationTable::new(ZoneClock::new(TimeZone::get("Europe/Berlin").unwrap(), NOON))
    }

    fn confirmed() -> v1::Reservation {
        let window = Window::starting(NOON, Span::from_secs(3_600)).map(window_to_wire);
        let placements =
            ["N0", "N1"].map(|at| v1::Placement { at: at.into(), ..Default::default() });
        v1::Reservation {
            id: "grc-1a2b-7".into(),
            request_id: "my-first".into(),
            user: "alice".into(),
            state: v1::ReservationState::Confirmed.into(),
            plan: Some(v1::Plan {
                window,
                placements: placements.to_vec(),
                cost_millipoints: 20_600,
                ..Default::default()
            }),
            created: Some(time_to_wire(NOON)),
            ..Default::default()
        }
    }

    #[test]
    fn a_reservation_is_one_line_that_begins_with_the_users_own_id() {
        let one = confirmed();
        let expected = "id        state      window (CET)       where\n\
                        my-first  confirmed  11-21 13:00-14:00  N0 N1\n";
        assert_eq!(table().brief(std::slice::from_ref(&one)), expected);
        let why = "x ".repeat(200);
        let refusal = v1::Refusal { detail: why.clone(), ..Default::default() };
        let mut refused = v1::Reservation { refusal: Some(refusal), ..one.clone() };
        refused.user = "bob".into();
        refused.request_id = "2b1c3d4e-0000-4000-8000-1a2b3c4d5e6f".into();
        let both = [one, refused];
        let brief = table().brief(&both);
        assert_eq!(brief.lines().count(), 3, "{brief}");
        assert!(
            brief.contains("my-first                              alice  confirmed"),
            "{brief}"
        );
        assert!(brief.trim_end().ends_with('…'), "{brief}");
        assert!(table().wide(&both).contains(why.trim_end()));
    }

    #[test]
    fn csv_is_in_utc_and_quoted() {
        let trouble = v1::EquipmentTrouble { resource_manager: "a,b".into(), ..Default::default() };
        let one = v1::Reservation { equipment_trouble: vec![trouble], ..confirmed() };
        let csv = table().csv(&[one]);
        let line = "my-first,alice,confirmed,2026-11-21T12:00:00Z,2026-11-21T13:00:00Z,N0 N1,20.6,\
                    grc-1a2b-7,2026-11-21T12:00:00Z,\"trouble at a,b\"\n";
        assert_eq!(csv, CSV_HEAD.join(",") + "\n" + line);
    }
}
