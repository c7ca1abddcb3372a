//! The planner `online` (Castillo 2009, section 4): every job gets its start when it is submitted.
//!
//! The paper tries the starts `s`, `s + dt`, `s + 2 dt`, .. one after the other. Here one search on the
//! timetable finds the first of them that fits, and the attempts are counted without being made.

use std::collections::BTreeSet;

use coalloc_common::timetable::{Layer, Timetable};
use coalloc_common::{Amount, Span, Time, Window};

use super::Placement;
use super::settings::{AtOneInstant, JobsSettings};
use super::workload::Job;

/// Places every job; in the order of submission.
///
/// # Errors
/// When the timetable refuses what it has just offered, which is a defect.
pub(super) fn place(
    jobs: &[Job],
    servers: u64,
    settings: &JobsSettings,
) -> Result<Vec<Placement>, String> {
    let mut planner = Planner {
        jobs,
        timetable: Timetable::new(Amount(servers)),
        ends: BTreeSet::new(),
        settings,
        starts: vec![0; jobs.len()],
    };
    let mut placements = Vec::with_capacity(jobs.len());
    for (at, job) in jobs.iter().enumerate() {
        planner.free_early_ends(job.submitted)?;
        let found = planner.first_start(job);
        if let Some((start, _)) = found {
            planner.book(at, start)?;
        }
        placements.push(Placement {
            start: found.map(|(start, _)| start),
            attempts: found.and_then(|(_, attempts)| attempts),
        });
    }
    Ok(placements)
}

struct Planner<'a> {
    jobs: &'a [Job],
    timetable: Timetable,
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
            let freed = self.timetable.remove(Layer::Booked, rest, amount(job));
            freed.map_err(|error| format!("job {at} ended early: {error}"))?;
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
        let mut start = from;
        loop {
            let within = Window::new(instant(start), instant(last))?;
            let fit = self.timetable.earliest_fit(amount(job), span(job.reserved), within)?;
            // Everything is booked in whole seconds, so fits begin at whole seconds.
            let fit = fit.start().as_us() / 1_000_000;
            if step == 0 {
                return Some((fit, None));
            }
            let steps = (fit - from + step - 1) / step;
            let on_step = from + steps * step;
            if on_step == fit {
                return Some((fit, Some(steps.unsigned_abs() + 1)));
            }
            start = on_step;
        }
    }

    fn book(&mut self, at: usize, start: i64) -> Result<(), String> {
        let job = &self.jobs[at];
        let booked = window(start, job.reserved)?;
        let booked = self.timetable.add(Layer::Booked, booked, amount(job));
        booked.map_err(|error| format!("job {at} does not fit where it was found to: {error}"))?;
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

const fn amount(job: &Job) -> Amount {
    Amount(job.servers.unsigned_abs())
}

fn window(start: i64, length: i64) -> Result<Window, String> {
    let none = || format!("no window of {length} s from {start} s on");
    Window::starting(instant(start), span(length)).ok_or_else(none)
}
