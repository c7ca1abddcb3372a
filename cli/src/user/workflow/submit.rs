//! `coalloc workflow submit` and `show`: reserves a workflow whole, and shows what became of it.

use std::fmt::Write as _;

use clap::Args;
use coalloc_common::{Span, limits};
use coalloc_proto::v1;
use uuid::Uuid;

use super::file::WorkflowFile;
use super::revise::changes;
use super::{FileArgs, PlannerArgs, marks};
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::text;
use crate::kit::when::next_full;
use crate::user::wording::workflow::{Marks, body, earlier_tries, headline, refusal};

/// Plan a workflow and reserve the plan, all of it or nothing
///
/// If a resource manager refuses, the workflow is planned again on what the refusal says is free, as often as
/// --tries allows. A workflow with the same --id and the same content is the same workflow: sent again, it gets
/// the same answer. `coalloc release` frees all of it.
#[derive(Debug, Clone, Args)]
pub(super) struct SubmitArgs {
    #[command(flatten)]
    file: FileArgs,
    /// The id of this workflow [default: a random UUID]
    #[arg(long, value_name = "REQUEST_ID")]
    id: Option<String>,
    #[command(flatten)]
    planner: PlannerArgs,
    /// How often the workflow may be planned, 1 to 16 [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::TASK_TRIES_MAX)))]
    tries: Option<u32>,
    /// Draw with ASCII only
    #[arg(long)]
    ascii: bool,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the WorkflowReceipt with the whole plan as JSON
    #[arg(long)]
    json: bool,
}

/// Show a submitted workflow and its plan
#[derive(Debug, Clone, Args)]
pub(super) struct ShowArgs {
    /// The id of the reservation, or of the workflow
    id: String,
    /// Draw with ASCII only
    #[arg(long)]
    ascii: bool,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the GetWorkflowResponse with the whole plan as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc workflow submit`.
pub(super) async fn run(args: &SubmitArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    let file = WorkflowFile::read(&args.file, now)?;
    file.parse(None, next_full(Span::from_secs(60), now))?;
    let request_id = args.id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
    let mut client = args.grc.connect_workflows().await?;
    // Printed before the call, so that the user can ask about the workflow even if this process dies.
    text::note(&format!("request id: {request_id}"));
    let options = v1::WorkflowOptions { tries: args.tries, ..args.planner.options() };
    let request = v1::SubmitWorkflowRequest {
        request_id: request_id.clone(),
        workflow: Some(file.request.clone()),
        options: Some(options).filter(|options| *options != v1::WorkflowOptions::default()),
    };
    let what_to_do =
        format!("ask `coalloc workflow show {request_id}`: the workflow may still be going on");
    let answer = client
        .submit_workflow(request)
        .await
        .map_err(|status| file.failure(&status, rpc::failure_of_change(&status, &what_to_do)))?;
    let v1::SubmitWorkflowResponse { workflow, next_page_token } = answer.into_inner();
    let mut receipt = workflow.ok_or_else(|| Failure::internal("an answer without content"))?;
    if !next_page_token.is_empty() {
        let whole = rpc::whole_workflow(&mut client, &receipt.reservation).await;
        let whole = whole.map_err(|status| rpc::failure_of_change(&status, &what_to_do))?;
        receipt = whole.workflow.unwrap_or(receipt);
    }
    let text = match args.json {
        true => text::json(&receipt)?,
        false => describe(&receipt, marks(args.ascii)),
    };
    Ok(Answer { text, exit: exit(&receipt) })
}

/// Runs `coalloc workflow show`.
pub(super) async fn show(args: &ShowArgs) -> Result<Answer, Failure> {
    let mut client = args.grc.connect_workflows().await?;
    let whole = rpc::whole_workflow(&mut client, &args.id).await;
    let whole = whole.map_err(|status| rpc::failure(&status))?;
    if args.json {
        return Ok(Answer::done(text::json(&whole)?));
    }
    let reservation = whole.reservation.unwrap_or_default();
    let receipt = whole.workflow.unwrap_or_default();
    let id = if reservation.id.is_empty() { &receipt.request_id } else { &reservation.id };
    let state = text::state(reservation.state());
    let text = match &receipt.plan {
        Some(plan) if receipt.refusal.is_none() => {
            let version = match &receipt.revision {
                Some(revision) => {
                    format!("version {}; {}", receipt.version, describe_last(revision))
                }
                None => String::new(),
            };
            let head = headline(plan);
            format!("{id}: {state}, {head}\n{version}\n{}", body(plan, marks(args.ascii)))
        }
        _ => format!("{id}: {state}\n{}", describe(&receipt, marks(args.ascii))),
    };
    let exit = if reservation.id.is_empty() { Exit::Unfinished } else { Exit::Done };
    Ok(Answer { text, exit })
}

/// What came of the last revision, for people.
fn describe_last(revision: &v1::WorkflowRevision) -> String {
    let why = revision.refusal.as_ref().map(refusal).unwrap_or_default();
    match revision.state() {
        v1::RevisionState::UnderWay => "a new version is being booked\n".to_owned(),
        v1::RevisionState::Refused => format!("the last revision was refused: {why}"),
        _ => format!("last revision {}{}\n", revision.change_id, changes(revision)),
    }
}

/// How a workflow ended.
const fn exit(receipt: &v1::WorkflowReceipt) -> Exit {
    match (receipt.confirmed, receipt.definite) {
        (true, _) => Exit::Done,
        (false, true) => Exit::Refused,
        (false, false) => Exit::Unfinished,
    }
}

/// The receipt for people: what was reserved, or why nothing was, and the earlier tries that were refused.
#[must_use]
fn describe(receipt: &v1::WorkflowReceipt, marks: Marks) -> String {
    // Writing to a String cannot fail, here and below.
    let mut out = String::new();
    match (&receipt.refusal, &receipt.plan) {
        (None, Some(plan)) if receipt.confirmed => {
            let _ = write!(
                out,
                "reserved {}: {}\n\n{}",
                receipt.reservation,
                headline(plan),
                body(plan, marks)
            );
        }
        (Some(refused), _) => {
            let _ = write!(out, "not reserved: {}", refusal(refused));
        }
        (None, _) => {
            let id = Some(receipt.reservation.as_str()).filter(|id| !id.is_empty());
            let id = id.unwrap_or(&receipt.request_id);
            let _ = writeln!(out, "not reserved now: ask `coalloc show {id}`");
        }
    }
    let before = earlier_tries(receipt);
    if !before.is_empty() {
        out += "\nplanned before, and refused:\n";
    }
    for (index, one) in before.iter().enumerate() {
        let _ = writeln!(out, "  {}. {}", index + 1, text::refusal(one));
    }
    out
}
