//! `coalloc serve`: runs one daemon of the federation in this process.
//!
//! With `--wait-for` it first waits for files, so that a daemon can be started before its certificate is issued.
//!
//! With `--check` it only reads the configuration ([`mod@check`]).
//!
//! Left out: what the daemons do (`nrm`, `crm`, `grc`).

pub mod check;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use coalloc_net::telemetry::LogFormat;

use crate::kit::exit::{Answer, Failure};

/// Run a daemon of the federation: a resource manager or the coordinator
///
/// Logs go to standard error; COALLOC_LOG filters them (error, warn, info, debug, trace), and `coalloc log-level` changes
/// that while the daemon runs.
/// SIGTERM and Ctrl-C stop it.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// The daemon to run [default: the one whose configuration it is]
    kind: Option<Kind>,
    /// The daemon's configuration: an NrmFile, CrmFile or GrcFile as YAML or JSON
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Format of the log lines
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormatArg,
    /// Before anything else, wait until this file is there, like the certificate.pem of the daemon's identity; may be
    /// repeated
    #[arg(long = "wait-for", value_name = "FILE")]
    awaited: Vec<PathBuf>,
    /// Only read the configuration and all that it names, and say what is wrong, or what the daemon would be
    #[arg(long, conflicts_with = "awaited")]
    check: bool,
    /// Stop when the process that started this one dies (used by `coalloc up` and `demo`)
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

    /// The abbreviation of what it is.
    #[must_use]
    pub const fn abbreviation(self) -> &'static str {
        match self {
            Self::Nrm => "NRM",
            Self::Crm => "CRM",
            Self::Grc => "coordinator",
        }
    }

    /// What it is, in words.
    #[must_use]
    pub const fn article_and_noun(self) -> &'static str {
        match self {
            Self::Nrm => "the network resource manager (NRM)",
            Self::Crm => "the compute resource manager (CRM)",
            Self::Grc => "the coordinator (GRC)",
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

impl ServeArgs {
    /// Whether the configuration is only checked, and nothing is started.
    #[must_use]
    pub const fn is_check(&self) -> bool {
        self.check
    }

    /// The kind of daemon: as it was said, or else as the configuration has it.
    fn kind(&self) -> Result<Kind, Failure> {
        if let Some(kind) = self.kind {
            return Ok(kind);
        }
        check::kind_of(&self.config)?.ok_or_else(|| {
            let path = self.config.display();
            Failure::bad_input(format!(
                "{path}: is not the configuration of a daemon: it has neither `daemon` nor `inventory`\n\
                 all fields: coalloc config explain"
            ))
        })
    }
}

/// Checks the configuration, for `--check`.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn check(args: &ServeArgs) -> Result<Answer, Failure> {
    check::run(args.kind()?, &args.config)
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
    match wait_for(&args.awaited) {
        Ok(true) => match args.kind() {
            Ok(kind) => start(kind, &args.config, log),
            Err(failure) => {
                eprintln!("error: {failure}");
                ExitCode::from(coalloc_net::daemon::EXIT_CONFIGURATION)
            }
        },
        // It was told to stop.
        Ok(false) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: no runtime could be started: {error}");
            ExitCode::from(coalloc_net::daemon::EXIT_FAILURE)
        }
    }
}

/// How often a daemon looks whether a file that it waits for is there.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until all files are there; false if SIGTERM or Ctrl-C came first.
///
/// # Errors
/// When the system gives no runtime.
fn wait_for(files: &[PathBuf]) -> std::io::Result<bool> {
    if files.iter().all(|file| file.exists()) {
        return Ok(true);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = coalloc_net::server::stop_signal();
        tokio::pin!(stop);
        for file in files {
            if !file.exists() {
                eprintln!("waiting until {} is there", file.display());
            }
            while !file.exists() {
                tokio::select! {
                    () = &mut stop => return Ok(false),
                    () = tokio::time::sleep(LOOK) => {}
                }
            }
        }
        Ok(true)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_until_every_file_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["first", "second"].map(|name| folder.path().join(name));
        assert!(wait_for(&[]).unwrap());
        let waiting = {
            let files = files.clone();
            std::thread::spawn(move || wait_for(&files).unwrap())
        };
        std::fs::write(&files[1], "").unwrap();
        // However long this thread takes, the other one must not have ended: the first file is not there.
        assert!(!waiting.is_finished());
        std::fs::write(&files[0], "").unwrap();
        assert!(waiting.join().unwrap());
        assert!(wait_for(&files).unwrap());
    }
}
