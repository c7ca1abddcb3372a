//! Amounts and times as people write them, as values of the vocabulary: in flags of `coalloc` and in forms of the
//! coordinator's page.
//!
//! [`notation`] reads the texts themselves. Here they get units and kinds, and what is hardly meant is asked about.
//! For each reader there is a writer whose text it reads back.
//!
//! Left out: which clock and which zone count (whoever calls), and ranges ([`crate::convert`]).

use coalloc_common::{ResourceKind, Span, Time};
use coalloc_proto::notation;

/// A rate below this, in bit/s, is probably a mistake.
pub const RATE_MEANT_MIN: u64 = 1_000;
/// Bytes of the unit of storage, GB.
const GB: u64 = 1_000_000_000;

/// Reads a length of time, zero included, in whole microseconds.
///
/// # Errors
/// What is wrong with the text, and what is allowed.
pub fn span(text: &str) -> Result<Span, String> {
    span_of(notation::span(text)?)
}

/// The same, of a length that was read already.
///
/// # Errors
/// When the length is too long to be counted in microseconds.
pub fn span_of(length: notation::SignedDuration) -> Result<Span, String> {
    let us = i64::try_from(length.as_micros());
    us.map(Span::from_us).map_err(|_| "it is too long; allowed: a length like 1h or 30m".to_owned())
}

/// Reads a length of time that is more than zero.
///
/// # Errors
/// As [`span`].
pub fn length(text: &str) -> Result<Span, String> {
    match span(text)? {
        Span::ZERO => Err("it is zero; allowed: a length like 1h, 30m or 1h30".to_owned()),
        length => Ok(length),
    }
}

/// A length of time as [`span`] reads it: `2h`, `90m`, `45s`.
#[must_use]
pub fn show_span(span: Span) -> String {
    let us = span.as_us();
    let units = [(3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];
    let unit = units.into_iter().find(|(size, _)| us % size == 0);
    let (size, letters) = unit.unwrap_or((1, "us"));
    format!("{}{letters}", us / size)
}

/// Reads a rate in bit/s.
///
/// # Errors
/// What is wrong with the text, or that it is hardly meant, and what is allowed.
pub fn rate(text: &str) -> Result<u64, String> {
    let bps = notation::rate(text)?;
    // Files, too, are asked about such rates: what is written here has to be read again.
    if bps > 0 && bps < RATE_MEANT_MIN {
        return Err(format!("{bps} bit/s is hardly meant; allowed: 1 kbit/s and more"));
    }
    Ok(bps)
}

/// Reads an amount of a further kind at a site, in the unit of the kind: `storage=2TB`.
///
/// # Errors
/// As [`span`]; also for a kind that there is not.
pub fn kind_and_amount(text: &str) -> Result<(ResourceKind, u64), String> {
    let kinds: Vec<&str> = ResourceKind::others().map(ResourceKind::word).collect();
    let allowed = format!("allowed: KIND=AMOUNT, where the kind is {}", kinds.join(" or "));
    let (word, amount) = text.split_once('=').ok_or_else(|| allowed.clone())?;
    let kind = ResourceKind::parse_other("kind", word.trim());
    let kind = kind.map_err(|error| format!("`{word}`: allowed: {}", error.allowed))?;
    let amount = match kind {
        // Storage is reserved in whole GB.
        ResourceKind::Storage => notation::storage_bytes(amount)?.div_ceil(GB),
        ResourceKind::Cpus | ResourceKind::Bandwidth => return Err(allowed),
    };
    Ok((kind, amount))
}

/// An amount of a further kind as [`kind_and_amount`] reads it.
#[must_use]
pub fn show_kind_and_amount(kind: ResourceKind, amount: u64) -> String {
    let unit = match kind {
        ResourceKind::Storage => "GB",
        ResourceKind::Cpus | ResourceKind::Bandwidth => "",
    };
    format!("{}={amount}{unit}", kind.word())
}

/// The first multiple of `step` that is not before `time`.
#[must_use]
pub fn next_full(step: Span, time: Time) -> Time {
    let step = step.as_us().max(1);
    let over = time.as_us().rem_euclid(step);
    let missing = if over == 0 { 0 } else { step - over };
    time.saturating_add(Span::from_us(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for us in [0, 1, 1_500, 2_000_000, 90_000_000, 5_400_000_000, 86_400_000_000, 3_600_000_001]
        {
            let length = Span::from_us(us);
            assert_eq!(span(&show_span(length)), Ok(length), "{}", show_span(length));
        }
        assert_eq!(show_span(Span::from_secs(5_400)), "90m");
        for kind in ResourceKind::others() {
            let text = show_kind_and_amount(kind, 1_234);
            assert_eq!(kind_and_amount(&text), Ok((kind, 1_234)), "{text}");
        }
    }

    #[test]
    fn lengths_and_rates_that_are_hardly_meant_are_refused() {
        assert!(length("0s").unwrap_err().contains("allowed: a length"));
        assert!(rate("7 bit/s").unwrap_err().contains("allowed: 1 kbit/s"));
        assert_eq!((rate("0G"), rate("1K")), (Ok(0), Ok(1_000)));
    }
}
