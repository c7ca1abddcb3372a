//! The greedy planner: HEFT with synchronous sets.
//!
//! Source: Decker 2007, section IV-B. A set is placed as printed (section IV-B.3): the first slot is the
//! latest end of a predecessor plus the longest transfer on the narrowest link; the members are placed
//! by falling load, where the first one sets the window and each later one takes the fastest site that
//! is free in it. If all free sites are too slow for a member, the window is made as long as the fastest
//! of them needs, and all members are placed again. Channels come last. Any failure rejects the
//! workflow. The text is silent about data: they must arrive by the start of the window.
//!
//! [`HeftSync::along`] goes on at the next instant at which something that failed may have changed, as
//! the paper's outlook proposes (section VI). Left out: other sites for members, and for earlier nodes.

use coalloc_common::workflow::DataSource;
use coalloc_common::{Reason, Refusal, ResourceKind, Span, Time, VertexIndex, Window};

use super::answer::{WorkflowAnswer, WorkflowEffort, WorkflowRefusal};
use super::partial::{PartialSchedule, SiteChoice};
use super::rank::{Ranks, least_length, mean_duration_ns};
use super::scratch::{ScratchTimetables, slot_ceil};
use super::{WorkflowInstance, WorkflowPlanner};
use crate::Budget;

/// The greedy planner of workflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeftSync {
    along: bool,
}

impl HeftSync {
    /// As printed: a set has one window to fit in.
    #[must_use]
    pub const fn printed() -> Self {
        Self { along: false }
    }

    /// Goes on along time when a set does not fit.
    #[must_use]
    pub const fn along() -> Self {
        Self { along: true }
    }
}

impl WorkflowPlanner for HeftSync {
    fn name(&self) -> &'static str {
        if self.along { "heft-sync-along" } else { "heft-sync" }
    }

    fn plan(
        &self,
        instance: &WorkflowInstance<'_>,
        scratch: &mut ScratchTimetables,
        budget: &Budget<'_>,
    ) -> WorkflowAnswer {
        plan_nodes(instance, scratch, |partial, node| {
            let members = &partial.instance.graph.nodes[node].members;
            match members[..] {
                [activity] => partial.place_single(activity, budget),
                _ => SetInPlacing::new(partial, node).place(partial, self.along, budget),
            }
        })
    }
}

/// Places all nodes by falling rank with `place`, and takes everything back.
pub(super) fn plan_nodes<'a>(
    instance: &WorkflowInstance<'a>,
    scratch: &mut ScratchTimetables,
    mut place: impl FnMut(&mut PartialSchedule<'_>, usize) -> Result<(), Box<WorkflowRefusal>>,
) -> WorkflowAnswer {
    let refused =
        |refusal| WorkflowAnswer { outcome: Err(refusal), effort: WorkflowEffort::default() };
    if let Some(refusal) = hopeless(instance) {
        return refused(refusal);
    }
    let mut partial = match PartialSchedule::new(instance, scratch) {
        Ok(partial) => partial,
        Err(refusal) => return refused(refusal),
    };
    let order = order_of_open(instance);
    let failed = order.into_iter().find_map(|node| place(&mut partial, node).err());
    let (schedule, effort) = partial.finish();
    WorkflowAnswer { outcome: failed.map_or(Ok(schedule), Err), effort }
}

/// The nodes that are to be placed, by falling rank.
pub(super) fn order_of_open(instance: &WorkflowInstance<'_>) -> Vec<usize> {
    let mut order = Ranks::new(instance).order;
    order.retain(|node| PartialSchedule::is_open(instance, *node));
    order
}

/// Why an instance can have no schedule, whatever is free: an activity fits nowhere, an item lies at no
/// site, or the deadline is before the end of the critical path on an empty federation.
pub(super) fn hopeless(instance: &WorkflowInstance<'_>) -> Option<Box<WorkflowRefusal>> {
    let WorkflowInstance { topology, workflow, .. } = instance;
    let refuse = |activities, refusal, earliest_finish| {
        Some(Box::new(WorkflowRefusal { activities, refusal, earliest_finish }))
    };
    for item in &workflow.data {
        if let DataSource::Site(name) = &item.source
            && topology.find_vertex(name).is_none()
        {
            let detail =
                format!("{} lies at {name}, which is no site of the federation", item.name);
            let refusal = Refusal::new(Reason::UnknownResource, detail);
            return refuse(item.consumers.clone(), refusal, None);
        }
    }
    // What is kept may be longer or shorter than what it was planned for, and has its end already.
    if instance.kept.is_some() {
        return None;
    }
    // An activity that fits nowhere is refused by the partial schedule, which knows groups too.
    let least = least_length(instance).ok()?;
    let end = slot_ceil(workflow.ready, instance.slot).saturating_add(least);
    if end <= workflow.deadline {
        return None;
    }
    let detail = format!(
        "the critical path takes {least} even if nothing else runs: it ends at {end}, after the deadline, {}",
        workflow.deadline
    );
    refuse(Vec::new(), Refusal::new(Reason::OutsideHorizon, detail), Some(end))
}

/// The members of a set by falling load; equal ones in the order of the workflow.
pub(super) fn by_falling_load(instance: &WorkflowInstance<'_>, members: &[usize]) -> Vec<usize> {
    let load = |member: &usize| mean_duration_ns(instance, &instance.workflow.activities[*member]);
    let mut members = members.to_vec();
    members.sort_by_key(|member| (std::cmp::Reverse(load(member)), *member));
    members
}

/// What a set failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetFailure {
    /// No site is free for this member in the window.
    Member(usize),
    /// No route is free for this channel in the window.
    Channel(usize),
    /// This item cannot arrive by the start of the window, but then, if ever before the deadline.
    Item(usize, Option<Time>),
}

/// One attempt at a set.
enum Attempt {
    Placed,
    /// The window has to be at least this long.
    TooShort(Span),
    Failed {
        at: Time,
        length: Span,
        failure: SetFailure,
    },
    /// The first member fits nowhere before the deadline.
    NoWindow,
}

/// A set that is being placed.
struct SetInPlacing {
    node: usize,
    /// By falling load.
    members: Vec<usize>,
}

impl SetInPlacing {
    fn new(partial: &PartialSchedule<'_>, node: usize) -> Self {
        let members = &partial.instance.graph.nodes[node].members;
        Self { node, members: by_falling_load(&partial.instance, members) }
    }

    fn place(
        &self,
        partial: &mut PartialSchedule<'_>,
        along: bool,
        budget: &Budget<'_>,
    ) -> Result<(), Box<WorkflowRefusal>> {
        let ends = self.members.iter().map(|member| partial.predecessors_end(*member));
        let end = ends.max().unwrap_or_else(|| partial.ready());
        let mut from = end.saturating_add(partial.worst_transfer(&self.members));
        let mut least = Span::ZERO;
        loop {
            if partial.effort.placements >= budget.nodes || budget.stopped() {
                return Err(partial.exhausted(&self.members));
            }
            partial.effort.frames += 1;
            let mark = partial.mark();
            match self.attempt(partial, from, least) {
                Attempt::Placed => return Ok(()),
                Attempt::TooShort(length) => least = length,
                Attempt::Failed { at, length, failure } => {
                    partial.undo_to(mark);
                    let next = match along {
                        true => next_start(partial, &self.members, (at, length), failure),
                        false => None,
                    };
                    match next {
                        Some(next) => {
                            from = next;
                            least = Span::ZERO;
                            continue;
                        }
                        None => return Err(refuse(partial, &self.members, at, length, failure)),
                    }
                }
                Attempt::NoWindow => {
                    partial.undo_to(mark);
                    let deadline = partial.deadline();
                    let names = partial.names(&self.members).join(", ");
                    let detail = format!("{names} cannot end together by the deadline, {deadline}");
                    let refusal = Refusal::new(Reason::InsufficientCapacity, detail);
                    let activities = self.members.clone();
                    let earliest_finish = None;
                    return Err(Box::new(WorkflowRefusal { activities, refusal, earliest_finish }));
                }
            }
            partial.undo_to(mark);
        }
    }

    /// Tries a window that begins at `from` or later and is at least this long.
    fn attempt(&self, partial: &mut PartialSchedule<'_>, from: Time, least: Span) -> Attempt {
        let Some((first, others)) = self.members.split_first() else { return Attempt::Placed };
        let Some((site, window)) = earliest_end(partial, *first, from, least) else {
            return Attempt::NoWindow;
        };
        let failed =
            |failure| Attempt::Failed { at: window.start(), length: window.length(), failure };
        if !partial.take(*first, site, window) {
            return failed(SetFailure::Member(*first));
        }
        for member in others {
            match fastest_free(partial, *member, window) {
                Some(choice) if choice.duration > window.length() => {
                    return Attempt::TooShort(choice.duration);
                }
                Some(choice) if partial.take(*member, choice.site, window) => {}
                _ => return failed(SetFailure::Member(*member)),
            }
        }
        match bring_data_and_channels(partial, self.node, &self.members, window) {
            Ok(()) => Attempt::Placed,
            Err(failure) => failed(failure),
        }
    }
}

/// The site at which the first member ends first, in a window that is at least this long.
fn earliest_end(
    partial: &mut PartialSchedule<'_>,
    member: usize,
    from: Time,
    least: Span,
) -> Option<(VertexIndex, Window)> {
    let choices: Vec<SiteChoice> = partial.choices(member).collect();
    let mut best: Option<(VertexIndex, Window)> = None;
    for SiteChoice { site, duration } in choices {
        partial.effort.placements += 1;
        let length = duration.max(least);
        let range = (from, partial.deadline());
        let Some(start) = partial.earliest_fit(member, site, length, range) else { continue };
        let Some(window) = Window::starting(start, length) else { continue };
        let key = |window: Window| (window.end(), window.start());
        if best.is_none_or(|(_, other)| key(window) < key(other)) {
            best = Some((site, window));
        }
    }
    best
}

/// The fastest site that is free for a member in the window, whether it is fast enough or not.
fn fastest_free(
    partial: &mut PartialSchedule<'_>,
    member: usize,
    window: Window,
) -> Option<SiteChoice> {
    let choices: Vec<SiteChoice> = partial.choices(member).collect();
    partial.effort.placements += choices.len() as u64;
    let range = (window.start(), window.end());
    let free = choices.into_iter().filter(|choice| {
        partial.earliest_fit(member, choice.site, window.length(), range).is_some()
    });
    free.min_by_key(|choice| choice.duration)
}

/// Brings the data of placed members to their sites by the start of the window, and takes routes for
/// the channels of their set.
pub(super) fn bring_data_and_channels(
    partial: &mut PartialSchedule<'_>,
    node: usize,
    members: &[usize],
    window: Window,
) -> Result<(), SetFailure> {
    bring_data(partial, members, window)?;
    let graph = partial.instance.graph;
    for channel in &graph.nodes[node].channels {
        let route = partial.channel_route(*channel, window);
        if !route.is_some_and(|route| partial.take_channel(*channel, window, route)) {
            return Err(SetFailure::Channel(*channel));
        }
    }
    Ok(())
}

/// Brings the data of placed members to their sites by the start of the window: by their sources' ends,
/// then in the order of the workflow.
pub(super) fn bring_data(
    partial: &mut PartialSchedule<'_>,
    members: &[usize],
    window: Window,
) -> Result<(), SetFailure> {
    let graph = partial.instance.graph;
    let mut inputs: Vec<(Option<Time>, usize, VertexIndex)> = Vec::new();
    for member in members {
        let Some(site) = partial.site_of(*member) else { continue };
        for item in &graph.inputs[*member] {
            inputs.push((partial.source(*item).map(|(_, end)| end), *item, site));
        }
    }
    inputs.sort_unstable();
    for (_, item, site) in inputs {
        if partial.deliver(item, site, window.start()).is_none() {
            let arrival = partial.deliver(item, site, partial.deadline());
            return Err(SetFailure::Item(item, arrival));
        }
    }
    Ok(())
}

/// The next start at which an attempt may end otherwise: one slot later at the least, and at the first
/// instant at which something becomes free that members or channels could use, or data have had the
/// time to arrive.
fn next_start(
    partial: &PartialSchedule<'_>,
    members: &[usize],
    (at, length): (Time, Span),
    failure: SetFailure,
) -> Option<Time> {
    let scratch = &*partial.scratch;
    let mut next: Option<Time> = None;
    let mut offer = |instant: Option<Time>| {
        if let Some(instant) = instant {
            next = Some(next.map_or(instant, |other| other.min(instant)));
        }
    };
    for member in members {
        for choice in partial.choices(*member) {
            let kinds = partial.demand(*member).amounts();
            for number in
                kinds.filter_map(|(kind, _): (ResourceKind, _)| scratch.at_site(choice.site, kind))
            {
                offer(scratch.table(number).next_relief(at));
            }
        }
    }
    if let SetFailure::Item(_, arrival) = failure {
        offer(arrival);
    }
    let topology = partial.instance.topology;
    for (index, _) in (0..).map(coalloc_common::EdgeIndex).zip(topology.edges()) {
        use coalloc_common::topology::Direction::{AToB, BToA};
        for direction in [AToB, BToA] {
            offer(scratch.table(scratch.of_edge(index, direction)).next_relief(at));
        }
    }
    let slot = partial.slot();
    let next = slot_ceil(next?, slot).max(at.saturating_add(slot));
    (next.saturating_add(length) <= partial.deadline()).then_some(next)
}

/// The refusal of a set.
pub(super) fn refuse(
    partial: &PartialSchedule<'_>,
    members: &[usize],
    at: Time,
    length: Span,
    failure: SetFailure,
) -> Box<WorkflowRefusal> {
    let workflow = partial.instance.workflow;
    let names = partial.names(members).join(", ");
    let window = Window::starting(at, length);
    let until = at.saturating_add(length);
    let (reason, what) = match failure {
        SetFailure::Member(member) => {
            let name = &workflow.activities[member].name;
            (Reason::InsufficientCapacity, format!("no site is free for {name}"))
        }
        SetFailure::Channel(channel) => {
            let of = workflow.channels[channel];
            let name = |at: usize| &workflow.activities[at].name;
            let (from, to, rate) = (name(of.from), name(of.to), of.bandwidth.0);
            let what =
                format!("no route of {rate} bit/s is free for the channel from {from} to {to}");
            (Reason::NoRoute, what)
        }
        SetFailure::Item(item, _) => {
            let name = &workflow.data[item].name;
            (Reason::NoRoute, format!("the data {name} cannot arrive by its start"))
        }
    };
    let detail = format!("{names} do not fit together from {at} to {until}: {what}");
    let refusal = Refusal { window, ..Refusal::new(reason, detail) };
    Box::new(WorkflowRefusal { activities: members.to_vec(), refusal, earliest_finish: None })
}
