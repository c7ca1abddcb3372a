//! A rate as the value of a field in a file: a number in bit/s, as canonical JSON has it, or a text with a unit.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::amount::rate;

/// A field whose unit is bit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateField(pub u64);

impl<'de> Deserialize<'de> for RateField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RateVisitor)
    }
}

struct RateVisitor;

impl Visitor<'_> for RateVisitor {
    type Value = RateField;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a whole number of bit/s from 0 on, or a rate with its unit, like 10G or 400 Mbit/s",
        )
    }

    fn visit_u64<E: Error>(self, bps: u64) -> Result<RateField, E> {
        Ok(RateField(bps))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<RateField, E> {
        let bps = u64::try_from(number);
        bps.map(RateField).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RateField, E> {
        // Canonical JSON writes 64-bit numbers as texts without a unit.
        match text.parse() {
            Ok(bps) => Ok(RateField(bps)),
            Err(_) => rate(text).map(RateField).map_err(E::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_a_rate_is_a_number_or_a_text() {
        let read = |json: &str| serde_json::from_str(json).map(|RateField(bps)| bps);
        for (json, bps) in [("7", 7), ("\"1000\"", 1_000), ("\"10G\"", 10_000_000_000)] {
            assert_eq!(read(json).unwrap(), bps, "{json}");
        }
        for json in ["-1", "1.5", "true", "null", "[4]", "\"fast\"", "\"2.5\"", "\"400 MB/s\""] {
            let said = read(json).unwrap_err().to_string();
            assert!(said.contains("10G"), "{json}: {said}");
        }
    }
}
