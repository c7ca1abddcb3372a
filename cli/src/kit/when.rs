//! Instants on the command line: RFC 3339, or relative to now.

use std::str::FromStr;

use coalloc_common::{Span, Time};
use jiff::{SpanRelativeTo, Timestamp};

/// An instant as a user writes it: `2026-11-21T10:00:00Z`, `now`, `now+2h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstantArg {
    /// The given instant.
    At(Time),
    /// This long after the command was started, counted from the next full second.
    FromNow(Span),
}

impl InstantArg {
    /// The instant that this means for a command that was started at `now`.
    #[must_use]
    pub fn at(self, now: Time) -> Time {
        match self {
            Self::At(time) => time,
            Self::FromNow(span) => next_full(Span::from_secs(1), now).saturating_add(span),
        }
    }
}

/// A length of time as a user writes it: `1h`, `30m`, `1h30m`; more than zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length(pub Span);

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length = span_us(text).filter(|us| *us > 0).map(Span::from_us);
        length.map(Self).ok_or_else(|| "allowed: a length like 1h, 30m or 1h30m".to_owned())
    }
}

/// The first multiple of `step` that is not before `time`.
#[must_use]
pub fn next_full(step: Span, time: Time) -> Time {
    let step = step.as_us().max(1);
    let over = time.as_us().rem_euclid(step);
    let missing = if over == 0 { 0 } else { step - over };
    time.saturating_add(Span::from_us(missing))
}

impl FromStr for InstantArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: an instant like 2026-11-21T10:00:00Z, `now`, or `now+2h30m`";
        if let Some(rest) = text.strip_prefix("now") {
            if rest.is_empty() {
                return Ok(Self::FromNow(Span::ZERO));
            }
            let span = rest.strip_prefix('+').and_then(span_us).ok_or(allowed)?;
            return Ok(Self::FromNow(Span::from_us(span)));
        }
        let time: Timestamp = text.parse().map_err(|_| allowed.to_owned())?;
        Ok(Self::At(Time::from_us(time.as_microsecond())))
    }
}

/// Microseconds of a text like `2h30m`, `1d`, `90 min`, with 24 hours per day; `None` if it is not a length
/// of time.
pub(crate) fn span_us(text: &str) -> Option<i64> {
    let span: jiff::Span = text.trim().parse().ok()?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    i64::try_from(length.as_micros()).ok().filter(|us| *us >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_us(1_795_244_025_250_000); // 2026-11-21T06:53:45.25Z

    fn at(text: &str) -> Result<String, String> {
        text.parse::<InstantArg>().map(|when| when.at(NOW).to_string())
    }

    #[test]
    fn instants_are_read_as_rfc_3339_or_from_now() {
        let cases = [
            ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00Z"),
            ("2026-11-21T10:00:00+09:00", "2026-11-21T01:00:00Z"),
            ("now", "2026-11-21T06:53:46Z"),
            ("now+2h", "2026-11-21T08:53:46Z"),
            ("now+2h30m", "2026-11-21T09:23:46Z"),
            ("now+90 min", "2026-11-21T08:23:46Z"),
            ("now+1d", "2026-11-22T06:53:46Z"),
            ("now+PT5M", "2026-11-21T06:58:46Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(at(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_an_instant_is_answered_with_what_is() {
        for text in ["", "tomorrow", "now-2h", "now+", "now+-2h", "10:00", "2026-11-21", "now 2h"] {
            assert!(at(text).is_err_and(|error| error.contains("now+2h30m")), "{text}");
        }
    }

    #[test]
    fn full_minutes_are_reached_from_below() {
        let minute = Span::from_secs(60);
        assert_eq!(next_full(minute, NOW).to_string(), "2026-11-21T06:54:00Z");
        assert_eq!(next_full(minute, next_full(minute, NOW)), next_full(minute, NOW));
    }
}
