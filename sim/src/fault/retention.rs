//! Hours later: all windows and the retention after them are over, and everything is forgotten.
//!
//! Coordinators restart with a retention, and time goes on in the same weather as before: packets are lost and late,
//! nodes die while they write. Then the weather is calm, and nothing may be left: no user's reservation at any coordinator,
//! and nothing held or booked at any resource manager.
//!
//! Left out: worlds in which some ledger has lost records, lied, or is that of a twin or of a rogue. There nobody may be
//! able to end what is left.

use coalloc_common::{Span, limits};
use coalloc_protocol::coordinator::{ForgetPolicy, Reservation};
use coalloc_protocol::participant::Phase;

use super::{BACK_US, SECOND};
use crate::world::network::FaultRates;
use crate::world::{Address, World};

/// How long these coordinators remember what has ended.
const RETENTION: Span = limits::RETENTION_MIN;
/// How long after the last window the weather lasts.
const WEATHER_US: i64 = 2 * RETENTION.as_us();
/// The last window of all requests has ended by then: it begins two hours after the world did, and changes make it
/// longer.
const WINDOWS_US: i64 = 4 * 3_600 * SECOND;

/// Which seeds go on until all is forgotten: every third. No random number is drawn for it.
pub(super) const fn is_for(seed: u64) -> bool {
    (seed / 64).is_multiple_of(3)
}

/// What every child coordinator forgets, from the beginning: what a parent has done with, soon. Users' own requests are
/// remembered longer than faults last.
pub(super) const fn of_child() -> ForgetPolicy {
    ForgetPolicy { retention: RETENTION, every: Span::from_secs(3) }
}

/// Lets time pass until everything is forgotten, and checks that it is.
pub(super) fn pass(world: &mut World, weather: FaultRates) -> Result<(), String> {
    world.forgets_later.set(Some(of_child()));
    for index in 0..world.grcs.len() {
        world.crash(Address::Grc(index), SECOND, false);
    }
    world.weather = weather;
    let until_us = world.now_us.max(WINDOWS_US) + WEATHER_US;
    while world.next_at().is_some_and(|at| at <= until_us) {
        world.step()?;
    }
    world.weather = FaultRates::default();
    world.restart_within(BACK_US);
    world.calm()?;
    let bound_us = until_us + limits::FORGET_LATEST.as_us() + RETENTION.as_us();
    while let Some(at) = world.next_at() {
        if at > bound_us {
            return Err(
                "I22: something goes on long after everything could be forgotten".to_owned()
            );
        }
        world.step()?;
    }
    world.counts.hours_later += 1;
    for node in &world.grcs {
        // What was held for a parent is forgotten when the parent sends its next Hold.
        let may_stay = |left: &&Reservation| left.is_over() && left.parent_transaction.is_some();
        if let Some(left) = node.shadow.reservations().find(|left| !may_stay(left)) {
            return Err(format!("{} never forgets {}: {:?}", node.name, left.id, left.state));
        }
    }
    for node in &world.rms {
        let live = |phase: &Phase| matches!(phase, Phase::Held(_) | Phase::Booked);
        if let Some((txn, _)) = node.shadow.entries().iter().find(|(_, entry)| live(&entry.phase)) {
            return Err(format!("{} has {txn}, which everybody else has forgotten", node.name));
        }
    }
    Ok(())
}
