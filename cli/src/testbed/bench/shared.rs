//! `coalloc bench shared`: what it costs that a coordinator's ledger is shared in etcd. The same load is sent to three
//! federations in turn, in one run: the coordinator's ledger is a file, then shared in one member of etcd, then in three.
//!
//! Left out: takeovers (`coalloc demo ha` has them), and machines of their own for the members.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::load::{Load, Outcome, Pace, WorkloadKind, percentile};
use super::requests::Requests;
use crate::kit::exit::{Answer, Failure};
use crate::kit::rpc;
use crate::kit::text;
use crate::testbed::local::etcd::EtcdCluster;
use crate::testbed::local::layout::Setup;
use crate::testbed::local::{self, Folder};
use crate::user::daemons::{Daemons, stop};
use crate::user::serve::Kind;

/// Measure what it costs to share a coordinator's ledger in etcd
///
/// The same closed loop of requests is sent to the federation of the demo three times, in one run: with the coordinator's
/// ledger as a file, shared in one member of etcd, and shared in three members. All of them run on this machine and its
/// disk. Needs the program etcd.
#[derive(Debug, Clone, Args)]
pub struct SharedArgs {
    /// Seconds of load that are measured, for each of the three
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Seconds of load before each measurement
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=600))]
    warmup: u64,
    /// Requests in flight
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    concurrency: u32,
    /// Seed of the requests
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The program etcd [default: the one in the path]
    #[arg(long, value_name = "FILE")]
    etcd: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Where a coordinator's ledger is, by the number of members of etcd; 0: in a file.
const PLACES: [(&str, usize); 3] =
    [("a file", 0), ("one member of etcd", 1), ("three members of etcd", 3)];

/// Runs `coalloc bench shared`.
///
/// # Errors
/// When etcd or a federation does not come up, or a daemon does not answer.
pub async fn run(args: &SharedArgs) -> Result<Answer, Failure> {
    let mut outcomes = Vec::new();
    for (place, members) in PLACES {
        text::note(&format!("the coordinator's ledger in {place}"));
        outcomes.push((place, measure(args, members).await?));
    }
    Ok(Answer::done(if args.json { text::json(&figures(&outcomes))? } else { table(&outcomes) }))
}

async fn measure(args: &SharedArgs, members: usize) -> Result<Outcome, Failure> {
    let folder = Folder::new(None)?;
    let etcd = match members {
        0 => None,
        members => Some(EtcdCluster::start(folder.path(), args.etcd.as_deref(), members).await?),
    };
    let mut daemons = Daemons::default();
    let outcome = load(args, &folder, etcd.as_ref(), &mut daemons).await;
    let outcome = outcome.map_err(|failure| daemons.check_alive().err().unwrap_or(failure));
    stop(&mut daemons);
    outcome
}

async fn load(
    args: &SharedArgs,
    folder: &Folder,
    etcd: Option<&EtcdCluster>,
    daemons: &mut Daemons,
) -> Result<Outcome, Failure> {
    let file = local::elgl()?;
    let etcd = etcd.map(|etcd| [etcd.addresses.clone(), etcd.addresses.clone()]);
    let setup = Setup { etcd, ..Setup::new(folder.path(), &file) };
    let posts = local::start(&setup, daemons, true).await?;
    let coordinators = posts.iter().filter(|post| post.kind == Kind::Grc);
    let addresses: Vec<&str> = coordinators.map(|post| post.address.as_str()).collect();
    let dialer = posts.last().map(|post| post.dialer.clone()).unwrap_or_default();
    let client = rpc::coordinator(&dialer, &addresses.join(","))?;
    let load = Load {
        pace: Pace::ClosedLoop { in_flight: args.concurrency },
        warmup: Duration::from_secs(args.warmup),
        measured: Duration::from_secs(args.seconds),
    };
    load.run(client, WorkloadKind::CoAllocations(Requests::new(args.seed, 10))).await
}

fn per_second(outcome: &Outcome) -> f64 {
    outcome.confirmed.len() as f64 / outcome.seconds
}

/// How many times one place reaches of what the one before it does, or 0 if there was nothing.
fn ratio(outcomes: &[(&str, Outcome)], at: usize, of: usize) -> f64 {
    let of = outcomes.get(of).map_or(0.0, |(_, outcome)| per_second(outcome));
    let at = outcomes.get(at).map_or(0.0, |(_, outcome)| per_second(outcome));
    if of > 0.0 { at / of } else { 0.0 }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn table(outcomes: &[(&str, Outcome)]) -> String {
    let mut out = String::new();
    for (place, outcome) in outcomes {
        let (rate, taken) = (per_second(outcome), &outcome.confirmed);
        let (half, most) = (ms(percentile(taken, 0.5)), ms(percentile(taken, 0.99)));
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{rate:>9.1} co-allocations/s with the ledger in {place}: p50 {half:.0} ms, p99 {most:.0} ms, {} failed",
            outcome.failed
        );
    }
    let (one, three) = (ratio(outcomes, 1, 0), ratio(outcomes, 2, 1));
    let _ = writeln!(
        out,
        "one member of etcd reaches {:.0} % of a file, three members {:.0} % of one",
        one * 100.0,
        three * 100.0
    );
    out
}

fn figures(outcomes: &[(&str, Outcome)]) -> Value {
    let place = |(place, outcome): &(&str, Outcome)| {
        json!({
            "ledger": place,
            "perSecond": per_second(outcome),
            "p50Ms": ms(percentile(&outcome.confirmed, 0.5)),
            "p99Ms": ms(percentile(&outcome.confirmed, 0.99)),
            "failed": outcome.failed,
        })
    };
    json!({
        "places": outcomes.iter().map(place).collect::<Vec<_>>(),
        "oneMemberOfFile": ratio(outcomes, 1, 0),
        "threeMembersOfOne": ratio(outcomes, 2, 1),
    })
}
