//! The planner `conservative`: every job has a start from its submission on, and never gets a later one.
//!
//! When jobs end before their reserved time, the jobs that wait are placed anew, one after the other in the
//! order of submission: each one at the earliest start that the others leave.
//!
//! Most of these placements change nothing. A job can only move if servers became free before its start since
//! it was last placed, so the planner notes where servers became free, as one window, and looks there first.

use std::collections::BTreeSet;

use super::Placement;
use super::profile::Profile;
use super::settings::AtOneInstant;
use super::workload::Job;

/// Places every job.
pub(super) fn place(jobs: &[Job], servers: u64, order: AtOneInstant) -> Vec<Placement> {
    let mut planner = Planner {
        jobs,
        // The number of servers is far below 2^63, see `limits`.
        profile: Profile::new(i64::try_from(servers).unwrap_or(i64::MAX)),
        starts: vec![0; jobs.len()],
        waiting: Vec::new(),
        early_ends: BTreeSet::new(),
        freed: Freed::NOTHING,
    };
    let mut next = 0;
    loop {
        let submission = jobs.get(next).map(|job| job.submitted);
        let end = planner.early_ends.first().map(|(end, _)| *end);
        let Some(now) = submission.into_iter().chain(end).min() else { break };
        planner.profile.forget_before(now);
        if order == AtOneInstant::EndsFirst {
            let mut has_ended = false;
            while planner.end_one(now) {
                has_ended = true;
            }
            if has_ended {
                planner.move_forward(now);
            }
        }
        while jobs.get(next).is_some_and(|job| job.submitted == now) {
            planner.submit(next, now);
            next += 1;
        }
        if order == AtOneInstant::SubmissionsFirst {
            while planner.end_one(now) {
                planner.move_forward(now);
            }
        }
    }
    let placement =
        |start: &i64| Placement { start: Some(*start), attempts: None, operations: None };
    planner.starts.iter().map(placement).collect()
}

/// A window in which servers may have become free.
#[derive(Debug, Clone, Copy)]
struct Freed {
    start: i64,
    end: i64,
}

impl Freed {
    const NOTHING: Self = Self { start: i64::MAX, end: i64::MIN };

    fn include(&mut self, start: i64, end: i64) {
        if start < end {
            (self.start, self.end) = (self.start.min(start), self.end.max(end));
        }
    }
}

struct Planner<'a> {
    jobs: &'a [Job],
    profile: Profile,
    starts: Vec<i64>,
    /// Jobs that may not have started yet, in the order of submission.
    waiting: Vec<usize>,
    /// Ends before the reserved end, and the number of the job. Jobs that wait have one, too.
    early_ends: BTreeSet<(i64, usize)>,
    /// Where servers became free since some job that waits was last placed.
    freed: Freed,
}

impl Planner<'_> {
    fn submit(&mut self, at: usize, now: i64) {
        let job = &self.jobs[at];
        let from = job.earliest.max(now);
        // All servers are free in the end, and the job fits on them.
        let start = self.profile.earliest(from, job.reserved, job.servers, None).unwrap_or(from);
        self.profile.change(start, start + job.reserved, -job.servers);
        self.set_start(at, start);
        if start > now {
            self.waiting.push(at);
        }
    }

    fn set_start(&mut self, at: usize, start: i64) {
        let job = &self.jobs[at];
        if job.run < job.reserved {
            self.early_ends.insert((start + job.run, at));
        }
        self.starts[at] = start;
    }

    /// Ends one job that ends now, before the end of its reserved time.
    fn end_one(&mut self, now: i64) -> bool {
        let Some((end, at)) = self.early_ends.first().copied().filter(|(end, _)| *end <= now)
        else {
            return false;
        };
        self.early_ends.remove(&(end, at));
        let (job, start) = (&self.jobs[at], self.starts[at]);
        self.profile.change(now, start + job.reserved, job.servers);
        self.freed.include(now, start + job.reserved);
        true
    }

    /// Places every job that waits anew, in the order of submission.
    fn move_forward(&mut self, now: i64) {
        let mut freed = self.freed;
        // Jobs that were looked at before another one moved look at what that has freed the next time.
        self.freed = Freed::NOTHING;
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|at| {
            let (job, old) = (&self.jobs[*at], self.starts[*at]);
            if old <= now {
                return false;
            }
            let Some(new) = self.better_start(job, old, now, freed) else { return true };
            self.profile.change(old, old + job.reserved, job.servers);
            self.profile.change(new, new + job.reserved, -job.servers);
            self.early_ends.remove(&(old + job.run, *at));
            self.set_start(*at, new);
            let left = (old.max(new + job.reserved), old + job.reserved);
            freed.include(left.0, left.1);
            self.freed.include(left.0, left.1);
            new > now
        });
        self.waiting = waiting;
    }

    /// The earliest start before the old one, if there is any. Until the old start the job takes nothing of
    /// the profile, and from then on it has its servers.
    fn better_start(&self, job: &Job, old: i64, now: i64, freed: Freed) -> Option<i64> {
        let first = now.max(job.earliest);
        let (start, end) = (freed.start.max(first), freed.end.min(old));
        if start >= end || self.profile.most_free(start, end) < job.servers {
            return None;
        }
        // A start so early that the job is over before anything became free was not possible before either.
        let from = first.max(freed.start.saturating_sub(job.reserved) + 1);
        self.profile.earliest(from, job.reserved, job.servers, Some(old)).filter(|new| *new < old)
    }
}
