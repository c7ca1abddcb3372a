//! `--trace`: the events of one run, as lines of JSON that `coalloc sim gantt` draws.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use coalloc_plan::ip::outside::Programs;
use coalloc_sim::experiment::file::Point;
use coalloc_sim::experiment::{Experiment, Trace, TraceEvent};

use super::models::Prepared;
use crate::exit::Failure;

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

/// Which of the points `--at` means: the first that stands there.
///
/// # Errors
/// When it names an axis or a value that there is not.
pub fn point_at(
    experiment: &Experiment,
    ready: &[(Point, Prepared)],
    at: &[String],
) -> Result<usize, Failure> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for pair in at {
        let bad = |problem: &str, known: &[&str]| {
            let allowed = known.join(", ");
            Failure::bad_input(format!("--at {pair}: {problem}; allowed: {allowed}"))
        };
        let axes: Vec<&str> = experiment.sweep.iter().map(|axis| axis.name.as_str()).collect();
        let Some((axis, value)) = pair.split_once('=') else {
            return Err(bad("is not AXIS=VALUE", &axes));
        };
        if !axes.contains(&axis) {
            return Err(bad(&format!("{axis} is no axis of {}", experiment.name), &axes));
        }
        let labels = ready.iter().flat_map(|(point, _)| &point.labels);
        let mut known: Vec<&str> = Vec::new();
        for (_, label) in labels.filter(|(own, _)| own == axis) {
            if !known.contains(&label.as_str()) {
                known.push(label);
            }
        }
        if !known.contains(&value) {
            return Err(bad(&format!("{value} is no value of that axis in this run"), &known));
        }
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
            "--at {both}: no point stands there; allowed: one value an axis"
        ))
    })
}

/// Can a trace be written there? Asked before hours are spent.
///
/// # Errors
/// When something is there: it may be an experiment, or somebody else's.
pub fn check_target(path: &Path) -> Result<(), Failure> {
    match path.symlink_metadata() {
        Ok(_) => Err(Failure::bad_input(format!(
            "--trace {}: is there already; allowed: a new file; nothing was overwritten",
            path.display()
        ))),
        Err(_) => Ok(()),
    }
}

/// Runs a point with a seed and writes what happens.
///
/// # Errors
/// When the file is there already, or cannot be written.
pub fn write(
    prepared: &Prepared,
    seed: u64,
    programs: &Arc<dyn Programs>,
    path: &Path,
) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::bad_input(format!("--trace {}: {error}", path.display()));
    let file = File::create_new(path).map_err(failed)?;
    let mut lines = Lines { file: BufWriter::new(file), events: 0, failed: None };
    let done = prepared.run(seed, programs, &mut lines);
    done.map_err(|error| Failure::internal(format!("seed {seed}: {error}")))?;
    let events = lines.events;
    lines.event(TraceEvent::TraceEnds { events });
    match lines.failed {
        Some(error) => Err(failed(error)),
        None => lines.file.flush().map_err(failed),
    }
}
