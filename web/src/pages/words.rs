//! Values as people read them. A text of a stranger is on one line, and cannot turn the direction of what follows it.
//!
//! Times are in UTC, with their name, and in a `time` element: the script shows them in the reader's zone.

use std::borrow::Cow;

use coalloc_common::{Span, Time, Window, plain_text};
use coalloc_net::convert::{span_from_wire, time_from_wire, window_from_wire};
use coalloc_proto::{Duration, Timestamp, v1};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// A text of a stranger on one line.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    plain_text::one_line(text)
}

/// Now, by the clock of the daemon's machine.
pub(super) fn now() -> Time {
    coalloc_net::clock::now().wall
}

/// An instant in UTC by a format of strftime; `-` where the calendar has none.
pub(super) fn utc(time: Time, format: &str) -> String {
    let at = jiff::Timestamp::from_microsecond(time.as_us());
    at.map_or_else(|_| "-".to_owned(), |at| at.to_zoned(TimeZone::UTC).strftime(format).to_string())
}

/// The instant that a page was asked for, `2026-11-21T10:00` in UTC; seconds and a `Z` may be there.
pub(super) fn instant_of(text: &str) -> Option<Time> {
    let text = text.trim();
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    let at: jiff::civil::DateTime = text.parse().ok()?;
    let us = at.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond();
    let time = Time::from_us(us);
    (0..=coalloc_common::limits::TIME_MAX_US).contains(&time.as_us()).then_some(time)
}

/// An instant.
pub(super) fn instant(time: Time) -> Markup {
    let second = Time::from_us(time.as_us().div_euclid(1_000_000).saturating_mul(1_000_000));
    html! { time datetime=(second) { (utc(second, "%Y-%m-%d %H:%M UTC")) } }
}

/// An instant of a message; `-` if it is unset.
pub(super) fn wire_instant(wire: Option<&Timestamp>) -> Markup {
    match wire_time(wire) {
        Some(time) => instant(time),
        None => html! { "-" },
    }
}

/// The instant of a message.
pub(super) fn wire_time(wire: Option<&Timestamp>) -> Option<Time> {
    time_from_wire("", wire?).ok()
}

/// Both ends of a window.
pub(super) fn window(window: Window) -> Markup {
    html! { (instant(window.start())) " to " (instant(window.end())) }
}

/// The window of a message; `-` if it is unset.
pub(super) fn wire_window(wire: Option<&v1::Window>) -> Markup {
    match window_from_wire("", wire) {
        Ok(own) => window(own),
        Err(_) => html! { "-" },
    }
}

/// A length of time in a message, in full seconds.
pub(super) fn wire_span(wire: &Duration) -> String {
    let span = span_from_wire("", wire).unwrap_or(Span::ZERO);
    Span::from_secs(span.as_us().max(0) / 1_000_000).to_string()
}

/// All states, in the order of a reservation's life.
pub(super) const STATES: [v1::ReservationState; 10] = [
    v1::ReservationState::Checking,
    v1::ReservationState::Held,
    v1::ReservationState::Committing,
    v1::ReservationState::Confirmed,
    v1::ReservationState::Active,
    v1::ReservationState::Aborting,
    v1::ReservationState::Failed,
    v1::ReservationState::Terminating,
    v1::ReservationState::Terminated,
    v1::ReservationState::PassedEndTime,
];

/// Has a reservation in this state ended?
pub(super) const fn has_ended(state: v1::ReservationState) -> bool {
    use v1::ReservationState as S;
    matches!(state, S::Failed | S::Terminated | S::PassedEndTime)
}

/// Is something only held in this state, and not booked?
pub(super) const fn is_held(state: v1::ReservationState) -> bool {
    use v1::ReservationState as S;
    matches!(state, S::Checking | S::Held | S::Committing)
}

/// The word for a state.
pub(super) fn state(state: v1::ReservationState) -> String {
    match state {
        v1::ReservationState::PassedEndTime => "passed".to_owned(),
        v1::ReservationState::Unspecified => "unknown".to_owned(),
        other => {
            let name = other.as_str_name().trim_start_matches("RESERVATION_STATE_");
            name.to_lowercase()
        }
    }
}

/// The word for a state, with its colour.
pub(super) fn badge(one: v1::ReservationState) -> Markup {
    let word = state(one);
    html! { span class={ "badge " (word) } { (word) } }
}

/// The user's own id of a reservation.
pub(super) fn own_id(one: &v1::Reservation) -> &str {
    if one.request_id.is_empty() { &one.id } else { &one.request_id }
}

/// A path with an id as its last part.
pub(super) fn path(page: &str, id: &str) -> String {
    format!("/{page}/{}", utf8_percent_encode(id, NON_ALPHANUMERIC))
}

/// The path of the page of a reservation: by the coordinator's id, which is of one reservation only.
pub(super) fn page_of(one: &v1::Reservation) -> String {
    path("reservations", if one.id.is_empty() { &one.request_id } else { &one.id })
}

/// A link to a reservation, by its own id.
pub(super) fn link(one: &v1::Reservation) -> Markup {
    html! { a href=(page_of(one)) { (text(own_id(one))) } }
}

/// A refusal as a sentence; it begins with the resource manager that refused, unless the planner did.
pub(super) fn refusal(refusal: &v1::Refusal) -> Markup {
    let detail = match refusal.detail.as_str() {
        "" => refusal.reason().as_str_name().trim_start_matches("REASON_").to_lowercase().into(),
        detail => text(detail),
    };
    // Daemons write windows as they do in logs: `[start, end)`.
    let own = window_from_wire("", refusal.window.as_ref()).ok();
    let parts = own.and_then(|own| Some((own, detail.split_once(&own.to_string())?)));
    html! {
        @if !refusal.resource_manager.is_empty() { (text(&refusal.resource_manager)) ": " }
        @match parts {
            Some((own, (before, after))) => { (before) (window(own)) (after) }
            None => { (detail) }
        }
    }
}

/// The sites of a reservation.
pub(super) fn places(one: &v1::Reservation) -> String {
    let sites = one.plan.iter().flat_map(|plan| &plan.placements).map(|site| site.at.as_str());
    let of_workflow = one.workflow.iter().flat_map(|summary| summary.sites.iter());
    let all: Vec<_> = sites.chain(of_workflow.map(String::as_str)).map(text).collect();
    all.join(" ")
}

/// A number and its noun: `1 plan`, `2 plans`.
pub(super) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc_with_its_name_and_for_programs() {
        let noon = Time::from_us(1_795_262_400_000_000 + 5);
        let expected = "<time datetime=\"2026-11-21T12:00:00Z\">2026-11-21 12:00 UTC</time>";
        assert_eq!(instant(noon).into_string(), expected);
        for text in ["2026-11-21T12:00", "2026-11-21T12:00:00Z", " 2026-11-21T12:00:00 "] {
            assert_eq!(instant_of(text), Some(Time::from_us(1_795_262_400_000_000)), "{text}");
        }
        for text in ["", "noon", "1969-12-31T23:59", "9999-01-01T00:00", "2026-02-30T00:00"] {
            assert_eq!(instant_of(text), None, "{text}");
        }
    }

    #[test]
    fn names_stay_text_wherever_they_stand() {
        let evil = "\"><script>alert(1)</script>\u{202e}";
        let one = v1::Reservation { request_id: evil.into(), ..Default::default() };
        let link = link(&one).into_string();
        assert!(!link.contains("<script") && !link.contains('\u{202e}'), "{link}");
        assert!(link.starts_with("<a href=\"/reservations/%22%3E%3Cscript"), "{link}");
        let refused = v1::Refusal {
            detail: format!("no room for {evil}"),
            resource_manager: evil.into(),
            ..Default::default()
        };
        let text = refusal(&refused).into_string();
        assert!(!text.contains("<script") && text.contains("&lt;script&gt;"), "{text}");
    }

    #[test]
    fn every_state_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<_> = STATES.map(state).into_iter().collect();
        assert_eq!(words.len(), STATES.len());
        assert!(words.contains("passed") && words.contains("held"));
    }
}
