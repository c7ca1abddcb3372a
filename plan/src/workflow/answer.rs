//! What a planner of workflows returns: a schedule, or why there is none.
//!
//! Left out: the wire format, see `net::convert`.

use std::collections::BTreeMap;

use coalloc_common::topology::Direction;
use coalloc_common::workflow::Workflow;
use coalloc_common::{
    Amount, BitsPerSecond, Refusal, RmName, Segment, Span, Time, Topology, VertexIndex, Window,
};

use crate::Route;

/// Where and when one activity runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedActivity {
    /// The site.
    pub site: VertexIndex,
    /// The window during which its resources are taken; that of its whole set if it is in one.
    pub window: Window,
}

/// One journey of a data item to a site at which it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Index of the item in the workflow.
    pub item: usize,
    /// Where it comes from.
    pub from: VertexIndex,
    /// Where it is needed; another site.
    pub to: VertexIndex,
    /// The edges of the route, all of which are taken over the whole window.
    pub route: Route,
    /// The rate that is taken on each edge.
    pub rate: BitsPerSecond,
    /// When it travels.
    pub window: Window,
}

/// A complete plan of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Where and when each activity runs, in the order of the workflow.
    pub activities: Vec<PlacedActivity>,
    /// The journeys of data items, in the order in which they were planned.
    pub transfers: Vec<Transfer>,
    /// The route of each channel, in the order of the workflow; empty within a site.
    pub channels: Vec<Route>,
}

impl Schedule {
    /// When the first activity or transfer begins. `None`: there is none.
    #[must_use]
    pub fn start(&self) -> Option<Time> {
        let runs = self.activities.iter().map(|placed| placed.window.start());
        runs.chain(self.transfers.iter().map(|transfer| transfer.window.start())).min()
    }

    /// When the last activity ends. `None`: there is none.
    #[must_use]
    pub fn end(&self) -> Option<Time> {
        self.activities.iter().map(|placed| placed.window.end()).max()
    }

    /// The makespan from an instant on, for instance from the time when the workflow was ready.
    #[must_use]
    pub fn makespan_from(&self, start: Time) -> Span {
        self.end().map_or(Span::ZERO, |end| end.since(start))
    }

    /// What has to be held at each resource manager: every activity, every edge of every transfer, and
    /// every edge of every channel over the window of its set. Segments of one resource and one window
    /// are added up.
    #[must_use]
    pub fn segments(
        &self,
        topology: &Topology,
        workflow: &Workflow,
    ) -> BTreeMap<RmName, Vec<Segment>> {
        let activities = self.activities.iter().enumerate();
        let activities = activities
            .flat_map(|(index, placed)| activity_segments(topology, workflow, index, *placed));
        let transfers = self.transfers.iter();
        let transfers = transfers.flat_map(|transfer| transfer_segments(topology, transfer));
        let channels = workflow.channels.iter().zip(&self.channels);
        let channels = channels.filter_map(|(channel, route)| {
            let placed = self.activities.get(channel.from)?;
            Some(route_segments(topology, route, channel.bandwidth, placed.window))
        });
        sum_of_equal(activities.chain(transfers).chain(channels.flatten()))
    }
}

/// What an activity takes where it is placed.
pub(super) fn activity_segments(
    topology: &Topology,
    workflow: &Workflow,
    activity: usize,
    PlacedActivity { site, window }: PlacedActivity,
) -> Vec<(RmName, Segment)> {
    let demand = workflow.activities[activity].demand();
    let resources = topology.vertex(site).resources();
    let taken = resources.filter_map(|of| {
        let amount = demand.amount(of.kind);
        let segment = Segment { resource: of.resource.clone(), amount, window };
        (amount.0 > 0).then(|| (of.rm.clone(), segment))
    });
    taken.collect()
}

/// What a transfer takes.
pub(super) fn transfer_segments(
    topology: &Topology,
    transfer: &Transfer,
) -> Vec<(RmName, Segment)> {
    route_segments(topology, &transfer.route, transfer.rate, transfer.window)
}

/// What a rate takes on every edge of a route.
pub(super) fn route_segments(
    topology: &Topology,
    route: &Route,
    rate: BitsPerSecond,
    window: Window,
) -> Vec<(RmName, Segment)> {
    let of = |(edge, direction): &(coalloc_common::EdgeIndex, Direction)| {
        let edge = topology.edge(*edge);
        let resource = edge.resource(*direction).clone();
        (edge.rm.clone(), Segment { resource, amount: rate.into(), window })
    };
    route.iter().map(of).collect()
}

/// Adds up segments of one resource and one window.
pub(super) fn sum_of_equal(
    all: impl IntoIterator<Item = (RmName, Segment)>,
) -> BTreeMap<RmName, Vec<Segment>> {
    let mut amounts: BTreeMap<(RmName, Segment), u64> = BTreeMap::new();
    for (rm, segment) in all {
        let key = Segment { amount: Amount(0), ..segment };
        *amounts.entry((rm, key)).or_default() += segment.amount.0;
    }
    let mut segments: BTreeMap<RmName, Vec<Segment>> = BTreeMap::new();
    for ((rm, key), amount) in amounts {
        segments.entry(rm).or_default().push(Segment { amount: Amount(amount), ..key });
    }
    segments
}

/// How much work an answer took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkflowEffort {
    /// Placements of activities and of whole sets that were tried.
    pub placements: u64,
    /// Windows of synchronous sets that were tried.
    pub frames: u64,
    /// Windows that `heft-sync-bt` left unproven: the sets fit there, but the data came too late at as many
    /// placements as it tries.
    pub unproven: u64,
}

/// Why a workflow was not planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRefusal {
    /// The activities of the node at which planning failed.
    pub activities: Vec<usize>,
    /// What binds there.
    pub refusal: Refusal,
    /// When the node at which planning failed could end, if its deadline were later. `None`: never, or
    /// it is not known.
    pub earliest_finish: Option<Time>,
}

/// A schedule, or why there is none, and the effort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowAnswer {
    /// The schedule or the refusal.
    pub outcome: Result<Schedule, Box<WorkflowRefusal>>,
    /// The work that it took.
    pub effort: WorkflowEffort,
}
