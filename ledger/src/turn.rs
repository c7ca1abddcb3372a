//! What a turn of an owner does to its core, without a thread: the simulated world turns with this too.

use coalloc_common::Now;
use coalloc_protocol::{Core, Unsynced};

/// Steps a tick, if its time has come, and then every input in its order, all by one reading of the
/// clock. What comes of it goes through [`sync`](coalloc_protocol::sync) as one batch.
pub fn step_all<C: Core>(
    core: &mut C,
    inputs: impl IntoIterator<Item = C::Input>,
    now: Now,
) -> Vec<Unsynced<C::Record, C::Effect>> {
    let due = core.next_wake().is_some_and(|wake| wake <= now.boot);
    let tick = due.then(C::tick);
    tick.into_iter().chain(inputs).map(|input| core.step(input, now)).collect()
}
