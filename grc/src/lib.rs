//! The global resource coordinator (GRC): it turns a user's request into bookings at every resource manager.
//!
//! A request passes through these modules in this order:
//! * [`calls`]: the gRPC handlers, and what each call does until its outcome: reserve, modify, tasks, a hold of a
//!   parent coordinator, and the operators' calls.
//! * [`admission`]: who calls, and whether the numbers are sane. Bytes become types here.
//! * [`availability`]: the resource managers and their topology, and what is free in a request's frames. Each resource
//!   manager gets one query, and all queries are sent at once.
//! * [`planning`]: a plan for each frame, on threads of their own, within a time budget.
//! * [`node`]: the conversation with the coordinator core, the core with its ledger, and its messages.
//!
//! Five modules serve all of these: [`round_robin`] is the queue in which users take turns; [`pictures`] keeps what is
//! believed of profiles, on which tasks are planned; [`views`] shows reservations to clients; [`meters`] reports to Prometheus; [`config`] reads the configuration.
//! [`daemon`] puts everything into one process.
//!
//! Only `daemon` imports `calls`; `config` imports no other module. Source: Takefusa 2010, section 3.1, stages 1 to 4.

pub mod admission;
pub mod availability;
pub mod calls;
pub mod config;
pub mod daemon;
pub mod meters;
pub mod node;
pub mod pictures;
pub mod planning;
mod round_robin;
pub mod views;

use std::path::Path;
use std::process::ExitCode;

use coalloc_net::daemon::{DaemonError, Workers};
use coalloc_net::telemetry::LogFormat;

/// Runs the daemon until it is stopped. The binary `grc` and `coalloc serve grc` both do this.
#[must_use]
pub fn run(config: &Path, log: LogFormat) -> ExitCode {
    coalloc_net::daemon::run(log, Workers::EachCore, || async {
        let config = config::load(config).map_err(DaemonError::Configuration)?;
        daemon::serve(config).await
    })
}
