//! The results of an audit: checks, each with its violations.

use std::fmt;

use serde::Serialize;

/// One violation of an invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The invariant, by its number in `docs/PROTOCOL.md`.
    pub invariant: &'static str,
    /// The transaction; empty if the violation does not belong to a single one.
    pub transaction: String,
    /// The resource manager; empty if the violation does not belong to a single one.
    #[serde(rename = "resourceManager")]
    pub manager: String,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl Violation {
    /// A violation of an invariant, of one transaction at one resource manager; either may be empty.
    pub(crate) fn new(
        invariant: &'static str,
        transaction: &str,
        manager: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let (transaction, manager) = (transaction.to_owned(), manager.to_owned());
        Self { invariant, transaction, manager, expected: expected.into(), found: found.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, transaction, manager, expected, found } = self;
        write!(f, "{invariant}")?;
        if !transaction.is_empty() {
            write!(f, " {transaction}")?;
        }
        if !manager.is_empty() {
            write!(f, " at {manager}")?;
        }
        write!(f, ": expected {expected}; found {found}")
    }
}

/// One line of the proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Does the check hold?
    pub passed: bool,
    /// The invariants that are checked.
    pub invariant: &'static str,
    /// A sentence about what was checked, with numbers.
    #[serde(rename = "checked")]
    pub sentence: String,
    /// The violations found.
    pub violations: Vec<Violation>,
}

impl Check {
    pub(crate) fn new(
        invariant: &'static str,
        violations: Vec<Violation>,
        sentence: String,
    ) -> Self {
        Self { passed: violations.is_empty(), invariant, sentence, violations }
    }

    /// The same check, labelled with a level of a tree.
    pub(crate) fn of(self, level: &str) -> Self {
        Self { sentence: format!("{level}: {}", self.sentence), ..self }
    }
}
