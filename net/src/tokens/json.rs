//! JSON objects in which no name is given twice.
//!
//! Two readers of an object with two members of one name may believe different ones, and whoever signs a token may
//! have looked at the other one. `serde_json` keeps the last of them silently, so members are collected here. Left
//! out: objects within an object, which nobody here reads. Source: RFC 7519, section 4; RFC 8725, section 2.4.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use coalloc_common::{Time, limits};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// The members of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    members: BTreeMap<String, Value>,
    /// A name that is given more than once, if any is.
    repeated: Option<String>,
}

impl Members {
    /// The value of a member.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// A name that is given more than once, if any is. Such an object is not to be used.
    pub(super) fn repeated(&self) -> Option<&str> {
        self.repeated.as_deref()
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfObject;

        impl<'de> Visitor<'de> for OfObject {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut read = Members::default();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    match read.members.entry(name) {
                        Entry::Occupied(first) => read.repeated = Some(first.key().clone()),
                        Entry::Vacant(free) => {
                            free.insert(value);
                        }
                    }
                }
                Ok(read)
            }
        }

        deserializer.deserialize_map(OfObject)
    }
}

/// The instant of a `NumericDate` (RFC 7519, section 2): seconds since 1970, with or without a fraction. `None` when
/// the value is something else, or out of the range of all times.
pub(super) fn instant(value: &Value) -> Option<Time> {
    let us = match value.as_i64() {
        Some(seconds) => seconds.checked_mul(1_000_000)?,
        // The cast saturates, and what is not a number becomes zero: neither comes from a JSON number in range.
        None => (value.as_f64()? * 1e6) as i64,
    };
    (0..=limits::TIME_MAX_US).contains(&us).then(|| Time::from_us(us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_given_twice_is_noticed_however_it_is_spelled() {
        let read = |text: &str| serde_json::from_str::<Members>(text).unwrap();
        let members = read(r#"{"a": 1, "b": {"a": 2}}"#);
        assert_eq!(members.repeated(), None);
        assert_eq!(members.get("a"), Some(&Value::from(1)));
        let members = read(r#"{"a": 1, "\u0061": 2, "b": 3}"#);
        assert_eq!(members.repeated(), Some("a"));
        for text in ["[]", "1", "\"a\"", "null", "{", "{}{}", "{a:1}", ""] {
            assert!(serde_json::from_str::<Members>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn instants_are_seconds_in_the_range_of_all_times() {
        let read = |text: &str| instant(&serde_json::from_str(text).unwrap()).map(Time::as_us);
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("1795219200"), Some(1_795_219_200_000_000));
        assert_eq!(read("1795219200.5"), Some(1_795_219_200_500_000));
        assert_eq!(read("1.7952192e9"), Some(1_795_219_200_000_000));
        for text in [
            "-1",
            "-0.5e1",
            "\"1795219200\"",
            "true",
            "null",
            "[1795219200]",
            "{}",
            "1795219200000000",
            "9223372036854775807",
            "18446744073709551615",
            "1e300",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
