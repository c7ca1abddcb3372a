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
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::create::place;
use crate::error::{LedgerError, sqlite};
use crate::inspect;
use crate::lock::{Lock, beside};
use crate::look::{self, IsOlder, LedgerSource, SoundLedger, io};
use crate::tip::{Tip, TipState};

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
    let draft = beside(to, ".new");
    let copy = copy(path, &draft)?;
    place(&draft, to).map_err(io(to, "writing"))?;
    Ok(copy)
}

/// Puts a backup at the place of its node's ledger. `tag` is eight random hexadecimal digits, with which the new
/// identity begins. The node must be stopped.
///
/// # Errors
/// [`LedgerError`] when a node has the place open, when the backup is damaged or another node's, or when a ledger that
/// was moved aside before is still there. Then nothing was changed.
pub fn restore(backup: &Path, to: &Path, tag: &str) -> Result<RestoredLedger, LedgerError> {
    let to = &to.canonicalize().unwrap_or_else(|_| to.to_owned());
    let lock = Lock::take(to)?;
    let moved_to = to.exists().then(|| beside(to, ".replaced"));
    if let Some(aside) = &moved_to {
        check_free(aside)?;
    }
    let draft = beside(to, ".new");
    let found = copy(backup, &draft)?;
    // Another node's ledger at this place is a mistake in a path. A damaged one says nothing.
    if let Ok(there) = look::summary(to)
        && there.node != found.about.node
    {
        let (path, found) = (backup.to_owned(), found.about.node);
        return Err(LedgerError::ForeignNode { path, found, expected: there.node });
    }
    let there = look::look(to, |_, _, _| Ok(())).ok().map(|there| there.tip);
    let is_last = there.as_ref() == Some(&found.tip);
    let lost =
        if is_last { Some(0) } else { lost(&found.tip, there, crate::sqlite::remembered(to)?) };
    if let Some(aside) = &moved_to {
        move_aside(to, aside)?;
    }
    place(&draft, to).map_err(io(to, "writing"))?;
    drop(lock);
    let ledger = match is_last {
        true => look::look(to, |_, _, _| Ok(()))?,
        false => look::accept(to, tag, IsOlder::Certainly)?,
    };
    Ok(RestoredLedger { ledger, lost, moved_to })
}

/// How many records a backup lacks of those that are known to have been written at a place: by the ledger that is there,
/// or by its tip file.
fn lost(backup: &Tip, there: Option<Tip>, remembered: TipState) -> Option<u64> {
    let remembered = match remembered {
        TipState::Tip(tip) => Some(tip),
        TipState::Nothing | TipState::Unreadable => None,
    };
    let known = [there, remembered].into_iter().flatten();
    let last = known.filter(|tip| tip.ledger_id == backup.ledger_id).map(|tip| tip.sequence).max();
    last?.checked_sub(backup.sequence).filter(|lost| *lost > 0)
}

/// Copies what a ledger has at one moment to a draft, and checks every record of the draft.
fn copy(path: &Path, draft: &Path) -> Result<SoundLedger, LedgerError> {
    fs::metadata(path).map_err(io(path, "opening"))?;
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    inspect::header(path)?;
    match fs::remove_file(draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(io(draft, "removing")(error));
        }
        _ => {}
    }
    let connection = LedgerSource::of(path)?.connect().map_err(sqlite(path, "opening"))?;
    // The copy is written through this connection. The ledger itself is open for reading only.
    let to = draft.to_string_lossy();
    let copied = connection
        .pragma_update(None, "query_only", false)
        .and_then(|()| connection.execute("VACUUM INTO ?1", [&to]));
    copied.map_err(sqlite(path, "copying"))?;
    look::look(draft, |_, _, _| Ok(()))
}

/// Moves a ledger and its log, so that the log is not applied to what comes to its place.
fn move_aside(path: &Path, aside: &Path) -> Result<(), LedgerError> {
    for ending in ["", "-wal", "-shm"] {
        let file = beside(path, ending);
        if file.exists() {
            fs::rename(&file, beside(aside, ending)).map_err(io(&file, "moving"))?;
        }
    }
    Ok(())
}

fn check_free(path: &Path) -> Result<(), LedgerError> {
    if path.symlink_metadata().is_ok() {
        return Err(LedgerError::Occupied { path: path.to_owned() });
    }
    Ok(())
}
