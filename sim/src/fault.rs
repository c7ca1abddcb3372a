//! Random worlds with faults: every seed is a federation, its users, its fault rates and its accidents.
//!
//! Faults happen for a while (F1 to F15), then they stop, and the world must come to rest within a bound
//! (I22). `world/check.rs` says what must hold, and `world/exempt.rs` what is left out of it. The checks run
//! after every event, and twice at rest: when all is quiet, and again when every packet that was still in
//! flight has arrived.
//!
//! ```text
//! coalloc sim fault --seeds 1000          the ordinary run
//! coalloc sim fault --seed 17 --log       one seed, with its transcript
//! ```
//!
//! One seed decides everything: the kind of world ([`Kind`]), what is proven of who sends a message, [`topology`],
//! [`workload`], [`workflows`], [`accidents`], and, from the same random stream, what happens to every packet.
//! Seeds that found something are kept in [`corpus`].

mod accidents;
pub mod corpus;
mod retention;
mod topology;
mod workflows;
mod workload;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use coalloc_common::limits;

use crate::world::network::FaultRates;
pub use crate::world::{Counts, Fault};
use crate::world::{Trace, World};

/// The version of this generator. Raise it with every change after which a seed makes another world: a change
/// of [`topology`], [`workload`], [`workflows`] or [`accidents`], or of where the world draws random numbers. Version 1 was
/// the generator of `cargo test` alone. Version 4 has long worlds, reasons and configurations that change,
/// ledgers that are made anew, and meddlers. Version 5 has by-server sites. Version 6 has
/// workflows. Version 7 has identities, and rogues with a stolen key. Version 8
/// has RMs that forget, snapshots that are cut off, and more configurations that change. Version 9 has RMs with
/// equipment in every third world. Version 10 has RMs that tell of it, and records of usage. Version 11 has devices of which parts cannot be used. Version 12
/// has reservations that are not provisioned. An entry of the [`corpus`]
/// stays under the version that found it, because its seed means another world under any other version. So raising the
/// version ends the replay of all entries before it.
pub const GENERATOR: u32 = 12;

/// What kind of world a seed makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Coordinators side by side, and RMs.
    Flat,
    /// Two or three levels of coordinators.
    Tree,
    /// Flat or a tree; most reservations are held at one RM after the other.
    Turns,
    /// Coordinators side by side, RMs of sites and of paths, and users with workflows.
    Workflows,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Flat, Self::Tree, Self::Turns, Self::Workflows];

    /// The kind that a seed decides.
    #[must_use]
    pub const fn of(seed: u64) -> Self {
        match seed % 4 {
            0 => Self::Workflows,
            1 => Self::Flat,
            2 => Self::Tree,
            _ => Self::Turns,
        }
    }

    /// The name of the kind in commands: `flat`, `tree`, `turns` or `workflows`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Tree => "tree",
            Self::Turns => "turns",
            Self::Workflows => "workflows",
        }
    }
}

/// What is proven in a world of who sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// Nothing: all messages come in plain text, and none is judged.
    PlainText,
    /// The identity of every sender.
    Identities,
    /// The same, but a rogue has the key of one coordinator (F14).
    StolenKey,
}

impl Proof {
    /// What a seed decides: three worlds in four have identities, and one in three of those has a rogue. No random
    /// number is drawn for it, so a world is otherwise the same with and without identities.
    const fn of(seed: u64) -> Self {
        match seed / 16 % 4 {
            0 => Self::PlainText,
            1 => Self::StolenKey,
            _ => Self::Identities,
        }
    }
}

/// A check that failed in the world of a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed of the world.
    pub seed: u64,
    /// The kind of the world, when the caller set it; `None` when the seed decided it.
    pub kind: Option<Kind>,
    /// Simulated time of the failure, in microseconds.
    pub at_us: i64,
    /// What failed, with the number of the invariant.
    pub what: String,
}

impl Failure {
    /// The command that replays the run with its transcript.
    #[must_use]
    pub fn replay(&self) -> String {
        let kind = self.kind.map(|kind| format!(" --kind {}", kind.name())).unwrap_or_default();
        format!("coalloc sim fault --seed {}{kind} --log", self.seed)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (s, ms) = (self.at_us / 1_000_000, self.at_us / 1_000 % 1_000);
        write!(f, "seed {}: at {s}.{ms:03} s: {}", self.seed, self.what)
    }
}

impl std::error::Error for Failure {}

/// Runs one seed, which decides everything. A panic is a failure like any other. `print` writes the
/// transcript to standard error.
///
/// # Errors
/// The check that failed.
pub fn run(seed: u64, print: bool) -> Result<Counts, Failure> {
    let trace = if print { Trace::Print } else { Trace::Off };
    run_kind(None, seed, trace)
}

/// Runs one seed as a world of the given kind; `None` leaves the kind to the seed.
///
/// # Errors
/// The check that failed.
pub fn run_kind(kind: Option<Kind>, seed: u64, trace: Trace) -> Result<Counts, Failure> {
    let proof = Proof::of(seed);
    run_with(kind, proof, seed, trace)
}

fn run_with(kind: Option<Kind>, proof: Proof, seed: u64, trace: Trace) -> Result<Counts, Failure> {
    // The world is outside the closure, so that its time is known even after a panic.
    let mut world = World::new(seed, trace);
    let run = || live(&mut world, kind.unwrap_or(Kind::of(seed)), proof, seed);
    let end = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    let at_us = world.now_us;
    match end {
        Ok(()) => Ok(Counts { simulated_us: at_us.unsigned_abs(), ..world.counts }),
        Err(what) => Err(Failure { seed, kind, at_us, what }),
    }
}

/// Runs one seed and keeps its transcript, also when the run fails.
pub fn run_logged(kind: Option<Kind>, seed: u64) -> (Vec<String>, Result<Counts, Failure>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let end = run_kind(kind, seed, Trace::Share(Arc::clone(&log)));
    let lines = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    (lines, end)
}

const SECOND: i64 = 1_000_000;

/// How many worlds in a thousand are long.
const LONG: u64 = 120;
/// Until when faults happen in long worlds, in microseconds. As much happens as in other worlds, but nodes
/// are down and directions are cut for longer than any hold lasts.
const LONG_US: i64 = 2_400 * SECOND;
/// A node that is down when faults stop is back within this time.
const BACK_US: i64 = 60 * SECOND;
/// How long a world may take to come to rest after faults have stopped: restarts that are under way, then for
/// every attempt two timeouts and the longest backoff, all of it twice.
const REST_US: i64 = 240 * SECOND;
/// The same where nobody may be able to decide, so that holds end only by their expiry: a ledger that knows
/// of them is gone (F11), or is that of a coordinator with the same name (F10), or an RM has answered falsely
/// (F7), or a rogue has held in a coordinator's name (F14). The last of these holds begins when the last late Hold
/// arrives, which may be long after faults have stopped.
const REST_UNDECIDED_US: i64 = REST_US + limits::HOLD_HARD_DEFAULT.as_us();

/// Does a seed make a world in which RMs have equipment? Every third does. No random number is drawn for it, so that the
/// other worlds are the same with and without it.
const fn has_equipment(seed: u64) -> bool {
    seed % 3 == 1
}

/// Runs the world of one seed from its beginning until it is at rest.
fn live(world: &mut World, kind: Kind, proof: Proof, seed: u64) -> Result<(), String> {
    if world.dice.per_mille(LONG) {
        world.faults_us = LONG_US;
        world.counts.long_worlds += 1;
    }
    if kind == Kind::Turns {
        world.in_turns = 800;
        world.one_way = 300;
    }
    if has_equipment(seed) {
        world.equip(seed);
    }
    let is_tree = kind == Kind::Tree || (kind == Kind::Turns && seed % 16 == 15);
    let twins = if is_tree {
        topology::tree(world)?;
        false
    } else {
        topology::federation(world)?
    };
    if twins {
        world.counts.fault(Fault::F10);
    }
    if proof != Proof::PlainText {
        world.identify();
        world.counts.identified += 1;
    }
    if proof == Proof::StolenKey {
        topology::rogue(world);
    }
    if kind == Kind::Workflows {
        workflows::graph(world);
        workflows::users(world);
    }
    workload::users(world, kind);
    accidents::accidents(world);
    world.equipment_faults();
    let weather = world.weather;
    let undecided = to_rest(world, twins)?;
    if retention::is_for(seed) && !undecided {
        retention::pass(world, weather)?;
    }
    Ok(())
}

/// Runs a world through its faults until it is at rest, and checks it there. Returns whether something may be left that
/// nobody is able to decide.
fn to_rest(world: &mut World, twins: bool) -> Result<bool, String> {
    while world.next_at().is_some_and(|at| at <= world.faults_us) {
        world.step()?;
    }
    world.weather = FaultRates::default();
    world.mend_all();
    world.drop_faults();
    world.restart_within(BACK_US);
    world.calm()?;
    let undecided = twins
        || world.rogue.is_some()
        || world.counts.of(Fault::F11) + world.counts.of(Fault::F7) > 0;
    let bound_us = if undecided {
        world.faults_us.max(world.last_late_us) + REST_UNDECIDED_US
    } else {
        world.faults_us + REST_US
    };
    loop {
        if world.is_quiet() {
            break;
        }
        if world.next_at().is_none_or(|at| at > bound_us) {
            return Err(format!("I22: not at rest in time: {}", world.why_not_quiet()));
        }
        world.step()?;
    }
    world.check_rest()?;
    while world.step()? {}
    if !world.is_quiet() {
        return Err(format!("not at rest after late packets: {}", world.why_not_quiet()));
    }
    world.check_rest().map_err(|error| format!("after the last packet: {error}"))?;
    Ok(undecided)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody is denied what is its own, so identities change nothing without a rogue. Only a liar
    /// that is no member (F7), a coordinator that a configuration leaves out (F12), and a meddler that nobody knows
    /// (F13) are denied before the core would deny them.
    #[test]
    fn without_a_rogue_a_world_is_the_same_with_and_without_identities() {
        let counts = |seed, proof| run_with(None, proof, seed, Trace::Off).unwrap();
        let mut same = 0;
        for seed in 0..90 {
            let (plain, judged) = (counts(seed, Proof::PlainText), counts(seed, Proof::Identities));
            assert_eq!((plain.judged, plain.identified, judged.identified), (0, 0, 1));
            let odd = [Fault::F7, Fault::F12, Fault::F13];
            let denied = |counts: &Counts| odd.iter().any(|fault| counts.of(*fault) > 0);
            if denied(&plain) || denied(&judged) {
                continue;
            }
            assert!(judged.judged > 0 || judged.packets == 0, "seed {seed}");
            assert_eq!(plain, Counts { judged: 0, identified: 0, ..judged }, "seed {seed}");
            same += 1;
        }
        assert!(same >= 20, "only {same} worlds were compared");
    }
}
