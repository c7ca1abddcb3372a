//! Fuzzes what is on the disk.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::targets::records as targets;
use crate::{fuzz, mutate};

/// A log in which records are changed, removed, duplicated and reordered, with the text of one record broken.
fn spoil(rng: &mut ChaCha8Rng, sound: &[Value]) -> Vec<String> {
    let mut log = sound.to_vec();
    for _ in 0..rng.random_range(0..4) {
        let at = rng.random_range(0..log.len());
        match rng.random_range(0..6) {
            0 if log.len() > 1 => drop(log.remove(at)),
            1 => log.insert(at, log[at].clone()),
            2 => log.swap(at, 0),
            _ => mutate::json(rng, &mut log[at]),
        }
    }
    let mut texts: Vec<String> = log.iter().map(Value::to_string).collect();
    if rng.random_ratio(1, 4) {
        let at = rng.random_range(0..texts.len());
        texts[at] = mutate::text(rng, &texts[at]);
    }
    texts
}

fn lines(log: &[String]) -> impl Iterator<Item = &str> {
    log.iter().map(String::as_str)
}

fn texts(sound: &[Value]) -> Vec<String> {
    sound.iter().map(Value::to_string).collect()
}

#[test]
fn records_of_resource_managers() {
    let sound = targets::of_participant();
    assert!(targets::replay_participant(lines(&texts(&sound))), "the seed is sound");
    fuzz("records_of_resource_managers", |rng| {
        targets::replay_participant(lines(&spoil(rng, &sound)));
    });
}

#[test]
fn records_of_coordinators() {
    let sound = targets::of_coordinator();
    assert!(targets::replay_coordinator(lines(&texts(&sound))), "the seed is sound");
    fuzz("records_of_coordinators", |rng| {
        targets::replay_coordinator(lines(&spoil(rng, &sound)));
    });
}

#[test]
fn ledgers() {
    let sound = &*targets::CRASHED;
    assert!(targets::look_at(sound), "the seed is sound");
    fuzz("ledgers", |rng| {
        let spoiled = rng.random_range(0..3);
        let mut files = sound.clone();
        // In the main file, only the first pages and the last one have content; the other pages are empty.
        files[spoiled] = mutate::bytes(rng, &sound[spoiled]);
        targets::look_at(&files);
    });
}

#[test]
fn logs() {
    let [_, wal, tip] = &*targets::CRASHED;
    assert!(targets::logs(wal) && targets::tips(&tip[..256]), "the seeds are sound");
    fuzz("logs", |rng| {
        targets::logs(&mutate::bytes(rng, wal));
        targets::tips(&mutate::bytes(rng, &tip[..256]));
    });
}
