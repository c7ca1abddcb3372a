//! `coalloc sim run`: runs every point of experiments with every seed on all cores, and writes the results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use coalloc_sim::experiment::judge::Tally;
use coalloc_sim::experiment::shipped::SHIPPED;
use coalloc_sim::experiment::{Experiment, Results};

use super::part::PartArgs;
use super::programs::InstalledSolvers;
use super::shard::Shard;
use super::suite::{RunnableExperiment, RunningExperiment, deal};
use super::{markdown, plot, png, stage, tables, traces};
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::text;
use crate::kit::{svg, whole};

/// Run experiments: tables, plots and reports that compare with the papers' numbers
///
/// FILE is an experiment file, or the name of an experiment that comes with the program (`coalloc sim
/// list`). Every point of its sweep runs with every seed, on all cores. The folder gets results.jsonl (one
/// line per run), results.csv, one SVG per plot, and report.md; with several experiments, each gets a
/// folder in it with its name. A run that is in the folder already is not repeated, so the same command
/// continues where it was stopped.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc sim run takefusa-fig7 --out fig7          one that comes with the program\n  \
    coalloc sim run --all --out all                   all that come with the program\n  \
    coalloc sim run my.yaml --out my --small          fewer points and seeds, for a first look\n  \
    coalloc sim run my.yaml --out my --trace my.jsonl  and the events of its first run\n  \
    coalloc sim run my.yaml --out my --point load=50 --first-seed 101   some points, new seeds\n  \
    coalloc sim run my.yaml --out 2 --shard 2/20       the second of 20 machines\n\n\
    A shape that the paper states and that does not hold is told, and is no error: see --check.")]
pub struct RunArgs {
    /// Experiment files, or names of experiments that come with the program
    #[arg(value_name = "FILE", required_unless_present = "all", conflicts_with = "all")]
    files: Vec<String>,
    /// Every experiment that comes with the program; runs whose trace is missing are left out
    #[arg(long)]
    all: bool,
    /// The folder for the results; created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Only the points and seeds that the experiment names for a quick look
    #[arg(long)]
    small: bool,
    #[command(flatten)]
    part: PartArgs,
    /// Only the K-th of N equal parts of the runs; `coalloc sim merge` puts the N folders together
    #[arg(long, value_name = "K/N", conflicts_with_all = ["check", "trace"])]
    shard: Option<Shard>,
    /// A folder with traces of jobs, after the folder of the experiment [default: $COALLOC_TRACES]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    jobs: Option<u16>,
    /// Also write each plot as PNG
    #[arg(long)]
    png: bool,
    /// Write the events of one run (first point, first seed) as lines of JSON
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The point to trace: axis=value, for each axis that matters
    #[arg(long, value_name = "AXIS=VALUE", requires = "trace")]
    at: Vec<String>,
    /// End with exit code 1 when a shape does not hold that should; shapes that were not checked are listed
    #[arg(long)]
    check: bool,
}

/// Runs the command.
///
/// # Errors
/// Bad input, found before anything ran.
pub async fn run(args: &RunArgs) -> Result<Answer, Failure> {
    let own = args.clone();
    stage::until_stopped(move |stop| work(&own, stop)).await
}

fn work(args: &RunArgs, stop: &Arc<AtomicBool>) -> Result<Answer, Failure> {
    let here = InstalledSolvers::find(Arc::clone(stop));
    let (ready, skipped) = checked(args, &here)?;
    let traced = match (&args.trace, &ready[..]) {
        (None, _) => None,
        (Some(path), [one]) => {
            let target = traces::target(path, &args.out)?;
            Some((target, traces::point_at(one.experiment(), &one.points, &args.at)?))
        }
        (Some(path), _) => {
            let shown = path.display();
            let problem = "is for one experiment, but several are named";
            return Err(Failure::bad_input(format!("--trace {shown}: {problem}")));
        }
    };
    let trace = |ready: &RunnableExperiment, is_there: bool| match &traced {
        Some((target, point)) if target.is_there == is_there => {
            let prepared = &ready.points[*point].1;
            let programs = ready.programs(&here);
            traces::write(prepared, ready.seeds.start, &programs, stop, target)
        }
        _ => Ok(()),
    };
    // An existing trace is read before anything is written; for a new one, its folder is created first.
    ready.first().map_or(Ok(()), |one| trace(one, true))?;
    let works = ready
        .into_iter()
        .map(|ready| RunningExperiment::begin(ready, &here))
        .collect::<Result<Vec<RunningExperiment>, Failure>>()?;
    works.first().map_or(Ok(()), |work| trace(&work.ready, false))?;
    let (begun, threads) = (Instant::now(), stage::threads(args.jobs));
    deal(&works, threads, stop)?;
    if stop.load(Ordering::Relaxed) {
        let done: usize = works.iter().map(|work| work.state().results.len()).sum();
        let text = format!("stopped after {done} runs; the same command continues from there\n");
        return Ok(Answer { text, exit: Exit::Interrupted });
    }
    let mut tallies = Vec::new();
    for work in &works {
        let mut state = work.state();
        let (store, results) = {
            let state = &mut *state;
            (&mut state.store, &state.results)
        };
        store.in_order(results)?;
        let how = how(args, &work.ready);
        write(&work.ready.folder, work.ready.experiment(), results, &how, args.png)?;
        tallies.push(Tally::of(work.ready.experiment(), results, args.small));
    }
    let mut text = match &works[..] {
        [one] => {
            markdown::summary(one.ready.experiment(), &one.state().results, &how(args, &one.ready))
        }
        several => table(several, &tallies) + &skipped,
    };
    let known: usize = works.iter().map(|work| work.known).sum();
    let all: usize = works.iter().map(|work| work.state().results.len()).sum();
    let memory = stage::peak_memory_mib()
        .map(|mib| format!("; at most {mib} MiB of memory"))
        .unwrap_or_default();
    let made = match &works[..] {
        [one] => one.ready.folder.join("report.md"),
        _ => args.out.join("*/report.md"),
    };
    text += &format!(
        "\n{} in {:.1} s on {} ({known} were there){memory}; {}\n",
        text::count(all - known, "run"),
        begun.elapsed().as_secs_f64(),
        text::count(threads, "thread"),
        made.display()
    );
    let broken = tallies.iter().any(|tally| tally.broken > 0);
    let exit = if args.check && broken { Exit::Failed } else { Exit::Done };
    Ok(Answer { text, exit })
}

/// How the experiment's runs were made.
fn how(args: &RunArgs, ready: &RunnableExperiment) -> markdown::RunDescription {
    let (seeds, left_out) = (ready.seeds.clone(), ready.left_out.clone());
    let shard = args.shard.map(|shard| format!(" --shard {shard}")).unwrap_or_default();
    let (named, options) = (ready.source.named.clone(), args.part.words() + &shard);
    markdown::RunDescription { named, small: args.small, seeds, options, left_out }
}

/// Checks every experiment that was asked for, and the folder that it may write to. With `--all`, experiments
/// without any of their traces are skipped; each has a line in the text.
fn checked(
    args: &RunArgs,
    here: &InstalledSolvers,
) -> Result<(Vec<RunnableExperiment>, String), Failure> {
    let shipped = || SHIPPED.iter().map(|shipped| shipped.name.to_owned()).collect();
    let names: Vec<String> = if args.all { shipped() } else { args.files.clone() };
    let several = names.len() > 1;
    let (mut all, mut skipped): (Vec<RunnableExperiment>, _) = (Vec::new(), String::new());
    let traces = args.traces.as_deref();
    for name in &names {
        let loaded = RunnableExperiment::load(name, args.small, &args.part, traces, args.all);
        let ready = match loaded {
            Err(failure) if args.all && failure.exit == Exit::NotFound => {
                skipped += &format!("{name}: {failure}; left out\n");
                continue;
            }
            loaded => loaded?,
        };
        let ready = match args.shard {
            Some(shard) => ready.into_shard(shard, &args.part),
            None => ready,
        };
        let own = &ready.experiment().name;
        if all.iter().any(|other| other.experiment().name == *own) {
            return Err(Failure::bad_input(format!(
                "{name}: two of the experiments are named {own}; each writes to the folder of its \
                 name, so run them one by one"
            )));
        }
        let folder = if several { args.out.join(own) } else { args.out.clone() };
        all.push(ready.into_folder(&folder, here)?);
    }
    Ok((all, skipped))
}

/// Writes everything that is made from the results; each file is replaced completely, or stays as it was.
///
/// # Errors
/// When a file cannot be written.
pub(super) fn write(
    folder: &Path,
    experiment: &Experiment,
    results: &Results,
    how: &markdown::RunDescription,
    as_png: bool,
) -> Result<(), Failure> {
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        whole::write(&path, bytes)
            .map_err(|error| Failure::internal(format!("{}: {error}", path.display())))
    };
    put("results.csv", tables::csv(results).as_bytes())?;
    for plot in &experiment.plots {
        let Some(picture) = plot::draw(experiment, results, plot, how.small) else { continue };
        put(&format!("{}.svg", plot.name), svg::svg(&picture).as_bytes())?;
        if as_png {
            let name = format!("{}.png", plot.name);
            let bytes = png::png(&picture)
                .map_err(|error| Failure::internal(format!("{name}: {error}")))?;
            put(&name, &bytes)?;
        }
    }
    put("report.md", markdown::report(experiment, results, how).as_bytes())
}

/// The results of several experiments, one per line.
fn table(works: &[RunningExperiment], tallies: &[Tally]) -> String {
    let mut table = text::table(&[
        "EXPERIMENT",
        "RUNS",
        "THREAD SECONDS OF THIS CALL",
        "HELD",
        "NOT HELD, AS THE FILE SAYS",
        "NOT HELD",
        "UNDECIDED",
        "NOT LOOKED AT",
    ]);
    text::align_right(&mut table, &[1, 2, 3, 4, 5, 6, 7]);
    let row = |name: &str, runs: usize, seconds: f64, tally: &Tally| {
        let Tally { held, not_met, broken, undecided, not_looked_at } = tally;
        let counts = [held, not_met, broken, undecided, not_looked_at].map(ToString::to_string);
        let head = [name.to_owned(), runs.to_string(), format!("{seconds:.1}")];
        head.into_iter().chain(counts).collect::<Vec<String>>()
    };
    let (mut runs, mut seconds, mut all) = (0, 0.0, Tally::default());
    for (work, tally) in works.iter().zip(tallies) {
        let state = work.state();
        let (own, took) = (state.results.len(), state.took.as_secs_f64());
        table.add_row(row(&work.ready.experiment().name, own, took, tally));
        runs += own;
        seconds += took;
        all += *tally;
    }
    table.add_row(row("all", runs, seconds, &all));
    let left_out = works.iter().flat_map(|work| {
        let name = &work.ready.experiment().name;
        work.ready.left_out.iter().map(move |line| format!("{name}: {line}\n"))
    });
    text::finish(&table) + &left_out.collect::<String>()
}

#[cfg(test)]
mod tests {
    use coalloc_sim::experiment::shipped::FILES;

    use super::*;

    /// `--all` with these traces: the experiments that would run, and what is said of those that would not.
    fn all_with(traces: &Path) -> (Vec<RunnableExperiment>, String) {
        let args = RunArgs {
            files: Vec::new(),
            all: true,
            out: traces.join("out"),
            small: false,
            part: PartArgs { seeds: Some(1), ..PartArgs::default() },
            shard: None,
            traces: Some(traces.to_owned()),
            jobs: None,
            png: false,
            trace: None,
            at: Vec::new(),
            check: false,
        };
        checked(&args, &InstalledSolvers::find(Arc::default())).unwrap()
    }

    #[test]
    fn what_has_no_trace_is_left_out_of_all_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let (ready, skipped) = all_with(folder.path());
        assert_eq!(ready.len() + 5, SHIPPED.len(), "{skipped}");
        let lines: Vec<&str> = skipped.lines().collect();
        let place = folder.path().join("KTH-SP2-1996-2-raw.swf.gz");
        assert!(
            lines[0].starts_with("castillo-2009-waits: castillo-2009-waits.yaml:"),
            "{skipped}"
        );
        let looked = format!("looked for {};", place.display());
        assert!(lines.iter().all(|line| line.ends_with("; left out")), "{skipped}");
        assert!(lines.len() == 5 && lines[..4].iter().all(|l| l.contains(&looked)), "{skipped}");
        let recorded = folder.path().join("Montage_25.xml.gz");
        let looked = format!("looked for {};", recorded.display());
        assert!(lines[4].starts_with("decker-2007-recorded: "), "{skipped}");
        assert!(lines[4].contains(&looked), "{skipped}");

        let (_, tiny) = FILES.iter().find(|(path, _)| *path == "tiny.swf").unwrap();
        std::fs::write(place, tiny).unwrap();
        let (ready, skipped) = all_with(folder.path());
        assert_eq!((ready.len() + 1, skipped.lines().count()), (SHIPPED.len(), 1), "{skipped}");
        let waits = ready.iter().find(|ready| ready.experiment().name == "castillo-2009-waits");
        let waits = waits.unwrap();
        assert_eq!((waits.points.len(), waits.left_out.len()), (5, 2), "{:?}", waits.left_out);
        for (line, log) in waits.left_out.iter().zip(["CTC", "HPC2N"]) {
            let is_said = line.contains(log) && line.ends_with("; left out: 5 of 15 points");
            assert!(is_said, "{log}: {line}");
        }
    }
}
