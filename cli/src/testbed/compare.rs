//! `coalloc compare`: sends the same requests to several solvers, each in its own federation, and compares
//! the outcomes.
//!
//! For each solver in turn, a new, empty federation is started. The first requests of the paper's day
//! (Takefusa 2010, section 4.1) are sent to it, each naming the solver, and then the counters of the
//! daemons are read. [`report`] compares the solvers. With one request in flight, every figure except the
//! times is repeatable; with several, requests compete and are refused at Hold.
//!
//! The proof that nothing is overbooked is left to the demo. Other machines are left out.

pub mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use coalloc_common::{Span, Time};
use coalloc_plan::{Named as _, Solver};
use coalloc_proto::v1;
use tokio::task::JoinSet;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::request::planner_parser;
use crate::kit::rpc::{self, Coordinator};
use crate::kit::text;
use crate::kit::when::next_full;
use crate::testbed::bench::counts;
use crate::testbed::demo::workload::{self, PAPER_REQUESTS, Type4};
use crate::testbed::local::{self, Folder};
use crate::user::daemons::{Daemons, stop};
use crate::user::offline::Federation;
use report::{Report, SolverRun};

/// Compare solvers: the same requests for each, in its own federation
///
/// Starts the federation of the demo (or of --federation) as real processes, once for each solver, and
/// sends it the first requests of the paper's day. Shows how many were confirmed; what they cost and how
/// late they start, where all solvers confirmed them; what was refused at Hold; messages; and times.
#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// The solvers; each at most once
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = planner_parser::<Solver>(), default_value = "exact,backtrack,sliding-window")]
    solvers: Vec<Solver>,
    /// Number of requests; the paper's load of a day is about 424
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    requests: u32,
    /// Rate of each requested link, in Gbit/s; the paper's is 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    gbps: u64,
    /// Seed of the requests
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Requests in flight; with more than 1 the result may differ from run to run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    concurrency: u32,
    /// Time frames in which each request is planned (N)
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=256))]
    frames: u32,
    /// Another federation to start, a FederationFile as YAML or JSON
    #[arg(long, value_name = "FILE")]
    federation: Option<PathBuf>,
    /// Folder for configurations, ledgers and logs, with a folder in it for each solver, kept afterwards
    /// [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc compare`.
///
/// # Errors
/// When a federation does not come up, a daemon does not answer, or the command is interrupted.
pub async fn run(args: &CompareArgs) -> Result<Answer, Failure> {
    let mut seen = args.solvers.clone();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() < args.solvers.len() {
        return Err(Failure::bad_input("--solvers: each solver at most once"));
    }
    let file = match &args.federation {
        Some(path) => Federation::read(path)?.file,
        None => local::elgl()?,
    };
    let folder = Folder::new(args.dir.as_deref())?;
    let day = next_full(Span::from_secs(3_600), coalloc_net::clock::now().wall)
        .saturating_add(Span::from_secs(86_400));
    let stopped = Failure::new(Exit::Interrupted, "interrupted; the daemons are stopped");
    let ran = tokio::select! {
        ran = each(args, &file, &folder, day) => ran,
        () = coalloc_net::server::stop_signal() => Err(stopped),
    };
    if ran.as_ref().is_err_and(|failure| failure.exit != Exit::Interrupted) {
        text::note(&format!("logs and ledgers are in {}", folder.keep().display()));
    }
    let report = Report {
        federation: file.name.clone(),
        requests: args.requests,
        gbps: args.gbps,
        seed: args.seed,
        concurrency: args.concurrency,
        ran: ran?,
    };
    Ok(Answer::done(if args.json { report.json()? } else { report.text() }))
}

async fn each(
    args: &CompareArgs,
    file: &v1::FederationFile,
    folder: &Folder,
    day: Time,
) -> Result<Vec<SolverRun>, Failure> {
    let mut all = Vec::with_capacity(args.solvers.len());
    for solver in &args.solvers {
        let own = folder.path().join(solver.name());
        let failed = |error| Failure::internal(format!("{}: {error}", own.display()));
        std::fs::create_dir(&own).map_err(failed)?;
        let mut daemons = Daemons::default();
        let ran = one(args, file, &own, &mut daemons, *solver, day).await;
        // A daemon that died explains more than a daemon whose call failed.
        let ran = ran.map_err(|failure| daemons.check_alive().err().unwrap_or(failure));
        stop(&mut daemons);
        all.push(ran?);
    }
    Ok(all)
}

/// Runs the requests with one solver.
async fn one(
    args: &CompareArgs,
    file: &v1::FederationFile,
    folder: &Path,
    daemons: &mut Daemons,
    solver: Solver,
    day: Time,
) -> Result<SolverRun, Failure> {
    let posts = local::start(&counts::setup(folder, file), daemons, true).await?;
    let grc = posts.last().ok_or_else(|| Failure::internal("no coordinator was started"))?;
    let before = counts::read(&posts).await?;
    let (count, in_flight) = (args.requests, args.concurrency);
    text::note(&format!(
        "{}: the first {count} requests of a day that has about {PAPER_REQUESTS}, {in_flight} in flight",
        solver.name()
    ));
    let arrivals = workload::arrivals(args.seed, count as usize, day, Type4::Ring);
    let requests = (1..).zip(arrivals).map(|(number, arrival)| {
        let mut request = arrival.request;
        request.links.iter_mut().for_each(|link| link.bandwidth_bps = args.gbps * 1_000_000_000);
        let (frames, solver) = (Some(args.frames), Some(solver.name().to_owned()));
        v1::ReserveRequest {
            request_id: format!("compare-{}-{number}", args.seed),
            request: Some(request),
            options: Some(v1::PlanOptions { frames, solver, ..Default::default() }),
            plan_digest: String::new(),
        }
    });
    let answers =
        send(rpc::coordinator(&grc.dialer, &grc.address)?, requests.collect(), in_flight).await?;
    let (reservations, times) = answers.into_iter().unzip();
    let counted = counts::read(&posts).await?.since(&before);
    Ok(SolverRun { solver, reservations, times, counted })
}

/// Sends all requests, with a limited number in flight; returns the answers and their times, in the order
/// of the requests.
async fn send(
    client: Coordinator,
    requests: Vec<v1::ReserveRequest>,
    in_flight: u32,
) -> Result<Vec<(v1::Reservation, Duration)>, Failure> {
    let (requests, next) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)));
    let mut senders = JoinSet::new();
    for _ in 0..in_flight {
        let (requests, next) = (Arc::clone(&requests), Arc::clone(&next));
        let mut client = client.clone();
        senders.spawn(async move {
            let mut answers = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(request) = requests.get(index) else { return Ok(answers) };
                let begun = Instant::now();
                let answer = client.reserve(request.clone()).await;
                let answer = answer.map_err(|status| rpc::failure(&status))?.into_inner();
                let empty = || Failure::internal("an answer without content");
                let reservation = answer.reservation.ok_or_else(empty)?;
                answers.push((index, (reservation, begun.elapsed())));
            }
        });
    }
    let mut all = Vec::new();
    while let Some(ended) = senders.join_next().await {
        let died = |error| Failure::internal(format!("a sending task failed: {error}"));
        let answers: Result<Vec<_>, Failure> = ended.map_err(died)?;
        all.extend(answers?);
    }
    all.sort_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(_, answer)| answer).collect())
}
