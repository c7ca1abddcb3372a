//! What one turn of an owner does to its core, without a thread. The simulator uses these functions, too.
//! Left out: the inbox, the sync and the effects, see [`crate::owner`].

use coalloc_common::{DiskSpace, Now};
use coalloc_protocol::{Causer, Core, Log, Snapshot, Unsynced};

/// The input that reports the disk space to the core; `None` if the disk space is the same as `told`, the
/// one that was reported last. Updates `told`.
///
/// # Errors
/// The error of the log; the caller must end the process (I16).
pub fn news_of_room<C: Core, L: Log>(
    log: &mut L,
    told: &mut DiskSpace,
) -> Result<Option<C::Input>, L::Error> {
    let room = log.room()?;
    let news = (room != *told).then(|| C::room(room)).flatten();
    *told = room;
    Ok(news)
}

/// Steps the core through the news about disk space, then a tick, if one is due, and then every input with its
/// causer in order, all with the same reading of the clock. The result goes through
/// [`sync`](coalloc_protocol::sync) as one batch.
pub fn step_all<C: Core>(
    core: &mut C,
    news: Option<C::Input>,
    inputs: impl IntoIterator<Item = (C::Input, Causer)>,
    now: Now,
) -> Vec<Unsynced<C::Record, C::Effect>> {
    let due = core.next_wake().is_some_and(|wake| wake <= now.boot);
    let tick = due.then(C::tick);
    let own = news.into_iter().chain(tick).map(|input| (input, Causer::Itself));
    own.chain(inputs).map(|(input, by)| core.step(input, now).caused_by(by)).collect()
}

/// Writes a snapshot of what has changed, if one is due. Call it when every step is durable. A disk that is full gets
/// none, because its reserved space is for the ends of what has begun (I17). Returns whether there was one.
///
/// # Errors
/// The error of the log; the caller must end the process (I16).
pub fn snapshot_if_due<C: Snapshot, L: Log<Record = C::Record>>(
    core: &mut C,
    log: &mut L,
    room: DiskSpace,
) -> Result<bool, L::Error> {
    let is_due = room == DiskSpace::Enough && log.snapshot_is_due(core.changed());
    if is_due {
        log.write_snapshot(&core.take_changed())?;
    }
    Ok(is_due)
}
