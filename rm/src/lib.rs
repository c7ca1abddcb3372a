//! What network and compute resource managers share: the ResourceManager service, and the shell around the
//! participant of `protocol`.
//!
//! * [`config`]: the settings that both have, checked.
//! * [`service`]: the gRPC handlers. They convert, post to the participant's owner, and wait.
//! * [`shell`]: the participant's owner, its ledger, and its questions to coordinators.
//! * [`publisher`]: sends updates of profiles to coordinators that may watch them.
//! * [`servers`]: searches the idle servers of by-server sites.
//! * [`events`]: turns the participant's records into events for those who watch bookings.
//! * [`meters`]: what a scrape of metrics reads of the participant.
//! * [`driver`]: the boundary to real equipment; [`equipment`] keeps it as wanted.
//! * [`daemon`]: all of this as one process.
//!
//! Left out: drivers, which are in `nrm` and `crm`.

pub mod config;
pub mod daemon;
pub mod driver;
pub mod equipment;
pub mod events;
pub mod meters;
pub mod publisher;
pub mod servers;
pub mod service;
pub mod shell;
