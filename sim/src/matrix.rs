//! The crash matrix: runs of scripted worlds in which a node dies at every durability point, and at every
//! pair of durability points.
//!
//! A [`Scenario`] is a small federation and a script of what happens to it, without random faults. A dry run
//! lists its syncs that write, so nobody lists them by hand. The run is then repeated for every sync and
//! every place within it at which a node may die: before the write; before the fsync, where nothing, a part
//! or all of the write survives; after the fsync; and after each message and reply that leaves. Each of these
//! runs is then repeated with a second death, at every such place of any node that the run reaches after the
//! first death. Each run goes on until the world is at rest. Checked are every invariant after every event,
//! the auditor, and what users were told.
//!
//! Places that leave the same data on the disk and have sent the same messages are equivalent, and only one
//! of them is paired with other deaths. A write that is lost before the fsync equals no write. A write that
//! survives in full, by luck, equals a completed fsync.
//!
//! Left out: random events, which [`fault`](crate::fault) has, and a third death. Modelled on omicron's
//! `action_failure_can_unwind`.

pub mod scenarios;

use std::collections::BTreeMap;

use coalloc_protocol::coordinator::{ChangeState, State};

use crate::world::node::{CrashPoint, DiskSurvival};
use crate::world::script::{Script, Sync};
use crate::world::{Address, Trace, World};

/// A federation and the script of what happens to it.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// The name of the scenario in the table.
    pub name: &'static str,
    /// A short description of what the scenario shows.
    pub what: &'static str,
    /// The nodes, demands and changes, in the commands of [`story`](crate::story).
    pub nodes: &'static [&'static str],
    /// The timed acts of the script, for example `1s reserve r1` or `1015ms cut grc -> crm-B`.
    pub acts: &'static str,
    /// Nodes die only from this instant on, in milliseconds.
    pub from_ms: i64,
}

/// How long a node that has died stays down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DownTime {
    /// One second: the process is back before any timeout ends.
    Short,
    /// 20 seconds, which is longer than every timeout, and the machine is rebooted.
    Long,
}

impl DownTime {
    /// Both down times.
    pub const ALL: [Self; 2] = [Self::Short, Self::Long];

    const fn script(self) -> Script {
        let (down_us, reboot) = match self {
            Self::Short => (1_000_000, false),
            Self::Long => (20_000_000, true),
        };
        Script { down_us, reboot, syncs: Vec::new() }
    }
}

/// The death of a node at one place of one sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// The sync at which the node dies.
    pub sync: Sync,
    /// The place within the sync.
    pub point: CrashPoint,
    /// Number of syncs that precede this one in the run.
    before: usize,
}

/// The final result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Whatever the user asked for last was done: confirmed, changed, or released.
    Done,
    /// A definite refusal: nothing is held, or, for a change, the old version is intact.
    Refused,
    /// A recorded mixed outcome: everything that was booked is released, and the user was told so.
    Mixed,
}

/// A run that came to rest and passed all checks.
#[derive(Debug)]
pub struct SettledRun {
    /// Every sync that wrote, in order, from [`Scenario::from_ms`] on.
    pub syncs: Vec<Sync>,
    /// The result of the run.
    pub outcome: Outcome,
}

/// Every scenario must be at rest by then: it is longer than the longest hold and all timeouts.
const REST_US: i64 = 1_500 * 1_000_000;

impl Scenario {
    /// Runs the scenario with these deaths.
    ///
    /// # Errors
    /// The check that failed.
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
            return Err(format!("it never reached {:?}", world.crash_at));
        }
        if !world.is_quiet() {
            return Err(format!("I22: not at rest in time: {}", world.why_not_quiet()));
        }
        world.check_rest()?;
        world.run_until(REST_US)?;
        world.check_rest().map_err(|error| format!("after the last packet: {error}"))?;
        let outcome = outcome(&world)?;
        let syncs = world.script.map(|script| script.syncs).unwrap_or_default();
        let from_us = self.from_ms * 1_000;
        Ok(SettledRun {
            syncs: syncs.into_iter().filter(|sync| sync.at_us >= from_us).collect(),
            outcome,
        })
    }

    /// The role of a node in this scenario, as the table prints it.
    pub fn role(&self, node: Address) -> &'static str {
        let is_tree = self.nodes.iter().any(|lines| lines.contains("\nlower "));
        match node {
            Address::Rm(_) => "RM",
            Address::Grc(0) if is_tree => "parent GRC",
            Address::Grc(0) => "GRC",
            Address::Grc(_) => "child GRC",
        }
    }

    /// Every first death of this scenario: one for each place of each sync of the dry run.
    ///
    /// # Errors
    /// The check that failed in the dry run.
    pub fn crashes(&self, down: DownTime) -> Result<Vec<Crash>, String> {
        Ok(places(&self.run(down, &[], Trace::Off)?.syncs, 0).collect())
    }

    /// Every second death that may follow this first one, without those that are equivalent to others.
    ///
    /// # Errors
    /// The check that failed with the first death alone.
    pub fn seconds(&self, down: DownTime, first: &Crash) -> Result<Vec<Crash>, String> {
        Ok(seconds(&self.run(down, &[first], Trace::Off)?, first).collect())
    }

    /// The row of the table for one first death: alone and, unless it is equivalent to another one, with
    /// every second death.
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

/// The second deaths that may follow `first` in a run that had it.
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

/// Every place at which a node may die in one of these syncs. The first `skipped` syncs are left out.
fn places(syncs: &[Sync], skipped: usize) -> impl Iterator<Item = Crash> {
    syncs.iter().enumerate().skip(skipped).flat_map(|(before, sync)| {
        let unsynced = [DiskSurvival::Nothing, DiskSurvival::Part, DiskSurvival::All];
        let points = [CrashPoint::BeforeWrite]
            .into_iter()
            .chain(unsynced.map(CrashPoint::BeforeFsync))
            .chain([CrashPoint::AfterFsync])
            .chain((1..=sync.effects).map(CrashPoint::AfterEffects))
            .chain(unsynced.map(CrashPoint::InSnapshot));
        points.map(move |point| Crash { sync: sync.clone(), point, before })
    })
}

/// Is this place the one that stands for its equivalents? A death in a snapshot leaves what a death after all effects leaves,
/// and nodes begin with snapshots in all runs, so pairs do without it.
const fn is_paired(point: CrashPoint) -> bool {
    !matches!(
        point,
        CrashPoint::BeforeFsync(DiskSurvival::Nothing | DiskSurvival::All)
            | CrashPoint::InSnapshot(_)
    )
}

fn outcome(world: &World) -> Result<Outcome, String> {
    if world.counts.mixed > 0 {
        return Ok(Outcome::Mixed);
    }
    let demand = &world.clients.demands[0];
    if let Some(wanted) = demand.follow.first() {
        return world.has_booked(0, wanted).map(|has| match has {
            true => Outcome::Done,
            false => Outcome::Refused,
        });
    }
    if let Some(wish) = demand.changes.first() {
        return match wish.outcome {
            Some(ChangeState::Done) => Ok(Outcome::Done),
            Some(ChangeState::Refused) => Ok(Outcome::Refused),
            // The reservation was released before the change was recorded.
            None if demand.outcome == Some(State::Terminated) => Ok(Outcome::Refused),
            other => Err(format!("its user was told {other:?} about change {}", wish.id)),
        };
    }
    match demand.outcome {
        Some(State::Confirmed | State::Terminated) => Ok(Outcome::Done),
        Some(State::Failed) => Ok(Outcome::Refused),
        other => Err(format!("its user was told {other:?}")),
    }
}

/// The results of a set of deaths.
#[derive(Debug, Default)]
pub struct Row {
    /// Number of runs with one death.
    pub singles: u64,
    /// Number of runs with two deaths.
    pub pairs: u64,
    /// How many runs had each outcome.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Descriptions of the runs that failed a check or did not come to rest.
    pub failed: Vec<String>,
}

impl Row {
    fn add(&mut self, outcome: Outcome) {
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    /// Adds the results of another row.
    pub fn merge(&mut self, other: Self) {
        self.singles += other.singles;
        self.pairs += other.pairs;
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        self.failed.extend(other.failed);
    }
}
