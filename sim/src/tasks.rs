//! The model `tasks`: tasks arrive and are planned on pictures that may be out of date; the resource managers
//! then accept or refuse the plans.
//!
//! ```text
//!   workload --task--> scheduler: picture -> planner -> plan
//!                          ^                              | one-way: link by link, followed by the data
//!                 updates, |                              | two-phase: all at once, data after the answers
//!                 answers  |                              v
//!                      controllers: the participants of the resource managers, for links and clusters
//! ```
//!
//! Everything that decides is the code that runs live: coordinators, participants, change logs, subscriptions
//! and pictures of `coalloc-protocol`, planners of `coalloc-plan`. This module adds the network between them,
//! the tasks, the papers' one-way reservation from node to node, which no daemon has, and the counting. In the
//! order of reading: `settings` (the content of a file), `net` (the network, and where timetables are kept),
//! `workload`, `controller`, `belief` (what a scheduler plans on), `events` and `world` (tasks and planning), `reserve`
//! with `one_way` (the papers' reservation) and `coordinated` (the live ones), `counts`.
//!
//! Source: Christodoulopoulos 2008, sections 5.3 and 7; Stevens 2009, section 5.
//! `docs/adr/0025-tasks-world.md` says what we assumed where these are silent.
//!
//! Left out: failures of nodes and links and loss of messages (the fault world has these), more than one
//! wavelength, results that are sent on, queues for the processors of schedulers.

mod belief;
mod controller;
mod coordinated;
mod counts;
mod events;
mod net;
mod one_way;
mod reserve;
mod scheduler_node;
pub(crate) mod settings;
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

/// Runs the world of these settings and this seed to its end. `federation` is the federation that the
/// settings name, if they name one.
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

/// Checks settings without running anything. It refuses everything that [`run`] would refuse.
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
