//! The folder of a demo: one configuration, ledger and log a daemon, from one federation file.

use std::path::{Path, PathBuf};

use coalloc_proto::v1;
use serde::Serialize;

use super::ports;
use crate::exit::Failure;
use crate::serve::Kind;
use crate::text;

/// The coordinator's name.
pub const GRC: &str = "grc";

/// One daemon to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// Its name in the federation.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// host:port.
    pub address: String,
    /// Its configuration.
    pub config: PathBuf,
    /// Where its standard error goes.
    pub log: PathBuf,
}

/// Writes the configurations of a federation's daemons into `folder`, each at a free port. The
/// coordinator comes last.
///
/// # Errors
/// When there are no ports or a file cannot be written.
pub fn write(folder: &Path, file: &v1::FederationFile) -> Result<Vec<Post>, Failure> {
    let managers = file.networks.len() + file.computes.len();
    let ports = ports::free(managers + 1)?;
    let mut addresses = ports.iter().map(|port| format!("127.0.0.1:{port}"));
    // One more port was asked for than there are resource managers.
    let grc_address = addresses.next().unwrap_or_default();
    let coordinators = vec![v1::Peer { name: GRC.to_owned(), address: grc_address.clone() }];
    let mut posts = Vec::with_capacity(managers + 1);
    for (inventory, address) in file.networks.iter().zip(addresses.by_ref()) {
        let post = Post::new(folder, Kind::Nrm, &inventory.name, address);
        post.write(&v1::NrmFile {
            daemon: Some(post.daemon()),
            inventory: Some(inventory.clone()),
            coordinators: coordinators.clone(),
            policy: None,
            service_levels: Vec::new(),
        })?;
        posts.push(post);
    }
    for (inventory, address) in file.computes.iter().zip(addresses) {
        let post = Post::new(folder, Kind::Crm, &inventory.name, address);
        post.write(&v1::CrmFile {
            daemon: Some(post.daemon()),
            inventory: Some(inventory.clone()),
            coordinators: coordinators.clone(),
            policy: None,
            service_levels: Vec::new(),
        })?;
        posts.push(post);
    }
    let grc = Post::new(folder, Kind::Grc, GRC, grc_address);
    let peer = |post: &Post| v1::Peer { name: post.name.clone(), address: post.address.clone() };
    grc.write(&v1::GrcFile {
        daemon: Some(grc.daemon()),
        name: GRC.to_owned(),
        resource_managers: posts.iter().map(peer).collect(),
        planning: None,
        hold_for: None,
        upward: None,
    })?;
    posts.push(grc);
    Ok(posts)
}

impl Post {
    fn new(folder: &Path, kind: Kind, name: &str, address: String) -> Self {
        // A name may have a slash, and a resource manager may be called like the coordinator.
        let stem = match kind {
            Kind::Grc => "coordinator".to_owned(),
            Kind::Nrm | Kind::Crm => name.replace(['/', ':'], "_"),
        };
        Self {
            name: name.to_owned(),
            kind,
            address,
            config: folder.join(format!("{stem}.json")),
            log: folder.join(format!("{stem}.log")),
        }
    }

    fn daemon(&self) -> v1::Daemon {
        // Relative to the folder of the configuration.
        let ledger = self.config.with_extension("ledger");
        let ledger = ledger.file_name().unwrap_or_default().to_string_lossy().into_owned();
        v1::Daemon { listen: self.address.clone(), ledger, ..v1::Daemon::default() }
    }

    fn write(&self, config: &impl Serialize) -> Result<(), Failure> {
        let path = &self.config;
        if path.exists() {
            let text = format!("two resource managers would have the file {}", path.display());
            return Err(Failure::bad_input(text));
        }
        std::fs::write(path, text::json(config)?)
            .map_err(|error| Failure::internal(format!("{}: {error}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_daemon_has_its_own_address_files_and_peers() {
        let folder = tempfile::tempdir().unwrap();
        let posts = write(folder.path(), &super::super::elgl().unwrap()).unwrap();
        assert_eq!(posts.len(), 14);
        let mut addresses: Vec<&str> = posts.iter().map(|post| post.address.as_str()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 14);
        let grc: v1::GrcFile = coalloc_proto::file::read(&posts[13].config).unwrap().message;
        assert_eq!((grc.name.as_str(), grc.resource_managers.len()), ("grc", 13));
        let nrm: v1::NrmFile = coalloc_proto::file::read(&posts[0].config).unwrap().message;
        assert_eq!(nrm.coordinators[0].address, posts[13].address);
        assert_eq!(nrm.daemon.unwrap().ledger, "nrm-N.ledger");
        let crm: v1::CrmFile = coalloc_proto::file::read(&posts[3].config).unwrap().message;
        assert_eq!(crm.inventory.unwrap().sites[0].cpus, 8);
    }
}
