//! Plans and refusals of workflows as people read them: a table with a Gantt chart beside it, and the critical path.

use std::fmt::Write as _;

use coalloc_common::{Span, Time};
use coalloc_net::convert::{time_to_wire, window_from_wire};
use coalloc_proto::v1;

use crate::kit::text;

/// Most rows of a chart; the rest is counted.
const ROWS_MAX: usize = 120;
/// Least and most columns of a chart.
const COLUMNS: (usize, usize) = (10, 60);

/// The characters of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    single: char,
    set: char,
    transfer: char,
    nothing: char,
}

/// Blocks: an activity, a member of a synchronous set, a transfer, nothing.
pub const BLOCKS: Marks = Marks { single: '█', set: '▓', transfer: '─', nothing: '·' };
/// For terminals that have only ASCII.
pub const ASCII: Marks = Marks { single: '#', set: '=', transfer: '-', nothing: '.' };

/// One row of the chart.
struct Row {
    what: String,
    place: String,
    amounts: String,
    start: Time,
    end: Time,
    mark: char,
}

/// The head of a plan in one line: when, with which planner, and how long.
#[must_use]
pub fn headline(plan: &v1::WorkflowPlan) -> String {
    let summary = plan.summary.clone().unwrap_or_default();
    let sites = text::count(summary.sites.len(), "site");
    let activities = match summary.activities {
        1 => "1 activity".to_owned(),
        count => format!("{count} activities"),
    };
    format!(
        "{activities} at {sites}, {}, makespan {} ({})",
        text::window(plan.window.as_ref()),
        text::span(plan.makespan.as_ref()),
        plan.planner
    )
}

/// The plan: every activity, transfer and channel in the order of their starts, with a chart, and the critical path.
#[must_use]
pub fn body(plan: &v1::WorkflowPlan, marks: Marks) -> String {
    let rows = rows(plan, marks);
    let mut out = chart(&rows, marks);
    if !plan.critical_path.is_empty() {
        let _ = writeln!(out, "critical path: {}", critical_path(&plan.critical_path));
    }
    for merged in &plan.merged {
        let _ = writeln!(out, "{}", merged_sets(merged));
    }
    let summary = plan.summary.clone().unwrap_or_default();
    let counts = summary.segments.iter();
    let counts: Vec<String> =
        counts.map(|of| format!("{} {}", of.resource_manager, of.segments)).collect();
    let _ = writeln!(out, "segments, in one Hold for each resource manager: {}", counts.join(", "));
    out
}

/// Which sets overlap and therefore are one.
#[must_use]
pub fn merged_sets(merged: &v1::MergedSets) -> String {
    let sets: Vec<String> = merged.sync_sets.iter().map(|at| format!("sync_sets[{at}]")).collect();
    let sets = text::enumerate(&sets);
    format!("{sets} overlap, so they are one set: {}", merged.activities.join(", "))
}

/// How far an activity is, for people; `None` when the plan does not say.
fn progress(one: &v1::PlannedActivity) -> Option<String> {
    let word = match one.progress() {
        v1::ActivityProgress::Waiting => "waits",
        v1::ActivityProgress::Running => "runs",
        v1::ActivityProgress::Finished => "ended",
        v1::ActivityProgress::Failed => "failed",
        v1::ActivityProgress::Unspecified => return None,
    };
    Some(if one.reported { format!("{word} (reported)") } else { word.to_owned() })
}

fn rows(plan: &v1::WorkflowPlan, marks: Marks) -> Vec<Row> {
    let row = |window: &Option<v1::Window>, what, place, amounts, mark| {
        let window = window_from_wire("window", window.as_ref()).ok()?;
        Some(Row { what, place, amounts, start: window.start(), end: window.end(), mark })
    };
    let activities = plan.activities.iter().filter_map(|one| {
        let mark = if one.in_sync_set { marks.set } else { marks.single };
        let mut amounts = text::amounts(one.cpus, &one.others);
        if let Some(progress) = progress(one) {
            let _ = write!(amounts, "  {progress}");
        }
        row(&one.window, one.name.clone(), format!("at {}", one.site), amounts, mark)
    });
    let transfers = plan.transfers.iter().filter_map(|one| {
        let route = format!("{} -> {} (by {})", one.from, one.to, one.paths.join(", "));
        row(&one.window, one.data.clone(), route, text::rate(one.rate_bps), marks.transfer)
    });
    let channels = plan.channels.iter().filter(|one| !one.paths.is_empty());
    let channels = channels.filter_map(|one| {
        let what = format!("{} -> {}", one.from, one.to);
        let route = format!("channel by {}", one.paths.join(", "));
        row(&one.window, what, route, text::rate(one.bandwidth_bps), marks.transfer)
    });
    let mut rows: Vec<Row> = activities.chain(transfers).chain(channels).collect();
    rows.sort_by_key(|row| (row.start, row.end));
    rows
}

fn chart(rows: &[Row], marks: Marks) -> String {
    let (Some(first), Some(last)) =
        (rows.iter().map(|row| row.start).min(), rows.iter().map(|row| row.end).max())
    else {
        return String::new();
    };
    let shown = &rows[..rows.len().min(ROWS_MAX)];
    let width = |of: fn(&Row) -> &String| {
        shown.iter().map(|row| of(row).chars().count()).max().unwrap_or(0)
    };
    let (what, place, amounts) =
        (width(|row| &row.what), width(|row| &row.place), width(|row| &row.amounts));
    let text_width = what + place + amounts + 6;
    let left = usize::from(text::width()).saturating_sub(text_width + 2);
    let columns = left.clamp(COLUMNS.0, COLUMNS.1);
    let us = last.since(first).as_us().max(1);
    // A column is a whole number of seconds, so that the chart can be read as a clock.
    let column = us.unsigned_abs().div_ceil(1_000_000).div_ceil(columns as u64).max(1);
    let column = Span::from_secs(i64::try_from(column).unwrap_or(i64::MAX));
    let count = us.unsigned_abs().div_ceil(column.as_us().unsigned_abs());
    let mut out = String::new();
    for row in shown {
        let bar: String = (0..count)
            .map(|at| {
                let at = i64::try_from(at).unwrap_or(0);
                let start = first.saturating_add(column.saturating_mul(at));
                let end = start.saturating_add(column);
                if row.start < end && start < row.end { row.mark } else { marks.nothing }
            })
            .collect();
        let Row { what: name, place: at, amounts: much, .. } = row;
        let _ = writeln!(out, "{name:what$}  {at:place$}  {much:amounts$}  |{bar}|");
    }
    if rows.len() > shown.len() {
        let _ = writeln!(out, "and {} more rows; --json has all", rows.len() - shown.len());
    }
    let (from, until) = (time_to_wire(first), time_to_wire(last));
    let (from, until) = (text::moment(Some(&from)), text::moment(Some(&until)));
    let _ = writeln!(
        out,
        "{:text_width$}{from} to {until}, a column is {column}\n{:text_width$}{} activity, {} in a synchronous set, \
         {} on the network",
        "", "", marks.single, marks.set, marks.transfer
    );
    out
}

/// The steps of a critical path, each with its length, and the waits between them.
fn critical_path(steps: &[v1::CriticalStep]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut before: Option<Time> = None;
    for step in steps {
        let Ok(window) = window_from_wire("window", step.window.as_ref()) else { continue };
        if let Some(before) = before.filter(|before| *before < window.start()) {
            parts.push(format!("(waits {})", window.start().since(before)));
        }
        before = Some(window.end());
        parts.push(match step.activity.as_str() {
            "" => format!("{} to {} {}", step.data, step.site, window.length()),
            name => format!("{name} at {} {}", step.site, window.length()),
        });
    }
    parts.join(" > ")
}

/// Why there is no plan.
#[must_use]
pub fn refusal(refused: &v1::WorkflowRefusal) -> String {
    let why = refused.refusal.as_ref().map(text::refusal).unwrap_or_default();
    let mut out = format!("{why}\n");
    if !refused.activities.is_empty() {
        let _ = writeln!(out, "  planning failed at: {}", text::enumerate(&refused.activities));
    }
    if let Some(end) = &refused.earliest_finish {
        let end = text::moment(Some(end));
        let _ = writeln!(out, "  with a later deadline this could end at {end}");
    }
    out
}

/// The tries that resource managers refused, without the last one of a workflow that failed: its reason is that of the
/// workflow.
#[must_use]
pub fn earlier_tries(receipt: &v1::WorkflowReceipt) -> &[v1::Refusal] {
    let last = receipt.refusal.as_ref().and_then(|refused| refused.refusal.as_ref());
    match receipt.tries.split_last() {
        Some((one, before)) if last == Some(one) => before,
        _ => &receipt.tries,
    }
}

/// How much work planning took.
#[must_use]
pub fn effort(effort: Option<&v1::WorkflowEffort>) -> String {
    let v1::WorkflowEffort { placements, frames } = effort.copied().unwrap_or_default();
    format!("{placements} placements tried, {frames} windows of synchronous sets")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start_s: i64, end_s: i64) -> Option<v1::Window> {
        let at = |seconds| Some(coalloc_proto::Timestamp { seconds, nanos: 0 });
        Some(v1::Window { start: at(start_s), end: at(end_s) })
    }

    #[test]
    fn a_chart_has_a_row_for_everything_that_takes_something() {
        let activity = |name: &str, window, in_sync_set| v1::PlannedActivity {
            name: name.into(),
            site: "A".into(),
            cpus: 2,
            window,
            in_sync_set,
            ..Default::default()
        };
        let plan = v1::WorkflowPlan {
            activities: vec![
                activity("late", window(6, 8), false),
                activity("set", window(0, 4), true),
            ],
            transfers: vec![v1::PlannedTransfer {
                data: "d".into(),
                from: "A".into(),
                to: "B".into(),
                paths: vec!["A-B".into()],
                rate_bps: 1_000,
                window: window(4, 6),
            }],
            critical_path: vec![
                v1::CriticalStep {
                    activity: "set".into(),
                    site: "A".into(),
                    window: window(0, 4),
                    ..Default::default()
                },
                v1::CriticalStep {
                    activity: "late".into(),
                    site: "A".into(),
                    window: window(6, 8),
                    ..Default::default()
                },
            ],
            ..v1::WorkflowPlan::default()
        };
        let text = body(&plan, ASCII);
        let bars: Vec<&str> = text.lines().filter_map(|line| line.split('|').nth(1)).collect();
        assert_eq!(bars, ["====....", "....--..", "......##"], "{text}");
        assert!(
            text.contains("critical path: set at A 4 s > (waits 2 s) > late at A 2 s"),
            "{text}"
        );
    }
}
