//! The tasks of Christodoulopoulos 2008, section VII: Poisson arrivals, equally likely at every node, and
//! exponential sizes of data and runs.
//!
//! Each task takes one CPU. The same seed gives the same tasks on every machine.

use coalloc_common::{BitsPerSecond, Span};
use coalloc_sim::chance::RandomStream;

/// Rate of a link; a burst takes all of it.
pub const RATE: BitsPerSecond = BitsPerSecond(1_000_000_000);
/// Mean time that data take at [`RATE`].
const BURST_MEAN_S: f64 = 1.0;
/// Mean time of a run, on CPUs with [`MIPS`].
const RUN_MEAN_S: f64 = 10.0;
/// Speed of a CPU, in million instructions per second.
const MIPS: f64 = 25_000.0;

/// The parameters of the tasks that are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// Seed of all draws.
    pub seed: u64,
    /// Tasks per second.
    pub rate: f64,
    /// How long tasks arrive.
    pub length: Span,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// When the task arrives, counted from the start.
    pub at: Span,
    /// The place of the task's data.
    pub source: String,
    /// Size of the data.
    pub data_bytes: u64,
    /// The work to compute, in million instructions.
    pub work_mi: u64,
}

impl Workload {
    /// The tasks, in the order of arrival.
    #[must_use]
    pub fn arrivals(&self, points: &[String]) -> Vec<Arrival> {
        let mut sizes = RandomStream::new(self.seed, "tasks");
        let (mut clock_s, mut arrivals) = (0.0, Vec::new());
        loop {
            clock_s += sizes.exponential(1.0 / self.rate);
            // A whole number of microseconds, far below the maximum of an i64.
            let at = Span::from_us((clock_s * 1e6) as i64);
            if at >= self.length {
                break;
            }
            let data_bytes = sizes.exponential_count(BURST_MEAN_S * RATE.0 as f64 / 8.0);
            let work_mi = sizes.exponential_count(RUN_MEAN_S * MIPS);
            arrivals.push(Arrival { at, source: String::new(), data_bytes, work_mi });
        }
        let mut sources = RandomStream::new(self.seed, "sources");
        for arrival in &mut arrivals {
            arrival.source.clone_from(&points[sources.below(points.len() as u64) as usize]);
        }
        arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_the_means_of_the_paper_and_depend_on_the_seed_alone() {
        let workload = Workload { seed: 7, rate: 50.0, length: Span::from_secs(200) };
        let points: Vec<String> = (0..25).map(|at| format!("n{at}")).collect();
        let tasks = workload.arrivals(&points);
        assert_eq!(tasks, workload.arrivals(&points));
        assert_ne!(tasks, Workload { seed: 8, ..workload }.arrivals(&points));
        let count = tasks.len() as f64;
        assert!((9_500.0..10_500.0).contains(&count), "{count}");
        let mean = |of: fn(&Arrival) -> u64| tasks.iter().map(of).sum::<u64>() as f64 / count;
        assert!((0.95..1.05).contains(&(mean(|task| task.data_bytes) / 125e6)));
        assert!((0.95..1.05).contains(&(mean(|task| task.work_mi) / 250e3)));
        let of = |point: &String| tasks.iter().filter(|task| task.source == *point).count();
        assert!(points.iter().all(|point| (300..500).contains(&of(point))));
        assert!(tasks.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }
}
