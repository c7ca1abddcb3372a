//! The network resource manager: paths between end points, from its configuration file.
//!
//! Everything that all resource managers share is in `rm`. Here is what an NRM owns, and how its paths are
//! routed over its switches and links when it has an inner network ([`inner`]). Left out until the issue that
//! brings it: the driver to real equipment.

pub mod inner;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use coalloc_common::InvalidField;
use coalloc_net::convert::inner_network;
use coalloc_net::daemon::{at_line, daemon_settings};
use coalloc_net::telemetry::LogFormat;
use coalloc_proto::file::{self, Document, FileError};
use coalloc_proto::v1;
use coalloc_protocol::participant::InnerRouter;
use coalloc_rm::config::{Inventory, Kind, RmConfig};

/// Reads and checks the configuration file of a network resource manager.
///
/// # Errors
/// [`FileError`] that names file, line and field.
pub fn load(path: &Path) -> Result<RmConfig, FileError> {
    let document: Document<v1::NrmFile> = file::read(path)?;
    parse(&document).map_err(|error| at_line(&document, &error))
}

fn parse(document: &Document<v1::NrmFile>) -> Result<RmConfig, InvalidField> {
    let message = &document.message;
    let daemon = daemon_settings(message.daemon.as_ref(), document.folder())?;
    let missing = || InvalidField::new("inventory", "nothing", "what it owns: name, domain, paths");
    let owned = message.inventory.clone().ok_or_else(missing)?;
    let network = owned.inner.as_ref();
    let network =
        network.map(|inner| inner_network("inventory", &owned.paths, inner)).transpose()?;
    let inside = network.map(|plan| Arc::new(inner::Network::new(plan)) as Arc<dyn InnerRouter>);
    let inside = owned.inner.clone().zip(inside);
    let inventory = Inventory {
        name: owned.name,
        domain: owned.domain,
        paths: owned.paths,
        price: owned.price,
        ..Inventory::default()
    };
    let policy = message.policy.as_ref();
    let config = RmConfig::new(Kind::Nrm, daemon, inventory, &message.coordinators, policy)?
        .with_levels(&message.service_levels, &message.coordinator_levels)?
        .with_quotas(message.quotas.as_ref())?
        .with_profiles(message.profiles.as_ref())?;
    Ok(config.with_inside(inside))
}

/// Runs the daemon until it is told to stop. This is what the binary `nrm` and `coalloc serve nrm` do.
#[must_use]
pub fn run(config: &Path, log: LogFormat) -> ExitCode {
    coalloc_rm::daemon::run(config, log, load)
}
