//! The experiments of one `coalloc sim run`.
//!
//! All of them are read and checked before anything is written; then their runs are distributed to the threads.
//!
//! Runs are distributed seed by seed, and at any time about the same share of each experiment is done. The
//! remaining time can therefore be estimated from what is done, although a run of one experiment may take a
//! thousand times as long as a run of another. The results do not depend on which thread does a run.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coalloc_plan::ip::outside::Programs;
use coalloc_sim::experiment::file::Point;
use coalloc_sim::experiment::judge::at;
use coalloc_sim::experiment::{Experiment, Results, SilentTrace, Trace};

use super::clock::{Clock, is_timed};
use super::head::{Head, digest};
use super::included::{self, IncludedFile};
use super::models::PreparedModel;
use super::part::PartArgs;
use super::programs::{InstalledSolvers, starts_programs};
use super::shard::{Shard, ShardedRun};
use super::source::{PreparedPoints, Source, load};
use super::store::{RUNS, Run, Store, fill, look};
use super::{metrics, stage};
use crate::kit::exit::{Exit, Failure};
use crate::kit::text;

/// An experiment that is ready to run.
#[derive(Debug)]
pub struct RunnableExperiment {
    /// The source of the experiment.
    pub source: Source,
    /// Every point, with settings that the model accepts.
    pub points: Vec<(Point, PreparedModel)>,
    /// One line for each trace or program that this machine does not have, with the points that are left out
    /// because of it.
    pub left_out: Vec<String>,
    /// The seeds of every point.
    pub seeds: Range<u64>,
    /// The folder for the results.
    pub folder: PathBuf,
    head: Head,
    included: Vec<IncludedFile>,
}

/// What an experiment says of values that its sweep does not have, a line each.
#[must_use]
pub fn removed_values(experiment: &Experiment) -> Vec<String> {
    let removed = experiment.removed_values();
    removed.iter().map(|error| format!("{error}; what is said of it is left out")).collect()
}

impl RunnableExperiment {
    /// Reads and checks an experiment, and takes the `part` of it that is to run; `traces` is a folder of
    /// traces of jobs. Points whose trace is missing are left out, if `leaves_out` says so.
    ///
    /// # Errors
    /// The first mistake in the experiment; [`Exit::NotFound`] when a trace is missing and may not be, or no
    /// point is left.
    pub fn load(
        name: &str,
        small: bool,
        part: &PartArgs,
        traces: Option<&Path>,
        leaves_out: bool,
    ) -> Result<Self, Failure> {
        let mut source = load(name)?;
        let mut left_out = part.set_seeds(&mut source.experiment);
        source.check()?;
        metrics::check_curves(&source)?;
        let picked = part.points(&source.experiment, small)?;
        let PreparedPoints { mut points, missing } = source.prepare(small, traces)?;
        if let Some(problem) = missing.keys().next()
            && (!leaves_out || points.is_empty())
        {
            let needs_none = |small: PreparedPoints| small.missing.is_empty();
            // Of many experiments, each has one line.
            let is_told = !small && !leaves_out;
            let hint = match is_told && source.prepare(true, traces).is_ok_and(needs_none) {
                true => "\na first look needs none: --small",
                false => "",
            };
            return Err(Failure::new(Exit::NotFound, format!("{problem}{hint}")));
        }
        if missing.is_empty() {
            metrics::check_named(&source, &points)?;
        }
        let all = points.len() + missing.values().sum::<usize>();
        left_out.extend(
            missing.iter().map(|(why, count)| format!("{why}; left out: {count} of {all} points")),
        );
        left_out.extend(removed_values(&source.experiment));
        let programs = source.custom_programs(&points)?;
        let digests = programs.iter().map(|(path, bytes)| (path.clone(), digest(bytes))).collect();
        let included = source.included(&points, programs, traces);
        let own = &source.experiment;
        // What determines the runs is the same for every part.
        let head = Head::of(&own.name, own.model, small, &source.essence(small, &points, &digests));
        let seeds = own.seeds(small);
        points.retain(|(point, _)| picked.has(point));
        let here = points.len();
        left_out.extend(part.points_line(here, all).filter(|_| !part.point.is_empty()));
        let folder = PathBuf::new();
        Ok(Self { source, points, left_out, seeds, folder, head, included })
    }

    /// Takes only the runs of a shard; `part` is the part of the experiment that was loaded.
    #[must_use]
    pub fn into_shard(mut self, shard: Shard, part: &PartArgs) -> Self {
        let (named, part) = (self.source.named.clone(), part.clone());
        self.head.sharded = Some(ShardedRun { shard, named, part });
        let own: usize = (0..self.points.len()).map(|point| self.seeds_of(point).count()).sum();
        let all = self.points.len() as u64 * (self.seeds.end - self.seeds.start);
        let too_many = match own {
            0 => format!(
                "there are more shards than runs, and {} have none; ",
                shard.of - all.min(shard.of)
            ),
            _ => String::new(),
        };
        self.left_out.push(format!(
            "shard {shard}: {own} of {all} runs; {too_many}`coalloc sim merge` puts the shards together"
        ));
        self
    }

    /// The seeds with which a point runs here: all, or those of the shard.
    pub fn seeds_of(&self, point: usize) -> impl Iterator<Item = u64> {
        let shard = self.head.sharded.as_ref().map(|own| own.shard);
        let has = move |seed: &u64| shard.is_none_or(|own| own.has(point, *seed, &self.seeds));
        self.seeds.clone().filter(has)
    }

    /// Sets the folder for the results.
    ///
    /// Points that still have runs to do and whose program is not installed are left out.
    ///
    /// # Errors
    /// When the folder cannot be used for the results; [`Exit::NotFound`] when no point is left. Nothing is
    /// changed.
    pub fn into_folder(mut self, folder: &Path, here: &InstalledSolvers) -> Result<Self, Failure> {
        let runs = look(folder, &self.head, &self.source.text)?;
        let (results, others) = self.results(runs);
        if others > 0 {
            self.left_out.push(format!(
                "{RUNS} has {} of other points or seeds from an earlier command; left out here, and kept there: the \
                 earlier command brings its report back",
                text::count(others, "more run")
            ));
        }
        let done: Vec<bool> = (0..self.points.len())
            .map(|point| self.seeds_of(point).all(|seed| results.has(point, seed)))
            .collect();
        let lost = here.leave_out(&mut self.points, |point| done[point]);
        if !lost.is_empty() && self.head.sharded.is_some() {
            // The runs of the other shards are counted over all points, and the merged folder needs every run.
            let text = format!("{}\na shard needs all of its programs", lost.join("\n"));
            return Err(Failure::new(Exit::NotFound, text));
        }
        self.left_out.extend(lost);
        if self.points.is_empty() {
            let text = format!("{}\nno point is left to run", self.left_out.join("\n"));
            return Err(Failure::new(Exit::NotFound, text));
        }
        Ok(Self { folder: folder.to_owned(), ..self })
    }

    /// The results of the points when a folder has these runs, and the number of runs that belong to others.
    fn results(&self, runs: Vec<Run>) -> (Results, usize) {
        let points = self.points.iter().map(|(point, _)| point.clone()).collect();
        let mut results = Results::new(points);
        let others = fill(&mut results, runs, &self.seeds);
        (results, others)
    }

    /// What starts the programs of the experiment.
    #[must_use]
    pub fn programs(&self, here: &InstalledSolvers) -> Arc<dyn Programs> {
        here.with_folder(self.source.folder.as_deref())
    }

    /// The experiment itself.
    #[must_use]
    pub const fn experiment(&self) -> &Experiment {
        &self.source.experiment
    }
}

/// An experiment that is being run.
#[derive(Debug)]
pub struct RunningExperiment {
    /// The experiment, with its points and seeds.
    pub ready: RunnableExperiment,
    state: Mutex<State>,
    programs: Arc<dyn Programs>,
    /// Number of runs that were in the folder before.
    pub known: usize,
    is_timed: bool,
}

/// The state of a running experiment.
#[derive(Debug)]
pub struct State {
    /// The folder of the experiment.
    pub store: Store,
    /// The results of its runs.
    pub results: Results,
    /// The time that its runs took, summed over all threads.
    pub took: Duration,
}

impl RunningExperiment {
    /// Opens the folder of the experiment; `here` starts planners that are programs.
    ///
    /// # Errors
    /// When the folder has results of something else, or cannot be written.
    pub fn begin(ready: RunnableExperiment, here: &InstalledSolvers) -> Result<Self, Failure> {
        let programs = ready.programs(here);
        let (store, runs) = Store::open(&ready.folder, &ready.head, &ready.source.text)?;
        included::keep(&ready.folder, &ready.included)?;
        let (results, _) = ready.results(runs);
        let (known, is_timed) = (results.len(), is_timed(ready.experiment()));
        let state = Mutex::new(State { store, results, took: Duration::ZERO });
        Ok(Self { ready, state, programs, known, is_timed })
    }

    /// Locks the state of the experiment and returns it.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs that are still to be done, seed by seed.
    fn open(&self) -> Vec<(usize, u64)> {
        let state = self.state();
        let points = self.ready.points.len();
        let mut open: Vec<(usize, u64)> = (0..points)
            .flat_map(|point| self.ready.seeds_of(point).map(move |seed| (point, seed)))
            .filter(|(point, seed)| !state.results.has(*point, *seed))
            .collect();
        open.sort_by_key(|(point, seed)| (*seed, *point));
        open
    }

    /// Does a run and keeps it, unless a stop has ended its programs.
    fn run(&self, index: usize, seed: u64, stop: &AtomicBool) -> Result<(), Failure> {
        let programs = &self.programs;
        let (point, prepared) = &self.ready.points[index];
        let begun = Instant::now();
        let measured = match self.is_timed {
            true => {
                let run = |clock: &mut dyn Trace| prepared.run(seed, programs, clock);
                Clock::default().watch(&prepared.asked(seed), run)
            }
            false => prepared.run(seed, programs, &mut SilentTrace),
        };
        // A run whose program was stopped before it had planned everything has no valid measures.
        if stop.load(Ordering::Relaxed) && starts_programs(prepared) {
            return Ok(());
        }
        let measures = measured.map_err(|error| {
            let (name, place) = (&self.ready.experiment().name, at(&point.labels));
            Failure::internal(format!("{name}: seed {seed}{place}: {error}"))
        })?;
        let took = begun.elapsed();
        let run = Run { point: point.labels.iter().cloned().collect(), seed, measures };
        let mut state = self.state();
        state.store.add(&run)?;
        state.results.add(index, seed, run.measures);
        state.took += took;
        Ok(())
    }
}

/// One run: the index of the experiment, the index of its point, and the seed.
type Turn = (usize, usize, u64);

/// Every run that is to be done, in the order in which the runs are started.
fn turns(works: &[RunningExperiment]) -> Vec<Turn> {
    mixed(works.iter().map(RunningExperiment::open).collect())
}

/// Mixes lists so that every beginning of the result contains the same share of each list.
fn mixed(lists: Vec<Vec<(usize, u64)>>) -> Vec<Turn> {
    let mut all: Vec<(f64, Turn)> = Vec::new();
    for (list, own) in lists.into_iter().enumerate() {
        let length = own.len() as f64;
        let share = |place: usize| (place as f64 + 0.5) / length;
        let turns = own.into_iter().enumerate();
        all.extend(turns.map(|(place, (point, seed))| (share(place), (list, point, seed))));
    }
    // The sort is stable, so equal shares stay in the order of the lists.
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    all.into_iter().map(|(_, turn)| turn).collect()
}

/// Does all runs that are to be done, unless it is stopped.
///
/// # Errors
/// The first run that failed, or could not be kept. It sets `stop`, which also ends the programs of the
/// other runs.
pub fn deal(works: &[RunningExperiment], threads: usize, stop: &AtomicBool) -> Result<(), Failure> {
    let turns = turns(works);
    let known: usize = works.iter().map(|work| work.known).sum();
    let bar = stage::bar(known as u64, (known + turns.len()) as u64, "runs");
    let next = AtomicUsize::new(0);
    let failure: Mutex<Option<Failure>> = Mutex::new(None);
    let fail = |own: Failure| {
        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(own);
        stop.store(true, Ordering::Relaxed);
    };
    let hand = || {
        while !stop.load(Ordering::Relaxed) {
            let turn = turns.get(next.fetch_add(1, Ordering::Relaxed));
            let Some(&(work, point, seed)) = turn else { return };
            match works[work].run(point, seed, stop) {
                Ok(()) => bar.inc(1),
                Err(own) => fail(own),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(turns.len()) {
            if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, hand) {
                fail(Failure::internal(format!("no threads: {error}")));
            }
        }
    });
    bar.finish_and_clear();
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_has_the_same_share_of_each_list() {
        let list = |count: u64| (0..count).map(|seed| (0, seed)).collect::<Vec<_>>();
        let all = mixed(vec![list(100), list(10), list(1), list(0)]);
        assert_eq!(all.len(), 111);
        let of = |list: usize, part: &[Turn]| part.iter().filter(|turn| turn.0 == list).count();
        let half = &all[..all.len() / 2];
        assert_eq!((of(0, half), of(1, half)), (50, 5));
        let seeds: Vec<u64> = all.iter().filter(|turn| turn.0 == 1).map(|turn| turn.2).collect();
        assert!(seeds.is_sorted(), "{seeds:?}");
    }
}
