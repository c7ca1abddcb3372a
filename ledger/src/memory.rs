//! The simulated ledger: it makes the same promise as the real one, on a disk that fails on demand.
//!
//! A [`SimulatedDisk`] outlives the node. A [`MemoryLedger`] is one life of the node on that disk.
//! Records become durable in an append, and an append can be cut in four places ([`AppendFault`]). After
//! each of them the node is dead: the ledger must be opened again, which replays what the disk has kept.
//! Opening also shuts out the life before, as the lock of the real ledger does, and rolls back a last
//! transaction that has no end.
//!
//! Rows are those of the real ledger: sequence number, the packed record, its hash in the chain (I15).
//! The same code appends and verifies them. So a simulation finds a record that cannot be read back, and
//! damage that goes unnoticed. Snapshots are written and read like those of the real ledger, but no record is archived, so a
//! simulation can compare each snapshot with the fold of all records. [`Damage`] is what a bad disk does.
//!
//! Left out: SQLite's own pages, which are tested on the real file, and all delays, which the simulator adds. The file is
//! long because disk and ledger share the rows and the places where an append may be cut.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_common::DiskSpace;
use coalloc_common::planted::{self, Bug};
use coalloc_protocol::{CausedRecord, ChangedPart, Log, ReplayError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::OwnedBody;
use crate::chain::{Chain, Hash};
use crate::error::LedgerError;
use crate::snapshot::{self, Fold, RecordsOnly};
use crate::{packed, replay};

/// Where an append is cut. An I/O error or a full disk is one of the first three; a power cut may be any
/// of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AppendFault {
    /// Nothing was written.
    BeforeWrite,
    /// The records were written, and lost before they were durable. The disk looks as after
    /// `BeforeWrite`, but the records could be read until the crash.
    BeforeDurable,
    /// The records were written, but the end of the transaction did not survive: the next opening rolls
    /// it back.
    Torn,
    /// The records are durable, but the append does not return, so nothing that depends on them is sent.
    BeforeReturn,
}

impl AppendFault {
    /// All faults, in the order of an append.
    pub const ALL: [Self; 4] =
        [Self::BeforeWrite, Self::BeforeDurable, Self::Torn, Self::BeforeReturn];
}

/// What a bad disk, or a bad tool, does to a record that was durable (I15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Damage {
    /// One byte of the record's body is changed.
    Flipped,
    /// The record is missing, and another one comes after it.
    Missing,
    /// The record has changed places with the one after it.
    Swapped,
}

impl Damage {
    /// All kinds of damage.
    pub const ALL: [Self; 3] = [Self::Flipped, Self::Missing, Self::Swapped];
}

/// What has happened on a disk so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskCounts {
    /// How often the disk was opened.
    pub opens: u64,
    /// Appends that succeeded.
    pub appends: u64,
    /// Records in those appends.
    pub records: u64,
    /// Appends that were cut.
    pub cuts: u64,
    /// Unfinished last transactions that an opening rolled back.
    pub rolled_back: u64,
    /// Snapshots that were written.
    pub snapshots: u64,
}

/// One row, as in the file of the real ledger.
#[derive(Debug, Clone)]
struct Row {
    sequence: i64,
    body: OwnedBody,
    hash: Hash,
    /// Does the transaction end with this row?
    ends: bool,
}

/// One snapshot: what has changed since the one before.
#[derive(Debug, Clone)]
struct SnapshotWrite {
    /// The number of records that it stands for.
    records: usize,
    /// Packed parts by their keys; `None` for a part that is gone.
    parts: Vec<(String, Option<Vec<u8>>)>,
    /// Is the end of its transaction there?
    ends: bool,
}

#[derive(Debug, Default, Clone)]
struct Disk {
    name: String,
    /// Shared with a replay that is going on.
    rows: Arc<Vec<Row>>,
    snapshots: Vec<SnapshotWrite>,
    /// After how many records a snapshot is due; `None` for never.
    snapshot_every: Option<u64>,
    /// The next fault: how many more appends succeed before it, and where the append after them is cut.
    plan: Option<(u64, AppendFault)>,
    room: DiskSpace,
    /// The life that may append: how often the disk was opened or crashed.
    life: u64,
    counts: DiskCounts,
}

/// A disk that several lives of one node share, one after the other. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDisk(Arc<Mutex<Disk>>);

impl SimulatedDisk {
    /// An empty disk. Errors contain its name, which is also the id of the ledger on it.
    pub fn new(name: &str) -> Self {
        Self(Arc::new(Mutex::new(Disk { name: name.to_owned(), ..Disk::default() })))
    }

    /// Cuts an append, after `appends` more appends have succeeded. Replaces an earlier plan.
    pub fn cut_after(&self, appends: u64, cut: AppendFault) {
        self.disk().plan = Some((appends, cut));
    }

    /// The node dies between two appends: its ledger can write no more, and a planned cut is forgotten.
    pub fn crash(&self) {
        self.disk().crash();
    }

    /// The durable records, as JSON.
    ///
    /// # Panics
    /// When a record is damaged.
    pub fn bodies(&self) -> Vec<String> {
        let rows = self.disk().whole();
        let json = |row: &Row| row.body.as_body().to_json();
        rows.iter().map(|row| json(row).unwrap_or_else(|error| panic!("{error}"))).collect()
    }

    /// Number of durable records.
    pub fn records(&self) -> usize {
        self.disk().ended()
    }

    /// Every durable record: its body and its hash.
    pub(crate) fn chained(&self) -> Vec<(OwnedBody, Hash)> {
        let rows = self.disk().whole();
        rows.iter().map(|row| (row.body.clone(), row.hash)).collect()
    }

    /// The id of the ledger on this disk: the disk's name.
    pub(crate) fn id(&self) -> String {
        self.disk().name.clone()
    }

    /// Puts back an older state of the disk, its first `records` records (F11). The node dies.
    pub fn restore(&self, records: usize) {
        let mut disk = self.disk();
        disk.crash();
        disk.snapshots.retain(|snapshot| snapshot.records <= records);
        let rows = Arc::make_mut(&mut disk.rows);
        rows.truncate(records);
        // If this cuts a transaction, its remaining records count as a complete one.
        if let Some(last) = rows.last_mut() {
            last.ends = true;
        }
    }

    /// How many records there are up to the last end of a transaction among the first `records`.
    pub fn end_before(&self, records: usize) -> usize {
        let disk = self.disk();
        let rows = disk.rows.iter().take(records);
        rows.rev().position(|row| row.ends).map_or(0, |after| records.min(disk.rows.len()) - after)
    }

    /// Another disk with the same content.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.disk().clone())))
    }

    /// Damages a record, counted from 0, which must not be the last one. The node dies.
    ///
    /// # Panics
    /// When there is no such record, or none after it.
    pub fn damage(&self, record: usize, damage: Damage) {
        let mut disk = self.disk();
        disk.crash();
        let rows = Arc::make_mut(&mut disk.rows);
        assert!(record + 1 < rows.len(), "a record inside");
        match damage {
            Damage::Flipped => {
                rows[record].body.record.last_mut().into_iter().for_each(|byte| *byte ^= 1);
            }
            Damage::Missing => {
                rows.remove(record);
            }
            Damage::Swapped => {
                rows.swap(record, record + 1);
                let first = rows[record].sequence;
                rows[record].sequence = rows[record + 1].sequence;
                rows[record + 1].sequence = first;
            }
        }
    }

    /// Sets after how many records a snapshot is due from now on. By default none ever is.
    pub fn set_snapshot_every(&self, records: u64) {
        self.disk().snapshot_every = Some(records);
    }

    /// The number of records that the last snapshot stands for, and its packed parts by their keys.
    pub fn snapshot(&self) -> Option<(usize, BTreeMap<String, Vec<u8>>)> {
        self.disk().snapshot()
    }

    /// Sets the disk space that the ledger on this disk reports from now on.
    pub fn set_room(&self, room: DiskSpace) {
        self.disk().room = room;
    }

    /// What has happened on this disk so far.
    pub fn counts(&self) -> DiskCounts {
        self.disk().counts
    }

    /// A poisoned lock is no problem: every change is completed under the lock, so a panic elsewhere left
    /// the disk sound.
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    fn crash(&mut self) {
        self.life += 1;
        self.plan = None;
    }

    /// Number of rows up to the last end of a transaction.
    fn ended(&self) -> usize {
        self.rows.iter().rposition(|row| row.ends).map_or(0, |last| last + 1)
    }

    fn whole(&mut self) -> Arc<Vec<Row>> {
        let ended = self.ended();
        if ended == self.rows.len() {
            return Arc::clone(&self.rows);
        }
        Arc::new(self.rows[..ended].to_vec())
    }

    /// The last snapshot that is complete.
    fn snapshot(&self) -> Option<(usize, BTreeMap<String, Vec<u8>>)> {
        let mut parts = BTreeMap::new();
        let complete = || self.snapshots.iter().filter(|snapshot| snapshot.ends);
        for (key, part) in complete().flat_map(|snapshot| &snapshot.parts) {
            match part {
                Some(part) => parts.insert(key.clone(), part.clone()),
                None => parts.remove(key),
            };
        }
        Some((complete().next_back()?.records, parts))
    }

    /// Drops the rows after the last end of a transaction, as write-ahead logs do: they never were a
    /// transaction.
    fn roll_back(&mut self) {
        self.snapshots.retain(|snapshot| snapshot.ends);
        let ended = self.ended();
        if ended < self.rows.len() {
            Arc::make_mut(&mut self.rows).truncate(ended);
            self.counts.rolled_back += 1;
        }
    }

    /// The place where this append is cut, if it is to be cut.
    fn take_cut(&mut self) -> Option<AppendFault> {
        let (left, cut) = self.plan?;
        self.plan = left.checked_sub(1).map(|left| (left, cut));
        (left == 0).then_some(cut)
    }

    fn append(&mut self, mut rows: Vec<Row>) -> Result<(), SimulatedError> {
        let records = rows.len() as u64;
        let cut = self.take_cut();
        match cut {
            Some(AppendFault::BeforeWrite | AppendFault::BeforeDurable) => {}
            Some(AppendFault::Torn) => {
                if let Some(last) = rows.last_mut() {
                    last.ends = false;
                }
                Arc::make_mut(&mut self.rows).append(&mut rows);
            }
            None if planted::is(Bug::SkippedSync) => {
                // Only what was written before is durable.
                Arc::make_mut(&mut self.rows).iter_mut().for_each(|row| row.ends = true);
                rows.iter_mut().for_each(|row| row.ends = false);
                Arc::make_mut(&mut self.rows).append(&mut rows);
            }
            Some(AppendFault::BeforeReturn) | None => {
                Arc::make_mut(&mut self.rows).append(&mut rows)
            }
        }
        self.end_cut(cut)?;
        self.counts.appends += 1;
        self.counts.records += records;
        Ok(())
    }

    /// A snapshot is cut in the same places as an append.
    fn write_snapshot(&mut self, mut snapshot: SnapshotWrite) -> Result<(), SimulatedError> {
        let cut = self.take_cut();
        match cut {
            Some(AppendFault::BeforeWrite | AppendFault::BeforeDurable) => {}
            Some(AppendFault::Torn) => {
                snapshot.ends = false;
                self.snapshots.push(snapshot);
            }
            Some(AppendFault::BeforeReturn) | None => self.snapshots.push(snapshot),
        }
        self.end_cut(cut)?;
        self.counts.snapshots += 1;
        Ok(())
    }

    /// Ends this life if there was a cut.
    fn end_cut(&mut self, cut: Option<AppendFault>) -> Result<(), SimulatedError> {
        let Some(cut) = cut else { return Ok(()) };
        self.counts.cuts += 1;
        self.crash();
        Err(SimulatedError::Cut(cut))
    }
}

/// Why a simulated append failed. In all cases the node must end (I16).
#[derive(Debug, thiserror::Error)]
pub enum SimulatedError {
    /// The append was cut at this place.
    #[error("simulated: the append was cut, {0:?}")]
    Cut(AppendFault),
    /// The node has crashed since it opened the disk, or another life has opened it.
    #[error("simulated: this life of the node is over")]
    Dead,
    /// The record cannot be packed, or, in debug builds, is not read back as it was written.
    #[error("the record cannot be packed and read back: {0}")]
    Unencodable(String),
}

/// A [`Log`] on a [`SimulatedDisk`].
#[derive(Debug)]
pub struct MemoryLedger<R> {
    disk: SimulatedDisk,
    life: u64,
    chain: Chain,
    /// The record up to which the last snapshot goes.
    snapshot: u64,
    _records: PhantomData<fn() -> R>,
}

impl<R: Serialize + DeserializeOwned> MemoryLedger<R> {
    /// Begins a new life on the disk, and replays its records in order. Sequence numbers begin at 1.
    ///
    /// # Errors
    /// [`LedgerError::ChainBroken`], [`LedgerError::Undecodable`] and [`LedgerError::DoesNotFit`], with
    /// the disk's name as the path.
    pub fn open(
        disk: &SimulatedDisk,
        replay: impl FnMut(u64, R) -> Result<(), ReplayError>,
    ) -> Result<Self, LedgerError> {
        Self::open_into(disk, &mut RecordsOnly::new(replay))
    }

    /// The same for a disk that may have a snapshot: its parts are read first, and then the records after it.
    ///
    /// # Errors
    /// As [`MemoryLedger::open`], and when a part is refused.
    pub fn open_into(
        disk: &SimulatedDisk,
        fold: &mut impl Fold<Record = R>,
    ) -> Result<Self, LedgerError> {
        // The lock is not held during the replay, because the callback may look at the disk.
        let (life, path, rows, snapshot) = {
            let mut disk = disk.disk();
            disk.life += 1;
            disk.counts.opens += 1;
            disk.roll_back();
            let rows = Arc::clone(&disk.rows);
            (disk.life, PathBuf::from(&disk.name), rows, disk.snapshot())
        };
        let contained = snapshot.as_ref().map_or(0, |(records, _)| *records as u64);
        if let Some((_, parts)) = &snapshot {
            snapshot::restore_parts(&path, contained, parts, fold)?;
        }
        let mut chain = Chain::new(&path.to_string_lossy());
        for row in rows.iter() {
            let (sequence, body, hash) = (row.sequence, row.body.as_body(), row.hash.as_slice());
            replay::record(&path, &mut chain, sequence, body, hash, &mut |sequence, record| {
                let is_last = sequence == rows.len() as u64;
                let is_missed = planted::is(Bug::ReplayMissesLast) && is_last;
                if sequence <= contained {
                    fold.contained(sequence, record);
                    return Ok(());
                }
                if is_missed { Ok(()) } else { fold.replay(sequence, record) }
            })?;
        }
        let snapshot = contained;
        Ok(Self { disk: disk.clone(), life, chain, snapshot, _records: PhantomData })
    }

    fn encode(caused: CausedRecord<'_, R>) -> Result<OwnedBody, SimulatedError> {
        let fault = |error: &dyn std::fmt::Display| SimulatedError::Unencodable(error.to_string());
        let body = OwnedBody::new(caused).map_err(|error| fault(&error))?;
        if cfg!(debug_assertions) {
            let json = |record: &R| serde_json::to_string(record).map_err(|error| fault(&error));
            let again: R = body.as_body().record().map_err(|error| fault(&error))?;
            let (before, again) = (json(caused.record)?, json(&again)?);
            if again != before {
                return Err(SimulatedError::Unencodable(format!("{before} came back as {again}")));
            }
        }
        Ok(body)
    }

    fn rows(
        chain: &mut Chain,
        records: &[CausedRecord<'_, R>],
    ) -> Result<Vec<Row>, SimulatedError> {
        let mut rows = Vec::with_capacity(records.len());
        for caused in records {
            let body = Self::encode(*caused)?;
            chain.append(body.as_body());
            // `as` is exact: nobody writes 2^63 records.
            let (sequence, hash) = (chain.last as i64, chain.tip);
            rows.push(Row { sequence, body, hash, ends: false });
        }
        if let Some(last) = rows.last_mut() {
            last.ends = true;
        }
        Ok(rows)
    }
}

impl<R: Serialize + DeserializeOwned> Log for MemoryLedger<R> {
    type Record = R;
    type Error = SimulatedError;

    fn room(&mut self) -> Result<DiskSpace, SimulatedError> {
        Ok(self.disk.disk().room)
    }

    fn snapshot_is_due(&self, _changed: usize) -> bool {
        let every = self.disk.disk().snapshot_every;
        every.is_some_and(|every| self.chain.last - self.snapshot >= every)
    }

    fn write_snapshot<P: Serialize>(
        &mut self,
        changed: &[ChangedPart<P>],
    ) -> Result<(), SimulatedError> {
        let mut disk = self.disk.disk();
        if disk.life != self.life {
            return Err(SimulatedError::Dead);
        }
        let packed = |ChangedPart { key, part }: &ChangedPart<P>| {
            let part = part.as_ref().map(packed::pack).transpose();
            part.map(|part| (key.clone(), part))
        };
        let parts = changed.iter().map(packed).collect::<Result<Vec<_>, _>>();
        let parts = parts.map_err(|error| SimulatedError::Unencodable(error.to_string()))?;
        let records = disk.rows.len();
        disk.write_snapshot(SnapshotWrite { records, parts, ends: true })?;
        self.snapshot = self.chain.last;
        Ok(())
    }

    fn append_caused(&mut self, records: &[CausedRecord<'_, R>]) -> Result<(), SimulatedError> {
        let mut disk = self.disk.disk();
        if disk.life != self.life {
            return Err(SimulatedError::Dead);
        }
        if records.is_empty() {
            return Ok(());
        }
        let mut chain = self.chain;
        match Self::rows(&mut chain, records) {
            Ok(rows) => {
                disk.append(rows)?;
                self.chain = chain;
                Ok(())
            }
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
        for (cut, kept) in AppendFault::ALL.into_iter().zip([1, 1, 1, 3]) {
            let disk = SimulatedDisk::new("north");
            disk.cut_after(1, cut);
            let (mut ledger, _) = open(&disk);
            ledger.append(&[&1]).unwrap();
            assert!(matches!(ledger.append(&[&2, &3]), Err(SimulatedError::Cut(at)) if at == cut));
            assert!(matches!(ledger.append(&[&4]), Err(SimulatedError::Dead)));
            let (mut ledger, seen) = open(&disk);
            assert_eq!(seen, [1, 2, 3][..kept], "{cut:?}");
            ledger.append(&[&5]).unwrap();
            let rolled_back = u64::from(cut == AppendFault::Torn);
            let counts =
                DiskCounts { opens: 2, appends: 2, records: 2, cuts: 1, rolled_back, snapshots: 0 };
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
        /// It grows by one whenever it is written.
        #[derive(serde::Deserialize)]
        struct Growing(u64);
        impl Serialize for Growing {
            fn serialize<S: serde::Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
                writer.serialize_u64(self.0 + 1)
            }
        }
        let disk = SimulatedDisk::new("north");
        let mut ledger = MemoryLedger::<Growing>::open(&disk, |_, _| Ok(())).unwrap();
        if cfg!(debug_assertions) {
            let error = ledger.append(&[&Growing(1)]).unwrap_err();
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

    #[test]
    fn damage_inside_is_found_at_the_first_record_that_is_wrong() {
        let disk = SimulatedDisk::new("north");
        let (mut ledger, _) = open(&disk);
        ledger.append(&[&1, &2, &3]).unwrap();
        ledger.append(&[&4]).unwrap();
        for damage in Damage::ALL {
            for record in 0..3 {
                let copy = disk.copy();
                copy.damage(record, damage);
                let error = MemoryLedger::<u64>::open(&copy, |_, _| Ok(())).unwrap_err();
                let found = matches!(error, LedgerError::ChainBroken { sequence, .. }
                    if sequence == record as u64 + 1);
                assert!(found, "{damage:?} of record {record}: {error}");
            }
        }
        assert_eq!(open(&disk).1, [1, 2, 3, 4], "a copy is another disk");
    }

    #[test]
    fn records_of_one_disk_cannot_stand_on_another() {
        let disk = SimulatedDisk::new("north");
        let (mut ledger, _) = open(&disk);
        ledger.append(&[&1]).unwrap();
        disk.disk().name = "south".to_owned();
        let error = MemoryLedger::<u64>::open(&disk, |_, _| Ok(())).unwrap_err();
        assert!(matches!(error, LedgerError::ChainBroken { sequence: 1, .. }), "{error}");
    }
}
