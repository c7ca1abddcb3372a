//! Hop 1: the calls. Each call runs in a task of its own. The caller waits for the task, but the task goes on when the
//! caller goes away.
//!
//! * [`handlers`]: the Coordinator and Resolver services of gRPC.
//! * [`service`]: what all calls share.
//! * [`reserve`]: a request; [`choice`] of a plan that was shown before; [`alternatives`] to a request that is refused.
//! * [`servers`]: a search of idle servers; [`allocate`]: a reservation of whole servers.
//! * [`modify`]: a change of a reservation; [`provision`]: the change that lets its user in, or out.
//! * [`tasks`]: a task, planned on profiles; [`workflows`]: a workflow, planned on profiles and reserved whole.
//! * [`parents`]: the whole federation, served as one resource manager to parent coordinators.
//! * [`calendar`]: the secret address of a user's calendar.
//! * [`quota`]: how much a user may have reserved, and has.
//! * [`repair`] and [`giving_up`]: what operators do about resource managers that have lost something, or are gone.

mod allocate;
pub mod alternatives;
pub mod calendar;
pub mod choice;
mod data_plane;
mod giving_up;
pub mod handlers;
mod modify;
pub mod parents;
pub(crate) mod provision;
mod quota;
pub mod relocation;
mod repair;
pub mod reserve;
mod servers;
pub mod service;
pub mod tasks;
pub mod workflows;
