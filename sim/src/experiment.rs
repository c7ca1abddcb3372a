//! Experiments: what a file says, what a run measures, and how the results compare with the paper's numbers.
//!
//! A *model* is a function of settings and a seed: it makes [`Measures`] and reports what happens to its
//! [`Trace`]. An experiment ([`mod@file`]) names a model, its settings, the axes to sweep, the seeds, and
//! what the paper prints. The same settings and seed give the same measures on every machine.
//!
//! Left out: files, threads and clocks, which belong to the command line (`coalloc sim run`). So a model
//! cannot measure how long it takes. It reports when planning begins and ends ([`TraceEvent`]), and a caller
//! that has a clock reads it then.

pub mod file;
pub mod judge;
pub mod measures;
pub mod results;
pub mod settings;
pub mod shipped;
pub mod trace;

use coalloc_common::InvalidField;

pub use file::Experiment;
pub use measures::Measures;
pub use results::{Results, Summary};
pub use trace::{SilentTrace, Trace, TraceEvent};

/// Why a model has no measures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A setting is not acceptable. Its field is a path within the settings (`workload.lambda`).
    #[error(transparent)]
    Setting(#[from] InvalidField),
    /// A planner that is an external program failed.
    #[error("a planner failed: {0}")]
    Program(String),
    /// The run reached a state that must not occur. This is a defect of the model, never of the settings.
    #[error("the model failed: {0}")]
    Defect(String),
}
