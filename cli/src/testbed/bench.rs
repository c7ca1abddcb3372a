//! `coalloc bench`: how many co-allocations per second a federation makes, with every booking durable at
//! every resource manager before it counts, and how close that is to what this machine can do at all.
//!
//! The steps, in order: [`ceilings`] measures bare gRPC calls and bare fsyncs; [`load`] sends the requests
//! of [`requests`] in a closed loop or at a fixed rate; [`counts`] reads what the daemons counted during
//! the load; [`holds`] measures Hold with idle and with busy planners; [`report`] compares the figures.
//!
//! The requests are those of Takefusa 2010, section 4.1, spread over many days so that few are refused. A
//! refusal is answered faster than a booking and would make the figure look better, so refused requests are
//! reported separately and never counted as co-allocations.
//!
//! [`tasks`] does the same for tasks at one distributed coordinator, reserved in two phases and one-way.
//!
//! Other machines are left out. Client, daemons and disk share this machine, as in the demo. `--grc` points
//! the load at a federation that runs elsewhere; only its answers are measured.

pub mod ceilings;
pub mod counts;
pub mod holds;
pub mod load;
pub mod report;
pub mod requests;
pub mod shared;
pub mod tasks;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, IdentityArgs};
use crate::kit::text;
use crate::testbed::local::layout::{Post, Setup};
use crate::testbed::local::{self, Folder};
use crate::user::daemons::{Daemons, stop};
use crate::user::offline::Federation;
use load::{Load, Pace, WorkloadKind};
use report::Report;

/// Measure co-allocations per second, and compare with what this machine can do at all
///
/// Without --grc it starts the federation of the demo (or of --federation) as real processes in its own
/// folder, and measures in one run: bare gRPC calls and fsyncs per second, co-allocations per second with
/// every booking durable at every resource manager, and Hold while planners are busy.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Option<BenchKind>,
    /// Seconds of load that are measured
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Seconds of load before the measurement
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(0..=600))]
    warmup: u64,
    /// Closed loop: requests in flight
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    concurrency: u32,
    /// Fixed rate instead: requests per second, whether earlier ones were answered or not
    #[arg(long, value_name = "R", conflicts_with = "concurrency", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,
    /// Seed of the requests
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Time frames in which each request is planned (N)
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=256))]
    frames: u32,
    /// Another federation to start, a FederationFile as YAML or JSON
    #[arg(long, value_name = "FILE", conflicts_with = "grc")]
    federation: Option<PathBuf>,
    /// The address of a coordinator that runs already; only its answers are measured
    #[arg(long, value_name = "ADDR")]
    grc: Option<String>,
    #[command(flatten)]
    identity: IdentityArgs,
    /// Calls between all daemons in plain text, to see what TLS costs
    #[arg(long, conflicts_with = "grc")]
    plain_text: bool,
    /// Folder for configurations, ledgers and logs, kept afterwards; its disk is the one measured
    /// [default: a temporary one]
    #[arg(long, value_name = "DIR", conflicts_with = "grc")]
    dir: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Benches of another kind.
#[derive(Debug, Clone, Subcommand)]
enum BenchKind {
    Shared(shared::SharedArgs),
    Tasks(tasks::TasksArgs),
}

/// Runs `coalloc bench`.
///
/// # Errors
/// When the federation does not come up, a daemon does not answer, or the bench is interrupted.
pub async fn run(args: &BenchArgs) -> Result<Answer, Failure> {
    let stopped = Failure::new(Exit::Interrupted, "interrupted; the daemons are stopped");
    if let Some(kind) = &args.what {
        let other = async {
            match kind {
                BenchKind::Shared(args) => shared::run(args).await,
                BenchKind::Tasks(args) => tasks::run(args).await,
            }
        };
        return tokio::select! {
            answer = other => answer,
            () = coalloc_net::server::stop_signal() => Err(stopped),
        };
    }
    let report = tokio::select! {
        report = measure(args) => report?,
        () = coalloc_net::server::stop_signal() => return Err(stopped),
    };
    Ok(Answer::done(if args.json { report.json()? } else { report.text() }))
}

async fn measure(args: &BenchArgs) -> Result<Report, Failure> {
    if let Some(address) = &args.grc {
        let client = rpc::coordinator_at(&args.identity.dialer()?, address).await?;
        let load = send(args, client).await?;
        return Ok(Report { load, here: None });
    }
    let file = match &args.federation {
        Some(path) => Federation::read(path)?.file,
        None => local::elgl()?,
    };
    let folder = Folder::new(args.dir.as_deref())?;
    let mut daemons = Daemons::default();
    let outcome = measure_here(args, &file, &folder, &mut daemons).await;
    // A daemon that died explains more than a daemon whose call failed.
    let outcome = outcome.map_err(|failure| daemons.check_alive().err().unwrap_or(failure));
    stop(&mut daemons);
    if outcome.is_err() {
        text::note(&format!("logs and ledgers are in {}", folder.keep().display()));
    }
    outcome
}

/// Makes all measurements, on a federation that is started for them.
async fn measure_here(
    args: &BenchArgs,
    file: &v1::FederationFile,
    folder: &Folder,
    daemons: &mut Daemons,
) -> Result<Report, Failure> {
    let setup = Setup { plain_text: args.plain_text, ..counts::setup(folder.path(), file) };
    let posts = local::start(&setup, daemons, true).await?;
    let addresses: Vec<&Post> = posts.iter().collect();
    let managers = &posts[..posts.len().saturating_sub(1)];
    let each = ceilings::time(args.seconds);
    text::note(&format!("measuring this machine, {} s each", each.as_secs()));
    let calls = ceilings::calls(managers, args.in_flight(), each).await?;
    let syncs = ceilings::syncs(folder.path(), addresses.len(), each).await?;
    let grc = posts.last().ok_or_else(|| Failure::internal("no coordinator was started"))?;
    let before = counts::read(&posts).await?;
    let load = send(args, rpc::coordinator(&grc.dialer, &grc.address)?).await?;
    let counted = counts::read(&posts).await?.since(&before);
    text::note("measuring Hold, planners idle and busy");
    let holds = holds::measure(managers, grc, each).await?;
    let (federation, managers) = (file.name.clone(), managers.len());
    let here = report::LocalFigures { federation, managers, calls, syncs, counted, holds };
    Ok(Report { load, here: Some(here) })
}

async fn send(args: &BenchArgs, client: rpc::Coordinator) -> Result<load::Outcome, Failure> {
    let requests = requests::Requests::new(args.seed, args.frames);
    let pace = match args.rate {
        Some(rate) => Pace::FixedRate { per_second: rate },
        None => Pace::ClosedLoop { in_flight: args.concurrency },
    };
    let warmup = Duration::from_secs(args.warmup);
    let measured = Duration::from_secs(args.seconds);
    text::note(&format!("load: {pace}, {} s after {} s of warm-up", args.seconds, args.warmup));
    Load { pace, warmup, measured }.run(client, WorkloadKind::CoAllocations(requests)).await
}

impl BenchArgs {
    fn in_flight(&self) -> usize {
        self.concurrency as usize
    }
}
