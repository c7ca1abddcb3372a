//! Ledger files on real disks: what is written, what damage is found, what a kill or a full disk leaves, and
//! the thread that owns a core. One program, so that the fixtures are compiled once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod backup;
mod damage;
mod fixtures;
mod kill;
mod owner;
mod reader;
mod reserved_space;
mod snapshot;
mod sqlite;
#[allow(dead_code, reason = "other tests take the rest")]
#[path = "../../../tests/tmpfs.rs"]
mod tmpfs;
