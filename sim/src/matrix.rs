//! The crash matrix: every durability point of every scripted run, and every pair of them.
//!
//! A [`Scenario`] is a small federation and what happens to it, by a script without weather. A dry run
//! lists its syncs that write; none is listed by hand. Then the run is made again for every sync and every
//! place within it where a node may die: before the write, before the fsync with nothing, a part or all of
//! it surviving, after the fsync, and after each message and reply that leaves. After each of these runs
//! come those with a second death, at every such place of any node that the run reaches after the first.
//! Each run goes on to its rest: every invariant after every event, the auditor, and what users were told.
//!
//! Of places that leave the same disk and have said the same, one is paired: what was written and is lost
//! before the fsync is not there, what survives by luck is as after it.
//!
//! Left out: chance, which [`fault`](crate::fault) has, and three deaths. After omicron's
//! `action_failure_can_unwind`.

pub mod scenarios;

use std::collections::BTreeMap;

use coalloc_protocol::coordinator::{ChangeState, State};

use crate::world::node::{CrashPoint, DiskSurvival};
use crate::world::script::{Script, Sync};
use crate::world::{Address, Trace, World};

/// A federation and what happens to it.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name in the table.
    pub name: &'static str,
    /// What it shows.
    pub what: &'static str,
    /// Nodes, demands and changes, in the words of [`story`](crate::story).
    pub nodes: &'static [&'static str],
    /// What happens when: `1s reserve r1`, `1015ms cut grc -> crm-B`.
    pub acts: &'static str,
    /// Nodes die from here on.
    pub from_ms: i64,
}

/// How long a node is down that has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DownTime {
    /// A second: the process comes back before anybody's patience is over.
    Short,
    /// Longer than every patience, and the machine has been booted anew.
    Long,
}

impl DownTime {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Short, Self::Long];

    const fn script(self) -> Script {
        let (down_us, reboot) = match self {
            Self::Short => (1_000_000, false),
            Self::Long => (20_000_000, true),
        };
        Script { down_us, reboot, syncs: Vec::new() }
    }
}

/// A death.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// Whose, and where in the table it stands.
    pub sync: Sync,
    /// Where in the sync.
    pub point: CrashPoint,
    /// So many syncs are over when it comes.
    before: usize,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Confirmed, changed, or released: whatever was asked for last.
    Done,
    /// Nothing, for certain: nothing is held; of a change, the old version is whole.
    Refused,
    /// A recorded mixed outcome: all that was booked is released, and the user was told so.
    Mixed,
}

/// A run that has come to rest as it should.
#[derive(Debug)]
pub struct SettledRun {
    /// Every sync that wrote, in order, from the scenario's first act on.
    pub syncs: Vec<Sync>,
    /// What it came to.
    pub outcome: Outcome,
}

/// Every scenario must be at rest by then: the longest hold of any of them, and every patience.
const REST_US: i64 = 1_500 * 1_000_000;

impl Scenario {
    /// Runs it with these deaths.
    ///
    /// # Errors
    /// What did not hold.
    pub fn run(
        &self,
        down: DownTime,
        crashes: &[&Crash],
        trace: Trace,
    ) -> Result<SettledRun, String> {
        let mut world = World::new(0, trace);
        world.script = Some(down.script());
        let mut world = scenarios::set_up(self, world)?;
        for crash in crashes {
            world.crash_at.insert((crash.sync.node, crash.sync.number), crash.point);
        }
        while !(world.is_idle() && world.is_quiet() && world.crash_at.is_empty()) {
            if world.next_at().is_none_or(|at| at > REST_US) {
                break;
            }
            world.step()?;
        }
        if !world.crash_at.is_empty() {
            return Err(format!("it never came to {:?}", world.crash_at));
        }
        if !world.is_quiet() {
            return Err(format!("I22: not at rest in time: {}", world.why_not_quiet()));
        }
        world.check_rest()?;
        while world.step()? {}
        world.check_rest().map_err(|error| format!("after the last packet: {error}"))?;
        let outcome = outcome(&world)?;
        let syncs = world.script.map(|script| script.syncs).unwrap_or_default();
        let from_us = self.from_ms * 1_000;
        Ok(SettledRun {
            syncs: syncs.into_iter().filter(|sync| sync.at_us >= from_us).collect(),
            outcome,
        })
    }

    /// The role of a node in this scenario.
    pub fn role(&self, node: Address) -> &'static str {
        let is_tree = self.nodes.iter().any(|lines| lines.contains("\nlower "));
        match node {
            Address::Rm(_) => "RM",
            Address::Grc(0) if is_tree => "GRC above",
            Address::Grc(0) => "GRC",
            Address::Grc(_) => "GRC below",
        }
    }

    /// One death after the other: what comes of each, alone and followed by every second one.
    ///
    /// # Errors
    /// The dry run's.
    pub fn crashes(&self, down: DownTime) -> Result<Vec<Crash>, String> {
        Ok(places(&self.run(down, &[], Trace::Off)?.syncs, 0).collect())
    }

    /// Every death that a run may come to after this one, of those that are paired.
    ///
    /// # Errors
    /// What did not hold after the first alone.
    pub fn seconds(&self, down: DownTime, first: &Crash) -> Result<Vec<Crash>, String> {
        Ok(seconds(&self.run(down, &[first], Trace::Off)?, first).collect())
    }

    /// The row of one death: alone, and where it is paired with every second one.
    pub fn try_crash(&self, down: DownTime, first: &Crash) -> Row {
        let mut row = Row { singles: 1, ..Row::default() };
        let name = format!("{self}{down:?} {first}");
        let ran = match self.run(down, &[first], Trace::Off) {
            Ok(ran) => ran,
            Err(error) => {
                row.failed.push(format!("{name}: {error}"));
                return row;
            }
        };
        row.add(ran.outcome);
        for second in seconds(&ran, first).filter(|_| is_paired(first.point)) {
            row.pairs += 1;
            match self.run(down, &[first, &second], Trace::Off) {
                Ok(ran) => row.add(ran.outcome),
                Err(error) => row.failed.push(format!("{name}, then {second}: {error}")),
            }
        }
        row
    }
}

/// What a run that had a first death comes to afterwards.
fn seconds(ran: &SettledRun, first: &Crash) -> impl Iterator<Item = Crash> {
    let dead = (first.sync.node, first.sync.number);
    places(&ran.syncs, first.before).filter(move |second| {
        is_paired(second.point) && (second.sync.node, second.sync.number) != dead
    })
}

impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.name)
    }
}

impl std::fmt::Display for Crash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sync { node, number, point, .. } = &self.sync;
        write!(f, "{node:?} #{number} ({point}) {:?}", self.point)
    }
}

/// Every place at which a node may die in one of these syncs, without the first of them.
fn places(syncs: &[Sync], skipped: usize) -> impl Iterator<Item = Crash> {
    syncs.iter().enumerate().skip(skipped).flat_map(|(before, sync)| {
        let unsynced = [DiskSurvival::Nothing, DiskSurvival::Part, DiskSurvival::All];
        let points = [CrashPoint::BeforeWrite]
            .into_iter()
            .chain(unsynced.map(CrashPoint::BeforeFsync))
            .chain([CrashPoint::AfterFsync])
            .chain((1..=sync.effects).map(CrashPoint::AfterEffects));
        points.map(move |point| Crash { sync: sync.clone(), point, before })
    })
}

/// Is it not the same as another?
const fn is_paired(point: CrashPoint) -> bool {
    !matches!(point, CrashPoint::BeforeFsync(DiskSurvival::Nothing | DiskSurvival::All))
}

fn outcome(world: &World) -> Result<Outcome, String> {
    if world.counts.mixed > 0 {
        return Ok(Outcome::Mixed);
    }
    let demand = &world.clients.demands[0];
    if let Some(wish) = demand.changes.first() {
        return match wish.outcome {
            Some(ChangeState::Done) => Ok(Outcome::Done),
            Some(ChangeState::Refused) => Ok(Outcome::Refused),
            // Released before the change was ever there.
            None if demand.outcome == Some(State::Terminated) => Ok(Outcome::Refused),
            other => Err(format!("its user was told {other:?} of change {}", wish.id)),
        };
    }
    match demand.outcome {
        Some(State::Confirmed | State::Terminated) => Ok(Outcome::Done),
        Some(State::Failed) => Ok(Outcome::Refused),
        other => Err(format!("its user was told {other:?}")),
    }
}

/// What came of deaths.
#[derive(Debug, Default)]
pub struct Row {
    /// Runs with one.
    pub singles: u64,
    /// Runs with a second one after it.
    pub pairs: u64,
    /// What they came to.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Those that did not come to rest as they should.
    pub failed: Vec<String>,
}

impl Row {
    fn add(&mut self, outcome: Outcome) {
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: Self) {
        self.singles += other.singles;
        self.pairs += other.pairs;
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        self.failed.extend(other.failed);
    }
}
