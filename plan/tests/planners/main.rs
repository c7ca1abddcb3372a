//! What the planners promise, tested from outside: each compared with an exhaustive search, with examples
//! worked out by hand, and at the end of its budget. One program, so that the fixtures are compiled once.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that meets nonsense ends")]

mod abstracted;
mod allocations;
mod baseline;
mod exact;
mod explain;
mod fixtures;
mod islands;
mod kinds;
mod mip;
mod monotone;
mod multicost;
mod multicost_federation;
mod multicost_output;
mod multicost_world;
mod objectives;
mod outside;
mod part_windows;
mod revise;
mod samcra;
mod shared;
mod workflow;
mod workflow_refusals;
