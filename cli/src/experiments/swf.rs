//! Traces of jobs in the Standard Workload Format: finds and unpacks them for experiments with the model
//! `jobs`, and shows them (`coalloc trace`).
//!
//! A trace is text, plain or packed with gzip; its first two bytes say which. Traces are the user's: the
//! program comes with none.
//!
//! What the lines of a trace mean is not here; `coalloc_sim::jobs::swf` knows that.

mod show;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use coalloc_common::limits::TRACE_BYTES_MAX;
use coalloc_sim::jobs::swf::{SwfTrace, parse};
use flate2::read::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use crate::kit::exit::{Answer, Exit, Failure};

/// Where traces can be had, for messages.
const ARCHIVE: &str = "https://www.cs.huji.ac.il/labs/parallel/workload/logs.html";

/// The first two bytes of what gzip has packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Traces of jobs that other systems have logged
#[derive(Debug, Clone, Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum TraceCommand {
    Show(show::ShowArgs),
}

/// Runs `coalloc trace`.
///
/// # Errors
/// When the file is not a trace.
pub fn run(args: &TraceArgs) -> Result<Answer, Failure> {
    match &args.command {
        TraceCommand::Show(args) => show::run(args),
    }
}

/// A trace that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct TraceFile {
    /// The jobs.
    pub trace: SwfTrace,
    /// SHA-256 of the unpacked text.
    pub digest: String,
}

/// Reads a trace, and unpacks it if it is packed.
///
/// # Errors
/// A sentence that names the file and, where there is one, the line.
pub fn read(path: &Path) -> Result<TraceFile, String> {
    let shown = path.display();
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("{shown}: is cut off: {error}"),
        _ => format!("{shown}: {error}"),
    };
    let text = unpacked(File::open(path).map_err(unreadable)?, TRACE_BYTES_MAX);
    let Some(text) = text.map_err(unreadable)? else {
        let most = TRACE_BYTES_MAX >> 20;
        let size = format!("more than {most} MiB, unpacked, is not allowed for a trace");
        return Err(format!("{shown}: {size}; allowed: at most {most} MiB"));
    };
    let trace =
        parse(&text).map_err(|error| format!("{shown}:{}: {}", error.line, error.problem))?;
    let mut digest = String::new();
    for byte in Sha256::digest(&text) {
        // Writing to a String cannot fail.
        let _ = write!(digest, "{byte:02x}");
    }
    Ok(TraceFile { trace, digest })
}

/// The text of a plain or packed file; `None` if it is longer than `most`.
fn unpacked(mut file: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut first = Vec::new();
    file.by_ref().take(GZIP.len() as u64).read_to_end(&mut first)?;
    let is_packed = first == GZIP;
    let whole = io::Cursor::new(first).chain(file);
    let mut text = Vec::new();
    if is_packed {
        MultiGzDecoder::new(io::BufReader::new(whole)).take(most + 1).read_to_end(&mut text)?;
    } else {
        whole.take(most + 1).read_to_end(&mut text)?;
    }
    Ok(Some(text).filter(|text| text.len() as u64 <= most))
}

/// Where the traces of an experiment are, and those that were read.
#[derive(Debug)]
pub struct TraceFolders {
    folders: Vec<PathBuf>,
    known: RefCell<BTreeMap<String, Arc<TraceFile>>>,
}

/// Why an experiment has no trace.
#[derive(Debug)]
pub enum NoTrace {
    /// No folder has it.
    Missing(String),
    /// It is there, and is not a trace.
    Bad(String),
}

impl TraceFolders {
    /// Traces are looked for in the folder of the experiment's file, if it has one, and then in `given`, else
    /// in the folder that the variable `COALLOC_TRACES` names.
    #[must_use]
    pub fn new(beside: Option<&Path>, given: Option<&Path>) -> Self {
        let variable = || std::env::var_os("COALLOC_TRACES").filter(|text| !text.is_empty());
        let given = given.map(Path::to_owned).or_else(|| variable().map(PathBuf::from));
        let folders = beside.map(Path::to_owned).into_iter().chain(given).collect();
        Self { folders, known: RefCell::new(BTreeMap::new()) }
    }

    /// The trace of this name. Every trace is read once.
    ///
    /// # Errors
    /// Says where the trace was looked for, or what is wrong with it.
    pub fn find(&self, name: &str) -> Result<Arc<TraceFile>, NoTrace> {
        if let Some(known) = self.known.borrow().get(name) {
            return Ok(Arc::clone(known));
        }
        let places = || self.folders.iter().map(|folder| folder.join(name));
        let Some(path) = places().find(|path| path.exists()) else {
            let looked: Vec<String> = places().map(|path| path.display().to_string()).collect();
            let looked = match looked.is_empty() {
                true => "no folder was named".to_owned(),
                false => format!("looked for {}", looked.join(" and ")),
            };
            return Err(NoTrace::Missing(format!(
                "there is no trace {name}: {looked}; name its folder with --traces DIR or \
                 COALLOC_TRACES; the logs of papers are in the Parallel Workloads Archive, {ARCHIVE}"
            )));
        };
        let read = Arc::new(read(&path).map_err(NoTrace::Bad)?);
        self.known.borrow_mut().insert(name.to_owned(), Arc::clone(&read));
        Ok(read)
    }
}

impl NoTrace {
    /// The exit code and the problem.
    #[must_use]
    pub fn told(self) -> (Exit, String) {
        match self {
            Self::Missing(problem) => (Exit::NotFound, problem),
            Self::Bad(problem) => (Exit::BadInput, problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn packed_and_plain_text_are_the_same() {
        let text = b"1 2 3\n".repeat(100);
        let size = text.len() as u64;
        let halves = [packed(&text[..250]), packed(&text[250..])].concat();
        for file in [text.clone(), packed(&text), halves] {
            assert_eq!(unpacked(&file[..], size).unwrap().as_deref(), Some(&text[..]));
            assert_eq!(unpacked(&file[..], size - 1).unwrap(), None);
        }
        assert_eq!(unpacked(&b"\x1f"[..], 9).unwrap().as_deref(), Some(&b"\x1f"[..]));
    }

    #[test]
    fn a_packed_trace_that_is_cut_off_or_damaged_is_refused() {
        let whole = packed(&b"1 2 3 4 5 6\n".repeat(500));
        for length in 2..whole.len() {
            assert!(unpacked(&whole[..length], 10_000).is_err(), "{length} of {}", whole.len());
        }
        let mut damaged = whole.clone();
        let last = damaged.len() - 8;
        damaged[last] ^= 1;
        assert!(unpacked(&damaged[..], 10_000).is_err(), "the checksum is wrong");
    }
}
