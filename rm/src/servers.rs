//! The idle servers of by-server sites, for coordinators that search them: FindServers.
//!
//! The participant knows when servers are idle; their properties are here, because nothing is decided by them. A
//! search reads one site after the other, so that holds do not wait for all of them.
//!
//! Left out: who may search, which the publisher knows. Source: Castillo 2009, section 4.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::invalid::check_range;
use coalloc_common::servers::IdlePeriod;
use coalloc_common::service_level::share_of_count;
use coalloc_common::{CoordinatorName, InvalidField, ResourceId, Time, Window, limits};
use coalloc_net::convert::{declared_servers, property_from_wire, time_to_wire, window_from_wire};
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_protocol::participant::Participant;
use tonic::Status;

use crate::shell::Handle;

/// The by-server sites of an RM, in the order of its configuration.
#[derive(Debug, Clone, Default)]
pub struct ServerCatalog(Vec<CatalogSite>);

#[derive(Debug, Clone)]
struct CatalogSite {
    name: ResourceId,
    cpus_each: u64,
    /// Each server by its whole name: its place at the site, and its properties.
    servers: BTreeMap<ResourceId, (usize, BTreeSet<String>)>,
}

/// A search that was read from the wire.
#[derive(Debug, Clone)]
pub struct ServerSearch {
    /// The coordinator that searches.
    pub coordinator: CoordinatorName,
    window: Window,
    at_least: usize,
    properties: BTreeSet<String>,
    page_size: usize,
    /// The last server of the page before.
    after: Option<ResourceId>,
}

impl ServerSearch {
    /// Reads a search.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for the first field that is wrong.
    pub fn read(wire: &v1::FindServersRequest) -> Result<Self, Status> {
        Self::parse(wire).map_err(|error| status::invalid(&error))
    }

    fn parse(wire: &v1::FindServersRequest) -> Result<Self, InvalidField> {
        let coordinator = CoordinatorName::parse("coordinator", &wire.coordinator)?;
        let window = window_from_wire("window", wire.window.as_ref())?;
        let most = limits::SERVERS_MAX;
        let at_least = check_range("at_least", wire.at_least, 0..=most, "servers")? as usize;
        let mut properties = BTreeSet::new();
        for (index, property) in wire.properties.iter().enumerate() {
            properties.insert(property_from_wire(&format!("properties[{index}]"), property)?);
        }
        let size = wire.page_size.unwrap_or(limits::PAGE_DEFAULT);
        let page_size = check_range("page_size", size, 1..=limits::PAGE_MAX, "entries")? as usize;
        let after = match wire.page_token.as_str() {
            "" => None,
            token => Some(ResourceId::parse("page_token", token)?),
        };
        Ok(Self { coordinator, window, at_least, properties, page_size, after })
    }
}

impl ServerCatalog {
    /// The servers of an inventory that was checked.
    #[must_use]
    pub fn of(sites: &[v1::Site]) -> Self {
        let site = |site: &v1::Site| {
            // The configuration was read before, so there is nothing wrong with it.
            let declared = declared_servers("site", site).ok().flatten()?;
            Some(CatalogSite {
                name: ResourceId::composed(site.name.as_str()),
                cpus_each: declared.cpus_each,
                servers: (declared.servers.into_iter().enumerate())
                    .map(|(place, server)| (server.name, (place, server.properties)))
                    .collect(),
            })
        };
        Self(sites.iter().filter_map(site).collect())
    }

    /// Answers a search of the servers of one site, or of all. Of the idle servers of each site, whichever properties
    /// they have, the search knows the first ones only: `best` percent of them.
    ///
    /// # Errors
    /// NOT_FOUND when the site is unknown or not by-server, INVALID_ARGUMENT when the page token is that of no
    /// page, and as [`Handle::read`].
    pub async fn search(
        &self,
        handle: &Handle,
        site: &str,
        best: u32,
        search: ServerSearch,
    ) -> Result<v1::FindServersResponse, Status> {
        let asked = |one: &&CatalogSite| site.is_empty() || one.name.as_str() == site;
        let sites: Vec<&CatalogSite> = self.0.iter().filter(asked).collect();
        if !site.is_empty() && sites.is_empty() {
            return Err(status::not_found("by-server site", site));
        }
        let of_token = |after: &ResourceId| {
            let place = sites.iter().position(|site| site.servers.contains_key(after));
            let allowed = "the `next_page_token` of a page";
            place.ok_or_else(|| status::invalid(&InvalidField::new("page_token", after, allowed)))
        };
        let first = search.after.as_ref().map(of_token).transpose()?.unwrap_or(0);
        let mut page = Vec::new();
        for (place, site) in sites.iter().enumerate().skip(first) {
            let (name, window) = (site.name.clone(), search.window);
            let look = move |core: &Participant| -> Vec<(ResourceId, IdlePeriod)> {
                let idle = core.idle_servers(&name, window).into_iter().flatten();
                idle.map(|server| (server.name.clone(), server.period)).collect()
            };
            let mut idle = handle.read(look).await?;
            idle.truncate(share_of_count(best, idle.len()));
            let mut found: Vec<v1::IdleServer> = idle
                .into_iter()
                .filter_map(|(name, period)| site.idle_server(&name, period, &search))
                .collect();
            if found.len() < search.at_least {
                continue;
            }
            if let Some(after) = search.after.as_ref().filter(|_| place == first) {
                // The server of the token may have been taken meanwhile.
                found.retain(|server| site.is_after(&server.name, after));
            }
            page.extend(found);
            if page.len() > search.page_size {
                page.truncate(search.page_size);
                let next_page_token = page.last().map(|last| last.name.clone()).unwrap_or_default();
                return Ok(v1::FindServersResponse { servers: page, next_page_token });
            }
        }
        Ok(v1::FindServersResponse { servers: page, next_page_token: String::new() })
    }
}

impl CatalogSite {
    /// Does the site list one server after the other?
    fn is_after(&self, name: &str, other: &ResourceId) -> bool {
        let place = |name: &str| self.servers.get(name).map(|(place, _)| *place);
        place(name) > place(other.as_str())
    }

    /// An idle server on the wire; `None` when it lacks a property.
    fn idle_server(
        &self,
        name: &ResourceId,
        period: IdlePeriod,
        search: &ServerSearch,
    ) -> Option<v1::IdleServer> {
        let (_, properties) = self.servers.get(name)?;
        search.properties.is_subset(properties).then(|| v1::IdleServer {
            name: name.to_string(),
            site: self.name.to_string(),
            cpus: self.cpus_each,
            properties: properties.iter().cloned().collect(),
            idle_since: Some(period.start).filter(|at| *at > Time::MIN).map(time_to_wire),
            idle_until: Some(period.end).filter(|at| *at < Time::MAX).map(time_to_wire),
            resource_manager: String::new(),
        })
    }
}
