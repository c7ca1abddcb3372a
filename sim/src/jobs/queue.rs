//! The planners `fcfs` and `easy`: one queue of jobs that have come and not started.
//!
//! Both start the first job of the queue as soon as enough servers are free. `easy` also lets a later job
//! start if enough servers are free for it and the first job is not delayed by that: the later job ends, by
//! its reserved time, before the first one can start, or it uses servers that the first one leaves over.
//!
//! An advance reservation joins the queue at its earliest start: a queue promises nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::Placement;
use super::settings::AtOneInstant;
use super::workload::Job;

/// Places every job.
pub(super) fn place(
    jobs: &[Job],
    servers: u64,
    backfills: bool,
    order: AtOneInstant,
) -> Vec<Placement> {
    let mut queue = Queue {
        jobs,
        backfills,
        // The number of servers is far below 2^63, see `limits`.
        free: i64::try_from(servers).unwrap_or(i64::MAX),
        waiting: Vec::new(),
        releases: BTreeMap::new(),
        ends: BTreeSet::new(),
        starts: vec![0; jobs.len()],
    };
    let mut arrivals: Vec<usize> = (0..jobs.len()).collect();
    arrivals.sort_by_key(|at| jobs[*at].earliest);
    let mut arrivals = arrivals.into_iter().peekable();
    loop {
        let arrival = arrivals.peek().map(|at| jobs[*at].earliest);
        let Some(now) = arrival.into_iter().chain(queue.next_end()).min() else { break };
        queue.release_until(now);
        match order {
            AtOneInstant::EndsFirst => {
                while queue.end_one(now) {}
                while let Some(at) = arrivals.next_if(|at| jobs[*at].earliest == now) {
                    queue.waiting.push(at);
                }
                queue.start_jobs(now);
            }
            AtOneInstant::SubmissionsFirst => {
                while let Some(at) = arrivals.next_if(|at| jobs[*at].earliest == now) {
                    queue.waiting.push(at);
                    queue.start_jobs(now);
                }
                while queue.end_one(now) {
                    queue.start_jobs(now);
                }
            }
        }
    }
    let placement =
        |start: &i64| Placement { start: Some(*start), attempts: None, operations: None };
    queue.starts.iter().map(placement).collect()
}

struct Queue<'a> {
    jobs: &'a [Job],
    backfills: bool,
    free: i64,
    /// Jobs that have come and not started, in the order of arrival.
    waiting: Vec<usize>,
    /// Servers that are free again at each instant at which reserved times end.
    releases: BTreeMap<i64, i64>,
    /// The end of each job that runs, and its number.
    ends: BTreeSet<(i64, usize)>,
    starts: Vec<i64>,
}

impl Queue<'_> {
    fn next_end(&self) -> Option<i64> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Frees the servers whose reserved time is over.
    fn release_until(&mut self, now: i64) {
        while let Some(entry) = self.releases.first_entry() {
            if *entry.key() > now {
                break;
            }
            self.free += entry.remove();
        }
    }

    /// Ends one job that ends now, in the order of the trace, and frees its servers unless its reserved time
    /// was over anyway.
    fn end_one(&mut self, now: i64) -> bool {
        let Some((end, at)) = self.ends.first().copied().filter(|(end, _)| *end <= now) else {
            return false;
        };
        self.ends.remove(&(end, at));
        let job = &self.jobs[at];
        let reserved_end = self.starts[at] + job.reserved;
        if let Some(servers) = self.releases.get_mut(&reserved_end).filter(|_| reserved_end > now) {
            self.free += job.servers;
            *servers -= job.servers;
            if *servers == 0 {
                self.releases.remove(&reserved_end);
            }
        }
        true
    }

    fn start(&mut self, at: usize, now: i64) {
        let job = &self.jobs[at];
        self.free -= job.servers;
        self.starts[at] = now;
        *self.releases.entry(now + job.reserved).or_insert(0) += job.servers;
        self.ends.insert((now + job.run, at));
    }

    /// Starts every job that may start now.
    fn start_jobs(&mut self, now: i64) {
        let fits = |free: i64, at: &usize| self.jobs[*at].servers <= free;
        let mut first = 0;
        let mut free = self.free;
        while self.waiting.get(first).is_some_and(|at| fits(free, at)) {
            free -= self.jobs[self.waiting[first]].servers;
            first += 1;
        }
        let started: Vec<usize> = self.waiting.drain(..first).collect();
        for at in started {
            self.start(at, now);
        }
        if self.backfills && self.free > 0 && self.waiting.len() > 1 {
            self.backfill(now);
        }
    }

    /// Starts later jobs that do not delay the first one, in the order of arrival.
    fn backfill(&mut self, now: i64) {
        let Some(first) = self.waiting.first().map(|at| self.jobs[*at]) else { return };
        // When the first job can start, and how many servers it leaves over then.
        let (mut shadow, mut spare) = (i64::MAX, 0);
        let mut free = self.free;
        for (end, servers) in &self.releases {
            free += servers;
            if free >= first.servers {
                (shadow, spare) = (*end, free - first.servers);
                break;
            }
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut is_first = true;
        waiting.retain(|at| {
            let job = &self.jobs[*at];
            if std::mem::take(&mut is_first) || job.servers > self.free {
                return true;
            }
            if now + job.reserved > shadow {
                if job.servers > spare {
                    return true;
                }
                spare -= job.servers;
            }
            self.start(*at, now);
            false
        });
        self.waiting = waiting;
    }
}
