//! What users read about plans and reservations, in the words that several commands share.
//!
//! [`comparison`] tables several plans, [`plan`] tells one. [`refusal`] says why there is none and what would
//! fit instead. [`workflow`] draws the plan of a workflow. [`reservation`] tells a whole reservation, and [`owed`] what is wrong between a coordinator
//! and its resource managers.
//!
//! No command is here, and nothing is asked of a daemon. What only one command shows, that command words.

pub mod comparison;
pub mod data_plane;
pub mod owed;
pub mod plan;
pub mod refusal;
pub mod reservation;
pub mod servers;
pub mod workflow;
