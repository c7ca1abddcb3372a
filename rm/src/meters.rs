//! What a scrape of metrics reads of the participant: the holds, and how much of every resource is taken now.
//! One short read on the owner's thread, between two batches.
//!
//! Left out: what is counted from records ([`coalloc_net::metrics::records`]).

use coalloc_common::{Now, ResourceId, ResourceKinds};
use coalloc_net::metrics;
use coalloc_net::metrics::{rm, scrape};
use coalloc_protocol::participant::{Level, Participant};

use crate::shell::Handle;

/// The result of one read.
struct MeterReading {
    transactions: usize,
    holds: usize,
    oldest_s: f64,
    levels: Vec<(ResourceId, Level)>,
}

/// Reads the participant into its gauges.
pub fn reader(handle: Handle, kinds: ResourceKinds) -> scrape::Reader {
    scrape::reader(move || {
        let (handle, kinds) = (handle.clone(), kinds.clone());
        async move {
            // If the participant is stopping, or too busy, the values of the scrape before stay.
            let now = handle.now();
            if let Ok(seen) = handle.read(move |participant| look(participant, now)).await {
                show(&seen, &kinds);
            }
        }
    })
}

fn look(participant: &Participant, now: Now) -> MeterReading {
    let holds = participant.holds();
    let count = holds.len();
    let oldest = holds.flatten().map(|held| now.boot.since(held.since.boot)).max();
    let levels = participant.levels(now.wall);
    MeterReading {
        transactions: participant.entries().len(),
        holds: count,
        oldest_s: oldest.map_or(0.0, |age| metrics::seconds(age.to_std())),
        levels: levels.map(|(resource, level)| (resource.clone(), level)).collect(),
    }
}

fn show(seen: &MeterReading, kinds: &ResourceKinds) {
    let rm = rm();
    rm.transactions.set(i64::try_from(seen.transactions).unwrap_or(i64::MAX));
    rm.live_holds.set(i64::try_from(seen.holds).unwrap_or(i64::MAX));
    rm.oldest_hold.set(seen.oldest_s);
    for (resource, level) in &seen.levels {
        let unit = kinds.of(resource).metric_unit();
        let gauges = [(&rm.capacity, level.capacity), (&rm.held, level.held)];
        for (gauge, amount) in gauges.into_iter().chain([(&rm.booked, level.booked)]) {
            gauge.with([resource.as_str(), unit]).set(i64::try_from(amount.0).unwrap_or(i64::MAX));
        }
    }
}
