//! `coalloc serve`: this process becomes one daemon of the federation.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use coalloc_net::telemetry::LogFormat;

/// Be a daemon of the federation: a resource manager or the coordinator
///
/// Logs go to standard error; COALLOC_LOG filters them (error, warn, info, debug, trace).
/// SIGTERM and Ctrl-C stop it.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Which daemon
    kind: Kind,
    /// Its configuration: an NrmFile, CrmFile or GrcFile as YAML or JSON
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// How log lines look
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormatArg,
    /// Stop when the process that started this one dies (used by `coalloc demo`)
    #[arg(long, hide = true)]
    with_parent: Option<i32>,
}

/// The daemons there are.
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
    /// As it is written on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nrm => "nrm",
            Self::Crm => "crm",
            Self::Grc => "grc",
        }
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormatArg {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Runs `coalloc serve`: ends when the daemon does.
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

/// Asks the system for SIGTERM when the parent dies, where a system can; false when it died already.
#[cfg(target_os = "linux")]
fn tie_to_parent(parent: i32) -> bool {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
    // Without it the daemon only has to be stopped by hand.
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
