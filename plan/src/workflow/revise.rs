//! A booked workflow that is changed while it runs: because an activity ends early, takes longer or has
//! failed, or because sites are to be avoided.
//!
//! Source: issue "workflows", point 4; Decker 2007 reserves a workflow whole before it begins and leaves open
//! what happens then. What runs stays where it is. The nodes of the graph (single activities and whole
//! synchronous sets) are looked at in the order of the graph:
//!
//! * A node with an activity that has failed is placed anew. So is one that has not begun and runs at a site
//!   that is to be avoided.
//! * A node whose data can no longer be there in time is placed anew: a node before it was placed anew, or
//!   ends later than the journey of its data begins.
//! * A node whose activities have all ended, or say until when they run, gets the window that this leaves. A
//!   synchronous set has one window for all of its activities, so it ends with the last of them.
//! * Every other node stays as it is. Nothing moves forward in time by itself.
//!
//! [`Revision::new`] finds all this and changes nothing. A planner then places the rest
//! ([`Revision::plan`]); what it finds is booked in place of the old version, all or nothing. Left out: who
//! reports what (`common::workflow`), and data that are lost with the site at which they lie.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::planted::{self, Bug};
use coalloc_common::workflow::{DataSource, ReportedProgress, Workflow};
use coalloc_common::{Reason, Refusal, RmName, Segment, Time, VertexName, Window};

use super::answer::{
    PlacedActivity, Schedule, Transfer, WorkflowAnswer, WorkflowEffort, WorkflowRefusal,
    activity_segments, route_segments, sum_of_equal, transfer_segments,
};
use super::kept::KeptPart;
use super::scratch::{ScratchTimetables, slot_ceil};
use super::{WorkflowInstance, WorkflowPlanner};
use crate::Budget;

/// The version of a workflow that is booked.
#[derive(Debug, Clone, Copy)]
pub struct BookedWorkflow<'a> {
    /// Where and when everything happens.
    pub schedule: &'a Schedule,
    /// What was taken by placements that were given up, until they were.
    pub past: &'a BTreeMap<RmName, Vec<Segment>>,
    /// What was reported of each activity in its placement, in the order of the workflow.
    pub reported: &'a [ReportedProgress],
}

/// What a revision is to do besides following the reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionOrder {
    /// The present time.
    pub now: Time,
    /// Nothing that is placed anew begins before; not before `now`.
    pub cut: Time,
    /// Sites at which nothing may run that has not begun, and nothing that has failed.
    pub excluded: BTreeSet<VertexName>,
    /// For single activities, further sites at which they must not run again.
    pub excluded_of: BTreeMap<usize, BTreeSet<VertexName>>,
    /// Activities that are placed anew unless they have begun.
    pub again: BTreeSet<usize>,
}

/// Why a workflow cannot be revised as its reports say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// An activity runs although its data cannot be there yet.
    #[error("{begun} was reported to have begun, but it needs data of {late}, which has not ended")]
    BegunWithoutData {
        /// The name of the activity that has begun.
        begun: String,
        /// The name of the activity whose data it needs.
        late: String,
    },
    /// The window of an activity was over before it could be made longer.
    #[error(
        "the window of {activity} ends at {end}, before it could be made longer; report that it failed"
    )]
    Over {
        /// The name of the activity.
        activity: String,
        /// The end of its window.
        end: Time,
    },
}

/// What becomes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeFate {
    Stays,
    /// It ends at another instant.
    EndsAt(Time),
    /// It is placed anew.
    Moves,
}

/// What has to be placed anew, and what stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// The workflow from now on: with the sites that are avoided.
    pub workflow: Workflow,
    /// What stays, with the windows that it has from now on.
    pub kept: KeptPart,
    /// What was taken by placements that were given up, until they were.
    pub past: BTreeMap<RmName, Vec<Segment>>,
    /// The activities whose window ends at another instant than before.
    pub resized: BTreeSet<usize>,
    /// What is given back of the booked version from `cut` on.
    freed: BTreeMap<RmName, Vec<Segment>>,
    /// What activities take that run longer than booked.
    prolonged: BTreeMap<RmName, Vec<Segment>>,
}

impl Revision {
    /// Finds what has to be placed anew. `instance` has the workflow as it was planned, perhaps with a new
    /// deadline.
    ///
    /// # Errors
    /// [`RevisionError`] when the reports contradict each other or come too late.
    pub fn new(
        instance: &WorkflowInstance<'_>,
        booked: &BookedWorkflow<'_>,
        order: &RevisionOrder,
    ) -> Result<Self, RevisionError> {
        let mut reader = FateReader { instance, booked, order, forced: BTreeSet::new() };
        let fates = loop {
            let fates = reader.fates()?;
            let peers = reader.waiting_peers(&fates);
            if peers.is_subset(&reader.forced) {
                break fates;
            }
            reader.forced.extend(peers);
        };
        Ok(reader.revision(&fates))
    }

    /// Does nothing change?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resized.is_empty() && self.moved().next().is_none()
    }

    /// The activities that are placed anew.
    pub fn moved(&self) -> impl Iterator<Item = usize> + '_ {
        let all = self.kept.activities.iter().enumerate();
        all.filter_map(|(activity, placed)| placed.is_none().then_some(activity))
    }

    /// Frees in `scratch`, in which the booked version is taken, what the revision gives back, and takes what
    /// activities need longer.
    ///
    /// # Errors
    /// The refusal, when something that runs longer is not free; `scratch` is then of no use any more.
    fn prepare(&self, scratch: &mut ScratchTimetables) -> Result<(), Refusal> {
        for (rm, segments) in &self.freed {
            scratch.free(rm, segments);
        }
        for (rm, segments) in &self.prolonged {
            for segment in segments {
                let Err(shortfall) = scratch.book(rm, std::slice::from_ref(segment)) else {
                    continue;
                };
                let Segment { resource, amount, window } = segment;
                let detail = format!(
                    "{resource} is taken by others from {} on, so what runs there cannot be prolonged to {}",
                    shortfall.at,
                    window.end()
                );
                let refusal = Refusal::new(Reason::InsufficientCapacity, detail);
                return Err(Refusal {
                    rm: Some(rm.clone()),
                    resource: Some(resource.clone()),
                    window: Some(*window),
                    requested: Some(*amount),
                    available: Some(shortfall.available),
                    ..refusal
                });
            }
        }
        Ok(())
    }

    /// Places what has to be placed anew. `scratch` has what is free beside the booked version, until `known`,
    /// and is of no use afterwards.
    ///
    /// When the workflow cannot end by its deadline, it is planned once more without one, so that the refusal
    /// can say by how much it is missed.
    pub fn plan(
        &self,
        planner: &dyn WorkflowPlanner,
        instance: &WorkflowInstance<'_>,
        scratch: &mut ScratchTimetables,
        known: Time,
        budget: &Budget<'_>,
    ) -> WorkflowAnswer {
        let refused = |refusal| {
            let activities = self.resized.iter().copied().collect();
            let refusal = WorkflowRefusal { activities, refusal, earliest_finish: None };
            let effort = WorkflowEffort::default();
            WorkflowAnswer { outcome: Err(Box::new(refusal)), effort }
        };
        if let Err(refusal) = self.prepare(scratch) {
            return refused(refusal);
        }
        let deadline = self.workflow.deadline;
        let kept = Some(&self.kept);
        let answer = match self.kept_end().filter(|end| *end > deadline) {
            Some(end) => {
                let detail = format!("what stays ends at {end}, after the deadline, {deadline}");
                refused(Refusal::new(Reason::OutsideHorizon, detail))
            }
            None => {
                let instance = WorkflowInstance { workflow: &self.workflow, kept, ..*instance };
                planner.plan(&instance, scratch, budget)
            }
        };
        let effort = answer.effort;
        let Err(refusal) = answer.outcome else { return answer };
        let reason = refusal.refusal.reason;
        if matches!(reason, Reason::BudgetExhausted | Reason::BeyondCapacity) {
            return WorkflowAnswer { outcome: Err(refusal), effort };
        }
        let late = Workflow { deadline: known.max(deadline), ..self.workflow.clone() };
        let instance = WorkflowInstance { workflow: &late, kept, ..*instance };
        let late = planner.plan(&instance, scratch, budget);
        let effort = WorkflowEffort {
            placements: effort.placements + late.effort.placements,
            frames: effort.frames + late.effort.frames,
            unproven: effort.unproven + late.effort.unproven,
        };
        let end = match late.outcome {
            // Greedy planners may do better when they are not in a hurry.
            Ok(schedule) if schedule.end() <= Some(deadline) => {
                return WorkflowAnswer { outcome: Ok(schedule), effort };
            }
            late => late.ok().and_then(|schedule| schedule.end()),
        };
        WorkflowAnswer { outcome: Err(missed(*refusal, deadline, end)), effort }
    }

    fn kept_end(&self) -> Option<Time> {
        self.kept.activities.iter().flatten().map(|placed| placed.window.end()).max()
    }
}

/// The refusal of a revision that misses the deadline, with by how much.
fn missed(refused: WorkflowRefusal, deadline: Time, end: Option<Time>) -> Box<WorkflowRefusal> {
    let why = &refused.refusal.detail;
    let detail = match end {
        Some(end) => format!(
            "the deadline {deadline} would be missed by {}: the workflow could end at {end} ({why})",
            end.since(deadline)
        ),
        None => format!("the deadline {deadline} would be missed, by how much is not known: {why}"),
    };
    let refusal = Refusal { detail, ..refused.refusal };
    Box::new(WorkflowRefusal { refusal, earliest_finish: end, ..refused })
}

/// Finds out what becomes of each node.
struct FateReader<'a> {
    instance: &'a WorkflowInstance<'a>,
    booked: &'a BookedWorkflow<'a>,
    order: &'a RevisionOrder,
    /// Nodes that are placed anew although nothing is wrong with them: activities of the same site are.
    forced: BTreeSet<usize>,
}

impl FateReader<'_> {
    fn members(&self, node: usize) -> &[usize] {
        &self.instance.graph.nodes[node].members
    }

    /// The window of a node; all activities of a synchronous set have the same.
    fn window(&self, node: usize) -> Window {
        self.booked.schedule.activities[self.members(node)[0]].window
    }

    fn name(&self, activity: usize) -> String {
        self.instance.workflow.activities[activity].name.to_string()
    }

    fn has_begun(&self, node: usize) -> bool {
        self.window(node).start() <= self.order.now || self.reported_begun(node).is_some()
    }

    fn reported_begun(&self, node: usize) -> Option<usize> {
        let mut members = self.members(node).iter().copied();
        members.find(|member| self.booked.reported[*member].has_begun())
    }

    fn fates(&self) -> Result<Vec<NodeFate>, RevisionError> {
        let graph = self.instance.graph;
        let mut fates = vec![NodeFate::Stays; graph.nodes.len()];
        for node in &graph.order {
            fates[*node] = self.fate(*node, &fates)?;
        }
        Ok(fates)
    }

    fn fate(&self, node: usize, fates: &[NodeFate]) -> Result<NodeFate, RevisionError> {
        let members = self.members(node);
        let reported = |member: &usize| self.booked.reported[*member];
        if self.forced.contains(&node) || members.iter().any(|one| reported(one).failed.is_some()) {
            return Ok(NodeFate::Moves);
        }
        if let Some(late) = self.late_source(node, fates) {
            return match self.reported_begun(node) {
                Some(begun) => {
                    let (begun, late) = (self.name(begun), self.name(late));
                    Err(RevisionError::BegunWithoutData { begun, late })
                }
                None => Ok(NodeFate::Moves),
            };
        }
        let unwanted = |member: &usize| {
            let site = self.booked.schedule.activities[*member].site;
            let site = &self.instance.topology.vertex(site).name;
            self.order.excluded.contains(site) || self.order.again.contains(member)
        };
        if !self.has_begun(node) && members.iter().any(unwanted) {
            return Ok(NodeFate::Moves);
        }
        self.new_end(node)
    }

    /// The end of a node by what was reported.
    fn new_end(&self, node: usize) -> Result<NodeFate, RevisionError> {
        let (window, slot) = (self.window(node), self.instance.slot);
        let members = self.members(node);
        let ends = members.iter().map(|member| self.booked.reported[*member].end());
        if ends.clone().all(|end| end.is_none()) || window.end() <= self.order.now {
            let wanted = ends.flatten().max().filter(|end| slot_ceil(*end, slot) > window.end());
            let unfinished = |member: &&usize| self.booked.reported[**member].finished.is_none();
            return match (wanted, members.iter().find(unfinished)) {
                (Some(_), Some(late)) => {
                    let (activity, end) = (self.name(*late), window.end());
                    Err(RevisionError::Over { activity, end })
                }
                _ => Ok(NodeFate::Stays),
            };
        }
        // An activity of which nobody has said when it ends has the whole window.
        let last = ends.map(|end| end.unwrap_or(window.end())).max().unwrap_or(window.end());
        // What is given back begins at the cut; what runs longer goes on from its old end without a gap.
        let end = match slot_ceil(last, slot) {
            later if later > window.end() => later,
            _ => slot_ceil(last.max(self.order.cut), slot).min(window.end()),
        };
        Ok(if end == window.end() { NodeFate::Stays } else { NodeFate::EndsAt(end) })
    }

    /// The activity whose data can no longer be at a node in time.
    fn late_source(&self, node: usize, fates: &[NodeFate]) -> Option<usize> {
        let WorkflowInstance { workflow, graph, .. } = *self.instance;
        self.members(node).iter().find_map(|member| {
            let placed = self.booked.schedule.activities[*member];
            graph.inputs[*member].iter().find_map(|item| {
                let DataSource::Activity(producer) = workflow.data[*item].source else {
                    return None;
                };
                let late = match fates[graph.node_of[producer]] {
                    NodeFate::Stays => self
                        .ended_late(producer)
                        .is_some_and(|end| self.needed_at(*item, placed) < end),
                    NodeFate::Moves => true,
                    NodeFate::EndsAt(end) => self.needed_at(*item, placed) < end,
                };
                late.then_some(producer)
            })
        })
    }

    /// When an activity has ended, if its window was over by then.
    fn ended_late(&self, activity: usize) -> Option<Time> {
        let end = self.booked.reported[activity].finished?;
        (end > self.booked.schedule.activities[activity].window.end()).then_some(end)
    }

    /// When a data item has to be there for an activity: at the start of its journey, or of the activity.
    fn needed_at(&self, item: usize, placed: PlacedActivity) -> Time {
        let mut journeys = self.booked.schedule.transfers.iter();
        let journey = journeys.find(|one| (one.item, one.to) == (item, placed.site));
        match journey {
            Some(_) if planted::is(Bug::TransferTooEarly) => Time::MAX,
            Some(journey) => journey.window.start(),
            None => placed.window.start(),
        }
    }

    /// Nodes that have not begun and run at the same site as one that moves: together they may run elsewhere.
    /// Where one of them has begun, they all stay there.
    fn waiting_peers(&self, fates: &[NodeFate]) -> BTreeSet<usize> {
        let graph = self.instance.graph;
        let mut groups: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (group, node) in graph.site_group.iter().zip(&graph.node_of) {
            if let Some(group) = group {
                groups.entry(*group).or_default().insert(*node);
            }
        }
        let moves = |node: &usize| fates[*node] == NodeFate::Moves;
        let all_wait = |nodes: &BTreeSet<usize>| {
            nodes.iter().all(|node| moves(node) || !self.has_begun(*node))
        };
        let groups =
            groups.into_values().filter(|nodes| nodes.iter().any(moves) && all_wait(nodes));
        groups.flatten().filter(|node| !moves(node)).collect()
    }

    fn revision(&self, fates: &[NodeFate]) -> Revision {
        let WorkflowInstance { workflow, graph, .. } = *self.instance;
        let schedule = self.booked.schedule;
        let mut parts = RevisedParts::new(self, workflow);
        for (activity, placed) in schedule.activities.iter().enumerate() {
            parts.revise_activity(activity, *placed, fates[graph.node_of[activity]]);
        }
        for (index, channel) in workflow.channels.iter().enumerate() {
            let fate = fates[graph.node_of[channel.from]];
            parts.revise_channel(index, schedule.activities[channel.from].window, fate);
        }
        for transfer in &schedule.transfers {
            parts.revise_transfer(transfer, self.stays(transfer, fates));
        }
        let mut revised = workflow.clone();
        for (index, activity) in revised.activities.iter_mut().enumerate() {
            let node = graph.node_of[index];
            if fates[node] == NodeFate::Moves || !self.has_begun(node) {
                activity.excluded.extend(self.order.excluded.iter().cloned());
                let further = self.order.excluded_of.get(&index);
                activity.excluded.extend(further.into_iter().flatten().cloned());
            }
        }
        let past = self.booked.past.iter();
        let past = past.flat_map(|(rm, all)| all.iter().map(|one| (rm.clone(), one.clone())));
        Revision {
            workflow: revised,
            kept: parts.kept,
            past: sum_of_equal(past.chain(parts.past)),
            resized: parts.resized,
            freed: sum_of_equal(parts.freed),
            prolonged: sum_of_equal(parts.prolonged),
        }
    }

    /// Whether a journey stays as it is: it starts where and when its item is there, and somebody still needs
    /// it or it has begun.
    fn stays(&self, transfer: &Transfer, fates: &[NodeFate]) -> bool {
        let WorkflowInstance { workflow, graph, .. } = *self.instance;
        let item = &workflow.data[transfer.item];
        let is_there = match item.source {
            DataSource::Site(_) => true,
            DataSource::Activity(producer) => match fates[graph.node_of[producer]] {
                NodeFate::Stays => {
                    let moves = |one: &usize| fates[graph.node_of[*one]] == NodeFate::Moves;
                    let late = self.ended_late(producer);
                    // What nobody waits for any more is history.
                    late.is_none_or(|end| end <= transfer.window.start())
                        || !item.consumers.iter().any(moves)
                }
                NodeFate::Moves => false,
                NodeFate::EndsAt(end) => {
                    end <= transfer.window.start() || planted::is(Bug::TransferTooEarly)
                }
            },
        };
        let needs = |consumer: &usize| {
            let placed = self.booked.schedule.activities[*consumer];
            placed.site == transfer.to && fates[graph.node_of[*consumer]] != NodeFate::Moves
        };
        let begun = transfer.window.start() < self.order.cut;
        is_there && (begun || item.consumers.iter().any(needs))
    }
}

/// The parts of a booked version, sorted into what stays, what is given back and what was.
struct RevisedParts<'a> {
    reader: &'a FateReader<'a>,
    kept: KeptPart,
    resized: BTreeSet<usize>,
    past: Vec<(RmName, Segment)>,
    freed: Vec<(RmName, Segment)>,
    prolonged: Vec<(RmName, Segment)>,
}

impl<'a> RevisedParts<'a> {
    fn new(reader: &'a FateReader<'a>, workflow: &Workflow) -> Self {
        let kept = KeptPart { not_before: reader.order.cut, ..KeptPart::nothing(workflow) };
        let (past, freed, prolonged) = (Vec::new(), Vec::new(), Vec::new());
        Self { reader, kept, resized: BTreeSet::new(), past, freed, prolonged }
    }

    fn revise_activity(&mut self, activity: usize, placed: PlacedActivity, fate: NodeFate) {
        let WorkflowInstance { topology, workflow, .. } = *self.reader.instance;
        let fate = self.misread(activity, fate);
        let segments = |window: Window| {
            let placed = PlacedActivity { window, ..placed };
            activity_segments(topology, workflow, activity, placed)
        };
        self.kept.activities[activity] = match fate {
            NodeFate::Moves => {
                self.give_up(placed.window, segments);
                None
            }
            NodeFate::Stays => Some(placed),
            NodeFate::EndsAt(end) => {
                self.resized.insert(activity);
                self.resize(placed.window, end, segments);
                Window::new(placed.window.start(), end)
                    .map(|window| PlacedActivity { window, ..placed })
            }
        };
    }

    /// What mistakes in the rule for synchronous sets would do.
    fn misread(&self, activity: usize, fate: NodeFate) -> NodeFate {
        let NodeFate::EndsAt(end) = fate else {
            if planted::is(Bug::MemberFreedEarly)
                && fate == NodeFate::Stays
                && let Some(end) = self.reader.booked.reported[activity].finished
            {
                let end = slot_ceil(end.max(self.reader.order.cut), self.reader.instance.slot);
                let booked = self.reader.booked.schedule.activities[activity].window.end();
                return if end < booked { NodeFate::EndsAt(end) } else { fate };
            }
            return fate;
        };
        let silent = self.reader.booked.reported[activity].end().is_none();
        match silent && planted::is(Bug::WidenedForSome) {
            true => NodeFate::Stays,
            false => NodeFate::EndsAt(end),
        }
    }

    fn revise_channel(&mut self, channel: usize, window: Window, fate: NodeFate) {
        let WorkflowInstance { topology, workflow, .. } = *self.reader.instance;
        let route = &self.reader.booked.schedule.channels[channel];
        let rate = workflow.channels[channel].bandwidth;
        let segments = |window: Window| route_segments(topology, route, rate, window);
        match fate {
            NodeFate::Moves => return self.give_up(window, segments),
            NodeFate::Stays => {}
            NodeFate::EndsAt(end) => self.resize(window, end, segments),
        }
        self.kept.channels[channel].clone_from(route);
    }

    fn revise_transfer(&mut self, transfer: &Transfer, stays: bool) {
        if stays {
            return self.kept.transfers.push(transfer.clone());
        }
        let topology = self.reader.instance.topology;
        let segments =
            |window| transfer_segments(topology, &Transfer { window, ..transfer.clone() });
        self.give_up(transfer.window, segments);
    }

    /// Gives up what takes these segments over a window: what has been taken stays taken.
    fn give_up(&mut self, window: Window, segments: impl Fn(Window) -> Vec<(RmName, Segment)>) {
        let cut = self.reader.order.cut;
        let was = Window::new(window.start(), window.end().min(cut));
        let rest = Window::new(window.start().max(cut), window.end());
        self.past.extend(was.into_iter().flat_map(&segments));
        self.freed.extend(rest.into_iter().flat_map(&segments));
    }

    fn resize(
        &mut self,
        window: Window,
        end: Time,
        segments: impl Fn(Window) -> Vec<(RmName, Segment)>,
    ) {
        self.freed.extend(Window::new(end, window.end()).into_iter().flat_map(&segments));
        self.prolonged.extend(Window::new(window.end(), end).into_iter().flat_map(&segments));
    }
}
