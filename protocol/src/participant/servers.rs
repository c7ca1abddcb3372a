//! By-server sites: single servers that are reserved whole.
//!
//! A site may declare its servers ([`SiteServers`]). A segment at such a site takes whole servers: as few as have
//! its CPUs together. They are chosen when the hold is admitted, and written into its record, so neither the fold
//! nor replay chooses again. Each server is a hidden resource of capacity 1, and what an entry takes of servers is
//! part of its footprint. So holds, bookings, changes and ends treat servers like all other resources. The site's
//! own timetable counts the CPUs of all servers taken.
//!
//! A segment keeps its servers throughout. A new version of a booking keeps the servers of the old one wherever they
//! are idle through its windows. Servers in use now must be kept by a segment that goes on with them.
//!
//! Which servers are idle through a window is answered by an index for each site ([`ServerTimetable`]). It follows
//! from the log, as the timetables do: both change in the same place of the fold.
//!
//! A query reports the CPUs of all servers that are idle through a whole frame. Profiles report what is free at each
//! instant, so a hold may be refused although every instant has enough: no server is idle through all of them.
//!
//! Left out: properties of servers, which the shell knows. Source: Castillo 2009, section 4;
//! docs/adr/0038-by-server-sites.md. The file is long because choosing servers, keeping them and giving them back are
//! read together.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coalloc_common::servers::{
    Choice, IdleIndex, IdlePeriod, PeriodTree, ServerIndex, ServerTimetable,
};
use coalloc_common::service_level::{self, WHOLE};
use coalloc_common::suggest::did_you_mean;
use coalloc_common::{
    Amount, Now, Reason, Refusal, ResourceId, Segment, Time, TransactionId, Window,
};
use serde::{Deserialize, Serialize};

use super::admission::{ClaimLevel, own_throughout};
use super::equipment::Unusable;
use super::footprint::{Footprint, Steps};
use super::{Entry, Participant, ParticipantRecord};
use crate::core::ReplayError;
use crate::message::{GrantedServers, HoldOrder, ServerWish};

/// The servers of one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteServers {
    /// The CPUs of each server; at least 1.
    pub cpus_each: u64,
    /// The whole name of each server, SITE/SERVER, in the order of the configuration. No other resource of the RM
    /// has any of these names.
    pub names: Vec<ResourceId>,
}

/// The servers of one segment; none for a segment of a resource that is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentServers {
    /// Their whole names.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub servers: Vec<ResourceId>,
    /// The CPUs that they have together; zero when there are none.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub cpus: Amount,
}

fn is_zero(cpus: &Amount) -> bool {
    *cpus == Amount::ZERO
}

/// A server that is idle through a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleServer<'a> {
    /// The whole name of the server.
    pub name: &'a ResourceId,
    /// Its whole idle period around the window.
    pub period: IdlePeriod,
}

/// One by-server site, and when its servers are taken.
#[derive(Debug, Clone)]
struct ServerSite {
    cpus_each: u64,
    names: Vec<ResourceId>,
    timetable: ServerTimetable<PeriodTree>,
}

impl ServerSite {
    /// How many servers have so many CPUs.
    fn servers_for(&self, cpus: Amount) -> usize {
        usize::try_from(cpus.0.div_ceil(self.cpus_each)).unwrap_or(usize::MAX)
    }

    /// The CPUs of so many servers.
    const fn cpus_of(&self, servers: usize) -> Amount {
        Amount((servers as u64).saturating_mul(self.cpus_each))
    }

    fn name_of(&self, server: ServerIndex) -> Option<&ResourceId> {
        self.names.get(server.0 as usize)
    }

    fn periods(&self) -> impl Iterator<Item = IdlePeriod> + '_ {
        (0..).take(self.names.len()).flat_map(|server| self.timetable.periods(ServerIndex(server)))
    }
}

/// All by-server sites of an RM.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerSites {
    sites: BTreeMap<ResourceId, ServerSite>,
    /// The site of each server, and its place there.
    places: BTreeMap<ResourceId, (ResourceId, ServerIndex)>,
}

impl ServerSites {
    pub(super) fn new(config: &BTreeMap<ResourceId, SiteServers>) -> Self {
        let mut all = Self::default();
        for (site, SiteServers { cpus_each, names }) in config {
            for (name, index) in names.iter().zip(0..) {
                all.places.insert(name.clone(), (site.clone(), ServerIndex(index)));
            }
            let servers = u32::try_from(names.len()).unwrap_or(u32::MAX);
            let timetable = ServerTimetable::new(servers, PeriodTree::new());
            let (cpus_each, names) = ((*cpus_each).max(1), names.clone());
            all.sites.insert(site.clone(), ServerSite { cpus_each, names, timetable });
        }
        all
    }

    /// Is there a server of this name?
    pub(super) fn has(&self, name: &ResourceId) -> bool {
        self.places.contains_key(name)
    }

    /// The site of a server.
    pub(super) fn site_of(&self, name: &ResourceId) -> Option<ResourceId> {
        self.places.get(name).map(|(site, _)| site.clone())
    }

    /// The names of all servers.
    pub(super) fn names(&self) -> impl Iterator<Item = &ResourceId> {
        self.places.keys()
    }

    /// Takes a segment, if it is one of a server.
    pub(super) fn take(&mut self, segment: &Segment) -> Result<(), ReplayError> {
        let Some((site, server)) = self.at(&segment.resource) else { return Ok(()) };
        let taken = site.timetable.take(server, segment.window);
        taken.map_err(|error| ReplayError(format!("{}: {error}", segment.resource)))
    }

    /// Gives a segment back, if it is one of a server.
    pub(super) fn give(&mut self, segment: &Segment) -> Result<(), ReplayError> {
        let Some((site, server)) = self.at(&segment.resource) else { return Ok(()) };
        let given = site.timetable.give(server, segment.window);
        given.map_err(|error| ReplayError(format!("{}: {error}", segment.resource)))
    }

    fn at(&mut self, name: &ResourceId) -> Option<(&mut ServerSite, ServerIndex)> {
        let (site, server) = self.places.get(name)?;
        Some((self.sites.get_mut(site)?, *server))
    }

    /// Checks the index of every site, and that the same servers are idle as in `naive`.
    pub(super) fn check(&self, naive: &Self) -> Result<(), String> {
        for ((name, site), (_, naive)) in self.sites.iter().zip(&naive.sites) {
            site.timetable.check_invariants().map_err(|error| format!("I12: {name}: {error}"))?;
            if let Some((is, expected)) =
                site.periods().zip(naive.periods()).find(|(is, expected)| is != expected)
            {
                let text = "I12: the index of idle servers is not that of the entries";
                return Err(format!("{text}: {name} has {is:?}, not {expected:?}"));
            }
        }
        Ok(())
    }
}

/// What segments take with these servers: of each resource its amount or the CPUs of its servers, and every server.
pub(super) fn disclosed_footprint(segments: &[Segment], servers: &[SegmentServers]) -> Footprint {
    let nothing = SegmentServers::default();
    let servers = servers.iter().chain(std::iter::repeat(&nothing));
    Footprint::sum(segments.iter().zip(servers).flat_map(|(segment, of)| {
        let amount = if of.servers.is_empty() { segment.amount } else { of.cpus };
        let own = of.servers.iter().map(|server| (server, segment.window, Amount(1)));
        std::iter::once((&segment.resource, segment.window, amount)).chain(own)
    }))
}

/// The servers of those segments that have any.
#[must_use]
pub fn granted_servers(segments: &[Segment], servers: &[SegmentServers]) -> Vec<GrantedServers> {
    let with = segments.iter().zip(servers).filter(|(_, of)| !of.servers.is_empty());
    let granted = |(segment, of): (&Segment, &SegmentServers)| GrantedServers {
        site: segment.resource.clone(),
        window: segment.window,
        servers: of.servers.clone(),
    };
    with.map(granted).collect()
}

impl Entry {
    /// The servers that it has, or had, at each by-server site.
    #[must_use]
    pub fn granted_servers(&self) -> Vec<GrantedServers> {
        let segments = self.order.as_ref().map_or(&[][..], |order| &order.segments);
        granted_servers(segments, &self.servers)
    }
}

impl Participant {
    /// Is this a by-server site?
    #[must_use]
    pub fn is_by_server(&self, site: &ResourceId) -> bool {
        self.servers.sites.contains_key(site)
    }

    /// The servers of a site that are idle through a window and can be used, with their idle periods, in the order of the
    /// configuration. `None` when the site is not by-server.
    #[must_use]
    pub fn idle_servers(
        &self,
        site: &ResourceId,
        window: Window,
    ) -> Option<impl Iterator<Item = IdleServer<'_>>> {
        let site = self.servers.sites.get(site)?;
        let idle = site.timetable.idle(window).into_iter();
        let idle = idle
            .filter_map(|period| Some(IdleServer { name: site.name_of(period.server)?, period }));
        Some(idle.filter(|server| !self.unusable().contains_key(server.name)))
    }

    /// A live entry that has CPUs of a by-server site without having servers: it is from before the site was made
    /// by-server. Nothing says which servers it uses, so an RM with such an entry must not start.
    #[must_use]
    pub fn without_servers(&self, now: Now) -> Option<(&TransactionId, &ResourceId)> {
        self.entries.iter().filter(|(_, entry)| entry.in_timetables().is_some()).find_map(
            |(txn, entry)| {
                let segments = entry.order.iter().flat_map(|order| &order.segments).enumerate();
                let mut live = segments.filter(|(_, segment)| segment.window.end() > now.wall);
                let lacks =
                    |place: usize| entry.servers.get(place).is_none_or(|of| of.servers.is_empty());
                let found = live
                    .find(|(place, segment)| self.is_by_server(&segment.resource) && lacks(*place));
                found.map(|(_, segment)| (txn, &segment.resource))
            },
        )
    }

    /// The order with every amount at a by-server site raised to whole servers.
    pub(super) fn in_whole_servers<'a>(&self, order: &'a HoldOrder) -> Cow<'a, HoldOrder> {
        if self.servers.sites.is_empty() {
            return Cow::Borrowed(order);
        }
        let mut order = order.clone();
        for segment in &mut order.segments {
            if let Some(site) = self.servers.sites.get(&segment.resource) {
                segment.amount = site.cpus_of(site.servers_for(segment.amount));
            }
        }
        Cow::Owned(order)
    }

    /// What a claimant may take of a by-server site over a window. `None` when the site is not by-server.
    pub(super) fn idle_for(&self, name: &ResourceId, claim: &ServerClaim<'_>) -> Option<IdleCpus> {
        let site = self.servers.sites.get(name)?;
        let ServerClaim { window, own, own_cpus, level, avoided } = *claim;
        let in_index = site.timetable.count_idle(window);
        let is_idle = |server| site.timetable.idle_through(server, window).is_ok();
        let useless = self.useless_servers(name, avoided);
        let useless = useless.iter().filter(|server| is_idle(**server)).count();
        // Of the index, these are taken: by the claimant.
        let of_own = self.own_servers(name, own, window);
        let more = of_own.filter(|(name, server)| {
            !is_idle(*server) && !avoided.contains(*name) && !self.is_lost(name, own, window)
        });
        let all = site.cpus_of(in_index - useless + more.count());
        let of_level = |percent| {
            if percent == WHOLE {
                return all;
            }
            let cpus = service_level::most(own_cpus, all, percent);
            site.cpus_of(usize::try_from(cpus.0 / site.cpus_each).unwrap_or(usize::MAX))
        };
        let (most, known) = (of_level(level.share), of_level(level.best));
        Some(IdleCpus { most, known, looked_at: in_index })
    }

    /// Is this a server that cannot be used now, and that the claimant does not have throughout a window?
    fn is_lost(&self, server: &ResourceId, own: &Footprint, window: Window) -> bool {
        let has = || own.steps(server).map_or(Amount::ZERO, |own| own_throughout(own, window));
        self.unusable().contains_key(server) && has() == Amount::ZERO
    }

    /// The servers of a site that are not given to anybody who does not have them: those to avoid, and those that cannot
    /// be used now.
    fn useless_servers(
        &self,
        site: &ResourceId,
        avoided: &BTreeSet<ResourceId>,
    ) -> BTreeSet<ServerIndex> {
        let places = avoided.iter().chain(self.unusable().keys());
        let places = places.filter_map(|name| self.servers.places.get(name));
        places.filter(|(at, _)| at == site).map(|(_, server)| *server).collect()
    }

    /// For a refusal: how many servers of a site cannot be used now, and why one of them cannot.
    fn words_of_unusable(&self, site: &ResourceId) -> String {
        let unusable = self.unusable().iter();
        let mut here =
            unusable.filter(|(name, _)| self.servers.site_of(name).as_ref() == Some(site));
        let Some((_, first)) = here.next() else { return String::new() };
        format!("; {} cannot be used now: {}", 1 + here.count(), first.sentence)
    }

    /// The servers of a site that are partly one's own, and that are idle through a window if one's own counts as
    /// idle. In the order of their names.
    fn own_servers<'a>(
        &'a self,
        site: &'a ResourceId,
        own: &'a Footprint,
        window: Window,
    ) -> impl Iterator<Item = (&'a ResourceId, ServerIndex)> {
        own.resources().filter_map(move |name| {
            let (at, server) = self.servers.places.get(name)?;
            (at == site && self.free_beside(own, name, window) > 0).then_some((name, *server))
        })
    }

    /// The first instant after the start of a window from which on a server of any by-server site is idle for as
    /// long as the window.
    pub(super) fn next_idle_server(&self, window: Window) -> Option<Time> {
        let sites = self.servers.sites.values();
        let next =
            |site: &ServerSite| site.timetable.index().next_start(window.start(), window.length());
        sites.filter_map(next).min()
    }

    /// Chooses the servers of every segment of an order that is admitted by its amounts. No servers when no segment
    /// is at a by-server site.
    ///
    /// # Errors
    /// The refusal when there are not enough idle servers, or a server that was picked is taken or unknown.
    pub(super) fn choose_servers(
        &self,
        order: &HoldOrder,
        now: Now,
    ) -> Result<Vec<SegmentServers>, Box<Refusal>> {
        self.check_picked(order)?;
        if !order.segments.iter().any(|segment| self.is_by_server(&segment.resource)) {
            return Ok(Vec::new());
        }
        let own = self.own(order.replaces.as_ref()).unwrap_or_default();
        let old = self.booked_entry(order.replaces.as_ref());
        // The version that was replaced before: a return to it must always succeed.
        let before = order.replaces.as_ref().and_then(|old| self.kept_before(old));
        let before = before.and_then(|before| self.entries.get(before));
        let is_picked = order.servers.as_ref().is_some_and(|wish| !wish.picked.is_empty());
        for version in [old, before].into_iter().flatten().filter(|_| !is_picked) {
            if let Some(same) = self.same_servers(order, &own, version) {
                return Ok(same);
            }
        }
        let avoided = avoided(order);
        let (now, chosen) = (now.wall, Vec::new());
        let mut search = ServerSearch { participant: self, order, avoided, own, now, chosen };
        for (segment, kept) in order.segments.iter().zip(kept_servers(order, old)) {
            let of = match self.servers.sites.get(&segment.resource) {
                Some(site) => search.choose(site, segment, kept)?,
                None => SegmentServers::default(),
            };
            search.chosen.push(of);
        }
        Ok(search.chosen)
    }

    /// A planted bug: the record of a hold with servers that are chosen now, whatever the hold wished.
    pub(super) fn with_servers_chosen_again(
        &self,
        record: &ParticipantRecord,
    ) -> ParticipantRecord {
        let mut record = record.clone();
        if let ParticipantRecord::Held { order, servers, at, .. } = &mut record {
            let wish = Some(ServerWish { choice: Choice::First, ..ServerWish::default() });
            let order = HoldOrder { servers: wish, ..order.clone() };
            *servers = self.choose_servers(&order, *at).unwrap_or_default();
        }
        record
    }

    /// Checks that every picked server is one of a site that the order has a segment of.
    fn check_picked(&self, order: &HoldOrder) -> Result<(), Box<Refusal>> {
        for name in order.servers.iter().flat_map(|wish| &wish.picked) {
            let place = self.servers.places.get(name);
            let is_at = |site: &ResourceId| order.segments.iter().any(|s| s.resource == *site);
            let detail = match place {
                Some((site, _)) if is_at(site) => continue,
                Some((site, _)) => format!("server {name} was picked, but nothing at {site}"),
                None => {
                    let known = self.servers.names().map(ResourceId::as_str);
                    let guess = did_you_mean(name.as_str(), known);
                    format!("there is no server {name} here{guess}")
                }
            };
            let refusal = Refusal::new(Reason::UnknownResource, detail).at(&self.config.name);
            return Err(Box::new(Refusal { resource: Some(name.clone()), ..refusal }));
        }
        Ok(())
    }

    /// The servers of an older version for the new one, if it has as many as are needed for every segment and what
    /// they take beyond one's own is free.
    fn same_servers(
        &self,
        order: &HoldOrder,
        own: &Footprint,
        version: &Entry,
    ) -> Option<Vec<SegmentServers>> {
        let of = |(segment, kept): (&Segment, Option<GrantedServers>)| {
            let kept = kept.map(|kept| kept.servers).unwrap_or_default();
            let Some(site) = self.servers.sites.get(&segment.resource) else {
                return Some(SegmentServers::default());
            };
            let wanted = site.servers_for(segment.amount);
            let cpus = site.cpus_of(wanted);
            (kept.len() == wanted).then_some(SegmentServers { servers: kept, cpus })
        };
        let kept = kept_servers(order, Some(version));
        let same: Vec<SegmentServers> =
            order.segments.iter().zip(kept).map(of).collect::<Option<_>>()?;
        let names: Vec<&ResourceId> = same.iter().flat_map(|of| &of.servers).collect();
        let avoided = avoided(order);
        if names.iter().any(|name| avoided.contains(*name)) {
            return None;
        }
        let taken = disclosed_footprint(&order.segments, &same).beyond(own);
        // Where a server cannot be used now, a new version has it only as long as the old one.
        if taken.resources().any(|name| self.unusable().contains_key(name)) {
            return None;
        }
        let fits = |segment: &Segment| {
            let timetable = self.timetables.get(&segment.resource);
            timetable.is_some_and(|timetable| segment.amount <= timetable.free_min(segment.window))
        };
        taken.segments().iter().all(fits).then_some(same)
    }

    /// Checks that every entry has servers for each of its segments or none at all.
    pub(super) fn check_servers(&self) -> Result<(), String> {
        for (txn, entry) in &self.entries {
            let Some(order) = entry.order.as_ref().filter(|_| !entry.servers.is_empty()) else {
                continue;
            };
            if order.segments.len() != entry.servers.len() {
                let (segments, servers) = (order.segments.len(), entry.servers.len());
                return Err(format!("I12: {txn} has servers for {servers} of {segments} segments"));
            }
        }
        Ok(())
    }
}

/// A claim on the servers of one site.
pub(super) struct ServerClaim<'a> {
    pub(super) window: Window,
    /// What the claimant has already, and counts as free.
    pub(super) own: &'a Footprint,
    /// The CPUs of the site that the claimant has throughout the window.
    pub(super) own_cpus: Amount,
    /// What the claimant may take and know.
    pub(super) level: ClaimLevel,
    /// What the claimant does not take, also if it has it.
    pub(super) avoided: &'a BTreeSet<ResourceId>,
}

/// What is idle at a by-server site through a window.
pub(super) struct IdleCpus {
    /// The CPUs that the claimant may take.
    pub(super) most: Amount,
    /// The CPUs of all idle servers that the claimant's coordinator may know of.
    pub(super) known: Amount,
    /// How many servers were looked at.
    pub(super) looked_at: usize,
}

/// The search for the servers of one order, segment by segment.
struct ServerSearch<'a> {
    participant: &'a Participant,
    order: &'a HoldOrder,
    /// The servers that the order does not want.
    avoided: BTreeSet<ResourceId>,
    /// What the replaced version has, which counts as free.
    own: Footprint,
    now: Time,
    /// What was chosen for the segments so far.
    chosen: Vec<SegmentServers>,
}

impl ServerSearch<'_> {
    fn choose(
        &self,
        site: &ServerSite,
        segment: &Segment,
        old: Option<GrantedServers>,
    ) -> Result<SegmentServers, Box<Refusal>> {
        let wanted = site.servers_for(segment.amount);
        let is_here = |name: &&ResourceId| {
            let place = self.participant.servers.places.get(*name);
            place.is_some_and(|(at, _)| *at == segment.resource)
        };
        let wish = self.order.servers.as_ref();
        let picked = wish.into_iter().flat_map(|wish| &wish.picked).filter(is_here);
        let picked: Vec<ResourceId> = picked.cloned().collect();
        let level = self.participant.level_of(self.order);
        if level.share < WHOLE
            && let Some(refusal) = self.beyond_share(segment, level)
        {
            return Err(Box::new(refusal));
        }
        let servers = match picked.is_empty() {
            true => self.choose_idle(site, segment, wanted, old)?,
            false => self.check_idle(site, segment, wanted, picked)?,
        };
        Ok(SegmentServers { cpus: site.cpus_of(servers.len()), servers })
    }

    /// Chooses servers that are idle through the segment: first those that the old version has.
    fn choose_idle(
        &self,
        site: &ServerSite,
        segment: &Segment,
        wanted: usize,
        old: Option<GrantedServers>,
    ) -> Result<Vec<ResourceId>, Box<Refusal>> {
        let Segment { resource, window, .. } = segment;
        // What is in use now, and goes on in this segment, cannot move.
        let in_use =
            |old: &GrantedServers| old.window.start() <= self.now && old.window.overlaps(*window);
        let is_in_use = old.as_ref().is_some_and(in_use);
        let mut kept = old.map(|old| old.servers).unwrap_or_default();
        // Of fewer servers, those that can be used are kept.
        kept.sort_by_key(|name| self.participant.unusable().contains_key(name));
        let must_keep = if is_in_use { kept.len().min(wanted) } else { 0 };
        let is_useless = |name: &ResourceId| {
            self.avoided.contains(name) || self.participant.is_lost(name, &self.own, *window)
        };
        let mut others = self.chosen_meanwhile(segment);
        let more = self.participant.own_servers(resource, &self.own, *window);
        let more: Vec<&ResourceId> = more.map(|(name, _)| name).collect();
        let mut servers: Vec<ResourceId> = Vec::new();
        for (place, name) in kept.iter().chain(more).enumerate() {
            if is_useless(name) {
                continue;
            }
            let Some(server) = self.server(name).filter(|server| !others.contains(server)) else {
                continue;
            };
            if servers.len() < wanted && self.is_idle(name, *window) {
                others.insert(server);
                servers.push(name.clone());
            } else if place < must_keep {
                return Err(self.taken(site, segment, name, &kept));
            }
        }
        let choice = self.order.servers.as_ref().map_or(Choice::default(), |wish| wish.choice);
        let lacking = wanted - servers.len();
        others.extend(self.participant.useless_servers(resource, &self.avoided));
        let found = site.timetable.find_beside(&others, *window, lacking, choice);
        let Some(found) = found else {
            return Err(Box::new(self.too_few(site, segment, wanted)));
        };
        servers.extend(found.into_iter().filter_map(|server| site.name_of(server).cloned()));
        // In the order of the configuration, whichever was found first.
        servers.sort_by_key(|name| self.server(name));
        Ok(servers)
    }

    /// Checks that the servers that were picked are as many as the segment takes, and idle through it.
    fn check_idle(
        &self,
        site: &ServerSite,
        segment: &Segment,
        wanted: usize,
        picked: Vec<ResourceId>,
    ) -> Result<Vec<ResourceId>, Box<Refusal>> {
        if picked.len() != wanted {
            let (site, count) = (&segment.resource, picked.len());
            let detail = format!("servers of {site} that were picked: {count}, needed: {wanted}");
            let refusal = Refusal::new(Reason::UnknownResource, detail);
            return Err(Box::new(self.at(segment, refusal)));
        }
        let mut others = self.chosen_meanwhile(segment);
        for name in &picked {
            if let Some(Unusable { sentence, .. }) = self.participant.unusable().get(name)
                && self.participant.is_lost(name, &self.own, segment.window)
            {
                let detail = format!("server {name} cannot be used now: {sentence}");
                let refusal = Refusal::new(Reason::Equipment, detail);
                return Err(Box::new(self.at(segment, refusal)));
            }
            let is_new = self.server(name).is_some_and(|server| others.insert(server));
            if !is_new || !self.is_idle(name, segment.window) {
                return Err(self.taken(site, segment, name, &picked));
            }
        }
        Ok(picked)
    }

    fn server(&self, name: &ResourceId) -> Option<ServerIndex> {
        self.participant.servers.places.get(name).map(|(_, server)| *server)
    }

    fn is_idle(&self, name: &ResourceId, window: Window) -> bool {
        self.participant.free_beside(&self.own, name, window) > 0
    }

    /// The servers that earlier segments at the same site take at some instant of this segment.
    fn chosen_meanwhile(&self, later: &Segment) -> BTreeSet<ServerIndex> {
        let earlier = self.order.segments.iter().zip(&self.chosen);
        let earlier = earlier.filter(|(segment, _)| {
            segment.resource == later.resource && segment.window.overlaps(later.window)
        });
        earlier.flat_map(|(_, of)| &of.servers).filter_map(|name| self.server(name)).collect()
    }

    fn at(&self, segment: &Segment, refusal: Refusal) -> Refusal {
        Refusal {
            rm: Some(self.participant.config.name.clone()),
            resource: Some(segment.resource.clone()),
            window: Some(segment.window),
            ..refusal
        }
    }

    /// The refusal when the service level allows fewer servers than are wanted; `None` if it allows them, or if too few
    /// are idle.
    fn beyond_share(&self, segment: &Segment, level: ClaimLevel) -> Option<Refusal> {
        let Segment { resource, amount, window } = segment;
        let nothing = Steps::default();
        let own_cpus = own_throughout(self.own.steps(resource).unwrap_or(&nothing), *window);
        let (own, avoided) = (&self.own, &self.avoided);
        let claim = ServerClaim { window: *window, own, own_cpus, level, avoided };
        let idle = self.participant.idle_for(resource, &claim)?;
        if *amount <= idle.most {
            return None;
        }
        let (has, share) = (idle.most, level.share);
        if *amount > idle.known {
            // To a coordinator that does not know all, what it may not know of is not idle.
            let whose = level.words(&self.order.coordinator);
            let detail = format!(
                "servers of {resource} with {has} CPUs are idle{whose} throughout {window}, {amount} were asked for"
            );
            let refusal = Refusal::new(Reason::InsufficientCapacity, detail);
            let (requested, available) = (Some(*amount), Some(has));
            let refusal = Refusal { requested, available, ..self.at(segment, refusal) };
            return (level.best < WHOLE).then_some(refusal);
        }
        let detail = format!(
            "the user's service level is {share} % of what is free: {has} CPUs of servers of {resource} that are \
             idle throughout {window}, {amount} were asked for"
        );
        let refusal = Refusal::new(Reason::ServiceLevel, detail);
        let (requested, available) = (Some(*amount), Some(has));
        Some(Refusal { requested, available, ..self.at(segment, refusal) })
    }

    /// The refusal when too few servers are idle throughout.
    fn too_few(&self, site: &ServerSite, segment: &Segment, wanted: usize) -> Refusal {
        let Segment { resource, amount, window } = segment;
        let level = self.participant.level_of(self.order);
        let own_cpus = Amount::ZERO;
        let (own, avoided) = (&self.own, &self.avoided);
        let claim = ServerClaim { window: *window, own, own_cpus, level, avoided };
        let idle =
            self.participant.idle_for(resource, &claim).map_or(Amount::ZERO, |idle| idle.known);
        let (count, all) = (idle.0 / site.cpus_each, site.names.len());
        let detail = format!(
            "{count} of the {all} servers of {resource} are idle throughout {window}, and {wanted} are needed for \
             {amount} CPUs{}",
            self.participant.words_of_unusable(resource)
        );
        let refusal = Refusal::new(Reason::InsufficientCapacity, detail);
        let (requested, available) = (Some(*amount), Some(idle));
        Refusal { requested, available, ..self.at(segment, refusal) }
    }

    /// The refusal when one of several servers that are wanted together is taken.
    fn taken(
        &self,
        site: &ServerSite,
        segment: &Segment,
        name: &ResourceId,
        together: &[ResourceId],
    ) -> Box<Refusal> {
        let window = segment.window;
        let servers: Vec<ServerIndex> =
            together.iter().filter_map(|name| self.server(name)).collect();
        let taken = self.server(name).map(|server| site.timetable.idle_through(server, window));
        let taken = taken.and_then(Result::err).map_or(window, |taken| taken.taken);
        let (from, until) = (taken.start(), taken.end());
        let length = window.length();
        let next = site.timetable.first_start_together(&servers, length, window.start());
        let them = if servers.len() == 1 { "it is" } else { "all of them are" };
        let next = match next {
            Some(next) => format!("{them} next idle for {length} from {next} on"),
            None => format!("{them} never idle for {length} after that"),
        };
        let detail = format!("server {name} is taken from {from} to {until}; {next}");
        let refusal = self.at(segment, Refusal::new(Reason::InsufficientCapacity, detail));
        let (resource, window) = (Some(name.clone()), Some(taken));
        let (requested, available) = (Some(Amount(1)), Some(Amount::ZERO));
        Box::new(Refusal { resource, window, requested, available, ..refusal })
    }
}

/// The servers that an order does not want.
fn avoided(order: &HoldOrder) -> BTreeSet<ResourceId> {
    order.servers.iter().flat_map(|wish| &wish.avoided).cloned().collect()
}

/// For each segment of an order: the servers that the old version has at the same site, taken in their order.
fn kept_servers(order: &HoldOrder, old: Option<&Entry>) -> Vec<Option<GrantedServers>> {
    let mut each: BTreeMap<ResourceId, VecDeque<GrantedServers>> = BTreeMap::new();
    for granted in old.into_iter().flat_map(Entry::granted_servers) {
        each.entry(granted.site.clone()).or_default().push_back(granted);
    }
    let sites = order.segments.iter().map(|segment| &segment.resource);
    sites.map(|site| each.get_mut(site).and_then(VecDeque::pop_front)).collect()
}
