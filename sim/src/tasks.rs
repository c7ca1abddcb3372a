//! The tasks world: tasks come, are planned on pictures that may be out of date, and meet the truth at the
//! resource managers.
//!
//! ```text
//!   workload --task--> scheduler: picture -> planner -> plan
//!                          ^                              | one-way: link by link, the data behind it
//!                 updates, |                              | two-phase: all at once, data after the answers
//!                 answers  |                              v
//!                      controllers: the participants of the resource managers, link by link and cluster
//! ```
//!
//! Everything that decides is the code that runs live: coordinators, participants, change logs, subscriptions
//! and pictures of `coalloc-protocol`, planners of `coalloc-plan`. Here are the network between them, the tasks,
//! the papers' one-way reservation, which nothing does live, and the counting. In the order of reading:
//! `settings` (what a file can say), `net` (who keeps what, where), `workload`, `controller`, `belief` (what a
//! scheduler goes by), `world` (tasks and planning), `reserve` with `one_way` (the papers') and `coordinated`
//! (the live ones), `counts`.
//!
//! Source: Christodoulopoulos 2008, sections 5.3 and 7; Stevens 2009, section 5. What is ours where these
//! are silent: `docs/adr/0025-tasks-world.md`.
//!
//! Left out: failures of nodes and links, loss of messages (the fault world has these), more than one
//! wavelength, results that travel on, queues for processors of schedulers.

mod belief;
mod controller;
mod coordinated;
mod counts;
mod net;
mod one_way;
mod reserve;
mod settings;
#[cfg(test)]
mod tests;
mod workload;
mod world;

pub use settings::{
    ClusterSettings, OnConflict, PlanningSettings, Protocol, ReservationSettings, Schedulers,
    TasksSettings, TopologySettings, TorusSettings, UpdateSettings, UpdateStrategy,
    WorkloadSettings,
};

use coalloc_common::Topology;

use crate::experiment::{Measures, ModelError, Trace};

/// Runs the world of these settings and this seed to its end; `federation` is the one that they name, if they do.
///
/// # Errors
/// [`ModelError::Setting`] when a setting is not acceptable; [`ModelError::Defect`] when a resource manager's
/// invariants do not hold at the end.
pub fn run(
    settings: &TasksSettings,
    federation: Option<&Topology>,
    seed: u64,
    trace: &mut dyn Trace,
) -> Result<Measures, ModelError> {
    let mut world = world::World::new(settings, federation, seed, trace)?;
    world.run().map_err(ModelError::Defect)?;
    Ok(world.measures())
}

/// Checks settings without running anything: all that [`run`] would refuse.
///
/// # Errors
/// As [`run`].
pub fn check(
    settings: &TasksSettings,
    federation: Option<&Topology>,
    seed: u64,
) -> Result<(), ModelError> {
    world::World::new(settings, federation, seed, &mut crate::experiment::SilentTrace).map(|_| ())
}
