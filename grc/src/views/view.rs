//! Reservations as users see them.

use coalloc_common::{BootTime, Now, RmName, Span, Time};
use coalloc_net::convert::{
    granted_to_wire, refusal_to_wire, span_to_wire, time_to_wire, window_from_wire,
};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{
    Candidate, Change, ChangeState, Coordinator, GivenUp, Reservation, State, Ticket, Usage,
    UsagePhase,
};
use serde_json::Value;

use crate::views::kept::{self, KeptPlan};
use crate::views::{receipt, workflow};

/// The notes that the coordinator core keeps for the shell without reading them: the RMs that were missing when it was
/// planned, the request, and the planning options.
#[must_use]
pub fn notes(
    unreachable: &[coalloc_common::RmName],
    request: Option<&v1::CoAllocationRequest>,
    options: Option<&v1::PlanOptions>,
) -> String {
    let names: Vec<&str> = unreachable.iter().map(|rm| rm.as_str()).collect();
    // Alternatives are part of one answer and no option of the reservation.
    let options = options.map(|options| v1::PlanOptions { alternatives: None, ..options.clone() });
    let options = options.filter(|options| *options != v1::PlanOptions::default());
    serde_json::json!({ "unreachable": names, "request": request, "options": options }).to_string()
}

/// The same for an allocation: the RMs that were missing, and what was requested.
#[must_use]
pub fn allocation_notes(
    unreachable: &[coalloc_common::RmName],
    request: &v1::AllocateRequest,
) -> String {
    let names: Vec<&str> = unreachable.iter().map(|rm| rm.as_str()).collect();
    serde_json::json!({ "unreachable": names, "allocation": request }).to_string()
}

/// What is kept of the long notes of a reservation that was refused. They still say what was requested: a co-allocation, an
/// allocation, a task or a workflow.
#[must_use]
pub fn short_notes(notes: &str) -> String {
    let mut notes: Value = serde_json::from_str(notes).unwrap_or_default();
    let Some(parts) = notes.as_object_mut() else { return String::new() };
    // What a user sends may be long. What is left is what planning has said about it.
    parts.remove("request");
    if let Some(allocation) = parts.get_mut("allocation").and_then(Value::as_object_mut) {
        allocation.remove("picked");
    }
    if let Some(task) = parts.get_mut("task").and_then(Value::as_object_mut) {
        task.clear();
    }
    notes.to_string()
}

/// Are these the notes of an allocation?
#[must_use]
pub fn is_allocation(notes: &str) -> bool {
    let notes: Value = serde_json::from_str(notes).unwrap_or_default();
    notes["allocation"].is_object()
}

/// The request of a co-allocation, from its notes. `None` if the notes have none.
#[must_use]
pub fn request(notes: &str) -> Option<v1::CoAllocationRequest> {
    let notes: Value = serde_json::from_str(notes).unwrap_or_default();
    serde_json::from_value(notes["request"].clone()).ok()
}

/// The planning options of a reservation, from its notes. `None` if the notes have none, as in ledgers of older
/// releases.
#[must_use]
pub fn options(notes: &str) -> Option<v1::PlanOptions> {
    let notes: Value = serde_json::from_str(notes).unwrap_or_default();
    serde_json::from_value(notes["options"].clone()).ok()
}

/// The plan that was kept with a candidate. A task's plan is converted to the plan of a reservation.
#[must_use]
pub fn plan(candidate: Option<&Candidate>) -> Option<v1::Plan> {
    match kept::read(&candidate?.details.text())? {
        KeptPlan::CoAllocation(plan) => Some(*plan),
        KeptPlan::Task(task) => receipt::plan_of(task.task_plan),
        KeptPlan::Workflow(kept) => Some(workflow::plan_of(kept.head)),
    }
}

/// The numbers of a workflow's plan that was kept with a candidate; `None` for all other plans.
fn workflow_summary(candidate: Option<&Candidate>) -> Option<v1::WorkflowSummary> {
    match kept::read(&candidate?.details.text())? {
        KeptPlan::Workflow(kept) => kept.head.summary,
        KeptPlan::CoAllocation(_) | KeptPlan::Task(_) => None,
    }
}

/// A change in the schema.
fn change(change: &Change) -> v1::Change {
    v1::Change {
        change_id: change.id.to_string(),
        state: match change.state {
            ChangeState::Checking => v1::ChangeState::Checking,
            ChangeState::Committing => v1::ChangeState::Committing,
            ChangeState::Done => v1::ChangeState::Done,
            ChangeState::Aborting | ChangeState::Refused => v1::ChangeState::Refused,
        }
        .into(),
        plan: plan(change.candidate.as_ref()),
        refusal: change.refusal.as_ref().map(refusal_to_wire),
        attempts: change.attempts,
    }
}

/// An RM that was given up on, in the schema.
fn given_up(one: &GivenUp) -> v1::GivenUp {
    v1::GivenUp {
        resource_manager: one.rm.to_string(),
        transaction: one.txn.to_string(),
        by: one.by.to_string(),
        why: one.why.clone(),
        time: Some(time_to_wire(one.at)),
        booked_until: one.until.map(time_to_wire),
        ended: one.ended.map(time_to_wire),
    }
}

/// A reservation in the schema, in its state at `now`.
#[must_use]
pub fn reservation(reservation: &Reservation, now: Time) -> v1::Reservation {
    let plan = plan(reservation.candidate.as_ref());
    let over = plan
        .as_ref()
        .and_then(|plan| window_from_wire("window", plan.window.as_ref()).ok())
        .is_some_and(|window| window.end() <= now);
    let notes: Value = serde_json::from_str(&reservation.notes).unwrap_or_default();
    let unreachable = notes["unreachable"].as_array().into_iter().flatten();
    v1::Reservation {
        id: reservation.id.to_string(),
        request_id: reservation.ticket.request.to_string(),
        user: reservation.ticket.user.to_string(),
        state: state(reservation.state, if over { UsagePhase::Over } else { phase(reservation) })
            .into(),
        plan,
        refusal: reservation.refusal.as_ref().map(refusal_to_wire),
        definite: reservation.is_definite(),
        attempts: reservation.attempts,
        transaction: reservation.transaction.as_ref().map(ToString::to_string).unwrap_or_default(),
        created: Some(time_to_wire(reservation.created)),
        unreachable: unreachable.filter_map(Value::as_str).map(str::to_owned).collect(),
        attempt_refusals: reservation.attempt_refusals.iter().map(refusal_to_wire).collect(),
        request: serde_json::from_value(notes["request"].clone()).ok(),
        version: reservation.version,
        change: reservation.change.as_ref().map(change),
        options: options(&reservation.notes),
        given_up: reservation.given_up.iter().map(given_up).collect(),
        servers: (reservation.servers.iter())
            .flat_map(|(rm, granted)| granted_to_wire(Some(rm), granted))
            .collect(),
        allocation: serde_json::from_value(notes["allocation"].clone()).ok(),
        workflow: workflow::is_workflow(&reservation.notes)
            .then(|| workflow_summary(reservation.candidate.as_ref()))
            .flatten(),
        manual_provision: reservation.candidate.as_ref().is_some_and(|of| of.manual_provision),
        equipment_trouble: match reservation.state {
            State::Confirmed => troubles(&reservation.usage),
            _ => Vec::new(),
        },
        ..v1::Reservation::default()
    }
}

/// What only the running coordinator knows of a reservation.
#[derive(Debug, Clone)]
pub struct RunningState {
    /// When the first of its holds ends.
    hold_ends: Option<BootTime>,
    /// Who has not acknowledged what was decided.
    awaited: Vec<RmName>,
}

impl RunningState {
    /// That of a reservation of this coordinator.
    #[must_use]
    pub fn of(core: &Coordinator, one: &Reservation) -> Self {
        Self { hold_ends: core.hold_ends(one), awaited: core.awaited(one) }
    }
}

/// A reservation in the schema, as it is while the coordinator runs.
#[must_use]
pub fn shown(one: &Reservation, running: &RunningState, now: Now) -> v1::Reservation {
    let left = |ends: BootTime| span_to_wire(ends.since(now.boot).max(Span::ZERO));
    v1::Reservation {
        expires_in: running.hold_ends.map(left),
        awaited: running.awaited.iter().map(ToString::to_string).collect(),
        ..reservation(one, now.wall)
    }
}

/// A request that is being planned: nothing is held, and it has no reservation id yet.
#[must_use]
pub fn planning(ticket: &Ticket) -> v1::Reservation {
    v1::Reservation {
        request_id: ticket.request.to_string(),
        user: ticket.user.to_string(),
        state: v1::ReservationState::Checking.into(),
        ..v1::Reservation::default()
    }
}

/// How far the use of a reservation is. What was just deprovisioned is not active, even before that is recorded.
fn phase(reservation: &Reservation) -> UsagePhase {
    match reservation.usage.phase {
        UsagePhase::Active if !reservation.is_active() => UsagePhase::Ahead,
        phase => phase,
    }
}

/// The states in which a reservation may be shown, depending on the time.
pub fn states(reservation: &Reservation) -> impl Iterator<Item = i32> {
    let phases = [phase(reservation), UsagePhase::Over];
    phases.into_iter().map(|phase| state(reservation.state, phase).into())
}

/// What is wrong at the equipment of resource managers, in the schema.
pub(crate) fn troubles(usage: &Usage) -> Vec<v1::EquipmentTrouble> {
    let told = usage.trouble.iter().map(|(rm, trouble)| v1::EquipmentTrouble {
        resource_manager: rm.to_string(),
        trouble: trouble.clone(),
    });
    told.collect()
}

pub(crate) const fn state(state: State, phase: UsagePhase) -> v1::ReservationState {
    match state {
        State::Checking => v1::ReservationState::Checking,
        State::Held => v1::ReservationState::Held,
        State::Committing => v1::ReservationState::Committing,
        State::Confirmed => match phase {
            UsagePhase::Ahead => v1::ReservationState::Confirmed,
            UsagePhase::Active => v1::ReservationState::Active,
            UsagePhase::Over => v1::ReservationState::PassedEndTime,
        },
        State::Aborting => v1::ReservationState::Aborting,
        State::Failed => v1::ReservationState::Failed,
        State::Terminating => v1::ReservationState::Terminating,
        State::Terminated => v1::ReservationState::Terminated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_request_that_was_refused_the_request_is_not_kept() {
        let site = |name: String| v1::SiteRequest { name, cpus: 1, ..Default::default() };
        let of = |sites: usize| {
            let sites = (0..sites).map(|number| site(format!("site-{number}"))).collect();
            let request = v1::CoAllocationRequest { sites, ..Default::default() };
            notes(&[coalloc_common::RmName::composed("nrm")], Some(&request), None)
        };
        let short = short_notes(&of(10_000));
        assert!(short.len() < 100 && short.contains("nrm"), "{short}");
        assert_eq!(request(&short), None);
        let picked = (0..10_000).map(|number| format!("A/{number}")).collect();
        let asked = v1::AllocateRequest { servers: 7, picked, ..Default::default() };
        let short = short_notes(&allocation_notes(&[], &asked));
        assert!(short.len() < 500 && is_allocation(&short), "{short}");
        let id = "x".repeat(100_000);
        let task = v1::TaskRequest { user: id, ..v1::TaskRequest::default() };
        let task = v1::SubmitTaskRequest { task: Some(task), ..v1::SubmitTaskRequest::default() };
        let short = short_notes(&receipt::notes(&task, None));
        assert!(short.len() < 100 && receipt::is_task(&short), "{short}");
        let short = short_notes(&workflow::notes(7, None));
        assert!(short.len() < 100 && workflow::is_workflow(&short), "{short}");
        assert_eq!(short_notes("of another release"), "");
    }

    #[test]
    fn how_it_was_searched_is_kept_and_older_ledgers_say_nothing() {
        let asked = v1::PlanOptions {
            objectives: vec![v1::Objective::Price.into()],
            solver: Some("mip".to_owned()),
            alternatives: Some(true),
            ..v1::PlanOptions::default()
        };
        let kept = v1::PlanOptions { alternatives: None, ..asked.clone() };
        assert_eq!(options(&notes(&[], None, Some(&asked))), Some(kept));
        let nothing = v1::PlanOptions { alternatives: Some(true), ..v1::PlanOptions::default() };
        for said in [None, Some(&nothing)] {
            assert_eq!(options(&notes(&[], None, said)), None);
        }
        for older in ["", r#"{"unreachable":["nrm"],"request":null}"#] {
            assert_eq!(options(older), None, "{older:?}");
        }
    }
}
