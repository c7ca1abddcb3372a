//! The users of a world: reservations, changes and releases at any time, some of them repeated; clients that
//! vanish, and request ids that somebody else uses for another request.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::servers::Choice;
use coalloc_common::{Amount, RequestId, ResourceId, RmName, Segment, Span, Window};
use coalloc_protocol::coordinator::Candidate;
use coalloc_protocol::message::ServerWish;

use super::accidents::is_long;
use super::topology::{RESOURCES, SERVER_CPUS};
use super::{Kind, SECOND};
use crate::world::clients::{Demand, Visit, WantedChange};
use crate::world::node::WALL_START;
use crate::world::{Event, World};

/// The largest number of RMs in one plan.
const PLAN_RMS_MAX: u64 = 6;
/// The number of plans of one request is below this.
const PLANS_MAX: u64 = 5;

/// A plan over some of these members, with one or two segments at each.
fn candidate(world: &mut World, names: &[RmName], opened_us: i64) -> Candidate {
    let mut segments = BTreeMap::new();
    let most = if world.dice.per_mille(100) { PLAN_RMS_MAX } else { 3 };
    let rms = 1 + world.dice.below((names.len() as u64).min(most));
    // Windows that begin soon make short holds; windows that begin later compete with one another.
    let start_us = match world.dice.below(3) {
        0 => opened_us + world.dice.between(0, 40) * SECOND,
        _ => (3_600 + world.dice.between(0, 2) * 1_800) * SECOND,
    };
    for _ in 0..rms {
        let rm = world.dice.pick(names).clone();
        let mut list = Vec::new();
        for resource in RESOURCES {
            if !list.is_empty() && world.dice.per_mille(600) {
                continue;
            }
            let start = WALL_START.saturating_add(Span::from_us(start_us));
            let window = Window::starting(start, Span::from_secs(3_600)).expect("not empty");
            let amount = Amount(*world.dice.pick(&[100, 300, 500, 700, 1_000]));
            list.push(Segment { resource: ResourceId::composed(resource), amount, window });
        }
        segments.insert(rm, list);
    }
    let order = order_of(world, segments.keys().cloned().collect());
    // A child coordinator cannot book one-way: it holds until it gets the decision.
    let books = |rm: &RmName| world.rm_index(rm).is_some();
    let one_way = !order.is_empty() && segments.keys().all(books);
    let one_way = one_way && world.dice.per_mille(world.one_way);
    let servers = wishes(world, &segments);
    let manual_provision = is_unprovisioned(world);
    Candidate { segments, order, one_way, servers, manual_provision, ..Candidate::default() }
}

/// Where there is equipment, now and then the user is not to be let in.
fn is_unprovisioned(world: &mut World) -> bool {
    world.equipment_chance(0, 3) == Some(0)
}

/// Now and then which servers are wanted at by-server sites: by a choice, or by their names.
fn wishes(
    world: &mut World,
    segments: &BTreeMap<RmName, Vec<Segment>>,
) -> BTreeMap<RmName, ServerWish> {
    let mut wishes = BTreeMap::new();
    for (rm, segments) in segments {
        let known = world.rm_index(rm).map(|rm| world.rms[rm].shadow.config().servers.clone());
        let Some(sites) = known.filter(|sites| !sites.is_empty()) else { continue };
        if !world.dice.per_mille(500) {
            continue;
        }
        let choices = [Choice::Paper, Choice::First, Choice::BestFit, Choice::WorstFit];
        let mut wish = ServerWish { choice: *world.dice.pick(&choices), ..ServerWish::default() };
        let picks = world.dice.per_mille(300);
        for segment in segments.iter().filter(|_| picks) {
            let names = &sites[&segment.resource].names;
            // Neighbours from any place on, so that picks of different requests overlap.
            let first = world.dice.below(names.len() as u64);
            let wanted = segment.amount.0.div_ceil(SERVER_CPUS);
            let places = (first..first + wanted).map(|place| place % names.len() as u64);
            let places = places.map(|place| usize::try_from(place).expect("an index"));
            wish.picked.extend(places.map(|place| names[place].clone()));
        }
        wishes.insert(rm.clone(), wish);
    }
    wishes
}

/// Now and then these RMs in a random order; otherwise none, which means all at once.
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

/// Adds the users with their demands. In a tree, half of the demands go to the first coordinator; otherwise
/// each goes to any coordinator, and names members that this coordinator serves.
pub(super) fn users(world: &mut World, kind: Kind) {
    world.clients.planning_us = 50_000;
    world.clients.planning_fails = *world.dice.pick(&[0, 0, 100]);
    let demands = match world.dice.below(4) {
        _ if kind == Kind::Workflows => world.dice.between(0, 5),
        0..=2 => world.dice.between(2, 12),
        _ => world.dice.between(8, 30),
    };
    let all: Vec<RmName> = world.rms.iter().map(|rm| RmName::composed(&*rm.name)).collect();
    for number in 0..demands {
        let any = usize::try_from(world.dice.below(world.grcs.len() as u64)).expect("an index");
        let is_tree = !world.served.is_empty();
        let grc = if is_tree && world.dice.per_mille(500) { 0 } else { any };
        let names = world.served.get(&grc).cloned().unwrap_or_else(|| all.clone());
        let at_us = world.dice.between(0, world.faults_us / SECOND * 3 / 4) * SECOND;
        demand(world, &format!("r{number}"), grc, &names, at_us);
    }
}

fn demand(world: &mut World, request: &str, grc: usize, names: &[RmName], at_us: i64) {
    let candidates = world.dice.below(PLANS_MAX);
    let plans = (0..candidates).map(|_| candidate(world, names, at_us)).collect();
    let mut demand = Demand::new(grc, request, "UserA", plans);
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
        let later = later_us(world, 60_000);
        world.at(at_us + later, Event::Visit(Visit::Release(index)));
    }
    changes(world, index, names, at_us);
    if world.dice.per_mille(100) {
        // The client vanishes at any moment of its calls.
        let later = world.dice.between(0, 30_000) * 1_000;
        world.at(at_us + later, Event::Visit(Visit::Vanish(index)));
    }
    if world.dice.per_mille(200) {
        // Somebody else uses the same id; whoever comes second gets an error that says so.
        let mut other = Demand { impostor: true, changes: Vec::new(), ..demand };
        other.ticket.content = "other content".to_owned();
        let impostor = world.add_demand(other);
        let later = at_us + world.dice.between(0, 5_000) * 1_000;
        world.at(later, Event::Visit(Visit::Open(impostor)));
        world.at(later + 10 * SECOND, Event::Visit(Visit::Again(impostor)));
        world.clients.demands[index].impostor = true;
    }
}

/// A random delay of up to `most_ms` milliseconds, or up to ten times as many in long worlds; in
/// microseconds.
fn later_us(world: &mut World, most_ms: i64) -> i64 {
    let longer = is_long(world) && world.dice.per_mille(500);
    world.dice.between(0, if longer { 10 * most_ms } else { most_ms }) * 1_000
}

/// Adds changes of a demand over some of these members. Some changes are sent twice.
fn changes(world: &mut World, demand: usize, names: &[RmName], at_us: i64) {
    let count = *world.dice.pick(&[0, 0, 1, 1, 2, 4]);
    for number in 0..count {
        let later_us = at_us + later_us(world, 90_000);
        let candidates = 0..world.dice.below(4);
        let candidates = candidates.map(|_| {
            let plan = version(world, demand, names, at_us);
            leaving_out(world, plan, names)
        });
        let candidates = candidates.collect();
        let id = RequestId::composed(format!("c{number}"));
        world.clients.demands[demand].changes.push(WantedChange {
            id,
            candidates,
            avoid: BTreeSet::new(),
            outcome: None,
        });
        let change = Event::Visit(Visit::Change { demand, wish: number });
        world.at(later_us, change.clone());
        while world.dice.per_mille(500) {
            let again_us = later_us + world.dice.between(0, 40_000) * 1_000;
            world.at(again_us, change.clone());
        }
    }
}

/// The same version, which now and then leaves out members of which it needs nothing.
fn leaving_out(world: &mut World, mut plan: Candidate, names: &[RmName]) -> Candidate {
    if world.dice.per_mille(250) {
        let left_out = names.iter().filter(|name| !plan.segments.contains_key(*name));
        plan.left_out = left_out.cloned().collect();
    }
    plan
}

/// A new version: a new plan, or an earlier plan of the demand with other amounts or another end.
fn version(world: &mut World, demand: usize, names: &[RmName], at_us: i64) -> Candidate {
    let plans = world.clients.demands[demand].candidates.clone();
    if plans.is_empty() || world.dice.per_mille(300) {
        return candidate(world, names, at_us);
    }
    let mut plan = world.dice.pick(&plans).clone();
    for segment in plan.segments.values_mut().flatten() {
        let length = *world.dice.pick(&[600, 3_600, 7_200]);
        let start = segment.window.start();
        segment.window = Window::starting(start, Span::from_secs(length)).expect("not empty");
        segment.amount = Amount(*world.dice.pick(&[100, 300, 500, 700, 1_000]));
    }
    plan.servers = wishes(world, &plan.segments);
    plan.manual_provision = is_unprovisioned(world);
    plan
}
