//! `coalloc sim merge`: puts the folders of all shards of a run together.
//!
//! The merged folder has the same bytes as the folder of one run. The shards' own folders are only read. What is
//! needed of the experiment is its points, seeds, plots and what the paper says; so the files that it includes need
//! not be here. That the shards had the same settings is known by their digests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use coalloc_sim::experiment::judge::{Tally, at};
use coalloc_sim::experiment::{Experiment, Results};

use super::head::Head;
use super::included;
use super::markdown::{self, RunDescription};
use super::run::write;
use super::shard::{Shard, ShardedRun};
use super::source;
use super::store::{EXPERIMENT, RUNS, Run, Store, fill, look, read};
use super::suite;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::text;

/// Put the shards of a run together
///
/// FOLDER is the folder of one shard, which `coalloc sim run --shard K/N` has written. Give those of all N shards. The
/// new folder has what one run without --shard would have written.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  coalloc sim merge shards/* --out all")]
pub struct MergeArgs {
    /// The folders of all shards
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,
    /// The folder for the results; created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Also write each plot as PNG
    #[arg(long)]
    png: bool,
    /// End with exit code 1 when a shape does not hold that should; shapes that were not checked are listed
    #[arg(long)]
    check: bool,
}

/// The folder of a shard.
struct ShardFolder {
    path: PathBuf,
    head: Head,
    run: ShardedRun,
    runs: Vec<Run>,
    experiment: String,
}

impl ShardFolder {
    fn read(path: &Path) -> Result<Self, Failure> {
        let (head, runs) = read(path)?;
        let Some(run) = head.sharded.clone() else {
            return Err(Failure::bad_input(format!(
                "{}: it has the results of a whole run; expected a folder of `coalloc sim run --shard K/N`",
                path.join(RUNS).display()
            )));
        };
        let file = path.join(EXPERIMENT);
        let experiment = std::fs::read_to_string(&file)
            .map_err(|error| Failure::bad_input(format!("{}: {error}", file.display())))?;
        Ok(Self { path: path.to_owned(), head, run, runs, experiment })
    }

    /// Checks that two folders have shards of one run.
    fn check_belongs_to(&self, first: &Self) -> Result<(), Failure> {
        let differs = |field: &str, problem: &str| {
            let (own, other) = (self.path.display(), first.path.display());
            Err(Failure::bad_input(format!(
                "{own}: {field}: {problem} {other}; all shards must be of one run"
            )))
        };
        if (&self.head.experiment, self.head.small) != (&first.head.experiment, first.head.small) {
            return differs("experiment", "it is another one than that of");
        }
        if self.head.digest != first.head.digest {
            return differs("digest", "its settings or sweep are not those of");
        }
        if self.head.program != first.head.program {
            let problem = format!("it is {}, which is not that of", self.head.maker());
            return differs("program", &problem);
        }
        if self.run.shard.of != first.run.shard.of {
            let problem = format!("it is {}, which is of another set than that of", self.run.shard);
            return differs("shard", &problem);
        }
        if (&self.run.named, &self.run.part) != (&first.run.named, &first.run.part) {
            return differs("part", "its seeds or points are not those of");
        }
        if self.experiment != first.experiment {
            return differs(EXPERIMENT, "it is not the same as that of");
        }
        Ok(())
    }

    /// Checks that the folder has the runs of its shard and no others.
    fn check_runs(&self, results: &Results, seeds: &std::ops::Range<u64>) -> Result<(), Failure> {
        let mut own = Results::new(results.points.clone());
        let others = fill(&mut own, self.runs.clone(), seeds);
        let points = 0..own.points.len();
        let all: Vec<(usize, u64)> =
            points.flat_map(|point| seeds.clone().map(move |seed| (point, seed))).collect();
        let is_own = |(point, seed): &(usize, u64)| self.run.shard.has(*point, *seed, seeds);
        let foreign = all.iter().filter(|run| !is_own(run) && own.has(run.0, run.1)).count();
        let path = self.path.display();
        if others + foreign > 0 {
            return Err(Failure::bad_input(format!(
                "{path}: {RUNS} has {} of other shards than {}",
                text::count(others + foreign, "run"),
                self.run.shard
            )));
        }
        let mut missing = all.iter().filter(|run| is_own(run) && !own.has(run.0, run.1));
        let Some((point, seed)) = missing.next() else { return Ok(()) };
        let place = at(&own.points[*point].labels);
        let more = match missing.count() {
            0 => String::new(),
            more => format!(", and {}", text::count(more, "more run")),
        };
        Err(Failure::bad_input(format!(
            "{path}: shard {} is not complete: seed {seed}{place} is missing{more}; run its command again to \
             continue it",
            self.run.shard
        )))
    }
}

/// Merges the folders.
///
/// # Errors
/// When the folders are not those of all shards of one run, or the new folder has something else. Nothing is written
/// then.
pub fn run(args: &MergeArgs) -> Result<Answer, Failure> {
    let folders: Vec<ShardFolder> =
        args.folders.iter().map(|path| ShardFolder::read(path)).collect::<Result<_, _>>()?;
    let Some(first) = folders.first() else {
        return Err(Failure::bad_input("no folder is named; needed: the folders of all shards"));
    };
    folders.iter().try_for_each(|folder| folder.check_belongs_to(first))?;
    check_complete(&folders, first.run.shard.of)?;
    let file = first.path.join(EXPERIMENT);
    let mut experiment = source::without_files(&file, first.experiment.clone())?;
    let ShardedRun { named, part, .. } = first.run.clone();
    let mut left_out = part.set_seeds(&mut experiment);
    let small = first.head.small;
    let picked = part.points(&experiment, small)?;
    let mut points = experiment.points(small);
    let all = points.len();
    points.retain(|point| picked.has(point));
    left_out.extend(suite::removed_values(&experiment));
    left_out.extend(part.points_line(points.len(), all));
    let head = Head { sharded: None, ..first.head.clone() };
    head.check_is_this_program(&first.path, experiment.model)?;
    let seeds = experiment.seeds(small);
    let mut results = Results::new(points);
    for folder in &folders {
        folder.check_runs(&results, &seeds)?;
    }
    let known = look(&args.out, &head, &first.experiment)?;
    if fill(&mut results, known, &seeds) > 0 {
        return Err(Failure::bad_input(format!(
            "--out {}: {RUNS} has runs of other points or seeds; choose another --out",
            args.out.display()
        )));
    }
    let options = part.words();
    let how = RunDescription { named, small, seeds, options, left_out };
    let shards = folders.len();
    put(args, &head, folders, &experiment, &mut results, &how)?;
    let broken = Tally::of(&experiment, &results, small).broken > 0;
    let mut told = markdown::summary(&experiment, &results, &how);
    told += &format!(
        "\n{} of {}; {}\n",
        text::count(results.len(), "run"),
        text::count(shards, "shard"),
        args.out.join("report.md").display()
    );
    let exit = if args.check && broken { Exit::Failed } else { Exit::Done };
    Ok(Answer { text: told, exit })
}

/// Checks that every shard is there once.
fn check_complete(folders: &[ShardFolder], of: u64) -> Result<(), Failure> {
    let mut found: BTreeMap<u64, &Path> = BTreeMap::new();
    for folder in folders {
        if let Some(other) = found.insert(folder.run.shard.number, &folder.path) {
            return Err(Failure::bad_input(format!(
                "{}: shard {} is in {}, too; each shard may be there once",
                folder.path.display(),
                folder.run.shard,
                other.display()
            )));
        }
    }
    let missing: Vec<String> = (1..=of)
        .filter(|number| !found.contains_key(number))
        .map(|number| Shard { number, of }.to_string())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::bad_input(format!(
        "no folder has shard {}; needed: the folders of all {of} shards",
        text::enumerate(&missing)
    )))
}

/// Writes the merged folder.
fn put(
    args: &MergeArgs,
    head: &Head,
    folders: Vec<ShardFolder>,
    experiment: &Experiment,
    results: &mut Results,
    how: &RunDescription,
) -> Result<(), Failure> {
    let text = folders.first().map(|first| first.experiment.clone()).unwrap_or_default();
    let (mut store, there) = Store::open(&args.out, head, &text)?;
    if let Some(first) = folders.first() {
        included::copy_all(&first.path, &args.out)?;
    }
    fill(results, there, &how.seeds);
    for folder in folders {
        for run in folder.runs {
            store.add(&run)?;
            fill(results, vec![run], &how.seeds);
        }
    }
    store.in_order(results)?;
    write(&args.out, experiment, results, how, args.png)
}
