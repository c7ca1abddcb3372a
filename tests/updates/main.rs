//! Updates of profiles from real resource managers: a subscriber's picture equals the timetable, across
//! kills, pauses and everything that a subscriber may ask for.

// clippy allows unwrap in test functions only; the helpers of this file are test code all through.
#![allow(clippy::unwrap_used, clippy::expect_used)]

// Each test target uses a part of it.
#[allow(dead_code)]
#[path = "../harness/mod.rs"]
mod harness;
mod permission;
mod rm;
mod strategies;
mod stream;
