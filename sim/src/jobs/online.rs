//! The planner `online` (Castillo 2009, section 4): every job gets its start when it is submitted.
//!
//! The paper tries the starts `s`, `s + dt`, `s + 2 dt`, .. one after the other. Here one search finds the
//! first of them that fits, and the attempts are counted without being made; only the paper's own trees make
//! them (see [`occupancy`](super::occupancy)).

use std::collections::BTreeSet;

use coalloc_common::{InvalidField, Span, Time, Window};

use super::occupancy::{self, Occupancy, WantedStart};
use super::settings::{AtOneInstant, JobsSettings};
use super::workload::Job;
use super::{Placement, PlacementError};

/// How often the past is forgotten, in seconds of the trace: once a day. Every server is looked at then.
const FORGET_STEP_S: i64 = 86_400;

/// Places every job; in the order of submission.
///
/// # Errors
/// When the index of servers would be too large, or refuses what it has just offered, which is a defect.
pub(super) fn place(
    jobs: &[Job],
    servers: u64,
    settings: &JobsSettings,
) -> Result<Vec<Placement>, PlacementError> {
    let (first, last) = submissions(jobs);
    let occupancy = occupancy::of_settings(settings, servers, first, last)?;
    let starts = vec![0; jobs.len()];
    let mut planner = Planner { jobs, occupancy, ends: BTreeSet::new(), settings, starts };
    let mut placements = Vec::with_capacity(jobs.len());
    let mut forgotten = i64::MIN;
    for (at, job) in jobs.iter().enumerate() {
        let before = planner.occupancy.operations();
        planner.free_early_ends(job.submitted)?;
        planner.occupancy.advance(instant(job.submitted));
        if job.submitted >= forgotten.saturating_add(FORGET_STEP_S) {
            planner.occupancy.forget_before(instant(job.submitted));
            forgotten = job.submitted;
        }
        let found = planner.first_start(job);
        if let Some((start, _)) = found {
            planner.book(at, start)?;
        }
        let after = planner.occupancy.operations();
        placements.push(Placement {
            start: found.map(|(start, _)| start),
            attempts: found.and_then(|(_, attempts)| attempts),
            operations: after.zip(before).map(|(after, before)| after - before),
        });
    }
    Ok(placements)
}

/// Checks the settings for these jobs without placing any.
///
/// # Errors
/// When the index of servers would be too large.
pub(super) fn check(
    jobs: &[Job],
    servers: u64,
    settings: &JobsSettings,
) -> Result<(), InvalidField> {
    let (first, last) = submissions(jobs);
    occupancy::check(settings, servers, first, last)
}

/// The first and the last submission.
fn submissions(jobs: &[Job]) -> (Time, Time) {
    let at = |job: Option<&Job>| instant(job.map_or(0, |job| job.submitted));
    (at(jobs.first()), at(jobs.last()))
}

struct Planner<'a> {
    jobs: &'a [Job],
    occupancy: Box<dyn Occupancy>,
    /// Ends before the reserved end, and the number of the job.
    ends: BTreeSet<(i64, usize)>,
    settings: &'a JobsSettings,
    starts: Vec<i64>,
}

impl Planner<'_> {
    /// Frees what is left of the reservations of jobs that have ended early by now.
    fn free_early_ends(&mut self, now: i64) -> Result<(), String> {
        let is_first = self.settings.at_one_instant == AtOneInstant::EndsFirst;
        while let Some((end, at)) = self.ends.first().copied() {
            if end > now || (end == now && !is_first) {
                break;
            }
            self.ends.pop_first();
            let job = &self.jobs[at];
            let rest = window(end, self.starts[at] + job.reserved - end)?;
            self.occupancy.free(at, count(job), rest)?;
        }
        Ok(())
    }

    /// The first start of a job, and the attempts until it was found, if there are steps.
    fn first_start(&self, job: &Job) -> Option<(i64, Option<u64>)> {
        let (step, from) = (self.settings.step_s, job.earliest);
        let horizon = job.submitted + self.settings.horizon_s();
        let last = match u64::try_from(step) {
            Ok(1..) => {
                // At least one attempt; both factors are bounded, see `limits`.
                let more = i64::try_from(self.settings.attempts() - 1).unwrap_or(i64::MAX);
                horizon.min(from.saturating_add(more.saturating_mul(step) + job.reserved))
            }
            _ => horizon,
        };
        let within = Window::new(instant(from), instant(last))?;
        let (servers, length, step) = (count(job), span(job.reserved), span(step));
        let first = self.occupancy.first_start(&WantedStart { servers, length, within, step })?;
        // Everything is booked in whole seconds, so starts are whole seconds.
        Some((first.start.as_us() / 1_000_000, (step > Span::ZERO).then_some(first.attempts)))
    }

    fn book(&mut self, at: usize, start: i64) -> Result<(), String> {
        let job = &self.jobs[at];
        self.occupancy.take(at, count(job), window(start, job.reserved)?)?;
        self.starts[at] = start;
        if job.run < job.reserved {
            self.ends.insert((start + job.run, at));
        }
        Ok(())
    }
}

const fn instant(s: i64) -> Time {
    Time::from_us(s.saturating_mul(1_000_000))
}

const fn span(s: i64) -> Span {
    Span::from_secs(s)
}

fn count(job: &Job) -> usize {
    usize::try_from(job.servers).unwrap_or(0)
}

fn window(start: i64, length: i64) -> Result<Window, String> {
    let none = || format!("no window of {length} s from {start} s on");
    Window::starting(instant(start), span(length)).ok_or_else(none)
}
