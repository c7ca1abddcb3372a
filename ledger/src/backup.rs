//! Copies a ledger while its node runs, and puts a copy back.
//!
//! A backup is one file, complete and checked: SQLite copies the records of one moment, whatever the node writes
//! meanwhile, and every record of the copy is checked against the chain before the copy gets its name. The tip is not
//! copied, because it belongs to the place and not to the file ([`crate::tip`]).
//!
//! Whoever restores a backup says that what was recorded later is lost. So the ledger gets another identity, unless
//! a sound ledger at the place shows that nothing is missing. The tip alone cannot show it, because it is behind after a
//! power cut. What was at the place before is moved aside, never deleted.
//!
//! Left out: when to make backups and how many to keep, and copying them to another machine.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tempfile::TempDir;

use crate::create::place;
use crate::error::{LedgerError, sqlite};
use crate::inspect;
use crate::lock::{Lock, beside};
use crate::look::{self, LedgerSource, SoundLedger, io};
use crate::tip::{self, Tip, TipState};

/// What SQLite keeps beside a ledger: nothing of it may stay when another file takes the ledger's place.
const LOGS: [&str; 2] = ["-wal", "-shm"];

/// A ledger that was restored.
#[derive(Debug, Clone)]
pub struct RestoredLedger {
    /// The ledger as it is from now on.
    pub ledger: SoundLedger,
    /// The records that were known to be at the place and are lost; `None` when nobody knows how many.
    pub lost: Option<u64>,
    /// Where the file that was at the place is now.
    pub moved_to: Option<PathBuf>,
}

/// Copies the ledger at `path`, as it is now, to the new file `to`. Returns what the copy has.
///
/// # Errors
/// [`LedgerError`] when `to` exists, the ledger is damaged, or the copy cannot be written.
pub fn back_up(path: &Path, to: &Path) -> Result<SoundLedger, LedgerError> {
    check_free(to)?;
    let draft = Draft::copy(path, to)?;
    check_free(to)?;
    place(&draft.path(), to).map_err(io(to, "writing"))?;
    Ok(draft.ledger)
}

/// Puts a backup at the place of its node's ledger. `tag` is eight random hexadecimal digits, with which the new
/// identity begins. The node must be stopped.
///
/// # Errors
/// [`LedgerError`] when a node has the place open, when the backup is damaged or another node's, or when a ledger that
/// was moved aside before is still there. Then nothing was changed. If the disk fails while files are moved, they are
/// either at their place or moved aside.
pub fn restore(backup: &Path, to: &Path, tag: &str) -> Result<RestoredLedger, LedgerError> {
    let to = &to.canonicalize().unwrap_or_else(|_| to.to_owned());
    // What is there is looked at before the lock is taken: whoever holds it counts as a running node.
    let there = look::look(to, |_, _, _| Ok(())).ok();
    let _lock = Lock::take(to)?;
    let aside = beside(to, ".replaced");
    for ending in ["", LOGS[0], LOGS[1]] {
        check_free(&beside(&aside, ending))?;
    }
    let draft = Draft::copy(backup, to)?;
    let found = &draft.ledger;
    // Another node's ledger at this place is a mistake in a path. A damaged one says nothing.
    if let Ok(there) = look::summary(to)
        && there.node != found.about.node
    {
        let (path, found) = (backup.to_owned(), found.about.node.clone());
        return Err(LedgerError::ForeignNode { path, found, expected: there.node });
    }
    let remembered = crate::sqlite::remembered(to)?;
    // The same records under another identity are a ledger that was restored before.
    let is_last = matches!(remembered, TipState::Tip(_))
        && there.as_ref().is_some_and(|there| {
            there.tip == found.tip && there.about.identity() == found.about.identity()
        });
    let lost = match is_last {
        true => Some(0),
        false => lost(&found.tip, there.map(|there| there.tip), remembered),
    };
    if !is_last {
        draft.tag(tag)?;
    }
    let moved_to = to.exists().then(|| aside.clone());
    // The log first: a file without its log is an older one, and a log without its file is applied to whatever comes.
    for ending in [LOGS[0], LOGS[1], ""] {
        let file = beside(to, ending);
        if file.exists() {
            fs::rename(&file, beside(&aside, ending)).map_err(io(&file, "moving"))?;
        }
    }
    // From here on the node has its new identity, however this ends.
    place(&draft.path(), to).map_err(io(to, "writing"))?;
    tip::accept(to, &found.tip).map_err(io(&beside(to, ".tip"), "writing"))?;
    let ledger = look::look(to, |_, _, _| Ok(()))?;
    Ok(RestoredLedger { ledger: SoundLedger { live: false, ..ledger }, lost, moved_to })
}

/// How many records a backup lacks of those that are known to have been written at a place: by the ledger that is there,
/// or by its tip file. There may have been more.
fn lost(backup: &Tip, there: Option<Tip>, remembered: TipState) -> Option<u64> {
    let remembered = match remembered {
        TipState::Tip(tip) => Some(tip),
        TipState::Nothing | TipState::Unreadable => None,
    };
    let known = [there, remembered].into_iter().flatten();
    let last = known.filter(|tip| tip.ledger_id == backup.ledger_id).map(|tip| tip.sequence).max();
    last?.checked_sub(backup.sequence).filter(|lost| *lost > 0)
}

/// A copy of a ledger in a folder of its own beside the place where it will be. The folder goes when this is dropped.
struct Draft {
    folder: TempDir,
    /// What the copy has; each of its records was checked.
    ledger: SoundLedger,
}

impl Draft {
    /// Copies what a ledger has at one moment.
    fn copy(path: &Path, to: &Path) -> Result<Self, LedgerError> {
        fs::metadata(path).map_err(io(path, "opening"))?;
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
        inspect::header(path)?;
        let parent = to.parent().filter(|folder| !folder.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let folder = tempfile::Builder::new().prefix(".coalloc-copy-").tempdir_in(parent);
        let folder = folder.map_err(io(parent, "making a folder in"))?;
        let draft = folder.path().join(DRAFT);
        let connection = LedgerSource::of(path)?.connect().map_err(sqlite(path, "opening"))?;
        // The copy is written through this connection. The ledger itself is open for reading only.
        let text = draft.to_string_lossy();
        let copied = connection
            .pragma_update(None, "query_only", false)
            .and_then(|()| connection.execute("VACUUM INTO ?1", [&text]));
        copied.map_err(sqlite(path, "copying"))?;
        let ledger = look::look(&draft, |_, _, _| Ok(()))?;
        Ok(Self { folder, ledger })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(DRAFT)
    }

    /// Gives the copy another identity.
    fn tag(&self, tag: &str) -> Result<(), LedgerError> {
        let path = self.path();
        let write = || -> rusqlite::Result<()> {
            let connection = Connection::open(&path)?;
            let note = format!("restored at record {}", self.ledger.tip.sequence);
            look::write_tag(&connection, tag, &note)?;
            connection.close().map_err(|(_, error)| error)
        };
        write().map_err(sqlite(&path, "writing to"))
    }
}

/// The name of a copy in its folder.
const DRAFT: &str = "copy";

fn check_free(path: &Path) -> Result<(), LedgerError> {
    if path.symlink_metadata().is_ok() {
        return Err(LedgerError::Occupied { path: path.to_owned() });
    }
    Ok(())
}
