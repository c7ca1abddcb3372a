//! The folder of a federation: a configuration, ledger, log and identity for each daemon, made from one federation file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use coalloc_common::{Role, limits};
use coalloc_net::client::{Dialer, several};
use coalloc_proto::v1;
use serde::Serialize;

use super::ports;
use crate::kit::certificates::{self, Certificates, GRID};
use crate::kit::exit::Failure;
use crate::kit::rpc;
use crate::kit::text;
use crate::user::serve::Kind;

/// The scrape configuration of a demo with metrics.
pub const PROMETHEUS: &str = "prometheus.yml";
/// How long the certificates of a federation on this machine last.
const LIFETIME: Duration = Duration::from_secs(24 * 3_600);
/// The coordinator's name.
pub const GRC: &str = "grc";

/// The folder with the identity of whoever uses the federation, in the federation's folder.
pub use crate::kit::certificates::OPERATOR;
pub use crate::user::daemons::Post;

/// What a demo's daemons show of themselves: metrics and traces.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    /// Serve metrics, and write a `prometheus.yml` that scrapes them.
    pub metrics: bool,
    /// The collector that traces are sent to; empty for no traces.
    pub traces: String,
}

/// How the coordinators are placed over the resource managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// One coordinator over all resource managers.
    #[default]
    One,
    /// A child coordinator for the resource managers of each domain, and one parent coordinator.
    Tree,
    /// This many coordinators, each over all resource managers.
    Rivals(u32),
}

/// A federation that is set up on this machine.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The folder of all files.
    pub folder: &'a Path,
    /// The resource managers.
    pub file: &'a v1::FederationFile,
    /// The coordinators.
    pub shape: Shape,
    /// What the daemons show of themselves.
    pub telemetry: Telemetry,
    /// With these settings every coordinator plans tasks, and may watch the profiles of its resource managers.
    pub tasks: Option<v1::TaskSettings>,
    /// Daemons talk in plain text, and nobody proves who they are.
    pub plain_text: bool,
    /// Two processes of the only coordinator share its ledger in etcd; for each of them, the addresses at which it reaches
    /// etcd's members.
    pub etcd: Option<[Vec<String>; 2]>,
    /// Coordinators answer over HTTP, too.
    pub web: bool,
}

/// The names of the processes that share a coordinator's ledger.
pub const MEMBERS: [&str; 2] = ["a", "b"];

impl<'a> Setup<'a> {
    /// One coordinator, which plans no tasks, and nothing is shown.
    #[must_use]
    pub fn new(folder: &'a Path, file: &'a v1::FederationFile) -> Self {
        let (shape, telemetry) = (Shape::One, Telemetry::default());
        let (tasks, etcd) = (None, None);
        Self { folder, file, shape, telemetry, tasks, plain_text: false, etcd, web: false }
    }

    /// The coordinators that may watch a resource manager's profiles and search its servers, if tasks are planned or
    /// there are servers: those responsible for it.
    fn profiles(&self, above: &[v1::Peer]) -> Option<v1::ProfilePolicy> {
        let mut sites = self.file.computes.iter().flat_map(|compute| &compute.sites);
        let is_used = self.tasks.is_some() || sites.any(|site| site.servers.is_some());
        let coordinators = above.iter().map(|peer| peer.name.clone()).collect();
        is_used.then_some(v1::ProfilePolicy { coordinators, updates: None })
    }
}

/// Writes the configurations of a federation's daemons, each with a free port.
///
/// Resource managers come first, then coordinators; in a tree the parent coordinator comes last.
///
/// # Errors
/// When there are not enough free ports or a file cannot be written.
pub fn write(setup: &Setup<'_>) -> Result<Vec<Post>, Failure> {
    let Setup { folder, file, shape, telemetry, .. } = setup;
    let mut offices = Offices::new(setup)?;
    let mut posts = Vec::new();
    for network in &file.networks {
        posts.push(offices.post(Kind::Nrm, &network.name, &network.domain)?);
    }
    for compute in &file.computes {
        posts.push(offices.post(Kind::Crm, &compute.name, &compute.domain)?);
    }
    let mut coordinators = Vec::new();
    match *shape {
        Shape::One => {}
        Shape::Rivals(count) => {
            for n in 1..=count {
                let post = offices.post(Kind::Grc, &format!("{GRC}-{n}"), GRID)?;
                coordinators.push(Coordinator::of_all(post));
            }
        }
        Shape::Tree => {
            let lower = domains(file).into_iter().filter(|(_, border)| !border.is_empty());
            for (domain, border_points) in lower {
                let post = offices.post(Kind::Grc, &format!("{GRC}-{domain}"), &domain)?;
                coordinators.push(Coordinator { post, domain: Some(domain), border_points });
            }
        }
    }
    if matches!(shape, Shape::One | Shape::Tree) {
        let mut post = offices.post(Kind::Grc, GRC, GRID)?;
        if setup.etcd.is_some() {
            // Its processes are one coordinator with several addresses.
            let further = offices.addresses.next().unwrap_or_default();
            post.address = format!("{},{further}", post.address);
        }
        coordinators.push(Coordinator::of_all(post));
    }
    write_managers(setup, &posts, &coordinators)?;
    write_coordinators(setup, &posts, &coordinators)?;
    posts.extend(coordinators.into_iter().flat_map(|one| one.post.processes()));
    if telemetry.metrics {
        let path = folder.join(PROMETHEUS);
        std::fs::write(&path, prometheus(&posts))
            .map_err(|error| Failure::internal(format!("{}: {error}", path.display())))?;
    }
    Ok(posts)
}

/// The folder and the addresses from which daemons get their places.
struct Offices<'a> {
    folder: &'a Path,
    addresses: std::vec::IntoIter<String>,
    scraped: std::vec::IntoIter<String>,
    web: std::vec::IntoIter<u16>,
    /// `None` in plain text.
    certificates: Option<Certificates>,
    /// Connects as the operator.
    dialer: Dialer,
}

impl<'a> Offices<'a> {
    fn new(setup: &Setup<'a>) -> Result<Self, Failure> {
        let Setup { folder, file, .. } = *setup;
        let coordinators = match setup.shape {
            Shape::One if setup.etcd.is_some() => MEMBERS.len(),
            Shape::One => 1,
            // At most one coordinator per domain, and no domain without a resource manager.
            Shape::Tree => domains(file).len() + 1,
            Shape::Rivals(count) => count as usize,
        };
        let daemons = file.networks.len() + file.computes.len() + coordinators;
        let scraped = if setup.telemetry.metrics { daemons } else { 0 };
        let mut ports = ports::free(daemons + scraped + if setup.web { coordinators } else { 0 })?;
        let web = ports.split_off(daemons + scraped).into_iter();
        let mut addresses: Vec<String> =
            ports.into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let scraped = addresses.split_off(daemons).into_iter();
        let (mut certificates, mut dialer) = (None, Dialer::plain_text());
        if !setup.plain_text {
            let networks = file.networks.iter().map(|network| network.domain.as_str());
            let computes = file.computes.iter().map(|compute| compute.domain.as_str());
            let domains = networks.chain(computes).chain([GRID]).map(certificates::trust_domain);
            let domains: Vec<_> = domains.collect::<Result<_, _>>()?;
            let mut made = Certificates::new(folder, domains, LIFETIME)?;
            made.issue("operator", &certificates::operator()?, &[])?;
            dialer = rpc::dialer_of(&folder.join(OPERATOR))?;
            certificates = Some(made);
        }
        let addresses = addresses.into_iter();
        Ok(Self { folder, addresses, scraped, web, certificates, dialer })
    }

    /// A daemon at the next address. There are as many addresses as daemons.
    fn post(&mut self, kind: Kind, name: &str, domain: &str) -> Result<Post, Failure> {
        let address = self.addresses.next().unwrap_or_default();
        let mut post = Post::new(self.folder, kind, name, address);
        post.metrics = self.scraped.next();
        if kind == Kind::Grc {
            post.web = self.web.next().map(|port| format!("127.0.0.1:{port}"));
        }
        post.dialer = self.dialer.clone();
        if let Some(certificates) = &mut self.certificates {
            let role = match kind {
                Kind::Grc => Role::Coordinator,
                Kind::Nrm | Kind::Crm => Role::ResourceManager,
            };
            let identity = certificates::identity(domain, role, name)?;
            // Each configuration has its own name, and so has each identity.
            let stem = post.config.file_stem().unwrap_or_default().to_string_lossy();
            let folder = certificates.issue(&stem, &identity, &certificates::local_hosts()?)?;
            post.identity = Some((identity, folder));
        }
        Ok(post)
    }
}

/// A coordinator, and the part of the federation that it is responsible for.
struct Coordinator {
    post: Post,
    /// The domain whose resource managers it has; `None` for all, or in a tree for those of no child
    /// coordinator.
    domain: Option<String>,
    /// Where other domains meet this domain.
    border_points: Vec<String>,
}

impl Coordinator {
    const fn of_all(post: Post) -> Self {
        Self { post, domain: None, border_points: Vec::new() }
    }

    /// Is it directly responsible for a resource manager of this domain? `all` are the coordinators of the
    /// federation.
    fn stands_over(&self, domain: &str, all: &[Self], shape: Shape) -> bool {
        let of_domain = |one: &Self| one.domain.as_deref() == Some(domain);
        match shape {
            Shape::One | Shape::Rivals(_) => true,
            // A domain that no other domain meets has no child coordinator: it stays with the parent coordinator.
            Shape::Tree if self.post.name == GRC => !all.iter().any(of_domain),
            Shape::Tree => of_domain(self),
        }
    }
}

/// Every domain, with the points at which other domains meet its network, in order.
fn domains(file: &v1::FederationFile) -> BTreeMap<String, Vec<String>> {
    let mut points: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for network in &file.networks {
        let ends = network.paths.iter().flat_map(|path| [path.a.as_str(), path.b.as_str()]);
        points.entry(&network.domain).or_default().extend(ends);
    }
    let mut sites: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for compute in &file.computes {
        let names = compute.sites.iter().map(|site| site.name.as_str());
        sites.entry(&compute.domain).or_default().extend(names);
    }
    let known = |of: &BTreeMap<&str, BTreeSet<&str>>, domain: &str, point: &str| {
        of.iter().any(|(other, all)| *other != domain && all.contains(point))
    };
    let names: BTreeSet<&str> = points.keys().chain(sites.keys()).copied().collect();
    let border = |domain: &str| -> Vec<String> {
        let own = |point: &&&str| sites.get(domain).is_some_and(|sites| sites.contains(**point));
        let ends = points.get(domain).into_iter().flatten().filter(|point| !own(point));
        let met = ends.filter(|at| known(&points, domain, at) || known(&sites, domain, at));
        met.map(|point| (*point).to_owned()).collect()
    };
    names.into_iter().map(|domain| (domain.to_owned(), border(domain))).collect()
}

fn peer(post: &Post) -> v1::Peer {
    let identity = post.identity.as_ref().map(|(identity, _)| identity.to_string());
    let identity = identity.unwrap_or_default();
    v1::Peer { name: post.name.clone(), address: post.address.clone(), identity, owns: Vec::new() }
}

/// The configuration of a resource manager: an `NrmFile` or a `CrmFile`, which differ in the inventory alone.
#[derive(Serialize)]
pub(crate) struct ManagerFile<'a, Inventory> {
    pub(crate) daemon: v1::Daemon,
    pub(crate) inventory: &'a Inventory,
    pub(crate) coordinators: Vec<v1::Peer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profiles: Option<v1::ProfilePolicy>,
}

/// The configuration of a coordinator without a parent coordinator.
pub(crate) fn grc(daemon: v1::Daemon, name: &str, managers: Vec<v1::Peer>) -> v1::GrcFile {
    v1::GrcFile {
        web_listen: String::new(),
        web_experiments: String::new(),
        daemon: Some(daemon),
        name: name.to_owned(),
        resource_managers: managers,
        planning: None,
        hold_for: None,
        upward: None,
        tasks: None,
        quotas: Some(unlimited()),
        retention: None,
        repair: v1::RepairPolicy::Unspecified.into(),
    }
}

/// Quotas that no load of a testbed meets: its programs reserve and call for a few users.
fn unlimited() -> v1::UserQuotas {
    let user = v1::UserQuota {
        reservations: Some(limits::RESERVATIONS_QUOTA_MAX),
        calls_per_second: Some(limits::CALLS_QUOTA_MAX),
        ..v1::UserQuota::default()
    };
    v1::UserQuotas { user: Some(user), users: Vec::new() }
}

fn write_managers(
    setup: &Setup<'_>,
    posts: &[Post],
    coordinators: &[Coordinator],
) -> Result<(), Failure> {
    let (networks, computes) = posts.split_at(setup.file.networks.len());
    for (post, inventory) in networks.iter().zip(&setup.file.networks) {
        write_manager(setup, post, inventory, &inventory.domain, coordinators)?;
    }
    for (post, inventory) in computes.iter().zip(&setup.file.computes) {
        write_manager(setup, post, inventory, &inventory.domain, coordinators)?;
    }
    Ok(())
}

fn write_manager(
    setup: &Setup<'_>,
    post: &Post,
    inventory: &impl Serialize,
    domain: &str,
    all: &[Coordinator],
) -> Result<(), Failure> {
    let above = all.iter().filter(|one| one.stands_over(domain, all, setup.shape));
    let coordinators: Vec<v1::Peer> = above.map(|one| peer(&one.post)).collect();
    let profiles = setup.profiles(&coordinators);
    let daemon = post.daemon(&setup.telemetry)?;
    post.write(&ManagerFile { daemon, inventory, coordinators, profiles })
}

fn write_coordinators(
    setup: &Setup<'_>,
    posts: &[Post],
    coordinators: &[Coordinator],
) -> Result<(), Failure> {
    let Setup { file, shape, telemetry, tasks, .. } = setup;
    let domains = file.networks.iter().map(|network| network.domain.as_str());
    let domains = domains.chain(file.computes.iter().map(|compute| compute.domain.as_str()));
    let of_domains: Vec<(&Post, &str)> = posts.iter().zip(domains).collect();
    let top = coordinators.iter().map(|one| &one.post).find(|post| post.name == GRC);
    for one in coordinators {
        let post = &one.post;
        let own =
            of_domains.iter().filter(|(_, domain)| one.stands_over(domain, coordinators, *shape));
        let mut managers: Vec<v1::Peer> = own.map(|(post, _)| peer(post)).collect();
        if *shape == Shape::Tree && one.domain.is_none() {
            let lower = coordinators.iter().filter(|one| one.domain.is_some());
            managers.extend(lower.map(|one| peer(&one.post)));
        }
        let upward = one.domain.as_ref().map(|domain| v1::Upward {
            domain: domain.clone(),
            coordinators: top.into_iter().map(peer).collect(),
            border_points: one.border_points.clone(),
            policy: None,
            service_levels: Vec::new(),
            coordinator_levels: Vec::new(),
        });
        for (number, process) in post.clone().processes().into_iter().enumerate() {
            let mut daemon = process.daemon(telemetry)?;
            let etcd = setup.etcd.as_ref().and_then(|etcd| etcd.get(number));
            daemon.shared_ledger = etcd.map(|etcd| shared_ledger(post, &process, etcd));
            let mut config = grc(daemon, &post.name, managers.clone());
            config.web_listen = post.web.clone().unwrap_or_default();
            process.write(&v1::GrcFile {
                upward: upward.clone(),
                tasks: tasks.clone(),
                ..config
            })?;
        }
    }
    Ok(())
}

/// How a process of a coordinator shares the ledger with the others.
fn shared_ledger(post: &Post, process: &Post, etcd: &[String]) -> v1::SharedLedger {
    let members = MEMBERS.into_iter().zip(post.address.split(','));
    let member = |(name, address): (&str, &str)| v1::SharedLedgerMember {
        name: name.to_owned(),
        address: address.to_owned(),
    };
    v1::SharedLedger {
        endpoints: etcd.to_vec(),
        prefix: format!("coalloc/{}", post.name),
        member: process.name.rsplit('-').next().unwrap_or_default().to_owned(),
        members: members.map(member).collect(),
        tls: None,
    }
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
    /// The processes of a daemon: more than one if it has several addresses.
    fn processes(self) -> Vec<Self> {
        if !several(&self.address) {
            return vec![self];
        }
        let process = |(member, address): (&str, &str)| {
            let file = |path: &Path, kind: &str| {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                path.with_file_name(format!("{stem}-{member}.{kind}"))
            };
            Self {
                name: format!("{}-{member}", self.name),
                address: address.to_owned(),
                metrics: None,
                // Whoever stands by answers nobody.
                web: None,
                config: file(&self.config, "json"),
                log: file(&self.log, "log"),
                may_stand_by: true,
                ..self.clone()
            }
        };
        MEMBERS.into_iter().zip(self.address.split(',')).map(process).collect()
    }

    fn new(folder: &Path, kind: Kind, name: &str, address: String) -> Self {
        // A name may contain a slash, and a resource manager may have the same name as the coordinator.
        let stem = match kind {
            Kind::Grc if name == GRC => "coordinator".to_owned(),
            Kind::Grc => format!("coordinator_{}", name.replace(['/', ':'], "_")),
            Kind::Nrm | Kind::Crm => name.replace(['/', ':'], "_"),
        };
        Self {
            name: name.to_owned(),
            kind,
            address,
            metrics: None,
            web: None,
            config: folder.join(format!("{stem}.json")),
            log: folder.join(format!("{stem}.log")),
            identity: None,
            dialer: Dialer::plain_text(),
            may_stand_by: false,
        }
    }

    fn daemon(&self, telemetry: &Telemetry) -> Result<v1::Daemon, Failure> {
        // The path is relative to the folder of the configuration.
        let ledger = self.config.with_extension("ledger");
        let ledger = ledger.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let operator = certificates::operator()?.to_string();
        let identity = self.identity.as_ref().map(|(_, folder)| v1::IdentitySettings {
            folder: folder.display().to_string(),
            operators: vec![operator],
            ..v1::IdentitySettings::default()
        });
        Ok(v1::Daemon {
            listen: self.address.clone(),
            ledger,
            insecure_plaintext: identity.is_none(),
            metrics_listen: self.metrics.clone().unwrap_or_default(),
            traces_endpoint: telemetry.traces.clone(),
            identity,
            shared_ledger: None,
        })
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
        let file = crate::testbed::local::elgl().unwrap();
        let telemetry = Telemetry { metrics: true, traces: "http://127.0.0.1:4317".into() };
        let posts = write(&Setup { telemetry, ..Setup::new(folder.path(), &file) }).unwrap();
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

    fn read_grc(post: &Post) -> v1::GrcFile {
        coalloc_proto::file::read(&post.config).unwrap().message
    }

    fn names(peers: &[v1::Peer]) -> Vec<&str> {
        peers.iter().map(|peer| peer.name.as_str()).collect()
    }

    #[test]
    fn a_tree_has_a_coordinator_a_domain_and_one_above_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = crate::testbed::local::elgl().unwrap();
        // No other domain meets this domain, so it stays with the parent coordinator.
        let alone = v1::Site { name: "Z0".into(), cpus: 1, ..Default::default() };
        let alone = v1::ComputeInventory {
            name: "crm-Z0".into(),
            domain: "Z".into(),
            sites: vec![alone],
            ..Default::default()
        };
        file.computes.push(alone);
        let setup = Setup { shape: Shape::Tree, ..Setup::new(folder.path(), &file) };
        let posts = write(&setup).unwrap();
        let coordinators: Vec<&Post> = posts.iter().filter(|post| post.kind == Kind::Grc).collect();
        let of: Vec<&str> = coordinators.iter().map(|post| post.name.as_str()).collect();
        assert_eq!(of, ["grc-N", "grc-S", "grc-U", "grc"]);
        let top = read_grc(coordinators[3]);
        assert_eq!(names(&top.resource_managers), ["crm-Z0", "grc-N", "grc-S", "grc-U"]);
        assert!(top.upward.is_none());
        let lower = read_grc(coordinators[2]);
        assert_eq!(names(&lower.resource_managers), ["nrm-U", "crm-U0", "crm-U1", "crm-U2"]);
        let upward = lower.upward.unwrap();
        assert_eq!((upward.domain.as_str(), names(&upward.coordinators)), ("U", vec!["grc"]));
        assert_eq!(upward.border_points, ["X1"], "nobody is met at X2");
        let nrm: v1::NrmFile = coalloc_proto::file::read(&posts[0].config).unwrap().message;
        assert_eq!(names(&nrm.coordinators), ["grc-N"]);
    }

    #[test]
    fn rivals_stand_over_the_same_resource_managers() {
        let folder = tempfile::tempdir().unwrap();
        let file = crate::testbed::local::elgl().unwrap();
        let setup = Setup { shape: Shape::Rivals(3), ..Setup::new(folder.path(), &file) };
        let posts = write(&setup).unwrap();
        assert_eq!(posts.len(), 16);
        for post in &posts[13..] {
            assert_eq!(read_grc(post).resource_managers.len(), 13);
        }
        let crm: v1::CrmFile = coalloc_proto::file::read(&posts[3].config).unwrap().message;
        assert_eq!(names(&crm.coordinators), ["grc-1", "grc-2", "grc-3"]);
    }
}
