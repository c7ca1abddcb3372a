//! Updates: how resource managers tell schedulers what is free over time, and what these believe of it.
//!
//! ```text
//!   RM                                                       scheduler
//!   records --> ChangeLog (which windows changed, bounded)
//!                  |  Subscription: where one scheduler stands, and when it is told next
//!                  v
//!               Update (absolute parts, revision) ---------> Picture (a Profile of every resource, its age)
//! ```
//!
//! * [`ChangeLog`]: which windows of which resources changed at which revision; a ring of bounded length.
//! * [`Subscription`]: a cursor into it and a [`Strategy`]. A slow subscriber costs nothing but its cursor; one
//!   that has fallen off the ring gets a snapshot.
//! * [`Update`]: the message. Parts are absolute (what is free now over a window), so that nothing that is
//!   lost, doubled or late does harm that the next update does not mend.
//! * [`Picture`]: what a scheduler believes of everybody, with the age of each part.
//!
//! Revisions count the state changes of an RM since its ledger was begun: the state is the fold of the ledger,
//! so a revision means the same after a restart. An epoch stands for the ledger and the inventory.
//!
//! Updates admit nothing (I12): the RM's Hold does. Sequences within an epoch are monotone (I13); capacity
//! that was freed is in the next update of its strategy (I11).
//!
//! Left out: streams and sockets, which are shells'; cutting profiles into availability vectors, which is
//! the planner's side. Source: Christodoulopoulos 2008, section II-B and III (update messages carry utilization
//! profiles); design.md "Updates and pictures"; docs/adr/0022-updates.md.

mod change_log;
mod facts;
mod message;
mod picture;
mod strategy;

pub use self::change_log::{Change, ChangeLog, ResourceChange};
pub use self::message::{Part, Update, UpdateKind};
pub use self::picture::{Counts, Ignored, Picture, RmPicture};
pub use self::strategy::{DueUpdate, Strategy, Subscription, UpdatePolicy};
