//! Structured logs: one line an event, with the transaction id wherever there is one, so that one grep
//! over all daemons' logs follows one reservation.

use std::ffi::OsStr;
use std::path::PathBuf;

use tracing_subscriber::EnvFilter;

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

/// Starts logging to standard error. `COALLOC_LOG` filters, in the syntax of `tracing`'s EnvFilter;
/// unset: `info`. A second call changes nothing.
pub fn init(format: LogFormat) {
    let (filter, warning) = filter_of(std::env::var_os("COALLOC_LOG").as_deref());
    if let Some(warning) = warning {
        eprintln!("{warning}");
    }
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    let result = match format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    if result.is_err() {
        tracing::debug!("logging was started before");
    }
}

/// The filter that is meant, and a line to say when what is written is none.
fn filter_of(written: Option<&OsStr>) -> (EnvFilter, Option<String>) {
    let info = || EnvFilter::new("info");
    let Some(written) = written else { return (info(), None) };
    match written.to_str().and_then(|text| EnvFilter::try_new(text).ok()) {
        Some(filter) => (filter, None),
        None => {
            let warning = format!(
                "warning: COALLOC_LOG={written:?} is no filter; allowed: a level, or target=level, \
                 like `debug` or `info,coalloc_grc=debug`; logging at `info`"
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
        for written in ["info,=", "coalloc_grc=loud", "a=b=c\n"] {
            let (filter, warning) = filter_of(Some(OsStr::new(written)));
            let warning = warning.unwrap();
            assert!(warning.contains(&format!("COALLOC_LOG={written:?}")), "{warning}");
            assert!(!warning.contains('\n'), "{warning}");
            assert_eq!(filter.to_string(), "info");
        }
        for (written, filter) in [(None, "info"), (Some("coalloc_grc=debug"), "coalloc_grc=debug")]
        {
            let (got, warning) = filter_of(written.map(OsStr::new));
            assert_eq!((got.to_string().as_str(), warning), (filter, None));
        }
    }
}
