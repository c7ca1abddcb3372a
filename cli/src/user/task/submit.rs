//! `coalloc task submit`: plans a task, and reserves the plan.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use coalloc_common::limits;
use coalloc_plan::TaskPlannerName;
use coalloc_proto::v1;
use uuid::Uuid;

use super::{SlotArgs, TaskFile, body, effort, headline};
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::request::planner_parser;
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::text;
use crate::kit::when::InstantArg;

/// Tasks: data that travel to a cluster, where a computation uses them
#[derive(Debug, Clone, Args)]
pub struct TaskArgs {
    #[command(subcommand)]
    what: TaskCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum TaskCommand {
    Submit(SubmitArgs),
}

/// Plan a task and reserve the plan
///
/// A coordinator in distributed mode plans with its picture, without asking the resource managers. Where
/// the picture was out of date, the refusal says what is free, and the task is planned again, as often as
/// --tries allows.
/// A task with the same --id and the same content is the same task: sent again, it gets the same answer.
#[derive(Debug, Clone, Args)]
pub struct SubmitArgs {
    /// The task, a TaskRequest as YAML or JSON; `-` reads standard input
    #[arg(short, long, value_name = "FILE")]
    request: PathBuf,
    /// Replaces the task's `ready`: tomorrow 14:00, now+2h, 2026-11-21T10:00:00Z. Its deadline moves along
    #[arg(long, value_name = "TIME")]
    earliest_start: Option<InstantArg>,
    /// Replaces the task's user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The id of this task [default: a random UUID]
    #[arg(long, value_name = "REQUEST_ID")]
    id: Option<String>,
    /// How the task is planned [default: the coordinator's setting]
    #[arg(long, value_name = "NAME", value_parser = planner_parser::<TaskPlannerName>(), help_heading = "Tasks")]
    planner: Option<TaskPlannerName>,
    /// How the plan is reserved [default: the coordinator's setting]
    #[arg(long, value_enum, help_heading = "Tasks")]
    reservation: Option<Reservation>,
    /// How often the task may be planned, 1 to 16 [default: 4]
    #[arg(long, value_name = "N", help_heading = "Tasks",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::TASK_TRIES_MAX)))]
    tries: Option<u32>,
    #[command(flatten)]
    slots: SlotArgs,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the TaskReceipt as JSON
    #[arg(long)]
    json: bool,
}

/// How a plan is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reservation {
    /// Held at every resource manager, then committed
    TwoPhase,
    /// Booked with one message to each resource manager, one after the other along the way of the data
    OneWay,
}

impl From<Reservation> for v1::TaskReservation {
    fn from(reservation: Reservation) -> Self {
        match reservation {
            Reservation::TwoPhase => Self::TwoPhase,
            Reservation::OneWay => Self::OneWay,
        }
    }
}

/// Runs `coalloc task`.
///
/// # Errors
/// When the file is wrong, the coordinator cannot be asked, or the outcome is unknown.
pub async fn run(args: &TaskArgs) -> Result<Answer, Failure> {
    let TaskCommand::Submit(args) = &args.what;
    let now = coalloc_net::clock::now().wall;
    let file =
        TaskFile::read(&args.request, args.earliest_start.as_ref(), args.user.as_ref(), now)?;
    let request_id = args.id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
    let mut client = args.grc.connect().await?;
    // Printed before the call, so that the user can ask about the task even if this process dies.
    text::note(&format!("request id: {request_id}"));
    let request = v1::SubmitTaskRequest {
        request_id: request_id.clone(),
        task: Some(file.request.clone()),
        options: args.slots.options_of(args.planner),
        reservation: args.reservation.map_or(0, |one| v1::TaskReservation::from(one).into()),
        tries: args.tries,
    };
    let answer = client.submit_task(request).await.map_err(|status| {
        let what_to_do = format!("ask `coalloc show {request_id}`: the task may still be going on");
        file.failure(&status, rpc::failure_of_change(&status, &what_to_do))
    })?;
    let receipt = answer.into_inner().task;
    let receipt = receipt.ok_or_else(|| Failure::internal("an answer without content"))?;
    let text = if args.json { text::json(&receipt)? } else { describe(&receipt) };
    Ok(Answer { text, exit: exit(&receipt) })
}

/// How a task ended.
const fn exit(receipt: &v1::TaskReceipt) -> Exit {
    match (receipt.confirmed, receipt.definite) {
        (true, _) => Exit::Done,
        (false, true) => Exit::Refused,
        (false, false) => Exit::Unfinished,
    }
}

/// The receipt for people: what was reserved, or why nothing was, and the earlier tries that were refused.
#[must_use]
pub fn describe(receipt: &v1::TaskReceipt) -> String {
    // Writing to a String cannot fail, here and below.
    let mut out = String::new();
    let plan = receipt.plan.as_ref();
    match (&receipt.refusal, plan) {
        (None, Some(plan)) if receipt.confirmed => {
            let _ = writeln!(out, "reserved {}: {}", receipt.reservation, headline(plan));
            out += &body(plan);
        }
        (Some(refusal), _) => {
            let _ = writeln!(out, "not reserved: {}", text::refusal(refusal));
        }
        (None, _) => {
            let id = Some(receipt.reservation.as_str()).filter(|id| !id.is_empty());
            let id = id.unwrap_or(&receipt.request_id);
            let _ = writeln!(out, "not finished: ask `coalloc show {id}`");
        }
    }
    if let Some(plan) = &receipt.nearest {
        let _ = writeln!(out, "\nwithout the deadline: {}", headline(plan));
        out += &body(plan);
    }
    // The last try of a failed task is its refusal, which is already shown.
    let before = receipt.tries.len().saturating_sub(usize::from(!receipt.confirmed));
    if before > 0 {
        out += "\nplanned before, and refused:\n";
    }
    for (index, one) in receipt.tries.iter().take(before).enumerate() {
        let refusal = one.refusal.as_ref().map(text::refusal).unwrap_or_default();
        let age = match &one.age {
            Some(age) => format!(" (the picture of it was {} old)", text::span(Some(age))),
            None => String::new(),
        };
        let _ = writeln!(out, "  {}  {refusal}{age}", index + 1);
    }
    if let Some(taken) = &receipt.effort {
        let _ = writeln!(out, "\n{}", effort(taken));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(detail: &str) -> v1::Refusal {
        v1::Refusal { detail: detail.into(), ..v1::Refusal::default() }
    }

    #[test]
    fn a_receipt_tells_what_is_reserved_and_what_was_run_into() {
        let second = coalloc_proto::Duration { seconds: 0, nanos: 250_000_000 };
        let tries = vec![v1::TaskTry {
            resource_manager: "crm-A".into(),
            refusal: Some(refusal("A is full")),
            age: Some(second),
        }];
        let mut receipt = v1::TaskReceipt {
            reservation: "grc-1".into(),
            confirmed: true,
            definite: true,
            plan: Some(v1::TaskPlan { cluster: "B".into(), cpus: 2, ..v1::TaskPlan::default() }),
            tries,
            ..v1::TaskReceipt::default()
        };
        let text = describe(&receipt);
        assert!(text.starts_with("reserved grc-1: at B"), "{text}");
        assert!(text.contains("A is full (the picture of it was 250 ms old)"), "{text}");
        assert_eq!(exit(&receipt), Exit::Done);
        // The same receipt, for a task that was given up.
        receipt.confirmed = false;
        receipt.refusal = Some(refusal("A is full"));
        let text = describe(&receipt);
        assert!(text.starts_with("not reserved: A is full"), "{text}");
        assert!(!text.contains("planned before"), "{text}");
        assert_eq!(exit(&receipt), Exit::Refused);
        receipt.definite = false;
        assert_eq!(exit(&receipt), Exit::Unfinished);
    }
}
