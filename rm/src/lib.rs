//! What network and compute resource managers share: the ResourceManager service, and the shell around
//! the participant of `protocol`.
//!
//! * [`config`]: the settings both have, checked.
//! * [`service`]: the gRPC handlers. They convert, post to the owner of the participant, and wait.
//! * [`shell`]: the participant's owner, its ledger, and its questions to coordinators.
//! * [`publisher`]: updates of profiles to those who may watch them.
//! * [`events`]: what its records tell those who watch.
//! * [`meters`]: what a scrape of metrics reads of the participant.
//! * [`daemon`]: all of it as one process.
//!
//! Left out: drivers to real equipment.

pub mod config;
pub mod daemon;
pub mod events;
pub mod meters;
pub mod publisher;
pub mod service;
pub mod shell;
