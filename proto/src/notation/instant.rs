//! Instants: RFC 3339, from now on (`now+2h`, `+2h`), and local times (`tomorrow 14:00`, `2026-11-24 14:00`,
//! `Mon 9:00 Europe/Berlin`).
//!
//! A text is first read ([`Instant::read`]), and later resolved for a now and a zone ([`Instant::resolve`]). A local
//! time that does not exist, happens twice, or could be of two days is refused with both readings.

use coalloc_common::suggest::did_you_mean;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

use super::span::span;

/// What an instant may look like.
const ALLOWED: &str = "allowed: an instant like `tomorrow 14:00`, `Mon 9:00 Europe/Berlin`, `2026-11-24 14:00`, \
                       2026-11-24T13:00:00Z, `now` or `now+2h30m`";

/// The days of the week; the first three letters are enough.
const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// The words for days.
const DAYS: [&str; 10] = [
    "yesterday",
    "today",
    "tomorrow",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// An instant as it was written.
#[derive(Debug, Clone, PartialEq)]
pub enum Instant {
    /// This very instant.
    At(Timestamp),
    /// This long after now.
    FromNow(SignedDuration),
    /// A time of some day, in a zone.
    Local(LocalTime),
}

/// A time on the clocks of a zone.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalTime {
    day: Day,
    time: Time,
    /// Unset: the local zone.
    zone: Option<TimeZone>,
    /// The time, and the zone behind it, as they were written.
    written: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Day {
    Unset,
    Yesterday,
    Today,
    Tomorrow,
    OfWeek(Weekday),
    Date(Date),
}

impl Instant {
    /// Reads an instant.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is allowed.
    pub fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        let from_now =
            text.strip_prefix("now").map(str::trim).or(text.starts_with('+').then_some(text));
        match from_now {
            Some("") => return Ok(Self::FromNow(SignedDuration::ZERO)),
            Some(rest) => {
                let length = rest.strip_prefix('+').ok_or(ALLOWED)?;
                return span(length)
                    .map(Self::FromNow)
                    .map_err(|problem| format!("after `now+`: {problem}"));
            }
            None => {}
        }
        // `2026-11-24T14:00` is `2026-11-24 14:00`.
        let parted = text.split_once('T').filter(|(date, _)| date.parse::<Date>().is_ok());
        let parted = parted.map(|(date, rest)| format!("{date} {rest}"));
        let words: Vec<&str> = parted.as_deref().unwrap_or(text).split_whitespace().collect();
        if let Some(first) = words.first().filter(|first| looks_like_date(first))
            && first.parse::<Date>().is_err()
        {
            return Err(format!("there is no day `{first}`; {ALLOWED}"));
        }
        let (day, rest) = match words.split_first() {
            Some((first, rest)) => day(first).map_or((Day::Unset, &words[..]), |day| (day, rest)),
            None => return Err(ALLOWED.to_owned()),
        };
        let (clock, zone) = match rest {
            [] => {
                return Err(format!("`{text}` lacks the time of day: `{text} 14:00`; {ALLOWED}"));
            }
            [clock] => (*clock, None),
            [clock, zone] => (*clock, Some(*zone)),
            _ => return Err(ALLOWED.to_owned()),
        };
        let time = time_of_day(clock)?;
        let zone = zone.map(zone_of).transpose()?;
        Ok(Self::Local(LocalTime { day, time, zone, written: rest.join(" ") }))
    }

    /// The instant that is meant whenever and wherever the text is read; `None` if that depends on a clock or on the local
    /// zone.
    ///
    /// # Errors
    /// As [`Instant::resolve`].
    pub fn fixed(&self) -> Result<Option<Timestamp>, String> {
        match self {
            Self::At(at) => Ok(Some(*at)),
            Self::Local(LocalTime { day: Day::Date(date), zone: Some(zone), time, .. }) => {
                on(*date, *time, zone).map(|at| Some(at.timestamp()))
            }
            Self::FromNow(_) | Self::Local(_) => Ok(None),
        }
    }

    /// The instant that is meant at `now` where the local zone is `local`. A local time comes with its zone, so that
    /// it can be shown to whoever wrote it.
    ///
    /// # Errors
    /// A sentence with both readings, if the text can mean two instants or none.
    pub fn resolve(
        &self,
        now: Timestamp,
        local: &TimeZone,
    ) -> Result<(Timestamp, Option<Zoned>), String> {
        match self {
            Self::At(at) => Ok((*at, None)),
            Self::FromNow(length) => {
                Ok((now.saturating_add(*length).map_err(|e| e.to_string())?, None))
            }
            Self::Local(time) => {
                let zoned = time.resolve(now, local)?;
                Ok((zoned.timestamp(), Some(zoned)))
            }
        }
    }
}

impl LocalTime {
    fn resolve(&self, now: Timestamp, local: &TimeZone) -> Result<Zoned, String> {
        let zone = self.zone.as_ref().unwrap_or(local);
        let today = now.to_zoned(zone.clone()).date();
        let ahead = |days: i64| today.saturating_add(days.days());
        match self.day {
            Day::Yesterday => self.on(ahead(-1), zone),
            Day::Today => self.on(today, zone),
            Day::Tomorrow => self.on(ahead(1), zone),
            Day::Date(date) => self.on(date, zone),
            Day::Unset => {
                let first = self.on(today, zone)?;
                if first.timestamp() > now {
                    return Ok(first);
                }
                let second = self.on(ahead(1), zone)?;
                let words =
                    [format!("today {}", self.written), format!("tomorrow {}", self.written)];
                Err(passed(&self.written, [(&words[0], &first), (&words[1], &second)]))
            }
            Day::OfWeek(weekday) => {
                let days = i64::from(today.weekday().until(weekday));
                let first = self.on(ahead(days), zone)?;
                if first.timestamp() > now {
                    return Ok(first);
                }
                let second = self.on(ahead(days + 7), zone)?;
                let words =
                    [first.date(), second.date()].map(|date| format!("{date} {}", self.written));
                Err(passed(&self.written, [(&words[0], &first), (&words[1], &second)]))
            }
        }
    }

    /// This time of day on a date.
    fn on(&self, date: Date, zone: &TimeZone) -> Result<Zoned, String> {
        on(date, self.time, zone)
    }
}

/// Is it written like a date, `2026-02-30`, whether there is such a date or not?
fn looks_like_date(word: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    word.split('-').count() == 3 && word.split('-').all(digits)
}

fn on(date: Date, time: Time, zone: &TimeZone) -> Result<Zoned, String> {
    let at = DateTime::from_parts(date, time);
    let ambiguous = zone.to_ambiguous_zoned(at);
    let (problem, readings) = match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => {
            return ambiguous.unambiguous().map_err(|error| format!("{error}; {ALLOWED}"));
        }
        AmbiguousOffset::Gap { before, after } => {
            ("does not exist, because clocks are put forward", [after, before])
        }
        AmbiguousOffset::Fold { before, after } => {
            ("happens twice, because clocks are put back", [before, after])
        }
    };
    let [first, second] = readings.map(|offset| reading(at, offset, zone));
    let name = zone.iana_name().map_or_else(String::new, |name| format!(" in {name}"));
    let at = at.strftime("%Y-%m-%d %H:%M");
    Err(format!("{at}{name} {problem}; allowed: {first} or {second}"))
}

/// An instant at a clock change, in a form that is read back and as local clocks show it.
fn reading(at: DateTime, offset: Offset, zone: &TimeZone) -> String {
    offset.to_timestamp(at).map_or_else(
        |error| error.to_string(),
        |at| format!("`{at}` ({})", at.to_zoned(zone.clone()).strftime("%H:%M %Z")),
    )
}

fn passed(written: &str, readings: [(&str, &Zoned); 2]) -> String {
    let [(first, first_at), (second, second_at)] = readings;
    let [first_at, second_at] = [first_at, second_at].map(show);
    format!("{written} has passed; allowed: `{first}` ({first_at}) or `{second}` ({second_at})")
}

/// A local time as people read it: `Tue 2026-11-24 14:00 CET`.
#[must_use]
pub fn show(at: &Zoned) -> String {
    let seconds = if at.second() == 0 { "" } else { ":%S" };
    at.strftime(&format!("%a %Y-%m-%d %H:%M{seconds} %Z")).to_string()
}

fn day(word: &str) -> Option<Day> {
    let folded = word.to_ascii_lowercase();
    match folded.as_str() {
        "yesterday" => return Some(Day::Yesterday),
        "today" => return Some(Day::Today),
        "tomorrow" => return Some(Day::Tomorrow),
        _ => {}
    }
    let is = |name: &str| folded == name || (folded.len() == 3 && name.starts_with(&folded));
    if let Some((_, weekday)) = WEEKDAYS.iter().find(|(name, _)| is(name)) {
        return Some(Day::OfWeek(*weekday));
    }
    // jiff reads a date in front of a time, too; here it stands alone.
    (word.len() == 10).then(|| word.parse().ok()).flatten().map(Day::Date)
}

fn time_of_day(word: &str) -> Result<Time, String> {
    let numbers: Option<Vec<i8>> = word.split(':').map(|part| part.parse().ok()).collect();
    let two = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let well_formed = word.split(':').skip(1).all(two) && !word.starts_with(['+', '-']);
    let time = match numbers.as_deref() {
        Some([hour, minute]) if well_formed => Time::new(*hour, *minute, 0, 0).ok(),
        Some([hour, minute, second]) if well_formed => Time::new(*hour, *minute, *second, 0).ok(),
        _ => None,
    };
    time.ok_or_else(|| {
        // A word is a day that is misspelled rather than a time.
        let guess = did_you_mean(&word.to_ascii_lowercase(), DAYS.iter().copied());
        format!(
            "`{word}` is no time of day: 0:00 to 23:59, like `9:00` or `14:30`; {ALLOWED}{guess}"
        )
    })
}

/// Reads a zone: a place like Europe/Berlin, UTC, or an offset like +01:00.
///
/// # Errors
/// A sentence that says what is wrong and what is allowed.
pub fn zone_of(word: &str) -> Result<TimeZone, String> {
    if ["UTC", "GMT", "Z"].contains(&word.to_ascii_uppercase().as_str()) {
        return Ok(TimeZone::UTC);
    }
    if word.starts_with(['+', '-'])
        && let Ok(at) = format!("1970-01-01T00:00:00{word}").parse::<Timestamp>()
        && let Ok(offset) = i32::try_from(-at.as_second())
            .map_err(|_| ())
            .and_then(|seconds| Offset::from_seconds(seconds).map_err(|_| ()))
    {
        return Ok(TimeZone::fixed(offset));
    }
    let allowed = "allowed: a place like Europe/Berlin, UTC, or an offset like +01:00";
    // Letters such as CST stand for several zones.
    if !word.contains('/') {
        return Err(format!("the zone `{word}` is not known, or has several meanings; {allowed}"));
    }
    TimeZone::get(word).map_err(|_| format!("the zone `{word}` is not known; {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Saturday.
    const NOW: &str = "2026-11-21T11:30:00Z";

    fn read(text: &str, zone: &str) -> Result<String, String> {
        let now = NOW.parse().unwrap();
        let zone = TimeZone::get(zone).unwrap();
        let (at, _) = Instant::read(text)?.resolve(now, &zone)?;
        Ok(at.to_string())
    }

    #[test]
    fn instants_are_read_for_a_now_and_a_zone() {
        let cases = [
            ("now", "2026-11-21T11:30:00Z"),
            ("now+2h", "2026-11-21T13:30:00Z"),
            ("now + 2h", "2026-11-21T13:30:00Z"),
            ("+2h", "2026-11-21T13:30:00Z"),
            ("+1h30", "2026-11-21T13:00:00Z"),
            ("now+1d", "2026-11-22T11:30:00Z"),
            ("2026-11-24T14:00:00Z", "2026-11-24T14:00:00Z"),
            ("2026-11-24T14:00:00+09:00", "2026-11-24T05:00:00Z"),
            ("2026-11-24 14:00:00.25Z", "2026-11-24T14:00:00.25Z"),
            ("today 18:00", "2026-11-21T17:00:00Z"),
            ("today 9:00", "2026-11-21T08:00:00Z"),
            ("tomorrow 14:00", "2026-11-22T13:00:00Z"),
            ("yesterday 14:00", "2026-11-20T13:00:00Z"),
            ("Tomorrow 14:00", "2026-11-22T13:00:00Z"),
            ("14:00", "2026-11-21T13:00:00Z"),
            ("14:00:30", "2026-11-21T13:00:30Z"),
            ("14:00 UTC", "2026-11-21T14:00:00Z"),
            ("2026-11-24 14:00", "2026-11-24T13:00:00Z"),
            ("2026-11-24T14:00", "2026-11-24T13:00:00Z"),
            ("2026-07-24 14:00", "2026-07-24T12:00:00Z"),
            ("2026-11-24 14:00 Asia/Tokyo", "2026-11-24T05:00:00Z"),
            ("2026-11-24 14:00 asia/tokyo", "2026-11-24T05:00:00Z"),
            ("2026-11-24 14:00 +09:00", "2026-11-24T05:00:00Z"),
            ("Mon 9:00", "2026-11-23T08:00:00Z"),
            ("monday 09:00", "2026-11-23T08:00:00Z"),
            ("Sat 13:00", "2026-11-21T12:00:00Z"),
            ("Fri 9:00", "2026-11-27T08:00:00Z"),
            ("Mon 9:00 America/New_York", "2026-11-23T14:00:00Z"),
            // In Auckland it is Sunday already.
            ("tomorrow 9:00 Pacific/Auckland", "2026-11-22T20:00:00Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text, "Europe/Berlin").as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_can_mean_two_instants_is_refused_with_both() {
        let cases = [
            (
                "12:00",
                "`today 12:00` (Sat 2026-11-21 12:00 CET) or `tomorrow 12:00` (Sun 2026-11-22 12:00 CET)",
            ),
            ("9:00 UTC", "`today 9:00 UTC` (Sat 2026-11-21 09:00 UTC) or `tomorrow 9:00 UTC`"),
            ("Sat 9:00", "`2026-11-21 9:00` (Sat 2026-11-21 09:00 CET) or `2026-11-28 9:00`"),
            (
                "2026-10-25 02:30",
                "happens twice, because clocks are put back; allowed: `2026-10-25T00:30:00Z` (02:30 CEST) or `2026-10-25T01:30:00Z` (02:30 CET)",
            ),
            (
                "2027-03-28 02:30",
                "does not exist, because clocks are put forward; allowed: `2027-03-28T00:30:00Z` (01:30 CET) or `2027-03-28T01:30:00Z` (03:30 CEST)",
            ),
            ("2026-11-01 01:30 America/New_York", "in America/New_York happens twice"),
        ];
        for (text, part) in cases {
            let said = read(text, "Europe/Berlin").unwrap_err();
            assert!(said.contains(part) && said.contains("allowed: "), "{text}: {said}");
        }
        // What is offered is read.
        for text in [
            "today 12:00",
            "tomorrow 12:00",
            "today 9:00 UTC",
            "2026-11-21 9:00",
            "2026-10-25T00:30:00Z",
        ] {
            assert!(read(text, "Europe/Berlin").is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_no_instant_is_answered_with_what_is() {
        let cases = [
            ("", "allowed: an instant"),
            ("soon", "`soon` is no time of day"),
            ("tomorrow", "lacks the time of day: `tomorrow 14:00`"),
            ("2026-11-21", "lacks the time of day"),
            ("Mon", "lacks the time of day"),
            ("now-2h", "allowed: an instant"),
            ("now 2h", "allowed: an instant"),
            ("now+", "allowed: a length"),
            ("now+-2h", "is negative"),
            ("now+2", "write `2min` or `2s`"),
            ("+soon", "allowed: a length"),
            ("24:00", "no time of day"),
            ("14:60", "no time of day"),
            ("14", "no time of day"),
            ("14:0", "no time of day"),
            ("-1:00", "no time of day"),
            ("9am", "no time of day"),
            ("14h00", "no time of day"),
            ("2026-13-01 14:00", "there is no day `2026-13-01`"),
            ("2026-02-30 14:00", "there is no day `2026-02-30`"),
            ("24.11.2026 14:00", "no time of day"),
            ("Mo 9:00", "no time of day"),
            ("tomorrow 14:00 CST", "the zone `CST` is not known, or has several meanings"),
            ("tomorrow 14:00 Europe/Atlantis", "the zone `Europe/Atlantis` is not known"),
            ("tomorrow 14:00 +99:00", "the zone `+99:00` is not known"),
            ("tomorrow 14:00 Europe/Berlin please", "allowed: an instant"),
        ];
        for (text, part) in cases {
            let said = read(text, "Europe/Berlin").unwrap_err();
            assert!(said.contains(part) && said.contains("allowed: "), "{text}: {said}");
        }
    }

    #[test]
    fn a_local_time_is_shown_with_its_zone() {
        let now = NOW.parse().unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let local = |text: &str| Instant::read(text).unwrap().resolve(now, &zone).unwrap().1;
        assert_eq!(show(&local("tomorrow 14:00").unwrap()), "Sun 2026-11-22 14:00 CET");
        let seconds = local("2026-11-24 14:00:05 Asia/Tokyo").unwrap();
        assert_eq!(show(&seconds), "Tue 2026-11-24 14:00:05 JST");
        assert_eq!(local("now+2h"), None);
    }
}
