//! Two-phase reservation and updates as pure state machines, and the contract that keeps them durable.
//!
//! * [`participant`]: an RM's side. It owns the timetables, holds, books, expires, asks.
//! * [`coordinator`]: a GRC's side. It tries candidates one transaction each, decides, finishes.
//! * [`update`]: what an RM tells schedulers of its profiles, and what these believe of it.
//! * [`message`]: what they say to each other. Every message is safe to send twice.
//! * [`digest`]: what both have booked, in a form that is cheap to compare.
//! * [`durable`]: records before effects, enforced by types. [`core`]: what both are to their shells.
//!
//! Nothing here reads a clock, waits, sends or writes: a shell hands in inputs and time, makes the
//! records durable and carries the effects out. So the daemons and every simulated fault run execute
//! the same code. The invariants I1 to I22 that comments and tests name are listed in the design and
//! in `docs/PROTOCOL.md`, as far as users meet them.
//!
//! Left out: replication of the decision, compaction of what has ended.
//! Source: Takefusa 2010, section 3.1, stage 3; NSI Connection Service 2.1 for the names of states.

pub mod coordinator;
pub mod core;
pub mod digest;
mod disk_gate;
pub mod durable;
pub mod message;
pub mod participant;
pub mod update;

pub use crate::core::{Core, ReplayError};
pub use durable::{Log, Synced, Unsynced, sync};
