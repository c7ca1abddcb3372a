//! Admission of tasks: who submits a task, are the numbers sane, and which settings of the coordinator apply where the
//! request leaves something open?

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, Time, limits};
use coalloc_net::convert::{
    ParsedTask, ParsedTaskOptions, task_from_wire, task_options, user_name,
};
use coalloc_net::status;
use coalloc_plan::multicost::Task;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::Ticket;
use tonic::Status;

use crate::admission::{digest, request_id};
use crate::availability::federation::Snapshot;
use crate::config::tasks::{TaskSettings, one_way};

/// An admitted task.
#[derive(Debug, Clone)]
pub struct AdmittedTask {
    /// The task that is wanted.
    pub asked: ParsedTask,
    /// The planning options: those of the request, and the coordinator's for the rest.
    pub options: ParsedTaskOptions,
}

/// How an admitted task is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationMode {
    /// Whether it is booked one-way, with one message to each RM, one RM after the other.
    pub one_way: bool,
    /// How often the task may be planned and tried.
    pub tries: u32,
}

/// Admits a task. Its first segment begins at `soonest`, or later.
///
/// # Errors
/// INVALID_ARGUMENT naming field, value and allowed range; UNAVAILABLE when no RM has described itself yet, or when a
/// place is unknown while some RM has not described itself, because the place may belong to that RM.
pub fn admit(
    request: Option<&v1::TaskRequest>,
    options: Option<&v1::TaskOptions>,
    settings: &TaskSettings,
    federation: &Snapshot,
    soonest: Time,
) -> Result<AdmittedTask, Status> {
    let missing: Vec<&str> = federation.missing.iter().map(|rm| rm.as_str()).collect();
    if federation.members.is_empty() && !missing.is_empty() {
        return Err(status::nobody_heard(&missing));
    }
    let inner = || {
        let none = || InvalidField::missing("task", "what is wanted");
        let wire = request.ok_or_else(none)?;
        user_name("task.user", &wire.user)?;
        let within = |error: InvalidField| error.within("task");
        let asked = task_from_wire(&federation.topology, wire, soonest).map_err(within)?;
        // Nothing begins in the past, even if the data were ready then.
        let task = Task { ready: asked.task.ready.max(soonest), ..asked.task };
        let options = task_options(&filled_in(options, &settings.planning), &task)?;
        Ok(AdmittedTask { asked: ParsedTask { task, ..asked }, options })
    };
    inner().map_err(|error: InvalidField| {
        let is_place = ["task.source", "task.cluster", "task.output.to"];
        if missing.is_empty() || !is_place.contains(&error.field.as_str()) {
            return status::invalid(&error);
        }
        status::not_known_yet(&error, &missing)
    })
}

/// The options of the request, and the coordinator's settings for those that it leaves open.
fn filled_in(asked: Option<&v1::TaskOptions>, set: &v1::TaskOptions) -> v1::TaskOptions {
    let asked = asked.cloned().unwrap_or_default();
    v1::TaskOptions {
        planner: asked.planner.or_else(|| set.planner.clone()),
        plans: asked.plans,
        link_slot: asked.link_slot.or(set.link_slot),
        cluster_slot: asked.cluster_slot.or(set.cluster_slot),
        horizon: asked.horizon.or(set.horizon),
        guard_slots: asked.guard_slots.or(set.guard_slots),
    }
}

/// Reads how a task is to be reserved.
///
/// # Errors
/// INVALID_ARGUMENT naming field, value and allowed range.
pub fn manner(
    wire: &v1::SubmitTaskRequest,
    settings: &TaskSettings,
) -> Result<ReservationMode, InvalidField> {
    let tries = wire.tries.unwrap_or(limits::TASK_TRIES_DEFAULT);
    let tries = check_range("tries", tries, 1..=limits::TASK_TRIES_MAX, "tries")?;
    if let Some(plans) = wire.options.as_ref().and_then(|options| options.plans)
        && plans != 1
    {
        let allowed = "1, or unset: one plan of a task is tried at a time";
        return Err(InvalidField::new("options.plans", plans, allowed));
    }
    let one_way = one_way("reservation", wire.reservation)?.unwrap_or(settings.one_way);
    Ok(ReservationMode { one_way, tries })
}

/// The ticket of a submission, like that of a reserve call. `own_ids` is the prefix of the ids of this coordinator's
/// reservations.
///
/// # Errors
/// [`InvalidField`] when the id or the user is not a name, or the id begins with `own_ids`.
pub fn ticket(wire: &v1::SubmitTaskRequest, own_ids: &str) -> Result<Ticket, InvalidField> {
    let user = wire.task.as_ref().map_or("", |task| task.user.as_str());
    Ok(Ticket {
        request: request_id(&wire.request_id, own_ids)?,
        user: user_name("task.user", user)?,
        // The prefix makes it differ from the digest of every co-allocation.
        content: format!("task-{}", digest(wire)),
    })
}
