//! The workload: a Poisson stream of tasks.
//!
//! Intervals, sources and sizes have random streams of their own. So one seed gives the same tasks to every
//! planner, and under a higher rate the tasks arrive sooner but are the same.

use coalloc_common::Span;

use super::settings::WorkloadSettings;
use crate::chance::RandomStream;

/// One task of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Time since the arrival of the task before.
    pub(super) after: Span,
    pub(super) source: usize,
    pub(super) bytes: u64,
    pub(super) mi: u64,
}

/// The endless stream of tasks.
#[derive(Debug)]
pub(super) struct Workload {
    intervals: RandomStream,
    sources: RandomStream,
    sizes: RandomStream,
    interval_us: f64,
    nodes: u64,
    mean_bytes: f64,
    mean_mi: f64,
}

impl Workload {
    pub(super) fn new(settings: &WorkloadSettings, nodes: usize, seed: u64) -> Self {
        Self {
            intervals: RandomStream::new(seed, "intervals"),
            sources: RandomStream::new(seed, "sources"),
            sizes: RandomStream::new(seed, "sizes"),
            interval_us: 1e6 / settings.lambda,
            nodes: nodes as u64,
            mean_bytes: settings.mean_bytes,
            mean_mi: settings.mean_mi,
        }
    }

    pub(super) fn next(&mut self) -> Arrival {
        Arrival {
            after: self.intervals.exponential_span(self.interval_us),
            source: self.sources.below(self.nodes) as usize,
            bytes: self.sizes.exponential_count(self.mean_bytes),
            mi: self.sizes.exponential_count(self.mean_mi),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_has_the_rate_and_means_that_were_asked_for() {
        let settings = WorkloadSettings {
            lambda: 5.0,
            tasks: 1,
            warm_up: 0,
            mean_bytes: 1e8,
            mean_mi: 4e5,
            cpus: 1,
            rate_bps: None,
            deadline_factor: None,
        };
        let mut workload = Workload::new(&settings, 9, 11);
        let (mut us, mut bytes, mut mi, mut sources) = (0_i64, 0_u64, 0_u64, [0_u32; 9]);
        for _ in 0..90_000 {
            let arrival = workload.next();
            us += arrival.after.as_us();
            bytes += arrival.bytes;
            mi += arrival.mi;
            sources[arrival.source] += 1;
        }
        let near = |value: f64, mean: f64| (value / 90_000.0 / mean - 1.0).abs() < 0.02;
        assert!(near(us as f64, 200_000.0) && near(bytes as f64, 1e8) && near(mi as f64, 4e5));
        assert!(sources.iter().all(|count| (9_500..10_500).contains(count)), "{sources:?}");
    }
}
