//! Instants, lengths of time and windows, from and to the wire.

use coalloc_common::{InvalidField, Span, Time, Window, limits};
use coalloc_proto::{Duration, Timestamp, v1};

/// Reads an instant.
///
/// # Errors
/// When it is outside 1970 to 2255 or finer than a microsecond.
pub fn time_from_wire(field: &str, wire: &Timestamp) -> Result<Time, InvalidField> {
    let allowed = "1970-01-01T00:00:00Z to 2255-06-05T23:47:34Z in whole microseconds";
    // A query has hundreds of instants, so texts are made only for one that is refused; here and below.
    let bad = || {
        let shown = format!("{} s and {} ns after 1970", wire.seconds, wire.nanos);
        InvalidField::new(field, shown, allowed)
    };
    if !(0..1_000_000_000).contains(&wire.nanos) || wire.nanos % 1_000 != 0 {
        return Err(bad());
    }
    let us = wire
        .seconds
        .checked_mul(1_000_000)
        .and_then(|us| us.checked_add(i64::from(wire.nanos) / 1_000))
        .filter(|us| (0..=limits::TIME_MAX_US).contains(us));
    us.map(Time::from_us).ok_or_else(bad)
}

/// The wire form of an instant.
#[must_use]
pub fn time_to_wire(time: Time) -> Timestamp {
    let us = time.as_us();
    // Below 10^9, because the remainder is below 10^6.
    let nanos = (us.rem_euclid(1_000_000) * 1_000) as i32;
    Timestamp { seconds: us.div_euclid(1_000_000), nanos }
}

/// Reads a length of time.
///
/// # Errors
/// When it is negative, finer than a microsecond, or beyond 366 days times ten.
pub fn span_from_wire(field: &str, wire: &Duration) -> Result<Span, InvalidField> {
    let bad = || {
        let shown = match wire.nanos {
            0.. => format!("{}.{:09}s", wire.seconds, wire.nanos),
            less => format!("{} s and {less} ns", wire.seconds),
        };
        InvalidField::new(field, shown, "a length of time in whole microseconds")
    };
    if wire.seconds < 0 || !(0..1_000_000_000).contains(&wire.nanos) || wire.nanos % 1_000 != 0 {
        return Err(bad());
    }
    let us = wire
        .seconds
        .checked_mul(1_000_000)
        .and_then(|us| us.checked_add(i64::from(wire.nanos) / 1_000))
        .filter(|us| *us <= limits::HORIZON_MAX.as_us());
    us.map(Span::from_us).ok_or_else(bad)
}

/// The wire form of a length of time.
#[must_use]
pub fn span_to_wire(span: Span) -> Duration {
    let us = span.as_us();
    Duration { seconds: us / 1_000_000, nanos: ((us % 1_000_000) * 1_000) as i32 }
}

/// Reads a window.
///
/// # Errors
/// When it is missing, reversed, empty, too long, or not between 1970 and 2255.
pub fn window_from_wire(field: &str, wire: Option<&v1::Window>) -> Result<Window, InvalidField> {
    let wire = wire.ok_or_else(|| InvalidField::missing(field, "a window"))?;
    let time = |name: &str, wire: &Option<Timestamp>| {
        let inside = || format!("{field}.{name}");
        let wire = wire.as_ref();
        let wire = wire.ok_or_else(|| InvalidField::missing(inside(), "an instant"))?;
        time_from_wire("", wire).map_err(|bad| InvalidField { field: inside(), ..bad })
    };
    Window::parse(field, time("start", &wire.start)?, time("end", &wire.end)?)
}

/// The wire form of a window.
#[must_use]
pub fn window_to_wire(window: Window) -> v1::Window {
    v1::Window { start: Some(time_to_wire(window.start())), end: Some(time_to_wire(window.end())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back_and_bad_ones_are_refused() {
        for us in [0, 1, 1_795_219_200_123_456, limits::TIME_MAX_US] {
            let time = Time::from_us(us);
            assert_eq!(time_from_wire("t", &time_to_wire(time)), Ok(time));
            let span = Span::from_us(us.min(limits::HORIZON_MAX.as_us()));
            assert_eq!(span_from_wire("d", &span_to_wire(span)), Ok(span));
        }
        let bad = [(-1, 0), (1, 1), (1, -1), (i64::MAX, 0), (1, 1_000_000_000)];
        for (seconds, nanos) in bad {
            assert!(time_from_wire("t", &Timestamp { seconds, nanos }).is_err());
            assert!(span_from_wire("d", &Duration { seconds, nanos }).is_err());
        }
    }
}
