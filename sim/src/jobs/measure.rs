//! What is measured of a run: waits, penalties, attempts and utilisation.
//!
//! A wait counts from the earliest start (`s`), as the paper's `W_r` does, or from the submission (`q`). The
//! two differ for advance reservations only. Only jobs that got a start are measured.

use std::collections::BTreeMap;

use super::Placement;
use super::workload::{Job, SelectedJobs};
use crate::experiment::Measures;

/// Every metric of the model, with its description.
pub const METRICS: &[(&str, &str)] = &[
    ("jobs", "jobs that take part"),
    ("servers", "servers (N)"),
    ("dropped", "jobs of the trace that cannot take part: no run time, no size, or too large"),
    ("dropped_without_run", "jobs of the trace whose run time is 0 or less"),
    ("dropped_without_servers", "jobs of the trace whose size is 0 or less"),
    ("dropped_too_large", "jobs of the trace that want more servers than there are"),
    ("filtered", "jobs of the trace that a filter left out"),
    ("refused", "jobs without a start: refused, or (logged) without a wait in the trace"),
    ("mean_run_h", "mean run time, h"),
    ("runs_under_2h", "share of jobs that run for less than 2 h"),
    ("estimates_under_2h", "share of jobs whose reserved time is less than 2 h"),
    ("mean_wait_h", "mean wait from the earliest start, h"),
    ("median_wait_h", "median of the waits from the earliest start, h"),
    ("longest_wait_h", "longest wait from the earliest start, h"),
    ("mean_wait_from_submission_h", "mean wait from the submission, h"),
    ("median_wait_from_submission_h", "median of the waits from the submission, h"),
    ("longest_wait_from_submission_h", "longest wait from the submission, h"),
    ("waits_under_1h", "share of waits from the earliest start that are less than 1 h"),
    ("waits_under_2h", "share of waits from the earliest start that are less than 2 h"),
    ("waits_from_submission_under_1h", "share of waits from the submission of less than 1 h"),
    ("waits_from_submission_under_2h", "share of waits from the submission of less than 2 h"),
    ("wait_share", "share of waits from the earliest start in an hour, over its end (h)"),
    (
        "wait_from_submission_share",
        "share of waits from the submission in an hour, over its end (h)",
    ),
    ("wait_by_size", "mean wait, h, over size in bins (0, 50], (50, 100], .."),
    ("wait_by_size_left", "mean wait, h, over size in bins [0, 50), [50, 100), .."),
    ("wait_by_run", "mean wait, h, over run time in bins of 1 h"),
    ("penalty", "temporal penalty: mean of wait / run time"),
    ("penalty_by_run", "temporal penalty over run time in bins of 1 h"),
    ("penalty_2h_to_10h", "temporal penalty of jobs that run for 2 h to less than 10 h"),
    ("penalty_4h_to_10h", "temporal penalty of jobs that run for 4 h to less than 10 h"),
    ("jobs_by_size", "jobs over size in bins (0, 50], (50, 100], .."),
    ("jobs_by_size_left", "jobs over size in bins [0, 50), [50, 100), .."),
    ("jobs_by_run", "share of jobs over run time in bins of 1 h"),
    ("attempts", "starts that were tried for a job, mean (online, with steps)"),
    ("attempts_by_size", "starts tried, mean, over size in bins (0, 50], (50, 100], .."),
    ("attempts_by_size_left", "starts tried, mean, over size in bins [0, 50), [50, 100), .."),
    ("operations", "nodes that the paper's trees visited, made or changed for a job, mean"),
    (
        "utilisation",
        "share of servers' time that jobs run, from the first submission to the last end",
    ),
];

/// The metrics that are curves, over bins.
pub const CURVES: &[&str] = &[
    "wait_share",
    "wait_from_submission_share",
    "wait_by_size",
    "wait_by_size_left",
    "wait_by_run",
    "penalty_by_run",
    "jobs_by_size",
    "jobs_by_size_left",
    "jobs_by_run",
    "attempts_by_size",
    "attempts_by_size_left",
];

/// An hour in seconds.
const HOUR: i64 = 3_600;
/// The width of a bin of sizes.
const SIZES: i64 = 50;
/// Curves over hours end here: the logs have a few waits and run times of weeks.
const HOURS_MAX: i64 = 100;
/// Penalties are summed in parts of this.
const PARTS: i64 = 1_000_000;

/// A sum and the number of its terms.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    sum: i128,
    count: u64,
}

impl Sum {
    const fn add(&mut self, value: i64) {
        self.sum += value as i128;
        self.count += 1;
    }

    /// The mean in units of `unit`; not a number if there are no terms.
    fn mean(self, unit: i64) -> f64 {
        self.sum as f64 / self.count as f64 / unit as f64
    }
}

/// Sums over bins, each by the end of its bin.
#[derive(Debug, Clone, Default)]
struct Bins(BTreeMap<i64, Sum>);

impl Bins {
    fn add(&mut self, end: i64, value: i64) {
        self.0.entry(end).or_default().add(value);
    }

    fn put_means(&self, measures: &mut Measures, curve: &str, unit: i64) {
        for (end, sum) in &self.0 {
            measures.put_at(curve, *end as f64, sum.mean(unit));
        }
    }

    fn put_counts(&self, measures: &mut Measures, curve: &str, of: u64) {
        for (end, sum) in &self.0 {
            measures.put_at(curve, *end as f64, sum.count as f64 / of as f64);
        }
    }
}

/// The end of the bin `(end - width, end]` of a value of at least 1.
const fn bin_as_printed(value: i64, width: i64) -> i64 {
    (value + width - 1) / width * width
}

/// The end of the bin `[end - width, end)` of a value.
const fn bin_closed_left(value: i64, width: i64) -> i64 {
    (value / width + 1) * width
}

/// Waits and where they belong to.
#[derive(Debug, Default)]
struct Waits {
    all: Vec<i64>,
    shares: Bins,
}

impl Waits {
    fn add(&mut self, wait: i64) {
        self.all.push(wait);
        let hour = bin_closed_left(wait, HOUR) / HOUR;
        if hour <= HOURS_MAX {
            self.shares.add(hour, 1);
        }
    }

    /// Puts the measures; `from` is part of their names.
    fn put(mut self, measures: &mut Measures, from: &str) {
        self.all.sort_unstable();
        let (waits, count) = (&self.all, self.all.len());
        let Some(longest) = waits.last() else { return };
        let hours = |s: i64| s as f64 / HOUR as f64;
        let sum: i128 = waits.iter().map(|wait| i128::from(*wait)).sum();
        measures.put(&format!("mean_wait{from}_h"), sum as f64 / count as f64 / HOUR as f64);
        let median = hours(waits[(count - 1) / 2] + waits[count / 2]) / 2.0;
        measures.put(&format!("median_wait{from}_h"), median);
        measures.put(&format!("longest_wait{from}_h"), hours(*longest));
        for hour in [1, 2] {
            let under = waits.partition_point(|wait| *wait < hour * HOUR);
            measures.put_share(&format!("waits{from}_under_{hour}h"), under as u64, count as u64);
        }
        self.shares.put_counts(measures, &format!("wait{from}_share"), count as u64);
    }
}

/// The measures of a run.
pub(super) fn measures(
    selected: &SelectedJobs,
    jobs: &[Job],
    placements: &[Placement],
) -> Measures {
    let mut measures = Measures::new();
    let count = jobs.len() as u64;
    measures.put("jobs", count as f64);
    measures.put("servers", selected.servers as f64);
    measures.put("dropped", selected.dropped() as f64);
    measures.put("dropped_without_run", selected.without_run as f64);
    measures.put("dropped_without_servers", selected.without_servers as f64);
    measures.put("dropped_too_large", selected.too_large as f64);
    measures.put("filtered", selected.filtered as f64);
    let refused = placements.iter().filter(|placement| placement.start.is_none()).count();
    measures.put("refused", refused as f64);
    put_jobs(&mut measures, jobs);
    let (mut waits, mut from_submission) = (Waits::default(), Waits::default());
    let mut of = Penalties::default();
    let (mut first, mut last, mut busy) = (i64::MAX, i64::MIN, 0_i128);
    for (job, placement) in jobs.iter().zip(placements) {
        let Some(start) = placement.start else { continue };
        let wait = start - job.earliest;
        waits.add(wait);
        from_submission.add(start - job.submitted);
        of.add(job, wait, placement);
        first = first.min(job.submitted);
        last = last.max(start + job.run);
        busy += i128::from(job.servers) * i128::from(job.run);
    }
    waits.put(&mut measures, "");
    from_submission.put(&mut measures, "_from_submission");
    of.put(&mut measures);
    if last > first {
        let whole = selected.servers as f64 * (last - first) as f64;
        measures.put("utilisation", busy as f64 / whole);
    }
    measures
}

/// Puts what describes the jobs, whoever plans them.
fn put_jobs(measures: &mut Measures, jobs: &[Job]) {
    let count = jobs.len() as u64;
    let (mut runs, mut short_runs, mut short_estimates) = (Sum::default(), 0, 0);
    let (mut by_size, mut by_size_left, mut by_run) =
        (Bins::default(), Bins::default(), Bins::default());
    for job in jobs {
        runs.add(job.run);
        short_runs += u64::from(job.run < 2 * HOUR);
        short_estimates += u64::from(job.reserved < 2 * HOUR);
        by_size.add(bin_as_printed(job.servers, SIZES), 1);
        by_size_left.add(bin_closed_left(job.servers, SIZES), 1);
        let hour = bin_closed_left(job.run, HOUR) / HOUR;
        if hour <= HOURS_MAX {
            by_run.add(hour, 1);
        }
    }
    measures.put("mean_run_h", runs.mean(HOUR));
    measures.put_share("runs_under_2h", short_runs, count);
    measures.put_share("estimates_under_2h", short_estimates, count);
    by_size.put_counts(measures, "jobs_by_size", 1);
    by_size_left.put_counts(measures, "jobs_by_size_left", 1);
    by_run.put_counts(measures, "jobs_by_run", count);
}

/// Waits, penalties and attempts by size and run time.
#[derive(Debug, Default)]
struct Penalties {
    wait_by_size: Bins,
    wait_by_size_left: Bins,
    wait_by_run: Bins,
    penalty: Sum,
    penalty_by_run: Bins,
    penalty_from_2h: Sum,
    penalty_from_4h: Sum,
    operations: Sum,
    attempts: Sum,
    attempts_by_size: Bins,
    attempts_by_size_left: Bins,
}

impl Penalties {
    fn add(&mut self, job: &Job, wait: i64, placement: &Placement) {
        let (size, size_left) =
            (bin_as_printed(job.servers, SIZES), bin_closed_left(job.servers, SIZES));
        self.wait_by_size.add(size, wait);
        self.wait_by_size_left.add(size_left, wait);
        // Waits are at most 2^53 seconds or so, see `limits`; the quotient is not larger than the product.
        let penalty = i128::from(wait) * i128::from(PARTS) / i128::from(job.run.max(1));
        let penalty = i64::try_from(penalty).unwrap_or(i64::MAX);
        self.penalty.add(penalty);
        let hour = bin_closed_left(job.run, HOUR) / HOUR;
        if hour <= HOURS_MAX {
            self.wait_by_run.add(hour, wait);
            self.penalty_by_run.add(hour, penalty);
        }
        if (3..=10).contains(&hour) {
            self.penalty_from_2h.add(penalty);
        }
        if (5..=10).contains(&hour) {
            self.penalty_from_4h.add(penalty);
        }
        if let Some(operations) = placement.operations.and_then(|count| i64::try_from(count).ok()) {
            self.operations.add(operations);
        }
        if let Some(attempts) = placement.attempts.and_then(|count| i64::try_from(count).ok()) {
            self.attempts.add(attempts);
            self.attempts_by_size.add(size, attempts);
            self.attempts_by_size_left.add(size_left, attempts);
        }
    }

    fn put(&self, measures: &mut Measures) {
        self.wait_by_size.put_means(measures, "wait_by_size", HOUR);
        self.wait_by_size_left.put_means(measures, "wait_by_size_left", HOUR);
        self.wait_by_run.put_means(measures, "wait_by_run", HOUR);
        measures.put("penalty", self.penalty.mean(PARTS));
        self.penalty_by_run.put_means(measures, "penalty_by_run", PARTS);
        measures.put("penalty_2h_to_10h", self.penalty_from_2h.mean(PARTS));
        measures.put("penalty_4h_to_10h", self.penalty_from_4h.mean(PARTS));
        measures.put("operations", self.operations.mean(1));
        measures.put("attempts", self.attempts.mean(1));
        self.attempts_by_size.put_means(measures, "attempts_by_size", 1);
        self.attempts_by_size_left.put_means(measures, "attempts_by_size_left", 1);
    }
}
