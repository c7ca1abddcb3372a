//! `coalloc plan`: shows what could be reserved and why the rest could not, and holds nothing.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use coalloc_common::{Span, Time};
use coalloc_plan::{Named as _, TaskPlannerName};
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::request::{ParsedRequest, RequestArgs, planner_parser};
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::text;
use crate::kit::when::next_full;
use crate::user::offline::Federation;
use crate::user::task::{self, SlotArgs, TaskFile};
use crate::user::wording::comparison::{compare, table};
use crate::user::wording::plan::{body, headline};
use crate::user::wording::refusal;

/// Plan a request and hold nothing
///
/// The request is a file (--request), or flags: `--site a=4 --site b=8 --link a-b=2G --for 1h`.
/// With --federation no daemon is needed: the file says what there is and what is taken.
/// A request without earliest_start is then planned for the next full minute.
/// Of several plans the answer has what all of them have, then a line with what differs for each; --full prints each
/// plan whole. With --planner the request is a task (a TaskRequest): data that travel, then a run.
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    request: RequestArgs,
    /// Plan offline, on this FederationFile (YAML or JSON)
    #[arg(long, value_name = "FILE", conflicts_with = "grc")]
    federation: Option<PathBuf>,
    #[command(flatten)]
    grc: GrcArgs,
    /// The request is a TaskRequest; plan it with this planner
    #[arg(long, value_name = "NAME", value_parser = planner_parser::<TaskPlannerName>(), help_heading = "Tasks",
          conflicts_with_all = ["site", "length", "latest_start", "before", "frames", "max_paths", "objective", "solver",
                                "manual_provision", "series"])]
    planner: Option<TaskPlannerName>,
    #[command(flatten)]
    slots: SlotArgs,
    /// Print each plan whole, and not only what differs between them
    #[arg(long, conflicts_with = "planner")]
    full: bool,
    /// Print the PlanResponse (the TaskPlanResponse, with --planner) as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc plan`.
///
/// # Errors
/// When a file is wrong or the coordinator cannot be asked.
pub async fn run(args: &PlanArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    if let Some(planner) = args.planner {
        return run_task(args, planner, now).await;
    }
    let asked = args.request.load(now)?;
    let response = match &args.federation {
        Some(path) => Federation::read(path)?.plan(&asked, next_full(Span::from_secs(60), now))?,
        None => ask(&args.grc, &asked).await?,
    };
    let exit = if response.plans.is_empty() { Exit::Refused } else { Exit::Done };
    let text = match (args.json, args.full) {
        (true, _) => text::json(&response)?,
        (_, true) => describe(&response, &asked),
        _ if response.plans.len() < 2 => describe(&response, &asked),
        _ => {
            summarize(&response, &asked)
                + "--full prints each plan whole; `coalloc reserve --plan DIGEST` with the same flags reserves one\n"
        }
    };
    Ok(Answer { text, exit })
}

async fn run_task(args: &PlanArgs, planner: TaskPlannerName, now: Time) -> Result<Answer, Failure> {
    let RequestArgs { request, terms, search, .. } = &args.request;
    let needs = || Failure::bad_input("--planner: needs a task in a file: --request FILE");
    let path = request.as_deref().ok_or_else(needs)?;
    let earliest = terms.after.as_ref().or(terms.earliest_start.as_ref());
    let file = TaskFile::read(path, earliest, terms.user.as_ref(), now)?;
    let options = v1::TaskOptions {
        planner: Some(planner.name().to_owned()),
        plans: search.plans,
        ..args.slots.options()
    };
    let response = match &args.federation {
        Some(path) => {
            let federation = Federation::read(path)?;
            let paper = file.on(&federation, &options, now)?;
            federation.plan_task(&paper).map_err(|error| file.mistake(&error))?
        }
        None => {
            let (task, options) = (Some(file.request.clone()), Some(options));
            let mut client = args.grc.connect().await?;
            let answer = client.plan_task(v1::PlanTaskRequest { task, options }).await;
            let answer = answer.map_err(|status| file.failure(&status, rpc::failure(&status)))?;
            let empty = || Failure::internal("an answer without content");
            answer.into_inner().answer.ok_or_else(empty)?
        }
    };
    let exit = if response.plans.is_empty() { Exit::Refused } else { Exit::Done };
    let text = if args.json { text::json(&response)? } else { task::describe(&response) };
    Ok(Answer { text, exit })
}

/// Asks a coordinator for plans.
///
/// # Errors
/// When the request is wrong or the coordinator cannot be asked.
pub async fn ask(grc: &GrcArgs, asked: &ParsedRequest) -> Result<v1::PlanResponse, Failure> {
    let mut client = grc.connect().await?;
    let request = v1::PlanRequest {
        request: Some(asked.request.clone()),
        options: Some(asked.options.clone()),
    };
    let response = client.plan(request).await;
    let response = response.map_err(|status| asked.failure(&status, rpc::failure(&status)))?;
    Ok(response.into_inner())
}

/// The answer for people: of several plans what they have in common, and a line each; of one plan the whole.
/// `asked` is what the caller asked for.
#[must_use]
pub fn summarize(response: &v1::PlanResponse, asked: &ParsedRequest) -> String {
    if response.plans.len() < 2 {
        return describe(response, asked);
    }
    let plans = compare(&response.plans, &asked.options.objectives);
    format!("{plans}\n{}", without_plan(response, asked))
}

/// The answer for people, plan by plan, after a table that compares them.
#[must_use]
pub fn describe(response: &v1::PlanResponse, asked: &ParsedRequest) -> String {
    let (plans, objectives) = (&response.plans, &asked.options.objectives);
    let mut out = String::new();
    if plans.len() > 1 || !plans.is_empty() && !objectives.is_empty() {
        out += &table(plans, objectives);
        out.push('\n');
    }
    for (index, plan) in plans.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "plan {}: {}", index + 1, headline(plan));
        out += &body(plan);
        out.push('\n');
    }
    out + &without_plan(response, asked)
}

/// The rest of an answer: why some or all frames have no plan, what could be asked for instead, and how many plans there are.
fn without_plan(response: &v1::PlanResponse, asked: &ParsedRequest) -> String {
    let mut out = String::new();
    if !response.refused.is_empty() {
        let frames = text::count(response.refused.len(), "time frame");
        let verb = if response.refused.len() == 1 { "has" } else { "have" };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "{frames} {verb} no plan:");
        out += &refusal::frames(&response.refused);
        out.push('\n');
    }
    if !response.unreachable.is_empty() {
        let names = text::enumerate(&response.unreachable);
        let _ = writeln!(out, "did not answer, so their resources counted as taken: {names}\n");
    }
    if let Some(found) = &response.alternatives {
        out += &refusal::alternatives(found, asked.of_flags_alone());
        out.push('\n');
    }
    let _ = writeln!(out, "{}; nothing is reserved", text::count(response.plans.len(), "plan"));
    if response.plans.is_empty() {
        let refused = response.refused.iter().filter_map(|frame| frame.refusal.as_ref());
        out += asked.how_to_try_more_starts(refused);
    }
    out
}

#[cfg(test)]
mod tests;
