//! The network resource manager: paths between end points, from its configuration file.
//!
//! Everything that all resource managers share is in `rm`. Here is what an NRM owns, and how its paths are
//! routed over its switches and links when it has an inner network ([`inner`]), and the driver to real equipment
//! ([`tc`]).

pub mod inner;
pub mod tc;

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
use coalloc_rm::driver::DriverMaker;

use self::tc::{TcDriver, TcSettings};

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
    let missing = || InvalidField::missing("inventory", "what it owns: name, domain, paths");
    let owned = message.inventory.clone().ok_or_else(missing)?;
    let network = owned.inner.as_ref();
    let network =
        network.map(|inner| inner_network("inventory", &owned.paths, inner)).transpose()?;
    let inside = network.map(|plan| Arc::new(inner::Network::new(plan)) as Arc<dyn InnerRouter>);
    let inside = owned.inner.clone().zip(inside);
    let driver = driver(message, &owned.paths)?;
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
    Ok(config.with_inside(inside).with_driver(driver))
}

fn driver(message: &v1::NrmFile, paths: &[v1::Path]) -> Result<Option<DriverMaker>, InvalidField> {
    let Some(driver) = &message.driver else { return Ok(None) };
    let Some(v1::network_driver::Kind::Tc(wire)) = &driver.kind else {
        return Err(InvalidField::missing("driver", "one kind of driver: tc"));
    };
    let settings = TcSettings::parse(wire, paths, &message.coordinators)?;
    let make = move |naming| Arc::new(TcDriver::new(settings.clone(), naming)) as Arc<_>;
    Ok(Some(DriverMaker::new(make)))
}

/// Runs the daemon until it is told to stop. This is what the binary `nrm` and `coalloc serve nrm` do.
#[must_use]
pub fn run(config: &Path, log: LogFormat) -> ExitCode {
    coalloc_rm::daemon::run(config, log, load)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
daemon: { listen: '127.0.0.1:0', ledger: nrm.ledger, insecure_plaintext: true }
inventory:
  name: nrm-N
  domain: N
  paths: [{ name: N0-N1, a: N0, b: N1, capacity_bps: 1000000000 }]
coordinators: [{ name: grc-1, address: '127.0.0.1:1' }]
driver:
  tc:
    netns: exchange
    unbooked_bps: 10000000
    paths: [{ name: N0-N1, a: to-a, b: to-b }]
    users: [{ user: alice, addresses: [10.77.1.2, 10.77.2.2] }]
";

    fn loaded(text: &str) -> Result<RmConfig, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nrm.yaml");
        std::fs::write(&path, text).unwrap();
        load(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn the_driver_is_read_from_the_file() {
        assert!(loaded(FILE).unwrap().driver.is_some());
        let without = FILE.split("driver:").next().unwrap();
        assert!(loaded(without).unwrap().driver.is_none());
        let empty = loaded(&format!("{without}driver: {{}}\n")).unwrap_err();
        assert!(empty.contains("driver") && empty.contains("tc"), "{empty}");
        let long = loaded(&FILE.replace("a: to-a", "a: sixteen-letters0")).unwrap_err();
        assert!(long.contains("nrm.yaml:12") && long.contains("driver.tc.paths[0].a"), "{long}");
    }
}
