//! Turns sound bytes, texts and JSON into input that is nearly sound.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// Numbers at which behaviour changes.
const EDGES: [i64; 16] = [
    0,
    1,
    -1,
    2,
    255,
    256,
    65_535,
    1 << 31,
    (1 << 31) - 1,
    (1 << 53) - 1,
    1 << 53,
    -(1 << 53),
    i64::MAX,
    i64::MIN,
    i64::MAX - 1,
    86_400_000_000,
];

/// Texts that are not valid names.
const WORDS: [&str; 14] = [
    "",
    " ",
    "\0",
    "a",
    "ü",
    "N0",
    "grc",
    "../../etc/passwd",
    "-",
    "x:ab",
    "nan",
    "\u{202e}",
    "null",
    "9999999999999999999999",
];

/// One of these values.
pub(crate) fn one<'a, T>(rng: &mut ChaCha8Rng, all: &'a [T]) -> &'a T {
    &all[rng.random_range(0..all.len())]
}

/// Changes bytes in some places; occasionally replaces all of them.
pub(crate) fn bytes(rng: &mut ChaCha8Rng, sound: &[u8]) -> Vec<u8> {
    let mut all = sound.to_vec();
    if rng.random_ratio(1, 20) {
        let length = rng.random_range(0..200);
        return (0..length).map(|_| rng.random()).collect();
    }
    for _ in 0..rng.random_range(0..6) {
        let at = if all.is_empty() { 0 } else { rng.random_range(0..all.len()) };
        match rng.random_range(0..7) {
            0 if !all.is_empty() => all[at] ^= 1 << rng.random_range(0..8),
            1 if !all.is_empty() => all[at] = rng.random(),
            2 => all.truncate(at),
            3 => all.insert(at, rng.random()),
            4 if !all.is_empty() => drop(all.remove(at)),
            5 => {
                // This repeats a stretch of bytes at another place.
                let end = (at + rng.random_range(0..40)).min(all.len());
                let again = all[at..end].to_vec();
                let to = if all.is_empty() { 0 } else { rng.random_range(0..all.len()) };
                all.splice(to..to, again);
            }
            6 if !all.is_empty() => {
                let end = (at + 10).min(all.len());
                all[at..end].fill(*one(rng, &[0, 0xff, 0x7f, 0x80]));
            }
            _ => {}
        }
    }
    all
}

/// Does the same with the characters of a text.
pub(crate) fn text(rng: &mut ChaCha8Rng, sound: &str) -> String {
    let mut text = String::from_utf8_lossy(&bytes(rng, sound.as_bytes())).into_owned();
    if rng.random_ratio(1, 3) {
        let at = rng.random_range(0..=text.len());
        let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let edge = one(rng, &EDGES).to_string();
        let word = *one::<&str>(rng, &WORDS);
        text.insert_str(at, if rng.random() { &edge } else { word });
    }
    text
}

/// Changes JSON in one place, so that it stays JSON.
pub(crate) fn json(rng: &mut ChaCha8Rng, value: &mut Value) {
    let places = count(value);
    let mut place = rng.random_range(0..places);
    if let Some(found) = nth(value, &mut place) {
        change(rng, found);
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(all) => all.iter().map(count).sum(),
        Value::Object(all) => all.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

fn nth<'a>(value: &'a mut Value, place: &mut usize) -> Option<&'a mut Value> {
    if *place == 0 {
        return Some(value);
    }
    *place -= 1;
    match value {
        Value::Array(all) => all.iter_mut().find_map(|one| nth(one, place)),
        Value::Object(all) => all.values_mut().find_map(|one| nth(one, place)),
        _ => None,
    }
}

fn change(rng: &mut ChaCha8Rng, value: &mut Value) {
    match value {
        Value::Array(all) if !all.is_empty() => {
            let at = rng.random_range(0..all.len());
            match rng.random_range(0..4) {
                0 => drop(all.remove(at)),
                1 => all.push(all[at].clone()),
                2 => all.swap(at, 0),
                _ => *value = Value::Null,
            }
        }
        Value::Object(all) if !all.is_empty() => {
            let at = rng.random_range(0..all.len());
            let key = all.keys().nth(at).cloned().unwrap_or_default();
            match rng.random_range(0..3) {
                0 => drop(all.remove(&key)),
                1 => drop(all.insert((*one(rng, &WORDS)).to_owned(), Value::Bool(true))),
                _ => {
                    let other = all.values().next().cloned().unwrap_or_default();
                    all.insert(key, other);
                }
            }
        }
        Value::Number(_) => {
            *value = match rng.random_range(0..4) {
                0 => u64::MAX.into(),
                1 => Value::from(rng.random::<i64>()),
                _ => (*one(rng, &EDGES)).into(),
            };
        }
        Value::String(word) => *word = (*one(rng, &WORDS)).to_owned(),
        other => *other = (*one(rng, &EDGES)).into(),
    }
}
