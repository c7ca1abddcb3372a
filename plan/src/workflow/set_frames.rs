//! The frames of one synchronous set, for planner `heft-sync-bt`.
//!
//! Source: Decker 2007, section IV-C. A set ends first in a window whose length is the duration of some
//! member at some site, so there are few lengths. For each length there is a bound: the earliest start
//! at which every member by itself fits at some site that is fast enough and that its data can reach. A
//! heap takes the length whose bound ends first. For its frame the question is whether all members fit
//! together with their channels, which [`crate::ip::shared`] answers. At the placements that it finds,
//! the data are placed in the order of their sources' ends; if an item comes too late, the next placement
//! is tried. A refuted frame moves the bound of its length to the next instant at which a resource that
//! the proof has used has more free, or at which data can arrive. So the first frame that fits ends
//! earliest, for this order of data.
//!
//! One part keeps an exponent: placements in which data come too late because they share an edge. After
//! [`limits::SET_REFUSALS_MAX`] of them the frame counts as refuted until the first of their data would be
//! there, and [`super::WorkflowEffort::unproven`] counts it. Without such frames the end of a set is proven.
//!
//! Left out: which sets there are, and what happens when one has no frame: see `set_search`. What is then
//! said to the user: see `set_refusal`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use coalloc_common::{Amount, LinkDemand, ResourceKind, Span, Time, VertexIndex, Window, limits};

use super::answer::WorkflowRefusal;
use super::heft_sync::{bring_data, by_falling_load};
use super::partial::{PartialSchedule, SiteChoice};
use super::scratch::{ResourceNumber, ScratchTimetables};
use crate::ip::shared::{Conflict, SharedFrame, SharedMember, SharedOutcome, place};
use crate::{Budget, Route};

/// The sites of a node's members, in the order of the workflow: what a discrepancy forbids.
pub(super) type Placement = Vec<VertexIndex>;

/// A member of a set, or several members that must share one site.
#[derive(Debug, Clone)]
pub(super) struct Bundle {
    /// The activities, by falling load.
    pub(super) activities: Vec<usize>,
    /// Their sites in order, each with the longest duration of an activity there, and the instant
    /// before which their data cannot be there; sites that their data cannot reach are left out.
    pub(super) sites: Vec<(SiteChoice, Time)>,
}

/// One length that the window of a set may have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame {
    pub(super) end: Time,
    pub(super) start: Time,
}

impl Frame {
    fn length(&self) -> Span {
        self.end.since(self.start)
    }
}

/// Why a frame was refuted: nothing of this length fits while these resources have no more free, and no
/// candidates come in addition.
#[derive(Debug, Clone)]
struct Nogood {
    length: Span,
    free: Vec<(ResourceNumber, Amount)>,
    /// The number of candidates. They only grow with the start of a frame.
    candidates: usize,
}

/// The frames of one set.
pub(super) struct SetFrames<'s, 'a> {
    pub(super) partial: &'s mut PartialSchedule<'a>,
    node: usize,
    /// All members by falling load.
    members: Vec<usize>,
    pub(super) bundles: Vec<Bundle>,
    /// The bundle of each member.
    bundle_of: BTreeMap<usize, usize>,
    /// The channels between bundles.
    links: Vec<LinkDemand>,
    link_channels: Vec<usize>,
    forbidden: &'s BTreeSet<Placement>,
    pub(super) begin: Time,
    /// The deadline, or later to find out when the set could end.
    until: Time,
    nogoods: Vec<Nogood>,
    /// The item that came last at the placement whose data were placed last.
    last_item: Option<usize>,
}

impl<'s, 'a> SetFrames<'s, 'a> {
    pub(super) fn new(
        partial: &'s mut PartialSchedule<'a>,
        node: usize,
        forbidden: &'s BTreeSet<Placement>,
        until: Time,
    ) -> Self {
        let graph = partial.instance.graph;
        let members = by_falling_load(&partial.instance, &graph.nodes[node].members);
        let ends = members.iter().map(|member| partial.predecessors_end(*member));
        let begin = ends.max().unwrap_or_else(|| partial.ready());
        let mut bundles: Vec<Bundle> = Vec::new();
        let mut bundle_of = BTreeMap::new();
        let mut of_group = BTreeMap::new();
        for member in &members {
            let next = bundles.len();
            let group = graph.site_group[*member];
            let bundle = group.map_or(next, |group| *of_group.entry(group).or_insert(next));
            if bundle == next {
                bundles.push(Bundle { activities: Vec::new(), sites: Vec::new() });
            }
            bundles[bundle].activities.push(*member);
            bundle_of.insert(*member, bundle);
        }
        let channels = &graph.nodes[node].channels;
        let all = &partial.instance.workflow.channels;
        let apart =
            |channel: &usize| bundle_of[&all[*channel].from] != bundle_of[&all[*channel].to];
        let link_channels: Vec<usize> = channels.iter().copied().filter(apart).collect();
        let link = |channel: &usize| {
            let of = all[*channel];
            let (from, to) = (bundle_of[&of.from], bundle_of[&of.to]);
            LinkDemand {
                from,
                to,
                bandwidth: of.bandwidth,
                latency_max: of.latency_max,
                window: None,
            }
        };
        let links = link_channels.iter().map(link).collect();
        let mut frames = Self {
            partial,
            node,
            members,
            bundles,
            bundle_of,
            links,
            link_channels,
            forbidden,
            begin,
            until,
            nogoods: Vec::new(),
            last_item: None,
        };
        frames.find_sites();
        frames
    }

    /// Fills in the sites of each bundle.
    fn find_sites(&mut self) {
        for index in 0..self.bundles.len() {
            let activities = self.bundles[index].activities.clone();
            let first: Vec<SiteChoice> = self.partial.choices(activities[0]).collect();
            let mut sites = Vec::with_capacity(first.len());
            for SiteChoice { site, .. } in first {
                let durations = activities.iter().filter_map(|activity| {
                    let mut choices = self.partial.choices(*activity);
                    choices.find(|choice| choice.site == site).map(|choice| choice.duration)
                });
                let durations: Vec<Span> = durations.collect();
                let Some(duration) = durations.iter().max().copied() else { continue };
                if let Some(arrival) = self.first_arrival(&activities, site)
                    && durations.len() == activities.len()
                {
                    sites.push((SiteChoice { site, duration }, arrival));
                }
            }
            self.bundles[index].sites = sites;
        }
    }

    /// The instant before which the data of activities cannot all be at a site: the latest arrival of an
    /// item that travels as if it were the only one.
    fn first_arrival(&mut self, activities: &[usize], site: VertexIndex) -> Option<Time> {
        let until = self.until;
        let mut arrival = self.begin;
        for activity in activities {
            for item in self.partial.inputs(*activity) {
                let mark = self.partial.mark();
                let there = self.partial.deliver(item, site, until);
                self.partial.undo_to(mark);
                arrival = arrival.max(there?);
            }
        }
        Some(arrival)
    }

    /// Places the set in the frame that ends first, or says what the last refuted frame was short of.
    pub(super) fn place(&mut self, budget: &Budget<'_>) -> SetOutcome {
        let lengths: BTreeSet<Span> = self
            .bundles
            .iter()
            .flat_map(|bundle| bundle.sites.iter().map(|(choice, _)| choice.duration))
            .collect();
        let mut heap: BinaryHeap<Reverse<Frame>> = BinaryHeap::new();
        for length in lengths {
            heap.extend(self.bound(self.begin, length).map(Reverse));
        }
        let mut short_of = None;
        while let Some(Reverse(frame)) = heap.pop() {
            if self.partial.effort.placements >= budget.nodes || budget.stopped() {
                return SetOutcome::Stopped;
            }
            self.partial.effort.frames += 1;
            match self.try_frame(&frame, budget) {
                FrameOutcome::Placed => return SetOutcome::Placed(frame),
                FrameOutcome::Stopped => return SetOutcome::Stopped,
                FrameOutcome::Refuted { next, short } => {
                    let next = next.and_then(|next| self.bound(next, frame.length()));
                    heap.extend(next.map(Reverse));
                    short_of = short.map(|short| (frame, short)).or(short_of);
                }
            }
        }
        SetOutcome::Refused(short_of)
    }

    /// The earliest frame of this length, not before `from`, in which every bundle by itself fits at a
    /// site that is fast enough and that its data can reach by then.
    pub(super) fn bound(&self, from: Time, length: Span) -> Option<Frame> {
        let until = self.until;
        let mut start = from;
        loop {
            let before = start;
            for bundle in &self.bundles {
                let fast = bundle.sites.iter().filter(|(choice, _)| choice.duration <= length);
                let starts = fast.filter_map(|(choice, arrival)| {
                    let from = start.max(*arrival);
                    self.fit_together(&bundle.activities, choice.site, length, (from, until))
                });
                start = starts.min()?;
            }
            if start == before {
                return Some(Frame { end: start.saturating_add(length), start });
            }
        }
    }

    /// The earliest start at which activities fit at a site together.
    fn fit_together(
        &self,
        activities: &[usize],
        site: VertexIndex,
        length: Span,
        range: (Time, Time),
    ) -> Option<Time> {
        if let [activity] = activities {
            return self.partial.earliest_fit(*activity, site, length, range);
        }
        // Sums of several amounts: each kind by itself is a bound, which is enough here.
        let fit = |activity: &usize| self.partial.earliest_fit(*activity, site, length, range);
        let fits: Option<Vec<Time>> = activities.iter().map(fit).collect();
        fits?.into_iter().max()
    }

    fn try_frame(&mut self, frame: &Frame, budget: &Budget<'_>) -> FrameOutcome {
        let Some(window) = Window::new(frame.start, frame.end) else {
            return FrameOutcome::Refuted { next: None, short: None };
        };
        let members = self.shared_members(frame);
        let candidates: usize = members.iter().map(|member| member.candidates.len()).sum();
        if let Some(nogood) = self.nogood(window, candidates) {
            let next = self.next_start(frame, &nogood.free, None);
            return FrameOutcome::Refuted { next, short: None };
        }
        let mut search = self.search(frame, window, members, budget);
        if search.given_up {
            // Sites that data reach first, in the hope that the others arrive in time as well. If they do, only
            // the order of sites is not as preferred.
            let members = self.by_arrival(search.members);
            let later = search.later;
            search = self.search(frame, window, members, budget);
            search.later = search.later.into_iter().chain(later).min();
        }
        if search.given_up {
            self.partial.effort.unproven += 1;
            let next = self.next_start(frame, &[], search.later);
            return FrameOutcome::Refuted { next, short: self.last_item.map(Shortage::Late) };
        }
        match search.outcome {
            SharedOutcome::Stopped => FrameOutcome::Stopped,
            SharedOutcome::Fits { placements, routes } => {
                match self.take_all(&placements, routes, window) {
                    true => FrameOutcome::Placed,
                    // Does not happen: the frame and the data fit.
                    false => FrameOutcome::Refuted { next: None, short: None },
                }
            }
            SharedOutcome::Refuted { conflict, refused } => {
                let free = self.free_of(&conflict, window);
                let next = self.next_start(frame, &free, search.later);
                if refused {
                    return FrameOutcome::Refuted {
                        next,
                        short: self.last_item.map(Shortage::Late),
                    };
                }
                self.nogoods.push(Nogood { length: frame.length(), free, candidates });
                FrameOutcome::Refuted { next, short: Some(Shortage::Amounts(conflict)) }
            }
        }
    }

    /// Asks whether the members fit together into a frame, at placements that their data reach in time.
    fn search(
        &mut self,
        frame: &Frame,
        window: Window,
        members: Vec<SharedMember>,
        budget: &Budget<'_>,
    ) -> FrameSearch {
        let view = self.partial.scratch.view(self.partial.instance.topology, window);
        let links = std::mem::take(&mut self.links);
        let shared = SharedFrame {
            topology: self.partial.instance.topology,
            view: &view,
            members: &members,
            links: &links,
            route_edges_max: self.partial.instance.options.route_edges_max,
        };
        let left = budget.nodes.saturating_sub(self.partial.effort.placements);
        let budget = Budget { nodes: left, ..*budget };
        let (mut later, mut refusals, mut given_up): (Option<Time>, u32, bool) = (None, 0, false);
        let answer = place(&shared, &budget, &mut |placements| {
            let arrival = self.arrival(placements, window);
            if arrival.is_some_and(|arrival| arrival <= frame.start) {
                return true;
            }
            later = later.into_iter().chain(arrival).min();
            refusals += 1;
            // To take a placement ends the search.
            given_up = refusals >= limits::SET_REFUSALS_MAX && later.is_some();
            given_up
        });
        self.links = links;
        self.partial.effort.placements += answer.nodes + 1;
        FrameSearch { members, outcome: answer.outcome, later, given_up }
    }

    /// Whether the members fit into a frame together if their channels took nothing.
    pub(super) fn fits_without_channels(&self, frame: &Frame, budget: &Budget<'_>) -> bool {
        let Some(window) = Window::new(frame.start, frame.end) else { return false };
        let view = self.partial.scratch.view(self.partial.instance.topology, window);
        let members = self.shared_members(frame);
        let shared = SharedFrame {
            topology: self.partial.instance.topology,
            view: &view,
            members: &members,
            links: &[],
            route_edges_max: self.partial.instance.options.route_edges_max,
        };
        matches!(place(&shared, budget, &mut |_| true).outcome, SharedOutcome::Fits { .. })
    }

    /// The same members, with the sites that their data reach first as the preferred ones.
    fn by_arrival(&self, mut members: Vec<SharedMember>) -> Vec<SharedMember> {
        for (member, bundle) in members.iter_mut().zip(&self.bundles) {
            let arrival = |site: &VertexIndex| {
                bundle.sites.iter().find(|(choice, _)| choice.site == *site).map(|(_, at)| *at)
            };
            member.candidates.sort_by_key(arrival);
        }
        members
    }

    /// The bundles with the sites that are fast enough and that data can reach, in their order.
    fn shared_members(&self, frame: &Frame) -> Vec<SharedMember> {
        let member = |bundle: &Bundle| {
            let open = bundle.sites.iter().filter(|(choice, arrival)| {
                choice.duration <= frame.length() && *arrival <= frame.start
            });
            let mut sum = SharedMember {
                cpus: coalloc_common::Cpus(0),
                others: BTreeMap::new(),
                candidates: open.map(|(choice, _)| choice.site).collect(),
            };
            for activity in &bundle.activities {
                for (kind, amount) in self.partial.demand(*activity).amounts() {
                    match kind {
                        ResourceKind::Cpus => sum.cpus.0 += amount.0,
                        kind => sum.others.entry(kind).or_default().0 += amount.0,
                    }
                }
            }
            sum
        };
        self.bundles.iter().map(member).collect()
    }

    /// The site of each member, in the order of the workflow.
    fn placement(&self, placements: &[VertexIndex]) -> Placement {
        let members = &self.partial.instance.graph.nodes[self.node].members;
        members.iter().map(|member| placements[self.bundle_of[member]]).collect()
    }

    /// When the data of all members are there, brought in their order. `None`: not before the deadline,
    /// or the placement is forbidden.
    fn arrival(&mut self, placements: &[VertexIndex], window: Window) -> Option<Time> {
        if self.forbidden.contains(&self.placement(placements)) {
            return None;
        }
        let mark = self.partial.mark();
        let taken = self.take_members(placements, window);
        let mut inputs: Vec<(Option<Time>, usize, VertexIndex)> = Vec::new();
        for member in &self.members {
            let site = placements[self.bundle_of[member]];
            for item in &self.partial.instance.graph.inputs[*member] {
                inputs.push((self.partial.source(*item).map(|(_, end)| end), *item, site));
            }
        }
        inputs.sort_unstable();
        let until = self.until;
        let mut arrival = taken.then_some(self.begin);
        for (_, item, site) in inputs {
            let there = arrival.and_then(|_| self.partial.deliver(item, site, until));
            if arrival.is_some() && (there.is_none() || there > arrival) {
                self.last_item = Some(item);
            }
            arrival = arrival.max(there).filter(|_| there.is_some());
        }
        self.partial.undo_to(mark);
        arrival
    }

    fn take_members(&mut self, placements: &[VertexIndex], window: Window) -> bool {
        let members = std::mem::take(&mut self.members);
        let taken = members
            .iter()
            .all(|member| self.partial.take(*member, placements[self.bundle_of[member]], window));
        self.members = members;
        taken
    }

    fn take_all(&mut self, placements: &[VertexIndex], routes: Vec<Route>, window: Window) -> bool {
        self.take_members(placements, window)
            && self
                .link_channels
                .iter()
                .zip(routes)
                .all(|(channel, route)| self.partial.take_channel(*channel, window, route))
            && bring_data(self.partial, &self.members, window).is_ok()
    }

    /// The next start at which a frame of this length may fit: a resource has more free than refutes it,
    /// a site comes within reach of the data, or data that came too late are there.
    fn next_start(
        &self,
        frame: &Frame,
        free: &[(ResourceNumber, Amount)],
        later: Option<Time>,
    ) -> Option<Time> {
        let range = (frame.start, self.until);
        let (length, slot) = (frame.length(), self.partial.slot());
        let relief = free.iter().filter_map(|(number, free)| {
            let more = Amount(free.0.saturating_add(1));
            self.partial.scratch.earliest_start(*number, more, length, range, slot)
        });
        let reach = self.bundles.iter().flat_map(|bundle| &bundle.sites);
        let reach =
            reach.filter(|(choice, arrival)| choice.duration <= length && *arrival > frame.start);
        // Arrivals are ends of transfers, which are whole slots.
        let next = relief.chain(reach.map(|(_, arrival)| *arrival)).chain(later).min()?;
        (next > frame.start).then_some(next)
    }

    /// What the resources of a conflict have free in a window.
    fn free_of(&self, conflict: &Conflict, window: Window) -> Vec<(ResourceNumber, Amount)> {
        let scratch = &*self.partial.scratch;
        let numbers = numbers(scratch, conflict);
        numbers.map(|number| (number, scratch.free_min(number, window))).collect()
    }

    /// A nogood that refutes this frame too.
    fn nogood(&self, window: Window, candidates: usize) -> Option<Nogood> {
        let scratch = &*self.partial.scratch;
        let refutes = |nogood: &&Nogood| {
            nogood.length == window.length()
                && nogood.candidates == candidates
                && nogood
                    .free
                    .iter()
                    .all(|(number, free)| scratch.free_min(*number, window) <= *free)
        };
        self.nogoods.iter().find(refutes).cloned()
    }
}

/// The result of one search in a frame.
struct FrameSearch {
    members: Vec<SharedMember>,
    outcome: SharedOutcome,
    /// When the data of the first refused placement would be there.
    later: Option<Time>,
    /// Too many placements were refused; the outcome is of no use.
    given_up: bool,
}

/// What became of a frame.
enum FrameOutcome {
    Placed,
    /// The search stops, because the budget has ended.
    Stopped,
    /// A later frame of the same length may fit from `next` on, if at all.
    Refuted {
        next: Option<Time>,
        short: Option<Shortage>,
    },
}

/// What a frame was short of.
pub(super) enum Shortage {
    /// Of the amounts or rates that the proof has used.
    Amounts(Conflict),
    /// All members fit with their channels, but this item comes too late.
    Late(usize),
}

/// What became of a set.
pub(super) enum SetOutcome {
    Placed(Frame),
    /// The search stopped, because the budget has ended.
    Stopped,
    /// No frame before the deadline; the last one that a search has refuted, and why.
    Refused(Option<(Frame, Shortage)>),
}

/// The resources of a conflict, those at sites first.
pub(super) fn numbers<'c>(
    scratch: &'c ScratchTimetables,
    conflict: &'c Conflict,
) -> impl Iterator<Item = ResourceNumber> + 'c {
    let sites = conflict.sites.iter().filter_map(|(site, kind)| scratch.at_site(*site, *kind));
    let edges = conflict.edges.iter().map(|(edge, way)| scratch.of_edge(*edge, *way));
    sites.chain(edges)
}

/// Places a set where it ends first. False, and nothing changes, when no frame of it ends by the deadline.
///
/// # Errors
/// The refusal of a search that has used its budget.
pub(super) fn place_set(
    partial: &mut PartialSchedule<'_>,
    node: usize,
    forbidden: &BTreeSet<Placement>,
    budget: &Budget<'_>,
) -> Result<bool, Box<WorkflowRefusal>> {
    let mark = partial.mark();
    let deadline = partial.deadline();
    match SetFrames::new(partial, node, forbidden, deadline).place(budget) {
        SetOutcome::Placed(_) => Ok(true),
        SetOutcome::Stopped => {
            let activities = partial.instance.graph.nodes[node].members.clone();
            Err(partial.exhausted(&activities))
        }
        SetOutcome::Refused(_) => {
            partial.undo_to(mark);
            Ok(false)
        }
    }
}
