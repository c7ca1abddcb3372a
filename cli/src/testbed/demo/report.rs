//! The output of a demo: the table, the chart, the ratios and the proof, for people or as JSON.

use std::fmt::Write as _;

use coalloc_common::{Amount, Span, Time, Window};
use coalloc_net::convert::{window_from_wire, window_to_wire};
use coalloc_proto::v1;
use serde_json::{Value, json};

use super::workload::{Arrival, Type4, USERS};
use crate::kit::exit::Failure;
use crate::kit::gantt::{self, Ink, Row};
use crate::kit::{text, zone};
use crate::testbed::audit::{Check, Testimony};

/// Everything that happened in a demo.
#[derive(Debug)]
pub struct Report {
    /// Name of the federation.
    pub federation: String,
    /// Seed of the workload.
    pub seed: u64,
    /// How the sites of type 4 are linked.
    pub type4: Type4,
    /// Start of the day for which the reservations were made.
    pub day: Time,
    /// The requests, in order.
    pub arrivals: Vec<Arrival>,
    /// The answers, in the same order.
    pub reservations: Vec<v1::Reservation>,
    /// The coordinators that were asked, in turn.
    pub coordinators: Vec<String>,
    /// Number of child coordinators of the coordinator that was asked.
    pub lower: usize,
    /// The reports of the resource managers.
    pub testimonies: Vec<Testimony>,
    /// The results of the audit of these reports.
    pub checks: Vec<Check>,
}

impl Report {
    /// Did the proof hold?
    #[must_use]
    pub fn proven(&self) -> bool {
        self.checks.iter().all(|check| check.passed)
    }

    fn window(&self) -> Option<Window> {
        Window::starting(self.day, Span::from_secs(86_400))
    }

    /// The whole report for people.
    #[must_use]
    pub fn text(&self, ink: Ink) -> String {
        let mut out = String::new();
        let day = text::window(self.window().map(window_to_wire).as_ref());
        let requests = text::count(self.arrivals.len(), "request");
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "{requests} of seed {}, for {day}\n", self.seed);
        out += &self.table();
        out += &self.refusals();
        let chart =
            gantt::draw_day(self.day, &self.rows(), text::width().into(), ink, zone::shown());
        if !chart.is_empty() {
            let _ = writeln!(out, "\nBooked, as the resource managers say:\n\n{chart}");
        }
        out += &self.ratios();
        out += &self.shares();
        out += &self.proof();
        out
    }

    fn table(&self) -> String {
        let header = ["#", "user", "type", "CPUs", "window", "sites", "paths", "cost", "tries"];
        let mut table = text::table(&header);
        text::align_right(&mut table, &[0, 3, 7, 8]);
        for (index, (arrival, reservation)) in self.rounds().enumerate() {
            let Some(plan) = reservation.plan.as_ref().filter(|_| is_confirmed(reservation)) else {
                continue;
            };
            let sites: Vec<&str> = plan.placements.iter().map(|site| site.at.as_str()).collect();
            let routes: Vec<String> =
                plan.routes.iter().map(|route| route.paths.join("+")).collect();
            table.add_row([
                (index + 1).to_string(),
                reservation.user.clone(),
                self.kind(arrival),
                arrival.cpus.to_string(),
                clock_window(plan.window.as_ref()),
                sites.join(" "),
                routes.join(" "),
                text::points(plan.cost_millipoints),
                reservation.attempts.to_string(),
            ]);
        }
        if table.is_empty() {
            return "None was confirmed.\n".to_owned();
        }
        format!("Confirmed (CPUs at each site, cost in points):\n\n{}", text::finish(&table))
    }

    fn refusals(&self) -> String {
        let header = ["#", "user", "type", "CPUs", "length, start", "why not"];
        let mut table = text::table(&header);
        text::align_right(&mut table, &[0, 3]);
        for (index, (arrival, reservation)) in self.rounds().enumerate() {
            if is_confirmed(reservation) {
                continue;
            }
            let why = reservation.refusal.as_ref();
            let why = why.map(|why| text::refusal_with(why, clock_window));
            let state = text::state(reservation.state()).to_owned();
            table.add_row([
                (index + 1).to_string(),
                arrival.request.user.clone(),
                self.kind(arrival),
                arrival.cpus.to_string(),
                wanted(&arrival.request),
                why.unwrap_or(state),
            ]);
        }
        if table.is_empty() {
            String::new()
        } else {
            format!("\nRefused:\n\n{}", text::finish(&table))
        }
    }

    fn rounds(&self) -> impl Iterator<Item = (&Arrival, &v1::Reservation)> {
        self.arrivals.iter().zip(&self.reservations)
    }

    /// The type with its name: `3 triangle`.
    fn kind(&self, arrival: &Arrival) -> String {
        let shape = match (arrival.kind, self.type4) {
            (1, _) => "pair",
            (2, _) => "chain",
            (3, _) => "triangle",
            (_, Type4::Star) => "star",
            (_, Type4::Ring) => "ring",
            (_, Type4::Mesh) => "mesh",
        };
        format!("{} {shape}", arrival.kind)
    }

    /// Rows of the chart: each resource with the bookings that its resource manager reports.
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for testimony in &self.testimonies {
            for (name, capacity) in &testimony.capacities {
                let segments = testimony.bookings.iter().flat_map(|booking| &booking.segments);
                let mine = segments.filter(|segment| segment.resource == *name);
                let taken = mine.filter_map(|segment| {
                    let window = window_from_wire("window", segment.window.as_ref()).ok()?;
                    Some((window, Amount(segment.amount)))
                });
                let taken = taken.collect();
                rows.push(Row { name: name.clone(), capacity: *capacity, taken });
            }
        }
        rows
    }

    fn ratios(&self) -> String {
        let users = USERS.iter().map(|user| {
            let (confirmed, all) = self.tally(Some(user));
            format!("{user} {}", ratio(confirmed, all))
        });
        let (confirmed, all) = self.tally(None);
        let users: Vec<String> = users.collect();
        format!("Success ratio: {}, together {}\n\n", users.join(", "), ratio(confirmed, all))
    }

    /// How many requests each of several coordinators got, and how often it had to try.
    fn shares(&self) -> String {
        if self.coordinators.len() < 2 {
            return String::new();
        }
        let header = ["coordinator", "confirmed", "1 attempt", "2 to 9", "10 and more", "most"];
        let mut table = text::table(&header);
        text::align_right(&mut table, &[2, 3, 4, 5]);
        for (turn, name) in self.coordinators.iter().enumerate() {
            let mine = self.reservations.iter().skip(turn).step_by(self.coordinators.len());
            let (mut won, mut all, mut most, mut by_attempts) = (0, 0, 0, [0_usize; 3]);
            for reservation in mine {
                all += 1;
                most = most.max(reservation.attempts);
                if is_confirmed(reservation) {
                    won += 1;
                    by_attempts[match reservation.attempts {
                        0..=1 => 0,
                        2..=9 => 1,
                        _ => 2,
                    }] += 1;
                }
            }
            let [once, few, many] = by_attempts.map(|count| count.to_string());
            let row = [name.clone(), ratio(won, all), once, few, many, most.to_string()];
            table.add_row(row);
        }
        let again = self.reservations.iter().filter(|one| one.attempts > 1).count();
        let requests = text::count(again, "request");
        format!(
            "By coordinator, with the confirmed requests by number of attempts:\n\n{}{requests} \
             took more than one attempt\n\n",
            text::finish(&table)
        )
    }

    fn tally(&self, user: Option<&str>) -> (usize, usize) {
        let of_user = |arrival: &Arrival| user.is_none_or(|user| arrival.request.user == user);
        let mine = self.rounds().filter(|(arrival, _)| of_user(arrival));
        mine.fold((0, 0), |(confirmed, all), (_, reservation)| {
            (confirmed + usize::from(is_confirmed(reservation)), all + 1)
        })
    }

    fn proof(&self) -> String {
        let managers = text::count(self.testimonies.len(), "resource manager");
        let verdict = if self.proven() { "holds" } else { "FAILS" };
        let lower = match self.lower {
            0 => String::new(),
            count => format!(" and {}", text::count(count, "child coordinator")),
        };
        let mut out = format!("The proof {verdict}; read back from {managers}{lower}:\n");
        out += &crate::testbed::audit::report::lines(&self.checks);
        out
    }

    /// The whole report for programs; the reservations are messages of the schema.
    ///
    /// # Errors
    /// When a message cannot be written as JSON.
    pub fn json(&self) -> Result<String, Failure> {
        let failed = |error| Failure::internal(format!("JSON: {error}"));
        let mut rounds = Vec::with_capacity(self.arrivals.len());
        for (index, (arrival, reservation)) in self.rounds().enumerate() {
            rounds.push(json!({
                "number": index + 1,
                "type": arrival.kind,
                "cpus": arrival.cpus,
                "arrivalSeconds": arrival.at.as_us() as f64 / 1e6,
                "request": serde_json::to_value(&arrival.request).map_err(failed)?,
                "reservation": serde_json::to_value(reservation).map_err(failed)?,
            }));
        }
        let proof = self.checks.iter().map(|check| {
            let faults: Vec<String> = check.violations.iter().map(ToString::to_string).collect();
            json!({"passed": check.passed, "checked": check.sentence, "faults": faults})
        });
        let success = |user| {
            let (confirmed, all) = self.tally(user);
            json!({"confirmed": confirmed, "requests": all})
        };
        let mut successes: serde_json::Map<String, Value> =
            USERS.iter().map(|user| ((*user).to_owned(), success(Some(user)))).collect();
        successes.insert("all".into(), success(None));
        text::json(&json!({
            "federation": self.federation,
            "seed": self.seed,
            "coordinators": self.coordinators,
            "lowerCoordinators": self.lower,
            "day": self.window().map(window_to_wire),
            "rounds": rounds,
            "success": successes,
            "proven": self.proven(),
            "proof": proof.collect::<Vec<_>>(),
        }))
    }
}

fn is_confirmed(reservation: &v1::Reservation) -> bool {
    reservation.state().is_booked()
}

/// Numbers and their ratio: `54 of 60 (0.900)`.
fn ratio(confirmed: usize, all: usize) -> String {
    if all == 0 {
        return "0 of 0".to_owned();
    }
    format!("{confirmed} of {all} ({:.3})", confirmed as f64 / all as f64)
}

/// A window without its date, because the day is known: `10:40-11:40`.
fn clock_window(window: Option<&v1::Window>) -> String {
    let end = |time| clock(text::time(time));
    let window = window.cloned().unwrap_or_default();
    format!("{}-{}", end(window.start.as_ref()), end(window.end.as_ref()))
}

fn clock(time: Option<Time>) -> String {
    let text = time.map(|time| time.to_string()).unwrap_or_default();
    text.get(11..16).unwrap_or("-").to_owned()
}

/// The length, and the range of possible starts: `1 h, 10:40-13:40`.
fn wanted(request: &v1::CoAllocationRequest) -> String {
    let starts =
        [&request.earliest_start, &request.latest_start].map(|at| clock(text::time(at.as_ref())));
    format!("{}, {}", text::span(request.duration.as_ref()), starts.join("-"))
}

#[cfg(test)]
mod tests;
