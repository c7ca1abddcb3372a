//! The folder of an experiment's results.
//!
//! `results.jsonl` has one line a run (point and seed), written as soon as the run ends, behind a head line that
//! says whose runs they are. A run that is there is not done again; a last line that was cut off by a kill is
//! done again. A folder with the results of another experiment is refused before anything is written.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};

use coalloc_sim::experiment::{Measures, Results};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::exit::Failure;

/// The file with the runs.
pub const RUNS: &str = "results.jsonl";
/// The experiment as it was written.
pub const EXPERIMENT: &str = "experiment.yaml";

/// The first line: whose runs they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Name of the experiment.
    pub experiment: String,
    /// Are the points and seeds those of a `--small` run?
    pub small: bool,
    /// SHA-256 of what decides about its runs.
    pub digest: String,
}

impl Head {
    /// Of an experiment; `essence` is what decides about its runs.
    #[must_use]
    pub fn of(experiment: &str, small: bool, essence: &Value) -> Self {
        // Keys of JSON objects are sorted here, so equal content has equal bytes.
        let digest = Sha256::digest(essence.to_string());
        let mut hex = String::new();
        for byte in digest {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        Self { experiment: experiment.to_owned(), small, digest: hex }
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Where its point stands on every axis.
    pub point: BTreeMap<String, String>,
    /// Its seed.
    pub seed: u64,
    /// What it measured.
    pub measures: Measures,
}

/// The open folder.
#[derive(Debug)]
pub struct Store {
    file: File,
    path: PathBuf,
}

impl Store {
    /// Opens a folder, which is made when it is not there; the runs that it has.
    ///
    /// # Errors
    /// When it has the results of something else, or cannot be read or written. Nothing is changed then.
    pub fn open(folder: &Path, head: &Head, text: &str) -> Result<(Self, Vec<Run>), Failure> {
        let path = folder.join(RUNS);
        let known = if path.is_file() { Some(read(folder)?) } else { None };
        if known.is_none() {
            refuse_foreign(folder)?;
        }
        let (runs, whole) = match known {
            Some((own, runs, whole)) => {
                refuse_other(&path, &own, head)?;
                (runs, Some(whole))
            }
            None => (Vec::new(), None),
        };
        let failed =
            |error: std::io::Error| Failure::bad_input(format!("{}: {error}", path.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        std::fs::write(folder.join(EXPERIMENT), text).map_err(failed)?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        match whole {
            Some(whole) => {
                file.set_len(whole).map_err(failed)?;
                file.seek(std::io::SeekFrom::End(0)).map_err(failed)?;
            }
            None => {
                let line = serde_json::to_string(head).map_err(|e| failed(e.into()))?;
                file.write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
            }
        }
        Ok((Self { file, path }, runs))
    }

    /// Keeps a run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, run: &Run) -> Result<(), Failure> {
        let failed =
            |error: std::io::Error| Failure::internal(format!("{}: {error}", self.path.display()));
        let line = serde_json::to_string(run).map_err(|error| failed(error.into()))?;
        self.file.write_all(format!("{line}\n").as_bytes()).map_err(failed)
    }
}

/// A folder that is not empty and has no results is somebody else's.
fn refuse_foreign(folder: &Path) -> Result<(), Failure> {
    let Ok(mut entries) = std::fs::read_dir(folder) else { return Ok(()) };
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Failure::bad_input(format!(
            "--out {}: the folder has files and no {RUNS}; expected a new or empty one, or one with \
             results of this experiment",
            folder.display()
        ))),
    }
}

fn refuse_other(path: &Path, own: &Head, head: &Head) -> Result<(), Failure> {
    if own == head {
        return Ok(());
    }
    let small = |head: &Head| if head.small { " (a --small run)" } else { "" };
    let what = match own.experiment == head.experiment && own.small == head.small {
        true => format!("{} as it was before its settings or sweep were changed", own.experiment),
        false => format!("{}{}", own.experiment, small(own)),
    };
    Err(Failure::bad_input(format!(
        "{}:1: digest: the folder holds results of {what}, not of {}{}; choose another --out\n\
         nothing was overwritten",
        path.display(),
        head.experiment,
        small(head)
    )))
}

/// The head and the runs of a folder, and how many bytes of the file are whole lines.
///
/// # Errors
/// When there are none, or a line cannot be read. A last line that was cut off is left out.
pub fn read(folder: &Path) -> Result<(Head, Vec<Run>, u64), Failure> {
    let path = folder.join(RUNS);
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Failure::bad_input(format!(
            "{}: {error}; expected a folder that `coalloc sim run` has written",
            path.display()
        ))
    })?;
    let mistake = |line: usize, error: serde_json::Error| {
        let (path, error) = (path.display(), error.to_string());
        let said = error.split(" at line ").next().unwrap_or_default().to_owned();
        Failure::bad_input(format!("{path}:{line}: {said}; expected a line of `coalloc sim run`"))
    };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = text[..whole].lines();
    let head: Head = serde_json::from_str(lines.next().unwrap_or_default())
        .map_err(|error| mistake(1, error))?;
    let mut runs = Vec::new();
    for (number, line) in (2..).zip(lines) {
        runs.push(serde_json::from_str(line).map_err(|error| mistake(number, error))?);
    }
    Ok((head, runs, whole as u64))
}

/// Puts runs where their points are. Runs of other points are left out: the sweep may be a part of what is there.
pub fn fill(results: &mut Results, runs: Vec<Run>, seeds: &std::ops::Range<u64>) {
    let index: BTreeMap<BTreeMap<String, String>, usize> = (results.points.iter().enumerate())
        .map(|(index, point)| (point.labels.iter().cloned().collect(), index))
        .collect();
    for run in runs {
        if let Some(index) = index.get(&run.point)
            && seeds.contains(&run.seed)
        {
            results.add(*index, run.seed, run.measures);
        }
    }
}
