//! Explores every possible run of a small federation: one coordinator, two resource managers, and everything
//! that can happen to them, up to a given number of faults.
//!
//! The cores are driven as they are. A [`Scenario`] says which calls a user makes. From each state the search
//! takes every choice: which message is handled next, whose timer fires, and each fault. Choices that are no
//! fault are free and unlimited, so every state that is reached is also followed until it is at rest. Faults
//! are counted, all kinds together. States with one more fault are searched after all states with fewer
//! faults, and within one number of faults the shortest path comes first. So the first path to a failed check
//! is a shortest one.
//!
//! `docs/PROTOCOL.md` says what is explored, and how far. Left out: more nodes and users, trees, capacity
//! that others take in the meantime, reboots, clocks that drift apart, torn writes, a full disk; the random
//! worlds of [`super::fault`] have those. Modelled on `TLC` and `stateright`. The search is our own because
//! it is less code than the adapters to either would be, and because it remembers the steps of cores.

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
