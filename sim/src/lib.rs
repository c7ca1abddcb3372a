//! Simulated worlds in which the unchanged state machines live, and what is done to them.
//!
//! * [`fault`]: random worlds under faults, one seed each; every invariant after every event.
//! * [`coallocations`]: days of co-allocation requests, planned and reserved (Takefusa 2010).
//! * [`cost`]: messages and fsyncs of every operation, counted.
//! * [`matrix`]: scripted worlds in which nodes die at every durability point, and at every two.
//! * [`explore`]: every world of a small federation, up to so many faults.
//! * [`story`]: scripted worlds, told message by message.
//! * [`experiment`]: experiment files, what runs of models measure, and the papers' numbers beside it.
//! * [`tasks`]: tasks planned on pictures that may be out of date, on the queue of [`engine`] with the chance
//!   of [`chance`].
//!
//! `fault`, `cost`, `matrix` and `story` stand on one world: one event queue, one seed, integer time (`world.rs`).
//!
//! Left out: anything that waits for a real clock. After `TigerBeetle`'s VOPR and
//! FoundationDB's simulation.

// A world that cannot go on is a defect of the simulator: runs catch the panic and report it.
#![allow(clippy::expect_used)]

pub mod chance;
pub mod coallocations;
pub mod cost;
pub mod engine;
pub mod experiment;
pub mod explore;
pub mod fault;
mod forgetful;
pub mod matrix;
pub mod story;
pub mod tasks;
// Its parts are public for tests of other rooms; fields are named by the words of the protocol.
#[allow(missing_docs)]
pub mod world;
