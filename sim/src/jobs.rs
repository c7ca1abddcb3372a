//! The model `jobs`: the jobs of a trace, each on so many servers of one machine for so long, and when they
//! start under one of five planners.
//!
//! ```text
//!   SWF text --swf--> trace --workload--> jobs --online | queue | conservative--> starts --measure--> measures
//! ```
//!
//! [`swf`] reads a trace, [`workload`] decides which of its jobs take part, and one planner gives each of them
//! a start: `online` (Castillo 2009), `queue` (fcfs and EASY backfilling) or `conservative` (conservative
//! backfilling); `logged` takes the starts of the log. and `measure` counts.
//!
//! Servers are counts: any idle server is as good as any other one. Only `online` may keep them one by one
//! (`occupancy`). Times are whole seconds, as in a trace.
//! Two runs with the same trace, settings and seed are equal; the seed draws advance reservations only.
//!
//! Source: Castillo 2009, sections 2, 4.2 and 5; Mu'alem and Feitelson 2001 for both kinds of backfilling.
//!
//! Left out: reading files, which the command line does; queues, priorities, users, failed
//! servers.

mod conservative;
mod measure;
mod occupancy;
mod online;
mod profile;
mod queue;
pub(crate) mod settings;
pub mod swf;
#[cfg(test)]
mod tests;
pub mod workload;

use coalloc_common::InvalidField;

pub use measure::{CURVES, METRICS};
pub use settings::{AtOneInstant, Estimates, JobPlanner, JobsSettings, Selection, ServerIndexKind};
pub use swf::SwfTrace;
use workload::{Job, SelectedJobs};

use crate::experiment::trace::TracedResource;
use crate::experiment::{Measures, ModelError, Trace, TraceEvent};

/// The outcome of planning a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The start, in seconds of the trace; `None` if the job was refused, or if the log does not state it.
    pub start: Option<i64>,
    /// The number of starts that `online` tries until one fits; `None` without steps and for other planners.
    pub attempts: Option<u64>,
    /// What the paper's trees did for this job: nodes visited, made and changed; `None` for other indices.
    pub operations: Option<u64>,
}

/// Why jobs could not be placed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// A setting is not acceptable for these jobs.
    #[error(transparent)]
    Setting(#[from] InvalidField),
    /// The timetable refuses a start that it has offered.
    #[error("{0}")]
    Defect(String),
}

impl From<String> for PlacementError {
    fn from(defect: String) -> Self {
        Self::Defect(defect)
    }
}

impl From<PlacementError> for ModelError {
    fn from(error: PlacementError) -> Self {
        match error {
            PlacementError::Setting(field) => Self::Setting(field),
            PlacementError::Defect(text) => Self::Defect(text),
        }
    }
}

/// Runs the jobs of a trace.
///
/// # Errors
/// [`ModelError::Setting`] when a setting is not acceptable; [`ModelError::Defect`] when the timetable refuses
/// a start that it has offered.
pub fn run(
    settings: &JobsSettings,
    swf: &SwfTrace,
    seed: u64,
    trace: &mut dyn Trace,
) -> Result<Measures, ModelError> {
    settings.check()?;
    let selected = SelectedJobs::of(swf, &settings.selection())?;
    let jobs = selected.jobs(settings, seed);
    let placements = place(settings, &jobs, selected.servers)?;
    if trace.is_wanted() {
        report(&jobs, &placements, selected.servers, trace);
    }
    Ok(measure::measures(&selected, &jobs, &placements))
}

/// Checks settings without running anything. It refuses everything that [`run`] would refuse.
///
/// # Errors
/// The first setting that is not acceptable.
pub fn check(settings: &JobsSettings, swf: &SwfTrace) -> Result<(), InvalidField> {
    settings.check()?;
    let selected = SelectedJobs::of(swf, &settings.selection())?;
    match settings.planner {
        // Seeds draw starts, and never submissions.
        JobPlanner::Online => {
            online::check(&selected.jobs(settings, 1), selected.servers, settings)
        }
        _ => Ok(()),
    }
}

/// Gives every job a start on this many servers.
///
/// # Errors
/// [`PlacementError`] when the index of servers would be too large, or about a defect.
pub fn place(
    settings: &JobsSettings,
    jobs: &[Job],
    servers: u64,
) -> Result<Vec<Placement>, PlacementError> {
    let order = settings.at_one_instant;
    Ok(match settings.planner {
        JobPlanner::Online => online::place(jobs, servers, settings)?,
        JobPlanner::Fcfs => queue::place(jobs, servers, false, order),
        JobPlanner::Easy => queue::place(jobs, servers, true, order),
        JobPlanner::Conservative => conservative::place(jobs, servers, order),
        JobPlanner::Logged => {
            // A log has no advance reservations; one that is drawn waits from its earliest start for as
            // long as the job waited in the log.
            let start = |job: &Job| job.logged_wait.map(|wait| job.earliest + wait);
            jobs.iter()
                .map(|job| Placement { start: start(job), attempts: None, operations: None })
                .collect()
        }
    })
}

/// Reports every job as a request of one site.
fn report(jobs: &[Job], placements: &[Placement], servers: u64, trace: &mut dyn Trace) {
    const SITE: &str = "servers";
    let us = |s: i64| s.saturating_mul(1_000_000);
    let (resource, kind) = (SITE.into(), TracedResource::Site);
    trace.event(TraceEvent::Resource { resource, kind, capacity: servers });
    for (request, (job, placement)) in (0..).zip(jobs.iter().zip(placements)) {
        let at = us(job.submitted);
        trace.event(TraceEvent::Arrived { at, request, user: "".into() });
        if let Some(start) = placement.start {
            trace.event(TraceEvent::Reserved {
                at,
                request,
                resource: SITE.into(),
                amount: job.servers.unsigned_abs(),
                start: us(start),
                end: us(start + job.run),
            });
        }
        let accepted = placement.start.is_some();
        trace.event(TraceEvent::Ended { at, request, accepted });
    }
}
