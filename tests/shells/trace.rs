//! The log of one run: the events with their times, and the faults that were found.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The log of a run. Clones share one log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    at: Duration,
    lines: Vec<String>,
    faults: Vec<String>,
}

impl Trace {
    /// Sets how far the simulation has come, for entries from outside of the simulation.
    pub(crate) fn at(&self, at: Duration) {
        self.0.lock().unwrap().at = at;
    }

    /// Adds an event.
    pub(crate) fn add(&self, who: &str, what: fmt::Arguments<'_>) {
        let mut lines = self.0.lock().unwrap();
        let at = turmoil::sim_elapsed().unwrap_or(lines.at).as_micros();
        let line = format!("{:>4}.{:06} {who:<6} {what}", at / 1_000_000, at % 1_000_000);
        lines.lines.push(line);
    }

    /// Adds a fault.
    pub(crate) fn accuse(&self, fault: String) {
        self.0.lock().unwrap().faults.push(fault);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().lines.clone()
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.0.lock().unwrap().faults.clone()
    }
}
