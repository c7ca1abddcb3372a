//! What a turn of an owner does to its core, without a thread: the simulated world turns with this too.

use coalloc_common::{DiskSpace, Now};
use coalloc_protocol::{Core, Log, Unsynced};

/// What a core is to be told of the room on its disk: nothing, unless it has changed since it was told.
///
/// # Errors
/// Whatever the log says; the caller must end the process (I16).
pub fn news_of_room<C: Core, L: Log>(
    log: &mut L,
    told: &mut DiskSpace,
) -> Result<Option<C::Input>, L::Error> {
    let room = log.room()?;
    let news = (room != *told).then(|| C::room(room)).flatten();
    *told = room;
    Ok(news)
}

/// Steps what is new of the room, a tick, if its time has come, and then every input in its order, all by
/// one reading of the clock. What comes of it goes through [`sync`](coalloc_protocol::sync) as one batch.
pub fn step_all<C: Core>(
    core: &mut C,
    news: Option<C::Input>,
    inputs: impl IntoIterator<Item = C::Input>,
    now: Now,
) -> Vec<Unsynced<C::Record, C::Effect>> {
    let due = core.next_wake().is_some_and(|wake| wake <= now.boot);
    let tick = due.then(C::tick);
    let inputs = news.into_iter().chain(tick).chain(inputs);
    inputs.map(|input| core.step(input, now)).collect()
}
