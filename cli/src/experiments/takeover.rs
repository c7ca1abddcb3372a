//! `coalloc sim takeover`: processes of a coordinator that share its ledger, in random simulated worlds.
//!
//! The worlds are in `coalloc-sim`; this runs a range of seeds on all cores, or shows one seed.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use coalloc_sim::takeover::{TakeoverCounts, run as run_world, run_logged};
use rayon::prelude::*;
use serde_json::json;

use super::stage;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::text;

/// Processes that share a ledger, frozen, killed and replaced: the log is one, and nothing is lost
///
/// Each seed determines the resource managers, the requests, and what happens to the processes of one coordinator: calls to
/// etcd that are done, not done or done later without an answer; processes that freeze for longer than their leases; leases
/// that end too early; messages that are lost, doubled and late. The state machines and the shared log are those of the
/// daemons.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc sim takeover --seeds 1000          a thousand worlds, on all cores\n  \
    coalloc sim takeover --seed 17 --log | less  one of them, event by event")]
pub struct TakeoverArgs {
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000_000))]
    from: u64,
    /// Threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    jobs: Option<u16>,
    /// Only this seed
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "from", "jobs"])]
    seed: Option<u64>,
    /// Print the seed's event log, with simulated time
    #[arg(long, requires = "seed")]
    log: bool,
    /// Print everything as JSON
    #[arg(long, conflicts_with = "log")]
    json: bool,
}

/// The outcome of a range of seeds.
#[derive(Debug, Default)]
struct Outcome {
    counts: TakeoverCounts,
    failures: Vec<String>,
    elapsed: Duration,
    is_interrupted: bool,
}

/// Runs `coalloc sim takeover`.
///
/// # Errors
/// When the system gives no threads. What does not hold is not an error but an answer with [`Exit::Failed`].
pub async fn run(args: &TakeoverArgs) -> Result<Answer, Failure> {
    if let Some(seed) = args.seed {
        return Ok(one(args, seed));
    }
    let own = args.clone();
    let outcome = stage::until_stopped(move |stop| many(&own, stop)).await?;
    let exit = match (outcome.failures.is_empty(), outcome.is_interrupted) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Interrupted,
        (true, false) => Exit::Done,
    };
    let text = if args.json { outcome.json()? } else { outcome.text(args.from) };
    Ok(Answer { text, exit })
}

fn one(args: &TakeoverArgs, seed: u64) -> Answer {
    let (lines, end) = run_logged(seed);
    let mut outcome = Outcome::default();
    match end {
        Ok(counts) => outcome.counts = counts,
        Err(what) => outcome.failures.push(format!("seed {seed}: {what}")),
    }
    let exit = if outcome.failures.is_empty() { Exit::Done } else { Exit::Failed };
    if args.log {
        text::note(outcome.text(seed).trim_end());
        return Answer { text: lines.iter().map(|line| format!("{line}\n")).collect(), exit };
    }
    Answer { text: outcome.text(seed), exit }
}

fn many(args: &TakeoverArgs, stop: &AtomicBool) -> Result<Outcome, Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(stage::threads(args.jobs)).build();
    let pool = pool.map_err(|error| Failure::internal(format!("no threads: {error}")))?;
    let bar = stage::bar(0, args.seeds, "seeds, {per_sec}");
    let (sums, begun) = (Mutex::new(Outcome::default()), Instant::now());
    pool.install(|| {
        (args.from..args.from + args.seeds).into_par_iter().for_each(|seed| {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let end = run_world(seed, None);
            let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
            match end {
                Ok(counts) => sums.counts.add(&counts),
                Err(what) => {
                    // Printed at once, because a long run may be stopped before its end.
                    bar.suspend(|| text::note(&what));
                    sums.failures.push(what);
                }
            }
            drop(sums);
            bar.inc(1);
        });
    });
    bar.finish_and_clear();
    let mut outcome = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcome.failures.sort();
    outcome.elapsed = begun.elapsed();
    outcome.is_interrupted = stop.load(Ordering::Relaxed);
    Ok(outcome)
}

impl Outcome {
    /// The counts, with a name for each.
    fn rows(&self) -> [(&'static str, u64); 10] {
        let counts = &self.counts;
        [
            ("events", counts.events),
            ("records in the logs", counts.records),
            ("elections", counts.elections),
            ("processes that could not append any more", counts.replaced),
            ("leases that ended too early", counts.lies),
            ("times when a process froze", counts.freezes),
            ("resource managers that started again", counts.restarted_managers),
            ("orders of replaced processes, refused", counts.refused_orders),
            ("requests confirmed", counts.confirmed),
            ("requests refused", counts.failed),
        ]
    }

    fn text(&self, from: u64) -> String {
        let (worlds, seconds) = (self.counts.worlds, self.elapsed.as_secs_f64());
        let mut out = format!("{worlds} worlds from seed {from} on in {seconds:.1} s\n");
        for (name, count) in self.rows() {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {count:>12}  {name}");
        }
        for what in &self.failures {
            let _ = writeln!(out, "does not hold: {what}");
        }
        if self.failures.is_empty() {
            out += "everything held\n";
        }
        out
    }

    fn json(&self) -> Result<String, Failure> {
        let rows = self.rows().into_iter().map(|(name, count)| (name.replace(' ', "_"), count));
        let counts: std::collections::BTreeMap<String, u64> = rows.collect();
        text::json(&json!({
            "worlds": self.counts.worlds,
            "seconds": self.elapsed.as_secs_f64(),
            "counts": counts,
            "failures": self.failures,
        }))
    }
}
