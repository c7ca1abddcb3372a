//! Plans and refusals of workflows, to the wire, and plans back.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::topology::Direction;
use coalloc_common::{
    BitsPerSecond, EdgeName, RmName, Segment, Topology, VertexIndex, VertexName, Window,
};
use coalloc_plan::Route;
use coalloc_plan::workflow::critical::{CriticalStep, critical_path};
use coalloc_plan::workflow::{
    PlacedActivity, Schedule, Transfer, WorkflowAnswer, WorkflowEffort, WorkflowRefusal,
};
use coalloc_proto::v1;

use super::ParsedWorkflow;
use crate::convert::{
    amounts_to_wire, plan_digest, refusal_to_wire, segments_to_wire, span_to_wire, time_to_wire,
    window_from_wire, window_to_wire,
};

/// The wire form of a planner's answer.
#[must_use]
pub fn workflow_answer_to_wire(
    topology: &Topology,
    parsed: &ParsedWorkflow,
    planner: &str,
    answer: &WorkflowAnswer,
) -> v1::PlanWorkflowResponse {
    let effort = Some(workflow_effort_to_wire(answer.effort));
    match &answer.outcome {
        Ok(schedule) => {
            let plan = Some(workflow_plan_to_wire(topology, parsed, planner, schedule));
            v1::PlanWorkflowResponse { plan, refusal: None, effort }
        }
        Err(refused) => {
            let refusal = Some(workflow_refusal_to_wire(parsed, refused));
            v1::PlanWorkflowResponse { plan: None, refusal, effort }
        }
    }
}

/// The wire form of a planner's effort.
#[must_use]
pub const fn workflow_effort_to_wire(effort: WorkflowEffort) -> v1::WorkflowEffort {
    v1::WorkflowEffort { placements: effort.placements, frames: effort.frames }
}

/// The wire form of a refusal.
#[must_use]
pub fn workflow_refusal_to_wire(
    parsed: &ParsedWorkflow,
    refused: &WorkflowRefusal,
) -> v1::WorkflowRefusal {
    let activities = &parsed.workflow.activities;
    let name = |index: &usize| activities.get(*index).map(|one| one.name.to_string());
    v1::WorkflowRefusal {
        activities: refused.activities.iter().filter_map(name).collect(),
        refusal: Some(refusal_to_wire(&refused.refusal)),
        earliest_finish: refused.earliest_finish.map(time_to_wire),
    }
}

/// The wire form of a schedule, with names in place of indices.
#[must_use]
pub fn workflow_plan_to_wire(
    topology: &Topology,
    parsed: &ParsedWorkflow,
    planner: &str,
    schedule: &Schedule,
) -> v1::WorkflowPlan {
    let segments = schedule.segments(topology, &parsed.workflow);
    workflow_version_to_wire(topology, parsed, planner, schedule, &segments)
}

/// The wire form of a schedule for which these segments are to be held: those of the schedule, and with a revised
/// version what placements had taken that were given up.
#[must_use]
pub fn workflow_version_to_wire(
    topology: &Topology,
    parsed: &ParsedWorkflow,
    planner: &str,
    schedule: &Schedule,
    segments: &BTreeMap<RmName, Vec<Segment>>,
) -> v1::WorkflowPlan {
    let ParsedWorkflow { workflow, .. } = parsed;
    let names = PlanNames { topology, parsed, schedule };
    let window = schedule.start().zip(schedule.end());
    let window = window.and_then(|(start, end)| Window::new(start, end));
    v1::WorkflowPlan {
        digest: plan_digest(segments),
        planner: planner.to_owned(),
        window: window.map(window_to_wire),
        makespan: Some(span_to_wire(schedule.makespan_from(workflow.ready))),
        summary: Some(names.summary(segments)),
        activities: (0..schedule.activities.len()).map(|index| names.activity(index)).collect(),
        transfers: schedule.transfers.iter().map(|transfer| names.transfer(transfer)).collect(),
        channels: (0..schedule.channels.len()).map(|index| names.channel(index)).collect(),
        merged: names.merged(),
        critical_path: names.critical_path(),
        segments: segments
            .iter()
            .flat_map(|(rm, segments)| segments_to_wire(Some(rm), segments))
            .collect(),
    }
}

/// A schedule and the names of everything in it.
struct PlanNames<'a> {
    topology: &'a Topology,
    parsed: &'a ParsedWorkflow,
    schedule: &'a Schedule,
}

impl PlanNames<'_> {
    fn site(&self, vertex: VertexIndex) -> String {
        self.topology.vertex(vertex).name.to_string()
    }

    fn paths(&self, route: &Route) -> Vec<String> {
        route.iter().map(|(edge, _)| self.topology.edge(*edge).name.to_string()).collect()
    }

    fn summary(&self, segments: &BTreeMap<RmName, Vec<Segment>>) -> v1::WorkflowSummary {
        let Schedule { activities, transfers, channels } = self.schedule;
        let sites: BTreeSet<String> = activities.iter().map(|one| self.site(one.site)).collect();
        let between = channels.iter().filter(|route| !route.is_empty()).count();
        let count = |(rm, segments): (&RmName, &Vec<Segment>)| v1::SegmentCount {
            resource_manager: rm.to_string(),
            segments: number(segments.len()),
        };
        v1::WorkflowSummary {
            activities: number(activities.len()),
            transfers: number(transfers.len()),
            channels: number(between),
            segments: segments.iter().map(count).collect(),
            sites: sites.into_iter().collect(),
        }
    }

    fn activity(&self, index: usize) -> v1::PlannedActivity {
        let ParsedWorkflow { workflow, graph } = self.parsed;
        let (of, placed) = (&workflow.activities[index], self.schedule.activities[index]);
        v1::PlannedActivity {
            name: of.name.to_string(),
            site: self.site(placed.site),
            cpus: of.cpus.0,
            others: amounts_to_wire(&of.others),
            window: Some(window_to_wire(placed.window)),
            in_sync_set: graph.nodes[graph.node_of[index]].is_set(),
            // A plan does not say how far its activities are.
            ..v1::PlannedActivity::default()
        }
    }

    fn transfer(&self, transfer: &Transfer) -> v1::PlannedTransfer {
        v1::PlannedTransfer {
            data: self.parsed.workflow.data[transfer.item].name.to_string(),
            from: self.site(transfer.from),
            to: self.site(transfer.to),
            paths: self.paths(&transfer.route),
            rate_bps: transfer.rate.0,
            window: Some(window_to_wire(transfer.window)),
        }
    }

    fn channel(&self, index: usize) -> v1::PlannedChannel {
        let workflow = &self.parsed.workflow;
        let of = workflow.channels[index];
        let name = |activity: usize| workflow.activities[activity].name.to_string();
        v1::PlannedChannel {
            from: name(of.from),
            to: name(of.to),
            bandwidth_bps: of.bandwidth.0,
            paths: self.paths(&self.schedule.channels[index]),
            window: Some(window_to_wire(self.schedule.activities[of.from].window)),
        }
    }

    fn merged(&self) -> Vec<v1::MergedSets> {
        merged_sets(self.parsed)
    }

    fn critical_path(&self) -> Vec<v1::CriticalStep> {
        let ParsedWorkflow { workflow, graph } = self.parsed;
        let step = |step: CriticalStep| match step {
            CriticalStep::Activity(index) => {
                let placed = self.schedule.activities[index];
                v1::CriticalStep {
                    activity: workflow.activities[index].name.to_string(),
                    data: String::new(),
                    site: self.site(placed.site),
                    window: Some(window_to_wire(placed.window)),
                }
            }
            CriticalStep::Transfer(index) => {
                let transfer = &self.schedule.transfers[index];
                v1::CriticalStep {
                    activity: String::new(),
                    data: workflow.data[transfer.item].name.to_string(),
                    site: self.site(transfer.to),
                    window: Some(window_to_wire(transfer.window)),
                }
            }
        };
        critical_path(workflow, graph, self.schedule).into_iter().map(step).collect()
    }
}

/// The synchronous sets that overlap and therefore are one set.
#[must_use]
pub fn merged_sets(parsed: &ParsedWorkflow) -> Vec<v1::MergedSets> {
    let ParsedWorkflow { workflow, graph } = parsed;
    let of = |sets: &Vec<usize>| {
        let first = sets.first().and_then(|set| workflow.sync_sets.get(*set)?.first());
        let members = first.map(|member| &graph.nodes[graph.node_of[*member]].members);
        let names = members.into_iter().flatten().map(|one| &workflow.activities[*one].name);
        v1::MergedSets {
            sync_sets: sets.iter().map(|set| number(*set)).collect(),
            activities: names.map(ToString::to_string).collect(),
        }
    };
    graph.merged.iter().map(of).collect()
}

/// A count, which limits keep far below 2^32.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Reads a plan that a coordinator made for this workflow, with indices in place of names. `None` when a name is not
/// known, an activity is missing, or a window is not one. Whether the plan does what the workflow asks for is not
/// checked, see `coalloc_plan::workflow::check`.
#[must_use]
pub fn schedule_from_wire(
    topology: &Topology,
    parsed: &ParsedWorkflow,
    wire: &v1::WorkflowPlan,
) -> Option<Schedule> {
    let workflow = &parsed.workflow;
    let vertex = |name: &str| topology.find_vertex(&VertexName::parse("site", name).ok()?);
    let window = |wire: &Option<v1::Window>| window_from_wire("window", wire.as_ref()).ok();
    let route = |from: VertexIndex, paths: &[String]| -> Option<Route> {
        let mut at = from;
        let mut route = Route::new();
        for path in paths {
            let index = topology.find_edge(&EdgeName::parse("paths", path).ok()?)?;
            let edge = topology.edge(index);
            let direction = if edge.a == at { Direction::AToB } else { Direction::BToA };
            let tail = if direction == Direction::AToB { edge.a } else { edge.b };
            if tail != at {
                return None;
            }
            at = edge.head(direction);
            route.push((index, direction));
        }
        Some(route)
    };
    let placed = wire
        .activities
        .iter()
        .map(|one| Some(PlacedActivity { site: vertex(&one.site)?, window: window(&one.window)? }));
    let activities: Vec<PlacedActivity> = placed.collect::<Option<_>>()?;
    let same = workflow.activities.iter().zip(&wire.activities);
    let mut same = same.map(|(of, wire)| of.name.as_str() == wire.name);
    if activities.len() != workflow.activities.len() || !same.all(|same| same) {
        return None;
    }
    let items: BTreeMap<&str, usize> =
        workflow.data.iter().enumerate().map(|(index, item)| (item.name.as_str(), index)).collect();
    let transfers = wire.transfers.iter().map(|one| {
        let from = vertex(&one.from)?;
        Some(Transfer {
            item: *items.get(one.data.as_str())?,
            from,
            to: vertex(&one.to)?,
            route: route(from, &one.paths)?,
            rate: BitsPerSecond(one.rate_bps),
            window: window(&one.window)?,
        })
    });
    let channels = workflow.channels.iter().zip(&wire.channels);
    let channels = channels.map(|(of, wire)| route(activities[of.from].site, &wire.paths));
    let (transfers, channels) =
        (transfers.collect::<Option<_>>()?, channels.collect::<Option<Vec<Route>>>()?);
    (channels.len() == workflow.channels.len()).then_some(Schedule {
        activities,
        transfers,
        channels,
    })
}
