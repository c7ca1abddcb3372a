//! How people write amounts and times: rates and storage ([`amount`]), lengths of time ([`mod@span`]), and instants
//! ([`instant`]).
//!
//! This is the one reader of such texts, for flags and for files. It is pure: it is told what time it is and which
//! zone is local. A text that could mean two things is refused, and the message says how to write either.
//!
//! Left out: ranges of values (`net::convert`), and which clock and zone count (whoever calls).

pub mod amount;
mod field;
pub mod instant;
pub mod span;

pub use amount::{rate, storage_bytes};
pub use field::RateField;
pub use instant::Instant;
pub use jiff::SignedDuration;
pub use span::span;
