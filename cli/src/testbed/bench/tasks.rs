//! `coalloc bench tasks`: how many tasks per second one distributed coordinator plans on its picture and
//! reserves, in two phases and one-way, compared with what this machine can do at all.
//!
//! A new federation is started for each of the two: one coordinator over the torus of Christodoulopoulos
//! 2008 (or `--federation`). Bare calls and fsyncs are measured in the same run. Tasks are short (a slot of
//! a path, two of a cluster), so that nearly all of them fit: the bench measures planning, messages and
//! disks, not queues.
//!
//! Several coordinators, which compete, are left out (`coalloc demo torus` has them).

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use coalloc_common::Span;
use coalloc_net::convert::span_to_wire;
use coalloc_proto::v1;
use serde_json::{Value, json};

use super::ceilings;
use super::counts;
use super::load::{Load, Outcome, Pace, WorkloadKind, percentile};
use super::requests::Tasks;
use crate::kit::exit::{Answer, Failure};
use crate::kit::rpc;
use crate::kit::text;
use crate::testbed::demo::torus;
use crate::testbed::local::layout::Setup;
use crate::testbed::local::{self, Folder};
use crate::user::daemons::{Daemons, stop};
use crate::user::offline::Federation;
use crate::user::task::submit::Reservation;

/// Length of a slot of all vectors, and how far the vectors reach: 10,000 slots.
const SLOT: Span = Span::from_millis(1);
const HORIZON: Span = Span::from_secs(10);

/// Measure tasks per second at one distributed coordinator, two-phase and one-way
#[derive(Debug, Clone, Args)]
pub struct TasksArgs {
    /// Seconds of load that are measured, for each way of reserving
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Seconds of load before the measurement
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=600))]
    warmup: u64,
    /// Tasks in flight
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    concurrency: u32,
    /// Planner of all tasks
    #[arg(long, value_name = "NAME", default_value = "mc-t", value_parser = torus::planner_name())]
    planner: String,
    /// Seed of the tasks
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Another federation to start, a FederationFile as YAML or JSON
    #[arg(long, value_name = "FILE")]
    federation: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// The measurement of one way of reserving.
struct TaskMeasurement {
    way: Reservation,
    load: Outcome,
    calls: f64,
    syncs: f64,
}

/// Runs `coalloc bench tasks`.
///
/// # Errors
/// When a federation does not come up, or a daemon does not answer.
pub async fn run(args: &TasksArgs) -> Result<Answer, Failure> {
    let file = match &args.federation {
        Some(path) => Federation::read(path)?.file,
        None => torus::torus()?,
    };
    let mut measured = Vec::new();
    for way in [Reservation::TwoPhase, Reservation::OneWay] {
        let folder = Folder::new(None)?;
        let mut daemons = Daemons::default();
        let outcome = measure(args, way, &file, &folder, &mut daemons).await;
        // A daemon that died explains more than a daemon whose call failed.
        let outcome = outcome.map_err(|failure| daemons.check_alive().err().unwrap_or(failure));
        stop(&mut daemons);
        if outcome.is_err() {
            text::note(&format!("logs and ledgers are in {}", folder.keep().display()));
        }
        measured.push(outcome?);
    }
    Ok(Answer::done(if args.json {
        text::json(&measured.iter().map(TaskMeasurement::json).collect::<Vec<_>>())?
    } else {
        measured.iter().map(TaskMeasurement::text).collect::<Vec<_>>().join("\n")
    }))
}

async fn measure(
    args: &TasksArgs,
    way: Reservation,
    file: &v1::FederationFile,
    folder: &Folder,
    daemons: &mut Daemons,
) -> Result<TaskMeasurement, Failure> {
    let planning = v1::TaskOptions {
        planner: Some(args.planner.clone()),
        link_slot: Some(span_to_wire(SLOT)),
        horizon: Some(span_to_wire(HORIZON)),
        ..v1::TaskOptions::default()
    };
    let settings = v1::TaskSettings {
        mode: v1::TaskMode::Distributed.into(),
        planning: Some(planning),
        reservation: v1::TaskReservation::from(way).into(),
        ..v1::TaskSettings::default()
    };
    let setup = Setup { tasks: Some(settings), ..counts::setup(folder.path(), file) };
    let posts = local::start(&setup, daemons, true).await?;
    let managers = &posts[..posts.len().saturating_sub(1)];
    let each = ceilings::time(args.seconds);
    text::note(&format!("measuring this machine, {} s each", each.as_secs()));
    let calls = ceilings::calls(managers, args.concurrency as usize, each).await?;
    let syncs = ceilings::syncs(folder.path(), posts.len(), each).await?;
    let grc = posts.last().ok_or_else(|| Failure::internal("no coordinator was started"))?;
    let mut client = rpc::coordinator(&grc.dialer, &grc.address)?;
    torus::wait_picture(&mut client).await?;
    let tasks = Tasks::new(args.seed, torus::points(file));
    let load = Load {
        pace: Pace::ClosedLoop { in_flight: args.concurrency },
        warmup: Duration::from_secs(args.warmup),
        measured: Duration::from_secs(args.seconds),
    };
    text::note(&format!("load: {}, {}, {} s", word(way), load.pace, args.seconds));
    let load = load.run(client, WorkloadKind::Tasks(tasks)).await?;
    Ok(TaskMeasurement { way, load, calls, syncs })
}

const fn word(way: Reservation) -> &'static str {
    match way {
        Reservation::TwoPhase => "two-phase",
        Reservation::OneWay => "one-way",
    }
}

impl TaskMeasurement {
    /// Tasks per second.
    fn rate(&self) -> f64 {
        self.load.confirmed.len() as f64 / self.load.seconds
    }

    /// Mean number of resource managers of a reserved task.
    fn managers_each(&self) -> f64 {
        self.load.managers as f64 / self.load.confirmed.len().max(1) as f64
    }

    /// Calls and fsyncs that a task needs.
    ///
    /// These are one request, and one or two messages to each resource manager that takes part, each with a
    /// durability point. A coordinator's durability points are the intent, the decision and the end; with
    /// one-way reservation the last two are one.
    fn needs(&self) -> (f64, f64) {
        let (phases, of_coordinator) = match self.way {
            Reservation::TwoPhase => (2.0, 3.0),
            Reservation::OneWay => (1.0, 2.0),
        };
        let at_managers = phases * self.managers_each();
        (1.0 + at_managers, of_coordinator + at_managers)
    }

    fn text(&self) -> String {
        let Self { way, load, calls, syncs } = self;
        let (needs_calls, needs_syncs) = self.needs();
        let rate = self.rate();
        let ms = |share| percentile(&load.confirmed, share).as_secs_f64() * 1e3;
        let share = |ceiling: f64| 100.0 * rate / ceiling;
        let (by_calls, by_syncs) = (calls / needs_calls, syncs / needs_syncs);
        // Writing to a String cannot fail, here and below.
        let mut out = String::new();
        let _ = writeln!(out, "{rate:>9.1} tasks/s, {}, each durable everywhere", word(*way));
        let _ = writeln!(
            out,
            "{:>9} reserved: p50 {:.1} ms, p99 {:.1} ms; {:.2} resource managers each",
            load.confirmed.len(),
            ms(0.5),
            ms(0.99),
            self.managers_each(),
        );
        let _ = writeln!(out, "{:>9} refused, {} failed", load.refused.len(), load.failed);
        if !load.first_failure.is_empty() {
            let _ = writeln!(out, "          the first failure: {}", load.first_failure);
        }
        let _ = writeln!(
            out,
            "{calls:>9.0} bare gRPC calls/s would allow {by_calls:.0} tasks/s; we reach {:.0} % \
             of that",
            share(by_calls)
        );
        let _ = writeln!(
            out,
            "{syncs:>9.0} bare fsyncs/s would allow {by_syncs:.0} tasks/s; we reach {:.0} % of \
             that",
            share(by_syncs)
        );
        out
    }

    fn json(&self) -> Value {
        let (needs_calls, needs_syncs) = self.needs();
        json!({
            "reservation": word(self.way),
            "tasks_per_second": self.rate(),
            "reserved": self.load.confirmed.len(),
            "refused": self.load.refused.len(),
            "failed": self.load.failed,
            "first_failure": self.load.first_failure,
            "p50_ms": percentile(&self.load.confirmed, 0.5).as_secs_f64() * 1e3,
            "p99_ms": percentile(&self.load.confirmed, 0.99).as_secs_f64() * 1e3,
            "resource_managers_each": self.managers_each(),
            "bare_calls_per_second": self.calls,
            "bare_fsyncs_per_second": self.syncs,
            "calls_allow": self.calls / needs_calls,
            "fsyncs_allow": self.syncs / needs_syncs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_a_bench_depend_on_seed_and_number_alone() {
        let points: Vec<String> = (0..25).map(|at| format!("n{at}")).collect();
        let tasks = Tasks::new(3, points);
        assert_eq!(tasks.get(7), tasks.get(7));
        let source = |index| tasks.get(index).task.map(|task| task.source);
        let sources: std::collections::BTreeSet<_> = (0..200).map(source).collect();
        assert_eq!(sources.len(), 25);
        assert_ne!(tasks.get(7).request_id, tasks.get(8).request_id);
    }
}
