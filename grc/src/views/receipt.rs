//! What became of a task. It is made from what the ledger keeps of the task's reservation: the notes, which do not
//! change, and beside each candidate its plan and the age of what the plan rests on. So a task that is sent again gets
//! the same answer, even after a restart.

use std::collections::BTreeMap;

use coalloc_common::{Refusal, RmName, Span, Time, Window};
use coalloc_net::convert::{
    refusal_to_wire, span_to_wire, time_from_wire, window_from_wire, window_to_wire,
};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{Reservation, State, Ticket};
use serde_json::Value;

use crate::views::kept::{self, KeptPlan, KeptTask};

/// The notes that the coordinator core keeps of a task's reservation without reading them.
#[must_use]
pub fn notes(wire: &v1::SubmitTaskRequest, refused: Option<&v1::TaskPlanResponse>) -> String {
    let nearest = refused.and_then(|response| response.nearest.as_ref());
    let effort = refused.and_then(|response| response.effort.as_ref());
    serde_json::json!({
        "unreachable": [],
        "task": wire.task,
        "nearest": nearest,
        "effort": effort,
    })
    .to_string()
}

/// Are these the notes of a task?
#[must_use]
pub fn is_task(notes: &str) -> bool {
    let notes: Value = serde_json::from_str(notes).unwrap_or_default();
    notes["task"].is_object()
}

/// A plan as the text that the core keeps beside a candidate.
#[must_use]
pub fn details(
    plan: &v1::TaskPlan,
    effort: v1::TaskEffort,
    ages: &BTreeMap<RmName, Span>,
    tried: &[Option<Span>],
) -> String {
    let ages_us = ages.iter().map(|(rm, age)| (rm.to_string(), age.as_us()));
    let tried_us = tried.iter().map(|age| age.map(Span::as_us));
    kept::task(&KeptTask {
        task_plan: plan.clone(),
        effort,
        ages_us: ages_us.collect(),
        tried_us: tried_us.collect(),
    })
}

fn kept(reservation: &Reservation) -> Option<Box<KeptTask>> {
    match kept::read(&reservation.candidate.as_ref()?.details.text())? {
        KeptPlan::Task(task) => Some(task),
        KeptPlan::CoAllocation(_) | KeptPlan::Workflow(_) => None,
    }
}

/// For each refused try so far, the age of what was known of the RM that refused it; `None`: unknown.
#[must_use]
pub fn tried(reservation: &Reservation) -> Vec<Option<Span>> {
    let Some(kept) = kept(reservation) else { return Vec::new() };
    let mut tried: Vec<Option<Span>> =
        kept.tried_us.iter().map(|age| age.map(Span::from_us)).collect();
    if let Some(refusal) = reservation.attempt_refusals.get(tried.len()) {
        let rm = refusal.rm.as_ref().map(|rm| rm.as_str());
        let age = rm.and_then(|rm| kept.ages_us.get(rm));
        tried.push(age.copied().map(Span::from_us));
    }
    tried
}

/// A task's plan as the plan of a reservation. Its window goes from the start of the first segment to the end of the
/// last; each segment keeps its own window.
#[must_use]
pub fn plan_of(task_plan: v1::TaskPlan) -> Option<v1::Plan> {
    let windows = task_plan.segments.iter();
    let windows: Vec<Window> = windows
        .filter_map(|segment| window_from_wire("window", segment.window.as_ref()).ok())
        .collect();
    let start = windows.iter().map(|window| window.start()).min()?;
    let end: Time = windows.iter().map(|window| window.end()).max()?;
    let run = v1::Placement {
        site: task_plan.cluster.clone(),
        at: task_plan.cluster,
        cpus: task_plan.cpus,
        ..v1::Placement::default()
    };
    let ways = [&task_plan.legs, &task_plan.output_legs];
    Some(v1::Plan {
        digest: task_plan.digest,
        window: Window::new(start, end).map(window_to_wire),
        placements: vec![run],
        routes: ways.into_iter().filter_map(|legs| route(legs, &task_plan.segments)).collect(),
        segments: task_plan.segments,
        proven_optimal: task_plan.proven_optimal,
        solver: task_plan.planner,
        ..v1::Plan::default()
    })
}

/// The route of the data over these legs; `None` if there are no legs, since the data are at the cluster already.
fn route(legs: &[v1::TaskLeg], segments: &[v1::Segment]) -> Option<v1::Route> {
    let (first, last) = (legs.first()?, legs.last()?);
    let via = std::iter::once(&first.from).chain(legs.iter().map(|leg| &leg.to));
    let of = |leg: &v1::TaskLeg| {
        let same = |segment: &&v1::Segment| {
            segment.window == leg.window && is_of(&leg.path, &segment.resource)
        };
        segments.iter().find(same).map(|segment| segment.amount)
    };
    Some(v1::Route {
        from: first.from.clone(),
        to: last.to.clone(),
        bandwidth_bps: of(first).unwrap_or_default(),
        via: via.cloned().collect(),
        paths: legs.iter().map(|leg| leg.path.clone()).collect(),
        ..v1::Route::default()
    })
}

/// Is this a resource of the path? A resource of a full-duplex path has the direction after the path's name.
fn is_of(path: &str, resource: &str) -> bool {
    resource.strip_prefix(path).is_some_and(|rest| matches!(rest, "" | ":ab" | ":ba"))
}

/// What became of a task, in the present state of its reservation.
#[must_use]
pub fn of(reservation: &Reservation) -> v1::TaskReceipt {
    let kept = kept(reservation);
    let notes: Value = serde_json::from_str(&reservation.notes).unwrap_or_default();
    let noted = |field: &str| Some(notes[field].clone()).filter(|value| !value.is_null());
    let ages = tried(reservation);
    let refusals = reservation.attempt_refusals.iter();
    let mut tries: Vec<v1::TaskTry> = refusals
        .enumerate()
        .map(|(number, refusal)| v1::TaskTry {
            resource_manager: refusal.rm.as_ref().map(ToString::to_string).unwrap_or_default(),
            refusal: Some(refusal_to_wire(refusal)),
            age: ages.get(number).copied().flatten().map(span_to_wire),
        })
        .collect();
    let last: Option<&Refusal> = reservation.refusal.as_ref();
    if let Some(refusal) = last.filter(|last| reservation.attempt_refusals.last() != Some(*last)) {
        tries.push(v1::TaskTry { refusal: Some(refusal_to_wire(refusal)), ..Default::default() });
    }
    let effort = noted("effort").and_then(|effort| serde_json::from_value(effort).ok());
    v1::TaskReceipt {
        reservation: reservation.id.to_string(),
        request_id: reservation.ticket.request.to_string(),
        confirmed: reservation.state == State::Confirmed,
        refusal: last.map(refusal_to_wire),
        nearest: noted("nearest").and_then(|plan| serde_json::from_value(plan).ok()),
        tries,
        effort: kept.as_ref().map(|kept| kept.effort).or(effort),
        plan: kept.map(|kept| kept.task_plan),
        definite: reservation.is_definite(),
    }
}

/// A task that is being planned: nothing is held, and it has no reservation yet.
#[must_use]
pub fn planning(ticket: &Ticket) -> v1::TaskReceipt {
    v1::TaskReceipt { request_id: ticket.request.to_string(), ..v1::TaskReceipt::default() }
}

/// Adds the nearest possible plan, in words, to the refusal of a later planning. The ledger keeps nothing else of that
/// plan.
#[must_use]
pub fn with_nearest(refusal: Refusal, nearest: Option<&v1::TaskPlan>) -> Refusal {
    let run = nearest.and_then(|plan| plan.run.as_ref()?.end);
    let end = run.and_then(|end| time_from_wire("end", &end).ok());
    match (end, nearest) {
        (Some(end), Some(plan)) => {
            let detail = format!("{}; at {} it would end at {end}", refusal.detail, plan.cluster);
            Refusal { detail, ..refusal }
        }
        _ => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coalloc_common::Reason;
    use coalloc_proto::Timestamp;

    fn window(from: i64, to: i64) -> Option<v1::Window> {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        Some(v1::Window { start: at(from), end: at(to) })
    }

    fn plan() -> v1::TaskPlan {
        let segment = |resource: &str, from, to| v1::Segment {
            resource: resource.to_owned(),
            amount: 1,
            window: window(from, to),
            resource_manager: format!("rm-{resource}"),
        };
        v1::TaskPlan {
            digest: "d".to_owned(),
            planner: "mc-t".to_owned(),
            cluster: "B".to_owned(),
            segments: vec![segment("A-B", 10, 20), segment("B", 21, 40)],
            ..v1::TaskPlan::default()
        }
    }

    #[test]
    fn a_kept_plan_is_a_plan_of_a_reservation_with_a_window_for_each_segment() {
        let ages = [(RmName::composed("rm-B"), Span::from_millis(7))].into();
        let text = details(&plan(), v1::TaskEffort::default(), &ages, &[None]);
        let Some(KeptPlan::Task(task)) = kept::read(&text) else { panic!("{text}") };
        let shown = plan_of(task.task_plan).unwrap();
        assert_eq!(shown.window, window(10, 40));
        assert_eq!(shown.segments, plan().segments);
        assert_eq!(shown.solver, "mc-t");
    }

    #[test]
    fn the_rate_of_a_way_is_that_of_its_own_path() {
        let segment = |resource: &str, amount| v1::Segment {
            resource: resource.to_owned(),
            amount,
            window: window(10, 20),
            resource_manager: "nrm".to_owned(),
        };
        let leg = |path: &str| v1::TaskLeg {
            path: path.to_owned(),
            from: "A".to_owned(),
            to: "B".to_owned(),
            window: window(10, 20),
        };
        // "A-B" is a prefix of other names, which come first.
        let all = [
            segment("A-B-backup", 1),
            segment("A-B2:ab", 2),
            segment("A-B:ab", 3),
            segment("A-B2", 4),
        ];
        let rate = |path| route(&[leg(path)], &all).unwrap().bandwidth_bps;
        assert_eq!((rate("A-B"), rate("A-B2"), rate("A-B-backup")), (3, 2, 1));
        assert_eq!(rate("A"), 0, "of no segment");
    }

    #[test]
    fn notes_of_a_task_are_known_from_others() {
        let wire = v1::SubmitTaskRequest {
            task: Some(v1::TaskRequest::default()),
            ..v1::SubmitTaskRequest::default()
        };
        assert!(is_task(&notes(&wire, None)));
        assert!(!is_task(&crate::views::view::notes(&[], None, None)) && !is_task(""));
    }

    #[test]
    fn what_would_do_is_told_in_words_when_nothing_else_keeps_it() {
        let refusal = Refusal::new(Reason::InsufficientCapacity, "too late");
        assert_eq!(with_nearest(refusal.clone(), None), refusal);
        let late = v1::TaskPlan { run: window(0, 60), ..plan() };
        let told = with_nearest(refusal, Some(&late)).detail;
        assert_eq!(told, "too late; at B it would end at 1970-01-01T00:01:00Z");
    }
}
