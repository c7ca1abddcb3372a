//! Random worlds with faults: every seed is a federation, its users, its weather and its accidents.
//!
//! Faults rage for a while, then they stop, and the world must come to rest within a bound (I22).
//! What must hold is in `world/check.rs`; it is looked at after every event, and at rest twice: when
//! all is quiet, and again when every packet that was still in flight has arrived.
//!
//! ```text
//! cargo test -p coalloc-sim --test faults                     the ordinary run
//! COALLOC_SEEDS=20000 cargo test -p coalloc-sim --test faults    more
//! COALLOC_SEED=17 cargo test -p coalloc-sim --test faults -- --nocapture    one, as a transcript
//! ```

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use coalloc_common::{
    Amount, CoordinatorName, RequestId, ResourceId, RmName, Segment, Span, Unit, Window, limits,
};
use coalloc_protocol::coordinator::{Above, Candidate, CoordinatorConfig, Details};
use coalloc_protocol::participant::{HoldPolicy, ParticipantConfig};

pub use crate::world::Counts;
use crate::world::clients::{Demand, Visit, Wish};
use crate::world::network::Weather;
use crate::world::node::WALL_START;
use crate::world::{Address, Event, Trace, World};

/// What kind of world a seed makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Coordinators side by side, and RMs.
    Flat,
    /// Two levels of coordinators.
    Tree,
    /// Either, where most reservations are held one RM after the other.
    Turns,
}

/// Runs one seed; a panic is a failure like any other. `print` writes the transcript to standard error.
///
/// # Errors
/// What did not hold, with the number of the invariant.
pub fn run(kind: Kind, seed: u64, print: bool) -> Result<Counts, String> {
    let trace = || if print { Trace::Print } else { Trace::Off };
    let run = || match kind {
        Kind::Flat => run_flat(seed, trace()),
        Kind::Tree => run_tree(seed, trace()),
        Kind::Turns => run_in_turns(seed, trace()),
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

const SECOND: i64 = 1_000_000;
const CAPACITY: u64 = 1_000;

/// How long the faults rage.
const FAULTS_US: i64 = 240 * SECOND;
/// Once faults have stopped: restarts that are under way, then every attempt's two patiences and the
/// longest pause between two sendings, twice over.
const REST_US: i64 = 240 * SECOND;

/// Two ledgers under one name may both be asked, and neither may know: holds then end by themselves.
const REST_TWINS_US: i64 = REST_US + limits::HOLD_HARD_DEFAULT.as_us();

/// A federation, and nothing in it yet.
fn federation(world: &mut World) -> Result<bool, String> {
    let grcs = 1 + world.dice.below(2);
    let twins = grcs == 2 && world.dice.per_mille(250);
    let rms = 1 + world.dice.below(5);
    let mut coordinators = Vec::new();
    for number in 1..=grcs {
        let name = if twins || number == 1 { "grc".to_owned() } else { format!("grc-{number}") };
        coordinators.push(CoordinatorName::composed(name));
    }
    for number in 1..=rms {
        let seconds = |s: i64| Span::from_secs(s);
        let soft = seconds(*world.dice.pick(&[1, 3, 8, 30, 120]));
        let hard = seconds(*world.dice.pick(&[10, 12, 30, 120, 900])).max(soft);
        let policy = HoldPolicy { soft, hard, horizon: limits::HORIZON_DEFAULT };
        world.add_rm(ParticipantConfig {
            name: RmName::composed(format!("rm-{number}")),
            unit: Unit::Cpus,
            resources: ["a", "b"].map(|id| (ResourceId::composed(id), Amount(CAPACITY))).into(),
            coordinators: coordinators.iter().cloned().collect(),
            policy,
            levels: BTreeMap::new(),
            inside: None,
        })?;
    }
    for (number, name) in coordinators.into_iter().enumerate() {
        let hold_for = world.dice.per_mille(400).then(|| Span::from_secs(5));
        let tag = format!("{}", number + 1);
        world.add_grc(CoordinatorConfig { name, tag, hold_for })?;
    }
    Ok(twins)
}

/// A plan: one to three RMs, one or two segments at each.
fn candidate(world: &mut World, opened_us: i64) -> Candidate {
    let names: Vec<RmName> = world.rms.iter().map(|rm| RmName::composed(rm.name.clone())).collect();
    candidate_of(world, &names, opened_us)
}

/// The same over these.
fn candidate_of(world: &mut World, names: &[RmName], opened_us: i64) -> Candidate {
    let mut segments = BTreeMap::new();
    let rms = 1 + world.dice.below((names.len() as u64).min(3));
    // Soon windows make short holds, far ones meet one another.
    let start_us = match world.dice.below(3) {
        0 => opened_us + world.dice.between(0, 40) * SECOND,
        _ => (3_600 + world.dice.between(0, 2) * 1_800) * SECOND,
    };
    for _ in 0..rms {
        let rm = world.dice.below(names.len() as u64);
        let rm = usize::try_from(rm).expect("an index");
        let mut list = Vec::new();
        for resource in ["a", "b"] {
            if !list.is_empty() && world.dice.per_mille(600) {
                continue;
            }
            let start = WALL_START.saturating_add(Span::from_us(start_us));
            let window = Window::starting(start, Span::from_secs(3_600)).expect("not empty");
            let amount = Amount(*world.dice.pick(&[100, 300, 500, 700, 1_000]));
            list.push(Segment { resource: ResourceId::composed(resource), amount, window });
        }
        segments.insert(names[rm].clone(), list);
    }
    let order = order_of(world, segments.keys().cloned().collect());
    Candidate { segments, order, details: Details::default() }
}

/// These RMs in any order, now and then; else none.
fn order_of(world: &mut World, mut rms: Vec<RmName>) -> Vec<RmName> {
    if !world.dice.per_mille(world.in_turns) {
        return Vec::new();
    }
    let mut order = Vec::with_capacity(rms.len());
    while !rms.is_empty() {
        let next = world.dice.below(rms.len() as u64);
        order.push(rms.remove(usize::try_from(next).expect("an index")));
    }
    order
}

/// Users with their demands: doubled calls, stolen ids, releases at any time.
fn users(world: &mut World) {
    world.clients.planning_us = 50_000;
    world.clients.planning_fails = *world.dice.pick(&[0, 0, 100]);
    let demands = world.dice.between(2, 12);
    for number in 0..demands {
        let grc = usize::try_from(world.dice.below(world.grcs.len() as u64)).expect("an index");
        let at_us = world.dice.between(0, FAULTS_US / SECOND * 3 / 4) * SECOND;
        let candidates = world.dice.below(5);
        let plans = (0..candidates).map(|_| candidate(world, at_us)).collect();
        let mut demand = Demand::new(grc, &format!("r{number}"), "UserA", plans);
        demand.patience_us = world.dice.between(2, 40) * SECOND;
        let mut visits = vec![at_us];
        while world.dice.per_mille(300) {
            visits.push(at_us + world.dice.between(0, 20_000) * 1_000);
        }
        let index = world.add_demand(demand.clone());
        for visit in visits {
            world.at(visit, Event::Visit(Visit::Open(index)));
        }
        world.at(at_us + demand.patience_us, Event::Visit(Visit::Again(index)));
        if world.dice.per_mille(400) {
            let later = world.dice.between(0, 60_000) * 1_000;
            world.at(at_us + later, Event::Visit(Visit::Release(index)));
        }
        let all: Vec<RmName> = world.rms.iter().map(|rm| RmName::composed(&*rm.name)).collect();
        changes(world, index, &all, at_us);
        if world.dice.per_mille(200) {
            // Somebody else uses the id: whoever comes second is told so.
            let mut other = Demand { impostor: true, ..demand };
            other.ticket.content = "other content".to_owned();
            let impostor = world.add_demand(other);
            let later = at_us + world.dice.between(0, 5_000) * 1_000;
            world.at(later, Event::Visit(Visit::Open(impostor)));
            world.at(later + 10 * SECOND, Event::Visit(Visit::Again(impostor)));
            world.clients.demands[index].impostor = true;
        }
    }
}

/// Changes of a demand at some of these, some of them asked for twice.
fn changes(world: &mut World, demand: usize, names: &[RmName], at_us: i64) {
    let count = *world.dice.pick(&[0, 0, 1, 1, 2, 4]);
    for number in 0..count {
        let later_us = at_us + world.dice.between(0, 90_000) * 1_000;
        let candidates = 0..world.dice.below(4);
        let candidates = candidates.map(|_| version(world, demand, names, at_us)).collect();
        let id = RequestId::composed(format!("c{number}"));
        world.clients.demands[demand].changes.push(Wish { id, candidates, outcome: None });
        let change = Event::Visit(Visit::Change { demand, wish: number });
        world.at(later_us, change.clone());
        while world.dice.per_mille(500) {
            let again_us = later_us + world.dice.between(0, 40_000) * 1_000;
            world.at(again_us, change.clone());
        }
    }
}

/// A new version: some plan, or one of those wanted before with other amounts or another end.
fn version(world: &mut World, demand: usize, names: &[RmName], at_us: i64) -> Candidate {
    let plans = world.clients.demands[demand].candidates.clone();
    if plans.is_empty() || world.dice.per_mille(300) {
        return candidate_of(world, names, at_us);
    }
    let mut plan = world.dice.pick(&plans).clone();
    for segment in plan.segments.values_mut().flatten() {
        let length = *world.dice.pick(&[600, 3_600, 7_200]);
        let start = segment.window.start();
        segment.window = Window::starting(start, Span::from_secs(length)).expect("not empty");
        segment.amount = Amount(*world.dice.pick(&[100, 300, 500, 700, 1_000]));
    }
    plan
}

/// Weather, deaths, partitions and clock jumps, all before the faults stop.
fn accidents(world: &mut World) {
    let rate = |world: &mut World, high: u64| *world.dice.pick(&[0, 0, high / 10, high / 3, high]);
    world.weather = Weather {
        loss: rate(world, 300),
        twice: rate(world, 200),
        slow: rate(world, 200),
        ghost: rate(world, 40),
        reset: rate(world, 900),
        deny: *world.dice.pick(&[0, 0, 0, 0, 150]),
        crash: rate(world, 150),
        slow_disk: rate(world, 150),
        jitter_us: *world.dice.pick(&[0, 5_000, 100_000]),
    };
    let nodes: Vec<Address> = (0..world.grcs.len())
        .map(Address::Grc)
        .chain((0..world.rms.len()).map(Address::Rm))
        .collect();
    for _ in 0..world.dice.below(6) {
        let node = *world.dice.pick(&nodes);
        let at_us = world.dice.between(0, FAULTS_US / 1_000) * 1_000;
        let down_us = world.dice.between(0, 60_000) * 1_000;
        let reboot = world.dice.per_mille(400);
        world.at(at_us, Event::Crash { node, down_us, reboot });
    }
    for _ in 0..world.dice.below(5) {
        let (from, to) = (*world.dice.pick(&nodes), *world.dice.pick(&nodes));
        let at_us = world.dice.between(0, FAULTS_US / 1_000) * 1_000;
        let until_us = at_us + world.dice.between(1, 120) * SECOND;
        let both = world.dice.per_mille(500);
        world.at(at_us, Event::Cut(from, to));
        world.at(until_us, Event::Mend(from, to));
        if both {
            world.at(at_us, Event::Cut(to, from));
            world.at(until_us, Event::Mend(to, from));
        }
    }
    for _ in 0..world.dice.below(3) {
        let node = *world.dice.pick(&nodes);
        let at_us = world.dice.between(0, FAULTS_US / 1_000) * 1_000;
        let ahead_us = *world.dice.pick(&[-86_400, -30, 0, 30, 1_800]) * SECOND;
        world.at(at_us, Event::WallJump(node, ahead_us));
    }
}

/// Two levels: one coordinator above two, each of which has two RMs.
fn tree(world: &mut World) -> Result<(), String> {
    let top = CoordinatorName::composed("top");
    let mut lower = Vec::new();
    for number in 1..=2 {
        let name = CoordinatorName::composed(format!("low-{number}"));
        let mut own = Vec::new();
        for rm in 1..=2 {
            let soft = Span::from_secs(*world.dice.pick(&[1, 3, 8, 30, 120]));
            let hard = Span::from_secs(*world.dice.pick(&[10, 12, 30, 120, 900])).max(soft);
            let rm = RmName::composed(format!("rm-{number}{rm}"));
            own.push(rm.clone());
            world.add_rm(ParticipantConfig {
                name: rm,
                unit: Unit::Cpus,
                resources: ["a", "b"].map(|id| (ResourceId::composed(id), Amount(CAPACITY))).into(),
                coordinators: [name.clone()].into(),
                policy: HoldPolicy { soft, hard, horizon: limits::HORIZON_DEFAULT },
                levels: BTreeMap::new(),
                inside: None,
            })?;
        }
        lower.push((name, own));
    }
    // Above first: users and accidents know it as the first coordinator.
    let config =
        |name: CoordinatorName, hold_for| CoordinatorConfig { name, tag: "1".to_owned(), hold_for };
    let hold_for = world.dice.per_mille(400).then(|| Span::from_secs(5));
    world.add_grc(config(top.clone(), hold_for))?;
    for (name, own) in lower {
        let soft = Span::from_secs(*world.dice.pick(&[1, 3, 8, 30]));
        let hard = Span::from_secs(*world.dice.pick(&[10, 12, 30, 120, 900])).max(soft);
        let boot = String::new();
        let above = Above { coordinators: [top.clone()].into(), soft, hard, boot };
        let hold_for = world.dice.per_mille(400).then(|| Span::from_secs(5));
        world.add_lower(config(name, hold_for), above, own)?;
    }
    Ok(())
}

/// Users of the one above, and some of each below, who want the same resources.
fn tree_users(world: &mut World) {
    world.clients.planning_us = 50_000;
    for number in 0..world.dice.between(2, 12) {
        let grc = *world.dice.pick(&[0, 0, 0, 1, 2]);
        let names = match world.members.get(&grc) {
            Some(own) => own.clone(),
            None => ["low-1", "low-2"].map(RmName::composed).to_vec(),
        };
        let at_us = world.dice.between(0, FAULTS_US / SECOND * 3 / 4) * SECOND;
        let candidates = world.dice.below(4);
        let plans = (0..candidates).map(|_| candidate_of(world, &names, at_us)).collect();
        let mut demand = Demand::new(grc, &format!("r{number}"), "UserA", plans);
        demand.patience_us = world.dice.between(2, 40) * SECOND;
        let index = world.add_demand(demand.clone());
        world.at(at_us, Event::Visit(Visit::Open(index)));
        world.at(at_us + demand.patience_us, Event::Visit(Visit::Again(index)));
        if world.dice.per_mille(400) {
            let later = world.dice.between(0, 60_000) * 1_000;
            world.at(at_us + later, Event::Visit(Visit::Release(index)));
        }
        changes(world, index, &names, at_us);
    }
}

/// One seed from its beginning to its rest.
fn run_flat(seed: u64, trace: Trace) -> Result<Counts, String> {
    let mut world = World::new(seed, trace);
    let twins = federation(&mut world)?;
    users(&mut world);
    to_rest(world, twins)
}

/// The same of a tree of two levels.
fn run_tree(seed: u64, trace: Trace) -> Result<Counts, String> {
    let mut world = World::new(seed, trace);
    tree(&mut world)?;
    tree_users(&mut world);
    to_rest(world, false)
}

/// Either, where most reservations are held one RM after the other.
fn run_in_turns(seed: u64, trace: Trace) -> Result<Counts, String> {
    let mut world = World::new(seed, trace);
    world.in_turns = 800;
    if seed % 4 == 3 {
        tree(&mut world)?;
        tree_users(&mut world);
        return to_rest(world, false);
    }
    let twins = federation(&mut world)?;
    users(&mut world);
    to_rest(world, twins)
}

/// Faults, their end, rest.
fn to_rest(mut world: World, twins: bool) -> Result<Counts, String> {
    accidents(&mut world);
    while world.next_at().is_some_and(|at| at <= FAULTS_US) {
        world.step()?;
    }
    world.weather = Weather::default();
    world.mend_all();
    world.drop_faults();
    let bound_us = FAULTS_US + if twins { REST_TWINS_US } else { REST_US };
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
        return Err(format!("late packets woke it up: {}", world.why_not_quiet()));
    }
    world.check_rest().map_err(|error| format!("after the last packet: {error}"))?;
    Ok(world.counts)
}
