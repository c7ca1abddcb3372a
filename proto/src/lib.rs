//! The one schema of Coalloc, `coalloc.v1`, which the gRPC API, the files and the command line share.
//!
//! The `.proto` files under `coalloc/v1` are the documentation: the comment of each field says its unit, its
//! range and how a wrong value is answered. This crate contains what is generated from them: messages,
//! clients and servers ([`v1`]), the canonical proto3 JSON mapping (every message is `Serialize` and
//! `Deserialize`), and the descriptors for reflection. [`mod@file`] reads a message from JSON or YAML and
//! reports the line of a mistake.
//!
//! Left out on purpose: checks of values. They need the vocabulary of `common` and are in `net::convert`.

pub mod file;
pub mod method;
pub mod notation;
mod secrets;
mod time;

/// The generated code of package `coalloc.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1 {
    tonic::include_proto!("coalloc.v1");
    include!(concat!(env!("OUT_DIR"), "/coalloc.v1.serde.rs"));
}

/// The compiled schema, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

pub use time::{Duration, Timestamp};

impl v1::ReservationState {
    /// Is it booked everywhere, and not over?
    #[must_use]
    pub const fn is_booked(self) -> bool {
        matches!(self, Self::Confirmed | Self::Active)
    }

    /// Is it booked everywhere, whether its time is over or not?
    #[must_use]
    pub const fn was_booked(self) -> bool {
        self.is_booked() || matches!(self, Self::PassedEndTime)
    }
}
