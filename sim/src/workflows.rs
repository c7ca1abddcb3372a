//! The model `workflows`: random workflows that arrive one after the other, and are planned and reserved
//! whole, or rejected for ever.
//!
//! Source: Decker 2007, section V. [`settings`] says what can be varied, `federation` makes the machines,
//! [`generator`] draws the workflows, `world` runs them under one planner, and `measure` counts. The planners
//! are those of `coalloc_plan::workflow`. One slot of the paper is one second here.
//!
//! Two runs with the same settings and seed are equal. The seed draws the workflows, and the speeds of machines if
//! these are drawn; the planner has no influence on either. So all planners of a sweep get the same workflows.
//!
//! Left out: the protocol between coordinators and resource managers (what is planned is booked at once and
//! without a message), failures and early ends of activities, and workflows that are read from files.

mod federation;
pub mod generator;
mod measure;
pub mod settings;
#[cfg(test)]
mod tests;
mod world;

use coalloc_common::InvalidField;
use coalloc_common::topology::Direction;

pub use self::measure::METRICS;
pub use self::settings::WorkflowsSettings;
use self::world::World;
use crate::experiment::trace::TracedResource;
use crate::experiment::{Measures, ModelError, Trace, TraceEvent};

/// Runs the workflows of a seed under the planner of the settings.
///
/// # Errors
/// [`ModelError::Setting`] when a setting is not acceptable; [`ModelError::Defect`] when a planner returns a
/// schedule that does not fit, or the generator draws something that is no workflow.
pub fn run(
    settings: &WorkflowsSettings,
    seed: u64,
    trace: &mut dyn Trace,
) -> Result<Measures, ModelError> {
    let planner = settings.check()?;
    let topology = federation::topology(&settings.federation, seed)?;
    if trace.is_wanted() {
        report_resources(&topology, trace);
    }
    let record = World::new(settings, planner.planner(), &topology, seed).run(trace)?;
    Ok(measure::measures(&topology, &record))
}

/// Checks settings without running anything. It refuses everything that [`run`] would refuse.
///
/// # Errors
/// The first setting that is not acceptable.
pub fn check(settings: &WorkflowsSettings) -> Result<(), InvalidField> {
    settings.check().map(|_| ())
}

fn report_resources(topology: &coalloc_common::Topology, trace: &mut dyn Trace) {
    for of in topology.sites().flat_map(|(_, vertex, _)| vertex.resources()) {
        trace.event(TraceEvent::Resource {
            resource: of.resource.as_str().into(),
            kind: TracedResource::Site,
            capacity: of.capacity.0,
        });
    }
    for edge in topology.edges() {
        for direction in [Direction::AToB, Direction::BToA] {
            trace.event(TraceEvent::Resource {
                resource: edge.resource(direction).as_str().into(),
                kind: TracedResource::Link,
                capacity: edge.capacity.0,
            });
        }
    }
}
