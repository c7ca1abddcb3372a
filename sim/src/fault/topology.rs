//! The nodes of a world: 2 to 20 RMs under 1 to 3 coordinators side by side, or under a tree of two or three
//! levels of coordinators.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{
    Amount, CoordinatorName, ResourceId, ResourceKind, RmName, ServiceLevels, Span, limits,
};
use coalloc_protocol::coordinator::{CoordinatorConfig, ParentConfig};
use coalloc_protocol::participant::{
    CoordinatorQuotas, HoldPolicy, HoldQuota, HoldQuotas, ParticipantConfig, SiteServers,
};

use super::retention;
use crate::world::World;
use crate::world::meddling::MEDDLER;
use crate::world::rogue::Rogue;

/// What every RM has of each resource.
pub(super) const CAPACITY: u64 = 1_000;
/// What every RM has, counted or by server.
pub(super) const RESOURCES: [&str; 2] = ["a", "b"];
/// CPUs of each server of a by-server site.
pub(super) const SERVER_CPUS: u64 = 100;
/// One RM in so many has tight quotas of holds.
const TIGHT_EVERY: usize = 5;
/// The largest number of RMs in a world.
const RMS_MAX: u64 = 20;

fn rm(world: &mut World, name: &str, above: &[CoordinatorName]) -> Result<RmName, String> {
    let soft = Span::from_secs(*world.dice.pick(&[1, 3, 8, 30, 120]));
    let hard = Span::from_secs(*world.dice.pick(&[10, 12, 30, 120, 900])).max(soft);
    let name = RmName::composed(name);
    let by_server = world.dice.per_mille(350);
    let servers =
        by_server.then(|| RESOURCES.map(|site| (ResourceId::composed(site), servers(site))));
    world.add_rm(ParticipantConfig {
        name: name.clone(),
        kinds: ResourceKind::Cpus.into(),
        resources: RESOURCES.map(|id| (ResourceId::composed(id), Amount(CAPACITY))).into(),
        coordinators: with_meddler(above),
        policy: HoldPolicy {
            soft,
            hard,
            horizon: limits::HORIZON_DEFAULT,
            // Often, so that tombstones go while late messages are on the way.
            forget_every: Span::from_secs(3),
        },
        levels: ServiceLevels::default(),
        quotas: quotas(world.rms.len()),
        inside: None,
        servers: servers.into_iter().flatten().collect(),
    })?;
    Ok(name)
}

/// The quotas of the RM of this index. A few RMs have quotas that honest coordinators meet.
fn quotas(index: usize) -> HoldQuotas {
    if index % TIGHT_EVERY != TIGHT_EVERY - 1 {
        return HoldQuotas::default();
    }
    let quota = |holds| HoldQuota { holds, held: BTreeMap::new() };
    let each = CoordinatorQuotas { all: quota(2), each_user: quota(1), users: BTreeMap::new() };
    HoldQuotas { each, coordinators: BTreeMap::new() }
}

/// The servers of a by-server site, with its whole capacity.
fn servers(site: &str) -> SiteServers {
    let names = (1..=CAPACITY / SERVER_CPUS).map(|number| format!("{site}/{number}"));
    SiteServers { cpus_each: SERVER_CPUS, names: names.map(ResourceId::composed).collect() }
}

/// These coordinators, and a meddler that belongs to no federation (F13).
fn with_meddler(above: &[CoordinatorName]) -> BTreeSet<CoordinatorName> {
    above.iter().cloned().chain([CoordinatorName::composed(MEDDLER)]).collect()
}

/// Draws the number of RMs. Most worlds are small, so that requests compete; some are large.
fn how_many(world: &mut World) -> u64 {
    match world.dice.below(4) {
        0 => 2,
        1 | 2 => 2 + world.dice.below(5),
        _ => 2 + world.dice.below(RMS_MAX - 1),
    }
}

fn coordinator(world: &mut World, name: CoordinatorName, tag: u64) -> CoordinatorConfig {
    let hold_for = world.dice.per_mille(400).then(|| Span::from_secs(5));
    CoordinatorConfig { name, tag: tag.to_string(), hold_for, forgets: None }
}

/// Adds coordinators side by side. Returns true when two of them, with different ledgers, have the same name
/// (F10).
pub(super) fn federation(world: &mut World) -> Result<bool, String> {
    let grcs = 1 + world.dice.below(3);
    let twins = grcs >= 2 && world.dice.per_mille(350);
    let mut coordinators = Vec::new();
    for number in 1..=grcs {
        let is_twin = twins && number == 2;
        let name = if is_twin || number == 1 { "grc".to_owned() } else { format!("grc-{number}") };
        coordinators.push(CoordinatorName::composed(name));
    }
    for number in 1..=how_many(world) {
        rm(world, &format!("rm-{number}"), &coordinators)?;
    }
    for (number, name) in (1..).zip(coordinators) {
        let config = coordinator(world, name, number);
        world.add_grc(config)?;
    }
    Ok(twins)
}

/// A child coordinator that is to be added, with its parents and its own RMs.
struct Level {
    name: CoordinatorName,
    parents: Vec<CoordinatorName>,
    own: Vec<RmName>,
}

/// Adds a tree: one or two parent coordinators, one to three children of them, one or two children of some of
/// these, and RMs anywhere.
pub(super) fn tree(world: &mut World) -> Result<(), String> {
    let tops: Vec<CoordinatorName> = match world.dice.below(4) {
        0 => ["top", "top-2"].map(CoordinatorName::composed).into(),
        _ => vec![CoordinatorName::composed("top")],
    };
    let mut left = RMS_MAX;
    let mut levels = Vec::new();
    let mut members = Vec::new();
    for number in 1..=1 + world.dice.below(3) {
        let name = CoordinatorName::composed(format!("low-{number}"));
        let mut own = Vec::new();
        // Add a third level under this coordinator.
        if world.dice.per_mille(300) {
            for deeper in 1..=1 + world.dice.below(2) {
                let deep = CoordinatorName::composed(format!("deep-{number}{deeper}"));
                let of = rms(world, &format!("rm-{number}{deeper}"), &deep, 2, &mut left)?;
                own.push(RmName::composed(deep.as_str()));
                levels.push(Level { name: deep, parents: vec![name.clone()], own: of });
            }
        }
        own.extend(rms(world, &format!("rm-{number}"), &name, 3, &mut left)?);
        members.push(RmName::composed(name.as_str()));
        levels.push(Level { name, parents: tops.clone(), own });
    }
    // The parent coordinators may have RMs of their own beside their children.
    for number in 0..world.dice.below(3).min(left) {
        members.push(rm(world, &format!("rm-top{number}"), &tops)?);
    }
    // Parents come first, because accidents expect them to be the first coordinators.
    for (tag, name) in (1..).zip(tops) {
        let config = coordinator(world, name, tag);
        world.add_grc(config)?;
        world.served.insert(world.grcs.len() - 1, members.clone());
    }
    for Level { name, parents: above, own } in levels {
        let soft = Span::from_secs(*world.dice.pick(&[1, 3, 8, 30]));
        let hard = Span::from_secs(*world.dice.pick(&[10, 12, 30, 120, 900])).max(soft);
        let boot = String::new();
        let above = ParentConfig { coordinators: with_meddler(&above), soft, hard, boot };
        let config = coordinator(world, name, 1);
        let config = CoordinatorConfig { forgets: Some(retention::of_child()), ..config };
        world.add_lower(config, above, own.clone())?;
        world.served.insert(world.grcs.len() - 1, own);
    }
    Ok(())
}

/// Adds one to `most` RMs of one coordinator, but not more than `left`.
fn rms(
    world: &mut World,
    name: &str,
    above: &CoordinatorName,
    most: u64,
    left: &mut u64,
) -> Result<Vec<RmName>, String> {
    let count = (1 + world.dice.below(most)).min(*left);
    *left -= count;
    (1..=count).map(|n| rm(world, &format!("{name}-{n}"), std::slice::from_ref(above))).collect()
}

/// Somebody has the key of one of the coordinators (F14).
pub(super) fn rogue(world: &mut World) {
    let names: Vec<CoordinatorName> = world.coordinators().to_vec();
    let key = world.dice.pick(&names).clone();
    world.rogue = Some(Rogue::new(key));
}
