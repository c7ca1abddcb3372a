//! One node: a core, its ledger on a disk, its clocks, and the shell's batch between step and send.
//!
//! A batch is what the ledger's owner does, by the owner's own code: a tick if it is due, every input
//! that waits, one sync, then the effects. A node may die at any of these places ([`CrashPoint`]), and
//! what is then on the disk is for the disk to say. Beside the core runs its shadow, the fold of what is
//! durable: the two must agree whenever nothing is on its way to the disk (I12, I14).

use std::fmt::Debug;

use coalloc_common::{BootTime, DiskSpace, Now, Span, Time, limits};
use coalloc_ledger::{
    AppendFault, Damage, LedgerError, MemoryLedger, SimulatedDisk, news_of_room, step_all,
};
use coalloc_protocol::{Core, Unsynced, sync};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The wall clock of the world at its beginning: 2026-11-21T10:00:00Z.
pub const WALL_START: Time = Time::from_us(1_795_255_200_000_000);

/// What a record has to be, to be kept as the ledger keeps it.
pub trait Record: Serialize + DeserializeOwned + PartialEq + Debug + Clone {}
impl<T: Serialize + DeserializeOwned + PartialEq + Debug + Clone> Record for T {}

/// The two clocks of a machine, against the time of the world.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// How far its wall clock is ahead of the world's.
    pub wall_ahead_us: i64,
    /// Somebody has set it.
    pub was_set: bool,
    /// When its machine was booted.
    booted_us: i64,
    /// How often.
    boots: u32,
}

/// Where a node dies, seen from the batch in hand: at every durability point before and after write,
/// fsync and send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPoint {
    /// Nothing of the batch is written.
    BeforeWrite,
    /// All of it is written, and not durable: this much survives.
    BeforeFsync(DiskSurvival),
    /// It is durable, and no effect has left.
    AfterFsync,
    /// It is durable, and so many effects have left.
    AfterEffects(usize),
}

/// What a disk has after a crash of what was written and not yet durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskSurvival {
    /// Nothing.
    Nothing,
    /// A part without its end, which the next opening rolls back.
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
            Self::AfterEffects(_) => None,
        }
    }

    /// Effects that leave before it, when the append has not failed; after one that has, none does.
    const fn effects(self) -> usize {
        match self {
            Self::AfterEffects(count) => count,
            _ => usize::MAX,
        }
    }
}

/// A batch after its sync: what is durable of it, and what leaves the node.
pub struct Finished<C: Core> {
    pub records: Vec<C::Record>,
    pub effects: Vec<C::Effect>,
    /// The append failed: the node has to end, and says nothing (I16).
    pub failed: bool,
}

pub struct Node<C: Core> {
    pub name: String,
    /// For a machine in this boot.
    make: Box<dyn Fn(&str) -> C>,
    start: fn(String) -> C::Input,
    /// `None` while it is down.
    pub core: Option<C>,
    /// The fold of what is durable.
    pub shadow: C,
    /// It outlives the process.
    pub disk: SimulatedDisk,
    log: Option<MemoryLedger<C::Record>>,
    /// What the core was told of it.
    room: DiskSpace,
    /// Syncs that had something to write, over all its lives.
    pub writes: u64,
    /// Counts its lives: what belongs to an earlier one is void.
    pub life: u64,
    pub clock: Clock,
    inbox: Vec<C::Input>,
    batch: Option<Vec<Unsynced<C::Record, C::Effect>>>,
    /// When the records of the last batch were made, in the time of the world. They may become durable
    /// much later: a disk takes its time, and a process that is stopped before its sync goes on with it.
    pub stepped_us: i64,
    /// An append has failed: its process is ending.
    failed: bool,
    /// The earliest tick that is in the queue of the world.
    pub tick_queued: Option<i64>,
}

impl<C: Core> Node<C>
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

    pub const fn is_up(&self) -> bool {
        self.core.is_some()
    }

    /// Is nothing on its way to the disk, so that core and shadow must agree?
    pub const fn is_settled(&self) -> bool {
        self.core.is_some() && self.batch.is_none() && !self.failed
    }

    /// Was its core told that there is no room for anything new (I17)?
    pub const fn is_low(&self) -> bool {
        self.room.is_low()
    }

    /// Every durable record, read back.
    pub fn records(&self) -> Vec<C::Record> {
        let bodies = self.disk.bodies();
        bodies.iter().map(|body| serde_json::from_str(body).expect("read back")).collect()
    }

    /// Its clocks, at a time of the world.
    pub fn now(&self, world_us: i64) -> Now {
        let wall = WALL_START.saturating_add(Span::from_us(world_us + self.clock.wall_ahead_us));
        Now { wall, boot: BootTime::from_us(world_us - self.clock.booted_us) }
    }

    /// The time of the world at an instant of its machine.
    pub fn world_us(&self, boot: BootTime) -> i64 {
        boot.as_us().saturating_add(self.clock.booted_us)
    }

    /// When it wants a tick, in the time of the world.
    pub fn wants_tick_at(&self) -> Option<i64> {
        let wake = self.core.as_ref().filter(|_| self.batch.is_none())?.next_wake()?;
        Some(wake.as_us().saturating_add(self.clock.booted_us))
    }

    /// Gives it an input, unless it is down.
    pub fn post(&mut self, input: C::Input) {
        if self.is_up() {
            self.inbox.push(input);
        }
    }

    /// Steps all that waits, if it is idle. True when there is now a batch to sync.
    pub fn begin(&mut self, world_us: i64) -> Result<bool, String> {
        let now = self.now(world_us);
        let core = self.core.as_mut().filter(|_| self.batch.is_none());
        let Some((core, log)) = core.zip(self.log.as_mut()) else {
            return Ok(false);
        };
        let news = news_of_room::<C, _>(log, &mut self.room);
        let news = news.map_err(|error| format!("{}: {error}", self.name))?;
        let taken = self.inbox.len().min(limits::GROUP_COMMIT_MAX);
        let batch = step_all(core, news, self.inbox.drain(..taken), now);
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

    /// What the sync that comes now writes.
    pub fn next_records(&self) -> impl Iterator<Item = &C::Record> {
        self.batch.iter().flatten().flat_map(Unsynced::records)
    }

    /// The number of the sync that comes now, of those that write; `None` when it has nothing to write.
    pub fn next_write(&self) -> Option<u64> {
        let writes = self.batch.iter().flatten().any(|step| !step.records().is_empty());
        writes.then_some(self.writes + 1)
    }

    /// Syncs the batch in hand. A node that dies here is given the point; its caller ends it then, and
    /// also when the append has failed.
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
        // What is durable the disk says, not the code that wrote to it.
        records.truncate(self.disk.records() - before);
        for record in &records {
            let problem = |error| format!("{}: I12: its own log: {error}", self.name);
            self.shadow.apply(record).map_err(problem)?;
        }
        self.failed = synced.is_err();
        let mut effects = synced.map(coalloc_protocol::Synced::into_effects).unwrap_or_default();
        if let Some(point) = point {
            effects.truncate(point.effects());
        }
        Ok(Finished { records, effects, failed: self.failed })
    }

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

    /// A new process, after a reboot of the machine if so said: replay, then `Start`.
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
        (self.core, self.log) = (Some(core), Some(log));
        self.inbox.push((self.start)(boot));
        Ok(())
    }

    /// A core that has replayed what is on a disk.
    pub fn open(
        &self,
        disk: &SimulatedDisk,
        boot: &str,
    ) -> Result<(C, MemoryLedger<C::Record>), LedgerError> {
        let mut core = (self.make)(boot);
        let log = MemoryLedger::open(disk, |_, record| core.apply(&record))?;
        Ok((core, log))
    }

    /// A start on a copy of the disk with a damaged record: it must be refused, and name it (I15).
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

    /// The disk is as it was after so many records (F11). The node must be down.
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
