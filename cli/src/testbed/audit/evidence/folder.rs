//! An auditor's folder of signed tips: a file `NAME.LEDGER.jsonl` for each ledger, with one tip a line.
//!
//! Lines are appended only, each with one write and one fsync. Every line is verified again when it is read, because a
//! file on a disk proves nothing. A line that cannot be used is reported with its number; it hides no other line.
//!
//! Left out: deleting old tips. Files may be moved elsewhere, but then they are not compared any more.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coalloc_common::limits;
use coalloc_net::convert::{time_from_wire, time_to_wire};
use coalloc_net::identity::trust::Trust;
use coalloc_net::tips::{self, VerifiedTip};
use coalloc_proto::v1;

use super::collection::{StoredAt, TipCollection};
use crate::kit::exit::{Exit, Failure};

/// How the names of the files end.
const ENDING: &str = ".jsonl";

/// A folder of signed tips.
#[derive(Debug)]
pub struct EvidenceFolder {
    path: PathBuf,
    /// Locked while this process may append; `None` for a folder that is only read.
    _lock: Option<File>,
}

impl EvidenceFolder {
    /// A folder that is only read.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), _lock: None }
    }

    /// Opens a folder for appending, or makes it. One process at a time may append: the order of the lines is the order
    /// in which the tips were fetched, so that a ledger that goes back is noticed.
    ///
    /// # Errors
    /// When the folder cannot be made, or another process has it.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|error| failed(path, &error))?;
        let lock = File::open(path).map_err(|error| failed(path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: Some(lock) }),
            Err(TryLockError::WouldBlock) => {
                let text = format!("--evidence: {}: another audit writes there", path.display());
                Err(Failure::new(Exit::Refused, text))
            }
            Err(TryLockError::Error(error)) => Err(failed(path, &error)),
        }
    }

    /// Appends a tip to the file of its ledger, durably. Returns where it is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&self, tip: v1::SignedTip, verified: &VerifiedTip) -> Result<StoredAt, Failure> {
        let statement = &verified.statement;
        // A name may have a slash; the id is 32 hexadecimal digits.
        let name = statement.name.replace(['/', ':'], "_");
        let path = self.path.join(format!("{name}.{}{ENDING}", statement.tip.ledger_id));
        let received = coalloc_net::clock::now().wall;
        let evidence = v1::Evidence { tip: Some(tip), received: Some(time_to_wire(received)) };
        let json = serde_json::to_string(&evidence);
        let json = json.map_err(|error| Failure::internal(format!("JSON: {error}")))?;
        let is_new = !path.exists();
        write_line(&path, &json).map_err(|error| failed(&path, &error))?;
        if is_new {
            let sync = File::open(&self.path).and_then(|folder| folder.sync_all());
            sync.map_err(|error| failed(&self.path, &error))?;
        }
        Ok(StoredAt { file: path.into(), line: 0, received })
    }

    /// Reads and verifies everything in the folder.
    ///
    /// # Errors
    /// When the folder or one of its files cannot be read.
    pub fn read(&self, trust: &Trust) -> Result<TipCollection, Failure> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(|error| failed(&self.path, &error))? {
            paths.push(entry.map_err(|error| failed(&self.path, &error))?.path());
        }
        paths.retain(|path| path.to_string_lossy().ends_with(ENDING));
        paths.sort_unstable();
        let mut collection = TipCollection::default();
        for path in paths {
            read_file(&path, trust, &mut collection).map_err(|error| failed(&path, &error))?;
        }
        Ok(collection)
    }
}

/// Appends a line with one write. A line that a crash has cut off is ended first, so that it spoils no other one.
fn write_line(path: &Path, json: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).read(true).open(path)?;
    let mut line = String::with_capacity(json.len() + 2);
    if file.metadata()?.len() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            line.push('\n');
        }
    }
    line.push_str(json);
    line.push('\n');
    file.write_all(line.as_bytes())?;
    file.sync_all()
}

fn read_file(path: &Path, trust: &Trust, into: &mut TipCollection) -> std::io::Result<()> {
    let path: Arc<Path> = path.into();
    let mut reader = BufReader::new(File::open(&path)?);
    let longest = limits::EVIDENCE_LINE_BYTES_MAX;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let most = longest as u64 + 1;
        if reader.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let is_whole = line.last() == Some(&b'\n');
        let parsed = if line.len() > longest && !is_whole {
            skip_line(&mut reader)?;
            Err(format!("it has more than {longest} bytes"))
        } else {
            parse(&line, trust)
        };
        match parsed {
            Ok((verified, received)) => {
                let at = StoredAt { file: Arc::clone(&path), line: number, received };
                // What the tips say together is asked for later.
                into.add(&verified, at);
            }
            Err(why) => into.add_unusable(&path, number, why),
        }
    }
    Ok(())
}

/// Passes over the rest of a line, without keeping it.
fn skip_line(reader: &mut BufReader<File>) -> std::io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = buffer.len();
        reader.consume(end.map_or(length, |end| end + 1));
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}

fn parse(line: &[u8], trust: &Trust) -> Result<(VerifiedTip, coalloc_common::Time), String> {
    let evidence: v1::Evidence = serde_json::from_slice(line.trim_ascii())
        .map_err(|error| format!("it cannot be read: {error}"))?;
    let received = evidence.received.ok_or("it does not say when it was received")?;
    let received = time_from_wire("received", &received).map_err(|error| error.to_string())?;
    let tip = evidence.tip.ok_or("it has no tip")?;
    let verified = tips::verify(&tip, trust).map_err(|error| error.to_string())?;
    Ok((verified, received))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            Failure::bad_input(format!("--evidence: {}: {error}", path.display()))
        }
        _ => Failure::internal(format!("--evidence: {}: {error}", path.display())),
    }
}
