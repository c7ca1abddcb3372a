//! The first line of a folder's runs: the experiment they belong to, and what determined them.
//!
//! Runs are determined by the settings, the sweep, and the program: its version, and the revision of the
//! model, which is raised by every change of a world's behaviour. Runs of two programs are never mixed.

use std::fmt::Write as _;
use std::path::Path;

use coalloc_sim::experiment::file::Model;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::shard::ShardedRun;
use crate::kit::exit::Failure;

/// The first line of `results.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Name of the experiment.
    pub experiment: String,
    /// Are the points and seeds those of a `--small` run?
    pub small: bool,
    /// SHA-256 of what determines the runs, without the program.
    pub digest: String,
    /// The program that made the runs; `None` in folders of programs that did not record it.
    #[serde(default)]
    pub program: Option<Program>,
    /// The shard that the folder is for, and of what run; `None` if it may have every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharded: Option<ShardedRun>,
}

/// The part of a program that determines runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The version of the program.
    pub version: String,
    /// The revision of the model.
    pub revision: u32,
}

impl Program {
    fn this(model: Model) -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), revision: model.revision() }
    }
}

/// SHA-256, in hexadecimal digits.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let mut digest = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(digest, "{byte:02x}");
    }
    digest
}

impl Head {
    /// The head for an experiment that this program runs; `essence` is what determines its runs.
    #[must_use]
    pub fn of(experiment: &str, model: Model, small: bool, essence: &Value) -> Self {
        // Keys of JSON objects are sorted here, so equal content gives equal bytes.
        let digest = digest(essence.to_string().as_bytes());
        let program = Some(Program::this(model));
        Self { experiment: experiment.to_owned(), small, digest, program, sharded: None }
    }

    /// The head as a line of the file.
    #[must_use]
    pub fn line(&self) -> String {
        // Strings, numbers and booleans can always be written as JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the first line of a file.
    ///
    /// # Errors
    /// When the line is not a head.
    pub fn read(path: &Path, line: &[u8]) -> Result<Self, Failure> {
        serde_json::from_slice(line).map_err(|error| {
            let said = error.to_string();
            let said = said.split(" at line ").next().unwrap_or_default();
            Failure::bad_input(format!(
                "{}:1: {said}; expected the first line of what `coalloc sim run` writes\n\
                 nothing was overwritten",
                path.display()
            ))
        })
    }

    /// Refuses runs of another experiment or of another program.
    ///
    /// # Errors
    /// Names the differences.
    pub fn refuse_other(&self, path: &Path, wanted: &Self) -> Result<(), Failure> {
        let kind = |head: &Self| match head.small {
            true => format!("{} (a --small run)", head.experiment),
            // Of two kinds of runs of one experiment, both are named.
            false if self.small != wanted.small => format!("{} (a full run)", head.experiment),
            false => head.experiment.clone(),
        };
        let named = |field: &str, problem: &str| {
            Err(Failure::bad_input(format!(
                "{}:1: {field}: {problem}\nnothing was overwritten",
                path.display()
            )))
        };
        if (&self.experiment, self.small) != (&wanted.experiment, wanted.small) {
            let problem = format!(
                "the folder holds results of {}, not of {}; choose another --out",
                kind(self),
                kind(wanted)
            );
            let field = if self.small == wanted.small { "experiment" } else { "small" };
            return named(field, &problem);
        }
        if self.digest != wanted.digest {
            let problem = format!(
                "the folder holds results of {} from before its settings, its sweep, a file \
                 that it includes or a planner that it starts was changed, or from runs that were not timed; choose \
                 another --out",
                kind(self)
            );
            return named("digest", &problem);
        }
        if self.program != wanted.program {
            let problem = format!(
                "the folder holds results of {}, and this is {}: results of two programs are not mixed; \
                 choose another --out, or remove the folder and run all of it again",
                self.maker(),
                wanted.maker()
            );
            return named("program", &problem);
        }
        if self.sharded != wanted.sharded {
            let (own, other) = (self.share(), wanted.share());
            let problem =
                format!("the folder is for {own}, and this is {other}; choose another --out");
            return named("sharded", &problem);
        }
        Ok(())
    }

    /// Refuses runs that another program has made, in a folder that is only read.
    ///
    /// # Errors
    /// Names both programs.
    pub fn check_is_this_program(&self, folder: &Path, model: Model) -> Result<(), Failure> {
        let this = Self { program: Some(Program::this(model)), ..self.clone() };
        if self.program == this.program {
            return Ok(());
        }
        Err(Failure::bad_input(format!(
            "{}: program: it is {}, and this is {}; the program that made the shards merges them",
            folder.display(),
            self.maker(),
            this.maker()
        )))
    }

    /// The share of a run that the folder is for, in words.
    fn share(&self) -> String {
        match &self.sharded {
            None => "a whole run".to_owned(),
            Some(own) => format!("shard {} of a run{}", own.shard, own.part.words()),
        }
    }

    /// The program that made the runs, in words.
    #[must_use]
    pub fn maker(&self) -> String {
        match &self.program {
            Some(Program { version, revision }) => {
                format!("coalloc {version} with revision {revision} of the model")
            }
            None => "an older coalloc, which did not say its version".to_owned(),
        }
    }
}
