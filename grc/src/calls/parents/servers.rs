//! By-server sites as parents see them. Sites and servers have the same names on both levels, so what a parent asks
//! about servers is passed on to the resource managers inside, and what they say of servers is passed on to the parent.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::service_level::{WHOLE, share_of_count};
use coalloc_common::suggest::did_you_mean;
use coalloc_common::{
    CoordinatorName, InvalidField, Reason, Refusal, Requester, ResourceId, RmName, Segment,
};
use coalloc_net::authorization::Caller;
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_protocol::message::{HoldOrder, ServerWish};
use tonic::Status;

use super::ParentService;
use crate::availability::federation::Snapshot;
use crate::availability::server_sites::{server_sites, servers_of, site_of_servers};
use crate::calls::servers::ServerSearch;

impl ParentService {
    /// A page of the idle servers inside, for a parent.
    pub(super) async fn found_servers(
        &self,
        caller: &Caller,
        wire: &v1::FindServersRequest,
    ) -> Result<v1::FindServersResponse, Status> {
        let invalid = |error: InvalidField| status::invalid(&error);
        let parent = CoordinatorName::parse("coordinator", &wire.coordinator).map_err(invalid)?;
        if !self.config.coordinators.contains_key(&parent) {
            let text = format!("coordinator {parent} is not configured as a parent");
            return Err(status::denied(text));
        }
        if !caller.reads_all() {
            caller.check_is_coordinator("coordinator", &parent)?;
        }
        let search = v1::SearchServersRequest {
            window: wire.window,
            at_least: wire.at_least,
            properties: wire.properties.clone(),
            site: wire.site.clone(),
            limit: wire.page_size,
        };
        let search = ServerSearch::read(&search, &self.service.name);
        let search = search.map_err(|error| invalid(of_page(error)))?;
        let federation = self.service.federation.settled().await;
        let rms = search.rms(&federation);
        let rms = rms.map_err(|_| status::not_found("by-server site", &wire.site))?;
        let after = token_rm(&federation, &wire.page_token).map_err(invalid)?;
        let best = match caller.requester() {
            Requester::Staff => WHOLE,
            _ => self.config.levels.best(&Requester::Coordinator(parent.clone())),
        };
        let found = if best < WHOLE {
            let mut found = search.of_all().ask(&federation, &rms, None).await;
            found.servers = known_servers(found.servers, best);
            // The catalog has also those that were taken since the page before.
            let catalog = catalog(&federation);
            let place = |name: &str| catalog.get(name).copied();
            found.servers.sort_by_key(|server| place(&server.name));
            let last = after.as_ref().and_then(|_| place(&wire.page_token));
            search.select(found, |server| last.is_none() || place(&server.name) > last)
        } else {
            let after = after.as_ref().map(|rm| (rm, wire.page_token.as_str()));
            search.ask(&federation, &rms, after).await
        };
        let silent = found.silent.len() + federation.missing.len();
        if silent > 0 {
            tracing::warn!(%parent, silent = ?found.silent, "a search of servers is not complete");
            let name = &self.service.name;
            let text = format!("{silent} resource managers of {name} do not say what is idle");
            return Err(Status::unavailable(text));
        }
        let last = found.servers.last().filter(|_| found.more).map(|last| last.name.clone());
        let outside = |server| v1::IdleServer { resource_manager: String::new(), ..server };
        Ok(v1::FindServersResponse {
            servers: found.servers.into_iter().map(outside).collect(),
            next_page_token: last.unwrap_or_default(),
        })
    }
}

/// Of the idle servers of each site, the first ones: `best` percent of them.
fn known_servers(idle: Vec<v1::IdleServer>, best: u32) -> Vec<v1::IdleServer> {
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    for server in &idle {
        *left.entry(server.site.clone()).or_default() += 1;
    }
    left.values_mut().for_each(|count| *count = share_of_count(best, *count));
    let is_known = |server: &v1::IdleServer| {
        let left = left.get_mut(&server.site);
        left.is_some_and(|left| left.checked_sub(1).map(|less| *left = less).is_some())
    };
    idle.into_iter().filter(is_known).collect()
}

/// The place of each server of the federation in the order of searches.
fn catalog(federation: &Snapshot) -> BTreeMap<String, usize> {
    let mut sites = server_sites(federation);
    sites.sort_by(|one, other| one.rm.cmp(&other.rm));
    let names = sites.iter().flat_map(|site| servers_of(federation, site));
    names.map(|name| name.to_string()).zip(0..).collect()
}

/// The same mistake with the field's name in FindServers.
fn of_page(error: InvalidField) -> InvalidField {
    match error.field.as_str() {
        "limit" => InvalidField { field: "page_size".to_owned(), ..error },
        _ => error,
    }
}

/// The resource manager of the server that a page token names.
fn token_rm(federation: &Snapshot, token: &str) -> Result<Option<RmName>, InvalidField> {
    if token.is_empty() {
        return Ok(None);
    }
    let unknown =
        |error| InvalidField { allowed: "the `next_page_token` of a page".to_owned(), ..error };
    let last = ResourceId::parse("page_token", token).map_err(unknown)?;
    let sites = server_sites(federation);
    let site = site_of_servers(federation, &sites, "page_token", &[last]);
    let of_page = |error: InvalidField| InvalidField { field: "page_token".to_owned(), ..error };
    Ok(site.map_err(|error| unknown(of_page(error)))?.map(|site| site.rm.clone()))
}

/// What a parent's hold wants of servers, for each resource manager inside.
///
/// # Errors
/// The refusal when a picked server is none of the sites of the hold.
pub(super) fn wishes(
    federation: &Snapshot,
    order: &HoldOrder,
    segments: &BTreeMap<RmName, Vec<Segment>>,
) -> Result<BTreeMap<RmName, ServerWish>, Refusal> {
    let Some(wish) = &order.servers else { return Ok(BTreeMap::new()) };
    let mut known: BTreeMap<ResourceId, RmName> = BTreeMap::new();
    let mut rms: BTreeSet<RmName> = BTreeSet::new();
    for site in server_sites(federation) {
        let is_here = |segment: &Segment| segment.resource == site.resource;
        if !segments.get(&site.rm).is_some_and(|segments| segments.iter().any(is_here)) {
            continue;
        }
        if !wish.picked.is_empty() {
            let servers = servers_of(federation, &site);
            known.extend(servers.into_iter().map(|name| (name, site.rm.clone())));
        }
        rms.insert(site.rm);
    }
    if let Some(unknown) = wish.picked.iter().find(|name| !known.contains_key(*name)) {
        let guess = did_you_mean(unknown.as_str(), known.keys().map(ResourceId::as_str));
        let detail = format!("server {unknown} was picked, but is at no site of this hold{guess}");
        let refusal = Refusal::new(Reason::UnknownResource, detail);
        return Err(Refusal { resource: Some(unknown.clone()), ..refusal });
    }
    let of_rm = |rm: RmName| {
        let picked = wish.picked.iter().filter(|name| known.get(*name) == Some(&rm));
        let (picked, avoided) = (picked.cloned().collect(), wish.avoided.clone());
        let wish = ServerWish { choice: wish.choice, picked, avoided };
        (rm, wish)
    };
    Ok(rms.into_iter().map(of_rm).collect())
}

/// A refusal about a server that the parent picked, for the parent; `None` for any other refusal.
pub(super) fn outward(refusal: &Refusal, order: &HoldOrder) -> Option<Refusal> {
    let (wish, resource) = (order.servers.as_ref()?, refusal.resource.as_ref()?);
    wish.picked.contains(resource).then(|| Refusal { rm: None, ..refusal.clone() })
}
