//! How events are shown: one line each, and on a terminal a line that counts down to the end of the first hold.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Write as _};
use std::ops::Bound;

use coalloc_common::{Span, Time};
use coalloc_net::clock;
use coalloc_net::convert::span_from_wire;
use coalloc_proto::{Duration, Timestamp, v1};
use jiff::tz::TimeZone;

use crate::kit::exit::Failure;
use crate::kit::resources::{DescribedResource, taken};
use crate::kit::{colour, text};
use crate::user::wording::data_plane;

/// Number of characters of the longest word for a state.
const STATE_WIDTH: usize = 11;

/// The line at the bottom of a terminal, which is overwritten again and again.
///
/// It is always shorter than the terminal is wide: the `^C` that the terminal itself prints after it must
/// not wrap it.
struct BottomLine;

/// Columns that stay free after the line.
const BEHIND: usize = 4;

impl BottomLine {
    /// Returns a line if this is a terminal that can clear a line.
    fn new() -> Option<Self> {
        let terminal = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        (terminal && !dumb).then_some(Self)
    }

    fn draw(&self, words: &str) {
        let width = usize::from(text::width()).saturating_sub(BEHIND);
        let words: String = words.chars().take(width).collect();
        // If the line cannot be drawn, no information is lost.
        let _ = write!(std::io::stderr(), "\r\x1b[2K{words}");
    }

    fn clear(&self) {
        self.draw("");
    }
}

/// Prints events.
pub(super) struct EventPrinter {
    json: bool,
    zone: TimeZone,
    /// Present on a terminal only.
    bar: Option<BottomLine>,
    /// When each known hold ends, by the id of what is held.
    holds: BTreeMap<String, Time>,
    /// Reservations that resource managers are being asked to hold: no event says when these holds end.
    checking: BTreeSet<String>,
    /// The reservation in `checking` that was asked about last.
    asked: String,
}

impl EventPrinter {
    pub(super) fn new(json: bool) -> Self {
        let bar = BottomLine::new().filter(|_| !json);
        let (holds, checking, asked) = (BTreeMap::new(), BTreeSet::new(), String::new());
        Self { json, zone: TimeZone::system(), bar, holds, checking, asked }
    }

    /// Whether there is a line that counts down.
    pub(super) const fn counts_down(&self) -> bool {
        self.bar.is_some()
    }

    /// The next reservation whose remaining hold time the coordinator should be asked for.
    ///
    /// The reservations in `checking` take turns.
    pub(super) fn next_checked(&mut self) -> Option<String> {
        let after = (Bound::Excluded(self.asked.as_str()), Bound::Unbounded);
        let next = self.checking.range::<str, _>(after).next().or_else(|| self.checking.first());
        self.asked = next?.clone();
        Some(self.asked.clone())
    }

    /// Prints an event; returns false when nobody reads the output any more.
    ///
    /// # Errors
    /// When the event has no JSON form, or standard output fails.
    pub(super) fn reservation(&mut self, event: &v1::ReservationEvent) -> Result<bool, Failure> {
        use v1::ReservationState as S;
        let state = event.state();
        if state == S::Checking {
            self.checking.insert(event.reservation.clone());
        } else {
            self.checking.remove(&event.reservation);
        }
        self.held(&event.reservation, event.time.as_ref(), event.expires_in.as_ref());
        let line = if self.json { text::json_line(event)? } else { reservation(event, &self.zone) };
        self.print(&line)
    }

    /// As [`EventPrinter::reservation`].
    pub(super) fn booking(
        &mut self,
        event: &v1::BookingEvent,
        resources: &[DescribedResource],
    ) -> Result<bool, Failure> {
        let booking = event.booking.clone().unwrap_or_default();
        if let Some(equipment) = event.data_plane.as_ref().filter(|_| !self.json) {
            let when = moment(event.time.as_ref(), &self.zone);
            let (txn, state) = (&booking.transaction, data_plane::state(equipment));
            return self.print(&format!("{when}  {txn}  {}: {state}", equipment.resource));
        }
        self.held(&booking.transaction, event.time.as_ref(), booking.expires_in.as_ref());
        let line = if self.json {
            text::json_line(event)?
        } else {
            line_of_booking(event, &booking, resources, &self.zone)
        };
        self.print(&line)
    }

    /// Records how long a reservation is still held, as the coordinator said.
    pub(super) fn held_for(&mut self, id: &str, left: &Duration) {
        if let Ok(left) = span_from_wire("expires_in", left) {
            self.holds.insert(id.to_owned(), clock::now().wall.saturating_add(left));
        }
    }

    fn held(&mut self, id: &str, since: Option<&Timestamp>, left: Option<&Duration>) {
        let left = left.and_then(|left| span_from_wire("expires_in", left).ok());
        match (text::time(since), left) {
            (Some(since), Some(left)) => {
                self.holds.insert(id.to_owned(), since.saturating_add(left));
            }
            _ => {
                self.holds.remove(id);
            }
        }
    }

    /// Draws the line that counts down.
    pub(super) fn tick(&self) {
        if let Some(bar) = &self.bar {
            bar.draw(&countdown(&self.holds, &self.checking, clock::now().wall));
        }
    }

    /// Prints a note on standard error.
    pub(super) fn note(&self, words: &str) {
        if let Some(bar) = &self.bar {
            bar.clear();
        }
        text::note(words);
        self.tick();
    }

    /// Leaves the terminal as it was.
    pub(super) fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.clear();
        }
    }

    fn print(&self, line: &str) -> Result<bool, Failure> {
        if let Some(bar) = &self.bar {
            bar.clear();
        }
        let mut line = colour::line(line);
        if self.bar.is_some() {
            line = colour::folded(&line, text::width().into());
        }
        let mut stdout = std::io::stdout().lock();
        match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
            Ok(()) => {
                self.tick();
                Ok(true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::internal(format!("standard output: {error}"))),
        }
    }
}

/// The line at the bottom: the hold that ends first, and how many others there are.
fn countdown(holds: &BTreeMap<String, Time>, checking: &BTreeSet<String>, now: Time) -> String {
    let Some((id, ends)) = holds.iter().min_by_key(|(_, ends)| **ends) else {
        return match checking.first() {
            None => "nothing is being held".to_owned(),
            Some(id) if checking.len() == 1 => {
                format!("resource managers are being asked to hold {id}")
            }
            Some(_) => {
                format!("resource managers are being asked to hold {} reservations", checking.len())
            }
        };
    };
    let left = Span::from_us(ends.since(now).as_us().max(0) / 1_000_000 * 1_000_000);
    let others = match holds.len() - 1 {
        0 => String::new(),
        others => format!(" (and {} more)", text::count(others, "hold")),
    };
    format!("held: {id} for another {left}{others}")
}

/// When something happened: in the user's time zone, and also in UTC if that differs.
fn moment(wire: Option<&Timestamp>, zone: &TimeZone) -> String {
    let Some(time) = text::time(wire) else { return "-".to_owned() };
    let Ok(stamp) = jiff::Timestamp::from_microsecond(time.as_us()) else {
        return time.to_string();
    };
    let here = stamp.to_zoned(zone.clone());
    let utc = stamp.to_zoned(TimeZone::UTC);
    if here.offset() == utc.offset() {
        return utc.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string();
    }
    format!("{} ({} UTC)", here.strftime("%Y-%m-%d %H:%M:%S%.3f%:z"), utc.strftime("%H:%M:%S"))
}

fn reservation(event: &v1::ReservationEvent, zone: &TimeZone) -> String {
    let (time, state) = (moment(event.time.as_ref(), zone), text::state(event.state()));
    let (user, what) = (&event.user, &event.what);
    // A reservation that has an id of its owner is known by it.
    let id = match event.request_id.as_str() {
        "" => event.reservation.clone(),
        request => format!("{request} ({})", event.reservation),
    };
    let why = event.refusal.as_ref().map(|refusal| format!(": {}", text::refusal(refusal)));
    let held = until("the first hold ends", event.time.as_ref(), event.expires_in.as_ref());
    let why = why.unwrap_or_default();
    let blanks = " ".repeat(STATE_WIDTH.saturating_sub(state.len()));
    let state = colour::word(state);
    format!("{time}  {id}  {user}  {state}{blanks} {what}{why}{held}")
}

fn line_of_booking(
    event: &v1::BookingEvent,
    booking: &v1::Booking,
    resources: &[DescribedResource],
    zone: &TimeZone,
) -> String {
    let state = booking.state().as_str_name().trim_start_matches("BOOKING_STATE_").to_lowercase();
    let (time, id) = (moment(event.time.as_ref(), zone), &booking.transaction);
    let user = if booking.user.is_empty() { "-" } else { &booking.user };
    let segments: Vec<String> = booking.segments.iter().map(|one| taken(one, resources)).collect();
    let window = match booking.segments.first() {
        Some(first) => format!(" {}", text::window(first.window.as_ref())),
        None => "nothing was held".to_owned(),
    };
    let why = event.refusal.as_ref().map(|refusal| format!(": {}", text::refusal(refusal)));
    let why = why.unwrap_or_default();
    let held = until("the hold ends", event.time.as_ref(), booking.expires_in.as_ref());
    let (segments, cause) = (segments.join(", "), &event.cause);
    format!("{time}  {id}  {user}  {state:9} {segments}{window}, by {cause}{why}{held}")
}

/// `; the hold ends in 15 min, at 2026-11-21 10:15 UTC`.
fn until(words: &str, since: Option<&Timestamp>, left: Option<&Duration>) -> String {
    let left = left.and_then(|left| span_from_wire("expires_in", left).ok());
    match (text::time(since), left) {
        (Some(since), Some(left)) => {
            let seconds = Span::from_us(left.as_us() / 1_000_000 * 1_000_000);
            let at = since.as_us().saturating_add(left.as_us()) / 1_000_000 * 1_000_000;
            format!("; {words} in {seconds}, at {}", text::moment_of(Time::from_us(at)))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::resources::described;

    const NOON: i64 = 1_795_262_400;

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 250_000_000 })
    }

    fn event() -> v1::ReservationEvent {
        v1::ReservationEvent {
            time: at(NOON),
            reservation: "grc-1a2b-7".into(),
            user: "alice".into(),
            state: v1::ReservationState::Committing.into(),
            what: "all hold; it will be booked".into(),
            expires_in: Some(Duration { seconds: 899, nanos: 900_000_000 }),
            ..Default::default()
        }
    }

    #[test]
    fn an_event_is_one_line_with_the_end_of_its_hold() {
        let line = reservation(&event(), &TimeZone::UTC);
        assert_eq!(
            line,
            "2026-11-21 12:00:00.250 UTC  grc-1a2b-7  alice  committing  all hold; it will be \
             booked; the first hold ends in 14 min 59 s, at 2026-11-21 12:15 UTC"
        );
    }

    #[test]
    fn times_are_local_and_utc_where_the_two_differ() {
        let zone = TimeZone::fixed(jiff::tz::offset(9));
        let shown = moment(at(NOON).as_ref(), &zone);
        assert_eq!(shown, "2026-11-21 21:00:00.250+09:00 (12:00:00 UTC)");
    }

    #[test]
    fn a_booking_says_who_caused_it_and_what_it_takes() {
        let window = v1::Window { start: at(NOON), end: at(NOON + 3_600) };
        let segment = |resource: &str, amount| v1::Segment {
            resource: resource.into(),
            amount,
            window: Some(window),
            ..Default::default()
        };
        let path = v1::Path { name: "A-B".into(), ..Default::default() };
        let site = v1::Site { name: "A".into(), cpus: 8, ..Default::default() };
        let answer =
            v1::DescribeResponse { sites: vec![site], paths: vec![path], ..Default::default() };
        let booking = v1::Booking {
            transaction: "grc-1a2b-7/1".into(),
            state: v1::BookingState::Expired.into(),
            segments: vec![segment("A-B", 600_000_000), segment("A", 4)],
            ..Default::default()
        };
        let event =
            v1::BookingEvent { time: at(NOON), cause: "expiry".into(), ..Default::default() };
        let line = line_of_booking(&event, &booking, &described(&answer), &TimeZone::UTC);
        assert!(line.contains("expired   A-B 600 Mbit/s, A 4 CPUs "), "{line}");
        assert!(line.ends_with(", by expiry"), "{line}");
    }

    #[test]
    fn the_first_hold_is_counted_down_and_never_below_nothing() {
        let time = |seconds: i64| Time::from_us(seconds * 1_000_000);
        let holds = [("b".to_owned(), time(70)), ("a".to_owned(), time(100))].into();
        let nobody = BTreeSet::new();
        let shown = countdown(&holds, &nobody, time(8));
        assert_eq!(shown, "held: b for another 1 min 2 s (and 1 hold more)");
        assert!(countdown(&holds, &nobody, time(200)).starts_with("held: b for another 0"));
        assert_eq!(countdown(&BTreeMap::new(), &nobody, time(0)), "nothing is being held");
        let checking: BTreeSet<String> = ["grc-7".to_owned()].into();
        assert_eq!(
            countdown(&BTreeMap::new(), &checking, time(0)),
            "resource managers are being asked to hold grc-7"
        );
        assert!(countdown(&holds, &checking, time(8)).starts_with("held: b"));
    }

    #[test]
    fn all_that_are_being_asked_for_are_asked_about_in_turn() {
        let mut shown = EventPrinter::new(true);
        let mut came = |id: &str, state: v1::ReservationState| {
            let (reservation, state) = (id.to_owned(), state.into());
            let event = v1::ReservationEvent { reservation, state, ..event() };
            // The lines go to the test's output.
            shown.reservation(&event).unwrap();
            [(); 3].map(|()| shown.next_checked().unwrap_or_default())
        };
        use v1::ReservationState as S;
        assert_eq!(came("b", S::Checking), ["b", "b", "b"]);
        assert_eq!(came("a", S::Checking), ["a", "b", "a"]);
        assert_eq!(came("a", S::Confirmed), ["b", "b", "b"]);
        assert_eq!(came("b", S::Aborting), ["", "", ""]);
    }
}
