//! What the shell gets from a command: every exit code, and the one error type that carries one.

use std::fmt::{self, Write as _};
use std::process::ExitCode;

use coalloc_common::InvalidField;
use coalloc_proto::file::FileError;

use crate::kit::text::wrap;

/// How a command ended. The number is the process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The proof of a demo or an audit failed, a shape of an experiment does not hold, a certificate cannot be
    /// used, something is not well that `doctor` checks, or this program failed.
    Failed = 1,
    /// Bad input: nothing was done.
    BadInput = 2,
    /// Definitely refused: nothing is reserved.
    Refused = 3,
    /// Not finished, or the outcome is unknown.
    Unfinished = 4,
    /// The coordinator cannot be reached, or a call failed.
    CallFailed = 5,
    /// The thing asked for does not exist.
    NotFound = 6,
    /// Interrupted by a signal.
    Interrupted = 130,
}

impl Exit {
    /// The codes from good to bad, for commands that do several things. What is unknown is worse than what was refused for
    /// certain, because somebody has to look again.
    const FROM_GOOD_TO_BAD: [Self; 8] = [
        Self::Done,
        Self::NotFound,
        Self::Refused,
        Self::BadInput,
        Self::Unfinished,
        Self::CallFailed,
        Self::Failed,
        Self::Interrupted,
    ];

    /// The worst of several codes; without any, [`Exit::Done`].
    #[must_use]
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Self {
        let badness = |exit: &Self| Self::FROM_GOOD_TO_BAD.iter().position(|one| one == exit);
        all.into_iter().max_by_key(badness).unwrap_or(Self::Done)
    }
}

/// Every exit code and its meaning, for `--help`.
const MEANINGS: [(Exit, &str); 8] = [
    (Exit::Done, "done"),
    (
        Exit::Failed,
        "the proof of a demo or an audit failed, a ledger is damaged, a certificate has ended or does not fit, \
         something failed that `doctor` checks, a shape does not hold with --check, a disk is full, or an internal error",
    ),
    (Exit::BadInput, "bad input (usage, a file, INVALID_ARGUMENT, an id used for something else)"),
    (
        Exit::Refused,
        "refused for certain: there is no plan, nothing is reserved or changed, what `watch --until` waits for will \
         never be, or a ledger or a folder of results is in use",
    ),
    (Exit::Unfinished, "not finished, or the outcome is unknown: ask again with `coalloc show`"),
    (Exit::CallFailed, "the coordinator cannot be reached, or a call to it failed"),
    (
        Exit::NotFound,
        "no such reservation or certificate, no experiment or trace of that name, or no program for any of its points",
    ),
    (Exit::Interrupted, "interrupted (Ctrl-C, SIGTERM)"),
];

/// The table of exit codes as `--help` shows it.
#[must_use]
pub fn help() -> String {
    let mut text = String::from("Exit codes:\n");
    for (exit, meaning) in MEANINGS {
        let lines = wrap(meaning, 73).join("\n       ");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {:>3}  {lines}", exit as u8);
    }
    text.trim_end().to_owned()
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What a command prints on standard output, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// All of the output.
    pub text: String,
    /// How the command ended.
    pub exit: Exit,
}

impl Answer {
    /// An answer of a command that succeeded.
    #[must_use]
    pub const fn done(text: String) -> Self {
        Self { text, exit: Exit::Done }
    }
}

/// Why a command has no answer; printed on standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The problems, one per line.
    pub message: String,
}

impl Failure {
    /// A failure with this exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// A mistake by the user; nothing was done.
    pub fn bad_input(message: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, message)
    }

    /// The failure for programs, on one line: `{"error":{"exit":2,"message":"..."}}`.
    #[must_use]
    pub fn json(&self) -> String {
        let error = serde_json::json!({ "exit": self.exit as u8, "message": self.message });
        serde_json::json!({ "error": error }).to_string()
    }

    /// A failure of this program itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::bad_input(error.to_string())
    }
}

impl From<InvalidField> for Failure {
    fn from(error: InvalidField) -> Self {
        Self::bad_input(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_worse_than_what_is_refused() {
        assert_eq!(Exit::worst([]), Exit::Done);
        assert_eq!(Exit::worst([Exit::Refused, Exit::Done, Exit::NotFound]), Exit::Refused);
        assert_eq!(Exit::worst([Exit::NotFound, Exit::Unfinished]), Exit::Unfinished);
        for (exit, _) in MEANINGS {
            assert!(Exit::FROM_GOOD_TO_BAD.contains(&exit), "{exit:?}");
        }
    }

    #[test]
    fn help_lists_every_code_once() {
        let text = help();
        for code in ["0  done", "1  the proof", "2  bad", "3  refused", "4  not", "5  the", "6  no"]
        {
            assert_eq!(text.matches(&format!("  {code}")).count(), 1, "{code}: {text}");
        }
    }
}
