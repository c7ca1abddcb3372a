//! One node: a core, its ledger on a disk, its clocks, and the shell's batch between step and send.
//!
//! A batch does what the owner of a ledger does in a daemon, with the same code: a tick if one is due, every
//! input that waits, one sync, then the effects. A node may die at any of these places ([`CrashPoint`]); the
//! simulated disk decides what is on the disk then. Beside the core runs its shadow, the fold of the durable
//! records. The two must agree whenever nothing is on its way to the disk (I12, I14).

use std::collections::BTreeMap;
use std::fmt::Debug;

use coalloc_common::{BootTime, DiskSpace, Now, Span, Time, limits};
use coalloc_ledger::{
    AppendFault, CoreFold, Damage, LedgerError, MemoryLedger, SimulatedDisk, news_of_room,
    snapshot_if_due, step_all,
};
use coalloc_protocol::{Causer, ChangedPart, Core, Log as _, Snapshot, Unsynced, sync};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The wall clock of the world at its beginning: 2026-11-21T10:00:00Z.
pub const WALL_START: Time = Time::from_us(1_795_255_200_000_000);

/// What the ledger requires of a record.
pub trait Record: Serialize + DeserializeOwned + PartialEq + Debug + Clone {}
impl<T: Serialize + DeserializeOwned + PartialEq + Debug + Clone> Record for T {}

/// The two clocks of a machine, relative to the time of the world.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// How far the machine's wall clock is ahead of the world's, in microseconds.
    pub wall_ahead_us: i64,
    /// Somebody has set the wall clock.
    pub was_set: bool,
    /// When the machine was booted, in the time of the world.
    booted_us: i64,
    /// How often the machine was booted.
    boots: u32,
}

/// Where in the current batch a node dies: at each durability point, before and after write, fsync and send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPoint {
    /// Nothing of the batch is written.
    BeforeWrite,
    /// The batch is written but not durable; this much of it survives.
    BeforeFsync(DiskSurvival),
    /// The batch is durable, and no effect has left.
    AfterFsync,
    /// The batch is durable, and so many effects have left.
    AfterEffects(usize),
    /// All effects have left, and the snapshot that follows is written but not durable; this much of it survives.
    InSnapshot(DiskSurvival),
}

/// How much of what was written but not yet durable is on the disk after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskSurvival {
    /// Nothing of it.
    Nothing,
    /// A part without its end, which is rolled back when the ledger is opened again.
    Part,
    /// All of it, by luck.
    All,
}

impl CrashPoint {
    /// Where the append of the batch is cut; `None` when it is not.
    const fn cut(self) -> Option<AppendFault> {
        match self {
            Self::BeforeWrite => Some(AppendFault::BeforeWrite),
            Self::BeforeFsync(DiskSurvival::Nothing) => Some(AppendFault::BeforeDurable),
            Self::BeforeFsync(DiskSurvival::Part) => Some(AppendFault::Torn),
            Self::BeforeFsync(DiskSurvival::All) | Self::AfterFsync => {
                Some(AppendFault::BeforeReturn)
            }
            Self::AfterEffects(_) | Self::InSnapshot(_) => None,
        }
    }

    /// Where the snapshot after the batch is cut.
    const fn snapshot_cut(self) -> Option<AppendFault> {
        match self {
            Self::InSnapshot(DiskSurvival::Nothing) => Some(AppendFault::BeforeDurable),
            Self::InSnapshot(DiskSurvival::Part) => Some(AppendFault::Torn),
            Self::InSnapshot(DiskSurvival::All) => Some(AppendFault::BeforeReturn),
            _ => None,
        }
    }

    /// How many effects leave before the node dies, if the append succeeds. After a failed append none leave.
    const fn effects(self) -> usize {
        match self {
            Self::AfterEffects(count) => count,
            _ => usize::MAX,
        }
    }
}

/// A batch after its sync: the records that are durable, and the effects that leave the node.
pub struct Finished<C: Core> {
    pub records: Vec<C::Record>,
    pub effects: Vec<C::Effect>,
    /// The append failed, so the node has to end without sending anything (I16).
    pub failed: bool,
}

/// A node: its process, which may be down, and its machine.
pub struct Node<C: Core> {
    pub name: String,
    /// Makes a core for a machine in this boot.
    make: Box<dyn Fn(&str) -> C>,
    start: fn(String) -> C::Input,
    /// `None` while the node is down.
    pub core: Option<C>,
    /// The fold of the durable records.
    pub shadow: C,
    /// The disk outlives the process.
    pub disk: SimulatedDisk,
    log: Option<MemoryLedger<C::Record>>,
    /// What the core was told about the disk space.
    room: DiskSpace,
    /// Syncs that had something to write, over all lives of the node.
    pub writes: u64,
    /// The number of the current life. Events of an earlier life are void.
    pub life: u64,
    pub clock: Clock,
    inbox: Vec<C::Input>,
    batch: Option<Vec<Unsynced<C::Record, C::Effect>>>,
    /// When the records of the last batch were made, in the time of the world. They may become durable much
    /// later: a disk takes its time, and a process that is frozen before its sync completes that sync later.
    pub stepped_us: i64,
    /// An append has failed, so the process is ending.
    failed: bool,
    /// The earliest tick of this node in the queue of the world.
    pub tick_queued: Option<i64>,
}

impl<C: Snapshot + Clone> Node<C>
where
    C::Record: Record,
{
    /// A node that is down and has an empty disk.
    pub fn new(
        name: &str,
        make: impl Fn(&str) -> C + 'static,
        start: fn(String) -> C::Input,
    ) -> Self {
        Self {
            name: name.to_owned(),
            shadow: make("boot-1"),
            make: Box::new(make),
            start,
            core: None,
            disk: SimulatedDisk::new(name),
            log: None,
            room: DiskSpace::Enough,
            writes: 0,
            life: 0,
            clock: Clock { wall_ahead_us: 0, was_set: false, booted_us: -1_000_000, boots: 1 },
            inbox: Vec::new(),
            batch: None,
            stepped_us: 0,
            failed: false,
            tick_queued: None,
        }
    }

    /// The same node, which writes a snapshot after so many records.
    pub fn with_snapshots(self, every: u64) -> Self {
        self.disk.set_snapshot_every(every);
        self
    }

    /// Does its process run?
    pub const fn is_up(&self) -> bool {
        self.core.is_some()
    }

    /// Is nothing on its way to the disk, so that core and shadow must agree?
    pub const fn is_settled(&self) -> bool {
        self.core.is_some() && self.batch.is_none() && !self.failed
    }

    /// Was the core told that there is no disk space for anything new (I17)?
    pub const fn is_low(&self) -> bool {
        self.room.is_low()
    }

    /// Every durable record, read back from the disk.
    pub fn records(&self) -> Vec<C::Record> {
        let bodies = self.disk.bodies();
        bodies.iter().map(|body| serde_json::from_str(body).expect("read back")).collect()
    }

    /// What the node's clocks show at a time of the world.
    pub fn now(&self, world_us: i64) -> Now {
        let wall = WALL_START.saturating_add(Span::from_us(world_us + self.clock.wall_ahead_us));
        Now { wall, boot: BootTime::from_us(world_us - self.clock.booted_us) }
    }

    /// The time of the world at a boot time of the node's machine.
    pub fn world_us(&self, boot: BootTime) -> i64 {
        boot.as_us().saturating_add(self.clock.booted_us)
    }

    /// When the core wants a tick, in the time of the world. `None` while the node is down or a batch is
    /// being synced.
    pub fn wants_tick_at(&self) -> Option<i64> {
        let wake = self.core.as_ref().filter(|_| self.batch.is_none())?.next_wake()?;
        Some(wake.as_us().saturating_add(self.clock.booted_us))
    }

    /// Puts an input into the node's inbox, unless the node is down.
    pub fn post(&mut self, input: C::Input) {
        if self.is_up() {
            self.inbox.push(input);
        }
    }

    /// Steps all inputs that wait, if the node is idle. Returns true when there is a batch to sync.
    pub fn begin(&mut self, world_us: i64) -> Result<bool, String> {
        let now = self.now(world_us);
        let core = self.core.as_mut().filter(|_| self.batch.is_none());
        let Some((core, log)) = core.zip(self.log.as_mut()) else {
            return Ok(false);
        };
        let news = news_of_room::<C, _>(log, &mut self.room);
        let news = news.map_err(|error| format!("{}: {error}", self.name))?;
        let taken = self.inbox.len().min(limits::GROUP_COMMIT_MAX);
        // Who has proven what is the business of shells; a world has none.
        let inputs = self.inbox.drain(..taken).map(|input| (input, Causer::Itself));
        let batch = step_all(core, news, inputs, now);
        if taken == 0 && core.next_wake().is_some_and(|wake| wake <= now.boot) {
            return Err(format!("{}: a tick leaves it waiting for a tick", self.name));
        }
        if batch.is_empty() {
            return Ok(false);
        }
        core.check_invariants().map_err(|error| format!("{}: {error}", self.name))?;
        self.batch = Some(batch);
        self.stepped_us = world_us;
        Ok(true)
    }

    /// The records that the next sync writes.
    pub fn next_records(&self) -> impl Iterator<Item = &C::Record> {
        self.batch.iter().flatten().flat_map(Unsynced::records)
    }

    /// The number of the next sync, among those that write; `None` when the next sync has nothing to write.
    pub fn next_write(&self) -> Option<u64> {
        let writes = self.batch.iter().flatten().any(|step| !step.records().is_empty());
        writes.then_some(self.writes + 1)
    }

    /// Syncs the current batch. `point` says where the node dies, if it does. The caller then ends the node;
    /// it also ends the node when the append has failed.
    pub fn finish(&mut self, point: Option<CrashPoint>) -> Result<Finished<C>, String> {
        let batch = self.batch.take().unwrap_or_default();
        let Some(log) = self.log.as_mut() else {
            return Err(format!("{}: it is down and has a batch", self.name));
        };
        let mut records: Vec<C::Record> =
            batch.iter().flat_map(|step| step.records().iter().cloned()).collect();
        if let Some(cut) = point.and_then(CrashPoint::cut) {
            self.disk.cut_after(0, cut);
        }
        self.writes += u64::from(!records.is_empty());
        let before = self.disk.records();
        let synced = sync(batch, log);
        // The disk says what is durable, not the code that wrote to it.
        records.truncate(self.disk.records() - before);
        for record in &records {
            let problem = |error| format!("{}: I12: its own log: {error}", self.name);
            self.shadow.apply(record).map_err(problem)?;
        }
        self.failed = synced.is_err() || !self.snapshot(point);
        let mut effects = synced.map(coalloc_protocol::Synced::into_effects).unwrap_or_default();
        if let Some(point) = point {
            effects.truncate(point.effects());
        }
        Ok(Finished { records, effects, failed: self.failed })
    }

    /// Writes a snapshot, if one is due or the node dies in one. Returns false when it is cut, so that the node ends.
    fn snapshot(&mut self, point: Option<CrashPoint>) -> bool {
        let Some((core, log)) = self.core.as_mut().zip(self.log.as_mut()) else { return true };
        match point.map(CrashPoint::snapshot_cut) {
            None => snapshot_if_due(core, log, self.room).is_ok(),
            Some(Some(cut)) => {
                self.disk.cut_after(0, cut);
                log.write_snapshot(&core.take_changed()).is_ok()
            }
            // It dies elsewhere, and earlier.
            Some(None) => true,
        }
    }

    /// I12: what a snapshot and the records after it give must be the fold of all records. `core` is what was just opened.
    fn check_snapshot(&self, core: &C) -> Result<(), String> {
        let Some((records, mut parts)) = self.disk.snapshot() else { return Ok(()) };
        let change = |parts: &mut BTreeMap<String, Vec<u8>>, core: &C| {
            for ChangedPart { key, part } in core.clone().take_changed() {
                match part.map(|part| coalloc_ledger::pack(&part).expect("packed before")) {
                    Some(part) => parts.insert(key, part),
                    None => parts.remove(&key),
                };
            }
        };
        change(&mut parts, core);
        let mut fold = BTreeMap::new();
        change(&mut fold, &self.shadow);
        let keys = parts.keys().chain(fold.keys());
        let wrong = keys.into_iter().find(|key| parts.get(*key) != fold.get(*key));
        wrong.map_or(Ok(()), |key| {
            let name = &self.name;
            Err(format!("I12: {name}: the snapshot at record {records} is not the fold: {key}"))
        })
    }

    /// Ends the process. What was not durable is lost, and a new life begins.
    pub fn crash(&mut self) {
        self.life += 1;
        self.core = None;
        self.log = None;
        self.room = DiskSpace::Enough;
        self.disk.crash();
        self.batch = None;
        self.failed = false;
        self.inbox.clear();
        self.tick_queued = None;
    }

    /// Starts a new process, after a reboot of the machine if `reboot` is set: replay, then `Start`.
    pub fn restart(&mut self, world_us: i64, reboot: bool) -> Result<(), String> {
        if self.is_up() {
            return Ok(());
        }
        if reboot {
            self.clock.booted_us = world_us - 1_000_000;
            self.clock.boots += 1;
        }
        let boot = format!("boot-{}", self.clock.boots);
        let (core, log) = self.open(&self.disk, &boot).map_err(|error| {
            let error = coalloc_ledger::chain_text(&error);
            format!("{}: I14: it does not start again: {error}", self.name)
        })?;
        self.check_snapshot(&core)?;
        (self.core, self.log) = (Some(core), Some(log));
        self.inbox.push((self.start)(boot));
        Ok(())
    }

    /// A core that has replayed what is on a disk, and its ledger.
    pub fn open(
        &self,
        disk: &SimulatedDisk,
        boot: &str,
    ) -> Result<(C, MemoryLedger<C::Record>), LedgerError> {
        let mut core = (self.make)(boot);
        let mut fold = CoreFold { core: &mut core, noticed: |_, _: &C::Record| {} };
        let log = MemoryLedger::open_into(disk, &mut fold)?;
        Ok((core, log))
    }

    /// Starts a core on a copy of the disk with a damaged record. The start must be refused, and the error
    /// must name the record (I15).
    pub fn start_damaged(&self, record: usize, damage: Damage) -> Result<(), String> {
        let copy = self.disk.copy();
        copy.damage(record, damage);
        let found = match self.open(&copy, "boot") {
            Err(LedgerError::ChainBroken { sequence, .. }) if sequence == record as u64 + 1 => {
                return Ok(());
            }
            Err(error) => coalloc_ledger::chain_text(&error),
            Ok(_) => "it starts".to_owned(),
        };
        Err(format!("I15: {}: record {} is damaged ({damage:?}): {found}", self.name, record + 1))
    }

    /// Puts the disk back to its state after so many records (F11). The node must be down.
    pub fn restore(&mut self, records: usize) -> Result<(), String> {
        self.disk.restore(records);
        self.shadow = (self.make)("boot-1");
        for record in self.records() {
            let problem = |error| format!("{}: I14: a shorter log: {error}", self.name);
            self.shadow.apply(&record).map_err(problem)?;
        }
        Ok(())
    }
}
