//! `coalloc plan`: shows what could be reserved and why the rest could not, and holds nothing.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use coalloc_common::{Span, Time};
use coalloc_plan::multicost::TaskPlannerName;
use coalloc_proto::v1;

use crate::exit::{Answer, Exit, Failure};
use crate::offline::Federation;
use crate::request::{ParsedRequest, RequestArgs};
use crate::rpc::{self, GrcArgs};
use crate::task::{self, SlotArgs, TaskFile};
use crate::when::next_full;
use crate::{refused, text};

/// Plan a request and hold nothing
///
/// With --federation no daemon is needed: the file says what there is and what is taken.
/// A request without earliest_start is then planned for the next full minute.
/// With --planner the request is a task (a TaskRequest): data that travel, then a run.
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
    #[arg(long, value_name = "NAME", value_parser = task::planner_parser(), help_heading = "Tasks",
          conflicts_with_all = ["latest_start", "frames", "max_paths", "objective", "solver"])]
    planner: Option<TaskPlannerName>,
    #[command(flatten)]
    slots: SlotArgs,
    /// Print the PlanResponse (the TaskPlanResponse, with --planner) as JSON
    #[arg(long)]
    json: bool,
}

pub mod table;

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
    let text = if args.json { text::json(&response)? } else { describe_as(&response, &asked) };
    Ok(Answer { text, exit })
}

async fn run_task(args: &PlanArgs, planner: TaskPlannerName, now: Time) -> Result<Answer, Failure> {
    let RequestArgs { request, earliest_start, user, search, .. } = &args.request;
    let file = TaskFile::read(request, *earliest_start, user.as_ref(), now)?;
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

async fn ask(grc: &GrcArgs, asked: &ParsedRequest) -> Result<v1::PlanResponse, Failure> {
    let mut client = grc.connect().await?;
    let request = v1::PlanRequest {
        request: Some(asked.request.clone()),
        options: Some(asked.options.clone()),
    };
    let response = client.plan(request).await;
    let response = response.map_err(|status| asked.failure(&status, rpc::failure(&status)))?;
    Ok(response.into_inner())
}

/// The answer for people: a table that compares the plans, then each plan.
#[must_use]
pub fn describe_as(response: &v1::PlanResponse, asked: &ParsedRequest) -> String {
    let table = table::table(&response.plans, &asked.options.objectives);
    let between = if table.is_empty() { "" } else { "\n" };
    table + between + &describe(response)
}

/// The answer for people, plan by plan.
#[must_use]
pub fn describe(response: &v1::PlanResponse) -> String {
    let mut out = String::new();
    for (index, plan) in response.plans.iter().enumerate() {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "plan {}: {}", index + 1, headline(plan));
        out += &body(plan);
        out.push('\n');
    }
    if !response.refused.is_empty() {
        let frames = text::count(response.refused.len(), "time frame");
        let verb = if response.refused.len() == 1 { "has" } else { "have" };
        let _ = writeln!(out, "{frames} {verb} no plan:");
        out += &refused::frames(&response.refused);
        out.push('\n');
    }
    if !response.unreachable.is_empty() {
        let names = text::enumerate(&response.unreachable);
        let _ = writeln!(out, "did not answer, so their resources counted as taken: {names}\n");
    }
    if let Some(found) = &response.alternatives {
        out += &refused::alternatives(found);
        out.push('\n');
    }
    let _ = writeln!(out, "{}; nothing is reserved", text::count(response.plans.len(), "plan"));
    out
}

/// When the plan runs, what it costs, and how close to the optimum it is.
#[must_use]
pub fn headline(plan: &v1::Plan) -> String {
    let window = text::window(plan.window.as_ref());
    let length = text::length(plan.window.as_ref()).unwrap_or(Span::ZERO);
    let cost = text::points(plan.cost_millipoints);
    let price =
        table::price(plan).map_or_else(String::new, |price| format!(", price {price} points"));
    let quality = if plan.proven_optimal {
        "proven optimal".to_owned()
    } else if !plan.coarse.is_empty() {
        "not proven optimal: there were too many objectives for exact sums".to_owned()
    } else if plan.lower_bound_millipoints == 0 {
        "not proven optimal".to_owned()
    } else {
        let bound = text::points(plan.lower_bound_millipoints);
        format!("not proven optimal: none is below {bound} (gap {})", gap(plan))
    };
    format!("{window} ({length}){price}, cost {cost} points, {quality}")
}

/// Returns by how much, at most, the cheapest plan could be cheaper than this one, in percent of this
/// plan's cost.
///
/// The result is rounded up, so that an open gap is never shown as closed.
fn gap(plan: &v1::Plan) -> String {
    let cost = u128::from(plan.cost_millipoints.max(1));
    let open = u128::from(plan.cost_millipoints.saturating_sub(plan.lower_bound_millipoints));
    let hundredths = (open * 10_000).div_ceil(cost);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// The RM of each site and the path of each link, one line each, in columns.
#[must_use]
pub fn body(plan: &v1::Plan) -> String {
    let mut lines: Vec<[String; 3]> = Vec::new();
    for placement in &plan.placements {
        let cpus = coalloc_common::Cpus(placement.cpus).to_string();
        lines.push([placement.site.clone(), cpus, format!("at {}", placement.at)]);
    }
    for route in &plan.routes {
        let ends = format!("{} -> {}", route.from, route.to);
        lines.push([ends, text::rate(route.bandwidth_bps), way(route)]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let (names, amounts) = (width(0), width(1));
    let mut out = String::new();
    for [name, amount, place] in &lines {
        let _ = writeln!(out, "  {name:names$}  {amount:amounts$}  {place}");
    }
    out
}

fn way(route: &v1::Route) -> String {
    let via = route.via.join(" -> ");
    let paths = route.paths.join(", ");
    let latency = match &route.latency {
        Some(latency) if latency.seconds != 0 || latency.nanos != 0 => {
            format!(", {}", text::span(Some(latency)))
        }
        _ => String::new(),
    };
    format!("{via} (by {paths}{latency})")
}

#[cfg(test)]
mod tests;
