//! Tasks on the command line: their files and flags, and how their plans are shown to people.

pub mod submit;

use std::fmt::Write as _;
use std::path::Path;

use clap::Args;
use coalloc_common::{InvalidField, Span, Time};
use coalloc_net::convert::{span_to_wire, time_to_wire};
use coalloc_plan::{Named as _, TaskPlannerName};
use coalloc_proto::file::Document;
use coalloc_proto::v1;

use crate::kit::exit::Failure;
use crate::kit::input_file::{FileKind, read_input};
use crate::kit::request::rate_hardly_meant;
use crate::kit::rpc;
use crate::kit::text;
use crate::kit::when::{InstantArg, Length, next_full};
use crate::user::offline::Federation;
use crate::user::offline::task::TaskOnPaper;

/// How far availability vectors reach, and the length of their slots.
#[derive(Debug, Clone, Default, Args)]
pub struct SlotArgs {
    /// Length of a slot of the paths' vectors: 100ms, 1s [default: 10,000 slots over the horizon]
    #[arg(long, value_name = "LENGTH", help_heading = "Tasks")]
    pub link_slot: Option<Length>,
    /// Length of a slot of the clusters' vectors [default: that of the paths]
    #[arg(long, value_name = "LENGTH", help_heading = "Tasks")]
    pub cluster_slot: Option<Length>,
    /// How far the vectors reach, counted from when the task is ready [default: 1h, or to its deadline]
    #[arg(long, value_name = "LENGTH", help_heading = "Tasks")]
    pub horizon: Option<Length>,
}

impl SlotArgs {
    /// The fields that the flags set, each with its flag.
    const FLAGS: [(&'static str, &'static str); 5] = [
        ("options.link_slot", "--link-slot"),
        ("options.cluster_slot", "--cluster-slot"),
        ("options.horizon", "--horizon"),
        ("options.plans", "--plans"),
        ("options.planner", "--planner"),
    ];

    /// The options that these flags set.
    #[must_use]
    pub fn options(&self) -> v1::TaskOptions {
        let span = |length: Option<Length>| length.map(|length| span_to_wire(length.0));
        v1::TaskOptions {
            link_slot: span(self.link_slot),
            cluster_slot: span(self.cluster_slot),
            horizon: span(self.horizon),
            ..v1::TaskOptions::default()
        }
    }

    /// The options that these flags and the planner set; `None` when nothing is set.
    #[must_use]
    pub fn options_of(&self, planner: Option<TaskPlannerName>) -> Option<v1::TaskOptions> {
        let planner = planner.map(|planner| planner.name().to_owned());
        let options = v1::TaskOptions { planner, ..self.options() };
        Some(options).filter(|options| *options != v1::TaskOptions::default())
    }
}

/// A task file that was read, and what flags replaced in it.
#[derive(Debug)]
pub struct TaskFile {
    /// The task.
    pub request: v1::TaskRequest,
    document: Document<v1::TaskRequest>,
    ready_is_a_flag: bool,
}

impl TaskFile {
    /// Reads a task; `-` is standard input. `ready` and `user` replace what the file says.
    ///
    /// # Errors
    /// When the file is not a task.
    pub fn read(
        path: &Path,
        ready: Option<&InstantArg>,
        user: Option<&String>,
        now: Time,
    ) -> Result<Self, Failure> {
        let document: Document<v1::TaskRequest> = read_input(path, FileKind::Task)?;
        if let Some(problem) = rate_hardly_meant(document.message.bandwidth_bps) {
            return Err(document.mistake("bandwidth_bps", &problem).into());
        }
        let mut request = document.message.clone();
        if let Some(when) = ready {
            let at = when.at(now);
            let moved =
                text::time(request.ready.as_ref()).zip(text::time(request.deadline.as_ref()));
            if let Some((was, deadline)) = moved {
                request.deadline = Some(time_to_wire(at.saturating_add(deadline.since(was))));
            }
            request.ready = Some(time_to_wire(at));
        }
        if let Some(user) = user {
            request.user.clone_from(user);
        }
        Ok(Self { request, document, ready_is_a_flag: ready.is_some() })
    }

    /// The meaning of a failed call: a mistake that the coordinator found is in this file or its flags.
    #[must_use]
    pub fn failure(&self, status: &tonic::Status, otherwise: Failure) -> Failure {
        let Some((field, description)) = rpc::violations(status).into_iter().next() else {
            return otherwise;
        };
        let field = field.strip_prefix("task.").unwrap_or(&field);
        match SlotArgs::FLAGS.iter().find(|(of, _)| *of == field) {
            Some((_, flag)) => Failure::bad_input(format!("{flag}: {description}")),
            None if field.starts_with("options") => otherwise,
            None => self.document.mistake(field, &description).into(),
        }
    }

    /// The task, resolved on the federation's picture.
    ///
    /// # Errors
    /// The first mistake: its line, or the flag that caused it.
    pub fn on(
        &self,
        federation: &Federation,
        options: &v1::TaskOptions,
        now: Time,
    ) -> Result<TaskOnPaper, Failure> {
        let soonest = next_full(Span::from_secs(60), now);
        federation.task(&self.request, options, soonest).map_err(|error| self.mistake(&error))
    }

    /// An error in the meaning of this task.
    #[must_use]
    pub fn mistake(&self, error: &InvalidField) -> Failure {
        let problem = error.problem();
        let flag = SlotArgs::FLAGS.iter().find(|(field, _)| *field == error.field);
        if let Some((_, flag)) = flag {
            return Failure::bad_input(format!("{flag}: {problem}"));
        }
        if error.field == "ready" && self.ready_is_a_flag {
            return Failure::bad_input(format!("--earliest-start: {problem}"));
        }
        self.document.mistake(&error.field, &problem).into()
    }
}

/// The answer for people.
#[must_use]
pub fn describe(response: &v1::TaskPlanResponse) -> String {
    let mut out = String::new();
    for (index, plan) in response.plans.iter().enumerate() {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "plan {}: {}", index + 1, headline(plan));
        out += &body(plan);
        out.push('\n');
    }
    if let Some(refusal) = &response.refusal {
        let _ = writeln!(out, "no plan: {}\n", text::refusal(refusal));
    }
    if let Some(plan) = &response.nearest {
        let _ = writeln!(out, "without the deadline: {}", headline(plan));
        out += &body(plan);
        out.push('\n');
    }
    let plans = text::count(response.plans.len(), "plan");
    let taken = effort(&response.effort.unwrap_or_default());
    let _ = writeln!(out, "{plans}; nothing is reserved; {taken}");
    out
}

/// How much work planning took.
fn effort(effort: &v1::TaskEffort) -> String {
    let v1::TaskEffort { operations, paths, tried } = effort;
    format!("{operations} operations, {paths} of {} paths kept", tried.max(paths))
}

/// The cluster, the end, and how good that is.
fn headline(plan: &v1::TaskPlan) -> String {
    let ends = match &plan.delivered {
        Some(delivered) => format!("results delivered at {}", text::moment(Some(delivered))),
        None => {
            let end = plan.run.as_ref().and_then(|run| run.end.as_ref());
            format!("done at {}", text::moment(end))
        }
    };
    let quality = if plan.proven_optimal { "proven optimal" } else { "not proven optimal" };
    format!("at {}, {ends}, {} ({quality})", plan.cluster, plan.planner)
}

/// The legs and the run, one line each, in columns.
fn body(plan: &v1::TaskPlan) -> String {
    let looked = plan.legs_looked_at as usize;
    let leg = |verb: &str, leg: &v1::TaskLeg, unseen: bool| {
        let way = format!("{} -> {} (by {})", leg.from, leg.to, leg.path);
        let unseen = if unseen { ", not looked at" } else { "" };
        [verb.to_owned(), way, text::window(leg.window.as_ref()) + unseen]
    };
    let mut lines: Vec<[String; 3]> = Vec::new();
    lines.extend(plan.legs.iter().enumerate().map(|(at, one)| leg("send", one, at >= looked)));
    let cpus = coalloc_common::Cpus(plan.cpus);
    let run = text::window(plan.run.as_ref());
    lines.push(["run".to_owned(), format!("{cpus} at {}", plan.cluster), run]);
    lines.extend(plan.output_legs.iter().map(|one| leg("return", one, false)));
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let (verbs, ways) = (width(0), width(1));
    let mut out = String::new();
    for [verb, way, when] in &lines {
        let _ = writeln!(out, "  {verb:verbs$}  {way:ways$}  {when}");
    }
    out
}
