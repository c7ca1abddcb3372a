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
use coalloc_common::workflow::Workflow;
use coalloc_sim::experiment::shipped::FILES;
use coalloc_sim::jobs::swf::{SwfError, SwfParser, SwfTrace};
use flate2::read::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use super::included::{self, Content};
use crate::kit::exit::{Answer, Exit, Failure};
use crate::user::workflow::import;

/// Where traces can be had, for messages.
const TRACES_ARE: &str = "the logs of papers are in the Parallel Workloads Archive, https://www.cs.huji.ac.il/labs/parallel/workload/logs.html";

/// Where recorded workflows can be had, for messages.
const WORKFLOWS_ARE: &str =
    "recorded workflows are in the WfInstances of WfCommons, https://wfcommons.org/instances";

/// The first two bytes of what gzip has packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Size of the buffer through which the text of a trace goes.
const BUFFER_BYTES: usize = 64 << 10;

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
    let read = File::open(path).map_err(ReadError::Io);
    let read = read.and_then(|file| read_from(file, TRACE_BYTES_MAX));
    read.map_err(|error| sentence(&path.display().to_string(), &error))
}

/// What is wrong with the file of this name.
fn sentence(shown: &str, error: &ReadError) -> String {
    match error {
        ReadError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            format!("{shown}: is cut off: {error}")
        }
        ReadError::Io(error) => format!("{shown}: {error}"),
        ReadError::TooLong => {
            let most = TRACE_BYTES_MAX >> 20;
            let size = format!("more than {most} MiB, unpacked, is not allowed for a trace");
            format!("{shown}: {size}; allowed: at most {most} MiB")
        }
        ReadError::Swf(error) => format!("{shown}:{}: {}", error.line, error.problem),
    }
}

/// Why a file is not a trace.
#[derive(Debug)]
enum ReadError {
    Io(io::Error),
    Swf(SwfError),
    /// Its text has more bytes than are allowed.
    TooLong,
}

/// Reads a trace from a plain or packed file whose text has at most `most` bytes. The text is not kept: what
/// it takes of memory is a buffer and the trace.
fn read_from(mut file: impl Read, most: u64) -> Result<TraceFile, ReadError> {
    let mut first = Vec::new();
    file.by_ref().take(GZIP.len() as u64).read_to_end(&mut first).map_err(ReadError::Io)?;
    let is_packed = first == GZIP;
    let whole = io::BufReader::new(io::Cursor::new(first).chain(file));
    match is_packed {
        true => read_text(MultiGzDecoder::new(whole), most),
        false => read_text(whole, most),
    }
}

fn read_text(mut text: impl Read, most: u64) -> Result<TraceFile, ReadError> {
    let (mut parser, mut hash, mut bytes) = (SwfParser::default(), Sha256::new(), 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = match text.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ReadError::Io(error)),
        };
        bytes += count as u64;
        if bytes > most {
            return Err(ReadError::TooLong);
        }
        hash.update(&buffer[..count]);
        parser.read(&buffer[..count]).map_err(ReadError::Swf)?;
    }
    let trace = parser.finish().map_err(ReadError::Swf)?;
    let mut digest = String::new();
    for byte in hash.finalize() {
        // Writing to a String cannot fail.
        let _ = write!(digest, "{byte:02x}");
    }
    Ok(TraceFile { trace, digest })
}

/// Where the traces of an experiment are, and those that were read.
#[derive(Debug)]
pub struct TraceFolders {
    folders: Vec<PathBuf>,
    /// Does the experiment come with the program? Then so may its trace.
    is_shipped: bool,
    known: RefCell<BTreeMap<String, Arc<TraceFile>>>,
    /// Recorded workflows, by name and mean speed.
    workflows: RefCell<BTreeMap<(String, u64), Arc<RecordedFile>>>,
}

/// A recorded workflow that was read.
#[derive(Debug)]
pub struct RecordedFile {
    /// The workflow.
    pub workflow: Workflow,
    /// SHA-256 of the unpacked text.
    pub digest: String,
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
        let (known, workflows) = (RefCell::default(), RefCell::default());
        Self { folders, is_shipped: beside.is_none(), known, workflows }
    }

    /// The trace of this name. Every trace is read once.
    ///
    /// # Errors
    /// Says where the trace was looked for, or what is wrong with it.
    pub fn find(&self, name: &str) -> Result<Arc<TraceFile>, NoTrace> {
        if let Some(known) = self.known.borrow().get(name) {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(self.read_first(name)?);
        self.known.borrow_mut().insert(name.to_owned(), Arc::clone(&read));
        Ok(read)
    }

    /// Reads the trace of this name in the first place that has it.
    fn read_first(&self, name: &str) -> Result<TraceFile, NoTrace> {
        if let Some((_, text)) = FILES.iter().find(|(path, _)| self.is_shipped && *path == name) {
            let read = read_from(text.as_bytes(), TRACE_BYTES_MAX);
            return read.map_err(|error| NoTrace::Bad(sentence(name, &error)));
        }
        let path = self.path_of(name, "trace", TRACES_ARE)?;
        read(&path).map_err(NoTrace::Bad)
    }

    /// The recorded workflow of this name, WfFormat or DAX; seconds become work at the mean speed. Every file is read
    /// once for each speed.
    ///
    /// # Errors
    /// Says where the file was looked for, or what is wrong with it.
    pub fn find_workflow(&self, name: &str, mean_mips: u64) -> Result<Arc<RecordedFile>, NoTrace> {
        let key = (name.to_owned(), mean_mips);
        if let Some(known) = self.workflows.borrow().get(&key) {
            return Ok(Arc::clone(known));
        }
        let shipped = FILES.iter().find(|(path, _)| self.is_shipped && *path == name);
        let (shown, text) = match shipped {
            Some((_, text)) => (name.to_owned(), (*text).to_owned()),
            None => {
                let path = self.path_of(name, "recorded workflow", WORKFLOWS_ARE)?;
                let shown = path.display().to_string();
                let text = import::read(&path);
                (
                    shown.clone(),
                    text.map_err(|problem| NoTrace::Bad(format!("{shown}: {problem}")))?,
                )
            }
        };
        let workflow = import::recorded(&text, mean_mips)
            .map_err(|problem| NoTrace::Bad(format!("{shown}: {problem}")))?;
        let mut digest = String::new();
        for byte in Sha256::digest(text.as_bytes()) {
            // Writing to a String cannot fail.
            let _ = write!(digest, "{byte:02x}");
        }
        let read = Arc::new(RecordedFile { workflow, digest });
        self.workflows.borrow_mut().insert(key, Arc::clone(&read));
        Ok(read)
    }

    /// The content of a trace or recorded workflow, if there is one.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Content> {
        match FILES.iter().find(|(path, _)| self.is_shipped && *path == name) {
            Some((_, text)) => Some(Content::Text((*text).to_owned())),
            None => self.path_of(name, "trace", TRACES_ARE).ok().map(Content::At),
        }
    }

    /// The first place that has a file.
    fn path_of(&self, name: &str, what: &str, are: &str) -> Result<PathBuf, NoTrace> {
        let places = || self.folders.iter().map(|folder| included::place(folder, name));
        places().find(|path| path.exists()).ok_or_else(|| {
            let looked: Vec<String> = places().map(|path| path.display().to_string()).collect();
            let looked = match looked.is_empty() {
                true => "no folder was named".to_owned(),
                false => format!("looked for {}", looked.join(" and ")),
            };
            NoTrace::Missing(format!(
                "there is no {what} {name}: {looked}; name its folder with --traces DIR or \
                 COALLOC_TRACES; {are}"
            ))
        })
    }
}

impl NoTrace {
    /// The exit code and the problem.
    #[must_use]
    pub fn exit_and_problem(self) -> (Exit, String) {
        match self {
            Self::Missing(problem) => (Exit::NotFound, problem),
            Self::Bad(problem) => (Exit::BadInput, problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use coalloc_common::limits::{TRACE_LINE_BYTES_MAX, TRACE_NOTES_MAX};
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    const LINE: &[u8] = b"1 0 0 10 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n";

    #[test]
    fn packed_and_plain_text_are_the_same() {
        let text = LINE.repeat(100);
        let size = text.len() as u64;
        let known = read_from(&text[..], size).unwrap();
        assert_eq!(known.trace.jobs.len(), 100);
        let halves = [packed(&text[..250]), packed(&text[250..])].concat();
        for file in [text.clone(), packed(&text), halves] {
            assert_eq!(read_from(&file[..], size).unwrap(), known);
            assert!(matches!(read_from(&file[..], size - 1), Err(ReadError::TooLong)));
        }
        let one = read_from(&b"\x1f"[..], 9).unwrap_err();
        assert!(matches!(&one, ReadError::Swf(error) if error.line == 1), "{one:?}");
    }

    #[test]
    fn a_packed_trace_that_is_cut_off_or_damaged_is_refused() {
        let whole = packed(&LINE.repeat(200));
        for length in 2..whole.len() {
            let cut = read_from(&whole[..length], 10_000).unwrap_err();
            assert!(matches!(cut, ReadError::Io(_)), "{length} of {}: {cut:?}", whole.len());
        }
        let mut damaged = whole.clone();
        let last = damaged.len() - 8;
        damaged[last] ^= 1;
        let damaged = read_from(&damaged[..], 10_000).unwrap_err();
        assert!(matches!(damaged, ReadError::Io(_)), "the checksum is wrong: {damaged:?}");
    }

    /// Counts what was asked of a text without an end.
    struct Endless<'a>(std::iter::Cycle<std::slice::Iter<'a, u8>>, &'a std::cell::Cell<u64>);

    impl Read for Endless<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            into.iter_mut().zip(&mut self.0).for_each(|(to, from)| *to = *from);
            self.1.set(self.1.get() + into.len() as u64);
            Ok(into.len())
        }
    }

    /// What unpacks to more than is allowed is refused when a bound is passed: lines, notes and bytes have
    /// one each, so memory has one, too.
    #[test]
    fn a_text_that_does_not_end_is_refused_at_its_first_bound() {
        let line = TRACE_LINE_BYTES_MAX as u64;
        let notes = 8 * TRACE_NOTES_MAX as u64;
        for (text, bound, expected) in [
            (&b"1"[..], line, "a longer line"),
            (b";", line, "a longer line"),
            (b"; Note:\n", notes, "one more note"),
            (b"\n", 1 << 20, "TooLong"),
            (b"; Computer: one\n", 1 << 20, "TooLong"),
        ] {
            let count = std::cell::Cell::new(0);
            let error = read_from(Endless(text.iter().cycle(), &count), 1 << 20).unwrap_err();
            assert!(format!("{error:?}").contains(expected), "{text:?}: {error:?}");
            let slack = 2 * BUFFER_BYTES as u64;
            assert!(count.get() <= bound + slack, "{text:?}: {} bytes were read", count.get());
        }
    }
}
