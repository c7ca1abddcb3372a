//! What an audit says: checks, each with what violates it.

use std::fmt;

use serde::Serialize;

/// One thing that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which invariant, by its number in `docs/PROTOCOL.md`.
    pub invariant: &'static str,
    /// Whose; empty when it is nobody's alone.
    pub transaction: String,
    /// Where: the resource manager; empty when it is nobody's alone.
    #[serde(rename = "resourceManager")]
    pub manager: String,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl Violation {
    /// Of an invariant, of one transaction at one resource manager; either may be empty.
    pub(crate) fn new(
        invariant: &'static str,
        (transaction, manager): (&str, &str),
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
    /// Does it hold?
    pub passed: bool,
    /// The invariants it is about.
    pub invariant: &'static str,
    /// What was checked, with numbers.
    #[serde(rename = "checked")]
    pub sentence: String,
    /// What is wrong.
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

    /// The same, said of one level of a tree.
    pub(crate) fn of(self, level: &str) -> Self {
        Self { sentence: format!("{level}: {}", self.sentence), ..self }
    }
}
