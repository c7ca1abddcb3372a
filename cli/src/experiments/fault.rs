//! `coalloc sim fault`: runs the protocol in random simulated worlds under faults.
//!
//! A run is a range of seeds, distributed to as many threads as there are cores. The corpus of seeds that
//! once found something runs first. Sums do not depend on which thread ran which seed, so the same seeds
//! give the same counts on every machine. The worlds themselves are in `coalloc-sim`; [`report`] shows the
//! results.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use coalloc_sim::fault::{self, Counts, Failure as Broken, corpus};
use indicatif::ProgressBar;
use rayon::prelude::*;

use super::report::{self, Report};
use super::stage;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::text;

/// Random federations under faults: nothing overbooked, nothing half reserved, nothing lost
///
/// Each seed determines a federation (2 to 20 resource managers, 1 to 3 coordinators or a tree of them),
/// its users, and faults of the classes F1 to F13. The state machines and the ledger's logic are those of
/// the daemons; disk, network and clocks are simulated. Every invariant is checked after every event; when
/// the faults have stopped, everything must end within a bound. The seeds of the corpus run first.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc sim fault --seeds 1000                 a thousand worlds, on all cores\n  \
    coalloc sim fault --seeds 1000 --from 50000    another thousand\n  \
    coalloc sim fault --seed 17 --log | less       one of them, event by event\n\n\
    An invariant that does not hold ends with exit code 1, and with one command that replays it.")]
pub struct FaultArgs {
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000_000))]
    from: u64,
    /// Threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    jobs: Option<u16>,
    /// Only this seed, without the corpus
    #[arg(long, value_name = "S", conflicts_with_all = ["seeds", "from", "jobs"])]
    seed: Option<u64>,
    /// Print the seed's event log: every packet, record, fault and answer, with simulated time
    #[arg(long, requires = "seed")]
    log: bool,
    /// Only one kind of world [default: the seed determines it]
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Print everything as JSON
    #[arg(long, conflicts_with = "log")]
    json: bool,
    /// Write the counters into this Markdown file, between its marks; if the file does not exist, it is created
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    report: Option<PathBuf>,
    /// Add the seeds that fail to this corpus
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "sim/corpus.txt", conflicts_with = "kind")]
    add_to_corpus: Option<PathBuf>,
}

/// A kind of world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Independent coordinators
    Flat,
    /// Parent and child coordinators
    Tree,
    /// Either kind, with most reservations held at one resource manager after the other
    Turns,
    /// Independent coordinators, and users with workflows who report what happens to them
    Workflows,
}

impl From<Kind> for fault::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Flat => Self::Flat,
            Kind::Tree => Self::Tree,
            Kind::Turns => Self::Turns,
            Kind::Workflows => Self::Workflows,
        }
    }
}

/// Runs `coalloc sim fault`.
///
/// # Errors
/// Bad input, found before anything ran. A broken invariant is not an error but an answer with
/// [`Exit::Failed`].
pub async fn run(args: &FaultArgs) -> Result<Answer, Failure> {
    if let Some(path) = &args.report {
        report::check_target(path)?;
    }
    if let Some(path) = &args.add_to_corpus {
        check_corpus(path)?;
    }
    let own = args.clone();
    let ran = stage::until_stopped(move |stop| work(&own, stop)).await?;
    answer(args, &ran)
}

/// The results of a run.
struct FaultRun {
    report: Report,
    /// The event log of a single seed, when it was asked for.
    log: Option<Vec<String>>,
}

fn answer(args: &FaultArgs, ran: &FaultRun) -> Result<Answer, Failure> {
    let report = &ran.report;
    let added = match &args.add_to_corpus {
        Some(path) => add_to_corpus(path, &report.failures)?,
        None => String::new(),
    };
    if let Some(path) = args.report.as_ref().filter(|_| !report.interrupted) {
        report::write(path, &report.markdown())?;
    }
    let text = match &ran.log {
        // The log is the answer; the results go to standard error, so that the two do not mix.
        Some(lines) => {
            text::note(report.text().trim_end());
            lines.iter().map(|line| format!("{line}\n")).collect()
        }
        None if args.json => report.json()?,
        None => report.text() + &added,
    };
    let exit = match (report.failures.is_empty(), report.interrupted) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Interrupted,
        (true, false) => Exit::Done,
    };
    Ok(Answer { text, exit })
}

/// The state that the threads of a run share.
struct Shared {
    bar: ProgressBar,
    sums: Mutex<Sums>,
}

#[derive(Default)]
struct Sums {
    seeds: u64,
    counts: Counts,
    failures: Vec<Broken>,
}

impl Shared {
    fn note(&self, end: Result<Counts, Broken>) {
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.seeds += 1;
        match end {
            Ok(counts) => sums.counts.add(&counts),
            Err(failure) => {
                // The failure is printed at once, because a long run may be stopped before its end.
                self.bar.suspend(|| text::note(&format!("{failure}\n  {}", failure.replay())));
                sums.failures.push(failure);
            }
        }
        drop(sums);
        self.bar.inc(1);
    }
}

fn work(args: &FaultArgs, stop: &AtomicBool) -> Result<FaultRun, Failure> {
    // A panic within a world is a failure of its seed, and is reported as one.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let ran = match args.seed {
        Some(seed) => Ok(one(args, seed)),
        None => many(args, stop),
    };
    std::panic::set_hook(hook);
    ran
}

fn one(args: &FaultArgs, seed: u64) -> FaultRun {
    let begun = Instant::now();
    let (lines, end) = fault::run_logged(args.kind.map(Into::into), seed);
    let mut sums = Sums { seeds: 1, ..Sums::default() };
    match end {
        Ok(counts) => sums.counts = counts,
        Err(failure) => sums.failures.push(failure),
    }
    let report = finish(sums, seed, (0, 0), 1, begun.elapsed(), false);
    FaultRun { report, log: args.log.then_some(lines) }
}

fn many(args: &FaultArgs, stop: &AtomicBool) -> Result<FaultRun, Failure> {
    let jobs = stage::threads(args.jobs);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build();
    let pool = pool.map_err(|error| Failure::internal(format!("no threads: {error}")))?;
    let kind = args.kind.map(Into::into);
    let first: Vec<u64> = match kind {
        None => corpus::present().into_iter().map(|found| found.seed).collect(),
        Some(_) => Vec::new(),
    };
    let old = corpus::all().len() - corpus::present().len();
    let shared = Shared {
        bar: stage::bar(0, first.len() as u64 + args.seeds, "seeds, {per_sec}"),
        sums: Mutex::default(),
    };
    let run = |seed: u64| {
        if !stop.load(Ordering::Relaxed) {
            shared.note(fault::run_kind(kind, seed, coalloc_sim::world::Trace::Off));
        }
    };
    let begun = Instant::now();
    pool.install(|| {
        first.par_iter().copied().for_each(run);
        (args.from..args.from + args.seeds).into_par_iter().for_each(run);
    });
    let elapsed = begun.elapsed();
    shared.bar.finish_and_clear();
    let sums = shared.sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    let interrupted = stop.load(Ordering::Relaxed);
    let replayed = (first.len(), old);
    let report = finish(sums, args.from, replayed, jobs, elapsed, interrupted);
    Ok(FaultRun { report, log: None })
}

fn finish(
    sums: Sums,
    from: u64,
    corpus: (usize, usize),
    jobs: usize,
    elapsed: Duration,
    interrupted: bool,
) -> Report {
    let Sums { seeds, counts, mut failures } = sums;
    failures.sort_by_key(|failure| failure.seed);
    failures.dedup();
    Report { from, seeds, corpus, jobs, elapsed, counts, failures, interrupted }
}

/// Checks that the corpus can be added to, before hours are spent.
fn check_corpus(path: &Path) -> Result<(), Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::bad_input(format!(
            "--add-to-corpus {name}: {error}; expected the corpus of a checkout of the sources, \
             sim/corpus.txt"
        ))
    })?;
    corpus::read(&text)
        .map(|_| ())
        .map_err(|error| Failure::bad_input(format!("--add-to-corpus {name}: {error}")))
}

/// Adds the seeds that failed; returns a sentence about the result.
fn add_to_corpus(path: &Path, failures: &[Broken]) -> Result<String, Failure> {
    if failures.is_empty() {
        return Ok(String::new());
    }
    let failed = |error: std::io::Error| Failure::internal(format!("{}: {error}", path.display()));
    let mut file = std::fs::OpenOptions::new().append(true).open(path).map_err(failed)?;
    for failure in failures {
        let what = failure.what.replace('\n', " ");
        let found = corpus::CorpusSeed { generator: fault::GENERATOR, seed: failure.seed, what };
        file.write_all(found.line().as_bytes()).map_err(failed)?;
    }
    let count = failures.len();
    Ok(format!("\n{count} added to {}: say in each line what it found\n", path.display()))
}
