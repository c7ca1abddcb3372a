//! The log of one run: what happened when, and what must not have.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A run's log. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    at: Duration,
    lines: Vec<String>,
    faults: Vec<String>,
}

impl Trace {
    /// The simulation has come so far, for whoever speaks from outside of it.
    pub(crate) fn at(&self, at: Duration) {
        self.0.lock().unwrap().at = at;
    }

    /// Something happened.
    pub(crate) fn add(&self, who: &str, what: fmt::Arguments<'_>) {
        let mut lines = self.0.lock().unwrap();
        let at = turmoil::sim_elapsed().unwrap_or(lines.at).as_micros();
        let line = format!("{:>4}.{:06} {who:<6} {what}", at / 1_000_000, at % 1_000_000);
        lines.lines.push(line);
    }

    /// Something is wrong.
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
