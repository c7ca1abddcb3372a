//! Counters of what happened in a world: what the protocol did, and every fault that the world had.

/// A class of faults, by its number in the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    F1,
    F2,
    F3,
    F4,
    F5,
    F6,
    F7,
    F8,
    F9,
    F10,
    F11,
    F12,
    F13,
    F14,
    F15,
}

impl Fault {
    /// All classes of faults.
    pub const ALL: [Self; 15] = [
        Self::F1,
        Self::F2,
        Self::F3,
        Self::F4,
        Self::F5,
        Self::F6,
        Self::F7,
        Self::F8,
        Self::F9,
        Self::F10,
        Self::F11,
        Self::F12,
        Self::F13,
        Self::F14,
        Self::F15,
    ];

    /// What the class is, in words, and what is counted as one fault of it.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::F1 => "a process dies at a durability point: before write, fsync or any effect",
            Self::F2 => {
                "a connection is cut, in one direction or both, or clogged until it is opened again"
            }
            Self::F3 => "a packet is lost, doubled, or late enough to be overtaken",
            Self::F4 => "a write is torn, lost, fails or finds no disk space; a record is damaged",
            Self::F5 => "a wall clock jumps, or a process freezes",
            Self::F6 => "a packet of a slow resource manager",
            Self::F7 => "a lie of a resource manager",
            Self::F8 => "a client vanishes",
            Self::F9 => {
                "an older release: a message that it rejects, or its node that is upgraded; a newer \
                 release: a reason that this release does not know"
            }
            Self::F10 => "a federation with two coordinators under one name",
            Self::F11 => "an older disk is put back, or an empty one",
            Self::F12 => {
                "a message is denied: the configuration leaves its coordinator out for a while"
            }
            Self::F13 => "a coordinator meddles with another one's transaction",
            Self::F14 => "a message of somebody who has stolen a coordinator's key",
            Self::F15 => {
                "equipment: a call is lost, slow, refused or finds nobody; a thing is forgotten or altered, \
                 or a stranger's is there"
            }
        }
    }
}

/// Declares the counters once: their fields, their sum and their names.
macro_rules! counts {
    ($($(#[doc = $doc:literal])+ $field:ident: $label:literal,)+) => {
        /// How often each thing happened in a run.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[doc = $doc])+ pub $field: u64,)+
            /// Faults of each class, F1 first.
            pub faults: [u64; Fault::ALL.len()],
        }

        impl Counts {
            /// Adds the counts of another run.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)+
                for (sum, more) in self.faults.iter_mut().zip(other.faults) {
                    *sum += more;
                }
            }

            /// Every counter with its name, except the classes of faults.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$(($label, self.$field),)+]
            }
        }
    };
}

counts! {
    /// Simulated microseconds.
    simulated_us: "simulated microseconds",
    /// Worlds in which faults happen for longer than any hold lasts.
    long_worlds: "long worlds",
    /// Events of the queue.
    events: "events",
    /// Batches that had something to write; each is one fsync.
    syncs: "syncs",
    /// Durable records.
    records: "records",
    /// Packets that were sent.
    packets: "packets sent",
    /// Reservations whose users were told "confirmed".
    confirmed: "answers: confirmed",
    /// Reservations whose users were told "failed, nothing is held".
    refused: "answers: failed, nothing held",
    /// Reservations whose users were told "released".
    released: "answers: released",
    /// Changes whose users were told that they are done.
    changed: "answers: changed",
    /// Changes whose users were told that nothing changed.
    unchanged: "answers: not changed",
    /// Workflows that were planned.
    workflows: "workflows planned",
    /// Reports that were acknowledged.
    reported: "reports acknowledged",
    /// Reports that were acknowledged once more.
    reported_again: "reports acknowledged again",
    /// Reports that reach the coordinator long after what they are about.
    late_reports: "reports sent late",
    /// Versions of workflows that were planned because of reports, or to avoid a site.
    revisions: "versions of workflows planned",
    /// Revisions that a planner has refused.
    unrevised: "versions of workflows refused by the planner",
    /// Reports that contradict one another, or come too late.
    contradictions: "reports that contradict one another",
    /// Looks at reports from which no change follows.
    unchanging: "reports that change nothing",
    /// Changes after reports that are booked.
    followed: "changes after reports, done",
    /// Changes after reports that were refused.
    not_followed: "changes after reports, refused",
    /// Changes after reports that had to wait for another change or for disk space.
    follow_waited: "changes after reports that had to wait",
    /// Bookings at resource managers.
    booked: "bookings",
    /// Bookings that a newer version replaced.
    replaced: "bookings replaced by a change",
    /// Recorded mixed outcomes.
    mixed: "mixed outcomes, recorded",
    /// Changes that some RMs had booked and for which the Commit came too late at others.
    split: "changes booked in part, mended since",
    /// Holds that expired.
    expired: "holds expired",
    /// Questions of resource managers (Resolve).
    asked: "questions (Resolve)",
    /// Promises that child coordinators gave to a parent.
    prepared: "promises to a parent coordinator",
    /// Holds that waited for the yes of another RM.
    held_after: "holds one by one",
    /// Attempts in turn that were refused when something was already held.
    went_back: "attempts one by one that went back",
    /// Bookings of a child coordinator for its parent that a newer version replaced.
    replaced_below: "changes at child coordinators",
    /// Holds of a parent that its child coordinator planned again.
    replanned_below: "replans at child coordinators",
    /// Calls of a client with an id that was used for something else.
    stolen: "ids used for other content",
    /// Processes that died, for whatever reason.
    crashes: "processes that died",
    /// Processes that died at a durability point: before the write.
    before_write: "F1 before the write",
    /// Processes that died between write and fsync.
    before_fsync: "F1 between write and fsync",
    /// Processes that died after the fsync, before the first effect.
    after_fsync: "F1 after the fsync",
    /// Processes that died after some effects.
    after_effects: "F1 after some effects",
    /// Processes that died while they wrote a snapshot.
    in_snapshot: "F1 in a snapshot",
    /// Processes that died right after a decision that none or only some of the RMs had received.
    died_decided: "F1 with a decision that few have heard of",
    /// Processes that were down for a minute or longer.
    long_downs: "F1 away for a minute or longer",
    /// Starts that took long before the first message was answered.
    slow_starts: "F6 starts that took long",
    /// Processes that died while another one was down.
    pairs: "F1 while another one was down",
    /// Directions between two nodes that were cut.
    cuts: "F2 connections cut",
    /// Directions that were cut for longer than two minutes.
    long_cuts: "F2 connections cut for longer than two minutes",
    /// Directions that were clogged.
    clogs: "F2 connections clogged",
    /// Packets that were lost.
    lost: "F3 packets lost",
    /// Packets that arrived twice.
    doubled: "F3 packets doubled",
    /// Packets that arrived late.
    late: "F3 packets late",
    /// Writes that were lost before they were durable.
    lost_writes: "F4 writes lost",
    /// Writes of which only a part survived.
    torn: "F4 writes torn",
    /// Writes or fsyncs that failed.
    io_errors: "F4 writes or fsyncs failed",
    /// Appends that found no disk space.
    full: "F4 appends without disk space",
    /// Holds and requests that were refused while only little disk space was left (I17).
    no_room: "F4 refused for lack of disk space",
    /// Holds that were refused because a quota of holds was used up.
    over_quota: "holds refused for a quota",
    /// Transactions that resource managers forgot, because their coordinator had done with them.
    at_rest: "transactions forgotten",
    /// Reservations that coordinators forgot.
    reservations_forgotten: "reservations forgotten",
    /// Booked reservations that coordinators released because their retention was over.
    retentions_ended: "retentions that ended",
    /// Worlds that went on until everything was forgotten.
    hours_later: "worlds in which all is forgotten",
    /// Holds of such transactions that arrived after that.
    late_holds: "holds of forgotten transactions refused",
    /// Damaged records, each of which stopped a start (I15).
    damaged: "F4 damaged records found at start",
    /// Wall clocks that jumped.
    jumps: "F5 clocks that jumped",
    /// Processes that were frozen.
    freezes: "F5 processes that froze",
    /// False answers of resource managers about what is held or booked.
    lies: "F7 lies",
    /// Messages that an older release rejected.
    rejected: "F9 messages rejected",
    /// Nodes of an older release that this release continued.
    upgrades: "F9 nodes upgraded to this release",
    /// Holds and commits that were refused for a reason that only a newer release knows.
    unknown_reasons: "F9 refused for a reason that nobody here knows",
    /// Questions that went to the wrong one of two coordinators with the same name.
    strangers: "F10 questions to the wrong twin",
    /// Records that were lost with a restored disk.
    forgotten: "F11 records lost",
    /// Resource managers that came back empty.
    emptied: "F11 ledgers made anew",
    /// Differences that a comparison of bookings finds at rest.
    differences: "F11 differences that a comparison finds",
    /// Messages of a coordinator that the configuration of the RM left out.
    denied: "F12 messages denied",
    /// Messages of a coordinator about a transaction that is another coordinator's.
    meddled: "F13 messages about another one's transaction",
    /// Worlds whose nodes and users have identities.
    identified: "worlds with identities",
    /// Messages that a node has judged by the identity of their sender.
    judged: "messages judged by their senders' identities",
    /// Messages that arrive with a stolen key.
    forged: "F14 messages with a stolen key",
    /// Messages with a stolen key that were denied before a core took them.
    forged_denied: "F14 messages with a stolen key, denied by identity",
    /// Messages with a stolen key about what belongs to the key's coordinator.
    forged_own: "F14 messages with a stolen key about its own coordinator's things",
    /// Worlds in which RMs have equipment.
    equipped: "worlds with equipment",
    /// Calls to equipment.
    device_calls: "calls to equipment",
    /// Things at equipment that were made active.
    device_active: "things at equipment made active",
    /// Records that say that a reservation has become active.
    usages_active: "reservations that became active",
    /// Records that say that the time of a reservation is over.
    usages_over: "reservations whose windows were over",
    /// Calls to equipment that had no effect, and whose outcome nobody knows.
    device_lost_before: "F15 calls lost before their effect",
    /// Calls to equipment that had their effect, and whose outcome nobody knows.
    device_lost_after: "F15 calls lost after their effect",
    /// Calls to equipment that took longer than the shell waits.
    device_slow: "F15 calls that took too long",
    /// Calls to equipment that were refused.
    device_refused: "F15 calls refused",
    /// Calls to equipment that could not be reached.
    device_down: "F15 calls to equipment that was down",
    /// Calls that had their effect when nobody waited for them any more.
    device_late: "F15 effects that came late",
    /// Outcomes that the participant was too busy to be told.
    device_untold: "F15 outcomes that were not told",
    /// Things that equipment forgot.
    device_forgotten: "F15 things forgotten by equipment",
    /// Things at equipment that somebody altered.
    device_altered: "F15 things altered at equipment",
    /// Things of strangers at equipment.
    device_strangers: "F15 things of strangers",
    /// Resources that equipment could not use for a while.
    device_unusable: "F15 resources that failed for a while",
}

impl Counts {
    /// Counts one more fault of this class.
    pub fn fault(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    /// Number of faults of this class.
    #[must_use]
    pub const fn of(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }
}
