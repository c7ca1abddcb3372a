//! Hop 3: the resource managers, what they describe, and what they say is free.
//!
//! * [`federation`]: the resource managers, their descriptions, and the topology that follows.
//! * [`inquiry`]: one query of a resource manager at a time, for all requests that wait for one.
//! * [`query`]: the frames of a request, and what is free in them.

pub mod federation;
pub mod inquiry;
pub mod query;

pub use query::{FrameAvailability, bookable, horizon_end, query};
