//! Times on the clocks of whoever reads them: the zone of the machine or of TZ, or UTC with `--utc`.
//!
//! The zone stands once in the head of a table, so that a window is short: `11-28 14:00-15:00`, with the year where
//! it is not this one.

use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use coalloc_common::{Time, Window};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::kit::when::own_zone;

/// Are windows shown on the clock of this machine?
static OWN: AtomicBool = AtomicBool::new(false);

/// From now on, windows in sentences and tables without a zone of their own are shown in the zone of this machine. Until
/// then they are in UTC, so that a test sees the same text everywhere.
pub fn use_own() {
    OWN.store(true, Ordering::Relaxed);
}

/// The zone in which windows are shown.
#[must_use]
pub fn shown() -> TimeZone {
    if OWN.load(Ordering::Relaxed) { own_zone() } else { TimeZone::UTC }
}

/// In which zone times are shown.
#[derive(Debug, Clone, Default, Args)]
pub struct ZoneArgs {
    /// Show times in UTC instead of the local zone
    #[arg(long)]
    utc: bool,
}

impl ZoneArgs {
    /// The clock that the flag asks for, at `now`.
    #[must_use]
    pub fn clock(&self, now: Time) -> ZoneClock {
        ZoneClock::new(if self.utc { TimeZone::UTC } else { own_zone() }, now)
    }
}

/// The clock of a zone.
#[derive(Debug, Clone)]
pub struct ZoneClock {
    zone: TimeZone,
    /// When the command was started; its year need not be said.
    now: Time,
}

impl ZoneClock {
    /// The clock of this zone, at `now`.
    #[must_use]
    pub const fn new(zone: TimeZone, now: Time) -> Self {
        Self { zone, now }
    }

    /// The zone in a word: `CET` where all these times have one offset, otherwise its name, `Europe/Berlin`.
    #[must_use]
    pub fn name(&self, times: impl IntoIterator<Item = Time>) -> String {
        let abbreviation = |time| self.show(time, "%Z");
        let mut times = times.into_iter();
        let first = abbreviation(times.next().unwrap_or(self.now));
        if times.all(|time| abbreviation(time) == first) {
            return first;
        }
        self.zone.iana_name().unwrap_or("local time").to_owned()
    }

    /// The start of the hour that has this instant.
    #[must_use]
    pub fn full_hour(&self, time: Time) -> Time {
        let hour = self
            .zoned(time)
            .and_then(|at| at.with().minute(0).second(0).subsec_nanosecond(0).build().ok());
        hour.map_or(time, |at| Time::from_us(at.timestamp().as_microsecond()))
    }

    /// An instant to the minute: `11-28 14:00`.
    #[must_use]
    pub fn minute(&self, time: Time) -> String {
        let year = |time| self.show(time, "%Y");
        let format = if year(time) == year(self.now) { "%m-%d %H:%M" } else { "%Y-%m-%d %H:%M" };
        self.show(time, format)
    }

    /// The time of day, `14:00`.
    #[must_use]
    pub fn time_of_day(&self, time: Time) -> String {
        self.show(time, "%H:%M")
    }

    /// The day, `11-28`.
    #[must_use]
    pub fn day(&self, time: Time) -> String {
        self.show(time, "%m-%d")
    }

    /// An instant in full: `2026-11-28 14:00:05`.
    #[must_use]
    pub fn exact(&self, time: Time) -> String {
        self.show(time, "%Y-%m-%d %H:%M:%S")
    }

    /// A window to the minute: `11-28 14:00-15:00`, or `11-28 23:00 to 11-29 01:00`; with seconds if it is within
    /// one minute.
    #[must_use]
    pub fn window(&self, window: Window) -> String {
        let (start, end) = (self.minute(window.start()), self.minute(window.end()));
        if start == end {
            let (from, to) =
                (self.show(window.start(), "%H:%M:%S"), self.show(window.end(), "%H:%M:%S"));
            return format!("{} {from}-{to}", self.day(window.start()));
        }
        match (start.rsplit_once(' '), end.rsplit_once(' ')) {
            (Some((one, _)), Some((other, time))) if one == other => format!("{start}-{time}"),
            _ => format!("{start} to {end}"),
        }
    }

    /// A window in full: `2026-11-28 14:00:05 to 2026-11-28 15:00:05`.
    #[must_use]
    pub fn exact_window(&self, window: Window) -> String {
        format!("{} to {}", self.exact(window.start()), self.exact(window.end()))
    }

    fn show(&self, time: Time, format: &str) -> String {
        self.zoned(time).map_or_else(|| "-".to_owned(), |at| at.strftime(format).to_string())
    }

    fn zoned(&self, time: Time) -> Option<Zoned> {
        let at = Timestamp::from_microsecond(time.as_us()).ok()?;
        Some(at.to_zoned(self.zone.clone()))
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::Span;

    use super::*;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    #[test]
    fn windows_are_short_and_name_a_year_only_if_it_is_another_one() {
        let clock = ZoneClock::new(TimeZone::get("Europe/Berlin").unwrap(), NOON);
        let hours = |from: i64, length: i64| {
            let start = NOON.saturating_add(Span::from_secs(from * 3_600));
            Window::starting(start, Span::from_secs(length * 3_600)).unwrap()
        };
        let cases = [
            (0, 1, "11-21 13:00-14:00"),
            (10, 2, "11-21 23:00 to 11-22 01:00"),
            (24 * 60, 1, "2027-01-20 13:00-14:00"),
        ];
        for (from, length, expected) in cases {
            assert_eq!(clock.window(hours(from, length)), expected);
        }
        let exact = "2026-11-21 13:00:00 to 2026-11-21 14:00:00";
        assert_eq!(clock.exact_window(hours(0, 1)), exact);
        let past = NOON.saturating_add(Span::from_secs(1_805));
        assert_eq!(clock.full_hour(past), NOON);
    }

    #[test]
    fn the_zone_is_one_word_unless_clocks_are_changed_in_between() {
        let clock = ZoneClock::new(TimeZone::get("Europe/Berlin").unwrap(), NOON);
        let summer = NOON.saturating_add(Span::from_secs(200 * 86_400));
        assert_eq!(clock.name([NOON, NOON]), "CET");
        assert_eq!(clock.name([NOON, summer]), "Europe/Berlin");
        assert_eq!(ZoneClock::new(TimeZone::UTC, NOON).name([NOON, summer]), "UTC");
    }
}
