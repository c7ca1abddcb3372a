//! From the flags of `coalloc init` to a federation: domains, daemons, names and addresses.
//!
//! Left out: files.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use coalloc_common::suggest::did_you_mean;
use coalloc_common::{Identity, InvalidField, Role, UserName};
use coalloc_net::convert::file_topology;
use coalloc_proto::v1;

use super::InitArgs;
use super::flags::{LinkFlag, SiteName};
use crate::kit::authority::host::HostName;
use crate::kit::certificates::{GRID, identity, local_hosts};
use crate::kit::exit::Failure;
use crate::kit::text;
use crate::user::serve::Kind;

/// The coordinator's name.
pub(super) const GRC: &str = "grc";
/// The domain of links between domains.
const NETWORK: &str = "network";
/// Where daemons run unless a flag says otherwise.
const LOCAL: &str = "127.0.0.1";

/// A federation that is to be written.
#[derive(Debug, Clone)]
pub(super) struct PlannedFederation {
    /// Sites and links by resource manager.
    pub(super) file: v1::FederationFile,
    /// The coordinator, then the CRMs, then the NRMs.
    pub(super) daemons: Vec<PlannedDaemon>,
    /// Who reserves.
    pub(super) users: Vec<String>,
}

/// A daemon of it.
#[derive(Debug, Clone)]
pub(super) struct PlannedDaemon {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) domain: String,
    /// A host name or an IP address.
    pub(super) host: String,
    pub(super) port: u16,
}

impl PlannedFederation {
    /// Checks the flags against each other. `name` is that of the federation.
    pub(super) fn of(args: &InitArgs, name: &str) -> Result<Self, Failure> {
        let file = v1::FederationFile {
            name: name.to_owned(),
            exchange_points: exchanges(args)?,
            computes: computes(args)?,
            ..v1::FederationFile::default()
        };
        let networks = networks(args, &file)?;
        let file = v1::FederationFile { networks, ..file };
        // What the flags can say is checked above; this is the reader of federations, for all else.
        file_topology(&file)?;
        let mut names = vec![(GRC.to_owned(), Kind::Grc, GRID.to_owned())];
        let computes = file.computes.iter();
        names.extend(computes.map(|one| (one.name.clone(), Kind::Crm, one.domain.clone())));
        let networks = file.networks.iter();
        names.extend(networks.map(|one| (one.name.clone(), Kind::Nrm, one.domain.clone())));
        check_spelling(&names)?;
        let hosts = hosts(args, &names)?;
        let ports = args.port_base..=u16::MAX;
        if names.len() > ports.len() {
            let most = usize::from(u16::MAX) + 1 - names.len();
            let allowed =
                format!("1 to {most}: {} daemons have a port each, up to 65535", names.len());
            return Err(InvalidField::new("--port-base", args.port_base, allowed).into());
        }
        let daemons = names.into_iter().zip(ports).map(|((name, kind, domain), port)| {
            let host = hosts.get(&domain).cloned().unwrap_or_else(|| LOCAL.to_owned());
            PlannedDaemon { name, kind, domain, host, port }
        });
        let daemons: Vec<PlannedDaemon> = daemons.collect();
        let users = users(args, &daemons)?;
        Ok(Self { file, daemons, users })
    }

    /// The coordinator.
    pub(super) fn coordinator(&self) -> Option<&PlannedDaemon> {
        self.daemons.iter().find(|daemon| daemon.kind == Kind::Grc)
    }

    /// The resource managers.
    pub(super) fn managers(&self) -> impl Iterator<Item = &PlannedDaemon> {
        self.daemons.iter().filter(|daemon| daemon.kind != Kind::Grc)
    }

    /// The domains that have resource managers.
    pub(super) fn domains(&self) -> BTreeSet<&str> {
        self.managers().map(|daemon| daemon.domain.as_str()).collect()
    }

    /// Whether all daemons are on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.daemons.iter().all(PlannedDaemon::is_local)
    }
}

impl PlannedDaemon {
    /// Its configuration file.
    pub(super) fn config(&self) -> String {
        format!("{}.yaml", self.name)
    }

    /// Its identity.
    pub(super) fn identity(&self) -> Result<Identity, Failure> {
        let role = match self.kind {
            Kind::Grc => Role::Coordinator,
            Kind::Nrm | Kind::Crm => Role::ResourceManager,
        };
        identity(&self.domain, role, &self.name)
    }

    /// The host names in its certificate.
    pub(super) fn hosts(&self) -> Result<Vec<HostName>, Failure> {
        let mut hosts = local_hosts()?;
        let own = HostName::parse("--host", &self.host)?;
        if !hosts.contains(&own) {
            hosts.push(own);
        }
        Ok(hosts)
    }

    /// host:port, as others connect to it.
    pub(super) fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// Where it listens: on loopback, or else at all addresses of its machine, which may have others than its name says.
    pub(super) fn listen(&self) -> String {
        match self.host.parse::<IpAddr>() {
            _ if self.is_local() => self.address(),
            Ok(IpAddr::V6(_)) => format!("[::]:{}", self.port),
            _ => format!("0.0.0.0:{}", self.port),
        }
    }

    fn is_local(&self) -> bool {
        is_loopback(&self.host)
    }
}

fn exchanges(args: &InitArgs) -> Result<Vec<String>, Failure> {
    let mut seen = BTreeSet::new();
    for SiteName(name) in &args.exchanges {
        if args.sites.iter().any(|site| site.name.0 == *name) || !seen.insert(name.clone()) {
            let allowed = "each name once, and not that of a site";
            return Err(InvalidField::new("--exchange", name, allowed).into());
        }
    }
    Ok(seen.into_iter().collect())
}

/// A CRM for each domain with sites, in the order of the flags.
fn computes(args: &InitArgs) -> Result<Vec<v1::ComputeInventory>, Failure> {
    let mut computes: Vec<v1::ComputeInventory> = Vec::new();
    let mut seen = BTreeSet::new();
    for site in &args.sites {
        let name = &site.name.0;
        if !seen.insert(name) {
            return Err(InvalidField::new(
                "--site",
                name,
                "each site once; sites of several domains \
                need different names, too",
            )
            .into());
        }
        let domain = site.domain.as_ref().unwrap_or(&site.name).0.clone();
        let own = v1::Site { name: name.clone(), cpus: site.cpus, ..v1::Site::default() };
        match computes.iter_mut().find(|one| one.domain == domain) {
            Some(compute) => compute.sites.push(own),
            None => computes.push(v1::ComputeInventory {
                name: format!("crm-{domain}"),
                domain,
                sites: vec![own],
                price: None,
            }),
        }
    }
    Ok(computes)
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// An NRM for each domain with links, in the order of the flags.
fn networks(
    args: &InitArgs,
    file: &v1::FederationFile,
) -> Result<Vec<v1::NetworkInventory>, Failure> {
    let mut networks: Vec<v1::NetworkInventory> = Vec::new();
    let mut seen = BTreeSet::new();
    for link in &args.links {
        let (a, b) = ends(link, file)?;
        if file.computes.iter().flat_map(|one| &one.sites).any(|site| site.name == link.ends) {
            let allowed = "a link whose name is not that of a site";
            return Err(InvalidField::new("--link", &link.ends, allowed).into());
        }
        let pair = if a < b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) };
        if !seen.insert(pair) {
            let allowed = "each link once; for more bandwidth, raise its rate";
            return Err(InvalidField::new("--link", &link.ends, allowed).into());
        }
        let domain_of = |end: &str| {
            let has = |one: &&v1::ComputeInventory| one.sites.iter().any(|site| site.name == end);
            file.computes.iter().find(has).map(|one| one.domain.as_str())
        };
        let common = domain_of(&a).filter(|domain| domain_of(&b) == Some(domain));
        let said = link.domain.as_ref().map(|domain| domain.0.as_str());
        let domain = said.or(common).unwrap_or(NETWORK).to_owned();
        let path = v1::Path {
            name: link.ends.clone(),
            a,
            b,
            capacity_bps: link.bps,
            ..v1::Path::default()
        };
        match networks.iter_mut().find(|one| one.domain == domain) {
            Some(network) => network.paths.push(path),
            None => networks.push(v1::NetworkInventory {
                name: format!("nrm-{domain}"),
                domain,
                paths: vec![path],
                ..v1::NetworkInventory::default()
            }),
        }
    }
    Ok(networks)
}

/// The two ends of a link.
fn ends(link: &LinkFlag, file: &v1::FederationFile) -> Result<(String, String), Failure> {
    let sites = file.computes.iter().flat_map(|one| &one.sites).map(|site| site.name.as_str());
    let known: Vec<&str> = sites.chain(file.exchange_points.iter().map(String::as_str)).collect();
    let splits =
        link.ends.match_indices('-').map(|(at, _)| (&link.ends[..at], &link.ends[at + 1..]));
    let mut splits: Vec<(&str, &str)> = splits.collect();
    let both = |(a, b): &(&str, &str)| known.contains(a) && known.contains(b);
    let fitting: Vec<(&str, &str)> = splits.iter().copied().filter(both).collect();
    match fitting[..] {
        [(a, b)] if a != b => return Ok((a.to_owned(), b.to_owned())),
        [_] => {
            let allowed = "two different ends";
            return Err(InvalidField::new("--link", &link.ends, allowed).into());
        }
        [] => {}
        _ => {
            let allowed = "names of sites that make clear where one ends and the other begins";
            return Err(InvalidField::new("--link", &link.ends, allowed).into());
        }
    }
    // The split with one known end says most about the other one.
    splits.sort_by_key(|(a, b)| !(known.contains(a) || known.contains(b)));
    let (a, b) = splits.first().copied().unwrap_or((&link.ends, ""));
    let wrong = if known.contains(&a) { b } else { a };
    let guess = did_you_mean(wrong, known.iter().copied());
    let names: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
    let allowed = format!("ends out of {}{guess}", text::enumerate(&names));
    let failure: Failure = InvalidField::new("--link", wrong, allowed).into();
    let hint =
        format!("add it with --site {wrong}=CPUS, or, if it has none, with --exchange {wrong}");
    Err(Failure { message: format!("{failure}\n{hint}"), ..failure })
}

/// Domains have folders and authorities, whose names do not tell capital letters from small ones.
fn check_spelling(names: &[(String, Kind, String)]) -> Result<(), Failure> {
    let mut spelled: BTreeMap<String, &str> = BTreeMap::new();
    for (_, _, domain) in names {
        let before = spelled.entry(domain.to_lowercase()).or_insert(domain);
        if before != domain {
            let allowed = format!("each domain in one spelling; there is {before:?}");
            return Err(InvalidField::new("DOMAIN", domain, allowed).into());
        }
    }
    Ok(())
}

/// The hosts of domains.
fn hosts(
    args: &InitArgs,
    names: &[(String, Kind, String)],
) -> Result<BTreeMap<String, String>, Failure> {
    let domains: BTreeSet<&str> = names.iter().map(|(_, _, domain)| domain.as_str()).collect();
    let mut hosts = BTreeMap::new();
    for host in &args.hosts {
        let domain = host.domain.0.as_str();
        if !domains.contains(domain) {
            let guess = did_you_mean(domain, domains.iter().copied());
            let names: Vec<String> = domains.iter().map(ToString::to_string).collect();
            let allowed = format!("one of the domains {}{guess}", text::enumerate(&names));
            return Err(InvalidField::new("--host", domain, allowed).into());
        }
        HostName::parse("--host", &host.address)?;
        if hosts.insert(domain.to_owned(), host.address.clone()).is_some() {
            return Err(InvalidField::new("--host", domain, "each domain once").into());
        }
    }
    let missing: Vec<String> = domains
        .iter()
        .filter(|domain| !hosts.is_empty() && !hosts.contains_key(**domain))
        .map(|domain| format!("--host {domain}=ADDR"))
        .collect();
    if !missing.is_empty() {
        return Err(Failure::bad_input(format!(
            "--host: the other domains' hosts are missing; a daemon on 127.0.0.1 cannot be reached from another machine\n\
             add: {}",
            missing.join(" ")
        )));
    }
    let local: Vec<&String> = hosts.values().filter(|host| is_loopback(host)).collect();
    if let Some(host) = local.first().filter(|_| local.len() < hosts.len()) {
        let allowed = "addresses that other machines reach, or loopback for all domains";
        return Err(InvalidField::new("--host", host, allowed).into());
    }
    Ok(hosts)
}

fn users(args: &InitArgs, daemons: &[PlannedDaemon]) -> Result<Vec<String>, Failure> {
    let mut users = Vec::new();
    for user in &args.users {
        UserName::parse("--user", user)?;
        // Each identity has a folder, which is named after it.
        let folder = user
            .parse::<SiteName>()
            .map_err(|problem| Failure::bad_input(format!("--user: {problem}")))?;
        let is_taken = folder.0 == "operator" || daemons.iter().any(|daemon| daemon.name == *user);
        if is_taken || users.contains(user) {
            let allowed = "each user once, and not `operator` or the name of a daemon";
            return Err(InvalidField::new("--user", user, allowed).into());
        }
        users.push(user.clone());
    }
    Ok(users)
}
