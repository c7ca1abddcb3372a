//! Small texts: input from the command line, and tokens that clients send back.

use coalloc_cli::kit::when::{InstantArg, Length, Rate, TimeZone};
use coalloc_common::Time;

pub(crate) const TIMES: [&str; 15] = [
    "2026-11-21T10:00:00Z",
    "now",
    "now+2h30m",
    "1h",
    "90 min",
    "1d",
    "2026-11-21T10:00:00.25+09:00",
    "now+366d",
    "P1DT2H",
    "1h30m",
    "1h30",
    "tomorrow 14:00",
    "Mon 9:00 +01:00",
    "2026-11-24 14:00",
    "2.5 Gbit/s",
];

pub(crate) const TOKENS: [&str; 4] = [
    "e61dee7fc9364e7494e61b4bdf028f5a:12:0ae7f84237953360",
    "0",
    "",
    "e61dee7fc9364e7494e61b4bdf028f5a:18446744073709551615:0ae7f84237953360",
];

/// Instants, lengths of time and rates.
pub(crate) fn times(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let now = Time::from_us(1_795_219_200_000_000);
    let when = InstantArg::read(text, now, &TimeZone::UTC);
    let (length, rate) = (text.parse::<Length>(), text.parse::<Rate>());
    match &when {
        Ok(when) => {
            let _ = when.time(now).to_string();
        }
        Err(said) => assert!(said.contains("allowed"), "{said}"),
    }
    match &length {
        Ok(length) => assert!(length.0.as_us() > 0),
        Err(said) => assert!(said.contains("allowed"), "{said}"),
    }
    if let Err(said) = &rate {
        assert!(said.contains("allowed"), "{said}");
    }
    when.is_ok() || length.is_ok() || rate.is_ok()
}

/// Tokens of a watch, and digests of plans.
pub(crate) fn tokens(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let token = coalloc_net::watch::check_token(text);
    if let Err(error) = &token {
        assert_eq!(error.field, "resume_token");
    }
    let _ = coalloc_grc::planning::plan_cache::check_digest(text);
    token.is_ok()
}
