//! The daemons of a federation as containers: what [`compose`](super::compose) and [`kubernetes`](super::kubernetes) share.
//!
//! [`managers`] gives every resource manager its service, which is its host name, and its port. [`manager_configs`] and
//! [`coordinator_config`] make the configurations; the caller says by which host names daemons reach one another.
//! [`identities`] makes and renews the certificates.
//!
//! Left out: what starts the containers, and the networks between them.

pub(super) mod identities;

use std::collections::BTreeMap;

use coalloc_common::{Identity, Role};
use coalloc_proto::v1;
use serde::Serialize;

use crate::kit::certificates::{GRID, identity, local_hosts, operator};
use crate::kit::exit::Failure;
use crate::kit::text;
use crate::testbed::local::layout::{self, GRC};
use crate::user::serve::Kind;
use identities::PlannedIdentity;

/// The coordinator's port, in its container and wherever it is forwarded: the port in `COALLOC_GRC`'s default.
pub(super) const GRC_PORT: u16 = 7_000;
/// Ports of the resource managers count up from here, in the order of the federation file, networks first.
///
/// A resource manager has the same port in its container and wherever it is forwarded.
const MANAGERS_FROM: u16 = 7_101;
/// The port of the metrics in each container.
pub(super) const METRICS_PORT: u16 = 9_000;
/// Where a daemon keeps its ledger in its container: a volume, and the only place it can write to.
pub(super) const STATE: &str = "/var/lib/coalloc";
/// Where a daemon finds its identity in its container.
pub(super) const IDENTITY: &str = "/etc/coalloc/identity";
/// The folder of the operator's identity among those of the daemons.
pub(super) const OPERATOR: &str = "operator";

/// One resource manager.
#[derive(Debug)]
pub(super) struct Manager {
    pub(super) name: String,
    /// The domain's name in the federation.
    pub(super) domain: String,
    /// The resource manager's service and host name.
    pub(super) service: String,
    pub(super) kind: Kind,
    pub(super) port: u16,
}

impl Manager {
    /// The identity in its certificate.
    pub(super) fn identity(&self) -> Result<Identity, Failure> {
        identity(&self.domain, Role::ResourceManager, &self.name)
    }
}

/// The resource managers in the order of the federation file, networks first. `service` makes a service of a name.
pub(super) fn managers(
    file: &v1::FederationFile,
    service: impl Fn(&str) -> String,
) -> Result<Vec<Manager>, Failure> {
    let networks = file.networks.iter().map(|one| (Kind::Nrm, &one.name, &one.domain));
    let computes = file.computes.iter().map(|one| (Kind::Crm, &one.name, &one.domain));
    let manager = |(number, (kind, name, domain)): (usize, (Kind, &String, &String))| {
        let port = u16::try_from(number).ok();
        let port = port.and_then(|number| MANAGERS_FROM.checked_add(number));
        let port = port.filter(|port| *port < METRICS_PORT).ok_or_else(|| {
            let most = METRICS_PORT - MANAGERS_FROM;
            Failure::bad_input(format!("there can be at most {most} resource managers"))
        })?;
        let (name, domain, service) = (name.clone(), domain.clone(), service(name));
        Ok(Manager { name, domain, service, kind, port })
    };
    networks.chain(computes).enumerate().map(manager).collect()
}

/// Names of services that are taken, and the longest that there may be.
#[derive(Debug)]
pub(super) struct ServiceNames<'a> {
    /// Who has the names that are taken, in words.
    pub(super) whole: &'a str,
    /// Names that all federations have themselves.
    pub(super) taken: &'a [&'a str],
    /// The most characters of a service's name.
    pub(super) len_max: usize,
}

impl ServiceNames<'_> {
    /// Checks that names differ in more than case, because host names ignore case and each belongs to one container.
    /// `services` has each service, and the name in the federation that it was made of.
    pub(super) fn check<'a>(
        &self,
        services: impl Iterator<Item = (String, &'a str)>,
    ) -> Result<(), Failure> {
        let most = self.len_max;
        let mut seen: BTreeMap<String, String> =
            self.taken.iter().map(|name| ((*name).to_owned(), self.whole.to_owned())).collect();
        for (service, name) in services {
            if service.len() > most {
                let text = format!(
                    "{name:?} is too long for a container: allowed: a name of which {service:?} has up to \
                     {most} characters"
                );
                return Err(Failure::bad_input(text));
            }
            if let Some(other) = seen.insert(service.to_lowercase(), format!("{name:?}")) {
                let text = format!("{name:?} and {other} would both be the container {service:?}");
                return Err(Failure::bad_input(text));
            }
        }
        Ok(())
    }
}

/// The name in a form that a container can have.
pub(super) fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let text: String = name.chars().map(plain).collect();
    let text = text.trim_matches('-');
    if text.is_empty() { "x".to_owned() } else { text.to_owned() }
}

/// The configurations of the resource managers, in their order. `coordinator_host` is the host name by which a resource
/// manager reaches the coordinator.
pub(super) fn manager_configs(
    file: &v1::FederationFile,
    managers: &[Manager],
    coordinator_host: impl Fn(&Manager) -> String,
) -> Result<Vec<String>, Failure> {
    // Managers are in the order of the file.
    let (networks, computes) = managers.split_at(file.networks.len());
    let networks = networks.iter().zip(&file.networks).map(|(manager, inventory)| {
        manager_config(manager, inventory, coordinator_host(manager), None)
    });
    let computes = computes.iter().zip(&file.computes).map(|(manager, inventory)| {
        // Without this permission, the coordinator could not search single servers.
        let has_servers = inventory.sites.iter().any(|site| site.servers.is_some());
        let coordinators = vec![GRC.to_owned()];
        let profiles = has_servers.then_some(v1::ProfilePolicy { coordinators, updates: None });
        manager_config(manager, inventory, coordinator_host(manager), profiles)
    });
    networks.chain(computes).collect()
}

fn manager_config(
    manager: &Manager,
    inventory: &impl Serialize,
    coordinator_host: String,
    profiles: Option<v1::ProfilePolicy>,
) -> Result<String, Failure> {
    let coordinator = v1::Peer {
        name: GRC.to_owned(),
        address: format!("{coordinator_host}:{GRC_PORT}"),
        identity: coordinator_identity()?.to_string(),
        owns: Vec::new(),
    };
    let daemon = daemon(&manager.service, manager.port)?;
    text::json(&layout::ManagerFile {
        daemon,
        inventory,
        coordinators: vec![coordinator],
        profiles,
    })
}

/// The configuration of the coordinator. `host` is the host name by which it reaches a resource manager.
pub(super) fn coordinator_config(
    managers: &[Manager],
    host: impl Fn(&Manager) -> String,
) -> Result<v1::GrcFile, Failure> {
    let peer = |manager: &Manager| {
        Ok(v1::Peer {
            name: manager.name.clone(),
            address: format!("{}:{}", host(manager), manager.port),
            identity: manager.identity()?.to_string(),
            owns: Vec::new(),
        })
    };
    let peers = managers.iter().map(peer).collect::<Result<_, Failure>>()?;
    Ok(layout::grc(daemon(GRC, GRC_PORT)?, GRC, peers))
}

/// The identities of the daemons and of the operator, by the names of their folders. Besides the host names of its
/// service, the certificate of a daemon has those of the daemon's own machine.
pub(super) fn planned_identities(
    managers: &[Manager],
    coordinator_hosts: Vec<String>,
    hosts: impl Fn(&Manager) -> Vec<String>,
) -> Result<BTreeMap<String, PlannedIdentity>, Failure> {
    let local = local_hosts()?;
    let planned = |identity: Identity, names: Vec<String>| {
        let hosts = names.into_iter().chain(local.iter().map(ToString::to_string)).collect();
        PlannedIdentity { identity: identity.to_string(), hosts }
    };
    let operator = PlannedIdentity { identity: operator()?.to_string(), hosts: Vec::new() };
    let coordinator = planned(coordinator_identity()?, coordinator_hosts);
    let mut all = BTreeMap::from([(OPERATOR.to_owned(), operator), (GRC.to_owned(), coordinator)]);
    for manager in managers {
        all.insert(manager.service.clone(), planned(manager.identity()?, hosts(manager)));
    }
    Ok(all)
}

fn coordinator_identity() -> Result<Identity, Failure> {
    identity(GRID, Role::Coordinator, GRC)
}

/// A daemon that listens on all addresses: its networks decide who can reach the container.
fn daemon(service: &str, port: u16) -> Result<v1::Daemon, Failure> {
    let identity = v1::IdentitySettings {
        folder: IDENTITY.to_owned(),
        operators: vec![operator()?.to_string()],
        ..v1::IdentitySettings::default()
    };
    Ok(v1::Daemon {
        listen: format!("0.0.0.0:{port}"),
        ledger: format!("{STATE}/{service}.ledger"),
        insecure_plaintext: false,
        metrics_listen: format!("0.0.0.0:{METRICS_PORT}"),
        traces_endpoint: String::new(),
        identity: Some(identity),
        shared_ledger: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute(name: &str) -> v1::ComputeInventory {
        v1::ComputeInventory { name: name.to_owned(), domain: "d".into(), ..Default::default() }
    }

    #[test]
    fn ports_end_below_that_of_the_metrics() {
        let most = METRICS_PORT - MANAGERS_FROM;
        let computes = (0..most).map(|number| compute(&format!("c{number}"))).collect();
        let mut file = v1::FederationFile { computes, ..Default::default() };
        let managers = super::managers(&file, slug).unwrap();
        assert_eq!(managers.last().unwrap().port, METRICS_PORT - 1);
        file.computes.push(compute("one-more"));
        let failure = super::managers(&file, slug).unwrap_err();
        assert!(failure.message.contains("at most 1899 resource managers"), "{failure}");
    }

    #[test]
    fn a_coordinator_may_search_the_servers_of_a_site() {
        let servers =
            v1::Site { name: "s".into(), servers: Some(Default::default()), ..Default::default() };
        let by_server = v1::ComputeInventory { sites: vec![servers], ..compute("a") };
        let computes = vec![by_server, compute("b")];
        let file = v1::FederationFile { computes, ..Default::default() };
        let managers = super::managers(&file, slug).unwrap();
        let texts = manager_configs(&file, &managers, |_| "grc".to_owned()).unwrap();
        assert!(texts[0].contains("\"profiles\""), "{}", texts[0]);
        assert!(!texts[1].contains("\"profiles\""), "{}", texts[1]);
    }
}
