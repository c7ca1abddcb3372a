//! The output of an audit: one line per check, with its violations.

use std::fmt::Write as _;

use serde_json::json;

use super::{Audit, Check};
use crate::kit::exit::Failure;
use crate::kit::text;

/// Violations that are shown for one check; the others are only counted.
const SHOWN: usize = 10;

/// The checks for people.
#[must_use]
pub fn lines(checks: &[Check]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    for check in checks {
        let mark = if check.passed { "  ok   " } else { "  FAIL " };
        let _ = writeln!(out, "{mark} {}", check.sentence);
        for violation in check.violations.iter().take(SHOWN) {
            let _ = writeln!(out, "         {violation}");
        }
        if check.violations.len() > SHOWN {
            let _ = writeln!(out, "         and {} more", check.violations.len() - SHOWN);
        }
    }
    out
}

impl Audit {
    /// The whole audit for people.
    #[must_use]
    pub fn text(&self) -> String {
        let managers = text::count(self.managers, "resource manager");
        let coordinators = text::count(self.coordinators, "coordinator");
        let verdict = match (self.holds(), self.restless.is_empty()) {
            (true, _) => "All is as it must be",
            (false, true) => "The audit FAILS",
            (false, false) => "NOT AT REST, so nothing is proven yet",
        };
        let mut out = format!("{verdict}; read from {managers} and {coordinators}:\n");
        out += &lines(&self.checks);
        for what in &self.restless {
            let _ = writeln!(out, "  not at rest: {what}");
        }
        out
    }

    /// The whole audit for programs.
    ///
    /// # Errors
    /// When the audit cannot be written as JSON.
    pub fn json(&self) -> Result<String, Failure> {
        text::json(&json!({
            "holds": self.holds(),
            "atRest": self.restless.is_empty(),
            "restless": self.restless,
            "resourceManagers": self.managers,
            "coordinators": self.coordinators,
            "checks": self.checks,
        }))
    }
}
