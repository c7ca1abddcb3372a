//! Prices by the time of day (Takefusa 2010, section 3.4, option b): unit price x amount x duration.
//!
//! A schedule divides the local day into bands, each with a price for one unit (a CPU, a Gbit/s) and
//! one hour. The price of an amount over a window is the sum over the pieces into which the bands
//! divide the window. The arithmetic is in exact integers and is rounded up once, at the very end.
//!
//! Left out: weekdays, holidays and daylight saving time. Local time is UTC plus a fixed offset.

use crate::invalid::{InvalidField, check_range};
use crate::limits;
use crate::time::{Time, Window};

const MINUTE_US: i64 = 60_000_000;
const HOUR_US: u128 = 3_600_000_000;
const DAY_MINUTES: u32 = 24 * 60;
const DAY_US: i64 = DAY_MINUTES as i64 * MINUTE_US;

/// One band of a day, as it was written in a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BandText<'a> {
    /// Start of the band, `HH:MM`, included.
    pub from: &'a str,
    /// End of the band, `HH:MM`, excluded; up to `24:00`.
    pub to: &'a str,
    /// Thousandths of a point for one unit and one hour, at most [`limits::UNIT_PRICE_MAX`].
    pub unit_price: u64,
}

/// The price of one unit by the time of day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceSchedule {
    /// Local time minus UTC, in minutes.
    offset_minutes: i32,
    /// For each band the first minute after it and its price in milli-points per unit and hour. The
    /// last band ends at 24:00.
    bands: Vec<(u32, u64)>,
}

impl PriceSchedule {
    /// Checks a schedule: an offset (`+09:00`, or empty for UTC), and bands that begin at 00:00, end
    /// at 24:00 and neither overlap nor leave a gap.
    ///
    /// # Errors
    /// [`InvalidField`] with the field within the schedule: `bands[2].from`.
    pub fn parse(utc_offset: &str, bands: &[BandText<'_>]) -> Result<Self, InvalidField> {
        let offset_minutes = parse_offset(utc_offset)?;
        if bands.is_empty() || bands.len() > limits::PRICE_BANDS_MAX {
            let allowed = format!("1 to {} bands", limits::PRICE_BANDS_MAX);
            return Err(InvalidField::new("bands", bands.len(), allowed));
        }
        let mut ends = Vec::with_capacity(bands.len());
        let mut end = 0;
        for (index, band) in bands.iter().enumerate() {
            let field = |name: &str| format!("bands[{index}].{name}");
            let from = parse_minute(&field("from"), band.from)?;
            let to = parse_minute(&field("to"), band.to)?;
            check_joint(&field("from"), band.from, from, end, index)?;
            if to <= from {
                let allowed = format!("later than from, {}", band.from);
                return Err(InvalidField::new(field("to"), band.to, allowed));
            }
            let price_field = field("unit_price_millipoints");
            let unit = "thousandths of a point";
            check_range(&price_field, band.unit_price, 0..=limits::UNIT_PRICE_MAX, unit)?;
            ends.push((to, band.unit_price));
            end = to;
        }
        if end != DAY_MINUTES {
            let last = bands.len() - 1;
            let allowed = format!(
                "24:00 for the last band: the day has no price from {} on",
                clock_text(end)
            );
            return Err(InvalidField::new(format!("bands[{last}].to"), clock_text(end), allowed));
        }
        Ok(Self { offset_minutes, bands: ends })
    }

    /// The price of one unit over the window, in milli-points per hour times microseconds: exact.
    #[must_use]
    pub fn unit_price_us(&self, window: Window) -> u128 {
        // `until` never decreases with time, so the difference is not negative.
        (self.until(window.end()) - self.until(window.start())).unsigned_abs()
    }

    /// The price of `amount` units over the window, in milli-points, rounded up.
    #[must_use]
    pub fn price(&self, amount: u64, window: Window) -> u64 {
        millipoints(u128::from(amount) * self.unit_price_us(window))
    }

    /// The price of one unit from local midnight of 1970-01-01 to `time`; negative before that
    /// midnight.
    fn until(&self, time: Time) -> i128 {
        let local = time.as_us().saturating_add(i64::from(self.offset_minutes) * MINUTE_US);
        let (days, rest) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
        i128::from(days) * self.within_day(DAY_US) + self.within_day(rest)
    }

    /// The price of one unit from midnight to this many microseconds after it.
    fn within_day(&self, us: i64) -> i128 {
        let (mut begin, mut sum) = (0, 0);
        for (end, price) in &self.bands {
            let end = i64::from(*end) * MINUTE_US;
            sum += i128::from(*price) * i128::from(us.min(end) - begin);
            begin = end;
            if us <= end {
                break;
            }
        }
        sum
    }
}

/// Converts a price in milli-points per hour times microseconds to milli-points, rounded up.
#[must_use]
pub fn millipoints(price_us: u128) -> u64 {
    u64::try_from(price_us.div_ceil(HOUR_US)).unwrap_or(u64::MAX)
}

/// A band must begin where the band before it ends, and the first band at 00:00.
fn check_joint(
    field: &str,
    text: &str,
    from: u32,
    end: u32,
    index: usize,
) -> Result<(), InvalidField> {
    if from == end {
        return Ok(());
    }
    let expected = clock_text(end);
    let allowed = if index == 0 {
        "00:00: the bands of a day begin at midnight".to_owned()
    } else if from > end {
        format!(
            "{expected}, where the band before it ends: from {expected} to {text} there is no price"
        )
    } else {
        format!("{expected}, where the band before it ends: the two overlap, or are out of order")
    };
    Err(InvalidField::new(field, text, allowed))
}

fn clock_text(minute: u32) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

/// `HH:MM` as minutes after midnight.
fn parse_clock(text: &str) -> Option<u32> {
    let digits = |part: &str| {
        (part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit())).then(|| part.parse().ok())?
    };
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes): (u32, u32) = (digits(hours)?, digits(minutes)?);
    (minutes < 60).then_some(hours * 60 + minutes)
}

fn parse_minute(field: &str, text: &str) -> Result<u32, InvalidField> {
    parse_clock(text).filter(|minute| *minute <= DAY_MINUTES).ok_or_else(|| {
        InvalidField::new(field, InvalidField::quoted(text), "HH:MM from 00:00 to 24:00")
    })
}

/// The furthest that local time is from UTC anywhere: 14 hours.
const OFFSET_MAX_MINUTES: u32 = 14 * 60;

fn parse_offset(text: &str) -> Result<i32, InvalidField> {
    if text.is_empty() || text == "Z" {
        return Ok(0);
    }
    let signed = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => Some((1, rest)),
        (_, Some(rest)) => Some((-1, rest)),
        _ => None,
    };
    let minutes = signed.and_then(|(sign, rest)| Some((sign, parse_clock(rest)?)));
    match minutes {
        // At most 840.
        Some((sign, minutes)) if minutes <= OFFSET_MAX_MINUTES => Ok(sign * minutes as i32),
        _ => {
            let allowed = "+HH:MM or -HH:MM, at most 14 hours; empty for UTC";
            Err(InvalidField::new("utc_offset", InvalidField::quoted(text), allowed))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Span;

    fn band<'a>(from: &'a str, to: &'a str, unit_price: u64) -> BandText<'a> {
        BandText { from, to, unit_price }
    }

    fn day_and_night() -> PriceSchedule {
        let bands = [
            band("00:00", "08:00", 500),
            band("08:00", "20:00", 2_000),
            band("20:00", "24:00", 500),
        ];
        PriceSchedule::parse("", &bands).unwrap()
    }

    fn window(start_h: i64, hours: i64) -> Window {
        let start = Time::from_us(start_h * 3_600_000_000);
        Window::starting(start, Span::from_secs(hours * 3_600)).unwrap()
    }

    #[test]
    fn a_window_costs_the_sum_of_its_pieces_rounded_up_once() {
        let schedule = day_and_night();
        assert_eq!(schedule.price(1, window(10, 1)), 2_000);
        assert_eq!(schedule.price(3, window(7, 2)), 3 * 2_500);
        assert_eq!(schedule.price(1, window(0, 24)), 8 * 500 + 12 * 2_000 + 4 * 500);
        assert_eq!(schedule.price(2, window(19, 24 * 7 + 2)), 2 * (7 * 30_000 + 2_500));
        let second = Window::starting(Time::from_us(0), Span::from_us(1)).unwrap();
        assert_eq!(schedule.price(1, second), 1, "what is not free costs something");
        assert_eq!(schedule.price(0, second), 0);
    }

    #[test]
    fn local_time_is_utc_plus_the_offset() {
        let bands = [band("00:00", "12:00", 0), band("12:00", "24:00", 1_000)];
        let tokyo = PriceSchedule::parse("+09:00", &bands).unwrap();
        assert_eq!(tokyo.price(1, window(3, 12)), 12_000, "noon in Tokyo is 03:00 UTC");
        let west = PriceSchedule::parse("-03:30", &bands).unwrap();
        let noon = Window::starting(Time::from_us(930 * MINUTE_US), Span::from_secs(60)).unwrap();
        assert_eq!(west.price(60, noon), 1_000, "noon is 15:30 UTC");
    }

    #[test]
    fn holes_overlaps_and_nonsense_are_named() {
        let cases: &[(&str, &[BandText<'_>], &str, &str)] = &[
            ("", &[], "bands", "1 to 96"),
            ("9", &[band("00:00", "24:00", 0)], "utc_offset", "+HH:MM"),
            ("+15:00", &[band("00:00", "24:00", 0)], "utc_offset", "14 hours"),
            ("", &[band("01:00", "24:00", 0)], "bands[0].from", "midnight"),
            ("", &[band("00:00", "23:00", 0)], "bands[0].to", "no price from 23:00 on"),
            ("", &[band("00:00", "24:01", 0)], "bands[0].to", "24:00"),
            ("", &[band("0:00", "24:00", 0)], "bands[0].from", "HH:MM"),
            ("", &[band("00:00", "08:60", 0)], "bands[0].to", "HH:MM"),
            ("", &[band("00:00", "08:00", 0), band("08:00", "08:00", 0)], "bands[1].to", "later"),
            (
                "",
                &[band("00:00", "08:00", 0), band("09:00", "24:00", 0)],
                "bands[1].from",
                "from 08:00 to 09:00 there is no price",
            ),
            (
                "",
                &[band("00:00", "08:00", 0), band("07:00", "24:00", 0)],
                "bands[1].from",
                "overlap",
            ),
            (
                "",
                &[band("00:00", "24:00", limits::UNIT_PRICE_MAX + 1)],
                "bands[0].unit_price_millipoints",
                "0 to 1000000000",
            ),
        ];
        for (offset, bands, field, allowed) in cases {
            let error = PriceSchedule::parse(offset, bands).unwrap_err();
            assert_eq!(error.field, *field, "{error}");
            assert!(error.allowed.contains(allowed), "{error}");
        }
    }

    /// A schedule made from cuts (minutes) and prices, and the same as one price per minute of the
    /// day.
    fn schedules() -> impl Strategy<Value = (PriceSchedule, Vec<u64>)> {
        let cuts = proptest::collection::btree_set(1..DAY_MINUTES, 0..8);
        (cuts, proptest::collection::vec(0..=5_000u64, 8), -840..=840i32).prop_map(
            |(cuts, prices, offset_minutes)| {
                let ends: Vec<u32> = cuts.into_iter().chain([DAY_MINUTES]).collect();
                let bands: Vec<(u32, u64)> = ends.into_iter().zip(prices).collect();
                let by_minute = (0..DAY_MINUTES as i32)
                    .map(|utc| {
                        let local = (utc + offset_minutes).rem_euclid(DAY_MINUTES as i32) as u32;
                        bands.iter().find(|(end, _)| local < *end).unwrap().1
                    })
                    .collect();
                (PriceSchedule { offset_minutes, bands }, by_minute)
            },
        )
    }

    proptest! {
        #[test]
        fn a_price_is_what_counting_minute_by_minute_gives(
            (schedule, by_minute) in schedules(),
            start in 0..5 * DAY_MINUTES as usize,
            minutes in 1..3 * DAY_MINUTES as usize,
            amount in 0..1_000u64,
        ) {
            let at = |minute: usize| Time::from_us(minute as i64 * MINUTE_US);
            let window = Window::new(at(start), at(start + minutes)).unwrap();
            let sum: u64 = (start..start + minutes).map(|m| by_minute[m % by_minute.len()]).sum();
            prop_assert_eq!(schedule.price(amount, window), (amount * sum).div_ceil(60));
        }

        #[test]
        fn a_window_costs_what_its_parts_cost(
            (schedule, _) in schedules(),
            start in 0..1i64 << 53,
            lengths in (1..1i64 << 44, 1..1i64 << 44),
        ) {
            let at = |us: i64| Time::from_us(start + us);
            let (middle, end) = (lengths.0, lengths.0 + lengths.1);
            let part = |a, b| schedule.unit_price_us(Window::new(at(a), at(b)).unwrap());
            prop_assert_eq!(part(0, end), part(0, middle) + part(middle, end));
        }
    }
}
