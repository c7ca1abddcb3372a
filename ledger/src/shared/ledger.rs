//! A ledger whose records are in a shared log: what a node has of it.
//!
//! Each member keeps a copy of the log as a SQLite ledger. Whoever leads appends to the log and then to its copy, without
//! waiting for its disk; the others read the log, append to their copies and fold the records into a core of their own. So a member
//! that takes over has read nearly everything. Readers, snapshots and archives use the copy, like those of any ledger.
//!
//! From time to time a snapshot waits for the disk, which makes all records before it durable as well. The member then says so in
//! the log, and gives up what all members have.
//!
//! Left out: who tries to lead, and when.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coalloc_common::{DiskSpace, limits};
use coalloc_protocol::{CausedRecord, ChangedPart, Log};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::SharedLogError;
use super::log::{SharedLog, SharedLogId};
use super::store::Store;
use crate::error::LedgerError;
use crate::identity::Identity;
use crate::inspect;
use crate::ledger::Ledger;
use crate::lock::{Lock, beside};
use crate::look::{self, SoundLedger};
use crate::reader::LedgerReader;
use crate::replay;
use crate::snapshot::Fold;
use crate::sqlite::SqliteLedger;

/// Which of the members of a log this one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Where the log is in the store.
    pub prefix: String,
    /// This member's name.
    pub member: String,
    /// The names of all members. What they all have is given up.
    pub members: Vec<String>,
}

/// A shared log with this member's copy of it.
#[derive(Debug)]
pub struct SharedLedger<R, S> {
    log: SharedLog<S>,
    copy: SqliteLedger<R>,
    membership: Membership,
    /// The last record that this process has said to be durable here.
    said: u64,
    /// The last record that this process has given up.
    trimmed: u64,
    /// Rises whenever the owner of this ledger does something.
    pulse: Arc<AtomicU64>,
}

/// Makes the log of a node's ledger, which goes on after the last record of the file at `path`. The file is the copy of the first
/// member from then on, and further members begin with copies of it. If there is no file, the ledger is a new one, with the id that
/// `new_id` gives. Returns what the file has. The node must be stopped.
///
/// # Errors
/// [`LedgerError`] when the ledger is damaged, in use, older than its tip or another node's, or there is a log already.
pub fn share(
    store: impl Store,
    prefix: &str,
    path: &Path,
    node: &Identity,
    new_id: impl FnOnce() -> String,
) -> Result<Option<SoundLedger>, LedgerError> {
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if !inspect::exists(path)? {
        let id = SharedLogId::new(new_id(), node.clone());
        SharedLog::create(store, prefix, &id)?;
        return Ok(None);
    }
    inspect::inspect(path, node)?;
    let (ledger, _lock) = look_alone(path)?;
    let (chain, identity) = (ledger.about.id.clone(), ledger.about.identity());
    let id = SharedLogId { chain, identity, node: node.clone() };
    // From here on the file is refused as a ledger of its own, also if the log could not be made.
    inspect::set_shared_at(path, Some(prefix))?;
    let made = SharedLog::share(store, prefix, &id, ledger.tip.sequence, ledger.tip.hash);
    if let Err(error @ SharedLogError::Occupied { .. }) = made {
        inspect::set_shared_at(path, None)?;
        return Err(error.into());
    }
    made?;
    Ok(Some(ledger))
}

/// Ends the sharing of a ledger: removes its log, which must end with the last record of this copy, and makes the copy the ledger
/// of its node alone. All processes must be stopped. Returns what the ledger has.
///
/// # Errors
/// [`LedgerError`] when the copy is damaged, in use or not at the end of the log, or a process leads.
pub fn unshare(store: impl Store, prefix: &str, path: &Path) -> Result<SoundLedger, LedgerError> {
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (ledger, _lock) = look_alone(path)?;
    let log = SharedLog::open(store, prefix)?;
    if (&log.id().chain, &log.id().identity) != (&ledger.about.id, &ledger.about.identity()) {
        return Err(other_log(path, ledger.about.identity(), &log));
    }
    // This waits for the disk, so the last records of the copy are durable before the log has them no more.
    inspect::set_shared_at(path, Some(prefix))?;
    log.unshare(ledger.tip.sequence, ledger.tip.hash)?;
    inspect::set_shared_at(path, None)?;
    Ok(ledger)
}

/// Looks at a ledger that no process has open, and keeps others from opening it.
fn look_alone(path: &Path) -> Result<(SoundLedger, Lock), LedgerError> {
    // The write-ahead log of a ledger that is locked is not looked at, so this comes first.
    let before = look::look(path, |_, _, _| Ok(()))?;
    let lock = Lock::take(path)?;
    let ledger = look::look(path, |_, _, _| Ok(()))?;
    match ledger.tip == before.tip {
        true => Ok((ledger, lock)),
        false => Err(LedgerError::Locked {
            path: path.to_owned(),
            lock: beside(path, ".lock"),
            holder: None,
        }),
    }
}

fn other_log<S>(path: &Path, found: String, log: &SharedLog<S>) -> LedgerError
where
    S: Store,
{
    let (prefix, expected) = (log.prefix().to_owned(), log.id().identity.clone());
    LedgerError::OtherLog { path: path.to_owned(), found, prefix, expected }
}

impl<R: Serialize + DeserializeOwned, S: Store> SharedLedger<R, S> {
    /// Opens the log, and this member's copy at `path`, which is read into the fold, and made if there is none. The log may have
    /// more, see [`SharedLedger::follow`].
    ///
    /// # Errors
    /// [`LedgerError`] when the store does not answer or has no such log, or the copy is damaged or of another log.
    pub fn open(
        store: S,
        membership: Membership,
        path: &Path,
        node: &Identity,
        fold: &mut impl Fold<Record = R>,
    ) -> Result<Self, LedgerError> {
        let mut log = SharedLog::open(store, &membership.prefix)?;
        if log.id().node != *node {
            let (path, found) = (Path::new(&membership.prefix).to_owned(), log.id().node.clone());
            return Err(LedgerError::ForeignNode { path, found, expected: node.clone() });
        }
        let chain = log.id().chain.clone();
        let copy = SqliteLedger::open_copy(path, node, &chain, &membership.prefix, fold)?;
        if (copy.id(), &copy.identity()) != (&chain, &log.id().identity) {
            return Err(other_log(path, copy.identity(), &log));
        }
        log.set_known(copy.last_sequence(), *copy.tip());
        let pulse = Arc::default();
        Ok(Self { log, copy, membership, said: 0, trimmed: 0, pulse })
    }

    /// Reads the next records of the log into the copy and the fold. Returns how many there were; 0 if there are no others.
    ///
    /// # Errors
    /// [`LedgerError`] when the store does not answer, the log does not go on where the copy ends, or the copy cannot be written.
    /// Then this value must not be used any more, except after [`SharedLogError::Unknown`], when nothing has changed.
    pub fn follow(&mut self, fold: &mut impl Fold<Record = R>) -> Result<usize, LedgerError> {
        let bodies = self.log.read_next()?;
        let first = self.copy.last_sequence() + 1;
        let path = self.copy.path().to_owned();
        self.copy.append_bodies(bodies.clone())?;
        for (sequence, body) in (first..).zip(&bodies) {
            let mut replay = |sequence, record| fold.replay(sequence, record);
            if let Err(error) = replay::decoded(&path, sequence, body.as_body(), &mut replay) {
                // A later release may have led meanwhile, whose records this one does not know.
                self.log.check_format()?;
                return Err(error);
            }
        }
        Ok(bodies.len())
    }

    /// Who leads: what its process said of itself.
    ///
    /// # Errors
    /// [`SharedLogError`] when the store does not answer.
    pub fn leader(&mut self) -> Result<Option<String>, SharedLogError> {
        self.log.leader()
    }

    /// Tries to lead, see [`SharedLog::lead`]. Follow the log to its end before the first append.
    ///
    /// # Errors
    /// [`SharedLogError`] when the store does not say who leads.
    pub fn lead(&mut self, process: &str, lease: i64) -> Result<bool, SharedLogError> {
        self.log.lead(process, lease)
    }

    /// Brings the log to the format of this release, see [`SharedLog::raise_format`].
    ///
    /// # Errors
    /// [`SharedLogError`] when this member does not lead any more, or the store does not answer.
    pub fn raise_format(&mut self) -> Result<(), SharedLogError> {
        self.log.raise_format()
    }

    /// The epoch in which this member leads.
    #[must_use]
    pub const fn epoch(&self) -> Option<i64> {
        self.log.epoch()
    }

    /// Says what is durable here, and gives up what all members have. If the store does not answer, the next snapshot does both.
    fn give_up_old(&mut self) -> Result<(), SharedLogError> {
        let last = self.copy.last_sequence();
        self.log.say_seen(&self.membership.member, last)?;
        let seen = self.log.seen_by_all(&self.membership.members)?;
        self.said = last;
        // A full store would refuse the next append, whereas a member that is behind can begin with another one's copy. Who may not
        // ask how full it is goes on without knowing.
        let old =
            if self.log.store_bytes().is_ok_and(|bytes| bytes > limits::SHARED_STORE_BYTES_MAX) {
                last
            } else {
                seen.max(last.saturating_sub(limits::SHARED_LOG_RECORDS_MAX))
            };
        if old > self.trimmed {
            self.log.trim(old)?;
            self.trimmed = old;
        }
        Ok(())
    }

    /// A number that rises whenever the owner of this ledger does something: at least once a second, or the owner hangs.
    #[must_use]
    pub fn pulse(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.pulse)
    }
}

impl<R: Serialize + DeserializeOwned, S: Store> Log for SharedLedger<R, S> {
    type Record = R;
    type Error = LedgerError;

    fn is_replaced(error: &LedgerError) -> bool {
        use SharedLogError::{NotLeading, Unknown};
        matches!(error, LedgerError::Shared(NotLeading { .. } | Unknown { .. }))
    }

    fn append_caused(&mut self, records: &[CausedRecord<'_, R>]) -> Result<(), LedgerError> {
        let bodies = self.copy.bodies(records)?;
        self.log.append(&bodies)?;
        // If this fails, the records are in the log, and the process ends: whoever leads next has them.
        self.copy.append_bodies(bodies)
    }

    fn snapshot_is_due(&self, changed: usize) -> bool {
        self.copy.snapshot_is_due(changed)
    }

    fn write_snapshot<P: Serialize>(
        &mut self,
        changed: &[ChangedPart<P>],
    ) -> Result<(), LedgerError> {
        let is_due = self.copy.last_sequence() - self.said >= limits::SHARED_LOG_SEEN_RECORDS;
        self.copy.write_parts(changed, is_due)?;
        if is_due && let Err(error) = self.give_up_old() {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "old records stay in the shared log for now");
        }
        Ok(())
    }

    fn room(&mut self) -> Result<DiskSpace, LedgerError> {
        self.pulse.fetch_add(1, Ordering::Relaxed);
        self.copy.room()
    }
}

impl<R, S> Ledger for SharedLedger<R, S>
where
    R: Serialize + DeserializeOwned + Send + 'static,
    S: Store + Send + 'static,
{
    type Reader = LedgerReader<R>;

    fn id(&self) -> &str {
        self.copy.id()
    }

    fn identity(&self) -> String {
        self.copy.identity()
    }

    fn place(&self) -> String {
        format!("{} in etcd, copied to {}", self.log.prefix(), self.copy.path().display())
    }

    fn room_bytes(&self) -> u64 {
        self.copy.room_bytes()
    }

    fn last_sequence(&self) -> u64 {
        self.copy.last_sequence()
    }

    fn readers(
        &self,
    ) -> impl Fn() -> Result<Self::Reader, LedgerError> + Send + Sync + 'static + use<R, S> {
        self.copy.readers()
    }

    fn size(&self) -> impl Fn() -> u64 + Send + Sync + 'static + use<R, S> {
        self.copy.size()
    }
}
