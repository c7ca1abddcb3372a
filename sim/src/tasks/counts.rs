//! The counts of a run, and the measures that are computed from them.
//!
//! Tasks of the warm-up are not counted here. Counting is in integers; division comes at the very end.

use coalloc_common::{Span, Time};
use coalloc_plan::multicost::Effort;

use super::net::Net;
use crate::experiment::Measures;

/// Counts of the measured tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) tasks: u64,
    /// Tasks that got everything they need.
    pub(super) done: u64,
    /// Time from creation to the end of the run, summed over these tasks, in microseconds.
    pub(super) delay_us: i128,
    /// Those of them that end when their first plan said.
    pub(super) as_planned: u64,
    /// Tasks that were not reserved.
    pub(super) blocked: u64,
    /// Calls of the planner, and the plans that it gave.
    pub(super) asked: u64,
    pub(super) planned: u64,
    pub(super) proven: u64,
    pub(super) operations: u128,
    pub(super) paths: u128,
    pub(super) tried: u128,
    /// Bursts that were sent over links.
    pub(super) bursts: u64,
    /// Links that these bursts use, in total.
    pub(super) links: u64,
    /// Bursts that met another burst on their way.
    pub(super) met: u64,
    /// Runs that were requested at clusters, and those for which the cluster was not free at that time.
    pub(super) runs: u64,
    pub(super) conflicts: u64,
    /// Microseconds of links, and of CPUs, that were reserved and not released.
    pub(super) link_us: i128,
    pub(super) cpu_us: i128,
    pub(super) updates: u64,
    pub(super) update_bytes: u64,
    /// Updates that schedulers ignored.
    pub(super) ignored: u64,
    /// At planning: the pictures of places that were checked, those that were out of date, and by how much in
    /// total.
    pub(super) looked: u64,
    pub(super) behind: u64,
    pub(super) stale_us: i128,
    pub(super) stale_plans: u64,
    /// When the first and the last measured task arrived.
    pub(super) first: Option<Time>,
    pub(super) last: Option<Time>,
    pub(super) events: u64,
}

impl Counts {
    pub(super) fn effort(&mut self, effort: Effort) {
        self.operations += u128::from(effort.operations);
        self.paths += u128::from(effort.paths);
        self.tried += u128::from(effort.tried);
    }

    /// The measures of a run on this network.
    pub(super) fn measures(&self, net: &Net) -> Measures {
        let mut measures = Measures::new();
        let share = |part: i128, of: f64| part as f64 / of;
        let wide = |count: u128| count as i128;
        measures.put("total_delay_s", share(self.delay_us, self.done as f64 * 1e6));
        measures.put_share("task_blocking", self.blocked, self.tasks);
        measures.put_share("burst_blocking", self.met, self.bursts);
        measures.put_share("conflict", self.conflicts, self.runs);
        measures.put("scheduled_tasks", self.done as f64);
        measures.put("blocked_tasks", self.blocked as f64);
        measures.put_share("as_planned", self.as_planned, self.done);
        measures.put("operations", share(wide(self.operations), self.asked as f64));
        measures.put("paths", share(wide(self.paths), self.asked as f64));
        measures.put("paths_tried", share(wide(self.tried), self.asked as f64));
        measures.put_share("proven", self.proven, self.planned);
        measures.put_share("plans_per_task", self.asked, self.tasks);
        measures.put_share("links_per_burst", self.links, self.bursts);
        let span = match (self.first, self.last) {
            (Some(first), Some(last)) => last.since(first),
            _ => Span::ZERO,
        };
        let us = span.as_us() as f64;
        measures.put("link_load", share(self.link_us, us * net.links.len() as f64));
        measures.put("cpu_load", share(self.cpu_us, us * net.cpus().0 as f64));
        measures.put_share("updates_per_task", self.updates, self.tasks);
        measures.put_share("bytes_per_update", self.update_bytes, self.updates);
        measures.put("update_kbit_s", self.update_bytes as f64 * 8e3 / us);
        measures.put_share("behind", self.behind, self.looked);
        measures.put("staleness_ms", share(self.stale_us, self.stale_plans as f64 * 1e3));
        measures.put("events", self.events as f64);
        measures
    }
}
