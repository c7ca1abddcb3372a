//! Hops 5 and 6: the coordinator core at work.
//!
//! * [`conversation`]: leads a request, a change or a parent's hold to its outcome, and plans whatever the core wants
//!   planned. [`pauses`] draws the random backoff before planning again.
//! * [`shell`]: the core's thread with its ledger, and its messages to resource managers.
//! * [`equipment`]: what resource managers tell of the equipment behind their bookings.
//! * [`reconcile`]: compares the coordinator's bookings with those of the resource managers.

pub mod conversation;
pub mod equipment;
pub mod pauses;
pub mod reconcile;
pub mod shell;
