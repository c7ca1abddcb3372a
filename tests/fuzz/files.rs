//! Fuzzes files that people write.

use crate::targets::files as targets;
use crate::{fuzz, mutate};

#[test]
fn files() {
    let all = targets::examples();
    fuzz("files", |rng| {
        let (_, sound) = mutate::one(rng, &all);
        targets::files(mutate::text(rng, sound).as_bytes());
    });
}

#[test]
fn configurations() {
    let all = targets::daemons();
    for sound in &all {
        assert!(targets::configurations(sound.as_bytes()), "not sound: {sound}");
    }
    fuzz("configurations", |rng| {
        let sound = mutate::one(rng, &all);
        targets::configurations(mutate::text(rng, sound).as_bytes());
    });
}
