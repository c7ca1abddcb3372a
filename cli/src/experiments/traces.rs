//! `--trace`: the events of one run, as lines of JSON that `coalloc sim gantt` draws.
//!
//! A trace is written to a temporary file, which is moved to its place when it is complete. An existing
//! trace is not overwritten: a command that continues with a folder makes its trace again and finds the
//! same bytes there. If anything else is there, the command is refused.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coalloc_plan::ip::outside::Programs;
use coalloc_sim::experiment::file::Point;
use coalloc_sim::experiment::{Experiment, Trace, TraceEvent};

use super::models::PreparedModel;
use super::part::axis_value;
use super::programs::starts_programs;
use crate::kit::exit::Failure;
use crate::kit::whole;

/// Writes events as they come.
struct Lines<'a> {
    file: BufWriter<&'a File>,
    events: u64,
    failed: Option<std::io::Error>,
}

impl Trace for Lines<'_> {
    fn event(&mut self, event: TraceEvent<'_>) {
        let line = serde_json::to_string(&event).map_err(std::io::Error::from);
        let written = line.and_then(|line| writeln!(self.file, "{line}"));
        self.events += 1;
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }
}

/// The index of the point that `--at` means: the first that matches.
///
/// # Errors
/// When it names an axis or a value that does not exist.
pub fn point_at(
    experiment: &Experiment,
    ready: &[(Point, PreparedModel)],
    at: &[String],
) -> Result<usize, Failure> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for pair in at {
        let labels = |axis: &str| {
            let labels = ready.iter().flat_map(|(point, _)| &point.labels);
            let mut known: Vec<String> = Vec::new();
            for (_, label) in labels.filter(|(own, _)| own == axis) {
                if !known.contains(label) {
                    known.push(label.clone());
                }
            }
            known
        };
        let (axis, value) = axis_value("--at", pair, experiment, labels)?;
        wanted.push((axis, value));
    }
    let stands = |point: &Point| {
        wanted.iter().all(|(axis, value)| {
            point.labels.iter().any(|(own, label)| own == axis && label == value)
        })
    };
    ready.iter().position(|(point, _)| stands(point)).ok_or_else(|| {
        let both = at.join(" --at ");
        Failure::bad_input(format!(
            "--at {both}: there is no such point; allowed: one value for each axis"
        ))
    })
}

/// The destination of a trace.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    /// Whether a complete trace is there already.
    pub is_there: bool,
}

/// Checks, before hours are spent, that a trace can be written to this file, or is there already.
///
/// `out` is the folder that is created for the results.
///
/// # Errors
/// When something else is there (an experiment, or a file of somebody else), or there is no folder for it.
pub fn target(path: &Path, out: &Path) -> Result<Target, Failure> {
    let path = path.to_owned();
    match path.symlink_metadata() {
        Ok(there) if there.is_file() && is_whole(&path) => Ok(Target { path, is_there: true }),
        Ok(_) => {
            Err(refused(&path, "exists already; allowed: a new file, or the trace of this run"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = whole::folder_of(&path);
            if folder.is_dir() || out.starts_with(folder) {
                return Ok(Target { path, is_there: false });
            }
            let problem = format!(
                "{} is not a folder; allowed: a file in a folder that exists",
                folder.display()
            );
            Err(refused(&path, &problem))
        }
        Err(error) => Err(refused(&path, &error.to_string())),
    }
}

fn refused(path: &Path, problem: &str) -> Failure {
    Failure::bad_input(format!("--trace {}: {problem}; nothing was overwritten", path.display()))
}

/// Does the file end as a complete trace does?
fn is_whole(path: &Path) -> bool {
    /// Longer than the last line of a trace.
    const TAIL_MAX: u64 = 256;
    let tail = || -> Result<Vec<u8>, std::io::Error> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_MAX)))?;
        let mut tail = Vec::new();
        file.take(TAIL_MAX).read_to_end(&mut tail)?;
        Ok(tail)
    };
    let tail = tail().unwrap_or_default();
    let last = tail.strip_suffix(b"\n").and_then(|tail| tail.rsplit(|byte| *byte == b'\n').next());
    last.is_some_and(|line| {
        matches!(serde_json::from_slice(line), Ok(TraceEvent::TraceEnds { .. }))
    })
}

/// Runs a point with a seed and writes the events, or finds that they are written already.
///
/// If `stop` has ended a program of the run, nothing is written.
///
/// # Errors
/// When something else is there, or the trace cannot be written; nothing of it is left behind then.
pub fn write(
    prepared: &PreparedModel,
    seed: u64,
    programs: &Arc<dyn Programs>,
    stop: &AtomicBool,
    target: &Target,
) -> Result<(), Failure> {
    let path = &target.path;
    let failed =
        |error: std::io::Error| Failure::internal(format!("--trace {}: {error}", path.display()));
    let part = whole::beside(path).map_err(|error| refused(path, &error.to_string()))?;
    let mut lines = Lines { file: BufWriter::new(part.as_file()), events: 0, failed: None };
    let done = prepared.run(seed, programs, &mut lines);
    // A run whose program was stopped before it had planned everything has no valid trace.
    if stop.load(Ordering::Relaxed) && starts_programs(prepared) {
        return Ok(());
    }
    done.map_err(|error| Failure::internal(format!("seed {seed}: {error}")))?;
    let events = lines.events;
    lines.event(TraceEvent::TraceEnds { events });
    match lines.failed.take() {
        Some(error) => return Err(failed(error)),
        None => lines.file.flush().map_err(failed)?,
    }
    drop(lines);
    let other = "is the trace of another run; allowed: a new file, or the trace of this run";
    if target.is_there {
        return match is_same(part.path(), path).map_err(failed)? {
            true => Ok(()),
            false => Err(refused(path, other)),
        };
    }
    part.as_file().sync_all().map_err(failed)?;
    // Another process may have put something there in the meantime.
    part.persist_noclobber(path).map_err(|error| match error.error.kind() {
        ErrorKind::AlreadyExists => refused(path, other),
        _ => failed(error.error),
    })?;
    Ok(())
}

/// Do two files have the same bytes?
fn is_same(one: &Path, other: &Path) -> Result<bool, std::io::Error> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    for (one, other) in BufReader::new(one).bytes().zip(BufReader::new(other).bytes()) {
        if one? != other? {
            return Ok(false);
        }
    }
    Ok(true)
}
