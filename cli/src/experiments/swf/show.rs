//! `coalloc trace show`: what is in a trace.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use coalloc_common::Time;
use coalloc_sim::jobs::Selection;
use coalloc_sim::jobs::swf::SwfHeader;
use coalloc_sim::jobs::workload::SelectedJobs;
use serde::Serialize;

use super::read;
use crate::kit::exit::{Answer, Failure};
use crate::kit::text;

/// Show what is in a trace of jobs: how many, how long, how large, and which cannot take part
///
/// FILE is in the Standard Workload Format, plain or packed with gzip. The jobs are those that the model
/// `jobs` of `coalloc sim` would run.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  coalloc trace show KTH-SP2-1996-2-raw.swf.gz\n  \
                        coalloc trace show --servers 512 --least-cpu-s 550 --json CTC.swf | jq .mean_run_h\n\n\
                        Traces: https://www.cs.huji.ac.il/labs/parallel/workload/logs.html")]
pub(super) struct ShowArgs {
    /// The trace's file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of servers [default: MaxProcs of the trace, else MaxNodes]
    #[arg(long, value_name = "N")]
    servers: Option<u64>,
    /// Only jobs whose processors had at least this CPU time on average, in seconds
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    least_cpu_s: Option<i64>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// What is in a trace; its field names are those of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    computer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_procs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_nodes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    notes: Vec<String>,
    servers: u64,
    jobs: u64,
    dropped_without_run: u64,
    dropped_without_servers: u64,
    dropped_too_large: u64,
    filtered: u64,
    span_h: f64,
    mean_run_h: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_logged_wait_h: Option<f64>,
    /// Servers' time that the jobs want, as a share of what there is from the first submission to the last;
    /// absent if all jobs come at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    offered_load: Option<f64>,
    runs_under_2h: f64,
    estimates_under_2h: f64,
    one_server: f64,
    /// Shares of jobs by size, each with the end of its bin: (0, 50], (50, 100], ..
    sizes: BTreeMap<i64, f64>,
}

/// Runs the command.
///
/// # Errors
/// When the file is not a trace, or has no job that can take part.
pub(super) fn run(args: &ShowArgs) -> Result<Answer, Failure> {
    let file = read(&args.file).map_err(Failure::bad_input)?;
    let selection =
        Selection { servers: args.servers, least_cpu_s: args.least_cpu_s, ..Selection::default() };
    let shown = args.file.display().to_string();
    let selected = SelectedJobs::of(&file.trace, &selection).map_err(|mut error| {
        // The settings of experiments have the names of the options, with other lines.
        if error.field != "trace" {
            error.field = format!("--{}", error.field.replace('_', "-"));
        }
        Failure::bad_input(format!("{shown}: {error}"))
    })?;
    let report = report(shown, &file.trace.header, &selected);
    if args.json {
        return Ok(Answer::done(text::json(&report)?));
    }
    Ok(Answer::done(lines(&report)))
}

const HOUR: i64 = 3_600;

fn hours(s: i64) -> f64 {
    s as f64 / HOUR as f64
}

fn report(file: String, header: &SwfHeader, selected: &SelectedJobs) -> Report {
    let (jobs, span) = (&selected.jobs, selected.span_s());
    let count = jobs.len() as f64;
    let mut sizes: BTreeMap<i64, u64> = BTreeMap::new();
    let (mut short, mut short_estimates, mut single, mut wanted) = (0_u64, 0_u64, 0_u64, 0.0);
    for job in jobs {
        *sizes.entry((job.servers + 49) / 50 * 50).or_insert(0) += 1;
        short += u64::from(job.run < 2 * HOUR);
        short_estimates += u64::from(job.estimate < 2 * HOUR);
        single += u64::from(job.servers == 1);
        wanted += job.servers as f64 * job.run as f64;
    }
    let there = selected.servers as f64 * span as f64;
    let start = header.unix_start_time.map(|s| s.saturating_mul(1_000_000));
    Report {
        file,
        computer: header.computer.clone(),
        max_procs: header.max_procs,
        max_nodes: header.max_nodes,
        start: start.map(|us| Time::from_us(us).to_string()),
        notes: header.notes.clone(),
        servers: selected.servers,
        jobs: jobs.len() as u64,
        dropped_without_run: selected.without_run,
        dropped_without_servers: selected.without_servers,
        dropped_too_large: selected.too_large,
        filtered: selected.filtered,
        span_h: hours(span),
        mean_run_h: selected.mean_run_s() / HOUR as f64,
        longest_logged_wait_h: selected.longest_logged_wait_s().map(hours),
        offered_load: (span > 0).then(|| wanted / there),
        runs_under_2h: short as f64 / count,
        estimates_under_2h: short_estimates as f64 / count,
        one_server: single as f64 / count,
        sizes: sizes.into_iter().map(|(end, jobs)| (end, jobs as f64 / count)).collect(),
    }
}

fn lines(report: &Report) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let none = || "-".to_owned();
    let sizes = report.sizes.iter();
    let sizes: Vec<String> =
        sizes.map(|(end, share)| format!("{} to {end}: {}", end - 49, percent(*share))).collect();
    let dropped = [
        (report.dropped_without_run, "without a run time"),
        (report.dropped_without_servers, "without a size"),
        (report.dropped_too_large, "too large"),
        (report.filtered, "filtered"),
    ];
    let dropped: Vec<String> = dropped.map(|(count, why)| format!("{count} {why}")).into();
    let rows = [
        ("computer", report.computer.clone().unwrap_or_else(none)),
        ("start", report.start.clone().unwrap_or_else(none)),
        ("servers", report.servers.to_string()),
        ("jobs", report.jobs.to_string()),
        ("dropped", dropped.join(", ")),
        ("span", format!("{:.1} days of submissions", report.span_h / 24.0)),
        ("mean run", format!("{:.3} h", report.mean_run_h)),
        (
            "longest wait",
            report
                .longest_logged_wait_h
                .map_or_else(none, |wait| format!("{wait:.2} h in the log")),
        ),
        ("load", report.offered_load.map_or_else(none, percent)),
        (
            "under 2 h",
            format!(
                "{} of run times, {} of estimates",
                percent(report.runs_under_2h),
                percent(report.estimates_under_2h)
            ),
        ),
        ("one server", percent(report.one_server)),
        ("sizes", sizes.join(", ")),
    ];
    let mut out = format!("{}\n", report.file);
    for (name, value) in rows {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "  {name:<13} {value}");
    }
    for note in &report.notes {
        let _ = writeln!(out, "  {:<13} {note}", "note");
    }
    out
}
