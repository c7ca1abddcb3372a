//! When a request that repeats begins: daily or weekly at the same time of the clock, or after the same length.

use std::str::FromStr;

use coalloc_common::suggest::did_you_mean;
use coalloc_common::{Span, Time};
use jiff::{Timestamp, ToSpan as _};

use crate::kit::when::{Length, TimeZone};

/// How a request repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recurrence {
    /// Each day at the same time of the clock.
    Daily,
    /// Each week at the same time of the clock.
    Weekly,
    /// Again after this length, whatever the clock does.
    Every(Span),
}

impl FromStr for Recurrence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "daily" => Ok(Self::Daily),
            "weekly" => Ok(Self::Weekly),
            text => match text.parse() {
                Ok(Length(length)) => Ok(Self::Every(length)),
                Err(said) => {
                    let guess = did_you_mean(text, ["daily", "weekly"]);
                    Err(format!("{said}; or daily, or weekly{guess}"))
                }
            },
        }
    }
}

impl Recurrence {
    /// The starts of so many occurrences, of which the first begins at `first`. Days and weeks are counted on the clock of
    /// `zone`: a time of the clock that daylight saving leaves out becomes the one that is an hour later.
    ///
    /// # Errors
    /// When one of them is beyond the calendar.
    pub fn starts(self, first: Time, count: u32, zone: &TimeZone) -> Result<Vec<Time>, String> {
        let after = |days: i64| {
            let first = Timestamp::from_microsecond(first.as_us())?.to_zoned(zone.clone());
            let start = first.checked_add(days.days())?;
            Ok(Time::from_us(start.timestamp().as_microsecond()))
        };
        let start = |number: u32| {
            let number = i64::from(number);
            match self {
                Self::Daily => after(number),
                Self::Weekly => after(7 * number),
                Self::Every(length) => {
                    let later = Span::from_us(length.as_us().saturating_mul(number));
                    Ok(first.saturating_add(later))
                }
            }
        };
        let starts = (0..count).map(start).collect::<Result<_, jiff::Error>>();
        starts.map_err(|error| format!("an occurrence is beyond the calendar: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(of: &str, first: &str, count: u32) -> Vec<String> {
        let first: Timestamp = first.parse().unwrap();
        let first = Time::from_us(first.as_microsecond());
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let starts = of.parse::<Recurrence>().unwrap().starts(first, count, &zone).unwrap();
        starts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn weekly_is_the_same_time_of_the_clock_when_summer_begins_and_ends() {
        // 9:00 in Berlin is 8:00 UTC until 2027-03-28, and 7:00 UTC from then on.
        assert_eq!(
            starts("weekly", "2027-03-22T08:00:00Z", 2),
            ["2027-03-22T08:00:00Z", "2027-03-29T07:00:00Z"]
        );
        assert_eq!(
            starts("weekly", "2026-10-19T07:00:00Z", 2),
            ["2026-10-19T07:00:00Z", "2026-10-26T08:00:00Z"]
        );
        assert_eq!(
            starts("7d", "2027-03-22T08:00:00Z", 2),
            ["2027-03-22T08:00:00Z", "2027-03-29T08:00:00Z"]
        );
    }

    #[test]
    fn a_time_that_the_clock_leaves_out_is_an_hour_later_on_that_day_only() {
        assert_eq!(
            starts("daily", "2027-03-27T01:30:00Z", 3),
            ["2027-03-27T01:30:00Z", "2027-03-28T01:30:00Z", "2027-03-29T00:30:00Z"]
        );
    }

    #[test]
    fn what_is_no_recurrence_is_refused_with_what_is() {
        for text in ["monthly", "0s", "", "-1d"] {
            let said = text.parse::<Recurrence>().unwrap_err();
            assert!(said.ends_with("or daily, or weekly"), "{text}: {said}");
        }
    }
}
