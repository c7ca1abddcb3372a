//! Amounts and times on the command line. How they are written is read by [`notation`]; here the clock and the zone
//! of this machine are added.

use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

use coalloc_common::{Span, Time};
use coalloc_net::written;
pub use coalloc_net::written::{RATE_MEANT_MIN, next_full, span};
use coalloc_proto::notation::{self, Instant};
use jiff::Timestamp;
pub use jiff::tz::TimeZone;

use crate::kit::text;

/// An instant as a user writes it: `tomorrow 14:00`, `2026-11-21T10:00:00Z`, `now+2h`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstantArg {
    /// The given instant.
    At {
        /// The instant.
        time: Time,
        /// What a local time was read as, for whoever wrote it.
        reading: Option<String>,
        /// The zone of a local time.
        zone: Option<TimeZone>,
    },
    /// This long after the command was started, counted from the next full second.
    FromNow(Span),
}

impl InstantArg {
    /// The instant that this means for a command that was started at `now`.
    #[must_use]
    pub fn time(&self, now: Time) -> Time {
        match self {
            Self::At { time, .. } => *time,
            Self::FromNow(span) => next_full(Span::from_secs(1), now).saturating_add(*span),
        }
    }

    /// The same, and a note on standard error that says what a local time was read as. A command calls this once for
    /// each of its flags.
    #[must_use]
    pub fn at(&self, now: Time) -> Time {
        if let Self::At { reading: Some(reading), .. } = self {
            text::note(reading);
        }
        self.time(now)
    }

    /// Reads an instant for this now and this local zone.
    ///
    /// # Errors
    /// What is wrong with the text, and what is allowed.
    pub fn read(text: &str, now: Time, zone: &TimeZone) -> Result<Self, String> {
        let instant = Instant::read(text)?;
        if let Instant::FromNow(length) = instant {
            return Ok(Self::FromNow(written::span_of(length)?));
        }
        let now = Timestamp::from_microsecond(now.as_us()).map_err(|error| error.to_string())?;
        let (at, local) = instant.resolve(now, zone)?;
        let time = Time::from_us(at.as_microsecond());
        let text = text.trim();
        let zone = local.as_ref().map(|local| local.time_zone().clone());
        let reading =
            local.map(|local| format!("{text} is {}, {time}", notation::instant::show(&local)));
        Ok(Self::At { time, reading, zone })
    }

    /// The zone in which it was written as a local time.
    #[must_use]
    pub const fn zone(&self) -> Option<&TimeZone> {
        match self {
            Self::At { zone, .. } => zone.as_ref(),
            Self::FromNow(_) => None,
        }
    }
}

impl FromStr for InstantArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, coalloc_net::clock::now().wall, &own_zone())
    }
}

/// The zone of this machine, or of TZ. Without a zone of its own, a machine tells the time in UTC; so does one whose TZ is
/// no zone, and standard error says so once.
#[must_use]
pub fn own_zone() -> TimeZone {
    static OWN: OnceLock<TimeZone> = OnceLock::new();
    let read = || {
        if let Some(wrong) = std::env::var("TZ").ok().filter(|text| !is_zone(text)) {
            text::note(&format!(
                "TZ={wrong}: this is no time zone, so times are in UTC; allowed: a place like Europe/Berlin, or UTC"
            ));
            return TimeZone::UTC;
        }
        TimeZone::try_system().unwrap_or(TimeZone::UTC)
    };
    OWN.get_or_init(read).clone()
}

/// May TZ say this? A place, a rule of POSIX, or a file of the zone database; empty is UTC.
fn is_zone(text: &str) -> bool {
    let name = text.strip_prefix(':').unwrap_or(text);
    name.is_empty()
        || TimeZone::get(name).is_ok()
        || TimeZone::posix(name).is_ok()
        || Path::new(name).is_absolute() && Path::new(name).is_file()
}

/// A window on the clock of a zone: `Mon 2026-12-07 09:00 to 10:00 CET`; `-` for what is beyond the calendar.
#[must_use]
pub fn local_window(start: Time, length: Span, zone: &TimeZone) -> String {
    let local = |time: Time| {
        let at = Timestamp::from_microsecond(time.as_us()).ok()?;
        Some(at.to_zoned(zone.clone()))
    };
    let Some((start, end)) = local(start).zip(local(start.saturating_add(length))) else {
        return "-".to_owned();
    };
    let day = if start.date() == end.date() { "" } else { "%Y-%m-%d " };
    let clock = |at: &jiff::Zoned| if at.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
    let from = start.strftime(&format!("%a %Y-%m-%d {}", clock(&start))).to_string();
    let to = end.strftime(&format!("{day}{} %Z", clock(&end))).to_string();
    format!("{from} to {to}")
}

/// An instant that has passed, as a user writes it: `-2h` for two hours ago, `today 9:00`, `2026-11-21T10:00:00Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastInstant(pub Time);

impl PastInstant {
    fn read(text: &str, now: Time, zone: &TimeZone) -> Result<Self, String> {
        let time = match text.trim().strip_prefix('-') {
            Some(length) => now.saturating_sub(span(length)?),
            None => {
                let read = InstantArg::read(text, now, zone);
                let read = read.map_err(|problem| {
                    // An example that could be meant here.
                    let problem = problem.replace("`tomorrow 14:00`", "`yesterday 14:00`");
                    format!("{problem}, or -2h for two hours ago")
                });
                read?.time(now)
            }
        };
        match time > now {
            true => {
                let time = text::moment_of(time);
                Err(format!("{time} has not passed; allowed: an instant before now, or -2h"))
            }
            false => Ok(Self(time)),
        }
    }
}

impl FromStr for PastInstant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text, coalloc_net::clock::now().wall, &own_zone())
    }
}

/// A length of time as a user writes it: `1h`, `30m`, `1h30`; more than zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length(pub Span);

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        written::length(text).map(Self)
    }
}

/// A rate as a user writes it, in bit/s: `10G`, `400 Mbit/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub u64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        written::rate(text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_us(1_795_244_025_250_000); // 2026-11-21T06:53:45.25Z

    fn read(text: &str) -> Result<InstantArg, String> {
        InstantArg::read(text, NOW, &TimeZone::get("Europe/Berlin").unwrap())
    }

    #[test]
    fn instants_from_now_count_from_the_next_full_second() {
        let cases = [
            ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00Z"),
            ("now", "2026-11-21T06:53:46Z"),
            ("now+2h", "2026-11-21T08:53:46Z"),
            ("+2h30", "2026-11-21T09:23:46Z"),
            ("now+1d", "2026-11-22T06:53:46Z"),
            ("tomorrow 14:00", "2026-11-22T13:00:00Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text).unwrap().time(NOW).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn a_local_time_says_what_it_was_read_as() {
        let reading = |text: &str| match read(text).unwrap() {
            InstantArg::At { reading, .. } => reading,
            InstantArg::FromNow(_) => None,
        };
        let expected = "tomorrow 14:00 is Sun 2026-11-22 14:00 CET, 2026-11-22T13:00:00Z";
        assert_eq!(reading(" tomorrow 14:00").as_deref(), Some(expected));
        assert_eq!(reading("2026-11-21T10:00:00Z"), None);
        assert_eq!(reading("now+2h"), None);
    }

    #[test]
    fn a_window_is_told_on_the_clock_of_its_zone() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let window = |minutes: i64| local_window(NOW, Span::from_secs(minutes * 60), &zone);
        assert_eq!(window(60), "Sat 2026-11-21 07:53:45 to 08:53:45 CET");
        assert_eq!(window(1_440), "Sat 2026-11-21 07:53:45 to 2026-11-22 07:53:45 CET");
        let full = local_window(Time::from_us(0), Span::from_secs(3_600), &TimeZone::UTC);
        assert_eq!(full, "Thu 1970-01-01 00:00 to 01:00 UTC");
        assert_eq!(
            read("Mon 9:00 America/New_York").unwrap().zone().cloned(),
            TimeZone::get("America/New_York").ok()
        );
        assert_eq!(read("now+2h").unwrap().zone(), None);
    }

    #[test]
    fn the_past_is_so_long_ago_or_an_instant_before_now() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let past = |text: &str| PastInstant::read(text, NOW, &zone).map(|at| at.0.to_string());
        assert_eq!(past("-2h").unwrap(), "2026-11-21T04:53:45.250000Z");
        assert_eq!(past("today 7:00").unwrap(), "2026-11-21T06:00:00Z");
        assert_eq!(past("yesterday 9:00").unwrap(), "2026-11-20T08:00:00Z");
        assert!(past("yesterday").unwrap_err().contains("`yesterday 14:00`"));
        assert_eq!(past("2026-11-21T06:00:00Z").unwrap(), "2026-11-21T06:00:00Z");
        for (text, part) in [
            ("tomorrow 9:00", "has not passed"),
            ("2h", "-2h for two"),
            ("-soon", "allowed: a length"),
        ] {
            let said = past(text).unwrap_err();
            assert!(said.contains(part) && said.contains("allowed: "), "{text}: {said}");
        }
    }

    #[test]
    fn lengths_on_the_command_line_are_more_than_zero() {
        assert_eq!("1h30".parse(), Ok(Length(Span::from_secs(5_400))));
        for text in ["", "0s", "-1h", "1", "1000000000000000h"] {
            let said = text.parse::<Length>().unwrap_err();
            assert!(said.contains("allowed: a length"), "{text}: {said}");
        }
    }

    #[test]
    fn full_minutes_are_reached_from_below() {
        let minute = Span::from_secs(60);
        assert_eq!(next_full(minute, NOW).to_string(), "2026-11-21T06:54:00Z");
        assert_eq!(next_full(minute, next_full(minute, NOW)), next_full(minute, NOW));
    }
}
