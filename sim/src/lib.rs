//! Simulated worlds that run the unchanged state machines of the protocol, and the experiments on them.
//!
//! * [`fault`]: random worlds under faults, one seed each; every invariant is checked after every event.
//! * [`coallocations`]: days of co-allocation requests that are planned and reserved (Takefusa 2010).
//! * [`cost`]: counts the messages and fsyncs of every operation.
//! * [`matrix`]: scripted worlds in which nodes die at every durability point, and at every pair of them.
//! * [`explore`]: every run of a small federation with up to a given number of faults.
//! * [`story`]: scripted worlds whose transcript lists every message.
//! * [`experiment`]: experiment files, what runs of models measure, and the papers' numbers to compare with.
//! * [`jobs`]: jobs of a trace on the servers of one machine, under an online planner and under queues.
//! * [`tasks`]: tasks that are planned on pictures which may be out of date. They use the queue of [`engine`]
//!   and the random streams of [`chance`].
//! * [`workflows`]: random workflows that are planned and reserved whole (Decker 2007).
//!
//! `fault`, `cost`, `matrix` and `story` share one world: one event queue, one seed, integer time
//! (`world.rs`).
//!
//! Left out: anything that waits for a real clock. Modelled on `TigerBeetle`'s VOPR and FoundationDB's
//! simulation.

// A world that cannot go on is a defect of the simulator. Runs catch the panic and report it.
#![allow(clippy::expect_used)]

pub mod chance;
pub mod coallocations;
pub mod cost;
pub mod engine;
pub mod experiment;
pub mod explore;
pub mod fault;
mod forgetful;
pub mod jobs;
pub mod matrix;
pub mod story;
pub mod takeover;
pub mod tasks;
pub mod workflows;
// The parts of the world are public for the tests of other modules. Their fields are named as in the
// protocol.
#[allow(missing_docs)]
pub mod world;
