//! Time as integer microseconds: instants of the wall clock, spans, half-open windows, boot time.
//!
//! No clock is read here. The shell reads two clocks and passes both in one [`Now`]: the wall clock
//! is used for windows, and the boot-time clock, which no operator can set back, for every expiry.
//! Left out: time zones and leap seconds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::invalid::InvalidField;
use crate::limits;

/// A length of time in microseconds. It is never negative in accepted input.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(i64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of this many microseconds.
    #[must_use]
    pub const fn from_us(us: i64) -> Self {
        Self(us)
    }
    /// A span of this many milliseconds, at most the largest span.
    #[must_use]
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms.saturating_mul(1_000))
    }
    /// A span of this many seconds, at most the largest span.
    #[must_use]
    pub const fn from_secs(s: i64) -> Self {
        Self(s.saturating_mul(1_000_000))
    }
    /// The span in microseconds.
    #[must_use]
    pub const fn as_us(self) -> i64 {
        self.0
    }
    /// The span as a duration of the standard library; a negative span becomes zero.
    #[must_use]
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(if self.0 < 0 { 0 } else { self.0.unsigned_abs() })
    }
    /// How old something is, as people read it: in full seconds below an hour, in full minutes below a day, otherwise in full days.
    /// What seems to be from the future is new, because clocks of two machines differ.
    #[must_use]
    pub const fn as_age(self) -> Self {
        let unit_us = match self.0 {
            ..0 => return Self::ZERO,
            0..3_600_000_000 => 1_000_000,
            3_600_000_000..86_400_000_000 => 60_000_000,
            86_400_000_000.. => 86_400_000_000,
        };
        Self(self.0 / unit_us * unit_us)
    }
    /// The sum, at most the largest possible span.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    /// The difference, at least the smallest possible span.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// The span multiplied by `factor`, at most the largest possible span.
    #[must_use]
    pub const fn saturating_mul(self, factor: i64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl fmt::Display for Span {
    /// As people write lengths: `2 h 5 min`, `1 d 6 h`, `1500 ms`. Zero is `0 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0.unsigned_abs();
        let fraction = us % 1_000_000;
        // A few seconds and a fraction are one number.
        let s = if us < 60_000_000 && fraction != 0 { 0 } else { us / 1_000_000 };
        let below = us - s * 1_000_000;
        let below = match below % 1_000 {
            0 => (below / 1_000, "ms"),
            _ => (below, "us"),
        };
        let parts =
            [(s / 86_400, "d"), (s / 3_600 % 24, "h"), (s / 60 % 60, "min"), (s % 60, "s"), below];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, unit)| format!("{count} {unit}")).collect();
        let sign = if self.0 < 0 { "-" } else { "" };
        let text = if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") };
        f.pad(&(sign.to_owned() + &text))
    }
}

/// An instant of the wall clock: microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(i64);

impl Time {
    /// The first possible instant.
    pub const MIN: Self = Self(i64::MIN);
    /// The last possible instant.
    pub const MAX: Self = Self(i64::MAX);

    /// The instant this many microseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_us(us: i64) -> Self {
        Self(us)
    }
    /// Microseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn as_us(self) -> i64 {
        self.0
    }
    /// The instant that is later by a span.
    #[must_use]
    pub const fn saturating_add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
    /// The instant that is earlier by a span.
    #[must_use]
    pub const fn saturating_sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
    /// The span from `earlier` to this instant (negative when `earlier` is later).
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
    /// The next full second, or this instant if it is a full second.
    #[must_use]
    pub const fn next_second(self) -> Self {
        let past = self.0.rem_euclid(1_000_000);
        if past == 0 { self } else { Self(self.0.saturating_add(1_000_000 - past)) }
    }
}

impl fmt::Display for Time {
    /// UTC time with seconds as `2026-11-21T10:00:00Z`; microseconds are added if there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, us) = (self.0.div_euclid(86_400_000_000), self.0.rem_euclid(86_400_000_000));
        let (year, month, day) = civil_from_days(days);
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
            s / 3600,
            s / 60 % 60,
            s % 60
        )?;
        if us != 0 {
            write!(f, ".{us:06}")?;
        }
        f.write_str("Z")
    }
}

/// Year, month and day of a count of days since 1970-01-01, in the proleptic Gregorian calendar.
/// The core has no calendar library, but refusals and logs need readable instants. The tests check
/// it against known days. Method: shift the year so that it begins in March, and count eras of 400
/// years.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A half-open window of time `[start, end)`, never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawWindow")]
pub struct Window {
    start: Time,
    end: Time,
}

/// A window as it was written down, before it is checked.
#[derive(Deserialize)]
struct RawWindow {
    start: Time,
    end: Time,
}

impl TryFrom<RawWindow> for Window {
    type Error = String;

    fn try_from(RawWindow { start, end }: RawWindow) -> Result<Self, String> {
        Self::new(start, end).ok_or_else(|| format!("not a window: from {start} to {end}"))
    }
}

impl Window {
    /// The window `[start, end)`; `None` when `end` is not after `start`.
    #[must_use]
    pub fn new(start: Time, end: Time) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    /// The window that begins at `start` and has this length; `None` when the length is not
    /// positive.
    #[must_use]
    pub fn starting(start: Time, length: Span) -> Option<Self> {
        Self::new(start, start.saturating_add(length))
    }

    /// Checks a window from outside; `field` is the field that contained it.
    ///
    /// # Errors
    /// [`InvalidField`] when the window is reversed, empty or longer than [`limits::DURATION_MAX`],
    /// or when one end is before 1970 or after [`limits::TIME_MAX_US`].
    pub fn parse(field: &str, start: Time, end: Time) -> Result<Self, InvalidField> {
        for (name, time) in [("start", start), ("end", end)] {
            if !(0..=limits::TIME_MAX_US).contains(&time.as_us()) {
                let field = format!("{field}.{name}");
                return Err(InvalidField::new(field, time, "1970-01-01 to 2255-06-05"));
            }
        }
        let Some(window) = Self::new(start, end) else {
            let field = format!("{field}.end");
            return Err(InvalidField::new(field, end, format!("later than the start, {start}")));
        };
        if window.length() > limits::DURATION_MAX {
            let allowed = format!("a window of at most {}", limits::DURATION_MAX);
            return Err(InvalidField::new(field, window.length(), allowed));
        }
        Ok(window)
    }

    /// The first instant of the window.
    #[must_use]
    pub const fn start(self) -> Time {
        self.start
    }
    /// The first instant after the window.
    #[must_use]
    pub const fn end(self) -> Time {
        self.end
    }
    /// The length `end - start`, always positive.
    #[must_use]
    pub const fn length(self) -> Span {
        self.end.since(self.start)
    }
    /// Do the two windows have an instant in common?
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

/// An instant of one machine's boot-time clock, in microseconds. It has no meaning on another
/// machine.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BootTime(i64);

impl BootTime {
    /// The instant this many microseconds after boot.
    #[must_use]
    pub const fn from_us(us: i64) -> Self {
        Self(us)
    }
    /// Microseconds since boot.
    #[must_use]
    pub const fn as_us(self) -> i64 {
        self.0
    }
    /// The instant that is later by a span.
    #[must_use]
    pub const fn saturating_add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
    /// The span from `earlier` to this instant (negative when `earlier` is later).
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// The time that a core gets with every input: both clocks, read once by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// The wall clock: for windows only. An operator may set it.
    pub wall: Time,
    /// The boot-time clock: for every expiry. It never goes back while the machine runs.
    pub boot: BootTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_what_people_read() {
        let age = |s: i64| Span::from_secs(s).saturating_add(Span::from_us(7)).as_age().to_string();
        assert_eq!([age(0), age(59), age(3_599)], ["0 s", "59 s", "59 min 59 s"]);
        assert_eq!([age(3_600), age(3_725), age(86_399)], ["1 h", "1 h 2 min", "23 h 59 min"]);
        assert_eq!([age(86_400), age(259_199)], ["1 d", "2 d"]);
        assert_eq!(Span::from_us(-1).as_age(), Span::ZERO);
        assert_eq!(Span::from_us(i64::MIN).as_age(), Span::ZERO);
    }

    #[test]
    fn instants_are_shown_in_utc() {
        assert_eq!(Time::from_us(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(Time::from_us(951_782_400_000_000).to_string(), "2000-02-29T00:00:00Z");
        assert_eq!(Time::from_us(1_795_219_200_000_001).to_string(), "2026-11-21T00:00:00.000001Z");
        assert_eq!(Time::from_us(-1).to_string(), "1969-12-31T23:59:59.999999Z");
        assert_eq!(Time::from_us(limits::TIME_MAX_US).to_string(), "2255-06-05T23:47:34.740992Z");
    }

    #[test]
    fn spans_are_shown_as_people_write_them() {
        let cases = [
            (0, "0 s"),
            (45_000_000, "45 s"),
            (1_500_000, "1500 ms"),
            (1, "1 us"),
            (5_400_000_000, "1 h 30 min"),
            (7_273_000_000, "2 h 1 min 13 s"),
            (108_000_000_000, "1 d 6 h"),
            (61_500_000, "1 min 1 s 500 ms"),
            (-90_000_000, "-1 min 30 s"),
        ];
        for (us, shown) in cases {
            assert_eq!(Span::from_us(us).to_string(), shown);
        }
        assert!(Span::from_us(i64::MIN).to_string().starts_with("-106751991 d"));
    }

    #[test]
    fn windows_are_half_open_and_never_reversed() {
        let at = |s: i64| Time::from_us(s * 1_000_000);
        let window = |a, b| Window::new(at(a), at(b)).unwrap();
        assert!(!window(0, 10).overlaps(window(10, 20)));
        assert!(window(0, 11).overlaps(window(10, 20)));
        assert_eq!(Window::new(at(5), at(5)), None);
        let error = Window::parse("window", at(7), at(3)).unwrap_err();
        assert_eq!(error.field, "window.end");
        assert!(error.allowed.contains("later than the start"), "{error}");
    }
}
