//! `/calendar.ics`: the reservations that the visitor may see, for a calendar program. `/calendar/SECRET.ics`: those of whoever
//! has made the secret, for a program that cannot sign in.
//!
//! * An event keeps its UID for as long as the reservation lives. SEQUENCE grows with each version, and once more when the
//!   reservation is released: then the event is cancelled, so that calendars take it out.
//! * What only a plan or a hold stands behind is tentative. What was refused is no event.
//! * A calendar without events has no component. RFC 5545 wants one, and readers do without.
//!
//! Left out: how a secret address is made ([`super::address`]), and workflows' activities. Source: RFC
//! 5545 (iCalendar), sections 3.1 (folding), 3.3.11 (escaping), 3.6.1 (events) and 3.8; RFC 7986 (NAME, REFRESH-INTERVAL).

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use coalloc_common::{BitsPerSecond, Cpus, Time, Window, limits};
use coalloc_net::convert::window_from_wire;
use coalloc_proto::v1;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HOST, HeaderValue};
use http::uri::Authority;
use http::{HeaderMap, Response, StatusCode};
use tonic::Status;

use super::calls::PageCalls;
use super::visitor::{self, Visitor};
use super::{PageState, words};
use crate::{error, host, json};

/// Most bytes of a line, without its end.
const LINE_BYTES: usize = 75;
/// The states that are events. The others never were booked, or are not known.
const STATES: [v1::ReservationState; 7] = {
    use v1::ReservationState as S;
    [
        S::Held,
        S::Committing,
        S::Confirmed,
        S::Active,
        S::Terminating,
        S::Terminated,
        S::PassedEndTime,
    ]
};

/// `GET /calendar.ics`, of one user with `?user=NAME`.
pub(super) async fn show(
    State(state): State<PageState>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response<Body> {
    let fields = form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes());
    let user =
        fields.filter(|(name, _)| name == "user").map(|(_, value)| value.into_owned()).last();
    let states = STATES.into_iter().map(Into::into).collect();
    let request = v1::ListRequest { user: user.unwrap_or_default(), states, ..Default::default() };
    let source = Source::Visitor(Box::new(request));
    match read(PageCalls::new(&state, &visitor), source).await {
        Ok((all, is_cut)) => file(&all, is_cut, own_address(&state, &headers).as_deref()),
        Err(status) => visitor::failed(&visitor, "/reservations", &status),
    }
}

/// `GET /calendar/SECRET.ics`. Who asks does not matter, and is not looked at.
pub(super) async fn show_by_secret(
    State(state): State<PageState>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response<Body> {
    if !state.has_tls && !host::is_address(&headers) {
        return json::plain(StatusCode::MISDIRECTED_REQUEST, host::WRONG_NAME.to_owned());
    }
    let secret = name.strip_suffix(".ics").unwrap_or_default().to_owned();
    match read(PageCalls::of_nobody(&state), Source::Secret(secret)).await {
        Ok((all, is_cut)) => file(&all, is_cut, own_address(&state, &headers).as_deref()),
        Err(status) => {
            json::plain(error::http_status(status.code()), format!("{}\n", status.message()))
        }
    }
}

/// This listener, as its reader names it.
pub(super) fn own_address(state: &PageState, headers: &HeaderMap) -> Option<String> {
    let host = headers.get(HOST)?.to_str().ok()?.parse::<Authority>().ok()?;
    let scheme = if state.has_tls { "https" } else { "http" };
    Some(format!("{scheme}://{host}"))
}

fn file(all: &[v1::Reservation], is_cut: bool, web: Option<&str>) -> Response<Body> {
    let mut response = Response::new(Body::from(calendar(all, is_cut, web, words::now())));
    let own = response.headers_mut();
    own.insert(CONTENT_TYPE, HeaderValue::from_static("text/calendar; charset=utf-8"));
    let name = HeaderValue::from_static("attachment; filename=\"reservations.ics\"");
    own.insert(CONTENT_DISPOSITION, name);
    response
}

/// Whose reservations are wanted.
enum Source {
    /// Those that the visitor may see, of this request.
    Visitor(Box<v1::ListRequest>),
    /// Those of whoever has made this secret.
    Secret(String),
}

/// The reservations of the calendar, and whether there are more than are read.
async fn read(
    mut calls: PageCalls,
    source: Source,
) -> Result<(Vec<v1::Reservation>, bool), Status> {
    let (mut all, mut page_token) = (Vec::new(), String::new());
    loop {
        let (page, next) = match &source {
            Source::Visitor(request) => {
                let page =
                    calls.list(v1::ListRequest { page_token, ..(**request).clone() }).await?;
                (page.reservations, page.next_page_token)
            }
            Source::Secret(secret) => {
                let secret = secret.clone();
                let page = calls.calendar(v1::ReadCalendarRequest { secret, page_token }).await?;
                (page.reservations, page.next_page_token)
            }
        };
        all.extend(page);
        if next.is_empty() {
            return Ok((all, false));
        }
        if all.len() >= limits::WEB_DRAWN_MAX {
            return Ok((all, true));
        }
        page_token = next;
    }
}

/// A calendar. `web` is the listener as its reader names it.
fn calendar(all: &[v1::Reservation], is_cut: bool, web: Option<&str>, now: Time) -> String {
    let mut lines = Lines::default();
    lines.add("BEGIN", "VCALENDAR");
    lines.add("VERSION", "2.0");
    lines.add("PRODID", concat!("-//Coalloc//coalloc ", env!("CARGO_PKG_VERSION"), "//EN"));
    for name in ["NAME", "X-WR-CALNAME"] {
        lines.add_text(name, "Coalloc reservations");
    }
    if is_cut {
        let cut =
            format!("Only the first {} reservations that you may see.", limits::WEB_DRAWN_MAX);
        lines.add_text("DESCRIPTION", &cut);
    }
    lines.add("REFRESH-INTERVAL;VALUE=DURATION", "PT15M");
    for one in all {
        let window = one.plan.as_ref().map(|plan| window_from_wire("", plan.window.as_ref()));
        if let Some(Ok(window)) = window {
            event(&mut lines, one, window, web, now);
        }
    }
    lines.add("END", "VCALENDAR");
    lines.0
}

fn event(lines: &mut Lines, one: &v1::Reservation, window: Window, web: Option<&str>, now: Time) {
    use v1::ReservationState as S;
    let is_cancelled = matches!(one.state(), S::Terminating | S::Terminated);
    let status = match one.state() {
        _ if is_cancelled => "CANCELLED",
        state if words::is_held(state) => "TENTATIVE",
        _ => "CONFIRMED",
    };
    // A release is one more change.
    let sequence = one.version.max(1) - 1 + u32::from(is_cancelled);
    lines.add("BEGIN", "VEVENT");
    lines.add_text("UID", &format!("{}@coalloc", words::text(&one.id)));
    lines.add("DTSTAMP", &instant(now));
    if let Some(made) = words::wire_time(one.created.as_ref()) {
        lines.add("CREATED", &instant(made));
    }
    lines.add("DTSTART", &instant(window.start()));
    lines.add("DTEND", &instant(window.end().next_second()));
    lines.add("SEQUENCE", &sequence.to_string());
    lines.add("STATUS", status);
    lines.add_text("SUMMARY", &words::text(words::own_id(one)));
    lines.add_text("LOCATION", &words::places(one));
    lines.add_text("DESCRIPTION", &description(one));
    if let Some(web) = web {
        lines.add("URL", &format!("{web}{}", words::page_of(one)));
    }
    lines.add("END", "VEVENT");
}

/// What is reserved, a line each.
fn description(one: &v1::Reservation) -> String {
    let plan = one.plan.iter();
    let sites = plan.clone().flat_map(|plan| &plan.placements).map(|site| {
        format!("{}: {} at {}", words::text(&site.site), Cpus(site.cpus), words::text(&site.at))
    });
    let routes = plan.flat_map(|plan| &plan.routes).map(|route| {
        let (from, to) = (words::text(&route.from), words::text(&route.to));
        format!("{from} → {to}: {}", BitsPerSecond(route.bandwidth_bps))
    });
    let workflow = one.workflow.iter().map(|summary| match summary.activities {
        1 => "Workflow of 1 activity".to_owned(),
        count => format!("Workflow of {count} activities"),
    });
    let trouble = one.equipment_trouble.iter().map(|one| {
        let (at, what) = (words::text(&one.resource_manager), words::text(&one.trouble));
        format!("Trouble at the equipment of {at}: {what}")
    });
    let head = format!("{} of {}", words::state(one.state()), words::text(&one.user));
    let all: Vec<_> = std::iter::once(head).chain(sites).chain(routes).chain(workflow).collect();
    all.into_iter().chain(trouble).collect::<Vec<_>>().join("\n")
}

/// An instant in UTC, in full seconds.
fn instant(time: Time) -> String {
    words::utc(time, "%Y%m%dT%H%M%SZ")
}

/// The lines of a calendar, each with its end.
#[derive(Debug, Default)]
struct Lines(String);

impl Lines {
    /// Adds a line with a value that needs no escaping.
    fn add(&mut self, name: &str, value: &str) {
        let line = format!("{name}:{value}");
        let mut bytes = 0;
        for c in line.chars() {
            // A line is cut between characters, and what follows begins with a space that counts, too.
            if bytes + c.len_utf8() > LINE_BYTES {
                self.0.push_str("\r\n ");
                bytes = 1;
            }
            self.0.push(c);
            bytes += c.len_utf8();
        }
        self.0.push_str("\r\n");
    }

    /// Adds a line with a text.
    fn add_text(&mut self, name: &str, text: &str) {
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '\n' => escaped.push_str("\\n"),
                '\\' | ';' | ',' => escaped.extend(['\\', c]),
                _ => escaped.push(c),
            }
        }
        self.add(name, &escaped);
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::Span;
    use coalloc_net::convert::window_to_wire;

    use super::*;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    fn reservation(state: v1::ReservationState) -> v1::Reservation {
        let window = Window::starting(NOON, Span::from_millis(1_500)).map(window_to_wire);
        let site =
            v1::Placement { site: "a".into(), cpus: 4, at: "Tokyo".into(), ..Default::default() };
        let plan = v1::Plan { window, placements: vec![site], ..Default::default() };
        v1::Reservation {
            id: "grc-1".into(),
            request_id: "lecture".into(),
            user: "alice".into(),
            state: state.into(),
            version: 3,
            plan: Some(plan),
            ..Default::default()
        }
    }

    #[test]
    fn a_reservation_is_an_event_with_the_number_of_its_version() {
        let all = [reservation(v1::ReservationState::Confirmed)];
        let text = calendar(&all, false, Some("https://grc.example:7002"), NOON);
        assert!(text.starts_with("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:"), "{text}");
        let event = "BEGIN:VEVENT\r\nUID:grc-1@coalloc\r\nDTSTAMP:20261121T120000Z\r\nDTSTART:20261121T120000Z\r\n\
                     DTEND:20261121T120002Z\r\nSEQUENCE:2\r\nSTATUS:CONFIRMED\r\nSUMMARY:lecture\r\nLOCATION:Tokyo\r\n\
                     DESCRIPTION:confirmed of alice\\na: 4 CPUs at Tokyo\r\n\
                     URL:https://grc.example:7002/reservations/grc%2D1\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
        assert!(text.ends_with(event), "{text}");
    }

    #[test]
    fn a_release_cancels_the_event_and_a_hold_is_tentative() {
        let of = |state| calendar(&[reservation(state)], false, None, NOON);
        let released = of(v1::ReservationState::Terminated);
        assert!(released.contains("SEQUENCE:3\r\nSTATUS:CANCELLED\r\n"), "{released}");
        assert!(of(v1::ReservationState::Held).contains("SEQUENCE:2\r\nSTATUS:TENTATIVE\r\n"));
        let without_plan =
            v1::Reservation { plan: None, ..reservation(v1::ReservationState::Held) };
        assert!(!calendar(&[without_plan], false, None, NOON).contains("VEVENT"));
    }

    #[test]
    fn lines_are_cut_between_characters_and_no_text_makes_a_line_of_its_own() {
        let mut one = reservation(v1::ReservationState::Confirmed);
        one.request_id = "ä,;\\\r\nEND:VEVENT\u{202e}".repeat(9);
        let text = calendar(&[one], true, None, NOON);
        assert!(text.lines().all(|line| line.len() <= LINE_BYTES), "{text}");
        assert_eq!(text.matches("\r\nEND:VEVENT").count(), 1, "{text}");
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
        let unfolded = text.replace("\r\n ", "");
        assert!(
            unfolded.contains("SUMMARY:ä\\,\\;\\\\\\\\r\\\\nEND:VEVENT\\\\u{202e}ä"),
            "{unfolded}"
        );
        assert!(unfolded.contains("DESCRIPTION:Only the first 10000 reservations"), "{unfolded}");
    }
}
