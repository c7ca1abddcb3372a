//! Hops 5 and 6: the coordinator core at work.
//!
//! * [`conversation`]: from a request, a change or a parent's hold to its outcome; whatever the core wants planned is
//!   planned on the way. [`pauses`] says how long to wait before planning again.
//! * [`shell`]: the core's thread with its ledger, and its messages to resource managers.
//! * [`reconcile`]: compares bookings with the resource managers'.

pub mod conversation;
pub mod pauses;
pub mod reconcile;
pub mod shell;
