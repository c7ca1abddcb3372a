//! `coalloc workflow`: activities at several sites, data between them, and sets that run at the same time.

mod check;
mod file;
pub(crate) mod import;
mod revise;
mod submit;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use coalloc_common::{Span, limits};
use coalloc_plan::{Named as _, WorkflowPlannerName};
use coalloc_proto::v1;

use self::file::WorkflowFile;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::request::planner_parser;
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::text;
use crate::kit::when::{InstantArg, next_full};
use crate::user::offline::Federation;
use crate::user::wording::workflow::{ASCII, BLOCKS, Marks, body, effort, headline, refusal};

/// Workflows: activities, the data between them, and sets of activities that run at the same time
#[derive(Debug, Clone, Args)]
pub struct WorkflowArgs {
    #[command(subcommand)]
    what: WorkflowCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum WorkflowCommand {
    Check(check::CheckArgs),
    Import(import::ImportArgs),
    Plan(PlanArgs),
    Submit(submit::SubmitArgs),
    Show(submit::ShowArgs),
    Report(revise::ReportArgs),
    Revise(revise::ReviseArgs),
}

/// The workflow, and what flags replace in it.
#[derive(Debug, Clone, Args)]
struct FileArgs {
    /// The workflow, a Workflow as YAML or JSON; `-` reads standard input
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Replaces `ready`: tomorrow 14:00, now+2h, 2026-11-21T10:00:00Z. The deadline moves along
    #[arg(long, value_name = "TIME")]
    earliest_start: Option<InstantArg>,
    /// Replaces `user`
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// How a workflow is planned.
#[derive(Debug, Clone, Args)]
struct PlannerArgs {
    /// The planner
    #[arg(long, value_name = "NAME", value_parser = planner_parser::<WorkflowPlannerName>())]
    planner: Option<WorkflowPlannerName>,
    /// Maximum number of paths on one route [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::ROUTE_EDGES_MAX)))]
    max_paths: Option<u32>,
    /// How often a planner that goes back may give an earlier activity its next site [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(limits::DISCREPANCIES_MAX)))]
    discrepancies: Option<u32>,
}

impl PlannerArgs {
    fn options(&self) -> v1::WorkflowOptions {
        v1::WorkflowOptions {
            planner: self.planner.map(|planner| planner.name().to_owned()),
            max_paths_per_route: self.max_paths,
            discrepancies: self.discrepancies,
            tries: None,
        }
    }
}

/// Plan a workflow and hold nothing
///
/// With --federation no daemon is needed: the file says what there is and what is taken. A workflow without
/// `ready` is then planned from the next full minute on.
#[derive(Debug, Clone, Args)]
struct PlanArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Plan offline, on this FederationFile (YAML or JSON)
    #[arg(long, value_name = "FILE", conflicts_with = "grc")]
    federation: Option<PathBuf>,
    #[command(flatten)]
    planner: PlannerArgs,
    /// Draw with ASCII only
    #[arg(long)]
    ascii: bool,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the PlanWorkflowResponse as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc workflow`.
///
/// # Errors
/// When a file is wrong, the coordinator cannot be asked, or the outcome is unknown.
pub async fn run(args: &WorkflowArgs) -> Result<Answer, Failure> {
    match &args.what {
        WorkflowCommand::Check(args) => check::run(args),
        WorkflowCommand::Import(args) => import::run(args),
        WorkflowCommand::Plan(args) => plan(args).await,
        WorkflowCommand::Submit(args) => submit::run(args).await,
        WorkflowCommand::Show(args) => submit::show(args).await,
        WorkflowCommand::Report(args) => revise::report(args).await,
        WorkflowCommand::Revise(args) => revise::revise(args).await,
    }
}

const fn marks(ascii: bool) -> Marks {
    if ascii { ASCII } else { BLOCKS }
}

async fn plan(args: &PlanArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    let file = WorkflowFile::read(&args.file, now)?;
    let options = args.planner.options();
    let response = match &args.federation {
        Some(path) => {
            let federation = Federation::read(path)?;
            let soonest = next_full(Span::from_secs(60), now);
            let parsed = file.parse(Some(&federation), soonest)?;
            let options = file.options(&options)?;
            federation.plan_workflow(&parsed, options).map_err(|error| file.mistake(&error))?
        }
        None => {
            // What is wrong in the file alone is said before anybody is asked.
            file.parse(None, next_full(Span::from_secs(60), now))?;
            let mut client = args.grc.connect_workflows().await?;
            let (workflow, options) = (Some(file.request.clone()), Some(options));
            let request = v1::PlanWorkflowRequest { workflow, options };
            let answer = client.plan_workflow(request).await;
            answer.map_err(|status| file.failure(&status, rpc::failure(&status)))?.into_inner()
        }
    };
    let exit = if response.plan.is_some() { Exit::Done } else { Exit::Refused };
    let text = match args.json {
        true => text::json(&response)?,
        false => describe(&response, marks(args.ascii)),
    };
    Ok(Answer { text, exit })
}

/// The answer for people.
#[must_use]
pub fn describe(response: &v1::PlanWorkflowResponse, marks: Marks) -> String {
    let effort = effort(response.effort.as_ref());
    match (&response.plan, &response.refusal) {
        (Some(plan), _) => format!(
            "plan: {}\n\n{}\nnothing is reserved; {effort}\n",
            headline(plan),
            body(plan, marks)
        ),
        (None, refused) => {
            let refused = refused.as_ref().map(refusal).unwrap_or_default();
            format!("no plan: {refused}\nnothing is reserved; {effort}\n")
        }
    }
}
