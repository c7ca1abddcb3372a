//! `coalloc sim run`: every point of an experiment with every seed, on all cores.
//!
//! Threads and the clock are here, because models have neither. A run is a model's day; which thread it runs on
//! decides nothing. Times are measured only where the experiment has metrics of time ([`Clock`]).

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::Args;
use coalloc_sim::experiment::file::Point;
use coalloc_sim::experiment::{Experiment, Measures, NoTrace, Results, Trace, TraceEvent};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;

use super::models::{Prepared, metrics};
use super::source::{Source, load};
use super::store::{Head, Run, Store, fill};
use super::{markdown, plot, tables};
use crate::exit::{Answer, Exit, Failure};

/// Run an experiment: tables, plots and a report beside the paper's numbers
///
/// FILE is an experiment file, or the name of an experiment that comes with the program (`coalloc sim
/// list`). Every point of its sweep runs with every seed, dealt to all cores. The folder gets results.jsonl
/// (one line a run), results.csv, one SVG a plot, and report.md. A run that the folder has already is not
/// done again, so the same command goes on where it was stopped.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc sim run takefusa-fig7 --out fig7          one that comes with the program\n  \
    coalloc sim run my.yaml --out my --small          fewer points and seeds, for a first look\n  \
    coalloc sim run my.yaml --out my --trace my.jsonl  and the events of its first run\n\n\
    A shape that the paper states and that does not hold is told, and is no error: see --check.")]
pub struct RunArgs {
    /// An experiment file, or the name of one that comes with the program
    #[arg(value_name = "FILE")]
    file: String,
    /// The folder for the results; made when it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Only the points and seeds that the experiment names for a quick look
    #[arg(long)]
    small: bool,
    /// So many seeds a point [default: what the experiment says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: Option<u64>,
    /// Threads [default: one a core]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    jobs: Option<u16>,
    /// Write the events of one run, the first point's with the first seed, as lines of JSON
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The point that is traced: axis=value, for each axis that matters
    #[arg(long, value_name = "AXIS=VALUE", requires = "trace")]
    at: Vec<String>,
    /// End with exit code 1 when a shape does not hold that should
    #[arg(long)]
    check: bool,
}

/// Runs the command.
///
/// # Errors
/// Bad input, before anything ran.
pub async fn run(args: &RunArgs) -> Result<Answer, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let (own, raised) = (args.clone(), Arc::clone(&stop));
    let mut work = tokio::task::spawn_blocking(move || work(&own, &raised));
    let done = tokio::select! {
        done = &mut work => done,
        () = coalloc_net::server::stop_signal() => {
            stop.store(true, Ordering::Relaxed);
            work.await
        }
    };
    done.map_err(|error| Failure::internal(format!("a run died: {error}")))?
}

fn work(args: &RunArgs, stop: &AtomicBool) -> Result<Answer, Failure> {
    let mut source = load(&args.file)?;
    if let Some(seeds) = args.seeds {
        (source.experiment.seeds.count, source.experiment.seeds.small) = (seeds, seeds);
    }
    check_metrics(&source)?;
    let ready = source.prepare(args.small)?;
    let traced = args.trace.as_ref().map(|_| traced_point(&ready, &args.at)).transpose()?;
    let experiment = &source.experiment;
    let head = Head::of(&experiment.name, args.small, &source.essence(args.small));
    let (store, runs) = Store::open(&args.out, &head, &source.text)?;
    let seeds = experiment.seeds(args.small);
    let mut results = Results::new(ready.iter().map(|(point, _)| point.clone()).collect());
    fill(&mut results, runs, &seeds);
    let todo: Vec<(usize, u64)> = (seeds.clone())
        .flat_map(|seed| (0..ready.len()).map(move |point| (point, seed)))
        .filter(|(point, seed)| !results.has(*point, *seed))
        .collect();
    let known = results.len();
    if let (Some(point), Some(path)) = (traced, &args.trace) {
        write_trace(&ready[point].1, seeds.start, path)?;
    }
    let begun = Instant::now();
    let jobs = jobs(args);
    let shared = Shared { bar: bar(&results, &todo), state: Mutex::new((store, results)) };
    let failed = all(&shared, experiment, &ready, &todo, jobs, stop);
    shared.bar.finish_and_clear();
    let (_, results) = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(failure) = failed {
        return Err(failure);
    }
    if stop.load(Ordering::Relaxed) {
        let done = results.len();
        let text = format!("stopped after {done} runs; the same command goes on from there\n");
        return Ok(Answer { text, exit: Exit::Interrupted });
    }
    let how = markdown::How { small: args.small, seeds, asked: args.seeds };
    write(&args.out, experiment, &results, &how)?;
    let mut text = markdown::summary(experiment, &results);
    let ran = results.len() - known;
    text += &format!(
        "\n{ran} runs in {:.1} s on {jobs} threads ({known} were there); {}\n",
        begun.elapsed().as_secs_f64(),
        args.out.join("report.md").display()
    );
    let broken = markdown::broken(experiment, &results, args.small);
    let exit = if args.check && broken { Exit::Failed } else { Exit::Done };
    Ok(Answer { text, exit })
}

/// Every metric of the file must be one that its model, or the clock, has.
fn check_metrics(source: &Source) -> Result<(), Failure> {
    let model = metrics(source.experiment.model);
    for (at, metric) in source.experiment.metrics.iter().enumerate() {
        let known = model.iter().chain(TIMES).any(|(name, _)| fits(name, &metric.name));
        if !known {
            let names: Vec<&str> = model.iter().chain(TIMES).map(|(name, _)| *name).collect();
            let allowed = format!("a metric of its model: {}", names.join(", "));
            return Err(source.mistake(&format!("metrics[{at}].name"), &metric.name, &allowed));
        }
    }
    Ok(())
}

/// Is it this metric? Capitals in a model's name stand for a name of the settings: `load_SITE`.
fn fits(known: &str, name: &str) -> bool {
    let mut rest = name;
    let parts: Vec<&str> = known.split('_').collect();
    for (at, part) in parts.iter().enumerate() {
        let is_open = part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
        let last = at + 1 == parts.len();
        let end = match (is_open, last) {
            (true, true) => rest.len(),
            (true, false) => match rest.find('_') {
                Some(end) => end,
                None => return false,
            },
            (false, _) if rest.starts_with(part) => part.len(),
            (false, _) => return false,
        };
        rest = &rest[end..];
        if last {
            return rest.is_empty();
        }
        match rest.strip_prefix('_') {
            Some(next) => rest = next,
            None => return false,
        }
    }
    false
}

/// The point that is to be traced.
fn traced_point(ready: &[(Point, Prepared)], at: &[String]) -> Result<usize, Failure> {
    let wanted: Vec<(&str, &str)> =
        (at.iter()).map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    let fits = |point: &Point| {
        wanted.iter().all(|(axis, value)| {
            point.labels.iter().any(|(own, label)| own == axis && label == value)
        })
    };
    ready.iter().position(|(point, _)| fits(point)).ok_or_else(|| {
        let labels = |point: &Point| {
            let all = point.labels.iter().map(|(axis, value)| format!("{axis}={value}"));
            all.collect::<Vec<_>>().join(" ")
        };
        let first = ready.first().map(|(point, _)| labels(point)).unwrap_or_default();
        let wanted = at.join(" ");
        Failure::bad_input(format!("--at {wanted}: there is no such point; the first is: {first}"))
    })
}

fn jobs(args: &RunArgs) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    args.jobs.map_or(cores, usize::from)
}

/// What the threads of a run share.
struct Shared {
    bar: ProgressBar,
    state: Mutex<(Store, Results)>,
}

/// Runs what is to be done; the first that failed.
fn all(
    shared: &Shared,
    experiment: &Experiment,
    ready: &[(Point, Prepared)],
    todo: &[(usize, u64)],
    jobs: usize,
    stop: &AtomicBool,
) -> Option<Failure> {
    let pool = match rayon::ThreadPoolBuilder::new().num_threads(jobs).build() {
        Ok(pool) => pool,
        Err(error) => return Some(Failure::internal(format!("no threads: {error}"))),
    };
    let timed =
        experiment.metrics.iter().any(|metric| TIMES.iter().any(|(own, _)| *own == metric.name));
    let one = |(index, seed): &(usize, u64)| {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let (point, prepared) = &ready[*index];
        let measured = match timed {
            true => Clock::default().watch(|clock| prepared.run(*seed, clock)),
            false => prepared.run(*seed, &mut NoTrace),
        };
        let measures = match measured {
            Ok(measures) => measures,
            Err(error) => {
                let place = coalloc_sim::experiment::judge::at(&point.labels);
                return Some(Failure::internal(format!("seed {seed}{place}: {error}")));
            }
        };
        let point = point.labels.iter().cloned().collect();
        let run = Run { point, seed: *seed, measures };
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = state.0.add(&run);
        state.1.add(*index, *seed, run.measures);
        drop(state);
        shared.bar.inc(1);
        kept.err()
    };
    pool.install(|| todo.par_iter().with_max_len(1).filter_map(one).find_any(|_| true))
}

fn bar(results: &Results, todo: &[(usize, u64)]) -> ProgressBar {
    let known = results.len() as u64;
    let bar = ProgressBar::new(known + todo.len() as u64).with_position(known);
    let template = "  [{bar:30}] {pos} of {len} runs, {elapsed}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Everything that is made of the results.
fn write(
    folder: &Path,
    experiment: &Experiment,
    results: &Results,
    how: &markdown::How,
) -> Result<(), Failure> {
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        let failed =
            |error: std::io::Error| Failure::internal(format!("{}: {error}", path.display()));
        std::fs::write(&path, text).map_err(failed)
    };
    put("results.csv", tables::csv(results))?;
    for plot in &experiment.plots {
        put(&format!("{}.svg", plot.name), plot::draw(experiment, results, plot, how.small))?;
    }
    put("report.md", markdown::report(experiment, results, how))
}

/// What the clock adds to a model's metrics, for experiments that have them among their own.
pub const TIMES: &[(&str, &str)] = &[
    ("plan_ms", "mean time that planning one frame took, ms"),
    ("plan_max_ms", "the longest"),
    ("plan_sd_ms", "standard deviation"),
    ("plan_request_ms", "curve over the number of the request: mean of its frames, ms"),
    ("run_ms", "time that the whole run took, ms"),
];

/// Looks at the clock when planning begins and ends.
#[derive(Debug, Default)]
struct Clock {
    begun: Option<Instant>,
    /// Request and milliseconds.
    took: Vec<(u64, f64)>,
}

impl Trace for Clock {
    fn event(&mut self, event: TraceEvent<'_>) {
        match event {
            TraceEvent::PlanningBegins { .. } => self.begun = Some(Instant::now()),
            TraceEvent::PlanningEnds { request, .. } => {
                let took = self.begun.take().map(|begun| begun.elapsed().as_secs_f64() * 1e3);
                self.took.extend(took.map(|took| (request, took)));
            }
            _ => {}
        }
    }

    fn is_wanted(&self) -> bool {
        false
    }
}

impl Clock {
    fn watch<E>(
        mut self,
        run: impl FnOnce(&mut dyn Trace) -> Result<Measures, E>,
    ) -> Result<Measures, E> {
        let begun = Instant::now();
        let mut measures = run(&mut self)?;
        measures.put("run_ms", begun.elapsed().as_secs_f64() * 1e3);
        let times: Vec<f64> = self.took.iter().map(|(_, took)| *took).collect();
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares: f64 = times.iter().map(|took| (took - mean).powi(2)).sum();
        measures.put("plan_ms", mean);
        measures.put("plan_max_ms", times.iter().fold(0.0, |most: f64, took| most.max(*took)));
        measures.put("plan_sd_ms", (squares / count).sqrt());
        for of_one in self.took.chunk_by(|one, other| one.0 == other.0) {
            let sum: f64 = of_one.iter().map(|(_, took)| took).sum();
            // The numbers of requests are far below 2^53.
            let number = of_one[0].0 as f64;
            measures.put_at("plan_request_ms", number, sum / of_one.len() as f64);
        }
        Ok(measures)
    }
}

/// Writes events as they come.
struct Lines {
    file: BufWriter<File>,
    events: u64,
    failed: Option<std::io::Error>,
}

impl Trace for Lines {
    fn event(&mut self, event: TraceEvent<'_>) {
        let line = serde_json::to_string(&event).map_err(std::io::Error::from);
        let written = line.and_then(|line| writeln!(self.file, "{line}"));
        self.events += 1;
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }
}

fn write_trace(prepared: &Prepared, seed: u64, path: &Path) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::bad_input(format!("--trace {}: {error}", path.display()));
    // What is there may be an experiment, or somebody else's.
    let file = File::create_new(path).map_err(failed)?;
    let mut lines = Lines { file: BufWriter::new(file), events: 0, failed: None };
    let done = prepared.run(seed, &mut lines);
    done.map_err(|error| Failure::internal(format!("seed {seed}: {error}")))?;
    let events = lines.events;
    lines.event(TraceEvent::TraceEnds { events });
    match lines.failed {
        Some(error) => Err(failed(error)),
        None => lines.file.flush().map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_s_metric_may_have_a_name_of_the_settings_in_it() {
        for (known, name, is) in [
            ("success", "success", true),
            ("success", "successes", false),
            ("load_SITE", "load_N0", true),
            ("load_SITE", "load", false),
            ("success_USER_at", "success_usera_at", true),
            ("success_USER_at", "success_usera", false),
            ("success_at", "success_until", false),
        ] {
            assert_eq!(fits(known, name), is, "{known} {name}");
        }
    }

    #[test]
    fn the_clock_counts_what_planning_takes() {
        let ran: Result<Measures, ()> = Clock::default().watch(|clock| {
            for request in [0, 0, 1] {
                clock.event(TraceEvent::PlanningBegins { at: 0, request });
                clock.event(TraceEvent::PlanningEnds { at: 0, request, plans: 1 });
            }
            Ok(Measures::new())
        });
        let measures = ran.unwrap();
        let names: Vec<&str> = measures.iter().map(|(name, _)| name).collect();
        let expected = [
            "plan_max_ms",
            "plan_ms",
            "plan_request_ms@0",
            "plan_request_ms@1",
            "plan_sd_ms",
            "run_ms",
        ];
        assert_eq!(names, expected);
    }
}
