//! The error for every unacceptable value from outside: it names the field, the value and what is
//! allowed. Left out: refusals for lack of resources, see [`Refusal`](crate::Refusal).

use std::borrow::Cow;

use thiserror::Error;

use crate::plain_text;

/// A value from outside that was refused before anything was done with it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {}", self.problem())]
pub struct InvalidField {
    /// Path of the field, as the user wrote it: `sites[2].cpus`.
    pub field: String,
    /// The value that was found, cut when it is long. Empty when the field is missing.
    pub value: String,
    /// What would have been accepted, as a range or a list.
    pub allowed: String,
}

/// Longest value in a message, in characters; longer ones are cut, because an error must not echo a
/// megabyte.
const VALUE_SHOWN_MAX: usize = 80;

impl InvalidField {
    /// An error about `field`; `value` is cut to a readable length.
    pub fn new(field: impl Into<String>, value: impl ToString, allowed: impl Into<String>) -> Self {
        let mut value = value.to_string();
        if value.chars().count() > VALUE_SHOWN_MAX {
            value = value.chars().take(VALUE_SHOWN_MAX).chain("…".chars()).collect();
        }
        // The value comes from outside, and errors go into logs.
        if let Cow::Owned(plain) = plain_text::one_line(&value) {
            value = plain;
        }
        Self { field: field.into(), value, allowed: allowed.into() }
    }

    /// An error about `field`, which is not there.
    pub fn missing(field: impl Into<String>, needed: impl Into<String>) -> Self {
        Self::new(field, "", needed)
    }

    /// What is wrong, without the field.
    #[must_use]
    pub fn problem(&self) -> String {
        let Self { value, allowed, .. } = self;
        if value.is_empty() {
            return format!("it is missing; needed: {allowed}");
        }
        format!("{value} is not allowed; allowed: {allowed}")
    }

    /// A text value in quotes, so that an empty one can be seen.
    #[must_use]
    pub fn quoted(text: &str) -> String {
        if text.chars().count() > VALUE_SHOWN_MAX {
            let cut: String = text.chars().take(VALUE_SHOWN_MAX).collect();
            // A long text is escaped like a short one: it comes from outside.
            return format!("\"{}…\"", cut.escape_debug());
        }
        format!("{text:?}")
    }

    /// The same error with the field one level deeper: `links[0]` + `bandwidth_bps`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field);
        self
    }
}

/// Checks that `value` lies in `allowed` (both ends included); `unit` is for the error text.
///
/// # Errors
/// [`InvalidField`] with the field, the value and the range.
pub fn check_range<T: PartialOrd + std::fmt::Display + Copy>(
    field: &str,
    value: T,
    allowed: std::ops::RangeInclusive<T>,
    unit: &str,
) -> Result<T, InvalidField> {
    if allowed.contains(&value) {
        return Ok(value);
    }
    let (low, high) = (allowed.start(), allowed.end());
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    Err(InvalidField::new(field, value, format!("{low} to {high}{unit}")))
}
