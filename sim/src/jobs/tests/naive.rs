//! The planners as one would explain them: one number of free servers for each second, and every question
//! answered by looking at all of them.

use std::collections::BTreeSet;

use super::{Job, Placement};

/// All worlds of the tests end before this second.
const SECONDS: usize = 3_000;

/// Free servers, second by second.
struct Seconds(Vec<i64>);

impl Seconds {
    fn new(servers: u64) -> Self {
        Self(vec![servers.cast_signed(); SECONDS])
    }

    fn change(&mut self, start: i64, end: i64, by: i64) {
        for second in start..end.max(start) {
            self.0[second as usize] += by;
        }
    }

    fn fits(&self, start: i64, job: &Job) -> bool {
        (start..start + job.reserved).all(|second| self.0[second as usize] >= job.servers)
    }

    fn earliest(&self, from: i64, job: &Job) -> i64 {
        (from..).find(|start| self.fits(*start, job)).expect("a start")
    }
}

/// What has been placed so far.
struct Plan<'a> {
    jobs: &'a [Job],
    seconds: Seconds,
    starts: Vec<Option<i64>>,
    /// Jobs whose end was handled.
    ended: Vec<bool>,
}

impl<'a> Plan<'a> {
    fn new(jobs: &'a [Job], servers: u64) -> Self {
        let starts = vec![None; jobs.len()];
        Self { jobs, seconds: Seconds::new(servers), starts, ended: vec![false; jobs.len()] }
    }

    fn put(&mut self, at: usize, start: i64) {
        let job = &self.jobs[at];
        self.seconds.change(start, start + job.reserved, -job.servers);
        self.starts[at] = Some(start);
    }

    fn take_back(&mut self, at: usize) {
        let (job, start) = (&self.jobs[at], self.starts[at].expect("a start"));
        self.seconds.change(start, start + job.reserved, job.servers);
        self.starts[at] = None;
    }

    /// Jobs that end at this instant; their servers are free from now on.
    fn ends_at(&self, now: i64) -> Vec<usize> {
        let ends =
            |at: &usize| self.starts[*at].is_some_and(|start| start + self.jobs[*at].run == now);
        (0..self.jobs.len()).filter(ends).collect()
    }

    fn end(&mut self, at: usize, now: i64) {
        let job = &self.jobs[at];
        let end = self.starts[at].expect("a start") + job.reserved;
        self.seconds.change(now, end, job.servers);
        self.ended[at] = true;
    }

    /// FCFS, and then EASY: starts every job of the queue that may start now.
    fn start_jobs(&mut self, now: i64, queue: &mut Vec<usize>, backfills: bool) {
        // A job that has started is never moved, so being free now is being free for all of its time.
        while let Some(at) = queue.first().copied() {
            if !self.seconds.fits(now, &self.jobs[at]) {
                break;
            }
            self.put(at, now);
            queue.remove(0);
        }
        let Some(first) = queue.first().copied().filter(|_| backfills) else { return };
        for at in queue.clone().into_iter().skip(1) {
            // The later job starts if the first one can start no later with it than without it.
            let start = self.seconds.earliest(now, &self.jobs[first]);
            if self.seconds.fits(now, &self.jobs[at]) {
                self.put(at, now);
                if self.seconds.earliest(now, &self.jobs[first]) == start {
                    queue.retain(|other| *other != at);
                } else {
                    self.take_back(at);
                }
            }
        }
    }

    /// Conservative: places all jobs that wait anew, in the order of submission.
    fn move_forward(&mut self, now: i64) {
        for at in 0..self.jobs.len() {
            let Some(old) = self.starts[at].filter(|start| *start > now) else { continue };
            self.take_back(at);
            let new = self.seconds.earliest(now.max(self.jobs[at].earliest), &self.jobs[at]);
            assert!(new <= old, "a job was delayed from {old} to {new}");
            self.put(at, new);
        }
    }
}

/// FCFS or EASY, second by second.
pub(super) fn queue(
    jobs: &[Job],
    servers: u64,
    backfills: bool,
    ends_first: bool,
) -> Vec<Option<i64>> {
    let mut plan = Plan::new(jobs, servers);
    let mut queue = Vec::new();
    for now in 0..SECONDS as i64 / 2 {
        let arrivals: Vec<usize> = (0..jobs.len()).filter(|at| jobs[*at].earliest == now).collect();
        let ends = plan.ends_at(now);
        if ends_first {
            ends.iter().for_each(|at| plan.end(*at, now));
            plan.start_jobs(now, &mut queue, backfills);
        }
        for at in arrivals {
            queue.push(at);
            plan.start_jobs(now, &mut queue, backfills);
        }
        if !ends_first {
            for at in ends {
                plan.end(at, now);
                plan.start_jobs(now, &mut queue, backfills);
            }
        }
    }
    plan.starts
}

/// Conservative backfilling, second by second.
pub(super) fn conservative(jobs: &[Job], servers: u64, ends_first: bool) -> Vec<Option<i64>> {
    let mut plan = Plan::new(jobs, servers);
    for now in 0..SECONDS as i64 / 2 {
        let ends: Vec<usize> = plan.ends_at(now);
        // A job that ends when its reserved time is over tells nobody anything new.
        let ends: Vec<usize> =
            ends.into_iter().filter(|at| jobs[*at].run < jobs[*at].reserved).collect();
        if ends_first && !ends.is_empty() {
            ends.iter().for_each(|at| plan.end(*at, now));
            plan.move_forward(now);
        }
        for at in (0..jobs.len()).filter(|at| jobs[*at].submitted == now) {
            let start = plan.seconds.earliest(jobs[at].earliest, &jobs[at]);
            plan.put(at, start);
        }
        if !ends_first {
            for at in ends {
                plan.end(at, now);
                plan.move_forward(now);
            }
        }
    }
    plan.starts
}

/// The online planner, which tries one start after the other.
pub(super) fn online(
    jobs: &[Job],
    servers: u64,
    step: i64,
    attempts: u64,
    ends_first: bool,
) -> Vec<Placement> {
    let mut plan = Plan::new(jobs, servers);
    let mut made = vec![None; jobs.len()];
    for now in 0..SECONDS as i64 / 2 {
        let ends = plan.ends_at(now);
        if ends_first {
            ends.iter().for_each(|at| plan.end(*at, now));
        }
        for at in (0..jobs.len()).filter(|at| jobs[*at].submitted == now) {
            if step == 0 {
                let start = plan.seconds.earliest(jobs[at].earliest, &jobs[at]);
                plan.put(at, start);
                continue;
            }
            for attempt in 0..attempts {
                let start = jobs[at].earliest + attempt.cast_signed() * step;
                if plan.seconds.fits(start, &jobs[at]) {
                    plan.put(at, start);
                    made[at] = Some(attempt + 1);
                    break;
                }
            }
        }
        if !ends_first {
            ends.iter().for_each(|at| plan.end(*at, now));
        }
    }
    let outcome = |(start, attempts): (&Option<i64>, Option<u64>)| Placement {
        start: *start,
        attempts,
        operations: None,
    };
    plan.starts.iter().zip(made).map(outcome).collect()
}

/// The online planner on single servers, each a set of the seconds in which it is taken. A job gets the idle
/// servers that come first.
pub(super) fn online_on_servers(
    jobs: &[Job],
    servers: u64,
    step: i64,
) -> Vec<(Option<i64>, Option<u64>)> {
    let mut taken = vec![BTreeSet::<i64>::new(); usize::try_from(servers).unwrap()];
    let mut placed: Vec<(usize, i64, Vec<usize>)> = Vec::new();
    let mut outcomes = Vec::new();
    for (at, job) in jobs.iter().enumerate() {
        for (other, start, own) in &placed {
            let (end, reserved) = (start + jobs[*other].run, start + jobs[*other].reserved);
            if end <= job.submitted {
                own.iter()
                    .for_each(|server| taken[*server].retain(|s| !(end..reserved).contains(s)));
            }
        }
        // What was freed once must not be freed again: somebody else may have it by then.
        placed.retain(|(other, start, _)| start + jobs[*other].run > job.submitted);
        for attempt in 1.. {
            let start = job.earliest + (attempt - 1) * step.max(1);
            let seconds = || start..start + job.reserved;
            let idle =
                taken.iter().enumerate().filter(|(_, own)| own.range(seconds()).next().is_none());
            let own: Vec<usize> =
                idle.map(|(server, _)| server).take(job.servers.unsigned_abs() as usize).collect();
            if own.len() as u64 == job.servers.unsigned_abs() {
                own.iter().for_each(|server| taken[*server].extend(seconds()));
                placed.push((at, start, own));
                outcomes.push((Some(start), (step > 0).then_some(attempt.unsigned_abs())));
                break;
            }
        }
    }
    outcomes
}
