//! The network resource manager as a process of its own: `nrm --config FILE`.

use std::process::ExitCode;

use clap::Parser;
use coalloc_net::telemetry::DaemonFlags;

/// The network resource manager of Coalloc.
#[derive(Debug, Parser)]
#[command(name = "nrm", version)]
struct Flags {
    #[command(flatten)]
    daemon: DaemonFlags,
}

fn main() -> ExitCode {
    let DaemonFlags { config, log_format } = Flags::parse().daemon;
    coalloc_nrm::run(&config, log_format)
}
