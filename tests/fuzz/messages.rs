//! Fuzzes messages of the network.

use prost::Message as _;

use crate::targets::{messages as targets, workflows};
use crate::{fuzz, mutate};

#[test]
fn holds() {
    let sound = targets::hold().encode_to_vec();
    assert!(targets::holds(&sound), "the seed is sound");
    fuzz("holds", |rng| {
        targets::holds(&mutate::bytes(rng, &sound));
    });
}

#[test]
fn refusals() {
    let sound = targets::refusal().encode_to_vec();
    assert!(targets::refusals(&sound), "the seed is sound");
    fuzz("refusals", |rng| {
        targets::refusals(&mutate::bytes(rng, &sound));
    });
}

#[test]
fn requests() {
    let (sound, reserve) = (targets::request().encode_to_vec(), targets::reserve().encode_to_vec());
    assert!(targets::requests(&sound) && targets::reserves(&reserve), "the seeds are sound");
    fuzz("requests", |rng| {
        targets::requests(&mutate::bytes(rng, &sound));
        targets::reserves(&mutate::bytes(rng, &reserve));
    });
}

#[test]
fn workflows() {
    let sound = workflows::submission().encode_to_vec();
    assert!(workflows::workflows(&sound), "the seed is sound");
    fuzz("workflows", |rng| {
        workflows::workflows(&mutate::bytes(rng, &sound));
    });
}

#[test]
fn federations() {
    let (sound, description) =
        (targets::federation().encode_to_vec(), targets::description().encode_to_vec());
    assert!(targets::federations(&sound), "the seed is sound");
    assert!(targets::descriptions(&description), "the seed is sound");
    fuzz("federations", |rng| {
        targets::federations(&mutate::bytes(rng, &sound));
        targets::descriptions(&mutate::bytes(rng, &description));
    });
}

#[test]
fn comparisons() {
    let sound = targets::comparison().encode_to_vec();
    let answer = targets::compared_answer().encode_to_vec();
    assert!(targets::comparisons(&sound) && targets::compared(&answer), "the seeds are sound");
    fuzz("comparisons", |rng| {
        targets::comparisons(&mutate::bytes(rng, &sound));
        targets::compared(&mutate::bytes(rng, &answer));
    });
}

#[test]
fn updates() {
    let (sound, policy) = (targets::update().encode_to_vec(), targets::policy().encode_to_vec());
    assert!(targets::updates(&sound) && targets::policies(&policy), "the seeds are sound");
    fuzz("updates", |rng| {
        targets::updates(&mutate::bytes(rng, &sound));
        targets::policies(&mutate::bytes(rng, &policy));
    });
}

#[test]
fn signed_tips() {
    let sound = targets::signed_tip().encode_to_vec();
    assert!(targets::signed_tips(&sound), "the seed is sound");
    fuzz("signed_tips", |rng| {
        targets::signed_tips(&mutate::bytes(rng, &sound));
    });
}
