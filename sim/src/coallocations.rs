//! The model `coallocations`: a day of co-allocation requests, planned on frames and reserved in two phases.
//!
//! Source: Takefusa 2010, sections 3 and 4. Planners, participants and coordinators are those of the
//! daemons; what is simulated is the time between them. [`settings`] says what can be varied, [`workload`]
//! draws the requests, `levels` divides the resource managers among lower coordinators, `world` lets all happen,
//! `measure` counts.

mod federation;
mod levels;
mod measure;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod workload;
mod world;

use coalloc_common::topology::Direction;
use coalloc_common::{InvalidField, Topology};

pub use self::measure::METRICS;
pub use self::settings::Settings;
use self::world::World;
use crate::experiment::trace::ResourceKind;
use crate::experiment::{Measures, ModelError, Trace, TraceEvent};

/// Runs one day on a federation.
///
/// # Errors
/// [`ModelError::Setting`] when a setting is not acceptable, or the federation's topology is not connected.
pub fn run(
    settings: &Settings,
    federation: &Topology,
    seed: u64,
    trace: &mut dyn Trace,
) -> Result<Measures, ModelError> {
    let topology = check(settings, federation)?;
    let arrivals = workload::of_a_day(&settings.workload, seed);
    if trace.is_wanted() {
        tell_resources(&topology, trace);
    }
    let (done, tally) = World::new(settings, &topology, &arrivals, trace)?.run()?;
    Ok(measure::measures(settings, &topology, &arrivals, &done, &tally))
}

/// Would it run? The topology as the settings make it.
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
    for (_, _, compute) in topology.sites() {
        trace.event(TraceEvent::Resource {
            resource: compute.resource.as_str().into(),
            kind: ResourceKind::Site,
            capacity: compute.capacity.0,
        });
    }
    for edge in topology.edges() {
        let ways = [Direction::AToB, Direction::BToA];
        let count = if edge.is_shared() { 1 } else { 2 };
        for way in &ways[..count] {
            trace.event(TraceEvent::Resource {
                resource: edge.resource(*way).as_str().into(),
                kind: ResourceKind::Link,
                capacity: edge.capacity.0,
            });
        }
    }
}
