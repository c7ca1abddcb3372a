//! Fuzzes small texts.

use crate::targets::texts as targets;
use crate::{fuzz, mutate};

#[test]
fn times() {
    assert!(targets::TIMES.iter().all(|sound| targets::times(sound.as_bytes())));
    fuzz("times", |rng| {
        let sound = *mutate::one::<&str>(rng, &targets::TIMES);
        targets::times(mutate::text(rng, sound).as_bytes());
    });
}

#[test]
fn tokens() {
    assert!(targets::tokens(targets::TOKENS[0].as_bytes()), "the seed is sound");
    fuzz("tokens", |rng| {
        let sound = *mutate::one::<&str>(rng, &targets::TOKENS);
        targets::tokens(mutate::text(rng, sound).as_bytes());
    });
}
