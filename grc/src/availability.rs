//! Hop 3: the resource managers, what they describe, and what they say is free.
//!
//! * [`federation`]: the resource managers, their descriptions, and the topology that follows.
//! * [`inquiry`]: the availability queries to one resource manager, in batches of all requests that wait.
//! * [`mod@query`]: the frames of a request, and what is free in them.
//! * [`server_sites`]: the sites whose servers are reserved whole.

pub mod federation;
pub mod inquiry;
pub mod query;
pub mod server_sites;

pub use query::{FrameAvailability, Replaced, bookable, horizon_end, query, query_for};
