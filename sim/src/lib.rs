//! Simulated worlds in which the unchanged state machines live, and what is done to them.
//!
//! * [`fault`]: random worlds under faults, one seed each; every invariant after every event.
//! * [`cost`]: messages and fsyncs of every operation, counted.
//! * [`matrix`]: scripted worlds in which nodes die at every durability point, and at every two.
//! * [`story`]: scripted worlds, told message by message.
//!
//! Both stand on one world: one event queue, one seed, integer time (`world.rs`).
//!
//! Left out: planning, and anything that waits for a real clock. After `TigerBeetle`'s VOPR and
//! FoundationDB's simulation.

// A world that cannot go on is a defect of the simulator: runs catch the panic and report it.
#![allow(clippy::expect_used)]

pub mod cost;
pub mod fault;
pub mod matrix;
pub mod story;
// Its parts are public for tests of other rooms; fields are named by the words of the protocol.
#[allow(missing_docs)]
pub mod world;
