//! `coalloc demo`: a whole federation of real processes on this machine, the requests of a paper, and the
//! proof that nothing is overbooked.
//!
//! The steps, in order: the federation is started ([`crate::testbed::local`]), [`workload`] draws the requests, [`traffic`]
//! sends them, [`readback`] asks every resource manager what it has booked, [`crate::testbed::audit`] checks
//! the answers, and [`report`] prints the results (with a chart by [`gantt`](mod@gantt)). The daemons are
//! always stopped at the end, unless the user asks to keep them.

pub mod ha;
pub mod readback;
pub mod report;
pub mod servers;
pub mod torus;
pub mod traffic;
pub mod workflow;
pub mod workload;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use coalloc_common::{Span, Time};
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::gantt;
use crate::kit::rpc;
use crate::kit::text;
use crate::kit::when::next_full;
use crate::testbed::audit::rules::{audit, audit_tree};
use crate::testbed::equipment;
use crate::testbed::local::layout::{self, Post, Setup, Shape};
use crate::testbed::local::{Folder, elgl, start};
use crate::user::daemons::Daemons;
use crate::user::daemons::{first_death, stop};
use crate::user::offline::Federation;
use crate::user::serve::Kind;
use report::Report;
use workload::{PAPER_REQUESTS, Type4};

/// Start a federation of real processes on this machine, send it the requests of a paper, prove the result
///
/// Without --federation it is the environment of Takefusa 2010: 3 domains, 10 sites, 232 CPUs, 29 paths, as
/// 3 network and 10 compute resource managers and a coordinator on loopback. Two users ask for 2 to 4 sites
/// with 1 Gbit/s between them, for windows in one day. Then everything is read back and checked: nothing is
/// overbooked, everything confirmed is booked, nothing else is booked, no hold is left.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DemoArgs {
    #[command(subcommand)]
    what: Option<DemoKind>,
    /// Number of requests; the paper's load of a day is about 424
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: u32,
    /// Seed of the requests: the same seed gives the same requests, relative to the start of the day
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Leave the federation running, and print how to use and stop it
    #[arg(long)]
    keep: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Another federation, a FederationFile as YAML or JSON
    #[arg(long, value_name = "FILE")]
    federation: Option<PathBuf>,
    /// Requests in flight at each coordinator; with more than 1 the result may differ from run to run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    concurrency: u32,
    /// A tree of coordinators: one for each domain, and a parent coordinator, which gets the requests
    #[arg(long, conflicts_with = "coordinators")]
    tree: bool,
    /// Coordinators over the same resource managers; the requests are distributed to them in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    coordinators: u32,
    /// Coordinators also plan tasks, with pictures that updates keep current: for `coalloc task submit`
    #[arg(long, conflicts_with = "tree")]
    tasks: bool,
    /// How the four sites of a request of type 4 are linked
    #[arg(long, value_enum, default_value_t)]
    type4: Type4,
    /// Folder for configurations, ledgers and logs, kept afterwards [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Serve Prometheus metrics at a port of each daemon, and write a prometheus.yml that scrapes them
    #[arg(long)]
    metrics: bool,
    /// Send OpenTelemetry traces to this collector, like http://127.0.0.1:4317 (OTLP over gRPC)
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    traces: String,
    /// Draw the chart with ASCII characters only
    #[arg(long)]
    ascii: bool,
}

/// Demos of another kind.
#[derive(Debug, Clone, Subcommand)]
enum DemoKind {
    Equipment(equipment::EquipmentArgs),
    Ha(ha::HaArgs),
    Servers(servers::ServersArgs),
    Torus(torus::TorusArgs),
    Workflow(workflow::WorkflowArgs),
}

/// Runs `coalloc demo`.
///
/// When the federation does not come up, a daemon does not answer, or the demo is interrupted. The daemons
/// are stopped in each case.
pub async fn run(args: &DemoArgs) -> Result<Answer, Failure> {
    match &args.what {
        Some(DemoKind::Equipment(args)) => return equipment::run(args).await,
        Some(DemoKind::Ha(args)) => return ha::run(args).await,
        Some(DemoKind::Servers(args)) => return servers::run(args).await,
        Some(DemoKind::Torus(args)) => return torus::run(args).await,
        Some(DemoKind::Workflow(args)) => return workflow::run(args).await,
        None => {}
    }
    let file = match &args.federation {
        Some(path) => Federation::read(path)?.file,
        None => elgl()?,
    };
    let folder = Folder::new(args.dir.as_deref())?;
    let mut daemons = Daemons::default();
    let outcome = tokio::select! {
        outcome = scenario(args, &file, folder.path(), &mut daemons) => outcome,
        () = coalloc_net::server::stop_signal() => {
            Err(Failure::new(Exit::Interrupted, "interrupted; the daemons are stopped"))
        }
    };
    let outcome = outcome.and_then(|(report, posts)| {
        let text = if args.json { report.json()? } else { report.text(args.ink()) };
        Ok((report.proven(), text, posts))
    });
    match outcome {
        Ok((proven, text, posts)) if args.keep => {
            let note = keep(daemons, folder, &posts)?;
            let exit = if proven { Exit::Done } else { Exit::Failed };
            if args.json {
                // Standard output must contain nothing but JSON.
                text::note(&note);
                return Ok(Answer { text, exit });
            }
            Ok(Answer { text: text + &note, exit })
        }
        Ok((proven, text, _)) => {
            stop(&mut daemons);
            let exit = if proven { Exit::Done } else { Exit::Failed };
            if !proven {
                text::note(&format!("logs and ledgers are in {}", folder.keep().display()));
            }
            Ok(Answer { text, exit })
        }
        Err(failure) => {
            stop(&mut daemons);
            if failure.exit == Exit::Interrupted {
                return Err(failure);
            }
            let kept = folder.keep();
            let message = format!("{failure}\nlogs and ledgers are in {}", kept.display());
            Err(Failure { message, ..failure })
        }
    }
}

impl DemoArgs {
    fn telemetry(&self) -> layout::Telemetry {
        layout::Telemetry { metrics: self.metrics, traces: self.traces.clone() }
    }

    const fn shape(&self) -> Shape {
        match (self.tree, self.coordinators) {
            (true, _) => Shape::Tree,
            (false, 1) => Shape::One,
            (false, count) => Shape::Rivals(count),
        }
    }

    const fn ink(&self) -> gantt::Ink {
        if self.ascii { gantt::ASCII } else { gantt::BLOCKS }
    }
}

async fn scenario(
    args: &DemoArgs,
    file: &v1::FederationFile,
    folder: &Path,
    daemons: &mut Daemons,
) -> Result<(Report, Vec<Post>), Failure> {
    let tasks = args.tasks.then(|| v1::TaskSettings {
        mode: v1::TaskMode::Distributed.into(),
        ..v1::TaskSettings::default()
    });
    let setup = Setup {
        shape: args.shape(),
        telemetry: args.telemetry(),
        tasks,
        web: true,
        ..Setup::new(folder, file)
    };
    let posts = start(&setup, daemons, !args.keep).await?;
    let now = coalloc_net::clock::now().wall;
    let report = tokio::select! {
        report = exercise(args, file, now, &posts) => report,
        failure = first_death(daemons) => Err(failure),
    };
    match report {
        Ok(report) => Ok((report, posts)),
        // A daemon that died explains more than a daemon whose call failed.
        Err(failure) => Err(daemons.check_alive().err().unwrap_or(failure)),
    }
}

/// The coordinators that requests are sent to, and the child coordinators.
fn levels(shape: Shape, posts: &[Post]) -> (Vec<Post>, Vec<Post>) {
    let coordinators = posts.iter().filter(|post| post.kind == Kind::Grc).cloned();
    match shape {
        Shape::One | Shape::Rivals(_) => (coordinators.collect(), Vec::new()),
        Shape::Tree => coordinators.partition(|post| post.name == layout::GRC),
    }
}

/// Sends the workload and reads everything back.
async fn exercise(
    args: &DemoArgs,
    file: &v1::FederationFile,
    now: Time,
    posts: &[Post],
) -> Result<Report, Failure> {
    let (asked, lower) = levels(args.shape(), posts);
    let clients = asked.iter().map(|post| rpc::coordinator(&post.dialer, &post.address));
    let mut clients: Vec<rpc::Coordinator> = clients.collect::<Result<_, _>>()?;
    let count = args.requests as usize;
    let day = next_full(Span::from_secs(3_600), now).saturating_add(Span::from_secs(86_400));
    let arrivals = workload::arrivals(args.seed, count, day, args.type4);
    let share = format!("the first {count} requests by arrival; the paper's day has about");
    text::note(&format!("sending {share} {PAPER_REQUESTS}"));
    let started = Instant::now();
    let concurrency = args.concurrency as usize;
    let mut reservations = traffic::send(&clients, &arrivals, args.seed, concurrency).await?;
    let seconds = started.elapsed().as_secs_f64();
    let each = seconds * 1e3 / count.max(1) as f64;
    text::note(&format!("all answered in {seconds:.1} s, {each:.0} ms a request\n"));
    let heard = readback::hear(&mut clients, posts, &lower, &mut reservations).await?;
    let checks = match args.shape() {
        Shape::Tree => audit_tree(&heard.testimonies, &heard.lower, &reservations),
        Shape::One | Shape::Rivals(_) => audit(&heard.testimonies, &reservations),
    };
    Ok(Report {
        federation: file.name.clone(),
        seed: args.seed,
        type4: args.type4,
        day,
        arrivals,
        reservations,
        coordinators: asked.into_iter().map(|post| post.name).collect(),
        lower: heard.lower.len(),
        testimonies: heard.testimonies,
        checks,
    })
}

/// Leaves the processes running, in the hands of the user, and returns what the user must know.
fn keep(daemons: Daemons, folder: Folder, posts: &[Post]) -> Result<String, Failure> {
    let pids: Vec<String> = daemons.pids().iter().map(ToString::to_string).collect();
    let pids_file = folder.path().join("pids");
    std::fs::write(&pids_file, pids.join("\n") + "\n")
        .map_err(|error| Failure::internal(format!("{}: {error}", pids_file.display())))?;
    let folder = folder.keep();
    // Requests go to the last daemon; in a tree that is the parent coordinator.
    let address = posts.last().map(|post| post.address.as_str()).unwrap_or_default();
    let identity = folder.join(layout::OPERATOR);
    let grcs = || posts.iter().filter(|post| post.kind == Kind::Grc);
    let web = grcs().next_back().and_then(|post| post.web.as_deref());
    let web = web.map(|web| format!("over HTTP    https://{web}\n  ")).unwrap_or_default();
    let mut coordinators: String = grcs()
        .rev()
        .map(|post| format!("  {:<12} {}  {}\n", "coordinator", post.address, post.name))
        .collect();
    coordinators = coordinators.trim_start_matches(' ').to_owned();
    let note = format!(
        "\nThe federation is still running, {} processes:\n  \
         {coordinators}  \
         {web}\
         folder       {}\n  \
         stop it      kill $(cat {})\n  \
         use it       export COALLOC_GRC={address}\n               \
         export COALLOC_IDENTITY={}\n               \
         coalloc topology\n               \
         coalloc list --user UserA\n",
        pids.len(),
        folder.display(),
        pids_file.display(),
        identity.display(),
    );
    let metrics = scrapes(&folder, posts);
    daemons.keep();
    Ok(note + &metrics)
}

/// The addresses of the metrics, if there are any.
fn scrapes(folder: &Path, posts: &[Post]) -> String {
    let mut text = String::new();
    for post in posts {
        if let Some(metrics) = &post.metrics {
            let label = if text.is_empty() { "metrics" } else { "" };
            text += &format!("  {label:<12} http://{metrics}/metrics  {}\n", post.name);
        }
    }
    if !text.is_empty() {
        let config = folder.join(layout::PROMETHEUS);
        text += &format!("  {:<12} prometheus --config.file={}\n", "scrape them", config.display());
    }
    text
}
