//! Every world of a small federation, not some: one coordinator, two resource managers, and all that can happen to
//! them, up to so many faults.
//!
//! The cores are driven as they are. A [`Scenario`] says what a user calls; from each state the search takes every
//! choice: which message is taken next, whose alarm fires, and each fault. What is no fault is free and goes on for
//! ever, so that every state that is reached is also followed to its rest; faults are counted, all kinds together. States
//! with one fault more are searched after all with fewer, and within those the shortest way first: the first way to
//! what must not be is a shortest one.
//!
//! What is explored, and how far, is in `docs/PROTOCOL.md`. Left out: more nodes and users, trees, capacity that others take
//! meanwhile, reboots, clocks that run apart, torn writes, a full disk: the random worlds of [`super::fault`] have
//! those. After `TLC` and `stateright`; the search is our own because it is less than the glue, and because steps of cores are
//! remembered.

mod checks;
mod cores;
mod facts;
mod federation;
mod packet;
mod scenarios;
mod search;
mod trace;

pub use self::checks::Check;
pub use self::federation::Fault;
pub use self::scenarios::{ALL, CHANGE_OF_RUNNING, ONE_WAY, Plan, SECOND_PLAN, Scenario, UserCall};
pub use self::search::{Bound, Explored, FailedCheck, explore};
