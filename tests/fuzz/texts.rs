//! Small texts: what is typed at a command line, and tokens that come back from clients.

use coalloc_cli::when::{Length, When};
use coalloc_common::Time;

use crate::{fuzz, mutate};

#[test]
fn times() {
    let sound = [
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
    ];
    fuzz("times", |rng| {
        let seed = *mutate::one::<&str>(rng, &sound);
        let text = mutate::text(rng, seed);
        match text.parse::<When>() {
            Ok(when) => {
                let _ = when.at(Time::from_us(1_795_219_200_000_000)).to_string();
            }
            Err(said) => assert!(said.contains("allowed"), "{said}"),
        }
        match text.parse::<Length>() {
            Ok(length) => assert!(length.0.as_us() > 0),
            Err(said) => assert!(said.contains("allowed"), "{said}"),
        }
    });
}

#[test]
fn tokens() {
    let sound = [
        "e61dee7fc9364e7494e61b4bdf028f5a:12:0ae7f84237953360",
        "0",
        "",
        "e61dee7fc9364e7494e61b4bdf028f5a:18446744073709551615:0ae7f84237953360",
    ];
    fuzz("tokens", |rng| {
        let seed = *mutate::one::<&str>(rng, &sound);
        let text = mutate::text(rng, seed);
        if let Err(error) = coalloc_net::watch::check_token(&text) {
            assert_eq!(error.field, "resume_token");
        }
        let _ = coalloc_grc::shown::check_digest(&text);
    });
}
