//! `coalloc compose`: turns a federation file into a testbed of containers, for Docker's compose.
//!
//! Every domain gets its own network; the coordinator is in another network, the exchange. Each domain has
//! one gate (`coalloc relay`) that is in both networks. Traffic between domains passes through the gates,
//! and a domain is cut off there. In order: [`Plan::of`] gives every daemon its service, network and port;
//! [`files`] writes the configurations (with [`layout`], as `coalloc demo` does) and the files of [`yaml`].
//! `deploy/compose` is the output for the paper's federation, and a test checks that it is.
//!
//! Building the image and talking to Docker are deliberately not here (`deploy/compose/build`, `up`,
//! `down`, `cut` and `heal` do that), and neither are trees of coordinators.

mod certificates;
mod yaml;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use coalloc_common::{Identity, Role};
use coalloc_proto::v1;
use serde::Serialize;

use crate::kit::certificates::{GRID, identity, local_hosts, operator};
use crate::kit::exit::{Answer, Failure};
use crate::kit::text;
use crate::testbed::local::layout::{self, GRC};
use crate::user::offline::Federation;
use crate::user::serve::Kind;
use certificates::{CertificatesArgs, IDENTITIES, PlannedIdentity};

/// The coordinator's port, in its container and at the gates inside the domains: the port in
/// `COALLOC_GRC`'s default.
const GRC_PORT: u16 = 7_000;
/// Ports of the resource managers count up from here, in the order of the federation file, networks first.
///
/// A resource manager has the same port in its container, at its gate and on the host.
const MANAGERS_FROM: u16 = 7_101;
/// The port of the metrics in each container.
const METRICS_PORT: u16 = 9_000;
/// Longest name of a service: the longest label that a host name may have between two dots.
const SERVICE_LEN_MAX: usize = 63;
/// Names of services that every testbed uses itself.
const TAKEN: [&str; 3] = [GRC, "operator", "prometheus"];

/// Write a testbed of containers for a federation: compose.yaml, configurations, options
///
/// Each domain becomes a network. A gate joins it to the exchange network, where the coordinator is; at the
/// gate, the domain can be delayed or cut off. deploy/compose is what this command writes for the
/// environment of Takefusa 2010 (ELGL), together with scripts that build the image, start and remove a
/// testbed.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    deploy/compose/build                                      the image, once\n  \
    coalloc compose --federation my.yaml --out testbed        your own federation\n  \
    deploy/compose/up testbed                                 start it, and wait until it serves\n  \
    COALLOC_DELAY=20ms deploy/compose/up testbed              the same, with domains 20 ms away\n  \
    deploy/compose/down testbed                               remove it, its ledgers too")]
pub struct ComposeArgs {
    #[command(subcommand)]
    what: Option<ComposeKind>,
    /// The federation, a FederationFile as YAML or JSON [default: ELGL, as in `coalloc demo`]
    #[arg(long, value_name = "FILE")]
    federation: Option<PathBuf>,
    /// Folder to write to
    #[arg(long, value_name = "DIR", required = true)]
    out: Option<PathBuf>,
    /// Overwrite files that exist already
    #[arg(long)]
    force: bool,
}

/// What else can be done for a testbed.
#[derive(Debug, Clone, Subcommand)]
enum ComposeKind {
    Certificates(CertificatesArgs),
}

/// Runs `coalloc compose`.
///
/// # Errors
/// When the federation is wrong, its names cannot be names of containers, or a file exists already.
pub fn run(args: &ComposeArgs) -> Result<Answer, Failure> {
    if let Some(ComposeKind::Certificates(args)) = &args.what {
        return certificates::run(args);
    }
    // Without a subcommand, clap requires it.
    let folder = args.out.clone().unwrap_or_default();
    let file = match &args.federation {
        Some(path) => Federation::read(path)?.file,
        None => crate::testbed::local::elgl()?,
    };
    let plan = Plan::of(&file)?;
    let files = files(&file, &plan)?;
    let there = files.keys().map(|name| folder.join(name)).find(|path| path.exists());
    if let Some(path) = there.filter(|_| !args.force) {
        let text = format!("{} is there already; --force writes over it", path.display());
        return Err(Failure::bad_input(text));
    }
    for (name, text) in &files {
        let path = folder.join(name);
        let failed = |error| Failure::internal(format!("{}: {error}", path.display()));
        path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
        std::fs::write(&path, text).map_err(failed)?;
    }
    if !file.taken.is_empty() {
        text::note(
            "`taken` in the file is only for planning offline; a testbed starts with nothing \
             booked",
        );
    }
    let (out, managers, domains) = (folder.display(), plan.managers.len(), plan.domains.len());
    Ok(Answer::done(format!(
        "{} files in {out}: {managers} resource managers in {domains} domains, {domains} gates and a \
         coordinator\n  start it   deploy/compose/up {out}\n  remove it  deploy/compose/down {out}\n  \
         options    {out}/.env\n",
        files.len()
    )))
}

/// The place of every daemon in the testbed.
#[derive(Debug)]
struct Plan {
    /// The federation's name, as the name of a Docker project.
    project: String,
    domains: Vec<Domain>,
    /// The resource managers, in the order of the federation file, networks first.
    managers: Vec<Manager>,
}

/// One administrative domain.
#[derive(Debug)]
struct Domain {
    /// The name in the federation.
    name: String,
    /// The name in a form that containers can have.
    slug: String,
}

/// One resource manager.
#[derive(Debug)]
struct Manager {
    name: String,
    /// The resource manager's service and host name.
    service: String,
    kind: Kind,
    /// The index in [`Plan::domains`].
    domain: usize,
    port: u16,
}

impl Domain {
    /// The service of the domain's gate, which is the gate's host name on both sides.
    fn gate(&self) -> String {
        format!("gate-{}", self.slug)
    }

    fn network(&self) -> String {
        format!("domain-{}", self.slug)
    }

    /// The option that delays this domain only.
    fn delay(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("COALLOC_DELAY_{}", self.slug.chars().map(plain).collect::<String>())
    }
}

impl Plan {
    fn of(file: &v1::FederationFile) -> Result<Self, Failure> {
        let mut plan = Self {
            project: format!("coalloc-{}", slug(&file.name).to_lowercase()),
            domains: Vec::new(),
            managers: Vec::new(),
        };
        for network in &file.networks {
            plan.add(Kind::Nrm, &network.name, &network.domain)?;
        }
        for compute in &file.computes {
            plan.add(Kind::Crm, &compute.name, &compute.domain)?;
        }
        plan.domains.sort_by(|one, other| one.name.cmp(&other.name));
        // Sorting has changed the indexes of the domains.
        let numbers: BTreeMap<&str, usize> =
            plan.domains.iter().enumerate().map(|(n, domain)| (domain.name.as_str(), n)).collect();
        let names = file.networks.iter().map(|network| network.domain.as_str());
        let names = names.chain(file.computes.iter().map(|compute| compute.domain.as_str()));
        for (manager, domain) in plan.managers.iter_mut().zip(names) {
            manager.domain = numbers.get(domain).copied().unwrap_or_default();
        }
        plan.check_names()?;
        Ok(plan)
    }

    fn add(&mut self, kind: Kind, name: &str, domain: &str) -> Result<(), Failure> {
        if !self.domains.iter().any(|one| one.name == domain) {
            self.domains.push(Domain { name: domain.to_owned(), slug: slug(domain) });
        }
        let port = u16::try_from(self.managers.len()).ok();
        let port = port.and_then(|number| MANAGERS_FROM.checked_add(number));
        let port = port.filter(|port| *port != METRICS_PORT);
        let port = port.ok_or_else(|| {
            let most = METRICS_PORT - MANAGERS_FROM;
            Failure::bad_input(format!("a testbed has at most {most} resource managers"))
        })?;
        let service = slug(name);
        self.managers.push(Manager { name: name.to_owned(), service, kind, domain: 0, port });
        Ok(())
    }

    /// Checks that names differ in more than case, because host names ignore case and each belongs to one
    /// container.
    fn check_names(&self) -> Result<(), Failure> {
        let mut seen: BTreeMap<String, String> =
            TAKEN.iter().map(|name| ((*name).to_owned(), "the testbed".to_owned())).collect();
        let gates = self.domains.iter().map(|domain| (domain.gate(), &domain.name));
        let managers = self.managers.iter().map(|manager| (manager.service.clone(), &manager.name));
        for (service, name) in gates.chain(managers) {
            if service.len() > SERVICE_LEN_MAX {
                let text = format!(
                    "{name:?} is too long for a container: allowed: a name of which \
                                    {service:?} has up to {SERVICE_LEN_MAX} characters"
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

    fn of_domain(&self, number: usize) -> impl Iterator<Item = &Manager> {
        self.managers.iter().filter(move |manager| manager.domain == number)
    }
}

/// The name in a form that a container can have.
fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let text: String = name.chars().map(plain).collect();
    let text = text.trim_matches('-');
    if text.is_empty() { "x".to_owned() } else { text.to_owned() }
}

/// Every file of the testbed, by its path in the folder.
fn files(file: &v1::FederationFile, plan: &Plan) -> Result<BTreeMap<String, String>, Failure> {
    let mut files = BTreeMap::new();
    let (networks, computes) = plan.managers.split_at(file.networks.len());
    let texts = networks.iter().zip(&file.networks).map(|(manager, own)| plan.config(manager, own));
    let texts = texts
        .chain(computes.iter().zip(&file.computes).map(|(manager, own)| plan.config(manager, own)));
    for (manager, text) in plan.managers.iter().zip(texts) {
        files.insert(config_name(&manager.service), text?);
    }
    let below = plan.managers.iter().map(|manager| {
        let domain = &plan.domains[manager.domain];
        let identity = identity(&domain.name, Role::ResourceManager, &manager.name)?;
        Ok(v1::Peer {
            name: manager.name.clone(),
            address: format!("{}:{}", domain.gate(), manager.port),
            identity: identity.to_string(),
            owns: Vec::new(),
        })
    });
    let below: Result<Vec<_>, Failure> = below.collect();
    let config = layout::grc(daemon(GRC, GRC_PORT)?, GRC, below?);
    files.insert(config_name(GRC), text::json(&config)?);
    files.insert(IDENTITIES.to_owned(), text::json(&identities(plan)?)?);
    files.insert("compose.yaml".to_owned(), yaml::compose(&file.name, plan));
    files.insert("prometheus.yml".to_owned(), yaml::prometheus(plan));
    files.insert(".env".to_owned(), yaml::options(plan));
    Ok(files)
}

/// The identities of the daemons and of the operator, by the names of their folders.
fn identities(plan: &Plan) -> Result<BTreeMap<String, PlannedIdentity>, Failure> {
    let local = local_hosts()?;
    let planned = |identity: Identity, names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned());
        let hosts = names.chain(local.iter().map(ToString::to_string)).collect();
        PlannedIdentity { identity: identity.to_string(), hosts }
    };
    let operator = PlannedIdentity { identity: operator()?.to_string(), hosts: Vec::new() };
    let grc = planned(identity(GRID, Role::Coordinator, GRC)?, &[GRC]);
    let mut all = BTreeMap::from([("operator".to_owned(), operator), (GRC.to_owned(), grc)]);
    for manager in &plan.managers {
        let domain = &plan.domains[manager.domain];
        let own = identity(&domain.name, Role::ResourceManager, &manager.name)?;
        all.insert(manager.service.clone(), planned(own, &[&manager.service, &domain.gate()]));
    }
    Ok(all)
}

impl Plan {
    /// The configuration of a resource manager, which reaches the coordinator through the gate of its domain.
    fn config(&self, manager: &Manager, inventory: &impl Serialize) -> Result<String, Failure> {
        let address = format!("{}:{GRC_PORT}", self.domains[manager.domain].gate());
        let daemon = daemon(&manager.service, manager.port)?;
        let identity = identity(GRID, Role::Coordinator, GRC)?.to_string();
        let coordinators =
            vec![v1::Peer { name: GRC.to_owned(), address, identity, owns: Vec::new() }];
        text::json(&layout::ManagerFile { daemon, inventory, coordinators, profiles: None })
    }
}

fn config_name(service: &str) -> String {
    format!("config/{service}.json")
}

/// A daemon that listens on all addresses: its networks decide who can reach the container.
fn daemon(service: &str, port: u16) -> Result<v1::Daemon, Failure> {
    let identity = v1::IdentitySettings {
        folder: yaml::IDENTITY.to_owned(),
        operators: vec![operator()?.to_string()],
        ..v1::IdentitySettings::default()
    };
    Ok(v1::Daemon {
        listen: format!("0.0.0.0:{port}"),
        ledger: format!("{}/{service}.ledger", yaml::STATE),
        insecure_plaintext: false,
        metrics_listen: format!("0.0.0.0:{METRICS_PORT}"),
        traces_endpoint: String::new(),
        identity: Some(identity),
        shared_ledger: None,
    })
}

#[cfg(test)]
mod tests;
