//! Tasks: requests and options from the wire, plans to the wire.

use coalloc_common::invalid::check_range;
use coalloc_common::suggest::{choices, did_you_mean};
use coalloc_common::{
    BitsPerSecond, Cpus, InvalidField, SlotGrid, Span, Time, Topology, VertexIndex, VertexName,
    limits,
};
use coalloc_plan::multicost::{
    BelievedNetwork, Delivery, Effort, Leg, Output, Signalling, Task, TaskObjective, TaskPlan,
    TaskPlanning, VectorGrid, WholePlan,
};
use coalloc_plan::{Named as _, TaskPlannerName};
use coalloc_proto::v1;

use super::{
    plan_digest, refusal_to_wire, segments_to_wire, span_from_wire, span_to_wire, time_from_wire,
    time_to_wire, window_to_wire,
};

/// A task whose names were found in the topology of a federation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedTask {
    /// The task for the planners, without [`Task::cluster`]: the index of a site is known only to the
    /// picture.
    pub task: Task,
    /// The only site at which it may run; `None`: any.
    pub cluster: Option<VertexIndex>,
    /// The results that are sent on, if any.
    pub output: Option<Output>,
}

/// How a task is planned, with all defaults filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedTaskOptions {
    /// The planner.
    pub planner: TaskPlannerName,
    /// Number of plans wanted.
    pub plans: usize,
    /// How profiles are cut into availability vectors.
    pub cut: VectorGrid,
}

/// Reads a task. An unset `ready` becomes `soonest`.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong.
pub fn task_from_wire(
    topology: &Topology,
    wire: &v1::TaskRequest,
    soonest: Time,
) -> Result<ParsedTask, InvalidField> {
    let source = place(topology, "source", &wire.source)?;
    let data_bytes =
        check_range("data_bytes", wire.data_bytes, 1..=limits::TASK_BYTES_MAX, "bytes")?;
    let work_mi = check_range("work_mi", wire.work_mi, 1..=limits::TASK_WORK_MAX_MI, "MI")?;
    let cpus = check_range("cpus", wire.cpus.unwrap_or(1), 1..=limits::CPUS_MAX, "CPUs")?;
    let rate = wire.bandwidth_bps;
    let rate = check_range("bandwidth_bps", rate, 1..=limits::BANDWIDTH_MAX_BPS, "bit/s")?;
    let ready = match &wire.ready {
        None => soonest,
        Some(time) => time_from_wire("ready", time)?,
    };
    let deadline = match &wire.deadline {
        None => None,
        Some(time) => Some(time_from_wire("deadline", time)?),
    };
    if let Some(early) = deadline.filter(|deadline| *deadline <= ready) {
        let allowed = format!("later than `ready`, {ready}");
        return Err(InvalidField::new("deadline", early, allowed));
    }
    let cluster = match &wire.cluster {
        None => None,
        Some(name) => Some(site(topology, "cluster", name)?),
    };
    let output = match &wire.output {
        None => None,
        Some(output) => Some(Output {
            to: place(topology, "output.to", &output.to)?,
            bytes: check_range("output.bytes", output.bytes, 1..=limits::TASK_BYTES_MAX, "bytes")?,
        }),
    };
    let task = Task {
        source,
        data_bytes,
        work_mi,
        cpus: Cpus(cpus),
        rate: BitsPerSecond(rate),
        ready,
        deadline,
        objective: objective(wire, output.is_some())?,
        signalling: signalling(wire)?,
        cluster: None,
        plans: 1,
    };
    Ok(ParsedTask { task, cluster, output })
}

/// Finds a site or an exchange point of the federation.
fn place(topology: &Topology, field: &str, text: &str) -> Result<VertexIndex, InvalidField> {
    let name = VertexName::parse(field, text)?;
    let unknown = || {
        let names = topology.vertices().iter().map(|vertex| vertex.name.as_str());
        let guess = did_you_mean(text, names);
        let allowed = format!("a site or an exchange point of the federation{guess}");
        InvalidField::new(field, InvalidField::quoted(text), allowed)
    };
    topology.find_vertex(&name).ok_or_else(unknown)
}

/// Finds a site of the federation.
fn site(topology: &Topology, field: &str, text: &str) -> Result<VertexIndex, InvalidField> {
    let name = VertexName::parse(field, text)?;
    let found = topology.find_vertex(&name);
    let found = found.filter(|index| topology.vertex(*index).compute.is_some());
    found.ok_or_else(|| {
        let names = topology.sites().map(|(_, vertex, _)| vertex.name.as_str());
        let allowed = format!("a site of the federation: {}", choices(text, names));
        InvalidField::new(field, InvalidField::quoted(text), allowed)
    })
}

fn objective(wire: &v1::TaskRequest, has_output: bool) -> Result<TaskObjective, InvalidField> {
    use v1::TaskObjective as Wire;
    let unknown = || InvalidField::new("objective", wire.objective, "a value of TaskObjective");
    let named = Wire::try_from(wire.objective).map_err(|_| unknown())?;
    if has_output && named != Wire::Unspecified {
        let allowed = "unset, because with `output` the earliest delivery is best";
        return Err(InvalidField::new("objective", named.as_str_name(), allowed));
    }
    let objective = match (named, wire.weights) {
        (Wire::Weighted, Some(weights)) => {
            let v1::TaskWeights { completion, arrival, per_task } = weights;
            return Ok(TaskObjective::Weighted { completion, arrival, per_task });
        }
        (Wire::Weighted, None) => {
            let allowed = "weights, which TASK_OBJECTIVE_WEIGHTED needs";
            return Err(InvalidField::missing("weights", allowed));
        }
        (_, Some(_)) => {
            let allowed = "unset, except with TASK_OBJECTIVE_WEIGHTED";
            return Err(InvalidField::new("weights", "something", allowed));
        }
        (Wire::Unspecified | Wire::Completion, None) => TaskObjective::Completion,
        (Wire::Arrival, None) => TaskObjective::Arrival,
        (Wire::FewestTasks, None) => TaskObjective::FewestTasks,
    };
    Ok(objective)
}

fn signalling(wire: &v1::TaskRequest) -> Result<Signalling, InvalidField> {
    use v1::TaskSignalling as Wire;
    let lead = match &wire.lead {
        None => Span::ZERO,
        Some(lead) => span_from_wire("lead", lead)?,
    };
    if lead > limits::LATENCY_MAX {
        let allowed = format!("0 s to {}", limits::LATENCY_MAX);
        return Err(InvalidField::new("lead", lead, allowed));
    }
    let unknown = |_| InvalidField::new("signalling", wire.signalling, "a value of TaskSignalling");
    Ok(match Wire::try_from(wire.signalling).map_err(unknown)? {
        Wire::Unspecified | Wire::TellAndGo => Signalling::TellAndGo { lead },
        Wire::TellAndWait => Signalling::TellAndWait { lead },
    })
}

/// Reads the options of a task. What is unset gets the schema's default.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong, or when a vector would have too many slots.
pub fn task_options(
    wire: &v1::TaskOptions,
    task: &Task,
) -> Result<ParsedTaskOptions, InvalidField> {
    let until_deadline = task.deadline.map_or(Span::ZERO, |deadline| deadline.since(task.ready));
    options_until(wire, until_deadline)
}

/// Checks options that are kept for future tasks.
///
/// # Errors
/// As [`task_options`].
pub fn check_task_options(wire: &v1::TaskOptions) -> Result<(), InvalidField> {
    options_until(wire, Span::ZERO).map(|_| ())
}

fn options_until(
    wire: &v1::TaskOptions,
    until_deadline: Span,
) -> Result<ParsedTaskOptions, InvalidField> {
    let planner = match &wire.planner {
        None => TaskPlannerName::default(),
        Some(name) => TaskPlannerName::named(name).ok_or_else(|| {
            let value = InvalidField::quoted(name);
            InvalidField::new("options.planner", value, TaskPlannerName::instead_of(name))
        })?,
    };
    let plans = wire.plans.unwrap_or(1);
    let plans_max = limits::TASK_PLANS_MAX as u32; // 64.
    let plans = check_range("options.plans", plans, 1..=plans_max, "plans")? as usize;
    let span = |field: &str, wire: Option<&coalloc_proto::Duration>| {
        wire.map(|span| span_from_wire(field, span)).transpose()
    };
    let horizon = span("options.horizon", wire.horizon.as_ref())?;
    let horizon = horizon.unwrap_or_else(|| limits::TASK_HORIZON_DEFAULT.max(until_deadline));
    if horizon <= Span::ZERO {
        return Err(InvalidField::new("options.horizon", horizon, "more than 0 s"));
    }
    let grid = |field: &str, wire, default| -> Result<SlotGrid, InvalidField> {
        let slot: Span = span(field, wire)?.unwrap_or(default);
        let grid =
            SlotGrid::new(slot).map_err(|error| InvalidField { field: field.into(), ..error })?;
        if grid.slots_for(horizon) >= limits::VECTOR_SLOTS_MAX as u64 {
            let least = horizon.as_us().div_euclid(limits::VECTOR_SLOTS_MAX as i64 - 2) + 1;
            let least = Span::from_us(least);
            let allowed = format!("at least {least}, so that the vectors can cover {horizon}");
            return Err(InvalidField::new(field, slot, allowed));
        }
        Ok(grid)
    };
    let link_grid = grid("options.link_slot", wire.link_slot.as_ref(), usual_slot(horizon))?;
    let cluster_grid = grid("options.cluster_slot", wire.cluster_slot.as_ref(), link_grid.slot())?;
    let guard = wire.guard_slots.unwrap_or(0);
    let guard_slots =
        check_range("options.guard_slots", guard, 0..=limits::GUARD_SLOTS_MAX, "slots")?;
    let cut = VectorGrid { link_grid, cluster_grid, horizon, guard_slots };
    Ok(ParsedTaskOptions { planner, plans, cut })
}

/// The shortest of 1, 2, 5, 10, ... milliseconds with which the papers' 10,000 slots cover the horizon.
fn usual_slot(horizon: Span) -> Span {
    let decades = (0..).map(|power| 1_000_i64.saturating_mul(10_i64.saturating_pow(power)));
    let mut slots = decades.flat_map(|decade| [1, 2, 5].map(|step| decade.saturating_mul(step)));
    let reaches = |slot: &i64| slot.saturating_mul(limits::TASK_SLOTS_USUAL) >= horizon.as_us();
    // The candidates grow without end and the horizon does not, so one is found.
    slots.find(reaches).map_or(limits::SLOT_MAX, Span::from_us).min(limits::SLOT_MAX)
}

/// The wire form of a planner's answer for a task.
#[must_use]
pub fn whole_to_wire(
    topology: &Topology,
    picture: &BelievedNetwork,
    task: &Task,
    whole: &TaskPlanning,
) -> v1::TaskPlanResponse {
    let effort = Some(effort_to_wire(whole.effort));
    match &whole.outcome {
        Ok(found) => v1::TaskPlanResponse {
            plans: found
                .iter()
                .map(|found| found_to_wire(topology, picture, task, found))
                .collect(),
            effort,
            ..v1::TaskPlanResponse::default()
        },
        Err(refused) => {
            let nearest = refused.nearest.as_ref();
            let nearest = nearest.map(|plan| task_plan_to_wire(topology, picture, task, plan));
            let refusal = Some(refusal_to_wire(&refused.refusal));
            v1::TaskPlanResponse { refusal, nearest, effort, ..v1::TaskPlanResponse::default() }
        }
    }
}

/// The wire form of a task's plan, with the route of its results if they are sent on.
#[must_use]
pub fn found_to_wire(
    topology: &Topology,
    picture: &BelievedNetwork,
    task: &Task,
    found: &WholePlan,
) -> v1::TaskPlan {
    match found {
        WholePlan::Stays(plan) => task_plan_to_wire(topology, picture, task, plan),
        WholePlan::Travels(delivery) => delivery_to_wire(topology, picture, task, delivery),
    }
}

/// The wire form of a task's plan, with names in place of indices.
fn task_plan_to_wire(
    topology: &Topology,
    picture: &BelievedNetwork,
    task: &Task,
    plan: &TaskPlan,
) -> v1::TaskPlan {
    let segments = plan.segments(topology, picture, task);
    let cluster = picture.clusters().get(plan.cluster);
    v1::TaskPlan {
        digest: plan_digest(&segments),
        planner: plan.planner.to_owned(),
        cluster: cluster.map(|cluster| cluster.name.to_string()).unwrap_or_default(),
        cpus: task.cpus.0,
        run: Some(window_to_wire(plan.run)),
        legs: legs(topology, picture, &plan.legs),
        departure: Some(time_to_wire(plan.departure)),
        arrival: Some(time_to_wire(plan.arrival)),
        delay: Some(span_to_wire(plan.delay)),
        proven_optimal: plan.proven,
        legs_looked_at: u32::try_from(plan.vouched).unwrap_or(u32::MAX),
        output_legs: Vec::new(),
        delivered: None,
        segments: segments
            .iter()
            .flat_map(|(rm, segments)| segments_to_wire(Some(rm), segments))
            .collect(),
    }
}

/// The wire form of a plan whose results are sent on.
fn delivery_to_wire(
    topology: &Topology,
    picture: &BelievedNetwork,
    task: &Task,
    delivery: &Delivery,
) -> v1::TaskPlan {
    let segments = delivery.segments(topology, picture, task);
    v1::TaskPlan {
        digest: plan_digest(&segments),
        proven_optimal: delivery.proven,
        output_legs: legs(topology, picture, &delivery.legs),
        delivered: Some(time_to_wire(delivery.delivered)),
        segments: segments
            .iter()
            .flat_map(|(rm, segments)| segments_to_wire(Some(rm), segments))
            .collect(),
        ..task_plan_to_wire(topology, picture, task, &delivery.plan)
    }
}

fn legs(topology: &Topology, picture: &BelievedNetwork, legs: &[Leg]) -> Vec<v1::TaskLeg> {
    let name = |vertex: VertexIndex| topology.vertex(vertex).name.to_string();
    let leg = |leg: &Leg| {
        let link = picture.links().get(leg.link)?;
        Some(v1::TaskLeg {
            path: link.name.to_string(),
            from: name(link.from),
            to: name(link.to),
            window: Some(window_to_wire(leg.window)),
        })
    };
    legs.iter().filter_map(leg).collect()
}

/// The wire form of a planner's effort.
#[must_use]
pub const fn effort_to_wire(effort: Effort) -> v1::TaskEffort {
    v1::TaskEffort { operations: effort.operations, paths: effort.paths, tried: effort.tried }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coalloc_proto::{Duration, Timestamp};

    fn topology() -> Topology {
        let site = |name: &str| v1::Site { name: name.into(), cpus: 8, ..Default::default() };
        let path = v1::Path {
            name: "A-X".into(),
            a: "A".into(),
            b: "X".into(),
            capacity_bps: 1_000_000,
            ..Default::default()
        };
        let file = v1::FederationFile {
            computes: vec![v1::ComputeInventory {
                name: "crm".into(),
                domain: "d".into(),
                sites: vec![site("A"), site("B")],
                ..Default::default()
            }],
            networks: vec![v1::NetworkInventory {
                name: "nrm".into(),
                domain: "d".into(),
                paths: vec![path],
                ..Default::default()
            }],
            exchange_points: vec!["X".into()],
            ..Default::default()
        };
        crate::convert::file_topology(&file).unwrap()
    }

    fn good() -> v1::TaskRequest {
        v1::TaskRequest {
            source: "X".into(),
            data_bytes: 1_000,
            work_mi: 1_000,
            bandwidth_bps: 1_000_000,
            deadline: Some(Timestamp { seconds: 7_200, nanos: 0 }),
            ..Default::default()
        }
    }

    #[test]
    fn unset_fields_are_filled_in() {
        let soonest = Time::from_us(5_000_000);
        let asked = task_from_wire(&topology(), &good(), soonest).unwrap();
        assert_eq!((asked.task.cpus, asked.task.ready), (Cpus(1), soonest));
        assert_eq!(asked.task.objective, TaskObjective::Completion);
        assert_eq!(asked.task.signalling, Signalling::ONE_WAY);
        let options = task_options(&v1::TaskOptions::default(), &asked.task).unwrap();
        assert_eq!(options.planner, TaskPlannerName::McT);
        assert_eq!(options.cut.horizon, Span::from_secs(7_195), "up to the deadline");
        assert_eq!(options.cut.link_grid.slot(), Span::from_secs(1));
        assert_eq!(options.cut.cluster_grid, options.cut.link_grid);
        assert_eq!(usual_slot(Span::from_secs(3_600)), Span::from_millis(500));
        assert_eq!(usual_slot(Span::from_us(1)), Span::from_millis(1));
    }

    #[test]
    fn what_is_wrong_is_named() {
        type Change = fn(&mut v1::TaskRequest);
        let cases: [(Change, &str); 12] = [
            (|task| task.source = "Y".into(), "source: \"Y\""),
            (|task| task.source = String::new(), "source: "),
            (|task| task.data_bytes = 0, "data_bytes: 0"),
            (|task| task.work_mi = u64::MAX, "work_mi: 18446744073709551615"),
            (|task| task.cpus = Some(0), "cpus: 0"),
            (|task| task.bandwidth_bps = 0, "bandwidth_bps: 0"),
            (|task| task.deadline = Some(Timestamp { seconds: 1, nanos: 0 }), "deadline: 1970"),
            (|task| task.cluster = Some("X".into()), "cluster: \"X\""),
            (|task| task.objective = 99, "objective: 99"),
            (|task| task.objective = 4, "weights: it is missing"),
            (|task| task.lead = Some(Duration { seconds: 11, nanos: 0 }), "lead: 11 s"),
            (
                |task| {
                    task.output = Some(v1::TaskOutput { to: "A".into(), bytes: 1 });
                    task.objective = 1;
                },
                "objective: TASK_OBJECTIVE_COMPLETION",
            ),
        ];
        for (change, expected) in cases {
            let mut wire = good();
            change(&mut wire);
            let error = task_from_wire(&topology(), &wire, Time::from_us(5_000_000)).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error} is not {expected}");
        }
    }

    #[test]
    fn vectors_beyond_their_bound_are_refused_before_they_are_made() {
        let task = task_from_wire(&topology(), &good(), Time::from_us(0)).unwrap().task;
        let us = Some(Duration { seconds: 0, nanos: 1_000 });
        let wire = v1::TaskOptions { link_slot: us, ..Default::default() };
        let error = task_options(&wire, &task).unwrap_err();
        assert!(error.to_string().starts_with("options.link_slot: 1 us"), "{error}");
        let none = Some(Duration { seconds: 0, nanos: 0 });
        let wire = v1::TaskOptions { horizon: none, ..Default::default() };
        assert_eq!(task_options(&wire, &task).unwrap_err().field, "options.horizon");
        let wire = v1::TaskOptions { planner: Some("best".into()), ..Default::default() };
        assert!(task_options(&wire, &task).unwrap_err().allowed.contains("mc-t"));
    }
}
