//! The targets of `tests/fuzz` under libFuzzer: chooses the target that runs, and its initial inputs.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../tests/fuzz/targets/mod.rs"]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use targets::{ALL, Target};

static RUN: OnceLock<&'static Target> = OnceLock::new();

/// Chooses the target, and writes its sound inputs into `corpus/NAME` and their words into `corpus/NAME.dict`.
///
/// libFuzzer reads both after this. The corpus also contains whatever earlier runs have added; none of it
/// is committed.
pub fn begin(name: &str) {
    let target = ALL.iter().find(|target| target.name == name).expect("a target of this name");
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    fs::create_dir_all(corpus.join(name)).expect("a folder for the corpus");
    let sound = (target.sound)();
    for (number, bytes) in sound.iter().enumerate() {
        fs::write(corpus.join(name).join(format!("sound-{number}")), bytes).expect("a sound input");
    }
    fs::write(corpus.join(format!("{name}.dict")), dictionary(&sound)).expect("a dictionary");
    assert!(RUN.set(target).is_ok(), "begun twice");
}

/// Runs the target. Whether the target accepts the bytes does not matter here.
pub fn check(bytes: &[u8]) {
    (RUN.get().expect("begun").check)(bytes);
}

/// Every word of the inputs, and numbers at which behaviour changes.
fn dictionary(sound: &[Vec<u8>]) -> String {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-:.".contains(byte);
    let words = sound
        .iter()
        .flat_map(|bytes| bytes.split(|byte| !is_word(byte)))
        .filter(|word| (2..=40).contains(&word.len()))
        .map(|word| String::from_utf8_lossy(word).into_owned());
    let edges = ["-1", "null", "9223372036854775807", "-9223372036854775808", "9007199254740993"];
    let all: BTreeSet<String> = words.chain(edges.map(str::to_owned)).collect();
    all.iter().map(|word| format!("\"{word}\"\n")).collect()
}
