//! Lengths of time: `1h30`, `90 min`, `1d`, `45s`, `1ms`, `PT5M`. A day has 24 hours.
//!
//! The grammar is jiff's, with `1h30` besides.

use jiff::{SignedDuration, SpanRelativeTo};

/// What a length of time may look like.
const ALLOWED: &str = "allowed: a length like 1h, 30m, 1h30 or 90 min";

/// Reads a length of time, zero included.
///
/// # Errors
/// A sentence that says what is wrong, what it may have meant, and what is allowed.
pub fn span(text: &str) -> Result<SignedDuration, String> {
    let text = text.trim();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits(text) {
        return Err(format!("`{text}` has no unit: write `{text}min` or `{text}s`; {ALLOWED}"));
    }
    if let Some((first, second)) = text.split_once(':')
        && digits(first)
        && digits(second)
    {
        return Err(format!(
            "`{text}` may be hours or minutes: write `{first}h{second}m` or `{first}m{second}s`; {ALLOWED}"
        ));
    }
    if let Some((first, second)) = text.split_once(',')
        && first.ends_with(|c: char| c.is_ascii_digit())
        && second.starts_with(|c: char| c.is_ascii_digit())
    {
        return Err(format!(
            "`{text}` may have thousands or a fraction: write `{first}{second}` or `{first}.{second}`; {ALLOWED}"
        ));
    }
    // `1h30` is written for 1 h 30 min everywhere. `1h5` is not: somebody has forgotten a digit or a unit.
    let minutes = text.split_once(['h', 'H']).filter(|(hours, rest)| digits(hours) && digits(rest));
    if let Some((hours, rest)) = minutes {
        let whole = rest.len() == 2 && rest < "60";
        let (hours, minutes): (i64, i64) = match (hours.parse(), rest.parse()) {
            (Ok(hours), Ok(minutes)) if whole && hours < 1_000_000 => (hours, minutes),
            _ => {
                return Err(format!(
                    "`{text}` may be hours and minutes or seconds: write `{hours}h{rest}m` or \
                     `{hours}h{rest}s`; {ALLOWED}"
                ));
            }
        };
        return Ok(SignedDuration::from_secs(hours * 3_600 + minutes * 60));
    }
    let span: jiff::Span = text.parse().map_err(|_| ALLOWED.to_owned())?;
    if span.get_months() != 0 || span.get_years() != 0 {
        return Err(format!("months and years have no fixed length; {ALLOWED}"));
    }
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let length = length.map_err(|_| ALLOWED.to_owned())?;
    if length.is_negative() {
        return Err(format!("`{text}` is negative; {ALLOWED}"));
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_with_their_unit() {
        let cases = [
            ("1h30", 5_400_000),
            ("0h05", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("90 min", 5_400_000),
            ("90min", 5_400_000),
            ("90 minutes", 5_400_000),
            ("1.5h", 5_400_000),
            ("1d", 86_400_000),
            ("2 days", 172_800_000),
            ("1w", 604_800_000),
            ("45s", 45_000),
            ("1ms", 1),
            ("0.005s", 5),
            ("3600s", 3_600_000),
            ("PT5M", 300_000),
            ("01:30:00", 5_400_000),
            ("0s", 0),
        ];
        for (text, ms) in cases {
            assert_eq!(span(text), Ok(SignedDuration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_length_is_refused_with_what_it_may_mean() {
        let cases = [
            ("", "allowed: a length"),
            ("soon", "allowed: a length"),
            ("h", "allowed: a length"),
            ("1 fortnight", "allowed: a length"),
            ("-1h", "is negative"),
            ("1h ago", "is negative"),
            ("90", "write `90min` or `90s`"),
            ("1:30", "write `1h30m` or `1m30s`"),
            ("1,500m", "write `1500m` or `1.500m`"),
            ("2,5h", "write `25h` or `2.5h`"),
            ("1h5", "write `1h5m` or `1h5s`"),
            ("1h90", "write `1h90m` or `1h90s`"),
            ("99999999999h30", "allowed: a length"),
            ("1 month", "no fixed length"),
            ("1y", "no fixed length"),
        ];
        for (text, part) in cases {
            let said = span(text).unwrap_err();
            assert!(said.contains(part) && said.contains("allowed: a length"), "{text}: {said}");
        }
    }
}
