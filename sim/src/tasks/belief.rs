//! What a scheduler goes by: a picture cut into vectors, kept up to date window by window.
//!
//! A scheduler either sees the timetables themselves, or believes what updates and answers tell it (a
//! `coalloc_protocol::update::Picture`), less what it has sent out itself and has no answer to yet. Either
//! way it keeps one vector of each link and cluster, moves them on as time goes, and cuts anew only what
//! changed: cutting all of them for every task would cost more than planning does.

use coalloc_common::profile::FreeStep;
use coalloc_common::{
    Amount, AvailabilityVector, BitsPerSecond, Cpus, InvalidField, Slot, SlotGrid, Span, Time,
    Window,
};
use coalloc_plan::multicost::{BelievedNetwork, ClusterState, PictureSize};
use coalloc_protocol::update;

use super::controller::{Controller, now_of};
use super::net::Net;
use super::settings::PlanningSettings;

/// A picture forgets what is over so much later: more than the longest slot of an experiment.
const FORGET_AFTER: Span = Span::from_secs(60);
/// It does so once in so many plans.
const FORGET_EVERY: u32 = 256;

/// Something sent out that no answer came to, or whose answer no update has caught up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PendingClaim {
    attempt: (u32, u32),
    piece: usize,
    resource: usize,
    window: Window,
    amount: Amount,
    /// Forget it when the picture has this revision.
    revision: Option<u64>,
}

/// What of that is meant.
#[derive(Debug, Clone, Copy)]
pub(super) enum ClaimPart {
    /// A piece of an attempt.
    Piece((u32, u32), usize),
    /// What an attempt asks of a place.
    At((u32, u32), usize),
    /// What of an attempt has had no answer.
    Unanswered((u32, u32)),
}

/// What a scheduler goes by.
pub(super) struct Belief {
    view: BelievedNetwork,
    /// None: the timetables themselves.
    known: Option<update::Picture>,
    own: Vec<PendingClaim>,
    /// When the last thing known of each resource ends.
    last: Vec<Time>,
    slots: (usize, usize),
    sees_clusters: bool,
    /// Tasks sent to each cluster.
    sent: Vec<u64>,
    plans: u32,
}

impl Belief {
    /// A belief that nothing is reserved. Without `told`, one that looks at the timetables.
    pub(super) fn new(
        net: &Net,
        settings: &PlanningSettings,
        (rate, cpus): (BitsPerSecond, Cpus),
        told: Option<&[Controller]>,
    ) -> Result<Self, InvalidField> {
        let grid = |us| SlotGrid::new(Span::from_us(us));
        let link_grid = grid(settings.link_slot_us)?;
        let cluster_grid = grid(settings.cluster_slot_us)?;
        let slots = (settings.link_slots, settings.cluster_slots);
        let size = PictureSize {
            links: net.links.len(),
            wavelengths: 1,
            link_slots: slots.0,
            clusters: net.clusters.len(),
            cluster_slots: slots.1,
        };
        size.check().map_err(|error| error.within("planning"))?;
        let all = |grid, slots| AvailabilityVector::everything(grid, Slot(0), slots);
        let (link, cluster) = (all(link_grid, slots.0)?, all(cluster_grid, slots.1)?);
        let site = |vertex| {
            let mips = net.topology.vertex(vertex).compute.as_ref()?.mips;
            Some(ClusterState { mips, busy: Cpus(0), tasks: 0, free: cluster.clone() })
        };
        let grids = ((link_grid, rate), (cluster_grid, cpus));
        let view = BelievedNetwork::of_topology(
            &net.topology,
            grids.0,
            grids.1,
            |_, _| link.clone(),
            site,
        )?;
        let start = Time::from_us(0);
        let known = told.map(|controllers| {
            let mut known = update::Picture::default();
            for (at, (place, controller)) in net.places.iter().zip(controllers).enumerate() {
                let resources = place.resources.iter().map(|own| &net.resources[*own]);
                known.expect(&place.name, resources.map(|own| (own.id.clone(), own.capacity)));
                let snapshot = controller.snapshot(net, at, start);
                // The first of all; it cannot be out of order.
                let _ = known.merge(&place.name, &snapshot, now_of(start));
            }
            known
        });
        Ok(Self {
            view,
            known,
            own: Vec::new(),
            last: vec![start; net.resources.len()],
            slots,
            sees_clusters: settings.sees_clusters,
            sent: vec![0; net.clusters.len()],
            plans: 0,
        })
    }

    /// The picture, for a planner.
    pub(super) const fn view(&self) -> &BelievedNetwork {
        &self.view
    }

    /// Does it look at the timetables themselves?
    pub(super) const fn is_truth(&self) -> bool {
        self.known.is_none()
    }

    /// Brings all vectors to an instant.
    pub(super) fn advance(&mut self, net: &Net, controllers: &[Controller], now: Time) {
        let ends = |view: &BelievedNetwork, (links, clusters): (usize, usize)| {
            let end = |grid: SlotGrid, first: Option<Slot>, slots: usize| {
                first.map(|first| grid.start_of(first.plus(slots as u64)))
            };
            let link = view.links().first().and_then(|link| link.free.first());
            let cluster = view.clusters().first().map(|cluster| &cluster.free);
            (
                end(view.link_grid(), link.map(AvailabilityVector::first), links),
                end(view.cluster_grid(), cluster.map(AvailabilityVector::first), clusters),
            )
        };
        let before = ends(&self.view, self.slots);
        self.view.advance(now);
        let after = ends(&self.view, self.slots);
        for resource in 0..net.resources.len() {
            let is_cluster = net.resources[resource].cluster.is_some();
            let (Some(from), Some(to)) =
                (if is_cluster { (before.1, after.1) } else { (before.0, after.0) })
            else {
                continue;
            };
            // What came in at the end is free, unless something is known that late.
            if self.last[resource] > from
                && let Some(new) = Window::new(from, to)
            {
                self.cut(net, controllers, resource, new);
            }
        }
        self.plans += 1;
        if self.plans.is_multiple_of(FORGET_EVERY) {
            let over = now.saturating_sub(FORGET_AFTER);
            self.own.retain(|own| own.window.end() > over);
            if let Some(known) = &mut self.known {
                known.forget_before(over);
            }
        }
        for cluster in 0..net.clusters.len() {
            let resource = net.clusters[cluster].resource;
            let Some(moment) = Window::starting(now, Span::from_us(1)) else { continue };
            let free = self.free(net, controllers, resource, moment);
            let free = free.first().map_or(Amount::ZERO, |(_, free)| *free);
            let busy = net.resources[resource].capacity.saturating_sub(free);
            let busy = if self.sees_clusters { Cpus(busy.0) } else { Cpus(0) };
            self.view.set_load(cluster, busy, self.sent[cluster]);
        }
    }

    /// A task is sent to a cluster.
    pub(super) fn count(&mut self, cluster: usize) {
        self.sent[cluster] += 1;
    }

    /// What it believes to be free of a resource over a window.
    fn free(
        &self,
        net: &Net,
        controllers: &[Controller],
        resource: usize,
        window: Window,
    ) -> Vec<FreeStep> {
        let own = &net.resources[resource];
        let Some(known) = &self.known else {
            return controllers[own.controller].free(net, resource, window);
        };
        let profile = known
            .known(&net.places[own.controller].name)
            .and_then(|known| known.profiles().nth(own.number as usize));
        let steps = profile.map_or_else(Vec::new, |(_, profile)| profile.over(window));
        let sent: Vec<&PendingClaim> = (self.own.iter())
            .filter(|own| own.resource == resource && own.window.overlaps(window))
            .collect();
        if sent.is_empty() { steps } else { less(&steps, &sent, window) }
    }

    /// Cuts the vectors of a resource anew where a window touches them.
    pub(super) fn cut(
        &mut self,
        net: &Net,
        controllers: &[Controller],
        resource: usize,
        window: Window,
    ) {
        self.last[resource] = self.last[resource].max(window.end());
        let own = &net.resources[resource];
        if let Some(cluster) = own.cluster {
            if self.sees_clusters {
                let wide = self.view.cluster_grid().widened(window);
                let steps = self.free(net, controllers, resource, wide);
                self.view.replace_cluster(cluster, wide, steps);
            }
            return;
        }
        let wide = self.view.link_grid().widened(window);
        let steps = self.free(net, controllers, resource, wide);
        for link in &own.links {
            self.view.replace_link(*link, wide, steps.iter().copied());
        }
    }

    /// Notes what it has sent out.
    pub(super) fn expect(
        &mut self,
        net: &Net,
        controllers: &[Controller],
        (attempt, piece): ((u32, u32), usize),
        (resource, window, amount): (usize, Window, Amount),
    ) {
        if self.known.is_some() {
            self.own.push(PendingClaim {
                attempt,
                piece,
                resource,
                window,
                amount,
                revision: None,
            });
            self.cut(net, controllers, resource, window);
        }
    }

    /// An answer came to something it had sent out, or will not come any more. With `revision` what was sent
    /// out counts until the picture has that; without, no more.
    pub(super) fn settle(
        &mut self,
        net: &Net,
        controllers: &[Controller],
        which: ClaimPart,
        revision: Option<u64>,
    ) {
        let is_it = |own: &PendingClaim| match which {
            ClaimPart::Piece(attempt, piece) => (own.attempt, own.piece) == (attempt, piece),
            ClaimPart::At(attempt, place) => {
                own.attempt == attempt && net.resources[own.resource].controller == place
            }
            ClaimPart::Unanswered(attempt) => own.attempt == attempt && own.revision.is_none(),
        };
        let mut cut: Vec<(usize, Window)> = Vec::new();
        self.own.retain_mut(|own| {
            if !is_it(own) {
                return true;
            }
            own.revision = revision;
            if revision.is_none() {
                cut.push((own.resource, own.window));
            }
            revision.is_some()
        });
        for (resource, window) in cut {
            self.cut(net, controllers, resource, window);
        }
    }

    /// Merges news of a place, an update or an answer's facts. Did they count?
    pub(super) fn hear(
        &mut self,
        net: &Net,
        controllers: &[Controller],
        (place, news): (usize, &update::Update),
        now: Time,
    ) -> bool {
        let Some(known) = &mut self.known else { return false };
        if known.merge(&net.places[place].name, news, now_of(now)).is_err() {
            return false;
        }
        let mut cut: Vec<(usize, Window)> = Vec::with_capacity(news.parts.len());
        for part in &news.parts {
            cut.push((net.places[place].resources[part.resource as usize], part.window));
        }
        let revision = self.revision(net, place);
        self.own.retain(|own| {
            let here = net.resources[own.resource].controller == place;
            let caught_up = own.revision.is_some_and(|needs| needs <= revision);
            if here && caught_up {
                cut.push((own.resource, own.window));
            }
            !(here && caught_up)
        });
        for (resource, window) in cut {
            self.cut(net, controllers, resource, window);
        }
        true
    }

    /// Which state of a place it knows.
    pub(super) fn revision(&self, net: &Net, place: usize) -> u64 {
        let known = self.known.as_ref().and_then(|known| known.known(&net.places[place].name));
        known.map_or(0, |known| known.revision)
    }
}

/// Steps over a window less what was sent out.
fn less(steps: &[FreeStep], sent: &[&PendingClaim], window: Window) -> Vec<FreeStep> {
    let mut cuts: Vec<Time> = steps.iter().map(|(at, _)| *at).collect();
    let Some(first) = cuts.first().copied() else { return Vec::new() };
    let ends = sent.iter().flat_map(|own| [own.window.start(), own.window.end()]);
    cuts.extend(ends.filter(|at| *at > first && *at < window.end()));
    cuts.sort_unstable();
    cuts.dedup();
    let free_at = |at: Time| {
        let next = steps.partition_point(|(start, _)| *start <= at);
        let free = next.checked_sub(1).map_or(Amount::ZERO, |index| steps[index].1);
        let here = sent.iter().filter(|own| own.window.start() <= at && at < own.window.end());
        here.fold(free, |free, own| free.saturating_sub(own.amount))
    };
    cuts.into_iter().map(|at| (at, free_at(at))).collect()
}
