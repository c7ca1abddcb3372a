//! The configuration of a GRC, read from its file and checked.

pub mod parents;
pub mod quotas;
pub mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use coalloc_common::{CoordinatorName, InvalidField, Owners, RmName, Role, Span, limits};
use coalloc_net::client::Destination;
use coalloc_net::convert::{RequestOptions, plan_options, span_from_wire};
use coalloc_net::daemon::{DaemonSettings, at_line, daemon_settings};
use coalloc_net::identity::settings::Security;
use coalloc_net::server::listen_address;
use coalloc_proto::file::{self, Document, FileError};
use coalloc_proto::v1;

use crate::calls::relocation::RepairPolicy;
use crate::config::parents::ParentSettings;
use crate::config::quotas::UserQuotas;
use crate::config::tasks::TaskSettings;

/// A GRC's configuration.
#[derive(Debug, Clone)]
pub struct GrcConfig {
    /// The address it listens on, its ledger, and the other settings that every daemon has.
    pub daemon: DaemonSettings,
    /// The coordinator's name in the federation.
    pub name: CoordinatorName,
    /// The resource managers that it coordinates.
    pub rms: BTreeMap<RmName, Destination>,
    /// Whose the names of sites, exchange points and paths are.
    pub owners: Owners,
    /// The options for the search of plans, used where a request does not set them.
    pub planning: RequestOptions,
    /// Soft expiry of its holds: how long an RM waits for the decision before it asks. `None`: each RM's default.
    pub hold_for: Option<Span>,
    /// How long it remembers what has ended.
    pub retention: Span,
    /// How it serves parent coordinators, if it has any.
    pub upward: Option<ParentSettings>,
    /// How it plans tasks.
    pub tasks: TaskSettings,
    /// How much each user may have reserved, and how many calls it may make.
    pub quotas: UserQuotas,
    /// Who moves reservations off equipment that cannot be used.
    pub repair: RepairPolicy,
    /// Where it answers over HTTP; `None`: nowhere.
    pub web_listen: Option<SocketAddr>,
    /// The folder whose reports of experiments its page shows; `None`: it shows none.
    pub web_experiments: Option<PathBuf>,
}

/// Reads and checks the configuration file.
///
/// # Errors
/// [`FileError`] naming file, line and field.
pub fn load(path: &Path) -> Result<GrcConfig, FileError> {
    let document: Document<v1::GrcFile> = file::read(path)?;
    parse(&document).map_err(|error| at_line(&document, &error))
}

fn parse(document: &Document<v1::GrcFile>) -> Result<GrcConfig, InvalidField> {
    let message = &document.message;
    let hold_for = match &message.hold_for {
        None => None,
        Some(wire) => {
            let span = span_from_wire("hold_for", wire)?;
            let (low, high) = (limits::HOLD_SOFT_MIN, limits::HOLD_SOFT_MAX);
            if !(low..=high).contains(&span) {
                return Err(InvalidField::new("hold_for", span, format!("{low} to {high}")));
            }
            Some(span)
        }
    };
    let retention = match &message.retention {
        None => limits::RETENTION_DEFAULT,
        Some(wire) => {
            let span = span_from_wire("retention", wire)?;
            let (low, high) = (limits::RETENTION_MIN, limits::RETENTION_MAX);
            if !(low..=high).contains(&span) {
                return Err(InvalidField::new("retention", span, format!("{low} to {high}")));
            }
            span
        }
    };
    let name = CoordinatorName::parse("name", &message.name)?;
    let daemon = daemon_settings(message.daemon.as_ref(), document.folder())?;
    let security = &daemon.security;
    security.check_owner(Role::Coordinator, name.as_str())?;
    let upward = message.upward.as_ref();
    let upward = upward.map(|wire| ParentSettings::parse(security, &name, wire)).transpose()?;
    let (rms, owners) = peers(security, &name, &message.resource_managers)?;
    let planning = plan_options(message.planning.as_ref(), RequestOptions::default());
    let web_listen = web_listen(&message.web_listen, &daemon)?;
    let web_experiments = match message.web_experiments.as_str() {
        "" => None,
        text => Some(web_experiments(text, document.folder(), web_listen)?),
    };
    Ok(GrcConfig {
        daemon,
        rms,
        owners,
        name,
        planning: planning.map_err(|error| InvalidField {
            field: error.field.replacen("options", "planning", 1),
            ..error
        })?,
        hold_for,
        retention,
        upward,
        tasks: TaskSettings::parse(message.tasks.as_ref())?,
        quotas: UserQuotas::parse(message.quotas.as_ref())?,
        repair: RepairPolicy::parse(message.repair)?,
        web_listen,
        web_experiments,
    })
}

fn web_experiments(
    text: &str,
    folder: &Path,
    web_listen: Option<SocketAddr>,
) -> Result<PathBuf, InvalidField> {
    let wrong = |allowed| InvalidField::new("web_experiments", InvalidField::quoted(text), allowed);
    if web_listen.is_none() {
        return Err(wrong("nothing without `web_listen`, whose page shows the experiments"));
    }
    let path = folder.join(text);
    if path.is_dir() { Ok(path) } else { Err(wrong("a folder that exists")) }
}

fn web_listen(text: &str, daemon: &DaemonSettings) -> Result<Option<SocketAddr>, InvalidField> {
    if text.is_empty() {
        return Ok(None);
    }
    let field = "web_listen";
    let address = listen_address(field, text)?;
    if address.port() != 0 && [Some(daemon.listen), daemon.metrics_listen].contains(&Some(address))
    {
        let allowed = "an address other than daemon.listen and daemon.metrics_listen";
        return Err(InvalidField::new(field, address, allowed));
    }
    if matches!(daemon.security, Security::PlainText) && !address.ip().is_loopback() {
        let allowed = "a loopback address; everywhere else the daemon needs `identity`";
        return Err(InvalidField::new(field, address, allowed));
    }
    Ok(Some(address))
}

fn peers(
    security: &Security,
    own: &CoordinatorName,
    wire: &[v1::Peer],
) -> Result<(BTreeMap<RmName, Destination>, Owners), InvalidField> {
    if wire.is_empty() {
        let allowed = "at least one resource manager";
        return Err(InvalidField::missing("resource_managers", allowed));
    }
    let (mut peers, mut owners) = (BTreeMap::new(), Owners::default());
    let mut addresses = BTreeSet::new();
    for (index, peer) in wire.iter().enumerate() {
        let field = |name: &str| format!("resource_managers[{index}].{name}");
        let name = RmName::parse(&field("name"), &peer.name)?;
        if name.as_str() == own.as_str() {
            let allowed = "another name than this coordinator's own; that would be a cycle";
            return Err(InvalidField::new(field("name"), &peer.name, allowed));
        }
        let at = format!("resource_managers[{index}]");
        let destination = security.destination(&at, peer, Role::ResourceManager)?;
        destination.check_only_one(&at, peers.values())?;
        if !addresses.insert(&peer.address) {
            let allowed = "each address once; one daemon has one identity";
            return Err(InvalidField::new(field("address"), &peer.address, allowed));
        }
        owners.add(&field("owns"), &name, &peer.owns)?;
        if peers.insert(name, destination).is_some() {
            let allowed = "each name once; one identity is one daemon";
            return Err(InvalidField::new(field("name"), &peer.name, allowed));
        }
    }
    Ok((peers, owners))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_a_folder_beside_a_page() {
        let own = tempfile::tempdir().unwrap();
        std::fs::create_dir(own.path().join("shown")).unwrap();
        std::fs::write(own.path().join("file"), "").unwrap();
        let web = "127.0.0.1:7080".parse().ok();
        let read = |text, web| web_experiments(text, own.path(), web).map_err(|e| e.to_string());
        assert_eq!(read("shown", web), Ok(own.path().join("shown")));
        let absolute = own.path().join("shown");
        assert_eq!(read(absolute.to_str().unwrap(), web), Ok(absolute.clone()));
        for wrong in ["none", "file"] {
            let said = read(wrong, web).unwrap_err();
            assert!(said.contains("web_experiments") && said.contains(wrong), "{said}");
            assert!(said.contains("a folder that exists"), "{said}");
        }
        let said = read("shown", None).unwrap_err();
        assert!(said.contains("nothing without `web_listen`"), "{said}");
    }
}
