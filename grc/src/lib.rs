//! The global resource coordinator: from a user's request to bookings at every resource manager.
//!
//! In the order a request passes them:
//! * [`service`]: the gRPC handlers.
//! * [`attempts`]: the next hops in their order, for a reserve call and for planning again.
//! * [`admission`]: who is it, are the numbers sane; bytes become types here.
//! * [`picture`]: which frames, and what is free in them: one query per RM, all at once.
//! * [`planning`]: a plan per frame, on threads of their own, under a time budget; [`fair`] shares them by user.
//! * [`alternatives`]: what would do instead, when nothing can be planned.
//! * [`shell`]: the coordinator of `protocol` with its ledger, and its messages to RMs.
//!
//! Tasks go another way, from [`tasks`] on.
//!
//! * [`parents`]: the same federation as one resource manager to parent coordinators.
//!
//! Beside it: [`federation`] knows the RMs and their topology, [`inquiry`] asks them for several requests at
//! once, [`reconcile`] compares bookings with theirs and [`repair`] mends what differs,
//! [`giving_up`] waits no longer for an RM that is gone, [`choice`] takes a plan
//! that was shown, [`modify`] plans changes, [`config`] is what the GRC is told, [`daemon`] puts all of it into one
//! process, [`libraries`] runs outside solvers, [`kept`] is what the ledger keeps of a plan, [`view`] shows
//! reservations, [`listing`] pages of them, [`events`] tells their
//! changes, [`meters`] is what Prometheus sees. Source: Takefusa 2010, section 3.1, stages 1 to 4.

pub mod admission;
pub mod alternatives;
pub mod attempts;
pub mod choice;
pub mod config;
mod conversation;
pub mod daemon;
pub mod events;
mod fair;
pub mod federation;
mod giving_up;
pub mod inquiry;
pub mod kept;
pub mod libraries;
pub mod listing;
pub mod meters;
mod modify;
pub mod parent_settings;
pub mod parents;
pub mod pauses;
pub mod picture;
pub mod plan_cache;
pub mod planning;
pub mod reconcile;
mod repair;
pub mod service;
pub mod shell;
pub mod tasks;
pub mod view;

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
