//! The simulated twin of the ledger: the same promise, on a disk that fails when told to.
//!
//! A [`SimulatedDisk`] outlives the node; a [`MemoryLedger`] is one life of the node upon it. An
//! append is the point of durability, so there are three places where it can be cut ([`Cut`]), and
//! after each the node is dead: it must be opened again, and replays what the disk kept. Opening
//! also shuts out the life before, as the lock of the real ledger does.
//!
//! Records are kept as the JSON that the real ledger would write, so that a record which cannot be
//! read back is found by simulation. Left out are the hash chain and damaged bytes, which are tested
//! on the real file, and every delay, which is the simulator's to add.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_protocol::{Log, ReplayError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::LedgerError;

/// Where an append is cut. An I/O error or a full disk is the first; a power cut is any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cut {
    /// Nothing was written.
    BeforeWrite,
    /// It was written, and lost before it was durable. The disk looks as after `BeforeWrite`, but
    /// until the crash it could be read.
    BeforeDurable,
    /// It is durable, and nobody was told.
    BeforeReturn,
}

impl Cut {
    /// All of them, in the order of an append.
    pub const ALL: [Self; 3] = [Self::BeforeWrite, Self::BeforeDurable, Self::BeforeReturn];
}

/// What happened on a disk so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskCounts {
    /// Times it was opened.
    pub opens: u64,
    /// Appends that returned success.
    pub appends: u64,
    /// Records in them.
    pub records: u64,
    /// Appends that were cut.
    pub cuts: u64,
}

#[derive(Debug, Default)]
struct Disk {
    name: String,
    durable: Vec<String>,
    /// Written, not durable: gone with the next crash.
    cached: Vec<String>,
    /// Cut the append after so many more.
    plan: Option<(u64, Cut)>,
    /// The life that may append: how often the disk was opened or crashed.
    life: u64,
    counts: DiskCounts,
}

/// A disk that several lives of one node share, one after the other. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDisk(Arc<Mutex<Disk>>);

impl SimulatedDisk {
    /// An empty disk; errors call it by this name.
    pub fn new(name: &str) -> Self {
        Self(Arc::new(Mutex::new(Disk { name: name.to_owned(), ..Disk::default() })))
    }

    /// Cuts an append: after `appends` more that succeed. Replaces an earlier plan.
    pub fn cut_after(&self, appends: u64, cut: Cut) {
        self.disk().plan = Some((appends, cut));
    }

    /// The node dies between two appends: its ledger can write no more, what was not durable is
    /// gone, and a planned cut is forgotten.
    pub fn crash(&self) {
        self.disk().crash();
    }

    /// The durable records, as JSON.
    pub fn bodies(&self) -> Vec<String> {
        self.disk().durable.clone()
    }

    /// Puts back an older state of the disk, its first `records` (F11). The node dies as well.
    pub fn restore(&self, records: usize) {
        let mut disk = self.disk();
        disk.crash();
        disk.durable.truncate(records);
    }

    /// What happened so far.
    pub fn counts(&self) -> DiskCounts {
        self.disk().counts
    }

    /// Every change is made whole under the lock, so one that panicked elsewhere left it sound.
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    fn crash(&mut self) {
        self.life += 1;
        self.cached.clear();
        self.plan = None;
    }

    /// Is this append to be cut, and where?
    fn take_cut(&mut self) -> Option<Cut> {
        let (left, cut) = self.plan?;
        self.plan = left.checked_sub(1).map(|left| (left, cut));
        (left == 0).then_some(cut)
    }

    fn append(&mut self, bodies: Vec<String>) -> Result<(), SimulatedError> {
        let records = bodies.len() as u64;
        let cut = self.take_cut();
        match cut {
            Some(Cut::BeforeWrite) => {}
            Some(Cut::BeforeDurable) => self.cached.extend(bodies),
            Some(Cut::BeforeReturn) | None => self.durable.extend(bodies),
        }
        if let Some(cut) = cut {
            self.counts.cuts += 1;
            self.crash();
            return Err(SimulatedError::Cut(cut));
        }
        self.counts.appends += 1;
        self.counts.records += records;
        Ok(())
    }
}

/// Why a simulated append failed. Either way the node is to end (I16).
#[derive(Debug, thiserror::Error)]
pub enum SimulatedError {
    /// It was cut here.
    #[error("simulated: the append was cut, {0:?}")]
    Cut(Cut),
    /// The node has crashed since it opened the disk, or another life has opened it.
    #[error("simulated: this life of the node is over")]
    Dead,
    /// The record has no JSON form, or, in debug builds, is not read back as it was written.
    #[error("record has no JSON form that is read back: {0}")]
    Unencodable(String),
}

/// A [`Log`] on a [`SimulatedDisk`].
#[derive(Debug)]
pub struct MemoryLedger<R> {
    disk: SimulatedDisk,
    life: u64,
    _records: PhantomData<fn() -> R>,
}

impl<R: Serialize + DeserializeOwned> MemoryLedger<R> {
    /// Begins a new life on the disk, and replays its records in order. Sequence numbers begin
    /// at 1.
    ///
    /// # Errors
    /// [`LedgerError::Undecodable`] and [`LedgerError::DoesNotFit`], with the disk's name as path.
    pub fn open(
        disk: &SimulatedDisk,
        mut replay: impl FnMut(u64, R) -> Result<(), ReplayError>,
    ) -> Result<Self, LedgerError> {
        // Not held during replay: the callback may look at the disk.
        let (life, path, bodies) = {
            let mut disk = disk.disk();
            disk.life += 1;
            disk.cached.clear();
            disk.counts.opens += 1;
            (disk.life, PathBuf::from(&disk.name), disk.durable.clone())
        };
        for (sequence, body) in (1..).zip(&bodies) {
            let record = serde_json::from_str(body).map_err(|source| LedgerError::Undecodable {
                path: path.clone(),
                sequence,
                source,
            })?;
            replay(sequence, record).map_err(|source| LedgerError::DoesNotFit {
                path: path.clone(),
                sequence,
                source,
            })?;
        }
        Ok(Self { disk: disk.clone(), life, _records: PhantomData })
    }

    fn encode(record: &R) -> Result<String, SimulatedError> {
        let fault = |error: serde_json::Error| SimulatedError::Unencodable(error.to_string());
        let body = serde_json::to_string(record).map_err(fault)?;
        if cfg!(debug_assertions) {
            let again: R = serde_json::from_str(&body).map_err(fault)?;
            let again = serde_json::to_string(&again).map_err(fault)?;
            if again != body {
                return Err(SimulatedError::Unencodable(format!("{body} came back as {again}")));
            }
        }
        Ok(body)
    }
}

impl<R: Serialize + DeserializeOwned> Log for MemoryLedger<R> {
    type Record = R;
    type Error = SimulatedError;

    fn append(&mut self, records: &[&R]) -> Result<(), SimulatedError> {
        let mut disk = self.disk.disk();
        if disk.life != self.life {
            return Err(SimulatedError::Dead);
        }
        if records.is_empty() {
            return Ok(());
        }
        let bodies = records.iter().map(|record| Self::encode(record)).collect();
        match bodies {
            Ok(bodies) => disk.append(bodies),
            Err(error) => {
                disk.crash();
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(disk: &SimulatedDisk) -> (MemoryLedger<u64>, Vec<u64>) {
        let mut seen = Vec::new();
        let ledger = MemoryLedger::open(disk, |sequence, record| {
            seen.push(record);
            assert_eq!(sequence, seen.len() as u64);
            Ok(())
        });
        (ledger.unwrap(), seen)
    }

    #[test]
    fn every_cut_leaves_all_or_nothing_and_ends_the_life() {
        for (cut, kept) in Cut::ALL.into_iter().zip([1, 1, 3]) {
            let disk = SimulatedDisk::new("north");
            disk.cut_after(1, cut);
            let (mut ledger, _) = open(&disk);
            ledger.append(&[&1]).unwrap();
            assert!(matches!(ledger.append(&[&2, &3]), Err(SimulatedError::Cut(at)) if at == cut));
            assert!(matches!(ledger.append(&[&4]), Err(SimulatedError::Dead)));
            let (mut ledger, seen) = open(&disk);
            assert_eq!(seen, [1, 2, 3][..kept], "{cut:?}");
            ledger.append(&[&5]).unwrap();
            let counts = DiskCounts { opens: 2, appends: 2, records: 2, cuts: 1 };
            assert_eq!(disk.counts(), counts);
        }
    }

    #[test]
    fn a_new_life_shuts_out_the_old_one() {
        let disk = SimulatedDisk::new("north");
        let (mut old, _) = open(&disk);
        let (mut new, _) = open(&disk);
        assert!(matches!(old.append(&[&1]), Err(SimulatedError::Dead)));
        new.append(&[&2]).unwrap();
        disk.crash();
        assert!(matches!(new.append(&[&3]), Err(SimulatedError::Dead)));
        assert_eq!(disk.bodies(), ["2"]);
    }

    #[test]
    fn a_restored_disk_is_a_shorter_one() {
        let disk = SimulatedDisk::new("north");
        let (mut ledger, _) = open(&disk);
        ledger.append(&[&1, &2, &3]).unwrap();
        disk.restore(2);
        assert_eq!(open(&disk).1, [1, 2]);
    }

    #[test]
    fn a_record_that_is_not_read_back_is_found_at_once() {
        // JSON has no infinity: it is written as null.
        let disk = SimulatedDisk::new("north");
        let mut ledger = MemoryLedger::<f64>::open(&disk, |_, _| Ok(())).unwrap();
        if cfg!(debug_assertions) {
            let error = ledger.append(&[&f64::INFINITY]).unwrap_err();
            assert!(matches!(error, SimulatedError::Unencodable(_)), "{error}");
        }
    }

    #[test]
    fn what_does_not_fit_names_disk_and_record() {
        let disk = SimulatedDisk::new("north");
        let (mut ledger, _) = open(&disk);
        ledger.append(&[&1, &2]).unwrap();
        let refuse = |_, record| {
            if record == 2 { Err(ReplayError("no".into())) } else { Ok(()) }
        };
        let error = MemoryLedger::<u64>::open(&disk, refuse).unwrap_err();
        assert!(error.to_string().starts_with("record 2 of north cannot follow"), "{error}");
    }
}
