//! What is written down is what the program does: the stories in `tests/stories`, and the generated sections
//! of `docs/PROTOCOL.md` (state tables, cost, crash matrix).
//!
//! ```text
//! cargo test -p coalloc-sim --test documents                   compares all of it
//! COALLOC_BLESS=1 cargo test -p coalloc-sim --test documents   writes it anew (`just bless`)
//! ```

#![allow(clippy::disallowed_methods)] // These tests read the pages that they check.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Clippy does not take helper functions for tests.

mod cost;
mod matrix;
mod page;
mod states;
mod stories;
