//! Bounds on traces of jobs, each with its reason.

use coalloc_common::limits;

/// Largest number of jobs in a trace: the largest log of the Parallel Workloads Archive that has one site has
/// less than this. A job takes 48 bytes, so a trace takes at most 48 MB.
pub const JOBS_MAX: usize = 1_000_000;

/// Largest size of a trace, in bytes of text: 536 for each of [`JOBS_MAX`] jobs, and lines of archived traces
/// have about 100. A reader that unpacks a file stops here, however small the packed file is.
pub const TRACE_BYTES_MAX: u64 = 512 << 20;

/// Largest submission time, wait, run time and estimate, in seconds: 31 years. Even a queue of
/// [`JOBS_MAX`] jobs of this length ends before 2^63 seconds.
pub const SECONDS_MAX: i64 = 1_000_000_000;
const _: () = assert!(SECONDS_MAX < i64::MAX / JOBS_MAX as i64 / 4);

/// Largest number of servers, and of servers of one job: as many as a site may have CPUs.
pub const SERVERS_MAX: u64 = limits::CPUS_MAX;

/// Longest horizon, in days: ten years. The online planner counts microseconds, and
/// [`SECONDS_MAX`] and this horizon together are far below 2^63 of them.
pub const HORIZON_DAYS_MAX: i64 = 3_650;
const _: () = assert!((SECONDS_MAX + HORIZON_DAYS_MAX * 86_400) < i64::MAX / 1_000_000 / 4);

/// Longest step between two attempts, and longest slot, in seconds: a day.
pub const STEP_MAX_S: i64 = 86_400;

/// Largest number of attempts for one job: one each second of the longest horizon.
pub const ATTEMPTS_MAX: u64 = HORIZON_DAYS_MAX.unsigned_abs() * 86_400;
