//! `coalloc soak`: many customers who reserve, change and release for a long time, and a journal of
//! everything they were told, for `coalloc audit`.
//!
//! [`offers`] draws the requests; `customer` is one customer from the first call to the last; [`meter`]
//! counts. New customers come at a fixed rate, whatever became of the earlier ones: the offered load does
//! not depend on how well the federation copes (`coalloc bench` measures that).
//!
//! This module makes no faults. If you want faults, kill, pause and cut connections in the meantime;
//! `tests/blackbox` does so.

mod customer;
pub mod meter;
pub mod offers;

use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use coalloc_net::client::Dialer;
use coalloc_proto::v1;
use serde_json::json;
use tokio::task::JoinSet;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, Coordinator, GrcArgs, IdentityArgs};
use crate::kit::text;
use crate::testbed::audit::journal::Writer;
use customer::SoakClient;
use meter::{Meter, Outcome};
use offers::OfferedResources;

/// Customers at a time. A further customer has to wait, so the load falls, and that is reported.
const CUSTOMERS_MAX: usize = 2_048;
/// How long the last customers may take after the load has ended.
const SETTLE: Duration = Duration::from_secs(30);

/// Send a mixed load of reserves, changes and releases, and keep a journal of every answer
///
/// New customers come at a fixed rate, in turn to each coordinator. Each customer reserves something small
/// in the next days, some change it, most release it. Some send the same call twice at once, some do not
/// wait for the answer, some never come back. Every question and answer is a line of the journal, with
/// which `coalloc audit --journal` checks afterwards that everything is as customers were told. You may do
/// anything to the federation in the meantime.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc soak --seconds 60 --journal told.jsonl\n  \
    coalloc audit --journal told.jsonl\n  \
    coalloc soak --grc 10.0.0.1:7000,10.0.0.2:7000 --rate 20 --seconds 3600 --journal told.jsonl")]
pub struct SoakArgs {
    /// The coordinators' host:port [default: $COALLOC_GRC, or 127.0.0.1:7000]
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    grc: Vec<String>,
    /// Seconds of load
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=864_000))]
    seconds: u64,
    /// New customers per second
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// Seed of what customers ask for and do
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Time frames in which each request is planned (N)
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    frames: u32,
    /// File for the journal, one JSON object per line; new lines are appended to it
    #[arg(long, value_name = "FILE")]
    journal: PathBuf,
    #[command(flatten)]
    identity: IdentityArgs,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// An open journal.
pub type Lines = Writer<Box<dyn std::io::Write + Send>>;

/// A coordinator that gets calls.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// The client that calls it.
    pub client: Coordinator,
}

/// The parameters of a load.
#[derive(Debug, Clone)]
pub struct Soak {
    /// Seed of what customers ask for and do.
    pub seed: u64,
    /// New customers per second.
    pub rate: u32,
    /// Time frames in which each request is planned.
    pub frames: u32,
    /// Who the customers are.
    pub dialer: Dialer,
}

impl Soak {
    /// Sends new customers until `until` completes, then waits a limited time for the last ones to finish.
    ///
    /// # Errors
    /// When a coordinator does not answer at the beginning, or the journal cannot be written.
    pub async fn run(
        &self,
        addresses: &[String],
        lines: Lines,
        until: impl Future<Output = ()>,
    ) -> Result<Outcome, Failure> {
        let (targets, offers) = self.targets(addresses).await?;
        let run = uuid::Uuid::new_v4().simple().to_string();
        let (lines, meter) = (Arc::new(Mutex::new(lines)), Arc::new(Meter::new()));
        let mut customers = JoinSet::new();
        let mut next = tokio::time::interval(Duration::from_secs(1) / self.rate.max(1));
        // Late customers are made up for, because the rate is the offered load.
        next.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
        let mut until = std::pin::pin!(until);
        let mut index = 0_u64;
        loop {
            tokio::select! {
                biased;
                () = &mut until => break,
                Some(ended) = customers.join_next() => finished(ended)?,
                _ = next.tick(), if customers.len() < CUSTOMERS_MAX => {
                    let target = targets[index as usize % targets.len()].clone();
                    let customer = SoakClient {
                        id: format!("soak-{}-{index}", &run[..12]),
                        target,
                        random: offers.random(index),
                        offers: Arc::clone(&offers),
                        lines: Arc::clone(&lines),
                        meter: Arc::clone(&meter),
                        frames: self.frames,
                    };
                    meter.offered();
                    customers.spawn(customer.live());
                    index += 1;
                }
            }
        }
        let offered_for = meter.elapsed();
        let last = async {
            while let Some(ended) = customers.join_next().await {
                finished(ended)?;
            }
            Ok::<(), Failure>(())
        };
        // A customer that takes longer counts as vanished: the journal shows that it was told nothing final.
        tokio::time::timeout(SETTLE, last).await.unwrap_or(Ok(()))?;
        Ok(meter.outcome(offered_for))
    }

    async fn targets(
        &self,
        addresses: &[String],
    ) -> Result<(Vec<Target>, Arc<OfferedResources>), Failure> {
        let (mut targets, mut offers) = (Vec::new(), None);
        for address in addresses {
            let mut client = rpc::coordinator_at(&self.dialer, address).await?;
            let described = client.describe_federation(v1::DescribeFederationRequest {}).await;
            let described = described.map_err(|status| rpc::failure(&status))?.into_inner();
            offers = Some(OfferedResources::new(self.seed, &described)?);
            targets.push(Target { name: described.coordinator, client });
        }
        let offers = offers.ok_or_else(|| Failure::bad_input("--grc: no coordinator is given"))?;
        Ok((targets, Arc::new(offers)))
    }
}

fn finished(ended: Result<Result<(), Failure>, tokio::task::JoinError>) -> Result<(), Failure> {
    ended.map_err(|error| Failure::internal(format!("a simulated customer failed: {error}")))?
}

/// Runs `coalloc soak`.
///
/// # Errors
/// When a coordinator does not answer at the beginning, or the journal cannot be written.
pub async fn run(args: &SoakArgs) -> Result<Answer, Failure> {
    let path = &args.journal;
    let file = File::options().create(true).append(true).open(path);
    let file = file
        .map_err(|error| Failure::bad_input(format!("--journal: {}: {error}", path.display())))?;
    let addresses = match &args.grc[..] {
        [] => vec![GrcArgs::default().address()],
        given => given.to_vec(),
    };
    let until = async {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(args.seconds)) => {}
            () = coalloc_net::server::stop_signal() => {}
        }
    };
    let dialer = args.identity.dialer()?;
    let soak = Soak { seed: args.seed, rate: args.rate, frames: args.frames, dialer };
    text::note(&format!("{} new customers a second; Ctrl-C ends it sooner", args.rate));
    let outcome = soak.run(&addresses, Writer::new(Box::new(file)), until).await?;
    let text = if args.json { json(&outcome)? } else { describe(&outcome) };
    // A load in which no customer got any answer has tested nothing.
    let any = outcome
        .said
        .keys()
        .any(|(_, said)| *said != crate::testbed::audit::journal::CallKnowledge::Lost);
    Ok(Answer { text, exit: if any { Exit::Done } else { Exit::CallFailed } })
}

/// The outcome of a load, for people.
#[must_use]
pub fn describe(outcome: &Outcome) -> String {
    let seconds = outcome.offered_for.as_secs_f64();
    let mut out = format!(
        "{} co-allocations offered in {seconds:.0} s; {:.0} a minute in the emptiest 10 s\n",
        outcome.offered(),
        outcome.least_per_minute()
    );
    for ((kind, said), count) in &outcome.said {
        let call = format!("{kind:?}").to_lowercase();
        let said = format!("{said:?}").to_lowercase();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {call:<8} {said:<10} {count:>6}");
    }
    out
}

fn json(outcome: &Outcome) -> Result<String, Failure> {
    let said = outcome
        .said
        .iter()
        .map(|((kind, said), count)| json!({"kind": kind, "said": said, "calls": count}));
    text::json(&json!({
        "seconds": outcome.offered_for.as_secs_f64(),
        "offered": outcome.offered(),
        "leastPerMinute": outcome.least_per_minute(),
        "windows": outcome.windows,
        "answers": said.collect::<Vec<_>>(),
    }))
}
