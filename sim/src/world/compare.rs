//! Reconciliation at rest: the differences that a coordinator and an RM find by their digests are exactly
//! those that appear when all records of both are laid side by side. The other checks say which differences
//! may occur at all.
//!
//! Left out: the pages of a comparison and its repetition, which are the shell's work; what is done about a
//! difference; child coordinators.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{CoordinatorName, RmName, Segment, Time, TransactionId};
use coalloc_protocol::coordinator::{Coordinator, Differs, Reservation, State};
use coalloc_protocol::digest::{BookingSet, Part};
use coalloc_protocol::participant::{Participant, Phase};

use super::World;

type Named = BTreeSet<(TransactionId, Differs)>;

impl World {
    /// Compares every coordinator with every RM.
    pub(super) fn check_compared(&mut self) -> Result<(), String> {
        for (node, name) in self.grcs.iter().zip(&self.grc_names) {
            let now = node.now(self.now_us).wall;
            for rm in &self.rms {
                let (core, shadow) = (&node.shadow, &rm.shadow);
                let (found, there) =
                    (by_digests(core, name, shadow, now), plain(core, name, shadow, now));
                if found != there {
                    let (here, rm) = (&node.name, &rm.name);
                    return Err(format!(
                        "{here} finds the differences {found:?} at {rm}, but the records have \
                         {there:?}"
                    ));
                }
                self.counts.differences += found.len() as u64;
            }
        }
        Ok(())
    }
}

/// The differences that the two daemons would find by exchanging digests.
fn by_digests(core: &Coordinator, name: &CoordinatorName, rm: &Participant, now: Time) -> Named {
    let nothing = BookingSet::default();
    let at = &rm.config().name;
    let theirs = rm.booked_for(name).unwrap_or(&nothing);
    let from = Part::first(now);
    let ours = core.counted_on_at(at).unwrap_or(&nothing);
    let parts = ours.differing(&theirs.summaries(from..), from..);
    let listed: Vec<_> = parts.into_iter().map(|part| theirs.listed(part)).collect();
    let found = core.differences(at, &listed, now);
    found.into_iter().map(|one| (one.txn, one.differs)).collect()
}

/// The sorted segments of a booking; `None` if the booking is over by now.
fn content(segments: &[Segment], now: Time) -> Option<Vec<&Segment>> {
    let ends = segments.iter().map(|segment| segment.window.end()).max()?;
    let mut segments: Vec<&Segment> = segments.iter().collect();
    segments.sort_unstable();
    (ends > now).then_some(segments)
}

/// The differences between all records of both, side by side.
fn plain(core: &Coordinator, name: &CoordinatorName, rm: &Participant, now: Time) -> Named {
    let at: &RmName = &rm.config().name;
    let confirmed = core.reservations().filter(|known| known.state == State::Confirmed);
    let ours: BTreeMap<&TransactionId, &Vec<Segment>> = confirmed
        .filter_map(|known| {
            let segments = known.candidate.as_ref()?.segments.get(at)?;
            Some((known.transaction.as_ref()?, segments))
        })
        .collect();
    let booked = rm
        .entries()
        .iter()
        .filter(|(_, entry)| entry.phase == Phase::Booked && entry.coordinator == *name);
    let theirs: BTreeMap<&TransactionId, &Vec<Segment>> =
        booked.filter_map(|(txn, entry)| Some((txn, &entry.order.as_ref()?.segments))).collect();
    let all: BTreeSet<&TransactionId> = ours.keys().chain(theirs.keys()).copied().collect();
    let differs = |txn: &TransactionId| {
        let (here, there) = (ours.get(txn), theirs.get(txn));
        let of = |segments: Option<&&'_ Vec<Segment>>| {
            segments.and_then(|segments| {
                content(segments, now).map(|all| all.into_iter().cloned().collect::<Vec<_>>())
            })
        };
        match (of(here), of(there)) {
            (None, None) => None,
            (Some(here), Some(there)) => (here != there).then_some(Differs::OtherContent),
            // One of the two contents is over and the other is not.
            (Some(_), None) if there.is_some_and(|there| !there.is_empty()) => {
                Some(Differs::OtherContent)
            }
            (None, Some(_)) if here.is_some_and(|here| !here.is_empty()) => {
                Some(Differs::OtherContent)
            }
            (Some(_), None) => Some(Differs::MissingThere),
            (None, Some(_)) => Some(Differs::UnknownHere),
        }
    };
    // A change that is mended until it is over is still under way, so it is not compared.
    let under_way =
        |txn: &TransactionId| core.reservation_of(txn).is_some_and(Reservation::is_changing);
    let stands = all.into_iter().filter(|txn| !under_way(txn));
    stands.filter_map(|txn| Some((txn.clone(), differs(txn)?))).collect()
}
