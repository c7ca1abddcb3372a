//! The second leg: the results of a task travel on from its cluster.
//!
//! Stevens 2009, section 1, treats output data as another task that is only a transfer. Here the
//! two legs are chosen together: the task is planned for each cluster by itself, and from each
//! cluster the results are sent when its run ends. A run that ends earlier never delivers later. So
//! the earliest completion in each cluster is enough to find the earliest delivery. It is the
//! earliest possible delivery if the planner finds the earliest completion (`mc-t`).

use coalloc_common::{InvalidField, Reason, Refusal, Time, VertexIndex};

use super::frame::{Entries, Frame};
use super::search::End;
use super::{
    Effort, Leg, Scratch, Task, TaskInstance, TaskObjective, TaskOutcome, TaskPlan, TaskPlanner,
    TaskRefusal, choice, mcb,
};
use crate::Budget;

/// The results of a task, and where they are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// The vertex where the results are wanted.
    pub to: VertexIndex,
    /// Size of the results in bytes: 1 to `limits::TASK_BYTES_MAX`.
    pub bytes: u64,
}

/// A plan with its second leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The plan of the task itself.
    pub plan: TaskPlan,
    /// The path of the results; empty when they are wanted where the cluster is.
    pub legs: Vec<Leg>,
    /// The wavelength of these legs.
    pub wavelength: usize,
    /// When results begin to leave the cluster: not before the run ends.
    pub departure: Time,
    /// When the last results have arrived where they are wanted.
    pub delivered: Time,
    /// Whether it is proven that nothing on this picture delivers earlier.
    pub proven: bool,
}

/// The earliest delivery of a task's results. `planner` plans the first leg. The task's objective
/// is ignored, and its deadline is for the delivery. Ties go to the earlier completion, then to the
/// cluster that comes first.
///
/// # Errors
/// [`InvalidField`] when the output's vertex is not in the picture, or its size is out of range.
pub fn deliver(
    planner: &dyn TaskPlanner,
    instance: &TaskInstance<'_>,
    output: Output,
    budget: &Budget<'_>,
    scratch: &mut Scratch,
) -> Result<(Result<Delivery, Box<TaskRefusal>>, Effort), InvalidField> {
    let (task, picture) = (instance.task, instance.picture);
    // Errors in the output are reported before anything is planned.
    let back = Task { source: output.to, data_bytes: output.bytes, ..*task };
    TaskInstance::new(&back, picture).map_err(|error| {
        let field = match error.field.as_str() {
            "source" => "output.to".to_owned(),
            "data_bytes" => "output.bytes".to_owned(),
            _ => error.field,
        };
        InvalidField { field, ..error }
    })?;
    let (mut best, mut nearest, mut effort) = (None::<Delivery>, None, Effort::default());
    let (mut refusal, mut proven) = (None, true);
    let any =
        (0..picture.clusters().len()).filter(|at| task.cluster.is_none_or(|only| only == *at));
    for cluster in any {
        let (objective, cluster) = (TaskObjective::Completion, Some(cluster));
        let first = Task { objective, cluster, plans: 1, deadline: None, ..*task };
        let answer = planner.plan(&TaskInstance::new(&first, picture)?, budget, scratch);
        add(&mut effort, answer.effort);
        let plan = match answer.outcome {
            TaskOutcome::Planned(plans) => plans.into_iter().next(),
            TaskOutcome::Refused(refused) => {
                proven &= refused.refusal.reason != Reason::BudgetExhausted;
                refusal = refusal.or(Some(refused.refusal));
                None
            }
        };
        let Some(plan) = plan else { continue };
        proven &= plan.proven;
        let (found, end) = send(instance, output, plan, budget, scratch, &mut effort)?;
        proven &= end == End::Complete;
        let Some(found) = found else { continue };
        let key = |delivery: &Delivery| (delivery.delivered, delivery.plan.completion());
        let late = task.deadline.is_some_and(|deadline| found.delivered > deadline);
        let place = if late { &mut nearest } else { &mut best };
        if place.as_ref().is_none_or(|known| key(&found) < key(known)) {
            *place = Some(found);
        }
    }
    let outcome = match best {
        Some(delivery) => Ok(Delivery { proven, ..delivery }),
        None => Err(Box::new(refused(nearest, refusal))),
    };
    Ok((outcome, effort))
}

/// Adds the second leg to a plan; `None` when results cannot arrive while the vectors of links
/// last.
fn send(
    instance: &TaskInstance<'_>,
    output: Output,
    plan: TaskPlan,
    budget: &Budget<'_>,
    scratch: &mut Scratch,
    effort: &mut Effort,
) -> Result<(Option<Delivery>, End), InvalidField> {
    let (task, picture) = (instance.task, instance.picture);
    let (source, ready) = (picture.clusters()[plan.cluster].vertex, plan.completion());
    if source == output.to {
        let (legs, wavelength, departure, delivered) = (Vec::new(), 0, ready, ready);
        let delivery = Delivery { plan, legs, wavelength, departure, delivered, proven: false };
        return Ok((Some(delivery), End::Complete));
    }
    let second = Task { source, data_bytes: output.bytes, ready, deadline: None, ..*task };
    let frame = Frame::new(TaskInstance::new(&second, picture)?, Entries::Starts);
    let Scratch { tables, arena } = scratch;
    frame.begin(tables);
    let (found, end) = mcb::first_at(&frame, tables, arena, output.to.0, effort, budget);
    let delivery = found.map(|((arrival, ..), wavelength, links, label)| {
        let departure = label.departure as usize;
        let legs = choice::legs(&frame, tables, &links, departure);
        let (departure, delivered) = (frame.time(departure), frame.time(arrival));
        Delivery { plan, legs, wavelength, departure, delivered, proven: false }
    });
    Ok((delivery, end))
}

fn refused(nearest: Option<Delivery>, refusal: Option<Refusal>) -> TaskRefusal {
    match nearest {
        Some(late) => {
            let detail = format!("results would be delivered at {}", late.delivered);
            let refusal = Refusal::new(Reason::InsufficientCapacity, detail);
            TaskRefusal { refusal, nearest: Some(late.plan) }
        }
        None => {
            let unsent = "results of no cluster can be delivered before the picture ends";
            let refusal = refusal.unwrap_or_else(|| Refusal::new(Reason::NoRoute, unsent));
            TaskRefusal { refusal, nearest: None }
        }
    }
}

fn add(sum: &mut Effort, more: Effort) {
    sum.operations += more.operations;
    sum.paths += more.paths;
    sum.tried += more.tried;
}
