//! A scripted world records every sync that writes, so that the caller can let nodes die there.
//!
//! A scripted world leaves nothing to chance, like a story; but its nodes come back by themselves.

use coalloc_protocol::coordinator::CoordinatorRecord;
use coalloc_protocol::message::Decision;
use coalloc_protocol::participant::{ParticipantRecord, TransactionEnd};

use super::{Address, World};

/// The settings and the records of a scripted world.
#[derive(Debug, Clone)]
pub struct Script {
    /// A node that dies comes back after this many microseconds.
    pub down_us: i64,
    /// Whether the node's machine is rebooted before the node comes back.
    pub reboot: bool,
    /// The syncs that wrote so far.
    pub syncs: Vec<Sync>,
}

/// One sync that wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sync {
    pub node: Address,
    /// The number of the sync among those that write, over all lives of the node.
    pub number: u64,
    pub at_us: i64,
    /// The durability points of the records that it wrote.
    pub point: String,
    /// Number of messages and replies that left after the sync.
    pub effects: usize,
}

impl World {
    pub(super) fn note_sync(&mut self, node: Address, points: &[&'static str], effects: usize) {
        let (number, at_us) = (
            match node {
                Address::Grc(index) => self.grcs[index].writes,
                Address::Rm(index) => self.rms[index].writes,
            },
            self.now_us,
        );
        let Some(script) = self.script.as_mut().filter(|_| !points.is_empty()) else { return };
        let mut names: Vec<&str> = Vec::new();
        for point in points {
            if !names.contains(point) {
                names.push(point);
            }
        }
        let point = names.join(", ");
        script.syncs.push(Sync { node, number, at_us, point, effects });
    }
}

/// The durability point of a coordinator's record.
pub const fn coordinator_point(record: &CoordinatorRecord) -> &'static str {
    match record {
        CoordinatorRecord::Refused { .. } => "refused",
        CoordinatorRecord::Opened { .. } | CoordinatorRecord::ParentHoldOpened { .. } => "opened",
        CoordinatorRecord::Intent { .. } => "D1 intent",
        CoordinatorRecord::Decided { decision: Decision::Commit, .. } => "D3 commit",
        CoordinatorRecord::Decided { decision: Decision::Abort, .. } => "D3 abort",
        CoordinatorRecord::Mixed { .. } => "mixed",
        CoordinatorRecord::Split { .. } => "split",
        CoordinatorRecord::Releasing { .. } => "releasing",
        CoordinatorRecord::ChangeOpened { .. } => "change opened",
        CoordinatorRecord::ChangeRefused { .. } => "change refused",
        CoordinatorRecord::Reported { .. } => "reported",
        CoordinatorRecord::Finished { .. } => "D6 finished",
        CoordinatorRecord::Prepared { .. } => "D2 prepared",
        CoordinatorRecord::ParentTombstone { .. } => "D5 tombstone",
        CoordinatorRecord::ReplacedForParent { .. } => "replaced",
        CoordinatorRecord::Superseded { .. } => "superseded",
        CoordinatorRecord::Settled { .. } => "settled",
        CoordinatorRecord::RetentionEnded { .. } => "retention ended",
        CoordinatorRecord::UsageChanged { .. } => "usage changed",
        CoordinatorRecord::LeaderElected { .. } => "leader elected",
        CoordinatorRecord::CalendarChanged { .. } => "calendar changed",
        CoordinatorRecord::ParentLeaderChanged { .. } => "leader changed",
        CoordinatorRecord::Forgotten { .. } => "forgotten",
        CoordinatorRecord::Disowned { .. } => "disowned",
        CoordinatorRecord::DisownEnded { .. } => "disown ended",
        CoordinatorRecord::Differs { .. } => "differs",
        CoordinatorRecord::GaveUp { .. } => "gave up",
        CoordinatorRecord::Concluded { .. } => "concluded",
    }
}

/// The durability point of an RM's record.
pub const fn participant_point(record: &ParticipantRecord) -> &'static str {
    match record {
        ParticipantRecord::Opened { .. } => "start",
        ParticipantRecord::Held { .. } => "D2 held",
        ParticipantRecord::Moved { .. } => "moved",
        ParticipantRecord::LeaderChanged { .. } => "leader changed",
        ParticipantRecord::Forgotten { .. } => "forgotten",
        ParticipantRecord::Claimed { .. } => "claimed",
        ParticipantRecord::ClaimRefused { .. } => "claim refused",
        ParticipantRecord::Equipped { .. } => "equipment",
        ParticipantRecord::Refused { .. } => "D2 refused",
        ParticipantRecord::Booked { .. } => "D4 booked",
        ParticipantRecord::Ended { ending: TransactionEnd::Aborted, .. } => "D5 aborted",
        ParticipantRecord::Ended { ending: TransactionEnd::Expired, .. } => "D5 expired",
        ParticipantRecord::Ended { ending: TransactionEnd::Released, .. } => "D5 released",
        ParticipantRecord::Ended { ending: TransactionEnd::Replaced, .. } => "D5 replaced",
    }
}
