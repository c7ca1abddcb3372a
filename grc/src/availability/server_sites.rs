//! The by-server sites of the federation, as the resource managers describe them.
//!
//! Left out: which servers are idle; `calls/servers.rs` asks for that.

use std::collections::BTreeSet;

use coalloc_common::suggest::did_you_mean;
use coalloc_common::topology::{Compute, VertexIndex};
use coalloc_common::{InvalidField, ResourceId, RmName};
use coalloc_net::convert::declared_servers;
use coalloc_proto::v1;

use super::federation::Snapshot;

/// A site whose servers are reserved whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSite {
    /// The resource manager that has it.
    pub rm: RmName,
    /// The name of the site.
    pub name: String,
    /// Its place in the topology.
    pub vertex: VertexIndex,
    /// The resource that counts its CPUs.
    pub resource: ResourceId,
    /// The CPUs of each server.
    pub cpus_each: u64,
    /// How many servers it has.
    pub servers: u64,
    /// Points per CPU.
    pub unit_value: u64,
}

/// All by-server sites, in the order of the topology.
#[must_use]
pub fn server_sites(federation: &Snapshot) -> Vec<ServerSite> {
    let sites = federation.topology.sites();
    let sites = sites.filter_map(|(vertex, known, compute)| {
        let cpus_each = described(federation, compute)?.servers.as_ref()?.cpus_each.max(1);
        Some(ServerSite {
            rm: compute.rm.clone(),
            name: known.name.to_string(),
            vertex,
            resource: compute.resource.clone(),
            cpus_each,
            servers: compute.capacity.0 / cpus_each,
            unit_value: compute.unit_value.0,
        })
    });
    sites.collect()
}

/// What the resource manager of a site says of it.
#[must_use]
pub fn described<'a>(federation: &'a Snapshot, compute: &Compute) -> Option<&'a v1::Site> {
    let (_, description) = federation.members.get(&compute.rm)?;
    description.sites.iter().find(|site| site.name == compute.resource.as_str())
}

/// The by-server site of this name.
///
/// # Errors
/// [`InvalidField`] when there is none.
pub fn site_of<'a>(
    sites: &'a [ServerSite],
    field: &str,
    name: &str,
) -> Result<&'a ServerSite, InvalidField> {
    sites.iter().find(|site| site.name == name).ok_or_else(|| {
        let guess = did_you_mean(name, sites.iter().map(|site| site.name.as_str()));
        let allowed = format!("a by-server site of the federation: {}{guess}", names(sites));
        InvalidField::new(field, InvalidField::quoted(name), allowed)
    })
}

/// The names of sites, at most 20 of them.
#[must_use]
pub fn names(sites: &[ServerSite]) -> String {
    let shown: Vec<&str> = sites.iter().take(20).map(|site| site.name.as_str()).collect();
    match shown.len() {
        0 => "there is none".to_owned(),
        few if few == sites.len() => shown.join(", "),
        _ => format!("{}, ...", shown.join(", ")),
    }
}

/// The site that has all of these servers, none of which is named twice.
///
/// # Errors
/// [`InvalidField`] for the first server that is unknown, or that is of another site than the first one.
pub fn site_of_servers<'a>(
    federation: &Snapshot,
    sites: &'a [ServerSite],
    field: &str,
    picked: &[ResourceId],
) -> Result<Option<&'a ServerSite>, InvalidField> {
    let mut found: Option<(&ServerSite, BTreeSet<ResourceId>)> = None;
    for (index, name) in picked.iter().enumerate() {
        if found.as_ref().is_some_and(|(_, servers)| servers.contains(name)) {
            continue;
        }
        let field = format!("{field}[{index}]");
        let of = site_of_server(federation, sites, &field, name)?;
        if let Some((first, _)) = &found {
            let allowed = format!("servers of one site; the first one is of {}", first.name);
            return Err(InvalidField::new(field, name, allowed));
        }
        found = Some(of);
    }
    Ok(found.map(|(site, _)| site))
}

/// The whole names of the servers of a site.
#[must_use]
pub fn servers_of(federation: &Snapshot, site: &ServerSite) -> BTreeSet<ResourceId> {
    let compute = federation.topology.vertex(site.vertex).compute.as_ref();
    let declared = compute.and_then(|compute| described(federation, compute));
    // A description is taken over only if it can be read.
    let declared = declared.and_then(|wire| declared_servers("site", wire).ok().flatten());
    let servers = declared.into_iter().flat_map(|declared| declared.servers);
    servers.map(|server| server.name).collect()
}

/// The site of one server, and the names of all servers there.
fn site_of_server<'a>(
    federation: &Snapshot,
    sites: &'a [ServerSite],
    field: &str,
    name: &ResourceId,
) -> Result<(&'a ServerSite, BTreeSet<ResourceId>), InvalidField> {
    let is_prefix = |site: &&ServerSite| {
        name.as_str().strip_prefix(&site.name).is_some_and(|rest| rest.starts_with('/'))
    };
    let mut known = BTreeSet::new();
    for site in sites.iter().filter(is_prefix) {
        let servers = servers_of(federation, site);
        if servers.contains(name) {
            return Ok((site, servers));
        }
        known.extend(servers);
    }
    let guess = did_you_mean(name.as_str(), known.iter().map(ResourceId::as_str));
    let allowed = match sites.iter().find(is_prefix) {
        Some(site) => format!("SITE/NAME of a server of {}{guess}", site.name),
        None => format!("SITE/NAME of a server of a by-server site: {}", names(sites)),
    };
    Err(InvalidField::new(field, name, allowed))
}
