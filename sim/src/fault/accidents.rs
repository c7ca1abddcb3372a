//! What goes wrong in a world, and when: fault rates over all packets and disks, and accidents of single
//! nodes and directions, all before the faults stop. Most worlds have some of them and few have all, so that
//! each fault occurs alone, in pairs, and together with many others.

use super::{LONG_US, SECOND};
use crate::world::network::FaultRates;
use crate::world::trouble::Trouble;
use crate::world::{Address, Event, World};

/// A random instant while faults happen, in microseconds.
fn sometime(world: &mut World) -> i64 {
    world.dice.between(0, world.faults_us / 1_000) * 1_000
}

/// Do faults happen for longer than any hold lasts?
pub(super) const fn is_long(world: &World) -> bool {
    world.faults_us == LONG_US
}

/// A random duration in microseconds: up to `most_s` seconds, or up to half an hour in long worlds. Each
/// doubling is as likely as any other.
fn lasts_us(world: &mut World, most_s: i64) -> i64 {
    let most_s = if is_long(world) { 1_800 } else { most_s };
    world.dice.log_between(1, most_s) * SECOND
}

fn nodes(world: &World) -> Vec<Address> {
    let rms = (0..world.rms.len()).map(Address::Rm);
    (0..world.grcs.len()).map(Address::Grc).chain(rms).collect()
}

/// A direction from or to a coordinator. The other end is any node, so most such pairs exchange messages.
fn way(world: &mut World, nodes: &[Address]) -> (Address, Address) {
    let grc = usize::try_from(world.dice.below(world.grcs.len() as u64)).expect("an index");
    let (grc, other) = (Address::Grc(grc), *world.dice.pick(nodes));
    if world.dice.per_mille(500) { (grc, other) } else { (other, grc) }
}

/// Sets the fault rates and schedules the accidents of a world that has its nodes and users.
pub(super) fn accidents(world: &mut World) {
    let nodes = nodes(world);
    weather(world);
    deaths(world, &nodes);
    partitions(world, &nodes);
    clocks(world, &nodes);
    disks(world, &nodes);
    peers(world);
    configurations(world);
    meddlers(world);
    forgeries(world);
}

fn weather(world: &mut World) {
    let rate = |world: &mut World, high: u64| *world.dice.pick(&[0, 0, high / 10, high / 3, high]);
    world.weather = FaultRates {
        loss: rate(world, 300),
        twice: rate(world, 200),
        slow: rate(world, 200),
        ghost: rate(world, 40),
        reset: rate(world, 900),
        deny: *world.dice.pick(&[0, 0, 0, 40, 150]),
        crash: rate(world, 150),
        long_down: if is_long(world) { 100 } else { 0 },
        io_error: rate(world, 40),
        slow_disk: rate(world, 150),
        jitter_us: *world.dice.pick(&[0, 5_000, 100_000]),
    };
}

/// F1: deaths at any moment. Deaths at durability points are part of the fault rates.
fn deaths(world: &mut World, nodes: &[Address]) {
    for _ in 0..world.dice.below(6) {
        let node = *world.dice.pick(nodes);
        let at_us = sometime(world);
        let down_us = match is_long(world) && world.dice.per_mille(500) {
            true => lasts_us(world, 60),
            false => world.dice.between(0, 60_000) * 1_000,
        };
        let reboot = world.dice.per_mille(400);
        world.at(at_us, Event::Crash { node, down_us, reboot });
    }
    // Deaths right after a decision that few or none of the RMs have received.
    for _ in 0..*world.dice.pick(if is_long(world) { &[1, 2, 4] } else { &[0, 0, 1] }) {
        let grc = usize::try_from(world.dice.below(world.grcs.len() as u64)).expect("an index");
        let (at_us, down_us) = (sometime(world), lasts_us(world, 60));
        world.at(at_us, Event::Trouble(Trouble::Doom { node: Address::Grc(grc), down_us }));
    }
    world.troubles.slow_starts = *world.dice.pick(&[0, 0, 0, 300]);
}

/// F2: directions that are cut, one way or both. Also a "swizzle", after FoundationDB: a random subset of
/// directions is clogged one after the other and opened again in another order.
fn partitions(world: &mut World, nodes: &[Address]) {
    for _ in 0..world.dice.below(5) {
        let (from, to) = way(world, nodes);
        let at_us = sometime(world);
        let us = lasts_us(world, 120);
        let until_us = at_us + us;
        world.counts.long_cuts += u64::from(us > 120 * SECOND);
        let both = world.dice.per_mille(500);
        world.at(at_us, Event::Cut(from, to));
        world.at(until_us, Event::Mend(from, to));
        if both {
            world.at(at_us, Event::Cut(to, from));
            world.at(until_us, Event::Mend(to, from));
        }
    }
    if !world.dice.per_mille(250) {
        return;
    }
    let mut at_us = sometime(world);
    for _ in 0..2 + world.dice.below(2 * nodes.len() as u64) {
        let (from, to) = way(world, nodes);
        at_us += world.dice.between(0, 2_000) * 1_000;
        let us = lasts_us(world, 40);
        world.at(at_us, Event::Trouble(Trouble::Clog { from, to, us }));
    }
}

/// F5: clocks that are set, and processes that are frozen.
fn clocks(world: &mut World, nodes: &[Address]) {
    for _ in 0..world.dice.below(3) {
        let node = *world.dice.pick(nodes);
        let at_us = sometime(world);
        let ahead_us = *world.dice.pick(&[-86_400, -30, 0, 30, 1_800]) * SECOND;
        world.at(at_us, Event::WallJump(node, ahead_us));
    }
    for _ in 0..world.dice.below(3) {
        let node = *world.dice.pick(nodes);
        let at_us = sometime(world);
        let us = world.dice.log_between(1_000, 90_000) * 1_000;
        world.at(at_us, Event::Trouble(Trouble::Freeze(node, us)));
    }
}

/// F4 and F11: full disks, damage at rest, old copies. Writes that tear or fail are part of the fault rates.
fn disks(world: &mut World, nodes: &[Address]) {
    if world.dice.per_mille(250) {
        let node = *world.dice.pick(nodes);
        let at_us = sometime(world);
        let until_us = at_us + world.dice.between(1, 60) * SECOND;
        world.at(at_us, Event::Trouble(Trouble::Low(node)));
        if world.dice.per_mille(500) {
            let full_us = world.dice.between(at_us, until_us);
            world.at(full_us, Event::Trouble(Trouble::Full(node)));
        }
        world.at(until_us, Event::Trouble(Trouble::Room(node)));
    }
    world.troubles.damage = *world.dice.pick(&[0, 0, 100, 300]);
    if world.dice.per_mille(300) {
        let node = *world.dice.pick(nodes);
        let at_us = sometime(world);
        // An RM may lose all its records and come back empty. A coordinator may not: by its tag it would be
        // another one.
        let empty = matches!(node, Address::Rm(_)) && world.dice.per_mille(250);
        let lost = if empty { 1_000 } else { world.dice.below(500) };
        let down_us = world.dice.between(0, 60_000) * 1_000;
        world.at(at_us, Event::Trouble(Trouble::Restore { node, lost, down_us }));
    }
}

/// F6, F7 and F9: RMs that are slow, that lie, or that run another release.
fn peers(world: &mut World) {
    let rms = world.rms.len() as u64;
    let any = |world: &mut World| usize::try_from(world.dice.below(rms)).expect("an index");
    if world.dice.per_mille(250) {
        let node = Address::Rm(any(world));
        let at_us = sometime(world);
        let until_us = at_us + world.dice.between(10, 120) * SECOND;
        let most_us = *world.dice.pick(&[1, 4, 12, 30]) * SECOND;
        world.at(at_us, Event::Trouble(Trouble::Slow(node, most_us)));
        world.at(until_us, Event::Trouble(Trouble::Swift(node)));
    }
    if world.dice.per_mille(150) {
        let liar = any(world);
        let often = *world.dice.pick(&[50, 300, 900]);
        world.troubles.liars.insert(liar, often);
    }
    if world.dice.per_mille(150) {
        let newer = any(world);
        world.troubles.newer.insert(newer);
    }
    if world.dice.per_mille(300) {
        let node = match world.dice.below(3) {
            0 => {
                let grc = world.dice.below(world.grcs.len() as u64);
                Address::Grc(usize::try_from(grc).expect("an index"))
            }
            _ => Address::Rm(any(world)),
        };
        world.troubles.old.insert(node);
        let at_us = sometime(world);
        world.at(at_us, Event::Trouble(Trouble::Upgrade(node)));
    }
}

/// F12: RMs whose configuration leaves a coordinator out for a while.
fn configurations(world: &mut World) {
    for _ in 0..*world.dice.pick(&[0, 0, 1, 2, 4]) {
        let rm = usize::try_from(world.dice.below(world.rms.len() as u64)).expect("an index");
        let above: Vec<usize> =
            (0..world.grcs.len()).filter(|grc| world.serves(rm, *grc)).collect();
        let (at_us, us) = (sometime(world), lasts_us(world, 60));
        let grc = *world.dice.pick(&above);
        world.at(at_us, Event::Trouble(Trouble::LeaveOut { rm, grc, us }));
    }
}

/// F13: coordinators that send messages about transactions of other coordinators.
fn meddlers(world: &mut World) {
    for _ in 0..*world.dice.pick(&[0, 0, 0, 2, 8, 30]) {
        let at_us = sometime(world);
        world.at(at_us, Event::Trouble(Trouble::Meddle));
    }
}

/// F14: messages with the key of one coordinator, if somebody has stolen it.
fn forgeries(world: &mut World) {
    if world.rogue.is_none() {
        return;
    }
    for _ in 0..*world.dice.pick(&[6, 20, 60]) {
        let at_us = sometime(world);
        world.at(at_us, Event::Trouble(Trouble::Forge));
    }
}
