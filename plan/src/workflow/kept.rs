//! The part of a schedule that stays as it is while a planner places the rest.
//!
//! Two things keep one: a workflow that is planned again because a resource manager refused some of its
//! segments ([`KeptPart::before`]), and a booked workflow that is revised while it runs
//! ([`revise`](super::revise)). Left out: what the kept part takes. It is not free in the timetables that
//! the planner gets.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::workflow::{Workflow, WorkflowGraph};
use coalloc_common::{ResourceId, RmName, Segment, Time, VertexIndex, Window};

use super::WorkflowInstance;
use super::answer::{
    PlacedActivity, Schedule, Transfer, activity_segments, route_segments, sum_of_equal,
    transfer_segments,
};
use super::rank::Ranks;
use crate::Route;

/// What is placed already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPart {
    /// Where and when each activity runs, in the order of the workflow. `None`: it is to be placed. A
    /// synchronous set is kept as a whole or not at all.
    pub activities: Vec<Option<PlacedActivity>>,
    /// The journeys that stay; each ends at a site where its item may be needed again.
    pub transfers: Vec<Transfer>,
    /// The route of each channel, in the order of the workflow; empty where the set is to be placed.
    pub channels: Vec<Route>,
    /// Nothing of the rest begins before.
    pub not_before: Time,
}

/// The resource and the window at which a resource manager refused a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedSegment<'a> {
    /// The resource manager.
    pub rm: &'a RmName,
    /// The resource. `None`: the refusal names none.
    pub resource: Option<&'a ResourceId>,
    /// The window. `None`: the refusal names none.
    pub window: Option<Window>,
}

impl RefusedSegment<'_> {
    /// Whether a segment takes something of what was refused.
    fn touches(&self, rm: &RmName, segment: &Segment) -> bool {
        self.rm == rm
            && self.resource.is_none_or(|resource| *resource == segment.resource)
            && self.window.is_none_or(|window| window.overlaps(segment.window))
    }
}

impl KeptPart {
    /// Nothing is kept: everything is to be placed.
    #[must_use]
    pub fn nothing(workflow: &Workflow) -> Self {
        Self {
            activities: vec![None; workflow.activities.len()],
            transfers: Vec::new(),
            channels: vec![Route::new(); workflow.channels.len()],
            not_before: workflow.ready,
        }
    }

    /// The nodes of a schedule that rank before the first one that takes something of what was refused.
    /// `None`: there are none, so everything is to be placed again.
    #[must_use]
    pub fn before(
        instance: &WorkflowInstance<'_>,
        schedule: &Schedule,
        refused: RefusedSegment<'_>,
    ) -> Option<Self> {
        let WorkflowInstance { topology, workflow, graph, .. } = *instance;
        let mut kept = Self::nothing(workflow);
        let mut known: BTreeSet<(usize, VertexIndex)> = BTreeSet::new();
        for node in Ranks::new(instance).order {
            let of = &graph.nodes[node];
            let placed = |member: &usize| (*member, schedule.activities[*member]);
            let placed: Vec<(usize, PlacedActivity)> = of.members.iter().map(placed).collect();
            let needed = placed.iter().flat_map(|(member, placed)| {
                graph.inputs[*member].iter().map(|item| (*item, placed.site))
            });
            let needed: BTreeSet<_> = needed.filter(|journey| !known.contains(journey)).collect();
            let travels = |one: &&Transfer| needed.contains(&(one.item, one.to));
            let journeys: Vec<Transfer> =
                schedule.transfers.iter().filter(travels).cloned().collect();
            let mut parts: Vec<(RmName, Segment)> = Vec::new();
            for (member, placed) in &placed {
                parts.extend(activity_segments(topology, workflow, *member, *placed));
            }
            for journey in &journeys {
                parts.extend(transfer_segments(topology, journey));
            }
            for channel in &of.channels {
                let (route, of) = (&schedule.channels[*channel], workflow.channels[*channel]);
                let window = schedule.activities[of.from].window;
                parts.extend(route_segments(topology, route, of.bandwidth, window));
            }
            if parts.iter().any(|(rm, segment)| refused.touches(rm, segment)) {
                break;
            }
            for (member, placed) in placed {
                kept.activities[member] = Some(placed);
            }
            for channel in &of.channels {
                kept.channels[*channel].clone_from(&schedule.channels[*channel]);
            }
            kept.transfers.extend(journeys);
            known.extend(needed);
        }
        kept.activities.iter().any(Option::is_some).then_some(kept)
    }

    /// What has to be held for the kept part at each resource manager.
    #[must_use]
    pub fn segments(&self, instance: &WorkflowInstance<'_>) -> BTreeMap<RmName, Vec<Segment>> {
        let WorkflowInstance { topology, workflow, .. } = *instance;
        let mut parts = Vec::new();
        for (activity, placed) in self.activities.iter().enumerate() {
            let Some(placed) = placed else { continue };
            parts.extend(activity_segments(topology, workflow, activity, *placed));
        }
        for transfer in &self.transfers {
            parts.extend(transfer_segments(topology, transfer));
        }
        for (channel, route) in workflow.channels.iter().zip(&self.channels) {
            let Some(placed) = self.activities[channel.from] else { continue };
            parts.extend(route_segments(topology, route, channel.bandwidth, placed.window));
        }
        sum_of_equal(parts)
    }

    /// The site of each group of activities that share one, where an activity is kept.
    pub(super) fn group_sites(&self, graph: &WorkflowGraph) -> BTreeMap<usize, VertexIndex> {
        let of = |(group, placed): (&Option<usize>, &Option<PlacedActivity>)| {
            Some(((*group)?, (*placed)?.site))
        };
        graph.site_group.iter().zip(&self.activities).filter_map(of).collect()
    }

    /// When an item arrives at a site to which it travels.
    pub(super) fn arrivals(&self) -> BTreeMap<(usize, VertexIndex), Time> {
        let of = |transfer: &Transfer| ((transfer.item, transfer.to), transfer.window.end());
        self.transfers.iter().map(of).collect()
    }
}
