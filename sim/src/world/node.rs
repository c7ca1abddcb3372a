//! One node: a core, its durable log, its clocks, and the shell's batch between step and send.
//!
//! A batch is what the ledger's owner does: a tick if it is due, every input that waits, one sync,
//! then the effects. A crash may come at any of these places. Beside the core runs its shadow, the
//! fold of what is durable: the two must agree whenever nothing is on its way to the disk (I12, I14).

use std::convert::Infallible;
use std::fmt::Debug;

use coalloc_common::{BootTime, Now, Span, Time};
use coalloc_protocol::{Core, Log, Unsynced, sync};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The wall clock of the world at its beginning: 2026-11-21T10:00:00Z.
pub const WALL_START: Time = Time::from_us(1_795_255_200_000_000);

/// What a record has to be, to be kept as the ledger keeps it.
pub trait Record: Serialize + DeserializeOwned + PartialEq + Debug + Clone {}
impl<T: Serialize + DeserializeOwned + PartialEq + Debug + Clone> Record for T {}

/// A disk that keeps every appended record as JSON.
pub struct MemoryLog<R> {
    lines: Vec<String>,
    /// Appended since somebody last looked.
    fresh: Vec<R>,
}

impl<R: Record> MemoryLog<R> {
    /// Everything on the disk, read back.
    pub fn records(&self) -> Vec<R> {
        self.lines.iter().map(|line| serde_json::from_str(line).expect("read back")).collect()
    }
}

impl<R: Record> Log for MemoryLog<R> {
    type Record = R;
    type Error = Infallible;

    fn append(&mut self, records: &[&R]) -> Result<(), Infallible> {
        for record in records {
            let line = serde_json::to_string(record).expect("a record has a JSON form");
            let again: R = serde_json::from_str(&line).expect("its JSON form is read back");
            assert_eq!(again, **record, "a record is read back as it was written");
            self.lines.push(line);
            self.fresh.push(again);
        }
        Ok(())
    }
}

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

/// Where a crash falls, seen from the batch in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// Records and effects are lost.
    BeforeSync,
    /// The records are durable; only so many effects left.
    AfterSync(usize),
}

/// A batch that has become durable: what was written, and what may be said.
type Finished<C> = (Vec<<C as Core>::Record>, Vec<<C as Core>::Effect>);

pub struct Node<C: Core> {
    pub name: String,
    /// For a machine in this boot.
    make: Box<dyn Fn(&str) -> C>,
    start: fn(String) -> C::Input,
    /// `None` while it is down.
    pub core: Option<C>,
    /// The fold of its log.
    pub shadow: C,
    pub log: MemoryLog<C::Record>,
    /// Counts its lives: what belongs to an earlier one is void.
    pub life: u64,
    pub clock: Clock,
    inbox: Vec<C::Input>,
    batch: Option<Vec<Unsynced<C::Record, C::Effect>>>,
    /// The earliest tick that is in the queue of the world.
    pub tick_queued: Option<i64>,
}

impl<C: Core> Node<C>
where
    C::Record: Record,
{
    /// A node that is down and has an empty log.
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
            log: MemoryLog { lines: Vec::new(), fresh: Vec::new() },
            life: 0,
            clock: Clock { wall_ahead_us: 0, was_set: false, booted_us: -1_000_000, boots: 1 },
            inbox: Vec::new(),
            batch: None,
            tick_queued: None,
        }
    }

    pub const fn is_up(&self) -> bool {
        self.core.is_some()
    }

    /// Is nothing on its way to the disk, so that core and shadow must agree?
    pub const fn is_settled(&self) -> bool {
        self.core.is_some() && self.batch.is_none()
    }

    fn now(&self, world_us: i64) -> Now {
        let wall = WALL_START.saturating_add(Span::from_us(world_us + self.clock.wall_ahead_us));
        Now { wall, boot: BootTime::from_us(world_us - self.clock.booted_us) }
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
        let Some(core) = self.core.as_mut().filter(|_| self.batch.is_none()) else {
            return Ok(false);
        };
        let mut batch = Vec::new();
        if core.next_wake().is_some_and(|wake| wake <= now.boot) {
            batch.push(core.step(C::tick(), now));
            if core.next_wake().is_some_and(|wake| wake <= now.boot) {
                return Err(format!("{}: a tick leaves it waiting for a tick", self.name));
            }
        }
        for input in self.inbox.drain(..) {
            batch.push(core.step(input, now));
        }
        core.check_invariants().map_err(|error| format!("{}: {error}", self.name))?;
        let any = !batch.is_empty();
        self.batch = any.then_some(batch);
        Ok(any)
    }

    /// Has the batch in hand anything to write?
    pub fn batch_writes(&self) -> bool {
        self.batch.iter().flatten().any(|step| !step.records().is_empty())
    }

    /// Syncs the batch in hand.
    pub fn finish(&mut self) -> Result<Finished<C>, String> {
        let batch = self.batch.take().unwrap_or_default();
        let Ok(synced) = sync(batch, &mut self.log);
        let records: Vec<C::Record> = self.log.fresh.drain(..).collect();
        for record in &records {
            let problem = |error| format!("{}: I12: its own log: {error}", self.name);
            self.shadow.apply(record).map_err(problem)?;
        }
        Ok((records, synced.into_effects()))
    }

    pub fn crash(&mut self) {
        self.life += 1;
        self.core = None;
        self.batch = None;
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
        let mut core = (self.make)(&boot);
        for record in self.log.records() {
            let problem = |error| format!("{}: I14: replay: {error}", self.name);
            core.apply(&record).map_err(problem)?;
        }
        self.core = Some(core);
        self.inbox.push((self.start)(boot));
        Ok(())
    }
}
