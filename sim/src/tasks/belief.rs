//! What a scheduler plans on: a picture cut into availability vectors, which is kept up to date window by
//! window.
//!
//! A scheduler either looks at the timetables themselves, or believes what updates and answers report (a
//! `coalloc_protocol::update::Picture`), minus what it has sent out itself and has no answer to yet. In both
//! cases it keeps one vector for each link and cluster, advances the vectors with time, and recomputes only
//! what changed: recomputing all of them for every task would cost more than planning does.

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

/// A picture forgets what has been over for this long, which is more than the longest slot of an experiment.
const FORGET_AFTER: Span = Span::from_secs(60);
/// A picture forgets once in so many plans.
const FORGET_EVERY: u32 = 256;

/// Something that was sent out and either has no answer yet, or has an answer that no update has caught up
/// with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PendingClaim {
    pub(super) attempt: (u32, u32),
    pub(super) piece: usize,
    pub(super) resource: usize,
    pub(super) window: Window,
    pub(super) amount: Amount,
    /// Forget the claim when the picture has this revision; `None` while there is no answer.
    pub(super) revision: Option<u64>,
}

/// Which pending claims of an attempt are meant.
#[derive(Debug, Clone, Copy)]
pub(super) enum ClaimPart {
    /// One piece of the attempt.
    Piece((u32, u32), usize),
    /// All pieces of the attempt at one place.
    At((u32, u32), usize),
    /// All pieces of the attempt without an answer.
    Unanswered((u32, u32)),
}

/// What a scheduler believes to be free.
pub(super) struct Belief {
    view: BelievedNetwork,
    /// `None` if the scheduler looks at the timetables themselves.
    known: Option<update::Picture>,
    own: Vec<PendingClaim>,
    /// For each resource, when the last thing known of it ends.
    last: Vec<Time>,
    slots: (usize, usize),
    sees_clusters: bool,
    /// Number of tasks sent to each cluster.
    sent: Vec<u64>,
    plans: u32,
}

impl Belief {
    /// A belief that nothing is reserved. If `told` is `None`, the belief looks at the timetables.
    pub(super) fn new(
        net: &Net,
        settings: &PlanningSettings,
        rate: BitsPerSecond,
        cpus: Cpus,
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
                // The first update of a place cannot be out of order.
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

    /// The view that planners get.
    pub(super) const fn view(&self) -> &BelievedNetwork {
        &self.view
    }

    /// Does it look at the timetables themselves?
    pub(super) const fn is_truth(&self) -> bool {
        self.known.is_none()
    }

    /// Advances all vectors to an instant.
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
            // The slots that were added at the end are free, unless something is known that late.
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

    /// Counts a task that is sent to a cluster.
    pub(super) fn count(&mut self, cluster: usize) {
        self.sent[cluster] += 1;
    }

    /// What is believed to be free of a resource over a window.
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

    /// Recomputes the vectors of a resource where a window touches them.
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

    /// Records what the scheduler has sent out.
    pub(super) fn expect(&mut self, net: &Net, controllers: &[Controller], claim: PendingClaim) {
        if self.known.is_some() {
            let (resource, window) = (claim.resource, claim.window);
            self.own.push(claim);
            self.cut(net, controllers, resource, window);
        }
    }

    /// An answer to something that was sent out has arrived, or will never arrive. With a `revision`, the
    /// claim counts until the picture has that revision; without one, it ends at once.
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

    /// Merges news of a place: an update, or the facts of an answer. Returns true if the news counted.
    pub(super) fn hear(
        &mut self,
        net: &Net,
        controllers: &[Controller],
        place: usize,
        news: &update::Update,
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

    /// The revision of a place that the picture has; 0 if it has none.
    pub(super) fn revision(&self, net: &Net, place: usize) -> u64 {
        let known = self.known.as_ref().and_then(|known| known.known(&net.places[place].name));
        known.map_or(0, |known| known.revision)
    }
}

/// The free steps over a window, minus what was sent out.
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
