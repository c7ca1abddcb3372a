//! The folder of a demo: one configuration, ledger and log a daemon, from one federation file.

use std::path::{Path, PathBuf};

use coalloc_proto::v1;
use serde::Serialize;

use super::ports;
use crate::exit::Failure;
use crate::serve::Kind;
use crate::text;

/// The scrape configuration of a demo with metrics.
pub const PROMETHEUS: &str = "prometheus.yml";
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
    /// host:port of its metrics, when it has any.
    pub metrics: Option<String>,
    /// Its configuration.
    pub config: PathBuf,
    /// Where its standard error goes.
    pub log: PathBuf,
}

/// What can be seen of a demo's daemons from outside.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    /// Serve metrics, and write a `prometheus.yml` that scrapes them.
    pub metrics: bool,
    /// Send traces there; empty: nowhere.
    pub traces: String,
}

/// Writes the configurations of a federation's daemons into `folder`, each at a free port. The
/// coordinator comes last.
///
/// # Errors
/// When there are no ports or a file cannot be written.
pub fn write(
    folder: &Path,
    file: &v1::FederationFile,
    telemetry: &Telemetry,
) -> Result<Vec<Post>, Failure> {
    let managers = file.networks.len() + file.computes.len();
    let scraped = if telemetry.metrics { managers + 1 } else { 0 };
    let mut ports = ports::free(managers + 1 + scraped)?;
    let mut scraped = ports.split_off(managers + 1).into_iter();
    let mut post = |kind, name: &str, address| {
        let metrics = scraped.next().map(|port| format!("127.0.0.1:{port}"));
        Post { metrics, ..Post::new(folder, kind, name, address) }
    };
    let mut addresses = ports.iter().map(|port| format!("127.0.0.1:{port}"));
    // One more port was asked for than there are resource managers.
    let grc_address = addresses.next().unwrap_or_default();
    let coordinators = vec![v1::Peer { name: GRC.to_owned(), address: grc_address.clone() }];
    let mut posts = Vec::with_capacity(managers + 1);
    for (inventory, address) in file.networks.iter().zip(addresses.by_ref()) {
        let post = post(Kind::Nrm, &inventory.name, address);
        post.write(&v1::NrmFile {
            daemon: Some(post.daemon(telemetry)),
            inventory: Some(inventory.clone()),
            coordinators: coordinators.clone(),
            policy: None,
            service_levels: Vec::new(),
        })?;
        posts.push(post);
    }
    for (inventory, address) in file.computes.iter().zip(addresses) {
        let post = post(Kind::Crm, &inventory.name, address);
        post.write(&v1::CrmFile {
            daemon: Some(post.daemon(telemetry)),
            inventory: Some(inventory.clone()),
            coordinators: coordinators.clone(),
            policy: None,
            service_levels: Vec::new(),
        })?;
        posts.push(post);
    }
    let grc = post(Kind::Grc, GRC, grc_address);
    let peer = |post: &Post| v1::Peer { name: post.name.clone(), address: post.address.clone() };
    grc.write(&v1::GrcFile {
        daemon: Some(grc.daemon(telemetry)),
        name: GRC.to_owned(),
        resource_managers: posts.iter().map(peer).collect(),
        planning: None,
        hold_for: None,
        upward: None,
    })?;
    posts.push(grc);
    if telemetry.metrics {
        let path = folder.join(PROMETHEUS);
        std::fs::write(&path, prometheus(&posts))
            .map_err(|error| Failure::internal(format!("{}: {error}", path.display())))?;
    }
    Ok(posts)
}

/// A configuration of Prometheus that scrapes these daemons.
fn prometheus(posts: &[Post]) -> String {
    let mut text = "global: {scrape_interval: 5s}\nscrape_configs:\n- job_name: coalloc\n  \
                    static_configs:\n"
        .to_owned();
    for post in posts {
        if let Some(metrics) = &post.metrics {
            let name = &post.name;
            text += &format!("  - {{targets: [\"{metrics}\"], labels: {{daemon: \"{name}\"}}}}\n");
        }
    }
    text
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
            metrics: None,
            config: folder.join(format!("{stem}.json")),
            log: folder.join(format!("{stem}.log")),
        }
    }

    fn daemon(&self, telemetry: &Telemetry) -> v1::Daemon {
        // Relative to the folder of the configuration.
        let ledger = self.config.with_extension("ledger");
        let ledger = ledger.file_name().unwrap_or_default().to_string_lossy().into_owned();
        v1::Daemon {
            listen: self.address.clone(),
            ledger,
            metrics_listen: self.metrics.clone().unwrap_or_default(),
            traces_endpoint: telemetry.traces.clone(),
            ..v1::Daemon::default()
        }
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
        let watched = || Telemetry { metrics: true, traces: "http://127.0.0.1:4317".into() };
        let posts = write(folder.path(), &super::super::elgl().unwrap(), &watched()).unwrap();
        assert_eq!(posts.len(), 14);
        let mut addresses: Vec<&str> = posts.iter().map(|post| post.address.as_str()).collect();
        addresses.extend(posts.iter().filter_map(|post| post.metrics.as_deref()));
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 28);
        let grc: v1::GrcFile = coalloc_proto::file::read(&posts[13].config).unwrap().message;
        assert_eq!((grc.name.as_str(), grc.resource_managers.len()), ("grc", 13));
        let nrm: v1::NrmFile = coalloc_proto::file::read(&posts[0].config).unwrap().message;
        assert_eq!(nrm.coordinators[0].address, posts[13].address);
        let daemon = nrm.daemon.unwrap();
        assert_eq!(daemon.ledger, "nrm-N.ledger");
        assert_eq!(Some(daemon.metrics_listen), posts[0].metrics);
        assert_eq!(daemon.traces_endpoint, "http://127.0.0.1:4317");
        let scraped = std::fs::read_to_string(folder.path().join(PROMETHEUS)).unwrap();
        assert_eq!(scraped.matches("targets: [").count(), 14);
        assert!(scraped.contains(posts[13].metrics.as_deref().unwrap()));
        let crm: v1::CrmFile = coalloc_proto::file::read(&posts[3].config).unwrap().message;
        assert_eq!(crm.inventory.unwrap().sites[0].cpus, 8);
    }
}
