//! The global resource coordinator as a process of its own: `grc --config FILE`.

use std::process::ExitCode;

use clap::Parser;
use coalloc_net::telemetry::DaemonFlags;

/// The global resource coordinator of Coalloc.
#[derive(Debug, Parser)]
#[command(name = "grc", version)]
struct Flags {
    #[command(flatten)]
    daemon: DaemonFlags,
}

fn main() -> ExitCode {
    let DaemonFlags { config, log_format } = Flags::parse().daemon;
    coalloc_grc::run(&config, log_format)
}
