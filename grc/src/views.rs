//! What clients see of the coordinator. Nothing here changes anything.
//!
//! * [`view`]: a reservation; [`receipt`]: a task; [`workflow`]: a workflow, page by page. All are made from what the
//!   ledger keeps of a plan ([`kept`]).
//! * [`listing`]: pages of reservations.
//! * [`events`]: changes of reservations, for clients that watch them.

pub mod events;
pub mod kept;
pub mod listing;
pub mod receipt;
pub mod view;
pub mod workflow;
