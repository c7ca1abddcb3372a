//! Reads a trace in the Standard Workload Format (SWF) from the bytes of its text.
//!
//! A trace has header comments, `; Name: value`, and one line of 18 numbers for each job. The definition is
//! that of the Parallel Workloads Archive, <https://www.cs.huji.ac.il/labs/parallel/workload/swf.html>.
//! Unknown values are -1. All fields are whole numbers; only field 6, the CPU time, may have a fraction.
//!
//! A job keeps what the planners need: submission (field 2), wait (3), run (4), size (5, or 8 where 5 is not
//! known), CPU time (6) and the user's estimate (9). Which jobs take part is decided later
//! ([`super::workload`]), because that depends on the number of servers.
//!
//! Left out: files and gzip (`coalloc trace` and `coalloc sim` have them), users, groups, queues, memory,
//! and preceding jobs.

use thiserror::Error;

use coalloc_common::InvalidField;

use coalloc_common::limits::{
    CPUS_MAX, TRACE_JOBS_MAX, TRACE_LINE_BYTES_MAX, TRACE_NOTES_MAX, TRACE_SECONDS_MAX,
};

/// Fields of a line.
const FIELDS: usize = 18;

/// The names of the fields, as the definition of the format has them.
const NAMES: [&str; FIELDS] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "number of allocated processors",
    "average CPU time used",
    "used memory",
    "requested number of processors",
    "requested time",
    "requested memory",
    "status",
    "user ID",
    "group ID",
    "executable number",
    "queue number",
    "partition number",
    "preceding job number",
    "think time from preceding job",
];

/// A trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwfTrace {
    /// The header comments that are kept.
    pub header: SwfHeader,
    /// The jobs, by submission; jobs of one instant in the order of the file.
    pub jobs: Vec<SwfJob>,
}

/// The header comments that are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwfHeader {
    /// `MaxProcs`: processors of the machine.
    pub max_procs: Option<u64>,
    /// `MaxNodes`: nodes of the machine.
    pub max_nodes: Option<u64>,
    /// `UnixStartTime`: the instant of submission time 0, in seconds since 1970.
    pub unix_start_time: Option<i64>,
    /// `Computer`: brand and model.
    pub computer: Option<String>,
    /// Each `Note`.
    pub notes: Vec<String>,
}

impl SwfHeader {
    /// The number of servers that the header states: `MaxProcs`, else `MaxNodes`.
    #[must_use]
    pub fn servers(&self) -> Option<u64> {
        self.max_procs.or(self.max_nodes)
    }

    fn comment(&mut self, text: &str) {
        let Some((name, value)) = text.split_once(':') else { return };
        let value = value.trim();
        // `338 (batch partition; 512 total)`: the number comes first.
        let number = value.split_whitespace().next().unwrap_or_default();
        let servers = || number.parse().ok().filter(|count| (1..=CPUS_MAX).contains(count));
        match name.trim() {
            "MaxProcs" => self.max_procs = servers(),
            "MaxNodes" => self.max_nodes = servers(),
            "UnixStartTime" => self.unix_start_time = number.parse().ok(),
            "Computer" => self.computer = Some(value.to_owned()),
            "Note" => self.notes.push(value.to_owned()),
            _ => {}
        }
    }
}

/// One job of a trace. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwfJob {
    /// Submission, since the start of the trace (field 2).
    pub submitted: i64,
    /// Wait in the log; -1 where the trace does not state it (field 3).
    pub wait: i64,
    /// Run time; 0 or less where the job did not run (field 4).
    pub run: i64,
    /// Processors: field 5 if it is greater than 0, else field 8. It may be 0 or less.
    pub servers: i64,
    /// Average CPU time of a processor, in milliseconds; negative where it is not known (field 6).
    pub cpu_ms: i64,
    /// The user's estimate of the run time: field 9, and at least the run time.
    pub estimate: i64,
}

/// Why a text is not a trace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct SwfError {
    /// The number of the line, from 1.
    pub line: usize,
    /// The field, its value and what is allowed.
    pub problem: InvalidField,
}

/// Reads a trace from the whole of its text.
///
/// # Errors
/// The first line that is not allowed, or a trace without any line of a job or with too many.
pub fn parse(bytes: &[u8]) -> Result<SwfTrace, SwfError> {
    let mut parser = SwfParser::default();
    parser.read(bytes)?;
    parser.finish()
}

/// Reads a trace from its text, which comes in parts. It keeps the jobs, and at most one line of the text.
#[derive(Debug, Default)]
pub struct SwfParser {
    trace: SwfTrace,
    /// How many lines have ended.
    lines: usize,
    /// The beginning of the line that has not ended.
    rest: Vec<u8>,
}

impl SwfParser {
    /// Reads the next part of the text. After an error there is nothing more to read.
    ///
    /// # Errors
    /// The first line that is not allowed.
    pub fn read(&mut self, mut part: &[u8]) -> Result<(), SwfError> {
        while let Some(end) = part.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&part[..end], &part[end + 1..]);
            if self.rest.is_empty() {
                self.line(line)?;
            } else {
                self.keep(line)?;
                let whole = std::mem::take(&mut self.rest);
                self.line(&whole)?;
            }
            part = after;
        }
        self.keep(part)
    }

    /// The trace, when all of its text was read.
    ///
    /// # Errors
    /// When the last line is not allowed, or no line has a job.
    pub fn finish(mut self) -> Result<SwfTrace, SwfError> {
        let last = std::mem::take(&mut self.rest);
        self.line(&last)?;
        if self.trace.jobs.is_empty() {
            let problem = InvalidField::missing("jobs", "a line of 18 numbers for each job");
            return Err(SwfError { line: self.lines, problem });
        }
        self.trace.jobs.sort_by_key(|job| job.submitted);
        Ok(self.trace)
    }

    /// Keeps a part of the line that has not ended.
    fn keep(&mut self, part: &[u8]) -> Result<(), SwfError> {
        self.check_length(self.rest.len() + part.len())?;
        self.rest.extend_from_slice(part);
        Ok(())
    }

    /// Reads a line.
    fn line(&mut self, line: &[u8]) -> Result<(), SwfError> {
        self.check_length(line.len())?;
        self.lines += 1;
        let line = line.trim_ascii();
        let too_many = |field, one_more, most| {
            let problem = InvalidField::new(field, one_more, format!("at most {most} {field}"));
            SwfError { line: self.lines, problem }
        };
        match line.first() {
            None => {}
            Some(b';') => {
                self.trace.header.comment(&String::from_utf8_lossy(&line[1..]));
                if self.trace.header.notes.len() > TRACE_NOTES_MAX {
                    return Err(too_many("notes", "one more note", TRACE_NOTES_MAX));
                }
            }
            Some(_) => {
                if self.trace.jobs.len() == TRACE_JOBS_MAX {
                    return Err(too_many("jobs", "one more job", TRACE_JOBS_MAX));
                }
                let job = job(line).map_err(|problem| SwfError { line: self.lines, problem })?;
                self.trace.jobs.push(job);
            }
        }
        Ok(())
    }

    fn check_length(&self, length: usize) -> Result<(), SwfError> {
        if length <= TRACE_LINE_BYTES_MAX {
            return Ok(());
        }
        let allowed = format!("at most {TRACE_LINE_BYTES_MAX} bytes");
        let problem = InvalidField::new("line", "a longer line", allowed);
        Err(SwfError { line: self.lines + 1, problem })
    }
}

/// Reads the line of a job.
fn job(line: &[u8]) -> Result<SwfJob, InvalidField> {
    let mut milli = [0_i64; FIELDS];
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for (at, value) in milli.iter_mut().enumerate() {
        let Some(word) = words.next() else {
            let (next, name) = (at + 1, NAMES[at]);
            let allowed = format!("{FIELDS} fields; field {next} ({name}) is missing");
            return Err(InvalidField::new("line", format!("{at} fields"), allowed));
        };
        let milli = milli_of(word, at == 5);
        *value = milli.ok_or_else(|| {
            let kind = if at == 5 { "a number" } else { "a whole number" };
            let text = InvalidField::quoted(&String::from_utf8_lossy(word));
            InvalidField::new(field(at), text, format!("{kind}, -1 if it is not known"))
        })?;
    }
    if words.next().is_some() {
        let found = format!("more than {FIELDS} fields");
        return Err(InvalidField::new("line", found, format!("{FIELDS} fields")));
    }
    let whole = |at: usize| milli[at] / 1_000;
    let within = |at: usize, least: i64, most: i64, unit: &str| {
        let value = whole(at);
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        Err(InvalidField::new(field(at), value, format!("{least} to {most}{unit}")))
    };
    let most_servers = i64::try_from(CPUS_MAX).unwrap_or(i64::MAX);
    let submitted = within(1, 0, TRACE_SECONDS_MAX, " seconds")?;
    let wait = within(2, -1, TRACE_SECONDS_MAX, " seconds")?;
    let run = within(3, -1, TRACE_SECONDS_MAX, " seconds")?;
    let allocated = within(4, -1, most_servers, "")?;
    let requested = within(7, -1, most_servers, "")?;
    let estimate = within(8, -1, TRACE_SECONDS_MAX, " seconds")?;
    Ok(SwfJob {
        submitted,
        wait,
        run,
        servers: if allocated > 0 { allocated } else { requested },
        cpu_ms: milli[5],
        estimate: estimate.max(run),
    })
}

fn field(at: usize) -> String {
    format!("field {} ({})", at + 1, NAMES[at])
}

/// A decimal number in thousandths, without further digits. `None` when it is not a number, is too large, or
/// has a fraction where none is allowed.
fn milli_of(word: &[u8], may_have_fraction: bool) -> Option<i64> {
    let (negative, digits) = match word {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, word),
    };
    let mut number = 0_i64;
    let mut decimals: Option<u32> = None;
    let mut is_empty = true;
    for byte in digits {
        match (byte, decimals) {
            (b'0'..=b'9', None) => {
                number = number.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
            }
            (b'0'..=b'9', Some(3..)) => {}
            (b'0'..=b'9', Some(count)) => {
                number = number.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
                decimals = Some(count + 1);
            }
            (b'.', None) if may_have_fraction => decimals = Some(0),
            _ => return None,
        }
        is_empty &= *byte == b'.';
    }
    if is_empty {
        return None;
    }
    let number = number.checked_mul(10_i64.pow(3 - decimals.unwrap_or(0)))?;
    Some(if negative { -number } else { number })
}
