//! Compares the runs of `coalloc demo torus`: what Christodoulopoulos 2008 measures, with real processes.

use std::collections::BTreeMap;

use coalloc_common::{Span, Time};
use coalloc_proto::v1;
use serde::Serialize;

use crate::kit::exit::Failure;
use crate::kit::text;
use crate::testbed::audit::Check;
use crate::testbed::audit::report::lines;
use crate::user::serve::Kind;

/// What was reported for one task.
#[derive(Debug, Clone)]
pub struct ReportedTask {
    /// When the task arrived, counted from the start of the run.
    pub at: Span,
    /// The same instant by the clock.
    pub submitted: Time,
    /// The outcome of the task.
    pub receipt: v1::TaskReceipt,
}

/// The updates that one scheduler received.
#[derive(Debug, Clone, Copy)]
pub struct UpdateTraffic {
    /// How many they were.
    pub updates: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// All runs.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The federation's name.
    pub federation: String,
    /// How long tasks arrived in each run.
    pub seconds: u32,
    /// Tasks per second.
    pub rate: u32,
    /// How often a task was planned at most.
    pub tries: u32,
    /// Whether plans were reserved one-way rather than in two phases.
    pub one_way: bool,
    /// One run for each delay and planner.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Run {
    /// The run's planner.
    pub planner: String,
    /// How late the run's updates were.
    pub delay_ms: u32,
    /// Tasks that count.
    pub tasks: usize,
    /// Tasks that count and were reserved.
    pub reserved: usize,
    /// Mean time from the submission of the reserved tasks to the end of their runs, in microseconds.
    pub mean_delay_us: i64,
    /// Tasks whose first plan was refused by a path's resource manager: the burst would have met another.
    pub blocked: usize,
    /// Tasks whose first plan was refused by a cluster's resource manager: the cluster was not free any more.
    pub conflicts: usize,
    /// Plans that were refused, over all tries.
    pub refused_plans: usize,
    /// Tasks for which there was no plan within the horizon.
    pub without_plan: usize,
    /// Updates that one scheduler received in the whole run.
    pub updates: u64,
    /// Bytes of these updates.
    pub update_bytes: u64,
    /// The violations that the audit found, as lines for people.
    pub violations: Vec<String>,
}

impl Run {
    /// Sums up a run's tasks. `kinds` gives the kind of each daemon.
    #[must_use]
    pub fn of(
        planner: String,
        delay_ms: u32,
        told: &[ReportedTask],
        kinds: &BTreeMap<String, Kind>,
        traffic: UpdateTraffic,
        checks: &[Check],
    ) -> Self {
        let mut run = Self {
            planner,
            delay_ms,
            tasks: told.len(),
            updates: traffic.updates,
            update_bytes: traffic.bytes,
            ..Self::default()
        };
        let mut delays_us: i64 = 0;
        for ReportedTask { submitted, receipt, .. } in told {
            let refused: Vec<Kind> = (receipt.tries.iter())
                .filter_map(|one| kinds.get(&one.resource_manager).copied())
                .collect();
            run.refused_plans += refused.len();
            match refused.first() {
                Some(Kind::Nrm) => run.blocked += 1,
                Some(Kind::Crm) => run.conflicts += 1,
                Some(Kind::Grc) | None => {}
            }
            let plan = receipt.plan.as_ref().filter(|_| receipt.confirmed);
            let end = plan.and_then(|plan| text::time(plan.run.as_ref()?.end.as_ref()));
            if let Some(end) = end {
                run.reserved += 1;
                delays_us = delays_us.saturating_add(end.since(*submitted).as_us());
            } else if refused.len() < receipt.tries.len() || receipt.tries.is_empty() {
                run.without_plan += 1;
            }
        }
        run.mean_delay_us = delays_us / i64::try_from(run.reserved.max(1)).unwrap_or(i64::MAX);
        let broken = checks.iter().filter(|check| !check.passed);
        run.violations = broken.map(|check| lines(std::slice::from_ref(check))).collect();
        run
    }
}

impl Report {
    /// Does the proof hold in every run?
    #[must_use]
    pub fn proven(&self) -> bool {
        self.runs.iter().all(|run| run.violations.is_empty())
    }

    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table = text::table(&[
            "late", "planner", "tasks", "reserved", "delay", "blocked", "conflict", "refusals",
            "updates", "bytes",
        ]);
        text::align_right(&mut table, &[0, 2, 3, 4, 5, 6, 7, 8, 9]);
        for run in &self.runs {
            table.add_row([
                format!("{} ms", run.delay_ms),
                run.planner.clone(),
                run.tasks.to_string(),
                run.reserved.to_string(),
                format!("{:.2} s", run.mean_delay_us as f64 / 1e6),
                percent(run.blocked, run.tasks),
                percent(run.conflicts, run.tasks),
                run.refused_plans.to_string(),
                run.updates.to_string(),
                (run.update_bytes / run.updates.max(1)).to_string(),
            ]);
        }
        let way = if self.one_way { "one-way" } else { "two-phase" };
        let mut out = text::finish(&table);
        out += &format!(
            "\n{}: {} tasks a second for {} s, {way} reservation, at most {} plans a task\nlate: \
             added delay of updates; delay: from submission to the end of the run, for reserved \
             tasks\nblocked, conflict: the first plan was refused by a path, by a cluster; \
             refusals: of all plans\nupdates: messages that one scheduler received, and bytes of \
             each\n",
            self.federation, self.rate, self.seconds, self.tries,
        );
        let without: usize = self.runs.iter().map(|run| run.without_plan).sum();
        if without > 0 {
            out +=
                &format!("for {without} tasks of all runs there was no plan within the horizon\n");
        }
        if self.proven() {
            out += "\nproof: after every run nothing was overbooked, everything reserved was \
                    booked, and nothing else was\n";
        }
        for run in self.runs.iter().filter(|run| !run.violations.is_empty()) {
            out += &format!("\nNOT PROVEN, {} at {} ms:\n", run.planner, run.delay_ms);
            run.violations.iter().for_each(|line| out += line);
        }
        out
    }

    /// The report for programs.
    ///
    /// # Errors
    /// Never: the report contains only numbers and text.
    pub fn json(&self) -> Result<String, Failure> {
        text::json(self)
    }
}

/// A share in percent: `1.5 %`.
fn percent(part: usize, whole: usize) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}
