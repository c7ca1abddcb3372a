//! The settings of an experiment with the model `jobs`, as a file gives them, and their checks.
//!
//! Times have their unit in the name. Settings that are not given are as in Castillo 2009: steps of 15
//! minutes, and as many attempts as half the horizon has slots.

use coalloc_common::InvalidField;
use coalloc_common::invalid::check_range;
use coalloc_common::servers::Choice;
use serde::{Deserialize, Serialize};

use coalloc_common::limits::TRACE_ATTEMPTS_MAX;

pub(crate) mod table;

use crate::experiment::settings;

/// Settings of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobsSettings {
    /// The file of the trace. The reader of the settings finds and reads it.
    pub trace: String,
    /// `N`: number of servers; if not given, `MaxProcs` of the trace, else its `MaxNodes`.
    #[serde(default)]
    pub servers: Option<u64>,
    /// Only jobs whose processors had at least this CPU time on average, in seconds (field 6).
    #[serde(default)]
    pub least_cpu_s: Option<i64>,
    /// Run times are rounded up to multiples of this, in seconds.
    #[serde(default)]
    pub round_run_to_s: Option<i64>,
    /// Only the first jobs, in the order of submission, of those that would take part.
    #[serde(default)]
    pub jobs: Option<usize>,
    /// The planner.
    pub planner: JobPlanner,
    /// `dt`: the time between two starts that `online` tries, in seconds. 0 for the exact earliest start.
    #[serde(default = "default_step_s")]
    pub step_s: i64,
    /// `H`: `online` plans no later than this after the submission of a job, in days.
    #[serde(default = "default_horizon_days")]
    pub horizon_days: i64,
    /// `tau`: the length of a slot of the horizon, in seconds. It determines the default of `attempts`, and the
    /// slots of an index that has some.
    #[serde(default = "default_slot_s")]
    pub slot_s: i64,
    /// `R_max`: the number of starts that `online` tries for a job; if not given, half the number of slots in
    /// the horizon. It does not count with `step_s: 0`.
    #[serde(default)]
    pub attempts: Option<u64>,
    /// How `online` keeps what is taken: as a count, or server by server in one of the indices.
    #[serde(default)]
    pub index: ServerIndexKind,
    /// Which of the idle servers a job gets, if servers are kept one by one. `paper`: those that the index finds first.
    /// `first`: those that the machine lists first. `best-fit`: those that are taken again soonest after the job.
    /// `worst-fit`: those that are taken again last.
    #[serde(default)]
    pub choice: Choice,
    /// What is known of run times when jobs are planned.
    #[serde(default)]
    pub estimates: Estimates,
    /// The order of what happens at one instant.
    #[serde(default)]
    pub at_one_instant: AtOneInstant,
    /// `rho`: the share of jobs that are advance reservations, from 0 to 1. The seed draws them.
    #[serde(default)]
    pub reserved_share: f64,
    /// The earliest start of an advance reservation is 0 to this many seconds after its submission, each
    /// equally likely.
    #[serde(default = "default_ahead_s")]
    pub reserved_ahead_s: i64,
}

/// Which jobs of a trace take part, and on how many servers; see the fields of [`JobsSettings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Selection {
    /// Number of servers.
    pub servers: Option<u64>,
    /// Least CPU time, in seconds.
    pub least_cpu_s: Option<i64>,
    /// Run times are rounded up to multiples of this, in seconds.
    pub round_run_to_s: Option<i64>,
    /// Only so many jobs.
    pub jobs: Option<usize>,
}

/// The planner of the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobPlanner {
    /// Every job gets its start when it is submitted, and keeps it: the first start, in steps, at which
    /// enough servers are idle for its whole length (Castillo 2009).
    Online,
    /// One queue in the order of arrival; no job overtakes another one.
    Fcfs,
    /// One queue; a job may overtake others if it does not delay the first job of the queue.
    Easy,
    /// Every job gets a start when it is submitted. When a job ends early, later jobs move forward.
    Conservative,
    /// The waits that the trace states.
    Logged,
}

/// How `online` keeps what is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerIndexKind {
    /// As a count: any idle server is as good as any other one, at every instant.
    #[default]
    Count,
    /// Server by server, in one tree of idle periods.
    Tree,
    /// Server by server, as sets of servers that are idle through slots.
    Bits,
    /// Server by server, in the trees of the paper; periods without an end are in a tree of their own.
    Slots,
    /// Server by server, in the trees of the paper as it prints them.
    SlotsPrinted,
}

/// What is known of run times when jobs are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Estimates {
    /// The run times.
    #[default]
    Exact,
    /// The users' estimates (field 9). A job that ends before its estimate frees its servers then.
    User,
}

/// The order of what happens at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtOneInstant {
    /// First all jobs end that end at this instant, then jobs are submitted.
    #[default]
    EndsFirst,
    /// First jobs are submitted, then jobs end, and the planner looks at its queue after every single one:
    /// the order of the simulator pyss. Servers whose reserved time is over are free in any case.
    SubmissionsFirst,
}

const fn default_step_s() -> i64 {
    900
}

const fn default_horizon_days() -> i64 {
    60
}

const fn default_slot_s() -> i64 {
    900
}

const fn default_ahead_s() -> i64 {
    3 * 3_600
}

impl JobsSettings {
    /// Checks everything that can be checked without the trace.
    ///
    /// # Errors
    /// The first setting that is not acceptable.
    pub fn check(&self) -> Result<(), InvalidField> {
        settings::check(table::TABLE, self)?;
        // The number of attempts that is not given follows from the horizon.
        check_range("attempts", self.attempts(), 1..=TRACE_ATTEMPTS_MAX, "")?;
        Ok(())
    }

    /// Which jobs of the trace take part.
    #[must_use]
    pub const fn selection(&self) -> Selection {
        let Self { servers, least_cpu_s, round_run_to_s, jobs, .. } = self;
        Selection {
            servers: *servers,
            least_cpu_s: *least_cpu_s,
            round_run_to_s: *round_run_to_s,
            jobs: *jobs,
        }
    }

    /// The horizon in seconds.
    #[must_use]
    pub const fn horizon_s(&self) -> i64 {
        self.horizon_days * 86_400
    }

    /// The number of starts that `online` tries for a job.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        let half = || (self.horizon_s() / self.slot_s.max(1) / 2).unsigned_abs();
        self.attempts.unwrap_or_else(half)
    }
}

impl Selection {
    /// Checks everything that can be checked without the trace.
    ///
    /// # Errors
    /// The first setting that is not acceptable.
    pub fn check(&self) -> Result<(), InvalidField> {
        settings::check(table::TABLE, self)
    }
}
