//! What can be said without a search: where each requested site could be placed, and the refusals.
//!
//! A refusal names the binding resource with its numbers. The empty federation is examined only
//! when the current view has failed, so that a request that fits pays for one check only.

use coalloc_common::kind::show_all;
use coalloc_common::topology::{Direction, FrameView, OfSite, ShortOf};
use coalloc_common::{
    Amount, BitsPerSecond, CoAllocation, PartWindow, Reason, Refusal, ResourceKind, SiteDemand,
    Topology, VertexIndex, VertexName,
};

use super::IpOptions;
use super::islands::{self, IslandShortage};
use crate::Budget;

/// No site has this vertex.
const NOBODY: usize = usize::MAX;

/// The vertices at which each requested site could be placed, in the order of their indices unless
/// they were listed.
pub(crate) struct Candidates {
    vertices: Vec<u32>,
    starts: Vec<u32>,
}

impl Candidates {
    /// The candidates of one requested site.
    pub(crate) fn of(&self, site: usize) -> &[u32] {
        &self.vertices[self.starts[site] as usize..self.starts[site + 1] as usize]
    }

    /// These candidates, in their order.
    pub(crate) fn listed<'a>(lists: impl Iterator<Item = &'a [u32]>) -> Self {
        let (mut vertices, mut starts) = (Vec::new(), vec![0]);
        for list in lists {
            vertices.extend_from_slice(list);
            // At most REQUEST_SITES_MAX times VERTICES_MAX, so the cast keeps the value.
            starts.push(vertices.len() as u32);
        }
        Self { vertices, starts }
    }

    fn collect(topology: &Topology, request: &CoAllocation, view: &FrameView) -> Self {
        let mut vertices = Vec::with_capacity(request.sites.len() * topology.vertices().len());
        let mut starts = Vec::with_capacity(request.sites.len() + 1);
        starts.push(0);
        for site in &request.sites {
            // A pinned site has one candidate, so the other vertices need no check.
            let pinned = site.pinned.as_ref().map(|name| topology.find_vertex(name));
            let range = match pinned {
                Some(Some(vertex)) => vertex.at()..vertex.at() + 1,
                Some(None) => 0..0,
                None => 0..topology.vertices().len(),
            };
            for vertex in range {
                let place = &topology.vertices()[vertex];
                if (place.compute.is_some() || (site.wants_nothing() && site.pinned.is_some()))
                    // There are at most VERTICES_MAX vertices, so the casts keep the value.
                    && view.fits(site, VertexIndex(vertex as u32))
                    && (site.excluded.is_empty() || !site.excluded.contains(&place.name))
                {
                    vertices.push(vertex as u32);
                }
            }
            // At most REQUEST_SITES_MAX times VERTICES_MAX, so the cast keeps the value.
            starts.push(vertices.len() as u32);
        }
        Self { vertices, starts }
    }

    /// A requested site that cannot be placed while every other has a vertex of its own: a maximum
    /// matching by augmenting paths leaves it out.
    fn unmatched(&self, sites: usize, vertices: usize) -> Option<usize> {
        // If each site has at least as many candidates as there are sites, each of them finds a
        // free one in turn.
        if (0..sites).all(|site| self.of(site).len() >= sites) {
            return None;
        }
        let mut holder = vec![NOBODY; vertices];
        // Sites with few candidates come first. So of two rivals the less demanding one is
        // reported.
        let mut order: Vec<usize> = (0..sites).collect();
        order.sort_by_key(|site| self.of(*site).len());
        order.into_iter().find(|site| !self.augment(*site, &mut holder, &mut vec![false; vertices]))
    }

    /// Whether each of these sites can have a vertex of its own, of those that are `open`.
    pub(crate) fn can_place(
        &self,
        sites: &[usize],
        vertices: usize,
        mut open: impl FnMut(u32) -> bool,
    ) -> bool {
        let mut place = |site: &usize| -> Vec<u32> {
            self.of(*site).iter().copied().filter(|vertex| open(*vertex)).collect()
        };
        let lists: Vec<Vec<u32>> = sites.iter().map(&mut place).collect();
        let some = Self::listed(lists.iter().map(Vec::as_slice));
        some.unmatched(sites.len(), vertices).is_none()
    }

    /// Keeps the candidates (site and vertex) for which `keep` is true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize, u32) -> bool) {
        let mut kept = Self { vertices: Vec::with_capacity(self.vertices.len()), starts: vec![0] };
        for site in 0..self.starts.len() - 1 {
            kept.vertices.extend(self.of(site).iter().copied().filter(|at| keep(site, *at)));
            // No more than before.
            kept.starts.push(kept.vertices.len() as u32);
        }
        *self = kept;
    }

    /// A vertex of its own for each site, in the order of the request; `None` when that is
    /// impossible. A site takes the first free vertex among its candidates. When none is free, it
    /// takes one whose present site can move to another.
    pub(crate) fn matching(&self, sites: usize, vertices: usize) -> Option<Vec<VertexIndex>> {
        let mut holder = vec![NOBODY; vertices];
        for site in 0..sites {
            let free = self.of(site).iter().find(|vertex| holder[**vertex as usize] == NOBODY);
            match free {
                Some(vertex) => holder[*vertex as usize] = site,
                None if self.augment(site, &mut holder, &mut vec![false; vertices]) => {}
                None => return None,
            }
        }
        let mut placed = vec![None; sites];
        for (vertex, site) in (0u32..).zip(holder) {
            if let Some(place) = placed.get_mut(site) {
                *place = Some(VertexIndex(vertex));
            }
        }
        placed.into_iter().collect()
    }

    fn augment(&self, site: usize, holder: &mut [usize], seen: &mut [bool]) -> bool {
        for vertex in self.of(site) {
            let vertex = *vertex as usize;
            if std::mem::replace(&mut seen[vertex], true) {
                continue;
            }
            if holder[vertex] == NOBODY || self.augment(holder[vertex], holder, seen) {
                holder[vertex] = site;
                return true;
            }
        }
        false
    }
}

/// Where each site could be placed so that links can join it to others, or why no placement exists.
pub(crate) fn candidates(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
) -> Result<Candidates, Box<Refusal>> {
    on_islands(topology, request, view, candidates_alone(topology, request, view)?)
}

/// Where each site could be placed, whatever links join it to, or why no placement exists.
pub(crate) fn candidates_alone(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
) -> Result<Candidates, Box<Refusal>> {
    let candidates = Candidates::collect(topology, request, view);
    let (sites, vertices) = (request.sites.len(), topology.vertices().len());
    let unmatched = candidates.unmatched(sites, vertices);
    let wide = widest(request, view);
    if unmatched.is_none() && wide.is_none_or(|(rate, view)| fits_an_edge(view, rate)) {
        return Ok(candidates);
    }
    let empty = FrameView::empty_federation(topology, view.window);
    let when_empty = Candidates::collect(topology, request, &empty);
    if let Some(site) = when_empty.unmatched(sites, vertices) {
        let shortage = Shortage { topology, request, view: &empty, site, beyond: true };
        return Err(Box::new(shortage.refusal(&when_empty)));
    }
    let widest = request.links.iter().map(|link| link.bandwidth).max();
    if let Some(rate) = widest.filter(|rate| !fits_an_edge(&empty, *rate)) {
        return Err(Box::new(rate_refusal(topology, &empty, rate, Reason::BeyondCapacity)));
    }
    match (unmatched, wide) {
        (Some(site), _) => {
            let shortage = Shortage { topology, request, view, site, beyond: false };
            Err(Box::new(shortage.refusal(&candidates)))
        }
        (None, Some((rate, view))) => {
            Err(Box::new(rate_refusal(topology, view, rate, Reason::NoRoute)))
        }
        (None, None) => Ok(candidates),
    }
}

/// The candidates on islands with room for all sites that have to be on one island.
fn on_islands(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    mut candidates: Candidates,
) -> Result<Candidates, Box<Refusal>> {
    let Err(short) = islands::narrow(topology, request, view, &mut candidates) else {
        return Ok(candidates);
    };
    let empty = FrameView::empty_federation(topology, view.window);
    let mut all = Candidates::collect(topology, request, &empty);
    let always = islands::narrow(topology, request, &empty, &mut all).err();
    let (beyond, short) = (always.is_some(), always.unwrap_or(short));
    Err(Box::new(island_refusal(request, view, &short, beyond)))
}

/// The refusal when sites have places, but no island has places for all that links join.
pub(crate) fn no_island(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
) -> Option<Refusal> {
    let candidates = candidates_alone(topology, request, view).ok()?;
    on_islands(topology, request, view, candidates).err().map(|refusal| *refusal)
}

/// The refusal when sites that links join are more than any island has places for. `beyond` means
/// that they are even when nothing is booked.
fn island_refusal(
    request: &CoAllocation,
    view: &FrameView,
    short: &IslandShortage,
    beyond: bool,
) -> Refusal {
    let IslandShortage { sites, rate, most } = short;
    let names: Vec<&str> = sites.iter().map(|site| request.sites[*site].name.as_str()).collect();
    let (free, when) = match beyond {
        true => ("", " even when nothing is booked".to_owned()),
        false => (" free", format!(" in {}", view.window)),
    };
    let detail = format!(
        "links join {} to {} ({} sites), so they have to be placed where paths with {rate}{free} \
         join them all, but the largest such part of the federation has {most} places for \
         them{when}{}",
        names[0],
        names[names.len() - 1],
        sites.len(),
        if *most >= sites.len() { ", and not the right ones for each" } else { "" },
    );
    let reason = if beyond { Reason::BeyondCapacity } else { Reason::NoRoute };
    Refusal { window: (!beyond).then_some(view.window), ..Refusal::new(reason, detail) }
}

/// The largest rate, with what is free when it is wanted. Among links with windows of their own, it is a rate that no
/// edge carries in its window, if there is one.
fn widest<'a>(
    request: &CoAllocation,
    view: &'a FrameView,
) -> Option<(BitsPerSecond, &'a FrameView)> {
    if view.parts.is_empty() {
        return request.links.iter().map(|link| (link.bandwidth, view)).max_by_key(|wide| wide.0);
    }
    let wide = request.links.iter().map(|link| (link.bandwidth, view.during(link.window)));
    wide.max_by_key(|(rate, view)| (!fits_an_edge(view, *rate), *rate))
}

fn fits_an_edge(view: &FrameView, rate: BitsPerSecond) -> bool {
    view.free_bps.iter().any(|free| free[0] >= rate || free[1] >= rate)
}

/// The refusal when not even one edge carries the rate.
fn rate_refusal(
    topology: &Topology,
    view: &FrameView,
    rate: BitsPerSecond,
    reason: Reason,
) -> Refusal {
    let bare = |detail| Refusal {
        window: (reason != Reason::BeyondCapacity).then_some(view.window),
        requested: Some(rate.into()),
        available: Some(Amount::ZERO),
        ..Refusal::new(reason, detail)
    };
    let lanes = topology.edges().iter().zip(&view.free_bps).flat_map(|(edge, free)| {
        [Direction::AToB, Direction::BToA].map(|direction| (edge, direction, free[direction.at()]))
    });
    // The first of the widest, so that the same view always gives the same refusal.
    let widest = lanes.reduce(|best, lane| if lane.2 > best.2 { lane } else { best });
    let Some((edge, direction, most)) = widest else {
        return bare(format!("a link of {rate} fits no path: there are no paths"));
    };
    let state = if reason == Reason::BeyondCapacity { "" } else { " free" };
    let name = &edge.name;
    Refusal {
        resource: Some(edge.resource(direction).clone()),
        available: Some(most.into()),
        ..bare(format!("a link of {rate} fits no path: the widest, {name}, has {most}{state}"))
    }
}

/// A shortage at sites for one requested site, counting the sites that compete with it.
struct Shortage<'a> {
    topology: &'a Topology,
    request: &'a CoAllocation,
    /// What is free, or the empty federation.
    view: &'a FrameView,
    site: usize,
    /// Whether there is too little even in the empty federation.
    beyond: bool,
}

impl Shortage<'_> {
    fn refusal(&self, candidates: &Candidates) -> Refusal {
        let site = &self.request.sites[self.site];
        let enough = candidates.of(self.site);
        let kind = self.scarcest(site);
        let best = self.best_short_of(site, kind);
        let (reason, free) = match self.beyond {
            true => (Reason::BeyondCapacity, ""),
            false => (Reason::InsufficientCapacity, " free"),
        };
        let demand = show_all(site.amounts());
        let mut detail = if enough.is_empty() {
            format!("no site that {} may land on has {demand}{free}", site.name)
        } else {
            let rivals = (0..self.request.sites.len())
                .filter(|rival| candidates.of(*rival).iter().any(|at| enough.contains(at)))
                .count();
            format!(
                "{rivals} requested sites compete for too few sites: {} on which {} may land have \
                 {demand}{free}",
                enough.len(),
                site.name
            )
        };
        if let Some((name, _, short)) = &best {
            // Beside CPUs alone the number says it all.
            let most =
                if site.others.is_empty() { short.free.to_string() } else { kind.show(short.free) };
            detail += &match enough.is_empty() {
                true if short.free.0 == 0 => format!("; no site has any{free}"),
                true => format!("; {name} has most, {most}"),
                false => format!("; the best of the others, {name}, has {most}"),
            };
        }
        let window = PartWindow::within(site.window(kind), self.view.window);
        if !self.beyond {
            detail.push_str(&format!(" in {window}"));
            if site.amounts().any(|(other, _)| site.window(other) != site.window(kind)) {
                detail.push_str(" (each kind in its own window)");
            }
        }
        Refusal {
            resource: best.as_ref().and_then(|(_, of, _)| Some(of.as_ref()?.resource.clone())),
            window: (!self.beyond).then_some(window),
            requested: Some(site.amount(kind)),
            available: Some(best.map_or(Amount::ZERO, |(_, _, short)| short.free)),
            ..Refusal::new(reason, detail)
        }
    }

    /// The kind of which the fewest sites have enough, among those where the demand may be placed.
    fn scarcest(&self, site: &SiteDemand) -> ResourceKind {
        let enough = |kind: ResourceKind, wanted: Amount| {
            let open = self.topology.sites().filter(|(_, place, _)| may_land(site, &place.name));
            let view = self.view.during(site.window(kind));
            open.filter(|(at, ..)| view.free_at(kind, *at) >= wanted).count()
        };
        let least = site.amounts().min_by_key(|(kind, wanted)| enough(*kind, *wanted));
        least.map_or(ResourceKind::Cpus, |(kind, _)| kind)
    }

    /// Of the sites where the demand may be placed and that have too little of this kind, the one
    /// that has the most of it.
    fn best_short_of(
        &self,
        site: &SiteDemand,
        kind: ResourceKind,
    ) -> Option<(String, Option<OfSite<'_>>, ShortOf)> {
        let wanted = site.amount(kind);
        let view = self.view.during(site.window(kind));
        let window = PartWindow::within(site.window(kind), self.view.window);
        self.topology
            .sites()
            .filter(|(_, place, _)| may_land(site, &place.name))
            .filter_map(|(at, place, _)| {
                let short = ShortOf { kind, wanted, free: view.free_at(kind, at), window };
                let of = place.resources().find(|of| of.kind == kind);
                (short.free < wanted).then(|| (place.name.to_string(), of, short))
            })
            // The first of the largest, so that the same view always gives the same refusal.
            .reduce(|best, next| if best.2.free >= next.2.free { best } else { next })
    }
}

fn may_land(site: &SiteDemand, place: &VertexName) -> bool {
    site.pinned.as_ref().is_none_or(|pin| pin == place) && !site.excluded.contains(place)
}

/// The refusal when every site fits, and a complete search found no routes.
pub(crate) fn no_route(
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    options: &IpOptions,
) -> Refusal {
    let hopeless = request.links.iter().max_by_key(|link| link.bandwidth);
    let widest = hopeless.map_or(BitsPerSecond(0), |link| link.bandwidth);
    let then = view.during(hopeless.and_then(|link| link.window));
    let usable = then.free_bps.iter().filter(|free| free[0] >= widest || free[1] >= widest).count();
    let detail = format!(
        "each of the {} sites fits somewhere, but no routes of at most {} paths join them for all \
         {} links at once in {}: {usable} of {} paths have {widest} free",
        request.sites.len(),
        options.route_edges(),
        request.links.len(),
        view.window,
        topology.edges().len(),
    );
    Refusal { window: Some(view.window), ..Refusal::new(Reason::NoRoute, detail) }
}

/// The refusal when the budget ended before a plan or a proof was found. `what` says why, unless
/// the caller has stopped the planner.
pub(crate) fn exhausted(view: &FrameView, budget: &Budget<'_>, what: &str) -> Refusal {
    let cause = if budget.stopped() { "the planner was told to stop" } else { what };
    let detail =
        format!("{cause} before it found a plan for {} or proved there is none", view.window);
    Refusal { window: Some(view.window), ..Refusal::new(Reason::BudgetExhausted, detail) }
}
