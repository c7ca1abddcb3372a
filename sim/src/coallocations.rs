//! The model `coallocations`: a day of co-allocation requests, planned on frames and reserved in two phases.
//!
//! Source: Takefusa 2010, sections 3 and 4. Planners, participants and coordinators are those of the daemons;
//! only the time between them is simulated. [`settings`] says what can be varied, [`workload`] draws the
//! requests, `levels` divides the resource managers among child coordinators, `world` runs the day,
//! `planning` contains the planners, and `measure` counts.

mod federation;
mod levels;
mod measure;
mod planning;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod workload;
mod world;

use std::sync::Arc;

use coalloc_common::topology::Direction;
use coalloc_common::{InvalidField, Topology};
use coalloc_plan::ip::outside::Programs;

pub use self::measure::{CURVES, METRICS};
pub use self::settings::Settings;
use self::world::World;
use crate::experiment::trace::TracedResource;
use crate::experiment::{Measures, ModelError, Trace, TraceEvent};

/// Runs one day on a federation, with planners that need no external program.
///
/// # Errors
/// [`ModelError::Setting`] when a setting is not acceptable, or when the federation's topology is not
/// connected.
pub fn run(
    settings: &Settings,
    federation: &Topology,
    seed: u64,
    trace: &mut dyn Trace,
) -> Result<Measures, ModelError> {
    run_with(settings, federation, seed, None, trace)
}

/// Runs one day on a federation. `programs` starts the planners that are external programs.
///
/// # Errors
/// As [`run`], and [`ModelError::Program`] when a program fails.
pub fn run_with(
    settings: &Settings,
    federation: &Topology,
    seed: u64,
    programs: Option<&Arc<dyn Programs>>,
    trace: &mut dyn Trace,
) -> Result<Measures, ModelError> {
    let topology = check(settings, federation)?;
    let arrivals = workload::of_a_day(&settings.workload, seed);
    if trace.is_wanted() {
        tell_resources(&topology, trace);
    }
    let (done, tally) = World::new(settings, &topology, &arrivals, programs, trace)?.run()?;
    Ok(measure::measures(settings, &topology, &arrivals, &done, &tally))
}

/// Checks whether the settings can run on a federation. Returns the topology with the settings applied.
///
/// # Errors
/// As [`run`].
pub fn check(settings: &Settings, federation: &Topology) -> Result<Topology, ModelError> {
    settings.check()?;
    let topology = federation::topology_of(federation, settings)?;
    if let Some(far) = federation::not_reached(&topology) {
        let allowed = "a federation whose sites are all joined by paths";
        let value = format!("no path leads to {far}");
        return Err(InvalidField::new("federation", value, allowed).into());
    }
    levels::levels(&topology, settings)?;
    Ok(topology)
}

fn tell_resources(topology: &Topology, trace: &mut dyn Trace) {
    for of in topology.sites().flat_map(|(_, vertex, _)| vertex.resources()) {
        trace.event(TraceEvent::Resource {
            resource: of.resource.as_str().into(),
            kind: TracedResource::Site,
            capacity: of.capacity.0,
        });
    }
    for edge in topology.edges() {
        let ways = [Direction::AToB, Direction::BToA];
        let count = if edge.is_shared() { 1 } else { 2 };
        for way in &ways[..count] {
            trace.event(TraceEvent::Resource {
                resource: edge.resource(*way).as_str().into(),
                kind: TracedResource::Link,
                capacity: edge.capacity.0,
            });
        }
    }
}
