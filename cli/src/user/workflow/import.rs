//! `coalloc workflow import`: workflows that others have written down, as workflow files of ours.
//!
//! Two formats are read, plain or packed with gzip: WfFormat 1.5 of WfCommons ([`wfformat`]) and DAX 2 and 3 of
//! Pegasus ([`dax`]). Both are recorded runs: tasks with their run times, and the files that they read and
//! write. Here they become an [`ImportedWorkflow`], and from it a `Workflow`.
//!
//! Readings: a run time is a duration at every site, or work at a mean speed (`--mean-mips`). The speeds in the
//! files are not used, because they are noise: one type of machine has 1,200 to 3,033 MHz there. Files that no
//! task writes lie at the site of `--data-at`, or are left out. What is left out or rounded is said on standard
//! error. Left out: memory, energy, programs and their arguments.

mod dax;
mod wfformat;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use coalloc_common::limits::{self, NAME_LEN_MAX, WORKFLOW_FILE_BYTES_MAX};
use coalloc_common::workflow::Workflow;
use coalloc_common::{Span, Time};
use coalloc_net::convert::{span_to_wire, workflow_from_wire};
use coalloc_proto::v1;
use flate2::read::MultiGzDecoder;

use crate::kit::exit::{Answer, Failure};
use crate::kit::text;

/// Turn a recorded workflow into a workflow file
///
/// Reads WfFormat 1.5 (WfCommons, JSON) and DAX 2 or 3 (Pegasus, XML), also packed with gzip, and prints a Workflow.
#[derive(Debug, Clone, Args)]
pub(super) struct ImportArgs {
    /// The recorded workflow; its format is seen from its content
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// CPUs of a task for which the file states none
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=limits::CPUS_MAX))]
    cpus: u64,
    /// Run times were measured at this speed: they become work, which faster sites do sooner. Without it a task takes
    /// equally long everywhere
    #[arg(long, value_name = "MIPS", value_parser = clap::value_parser!(u64).range(1..=limits::MIPS_MAX))]
    mean_mips: Option<u64>,
    /// The site at which files lie that no task writes. Without it they are left out
    #[arg(long, value_name = "SITE")]
    data_at: Option<String>,
    /// The format, if the content does not show it
    #[arg(long, value_name = "FORMAT")]
    format: Option<RecordedFormat>,
}

/// A format of recorded workflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RecordedFormat {
    /// WfFormat 1.5 of WfCommons
    Wfformat,
    /// DAX 2 or 3 of Pegasus
    Dax,
}

/// A task of a recorded workflow.
#[derive(Debug, Clone, PartialEq)]
struct ImportedTask {
    /// Its name there, any text.
    name: String,
    /// Its run time in seconds, finite and not negative.
    seconds: f64,
    /// Its CPUs, if the file states them.
    cpus: Option<u64>,
}

/// A file of a recorded workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ImportedFile {
    bytes: u64,
    /// The tasks that write it.
    writers: Vec<usize>,
    /// The tasks that read it.
    readers: Vec<usize>,
}

/// A recorded workflow, whatever its format.
#[derive(Debug, Clone, Default, PartialEq)]
struct ImportedWorkflow {
    tasks: Vec<ImportedTask>,
    /// By name.
    files: BTreeMap<String, ImportedFile>,
    /// Pairs of tasks of which the second starts after the first has ended.
    orders: BTreeSet<(usize, usize)>,
    /// What a reader should know.
    notes: Vec<String>,
}

/// Runs `coalloc workflow import`.
pub(super) fn run(args: &ImportArgs) -> Result<Answer, Failure> {
    let failed =
        |problem: String| Failure::bad_input(format!("{}: {problem}", args.path.display()));
    let content = read(&args.path).map_err(failed)?;
    let imported = parse(&content, args.format).map_err(failed)?;
    let (workflow, notes) = to_wire(&imported, args);
    // What is printed is a workflow file that can be planned. A site is looked up when there is a federation.
    workflow_from_wire(None, &workflow, Time::from_us(0))
        .map_err(|error| failed(error.to_string()))?;
    for one in notes {
        text::note(&one);
    }
    Ok(Answer::done(text::json(&workflow)?))
}

/// Reads a text in its format, or in the one that its content shows.
fn parse(content: &str, format: Option<RecordedFormat>) -> Result<ImportedWorkflow, String> {
    let is_xml = content.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with('<');
    let seen = if is_xml { RecordedFormat::Dax } else { RecordedFormat::Wfformat };
    match format.unwrap_or(seen) {
        RecordedFormat::Wfformat => wfformat::read(content),
        RecordedFormat::Dax => dax::read(content),
    }
}

/// A recorded workflow for experiments: run times are work at the mean speed, and files that no task writes are
/// left out.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn recorded(content: &str, mean_mips: u64) -> Result<Workflow, String> {
    let args = ImportArgs {
        path: PathBuf::new(),
        cpus: 1,
        mean_mips: Some(mean_mips),
        data_at: None,
        format: None,
    };
    let (workflow, _) = to_wire(&parse(content, None)?, &args);
    let parsed = workflow_from_wire(None, &workflow, Time::from_us(0));
    parsed.map(|parsed| parsed.workflow).map_err(|error| error.to_string())
}

/// The text of a plain or packed file.
///
/// # Errors
/// The file cannot be read, or is too large.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let open = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = File::open(path)?;
        file.by_ref().take(WORKFLOW_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut unpacked = Vec::new();
            MultiGzDecoder::new(&bytes[..])
                .take(WORKFLOW_FILE_BYTES_MAX + 1)
                .read_to_end(&mut unpacked)?;
            bytes = unpacked;
        }
        Ok(bytes)
    };
    let bytes = open().map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("is cut off: {error}"),
        _ => error.to_string(),
    })?;
    let most = WORKFLOW_FILE_BYTES_MAX;
    if bytes.len() as u64 > most {
        let mib = most >> 20;
        return Err(format!(
            "more than {mib} MiB, unpacked, is not allowed for a workflow; allowed: at most {mib} MiB"
        ));
    }
    String::from_utf8(bytes).map_err(|error| format!("is not UTF-8: {error}"))
}

/// A workflow of our schema, and what was left out or rounded.
fn to_wire(imported: &ImportedWorkflow, args: &ImportArgs) -> (v1::Workflow, Vec<String>) {
    let mut notes = imported.notes.clone();
    let mut names = Names::default();
    let mut short = 0;
    let activities: Vec<v1::WorkflowActivity> = imported
        .tasks
        .iter()
        .map(|task| {
            short += usize::from(task.seconds < 1.0);
            activity(task, names.of(&task.name), args)
        })
        .collect();
    if short > 0 {
        notes.push(format!("{} shorter than 1 s: 1 s each", text::count(short, "task")));
    }
    let name = |task: usize| activities[task].name.clone();
    let mut data = Vec::new();
    let mut names = Names::default();
    let mut ordered: BTreeSet<(usize, usize)> = BTreeSet::new();
    let (mut initial, mut several, mut unread) = (0, 0, 0);
    for (file, ImportedFile { bytes, writers, readers }) in &imported.files {
        let writer = writers.first().copied();
        several += usize::from(writers.len() > 1);
        // A task that changes a file in place does not wait for itself.
        let to: Vec<usize> = readers.iter().copied().filter(|one| Some(*one) != writer).collect();
        unread += usize::from(to.is_empty());
        initial += usize::from(writer.is_none() && !to.is_empty());
        let from_site = args.data_at.clone().filter(|_| writer.is_none());
        if to.is_empty() || (writer.is_none() && from_site.is_none()) {
            continue;
        }
        ordered
            .extend(writer.into_iter().flat_map(|writer| to.iter().map(move |to| (writer, *to))));
        data.push(v1::WorkflowData {
            name: names.of(file),
            bytes: *bytes,
            from: writer.map(name).unwrap_or_default(),
            from_site: from_site.unwrap_or_default(),
            to: to.into_iter().map(name).collect(),
            rate_bps: None,
        });
    }
    // Orders that no file brings about: one item without bytes for each task that others wait for.
    let mut waiting: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (before, after) in imported.orders.difference(&ordered) {
        waiting.entry(*before).or_default().push(name(*after));
    }
    data.extend(waiting.into_iter().map(|(before, to)| v1::WorkflowData {
        name: names.of(&format!("{}:end", name(before))),
        from: name(before),
        to,
        ..v1::WorkflowData::default()
    }));
    if initial > 0 && args.data_at.is_none() {
        let files = text::count(initial, "file");
        notes.push(format!("{files} that no task writes left out; --data-at SITE keeps them"));
    }
    if several > 0 {
        let files = text::count(several, "file");
        notes.push(format!("{files} written by several tasks: readers wait for the first one"));
    }
    if unread > 0 {
        let files = text::count(unread, "file");
        notes.push(format!("{files} that no other task reads left out"));
    }
    (v1::Workflow { activities, data, ..v1::Workflow::default() }, notes)
}

fn activity(task: &ImportedTask, name: String, args: &ImportArgs) -> v1::WorkflowActivity {
    // Run times are recorded with milliseconds at most; the longest activity has far fewer microseconds than 2^53.
    let longest = limits::DURATION_MAX.as_us() as f64;
    let us = (task.seconds * 1e6).ceil().clamp(1e6, longest + 1e6);
    let load = args.mean_mips.map(|mips| {
        let work = (us / 1e6 * mips as f64).ceil();
        // A float becomes the nearest integer in range.
        (work as u64).max(1)
    });
    let duration = load.is_none().then(|| span_to_wire(Span::from_us(us as i64)));
    v1::WorkflowActivity {
        name,
        load_mi: load,
        duration,
        cpus: Some(task.cpus.unwrap_or(args.cpus)),
        ..v1::WorkflowActivity::default()
    }
}

/// Names of ours for names of theirs.
#[derive(Debug, Default)]
struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// A name that is spelled as ours are and that was not given before.
    fn of(&mut self, theirs: &str) -> String {
        let allowed = |letter: char| match letter {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '_' | '-' | ':' | '/' => letter,
            _ => '_',
        };
        let spelled: String = theirs.chars().map(allowed).collect();
        let begin = spelled.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let begin = if begin.is_empty() { "unnamed" } else { begin };
        // Room for a number, which makes equal names different.
        let begin: String = begin.chars().take(NAME_LEN_MAX - 12).collect();
        let numbered = (2_u64..).map(|number| format!("{begin}_{number}"));
        let free = std::iter::once(begin.clone()).chain(numbered);
        let name = free.into_iter().find(|name| !self.taken.contains(name)).unwrap_or(begin);
        self.taken.insert(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> ImportArgs {
        let (path, format) = (PathBuf::new(), None);
        ImportArgs { path, cpus: 1, mean_mips: None, data_at: None, format }
    }

    #[test]
    fn names_are_spelled_as_ours_and_differ() {
        let mut names = Names::default();
        let long = "x".repeat(500);
        let given = ["a b", "a_b", "(1)", "", &long, &long].map(|name| names.of(name));
        assert_eq!(given[..4], ["a_b", "a_b_2", "1_", "unnamed"]);
        assert!(given[4..].iter().all(|name| name.len() <= NAME_LEN_MAX) && given[4] != given[5]);
    }

    #[test]
    fn files_become_data_and_orders_without_files_become_items_without_bytes() {
        let task =
            |name: &str, seconds| ImportedTask { name: name.to_owned(), seconds, cpus: None };
        let file = |bytes, writers: &[usize], readers: &[usize]| ImportedFile {
            bytes,
            writers: writers.to_vec(),
            readers: readers.to_vec(),
        };
        let imported = ImportedWorkflow {
            tasks: vec![task("a", 0.25), task("b", 2.5), task("c", 3.0)],
            files: BTreeMap::from([
                ("raw".to_owned(), file(7, &[], &[0])),
                ("image".to_owned(), file(9, &[0], &[0, 1])),
                ("log".to_owned(), file(1, &[2], &[])),
            ]),
            orders: BTreeSet::from([(0, 1), (0, 2)]),
            notes: Vec::new(),
        };
        let (workflow, notes) = to_wire(&imported, &args());
        assert_eq!(notes.len(), 3, "{notes:?}");
        let shown = |item: &v1::WorkflowData| {
            (item.name.clone(), item.bytes, item.from.clone(), item.to.clone())
        };
        let data: Vec<_> = workflow.data.iter().map(shown).collect();
        let item = |name: &str, bytes, to: &str| {
            (name.to_owned(), bytes, "a".to_owned(), vec![to.to_owned()])
        };
        assert_eq!(data, [item("image", 9, "b"), item("a:end", 0, "c")]);
        let seconds = |at: usize| workflow.activities[at].duration.map(|duration| duration.seconds);
        assert_eq!([seconds(0), seconds(1)], [Some(1), Some(2)], "and half a second");
        let args = ImportArgs { mean_mips: Some(100), data_at: Some("N0".to_owned()), ..args() };
        let (workflow, notes) = to_wire(&imported, &args);
        assert_eq!((workflow.activities[1].load_mi, notes.len()), (Some(250), 2));
        assert_eq!(workflow.data.iter().filter(|item| item.from_site == "N0").count(), 1);
    }
}
