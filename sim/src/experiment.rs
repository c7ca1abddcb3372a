//! Experiments: what a file says, what a run measures, and what came of it beside the paper's numbers.
//!
//! A *model* is a function of settings and a seed: it makes [`Measures`] and tells its [`Trace`] what
//! happens. An experiment ([`mod@file`]) names a model, its settings, the axes to sweep, the seeds, and what
//! the paper prints. The same settings and seed give the same measures on every machine.
//!
//! Left out: files, threads and clocks, which are the command line's (`coalloc sim run`). So a model
//! cannot measure how long it takes: it says when planning begins and ends ([`TraceEvent`]), and whoever
//! has a clock looks at it.

pub mod file;
pub mod judge;
pub mod measures;
pub mod results;
pub mod shipped;
pub mod trace;

use coalloc_common::InvalidField;

pub use file::Experiment;
pub use measures::Measures;
pub use results::{Results, Summary};
pub use trace::{SilentTrace, Trace, TraceEvent};

/// Why a model has no measures to give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A setting is not acceptable; its field is told from the settings on (`workload.lambda`).
    #[error(transparent)]
    Setting(#[from] InvalidField),
    /// A planner that is a program of its own did not do what it is for.
    #[error("a planner failed: {0}")]
    Program(String),
    /// The run came to a state that must not be: a defect of the model, never of the settings.
    #[error("the model broke off: {0}")]
    Defect(String),
}
