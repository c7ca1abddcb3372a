//! A schedule in the making: which activities are placed, which data have travelled where, and all of
//! it taken back on demand.
//!
//! Source: Decker 2007, section IV-B.2. To place a single activity, its data are placed at each site in
//! turn (in the order of their sources' ends, then of the workflow), each by earliest arrival; the
//! activity gets the earliest fit after the last arrival; and the site with the least end is taken
//! (then the earlier start, then the order of sites). Left out: synchronous sets, which
//! [`super::heft_sync`] and `backtracking` place.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::workflow::DataSource;
use coalloc_common::{
    Amount, BitsPerSecond, Reason, Refusal, ResourceKind, SiteDemand, Span, Time, VertexIndex,
    Window,
};

use super::answer::{PlacedActivity, Schedule, Transfer, WorkflowEffort, WorkflowRefusal};
use super::network::{TransferDemand, TransferNetwork};
use super::rank::{allowed_sites, is_initial};
use super::scratch::{ScratchTimetables, slot_ceil, slots_up};
use super::{KeptPart, WorkflowInstance};
use crate::{Budget, Route};

/// Parts of the widest rate at which a transfer without a rate of its own is tried: 1, 1/2, 1/4, 1/8.
const RATE_PARTS: [u64; 4] = [1, 2, 4, 8];

/// A site at which an activity may run, and how long it takes there, in whole slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SiteChoice {
    pub(super) site: VertexIndex,
    pub(super) duration: Span,
}

/// What a planner undoes at once; see [`PartialSchedule::undo_to`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    held: usize,
    changes: usize,
    transfers: usize,
}

/// One change besides held amounts and transfers.
#[derive(Debug, Clone, Copy)]
enum Change {
    Placed { activity: usize },
    Grouped { group: usize },
    Channel { channel: usize },
}

/// A schedule in the making.
pub(super) struct PartialSchedule<'a> {
    pub(super) instance: WorkflowInstance<'a>,
    pub(super) scratch: &'a mut ScratchTimetables,
    network: TransferNetwork,
    /// The sites at which each activity may run, in their order.
    sites: Vec<Vec<SiteChoice>>,
    demands: Vec<SiteDemand>,
    placed: Vec<Option<PlacedActivity>>,
    /// The site of each group of activities that share one, once it is chosen.
    group_site: BTreeMap<usize, VertexIndex>,
    channels: Vec<Route>,
    transfers: Vec<Transfer>,
    /// When an item arrives at a site to which it travels.
    arrivals: BTreeMap<(usize, VertexIndex), Time>,
    changes: Vec<Change>,
    begin: usize,
    pub(super) effort: WorkflowEffort,
}

impl<'a> PartialSchedule<'a> {
    pub(super) fn new(
        instance: &WorkflowInstance<'a>,
        scratch: &'a mut ScratchTimetables,
    ) -> Result<Self, Box<WorkflowRefusal>> {
        let WorkflowInstance { topology, workflow, graph, slot, options, kept } = *instance;
        let network = TransferNetwork::new(topology, scratch, options.route_edges(), slot);
        let choices = workflow.activities.iter().map(|activity| {
            allowed_sites(instance, activity)
                .map(|(site, _, span)| SiteChoice { site, duration: slots_up(span, slot) })
                .collect()
        });
        let mut sites: Vec<Vec<SiteChoice>> = choices.collect();
        share_sites(&mut sites, &graph.site_group);
        let kept = kept.cloned().unwrap_or_else(|| KeptPart::nothing(workflow));
        let is_open = |at: &usize| kept.activities[*at].is_none();
        if let Some(nowhere) = (0..sites.len()).filter(is_open).find(|at| sites[*at].is_empty()) {
            let name = &workflow.activities[nowhere].name;
            let detail = format!(
                "{name} can run at no site: none that it may use has {} CPUs and all else that it needs",
                workflow.activities[nowhere].cpus.0
            );
            let refusal = Refusal::new(Reason::BeyondCapacity, detail);
            let activities = vec![nowhere];
            return Err(Box::new(WorkflowRefusal { activities, refusal, earliest_finish: None }));
        }
        let begin = scratch.mark();
        Ok(Self {
            instance: *instance,
            network,
            sites,
            demands: workflow.activities.iter().map(|activity| activity.demand()).collect(),
            group_site: kept.group_sites(graph),
            arrivals: kept.arrivals(),
            placed: kept.activities,
            channels: kept.channels,
            transfers: kept.transfers,
            changes: Vec::new(),
            begin,
            scratch,
            effort: WorkflowEffort::default(),
        })
    }

    /// Ends planning: nothing stays held.
    pub(super) fn finish(self) -> (Schedule, WorkflowEffort) {
        self.scratch.undo_to(self.begin);
        let activities = self.placed.into_iter().flatten().collect();
        let schedule = Schedule { activities, transfers: self.transfers, channels: self.channels };
        (schedule, self.effort)
    }

    pub(super) fn mark(&self) -> Mark {
        let (changes, transfers) = (self.changes.len(), self.transfers.len());
        Mark { held: self.scratch.mark(), changes, transfers }
    }

    /// Takes back everything since the mark.
    pub(super) fn undo_to(&mut self, mark: Mark) {
        self.scratch.undo_to(mark.held);
        for transfer in self.transfers.drain(mark.transfers..) {
            self.arrivals.remove(&(transfer.item, transfer.to));
        }
        for change in self.changes.drain(mark.changes..) {
            match change {
                Change::Placed { activity } => self.placed[activity] = None,
                Change::Grouped { group } => drop(self.group_site.remove(&group)),
                Change::Channel { channel } => self.channels[channel].clear(),
            }
        }
    }

    pub(super) const fn slot(&self) -> Span {
        self.instance.slot
    }

    /// N_max: the most edges of a route.
    pub(super) fn route_edges(&self) -> usize {
        self.instance.options.route_edges()
    }

    pub(super) const fn deadline(&self) -> Time {
        self.instance.workflow.deadline
    }

    pub(super) fn demand(&self, activity: usize) -> &SiteDemand {
        &self.demands[activity]
    }

    /// The sites that are open to an activity now, in their order.
    pub(super) fn choices(&self, activity: usize) -> impl Iterator<Item = SiteChoice> + '_ {
        let group = self.instance.graph.site_group[activity];
        let fixed = group.and_then(|group| self.group_site.get(&group).copied());
        let open = move |choice: &SiteChoice| fixed.is_none_or(|fixed| fixed == choice.site);
        self.sites[activity].iter().copied().filter(open)
    }

    pub(super) fn site_of(&self, activity: usize) -> Option<VertexIndex> {
        self.placed[activity].map(|placed| placed.site)
    }

    /// Where an item comes from, and from when on it is there.
    pub(super) fn source(&self, item: usize) -> Option<(VertexIndex, Time)> {
        match &self.instance.workflow.data[item].source {
            // What was produced before anything may begin is as good as there from the beginning.
            DataSource::Activity(producer) => self.placed[*producer]
                .map(|placed| (placed.site, placed.window.end().max(self.ready()))),
            DataSource::Site(name) => {
                let site = self.instance.topology.find_vertex(name)?;
                Some((site, self.ready()))
            }
        }
    }

    /// When what is to be placed may begin, on the grid of slots.
    pub(super) fn ready(&self) -> Time {
        let ready = self.instance.workflow.ready;
        let begin = self.instance.kept.map_or(ready, |kept| kept.not_before.max(ready));
        slot_ceil(begin, self.slot())
    }

    /// Whether a node is to be placed, and is not kept.
    pub(super) fn is_open(instance: &WorkflowInstance<'_>, node: usize) -> bool {
        let members = &instance.graph.nodes[node].members;
        instance.kept.is_none_or(|kept| members.iter().any(|one| kept.activities[*one].is_none()))
    }

    /// The items that activities need, by their sources' ends and then in the order of the workflow.
    pub(super) fn inputs(&self, activity: usize) -> Vec<usize> {
        let mut inputs = self.instance.graph.inputs[activity].clone();
        inputs.sort_by_key(|item| (self.source(*item).map(|(_, end)| end), *item));
        inputs
    }

    /// The instant before which an activity cannot start, wherever it runs: its predecessors have ended.
    pub(super) fn predecessors_end(&self, activity: usize) -> Time {
        let graph = self.instance.graph;
        let sources = graph.inputs[activity].iter().filter_map(|item| self.source(*item));
        sources.map(|(_, end)| end).max().map_or(self.ready(), |end| end.max(self.ready()))
    }

    /// Brings an item to a site, unless it is or comes there already. Returns when it is there.
    /// `None`: it cannot arrive by `until`.
    pub(super) fn deliver(&mut self, item: usize, to: VertexIndex, until: Time) -> Option<Time> {
        let (from, ready) = self.source(item)?;
        let bytes = self.instance.workflow.data[item].bytes;
        if from == to || bytes == 0 {
            return (ready <= until).then_some(ready);
        }
        if let Some(arrival) = self.arrivals.get(&(item, to)) {
            return (*arrival <= until).then_some(*arrival);
        }
        let mut best: Option<(Window, Route, BitsPerSecond)> = None;
        for (rate, length) in self.rates(item, from, to) {
            let demand = TransferDemand { from, to, rate, length };
            let until = best.as_ref().map_or(until, |(window, ..)| window.end());
            let Some((window, route)) = self.network.earliest(self.scratch, demand, (ready, until))
            else {
                continue;
            };
            // At an equal arrival the lower rate, which comes later, takes less.
            if best.as_ref().is_none_or(|(other, ..)| window.end() <= other.end()) {
                best = Some((window, route, rate));
            }
        }
        let (window, route, rate) = best?;
        for (edge, direction) in &route {
            let number = self.scratch.of_edge(*edge, *direction);
            if !self.scratch.hold(number, window, Amount(rate.0)) {
                return None;
            }
        }
        self.arrivals.insert((item, to), window.end());
        self.transfers.push(Transfer { item, from, to, route, rate, window });
        Some(window.end())
    }

    /// The rates at which an item may travel, with the length of time that each takes; of rates that
    /// take equally long only the lowest.
    fn rates(
        &mut self,
        item: usize,
        from: VertexIndex,
        to: VertexIndex,
    ) -> Vec<(BitsPerSecond, Span)> {
        let of = &self.instance.workflow.data[item];
        let (bytes, slot) = (of.bytes, self.instance.slot);
        if let Some(rate) = of.rate {
            return vec![(rate, transfer_length(bytes, rate, slot))];
        }
        let widest = self.network.widest(self.scratch, from, to);
        let mut rates: Vec<(BitsPerSecond, Span)> = Vec::with_capacity(RATE_PARTS.len());
        for part in RATE_PARTS {
            let rate = BitsPerSecond(widest / part);
            if rate.0 == 0 {
                continue;
            }
            let length = transfer_length(bytes, rate, slot);
            if rates.last().is_some_and(|(_, last)| *last == length) {
                rates.pop();
            }
            rates.push((rate, length));
        }
        rates
    }

    /// Brings all items of an activity to a site. Returns when the last one is there; at the earliest
    /// when the predecessors have ended.
    pub(super) fn deliver_all(
        &mut self,
        activity: usize,
        to: VertexIndex,
        until: Time,
    ) -> Option<Time> {
        let mut arrival = self.ready();
        for item in self.inputs(activity) {
            arrival = arrival.max(self.deliver(item, to, until)?);
        }
        Some(arrival)
    }

    /// The earliest start of a window of this length at a site that has free what an activity needs.
    pub(super) fn earliest_fit(
        &self,
        activity: usize,
        site: VertexIndex,
        length: Span,
        (from, until): (Time, Time),
    ) -> Option<Time> {
        let mut start = slot_ceil(from, self.slot());
        loop {
            let mut latest = start;
            for (kind, amount) in self.demands[activity].amounts() {
                let number = self.scratch.at_site(site, kind)?;
                let range = (latest, until);
                let fit =
                    self.scratch.earliest_start(number, amount, length, range, self.slot())?;
                latest = latest.max(fit);
            }
            if latest == start {
                return Some(start);
            }
            start = latest;
        }
    }

    /// Takes what an activity needs at a site. False, and nothing changes, when it is not free.
    #[must_use]
    pub(super) fn take(&mut self, activity: usize, site: VertexIndex, window: Window) -> bool {
        let mark = self.scratch.mark();
        let amounts: Vec<(ResourceKind, Amount)> = self.demands[activity].amounts().collect();
        for (kind, amount) in amounts {
            let number = self.scratch.at_site(site, kind);
            if !number.is_some_and(|number| self.scratch.hold(number, window, amount)) {
                self.scratch.undo_to(mark);
                return false;
            }
        }
        self.placed[activity] = Some(PlacedActivity { site, window });
        self.changes.push(Change::Placed { activity });
        if let Some(group) = self.instance.graph.site_group[activity]
            && self.group_site.insert(group, site).is_none()
        {
            self.changes.push(Change::Grouped { group });
        }
        true
    }

    /// Takes a route for a channel over the window of its set. False when an edge is not free.
    #[must_use]
    pub(super) fn take_channel(&mut self, channel: usize, window: Window, route: Route) -> bool {
        let mark = self.scratch.mark();
        let rate = Amount(self.instance.workflow.channels[channel].bandwidth.0);
        for (edge, direction) in &route {
            let number = self.scratch.of_edge(*edge, *direction);
            if !self.scratch.hold(number, window, rate) {
                self.scratch.undo_to(mark);
                return false;
            }
        }
        self.channels[channel] = route;
        self.changes.push(Change::Channel { channel });
        true
    }

    /// Whether the data or channels of a placed node take something on edges.
    pub(super) fn uses_network(&self, node: usize) -> bool {
        let of = &self.instance.graph.nodes[node];
        let takes = |transfer: &Transfer| {
            let consumers = &self.instance.workflow.data[transfer.item].consumers;
            of.members.iter().any(|member| {
                consumers.contains(member) && self.site_of(*member) == Some(transfer.to)
            })
        };
        of.channels.iter().any(|channel| !self.channels[*channel].is_empty())
            || self.transfers.iter().any(takes)
    }

    /// The route of a channel over exactly this window: the fewest edges that are free. `None` when there
    /// is none. Both ends are placed.
    pub(super) fn channel_route(&mut self, channel: usize, window: Window) -> Option<Route> {
        let of = self.instance.workflow.channels[channel];
        let (from, to) = (self.placed[of.from]?.site, self.placed[of.to]?.site);
        if from == to {
            return Some(Route::new());
        }
        let demand = TransferDemand { from, to, rate: of.bandwidth, length: window.length() };
        let range = (window.start(), window.end());
        let (_, route) = self.network.earliest(self.scratch, demand, range)?;
        let latency = route.iter().fold(Span::ZERO, |sum, (edge, _)| {
            sum.saturating_add(self.instance.topology.edge(*edge).latency)
        });
        of.latency_max.is_none_or(|max| latency <= max).then_some(route)
    }

    /// Where a single activity ends first, without some sites. Nothing changes.
    fn best_site(
        &mut self,
        activity: usize,
        forbidden: &BTreeSet<VertexIndex>,
        until: Time,
    ) -> Option<SiteFit> {
        let mut best: Option<SiteFit> = None;
        let open = |choice: &SiteChoice| !forbidden.contains(&choice.site);
        let choices: Vec<SiteChoice> = self.choices(activity).filter(open).collect();
        let begin = self.predecessors_end(activity);
        for SiteChoice { site, duration } in choices {
            let until = best.map_or(until, |best| best.end);
            // Data that arrive later than this are of no use.
            let latest = until.saturating_sub(duration);
            if begin > latest {
                continue;
            }
            self.effort.placements += 1;
            let mark = self.mark();
            let start = self.deliver_all(activity, site, latest).and_then(|arrival| {
                let from = arrival.max(begin);
                self.earliest_fit(activity, site, duration, (from, until))
            });
            self.undo_to(mark);
            let Some(start) = start else { continue };
            let fit = SiteFit { end: start.saturating_add(duration), start, site, duration };
            if best.is_none_or(|best| (fit.end, fit.start) < (best.end, best.start)) {
                best = Some(fit);
            }
        }
        best
    }

    /// Places a single activity where it ends first.
    ///
    /// # Errors
    /// The refusal of the activity, when it cannot end by the deadline.
    pub(super) fn place_single(
        &mut self,
        activity: usize,
        budget: &Budget<'_>,
    ) -> Result<(), Box<WorkflowRefusal>> {
        let placed = self.place_single_apart(activity, &BTreeSet::new(), budget)?;
        if placed { Ok(()) } else { Err(self.too_late(activity)) }
    }

    /// Places a single activity where it ends first, at none of some sites. False when it cannot end by
    /// the deadline.
    ///
    /// # Errors
    /// The refusal of a search that has used its budget.
    pub(super) fn place_single_apart(
        &mut self,
        activity: usize,
        forbidden: &BTreeSet<VertexIndex>,
        budget: &Budget<'_>,
    ) -> Result<bool, Box<WorkflowRefusal>> {
        if self.effort.placements >= budget.nodes || budget.stopped() {
            return Err(self.exhausted(&[activity]));
        }
        let best = self.best_site(activity, forbidden, self.deadline());
        Ok(best.is_some_and(|fit| self.place_at(activity, fit)))
    }

    /// Places an activity as [`PartialSchedule::best_site`] has found.
    #[must_use]
    pub(super) fn place_at(&mut self, activity: usize, fit: SiteFit) -> bool {
        let mark = self.mark();
        let window = Window::starting(fit.start, fit.duration);
        let placed = self.deliver_all(activity, fit.site, fit.start).is_some()
            && window.is_some_and(|window| self.take(activity, fit.site, window));
        if !placed {
            self.undo_to(mark);
        }
        placed
    }

    /// The refusal of an activity that cannot end by the deadline.
    pub(super) fn too_late(&mut self, activity: usize) -> Box<WorkflowRefusal> {
        let name = &self.instance.workflow.activities[activity].name;
        let deadline = self.deadline();
        let mut refusal = Refusal::new(
            Reason::InsufficientCapacity,
            format!("{name} cannot end by the deadline, {deadline}"),
        );
        let late = self.best_site(activity, &BTreeSet::new(), Time::MAX);
        let earliest_finish = late.map(|fit| fit.end);
        match late {
            Some(fit) => {
                let place = &self.instance.topology.vertex(fit.site).name;
                refusal.detail.push_str(&format!("; at {place} it could end at {}", fit.end));
                refusal.window = Window::new(fit.start, fit.end);
            }
            None => refusal.detail.push_str(", nor at any later time that is known"),
        }
        Box::new(WorkflowRefusal { activities: vec![activity], refusal, earliest_finish })
    }

    /// The refusal of a search that has used its budget.
    pub(super) fn exhausted(&self, activities: &[usize]) -> Box<WorkflowRefusal> {
        let names: Vec<&str> = self.names(activities);
        let detail = format!("the search used up its budget at {}", names.join(", "));
        let refusal = Refusal::new(Reason::BudgetExhausted, detail);
        Box::new(WorkflowRefusal {
            activities: activities.to_vec(),
            refusal,
            earliest_finish: None,
        })
    }

    pub(super) fn names(&self, activities: &[usize]) -> Vec<&'a str> {
        let all = &self.instance.workflow.activities;
        activities.iter().map(|activity| all[*activity].name.as_str()).collect()
    }

    /// The longest time that an item needs on the narrowest edge of the federation (Decker 2007, section
    /// IV-B.3: "worst case communication costs").
    pub(super) fn worst_transfer(&self, activities: &[usize]) -> Span {
        let topology = self.instance.topology;
        let narrowest = topology.edges().iter().map(|edge| edge.capacity).min();
        let Some(narrowest) = narrowest else { return Span::ZERO };
        let items = activities.iter().flat_map(|one| &self.instance.graph.inputs[*one]);
        let lengths = items.filter_map(|item| {
            let of = &self.instance.workflow.data[*item];
            let rate = of.rate.unwrap_or(narrowest);
            // Items that lie somewhere have no source that ends, but they travel all the same.
            (of.bytes > 0 || is_initial(of)).then(|| match of.bytes {
                0 => Span::ZERO,
                bytes => transfer_length(bytes, rate, self.instance.slot),
            })
        });
        lengths.max().unwrap_or(Span::ZERO)
    }
}

/// Where and when a single activity fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SiteFit {
    pub(super) end: Time,
    pub(super) start: Time,
    pub(super) site: VertexIndex,
    pub(super) duration: Span,
}

/// How long an item travels at a rate, in whole slots.
pub(super) fn transfer_length(bytes: u64, rate: BitsPerSecond, slot: Span) -> Span {
    let us = (u128::from(bytes) * 8 * 1_000_000).div_ceil(u128::from(rate.0.max(1)));
    slots_up(Span::from_us(i64::try_from(us).unwrap_or(i64::MAX)), slot)
}

/// Leaves to activities that share one site only the sites that all of them may use.
fn share_sites(sites: &mut [Vec<SiteChoice>], groups: &[Option<usize>]) {
    let mut common: BTreeMap<usize, Vec<VertexIndex>> = BTreeMap::new();
    for (choices, group) in sites.iter().zip(groups) {
        let Some(group) = group else { continue };
        let own = || choices.iter().map(|choice| choice.site).collect();
        let all = common.entry(*group).or_insert_with(own);
        all.retain(|site| choices.iter().any(|choice| choice.site == *site));
    }
    for (choices, group) in sites.iter_mut().zip(groups) {
        if let Some(all) = group.and_then(|group| common.get(&group)) {
            choices.retain(|choice| all.contains(&choice.site));
        }
    }
}
