//! Archives: the oldest records of a ledger, moved out of its file once a snapshot has made them dispensable.
//!
//! An archive is a file of the ledger's own format. It has a stretch of the records and their causers, and its position `begin`
//! says where its chain goes on. Archives are in the folder `<ledger>.archive`, named by their first and last record, and
//! never change. They may be moved away: no node reads them. Those that are there let `coalloc ledger verify` prove the
//! chain from the first record on.
//!
//! A thread of its own copies the records through a connection that only reads, and checks them against the chain
//! on the way. Only when the archive is complete, durable and in its place does the ledger begin to delete the
//! records, a few at each append.
//!
//! Left out: deleting old archives, which is the operator's decision.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, params};

use crate::body::StoredRecord;
use crate::chain::{Chain, Hash};
use crate::create;
use crate::error::{LedgerError, chain_text, sqlite};
use crate::identity::FORMAT_VERSION;
use crate::inspect::{self, LedgerSummary};
use crate::lock::beside;
use crate::look::{self, io};
use crate::rows;
use crate::snapshot::{Positions, put_position};

/// Records that are copied in one transaction, so that the reader never keeps a snapshot of SQLite open for long.
const CHUNK: u64 = 1_000;

/// One archive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Archive {
    /// Its first record, and its last.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The first digits of the hash of its last record. A ledger that was restored has another past, and may have archives
    /// of both.
    mark: String,
    pub(crate) path: PathBuf,
}

/// The folder of a ledger's archives.
pub(crate) fn folder(ledger: &Path) -> PathBuf {
    beside(ledger, ".archive")
}

/// All archives of a ledger, in order.
pub(crate) fn list(ledger: &Path) -> Result<Vec<Archive>, LedgerError> {
    let folder = folder(ledger);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io(&folder, "reading"))?,
    };
    let mut archives = Vec::new();
    for entry in entries {
        let path = entry.map_err(io(&folder, "reading"))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut parts = name.split('-');
        let mut number = || parts.next().and_then(|number| number.parse::<u64>().ok());
        if let (Some(first), Some(last)) = (number(), number())
            && let Some(mark) = parts.next().map(str::to_owned)
        {
            archives.push(Archive { first, last, mark, path });
        }
    }
    archives.sort();
    Ok(archives)
}

/// The archives of a ledger from which its chain can be followed without a gap up to where its file begins, in order.
/// `begin` is the end of the records that are not in the file, and `hash` tells those of the others.
pub(crate) fn reaching(
    ledger: &Path,
    begin: &Chain,
    hash: impl Fn(u64) -> Option<Hash>,
) -> Result<Vec<Archive>, LedgerError> {
    let (archives, mut reaching) = (list(ledger)?, Vec::new());
    // While records are being deleted, the last archive has more of them than the ledger lacks.
    let covers = |archive: &&Archive| {
        let end = if archive.last == begin.last { Some(begin.tip) } else { hash(archive.last) };
        (archive.first..=archive.last).contains(&begin.last) && archive.is_ended_by(end)
    };
    let mut next = archives.iter().find(covers);
    while let Some(archive) = next {
        let before = archive.begin()?;
        reaching.push(archive.clone());
        next = archives
            .iter()
            .find(|archive| archive.last == before.last && archive.is_ended_by(Some(before.tip)));
    }
    reaching.reverse();
    Ok(reaching)
}

impl Archive {
    /// Is its last record the one with this hash?
    fn is_ended_by(&self, hash: Option<Hash>) -> bool {
        hash.is_some_and(|hash| mark(&hash) == self.mark)
    }

    /// Where its chain goes on.
    pub(crate) fn begin(&self) -> Result<Chain, LedgerError> {
        let about = inspect::about(&self.path)?;
        let source = look::LedgerSource::of(&self.path)?;
        let read = || Positions::read(&source.connect()?, about.format, &about.id);
        Ok(read().map_err(sqlite(&self.path, "reading"))?.begin)
    }
}

fn mark(hash: &Hash) -> String {
    crate::tip::hex(&hash[..4])
}

/// Makes archives of one ledger, one at a time.
#[derive(Debug)]
pub(crate) struct Archiver {
    ledger: PathBuf,
    about: LedgerSummary,
    working: Option<JoinHandle<Result<u64, LedgerError>>>,
    /// The last record that is in an archive.
    archived: u64,
}

impl Archiver {
    /// The archiver of a ledger whose file begins after this record. If an archive was made already whose records are
    /// not all deleted, it counts. `hash` tells the hashes of the records that are in the file.
    pub(crate) fn new(
        ledger: &Path,
        about: &LedgerSummary,
        begin: u64,
        hash: impl Fn(u64) -> Option<Hash>,
    ) -> Result<Self, LedgerError> {
        let next = |archive: &Archive| {
            let covers = (archive.first..=archive.last).contains(&(begin + 1));
            covers && archive.is_ended_by(hash(archive.last))
        };
        let archived = list(ledger)?.into_iter().find(next).map_or(begin, |archive| archive.last);
        Ok(Self { ledger: ledger.to_owned(), about: about.clone(), working: None, archived })
    }

    /// The last record that is in an archive. Asks the thread whether it is ready.
    pub(crate) fn archived(&mut self) -> u64 {
        if let Some(thread) = self.working.take_if(|thread| thread.is_finished()) {
            match thread.join() {
                Ok(Ok(last)) => self.archived = last,
                // Nothing is lost: the records stay where they are, and the next snapshot tries again.
                Ok(Err(error)) => {
                    tracing::warn!(error = chain_text(&error), "the records were not archived");
                }
                Err(_) => tracing::error!("the thread that archives records has panicked"),
            }
        }
        self.archived
    }

    /// Begins an archive of the records after `begin` up to `last`, unless one is being made.
    pub(crate) fn begin(&mut self, begin: Chain, last: u64) {
        if self.working.is_some() {
            return;
        }
        let (ledger, about) = (self.ledger.clone(), self.about.clone());
        let work = move || make(&ledger, &about, begin, last).map(|()| last);
        match thread::Builder::new().name("archive".to_owned()).spawn(work) {
            Ok(thread) => self.working = Some(thread),
            Err(error) => tracing::warn!(%error, "no thread to archive records"),
        }
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        // An archive that is broken off is only a draft, but whoever closes a ledger may remove its folder.
        if let Some(thread) = self.working.take() {
            drop(thread.join());
        }
    }
}

/// Makes an archive of the records after `begin` up to `last`.
fn make(ledger: &Path, about: &LedgerSummary, begin: Chain, last: u64) -> Result<(), LedgerError> {
    let folder = folder(ledger);
    fs::create_dir_all(&folder).map_err(io(&folder, "making"))?;
    let draft = folder.join("new");
    for remains in [draft.clone(), beside(&draft, "-journal")] {
        match fs::remove_file(&remains) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io(&remains, "removing")(error));
            }
            _ => {}
        }
    }
    let mut to = create::archive(&draft, about).map_err(sqlite(&draft, "creating"))?;
    put_position(&to, "begin", begin, None).map_err(sqlite(&draft, "writing to"))?;
    let source = look::LedgerSource::Shared(ledger.to_owned());
    let from = source.connect().map_err(sqlite(ledger, "reading"))?;
    let mut chain = begin;
    while chain.last < last {
        let until = last.min(chain.last + CHUNK);
        chain = copy(ledger, &from, &mut to, chain, until)?;
    }
    to.close().map_err(|(_, error)| sqlite(&draft, "writing to")(error))?;
    let path = folder.join(format!("{:012}-{last:012}-{}", begin.last + 1, mark(&chain.tip)));
    create::place(&draft, &path).map_err(io(&path, "making"))?;
    tracing::info!(path = %path.display(), records = last - begin.last, "records were archived");
    Ok(())
}

/// Copies the records after `chain` up to `until`, and checks them. Returns the end of the chain.
fn copy(
    ledger: &Path,
    from: &Connection,
    to: &mut Connection,
    mut chain: Chain,
    until: u64,
) -> Result<Chain, LedgerError> {
    let reading = sqlite(ledger, "archiving");
    let select = format!(
        "{} WHERE sequence > ?1 AND sequence <= ?2 ORDER BY sequence",
        rows::select(FORMAT_VERSION)
    );
    let transaction = to.transaction().map_err(&reading)?;
    {
        let mut select = from.prepare_cached(&select).map_err(&reading)?;
        let mut insert = transaction.prepare_cached(rows::INSERT).map_err(&reading)?;
        let mut causers = rows::Causers::default();
        // `as` is exact: nobody writes 2^63 records.
        let mut rows = select.query([chain.last as i64, until as i64]).map_err(&reading)?;
        while let Some(row) = rows.next().map_err(&reading)? {
            let expected = chain.last + 1;
            let broken = |why: String| {
                let path = ledger.to_owned();
                LedgerError::ChainBroken { path, sequence: expected, why }
            };
            let sequence: i64 = row.get(0).map_err(&reading)?;
            let hash: Vec<u8> = row.get(2).map_err(&reading)?;
            let body = rows::body(row).map_err(&reading)?.map_err(|why| broken(why.to_owned()))?;
            chain.verify(sequence, body, &hash).map_err(broken)?;
            let causer = body.causer.map(|causer| causers.number(&transaction, causer.to_vec()));
            let causer = causer.transpose().map_err(&reading)?;
            match body.record {
                StoredRecord::Json(text) => insert.execute(params![sequence, text, hash, causer]),
                StoredRecord::Packed(bytes) => {
                    insert.execute(params![sequence, bytes, hash, causer])
                }
            }
            .map_err(&reading)?;
        }
    }
    transaction.commit().map_err(&reading)?;
    if chain.last != until {
        let (path, sequence) = (ledger.to_owned(), chain.last + 1);
        return Err(LedgerError::ChainBroken { path, sequence, why: "it is missing".to_owned() });
    }
    Ok(chain)
}
