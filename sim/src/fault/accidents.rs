//! What goes wrong, and when: the weather over all packets and disks, and accidents of single nodes and
//! ways, all before the faults stop. Most worlds have some of it and few have all, so that each fault is
//! met alone, in pairs, and in crowds.

use super::{FAULTS_US, SECOND};
use crate::world::network::Weather;
use crate::world::trouble::Trouble;
use crate::world::{Address, Event, World};

/// Any instant while faults rage.
fn sometime(world: &mut World) -> i64 {
    world.dice.between(0, FAULTS_US / 1_000) * 1_000
}

fn nodes(world: &World) -> Vec<Address> {
    let rms = (0..world.rms.len()).map(Address::Rm);
    (0..world.grcs.len()).map(Address::Grc).chain(rms).collect()
}

/// Two nodes that speak to each other, as a rule: a coordinator and somebody else.
fn way(world: &mut World, nodes: &[Address]) -> (Address, Address) {
    let grc = usize::try_from(world.dice.below(world.grcs.len() as u64)).expect("an index");
    let (grc, other) = (Address::Grc(grc), *world.dice.pick(nodes));
    if world.dice.per_mille(500) { (grc, other) } else { (other, grc) }
}

/// Weather and accidents of a world that has its nodes and users.
pub(super) fn accidents(world: &mut World) {
    let nodes = nodes(world);
    weather(world);
    deaths(world, &nodes);
    partitions(world, &nodes);
    clocks(world, &nodes);
    disks(world, &nodes);
    peers(world);
}

fn weather(world: &mut World) {
    let rate = |world: &mut World, high: u64| *world.dice.pick(&[0, 0, high / 10, high / 3, high]);
    world.weather = Weather {
        loss: rate(world, 300),
        twice: rate(world, 200),
        slow: rate(world, 200),
        ghost: rate(world, 40),
        reset: rate(world, 900),
        deny: *world.dice.pick(&[0, 0, 0, 40, 150]),
        crash: rate(world, 150),
        io_error: rate(world, 40),
        slow_disk: rate(world, 150),
        jitter_us: *world.dice.pick(&[0, 5_000, 100_000]),
    };
}

/// F1: at any moment, beside those at durability points, which are weather.
fn deaths(world: &mut World, nodes: &[Address]) {
    for _ in 0..world.dice.below(6) {
        let node = *world.dice.pick(nodes);
        let at_us = sometime(world);
        let down_us = world.dice.between(0, 60_000) * 1_000;
        let reboot = world.dice.per_mille(400);
        world.at(at_us, Event::Crash { node, down_us, reboot });
    }
}

/// F2: ways that are cut, one way or both; and, after FoundationDB, a swizzle: ways of a random subset
/// are clogged one after the other, and opened again in another order.
fn partitions(world: &mut World, nodes: &[Address]) {
    for _ in 0..world.dice.below(5) {
        let (from, to) = way(world, nodes);
        let at_us = sometime(world);
        let until_us = at_us + world.dice.between(1, 120) * SECOND;
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
        let us = world.dice.between(1, 40) * SECOND;
        world.at(at_us, Event::Trouble(Trouble::Clog { from, to, us }));
    }
}

/// F5: clocks that are set, processes that stand still.
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
        let us = *world.dice.pick(&[1, 3, 8, 20, 90]) * SECOND;
        world.at(at_us, Event::Trouble(Trouble::Freeze(node, us)));
    }
}

/// F4 and F11: no room, damage at rest, old copies. Writes that tear or fail are weather.
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
        let lost = world.dice.below(500);
        let down_us = world.dice.between(0, 60_000) * 1_000;
        world.at(at_us, Event::Trouble(Trouble::Restore { node, lost, down_us }));
    }
}

/// F6, F7 and F9: peers that are slow, that lie, or that are of an older release.
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
