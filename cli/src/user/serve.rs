//! `coalloc serve`: runs one daemon of the federation in this process.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use coalloc_net::telemetry::LogFormat;

/// Run a daemon of the federation: a resource manager or the coordinator
///
/// Logs go to standard error; COALLOC_LOG filters them (error, warn, info, debug, trace).
/// SIGTERM and Ctrl-C stop it.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// The daemon to run
    kind: Kind,
    /// The daemon's configuration: an NrmFile, CrmFile or GrcFile as YAML or JSON
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Format of the log lines
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormatArg,
    /// Stop when the process that started this one dies (used by `coalloc demo`)
    #[arg(long, hide = true)]
    with_parent: Option<i32>,
}

/// The kinds of daemons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A network resource manager
    Nrm,
    /// A compute resource manager
    Crm,
    /// The coordinator
    Grc,
}

impl Kind {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nrm => "nrm",
            Self::Crm => "crm",
            Self::Grc => "grc",
        }
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormatArg {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// Runs `coalloc serve`; returns when the daemon ends.
#[must_use]
pub fn run(args: &ServeArgs) -> ExitCode {
    let log = match args.log_format {
        LogFormatArg::Text => LogFormat::Text,
        LogFormatArg::Json => LogFormat::Json,
    };
    if let Some(parent) = args.with_parent
        && !tie_to_parent(parent)
    {
        return ExitCode::SUCCESS;
    }
    start(args.kind, &args.config, log)
}

/// Asks the system to send SIGTERM when the parent dies, where the system can; returns false if the parent
/// is already dead.
#[cfg(target_os = "linux")]
fn tie_to_parent(parent: i32) -> bool {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
    // If this fails, the daemon only has to be stopped by hand.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    getppid() == Pid::from_raw(parent)
}

#[cfg(not(target_os = "linux"))]
fn tie_to_parent(_: i32) -> bool {
    true
}

fn start(kind: Kind, config: &Path, log: LogFormat) -> ExitCode {
    match kind {
        Kind::Nrm => coalloc_nrm::run(config, log),
        Kind::Crm => coalloc_crm::run(config, log),
        Kind::Grc => coalloc_grc::run(config, log),
    }
}
