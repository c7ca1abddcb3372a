//! The global resource coordinator: from a user's request to bookings at every resource manager.
//!
//! In the order of a request's way:
//! * [`calls`]: the gRPC handlers, and what each call does until its outcome: reserve, modify, tasks, a hold of a
//!   parent coordinator, and the operators' calls.
//! * [`admission`]: who calls, and are the numbers sane? Bytes become types here.
//! * [`availability`]: the resource managers and their topology, and what is free in a request's frames: one query to
//!   each of them, all at once.
//! * [`planning`]: a plan for each frame, on threads of their own, within a time budget.
//! * [`node`]: the conversation with the coordinator core, the core with its ledger, and its messages.
//!
//! Beside the way: [`pictures`], what is believed of profiles, on which tasks are planned; [`views`], what a
//! reservation looks like to clients; [`meters`], what Prometheus sees; [`config`], what the GRC is told; [`daemon`],
//! which puts all of it into one process.
//!
//! Nothing imports what comes before it: `calls` uses all that follows, `config` nothing. Source: Takefusa 2010,
//! section 3.1, stages 1 to 4.

pub mod admission;
pub mod availability;
pub mod calls;
pub mod config;
pub mod daemon;
pub mod meters;
pub mod node;
pub mod pictures;
pub mod planning;
pub mod views;

use std::path::Path;
use std::process::ExitCode;

use coalloc_net::daemon::{DaemonError, Workers};
use coalloc_net::telemetry::LogFormat;

/// Runs the daemon until it is told to stop. This is what the binary `grc` and `coalloc serve grc` do.
#[must_use]
pub fn run(config: &Path, log: LogFormat) -> ExitCode {
    coalloc_net::daemon::run(log, Workers::EachCore, || async {
        let config = config::load(config).map_err(DaemonError::Configuration)?;
        daemon::serve(config).await
    })
}
