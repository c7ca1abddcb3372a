//! The compute resource manager: sites and their CPUs, from its configuration file.
//!
//! Everything that all resource managers share is in `rm`; here is what a CRM owns, and its drivers to real equipment
//! ([`slurm`]).

pub mod slurm;

use std::path::Path;
use std::process::ExitCode;

use coalloc_common::InvalidField;
use coalloc_net::daemon::{at_line, daemon_settings};
use coalloc_net::telemetry::LogFormat;
use coalloc_proto::file::{self, Document, FileError};
use coalloc_proto::v1;
use coalloc_rm::config::{Inventory, Kind, RmConfig};
use coalloc_rm::driver::DriverMaker;

use self::slurm::SlurmSettings;

/// Reads and checks the configuration file of a compute resource manager.
///
/// # Errors
/// [`FileError`] that names file, line and field.
pub fn load(path: &Path) -> Result<RmConfig, FileError> {
    let document: Document<v1::CrmFile> = file::read(path)?;
    parse(&document).map_err(|error| at_line(&document, &error))
}

fn parse(document: &Document<v1::CrmFile>) -> Result<RmConfig, InvalidField> {
    let message = &document.message;
    let daemon = daemon_settings(message.daemon.as_ref(), document.folder())?;
    let missing = || InvalidField::missing("inventory", "what it owns: name, domain, sites");
    let owned = message.inventory.clone().ok_or_else(missing)?;
    let inventory = Inventory {
        name: owned.name,
        domain: owned.domain,
        sites: owned.sites,
        price: owned.price,
        ..Inventory::default()
    };
    let policy = message.policy.as_ref();
    let config = RmConfig::new(Kind::Crm, daemon, inventory, &message.coordinators, policy)?
        .with_levels(&message.service_levels, &message.coordinator_levels)?
        .with_quotas(message.quotas.as_ref())?
        .with_profiles(message.profiles.as_ref())?;
    let wire = message.driver.as_ref();
    let driver = wire.map(|wire| driver(wire, document.folder(), &config)).transpose()?;
    Ok(config.with_driver(driver))
}

fn driver(
    wire: &v1::ComputeDriver,
    folder: &Path,
    config: &RmConfig,
) -> Result<DriverMaker, InvalidField> {
    match &wire.kind {
        Some(v1::compute_driver::Kind::Slurm(wire)) => {
            let (sites, servers) = (&config.description.sites, &config.servers);
            Ok(SlurmSettings::parse(wire, folder, sites, servers)?.maker())
        }
        None => Err(InvalidField::missing("driver", "the kind of the cluster: slurm")),
    }
}

/// Runs the daemon until it is told to stop. This is what the binary `crm` and `coalloc serve crm` do.
#[must_use]
pub fn run(config: &Path, log: LogFormat) -> ExitCode {
    coalloc_rm::daemon::run(config, log, load)
}
