//! SearchServers: the idle servers of all by-server sites. All resource managers that have such sites are asked at
//! once.
//!
//! Nothing is held. Left out: taking servers ([`crate::calls::allocate`]).

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, RmName, limits};
use coalloc_net::convert::{property_from_wire, window_from_wire};
use coalloc_net::status;
use coalloc_net::traces::{Span, SpanKind};
use coalloc_proto::v1;
use tokio::task::JoinSet;
use tonic::Status;

use crate::admission;
use crate::availability::federation::{RmClient, Snapshot};
use crate::availability::server_sites::{server_sites, site_of};
use crate::calls::service::GrcService;

/// The full name of the RPC of a search at one resource manager.
const FIND: &str = "coalloc.v1.ResourceManager/FindServers";

/// A search that was read from the wire.
pub(crate) struct ServerSearch {
    /// What every resource manager is asked, page by page.
    query: v1::FindServersRequest,
    /// The most servers that are wanted.
    limit: usize,
}

/// The servers that resource managers have found, and those that gave no answer.
#[derive(Default)]
pub(crate) struct FoundServers {
    /// The idle servers, ordered by resource manager.
    pub(crate) servers: Vec<v1::IdleServer>,
    /// Are there more than were wanted?
    pub(crate) more: bool,
    /// Those that gave no answer, with the reason.
    pub(crate) silent: BTreeMap<RmName, String>,
}

impl ServerSearch {
    /// Reads a search in the name of this coordinator.
    ///
    /// # Errors
    /// [`InvalidField`] for the first field that is wrong.
    pub(crate) fn read(
        wire: &v1::SearchServersRequest,
        coordinator: &str,
    ) -> Result<Self, InvalidField> {
        window_from_wire("window", wire.window.as_ref())?;
        check_range("at_least", wire.at_least, 0..=limits::SERVERS_MAX, "servers")?;
        for (index, property) in wire.properties.iter().enumerate() {
            property_from_wire(&format!("properties[{index}]"), property)?;
        }
        let limit = wire.limit.unwrap_or(limits::PAGE_DEFAULT);
        let limit = check_range("limit", limit, 1..=limits::PAGE_MAX, "servers")?;
        let query = v1::FindServersRequest {
            coordinator: coordinator.to_owned(),
            window: wire.window,
            at_least: wire.at_least,
            properties: wire.properties.clone(),
            site: wire.site.clone(),
            page_size: Some(limit),
            page_token: String::new(),
        };
        Ok(Self { query, limit: limit as usize })
    }

    /// The same search for all idle servers of its sites, whichever properties they have and however many they are.
    pub(crate) fn of_all(&self) -> Self {
        let query = v1::FindServersRequest {
            at_least: 0,
            properties: Vec::new(),
            page_size: Some(limits::PAGE_MAX),
            ..self.query.clone()
        };
        Self { query, limit: usize::MAX }
    }

    /// What this search finds among servers that were found by [`of_all`](Self::of_all), on the page with those that are
    /// `on_page` or behind.
    pub(crate) fn select(
        &self,
        all: FoundServers,
        on_page: impl Fn(&v1::IdleServer) -> bool,
    ) -> FoundServers {
        let has_all = |server: &v1::IdleServer| {
            self.query.properties.iter().all(|property| server.properties.contains(property))
        };
        let mut servers: Vec<v1::IdleServer> = all.servers.into_iter().filter(has_all).collect();
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for server in &servers {
            *counts.entry(server.site.clone()).or_default() += 1;
        }
        servers.retain(|server| counts.get(&server.site) >= Some(&self.query.at_least));
        servers.retain(on_page);
        let more = servers.len() > self.limit;
        servers.truncate(self.limit);
        FoundServers { servers, more, ..all }
    }

    /// The resource managers that have the sites of the search.
    ///
    /// # Errors
    /// [`InvalidField`] when the site is unknown, or is not by-server.
    pub(crate) fn rms(&self, federation: &Snapshot) -> Result<BTreeSet<RmName>, InvalidField> {
        let sites = server_sites(federation);
        Ok(match self.query.site.as_str() {
            "" => sites.into_iter().map(|site| site.rm).collect(),
            name => BTreeSet::from([site_of(&sites, "site", name)?.rm.clone()]),
        })
    }

    /// Asks these resource managers, all at once. `after` is the last server that is known already, with its resource
    /// manager: those before that one are not asked.
    pub(crate) async fn ask(
        &self,
        federation: &Snapshot,
        rms: &BTreeSet<RmName>,
        after: Option<(&RmName, &str)>,
    ) -> FoundServers {
        let is_left = |rm: &RmName| after.is_none_or(|(first, _)| rm >= first);
        let rms: BTreeSet<&RmName> = rms.iter().filter(|rm| is_left(rm)).collect();
        let mut asked = JoinSet::new();
        for (rm, (client, _)) in federation.members.iter().filter(|(rm, _)| rms.contains(rm)) {
            let token = after.filter(|(first, _)| rm == *first).map(|(_, server)| server);
            let page_token = token.unwrap_or_default().to_owned();
            let query = v1::FindServersRequest { page_token, ..self.query.clone() };
            let (rm, client) = (rm.clone(), client.clone());
            let (span, limit) = (Span::current(), self.limit);
            asked.spawn(async move {
                let found = pages(&rm, client, query, limit, &span).await;
                (rm, found)
            });
        }
        let mut answers = BTreeMap::new();
        while let Some(done) = asked.join_next().await {
            match done {
                Ok((rm, answer)) => {
                    answers.insert(rm, answer);
                }
                // Only a panic leads here.
                Err(error) => tracing::error!(%error, "a search of servers failed"),
            }
        }
        let mut found = FoundServers::default();
        for rm in rms {
            match answers.remove(rm) {
                Some(Ok((servers, more))) => {
                    found.more |= more;
                    found.servers.extend(servers.into_iter().map(|server| v1::IdleServer {
                        resource_manager: rm.to_string(),
                        ..server
                    }));
                }
                Some(Err(problem)) => {
                    found.silent.insert(rm.clone(), problem.message().to_owned());
                }
                None => {
                    found.silent.insert(rm.clone(), "the search broke off".to_owned());
                }
            }
        }
        found.more |= found.servers.len() > self.limit;
        found.servers.truncate(self.limit);
        found
    }
}

/// The idle servers of one resource manager up to a limit, and whether it has more.
async fn pages(
    rm: &RmName,
    mut client: RmClient,
    mut query: v1::FindServersRequest,
    limit: usize,
    trace: &Span,
) -> Result<(Vec<v1::IdleServer>, bool), Status> {
    let mut servers = Vec::new();
    loop {
        let span = trace.child(FIND, SpanKind::Client);
        span.set("coalloc.rm", rm);
        let mut request = tonic::Request::new(query.clone());
        request.set_timeout(limits::QUERY_PATIENCE.to_std());
        span.inject(request.metadata_mut());
        let page = span.carry(client.find_servers(request)).await?.into_inner();
        servers.extend(page.servers);
        let token = page.next_page_token;
        // A page token that comes twice would lead on for ever.
        if token.is_empty() || token == query.page_token || servers.len() >= limit {
            return Ok((servers, !token.is_empty()));
        }
        query.page_token = token;
    }
}

impl GrcService {
    /// Handles one search.
    pub(crate) async fn search_now(
        &self,
        wire: &v1::SearchServersRequest,
    ) -> Result<v1::SearchServersResponse, Status> {
        let search = ServerSearch::read(wire, &self.name);
        let search = search.map_err(|error| status::invalid(&error))?;
        let check = |federation: &Snapshot| admission::on(federation, || search.rms(federation));
        let (federation, rms) = self.settled_on(check).await?;
        let mut found = search.ask(&federation, &rms, None).await;
        if wire.site.is_empty() {
            let unknown = "has not described itself, so it is not known whether it has servers";
            let missing = federation.missing.iter().map(|rm| (rm.clone(), unknown.to_owned()));
            found.silent.extend(missing);
        }
        let silent = |(rm, problem): (RmName, String)| v1::SilentResourceManager {
            name: rm.to_string(),
            problem,
        };
        Ok(v1::SearchServersResponse {
            servers: found.servers,
            more: found.more,
            silent: found.silent.into_iter().map(silent).collect(),
        })
    }
}
