//! The one schema of Coalloc: gRPC API, files and command line speak `coalloc.v1`.
//!
//! The `.proto` files under `coalloc/v1` are the documentation: every field says its unit, its range
//! and what a wrong value gets. This crate is what is generated from them: messages, clients and
//! servers ([`v1`]), the canonical proto3 JSON mapping (every message is `Serialize` and
//! `Deserialize`), the descriptors for reflection, and [`mod@file`], which reads a message from JSON or
//! YAML and tells the line of a mistake.
//!
//! Left out on purpose: checks of values. They need the vocabulary of `common` and stand in
//! `net::convert`.

pub mod file;
mod time;

/// Package `coalloc.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("coalloc.v1");
    include!(concat!(env!("OUT_DIR"), "/coalloc.v1.serde.rs"));
}

/// The compiled schema, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

pub use time::{Duration, Timestamp};
