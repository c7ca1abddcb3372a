//! Two-phase reservation and updates as pure state machines, and the types that make records durable before
//! messages leave.
//!
//! * [`participant`]: the side of a resource manager (RM). It owns the timetables, keeps holds and bookings,
//!   ends what has expired, and asks coordinators for overdue decisions.
//! * [`coordinator`]: the side of a Global Resource Coordinator (GRC). It tries the candidate plans, each in a
//!   transaction of its own, decides, and brings every transaction to its end.
//! * [`update`]: what an RM reports to schedulers about what it has free, and what the schedulers believe.
//! * [`message`]: the messages between the two sides. Every message may safely be sent twice.
//! * [`digest`]: the bookings that both sides have, in a form that is cheap to compare.
//! * [`authorization`]: who may make which call, and whose things its message may be about.
//! * [`causer`]: who caused a record, and by what that is proven.
//! * [`durable`]: records before effects, enforced by types. [`core`]: the interface of both machines to their
//!   shells.
//!
//! Nothing here reads a clock, waits, sends or writes. A shell passes in the inputs and the time, makes the
//! records durable, and carries out the effects. So the daemons and every simulated fault run execute the same
//! code. Comments and tests name the invariants I1 to I22. The design lists all of them; `docs/PROTOCOL.md`
//! lists those that users meet.
//!
//! Left out: replicating the decision, and compacting the log by dropping what has ended. Source: Takefusa
//! 2010, section 3.1, stage 3; NSI Connection Service 2.1 for the names of states.

pub mod authorization;
pub mod capability;
pub mod causer;
pub mod conversation;
pub mod coordinator;
pub mod core;
pub mod digest;
mod disk_gate;
pub mod durable;
mod leader_epochs;
pub mod message;
mod oldest_open;
pub mod participant;
pub mod snapshot;
mod tracked;
pub mod update;

pub use crate::core::{Core, ReplayError};
pub use causer::{CausedRecord, Causer, ProvenPeer};
pub use durable::{Log, Synced, Unsynced, sync};
pub use snapshot::{ChangedPart, Snapshot};
