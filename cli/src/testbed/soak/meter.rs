//! The outcome of a load: co-allocations offered in each window of ten seconds, and a count of every answer.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::testbed::audit::journal::{CallKnowledge, Kind};

/// Length of a window.
pub const WINDOW: Duration = Duration::from_secs(10);

/// The counts of a running load.
#[derive(Debug)]
pub struct Meter {
    begun: Instant,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    windows: Vec<usize>,
    said: BTreeMap<(Kind, CallKnowledge), usize>,
}

/// The outcome of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How long new co-allocations were offered.
    pub offered_for: Duration,
    /// New co-allocations offered in each window; the last window may be cut short.
    pub windows: Vec<usize>,
    /// The number of calls by kind and outcome.
    pub said: BTreeMap<(Kind, CallKnowledge), usize>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), counts: Mutex::default() }
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        // Counting continues even after a panic in another task.
        self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn offered(&self) {
        let window = (self.begun.elapsed().as_secs() / WINDOW.as_secs()) as usize;
        let windows = &mut self.counts().windows;
        // Windows in which nothing was offered count as well.
        windows.resize(windows.len().max(window + 1), 0);
        windows[window] += 1;
    }

    pub(super) fn said(&self, kind: Kind, said: CallKnowledge) {
        *self.counts().said.entry((kind, said)).or_default() += 1;
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn outcome(&self, offered_for: Duration) -> Outcome {
        let counts = self.counts();
        let mut windows = counts.windows.clone();
        let whole = offered_for.as_secs().div_ceil(WINDOW.as_secs()) as usize;
        windows.resize(windows.len().max(whole), 0);
        Outcome { offered_for, windows, said: counts.said.clone() }
    }
}

impl Outcome {
    /// Co-allocations offered per minute in the window in which the fewest were offered.
    ///
    /// If the load was shorter than one window, this is the average over the whole load. A last window of
    /// less than half the length does not count.
    #[must_use]
    pub fn least_per_minute(&self) -> f64 {
        let total = self.offered_for.as_secs_f64();
        let each = WINDOW.as_secs_f64();
        let rates = self.windows.iter().enumerate().filter_map(|(index, offered)| {
            let long = (total - index as f64 * each).min(each);
            (long >= each / 2.0 || index == 0).then(|| *offered as f64 * 60.0 / long.max(0.001))
        });
        rates.reduce(f64::min).unwrap_or_default()
    }

    /// The total number of new co-allocations offered.
    #[must_use]
    pub fn offered(&self) -> usize {
        self.windows.iter().sum()
    }

    /// The number of calls of this kind with this outcome.
    #[must_use]
    pub fn count(&self, kind: Kind, said: CallKnowledge) -> usize {
        self.said.get(&(kind, said)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(seconds: u64, windows: &[usize]) -> Outcome {
        Outcome {
            offered_for: Duration::from_secs(seconds),
            windows: windows.into(),
            ..Outcome::default()
        }
    }

    #[test]
    fn the_emptiest_window_counts_and_a_short_last_one_does_not() {
        let least = |seconds, windows: &[usize]| outcome(seconds, windows).least_per_minute();
        assert!((least(30, &[50, 10, 60]) - 60.0).abs() < 1e-9);
        assert!((least(22, &[50, 40, 1]) - 240.0).abs() < 1e-9);
        assert!((least(26, &[50, 40, 6]) - 60.0).abs() < 1e-9, "six seconds count");
        assert!((least(4, &[20]) - 300.0).abs() < 1e-9);
        assert!(least(20, &[50, 0]).abs() < 1e-9);
        assert!(outcome(0, &[]).least_per_minute().abs() < 1e-9);
    }

    #[test]
    fn windows_in_which_nothing_was_offered_are_there() {
        let meter = Meter::new();
        meter.offered();
        let outcome = meter.outcome(Duration::from_secs(25));
        assert_eq!((outcome.windows.len(), outcome.offered()), (3, 1));
    }
}
