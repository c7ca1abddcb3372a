//! The compute resource manager as a process of its own: `crm --config FILE`.

use std::process::ExitCode;

use clap::Parser;
use coalloc_net::telemetry::DaemonFlags;

/// The compute resource manager of Coalloc.
#[derive(Debug, Parser)]
#[command(name = "crm", version)]
struct Flags {
    #[command(flatten)]
    daemon: DaemonFlags,
}

fn main() -> ExitCode {
    let DaemonFlags { config, log_format } = Flags::parse().daemon;
    coalloc_crm::run(&config, log_format)
}
