//! The folder of an experiment's results.
//!
//! `results.jsonl` has one line per run (point and seed), written as soon as the run ends, after a head
//! line that says which experiment and program the runs belong to. A run that is in the file is not
//! repeated. A folder with the results of another experiment, or of another program, is refused before
//! anything is written.
//!
//! A run may be killed at any moment, and the disk may fill up. A later run can continue from whatever is
//! left: a line is written completely or removed again, nothing is written after a line that could not be
//! written, and a line that is incomplete all the same is ignored and its run repeated. Every other file is
//! replaced atomically ([`crate::kit::whole`]). The runs of a finished experiment are in the order of its points
//! and seeds, so that the file has the same bytes no matter how the runs came about.
//!
//! A process that writes holds a lock on `results.jsonl`; a second process is refused.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use coalloc_sim::experiment::{Measures, Results};
use serde::{Deserialize, Serialize};

use super::head::Head;
use crate::kit::exit::{Exit, Failure};
use crate::kit::text;
use crate::kit::whole;

/// The file that contains the runs.
pub const RUNS: &str = "results.jsonl";
/// The file that contains the experiment as it was written.
pub const EXPERIMENT: &str = "experiment.yaml";
/// How many ignored lines are named; further ones are only counted.
const NAMED_MAX: usize = 5;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The labels of the run's point, one for each axis.
    pub point: BTreeMap<String, String>,
    /// The run's seed.
    pub seed: u64,
    /// What the run measured.
    pub measures: Measures,
}

/// An open folder of results.
#[derive(Debug)]
pub struct Store {
    file: File,
    path: PathBuf,
    /// Length of the file's complete lines, in bytes.
    whole: u64,
    /// The failure after which nothing more can be written.
    broken: Option<Failure>,
}

impl Store {
    /// Opens a folder, which is created if it does not exist, and returns its runs.
    ///
    /// # Errors
    /// When the folder has the results of something else, another process writes to it, or it cannot be
    /// read or written. Nothing in the folder is changed then.
    pub fn open(folder: &Path, head: &Head, experiment: &str) -> Result<(Self, Vec<Run>), Failure> {
        look(folder, head, experiment)?;
        let path = folder.join(RUNS);
        let failed =
            |error: std::io::Error| Failure::bad_input(format!("{}: {error}", path.display()));
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::bad_input(format!("--out {}: {error}", folder.display())))?;
        let file = locked(&path)?;
        let mut store = Self { file, path: path.clone(), whole: 0, broken: None };
        let mut bytes = Vec::new();
        store.file.read_to_end(&mut bytes).map_err(failed)?;
        // Only the holder of the lock can rely on what is in the folder.
        whole::clear(folder);
        let found = RunsFile::of(&path, &bytes, head)?;
        for line in found.torn.iter().take(NAMED_MAX) {
            text::note(&format!(
                "{}:{line}: is not a complete line of `coalloc sim run`; it is ignored and its \
                 run repeated",
                path.display()
            ));
        }
        if found.torn.len() > NAMED_MAX {
            text::note(&format!("and {} more such lines", found.torn.len() - NAMED_MAX));
        }
        store.whole = found.whole;
        store.take_back().map_err(failed)?;
        if found.is_new {
            store.put_line(&head.line()).map_err(failed)?;
        }
        whole::write(&folder.join(EXPERIMENT), experiment.as_bytes()).map_err(failed)?;
        Ok((store, found.runs))
    }

    /// Writes a run to the file.
    ///
    /// # Errors
    /// When the run cannot be written, or an earlier run could not.
    pub fn add(&mut self, run: &Run) -> Result<(), Failure> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        let line = serde_json::to_string(run).map_err(std::io::Error::from);
        let Err(error) = line.and_then(|line| self.put_line(&line)) else { return Ok(()) };
        // Nothing may follow an incomplete line. If it cannot be removed either, it stays the last line.
        let _ = self.take_back();
        let failure = Failure::internal(format!(
            "{}: {error}; the runs before it are kept, and the same command continues from there",
            self.path.display()
        ));
        self.broken = Some(failure.clone());
        Err(failure)
    }

    fn put_line(&mut self, line: &str) -> Result<(), std::io::Error> {
        let line = format!("{line}\n");
        self.file.write_all(line.as_bytes())?;
        self.whole += line.len() as u64;
        Ok(())
    }

    /// Cuts off everything after the last complete line.
    fn take_back(&mut self) -> Result<(), std::io::Error> {
        self.file.set_len(self.whole)?;
        self.file.seek(SeekFrom::Start(self.whole)).map(|_| ())
    }

    /// Sorts the runs in the order of these points and of their seeds; runs of other points come last.
    ///
    /// # Errors
    /// When the sorted file cannot be written; the file then stays as it was.
    pub fn in_order(&mut self, results: &Results) -> Result<(), Failure> {
        let path = self.path.clone();
        let failed =
            |error: std::io::Error| Failure::internal(format!("{}: {error}", path.display()));
        let bytes = std::fs::read(&path).map_err(failed)?;
        let mut all = bytes[..end_of_lines(&bytes)].split_inclusive(|byte| *byte == b'\n');
        let Some(head) = all.next() else { return Ok(()) };
        let index = index(results);
        let mut lines: Vec<(usize, Run, &[u8])> = Vec::new();
        for line in all {
            if let Ok(run) = serde_json::from_slice::<Run>(line) {
                lines.push((index.get(&run.point).copied().unwrap_or(usize::MAX), run, line));
            }
        }
        lines.sort_by(|(at, run, _), (other_at, other, _)| {
            (at, &run.point, run.seed).cmp(&(other_at, &other.point, other.seed))
        });
        // If a run is in the file twice, the later line counts, as it does for the results.
        lines.reverse();
        lines.dedup_by(|(_, one, _), (_, other, _)| {
            (&one.point, one.seed) == (&other.point, other.seed)
        });
        lines.reverse();
        let mut ordered = head.to_owned();
        for (_, _, line) in lines {
            ordered.extend_from_slice(line);
        }
        if ordered == bytes {
            return Ok(());
        }
        let put = || -> Result<File, std::io::Error> {
            let mut part = whole::beside(&path)?;
            // The file is locked before it takes its place, so that the folder is never unlocked.
            lock(part.as_file())?;
            part.write_all(&ordered)?;
            part.as_file().sync_all()?;
            Ok(part.persist(&path)?)
        };
        self.file = put().map_err(failed)?;
        self.whole = ordered.len() as u64;
        Ok(())
    }
}

impl Drop for Store {
    /// Releases the lock. Closing the file would not be enough: a program that another thread is starting
    /// has the file too until it runs, and the lock with it.
    fn drop(&mut self) {
        // On a file system without locks there is nothing to release.
        let _ = self.file.unlock();
    }
}

/// Checks whether a folder could be opened for this experiment, and returns its runs; nothing is changed.
///
/// # Errors
/// When it is not a folder, has files of something else, or results of another experiment or program.
pub fn look(folder: &Path, head: &Head, experiment: &str) -> Result<Vec<Run>, Failure> {
    let named = |problem: &str| {
        Failure::bad_input(format!(
            "--out {}: {problem}; expected a new or empty folder, or one with results of this experiment\n\
             nothing was overwritten",
            folder.display()
        ))
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err(named("is a file, not a folder"));
        }
        Err(error) => return Err(named(&error.to_string())),
    };
    let path = folder.join(RUNS);
    match std::fs::read(&path) {
        Ok(bytes) => RunsFile::of(&path, &bytes, head).map(|found| found.runs),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // The folder contains only this experiment: an earlier start did not finish any run.
            let is_own = |entry: std::io::Result<std::fs::DirEntry>| {
                entry.is_ok_and(|entry| entry.file_name() == EXPERIMENT)
                    && std::fs::read(folder.join(EXPERIMENT))
                        .is_ok_and(|own| own == experiment.as_bytes())
            };
            match entries.into_iter().all(is_own) {
                true => Ok(Vec::new()),
                false => Err(named(&format!("the folder has files and no {RUNS}"))),
            }
        }
        Err(error) => Err(named(&format!("{RUNS}: {error}"))),
    }
}

/// Locks a file.
///
/// On a file system without locks (some network file systems), the user must avoid two runs at once.
fn lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock().or_else(|error| match error {
        TryLockError::Error(error) if has_no_locks(&error) => Ok(()),
        error => Err(error),
    })
}

fn has_no_locks(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::Unsupported
        || error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error())
}

/// Opens the file with the runs for this process alone; creates it if it does not exist.
fn locked(path: &Path) -> Result<File, Failure> {
    let failed = |error: std::io::Error| Failure::bad_input(format!("{}: {error}", path.display()));
    loop {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).read(true).write(true).open(path);
        let file = file.map_err(failed)?;
        match lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::new(
                    Exit::Refused,
                    format!(
                        "{}: another `coalloc sim run` writes to this folder; wait for its end, or choose another --out\n\
                         nothing was overwritten",
                        path.display()
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Another process may meanwhile have replaced the opened file with its sorted runs.
        let own = file.metadata().map_err(failed)?;
        match std::fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (own.dev(), own.ino()) => return Ok(file),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// The content of a file of runs.
struct RunsFile {
    runs: Vec<Run>,
    /// Numbers of the lines that are incomplete.
    torn: Vec<usize>,
    /// Length up to the end of the last complete line, in bytes.
    whole: u64,
    /// Whether the file has no head yet.
    is_new: bool,
}

impl RunsFile {
    /// Reads the content of a file for an experiment.
    fn of(path: &Path, bytes: &[u8], head: &Head) -> Result<Self, Failure> {
        // A run that was killed at its start may have written only a part of the first line.
        if format!("{}\n", head.line()).as_bytes().starts_with(bytes) && !bytes.ends_with(b"\n") {
            return Ok(Self { runs: Vec::new(), torn: Vec::new(), whole: 0, is_new: true });
        }
        let (own, runs, torn) = taken(path, bytes)?;
        // A run that has failed before its first result has left nothing to keep.
        if runs.is_empty() && torn.is_empty() && own.refuse_other(path, head).is_err() {
            return Ok(Self { runs, torn, whole: 0, is_new: true });
        }
        own.refuse_other(path, head)?;
        Ok(Self { runs, torn, whole: end_of_lines(bytes) as u64, is_new: false })
    }
}

fn end_of_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

/// The head, the runs, and the numbers of lines that are incomplete.
fn taken(path: &Path, bytes: &[u8]) -> Result<(Head, Vec<Run>, Vec<usize>), Failure> {
    let mut lines = bytes[..end_of_lines(bytes)].split(|byte| *byte == b'\n');
    let head = Head::read(path, lines.next().unwrap_or_default())?;
    let (mut runs, mut torn) = (Vec::new(), Vec::new());
    // After the last line end there is nothing.
    for (number, line) in (2..).zip(lines).filter(|(_, line)| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(run) => runs.push(run),
            Err(_) => torn.push(number),
        }
    }
    Ok((head, runs, torn))
}

/// The head and the runs of a folder. A last line that was cut off is ignored.
///
/// # Errors
/// When there are no results, or a line before the last is incomplete.
pub fn read(folder: &Path) -> Result<(Head, Vec<Run>), Failure> {
    let path = folder.join(RUNS);
    let bytes = std::fs::read(&path).map_err(|error| {
        Failure::bad_input(format!(
            "{}: {error}; expected a folder that `coalloc sim run` has written",
            path.display()
        ))
    })?;
    let (head, runs, torn) = taken(&path, &bytes)?;
    match torn.first() {
        None => Ok((head, runs)),
        Some(line) => Err(Failure::bad_input(format!(
            "{}:{line}: is not a complete line of `coalloc sim run`; repeat the command that \
             wrote this folder to do its run again",
            path.display()
        ))),
    }
}

/// The index of each point by its labels, which runs name.
fn index(results: &Results) -> BTreeMap<BTreeMap<String, String>, usize> {
    (results.points.iter().enumerate())
        .map(|(index, point)| (point.labels.iter().cloned().collect(), index))
        .collect()
}

/// Adds runs to the results of their points, and returns how many it left out.
///
/// Runs of other points and seeds are left out: the sweep may be a part of what is there.
pub fn fill(results: &mut Results, runs: Vec<Run>, seeds: &std::ops::Range<u64>) -> usize {
    let index = index(results);
    let mut left_out = 0;
    for run in runs {
        match index.get(&run.point) {
            Some(index) if seeds.contains(&run.seed) => {
                results.add(*index, run.seed, run.measures);
            }
            _ => left_out += 1,
        }
    }
    left_out
}

#[cfg(test)]
mod tests;
