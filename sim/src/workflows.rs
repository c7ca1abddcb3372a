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
//! without a message), failures and early ends of activities, and reading files: the caller hands over the
//! recorded workflow that the settings name.

mod federation;
pub mod generator;
mod measure;
mod recorded;
pub mod settings;
#[cfg(test)]
mod tests;
mod world;

use coalloc_common::InvalidField;
use coalloc_common::topology::Direction;
use coalloc_common::workflow::Workflow;
use coalloc_plan::WorkflowPlannerName;

pub use self::measure::{CURVES, METRICS};
pub use self::settings::WorkflowsSettings;
use self::world::World;
use crate::experiment::trace::TracedResource;
use crate::experiment::{Measures, ModelError, Trace, TraceEvent};

/// Runs the workflows of a seed under the planner of the settings. `recorded` is the workflow that they name,
/// if they name one.
///
/// # Errors
/// [`ModelError::Setting`] when a setting is not acceptable; [`ModelError::Defect`] when a planner returns a
/// schedule that does not fit, or the generator draws something that is no workflow.
pub fn run(
    settings: &WorkflowsSettings,
    recorded: Option<&Workflow>,
    seed: u64,
    trace: &mut dyn Trace,
) -> Result<Measures, ModelError> {
    let planner = check(settings, recorded)?;
    let topology = federation::topology(&settings.federation, seed)?;
    if trace.is_wanted() {
        report_resources(&topology, trace);
    }
    let record = World::new(settings, planner.planner(), &topology, recorded, seed).run(trace)?;
    Ok(measure::measures(&topology, &record))
}

/// Checks settings without running anything. It refuses everything that [`run`] would refuse. Returns the planner.
///
/// # Errors
/// The first setting that is not acceptable.
pub fn check(
    settings: &WorkflowsSettings,
    recorded: Option<&Workflow>,
) -> Result<WorkflowPlannerName, InvalidField> {
    let planner = settings.check()?;
    let Some(named) = &settings.workload.recorded else { return Ok(planner) };
    let field = |name: &str| format!("workload.recorded.{name}");
    let Some(workflow) = recorded else {
        let allowed = "a file that was read";
        return Err(InvalidField::new(field("file"), InvalidField::quoted(&named.file), allowed));
    };
    let most = workflow.activities.iter().map(|activity| activity.cpus.0).max().unwrap_or(0);
    if most > settings.federation.cpus {
        let allowed = format!("{most} or more, because an activity of {} has as many", named.file);
        return Err(InvalidField::new("federation.cpus", settings.federation.cpus, allowed));
    }
    Ok(planner)
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
