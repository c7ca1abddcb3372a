//! `google.protobuf.Timestamp` and `Duration` with their canonical JSON: RFC 3339 in UTC ending in `Z`, and
//! decimal seconds ending in `s`, each with 0, 3, 6 or 9 digits after the decimal point.
//!
//! A length of time is also read as people write it, `1h30` or `90 min`, and an instant as `2026-11-24 14:00
//! Europe/Berlin`. What depends on the clock or the zone of whoever reads it, like `tomorrow 14:00`, is for command lines.
//!
//! These types are our own, because the crates that have them write `+00:00` where the mapping says `Z`, or
//! have no JSON at all. The calendar is jiff's. Source: the comments of `timestamp.proto` and
//! `duration.proto`.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::notation;

/// An instant: seconds and nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Timestamp {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// 0 to 999,999,999; always counted forwards from `seconds`.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// A length of time: seconds and nanoseconds, both of the same sign.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Duration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// -999,999,999 to 999,999,999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// The decimal point and 3, 6 or 9 digits, or nothing for 0.
fn fraction(nanos: u32) -> String {
    match nanos {
        0 => String::new(),
        n if n.is_multiple_of(1_000_000) => format!(".{:03}", n / 1_000_000),
        n if n.is_multiple_of(1_000) => format!(".{:06}", n / 1_000),
        n => format!(".{n:09}"),
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error as _;
        let whole = jiff::Timestamp::from_second(self.seconds).map_err(S::Error::custom)?;
        let nanos = u32::try_from(self.nanos).map_err(S::Error::custom)?;
        let text = format!("{}{}Z", whole.strftime("%Y-%m-%dT%H:%M:%S"), fraction(nanos));
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "an instant, like 2026-11-21T10:00:00Z";
        deserializer.deserialize_str(Text { expected, parse: parse_timestamp })
    }
}

fn parse_timestamp(text: &str) -> Result<Timestamp, String> {
    let allowed = "allowed: 2026-11-24T13:00:00Z or `2026-11-24 14:00 Europe/Berlin`";
    let read = notation::Instant::read(text);
    let read = read.map_err(|_| format!("`{text}` is not allowed; {allowed}"))?;
    let instant = read.fixed()?.ok_or_else(|| {
        format!("`{text}` means another instant whenever and wherever it is read; {allowed}")
    })?;
    let (mut seconds, mut nanos) = (instant.as_second(), instant.subsec_nanosecond());
    if nanos < 0 {
        (seconds, nanos) = (seconds - 1, nanos + 1_000_000_000);
    }
    Ok(Timestamp { seconds, nanos })
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sign = if self.seconds < 0 || self.nanos < 0 { "-" } else { "" };
        let (whole, part) = (self.seconds.unsigned_abs(), fraction(self.nanos.unsigned_abs()));
        serializer.serialize_str(&format!("{sign}{whole}{part}s"))
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a length of time, like 1h30, 90 min or 3600s";
        deserializer.deserialize_str(Text { expected, parse: parse_duration })
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Some(duration) = canonical_duration(text) {
        return Ok(duration);
    }
    let length = notation::span(text)?;
    Ok(Duration { seconds: length.as_secs(), nanos: length.subsec_nanos() })
}

fn canonical_duration(text: &str) -> Option<Duration> {
    let number = text.strip_suffix('s')?;
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let nanos: i32 = format!("{part:0<9}").parse().ok()?;
    let sign = if negative { -1 } else { 1 };
    Some(Duration { seconds: sign * seconds, nanos: (sign as i32) * nanos })
}

/// Deserializes a value from its text.
struct Text<T> {
    expected: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_canonical_and_read_in_any_zone() {
        let cases = [
            (0, 0, "1970-01-01T00:00:00Z"),
            (1_795_219_200, 500_000_000, "2026-11-21T00:00:00.500Z"),
            (1_795_219_200, 1_000, "2026-11-21T00:00:00.000001Z"),
            (-1, 1, "1969-12-31T23:59:59.000000001Z"),
        ];
        for (seconds, nanos, text) in cases {
            let instant = Timestamp { seconds, nanos };
            assert_eq!(serde_json::to_value(instant).unwrap(), text);
            assert_eq!(serde_json::from_value::<Timestamp>(text.into()).unwrap(), instant);
        }
        let zoned: Timestamp = serde_json::from_str("\"2026-11-21T09:00:00+09:00\"").unwrap();
        assert_eq!(zoned.seconds, 1_795_219_200);
        let named: Timestamp = serde_json::from_str("\"2026-11-21 09:00 Asia/Tokyo\"").unwrap();
        assert_eq!(named, zoned);
        let said = |text: &str| serde_json::from_value::<Timestamp>(text.into()).unwrap_err();
        for (text, expected) in [
            ("noon", "`noon` is not allowed; allowed: 2026-11-24T13:00:00Z or"),
            (
                "tomorrow 14:00",
                "`tomorrow 14:00` means another instant whenever and wherever it is read",
            ),
            ("2026-11-21 09:00", "means another instant"),
            ("2026-03-29 02:30 Europe/Berlin", "does not exist"),
        ] {
            assert!(said(text).to_string().contains(expected), "{text}: {}", said(text));
        }
    }

    #[test]
    fn lengths_are_canonical() {
        let cases = [
            (3_600, 0, "3600s"),
            (0, 5_000_000, "0.005s"),
            (1, 100, "1.000000100s"),
            (-1, -500_000_000, "-1.500s"),
        ];
        for (seconds, nanos, text) in cases {
            let length = Duration { seconds, nanos };
            assert_eq!(serde_json::to_value(length).unwrap(), text);
            assert_eq!(serde_json::from_value::<Duration>(text.into()).unwrap(), length);
        }
        for (text, seconds) in [("1h30", 5_400), ("90 min", 5_400), ("1d", 86_400)] {
            let length = serde_json::from_value::<Duration>(text.into()).unwrap();
            assert_eq!((length.seconds, length.nanos), (seconds, 0), "{text}");
        }
        for bad in ["", "s", "1", "1.s5", "1e3s", "0.1234567890s", "one s", "--1s", "1h5"] {
            let error = serde_json::from_value::<Duration>(bad.into()).unwrap_err().to_string();
            assert!(error.contains("allowed: a length"), "{bad}: {error}");
        }
    }
}
