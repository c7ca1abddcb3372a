//! Hop 1: the calls. Each runs in a task of its own: the caller waits for it, and a caller that goes away does not
//! stop it.
//!
//! * [`handlers`]: the Coordinator and Resolver services of gRPC.
//! * [`service`]: what all calls share.
//! * [`reserve`]: a request, with [`choice`] of a plan that was shown and [`alternatives`] to what cannot be had.
//! * [`modify`]: a change of a reservation.
//! * [`tasks`]: a task, planned on profiles.
//! * [`parents`]: the whole federation as one resource manager to parent coordinators.
//! * [`repair`] and [`giving_up`]: what operators do about resource managers that have lost something, or are gone.

pub mod alternatives;
pub mod choice;
mod giving_up;
pub mod handlers;
mod modify;
pub mod parents;
mod repair;
pub mod reserve;
pub mod service;
pub mod tasks;
