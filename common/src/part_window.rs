//! The window of one part of a request: an offset from the common start, and a length.
//!
//! Left out: which parts a request has ([`crate::request`]), and the wire ([`crate::CoAllocation`] is read in
//! `net::convert`). Source: ADR 40.

use std::fmt;

use crate::invalid::InvalidField;
use crate::limits;
use crate::time::{Span, Window};

/// When a part of a request runs. It is always a proper part of the request's duration: a part that runs for
/// the whole of it has no window of its own (`None` where a part may have one).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartWindow {
    offset: Span,
    length: Span,
}

impl PartWindow {
    /// The window that begins `offset` after the common start and has this length; `None` when it is the whole
    /// of `duration`.
    ///
    /// The caller has checked that it lies within `duration`, see [`Self::parse`].
    #[must_use]
    pub fn new(offset: Span, length: Span, duration: Span) -> Option<Self> {
        let whole = offset <= Span::ZERO && length >= duration;
        (!whole).then_some(Self { offset, length })
    }

    /// Reads a window from outside. An unset offset is zero, an unset length is the rest of `duration`. `field` is
    /// what has the fields `offset` and `length`, with a dot at its end if it is not empty.
    ///
    /// # Errors
    /// [`InvalidField`] when the window does not lie within `duration`, or is shorter than
    /// [`limits::DURATION_MIN`].
    pub fn parse(
        field: &str,
        offset: Option<Span>,
        length: Option<Span>,
        duration: Span,
    ) -> Result<Option<Self>, InvalidField> {
        let offset = offset.unwrap_or(Span::ZERO);
        if !(Span::ZERO..=latest_offset(duration)).contains(&offset) {
            let allowed = allowed_offset(duration);
            return Err(InvalidField::new(format!("{field}offset"), offset, allowed));
        }
        let rest = duration.saturating_sub(offset);
        let length = length.unwrap_or(rest);
        if !(limits::DURATION_MIN..=rest).contains(&length) {
            let allowed = allowed_length(rest, duration);
            return Err(InvalidField::new(format!("{field}length"), length, allowed));
        }
        Ok(Self::new(offset, length, duration))
    }

    /// The error for a field `offset` or `length` that is not even a length of time: the same error, with the range
    /// that this field has.
    #[must_use]
    pub fn misread(
        error: InvalidField,
        name: &str,
        offset: Option<Span>,
        duration: Span,
    ) -> InvalidField {
        let allowed = match name {
            "offset" => allowed_offset(duration),
            _ => {
                let offset = offset.unwrap_or(Span::ZERO);
                let offset = offset.clamp(Span::ZERO, latest_offset(duration));
                allowed_length(duration.saturating_sub(offset), duration)
            }
        };
        InvalidField { allowed: format!("{allowed}, in whole microseconds"), ..error }
    }

    /// How long after the common start it begins.
    #[must_use]
    pub const fn offset(self) -> Span {
        self.offset
    }

    /// How long it lasts.
    #[must_use]
    pub const fn length(self) -> Span {
        self.length
    }

    /// How long after the common start it ends.
    #[must_use]
    pub const fn end(self) -> Span {
        self.offset.saturating_add(self.length)
    }

    /// Whether the whole of `other` lies within it.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.offset <= other.offset && other.end() <= self.end()
    }

    /// The window within a frame; the frame itself for a part without a window of its own.
    #[must_use]
    pub fn within(part: Option<Self>, frame: Window) -> Window {
        let Some(part) = part else { return frame };
        let start = frame.start().saturating_add(part.offset);
        // The length is at least DURATION_MIN, so there is a window unless time itself ends.
        Window::starting(start, part.length).unwrap_or(frame)
    }
}

fn latest_offset(duration: Span) -> Span {
    duration.saturating_sub(limits::DURATION_MIN)
}

fn allowed_offset(duration: Span) -> String {
    let (latest, least) = (latest_offset(duration), limits::DURATION_MIN);
    format!("0 s to {latest}, so that at least {least} of the request's {duration} is left")
}

fn allowed_length(rest: Span, duration: Span) -> String {
    let least = limits::DURATION_MIN;
    format!("{least} to {rest}, so that it ends within the request's {duration}")
}

impl fmt::Display for PartWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {} on", self.length, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    fn secs(s: i64) -> Span {
        Span::from_secs(s)
    }

    #[test]
    fn what_is_unset_is_the_start_and_the_rest() {
        let parse =
            |offset, length| PartWindow::parse("", offset, length, secs(100)).expect("in range");
        assert_eq!(parse(None, None), None);
        assert_eq!(parse(Some(secs(0)), Some(secs(100))), None, "the whole, said in full");
        let part = parse(Some(secs(30)), None).unwrap();
        assert_eq!((part.offset(), part.length(), part.end()), (secs(30), secs(70), secs(100)));
        assert_eq!(parse(None, Some(secs(10))).unwrap().end(), secs(10));
        let frame = Window::starting(Time::from_us(5_000_000), secs(100)).unwrap();
        let window = PartWindow::within(Some(part), frame);
        assert_eq!((window.start(), window.end()), (Time::from_us(35_000_000), frame.end()));
        assert_eq!(PartWindow::within(None, frame), frame);
    }

    #[test]
    fn a_window_that_leaves_the_request_is_refused_with_field_value_and_range() {
        let cases = [
            (Some(-1), None, "offset", "-1 s", "0 s to 1 min 39 s"),
            (Some(100), None, "offset", "1 min 40 s", "0 s to 1 min 39 s"),
            (Some(30), Some(71), "length", "1 min 11 s", "1 s to 1 min 10 s"),
            (None, Some(0), "length", "0 s", "1 s to 1 min 40 s"),
            (None, Some(-5), "length", "-5 s", "1 s to 1 min 40 s"),
            (Some(i64::MAX), Some(i64::MAX), "offset", "", "0 s to 1 min 39 s"),
        ];
        for (offset, length, field, value, allowed) in cases {
            let (offset, length) = (offset.map(secs), length.map(secs));
            let error = PartWindow::parse("links[0].", offset, length, secs(100)).unwrap_err();
            assert_eq!(error.field, format!("links[0].{field}"), "{error}");
            assert!(error.value.contains(value), "{error}");
            assert!(error.allowed.starts_with(allowed), "{error}");
        }
    }

    #[test]
    fn one_window_covers_another_from_end_to_end() {
        let part = |offset, length| PartWindow::new(secs(offset), secs(length), secs(100)).unwrap();
        assert!(part(0, 50).covers(part(0, 50)) && part(0, 50).covers(part(10, 20)));
        assert!(!part(0, 50).covers(part(40, 20)) && !part(10, 20).covers(part(0, 15)));
    }
}
