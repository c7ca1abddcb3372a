//! A wrapper that makes `MemoryLedger` usable as the ledger of a daemon's node.

use std::sync::Arc;

use coalloc_common::DiskSpace;
use coalloc_ledger::{
    CoreFold, Ledger, LedgerError, MemoryLedger, MemoryReader, SimulatedDisk, SimulatedError,
};
use coalloc_protocol::{ChangedPart, Log, Snapshot};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::machine::Hardware;

/// The ledger on a host's disk, from one start of the host to its crash.
pub(crate) struct SimLedger<R> {
    id: String,
    last: u64,
    log: MemoryLedger<R>,
    disk: SimulatedDisk,
    /// Records that were reported durable but not written: the planted fault.
    owed: Option<Vec<R>>,
}

impl<R: Serialize + DeserializeOwned> SimLedger<R> {
    /// Opens the ledger: replays what the disk has kept into the core.
    pub(crate) fn open<C: Snapshot<Record = R>>(
        hardware: &Arc<Hardware>,
        core: &mut C,
    ) -> Result<Self, LedgerError> {
        // A snapshot is due often, so that a restart nearly always begins with one.
        hardware.disk.set_snapshot_every(10);
        let last = hardware.disk.records() as u64;
        let log = MemoryLedger::open_into(
            &hardware.disk,
            &mut CoreFold { core, noticed: |_, _: &R| {} },
        )?;
        let owed = hardware.lies.then(Vec::new);
        Ok(Self { id: hardware.id.clone(), last, log, disk: hardware.disk.clone(), owed })
    }
}

impl<R: Serialize + DeserializeOwned> Log for SimLedger<R> {
    type Record = R;
    type Error = SimulatedError;

    fn append_caused(
        &mut self,
        records: &[coalloc_protocol::CausedRecord<'_, R>],
    ) -> Result<(), SimulatedError> {
        match &mut self.owed {
            None => self.log.append_caused(records)?,
            Some(owed) => {
                self.log.append(&owed.iter().collect::<Vec<_>>())?;
                let again = |caused: &coalloc_protocol::CausedRecord<'_, R>| {
                    serde_json::from_value(serde_json::to_value(caused.record)?)
                };
                *owed = records.iter().map(again).collect::<Result<_, _>>().unwrap();
            }
        }
        self.last += records.len() as u64;
        Ok(())
    }

    fn snapshot_is_due(&self, changed: usize) -> bool {
        // A disk that lies has not written what the snapshot would stand for.
        self.owed.is_none() && self.log.snapshot_is_due(changed)
    }

    fn write_snapshot<P: Serialize>(
        &mut self,
        changed: &[ChangedPart<P>],
    ) -> Result<(), SimulatedError> {
        self.log.write_snapshot(changed)
    }

    fn room(&mut self) -> Result<DiskSpace, SimulatedError> {
        self.log.room()
    }
}

impl<R: Serialize + DeserializeOwned + Send + 'static> Ledger for SimLedger<R> {
    type Reader = MemoryReader<R>;

    fn id(&self) -> &str {
        &self.id
    }

    fn identity(&self) -> String {
        self.id.clone()
    }

    fn place(&self) -> String {
        "a simulated disk".to_owned()
    }

    fn room_bytes(&self) -> u64 {
        0
    }

    fn last_sequence(&self) -> u64 {
        self.last
    }

    fn readers(
        &self,
    ) -> impl Fn() -> Result<Self::Reader, LedgerError> + Send + Sync + 'static + use<R> {
        let disk = self.disk.clone();
        move || Ok(MemoryReader::new(disk.clone()))
    }

    fn size(&self) -> impl Fn() -> u64 + Send + Sync + 'static + use<R> {
        let disk = self.disk.clone();
        move || disk.bodies().iter().map(|body| body.len() as u64).sum()
    }
}
