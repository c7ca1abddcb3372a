//! What every daemon does around its service: configuration, runtime, signals, exit codes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use coalloc_common::InvalidField;
use coalloc_proto::file::{Document, FileError};
use coalloc_proto::v1;

use crate::client::check_address;
use crate::files;
use crate::identity::settings::Security;
use crate::server::{ServerError, listen_address};
use crate::shared_ledger::settings::SharedLedgerSettings;
use crate::telemetry::{self, LogFormat};

/// Exit code of a daemon whose configuration is wrong.
pub const EXIT_CONFIGURATION: u8 = 2;
/// Exit code of a daemon that could not start, or had to end because of an error.
pub const EXIT_FAILURE: u8 = 1;

/// Why a daemon ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Its configuration is wrong; the text names file, line, field, value and what is allowed.
    #[error(transparent)]
    Configuration(#[from] FileError),
    /// Its server did not start, or broke.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Its ledger cannot be used.
    #[error("{0}")]
    Ledger(String),
    /// Its traces cannot be sent.
    #[error(transparent)]
    Telemetry(InvalidField),
    /// The system could not start a thread or a runtime.
    #[error("no thread could be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl DaemonError {
    const fn exit_code(&self) -> u8 {
        match self {
            Self::Configuration(_) | Self::Telemetry(_) => EXIT_CONFIGURATION,
            Self::Server(_) | Self::Ledger(_) | Self::Thread(_) => EXIT_FAILURE,
        }
    }
}

/// Number of threads that a daemon has for its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// One thread. A resource manager's calls only convert and wait for the core, which has a thread of its
    /// own. With more workers each call is handed from one to another on its way; a call that has to wait for
    /// a second thread to wake up waits for the scheduler twice (`docs/FIGURES.md`).
    One,
    /// One thread for each processor core: a coordinator builds pictures and plans in its calls.
    EachCore,
}

/// Runs a daemon until it is told to stop. Starts logging and a runtime, and turns an error into an exit code
/// and one line on standard error.
pub fn run<F: Future<Output = Result<(), DaemonError>>>(
    log: LogFormat,
    workers: Workers,
    daemon: impl FnOnce() -> F,
) -> ExitCode {
    telemetry::init(log);
    files::allow();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if workers == Workers::One {
        builder.worker_threads(1);
    }
    let runtime = builder.enable_all().build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(daemon());
            // Calls that still run after the daemon's patience are dropped. That is harmless: no state
            // changes in their tasks.
            runtime.shutdown_timeout(std::time::Duration::from_secs(1));
            result
        }
        Err(error) => Err(DaemonError::Thread(error)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Ends the process at once, without unwinding. Only what is on the disk is true; nothing that is in memory
/// may be sent any more (I16).
pub fn die(reason: &str) -> ! {
    tracing::error!(reason, "the ledger or the state can no longer be trusted; this node ends now");
    eprintln!("error: {reason}");
    std::process::abort()
}

/// Ends the process at once because another one may lead. Whoever supervises it starts it again, and it stands by.
pub fn end_as_standby(reason: &str) -> ! {
    tracing::warn!(reason, "this process does not lead any more and ends now");
    eprintln!("error: {reason}");
    std::process::exit(EXIT_FAILURE.into())
}

/// A daemon's own settings, checked.
#[derive(Debug, Clone)]
pub struct DaemonSettings {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// How it proves who it is, and whom it believes.
    pub security: Security,
    /// The ledger's file.
    pub ledger: PathBuf,
    /// How the ledger is shared with other processes; `None`: the file is all that there is.
    pub shared_ledger: Option<SharedLedgerSettings>,
    /// Address on which metrics are served; `None`: nowhere.
    pub metrics_listen: Option<SocketAddr>,
    /// Address to which traces are sent, `http://host:port`; `None`: nowhere.
    pub traces_endpoint: Option<String>,
}

/// Reads the `daemon` part of a configuration. A relative path of the ledger starts from `folder`.
///
/// # Errors
/// [`InvalidField`] that names what is missing or wrong.
pub fn daemon_settings(
    wire: Option<&v1::Daemon>,
    folder: &Path,
) -> Result<DaemonSettings, InvalidField> {
    let missing = || InvalidField::missing("daemon", "where to listen, and the ledger's file");
    let wire = wire.ok_or_else(missing)?;
    let listen = listen_address("daemon.listen", &wire.listen)?;
    if wire.ledger.is_empty() {
        return Err(InvalidField::new("daemon.ledger", "\"\"", "the path of the ledger's file"));
    }
    let ledger = folder.join(&wire.ledger);
    let parent = ledger.parent().unwrap_or(Path::new("."));
    if !parent.is_dir() {
        let allowed = format!("a file in a folder that exists; {} does not", parent.display());
        return Err(InvalidField::new("daemon.ledger", ledger.display(), allowed));
    }
    let metrics_listen = match wire.metrics_listen.as_str() {
        "" => None,
        text => {
            let field = "daemon.metrics_listen";
            let address = listen_address(field, text)?;
            if address == listen && address.port() != 0 {
                let allowed = "an address other than daemon.listen";
                return Err(InvalidField::new(field, address, allowed));
            }
            Some(address)
        }
    };
    let traces_endpoint = traces_endpoint(&wire.traces_endpoint)?;
    // Last, because they read files.
    let security = Security::parse(wire, listen, folder)?;
    let shared_ledger = wire.shared_ledger.as_ref();
    let shared_ledger =
        shared_ledger.map(|shared| SharedLedgerSettings::parse(shared, folder)).transpose()?;
    Ok(DaemonSettings { listen, security, ledger, shared_ledger, metrics_listen, traces_endpoint })
}

fn traces_endpoint(text: &str) -> Result<Option<String>, InvalidField> {
    if text.is_empty() {
        return Ok(None);
    }
    let field = "daemon.traces_endpoint";
    let allowed = "http://host:port, like http://127.0.0.1:4317 (OTLP over gRPC)";
    let bad = || InvalidField::new(field, InvalidField::quoted(text), allowed);
    let address = text.strip_prefix("http://").ok_or_else(bad)?;
    let address = address.strip_suffix('/').unwrap_or(address);
    check_address(field, address).map_err(|_| bad())?;
    Ok(Some(format!("http://{address}")))
}

/// Adds the file and the line to an error about a value.
pub fn at_line<T>(document: &Document<T>, error: &InvalidField) -> FileError {
    let problem = error.problem();
    document.mistake(&error.field, &problem)
}
