//! Structured logs: one line for each event, with the transaction id wherever there is one, so that one grep
//! over the logs of all daemons follows one reservation. Also starts and stops metrics and traces.
//!
//! Left out: the metrics ([`metrics`]) and spans ([`traces`]) themselves.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;

use coalloc_common::{InvalidField, plain_text};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Layer, Registry, reload};

use crate::daemon::{DaemonError, DaemonSettings};
use crate::log_filter;
use crate::metrics::{self, scrape};
use crate::server::ServerError;
use crate::traces;

/// Metrics and traces of a running daemon.
#[derive(Debug)]
pub struct Telemetry {
    scrapes: Option<JoinHandle<()>>,
    collector: Option<traces::Collector>,
}

impl Telemetry {
    /// Serves metrics and begins to collect traces, if the settings say so. `kind` and `name` say which
    /// daemon this is. The readers run before each scrape.
    ///
    /// # Errors
    /// When the address of the metrics cannot be bound, or the endpoint of the traces is not valid.
    pub async fn start(
        settings: &DaemonSettings,
        kind: &str,
        name: &str,
        readers: Vec<scrape::Reader>,
    ) -> Result<Self, DaemonError> {
        metrics::net().daemon.with([kind, name, env!("CARGO_PKG_VERSION")]).set(1);
        // A process that stands by corrects this.
        metrics::ledger().leads.with([kind]).set(1);
        let scrapes = match settings.metrics_listen {
            None => None,
            Some(address) => {
                let bound = TcpListener::bind(address).await;
                let listener =
                    bound.map_err(|source| ServerError::BindMetrics { address, source })?;
                tracing::info!(listen = %address, "metrics at /metrics");
                Some(tokio::spawn(scrape::serve(listener, readers)))
            }
        };
        let collector = match &settings.traces_endpoint {
            None => None,
            Some(endpoint) => {
                let collector = traces::start(endpoint, kind, name).map_err(|error| {
                    let field = "daemon.traces_endpoint";
                    DaemonError::Telemetry(InvalidField::new(field, endpoint, error.to_string()))
                })?;
                tracing::info!(collector = %endpoint, "traces");
                Some(collector)
            }
        };
        Ok(Self { scrapes, collector })
    }

    /// Stops both: scrapes are not answered any more, and the last spans are sent, for a limited time.
    pub async fn stop(self) {
        if let Some(scrapes) = self.scrapes {
            scrapes.abort();
            // The address is free once the task is gone.
            let _ = scrapes.await;
        }
        if let Some(collector) = self.collector {
            // Stopping the collector blocks, so it must not run on the runtime's threads.
            let _ = tokio::task::spawn_blocking(move || collector.stop()).await;
        }
    }
}

/// The flags that every daemon has.
#[derive(Debug, Clone, clap::Args)]
pub struct DaemonFlags {
    /// The daemon's configuration: JSON, or YAML of the same shape
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// How log lines look (standard error; COALLOC_LOG filters)
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Writes events of the log, each of which stays one line whatever texts of strangers are in it.
struct EventWriter<W> {
    format: LogFormat,
    to: W,
}

impl<W: Write> Write for EventWriter<W> {
    /// The library writes each event at once, with its line end.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let plain = match self.format {
            LogFormat::Text => plain_text::one_line(line),
            LogFormat::Json => plain_text::json(line),
        };
        match plain {
            Cow::Borrowed(_) => self.to.write_all(event)?,
            Cow::Owned(line) => self.to.write_all(format!("{line}\n").as_bytes())?,
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

/// Starts logging to standard error. `COALLOC_LOG` filters: levels, and levels of targets ([`Targets`]); if it
/// is unset, the filter is `info`. Operators change the filter while the daemon runs ([`log_filter`]). A second call changes nothing.
pub fn init(format: LogFormat) {
    let (filter, warning) = filter_of(std::env::var_os("COALLOC_LOG").as_deref());
    if let Some(warning) = warning {
        eprintln!("{warning}");
    }
    let lines = lines(format, std::io::stderr);
    let (changeable, handle) = reload::Layer::new(filter.clone());
    let result = tracing_subscriber::registry().with(lines).with(changeable).try_init();
    if result.is_err() {
        tracing::debug!("logging was started before");
        return;
    }
    log_filter::install(filter, Box::new(move |filter| handle.reload(filter).is_ok()));
}

/// Events as lines, to a writer that `to` opens for each.
fn lines<W: Write + 'static>(
    format: LogFormat,
    to: impl Fn() -> W + Send + Sync + 'static,
) -> Box<dyn Layer<Registry> + Send + Sync> {
    let writer = move || EventWriter { format, to: to() };
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_target(false);
    match format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    }
}

/// The filter that `written` means. If it is not a filter: `info`, and a warning line.
fn filter_of(written: Option<&OsStr>) -> (Targets, Option<String>) {
    let info = || Targets::new().with_default(Level::INFO);
    let Some(written) = written.filter(|text| !text.is_empty()) else { return (info(), None) };
    let parsed = match written.to_str() {
        Some(text) => log_filter::parse("COALLOC_LOG", text).map_err(|error| error.to_string()),
        None => Err("COALLOC_LOG: not UTF-8".to_owned()),
    };
    match parsed {
        Ok(filter) => (filter, None),
        Err(error) => {
            let warning = format!(
                "warning: COALLOC_LOG={written:?} is not a filter: {error}; logging at `info`"
            );
            (info(), Some(warning))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_is_none_is_named_in_one_line_and_info_is_used() {
        for written in ["coalloc_grc=loud", "info,coalloc_rm=9", "a=b=c\n", "coaloc_grc=debug"] {
            let (filter, warning) = filter_of(Some(OsStr::new(written)));
            let warning = warning.unwrap();
            assert!(warning.contains(&format!("COALLOC_LOG={written:?}")), "{warning}");
            assert!(!warning.contains('\n'), "{warning}");
            assert_eq!(filter.to_string(), "info");
        }
        for (written, filter) in
            [(None, "info"), (Some(""), "info"), (Some("coalloc_grc=debug"), "coalloc_grc=debug")]
        {
            let (got, warning) = filter_of(written.map(OsStr::new));
            assert_eq!((got.to_string().as_str(), warning), (filter, None));
        }
    }

    /// A buffer in place of standard error.
    #[derive(Clone, Default)]
    struct Shared(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn one_event_is_one_plain_line_in_both_formats() {
        let strange = "x\nFORGED\r\u{1b}[2J\u{9b}m\u{7f}\u{202e}\u{2028}<script>\"é";
        for format in [LogFormat::Text, LogFormat::Json] {
            let buffer = Shared::default();
            let to = buffer.clone();
            let log = tracing_subscriber::registry().with(lines(format, move || to.clone()));
            tracing::subscriber::with_default(log, || {
                tracing::info!(shown = %strange, text = strange, debug = ?strange, "{strange}");
                tracing::info!("second");
            });
            let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
            assert!(!text.chars().any(|c| c != '\n' && plain_text::steers(c)), "{text:?}");
            let written: Vec<&str> = text.split_terminator('\n').collect();
            assert_eq!(written.len(), 2, "{text}");
            assert!(text.contains("FORGED") && text.contains("<script>"), "{text}");
            if format == LogFormat::Json {
                let event: serde_json::Value = serde_json::from_str(written[0]).unwrap();
                assert_eq!(event["shown"], strange);
                assert_eq!(event["message"], strange);
            }
        }
    }
}
