//! The jobs of a run: those of a trace that fit and pass the filters, and which of them are advance
//! reservations.

use coalloc_common::InvalidField;

use super::settings::{Estimates, JobsSettings, Selection};
use super::swf::{SwfJob, SwfTrace};
use crate::chance::RandomStream;
use coalloc_common::limits::CPUS_MAX;

/// A job as the planners see it. Times are in seconds of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Submission (`q`).
    pub submitted: i64,
    /// Earliest start (`s`); later than the submission for an advance reservation.
    pub earliest: i64,
    /// Number of servers (`n`).
    pub servers: i64,
    /// Run time (`l`).
    pub run: i64,
    /// The time that the planner reserves: the run time, or the user's estimate.
    pub reserved: i64,
    /// The wait that the trace states; `None` if it does not.
    pub logged_wait: Option<i64>,
}

/// The jobs of a trace that take part, and why the others do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedJobs {
    /// `N`: number of servers.
    pub servers: u64,
    /// The jobs that take part, by submission.
    pub jobs: Vec<SwfJob>,
    /// Jobs that did not run: run time 0 or less.
    pub without_run: u64,
    /// Jobs without servers: size 0 or less.
    pub without_servers: u64,
    /// Jobs that want more servers than there are.
    pub too_large: u64,
    /// Jobs that a filter left out.
    pub filtered: u64,
}

impl SelectedJobs {
    /// Selects the jobs of a trace. A job that has several reasons not to take part is counted for the first
    /// of: run time, servers, too large, filter.
    ///
    /// # Errors
    /// When a setting is not acceptable, the number of servers is not known, or no job is left.
    pub fn of(trace: &SwfTrace, selection: &Selection) -> Result<Self, InvalidField> {
        selection.check()?;
        let servers = selection.servers.or_else(|| trace.header.servers()).ok_or_else(|| {
            let allowed = format!(
                "1 to {CPUS_MAX}; the trace has neither MaxProcs nor MaxNodes in its header"
            );
            InvalidField::missing("servers", allowed)
        })?;
        let mut selected = Self {
            servers,
            jobs: Vec::new(),
            without_run: 0,
            without_servers: 0,
            too_large: 0,
            filtered: 0,
        };
        // At most CPUS_MAX, or what a header may state, which is far below 2^63.
        let most = i64::try_from(servers).unwrap_or(i64::MAX);
        let least_cpu_ms = selection.least_cpu_s.map(|s| s.saturating_mul(1_000));
        for job in &trace.jobs {
            if job.run <= 0 {
                selected.without_run += 1;
            } else if job.servers <= 0 {
                selected.without_servers += 1;
            } else if job.servers > most {
                selected.too_large += 1;
            } else if least_cpu_ms.is_some_and(|least| job.cpu_ms < least)
                || selection.jobs.is_some_and(|jobs| selected.jobs.len() >= jobs)
            {
                selected.filtered += 1;
            } else {
                selected.jobs.push(rounded(job, selection.round_run_to_s));
            }
        }
        if selected.jobs.is_empty() {
            let (read, of) = (trace.jobs.len(), selected.dropped());
            let value = format!("a trace of {read} jobs, {of} of them dropped");
            let allowed = "a trace and filters that leave at least one job";
            return Err(InvalidField::new("trace", value, allowed));
        }
        Ok(selected)
    }

    /// Jobs that cannot take part, without those that a filter left out.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.without_run + self.without_servers + self.too_large
    }

    /// The mean run time, in seconds.
    #[must_use]
    pub fn mean_run_s(&self) -> f64 {
        let sum: i64 = self.jobs.iter().map(|job| job.run).sum();
        sum as f64 / self.jobs.len() as f64
    }

    /// The longest wait that the trace states, in seconds; `None` if it states none.
    #[must_use]
    pub fn longest_logged_wait_s(&self) -> Option<i64> {
        self.jobs.iter().map(|job| job.wait).filter(|wait| *wait >= 0).max()
    }

    /// From the first submission to the last one, in seconds.
    #[must_use]
    pub fn span_s(&self) -> i64 {
        let ends = self.jobs.first().zip(self.jobs.last());
        ends.map_or(0, |(first, last)| last.submitted - first.submitted)
    }

    /// The jobs as the planners see them; the seed draws the advance reservations. The same seed draws the
    /// same earliest starts for every share, and a larger share adds reservations to those of a smaller one.
    #[must_use]
    pub fn jobs(&self, settings: &JobsSettings, seed: u64) -> Vec<Job> {
        const PARTS: u64 = 1_000_000;
        let mut random = RandomStream::new(seed, "reserved");
        let reserved = (settings.reserved_share * PARTS as f64).round() as u64;
        let ahead = settings.reserved_ahead_s.unsigned_abs() + 1;
        let mut job = |job: &SwfJob| {
            let is_reserved = random.below(PARTS) < reserved;
            let ahead = random.below(ahead).cast_signed();
            Job {
                submitted: job.submitted,
                earliest: job.submitted + if is_reserved { ahead } else { 0 },
                servers: job.servers,
                run: job.run,
                reserved: match settings.estimates {
                    Estimates::Exact => job.run,
                    Estimates::User => job.estimate,
                },
                logged_wait: Some(job.wait).filter(|wait| *wait >= 0),
            }
        };
        self.jobs.iter().map(&mut job).collect()
    }
}

/// The job with its run time rounded up to a multiple.
fn rounded(job: &SwfJob, multiple: Option<i64>) -> SwfJob {
    let Some(multiple) = multiple else { return *job };
    let run = (job.run + multiple - 1) / multiple * multiple;
    SwfJob { run, estimate: job.estimate.max(run), ..*job }
}
