//! `coalloc workflow check`: what is in a workflow file.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use coalloc_common::{Span, limits};
use coalloc_net::convert::{ParsedWorkflow, merged_sets, workflow_options};

use super::FileArgs;
use super::file::WorkflowFile;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::text;
use crate::kit::when::next_full;
use crate::user::offline::Federation;
use crate::user::wording::workflow;

/// Check a workflow file and say what was read
///
/// With --federation the names of sites are looked up, and the critical path is computed: no plan can be
/// shorter.
#[derive(Debug, Clone, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Check against this FederationFile (YAML or JSON)
    #[arg(long, value_name = "FILE")]
    federation: Option<PathBuf>,
    /// Print the Workflow as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc workflow check`.
pub(super) fn run(args: &CheckArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    let file = WorkflowFile::read(&args.file, now)?;
    let federation = args.federation.as_deref().map(Federation::read).transpose()?;
    let parsed = file.parse(federation.as_ref(), next_full(Span::from_secs(60), now))?;
    if args.json {
        return Ok(Answer::done(text::json(&file.request)?));
    }
    let mut out = what_was_read(&parsed);
    let exit = match &federation {
        None => Exit::Done,
        Some(federation) => {
            let (text, exit) = critical_path(federation, &parsed);
            out += &text;
            exit
        }
    };
    Ok(Answer { text: out, exit })
}

fn what_was_read(parsed: &ParsedWorkflow) -> String {
    let ParsedWorkflow { workflow, graph } = parsed;
    let activities = match workflow.activities.len() {
        1 => "1 activity".to_owned(),
        count => format!("{count} activities"),
    };
    let dependencies: usize = workflow.data.iter().map(|item| item.consumers.len()).sum();
    let dependencies = match dependencies {
        1 => "1 dependency".to_owned(),
        count => format!("{count} dependencies"),
    };
    // Writing to a String cannot fail, here and below.
    let mut out = format!(
        "{activities}, {} with {dependencies}, {}\n",
        text::count(workflow.data.len(), "data item"),
        text::count(workflow.channels.len(), "channel")
    );
    for node in graph.nodes.iter().filter(|node| node.is_set()) {
        let names = node.members.iter().map(|one| workflow.activities[*one].name.to_string());
        let names: Vec<String> = names.collect();
        let channels = text::count(node.channels.len(), "channel");
        let _ = writeln!(out, "at the same time: {}, with {channels}", text::enumerate(&names));
    }
    for merged in merged_sets(parsed) {
        let _ = writeln!(out, "{}", workflow::merged_sets(&merged));
    }
    for set in &workflow.same_site {
        let names = set.iter().map(|one| workflow.activities[*one].name.to_string());
        let names: Vec<String> = names.collect();
        let _ = writeln!(out, "at one site: {}", text::enumerate(&names));
    }
    let (ready, deadline) = (text::moment_of(workflow.ready), text::moment_of(workflow.deadline));
    let _ = writeln!(out, "ready at {ready}, deadline {deadline}");
    out
}

/// The critical path, and whether the deadline leaves time for it.
fn critical_path(federation: &Federation, parsed: &ParsedWorkflow) -> (String, Exit) {
    let workflow = &parsed.workflow;
    let options = match workflow_options(None) {
        Ok(options) => options,
        Err(error) => return (format!("{error}\n"), Exit::Failed),
    };
    match federation.critical_path(parsed, options) {
        Ok(path) => {
            let end = workflow.ready.saturating_add(path.least);
            let seconds = path.mean.as_us().unsigned_abs().div_ceil(1_000_000);
            let mean = Span::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            let text = format!(
                "critical path: {} at the fastest sites, in whole slots of {}; {} with mean speeds and rates, not rounded\n",
                path.least,
                limits::WORKFLOW_SLOT,
                mean
            );
            if end <= workflow.deadline {
                return (text, Exit::Done);
            }
            let late = format!(
                "the deadline cannot be met: even if nothing else runs, the workflow ends at {}\n",
                text::moment_of(end)
            );
            (text + &late, Exit::Refused)
        }
        Err(nowhere) => {
            let name = &workflow.activities[nowhere].name;
            let text = format!(
                "{name} can run at no site: none that it may use has the CPUs and all else that it needs\n"
            );
            (text, Exit::Refused)
        }
    }
}
