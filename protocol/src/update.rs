//! Updates: how resource managers report to schedulers what is free over time, and what the schedulers believe.
//!
//! ```text
//!   RM                                                       scheduler
//!   records --> ChangeLog (which windows changed, bounded)
//!                  |  Subscription: how far one scheduler has got, and when its next update is due
//!                  v
//!               Update (absolute parts, revision) ---------> Picture (a Profile of every resource, its age)
//! ```
//!
//! * [`ChangeLog`]: which windows of which resources changed at which revision, in a ring of bounded length.
//! * [`Subscription`]: a cursor into that log, with a [`Strategy`]. A slow subscriber costs no more than its
//!   cursor. A subscriber that has fallen off the ring gets a snapshot.
//! * [`Update`]: the message. Its parts are absolute: they say what is free over a window. So an update that is
//!   lost, doubled or late does no harm that the next update does not repair.
//! * [`Picture`]: what a scheduler believes of all RMs, with the age of each part.
//!
//! A revision is the number of state changes of an RM since its ledger was begun. The state is the fold of the
//! ledger, so a revision means the same after a restart. An epoch stands for the ledger and the inventory.
//!
//! Updates admit nothing (I12); only the RM's Hold does. Sequences within an epoch are monotone (I13). Capacity
//! that was freed is in the next update of its strategy (I11).
//!
//! Left out: streams and sockets, which belong to the shells; cutting profiles into availability vectors, which
//! is the planner's work. Source: Christodoulopoulos 2008, sections II-B and III (update messages carry
//! utilization profiles); design.md "Updates and pictures"; docs/adr/0022-updates.md.

mod change_log;
mod facts;
mod message;
mod picture;
mod strategy;

pub use self::change_log::{Change, ChangeLog, ResourceChange};
pub use self::message::{Part, Update, UpdateKind};
pub use self::picture::{Counts, Ignored, Picture, RmPicture};
pub use self::strategy::{DueUpdate, Strategy, Subscription, UpdatePolicy};
